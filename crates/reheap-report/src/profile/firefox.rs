//! The file of the Firefox Profiler, with its memory track and its allocations.
//!
//! The curve of live bytes is a counter, which the profiler draws over time. Call sites have no time of their own: each
//! is allocated when its process begins, and what was freed is freed when it ends. So the two views of allocations,
//! all and those that were kept, have the right totals, and the thread's name says what they are.

use crate::escape::{shell, visible};
use crate::profile::facts::process_name;
use crate::profile::sites::place;
use fxprof_processed_profile::{
    CategoryHandle, FrameFlags, FrameInfo, Profile as File, ReferenceTimestamp, SamplingInterval,
    StackHandle, ThreadHandle, Timestamp,
};
use reheap_profile::profile::{Frame, Process, Profile, Site};

/// The profile for the Firefox Profiler.
pub fn firefox(profile: &Profile) -> String {
    let mut file = File::new(
        &visible(&shell(&profile.command)),
        // When it was measured is not part of a profile.
        ReferenceTimestamp::from_millis_since_unix_epoch(0.0),
        SamplingInterval::from_millis(1),
    );
    file.set_symbolicated(true);
    for process in &profile.processes {
        add_process(&mut file, process, profile.seconds);
    }
    let mut text = serde_json::to_string(&file).expect("all keys are strings");
    text.push('\n');
    text
}

fn time(seconds: f64) -> Timestamp {
    Timestamp::from_millis_since_reference(seconds * 1e3)
}

fn add_process(file: &mut File, process: &Process, seconds: f64) {
    let (began, ended) = (process.began, process.ended.unwrap_or(seconds));
    let name = visible(&process_name(process));
    let handle = file.add_process(&name, process.pid, time(began));
    if process.ended.is_some() {
        file.set_process_end_time(handle, time(ended));
    }
    let thread = file.add_thread(handle, process.pid, time(began), true);
    file.set_thread_name(
        thread,
        "Allocations by call site (sampled, all at the start)",
    );
    let memory = file.add_counter(
        handle,
        "malloc",
        "Memory",
        "Bytes that are allocated and not freed",
    );
    let mut before = 0.0;
    let mut allocations = 0u64;
    for point in &process.curve {
        let live = point.live.bytes as f64;
        let operations = point.allocations.saturating_sub(allocations);
        let operations = u32::try_from(operations).unwrap_or(u32::MAX);
        file.add_counter_sample(memory, time(point.seconds), live - before, operations);
        (before, allocations) = (live, point.allocations);
    }
    for (at, site) in process.sites.stacks.iter().enumerate() {
        let frames: Vec<FrameInfo> = site
            .frames
            .iter()
            .rev()
            .filter_map(|frame| process.sites.frames.get(*frame as usize))
            .map(|frame| frame_info(file, frame))
            .collect();
        let stack = file.intern_stack_frames(thread, frames.into_iter());
        add_site(
            file,
            thread,
            site,
            stack,
            at as u64,
            (time(began), time(ended)),
        );
    }
}

/// What was freed and what was kept, each as one allocation with an address of its own.
fn add_site(
    file: &mut File,
    thread: ThreadHandle,
    site: &Site,
    stack: Option<StackHandle>,
    at: u64,
    (began, ended): (Timestamp, Timestamp),
) {
    let kept = site.live_bytes.round() as i64;
    let freed = (site.allocated_bytes.round() as i64).saturating_sub(kept);
    let (address, address_of_kept) = (at * 2 + 1, at * 2 + 2);
    if freed > 0 {
        file.add_allocation_sample(thread, began, stack, address, freed);
        file.add_allocation_sample(thread, ended, stack, address, -freed);
    }
    if kept > 0 {
        file.add_allocation_sample(thread, began, stack, address_of_kept, kept);
    }
}

fn frame_info(file: &mut File, frame: &Frame) -> FrameInfo {
    let name = match place(frame) {
        Some(place) => format!("{} ({place})", frame.function),
        None => frame.function.clone(),
    };
    FrameInfo {
        frame: fxprof_processed_profile::Frame::Label(file.intern_string(&visible(&name))),
        category_pair: CategoryHandle::OTHER.into(),
        flags: FrameFlags::empty(),
    }
}
