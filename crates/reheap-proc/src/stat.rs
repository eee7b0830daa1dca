//! The line of `/proc/PID/stat` (proc_pid_stat(5)), as a value.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// What `stat` says of a process, or of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The first 15 bytes of the program's name, or what it calls itself.
    pub name: OsString,
    /// `R` runs or could, `S` and `D` wait, `Z` and `X` have ended.
    pub state: u8,
    /// The fields from the parent on, which is field 4. What a kernel does not tell is missing.
    fields: Vec<i64>,
}

impl Stat {
    /// Reads that of a process; `None` if there is none of that number.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads that of a thread of a process.
    pub fn of_thread(pid: u32, tid: u32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?)
    }

    /// The name, in brackets, may contain anything, brackets too.
    fn parse(line: &[u8]) -> Option<Self> {
        let (open, close) = (memchr::memchr(b'(', line)?, memchr::memrchr(b')', line)?);
        let name = line.get(open + 1..close)?;
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        let mut words = rest.split_ascii_whitespace();
        Some(Self {
            name: OsString::from_vec(name.to_vec()),
            state: *words.next()?.as_bytes().first()?,
            // Sizes of the address space may be larger, and nobody asks for them.
            fields: words.map(|word| word.parse().unwrap_or(-1)).collect(),
        })
    }

    /// A field by its number in the manual.
    fn field(&self, number: usize) -> Option<i64> {
        self.fields.get(number - 4).copied()
    }

    fn count(&self, number: usize) -> u64 {
        self.field(number).unwrap_or(0).max(0).unsigned_abs()
    }

    /// Whether nothing is left of the process but its exit status.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// The process that forked it, or that took it over.
    pub fn parent(&self) -> Option<u32> {
        u32::try_from(self.field(4)?).ok()
    }

    /// Page faults that needed no disk.
    pub fn minor_faults(&self) -> u64 {
        self.count(10)
    }

    /// Page faults that needed one.
    pub fn major_faults(&self) -> u64 {
        self.count(12)
    }

    /// CPU time in the program, in ticks.
    pub fn user_ticks(&self) -> u64 {
        self.count(14)
    }

    /// CPU time in the kernel, in ticks.
    pub fn system_ticks(&self) -> u64 {
        self.count(15)
    }

    /// When it was forked, in ticks since the system's start: with its number, this tells processes apart.
    pub fn born(&self) -> u64 {
        self.count(22)
    }

    /// What its parent will be told; 0 until it has ended, and for those who may not know.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        Some(ExitStatus::from_raw(i32::try_from(self.field(52)?).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_moves_no_field() {
        let line = b"7 (a) b) (c) R 3 7 7 0 -1 4194304 110 0 5 0 21 9 0 0 20 0 1 0 12345 18446744073709551615\n";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat.name, "a) b) (c");
        assert_eq!((stat.state, stat.parent()), (b'R', Some(3)));
        assert_eq!((stat.minor_faults(), stat.major_faults()), (110, 5));
        assert_eq!((stat.user_ticks(), stat.system_ticks()), (21, 9));
        assert_eq!((stat.born(), stat.exit_status()), (12345, None));
    }

    #[test]
    fn a_process_that_has_ended_keeps_its_exit_status() {
        let mut child = std::process::Command::new("false").spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let ended = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), ended).unwrap();
        let stat = Stat::of(child.id()).unwrap();
        assert!(stat.has_ended());
        assert_eq!(stat.exit_status().and_then(|status| status.code()), Some(1));
        assert_eq!(stat.parent(), Some(std::process::id()));
        child.wait().unwrap();
    }
}
