//! The file of valgrind's DHAT, for its viewer `dh_view.html`.
//!
//! DHAT knows of each stack how much was live at the peak. reheap does not, so the file says that there are no lifetimes
//! (`bklt`), and the viewer shows totals only. The fields are described in valgrind's `dhat/dh_main.c`.

use crate::escape::shell;
use crate::profile::sites::Stacks;
use crate::profile::whole::Whole;
use reheap_profile::profile::{Frame, Profile};
use serde::Serialize;

/// The version of the format that is written.
const VERSION: u32 = 2;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File {
    dhat_file_version: u32,
    mode: &'static str,
    verb: &'static str,
    /// Whether lifetimes are in it.
    bklt: bool,
    /// Whether reads and writes are in it.
    bkacc: bool,
    bu: &'static str,
    bsu: &'static str,
    bksu: &'static str,
    /// The unit of time, and a million of it.
    tu: &'static str,
    #[serde(rename = "Mtu")]
    mtu: &'static str,
    cmd: String,
    pid: u32,
    /// The time at the end.
    te: u64,
    pps: Vec<Point>,
    ftbl: Vec<String>,
}

/// A stack.
#[derive(Serialize)]
struct Point {
    /// Bytes and blocks.
    tb: u64,
    tbk: u64,
    /// Positions in the table of frames, the innermost first.
    fs: Vec<u32>,
}

/// The profile as DHAT would have written it.
pub fn dhat(profile: &Profile) -> String {
    let whole = Whole::of(profile);
    let stacks = Stacks::of(&whole);
    let points = stacks.stacks.iter().map(|stack| Point {
        tb: stack.allocated_bytes.round() as u64,
        tbk: stack.allocated_blocks.round() as u64,
        // The table begins with the root.
        fs: stack.frames.iter().map(|frame| frame + 1).collect(),
    });
    let names = stacks.frames.iter().map(|frame| name(frame));
    let file = File {
        dhat_file_version: VERSION,
        mode: "heap",
        verb: "Allocated",
        bklt: false,
        bkacc: false,
        bu: "byte",
        bsu: "bytes",
        bksu: "blocks",
        tu: "µs",
        mtu: "s",
        cmd: shell(&profile.command),
        pid: profile.processes.first().map_or(0, |process| process.pid),
        te: (profile.seconds * 1e6).round() as u64,
        pps: points
            .filter(|point| point.tb > 0 || point.tbk > 0)
            .collect(),
        ftbl: ["[root]".to_owned()].into_iter().chain(names).collect(),
    };
    let mut text = serde_json::to_string(&file).expect("all keys are strings");
    text.push('\n');
    text
}

fn name(frame: &Frame) -> String {
    let function = &frame.function;
    match (&frame.file, frame.line, &frame.module) {
        (Some(file), Some(line), _) => format!("{function} ({file}:{line})"),
        (Some(file), None, _) => format!("{function} ({file})"),
        (None, _, Some(module)) => format!("{function} (in {module})"),
        (None, _, None) => function.clone(),
    }
}
