//! Where reports go, and how they look there.

pub mod attributes;
mod links;

pub use links::behind_links;

use crate::env_vars;
use crate::ui::Failure;
use anyhow::Context as _;
use reheap_allocators::cache::write_dressed;
use reheap_report::{Colour, Style};
use rustix::fs::{Access, Mode, OFlags};
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, IsTerminal, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use terminal_size::{Width, terminal_size_of};

/// What is kept of a mode: no bit that lets programs run with another user's rights.
const PERMISSIONS: u32 = 0o777;

/// Writes a file that the user named, whole or not at all. Where a link leads to a file, that file is written, and the
/// link stays.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
    let file = behind_links(path).with_context(cannot)?;
    if is_of_the_system(path) {
        if leads_to_standard_output(path) {
            // A file that is opened once more has its own place to write at: what is printed later would go over this.
            return io::stdout()
                .write_all(contents.as_ref())
                .with_context(cannot);
        }
        let mut file = fs::OpenOptions::new()
            .append(true)
            .open(path)
            .with_context(cannot)?;
        return file.write_all(contents.as_ref()).with_context(cannot);
    }
    replace(&file, contents.as_ref())
}

/// Puts a file in the place of another, whose mode, owner, access control list and attributes it gets; or makes it.
///
/// # Errors
/// When it cannot be written. Then all is as it was.
pub fn replace(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    match replaceable(path) {
        Some(present) => write_dressed(path, contents, 0o600, |new| dress(new, path, &present))?,
        None => write_dressed(path, contents, 0o666, |_| Ok(()))?,
    }
    Ok(())
}

/// The file that is at a path, unless a stranger may have put it there.
fn replaceable(path: &Path) -> Option<Metadata> {
    let present = fs::symlink_metadata(path).ok()?;
    (present.is_file() && links::is_trusted(path, &present)).then_some(present)
}

/// Gives a new file what the one has that it replaces.
fn dress(new: &File, path: &Path, present: &Metadata) -> io::Result<()> {
    let owner = rustix::process::geteuid()
        .is_root()
        .then_some(present.uid());
    // Only root can give files away, and others only to groups that they are in. Else it is the caller's.
    let _ = fchown(new, owner, Some(present.gid()));
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if let Ok(readable) = rustix::fs::open(path, flags, Mode::empty()) {
        attributes::copy(&File::from(readable), new)?; // before the mode, of which an access control list is a part
    }
    new.set_permissions(Permissions::from_mode(present.mode() & PERMISSIONS))
}

/// A file that the user named and that grows over some time. Until it is finished it has another name beside its own, so
/// what was there stays. If reheap is killed before, what was written so far is under the other name.
pub struct GrowingFile {
    file: File,
    /// The file's temporary name and its final one; `None` for what [`write()`] does not replace either.
    names: Option<(tempfile::TempPath, PathBuf)>,
}

impl GrowingFile {
    /// # Errors
    /// When it cannot be written there.
    pub fn begin(path: &Path) -> io::Result<Self> {
        if is_of_the_system(path) {
            let file = File::create(path)?;
            return Ok(Self { file, names: None });
        }
        let path = behind_links(path)?;
        let mut prefix = path.file_name().unwrap_or_default().to_owned();
        prefix.push(".unfinished-");
        let file = tempfile::Builder::new()
            .prefix(&prefix)
            .permissions(Permissions::from_mode(0o666)) // less what the user's mask takes, as for any new file
            .tempfile_in(path.parent().unwrap_or(Path::new(".")))?;
        let (file, temporary) = file.into_parts();
        let names = Some((temporary, path));
        Ok(Self { file, names })
    }

    /// What is written to.
    ///
    /// # Errors
    /// When the system gives no more descriptors.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// When what was there cannot be replaced.
    pub fn finish(self) -> io::Result<()> {
        let Some((temporary, path)) = self.names else {
            return Ok(());
        };
        let dressed = match replaceable(&path) {
            Some(present) => dress(&self.file, &path, &present),
            None => Ok(()),
        };
        let synchronized = dressed.and_then(|()| self.file.sync_all());
        temporary.persist(path).map_err(|error| {
            let _ = error.path.keep(); // it has the only copy, under the other name
            error.error
        })?;
        synchronized
    }

    /// Leaves it with its other name, which this gives; `None` where it has none.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub fn keep_unfinished(self) -> io::Result<Option<PathBuf>> {
        let kept = self.names.map(|(temporary, _)| temporary.keep());
        kept.transpose().map_err(|error| error.error)
    }
}

/// Whether renaming a file into place would take something away from everybody: `/dev/null` is a device, and
/// `/dev/stdout` a link that leads to a file whenever standard output does.
pub fn is_of_the_system(path: &Path) -> bool {
    let directory = path
        .parent()
        .and_then(|parent| fs::canonicalize(parent).ok());
    let is_in = |system: &str| {
        directory
            .as_ref()
            .is_some_and(|directory| directory.starts_with(system))
    };
    (path.exists() && !path.is_file()) || is_in("/proc") || (is_in("/dev") && path.is_symlink())
}

fn leads_to_standard_output(path: &Path) -> bool {
    const OURS: &str = "/proc/self/fd/1";
    path == Path::new(OURS) || fs::read_link(path).is_ok_and(|target| target == Path::new(OURS))
}

/// Whether a program or a script is there. A report in its place is a word that was forgotten on the command line.
pub fn is_program(path: &Path) -> bool {
    let mut start = [0; 4];
    let file = path.is_file().then(|| File::open(path).ok()).flatten();
    file.is_some_and(|mut file| file.read_exact(&mut start).is_ok())
        && (start == *b"\x7fELF" || start.starts_with(b"#!"))
}

/// Shows that [`write`] will be able to write there, as far as that can be known: a long run's result has to go somewhere.
///
/// # Errors
/// When it will not.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
    if path.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory)).with_context(cannot);
    }
    if is_program(path) {
        let text = format!("{}: a program is there", cannot());
        let hint = "`-` stands for standard output, and `--` ends the options of reheap";
        return Err(Failure::usage(text).hint(hint).into());
    }
    behind_links(path).with_context(cannot)?;
    if is_of_the_system(path) {
        return Ok(());
    }
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    // The error of the sibling would name that.
    let error = |error: io::Error| match rustix::fs::access(directory, Access::WRITE_OK) {
        Err(reason) => reason.into(),
        Ok(()) => io::Error::from(error.kind()),
    };
    let sibling = tempfile::Builder::new().tempfile_in(directory);
    sibling.map(drop).map_err(error).with_context(cannot)
}

/// Whether text there may have colours.
pub fn is_colourful(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && env_vars::variable(env_vars::NO_COLOR).is_none()
}

/// How text looks there: coloured and as wide as the terminal, or neither.
pub fn style(stream: impl IsTerminal + AsFd, verbose: bool) -> Style {
    Style {
        colour: if is_colourful(&stream) {
            Colour::Always
        } else {
            Colour::Never
        },
        width: match terminal_size_of(stream) {
            Some((Width(columns), _)) => usize::from(columns),
            None => usize::MAX, // a file or a pipe has no width
        },
        verbose,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    use std::os::unix::fs::chown;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_mode_attributes_and_owner() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "old").unwrap();
        setxattr(&file, "user.note", b"by hand", XattrFlags::empty()).unwrap();
        for bits in [0o660, 0o640, 0o600] {
            fs::set_permissions(&file, Permissions::from_mode(bits)).unwrap();
            write(&file, "new").unwrap();
            assert_eq!(mode(&file), bits);
        }
        let mut note = [0; 8];
        assert_eq!(getxattr(&file, "user.note", &mut note), Ok(7));
        // Only root can give files away.
        if chown(&file, Some(1234), Some(4321)).is_ok() {
            write(&file, "newer").unwrap();
            let metadata = fs::metadata(&file).unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), (1234, 4321));
            // Unless somebody may have put it there to get the contents.
            fs::set_permissions(directory.path(), Permissions::from_mode(0o1777)).unwrap();
            write(&file, "newest").unwrap();
            assert_eq!(fs::metadata(&file).unwrap().uid(), 0);
        }
    }
}
