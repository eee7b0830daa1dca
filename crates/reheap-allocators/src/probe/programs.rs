//! What the probe saw of the programs that a command started (`glue/programs.c`): which of them ran without it.

use super::object_path;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

// The layout of `struct program` and `struct programs` in programs.c.
const PROGRAMS: usize = 64;
const PROGRAM_BYTES: usize = 1024;
const PATH_OFFSET: usize = 40;
pub(super) const BYTES: usize = 8 + PROGRAMS * PROGRAM_BYTES;
const WRITTEN: u32 = 2;

/// A program of a command that gets its memory from elsewhere than the preload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Without {
    /// Its file.
    pub program: PathBuf,
    /// What is known of why.
    pub because: Because,
}

/// Why a program ran without the preload, as far as the probe can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// Whoever started it left `LD_PRELOAD` out, or what it names.
    NoVariable,
    /// It has a malloc in front of every preload.
    OwnMalloc,
    /// It had the variable, and loaded nothing.
    NotLoaded,
}

/// What is known of one file.
#[derive(Default)]
struct Counts {
    path: PathBuf,
    started: u32,
    loaded: u32,
    without_variable: u32,
    own_malloc: u32,
    unheard: u32,
}

impl Counts {
    fn because(&self) -> Option<Because> {
        // Some are started by what the probe does not see, and so loaded more often than started.
        let is_missing = self.started > self.loaded + self.own_malloc;
        match (self.own_malloc, is_missing) {
            (0, false) => None,
            (0, true) if self.without_variable > 0 => Some(Because::NoVariable),
            (0, true) => Some(Because::NotLoaded),
            _ => Some(Because::OwnMalloc),
        }
    }
}

/// What was seen of all programs, each list in the order of their paths.
pub(super) struct Programs {
    /// The processor time of the processes with the preload.
    pub(super) time: Duration,
    pub(super) without: Vec<Without>,
    pub(super) unheard: Vec<PathBuf>,
}

pub(super) fn parse(bytes: &[u8]) -> Option<Programs> {
    let (time, known) = bytes.split_first_chunk::<8>()?;
    let mut by_file: BTreeMap<[u8; 16], Counts> = BTreeMap::new();
    for program in known.chunks_exact(PROGRAM_BYTES) {
        let (numbers, path) = program.split_at(PATH_OFFSET);
        let number = |at: usize| {
            let bytes = numbers[4 * at..].first_chunk::<4>();
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let Some(file) = numbers.last_chunk::<16>().filter(|_| number(0) == WRITTEN) else {
            continue;
        };
        let counts = by_file.entry(*file).or_default();
        counts.path = object_path(path)?;
        counts.started += number(1);
        counts.loaded += number(2);
        counts.without_variable += number(3);
        counts.own_malloc += number(4);
        counts.unheard += number(5);
    }
    let mut all: Vec<Counts> = by_file.into_values().collect();
    all.sort_by(|a, b| a.path.cmp(&b.path));
    let without = all.iter().filter_map(|counts| {
        Some(Without {
            because: counts.because()?,
            program: counts.path.clone(),
        })
    });
    let unheard = all.iter().filter(|counts| counts.unheard > 0);
    Some(Programs {
        time: Duration::from_nanos(u64::from_le_bytes(*time)),
        without: without.collect(),
        unheard: unheard.map(|counts| counts.path.clone()).collect(),
    })
}
