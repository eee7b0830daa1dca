//! `ar` archives as lists of named byte strings.
//!
//! reheap reads a musl `libc.a` once, changes it as a list, and writes it again with a new symbol index. Editing it in
//! place with `ar` looks simpler. But `ar d` removes only the first of two members with the same name, and `llvm-ar -M`
//! with several names on one line removes none and still succeeds.
//!
//! The writer is `ar_archive_writer`, which rustc uses for its own archives. Times, owners and modes are fixed, so the
//! same members give the same bytes.

use ar_archive_writer::{ArchiveKind, DEFAULT_OBJECT_READER, NewArchiveMember};
use object::read::archive::ArchiveFile;

/// One file in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The name as stored, without a directory. Names need not be unique: musl has two `free.lo`.
    pub name: String,
    /// The contents.
    pub data: Vec<u8>,
}

/// Why bytes are not an archive that reheap can use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// The file has no contents.
    #[error("the file is empty")]
    Empty,
    /// The magic bytes of an archive are missing.
    #[error("it is not an archive (it does not begin with `!<arch>`)")]
    NotAnArchive,
    /// A thin archive holds paths in place of members.
    #[error("it is a thin archive: its members are other files")]
    Thin,
    /// The archive has no members.
    #[error("the archive has no members")]
    NoMembers,
    /// A member header or its data reaches beyond the file.
    #[error("member {index} (after `{after}`) is damaged or cut off: {reason}")]
    Damaged {
        /// How many members were read before.
        index: usize,
        /// The name of the last member that was read.
        after: String,
        /// What the reader said.
        reason: String,
    },
}

/// Reads all members of the archive, in order.
///
/// # Errors
/// When the bytes are no archive, a thin one, an empty one, or one with a damaged member.
pub fn read(bytes: &[u8]) -> Result<Vec<Member>, ArchiveError> {
    if bytes.is_empty() {
        return Err(ArchiveError::Empty);
    }
    if bytes.starts_with(&object::archive::THIN_MAGIC) {
        return Err(ArchiveError::Thin);
    }
    if !bytes.starts_with(&object::archive::MAGIC) {
        return Err(ArchiveError::NotAnArchive);
    }
    let mut members: Vec<Member> = Vec::new();
    let damaged = |members: &[Member], reason: object::read::Error| ArchiveError::Damaged {
        index: members.len(),
        after: members.last().map(|m| m.name.clone()).unwrap_or_default(),
        reason: reason.to_string(),
    };
    let archive = ArchiveFile::parse(bytes).map_err(|e| damaged(&[], e))?;
    for member in archive.members() {
        let member = member.map_err(|e| damaged(&members, e))?;
        let data = member.data(bytes).map_err(|e| damaged(&members, e))?;
        members.push(Member {
            name: readable_name(member.name()),
            data: data.to_vec(),
        });
    }
    if members.is_empty() {
        return Err(ArchiveError::NoMembers);
    }
    Ok(members)
}

/// A name that the writer can write.
///
/// The writer pads names by characters where the format counts bytes, and an empty name means the symbol index. Only
/// people read these names, so this makes a name plain and short instead of refusing it.
fn readable_name(name: &[u8]) -> String {
    const NAME_BYTES_MAX: usize = 255;
    if name.is_empty() {
        return "?".to_owned();
    }
    let plain = |&byte: &u8| match byte {
        b' '..=b'~' => char::from(byte),
        _ => '?',
    };
    name.iter().take(NAME_BYTES_MAX).map(plain).collect()
}

/// Writes a GNU archive with a symbol index. The same members give the same bytes.
///
/// # Errors
/// The writer's message when it cannot read the symbols of a member, or the name of a member that no archive can hold.
pub fn write(members: &[Member]) -> Result<Vec<u8>, String> {
    let new_members: Vec<NewArchiveMember<'_>> = members
        .iter()
        .map(|m| NewArchiveMember::new(m.data.as_slice(), &DEFAULT_OBJECT_READER, m.name.clone()))
        .collect();
    let mut out = std::io::Cursor::new(Vec::new());
    ar_archive_writer::write_archive_to_stream(
        &mut out,
        &new_members,
        ArchiveKind::Gnu,
        false,
        None,
    )
    .map_err(|e| e.to_string())?;
    let bytes = out.into_inner();
    // A name with a letter beyond ASCII, for example, shifts everything after it, without an error.
    let stored = read(&bytes).unwrap_or_default();
    match members
        .iter()
        .zip(&stored)
        .find(|(given, stored)| given != stored)
    {
        Some((given, _)) => Err(format!(
            "no archive can hold a member named `{}`",
            given.name
        )),
        None if stored.len() != members.len() => {
            Err("a member has a name that no archive can hold".to_owned())
        }
        None => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, data: &[u8]) -> Member {
        Member {
            name: name.to_owned(),
            data: data.to_vec(),
        }
    }

    #[test]
    fn an_archive_with_odd_names_can_be_written_again() {
        let names = [
            &b"p\xc3\xa9.o"[..],
            b"\xff.o",
            b"",
            b"a\tb.o",
            &[b'n'; 16],
            b"a b.o",
        ];
        let mut bytes = object::archive::MAGIC.to_vec();
        for name in names {
            let size = name.len() + 4;
            bytes.extend(format!("{:<48}{size:<10}`\n", format!("#1/{}", name.len())).bytes());
            bytes.extend([name, b"data"].concat());
            bytes.resize(bytes.len().next_multiple_of(2), b'\n');
        }
        let members = read(&bytes).unwrap();
        let read_names: Vec<_> = members.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(
            read_names,
            ["p??.o", "?.o", "?", "a?b.o", "nnnnnnnnnnnnnnnn", "a b.o"]
        );
        assert_eq!(read(&write(&members).unwrap()).unwrap(), members);
    }

    #[test]
    fn members_of_one_name_are_all_kept_in_order() {
        let members = vec![
            member("free.lo", b"one"),
            member("a-name-that-is-longer-than-fifteen.lo", b"two\n"),
            member("free.lo", b"three"),
        ];
        let bytes = write(&members).unwrap();
        assert_eq!(read(&bytes).unwrap(), members);
        assert_eq!(
            write(&members).unwrap(),
            bytes,
            "the same members must give the same bytes"
        );
    }

    #[test]
    fn a_name_that_cannot_be_stored_is_an_error_and_not_a_damaged_archive() {
        for name in ["\u{fc}ber.o", "a/\nb.o", ""] {
            let members = [
                member("first.o", b"1"),
                member(name, b"2"),
                member("last.o", b"3"),
            ];
            assert!(
                write(&members).is_err_and(|e| e.contains("no archive can hold")),
                "{name:?}"
            );
        }
    }

    #[test]
    fn what_is_no_archive_is_refused_with_its_reason() {
        assert_eq!(read(b""), Err(ArchiveError::Empty));
        assert_eq!(read(b"\x7fELF..."), Err(ArchiveError::NotAnArchive));
        assert_eq!(read(b"!<thin>\n"), Err(ArchiveError::Thin));
        assert_eq!(read(b"!<arch>\n"), Err(ArchiveError::NoMembers));
    }

    #[test]
    fn a_cut_off_archive_is_refused_at_every_length() {
        let bytes = write(&[member("a.o", &[7; 100]), member("b.o", &[8; 100])]).unwrap();
        for length in 9..bytes.len() {
            match read(&bytes[..length]) {
                Err(_) => {}
                Ok(members) => assert!(members.len() < 2, "cut off at {length}, yet whole"),
            }
        }
    }
}
