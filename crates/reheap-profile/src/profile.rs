//! What was seen of a command: its processes, and how each allocated. This is what `reheap profile -o` writes as JSON,
//! and what every report is made from.
//!
//! A figure that was not observed is absent: `None`, or a list without an entry. Times are seconds since the start of
//! the command.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The format that this version writes.
pub const FORMAT: u32 = 2;

/// What was seen of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// [`FORMAT`] of the version that wrote it.
    pub format: u32,
    /// The version of reheap that wrote it.
    pub reheap: String,
    /// The program and its arguments; of a process that was attached to, its own.
    pub command: Vec<String>,
    /// How long it was watched.
    pub seconds: f64,
    /// Why the watching ended.
    pub ending: Ending,
    /// Mean distance between two sampled stacks, in allocated bytes; `None` if none were taken. Where a thread would sample
    /// thousands in a second, the distance is longer for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_bytes: Option<u64>,
    /// In the order in which they began.
    pub processes: Vec<Process>,
    /// Programs that ran and were not watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<Unseen>,
}

/// Why the watching ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The command ended with this exit code.
    Exited(i32),
    /// This signal ended the command.
    Killed(i32),
    /// The time was over, and the process went on.
    Detached,
}

/// A program that ran and was not watched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Unseen {
    /// Its file.
    pub program: PathBuf,
    /// Why.
    pub reason: String,
    /// How often it ran, as far as that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The CPU time that it was seen to use. It may have used more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
}

/// One process, from its start, exec or fork to its end or next exec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The number of the process that forked it, if that was watched too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// The file that it executed.
    pub program: PathBuf,
    /// What the system called it, if it was seen, and is not the file's name: a symbolic link to it, for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How the hooks got in.
    pub access: Access,
    /// The allocator behind the hooks, as `inspect` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocator: Option<String>,
    /// Where the hooks are a preload: the library that malloc is in. Whoever makes the profile makes [`Process::allocator`] of
    /// it.
    #[serde(skip)]
    pub malloc_file: Option<PathBuf>,
    /// Whether that is in front of the hooks, which then see nothing.
    #[serde(skip)]
    pub is_bypassed: bool,
    /// When the hooks saw it first.
    pub began: f64,
    /// When it ended; `None` if it went on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<f64>,
    /// All threads together.
    pub counts: Counts,
    /// The most bytes that were live at a time.
    pub peak: Peak,
    /// What was never freed.
    pub live_at_end: Live,
    /// Memory over time, oldest first.
    pub curve: Vec<Point>,
    /// Where resident memory was when most was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_most: Option<ResidentParts>,
    /// Where it was when it was seen last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_last: Option<ResidentParts>,
    /// The threads that allocated or freed, busiest first.
    pub threads: Vec<Thread>,
    /// Where the CPU time went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeShares>,
    /// Call sites; empty if no stack was sampled.
    #[serde(default, skip_serializing_if = "Sites::is_empty")]
    pub sites: Sites,
    /// What the hooks could not record.
    #[serde(default)]
    pub lost: Lost,
    /// Functions of the malloc family that the program may have, but that have no hook: nothing shows where they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_counted: Vec<String>,
}

/// How the hooks got into a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// As a preload of a dynamic program.
    Preload,
    /// Jumps in the program's code; its functions were found by reheap's marker.
    Marker,
    /// Jumps in the program's code; its functions were found by symbols.
    Symbols,
    /// Jumps in the program's code; its functions were found by signatures of their code.
    Signature,
}

/// How often what was called, and for how many bytes.
///
/// One definition holds for all figures of a profile: a realloc of a block allocates a block of the new size and frees the
/// old one, also where it stays in place. So blocks and bytes are the same, whether they are counted by size, by thread, by
/// lifetime or by call site, and what is allocated less what is freed is live.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Calls by name of the function, such as `malloc`.
    pub calls: BTreeMap<String, u64>,
    /// Blocks that were allocated.
    pub allocations: u64,
    /// Blocks that were freed.
    pub frees: u64,
    /// Sum of the sizes that were asked for.
    pub requested_bytes: u64,
    /// Calls that returned no block although one was asked for.
    pub failed: u64,
    /// Calls for zero bytes.
    pub zero_size: u64,
    /// Calls for at least [`HUGE_BYTES`].
    pub huge: u64,
    /// By requested size, smallest first; sizes that nobody asked for are left out.
    pub sizes: Vec<SizeBucket>,
    /// Allocations by the alignment that was asked for; without malloc, calloc and realloc.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub alignments: BTreeMap<u64, u64>,
    /// What realloc did; its blocks are among the others.
    pub realloc: Realloc,
    /// How long blocks lived, of those that were freed, shortest first. Times are true to about a millisecond.
    pub lifetimes: Vec<LifetimeBucket>,
    /// How long blocks lived, counted in allocations of the thread that allocated them.
    pub lifetimes_in_allocations: Vec<LifetimeInAllocationsBucket>,
    /// Blocks that were freed by the thread that allocated them, before it allocated another.
    pub temporaries: u64,
    /// Blocks that another thread freed than the one that allocated them.
    pub freed_by_another_thread: Live,
    /// Frees of blocks that the hooks did not see allocated.
    pub unknown_frees: u64,
}

/// From which size on a request is called huge: 32 MiB, the most that glibc ever takes from its heap
/// (`DEFAULT_MMAP_THRESHOLD_MAX`, mallopt(3)).
pub const HUGE_BYTES: u64 = 32 << 20;

/// Blocks of similar size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeBucket {
    /// The smallest size in it, in bytes.
    pub from: u64,
    /// The largest.
    pub to: u64,
    /// How many were asked for.
    pub blocks: u64,
    /// The bytes that were asked for.
    pub requested_bytes: u64,
    /// Of some of the blocks, what the allocator really gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usable: Option<Usable>,
}

/// What the allocator gave for some blocks (`malloc_usable_size`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usable {
    /// How many were looked at.
    pub blocks: u64,
    /// The bytes that were asked for, of these blocks.
    pub requested_bytes: u64,
    /// The bytes that could have been used, of these blocks.
    pub usable_bytes: u64,
}

/// What realloc did with blocks that existed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Realloc {
    /// Blocks that stayed where they were.
    pub in_place: u64,
    /// Blocks that moved.
    pub moved: u64,
    /// The bytes that were copied for that: the smaller of both sizes.
    pub copied_bytes: u64,
}

/// Blocks that lived for about as long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LifetimeBucket {
    /// They lived for less than this, and not for less than the bucket before says; `None` in the last.
    pub below_seconds: Option<f64>,
    /// How many.
    pub blocks: u64,
    /// Their sizes.
    pub bytes: u64,
}

/// Blocks during whose life about as many others were allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifetimeInAllocationsBucket {
    /// Fewer than this, and not fewer than the bucket before says; `None` in the last.
    pub below_allocations: Option<u64>,
    /// How many.
    pub blocks: u64,
    /// Their sizes.
    pub bytes: u64,
}

/// A number of blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// How many.
    pub blocks: u64,
    /// The sizes that were asked for, together.
    pub bytes: u64,
}

/// The most bytes that were live at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// Bytes and blocks.
    pub live: Live,
    /// When.
    pub seconds: f64,
    /// The true peak may be higher by up to this: each thread tells of its changes in steps.
    pub within_bytes: u64,
}

/// Memory at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// When.
    pub seconds: f64,
    /// Blocks in use.
    pub live: Live,
    /// All allocations until then.
    pub allocations: u64,
    /// The process's resident memory in bytes, without what the hooks take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
}

/// Where resident memory is, without what the hooks take: the parts add up to it. Rounding is estimated from some blocks of
/// each size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ResidentParts {
    /// When it was seen.
    pub seconds: f64,
    /// All of it.
    pub resident_bytes: u64,
    /// What the program asked for and has not freed, as far as it is resident.
    pub live_bytes: u64,
    /// What the allocator gave beyond that; `None` where nothing tells, and it is in `free_in_pages_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounding_bytes: Option<u64>,
    /// The rest of the pages that hold a live block; `None` where not all live blocks are known, and it is in `other_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_in_pages_bytes: Option<u64>,
    /// Pages in which blocks were, and none is; `None` in the same cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_pages_bytes: Option<u64>,
    /// Pages in which no block was seen: code, stacks, data of the program and of the allocator, and what the program mapped
    /// itself.
    pub other_bytes: u64,
}

impl ResidentParts {
    /// What is known where some live blocks are not.
    pub(crate) fn with_unknown_blocks(self) -> Self {
        let free = self.free_in_pages_bytes.unwrap_or(0) + self.free_pages_bytes.unwrap_or(0);
        Self {
            free_in_pages_bytes: None,
            free_pages_bytes: None,
            other_bytes: self.other_bytes + free,
            ..self
        }
    }
}

/// What one thread did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// The number of the thread, or of the first of several that had the same place in memory one after another; 0 if it is
    /// not known.
    pub tid: u32,
    /// Its name, if it was seen while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Blocks that it allocated.
    pub allocated: Live,
    /// Blocks that it freed.
    pub freed: Live,
    /// Of these: that another thread had allocated.
    pub freed_of_others: Live,
}

/// Where the time went: samples of all threads, at regular intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimeShares {
    /// CPU time of the process in user mode.
    pub user_seconds: f64,
    /// CPU time of the process in the kernel.
    pub system_seconds: f64,
    /// How the samples were taken.
    #[serde(default)]
    pub measured: Measured,
    /// How many samples fell into CPU time. Those in the hooks are left out: without these, the program would not have them.
    pub samples: u64,
    /// How many samples were left out for that, where looks tell; there may have been more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_hooks: Option<u64>,
    /// Of these: inside malloc, free and the like, with what they call and what the kernel did for them.
    pub in_allocator: u64,
    /// Of `samples`: in the kernel. Where it could not be sampled, this is what is known of its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_kernel: Option<u64>,
    /// Of `in_allocator`: in the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_kernel_for_allocator: Option<u64>,
    /// Of `samples`: inside memcpy, memset and the like, without those that the allocator called; `None` where these could
    /// not be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_memory_functions: Option<u64>,
    /// `in_memory_functions` by function. memmove and mempcpy count as memcpy, because libcs have one piece of code for them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memory_functions: BTreeMap<String, u64>,
    /// Of `samples`: in the kernel for a page fault, whoever caused it; `None` where the kernel was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_page_faults: Option<u64>,
    /// How long threads waited inside the allocator, together: for its locks, or for the kernel.
    pub waited_seconds: f64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that needed a disk.
    pub major_faults: u64,
}

/// How samples of CPU time were taken, the least certain first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measured {
    /// reheap looked each millisecond whether a thread ran, and whether it was in the allocator or in the hooks, of which not
    /// all shows.
    #[default]
    Looks,
    /// The kernel took a sample in each millisecond of CPU time in user mode. How much of the time in the kernel was for
    /// the allocator is from looks.
    UserSamples,
    /// The kernel took a sample in each millisecond of CPU time.
    Samples,
}

/// Call sites: stacks that were sampled, each with what it stands for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sites {
    /// The frames that occur, each once.
    pub frames: Vec<Frame>,
    /// The stacks, that with most bytes first.
    pub stacks: Vec<Site>,
}

impl Sites {
    /// Whether no stack was sampled.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Makes the estimates smaller, all in proportion, where together they are above what was counted. A few samples may
    /// stand for more than there was.
    pub(crate) fn limit(&mut self, allocated: Live, live: Live) {
        let stacks = &mut self.stacks;
        limit(stacks, allocated.blocks, |site| &mut site.allocated_blocks);
        limit(stacks, allocated.bytes, |site| &mut site.allocated_bytes);
        limit(stacks, live.blocks, |site| &mut site.live_blocks);
        limit(stacks, live.bytes, |site| &mut site.live_bytes);
        for site in stacks {
            site.live_blocks = site.live_blocks.min(site.allocated_blocks);
            site.live_bytes = site.live_bytes.min(site.allocated_bytes);
        }
    }
}

fn limit(sites: &mut [Site], counted: u64, figure: impl Fn(&mut Site) -> &mut f64) {
    let sum: f64 = sites.iter_mut().map(|site| *figure(site)).sum();
    if sum > counted as f64 {
        for site in sites {
            *figure(site) *= counted as f64 / sum;
        }
    }
}

/// A function at a place in a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// Demangled; the address in its file, in hexadecimal, where no name is known.
    pub function: String,
    /// The executable or library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// The source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Whether the compiler put it into the function that calls it.
    #[serde(default)]
    pub inlined: bool,
}

/// A stack at which blocks were allocated. The figures are estimates: each sample stands for the blocks of its size that
/// were not sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// Positions in [`Sites::frames`], the innermost first.
    pub frames: Vec<u32>,
    /// How many samples this is from.
    pub samples: u64,
    /// Blocks that were allocated here.
    pub allocated_blocks: f64,
    /// And their bytes.
    pub allocated_bytes: f64,
    /// The standard error of that estimate.
    pub allocated_bytes_error: f64,
    /// Blocks of these that were never freed.
    pub live_blocks: f64,
    /// Bytes of these that were never freed.
    pub live_bytes: f64,
}

/// What the hooks could not record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Calls of threads that found no room, of more than 16,000 threads at a time.
    pub calls: u64,
    /// Blocks whose size and time found no room.
    pub blocks: u64,
    /// Sampled stacks that found no room.
    pub stacks: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(allocated: f64, live: f64) -> Site {
        Site {
            frames: Vec::new(),
            samples: 1,
            allocated_blocks: allocated,
            allocated_bytes: 100.0 * allocated,
            allocated_bytes_error: 10.0,
            live_blocks: live,
            live_bytes: 100.0 * live,
        }
    }

    #[test]
    fn estimates_of_call_sites_are_together_at_most_what_was_counted() {
        let mut sites = Sites {
            stacks: vec![site(30.0, 0.0), site(10.0, 8.0)],
            ..Sites::default()
        };
        let of = |blocks, bytes| Live { blocks, bytes };
        sites.limit(of(20, 10_000), of(6, 600));
        let figures: Vec<[f64; 4]> = sites
            .stacks
            .iter()
            .map(|stack| {
                [
                    stack.allocated_blocks,
                    stack.allocated_bytes,
                    stack.live_blocks,
                    stack.live_bytes,
                ]
            })
            .collect();
        // Bytes were counted more than estimated. A site cannot have more blocks now than it allocated.
        assert_eq!(
            figures,
            [[15.0, 3000.0, 0.0, 0.0], [5.0, 1000.0, 5.0, 600.0]]
        );
    }
}
