//! The members of an archive, without their names.
//!
//! [`crate::archive`] reads names too, because it writes them again. Identification needs no names. Finding the end of
//! a long name in the name table is a search, and a hostile archive can make all these searches a million times as long
//! as itself.

use crate::error::ElfError;
use crate::source::View;

const HEADER_BYTES: u64 = 60;
const MEMBER_DAMAGED: ElfError = ElfError::Damaged {
    part: "member header",
};

/// The contents of each member, except for the archive's own index and name table.
pub(super) fn members(archive: View<'_>) -> impl Iterator<Item = Result<View<'_>, ElfError>> {
    let mut at = (object::archive::MAGIC.len() as u64).min(archive.size());
    std::iter::from_fn(move || {
        while at < archive.size() {
            let member = match Member::at(archive, at) {
                Ok(member) => member,
                Err(error) => {
                    at = archive.size();
                    return Some(Err(error));
                }
            };
            at = member.end;
            if !member.belongs_to_the_archive() {
                return Some(member.contents());
            }
        }
        None
    })
}

struct Member<'a> {
    name: Vec<u8>,
    contents: View<'a>,
    /// Where the next one begins.
    end: u64,
}

impl<'a> Member<'a> {
    fn at(archive: View<'a>, at: u64) -> Result<Self, ElfError> {
        const CUT_OFF: ElfError = ElfError::Truncated {
            part: "last member",
        };
        let header = archive.bytes(archive.range(at, HEADER_BYTES).ok_or(CUT_OFF)?)?;
        if header[58..] != *b"`\n" {
            return Err(MEMBER_DAMAGED);
        }
        let size = number(&header[48..58]).ok_or(MEMBER_DAMAGED)?;
        let contents = archive.range(at + HEADER_BYTES, size).ok_or(CUT_OFF)?;
        Ok(Self {
            name: header[..16].to_vec(),
            // Members begin at even offsets; the padding after the last one may be missing.
            end: contents.end + size % 2,
            contents: archive.part(contents),
        })
    }

    fn belongs_to_the_archive(&self) -> bool {
        [&b"/ "[..], b"// ", b"/SYM64/ ", b"__.SYMDEF"]
            .iter()
            .any(|own| self.name.starts_with(own))
    }

    /// BSD archives put a long name in front of the contents.
    fn contents(&self) -> Result<View<'a>, ElfError> {
        let name_bytes = self.name.strip_prefix(b"#1/").and_then(number).unwrap_or(0);
        let rest = self
            .contents
            .size()
            .checked_sub(name_bytes)
            .and_then(|size| self.contents.range(name_bytes, size));
        Ok(self.contents.part(rest.ok_or(MEMBER_DAMAGED)?))
    }
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field)
        .ok()?
        .trim_end_matches(' ')
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{Member, write};

    #[test]
    fn contents_of_written_members_come_back_in_order() {
        let contents = [&b"one"[..], b"", b"four", b"fives"];
        let name = |index| format!("a-name-that-needs-the-name-table-{index}.o");
        let member = |(index, data): (usize, &&[u8])| Member {
            name: name(index),
            data: data.to_vec(),
        };
        let archive = write(&contents.iter().enumerate().map(member).collect::<Vec<_>>()).unwrap();
        let read = members(View::of(&archive)).map(|member| {
            let member = member.unwrap();
            member.bytes_from(0, member.size()).unwrap()
        });
        assert_eq!(read.collect::<Vec<_>>(), contents);
    }

    #[test]
    fn a_cut_off_archive_is_an_error_and_not_an_end() {
        let archive = write(&[Member {
            name: "a.o".to_owned(),
            data: vec![7; 100],
        }])
        .unwrap();
        let member_start = archive.len() - 100 - HEADER_BYTES as usize;
        for length in member_start + 1..archive.len() {
            assert!(
                members(View::of(&&archive[..length])).any(|m| m.is_err()),
                "cut at {length}"
            );
        }
    }
}
