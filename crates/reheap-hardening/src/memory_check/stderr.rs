//! What a command writes on stderr, and what it had written when a process got a signal.
//!
//! All processes write into one pipe, and messages do not say who wrote them. But an allocator that ends a process
//! writes just before, so the thread that sees the signal first takes in what is in the pipe. Rejected: a socket, which
//! names the writer, and which nobody can open as `/dev/stderr`.

use crate::addresses::without_addresses;
use reheap_allocators::complaints::Complaints;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use std::collections::{HashMap, VecDeque};
use std::io::{self, PipeReader, Read as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many of the last lines are kept.
const LAST_LINES: usize = 5;
/// How many different complaints of one run are kept.
const COMPLAINTS_MAX: usize = 100;
/// How long a line may be. Of a longer one, the end is kept, and the complaints in it.
const LINE_BYTES_MAX: usize = 4096;
/// Enough for any complaint: so much is looked through again when a line goes on.
const COMPLAINT_BYTES_MAX: usize = 1000;

/// What a command wrote.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// What an allocator wrote about a misuse, each once.
    pub(super) complaints: Vec<String>,
    /// What looks like an allocator's last words, but no process got a signal then.
    pub(super) late: Vec<String>,
    pub(super) last: VecDeque<String>,
    /// What had been written when a process got its last signal, by process.
    pub(super) moments: HashMap<i32, Moment>,
    /// How many different complaints there were when a process got its last signal.
    before_signal: usize,
    /// How many complaints there were, with those that came again.
    said: usize,
    last_complaint: Option<String>,
}

/// What had been written at some time.
#[derive(Debug, Clone, Default)]
pub(super) struct Moment {
    /// How many complaints.
    pub(super) said: usize,
    /// The last of them.
    pub(super) complaint: Option<String>,
    /// The last line.
    pub(super) line: Option<String>,
}

impl Moment {
    /// Whether nothing was written after the last complaint.
    pub(super) fn ends_with_complaint(&self) -> bool {
        self.complaint.is_some() && self.complaint == self.line
    }
}

impl Words {
    fn add(&mut self, line: &[u8], complaints: &Complaints) {
        let mut rest = line;
        while let Some(complaint) = complaints.find(rest) {
            self.add_line(&rest[..complaint.start]);
            let end = complaint.end.min(complaint.start + COMPLAINT_BYTES_MAX);
            self.complain(&rest[complaint.start..end]);
            rest = &rest[complaint.end..];
        }
        self.add_line(rest);
    }

    fn complain(&mut self, text: &[u8]) {
        let text = in_words(text);
        self.said += 1;
        self.add_line(text.as_bytes());
        let key = without_addresses(&text);
        let mut before = self.complaints.iter();
        if !before.any(|complaint| without_addresses(complaint) == key)
            && self.complaints.len() < COMPLAINTS_MAX
        {
            self.complaints.push(text.clone());
        }
        self.last_complaint = Some(text);
    }

    fn add_line(&mut self, line: &[u8]) {
        let line = in_words(line);
        if line.is_empty() {
            return;
        }
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }
}

fn in_words(text: &[u8]) -> String {
    String::from_utf8_lossy(text).trim_end().to_owned()
}

/// The reading end of the pipe.
pub(super) struct Stderr<'a> {
    pipe: PipeReader,
    complaints: &'a Complaints,
    read_so_far: Mutex<ReadSoFar>,
}

#[derive(Default)]
struct ReadSoFar {
    words: Words,
    /// A line that has not ended.
    line: Vec<u8>,
}

#[derive(PartialEq, Eq)]
enum Rest {
    MayCome,
    Nothing,
}

impl<'a> Stderr<'a> {
    pub(super) fn new(pipe: PipeReader, complaints: &'a Complaints) -> io::Result<Self> {
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        Ok(Self {
            pipe,
            complaints,
            read_so_far: Mutex::default(),
        })
    }

    /// Takes in all until every process has closed it.
    pub(super) fn read(&self) -> io::Result<()> {
        loop {
            let mut events = [PollFd::new(&self.pipe, PollFlags::IN)];
            match poll(&mut events, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if self.take_in(&mut self.lock())? == Rest::Nothing {
                return Ok(());
            }
        }
    }

    /// Notes what was written until now, when a process waits for a signal.
    pub(super) fn signalled(&self, process: i32) {
        let mut read_so_far = self.lock();
        // If the pipe cannot be read, `read` says so.
        let _ = self.take_in(&mut read_so_far);
        let ReadSoFar { words, line } = &mut *read_so_far;
        // What an allocator writes last may have no end of the line.
        if self.complaints.find(line).is_some() {
            words.add(line, self.complaints);
            line.clear();
        }
        let unfinished = Some(in_words(line)).filter(|line| !line.is_empty());
        let moment = Moment {
            said: words.said,
            complaint: words.last_complaint.clone(),
            line: unfinished.or_else(|| words.last.back().cloned()),
        };
        words.moments.insert(process, moment);
        words.before_signal = words.complaints.len();
    }

    pub(super) fn into_words(self) -> Words {
        let read_so_far = self.read_so_far.into_inner();
        let ReadSoFar { mut words, line } = read_so_far.unwrap_or_else(PoisonError::into_inner);
        words.add(&line, self.complaints);
        // What an allocator says before it ends a process is somebody else's text if no process gets a signal then.
        if self.complaints.are_last_words() {
            words.late = words.complaints.split_off(words.before_signal);
        }
        words
    }

    fn lock(&self) -> MutexGuard<'_, ReadSoFar> {
        self.read_so_far
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what there is.
    fn take_in(&self, to: &mut ReadSoFar) -> io::Result<Rest> {
        let mut buffer = [0; 16 << 10];
        loop {
            match (&self.pipe).read(&mut buffer) {
                Ok(0) => return Ok(Rest::Nothing),
                Ok(count) => to.add(&buffer[..count], self.complaints),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Rest::MayCome);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl ReadSoFar {
    fn add(&mut self, bytes: &[u8], complaints: &Complaints) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.words.add(&self.line, complaints);
                self.line.clear();
            } else if self.line.len() > LINE_BYTES_MAX {
                self.shorten(complaints);
            }
        }
    }

    /// Takes what is in the first part of a long line out of it.
    fn shorten(&mut self, complaints: &Complaints) {
        let kept = self.line.len() - COMPLAINT_BYTES_MAX;
        match complaints.find(&self.line) {
            Some(found) if found.start >= kept => drop(self.line.drain(..found.start)),
            Some(found) => {
                let end = found.end.min(found.start + COMPLAINT_BYTES_MAX);
                self.words.add(&self.line[..end], complaints);
                self.line.drain(..end);
            }
            None => drop(self.line.drain(..kept)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn words(parts: &[&[u8]]) -> Words {
        let (reader, mut writer) = io::pipe().unwrap();
        let stderr = Stderr::new(reader, &Complaints::MIMALLOC).unwrap();
        for (number, part) in parts.iter().enumerate() {
            writer.write_all(part).unwrap();
            stderr.signalled(number as i32);
        }
        drop(writer);
        stderr.read().unwrap();
        stderr.into_words()
    }

    const TWICE: &str = "mimalloc: error: double free detected of block 0x10 with size 80";

    #[test]
    fn a_complaint_is_found_in_a_line_of_any_length_and_between_two_reads() {
        let x = |count| vec![b'x'; count];
        for before in [0, 10, 900, 3095, 3096, 4000, 5000, 20_000] {
            for split in [1, 20, 60] {
                let line = [&x(before)[..], TWICE.as_bytes()].concat();
                let (first, second) = line.split_at(before + split);
                let mut read_so_far = ReadSoFar::default();
                read_so_far.add(first, &Complaints::MIMALLOC);
                read_so_far.add(second, &Complaints::MIMALLOC);
                read_so_far.add(b"\n", &Complaints::MIMALLOC);
                let complaints = read_so_far.words.complaints;
                assert_eq!(complaints, [TWICE], "{before} {split}");
            }
        }
    }

    #[test]
    fn each_different_complaint_is_kept_once() {
        let again = "mimalloc: error: double free detected of block 0x20 with size 80";
        let other = "mimalloc: error: double free detected of block 0x20 with size 640";
        let text = [TWICE, again, other].join("\n");
        assert_eq!(words(&[text.as_bytes()]).complaints, [TWICE, other]);
    }

    #[test]
    fn last_words_that_no_signal_follows_are_somebody_elses() {
        let of = |complaints, text: &[u8]| {
            let (reader, mut writer) = io::pipe().unwrap();
            let stderr = Stderr::new(reader, complaints).unwrap();
            writer.write_all(b"free(): invalid size\n").unwrap();
            stderr.signalled(1);
            writer.write_all(text).unwrap();
            drop(writer);
            stderr.read().unwrap();
            stderr.into_words().complaints
        };
        let text = b"checks 'free(): invalid pointer' ... ok\n";
        assert_eq!(of(&Complaints::GLIBC, text), ["free(): invalid size"]);
        assert_eq!(of(&Complaints::MIMALLOC, TWICE.as_bytes()), [TWICE]);
    }

    #[test]
    fn the_moment_of_a_signal_has_what_was_written_before() {
        let words = words(&[b"first\nwithout end", TWICE.as_bytes(), b"\nlast\n"]);
        let line = |number: i32| words.moments[&number].line.as_deref();
        assert_eq!(
            [line(0), line(1), line(2)],
            [Some("without end"), Some(TWICE), Some("last")]
        );
        let said = |number: i32| words.moments[&number].said;
        assert_eq!([said(0), said(1), said(2)], [0, 1, 1]);
        assert!(words.moments[&1].ends_with_complaint());
        assert!(!words.moments[&2].ends_with_complaint());
    }
}
