//! Merges sampled stacks to call sites.
//!
//! An hour of a busy service gives millions of samples at some thousand places. So a [`SiteTable`] keeps each stack once,
//! and sums.

use super::CodeAddress;
use crate::profile::{Frame, Site, Sites};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What a sample stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Weight {
    /// Blocks of its size.
    pub blocks: f64,
    /// Their bytes.
    pub bytes: f64,
}

impl Weight {
    /// What a sampled block of `size` bytes stands for, if one byte in `every` is sampled on average.
    ///
    /// The distances between sampled bytes are exponential, so the bytes are a Poisson process: a block of s bytes has
    /// none of them with probability exp(-s / every), and is sampled otherwise. Each that is stands for as many as it
    /// takes for one to be sampled: 1 / (1 - exp(-s / every)) (Horvitz and Thompson, 1952). The sum over all samples is
    /// then, on average, the number of blocks, whatever their sizes.
    pub fn of_sample(size: u64, every: u64) -> Self {
        // A hook counts an empty block as one byte, otherwise it could never be sampled.
        let share = size.max(1) as f64 / every.max(1) as f64;
        let blocks = 1.0 / -(-share).exp_m1();
        Self {
            blocks,
            bytes: blocks * size as f64,
        }
    }

    /// The variance of an estimate of bytes that one sample adds: (1 - p) (bytes / p)² for one that was sampled with
    /// probability p (Horvitz and Thompson, 1952, for samples that are independent).
    fn variance_of_bytes(self) -> f64 {
        (1.0 - 1.0 / self.blocks).max(0.0) * self.bytes.powi(2)
    }
}

impl std::ops::AddAssign for Weight {
    fn add_assign(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }
}

/// A stack in a [`SiteTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(u32);

/// What was sampled at each stack.
#[derive(Debug, Clone, Default)]
pub struct SiteTable {
    by_stack: HashMap<Arc<[CodeAddress]>, SiteId>,
    sites: Vec<(Arc<[CodeAddress]>, Sums)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sums {
    samples: u64,
    allocated: Weight,
    variance_of_bytes: f64,
    live: Weight,
}

impl SiteTable {
    /// Without samples.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there was no sample.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// Adds a sampled allocation; where, for [`Self::is_live`].
    ///
    /// # Panics
    /// After 2^32 different stacks: memory ends before.
    pub fn allocated(&mut self, stack: &[CodeAddress], weight: Weight) -> SiteId {
        let id = match self.by_stack.get(stack) {
            Some(id) => *id,
            None => self.insert(stack),
        };
        let sums = &mut self.sites[id.0 as usize].1;
        sums.samples += 1;
        sums.allocated += weight;
        sums.variance_of_bytes += weight.variance_of_bytes();
        id
    }

    /// Says of a sampled allocation that its block was never freed.
    pub fn is_live(&mut self, site: SiteId, weight: Weight) {
        self.sites[site.0 as usize].1.live += weight;
    }

    fn insert(&mut self, stack: &[CodeAddress]) -> SiteId {
        let id = SiteId(u32::try_from(self.sites.len()).expect("fewer than 2^32 stacks"));
        let stack: Arc<[CodeAddress]> = Arc::from(stack);
        self.by_stack.insert(Arc::clone(&stack), id);
        self.sites.push((stack, Sums::default()));
        id
    }

    /// The call sites, that with most bytes first. `frames` gives the functions at an address, the innermost first, and
    /// is asked once for each, module by module.
    pub fn sites(&self, mut frames: impl FnMut(CodeAddress) -> Vec<Frame>) -> Sites {
        let mut names: BTreeMap<CodeAddress, Vec<Frame>> = BTreeMap::new();
        for address in self.sites.iter().flat_map(|(stack, _)| stack.iter()) {
            names.entry(*address).or_default();
        }
        for (address, functions) in &mut names {
            *functions = frames(*address);
        }
        self.merged(&names)
    }

    /// Different addresses may have the same names: two calls in one line, or one that a loop has several times.
    fn merged(&self, names: &BTreeMap<CodeAddress, Vec<Frame>>) -> Sites {
        let mut merged: BTreeMap<Vec<&Frame>, Sums> = BTreeMap::new();
        for (stack, sums) in &self.sites {
            let frames = stack.iter().flat_map(|address| &names[address]).collect();
            let all = merged.entry(frames).or_default();
            all.samples += sums.samples;
            all.allocated += sums.allocated;
            all.variance_of_bytes += sums.variance_of_bytes;
            all.live += sums.live;
        }
        let mut stacks: Vec<(Vec<&Frame>, Sums)> = merged.into_iter().collect();
        // Stable: of equally many bytes, the names decide.
        stacks.sort_by(|(_, a), (_, b)| b.allocated.bytes.total_cmp(&a.allocated.bytes));
        numbered(stacks)
    }
}

fn numbered(stacks: Vec<(Vec<&Frame>, Sums)>) -> Sites {
    let mut sites = Sites::default();
    let mut numbers: HashMap<&Frame, u32> = HashMap::new();
    for (frames, sums) in stacks {
        let frames = frames.into_iter().map(|frame| {
            *numbers.entry(frame).or_insert_with(|| {
                sites.frames.push(frame.clone());
                u32::try_from(sites.frames.len() - 1).expect("fewer than 2^32 functions")
            })
        });
        let frames = frames.collect();
        sites.stacks.push(Site {
            frames,
            samples: sums.samples,
            allocated_blocks: sums.allocated.blocks,
            allocated_bytes: sums.allocated.bytes,
            allocated_bytes_error: sums.variance_of_bytes.sqrt(),
            live_blocks: sums.live.blocks,
            live_bytes: sums.live.bytes,
        });
    }
    sites
}

#[cfg(test)]
mod tests;
