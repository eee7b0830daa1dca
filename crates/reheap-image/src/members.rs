//! The members of a tar archive, as container engines read them.
//!
//! Engines use Go's `archive/tar`, and reheap has to see the names and the bytes that they see. The crate `tar` reads the
//! headers here, but not the archive: it ends PAX records at line feeds, which capabilities may hold, believes the first
//! of two records, where Go believes the last (POSIX, "pax Extended Header"), and takes a name of any length into memory.

use std::io::{self, Read, Seek, SeekFrom};
use std::str::FromStr;
use tar::{EntryType, Header};

const BLOCK: usize = 512;
/// Go refuses longer ones, too.
const EXTENSION_BYTES_MAX: u64 = 1 << 20;
/// The file has capabilities (capabilities(7)). Docker, BuildKit and GNU tar all keep extended attributes like this.
const CAPABILITIES: &[u8] = b"SCHILY.xattr.security.capability";
const SPARSE: &[u8] = b"GNU.sparse.";

/// An archive that is read from its beginning. Reading it gives the contents of the last member.
#[derive(Debug)]
pub(crate) struct Members<R> {
    from: R,
    skip: fn(&mut R, u64) -> io::Result<()>,
    /// Of what is read next.
    position: u64,
    /// How much of the member's contents is not read.
    left: u64,
    /// What comes after these to the next block.
    padding: u64,
}

/// A member of an archive.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: Vec<u8>,
    /// Where a link leads.
    pub(crate) target: Vec<u8>,
    pub(crate) kind: EntryType,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) has_capabilities: bool,
    /// Its contents are stored without its holes.
    pub(crate) is_sparse: bool,
    /// Where its contents begin in the archive.
    pub(crate) position: u64,
    /// How long they are there.
    pub(crate) size_bytes: u64,
}

impl<R: Read> Members<R> {
    /// Reads also what nobody asks for.
    pub(crate) fn streamed(from: R) -> Self {
        Self::new(from, |from, count| {
            match io::copy(&mut from.by_ref().take(count), &mut io::sink())? {
                skipped if skipped == count => Ok(()),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        })
    }

    fn new(from: R, skip: fn(&mut R, u64) -> io::Result<()>) -> Self {
        Self {
            from,
            skip,
            position: 0,
            left: 0,
            padding: 0,
        }
    }

    /// The next member; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Member>> {
        let mut extension = Extension::default();
        loop {
            let Some(block) = self.header()? else {
                return Ok(None);
            };
            let header = Header::from_byte_slice(&block);
            match header.entry_type() {
                EntryType::XHeader => extension.pax = Pax::read(&self.extension(header)?)?,
                EntryType::GNULongName => extension.name = self.long_name(header)?,
                EntryType::GNULongLink => extension.target = self.long_name(header)?,
                _ => return self.member(header, extension).map(Some),
            }
        }
    }

    /// The next block with something in it; `None` at the end of the archive.
    fn header(&mut self) -> io::Result<Option<[u8; BLOCK]>> {
        if self.left > 0 {
            (self.skip)(&mut self.from, self.left)?;
            self.passed(self.left)?;
            self.left = 0;
        }
        // Some writers leave out what would fill the last block.
        if self.padding > 0 {
            let mut padding = self.from.by_ref().take(self.padding);
            io::copy(&mut padding, &mut io::sink())?;
            self.passed(self.padding)?;
            self.padding = 0;
        }
        match self.block()? {
            None => Ok(None),
            Some(block) if block != [0; BLOCK] => {
                if is_summed_up(&block) {
                    Ok(Some(block))
                } else {
                    Err(damaged("a header's checksum is wrong"))
                }
            }
            Some(_) => match self.block()? {
                None => Ok(None),
                Some(second) if second == [0; BLOCK] => Ok(None),
                Some(_) => Err(damaged("something follows its end")),
            },
        }
    }

    fn block(&mut self) -> io::Result<Option<[u8; BLOCK]>> {
        let mut bytes = Vec::with_capacity(BLOCK);
        let mut from = self.from.by_ref().take(BLOCK as u64);
        let count = from.read_to_end(&mut bytes)?;
        self.passed(count as u64)?;
        match count {
            0 => Ok(None),
            _ => {
                let block = bytes.try_into();
                block.map_or_else(
                    |_| Err(io::ErrorKind::UnexpectedEof.into()),
                    |text| Ok(Some(text)),
                )
            }
        }
    }

    fn passed(&mut self, count: u64) -> io::Result<()> {
        let position = self.position.checked_add(count);
        self.position = position.ok_or_else(|| damaged("a size is impossible"))?;
        Ok(())
    }

    /// Contents that say something about the member behind them.
    fn extension(&mut self, header: &Header) -> io::Result<Vec<u8>> {
        self.begin(size_in(header)?);
        if self.left > EXTENSION_BYTES_MAX {
            return Err(damaged("a name is longer than 1 MiB"));
        }
        let (mut bytes, expected) = (Vec::new(), self.left);
        self.read_to_end(&mut bytes)?;
        if bytes.len() as u64 == expected {
            Ok(bytes)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn long_name(&mut self, header: &Header) -> io::Result<Option<Vec<u8>>> {
        let contents = self.extension(header)?;
        let name = text(&contents);
        Ok((!name.is_empty()).then(|| name.to_owned()))
    }

    fn begin(&mut self, size_bytes: u64) {
        self.left = size_bytes;
        self.padding = size_bytes.wrapping_neg() % BLOCK as u64;
    }

    fn member(&mut self, header: &Header, extension: Extension) -> io::Result<Member> {
        let Extension { name, target, pax } = extension;
        let name = pax
            .sparse_name
            .or(name)
            .or(pax.name)
            .unwrap_or_else(|| name_in(header));
        let target = target.or(pax.target);
        let in_header = || header.link_name_bytes().unwrap_or_default().into_owned();
        let kind = match header.as_old().linkflag {
            // Before POSIX, a directory was a file whose name ends with a slash.
            [0] if name.ends_with(b"/") => EntryType::Directory,
            _ => header.entry_type(),
        };
        let size_bytes = match kind {
            // Go looks for no contents of these, whatever their size is said to be.
            EntryType::Link
            | EntryType::Symlink
            | EntryType::Char
            | EntryType::Block
            | EntryType::Directory
            | EntryType::Fifo => 0,
            _ => pax.size_bytes.map_or_else(|| size_in(header), Ok)?,
        };
        let mut is_continued = kind == EntryType::GNUSparse
            && header.as_gnu().is_some_and(|header| header.is_extended());
        while is_continued {
            let block = self.block()?.ok_or(io::ErrorKind::UnexpectedEof)?;
            is_continued = block[504] != 0; // `isextended` of GNU tar's `struct sparse_header`
        }
        self.begin(size_bytes);
        // Some writers leave out what is zero.
        let owner = (
            pax.user.unwrap_or(header.uid().unwrap_or(0) as u32),
            pax.group.unwrap_or(header.gid().unwrap_or(0) as u32),
        );
        Ok(Member {
            name,
            target: target.unwrap_or_else(in_header),
            kind,
            mode: header.mode().unwrap_or(0),
            owner,
            has_capabilities: pax.has_capabilities,
            is_sparse: pax.is_sparse || kind == EntryType::GNUSparse,
            position: self.position,
            size_bytes,
        })
    }
}

impl<R: Read + Seek> Members<R> {
    /// Seeks over what nobody asks for, also over the end of an archive that ends too early.
    pub(crate) fn sought(from: R) -> Self {
        Self::new(from, |from, count| {
            let count = i64::try_from(count).map_err(|_| damaged("a size is impossible"))?;
            from.seek(SeekFrom::Current(count)).map(drop)
        })
    }
}

impl<R: Read> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.by_ref().take(self.left).read(buffer)?;
        self.left -= count as u64;
        self.passed(count as u64)?;
        Ok(count)
    }
}

/// What members in front of one say about it.
#[derive(Debug, Default)]
struct Extension {
    /// GNU tar's long name, and the long name of what it is a link to.
    name: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    pax: Pax,
}

/// What reheap wants to know of a PAX header.
#[derive(Debug, Default)]
struct Pax {
    name: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    size_bytes: Option<u64>,
    user: Option<u32>,
    group: Option<u32>,
    has_capabilities: bool,
    is_sparse: bool,
    sparse_name: Option<Vec<u8>>,
}

impl Pax {
    /// Reads records as POSIX defines them: their length in decimal digits, a space, `KEY=VALUE` and a line feed. No value
    /// is as good as no record.
    fn read(mut bytes: &[u8]) -> io::Result<Self> {
        let mut pax = Self::default();
        while !bytes.is_empty() {
            let (key, value, rest) =
                record(bytes).ok_or_else(|| damaged("a PAX header has no records"))?;
            bytes = rest;
            let path = (!value.is_empty()).then(|| value.to_owned());
            if path.as_ref().is_some_and(|path| path.contains(&0))
                && [&b"path"[..], b"linkpath"].contains(&key)
            {
                return Err(damaged("a name has a zero in it"));
            }
            match key {
                b"path" => pax.name = path,
                b"linkpath" => pax.target = path,
                b"size" => pax.size_bytes = number(value)?,
                b"uid" => pax.user = number::<i64>(value)?.map(|id| id as u32),
                b"gid" => pax.group = number::<i64>(value)?.map(|id| id as u32),
                CAPABILITIES => pax.has_capabilities = !value.is_empty(),
                b"GNU.sparse.name" => (pax.is_sparse, pax.sparse_name) = (true, path),
                _ if key.starts_with(SPARSE) => pax.is_sparse = true,
                _ => {}
            }
        }
        Ok(pax)
    }
}

/// The first record's key and value, and what comes behind it.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().position(|&byte| byte == b' ')?;
    let length: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
    let record = bytes.get(space + 1..length)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|&byte| byte == b'=')?;
    Some((&record[..equals], &record[equals + 1..], &bytes[length..]))
}

fn number<T: FromStr>(value: &[u8]) -> io::Result<Option<T>> {
    if value.is_empty() {
        return Ok(None);
    }
    let number = std::str::from_utf8(value).ok();
    let number = number.and_then(|number| number.parse().ok());
    number
        .map(Some)
        .ok_or_else(|| damaged("a PAX header has a number that is none"))
}

/// Whether the bytes of a header add up to what it says. Its own sum counts as spaces; some writers took bytes for signed.
fn is_summed_up(block: &[u8; BLOCK]) -> bool {
    let counted = block.iter().enumerate().map(|(at, &byte)| match at {
        148..156 => b' ',
        _ => byte,
    });
    let unsigned: u32 = counted.clone().map(u32::from).sum();
    let signed: i32 = counted.map(|byte| i32::from(byte.cast_signed())).sum();
    let said = Header::from_byte_slice(block).cksum().ok();
    said.is_some_and(|said| said == unsigned || said.cast_signed() == signed)
}

/// The size that a header has. Some writers leave out what is zero.
fn size_in(header: &Header) -> io::Result<u64> {
    let is_blank = |byte: &u8| matches!(byte, 0 | b' ');
    if header.as_old().size.iter().all(is_blank) {
        Ok(0)
    } else {
        header.entry_size()
    }
}

/// The name that a header has. POSIX puts what it begins with elsewhere if it is long. Some writers forget the version that
/// comes after the magic, and a star(1) has less room for the beginning.
fn name_in(header: &Header) -> Vec<u8> {
    let block = header.as_bytes();
    let beginning = match &block[508..] {
        _ if &block[257..263] != b"ustar\0" => &[],
        b"tar\0" => text(&block[345..476]),
        _ => text(&block[345..500]),
    };
    let name = text(&block[..100]);
    if beginning.is_empty() {
        name.to_owned()
    } else {
        [beginning, b"/", name].concat()
    }
}

/// What is in front of the zero that ends it.
fn text(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

fn damaged(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A member whose header needs no tar program.
    fn member(kind: u8, name: &str, contents: &[u8]) -> Vec<u8> {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::new(kind));
        header.set_path(name).unwrap();
        header.set_size(contents.len() as u64);
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend(contents);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes
    }

    /// A PAX header with these records.
    fn pax(records: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (key, value) in records {
            let rest = [b" ", key.as_bytes(), b"=", value, b"\n"].concat();
            let length = (1..4).map(|digits| rest.len() + digits);
            let mut length =
                length.filter(|length| length.to_string().len() + rest.len() == *length);
            bytes.extend(length.next().unwrap().to_string().bytes());
            bytes.extend(rest);
        }
        member(b'x', "PaxHeaders/a", &bytes)
    }

    fn all(archive: &[u8]) -> io::Result<Vec<Member>> {
        let mut members = Members::streamed(archive);
        std::iter::from_fn(|| members.next().transpose()).collect()
    }

    fn names(archive: &[u8]) -> Vec<String> {
        let names = all(archive).unwrap().into_iter().map(|member| member.name);
        names.map(|name| String::from_utf8(name).unwrap()).collect()
    }

    #[test]
    fn the_last_of_two_records_counts_and_a_line_feed_ends_none() {
        let file = member(b'0', "short", b"abc");
        let twice = [pax(&[("path", b"decoy"), ("path", b"app")]), file.clone()].concat();
        assert_eq!(names(&twice), ["app"]);
        let value = b"\n12 path=decoy\n";
        let capabilities = "SCHILY.xattr.security.capability";
        let records = [(capabilities, &value[..]), ("path", b"app")];
        let archive = [pax(&records), file.clone(), file].concat();
        assert_eq!(names(&archive), ["app", "short"]);
        let members = all(&archive).unwrap();
        assert!(members[0].has_capabilities && !members[1].has_capabilities);
    }

    /// What other writers get wrong, and Go reads.
    #[test]
    fn headers_that_are_almost_right_are_read() {
        let changed = |kind, change: &dyn Fn(&mut [u8; BLOCK])| {
            let mut header = Header::new_ustar();
            header.set_entry_type(EntryType::new(kind));
            header.set_path("app").unwrap();
            header.set_size(0);
            change(header.as_mut_bytes());
            header.set_cksum();
            header.as_bytes().to_vec()
        };
        let without_version = changed(b'0', &|block| {
            block[263..265].fill(b' ');
            block[345..348].copy_from_slice(b"usr");
        });
        let of_star = changed(b'0', &|block| {
            block[345..348].copy_from_slice(b"usr");
            block[476] = b'x'; // of the time of the last access
            block[508..].copy_from_slice(b"tar\0");
        });
        let blank = changed(b'x', &|block| block[124..136].fill(b' '));
        let plain = member(b'0', "app", b"");
        let archive = [without_version, of_star, blank, plain.clone()].concat();
        assert_eq!(names(&archive), ["usr/app", "usr/app", "app"]);
        let no_name = [member(b'L', "x", b"\0"), plain.clone()].concat();
        assert_eq!(names(&no_name), ["app"]);
        let of_nobody = all(&[pax(&[("uid", b"-2")]), plain].concat()).unwrap();
        assert_eq!(of_nobody[0].owner.0, u32::MAX - 1);
    }

    #[test]
    fn what_go_refuses_is_refused() {
        let file = member(b'0', "a", b"abc");
        let long = member(b'L', "x", &vec![b'a'; EXTENSION_BYTES_MAX as usize + 1]);
        let cases = [
            [pax(&[("path", b"a\0b")]), file.clone()].concat(),
            [pax(&[("size", b"-1")]), file.clone()].concat(),
            [member(b'x', "x", b"12 path=a"), file.clone()].concat(),
            [long, file.clone()].concat(),
            [vec![0; BLOCK], file.clone()].concat(),
            file[..BLOCK + 2].to_vec(),
            file[..BLOCK - 2].to_vec(),
            [b"b", &file[1..]].concat(),
        ];
        for (number, archive) in cases.iter().enumerate() {
            assert!(all(archive).is_err(), "{number}");
        }
        // A size that no file has does not make the position wrap.
        let huge = [pax(&[("size", u64::MAX.to_string().as_bytes())]), file].concat();
        let mut members = Members::sought(io::Cursor::new(&huge));
        assert_eq!(members.next().unwrap().unwrap().size_bytes, u64::MAX);
        assert!(members.next().is_err());
    }

    #[test]
    fn contents_are_read_as_far_as_somebody_wants_them() {
        let archive = [
            member(b'0', "a", &[7; 1000]),
            member(b'5', "d/", b""),
            member(b'0', "b", b"bytes"),
        ]
        .concat();
        let mut members = Members::streamed(archive.as_slice());
        members.next().unwrap().unwrap();
        let mut first = [0; 10];
        members.read_exact(&mut first).unwrap();
        assert_eq!(first, [7; 10]);
        assert_eq!(members.next().unwrap().unwrap().kind, EntryType::Directory);
        let last = members.next().unwrap().unwrap();
        let mut contents = String::new();
        members.read_to_string(&mut contents).unwrap();
        assert_eq!(contents, "bytes");
        assert_eq!(&archive[last.position as usize..][..5], b"bytes");
        assert!(members.next().unwrap().is_none());
    }

    /// GNU tar in all its formats, with names, a hole and a size that need extensions.
    #[test]
    fn archives_of_tar_are_read() {
        let place = tempfile::tempdir().unwrap();
        let long = "n".repeat(150);
        let hole = std::fs::File::create(place.path().join("hole")).unwrap();
        for at in 0..20 {
            std::os::unix::fs::FileExt::write_all_at(&hole, b"data", at << 20).unwrap();
        }
        std::fs::write(place.path().join(&long), "contents").unwrap();
        std::os::unix::fs::symlink("t".repeat(200), place.path().join("link")).unwrap();
        for (format, is_sparse) in [
            ("--format=gnu", false),
            ("--format=posix", false),
            ("--format=gnu --sparse", true),
            ("--format=posix --sparse", true),
            ("--format=posix --sparse --sparse-version=0.0", true),
        ] {
            let mut tar = Command::new("tar");
            tar.args(format.split(' '))
                .args(["-cf", "-", "hole", &long, "link"]);
            let output = tar
                .current_dir(place.path())
                .output()
                .expect("`xtask/prepare install` installs tar");
            assert!(output.status.success(), "{format}: {output:?}");
            let members = all(&output.stdout).unwrap();
            let [hole, file, link] = &members[..] else {
                panic!("{format}: {members:?}");
            };
            assert_eq!(hole.name, b"hole", "{format}");
            assert_eq!(hole.is_sparse, is_sparse, "{format}");
            assert_eq!((&file.name, file.size_bytes), (&long.clone().into(), 8));
            assert_eq!(link.target, "t".repeat(200).as_bytes(), "{format}");
        }
    }
}
