//! Reading bytes on demand, so that looking at a file of any size needs little memory.
//!
//! A library with debug information can have a gigabyte, and identification keeps only a few hundred of its names. So
//! no code here holds a whole file. It reads tables a few hundred entries at a time, and names by blocks. What it
//! searches from beginning to end goes through one buffer. A memory map would be less work. But its pages count as the
//! memory of this process, and if another process truncates the file meanwhile, this one dies.
//!
//! The caller decides where the bytes come from ([`Source`]): a slice, or an open file.

use std::ops::Range;

/// Names and words are read by blocks of this size.
const BLOCK_BYTES: u64 = 32 << 10;
/// The most blocks of one table that are kept: four megabytes.
const BLOCKS_MAX: u64 = 128;
/// Tables are read in pieces of about this size.
const PIECE_BYTES: u64 = 32 << 10;
/// What is searched from beginning to end is read in pieces of this size, which fit into a processor's cache.
const WALK_BYTES: u64 = 256 << 10;

/// Why bytes could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(pub String);

/// Bytes that can be read at any place.
pub trait Source {
    /// How many there are.
    fn size(&self) -> u64;

    /// Fills `buffer` with the bytes from `offset` on. The caller never asks for more than there are.
    ///
    /// # Errors
    /// When the system cannot read them.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError>;

    /// The first offset from `offset` on that is not in a hole. Holes of sparse files contain only zeros.
    fn next_data(&self, offset: u64) -> u64 {
        offset
    }
}

impl Source for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let there = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(buffer.len())?))
            .ok_or_else(|| ReadError("there are not as many bytes".to_owned()))?;
        buffer.copy_from_slice(there);
        Ok(())
    }
}

impl Source for Vec<u8> {
    fn size(&self) -> u64 {
        self.as_slice().size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.as_slice().read_at(offset, buffer)
    }
}

impl<const N: usize> Source for [u8; N] {
    fn size(&self) -> u64 {
        self.as_slice().size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.as_slice().read_at(offset, buffer)
    }
}

impl<S: Source + ?Sized> Source for &S {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        (**self).read_at(offset, buffer)
    }

    fn next_data(&self, offset: u64) -> u64 {
        (**self).next_data(offset)
    }
}

/// A source, or a part of one such as the member of an archive.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    source: &'a dyn Source,
    start: u64,
    size: u64,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes from {}", self.size, self.start)
    }
}

impl<'a> View<'a> {
    pub(crate) fn of(source: &'a dyn Source) -> Self {
        let size = source.size();
        Self {
            source,
            start: 0,
            size,
        }
    }

    /// A part, as [`Self::range`] gave it.
    pub(crate) fn part(self, range: Range<u64>) -> Self {
        Self {
            source: self.source,
            start: self.start + range.start,
            size: range.end - range.start,
        }
    }

    pub(crate) fn size(self) -> u64 {
        self.size
    }

    /// The range, if it lies within.
    pub(crate) fn range(self, offset: u64, size: u64) -> Option<Range<u64>> {
        let end = offset.checked_add(size)?;
        (end <= self.size).then_some(offset..end)
    }

    /// Fills the buffer. The caller knows that there are enough bytes.
    fn fill(self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.source.read_at(self.start + offset, buffer)
    }

    /// The bytes of a range that [`Self::range`] gave. The caller knows that it is small.
    pub(crate) fn bytes(self, range: Range<u64>) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.fill(range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// The bytes from `offset` on, at most `bytes_max`.
    pub(crate) fn bytes_from(self, offset: u64, bytes_max: u64) -> Result<Vec<u8>, ReadError> {
        let start = offset.min(self.size);
        self.bytes(start..self.size.min(start.saturating_add(bytes_max)))
    }

    /// The entries of a table, one after the other.
    pub(crate) fn entries(self, range: Range<u64>, entry_bytes: usize) -> Entries<'a> {
        let size = range.end - range.start;
        Entries {
            table: self.part(range),
            next: 0,
            end: size - size % entry_bytes as u64,
            entry_bytes,
            piece: Vec::new(),
            at: 0,
        }
    }

    /// Reads a range from beginning to end, in overlapping pieces. `visit` gets each piece with up to `before` bytes in
    /// front of it and `after` bytes behind it, all from the range. The walk skips holes.
    pub(crate) fn walk(
        self,
        range: Range<u64>,
        (before, after): (u64, u64),
        visit: &mut dyn FnMut(&Piece<'_>),
    ) -> Result<(), ReadError> {
        let mut buffer = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let data = self
                .source
                .next_data(self.start + at)
                .saturating_sub(self.start);
            if data >= range.end {
                return Ok(());
            }
            // A match may begin in the last bytes of a hole. A piece begins where a word of the file begins.
            at = at.max(data.saturating_sub(before).next_multiple_of(8).min(data));
            let end = range.end.min(at.saturating_add(WALK_BYTES));
            let first = at.saturating_sub(before).max(range.start);
            let last = end.saturating_add(after).min(range.end);
            buffer.resize((last - first) as usize, 0);
            self.fill(first, &mut buffer)?;
            visit(&Piece {
                bytes: &buffer,
                offset: first,
                own: (at - first) as usize..(end - first) as usize,
            });
            at = end;
        }
        Ok(())
    }
}

/// A piece of a longer walk.
pub(crate) struct Piece<'a> {
    /// The piece and the bytes around it.
    pub(crate) bytes: &'a [u8],
    /// Where these bytes begin in the file.
    pub(crate) offset: u64,
    /// The part that belongs to no other piece.
    pub(crate) own: Range<usize>,
}

/// The entries of a table.
pub(crate) struct Entries<'a> {
    table: View<'a>,
    next: u64,
    end: u64,
    entry_bytes: usize,
    piece: Vec<u8>,
    at: usize,
}

impl Entries<'_> {
    /// The next entry; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, ReadError> {
        if self.at == self.piece.len() {
            let whole = PIECE_BYTES - PIECE_BYTES % self.entry_bytes as u64;
            let size = (self.end - self.next).min(whole.max(self.entry_bytes as u64));
            self.piece.resize(size as usize, 0);
            self.table.fill(self.next, &mut self.piece)?;
            self.next += size;
            self.at = 0;
        }
        if self.piece.is_empty() {
            return Ok(None);
        }
        let start = self.at;
        self.at += self.entry_bytes;
        Ok(Some(&self.piece[start..self.at]))
    }
}

/// Bytes to read at many offsets, most of them close to each other.
pub(crate) struct Blocks<'a> {
    table: View<'a>,
    kept: Vec<(u64, Vec<u8>)>,
    joined: Vec<u8>,
}

impl<'a> Blocks<'a> {
    pub(crate) fn of(table: View<'a>) -> Self {
        let count = table.size.div_ceil(BLOCK_BYTES).min(BLOCKS_MAX);
        Self {
            table,
            kept: vec![(u64::MAX, Vec::new()); count as usize],
            joined: Vec::new(),
        }
    }

    /// At most `bytes_max` bytes from `offset` on; with [`Until::Zero`], only those before the first zero.
    fn get(
        &mut self,
        offset: u64,
        bytes_max: usize,
        until: Until,
    ) -> Result<Option<&[u8]>, ReadError> {
        if offset > self.table.size {
            return Ok(None);
        }
        self.joined.clear();
        let mut at = offset;
        while at < self.table.size && self.joined.len() < bytes_max {
            let left = bytes_max - self.joined.len();
            let block = Self::block(&mut self.kept, self.table, at / BLOCK_BYTES)?;
            let there = &block[(at % BLOCK_BYTES) as usize..];
            let there = &there[..there.len().min(left)];
            let zero = match until {
                Until::Zero => memchr::memchr(0, there),
                Until::End => None,
            };
            self.joined
                .extend_from_slice(&there[..zero.unwrap_or(there.len())]);
            at += there.len() as u64;
            if zero.is_some() {
                break;
            }
        }
        Ok(Some(&self.joined))
    }

    /// The text at `offset`, up to its final zero or at most `bytes_max`. `None` outside the table.
    pub(crate) fn text(
        &mut self,
        offset: u64,
        bytes_max: usize,
    ) -> Result<Option<&[u8]>, ReadError> {
        self.get(offset, bytes_max, Until::Zero)
    }

    /// The bytes of a structure. `None` if there are too few.
    pub(crate) fn structure<const N: usize>(
        &mut self,
        offset: u64,
    ) -> Result<Option<[u8; N]>, ReadError> {
        let bytes = self.get(offset, N, Until::End)?;
        Ok(bytes.and_then(|bytes| bytes.try_into().ok()))
    }

    /// Which block an offset is in. Whoever reads in this order reads each block once.
    pub(crate) fn number_of(offset: u64) -> usize {
        (offset / BLOCK_BYTES) as usize
    }

    fn block<'b>(
        kept: &'b mut [(u64, Vec<u8>)],
        table: View<'_>,
        number: u64,
    ) -> Result<&'b [u8], ReadError> {
        let slot = (number % kept.len() as u64) as usize;
        let (kept_number, bytes) = &mut kept[slot];
        if *kept_number != number {
            let start = number * BLOCK_BYTES;
            bytes.resize((table.size - start).min(BLOCK_BYTES) as usize, 0);
            *kept_number = u64::MAX; // a block that cannot be read is not kept
            table.fill(start, bytes)?;
            *kept_number = number;
        }
        Ok(bytes)
    }
}

#[derive(Clone, Copy)]
enum Until {
    Zero,
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zeros everywhere but for some bytes, as a file with a hole in it.
    struct Sparse {
        size: u64,
        data: Range<u64>,
    }

    impl Source for Sparse {
        fn size(&self) -> u64 {
            self.size
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
            for (index, byte) in buffer.iter_mut().enumerate() {
                *byte = u8::from(self.data.contains(&(offset + index as u64)));
            }
            Ok(())
        }

        fn next_data(&self, offset: u64) -> u64 {
            match offset {
                _ if offset < self.data.start => self.data.start,
                _ if offset < self.data.end => offset,
                _ => self.size,
            }
        }
    }

    #[test]
    fn a_name_ends_at_zero_at_the_end_of_its_table_or_at_the_limit() {
        let mut table = b"ab\0cd".to_vec();
        let mut blocks = Blocks::of(View::of(&table));
        assert_eq!(blocks.text(0, 9).unwrap(), Some(&b"ab"[..]));
        assert_eq!(blocks.text(3, 9).unwrap(), Some(&b"cd"[..]));
        assert_eq!(blocks.text(3, 1).unwrap(), Some(&b"c"[..]));
        assert_eq!(blocks.text(6, 9).unwrap(), None);
        table = vec![b'x'; 3 * BLOCK_BYTES as usize];
        let mut blocks = Blocks::of(View::of(&table));
        let across = blocks.text(BLOCK_BYTES - 5, 300).unwrap().unwrap();
        assert_eq!(across, [b'x'; 300]);
        assert_eq!(
            blocks.structure::<8>(BLOCK_BYTES - 3).unwrap(),
            Some([b'x'; 8])
        );
        assert_eq!(blocks.structure::<8>(3 * BLOCK_BYTES - 3).unwrap(), None);
    }

    #[test]
    fn entries_come_in_order_and_a_rest_that_is_no_entry_is_left() {
        let table: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        let mut entries = View::of(&table).entries(0..table.len() as u64 - 2, 4);
        let mut expected = 0u32;
        while let Some(entry) = entries.next().unwrap() {
            assert_eq!(entry, expected.to_le_bytes());
            expected += 1;
        }
        assert_eq!(expected, 99_999);
    }

    #[test]
    fn a_walk_sees_every_byte_once_and_leaves_holes_out() {
        let bytes: Vec<u8> = (0..3 * WALK_BYTES + 77).map(|n| (n % 251) as u8).collect();
        let mut seen = Vec::new();
        let mut see = |piece: &Piece<'_>| {
            assert!(piece.own.start == 0 || piece.own.start == 16);
            seen.extend_from_slice(&piece.bytes[piece.own.clone()]);
        };
        let whole = 0..bytes.len() as u64;
        View::of(&bytes).walk(whole, (16, 16), &mut see).unwrap();
        assert!(seen == bytes);

        let sparse = Sparse {
            size: 1 << 40,
            data: 5 << 30..(5 << 30) + 3,
        };
        let mut ones = 0;
        let mut pieces = 0;
        let mut count = |piece: &Piece<'_>| {
            pieces += 1;
            ones += piece.bytes[piece.own.clone()]
                .iter()
                .filter(|byte| **byte == 1)
                .count();
        };
        View::of(&sparse)
            .walk(0..1 << 40, (16, 16), &mut count)
            .unwrap();
        assert_eq!((ones, pieces), (3, 1));
    }
}
