//! The text of `/proc/PID/maps` (proc_pid_maps(5)), as a value.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// One line: a range of addresses, and what is there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// Whether code in it can run.
    pub executable: bool,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file's number in its file system; 0 if there is no file.
    pub inode: u64,
    /// What the kernel calls it: a path, or a name in brackets; empty for memory without a name.
    pub path: PathBuf,
    /// Whether the file has been deleted, or replaced, since.
    pub deleted: bool,
}

impl Mapping {
    /// Whether this is still what the other was. Its file may have been deleted since.
    pub(crate) fn is_still(&self, other: &Self) -> bool {
        let place = |mapping: &Self| (mapping.start, mapping.end, mapping.offset, mapping.inode);
        place(self) == place(other) && self.path == other.path
    }
}

/// All lines that have the right form, in order of address.
pub fn parse(text: &[u8]) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = text
        .split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .collect();
    mappings.sort_by_key(|mapping| mapping.start);
    mappings
}

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
    let (name, deleted) = match name.strip_suffix(b" (deleted)") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let mapping = Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        executable: permissions.get(2) == Some(&b'x'),
        offset,
        inode,
        path: PathBuf::from(OsStr::from_bytes(&unescape(name))),
        deleted,
    };
    (mapping.start < mapping.end).then_some(mapping)
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
        assert!(!mappings[0].executable && !mappings[0].deleted);
        assert_eq!(mappings[1].path, PathBuf::from("/usr/lib/a library.so"));
        assert!(mappings[1].executable && mappings[1].deleted);
        assert_eq!((mappings[1].offset, mappings[1].inode), (0x1000, 123));
        assert_eq!(mappings[2].path, PathBuf::new());
        assert_eq!(mappings[3].path, PathBuf::from("[vdso]"));
    }

    #[test]
    fn a_path_with_a_line_feed_is_read_as_it_is() {
        let mappings = parse(b"1000-2000 r-xp 00000000 fe:01 7 /tmp/a\\012b\\\n");
        assert_eq!(mappings[0].path, PathBuf::from("/tmp/a\nb\\"));
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
