//! Lets every step of every change fail once, and the process die before every step. Afterwards the system is as
//! before, or `disable` makes it so.

use super::change::{self, Interrupted};
use super::disk::Disk;
use super::libraries::{Libraries, Library};
use super::root::Root;
use super::state::{self, Record, Wanted};
use super::{JOURNAL, LD_SO_PRELOAD, LIBRARIES, PROFILE_SCRIPT, RECORD};
use reheap_allocators::target::Libc;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// What goes wrong at a step.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Mishap {
    #[default]
    None,
    /// This step fails, as on a disk that is full or read-only; later ones do not.
    Failure(usize),
    /// This step is taken and fails all the same, as when what was written does not come to the disk.
    LateFailure(usize),
    /// The first step is taken and fails all the same, and before the second the process is gone.
    LateFailureAndDeath(usize, usize),
    /// The process is gone before this step, so none of the later ones is taken.
    Death(usize),
}

/// Lets a step of a disk go wrong.
#[derive(Debug, Default)]
pub(crate) struct Fault {
    mishap: Cell<Mishap>,
    steps: Cell<usize>,
    has_struck: Cell<bool>,
}

impl Fault {
    /// A step with what goes wrong in it.
    pub(crate) fn around(
        &self,
        act: impl FnOnce(&Path) -> io::Result<()>,
    ) -> impl FnOnce(&Path) -> io::Result<()> {
        move |path| {
            let step = self.steps.replace(self.steps.get() + 1);
            match self.mishap.get() {
                Mishap::Failure(at) if step == at => {}
                Mishap::LateFailure(at) | Mishap::LateFailureAndDeath(at, _) if step == at => {
                    act(path)?;
                }
                Mishap::Death(at) | Mishap::LateFailureAndDeath(_, at) if step >= at => {}
                _ => return act(path),
            }
            self.has_struck.set(true);
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
    }
}

/// All files and directories, with their modes, contents and where links lead.
type Snapshot = BTreeMap<PathBuf, Seen>;

#[derive(Debug, PartialEq, Eq)]
struct Seen {
    mode: u32,
    contents: String,
    /// Which file it is, so that its other names, its times and its attributes are the same too.
    inode: Option<u64>,
}

struct Tree {
    directory: tempfile::TempDir,
    root: Root,
}

impl Tree {
    /// A system that has what others preload, or nothing.
    fn new(others: Option<&str>) -> Self {
        // Thousands of steps are each brought to the disk, which takes no time where memory is the disk.
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() {
            tempfile::tempdir_in(memory).unwrap()
        } else {
            tempfile::tempdir().unwrap()
        };
        fs::create_dir_all(directory.path().join("etc/profile.d")).unwrap();
        fs::create_dir_all(directory.path().join("usr")).unwrap();
        if let Some(text) = others {
            let file = directory.path().join("etc/ld.so.preload");
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        }
        let root = Root::of(Some(directory.path()), "").unwrap();
        Self { directory, root }
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::new();
        let mut directories = vec![self.directory.path().to_owned()];
        while let Some(next) = directories.pop() {
            for entry in fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                let metadata = path.symlink_metadata().unwrap();
                let contents = if metadata.is_dir() {
                    directories.push(path.clone());
                    Vec::new()
                } else if metadata.is_symlink() {
                    fs::read_link(&path)
                        .unwrap()
                        .into_os_string()
                        .into_encoded_bytes()
                } else {
                    fs::read(&path).unwrap()
                };
                let seen = Seen {
                    mode: metadata.permissions().mode(),
                    contents: String::from_utf8_lossy(&contents).into_owned(),
                    inode: metadata.is_file().then_some(metadata.ino()),
                };
                snapshot.insert(path, seen);
            }
        }
        snapshot
    }

    /// When each directory was modified.
    fn directory_times(&self) -> BTreeMap<PathBuf, (i64, i64)> {
        let directories = self.snapshot().into_keys().filter(|path| path.is_dir());
        let time = |path: PathBuf| {
            let metadata = path.metadata().unwrap();
            (path, (metadata.mtime(), metadata.mtime_nsec()))
        };
        directories.map(time).collect()
    }

    fn disk(&self, mishap: Mishap) -> Disk<'_> {
        let disk = Disk::new(&self.root);
        disk.fault.mishap.set(mishap);
        disk
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path.trim_start_matches('/'))
    }

    fn enable(&self, disk: &Disk, allocator: &str) -> anyhow::Result<anyhow::Result<()>> {
        let _ = change::recover(disk)?; // a command warns of what could not be deleted
        let library = |libc| Library {
            libc,
            bytes: format!("{allocator} for {libc}").into_bytes(),
            canary: b"canary".to_vec(),
        };
        let libraries = Libraries::new(
            allocator,
            "1",
            [Libc::Glibc, Libc::Musl].map(library).to_vec(),
        );
        let wanted = Wanted {
            allocator,
            version: "1",
            tuning: BTreeMap::new(),
            libraries: &libraries,
        };
        let record = Record::read(&self.root)?;
        let Some(change) = state::to_enable(disk, record.as_ref(), &wanted)? else {
            return Ok(Ok(()));
        };
        let missing = disk.missing_directories(LIBRARIES);
        let prepare = || {
            missing
                .iter()
                .try_for_each(|directory| disk.make_directory(directory))?;
            libraries.write(disk)
        };
        change.make(disk, prepare, || libraries.delete_canaries(disk))
    }

    fn disable(&self, disk: &Disk) -> anyhow::Result<anyhow::Result<()>> {
        let _ = change::recover(disk)?; // a command warns of what could not be deleted
        let record = Record::read(&self.root)?;
        match state::to_disable(disk, record.as_ref())? {
            Some(change) => change.make(disk, || Ok(()), || Ok(())),
            None => Ok(Ok(())),
        }
    }

    fn does(&self, act: Act, disk: &Disk) -> anyhow::Result<anyhow::Result<()>> {
        match act {
            Act::Enable(allocator) => self.enable(disk, allocator),
            Act::Disable => self.disable(disk),
        }
    }

    #[track_caller]
    fn does_well(&self, act: Act) {
        self.does(act, &self.disk(Mishap::None)).unwrap().unwrap();
    }
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Enable(&'static str),
    Disable,
}

const OTHERS: [Option<&str>; 3] = [
    None,
    Some("/opt/other.so\n"),
    Some("# without a line's end\n/a.so:/b.so"),
];
/// What was done before, and what is done then.
const ACTS: [(&[Act], Act); 4] = [
    (&[], Act::Enable("one")),
    (&[Act::Enable("one")], Act::Enable("two")),
    (&[Act::Enable("one")], Act::Disable),
    (&[Act::Enable("one"), Act::Enable("two")], Act::Disable),
];

/// Does it in a fresh tree with a mishap at each step in turn, until there is no such step.
fn at_each_step(
    mishap: fn(usize) -> Mishap,
    check: impl Fn(&Tree, &Snapshot, &Snapshot, anyhow::Result<anyhow::Result<()>>),
) {
    for others in OTHERS {
        for (before, act) in ACTS {
            for step in 0.. {
                let tree = Tree::new(others);
                let original = tree.snapshot();
                before.iter().for_each(|act| tree.does_well(*act));
                let earlier = tree.snapshot();
                let disk = tree.disk(mishap(step));
                let result = tree.does(act, &disk);
                if !disk.fault.has_struck.get() {
                    result.unwrap().unwrap();
                    assert!(step > 5, "{act:?} has only {step} steps");
                    break;
                }
                check(&tree, &original, &earlier, result);
                tree.does_well(Act::Disable);
                assert_eq!(
                    tree.snapshot(),
                    original,
                    "{others:?} {before:?} {act:?} {step}"
                );
            }
        }
    }
}

#[test]
fn a_step_that_fails_leaves_everything_as_it_was() {
    at_each_step(Mishap::Failure, |tree, _, earlier, result| match result {
        Err(error) => assert_eq!(tree.snapshot(), *earlier, "{error:#}"),
        // Only the deleting failed, of what nothing uses any more.
        Ok(cleaned) => assert!(cleaned.is_err()),
    });
}

#[test]
fn a_step_that_fails_although_it_was_taken_leaves_what_was_or_what_shall_be() {
    at_each_step(
        Mishap::LateFailure,
        |tree, _, earlier, result| match result {
            Err(error) => assert_eq!(tree.snapshot(), *earlier, "{error:#}"),
            Ok(cleaned) => {
                assert!(cleaned.is_err());
                assert_ne!(
                    change::interrupted(&tree.root).unwrap(),
                    Some(Interrupted::Before)
                );
                assert_ne!(tree.snapshot(), *earlier);
            }
        },
    );
}

/// A crash is another matter: whoever finds what it left cannot tell what else was done to a directory since.
#[test]
fn directories_have_the_times_that_they_had_after_each_command_also_one_that_fails() {
    for others in OTHERS {
        for (before, act) in ACTS {
            for step in 0.. {
                let tree = Tree::new(others);
                let original = tree.directory_times();
                before.iter().for_each(|act| tree.does_well(*act));
                let disk = tree.disk(Mishap::Failure(step));
                let result = tree.does(act, &disk);
                let is_about_a_time =
                    |error: &anyhow::Error| format!("{error:#}").contains("the time of");
                if !result.is_ok_and(|cleaned| cleaned.is_err_and(|error| is_about_a_time(&error)))
                {
                    let times = tree.directory_times();
                    let kept = original
                        .iter()
                        .all(|(path, time)| times.get(path) == Some(time));
                    assert!(
                        kept,
                        "{others:?} {before:?} {act:?} {step}: {original:?} {times:?}"
                    );
                }
                if !disk.fault.has_struck.get() {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_file_that_was_edited_by_another_of_its_names_is_not_taken_for_what_was_there() {
    let tree = Tree::new(Some("/opt/other.so\n"));
    fs::hard_link(tree.path(LD_SO_PRELOAD), tree.path("/etc/second")).unwrap();
    tree.does_well(Act::Enable("one"));
    fs::write(tree.path("/etc/second"), "/opt/edited.so\n").unwrap();
    tree.does_well(Act::Disable);
    let read = |path| fs::read_to_string(tree.path(path)).unwrap();
    assert_eq!(read(LD_SO_PRELOAD), "/opt/other.so\n");
    assert_eq!(read("/etc/second"), "/opt/edited.so\n");
    assert_eq!(
        tree.snapshot().len(),
        Tree::new(Some("")).snapshot().len() + 1
    );
}

#[test]
fn what_was_there_comes_back_also_without_a_record_or_without_the_file_that_was_kept() {
    for lost in [RECORD, "/etc/.ld.so.preload.reheap-original"] {
        for text in ["", "/opt/other.so\n"] {
            let tree = Tree::new(Some(text));
            let inode = || tree.path(LD_SO_PRELOAD).metadata().unwrap().ino();
            let before = inode();
            tree.does_well(Act::Enable("one"));
            fs::remove_file(tree.path(lost)).unwrap();
            tree.does_well(Act::Disable);
            assert_eq!(fs::read_to_string(tree.path(LD_SO_PRELOAD)).unwrap(), text);
            assert_eq!(inode() == before, lost == RECORD);
            let names = fs::read_dir(tree.path("/etc")).unwrap().count();
            assert_eq!(names, 2, "ld.so.preload and profile.d");
        }
    }
}

#[test]
fn a_file_that_was_kept_and_is_a_setuid_program_since_is_never_restored() {
    let tree = Tree::new(Some("/opt/other.so\n"));
    tree.does_well(Act::Enable("one"));
    let kept = tree.path("/etc/.ld.so.preload.reheap-original");
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o4755)).unwrap();
    tree.does_well(Act::Disable);
    let file = tree.path(LD_SO_PRELOAD);
    assert_eq!(fs::read_to_string(&file).unwrap(), "/opt/other.so\n");
    assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o640);
}

#[test]
fn death_on_the_way_back_from_such_a_step_leaves_no_file_that_names_nothing() {
    for steps in 1..6 {
        for step in 0.. {
            let tree = Tree::new(None);
            tree.does_well(Act::Enable("one"));
            let disk = tree.disk(Mishap::LateFailureAndDeath(step, step + steps));
            let _ = tree.does(Act::Enable("two"), &disk);
            let recovered = change::recover(&tree.disk(Mishap::None)).unwrap();
            recovered.unwrap();
            let names = fs::read(tree.path(LD_SO_PRELOAD)).unwrap();
            for name in super::preload_files::names(&names) {
                assert!(tree.path(&name).is_file(), "{name} {step} {steps}");
            }
            if !disk.fault.has_struck.get() {
                break;
            }
        }
    }
}

#[test]
fn death_before_any_step_leaves_what_the_next_command_recognises_and_mends() {
    at_each_step(Mishap::Death, |tree, original, earlier, result| {
        let left = tree.snapshot();
        // It may have come as far as the directories' times.
        let is_done = || result.is_ok() && state::directories(&tree.root).len() == 1;
        let is_whole = left == *earlier || left == *original;
        let found = change::interrupted(&tree.root).unwrap();
        assert!(is_whole || found.is_some() || is_done(), "{left:#?}");
        // Every file that is loaded by name is there.
        let names = fs::read(tree.path(LD_SO_PRELOAD)).unwrap_or_default();
        for name in super::preload_files::names(&names)
            .into_iter()
            .filter(|name| super::preload_files::is_ours(name))
        {
            assert!(tree.path(&name).is_file(), "{name}");
        }
    });
}

#[test]
fn after_death_at_any_step_another_enable_succeeds() {
    at_each_step(Mishap::Death, |tree, _, _, _| {
        tree.does_well(Act::Enable("three"));
        assert_eq!(change::interrupted(&tree.root).unwrap(), None);
        let names = fs::read_to_string(tree.path(LD_SO_PRELOAD)).unwrap();
        assert!(
            names.starts_with(&format!("{LIBRARIES}/three-1-")),
            "{names}"
        );
        assert_eq!(state::directories(&tree.root).len(), 1);
    });
}

#[test]
fn what_others_wrote_in_the_meantime_stays() {
    let tree = Tree::new(Some("/opt/other.so\n"));
    tree.does_well(Act::Enable("one"));
    let file = tree.path(LD_SO_PRELOAD);
    let mut text = fs::read_to_string(&file).unwrap();
    text.push_str("/opt/late.so\n");
    fs::write(&file, &text).unwrap();
    tree.does_well(Act::Enable("two"));
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.ends_with(".so\n/opt/other.so\n/opt/late.so\n") && !text.contains("/one-"),
        "{text}"
    );
    tree.does_well(Act::Disable);
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        "/opt/other.so\n/opt/late.so\n"
    );
    assert!(!tree.path(PROFILE_SCRIPT).exists());
}

#[test]
fn an_edit_between_a_death_and_its_mending_stays_too() {
    for step in 0.. {
        let tree = Tree::new(None);
        tree.does_well(Act::Enable("one"));
        let disk = tree.disk(Mishap::Death(step));
        let _ = tree.does(Act::Enable("two"), &disk);
        let file = tree.path(LD_SO_PRELOAD);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{text}/opt/late.so\n")).unwrap();
        if !disk.fault.has_struck.get() {
            break;
        }
        tree.does_well(Act::Disable);
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            "/opt/late.so\n",
            "{step}"
        );
    }
}

#[test]
fn a_change_that_is_under_way_is_told_from_one_that_has_only_something_left_to_delete() {
    let tree = Tree::new(None);
    let before_the_library = 4;
    let _ = tree.enable(&tree.disk(Mishap::Death(before_the_library)), "one");
    assert_eq!(
        change::interrupted(&tree.root).unwrap(),
        Some(Interrupted::Before)
    );
    tree.does_well(Act::Enable("one"));
    fs::write(tree.path(JOURNAL), "{\"deleting\":[]}").unwrap();
    assert_eq!(
        change::interrupted(&tree.root).unwrap(),
        Some(Interrupted::After)
    );
}

#[test]
fn links_of_an_image_never_lead_out_of_it() {
    let outside = tempfile::tempdir().unwrap();
    let tree = Tree::new(None);
    fs::remove_dir_all(tree.path("/etc/profile.d")).unwrap();
    std::os::unix::fs::symlink(outside.path(), tree.path("/etc/profile.d")).unwrap();
    std::os::unix::fs::symlink("/real", tree.path("/usr/local")).unwrap();
    fs::create_dir(tree.path("/real")).unwrap();
    tree.does_well(Act::Enable("one"));
    assert!(tree.path("/real/lib/reheap").is_dir());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    fs::remove_file(tree.path(LD_SO_PRELOAD)).unwrap();
    let passwd = Path::new("/etc/passwd");
    std::os::unix::fs::symlink(passwd, tree.path(LD_SO_PRELOAD)).unwrap();
    let refused = tree.enable(&tree.disk(Mishap::None), "two").unwrap_err();
    assert!(
        refused.to_string().contains("not a regular file"),
        "{refused:#}"
    );
}

#[test]
fn this_system_is_refused_by_whatever_name_it_is_given() {
    assert!(Root::running().unwrap().is_this_system());
    for name in ["/", "//", "/.", "/proc/self/root", "/usr/.."] {
        let refused = Root::of(Some(Path::new(name)), "reheap status").unwrap_err();
        let said =
            format!("cannot use `{name}` as a root directory: it is the root directory of this");
        assert!(refused.to_string().contains(&said), "{refused}");
    }
    assert!(!Tree::new(None).root.is_this_system());
}

#[test]
fn a_directory_that_others_may_write_to_is_refused() {
    let tree = Tree::new(None);
    let directory = tree.path("/usr");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = tree.root.check_owners(LIBRARIES).unwrap_err().to_string();
    let said = format!(
        "below `{}`: users other than its owner may write there",
        directory.display()
    );
    assert!(refused.contains(&said), "{refused}");
    assert!(tree.root.check_owners("/etc").is_ok());
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    tree.root.check_owners(LIBRARIES).unwrap();
}

#[test]
fn a_directory_that_not_everybody_may_enter_is_refused() {
    let tree = Tree::new(None);
    tree.root.check_entry(LIBRARIES).unwrap();
    fs::create_dir_all(tree.path("/usr/local/lib")).unwrap();
    let directory = tree.path("/usr/local");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o750)).unwrap();
    let refused = tree.root.check_entry(LIBRARIES).unwrap_err().to_string();
    assert!(
        refused.contains("usr/local`: not every user may enter it"),
        "{refused}"
    );
    tree.root.check_owners(LIBRARIES).unwrap();
}

#[test]
fn a_journal_or_record_that_names_what_reheap_never_changes_is_refused() {
    let tree = Tree::new(None);
    let contents = "{\"bytes\":\"\",\"mode\":2541,\"owner\":0,\"group\":0}";
    let changing = |file: &str, directory: &str| {
        format!(
            "{{\"changing\":{{\"files\":[{{\"path\":\"{file}\",\"before\":{contents},\"after\":null}}],
              \"delete_if_undone\":[\"{directory}\"],\"delete_if_done\":[]}}}}"
        )
    };
    let deleting = |directory: &str| format!("{{\"deleting\":[\"{directory}\"]}}");
    for (journal, another) in [
        (changing("/etc/profile.d/x", LIBRARIES), "/etc/profile.d/x"),
        (changing(LD_SO_PRELOAD, "/etc"), "/etc"),
        (deleting("/"), "/"),
        (
            deleting("/usr/local/lib/reheap-other"),
            "/usr/local/lib/reheap-other",
        ),
        (
            deleting("/usr/local/lib/reheap/.."),
            "/usr/local/lib/reheap/..",
        ),
        (deleting("/usr/local/lib/reheap/"), "/usr/local/lib/reheap/"),
        (
            deleting("/usr/local/lib/reheap/a/../../b"),
            "/usr/local/lib/reheap/a/../../b",
        ),
    ] {
        fs::write(tree.path(JOURNAL), journal).unwrap();
        let before = tree.snapshot();
        let refused = tree
            .disable(&tree.disk(Mishap::None))
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains(&format!("it names `{another}`, which")),
            "{refused}"
        );
        assert_eq!(tree.snapshot(), before);
    }
    fs::remove_file(tree.path(JOURNAL)).unwrap();
    tree.does_well(Act::Enable("one"));
    let record = fs::read_to_string(tree.path(RECORD)).unwrap();
    for (ours, another) in [(LD_SO_PRELOAD, "/etc/shadow"), ("/usr/local", "/opt")] {
        let forged = record.replace(&format!("\"{ours}\""), &format!("\"{another}\""));
        assert_ne!(forged, record);
        fs::write(tree.path(RECORD), forged).unwrap();
        let refused = tree
            .disable(&tree.disk(Mishap::None))
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains(&format!("it names `{another}`, which")),
            "{refused}"
        );
    }
}

#[test]
fn a_setuid_program_is_never_restored() {
    let tree = Tree::new(None);
    fs::write(
        tree.path(JOURNAL),
        format!(
            "{{\"changing\":{{\"files\":[{{\"path\":\"{PROFILE_SCRIPT}\",\"before\":
              {{\"bytes\":\"x\",\"mode\":2541,\"owner\":{0},\"group\":{1}}},\"after\":null}}],
              \"delete_if_undone\":[],\"delete_if_done\":[]}}}}",
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw()
        ),
    )
    .unwrap();
    change::recover(&tree.disk(Mishap::None)).unwrap().unwrap();
    let mode = tree
        .path(PROFILE_SCRIPT)
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[test]
fn a_link_that_leads_nowhere_in_an_image_is_not_followed_out_of_it() {
    let outside = tempfile::tempdir().unwrap();
    fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let mode = || outside.path().metadata().unwrap().permissions().mode() & 0o777;
    let before = mode();
    let tree = Tree::new(None);
    std::os::unix::fs::symlink(outside.path(), tree.path("/usr/local")).unwrap();
    let original = tree.snapshot();
    tree.enable(&tree.disk(Mishap::None), "one").unwrap_err();
    assert_eq!((mode(), tree.snapshot()), (before, original));
}

#[test]
fn a_directory_that_is_swapped_for_a_link_leads_nobody_out_of_the_root() {
    let outside = tempfile::tempdir().unwrap();
    let tree = Tree::new(None);
    let place = tree.root.place(LD_SO_PRELOAD).unwrap();
    fs::rename(tree.path("/etc"), tree.path("/moved")).unwrap();
    std::os::unix::fs::symlink(outside.path(), tree.path("/etc")).unwrap();
    fs::write(&*place, "x").unwrap();
    assert!(tree.path("/moved/ld.so.preload").exists());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn a_directory_that_a_link_leads_through_is_looked_at_like_the_others() {
    let tree = Tree::new(None);
    fs::create_dir_all(tree.path("/opt/real/lib")).unwrap();
    fs::create_dir(tree.path("/srv")).unwrap();
    std::os::unix::fs::symlink("../opt/real", tree.path("/srv/second")).unwrap();
    std::os::unix::fs::symlink("/srv/./second", tree.path("/usr/local")).unwrap();
    tree.root.check_owners(LIBRARIES).unwrap();
    for directory in ["/srv", "/opt", "/opt/real", "/opt/real/lib"] {
        let set = |mode| {
            fs::set_permissions(tree.path(directory), fs::Permissions::from_mode(mode)).unwrap();
        };
        set(0o775);
        let refused = tree.root.check_owners(LIBRARIES).unwrap_err().to_string();
        let said = format!("below `{}`: users other", tree.path(directory).display());
        assert!(refused.contains(&said), "{refused}");
        set(0o755);
    }
    fs::remove_file(tree.path("/srv/second")).unwrap();
    std::os::unix::fs::symlink("/usr/local", tree.path("/srv/second")).unwrap();
    let refused = tree.root.check_owners(LIBRARIES).unwrap_err().to_string();
    assert!(refused.contains("too many links"), "{refused}");
}

#[test]
fn what_a_file_names_stays_when_enable_without_a_record_is_undone() {
    for step in 0.. {
        let tree = Tree::new(None);
        tree.does_well(Act::Enable("one"));
        fs::remove_file(tree.path(RECORD)).unwrap();
        let disk = tree.disk(Mishap::Failure(step));
        let result = tree.does(Act::Enable("one"), &disk);
        if !disk.fault.has_struck.get() {
            result.unwrap().unwrap();
            break;
        }
        let names = fs::read(tree.path(LD_SO_PRELOAD)).unwrap();
        for name in super::preload_files::names(&names) {
            assert!(tree.path(&name).is_file(), "{name} {step}");
        }
    }
}

#[test]
fn what_cannot_be_deleted_stands_in_nobodys_way() {
    for act in [Act::Disable, Act::Enable("two")] {
        let tree = Tree::new(None);
        let original = tree.snapshot();
        tree.does_well(Act::Enable("one"));
        let left = format!("{LIBRARIES}/left");
        fs::create_dir(tree.path(&left)).unwrap();
        fs::write(tree.path(JOURNAL), format!("{{\"deleting\":[\"{left}\"]}}")).unwrap();
        let disk = tree.disk(Mishap::Failure(0));
        assert!(change::recover(&disk).unwrap().is_err());
        assert!(tree.path(&left).exists());
        // With another disk it would be deleted in the beginning; here, in the end.
        disk.fault
            .mishap
            .set(Mishap::Failure(disk.fault.steps.get()));
        tree.does(act, &disk).unwrap().unwrap();
        assert!(disk.fault.has_struck.get());
        assert!(!tree.path(&left).exists());
        tree.does_well(Act::Disable);
        assert_eq!(tree.snapshot(), original);
    }
}

#[test]
fn a_link_that_leads_elsewhere_is_made_anew() {
    let tree = Tree::new(None);
    tree.does_well(Act::Enable("one"));
    let directory = tree.path(&state::directories(&tree.root)[0]);
    let link = directory.join("lib/libone-1.so");
    let target = fs::read_link(&link).unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("../musl/libone-1.so", &link).unwrap();
    tree.does_well(Act::Enable("one"));
    assert_eq!(fs::read_link(&link).unwrap(), target);
}
