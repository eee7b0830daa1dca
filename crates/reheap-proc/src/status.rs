//! The text of `/proc/PID/status` (proc_pid_status(5)), as a value.

use std::fmt::Display;
use std::fs;
use std::str::FromStr;

/// What `status` says of a process, or of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status(String);

impl Status {
    /// Reads that of the process or thread of that number, or of `self`. `None` if there is none.
    pub fn of(process: impl Display) -> Option<Self> {
        let text = fs::read(format!("/proc/{process}/status")).ok()?;
        Some(Self::parse(&text))
    }

    /// Keeps a text.
    pub fn parse(text: &[u8]) -> Self {
        Self(String::from_utf8_lossy(text).into_owned())
    }

    /// What is behind a name.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    }

    /// The first number behind a name.
    pub fn number<N: FromStr>(&self, name: &str) -> Option<N> {
        self.field(name)?.split_whitespace().next()?.parse().ok()
    }

    /// A size, which the kernel gives in KiB.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        let number = self.field(name)?.strip_suffix("kB")?.trim();
        number.parse::<u64>().ok()?.checked_mul(1024)
    }

    /// A set of signals or capabilities: the first of them is the lowest bit.
    pub fn set(&self, name: &str) -> Option<u64> {
        u64::from_str_radix(self.field(name)?, 16).ok()
    }

    /// The first 15 bytes of the program's name, or what it calls itself.
    pub fn name(&self) -> &str {
        self.field("Name").unwrap_or_default()
    }

    /// The second of the user's numbers: real, effective, saved, of the file system.
    pub fn effective_user(&self) -> Option<u32> {
        self.field("Uid")?.split_whitespace().nth(1)?.parse().ok()
    }

    /// Whether nothing is left of the process but its exit status.
    pub fn has_ended(&self) -> bool {
        self.field("State")
            .is_some_and(|state| state.starts_with(['Z', 'X']))
    }

    /// Whether it has memory of its own, as all but threads of the kernel have, and what has ended.
    pub fn has_memory(&self) -> bool {
        self.field("VmSize").is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = b"Name:\ta: b\nUid:\t1\t2\t3\t4\nState:\tZ (zombie)\nSigPnd:\t0000000000000101\nVmRSS:\t     12 kB\n";
        let status = Status::parse(text);
        assert_eq!(status.name(), "a: b");
        assert_eq!(
            (status.number("Uid"), status.effective_user()),
            (Some(1), Some(2))
        );
        assert_eq!(
            (status.bytes("VmRSS"), status.bytes("Vm")),
            (Some(12 << 10), None)
        );
        assert_eq!(status.set("SigPnd"), Some(0x101));
        assert!(status.has_ended() && !status.has_memory());
    }

    #[test]
    fn the_status_of_this_process_can_be_read() {
        let own = Status::of("self").unwrap();
        assert!(own.has_memory() && !own.has_ended());
        assert_eq!(own.number("Tgid"), Some(std::process::id()));
    }
}
