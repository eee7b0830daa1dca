//! Parses `/proc/PID/maps` and `/proc/PID/smaps` (proc_pid_maps(5), proc_pid_smaps(5)), as bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// One mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    /// Code in it can run.
    pub is_executable: bool,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file's number in its file system; 0 if there is no file.
    pub inode: u64,
    /// The file that it shows.
    pub path: Option<PathBuf>,
    /// What else it is: `[heap]`, `[stack]`, `[anon:NAME]`.
    pub(crate) label: Option<String>,
    /// Resident, if the kernel tells it.
    pub(crate) resident_bytes: u64,
    /// Resident in transparent huge pages.
    pub(crate) huge_bytes: u64,
}

impl Mapping {
    pub(crate) fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Skips lines that make no sense; the kernel writes none.
pub fn parse(text: &[u8]) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        if let Some(mapping) = head(line) {
            mappings.push(mapping);
        } else if let (Some(mapping), Some((field, bytes))) = (mappings.last_mut(), detail(line)) {
            match field {
                b"Rss" => mapping.resident_bytes = bytes,
                b"AnonHugePages" => mapping.huge_bytes = bytes,
                _ => {}
            }
        }
    }
    mappings
}

/// `7f00-7f10 r-xp 00000000 08:01 1234      /lib/libc.so.6`
fn head(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let end = rest
            .iter()
            .position(|&byte| byte == b' ')
            .unwrap_or(rest.len());
        let word = std::str::from_utf8(&rest[..end]).ok();
        rest = rest.get(end + 1..).unwrap_or_default();
        word
    };
    let (start, end) = word()?.split_once('-')?;
    let permissions = word()?.as_bytes();
    let offset = word()?;
    let _device = word()?;
    let inode = word()?.parse().ok()?;
    let [read, write, execute, _] = *permissions.first_chunk::<4>()?;
    let mut mapping = Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        is_readable: read == b'r',
        is_writable: write == b'w',
        is_executable: execute == b'x',
        offset: u64::from_str_radix(offset, 16).ok()?,
        inode,
        ..Mapping::default()
    };
    let name = rest.trim_ascii_start();
    match name.first() {
        None => {}
        Some(b'/') => mapping.path = Some(path(name)),
        Some(_) => mapping.label = Some(String::from_utf8_lossy(name).into_owned()),
    }
    Some(mapping)
}

/// The kernel writes a line break in a path as `\012`, and nothing else so.
fn path(name: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&byte, after)) = rest.split_first() {
        match rest.strip_prefix(br"\012") {
            Some(after) => {
                bytes.push(b'\n');
                rest = after;
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    OsStr::from_bytes(&bytes).into()
}

/// `Rss:      4 kB`
fn detail(line: &[u8]) -> Option<(&[u8], u64)> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let value = line[colon + 1..].trim_ascii().strip_suffix(b" kB")?;
    let number: u64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    Some((&line[..colon], number.checked_mul(1024)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

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
        assert_eq!(
            program.path.as_deref(),
            Some(Path::new("/usr/bin/a b (deleted)"))
        );
        assert!(program.is_executable && program.is_readable && !program.is_writable);
        assert_eq!(
            (program.inode, program.offset, program.resident_bytes),
            (77, 0x2000, 12 << 10)
        );
        assert_eq!(
            mappings[1].label.as_deref(),
            Some("[anon:glibc: malloc arena]")
        );
        assert_eq!(mappings[1].huge_bytes, 2 << 20);
        assert_eq!(
            (mappings[2].path.as_ref(), mappings[2].label.as_ref()),
            (None, None)
        );
    }

    #[test]
    fn a_path_that_is_not_utf8_or_has_a_line_break_stays_whole() {
        let mappings = parse(b"1-2 r-xp 00000000 08:01 7 /a\xff\\012b\\c\n");
        let path = mappings[0].path.as_deref().unwrap();
        assert_eq!(path.as_os_str().as_bytes(), b"/a\xff\nb\\c");
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic(text in "([0-9a-f]{1,17}[- ][rwxp-]{0,5} ?){0,3}[a-zA-Z0-9:/ \\\\\n]{0,99}") {
            let _ = parse(text.as_bytes());
        }
    }

    #[test]
    fn lines_that_make_no_sense_are_left_out() {
        assert_eq!(
            parse(b"\n:\nRss: 4 kB\nx-y r-xp 0 0:0 0\n1-2 r\n1-2 r-xp 0 0:0\n"),
            []
        );
    }
}
