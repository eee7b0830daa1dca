//! What was seen, figure by figure, in words that the terminal and the page share.
//!
//! A fact is there only if it was observed, and each of its figures has a unit.

use crate::profile::histogram::{blocks, scaled, short_bytes};
use crate::profile::number::grouped;
use crate::profile::parts;
use crate::profile::shares;
use crate::profile::whole::{Whole, calls, share};
use reheap_bench::figures::{bytes, percent, seconds};
use reheap_profile::profile::{
    Access, Ending, HUGE_BYTES, Point, Process, Profile, Thread, Unseen,
};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Alignments up to this come from plain malloc too.
const USUAL_ALIGNMENT: u64 = 16;
/// This many functions and alignments are told apart.
const TOLD_MAX: usize = 5;

/// A name and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) name: &'static str,
    pub(crate) said: String,
}

/// All that was observed.
pub(crate) fn facts(whole: &Whole<'_>) -> Vec<Fact> {
    let live = [
        ("Calls", called(whole)),
        ("Allocated", allocated(whole)),
        ("Peak", peak(whole)),
        ("Resident", resident(whole)),
    ];
    let rest = [
        ("Not freed", not_freed(whole)),
        ("Frees", freed(whole)),
        ("Realloc", reallocated(whole)),
        ("Requests", requests(whole)),
        ("CPU time", cpu_time(whole)),
        ("CPU shares", whole.time.as_ref().and_then(shares::said)),
        ("Waiting", waited(whole)),
    ];
    let fact = |(name, said): (_, Option<String>)| said.map(|said| Fact { name, said });
    let all = live.into_iter().chain(parts::seen(whole)).chain(rest);
    all.filter_map(fact).collect()
}

/// How the command ended, and what was watched of it.
pub(crate) fn ended(profile: &Profile) -> String {
    let time = seconds(profile.seconds);
    let ending = match profile.ending {
        Ending::Exited(code) => format!("ended with exit code {code} after {time}"),
        Ending::Killed(signal) => format!("was ended by signal {signal} after {time}"),
        Ending::Detached => {
            let first = profile.processes.first();
            match first.and_then(|process| process.ended) {
                Some(_) => format!("was watched for {time}, and ended"),
                None => format!("was watched for {time} and goes on"),
            }
        }
    };
    match profile.processes.as_slice() {
        [] => ending,
        [process] => format!("{ending}; {}", watched(process)),
        several => format!("{ending}; {} processes", several.len()),
    }
}

/// How a process was watched, and what its allocator is.
fn watched(process: &Process) -> String {
    let access = match process.access {
        Access::Preload => "watched by a preload",
        Access::Marker => "watched by jumps in its code, found by reheap's marker",
        Access::Symbols => "watched by jumps in its code, found by symbols",
        Access::Signature => "watched by jumps in its code, found by signatures",
    };
    match &process.allocator {
        Some(allocator) => format!("allocator: {allocator}; {access}"),
        None => access.to_owned(),
    }
}

fn called(whole: &Whole<'_>) -> Option<String> {
    let all = whole.calls();
    if all == 0 {
        return None;
    }
    let mut functions: Vec<(&String, &u64)> = whole.counts.calls.iter().collect();
    functions.retain(|(_, calls)| **calls > 0);
    functions.sort_by_key(|(_, calls)| std::cmp::Reverse(**calls));
    let others = functions.split_off(functions.len().min(TOLD_MAX));
    let mut told: Vec<String> = functions
        .iter()
        .map(|(name, calls)| format!("{name} {}", grouped(**calls)))
        .collect();
    if !others.is_empty() {
        told.push(format!("{} other functions", others.len()));
    }
    let rate = rate(all as f64, whole.profile.seconds, scaled);
    Some(format!("{}{rate}: {}", grouped(all), told.join(", ")))
}

/// ` (123/s)`; nothing of no time.
fn rate(figure: f64, time: f64, said: impl Fn(f64) -> String) -> String {
    if time > 0.0 {
        format!(" ({}/s)", said(figure / time))
    } else {
        String::new()
    }
}

fn allocated(whole: &Whole<'_>) -> Option<String> {
    let counts = &whole.counts;
    if counts.allocations == 0 {
        return None;
    }
    let requested = counts.requested_bytes as f64;
    let rate = rate(requested, whole.profile.seconds, bytes);
    let mean = bytes(requested / counts.allocations as f64);
    let blocks = blocks(counts.allocations);
    let mut said = format!("{}{rate} in {blocks}, mean {mean}", bytes(requested));
    if let Some(unused) = whole.rounding() {
        let unused = percent(unused);
        said.push_str(&format!("; {unused} of what was given is rounding"));
    }
    Some(said)
}

fn peak(whole: &Whole<'_>) -> Option<String> {
    let process = whole.largest?;
    let peak = &process.peak;
    if peak.live.blocks == 0 {
        return None;
    }
    let within = match peak.within_bytes {
        0 => String::new(),
        within => format!(" (up to {} more)", short_bytes(within)),
    };
    Some(format!(
        "{} live in {} at {}{within}{}",
        bytes(peak.live.bytes as f64),
        blocks(peak.live.blocks),
        seconds(peak.seconds),
        of_process(whole, process),
    ))
}

/// Which one is meant, where there are several.
fn of_process(whole: &Whole<'_>, process: &Process) -> String {
    match whole.profile.processes.len() {
        0 | 1 => String::new(),
        _ => format!(" (process {})", process.pid),
    }
}

/// Resident memory of the largest process next to its live bytes.
fn resident(whole: &Whole<'_>) -> Option<String> {
    let process = whole.largest?;
    let (most, last) = (most_resident(process)?, last_resident(process)?);
    let said = |(point, resident): (&Point, u64)| {
        let live = bytes(point.live.bytes as f64);
        format!("{} (live: {live})", bytes(resident as f64))
    };
    let when = if looked_near_the_end(process, last.0) {
        "at the end".to_owned()
    } else {
        format!("when last seen, at {}", seconds(last.0.seconds))
    };
    let most = if most.0.seconds < last.0.seconds {
        format!("{} at most; ", said(most))
    } else {
        String::new()
    };
    let process = of_process(whole, process);
    Some(format!("{most}{} {when}{process}", said(last)))
}

/// Whether a process lived for no more than a tenth of its time after that. A short one may end before a second look.
fn looked_near_the_end(process: &Process, point: &Point) -> bool {
    let ended = process.ended.unwrap_or(point.seconds);
    ended - point.seconds <= (ended - process.began) / 10.0
}

/// The time at which most memory was resident.
pub(crate) fn most_resident(process: &Process) -> Option<(&Point, u64)> {
    let points = process.curve.iter();
    let known = points.filter_map(|point| point.resident_bytes.map(|bytes| (point, bytes)));
    known.max_by_key(|(_, bytes)| *bytes)
}

/// The last time at which it was looked at.
pub(crate) fn last_resident(process: &Process) -> Option<(&Point, u64)> {
    let mut points = process.curve.iter().rev();
    points.find_map(|point| point.resident_bytes.map(|bytes| (point, bytes)))
}

fn not_freed(whole: &Whole<'_>) -> Option<String> {
    let live = whole.live_at_end;
    if whole.counts.allocations == 0 {
        return None;
    }
    if live.blocks == 0 {
        return Some("nothing: all blocks were freed".to_owned());
    }
    let blocks = blocks(live.blocks);
    Some(format!(
        "{} in {blocks} at the end",
        bytes(live.bytes as f64)
    ))
}

fn freed(whole: &Whole<'_>) -> Option<String> {
    let counts = &whole.counts;
    if counts.frees == 0 {
        return None;
    }
    let part = |blocks: u64| percent(share(blocks, counts.frees).unwrap_or(0.0));
    let mut said = vec![blocks(counts.frees)];
    let by_another = counts.freed_by_another_thread;
    if whole.threads.len() > 1 || by_another.blocks > 0 {
        let (part, size) = (part(by_another.blocks), bytes(by_another.bytes as f64));
        said.push(format!("{part} by another thread ({size})"));
    }
    if counts.temporaries > 0 {
        let part = part(counts.temporaries);
        said.push(format!("{part} before the next allocation"));
    }
    if counts.unknown_frees > 0 {
        let unknown = grouped(counts.unknown_frees);
        said.push(format!("{unknown} of blocks that were not seen allocated"));
    }
    Some(said.join("; "))
}

fn reallocated(whole: &Whole<'_>) -> Option<String> {
    let realloc = whole.counts.realloc;
    if realloc.in_place == 0 && realloc.moved == 0 {
        return None;
    }
    Some(format!(
        "{} in place, {} moved ({} copied); each counts as a new block",
        grouped(realloc.in_place),
        grouped(realloc.moved),
        bytes(realloc.copied_bytes as f64)
    ))
}

/// What was asked for and is not usual.
fn requests(whole: &Whole<'_>) -> Option<String> {
    let counts = &whole.counts;
    let mut said = Vec::new();
    let unusual: Vec<_> = counts
        .alignments
        .iter()
        .filter(|(alignment, blocks)| **alignment > USUAL_ALIGNMENT && **blocks > 0)
        .map(|(alignment, blocks)| format!("{} at {}", grouped(*blocks), short_bytes(*alignment)))
        .collect();
    if !unusual.is_empty() {
        let (told, others) = unusual.split_at(unusual.len().min(TOLD_MAX));
        let others = match others.len() {
            0 => String::new(),
            others => format!(", {others} other alignments"),
        };
        said.push(format!("aligned: {}{others}", told.join(", ")));
    }
    let huge = format!("of at least {}", short_bytes(HUGE_BYTES));
    for (calls, what) in [
        (counts.failed, "failed"),
        (counts.zero_size, "for zero bytes"),
        (counts.huge, huge.as_str()),
    ] {
        if calls > 0 {
            said.push(format!("{} {what}", grouped(calls)));
        }
    }
    (!said.is_empty()).then(|| said.join("; "))
}

fn cpu_time(whole: &Whole<'_>) -> Option<String> {
    let time = whole.time.as_ref()?;
    // The kernel tells whole hundredths of a second of each process.
    let told = |time: f64| {
        if time > 0.0 {
            seconds(time)
        } else {
            "less than 10 ms".to_owned()
        }
    };
    let (user, system) = (told(time.user_seconds), told(time.system_seconds));
    let faults = grouped(time.minor_faults.saturating_add(time.major_faults));
    let from_disk = match time.major_faults {
        0 => String::new(),
        major => format!(", {} from disk", grouped(major)),
    };
    Some(format!(
        "{user} user, {system} system; {faults} page faults{from_disk}"
    ))
}

fn waited(whole: &Whole<'_>) -> Option<String> {
    let waited = whole.time.as_ref()?.waited_seconds;
    (waited > 0.0).then(|| {
        let waited = seconds(waited);
        format!("threads waited {waited} together inside the allocator, for locks or the kernel")
    })
}

/// What could not be recorded, as sentences.
pub(crate) fn lost(whole: &Whole<'_>) -> Vec<String> {
    let lost = whole.lost;
    let sentences = [
        (
            lost.calls,
            "calls are not counted: there were too many threads at a time",
        ),
        (
            lost.blocks,
            "blocks have no lifetime and no size when they are freed: there were too many at a time",
        ),
        (
            lost.stacks,
            "stacks are missing in the call sites: there were too many at a time",
        ),
    ];
    let sentences = sentences.into_iter().filter(|(count, _)| *count > 0);
    sentences
        .map(|(count, said)| format!("{} {said}", grouped(count)))
        .chain(not_counted(whole.profile))
        .chain(went_on(whole.profile))
        .collect()
}

/// Processes that outlived the command, as a sentence.
fn went_on(profile: &Profile) -> Option<String> {
    let went_on = profile
        .processes
        .iter()
        .filter(|process| process.ended.is_none());
    let names: Vec<String> = went_on.map(process_name).collect();
    let is_told = profile.ending != Ending::Detached && !names.is_empty();
    is_told.then(|| {
        let names = names.join(", ");
        format!("not all processes ended with the command, and what they did afterwards is not counted: {names}")
    })
}

/// Functions whose calls are not in the counts, as a sentence.
fn not_counted(profile: &Profile) -> Option<String> {
    let processes = profile.processes.iter();
    let names: BTreeSet<&str> = processes
        .flat_map(|process| &process.not_counted)
        .map(String::as_str)
        .collect();
    let names: Vec<&str> = names.into_iter().collect();
    let list = names.join(", ");
    (!names.is_empty()).then(|| {
        format!("calls of these are not counted, because nothing shows where they are in the program: {list}")
    })
}

/// A program that was not watched, as a sentence.
pub(crate) fn unseen(unseen: &Unseen) -> String {
    if unseen.program.as_os_str().is_empty() {
        return unseen.reason.clone();
    }
    let times = unseen.times.filter(|times| *times > 1);
    let times = times.map(|times| format!("{} runs", grouped(times)));
    let cpu = unseen.cpu_seconds.filter(|cpu| *cpu > 0.0);
    let cpu = cpu.map(|cpu| format!("at least {} of CPU time", seconds(cpu)));
    let figures: Vec<String> = times.into_iter().chain(cpu).collect();
    let figures = if figures.is_empty() {
        String::new()
    } else {
        format!(" ({})", figures.join(", "))
    };
    format!(
        "{} was not watched{figures}: {}",
        unseen.program.display(),
        unseen.reason
    )
}

/// How a process is called in a table: its number and its program.
pub(crate) fn process_name(process: &Process) -> String {
    let file = process
        .program
        .file_name()
        .unwrap_or(process.program.as_os_str());
    let name = process
        .name
        .as_deref()
        .map(Cow::Borrowed)
        .unwrap_or_else(|| file.to_string_lossy());
    format!("{} {name}", process.pid)
}

/// How a thread is called in a table: its number and its name, as far as they are known.
pub(crate) fn thread_name(thread: &Thread) -> String {
    let number = match thread.tid {
        0 => "?".to_owned(),
        number => number.to_string(),
    };
    let name = thread.name.as_deref().unwrap_or("");
    format!("{number} {name}")
}

/// The figures of a process in a table: name of the column and text.
pub(crate) fn process_figures(process: &Process) -> [(&'static str, String); 5] {
    let allocator = process
        .time
        .as_ref()
        .and_then(|cpu| shares::of_samples(cpu.in_allocator, cpu.samples));
    [
        ("calls", grouped(calls(&process.counts))),
        ("allocated", bytes(process.counts.requested_bytes as f64)),
        ("peak", bytes(process.peak.live.bytes as f64)),
        ("not freed", bytes(process.live_at_end.bytes as f64)),
        (
            "in allocator",
            allocator.map_or_else(|| crate::numbers::NONE.to_owned(), percent),
        ),
    ]
}
