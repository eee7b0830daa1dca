//! What a command writes, while it writes it: counted, hashed, and only its ends kept, because a command may print more
//! than there is memory.

use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::mem;

/// How much is kept of the beginning, and of the end.
const KEPT_BYTES: usize = 64 * 1024;
/// The rest of a longer line is not looked at. Reports in JSON are often one line.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// What a command wrote to one of its outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// How much it was.
    pub bytes: u64,
    /// The SHA-256 of all of it, in hexadecimal.
    pub sha256: String,
    /// The first 64 KiB.
    pub head: Vec<u8>,
    /// The last 64 KiB of what follows the head.
    pub tail: Vec<u8>,
}

impl Output {
    /// All of it, if that is short enough to have been kept.
    pub fn whole(&self) -> Option<Cow<'_, [u8]>> {
        if self.bytes != (self.head.len() + self.tail.len()) as u64 {
            None
        } else if self.tail.is_empty() {
            Some(Cow::Borrowed(&self.head))
        } else {
            Some(Cow::Owned([self.head.as_slice(), &self.tail].concat()))
        }
    }

    /// The last lines, for a message: at most this many, without white space around them.
    pub fn last_lines(&self, count: usize) -> String {
        let end = self.whole().unwrap_or(Cow::Borrowed(&self.tail));
        let text = String::from_utf8_lossy(&end);
        let lines: Vec<&str> = text.trim().lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }
}

/// Which of its outputs a command wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Stdout,
    Stderr,
}

/// Sees the lines of the outputs, while the command runs. A carriage return ends a line too, because programs that show
/// their progress write each state of it over the one before.
pub(crate) type OnLine<'a> = dyn FnMut(Source, &[u8]) + 'a;

/// Takes an output in as it comes.
pub(crate) struct Recorder {
    source: Source,
    bytes: u64,
    hash: Sha256,
    head: Vec<u8>,
    tail: Vec<u8>,
    line: Vec<u8>,
}

impl Recorder {
    pub(crate) fn new(source: Source) -> Recorder {
        Recorder {
            source,
            bytes: 0,
            hash: Sha256::new(),
            head: Vec::new(),
            tail: Vec::new(),
            line: Vec::new(),
        }
    }

    /// Takes the next piece in, and shows each line that it completes, without its end.
    pub(crate) fn record(&mut self, piece: &[u8], on_line: Option<&mut OnLine<'_>>) {
        self.bytes += piece.len() as u64;
        self.hash.update(piece);
        self.keep(piece);
        if let Some(on_line) = on_line {
            self.split(piece, on_line);
        }
    }

    /// Shows the last line, if it has no end, and gives everything away.
    pub(crate) fn finish(&mut self, on_line: Option<&mut OnLine<'_>>) -> Output {
        if let Some(on_line) = on_line
            && !self.line.is_empty()
        {
            on_line(self.source, &self.line);
        }
        let surplus = self.tail.len().saturating_sub(KEPT_BYTES);
        self.tail.drain(..surplus);
        let done = mem::replace(self, Recorder::new(self.source));
        Output {
            bytes: done.bytes,
            sha256: hex::encode(done.hash.finalize()),
            head: done.head,
            tail: done.tail,
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        let (to_head, to_tail) = piece.split_at(piece.len().min(KEPT_BYTES - self.head.len()));
        self.head.extend_from_slice(to_head);
        let to_tail = &to_tail[to_tail.len().saturating_sub(KEPT_BYTES)..];
        self.tail.extend_from_slice(to_tail);
        if self.tail.len() > 4 * KEPT_BYTES {
            self.tail.drain(..self.tail.len() - KEPT_BYTES);
        }
    }

    fn split(&mut self, piece: &[u8], on_line: &mut OnLine<'_>) {
        let mut start = 0;
        for end in memchr::memchr2_iter(b'\n', b'\r', piece) {
            self.extend_line(&piece[start..end]);
            on_line(self.source, &self.line);
            self.line.clear();
            start = end + 1;
        }
        self.extend_line(&piece[start..]);
    }

    fn extend_line(&mut self, part: &[u8]) {
        let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
        self.line.extend_from_slice(&part[..part.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(pieces: &[&[u8]]) -> (Output, Vec<String>) {
        let mut lines = Vec::new();
        let mut on_line = |source: Source, line: &[u8]| {
            assert_eq!(source, Source::Stderr);
            lines.push(String::from_utf8_lossy(line).into_owned());
        };
        let mut recorder = Recorder::new(Source::Stderr);
        for piece in pieces {
            recorder.record(piece, Some(&mut on_line));
        }
        let output = recorder.finish(Some(&mut on_line));
        (output, lines)
    }

    #[test]
    fn the_hash_is_that_of_the_standard_however_the_output_comes_in_pieces() {
        // FIPS 180-4's example for "abc".
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(recorded(&[b"abc"]).0.sha256, expected);
        assert_eq!(recorded(&[b"a", b"", b"bc"]).0.sha256, expected);
    }

    #[test]
    fn short_output_is_kept_whole() {
        let (output, _) = recorded(&[&[b'x'; KEPT_BYTES], b"yz"]);
        assert_eq!(output.whole().unwrap().len(), KEPT_BYTES + 2);
        assert!(output.whole().unwrap().ends_with(b"xyz"));
        assert_eq!(recorded(&[b"ab", b"c"]).0.whole().unwrap(), &b"abc"[..]);
    }

    #[test]
    fn of_long_output_both_ends_are_kept() {
        let pieces: Vec<Vec<u8>> = (0..100_u8).map(|number| vec![number; 10_000]).collect();
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let (output, _) = recorded(&pieces);
        let all = pieces.concat();
        assert_eq!(output.bytes, all.len() as u64);
        assert_eq!(output.whole(), None);
        assert_eq!(output.head, all[..KEPT_BYTES]);
        assert_eq!(output.tail, all[all.len() - KEPT_BYTES..]);
    }

    #[test]
    fn lines_are_seen_whole_whatever_the_pieces_and_their_ends() {
        let (_, lines) = recorded(&[b"one\ntw", b"o\n", b"\nthr", b"ee"]);
        assert_eq!(lines, ["one", "two", "", "three"]);
        let (_, progress) = recorded(&[b"1 of 2\r2 of", b" 2\rdone\r\n"]);
        assert_eq!(progress, ["1 of 2", "2 of 2", "done", ""]);
    }

    #[test]
    fn a_long_line_takes_bounded_memory_and_is_cut_off_at_one_place_however_it_comes() {
        let text = [&[b'x'; 3 * LINE_BYTES_MAX][..], b"y\nshort\n"].concat();
        let in_pieces: Vec<&[u8]> = text.chunks(5_000).collect();
        for pieces in [vec![text.as_slice()], in_pieces] {
            let (_, lines) = recorded(&pieces);
            let lengths: Vec<usize> = lines.iter().map(String::len).collect();
            assert_eq!(lengths, [LINE_BYTES_MAX, "short".len()]);
        }
    }

    #[test]
    fn a_message_quotes_the_last_lines() {
        let (output, _) = recorded(&[b"one\ntwo\nthree\n\n"]);
        assert_eq!(output.last_lines(2), "two\nthree");
        assert_eq!(output.last_lines(9), "one\ntwo\nthree");
        let message = format!("cannot open {}", "x".repeat(KEPT_BYTES - 7));
        let (output, _) = recorded(&[message.as_bytes()]);
        assert_eq!(output.last_lines(1), message);
    }
}
