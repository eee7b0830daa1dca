//! Resident memory averaged over time, by looking at the processes of a command now and then.
//!
//! The peak says what a machine must have; the average says what a process costs that stays: an allocator may give
//! memory back, which the peak does not show. There is no such figure in the kernel, so it is sampled from
//! `/proc/PID/statm`. (`smaps_rollup` would also tell what is shared, but it walks the page tables with the lock held
//! that page faults need: it would slow down what it measures.) Pages that processes share are counted for each.

use reheap_proc::by_number;
use reheap_proc::tree::{descendants, number};
use rustix::process::Pid;
use std::time::{Duration, Instant};

const INTERVAL_MIN: Duration = Duration::from_millis(1);
const INTERVAL_MAX: Duration = Duration::from_millis(10);
/// The interval is this part of the time that has passed, so that short commands get samples and long ones get few.
const INTERVALS_OF_ELAPSED: u32 = 32;
/// The interval is at least this many times what the last look took: looking takes 1 % of one processor at most, and
/// many processes are looked at less often.
const INTERVALS_OF_COST: u32 = 100;

/// Samples of one run.
pub(crate) struct Resident {
    began: Instant,
    due: Instant,
    latest: Option<(Instant, u64)>,
    samples: usize,
    /// From the first sample to the latest.
    byte_seconds: f64,
    seconds: f64,
}

impl Resident {
    pub(crate) fn new(began: Instant) -> Resident {
        Resident {
            began,
            due: began + INTERVAL_MIN,
            latest: None,
            samples: 0,
            byte_seconds: 0.0,
            seconds: 0.0,
        }
    }

    /// When the next sample is to be taken.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Takes a sample of all processes below the launcher, if it is time.
    pub(crate) fn look(&mut self, launcher: Pid) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        // Nothing is there before the command's first instruction, and when it has just ended.
        match resident_bytes_below(launcher) {
            0 => {}
            bytes => self.add(now, bytes),
        }
        let interval =
            ((now - self.began) / INTERVALS_OF_ELAPSED).clamp(INTERVAL_MIN, INTERVAL_MAX);
        self.due = now + interval.max(now.elapsed() * INTERVALS_OF_COST);
    }

    /// The mean over time; none if it was too short to see anything.
    pub(crate) fn mean(&mut self, ended: Instant) -> Option<u64> {
        if self.samples < 2 {
            return None;
        }
        self.extend_latest(ended);
        Some((self.byte_seconds / self.seconds) as u64)
    }

    fn add(&mut self, now: Instant, bytes: u64) {
        self.extend_latest(now);
        self.latest = Some((now, bytes));
        self.samples += 1;
    }

    /// What was seen is taken to have lasted until something else is seen.
    fn extend_latest(&mut self, until: Instant) {
        if let Some((since, bytes)) = self.latest {
            let seconds = until.saturating_duration_since(since).as_secs_f64();
            self.byte_seconds += bytes as f64 * seconds;
            self.seconds += seconds;
        }
    }
}

fn resident_bytes_below(root: Pid) -> u64 {
    let processes = descendants(root).into_iter();
    processes.filter_map(resident_bytes).sum()
}

/// None if the process has ended.
fn resident_bytes(process: Pid) -> Option<u64> {
    by_number::resident_bytes(number(process))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, kill_process_group};
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::thread;

    #[test]
    fn the_mean_is_weighted_by_time() {
        let began = Instant::now();
        let at = |milliseconds| began + Duration::from_millis(milliseconds);
        let mut resident = Resident::new(began);
        resident.add(at(100), 1000);
        resident.add(at(200), 4000);
        // 1000 bytes for 100 ms, 4000 for 300.
        assert_eq!(resident.mean(at(500)), Some(3250));
    }

    #[test]
    fn one_look_is_no_mean() {
        let began = Instant::now();
        let mut resident = Resident::new(began);
        resident.add(began, 1000);
        assert_eq!(resident.mean(began + Duration::from_secs(1)), None);
    }

    #[test]
    fn it_is_not_looked_before_it_is_time() {
        let mut resident = Resident::new(Instant::now() + Duration::from_secs(1000));
        resident.look(rustix::process::getpid());
        assert_eq!(resident.samples, 0);
    }

    #[test]
    fn all_processes_of_a_command_are_looked_at_and_their_parent_is_not() {
        // Each dd holds its buffer while nobody reads what it wrote.
        let dd = "dd if=/dev/zero bs=32M count=1 | sleep 1000";
        let script = format!("{dd} & {dd} & wait");
        let mut shell = Command::new("/bin/sh")
            .args(["-c", &script])
            .process_group(0)
            .spawn()
            .unwrap();
        let root = Pid::from_child(&shell);
        let is_big = |process: &Pid| resident_bytes(*process).unwrap_or(0) >= 32 << 20;
        while descendants(root)
            .iter()
            .filter(|process| is_big(process))
            .count()
            < 2
        {
            thread::yield_now();
        }
        let bytes = resident_bytes_below(root);
        kill_process_group(root, Signal::KILL).unwrap();
        shell.wait().unwrap();
        assert!((64 << 20..128 << 20).contains(&bytes), "{bytes}");
    }
}
