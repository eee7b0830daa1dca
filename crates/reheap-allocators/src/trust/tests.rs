use super::*;
use std::os::unix::fs::{PermissionsExt as _, symlink};

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n\
    bob:x:1001:1001::/home/bob:/bin/sh\ncid:x:1002:100::/home/cid:/bin/sh\n";
const GROUP: &str = "root:x:0:\nstaff:x:50:\nusers:x:100:\nann:x:1000:\nbob:x:1001:ann\nboth:x:200:ann,bob\n\
    of-nobody-known:x:300:eve\n";

fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Trusts root and whoever runs the tests.
fn trust() -> Trust {
    Trust {
        owners: vec![0, me()],
        accounts: Accounts::parse(PASSWD, GROUP),
        unmapped_user: None,
        unmapped_group: None,
    }
}

/// Trusts none of the owners of files here.
fn trust_of_a_stranger(accounts: Accounts) -> Trust {
    Trust {
        owners: vec![54_321],
        accounts,
        unmapped_user: None,
        unmapped_group: None,
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A directory that is below `/tmp` or the like, and one in it.
fn directories() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("inner");
    fs::create_dir(&inner).unwrap();
    set_mode(&inner, 0o755);
    (directory, inner)
}

#[test]
fn a_group_is_private_if_nobody_else_is_in_it() {
    let accounts = Accounts::parse(PASSWD, GROUP);
    for (group, owner, is_private) in [
        (1000, 1000, true),  // umask 002
        (1001, 1001, false), // ann is in bob's group
        (1001, 1000, false), // it is bob's first group
        (100, 1002, true),   // nobody but cid
        (100, 1000, false),  // it is cid's first group
        (200, 1000, false),
        (300, 1000, false), // a member of whom nothing is known
        (50, 0, true),      // as Debian's /usr/local
        (0, 0, true),
        (7000, 7000, true),  // a container without accounts
        (7000, 7001, false), // such as a directory service's
    ] {
        let found = accounts.is_private(group, owner, &[0, owner]);
        assert_eq!(found, is_private, "group {group} of user {owner}");
    }
    assert!(accounts.is_private(1001, 1001, &[0, 1000]));
}

#[test]
fn what_everybody_may_write_is_refused_and_so_is_what_is_in_it() {
    let (directory, inner) = directories();
    assert_eq!(trust().check(&inner), Ok(()));
    set_mode(&inner, 0o757);
    let refused = trust().check(&inner).unwrap_err();
    assert_eq!(
        (&refused.path, &refused.reason),
        (&inner, &Reason::Everyone)
    );
    let shown = inner.display();
    assert_eq!(refused.command(), Some(format!("chmod go-w {shown}")));
    for path in ["missing", "missing/too"] {
        assert_eq!(trust().check(&inner.join(path)), Err(refused.clone()));
    }
    set_mode(&inner, 0o755);
    set_mode(directory.path(), 0o777);
    let refused = trust().check(&inner).unwrap_err();
    assert_eq!(refused.path, directory.path());
}

#[test]
fn below_a_sticky_directory_only_ones_own_is_trusted() {
    let (directory, inner) = directories();
    set_mode(directory.path(), 0o1777);
    assert_eq!(trust().check(&inner), Ok(()));
    // The directory itself is no place for what gets executed.
    assert!(trust().check(directory.path()).is_err());
}

#[test]
fn a_directory_above_may_be_of_a_user_without_an_account() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    // All above is of a user that nobody knows, as where a container mounts it; but not the directory itself.
    let refused = trust_of_a_stranger(Accounts::default())
        .check(&here)
        .unwrap_err();
    let is_below_open = here.ancestors().any(|path| {
        fs::metadata(path).is_ok_and(|metadata| metadata.mode() & OTHERS_MAY_WRITE != 0)
    });
    assert_eq!(refused.path == here, !is_below_open, "{refused}");
    assert!(
        refused.to_string().contains("it belongs to user "),
        "{refused}"
    );
    assert_eq!(refused.command(), None);
    // Root has an account.
    let refused = trust_of_a_stranger(Accounts::parse(PASSWD, GROUP)).check(&here);
    assert_eq!(refused.unwrap_err().path, Path::new("/"));
}

#[test]
fn below_an_open_directory_an_unknown_owner_is_an_attacker() {
    let (directory, inner) = directories();
    set_mode(directory.path(), 0o1777);
    let step = |path: &Path| {
        let step = steps(path).pop().unwrap();
        trust_of_a_stranger(Accounts::default()).check_above(&step)
    };
    assert_eq!(step(&inner).unwrap_err().reason, Reason::Owner(me()));
    set_mode(directory.path(), 0o755);
    assert_eq!(step(&inner), Ok(()));
}

#[test]
fn whoever_a_namespace_does_not_know_may_own_directories_above_and_nothing_else() {
    let (directory, inner) = directories();
    let trust = Trust {
        unmapped_user: Some(me()),
        ..trust_of_a_stranger(Accounts::parse(&format!("nobody:x:{}:0::/:/", me()), GROUP))
    };
    let above = || trust.check_above(&steps(&inner).pop().unwrap());
    assert_eq!(above(), Ok(()));
    let owner = Reason::Owner(me());
    assert_eq!(trust.check_one(&inner).unwrap_err().reason, owner);
    set_mode(directory.path(), 0o1777);
    assert_eq!(above().unwrap_err().reason, owner);
    assert_eq!(trust.search_path(inner.as_os_str()), "");
}

#[test]
fn a_group_that_a_namespace_does_not_know_may_be_any() {
    let (_directory, inner) = directories();
    set_mode(&inner, 0o775);
    let group = fs::metadata(&inner).unwrap().gid();
    let private = trust_with_private_groups();
    assert_eq!(private.check(&inner), Ok(()));
    let trust = Trust {
        unmapped_group: Some(group),
        ..private
    };
    assert_eq!(
        trust.check(&inner).unwrap_err().reason,
        Reason::Group(group)
    );
}

#[test]
fn a_number_is_known_where_a_namespace_maps_it() {
    let of_all = "         0          0 4294967295\n";
    let of_one_user = "         0       1000          1\n";
    let rootless = "0 1000 1\n1 100000 65536\n";
    assert!(maps(of_all, 65_534) && maps(rootless, 65_534) && maps(rootless, 65_536));
    assert!(!maps(of_one_user, 65_534) && !maps(rootless, 65_537) && !maps("", 65_534));
}

#[test]
fn directories_that_links_lead_through_are_checked() {
    let (directory, inner) = directories();
    let real = inner.join("real");
    fs::create_dir(&real).unwrap();
    let link = directory.path().join("link");
    symlink("inner/real", &link).unwrap();
    assert_eq!(trust().check(&link), Ok(()));
    assert_eq!(trust().check(&link.join("../real")), Ok(()));
    set_mode(&inner, 0o777);
    assert_eq!(trust().check(&link).unwrap_err().path, inner);
    assert_eq!(
        trust().check(&link.join("missing")).unwrap_err().path,
        inner
    );
    symlink("loop", directory.path().join("loop")).unwrap();
    assert!(steps(&directory.path().join("loop")).len() < 100);
}

#[test]
fn in_a_tree_every_file_counts() {
    let (_directory, inner) = directories();
    let file = inner.join("file");
    fs::write(&file, "").unwrap();
    set_mode(&file, 0o644);
    symlink("/dev/null", inner.join("link")).unwrap();
    assert_eq!(trust().check_tree(&inner), Ok(()));
    set_mode(&file, 0o646);
    assert_eq!(trust().check_tree(&inner).unwrap_err().path, file);
}

#[test]
fn on_path_only_what_is_closed_to_others_counts() {
    let (directory, inner) = directories();
    let path = |name: &str| directory.path().join(name);
    for (name, mode) in [("open", 0o777), ("sticky", 0o1777), ("group", 0o775)] {
        fs::create_dir(path(name)).unwrap();
        set_mode(&path(name), mode);
    }
    fs::create_dir(path("open/in")).unwrap();
    fs::create_dir(path("sticky/own")).unwrap();
    symlink("open", path("link")).unwrap();
    let names = [
        "open",
        "inner",
        "sticky",
        "group",
        "open/in",
        "sticky/own",
        "link",
        "missing",
    ];
    let list = names.map(path).into_iter();
    let relative = [".", "", "bin", "/tmp"].map(PathBuf::from);
    let list = std::env::join_paths(list.chain(relative)).unwrap();
    let kept = trust().search_path(&list);
    let kept: Vec<PathBuf> = std::env::split_paths(&kept).collect();
    assert_eq!(kept, [inner, path("group"), path("sticky/own")]);
}

/// A list as the kernel takes it: the owner, users with their permissions, the group, the mask and the others.
fn access_list(users: impl Iterator<Item = (u32, u16)>, mask: u16) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let users = users.map(|(user, permissions)| (0x02, permissions, user));
    let entries = std::iter::once((0x01, 7, NOBODY)).chain(users).chain([
        (0x04, 5, NOBODY),
        (0x10, mask, NOBODY),
        (0x20, 5, NOBODY),
    ]);
    let entries = entries.flat_map(|(tag, permissions, id): (u16, u16, u32)| {
        let [tag, permissions] = [tag, permissions].map(u16::to_le_bytes);
        [&tag[..], &permissions, &id.to_le_bytes()].concat()
    });
    2_u32.to_le_bytes().into_iter().chain(entries).collect()
}

/// A directory on a file system in memory: those on disks keep no list of more than a block.
fn directory_with_list(list: &[u8]) -> tempfile::TempDir {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    set_mode(directory.path(), 0o755);
    let attribute = "system.posix_acl_access";
    let set = rustix::fs::setxattr(
        directory.path(),
        attribute,
        list,
        rustix::fs::XattrFlags::empty(),
    );
    set.expect("tmpfs has access control lists");
    directory
}

/// Trusts root and whoever runs the tests. All groups are private.
fn trust_with_private_groups() -> Trust {
    let group = rustix::process::getegid().as_raw();
    Trust {
        owners: vec![0, me()],
        accounts: Accounts::parse("", &format!("mine:x:{group}:\n")),
        unmapped_user: None,
        unmapped_group: None,
    }
}

#[test]
fn whomever_an_access_control_list_lets_write_is_named_with_the_command_that_takes_it_off() {
    let trust = trust_with_private_groups();
    for count in [1, 600] {
        let users = (70_001..).take(count).map(|user| (user, 7));
        let directory = directory_with_list(&access_list(users, 7));
        let refused = trust.check_one(directory.path()).unwrap_err();
        let shown = directory.path().display();
        assert_eq!(
            refused.to_string(),
            format!(
                "cannot trust `{shown}`: its access control list lets user 70001 write to it, and replace what reheap \
                 executes"
            ),
            "{count} users"
        );
        assert_eq!(refused.command(), Some(format!("setfacl -b {shown}")));
        // It is on the way to something too.
        let below = directory.path().join("below");
        fs::create_dir(&below).unwrap();
        set_mode(&below, 0o755);
        assert_eq!(trust.check(&below), Err(refused));
        rustix::fs::removexattr(directory.path(), "system.posix_acl_access").unwrap();
        set_mode(directory.path(), 0o775);
        assert_eq!(trust.check(&below), Ok(()));
    }
}

#[test]
fn a_list_that_lets_nobody_else_write_changes_nothing() {
    let trust = trust_with_private_groups();
    let readers = || (70_001..).take(600).map(|user| (user, 5));
    let mine = std::iter::once((me(), 7));
    for list in [
        access_list(readers(), 7),
        access_list(mine, 7),
        access_list((70_001..).take(3).map(|user| (user, 7)), 5),
    ] {
        let directory = directory_with_list(&list);
        assert_eq!(trust.check_one(directory.path()), Ok(()));
    }
    // The group may write as far as the mask goes, and has others in it. But its own entry does not let it.
    let shared = Trust {
        accounts: Accounts::parse(
            "",
            &format!("ours:x:{}:eve\n", rustix::process::getegid().as_raw()),
        ),
        ..trust
    };
    let directory = directory_with_list(&access_list(std::iter::empty(), 7));
    assert_eq!(shared.check_one(directory.path()), Ok(()));
}
