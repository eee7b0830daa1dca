//! The file of a profile: written, read, and not believed.
//!
//! A file that was cut, damaged or written by somebody else must not make a report panic or show nonsense, so all that
//! a report relies on is looked at here, once.

use reheap_profile::profile::{FORMAT, Process, Profile, ResidentParts, Site, TimeShares};
use serde_json::Value;

/// No figure of a process is larger: 2^64, as a time, a count or an amount of memory.
const FIGURE_MAX: f64 = 18_446_744_073_709_551_616.0;

/// Why a file has no profile to read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Nothing is in it.
    #[error("it is empty")]
    Empty,
    /// Cut short, or something else.
    #[error("it is not JSON, or was cut short ({0})")]
    NotJson(serde_json::Error),
    /// JSON of something else.
    #[error("it is not a profile that `reheap profile -o` wrote")]
    NotAProfile,
    /// Of another reheap.
    #[error("reheap {reheap} wrote it in format {format}, and this reheap reads format {FORMAT}")]
    OtherFormat {
        /// The version that wrote it, if it says so.
        reheap: String,
        /// The format.
        format: u64,
    },
    /// The format fits, the content does not.
    #[error("it is damaged: {0}")]
    NotAsExpected(serde_json::Error),
    /// A figure that cannot be.
    #[error("it is damaged: {0}")]
    Impossible(String),
}

/// The file's text.
pub fn to_json(profile: &Profile) -> String {
    let mut text = serde_json::to_string_pretty(profile).expect("a profile has only string keys");
    text.push('\n');
    text
}

/// Reads a file that reheap wrote.
///
/// # Errors
/// If it is no such file, was cut short or damaged, or has another format.
pub fn from_json(text: &str) -> Result<Profile, ReadError> {
    if text.trim().is_empty() {
        return Err(ReadError::Empty);
    }
    let value: Value = serde_json::from_str(text).map_err(ReadError::NotJson)?;
    let format = value.get("format").and_then(Value::as_u64);
    let reheap = value.get("reheap").and_then(Value::as_str);
    match (format, reheap) {
        (Some(format), Some(_)) if format == u64::from(FORMAT) => {}
        (Some(format), Some(reheap)) => {
            let reheap = reheap
                .chars()
                .filter(|character| !character.is_control())
                .take(40);
            return Err(ReadError::OtherFormat {
                reheap: reheap.collect(),
                format,
            });
        }
        _ => return Err(ReadError::NotAProfile),
    }
    let profile: Profile = serde_json::from_str(text).map_err(ReadError::NotAsExpected)?;
    check("its time", profile.seconds)?;
    for unseen in &profile.unseen {
        check("a CPU time", unseen.cpu_seconds.unwrap_or(0.0))?;
    }
    for process in &profile.processes {
        check_process(process)?;
    }
    Ok(profile)
}

fn check_process(process: &Process) -> Result<(), ReadError> {
    check("the start of a process", process.began)?;
    check("the end of a process", process.ended.unwrap_or(0.0))?;
    check("the time of a peak", process.peak.seconds)?;
    for point in &process.curve {
        check("a time", point.seconds)?;
    }
    for parts in process.resident_most.iter().chain(&process.resident_last) {
        check_parts(parts)?;
    }
    for bucket in &process.counts.lifetimes {
        check("a lifetime", bucket.below_seconds.unwrap_or(0.0))?;
    }
    if let Some(time) = &process.time {
        check_time(time)?;
    }
    let frames = process.sites.frames.len();
    for site in &process.sites.stacks {
        check_site(site, frames)?;
    }
    Ok(())
}

fn check_parts(parts: &ResidentParts) -> Result<(), ReadError> {
    check("the time of a look", parts.seconds)?;
    let optional = [
        parts.rounding_bytes,
        parts.free_in_pages_bytes,
        parts.free_pages_bytes,
    ];
    let all = optional
        .into_iter()
        .flatten()
        .chain([parts.live_bytes, parts.other_bytes]);
    let sum = all.fold(0u64, u64::saturating_add);
    if sum == parts.resident_bytes {
        Ok(())
    } else {
        let resident = parts.resident_bytes;
        let said = format!("{resident} bytes are resident, and their parts are {sum}");
        Err(ReadError::Impossible(said))
    }
}

fn check_time(time: &TimeShares) -> Result<(), ReadError> {
    for seconds in [time.user_seconds, time.system_seconds, time.waited_seconds] {
        check("a time", seconds)?;
    }
    let named = time
        .memory_functions
        .values()
        .fold(0u64, |sum, samples| sum.saturating_add(*samples));
    let memory = time.in_memory_functions.unwrap_or(0).max(named);
    let parts = [
        time.in_allocator.saturating_add(memory),
        time.in_page_faults.unwrap_or(0),
        time.in_kernel.unwrap_or(0),
    ];
    let for_allocator = time.in_kernel_for_allocator.unwrap_or(0);
    if parts.iter().any(|part| *part > time.samples) || for_allocator > time.in_allocator {
        let said = "more samples are in a part of the program than in all of it";
        return Err(ReadError::Impossible(said.to_owned()));
    }
    Ok(())
}

fn check_site(site: &Site, frames: usize) -> Result<(), ReadError> {
    for figure in [
        site.allocated_blocks,
        site.allocated_bytes,
        site.allocated_bytes_error,
        site.live_blocks,
        site.live_bytes,
    ] {
        check("the estimate of a call site", figure)?;
    }
    match site.frames.iter().find(|frame| **frame as usize >= frames) {
        None => Ok(()),
        Some(missing) => Err(ReadError::Impossible(format!(
            "a stack has frame {missing}, and there are {frames} frames"
        ))),
    }
}

fn check(what: &str, figure: f64) -> Result<(), ReadError> {
    if (0.0..=FIGURE_MAX).contains(&figure) {
        Ok(())
    } else {
        Err(ReadError::Impossible(format!("{what} is {figure}")))
    }
}
