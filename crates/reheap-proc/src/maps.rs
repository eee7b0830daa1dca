//! The text of `/proc/PID/maps` or `/proc/PID/smaps` (proc_pid_maps(5), proc_pid_smaps(5)), as values.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What the kernel puts behind the path of a file that is gone.
pub(crate) const DELETED: &[u8] = b" (deleted)";

/// A range of addresses, and what is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// Whether it can be read.
    pub is_readable: bool,
    /// Whether it can be written to.
    pub is_writable: bool,
    /// Code in it can run.
    pub is_executable: bool,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file's number in its file system; 0 if there is no file.
    pub inode: u64,
    /// What the kernel calls it: a path, or a name in brackets; empty for memory without a name.
    pub path: PathBuf,
    /// Whether the file has been deleted, or replaced, since.
    pub is_deleted: bool,
    /// How much of it is in memory, if the kernel tells.
    pub resident_bytes: u64,
    /// How much of that is in transparent huge pages.
    pub huge_bytes: u64,
}

impl Mapping {
    /// Whether this is still what the other was. Its file may have been deleted since.
    pub fn is_still(&self, other: &Self) -> bool {
        let place = |mapping: &Self| (mapping.start, mapping.end, mapping.offset, mapping.inode);
        place(self) == place(other) && self.path == other.path
    }

    /// How much address space it takes.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// The file as the kernel writes it: behind the path of one that is gone, it says so.
    pub fn listed_file(&self) -> Option<PathBuf> {
        let is_file = self.path.as_os_str().as_encoded_bytes().first() == Some(&b'/');
        is_file.then(|| {
            let mut listed = self.path.clone().into_os_string();
            if self.is_deleted {
                listed.push(OsStr::from_bytes(DELETED));
            }
            listed.into()
        })
    }

    /// What it is if it shows no file: `[heap]`, `[stack]`, `[anon:NAME]`.
    pub fn label(&self) -> Option<Cow<'_, str>> {
        let name = self.path.as_os_str().as_encoded_bytes();
        let is_label = name.first().is_some_and(|first| *first != b'/');
        is_label.then(|| self.path.as_os_str().to_string_lossy())
    }
}

/// All lines that have the right form, in order of address, with the sizes that `smaps` adds.
pub fn parse(text: &[u8]) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        if let Some(mapping) = parse_line(line) {
            mappings.push(mapping);
        } else if let (Some(mapping), Some((name, bytes))) = (mappings.last_mut(), size(line)) {
            match name {
                b"Rss" => mapping.resident_bytes = bytes,
                b"AnonHugePages" => mapping.huge_bytes = bytes,
                _ => {}
            }
        }
    }
    mappings.sort_by_key(|mapping| mapping.start);
    mappings
}

/// `7f00-7f10 r-xp 00000000 08:01 1234      /lib/libc.so.6`
fn parse_line(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let (start, end) = std::str::from_utf8(field(&mut rest)?)
        .ok()?
        .split_once('-')?;
    let permissions = field(&mut rest)?;
    let offset = hexadecimal(field(&mut rest)?)?;
    let _device = field(&mut rest)?;
    let inode = std::str::from_utf8(field(&mut rest)?).ok()?.parse().ok()?;
    let name = rest.trim_ascii_start();
    let (name, is_deleted) = match name.strip_suffix(DELETED) {
        Some(name) => (name, true),
        None => (name, false),
    };
    let mapping = Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        is_readable: permissions.first() == Some(&b'r'),
        is_writable: permissions.get(1) == Some(&b'w'),
        is_executable: permissions.get(2) == Some(&b'x'),
        offset,
        inode,
        path: PathBuf::from(OsStr::from_bytes(&unescape(name))),
        is_deleted,
        ..Mapping::default()
    };
    (mapping.start < mapping.end).then_some(mapping)
}

/// `Rss:      4 kB`
fn size(line: &[u8]) -> Option<(&[u8], u64)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let value = line[colon + 1..].trim_ascii().strip_suffix(b" kB")?;
    let number: u64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    Some((&line[..colon], number.checked_mul(1024)?))
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let text = rest.trim_ascii_start();
    let length = text
        .iter()
        .position(|byte| *byte == b' ')
        .unwrap_or(text.len());
    let (field, behind) = text.split_at(length);
    *rest = behind;
    (!field.is_empty()).then_some(field)
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// The kernel writes a line feed in a path as `\012`, and nothing else that way (`show_map_vma` in fs/proc/task_mmu.c).
fn unescape(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, behind)) = rest.split_first() {
        if let Some(behind) = rest.strip_prefix(b"\\012") {
            plain.push(b'\n');
            rest = behind;
        } else {
            plain.push(first);
            rest = behind;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_names_and_deleted_files_are_told_apart() {
        let text = b"7f00a000-7f00b000 r--p 00000000 fe:01 123    /usr/lib/a library.so\n\
            7f00b000-7f00c000 r-xp 00001000 fe:01 123                        /usr/lib/a library.so (deleted)\n\
            7ffe0000-7ffe1000 rw-p 00000000 00:00 0 \n\
            7fff0000-7fff2000 r-xp 00000000 00:00 0                          [vdso]\n";
        let mappings = parse(text);
        assert_eq!(mappings.len(), 4);
        assert_eq!(mappings[0].path, PathBuf::from("/usr/lib/a library.so"));
        assert!(!mappings[0].is_executable && !mappings[0].is_deleted);
        assert_eq!(mappings[1].path, PathBuf::from("/usr/lib/a library.so"));
        assert!(mappings[1].is_executable && mappings[1].is_deleted);
        assert_eq!((mappings[1].offset, mappings[1].inode), (0x1000, 123));
        assert_eq!(mappings[2].path, PathBuf::new());
        assert_eq!(mappings[3].path, PathBuf::from("[vdso]"));
    }

    #[test]
    fn a_path_with_a_line_feed_is_read_as_it_is() {
        let mappings = parse(b"1000-2000 r-xp 00000000 fe:01 7 /tmp/a\\012b\\\n");
        assert_eq!(mappings[0].path, PathBuf::from("/tmp/a\nb\\"));
    }

    #[test]
    fn mappings_have_permissions_files_labels_and_sizes() {
        let text = b"55d0-55d8 r-xp 00002000 08:01 77                     /usr/bin/a b (deleted)\n\
            Size:                 32 kB\nRss:                  12 kB\nAnonHugePages:         0 kB\nVmFlags: rd ex\n\
            7f00-7f10 rw-p 00000000 00:00 0                          [anon:glibc: malloc arena]\n\
            Rss:                   4 kB\nAnonHugePages:      2048 kB\n\
            7f20-7f30 ---p 00000000 00:00 0 \n";
        let mappings = parse(text);
        assert_eq!(mappings.len(), 3);
        let program = &mappings[0];
        let listed = program.listed_file();
        assert_eq!(listed, Some("/usr/bin/a b (deleted)".into()));
        assert!(program.is_executable && program.is_readable && !program.is_writable);
        assert_eq!((program.inode, program.offset), (77, 0x2000));
        assert_eq!((program.bytes(), program.resident_bytes), (8, 12 << 10));
        let label = mappings[1].label();
        assert_eq!(label.as_deref(), Some("[anon:glibc: malloc arena]"));
        assert_eq!(mappings[1].huge_bytes, 2 << 20);
        assert_eq!(
            (mappings[2].listed_file(), mappings[2].label()),
            (None, None)
        );
    }

    #[test]
    fn a_path_that_is_not_utf8_stays_whole() {
        let mappings = parse(b"1-2 r-xp 00000000 08:01 7 /a\xff\\012b\\c\n");
        let path = mappings[0].path.as_os_str();
        assert_eq!(path.as_bytes(), b"/a\xff\nb\\c");
    }

    #[test]
    fn lines_that_make_no_sense_are_left_out() {
        let text = b"\n:\nRss: 4 kB\nx-y r-xp 0 0:0 0\n1-2 r\n1-2 r-xp 0 0:0\n";
        assert_eq!(parse(text), []);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_fail(text: Vec<u8>) {
            parse(&text);
        }

        #[test]
        fn a_cut_off_line_is_no_mapping_of_more_than_the_whole_line(cut in 0..60_usize) {
            let text = b"7f00b000-7f00c000 r-xp 00001000 fe:01 123 /usr/lib/libc.so";
            for mapping in parse(&text[..cut.min(text.len())]) {
                proptest::prop_assert_eq!(mapping.start, 0x7f00b000);
            }
        }
    }
}
