//! Whom a file's access control list lets write to it.
//!
//! The kernel gives the list as an extended attribute: a version, and entries of eight bytes
//! (`include/uapi/linux/posix_acl_xattr.h`). A list that does not fit into a buffer is a list all the same, so only two
//! errors mean that there is none: ENODATA, and EOPNOTSUPP of a file system without lists.

use rustix::io::Errno;
use std::fmt;
use std::path::Path;

const ATTRIBUTE: &str = "system.posix_acl_access";
const VERSION: u32 = 2;
const USER: u16 = 0x02;
const OWN_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
/// The most that named users and groups may do, whatever their entries say.
const MASK: u16 = 0x10;
const MAY_WRITE: u16 = 0x02;
/// No attribute is longer: XATTR_SIZE_MAX (`include/uapi/linux/limits.h`).
const LENGTH_MAX: usize = 64 << 10;

/// Somebody whom a list names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    User(u32),
    Group(u32),
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(user) => write!(f, "user {user}"),
            Self::Group(group) => write!(f, "the members of group {group}"),
        }
    }
}

/// Why nobody can say what a list allows.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("{0}")]
    Refused(#[from] Errno),
    #[error("its format is unknown")]
    Unknown,
}

/// The users and groups, beside the owner, that the list of a file of this group lets write to it. None without a list.
pub(super) fn writers(path: &Path, group: u32) -> Result<Option<Vec<Writer>>, Unreadable> {
    match read(path)? {
        Some(list) => Ok(Some(parse(&list, group).ok_or(Unreadable::Unknown)?)),
        None => Ok(None),
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, Errno> {
    let mut list = vec![0; 4 << 10];
    loop {
        match rustix::fs::lgetxattr(path, ATTRIBUTE, list.as_mut_slice()) {
            Ok(length) => {
                list.truncate(length);
                return Ok(Some(list));
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(None),
            Err(Errno::RANGE) if list.len() < LENGTH_MAX => list.resize(LENGTH_MAX, 0),
            Err(error) => return Err(error),
        }
    }
}

fn parse(list: &[u8], group: u32) -> Option<Vec<Writer>> {
    let (version, entries) = list.split_first_chunk::<4>()?;
    let (entries, rest) = entries.as_chunks::<8>();
    if u32::from_le_bytes(*version) != VERSION || !rest.is_empty() {
        return None;
    }
    let entry = |[t0, t1, p0, p1, id @ ..]: &[u8; 8]| {
        let (tag, permissions) = (
            u16::from_le_bytes([*t0, *t1]),
            u16::from_le_bytes([*p0, *p1]),
        );
        (tag, permissions & MAY_WRITE != 0, u32::from_le_bytes(*id))
    };
    let is_masked = |&(tag, may_write, _): &(u16, bool, u32)| tag == MASK && !may_write;
    if entries.iter().map(entry).any(|entry| is_masked(&entry)) {
        return Some(Vec::new());
    }
    let writer = |(tag, may_write, id)| match tag {
        USER if may_write => Some(Writer::User(id)),
        OWN_GROUP if may_write => Some(Writer::Group(group)),
        GROUP if may_write => Some(Writer::Group(id)),
        _ => None,
    };
    Some(entries.iter().map(entry).filter_map(writer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_list_is_not_taken_for_an_empty_one() {
        let empty: &[u8] = &[2, 0, 0, 0];
        assert_eq!(parse(empty, 0), Some(Vec::new()));
        for bytes in [&[][..], &[2, 0], &[3, 0, 0, 0], &[2, 0, 0, 0, 1]] {
            assert_eq!(parse(bytes, 0), None, "{bytes:?}");
        }
        assert!(matches!(
            writers(Path::new("/proc/no-such-file"), 0),
            Err(Unreadable::Refused(Errno::NOENT))
        ));
    }
}
