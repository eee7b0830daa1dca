//! `cargo lab count-memory`: how many instructions the memory functions for AArch64 execute, reheap's and musl's.
//!
//! It needs no such processor: qemu writes down the address of each instruction. It says nothing of how long they take,
//! which only a processor can tell. The calling is the example of `reheap-mem`: it is unsafe code, which has no place here.

use crate::measurement;
use anyhow::{Context as _, Result, ensure};
use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use xtask::aarch64::{TARGET, build_for};
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// A processor that has nothing newer than ARMv8.0-A.
const PROCESSOR: &str = "cortex-a53";
const HEADER: &str = "function,size,first_offset,second_offset,whose,instructions\n";

pub(crate) fn run(workspace: &Workspace, directory: Option<PathBuf>) -> Result<()> {
    let progress = Progress::start();
    progress.step(
        "building the calls",
        build_for(workspace.cargo().args([
            "build",
            "--release",
            "--package=reheap-mem",
            "--example=count_memory",
        ])),
    )?;
    progress.say("counting");
    let executable = workspace.target.join(TARGET);
    let csv = count(&executable.join("release/examples/count_memory"))?;
    let text = format!(
        "# Instructions of the memory functions for AArch64\n\n\
         Executed in one call, the return included: by the functions of musl (Rust's for {TARGET})\n\
         and by those of reheap. Counted by qemu (`-cpu {PROCESSOR}`), means of four placements in memory.\n\
         Counts are not times. Nothing was timed: no AArch64 processor was at hand.\n\
         Made by `cargo lab count-memory`; raw data in `memory-functions-aarch64.csv`.\n\n{}",
        table(&csv)?
    );
    println!("{text}");
    let Some(directory) = directory else {
        return Ok(());
    };
    let directory = workspace.root.join(directory);
    let files = [
        ("memory-functions-aarch64.csv", csv),
        ("memory-functions-aarch64.md", text),
    ];
    measurement::write(&progress, &directory, &files)
}

/// Runs the calls, and gives their rows with the count of each.
fn count(executable: &PathBuf) -> Result<String> {
    let mut child = Command::new("qemu-aarch64")
        .args(["-cpu", PROCESSOR, "-singlestep", "-d", "nochain,exec"])
        .arg(executable)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start qemu-aarch64: xtask/prepare install")?;
    let log = child.stderr.take().context("qemu has no log")?;
    let addresses = BufReader::new(log)
        .split(b'\n')
        .map(|line| Ok(address(&line?)))
        .filter_map(Result::transpose)
        .collect::<Result<Vec<u64>>>()?;
    let mut printed = String::new();
    let mut output = child.stdout.take().context("the program has no output")?;
    output
        .read_to_string(&mut printed)
        .context("the program's output is not text")?;
    ensure!(child.wait()?.success(), "the program failed");
    with_counts(&printed, &addresses)
}

/// The instruction of a line such as `Trace 0: 0x7f8f13000100 [0000000000001001/0000000000221c80/00000001/00000201]`.
fn address(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?.strip_prefix("Trace ")?;
    u64::from_str_radix(line.split('/').nth(1)?, 16).ok()
}

/// The rows that the program printed, behind the address of the mark, each with the instructions of its call. The first
/// row's is a function that only returns.
fn with_counts(printed: &str, addresses: &[u64]) -> Result<String> {
    let (mark, rows) = printed.split_once('\n').context("there is no mark")?;
    let mark = u64::from_str_radix(mark, 16).context("the mark is no address")?;
    let gaps: Vec<usize> = addresses
        .split(|&address| address == mark)
        .map(<[u64]>::len)
        .collect();
    let rows: Vec<&str> = rows.lines().collect();
    // Before the first mark, between the two of each call, and behind each of those.
    ensure!(
        gaps.len() == 2 * rows.len() + 1,
        "{} marks for {} calls",
        gaps.len() - 1,
        rows.len()
    );
    let calls = gaps.iter().skip(1).step_by(2);
    let of_nothing = gaps[1];
    let mut csv = HEADER.to_owned();
    for (row, instructions) in rows.iter().zip(calls).skip(1) {
        let own = instructions
            .checked_sub(of_nothing)
            .context("a call is shorter than one of nothing")?;
        csv += &format!("{row},{}\n", own + NOTHING);
    }
    Ok(csv)
}

/// What the function that does nothing executes: it sets its result and returns.
const NOTHING: usize = 2;

/// One row for each function, one column for each size: musl's count, ours, and how many times ours musl's is.
fn table(csv: &str) -> Result<String> {
    let mut means: Vec<(&str, &str, [Vec<f64>; 2])> = Vec::new();
    for line in csv.lines().skip(1) {
        let columns: Vec<&str> = line.split(',').collect();
        let [function, size, _, _, whose, instructions] = columns[..] else {
            anyhow::bail!("cannot understand the row `{line}`");
        };
        if means
            .last()
            .is_none_or(|last| (last.0, last.1) != (function, size))
        {
            means.push((function, size, [Vec::new(), Vec::new()]));
        }
        if let Some((_, _, [musl, own])) = means.last_mut() {
            let counts = if whose == "musl" { musl } else { own };
            counts.push(instructions.parse()?);
        }
    }
    let mut text = "| function | bytes | musl | reheap | musl : reheap |\n\
                    | --- | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for (function, size, counts) in means {
        let [musl, own] = counts.map(|counts| counts.iter().sum::<f64>() / counts.len() as f64);
        text += &format!(
            "| {function} | {size} | {musl:.0} | {own:.0} | {:.1} |\n",
            musl / own
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "40\nnothing,0,0,0,nobody\nstrlen,7,0,0,reheap\nstrlen,7,0,0,musl\n\
                           strlen,7,1,1,reheap\nstrlen,7,1,1,musl\n";

    /// The addresses of calls that take so many instructions more than nothing.
    fn calls(more: [usize; 4]) -> Vec<u64> {
        let mut addresses = vec![1, 2, 0x40, 3, 4, 5, 0x40, 6];
        for more in more {
            addresses.push(0x40);
            addresses.extend(vec![7; 3 + more]);
            addresses.extend([0x40, 8, 9]);
        }
        addresses
    }

    #[test]
    fn what_lies_between_two_marks_is_counted_less_the_calling() {
        let csv = with_counts(PRINTED, &calls([4, 20, 6, 30])).unwrap();
        assert_eq!(csv.lines().nth(1), Some("strlen,7,0,0,reheap,6"));
        let table = table(&csv).unwrap();
        assert_eq!(table.lines().nth(2), Some("| strlen | 7 | 27 | 7 | 3.9 |"));
    }

    #[test]
    fn a_call_without_its_mark_is_an_error() {
        let mut addresses = calls([1, 1, 1, 1]);
        addresses.truncate(addresses.len() - 3);
        assert!(with_counts(PRINTED, &addresses).is_err());
    }

    #[test]
    fn a_line_of_the_log_has_the_address_of_the_instruction() {
        let line =
            b"Trace 0: 0x7f8f13000100 [0000000000001001/0000000000221c80/00000001/00000201] ";
        assert_eq!(address(line), Some(0x22_1c80));
        assert_eq!(address(b"something else"), None);
    }
}
