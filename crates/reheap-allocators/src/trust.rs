//! Whose files reheap executes and preloads: only those that nobody else can replace.
//!
//! OpenSSH (`StrictModes`) and git (`safe.directory`) answer the same question. As OpenSSH does, reheap looks at every
//! directory on the way to a file, because whoever can write to one can replace what is below it. Three rules keep usual
//! set-ups working:
//!
//! - A directory may be writable for a group that has no other member, as with umask 002 on Debian and Fedora.
//! - A directory above may belong to a user without an account, as where a container mounts a directory of its host. Not
//!   below a directory such as `/tmp`, where anybody could have made it.
//! - Files of the user that owns reheap's own program are trusted. That user can replace reheap.
//!
//! A user namespace shows one number for all users that it does not know: root, where a user made the namespace, and
//! everybody else. So files with that number may be anybody's. Only directories above may have it, as those of users
//! without an account.

mod access_list;

use access_list::Writer;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// As many as the kernel follows (path_resolution(7)).
const LINKS_MAX: usize = 40;
const OTHERS_MAY_WRITE: u32 = 0o002;
const GROUP_MAY_WRITE: u32 = 0o020;
/// In such a directory one deletes and renames only what is one's own (inode(7)).
const STICKY: u32 = 0o1000;

/// A file that somebody else could replace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot trust `{}`: {reason} what reheap executes", .path.display())]
pub struct Distrusted {
    /// The file, or the directory with it or above it.
    pub path: PathBuf,
    reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Reason {
    #[error("it belongs to user {0}, who could replace")]
    Owner(u32),
    #[error("every user may write to it, and replace")]
    Everyone,
    #[error("the members of group {0} may write to it, and replace")]
    Group(u32),
    #[error("its access control list lets {0} write to it, and replace")]
    Listed(Writer),
    #[error(
        "it may have an access control list that reheap cannot read ({0}), and that lets others replace"
    )]
    UnreadableList(String),
}

impl Distrusted {
    /// The command that makes it trusted, if it is about modes or lists. A file of somebody else may be so for a reason, and
    /// so is a device: without its modes, `/dev/null` would break the system.
    pub fn command(&self) -> Option<String> {
        let metadata = self.path.metadata().ok()?;
        if !metadata.is_dir() && !metadata.is_file() {
            return None;
        }
        let shown = self.path.display();
        match self.reason {
            Reason::Owner(_) => None,
            Reason::Everyone | Reason::Group(_) => Some(format!("chmod go-w {shown}")),
            Reason::Listed(_) | Reason::UnreadableList(_) => Some(format!("setfacl -b {shown}")),
        }
    }
}

/// Whom reheap trusts with the files that it executes.
#[derive(Debug, Clone)]
pub struct Trust {
    owners: Vec<u32>,
    accounts: Accounts,
    unmapped_user: Option<u32>,
    unmapped_group: Option<u32>,
}

/// What `/etc/passwd` and `/etc/group` say.
#[derive(Debug, Clone, Default)]
struct Accounts {
    /// Name, user, and the user's first group.
    users: Vec<(String, u32, u32)>,
    /// Group and its members.
    groups: Vec<(u32, Vec<String>)>,
}

/// A file or directory on the way to a path.
struct Step {
    path: PathBuf,
    metadata: Metadata,
    /// Whether everybody can make files beside it.
    is_in_open_directory: bool,
}

impl Trust {
    /// That of whoever started this process. It is found out once, because each file of the cache is checked by it.
    pub fn of_this_process() -> &'static Self {
        static OF_THIS_PROCESS: LazyLock<Trust> = LazyLock::new(Trust::found_out);
        &OF_THIS_PROCESS
    }

    fn found_out() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let mut owners = vec![0, rustix::process::geteuid().as_raw()];
        owners.extend(owner_of_program());
        let unmapped_user = unmapped_user();
        owners.retain(|owner| Some(*owner) != unmapped_user);
        Self {
            owners,
            accounts: Accounts::parse(&read("/etc/passwd"), &read("/etc/group")),
            unmapped_user,
            unmapped_group: unmapped("gid"),
        }
    }

    /// Whom to trust with files that were installed with this program. The namespace may hide whoever installed it.
    pub fn of_installed_files() -> Self {
        let mut trust = Self::of_this_process().clone();
        trust.owners.extend(owner_of_program());
        trust
    }

    /// Checks each directory on the way to a file or directory, also those that links lead through, and it itself. What
    /// is missing is not for others to make.
    ///
    /// # Errors
    /// The first that somebody else could replace, or could replace something in.
    pub fn check(&self, path: &Path) -> Result<(), Distrusted> {
        let mut steps = steps(path);
        let last = steps.pop();
        for step in &steps {
            self.check_above(step)?;
        }
        let Some(last) = last else {
            return Ok(());
        };
        match fs::canonicalize(path) {
            Ok(real) if real == last.path => self.check_itself(&last.path, &last.metadata),
            _ => self.check_above(&last), // something on the way is missing
        }
    }

    /// Checks a file or directory, and everything in it. Links are not followed.
    ///
    /// # Errors
    /// The first that somebody else could change.
    pub fn check_tree(&self, path: &Path) -> Result<(), Distrusted> {
        let Ok(metadata) = path.symlink_metadata() else {
            return Ok(()); // what cannot be found is not used
        };
        self.check_itself(path, &metadata)?;
        if metadata.is_dir() {
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                self.check_tree(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Checks a file or directory itself.
    ///
    /// # Errors
    /// If somebody else could change it.
    pub fn check_one(&self, path: &Path) -> Result<(), Distrusted> {
        match path.symlink_metadata() {
            Ok(metadata) => self.check_itself(path, &metadata),
            Err(_) => Ok(()),
        }
    }

    fn check_itself(&self, path: &Path, metadata: &Metadata) -> Result<(), Distrusted> {
        if metadata.is_symlink() {
            return Ok(()); // its mode says nothing, and its directory is checked
        }
        let reason = match metadata.mode() {
            _ if !self.owners.contains(&metadata.uid()) => Reason::Owner(metadata.uid()),
            mode if mode & OTHERS_MAY_WRITE != 0 => Reason::Everyone,
            mode if mode & GROUP_MAY_WRITE != 0 => match self.check_group(path, metadata) {
                Ok(()) => return Ok(()),
                Err(reason) => reason,
            },
            _ => return Ok(()),
        };
        let path = path.to_owned();
        Err(Distrusted { path, reason })
    }

    fn check_above(&self, step: &Step) -> Result<(), Distrusted> {
        let metadata = &step.metadata;
        let owner = metadata.uid();
        let is_stranger = !self.owners.contains(&owner);
        let is_unknown = Some(owner) == self.unmapped_user || !self.accounts.has_user(owner);
        let is_of_host = !step.is_in_open_directory && is_unknown;
        let reason = match metadata.mode() {
            _ if is_stranger && !is_of_host => Reason::Owner(owner),
            _ if metadata.is_symlink() => return Ok(()),
            mode if mode & STICKY != 0 => return Ok(()),
            mode if mode & OTHERS_MAY_WRITE != 0 => Reason::Everyone,
            mode if mode & GROUP_MAY_WRITE != 0 => match self.check_group(&step.path, metadata) {
                Ok(()) => return Ok(()),
                Err(reason) => reason,
            },
            _ => return Ok(()),
        };
        let path = step.path.clone();
        Err(Distrusted { path, reason })
    }

    /// Checks whom the group's bits speak for: without an access control list only the group, with one also the users
    /// and groups in it (acl(5)).
    fn check_group(&self, path: &Path, metadata: &Metadata) -> Result<(), Reason> {
        let (group, owner) = (metadata.gid(), metadata.uid());
        let is_trusted = |writer: &Writer| match *writer {
            Writer::Group(group) if Some(group) == self.unmapped_group => false,
            Writer::User(user) => user == owner || self.owners.contains(&user),
            Writer::Group(group) => self.accounts.is_private(group, owner, &self.owners),
        };
        let list = access_list::writers(path, group);
        match list.map_err(|error| Reason::UnreadableList(error.to_string()))? {
            None if is_trusted(&Writer::Group(group)) => Ok(()),
            None => Err(Reason::Group(group)),
            Some(writers) => match writers.into_iter().find(|writer| !is_trusted(writer)) {
                None => Ok(()),
                Some(writer) => Err(Reason::Listed(writer)),
            },
        }
    }

    /// `PATH` without directories in which everybody can put a program, and without relative ones. Whom else the user
    /// trusts with programs, `PATH` itself says.
    pub fn search_path(&self, path: &OsStr) -> OsString {
        let directories = std::env::split_paths(path).filter(|directory| self.is_closed(directory));
        // What was split at colons has none.
        std::env::join_paths(directories).unwrap_or_default()
    }

    fn is_closed(&self, directory: &Path) -> bool {
        let steps = steps(directory);
        let is_closed = |step: &Step| {
            let is_open = step.metadata.mode() & OTHERS_MAY_WRITE != 0;
            let is_open = is_open && !step.metadata.is_symlink();
            let is_sticky = step.metadata.mode() & STICKY != 0;
            let is_strangers =
                step.is_in_open_directory && !self.owners.contains(&step.metadata.uid());
            !is_strangers && (!is_open || is_sticky)
        };
        let everybody_may_write = |step: &Step| step.metadata.mode() & OTHERS_MAY_WRITE != 0;
        directory.is_absolute()
            && directory.is_dir()
            && steps.iter().all(is_closed)
            && !steps.last().is_some_and(everybody_may_write)
    }
}

impl Accounts {
    fn parse(passwd: &str, group: &str) -> Self {
        let user = |line: &str| {
            let mut fields = line.split(':');
            let name = fields.next()?.to_owned();
            let user = fields.nth(1)?.parse().ok()?;
            Some((name, user, fields.next()?.parse().ok()?))
        };
        let group_and_members = |line: &str| {
            let mut fields = line.split(':');
            let group = fields.nth(2)?.parse().ok()?;
            let members = fields
                .next()
                .unwrap_or_default()
                .split(',')
                .map(|name| name.trim().to_owned());
            Some((group, members.filter(|name| !name.is_empty()).collect()))
        };
        Self {
            users: passwd.lines().filter_map(user).collect(),
            groups: group.lines().filter_map(group_and_members).collect(),
        }
    }

    fn has_user(&self, id: u32) -> bool {
        self.users.iter().any(|(_, user, _)| *user == id)
    }

    /// Whether a group has no members but these users. Of a group that `/etc/group` does not list, such as a directory
    /// service's, only the convention is known that a user's own group has the user's number.
    fn is_private(&self, group: u32, owner: u32, trusted: &[u32]) -> bool {
        let is_trusted = |user: u32| user == owner || trusted.contains(&user);
        let is_trusted_name = |name: &String| {
            let mut users = self.users.iter();
            users.any(|(known, user, _)| known == name && is_trusted(*user))
        };
        let mut entries = self.groups.iter().filter(|(id, _)| *id == group).peekable();
        let is_known = entries.peek().is_some() || group == owner;
        let mut others = self.users.iter().filter(|(_, _, first)| *first == group);
        is_known
            && entries.all(|(_, members)| members.iter().all(is_trusted_name))
            && others.all(|(_, user, _)| is_trusted(*user))
    }
}

/// What is on the way to an absolute path, from the root directory on: directories, and links with what they lead to.
/// It ends where something is missing or cannot be looked at.
fn steps(path: &Path) -> Vec<Step> {
    let parts = |path: &Path| -> Vec<OsString> {
        let parts = path.components().rev();
        parts.map(|part| part.as_os_str().to_owned()).collect()
    };
    let mut steps: Vec<Step> = Vec::new();
    let mut at = PathBuf::from("/");
    let mut rest = parts(path);
    let mut links = 0;
    while let Some(part) = rest.pop() {
        match part.as_encoded_bytes() {
            b"." => continue,
            b".." => {
                at.pop();
                continue;
            }
            _ => at.push(&part),
        }
        let Ok(metadata) = at.symlink_metadata() else {
            break;
        };
        let is_open = |directory: &Path| {
            let metadata = directory.symlink_metadata();
            metadata.is_ok_and(|metadata| metadata.mode() & OTHERS_MAY_WRITE != 0)
        };
        let is_in_open_directory = at.parent().is_some_and(is_open);
        let is_link = metadata.is_symlink();
        steps.push(Step {
            path: at.clone(),
            metadata,
            is_in_open_directory,
        });
        if is_link {
            links += 1;
            match at.read_link() {
                Ok(target) if links <= LINKS_MAX => rest.extend(parts(&target)),
                _ => break,
            }
            at.pop();
        }
    }
    steps
}

fn owner_of_program() -> Option<u32> {
    Some(fs::metadata("/proc/self/exe").ok()?.uid())
}

/// The owner that this namespace shows for files of users that it does not know; `None` where it knows all, or has a
/// user of its own with that number.
pub fn unmapped_user() -> Option<u32> {
    unmapped("uid")
}

/// The number that this namespace shows for users (`uid`) or groups (`gid`) that it does not know
/// (user_namespaces(7)).
fn unmapped(kind: &str) -> Option<u32> {
    let read = |path: String| fs::read_to_string(path).ok();
    let number = read(format!("/proc/sys/kernel/overflow{kind}"))?
        .trim()
        .parse()
        .ok()?;
    let map = read(format!("/proc/self/{kind}_map"))?;
    (!maps(&map, number)).then_some(number)
}

/// Whether a namespace's map has a number: each line has the first of a range, what that is outside, and how many follow.
fn maps(map: &str, number: u32) -> bool {
    let mut ranges = map.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().map(str::parse::<u64>);
        let first = fields.next()?.ok()?;
        Some(first..first + fields.nth(1)?.ok()?)
    });
    ranges.any(|range| range.contains(&u64::from(number)))
}

#[cfg(test)]
mod tests;
