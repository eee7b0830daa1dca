//! The processes below another one: what a command started, and what those started.
//!
//! Neither process groups nor sessions say that, because daemons leave both. Parents do, as long as orphans stay in the
//! tree; the launcher sees to that (`sys.rs`).

use crate::process;
use crate::stat::Stat;
use rustix::process::{Pid, Signal, getpgid, getpid, kill_process, kill_process_group};
use std::collections::BTreeSet;
use std::fs;

/// All processes below this one, as far as `/proc` shows them: what starts meanwhile may be missing, so whoever wants
/// to end them asks again.
pub fn descendants(root: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        let Some(children) = children(number(parent), usize::MAX) else {
            return descendants_by_parent(root);
        };
        let children: Vec<Pid> = children.into_iter().filter_map(pid).collect();
        found.extend(&children);
        parents.extend(children);
    }
    found
}

/// Sends a signal to everything below this process.
///
/// To process groups where possible: the kernel signals a group at once, so a process that forks all the time does not
/// get away. The group of the root itself is left alone.
pub fn signal_descendants(root: Pid, signal: Signal) {
    let own = getpgid(Some(root)).unwrap_or(root);
    let mut groups = BTreeSet::new();
    for process in descendants(root) {
        // An error says that the process has just ended, or belongs to another user; the caller sees what is left.
        match getpgid(Some(process)) {
            Ok(group) if group != own => {
                if groups.insert(group.as_raw_nonzero()) {
                    let _ = kill_process_group(group, signal);
                }
            }
            _ => {
                let _ = kill_process(process, signal);
            }
        }
    }
}

/// Kills everything below this process, without waiting for it. One by one: what was not measured, as a compiler, may
/// be in the group that this process shares with whoever started it.
pub fn kill_own_descendants() {
    // All are found before the first one ends, because orphans leave the tree with the launcher.
    for process in descendants(getpid()) {
        // An error says that it has just ended.
        let _ = kill_process(process, Signal::KILL);
    }
}

/// The children of the threads of a process, or of so many of these; none if this kernel does not list them
/// (CONFIG_PROC_CHILDREN).
pub fn children(parent: u32, threads_max: usize) -> Option<Vec<u32>> {
    let mut children = Vec::new();
    let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else {
        return Some(children); // it has ended
    };
    for thread in threads
        .flatten()
        .take(threads_max)
        .map(|entry| entry.path())
    {
        match fs::read_to_string(thread.join("children")) {
            Ok(list) => children.extend(list.split_whitespace().flat_map(str::parse::<u32>)),
            Err(_) if thread.join("stat").exists() => return None,
            Err(_) => {} // the thread has ended
        }
    }
    Some(children)
}

/// All processes below one, found by the parent that each process of the machine names: slower, and always there.
fn descendants_by_parent(root: Pid) -> Vec<Pid> {
    let all = process::all().unwrap_or_default();
    let pairs: Vec<(Pid, Pid)> = all
        .into_iter()
        .filter_map(|number| Some((pid(number)?, pid(Stat::of(number)?.parent()?)?)))
        .collect();
    let mut found = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        let children: Vec<Pid> = pairs
            .iter()
            .filter(|pair| pair.1 == parent)
            .map(|pair| pair.0)
            .collect();
        found.extend(&children);
        parents.extend(children);
    }
    found
}

/// The number of a process, as `/proc` has it.
pub fn number(process: Pid) -> u32 {
    process.as_raw_nonzero().get().unsigned_abs()
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(number.try_into().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn both_ways_find_children_and_grandchildren() {
        let script = "sh -c 'sleep 1000 & echo $! $$; wait' & wait";
        let mut shell = Command::new("/bin/sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let mut expected: Vec<Pid> = line
            .split_whitespace()
            .filter_map(|word| pid(word.parse().ok()?))
            .collect();
        expected.sort_unstable_by_key(|pid| pid.as_raw_nonzero());

        let root = Pid::from_child(&shell);
        for mut found in [descendants(root), descendants_by_parent(root)] {
            found.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
            assert_eq!(found, expected);
        }
        for process in expected {
            kill_process(process, Signal::KILL).unwrap();
        }
        shell.wait().unwrap();
    }
}
