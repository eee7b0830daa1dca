//! What a profile says in a few words: how much an allocator could gain, how blocks live, and what to try.
//!
//! Only what was observed is said, and only what is large enough to act on. The most that any allocator could gain is
//! the share of CPU time that is spent in it; nobody can promise more from these figures alone.

use crate::escape::shell;
use crate::profile::histogram::short_seconds;
use crate::profile::number::grouped;
use crate::profile::parts::free_and_resident;
use crate::profile::whole::{Whole, share};
use reheap_bench::figures::{bytes, number, percent, seconds};
use reheap_profile::profile::{Ending, Profile, TimeShares};

/// From which part on something is worth a word.
const WORTH_A_WORD: f64 = 0.1;
/// From which part on blocks that another thread frees are worth a word: these cost some allocators much.
const MANY_FREED_BY_ANOTHER_THREAD: f64 = 0.05;
/// Below this share of CPU time, another allocator changes nothing that could be measured.
const MEASURABLE: f64 = 0.01;
/// With fewer samples a share is only about right.
const MANY_SAMPLES: u64 = 200;
/// Resident memory this many times the live bytes is worth a word, if it is also this much more.
const RETAINED: (f64, u64) = (1.5, 16 << 20);
/// Commands that are longer are not repeated.
const COMMAND_LETTERS_MAX: usize = 60;

/// What a profile says.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What was observed, the most important first; each a part of a sentence.
    pub observed: Vec<String>,
    /// The share of CPU time that an allocator that took no time would save. None if no samples were taken.
    pub gain_max: Option<f64>,
    /// Whether that is only about right.
    pub is_rough: bool,
    /// Why another allocator may be worth a try. None if nothing speaks for it.
    pub reason_to_try: Option<Reason>,
    /// The share of CPU time in memory functions of musl, which reheap replaces in static executables.
    pub replaceable_memory_functions: Option<f64>,
    /// Whether other threads free so many blocks that it costs some allocators much.
    pub hands_blocks_over: bool,
    /// What may keep less memory that is free and still resident, if that is known.
    pub advice: Option<String>,
}

/// Why another allocator may be worth a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It takes time.
    Time,
    /// It takes memory that the program did not ask for.
    Memory,
    /// Nobody looked where the time goes.
    Unknown,
}

impl Verdict {
    /// What this profile says.
    pub fn of(profile: &Profile) -> Verdict {
        Verdict::of_whole(&Whole::of(profile))
    }

    pub(crate) fn of_whole(whole: &Whole<'_>) -> Verdict {
        let is_rough = whole.time.as_ref().is_none_or(is_rough);
        let gain_max = whole.allocator_share();
        if whole.calls() == 0 {
            let said = match whole.profile.processes.len() {
                0 => "no process was watched",
                _ => "it allocated nothing",
            };
            return Verdict {
                observed: vec![said.to_owned()],
                gain_max: None,
                is_rough,
                reason_to_try: None,
                replaceable_memory_functions: None,
                hands_blocks_over: false,
                advice: None,
            };
        }
        let free = whole.largest.and_then(free_and_resident);
        let resident = free.map(|free| free.said()).or_else(|| retained(whole));
        let memory: Vec<String> = resident.into_iter().chain(rounded_up(whole)).collect();
        let reason_to_try = match gain_max {
            Some(gain) if gain >= MEASURABLE => Some(Reason::Time),
            _ if !memory.is_empty() => Some(Reason::Memory),
            Some(_) => None,
            None => Some(Reason::Unknown),
        };
        let of_time = [
            time_in_allocator(whole),
            time_in_memory_functions(whole),
            time_for_page_faults(whole),
            waited(whole),
            lifetimes(whole),
            freed_by_another_thread(whole),
            copied(whole),
        ];
        let observed = of_time.into_iter().flatten().chain(memory);
        Verdict {
            observed: observed.chain(failed(whole)).collect(),
            gain_max,
            is_rough,
            reason_to_try,
            replaceable_memory_functions: replaceable_memory_functions(whole),
            hands_blocks_over: freed_by_another_thread(whole).is_some(),
            advice: whole
                .largest
                .zip(free)
                .and_then(|(process, free)| free.advice(process, &short_command(whole.profile))),
        }
    }

    /// All that was observed, in one sentence.
    pub fn sentence(&self) -> String {
        let said = crate::words::capitalised(&self.observed.join("; "));
        format!("{said}.")
    }

    /// The most that any allocator could gain, in a sentence.
    pub fn most_to_gain(&self) -> Option<String> {
        let gain = said_share(self.gain_max?, self.is_rough);
        let memory = self.replaceable_memory_functions.map(|share| {
            let share = percent(share);
            format!(
                " musl's memory functions take {share}; `reheap cc` and `cargo reheap` link faster ones."
            )
        });
        let memory = memory.unwrap_or_default();
        Some(format!(
            "An allocator that took no time would save {gain} of CPU time.{memory}"
        ))
    }

    /// What to do next; `file` is where the profile was written.
    pub fn next(&self, profile: &Profile, file: Option<&str>) -> String {
        let Some(reason) = self.reason_to_try else {
            return "Another allocator would change little.".to_owned();
        };
        let file = file.map_or_else(String::new, |file| {
            format!(" --profile {}", crate::escape::shell_word(file))
        });
        let command = short_command(profile);
        let goal = match reason {
            Reason::Memory => " --goal memory",
            Reason::Time | Reason::Unknown => "",
        };
        let recommend = format!("Try: `reheap recommend{goal}{file} -- {command}`");
        match &self.advice {
            Some(advice) => format!("{recommend}. {advice}"),
            None => recommend,
        }
    }
}

/// The command, if it is worth repeating.
fn short_command(profile: &Profile) -> String {
    let command = shell(&profile.command);
    if command.chars().count() <= COMMAND_LETTERS_MAX && !command.is_empty() {
        command
    } else {
        "…".to_owned()
    }
}

fn time_in_allocator(whole: &Whole<'_>) -> Option<String> {
    let time = whole.time.as_ref()?;
    let Some(part) = whole.allocator_share() else {
        let said = "too short a time on the CPU to tell the allocator's share";
        return Some(said.to_owned());
    };
    let part = said_share(part, is_rough(time));
    Some(format!("{part} of CPU time is in the allocator"))
}

fn time_in_memory_functions(whole: &Whole<'_>) -> Option<String> {
    let part = whole.memory_functions_share()?;
    let part = (part >= WORTH_A_WORD).then(|| percent(part))?;
    Some(format!(
        "{part} in memory functions such as {}",
        most_called(whole)?
    ))
}

/// Of programs that all have musl's own allocator, and so its own memory functions.
fn replaceable_memory_functions(whole: &Whole<'_>) -> Option<f64> {
    let mut processes = whole.profile.processes.iter();
    let is_musl = |name: &String| name.starts_with("musl");
    let are_musl = processes.all(|process| process.allocator.as_ref().is_some_and(is_musl));
    let share = whole.memory_functions_share()?;
    (are_musl && share >= WORTH_A_WORD).then_some(share)
}

fn most_called<'a>(whole: &'a Whole<'_>) -> Option<&'a str> {
    let functions = whole.time.as_ref()?.memory_functions.iter();
    let most = functions.max_by_key(|(_, samples)| **samples);
    most.map(|(name, _)| name.as_str())
}

fn time_for_page_faults(whole: &Whole<'_>) -> Option<String> {
    let part = whole.page_faults_share()?;
    (part >= WORTH_A_WORD).then(|| format!("{} serves page faults", percent(part)))
}

/// Whether there are few samples, or what they are parts of is estimated.
fn is_rough(time: &TimeShares) -> bool {
    time.samples < MANY_SAMPLES || time.in_hooks.is_some_and(|hooks| hooks > 0)
}

fn said_share(share: f64, is_rough: bool) -> String {
    let about = if is_rough { "about " } else { "" };
    format!("{about}{}", percent(share))
}

fn waited(whole: &Whole<'_>) -> Option<String> {
    let time = whole.time.as_ref()?;
    let cpu = time.user_seconds + time.system_seconds;
    (time.waited_seconds > cpu * MEASURABLE && time.waited_seconds > 0.0).then(|| {
        let waited = seconds(time.waited_seconds);
        format!("threads waited {waited} inside the allocator")
    })
}

/// The shortest time within which at least half of the blocks were freed; if there is none, what became of most.
fn lifetimes(whole: &Whole<'_>) -> Option<String> {
    let buckets = &whole.counts.lifetimes;
    let freed = buckets
        .iter()
        .fold(0u64, |sum, bucket| sum.saturating_add(bucket.blocks));
    if freed == 0 && whole.counts.frees > 0 {
        return None;
    }
    let all = freed.saturating_add(whole.live_at_end.blocks);
    let mut sum = 0u64;
    let mut longest = None;
    for bucket in buckets {
        sum = sum.saturating_add(bucket.blocks);
        let part = share(sum, all)?;
        let Some(below) = bucket.below_seconds else {
            break;
        };
        if part >= 0.5 {
            let (part, below) = (percent(part), short_seconds(below));
            return Some(format!("{part} of blocks live less than {below}"));
        }
        longest = Some((part, below));
    }
    let not_freed = share(whole.live_at_end.blocks, all)?;
    if not_freed >= 0.5 {
        return Some(format!("{} of blocks are never freed", percent(not_freed)));
    }
    let (part, below) = longest?;
    let (part, below) = (percent(1.0 - part), short_seconds(below));
    Some(format!("{part} of blocks live {below} or longer"))
}

fn freed_by_another_thread(whole: &Whole<'_>) -> Option<String> {
    let blocks = whole.counts.freed_by_another_thread.blocks;
    let part = share(blocks, whole.counts.frees)?;
    (part >= MANY_FREED_BY_ANOTHER_THREAD).then(|| {
        format!(
            "{} of freed blocks are freed by another thread",
            percent(part)
        )
    })
}

fn copied(whole: &Whole<'_>) -> Option<String> {
    let copied = whole.counts.realloc.copied_bytes;
    let part = share(copied, whole.counts.requested_bytes)?;
    (part >= WORTH_A_WORD).then(|| format!("realloc copied {}", bytes(copied as f64)))
}

/// Memory that is resident although little is live, at the time when most was resident.
fn retained(whole: &Whole<'_>) -> Option<String> {
    if whole.profile.ending == Ending::Detached {
        return None; // what was allocated before is not known
    }
    let process = whole.largest?;
    let (point, resident) = crate::profile::facts::most_resident(process)?;
    let live = point.live.bytes;
    let times = resident as f64 / live.max(1) as f64;
    let (times_least, bytes_least) = RETAINED;
    (live > 0 && times >= times_least && resident - live >= bytes_least).then(|| {
        let (resident, times) = (bytes(resident as f64), number(times));
        format!("resident memory ({resident}) is {times} times what is live")
    })
}

fn rounded_up(whole: &Whole<'_>) -> Option<String> {
    let part = whole.rounding()?;
    (part >= WORTH_A_WORD)
        .then(|| format!("{} of what the allocator gives is rounding", percent(part)))
}

fn failed(whole: &Whole<'_>) -> Option<String> {
    match whole.counts.failed {
        0 => None,
        1 => Some("1 request failed".to_owned()),
        failed => Some(format!("{} requests failed", grouped(failed))),
    }
}
