//! `reheap libc`: derived libcs for any compiler, in the cache and in place, and the way back.

use crate::common;
use crate::common::{INSTALL, cache, files_below, marker_in, reheap, run, target};
use reheap_elf::{archive, marker};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Debian's musl.
fn libc_of_debian() -> Vec<u8> {
    let path = format!("/usr/lib/{}-linux-musl/libc.a", std::env::consts::ARCH);
    fs::read(&path).unwrap_or_else(|e| panic!("cannot read `{path}`: {e}; {INSTALL}"))
}

/// A directory with a copy of Debian's libc.a, not writable for others and from another day.
struct Musl {
    directory: tempfile::TempDir,
    bytes: Vec<u8>,
}

impl Musl {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let musl = Self {
            directory,
            bytes: libc_of_debian(),
        };
        fs::write(musl.libc(), &musl.bytes).unwrap();
        fs::set_permissions(musl.libc(), fs::Permissions::from_mode(0o640)).unwrap();
        let then = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
        fs::File::options()
            .append(true)
            .open(musl.libc())
            .unwrap()
            .set_modified(then)
            .unwrap();
        musl
    }

    fn libc(&self) -> PathBuf {
        self.directory.path().join("libc.a")
    }

    fn kept(&self) -> PathBuf {
        self.directory.path().join("libc.a.reheap-original")
    }

    /// `reheap libc … --libc` with the copy.
    fn reheap(&self, line: &str) -> Command {
        let mut command = reheap("libc");
        command
            .arg("--libc")
            .arg(self.libc())
            .args(common::words(line));
        command
    }

    fn names(&self) -> Vec<PathBuf> {
        files_below(self.directory.path())
    }

    #[track_caller]
    fn is_untouched(&self) {
        assert!(fs::read(self.libc()).unwrap() == self.bytes);
        assert_eq!(self.names(), [Path::new("libc.a")]);
    }
}

/// What identifies a file beside its contents: inode, time of change in nanoseconds, mode, owner.
fn identity(path: &Path) -> (u64, i64, i64, u32, u32, u32) {
    let m = fs::metadata(path).unwrap();
    (
        m.ino(),
        m.mtime(),
        m.mtime_nsec(),
        m.mode(),
        m.uid(),
        m.gid(),
    )
}

const PROGRAM: &str = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { char *p = malloc(9); snprintf(p, 9, \"works\"); puts(p); free(p); }";

/// Links a C program with the libc.a in a directory by `musl-gcc` alone, and gives the executable.
#[track_caller]
fn link_by_hand(directory: &Path, scratch: &Path) -> PathBuf {
    fs::write(scratch.join("a.c"), PROGRAM).unwrap();
    let executable = scratch.join("a");
    let mut musl_gcc = Command::new("musl-gcc");
    musl_gcc
        .args(["-static", "a.c", "-o", "a", "-L"])
        .arg(directory);
    run(musl_gcc.current_dir(scratch)).succeeded();
    executable
}

#[test]
fn the_directory_of_a_derived_libc_is_printed_for_use_with_any_compiler() {
    let scratch = tempfile::tempdir().unwrap();
    for libc in [None, Some(Musl::new())] {
        let mut command = libc.as_ref().map_or_else(
            || reheap("libc -a rpmalloc"),
            |musl| musl.reheap("-a rpmalloc"),
        );
        let outcome = run(&mut command).succeeded();
        let directory = PathBuf::from(outcome.stdout.strip_suffix('\n').unwrap());
        assert!(directory.starts_with(cache()) && directory.join("libc.a").is_file());
        let executable = link_by_hand(&directory, scratch.path());
        let found = marker_in(&executable).unwrap();
        assert_eq!(
            (found.marker.allocator.as_str(), found.replaced.len()),
            ("rpmalloc", 0)
        );
        assert_eq!(common::prints(&executable), "works\n");
        let again = run(&mut command).succeeded();
        assert_eq!(again.stdout, outcome.stdout);
        if let Some(musl) = libc {
            musl.is_untouched();
        }
    }
}

#[test]
fn another_tuning_is_another_directory_and_the_tuning_is_in_the_marker() {
    let scratch = tempfile::tempdir().unwrap();
    let directory =
        |line: &str| PathBuf::from(run(&mut reheap(line)).succeeded().stdout.trim_end());
    let (plain, tuned) = (directory("libc"), directory("libc -t purge_delay=0"));
    assert_ne!(plain, tuned);
    let marker = marker_in(&link_by_hand(&tuned, scratch.path()))
        .unwrap()
        .marker;
    assert_eq!(marker.tuning["purge_delay"], "0");
}

#[test]
fn a_libc_that_changed_is_recognised_again_though_its_size_and_time_did_not() {
    let musl = Musl::new();
    let derived = || run(&mut musl.reheap("-a mimalloc")).succeeded().stdout;
    let first = derived();
    assert_eq!(derived(), first);
    let time = fs::metadata(musl.libc()).unwrap().modified().unwrap();
    let mut bytes = musl.bytes.clone();
    let version = bytes.windows(4).position(|word| word == b"1.2.").unwrap();
    bytes[version + 4] ^= 1;
    fs::write(musl.libc(), bytes).unwrap();
    let file = fs::File::options().append(true).open(musl.libc()).unwrap();
    file.set_modified(time).unwrap();
    let second = derived();
    assert_ne!(second, first);
    let libc = archive::read(&fs::read(Path::new(second.trim()).join("libc.a")).unwrap()).unwrap();
    let mut markers = (libc.iter()).filter_map(|member| marker::read_unlinked(&member.data));
    assert!(markers.next().unwrap().libc.starts_with("musl 1.2."));
}

#[test]
fn in_place_replaces_the_file_and_restore_brings_back_the_very_same_one() {
    let musl = Musl::new();
    let before = identity(&musl.libc());
    run(&mut musl.reheap("--in-place -a rpmalloc"))
        .succeeded()
        .said(&["now has rpmalloc; undo: --restore"]);
    assert_eq!(
        musl.names(),
        ["libc.a", "libc.a.reheap-original"].map(PathBuf::from)
    );
    assert_eq!(
        identity(&musl.kept()),
        before,
        "the original itself is kept"
    );
    let derived = identity(&musl.libc());
    assert_eq!(
        (derived.3, derived.4, derived.5),
        (before.3, before.4, before.5),
        "mode and owner"
    );
    let scratch = tempfile::tempdir().unwrap();
    let executable = link_by_hand(musl.directory.path(), scratch.path());
    assert_eq!(marker_in(&executable).unwrap().marker.allocator, "rpmalloc");

    run(&mut musl.reheap("--restore"))
        .succeeded()
        .said(&["restored `"]);
    musl.is_untouched();
    assert_eq!(identity(&musl.libc()), before);
}

#[test]
fn in_place_twice_is_refused_and_restore_twice_too() {
    let musl = Musl::new();
    run(&mut musl.reheap("--in-place -a rpmalloc")).succeeded();
    let derived = fs::read(musl.libc()).unwrap();
    let way_out = format!("reheap libc --libc {} --restore", musl.libc().display());
    let outcome = run(&mut musl.reheap("--in-place -a mimalloc")).ended_with(1);
    outcome.said(&[
        "cannot derive a libc from `",
        "it is already a derived libc, with rpmalloc 1.4.3 in it",
        &format!("hint: bring the original back first: {way_out}"),
    ]);
    let mut cc = reheap("cc --libc");
    let outcome = run(cc.arg(musl.libc()).args(["--", "a.c"])).ended_with(1);
    outcome.said(&["it is already a derived libc", &way_out]);
    assert!(fs::read(musl.libc()).unwrap() == derived);
    assert!(fs::read(musl.kept()).unwrap() == musl.bytes);

    run(&mut musl.reheap("--restore")).succeeded();
    let outcome = run(&mut musl.reheap("--restore")).ended_with(1);
    outcome.said(&["cannot restore `", "it is not a derived libc"]);
    musl.is_untouched();
}

#[test]
fn an_interrupted_replacement_is_completed_by_the_next_call() {
    for copied in [false, true] {
        let musl = Musl::new();
        if copied {
            fs::copy(musl.libc(), musl.kept()).unwrap();
        } else {
            fs::hard_link(musl.libc(), musl.kept()).unwrap();
        }
        run(&mut musl.reheap("--in-place -a rpmalloc")).succeeded();
        assert!(fs::read(musl.libc()).unwrap() != musl.bytes);
        run(&mut musl.reheap("--restore")).succeeded();
        musl.is_untouched();
    }
}

#[test]
fn a_file_that_is_in_the_way_of_the_original_is_not_overwritten() {
    let musl = Musl::new();
    fs::write(musl.kept(), "something precious").unwrap();
    let outcome = run(&mut musl.reheap("--in-place -a rpmalloc")).ended_with(1);
    outcome.said(&["exists and is another file", "hint: move it away"]);
    assert_eq!(fs::read(musl.kept()).unwrap(), b"something precious");
    assert!(fs::read(musl.libc()).unwrap() == musl.bytes);
}

#[test]
fn restore_without_the_right_original_changes_nothing() {
    let musl = Musl::new();
    run(&mut musl.reheap("--in-place -a rpmalloc")).succeeded();
    let derived = fs::read(musl.libc()).unwrap();
    fs::write(musl.kept(), "another file").unwrap();
    run(&mut musl.reheap("--restore"))
        .ended_with(1)
        .said(&["is not what", "was derived from"]);
    fs::remove_file(musl.kept()).unwrap();
    let kept = musl.kept().display().to_string();
    run(&mut musl.reheap("--restore")).ended_with(1).said(&[
        "cannot restore `",
        &format!("cannot read the original `{kept}`: No such file"),
    ]);
    // Nor is there a way out to name.
    run(&mut musl.reheap("--in-place"))
        .ended_with(1)
        .said(&["it is already a derived libc"])
        .did_not_say("hint");
    assert!(fs::read(musl.libc()).unwrap() == derived);
}

#[test]
fn what_is_no_musl_libc_is_refused_with_the_reason_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let whole = libc_of_debian();
    let path = directory.path().join("libc.a");
    let cases: [(&[u8], &str); 4] = [
        (b"", "the file is empty"),
        (b"GROUP ( libc.so.6 )\n", "it is not an archive"),
        (b"!<thin>\n", "it is a thin archive"),
        (&whole[..whole.len() / 2], "is damaged or cut off"),
    ];
    for (bytes, reason) in cases {
        fs::write(&path, bytes).unwrap();
        for way in ["", "--in-place", "--restore"] {
            let mut command = reheap("libc --libc");
            let outcome = run(command.arg(&path).args(common::words(way))).ended_with(1);
            let verb = if way == "--restore" {
                "cannot restore"
            } else {
                "cannot derive a libc from"
            };
            let reason = if way == "--restore" {
                "it is not a derived libc"
            } else {
                reason
            };
            outcome.said(&[verb, &path.display().to_string(), reason]);
        }
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert_eq!(files_below(directory.path()), [Path::new("libc.a")]);
    }
    for missing in [
        directory.path().to_owned(),
        directory.path().join("none/libc.a"),
    ] {
        let outcome = run(reheap("libc --libc").arg(&missing)).ended_with(1);
        outcome.said(&["cannot read the libc `", &missing.display().to_string()]);
    }
}

#[test]
fn a_libc_with_members_that_need_each_other_is_refused_by_the_symbol() {
    let musl = Musl::new();
    let mut members = archive::read(&musl.bytes).unwrap();
    members.retain(|member| member.name != "memset.lo" && member.name != "memset.o");
    let path = musl.libc();
    fs::write(&path, archive::write(&members).unwrap()).unwrap();
    let outcome = run(&mut musl.reheap("-a rpmalloc")).ended_with(1);
    outcome.said(&[
        "cannot derive a libc from `",
        "needs `memset`, which nothing defines",
    ]);
}

#[test]
fn wrong_usage_is_told_apart_from_failure() {
    let musl = Musl::new();
    let gnu = "libc --target x86_64-unknown-linux-gnu";
    run(&mut reheap(gnu))
        .ended_with(2)
        .said(&["does not link with musl"]);
    run(&mut reheap("libc -a stock"))
        .ended_with(2)
        .said(&["`stock`", "--restore"]);
    run(&mut reheap("libc --in-place"))
        .ended_with(2)
        .said(&["--libc"]);
    run(&mut musl.reheap("--restore -a rpmalloc"))
        .ended_with(2)
        .said(&["cannot be used with"]);
    run(&mut musl.reheap("--restore --in-place"))
        .ended_with(2)
        .said(&["cannot be used with"]);
    let other = if target().starts_with("aarch64") {
        "x86_64"
    } else {
        "aarch64"
    };
    let outcome =
        run(&mut musl.reheap(&format!("--target {other}-unknown-linux-musl"))).ended_with(2);
    outcome.said(&["is a libc for", "hint: leave out --target"]);
    musl.is_untouched();
}

/// The program as another user, where the tests run as root, whom permissions do not stop.
fn as_nobody(command: &Command, scratch: &Path) -> Command {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        let mut same = Command::new(command.get_program());
        same.args(command.get_args());
        same.envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
        return same;
    }
    // Nobody may not be allowed into the build directory.
    let program = scratch.join("reheap");
    fs::copy(command.get_program(), &program).unwrap();
    let mut other = Command::new("setpriv");
    other
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(program)
        .args(command.get_args());
    other.env("REHEAP_CACHE_DIR", scratch.join("cache"));
    other
}

#[test]
fn a_directory_without_the_right_to_write_is_an_error_and_nothing_changes() {
    let musl = Musl::new();
    let scratch = tempfile::tempdir().unwrap();
    // The allocator is built by whoever runs the tests, so that the other user needs no toolchain.
    let own_cache = scratch.path().join("cache");
    run(musl
        .reheap("-a rpmalloc")
        .env("REHEAP_CACHE_DIR", &own_cache))
    .succeeded();
    fs::set_permissions(musl.libc(), fs::Permissions::from_mode(0o444)).unwrap();
    for (path, mode) in [(musl.directory.path(), 0o555), (scratch.path(), 0o755)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    run(Command::new("chown")
        .args(["-R", "65534:65534"])
        .arg(&own_cache))
    .succeeded();

    let mut command = as_nobody(&musl.reheap("--in-place -a rpmalloc"), scratch.path());
    let outcome = run(&mut command).ended_with(1);
    outcome.said(&["cannot replace `", "Permission denied"]);
    musl.is_untouched();
    fs::set_permissions(musl.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_path_with_blanks_quotes_and_bytes_that_are_not_utf_8_is_taken_as_it_is() {
    use std::os::unix::ffi::OsStrExt as _;
    let musl = Musl::new();
    let directory = musl
        .directory
        .path()
        .join(std::ffi::OsStr::from_bytes(b"a 'b' \"c\" \xff"));
    fs::create_dir(&directory).unwrap();
    let libc = directory.join("libc.a");
    fs::write(&libc, &musl.bytes).unwrap();
    run(reheap("libc -a rpmalloc --in-place --libc").arg(&libc)).succeeded();
    let scratch = tempfile::tempdir().unwrap();
    let executable = link_by_hand(&directory, scratch.path());
    assert_eq!(marker_in(&executable).unwrap().marker.allocator, "rpmalloc");
    run(reheap("libc --restore --libc").arg(&libc)).succeeded();
    assert!(fs::read(&libc).unwrap() == musl.bytes);
}

#[test]
fn behind_a_symbolic_link_the_file_is_replaced_and_not_the_link() {
    let musl = Musl::new();
    let link = musl.directory.path().join("link.a");
    std::os::unix::fs::symlink("libc.a", &link).unwrap();
    run(reheap("libc -a rpmalloc --in-place --libc").arg(&link)).succeeded();
    assert!(
        fs::symlink_metadata(&link).unwrap().is_symlink(),
        "the link itself was replaced"
    );
    let scratch = tempfile::tempdir().unwrap();
    assert_eq!(
        marker_in(&link_by_hand(musl.directory.path(), scratch.path()))
            .unwrap()
            .marker
            .allocator,
        "rpmalloc"
    );
    run(reheap("libc --restore --libc").arg(&link)).succeeded();
    fs::remove_file(&link).unwrap();
    musl.is_untouched();
}
