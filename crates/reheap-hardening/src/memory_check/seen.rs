//! What one run of the command showed.

use super::stderr::Words;
use reheap_bench::outlook::duration;
use reheap_bench::results::Unreached;
use reheap_profile::deaths::{Death, End, Watched};
use reheap_profile::profile::Frame;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One run.
#[derive(Debug)]
pub(super) struct Seen {
    /// How it ended; `None` if reheap ended it at the time limit.
    pub(super) end: Option<End>,
    /// How long it ran.
    pub(super) took: Duration,
    pub(super) deaths: Vec<Death>,
    pub(super) words: Words,
    /// The programs that still ran when the first process had ended.
    pub(super) killed: Vec<PathBuf>,
    /// How the allocator was seen in it, or why it was not; `None` where none was asked for.
    pub(super) activity: Option<Result<String, String>>,
    /// The programs that had another malloc.
    pub(super) unreached: Vec<Unreached>,
    /// The programs that had the allocator in their memory, and whose calls nobody could count.
    pub(super) uncounted: Vec<String>,
    /// Whether it wrote where the probe keeps in the command's memory what it sees.
    pub(super) overwrote_record: bool,
}

impl Seen {
    pub(super) fn new(watched: Watched, words: Words, took: Duration) -> Self {
        Self {
            end: Some(watched.end),
            took,
            deaths: watched.deaths,
            words,
            killed: watched.killed,
            activity: None,
            unreached: Vec::new(),
            uncounted: Vec::new(),
            overwrote_record: false,
        }
    }

    /// What was found until the time limit. How all ended then says nothing.
    pub(super) fn until_limit(self) -> Self {
        Self {
            end: None,
            killed: Vec::new(),
            ..self
        }
    }

    /// Takes reheap's own functions out of the stacks.
    pub(super) fn leave_out(&mut self, probe: &Path) {
        let probe = name_of_file(probe);
        for death in &mut self.deaths {
            death.stack.retain(|frame| frame.module != probe);
        }
    }
}

/// No allocator makes a command take so many times as long as it does by itself.
const TIMES: u32 = 20;

/// What a command does by itself.
#[derive(Debug, Default)]
pub(super) struct UsualBehaviour {
    /// How it ends, if it always ends in the same way and without a death.
    pub(super) end: Option<End>,
    /// The longest time that it takes, if it always ends.
    longest: Option<Duration>,
}

impl UsualBehaviour {
    pub(super) fn of(runs: &[Seen]) -> Self {
        let first = runs.first().and_then(|run| run.end);
        let is_usual = |run: &Seen| run.end == first && run.deaths.is_empty();
        let takes = |run: &Seen| run.end.map(|_| run.took);
        let times: Option<Vec<Duration>> = runs.iter().map(takes).collect();
        Self {
            end: first.filter(|_| runs.iter().all(is_usual)),
            longest: times.and_then(|times| times.into_iter().max()),
        }
    }

    /// How long a run may take before it seems that it never ends. A broken heap can make an allocator turn in circles.
    pub(super) fn patience(&self) -> Option<Duration> {
        const AT_LEAST: Duration = Duration::from_secs(60);
        Some(AT_LEAST.max(self.longest? * TIMES))
    }

    /// What to say of a run that did not end, although the command always ends by itself much sooner. A limit of the
    /// user's may only be too short for a slow allocator.
    pub(super) fn endless(&self, run: &Seen) -> Option<String> {
        let longest = self.longest.filter(|_| run.end.is_none())?;
        let has_been_patient = run.took >= longest * TIMES;
        has_been_patient.then(|| format!("it ends by itself within {}", duration(longest)))
    }
}

/// The last part of a path.
pub(super) fn name_of_file(path: &Path) -> Option<String> {
    let name = path.file_name()?;
    Some(name.to_string_lossy().into_owned())
}

/// Who ended a process by a signal that is meant for that, as the functions tell that called each other last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndedBy {
    /// The allocator.
    Allocator,
    /// The libc's malloc, in a process that should have had another.
    Libc,
    /// The program or another of its libraries.
    Program,
    /// Nothing leads out of the libc.
    Unknown,
}

impl EndedBy {
    pub(super) fn of(stack: &[Frame], library: Option<&str>) -> Self {
        let is_inner = |frame: &&Frame| is_of(frame, library) || is_libc(frame);
        let inner = stack.iter().take_while(is_inner);
        let inner: Vec<&Frame> = inner.collect();
        if inner.iter().any(|frame| is_of(frame, library)) {
            Self::Allocator
        } else if inner.iter().any(|frame| is_of_malloc(frame)) {
            match library {
                Some(_) => Self::Libc,
                None => Self::Allocator,
            }
        } else if inner.len() == stack.len() || inner.iter().any(|frame| is_musl(frame)) {
            // Debian's musl has no tables for stacks, so what seems to be behind its functions may be anything.
            Self::Unknown
        } else {
            Self::Program
        }
    }
}

/// The stack from the function that the program called: how an allocator's or a libc's functions call each other before
/// they end a program says nothing about the program.
pub(super) fn from_entry(stack: &[Frame], library: Option<&str>) -> Vec<Frame> {
    let is_inner = |frame: &&Frame| is_of(frame, library) || is_libc(frame);
    let inner = stack.iter().take_while(is_inner).count();
    // A program's `main` is called by its libc.
    if inner == stack.len() {
        stack.to_vec()
    } else {
        stack[inner.saturating_sub(1)..].to_vec()
    }
}

/// Where in a program something happened, by functions: as many as tell errors apart whose blocks go through the same
/// functions that only call `free` for others.
pub(super) fn place(stack: &[Frame]) -> Vec<String> {
    const FRAMES: usize = 4;
    // What seems to be behind musl's functions may be something else in each run.
    let musl = stack.iter().position(is_musl);
    let known = musl.map_or(stack, |musl| &stack[..=musl]);
    let functions = known.iter().take(FRAMES);
    functions.map(|frame| frame.function.clone()).collect()
}

fn is_of(frame: &Frame, library: Option<&str>) -> bool {
    library.is_some() && frame.module.as_deref() == library
}

fn is_libc(frame: &Frame) -> bool {
    let module = frame.module.as_deref().unwrap_or_default();
    // glibc before 2.34 has its threads in a library of their own, and names its files by its version.
    let of_glibc = ["libc.so.6", "libc-2.", "libpthread.so.0", "libpthread-2."];
    is_musl(frame) || of_glibc.iter().any(|name| module.starts_with(name))
}

fn is_musl(frame: &Frame) -> bool {
    let module = frame.module.as_deref().unwrap_or_default();
    module == "libc.so" || module.starts_with("ld-musl-") || module.starts_with("libc.musl-")
}

/// Whether it is a function of the libc's malloc, by one of its names: glibc has `__libc_free` and, in its debug
/// information, `__GI___libc_free`.
fn is_of_malloc(frame: &Frame) -> bool {
    const FUNCTIONS: [&str; 16] = [
        "malloc",
        "calloc",
        "realloc",
        "free",
        "cfree",
        "aligned_alloc",
        "memalign",
        "posix_memalign",
        "valloc",
        "pvalloc",
        "reallocarray",
        "malloc_printerr",
        "malloc_trim",
        "malloc_info",
        "mallinfo",
        "mallinfo2",
    ];
    let bare = frame.function.trim_start_matches("__GI_");
    let bare = bare.trim_start_matches('_');
    let name = bare.strip_prefix("libc_").unwrap_or(bare);
    is_libc(frame) && FUNCTIONS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(frames: &[(&str, &str)]) -> Vec<Frame> {
        let frame = |&(function, module): &(&str, &str)| Frame {
            function: function.to_owned(),
            module: Some(module.to_owned()),
            ..Frame::default()
        };
        frames.iter().map(frame).collect()
    }

    #[test]
    fn a_run_that_was_ended_early_says_nothing_about_its_end() {
        let run = |seconds| {
            let watched = Watched {
                end: End::Exited(0),
                deaths: Vec::new(),
                killed: Vec::new(),
            };
            Seen::new(watched, Words::default(), Duration::from_secs(seconds))
        };
        let usual = UsualBehaviour::of(&[run(2), run(1)]);
        assert_eq!(usual.endless(&run(60)), None);
        assert_eq!(usual.endless(&run(3).until_limit()), None);
        let said = usual.endless(&run(40).until_limit());
        assert_eq!(said.as_deref(), Some("it ends by itself within 2.0 s"));
    }

    #[test]
    fn whoever_ends_a_process_is_seen_from_the_stack() {
        const LIBRARY: Option<&str> = Some("libhard.so");
        let of_allocator = [
            ("abort", "libc.so.6"),
            ("fatal_error", "libhard.so"),
            ("free", "libhard.so"),
            ("main", "program"),
        ];
        let of_libc = [
            ("abort", "libc.so.6"),
            ("__GI___libc_free", "libc.so.6"),
            ("main", "program"),
        ];
        let of_program = [
            ("abort", "libc.so.6"),
            ("__assert_fail", "libc.so.6"),
            ("main", "program"),
            ("__libc_start_main", "libc.so.6"),
        ];
        // A signal came while the allocator worked.
        let of_handler = [
            ("abort", "libc.so.6"),
            ("handler", "program"),
            ("free", "libhard.so"),
            ("main", "program"),
        ];
        let of_musl = [("abort", "ld-musl-x86_64.so.1"), ("main", "program")];
        for (frames, by) in [
            (&of_allocator[..], EndedBy::Allocator),
            (&of_libc, EndedBy::Libc),
            (&of_program, EndedBy::Program),
            (&of_handler, EndedBy::Program),
            (&of_musl, EndedBy::Unknown),
            (&of_program[..2], EndedBy::Unknown),
            (&of_program[2..], EndedBy::Program),
            (&[], EndedBy::Unknown),
        ] {
            assert_eq!(EndedBy::of(&stack(frames), LIBRARY), by, "{frames:?}");
        }
        assert_eq!(EndedBy::of(&stack(&of_libc), None), EndedBy::Allocator);
        assert_eq!(
            from_entry(&stack(&of_allocator), LIBRARY),
            stack(&of_allocator[2..])
        );
    }
}
