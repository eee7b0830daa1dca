//! Watches a process that runs already, and leaves it as it was.

use super::{HOOKS_PATIENCE, injected, library, no_thread};
use anyhow::Context as _;
use reheap_command::interrupt;
use reheap_command::ui::{self, Failure};
use reheap_proc::status::Status;
use reheap_profile::inject::{self, HooksLibrary, Left};
use reheap_profile::observer::{INTERVAL, Observer};
use reheap_profile::profile::Ending;
use reheap_subject::limits;
use reheap_workshop::workshop::Workshop;
use std::fs;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Watches for that time, until Ctrl-C, or until the process ends; gives the process's own command line.
pub(super) fn watch(
    pid: u32,
    time: Duration,
    observer: &mut Observer,
    workshop: &Workshop,
) -> anyhow::Result<(Vec<String>, Ending)> {
    let cannot = || format!("cannot profile process {pid}");
    let hooks = fs::read(library(None, workshop)?).with_context(cannot)?;
    let hooks = HooksLibrary::parse(&hooks).with_context(cannot)?;
    let command = command_line(pid);
    refuse_another_user(pid)?;
    let target = inject::Target::of_process(pid as i32).with_context(cannot)?;
    refuse_too_low_a_limit(pid, observer.recording().bytes())?;
    let interrupted = interrupt::on_signals()?;
    let recording = observer.recording().path();
    observer.attaches_to(pid);
    observer.begin().map_err(no_thread)?;
    let attached = inject::attach(&target, &hooks, &recording).with_context(cannot)?;
    if attached.was_left_by_another() {
        ui::note(&format!(
            "an earlier reheap was killed while it watched process {pid}: its hooks are out of the code now, and their memory stays mapped"
        ));
    }
    observer.injected(injected(attached.injection()));
    observer.sample_cpu_time(pid);
    let goes_on = || !interrupted.load(Ordering::SeqCst) && Observer::is_there(pid);
    while observer.elapsed() < time && goes_on() {
        observer.look();
        thread::sleep(INTERVAL);
    }
    observer.look_last();
    let inside = || observer.inside();
    let left = attached.detach(&inside, HOOKS_PATIENCE);
    match left.with_context(|| format!("cannot leave process {pid}"))? {
        Left::Nothing | Left::NoProcess => {}
        Left::Memory { bytes } => ui::note(&format!(
            "warning: a thread of process {pid} waits inside malloc, so {bytes} bytes of address space stay mapped in it"
        )),
    }
    Ok((command, Ending::Detached))
}

/// A process opens what it shares with reheap as itself, which the kernel allows only to the same user. And reheap opens
/// what the process names, which root must not do for others.
fn refuse_another_user(pid: u32) -> anyhow::Result<()> {
    // Why there is no process is said later.
    let user = Status::of(pid).and_then(|status| status.effective_user());
    let own = rustix::process::geteuid().as_raw();
    match user {
        Some(user) if user != own => {
            let text = format!(
                "cannot profile process {pid}: it runs as the user {user}, and reheap as {own}"
            );
            let hint = format!("sudo -u '#{user}' reheap profile --pid {pid}");
            Err(Failure::failed(text).hint(hint).into())
        }
        _ => Ok(()),
    }
}

/// A process maps all that it shares with reheap.
fn refuse_too_low_a_limit(pid: u32, needed: u64) -> anyhow::Result<()> {
    let cannot = || format!("cannot read the limits of process {pid}");
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).with_context(cannot)?;
    let limit = text
        .lines()
        .find_map(|line| line.strip_prefix("Max address space"));
    // The one in force (proc_pid_limits(5)); not a number if there is none.
    let limit = limit.and_then(|columns| columns.split_whitespace().next()?.parse::<u64>().ok());
    match limit.filter(|limit| *limit < needed) {
        Some(limit) => {
            let (needed, limit) = (limits::shown(needed), limits::shown(limit));
            let text = format!(
                "cannot profile process {pid}: the hooks need {needed} of address space, though little memory, and its \
                 limit is {limit}"
            );
            let hint = format!("lift it with `prlimit --pid {pid} --as=unlimited`");
            Err(Failure::failed(text).hint(hint).into())
        }
        None => Ok(()),
    }
}

fn command_line(pid: u32) -> Vec<String> {
    words(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default())
}

/// The words of a command line, each of which ends with a zero. Where a process has given itself a shorter title, zeroes
/// follow.
fn words(line: &[u8]) -> Vec<String> {
    let end = line.iter().rposition(|byte| *byte != 0);
    let words = line[..end.map_or(0, |last| last + 1)].split(|byte| *byte == 0);
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn what_is_behind_a_title_is_no_word() {
        assert_eq!(words(b"server *:80\0\0\0\0"), ["server *:80"]);
        assert_eq!(words(b"sh\0-c\0\0true\0"), ["sh", "-c", "", "true"]);
        assert_eq!(words(b""), [""]);
    }
}
