//! The members of an archive, without their names.
//!
//! [`crate::archive`] reads names too, as it must to write them again. Looking up the end of a long name in the name table
//! is a search that a hostile archive can make a million times as long as itself, and here no name is needed.

use super::IdentifyError;

const HEADER_BYTES: usize = 60;
const MEMBER_DAMAGED: IdentifyError = IdentifyError::Damaged {
    part: "member header",
};

/// The contents of each member, except for the archive's own index and name table.
pub(super) fn members(archive: &[u8]) -> impl Iterator<Item = Result<&[u8], IdentifyError>> {
    let mut rest = &archive[object::archive::MAGIC.len().min(archive.len())..];
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (header, after) = match split_member(rest) {
                Ok(parts) => parts,
                Err(error) => {
                    rest = &[];
                    return Some(Err(error));
                }
            };
            let (name, (contents, following)) = (&header[..16], after);
            rest = following;
            let belongs_to_the_archive = [&b"/ "[..], b"// ", b"/SYM64/ ", b"__.SYMDEF"]
                .iter()
                .any(|own| name.starts_with(own));
            if !belongs_to_the_archive {
                // BSD archives put a long name in front of the contents.
                let name_bytes = name.strip_prefix(b"#1/").and_then(number).unwrap_or(0);
                return Some(contents.get(name_bytes..).ok_or(MEMBER_DAMAGED));
            }
        }
        None
    })
}

/// The header of the first member, its contents, and what follows.
type Split<'data> = (&'data [u8], (&'data [u8], &'data [u8]));

fn split_member(rest: &[u8]) -> Result<Split<'_>, IdentifyError> {
    const CUT_OFF: IdentifyError = IdentifyError::Truncated {
        part: "last member",
    };
    let (header, rest) = rest.split_at_checked(HEADER_BYTES).ok_or(CUT_OFF)?;
    if header[58..] != *b"`\n" {
        return Err(MEMBER_DAMAGED);
    }
    let size = number(&header[48..58]).ok_or(MEMBER_DAMAGED)?;
    let (contents, following) = rest.split_at_checked(size).ok_or(CUT_OFF)?;
    // Members begin at even offsets; the padding after the last one may be missing.
    let padding = (size % 2).min(following.len());
    Ok((header, (contents, &following[padding..])))
}

fn number(field: &[u8]) -> Option<usize> {
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
        let read: Result<Vec<_>, _> = members(&archive).collect();
        assert_eq!(read.unwrap(), contents);
    }

    #[test]
    fn a_cut_off_archive_is_an_error_and_not_an_end() {
        let archive = write(&[Member {
            name: "a.o".to_owned(),
            data: vec![7; 100],
        }])
        .unwrap();
        let member_start = archive.len() - 100 - HEADER_BYTES;
        for length in member_start + 1..archive.len() {
            assert!(
                members(&archive[..length]).any(|m| m.is_err()),
                "cut at {length}"
            );
        }
    }
}
