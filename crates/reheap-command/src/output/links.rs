//! Follows links to the file to be written, but none that leads where a stranger wants.
//!
//! In a directory such as `/tmp`, anybody can put a link in the way, and whoever follows it replaces a file of their own.
//! The kernel refuses such links where `fs.protected_symlinks` is set (proc_sys_fs(5)). reheap replaces a file by renaming
//! and follows the link before that, so it has to ask the same question.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// How many links the kernel follows in one path (path_resolution(7)).
const LINKS_MAX: usize = 40;
/// Everybody may write to such a directory, and delete only what is theirs (inode(7)).
const LIKE_TMP: u32 = 0o1002;

/// The file or directory that a path leads to. Where nothing is, that is the path itself.
///
/// # Errors
/// When somebody else could have put the link there.
pub fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = path.to_owned();
    for _ in 0..=LINKS_MAX {
        // The owner and the target must be those of one link, whatever takes its place meanwhile.
        let Ok(opened) = rustix::fs::open(&at, flags, Mode::empty()).map(File::from) else {
            return Ok(path.to_owned());
        };
        let metadata = opened.metadata()?;
        if !metadata.is_symlink() {
            return Ok(without_links_above(&at));
        }
        if !is_trusted(&at, &metadata) {
            let (owner, shown) = (metadata.uid(), at.display());
            let text = format!("user {owner} put the link `{shown}` where everybody can put one");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let target = rustix::fs::readlinkat(&opened, c"", Vec::new())?;
        at = directory_of(&at).join(OsStr::from_bytes(target.as_bytes()));
    }
    Err(Errno::LOOP.into())
}

/// Whether a link or file was not put there by a stranger.
pub(super) fn is_trusted(path: &Path, metadata: &Metadata) -> bool {
    let caller = rustix::process::geteuid().as_raw();
    let is_followed = |directory: Metadata| {
        is_followed(metadata.uid(), caller, directory.uid(), directory.mode())
    };
    fs::metadata(directory_of(path)).is_ok_and(is_followed)
}

/// The kernel's rule (`may_follow_link` in its `fs/namei.c`).
fn is_followed(owner: u32, caller: u32, directory_owner: u32, directory_mode: u32) -> bool {
    owner == caller || owner == directory_owner || directory_mode & LIKE_TMP != LIKE_TMP
}

fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    parent.unwrap_or(Path::new("."))
}

fn without_links_above(path: &Path) -> PathBuf {
    match (fs::canonicalize(directory_of(path)), path.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};

    const STRANGER: u32 = 65_534;

    #[test]
    fn links_are_followed_by_the_kernels_rule() {
        for (owner, directory_owner, directory_mode, expected) in [
            (1000, 0, 0o1777, true), // the caller's
            (0, 0, 0o1777, true),    // root's in root's directory
            (2000, 0, 0o1777, false),
            (0, 2000, 0o1777, false),
            (2000, 2000, 0o1777, true),
            (2000, 0, 0o777, true),
            (2000, 0, 0o1775, true),
        ] {
            let found = is_followed(owner, 1000, directory_owner, directory_mode);
            assert_eq!(
                found, expected,
                "{owner} {directory_owner} {directory_mode:o}"
            );
        }
    }

    #[test]
    fn what_a_chain_of_links_leads_to_is_found_and_else_the_path_itself() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap();
        let path = |name: &str| real.join(name);
        fs::create_dir(path("below")).unwrap();
        fs::write(path("below/file"), "").unwrap();
        symlink("below/second", path("first")).unwrap();
        symlink(path("below/file"), path("below/second")).unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        symlink("loop", path("loop")).unwrap();
        assert_eq!(behind_links(&path("first")).unwrap(), path("below/file"));
        assert_eq!(
            behind_links(&path("below/../first")).unwrap(),
            path("below/file")
        );
        for name in ["below", "dangling", "new"] {
            assert_eq!(behind_links(&path(name)).unwrap(), path(name));
        }
        assert!(behind_links(&path("loop")).is_err());
    }

    #[test]
    fn a_strangers_link_in_a_directory_for_all_is_not_written_through() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mode = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(directory.path(), mode).unwrap();
        fs::write(path("precious"), "precious").unwrap();
        symlink("precious", path("link")).unwrap();
        crate::output::write(&path("link"), "own").unwrap();
        assert_eq!(fs::read_to_string(path("precious")).unwrap(), "own");
        assert!(path("link").is_symlink());
        // Only root can give a link to somebody else.
        if lchown(path("link"), Some(STRANGER), None).is_err() {
            return;
        }
        crate::output::check(&path("link")).unwrap_err();
        let error = crate::output::write(&path("link"), "attacked").unwrap_err();
        let why = format!("user 65534 put the link `{}`", path("link").display());
        assert!(format!("{error:#}").contains(&why), "{error:#}");
        assert_eq!(fs::read_to_string(path("precious")).unwrap(), "own");
    }
}
