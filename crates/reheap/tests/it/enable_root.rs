//! Which directories `reheap enable --root` takes for a system's root, and that it never takes this one's.

use crate::common::image::{Image, build, in_namespace};
use crate::common::{reheap, run};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

#[test]
fn a_root_of_another_processor_or_without_dynamic_linkers_is_refused() {
    let image = Image::empty();
    image
        .reheap("enable mimalloc")
        .ended_with(1)
        .said(&["it has no dynamic linker of glibc or musl"]);
    fs::create_dir_all(image.path("lib")).unwrap();
    fs::write(image.path("lib/ld-musl-riscv64.so.1"), "").unwrap();
    image
        .reheap("enable mimalloc")
        .ended_with(1)
        .said(&["its programs are for riscv64"]);
    image.reheap("enable stock").ended_with(2).said(&[&format!(
        "hint: reheap disable --root {}\n",
        image.directory.path().display()
    )]);
    image.reheap("enable mimaloc").ended_with(2);
    run(&mut reheap("status --root /no/such/directory")).ended_with(1);
}

#[test]
fn a_root_directory_that_is_none_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = |name: &str| directory.path().join(name);
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, path(name)).unwrap();
    for made in ["empty", "outside/etc", "escape", "private/etc"] {
        fs::create_dir_all(path(made)).unwrap();
    }
    fs::write(path("file"), "").unwrap();
    fs::create_dir(path("no-directory")).unwrap();
    fs::write(path("no-directory/etc"), "").unwrap();
    link("loop", "loop");
    // From inside of the directory there is no such thing.
    link(path("outside/etc").to_str().unwrap(), "escape/etc");
    fs::set_permissions(path("private"), fs::Permissions::from_mode(0o600)).unwrap();
    let program = path("reheap");
    fs::copy(env!("CARGO_BIN_EXE_reheap"), &program).unwrap();
    for (name, said) in [
        ("file", "Not a directory"),
        ("file/", "Not a directory"),
        ("missing", "No such file or directory"),
        ("loop", "Too many levels of symbolic links"),
        ("empty", "it has no `/etc`"),
        ("escape", "it has no `/etc`"),
        ("no-directory", "cannot open its `/etc`: Not a directory"),
        ("private", "cannot open its `/etc`: Permission denied"),
    ] {
        for line in ["status", "disable", "enable mimalloc"] {
            let mut command = Command::new(&program);
            if rustix::process::geteuid().is_root() {
                // Root may read everything.
                command = Command::new("setpriv");
                command
                    .args(["--reuid", "65534", "--clear-groups"])
                    .arg(&program);
            }
            command.args(line.split(' ')).arg("--root").arg(path(name));
            let root = path(name).display().to_string();
            run(command.env("HOME", "/nonexistent"))
                .ended_with(1)
                .said(&[
                    &format!("reheap: cannot use `{root}` as a root directory: "),
                    said,
                ]);
        }
    }
    run(reheap("status --root").arg("")).ended_with(2);
}

/// A mount namespace in which a command that takes another directory for the root does no harm.
const HARMLESS: &str = "
    copy=$1/harmless
    mkdir \"$copy\" \"$copy/etc\" \"$copy/lib\"
    mount -t tmpfs none \"$copy/etc\"
    mount -t tmpfs none \"$copy/lib\"
    mount --bind \"$copy/etc\" /etc
    mount --bind \"$copy/lib\" /usr/local/lib
    refused() {
        echo \"== $2\" >&2
        code=0; \"$REHEAP\" $1 --root \"$2\" 2> \"$copy/said\" || code=$?
        cat \"$copy/said\" >&2
        [ $code = 1 ] || exit 71
        grep -qF \"cannot use \\`$2\\` as a root directory: $3\" \"$copy/said\" || exit 72
        grep -qF \"$4\" \"$copy/said\" || exit 73
        rm \"$copy/said\"
        [ -z \"$(ls -A /etc; ls -A /usr/local/lib)\" ] || exit 74
    }
";

#[test]
fn this_system_is_refused_as_a_root_directory_whatever_its_name() {
    build("mimalloc");
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/", directory.path().join("link")).unwrap();
    std::os::unix::fs::symlink("link", directory.path().join("second")).unwrap();
    let script = format!(
        "{HARMLESS}
        mkdir \"$1/bind\" \"$1/rbind\"
        mount --bind / \"$1/bind\"
        mount --rbind / \"$1/rbind\"
        mkfifo \"$1/wait\"
        up=root
        cat \"$1/wait\" & here=$!
        unshare -m cat \"$1/wait\" & elsewhere=$!
        exec 3> \"$1/wait\"
        for root in / // /./ /tmp/.. /proc/self/root /proc/$here/root /proc/$elsewhere/root \\
            /proc/$here/$up/../. \"$1/link\" \"$1/second\" \"$1/bind\" \"$1/rbind\"
        do
            for command in status disable 'enable mimalloc -t purge_delay=0'
            do
                refused \"$command\" \"$root\" 'it is the root directory of this system' \\
                    \"hint: --root is for other systems; for this one: reheap $command\"
            done
        done
        exec 3>&-
        wait"
    );
    in_namespace(&script, &[directory.path()]).succeeded();
}

/// A change of that image would change this system's files, or delete the libraries that its programs load.
#[test]
fn an_image_that_shares_a_directory_with_this_system_is_refused() {
    build("mimalloc");
    let image = Image::of_glibc();
    let script = format!(
        "{HARMLESS}
        for directory in /etc /usr /usr/local/lib
        do
            mkdir -p \"$2$directory\"
            mount --rbind $directory \"$2$directory\"
            for command in status disable 'enable mimalloc'
            do
                refused \"$command\" \"$2\" \"its \\`$directory\\` is the \\`$directory\\` of this system\" \\
                    \"hint: a change there would change this system too: unmount \\`$2$directory\\` first\"
            done
            umount -R \"$2$directory\"
        done"
    );
    let directory = tempfile::tempdir().unwrap();
    in_namespace(&script, &[directory.path(), image.directory.path()]).succeeded();
}

/// In a chroot `/` is another system's root directory than the one that process 1 has.
#[test]
fn in_a_chroot_the_system_around_it_is_refused_too() {
    let image = Image::of_glibc();
    image.with_reheap();
    fs::create_dir(image.path("host")).unwrap();
    let script = "
        mount --bind / \"$1/host\"
        exec unshare -pf --mount-proc sh -euc '
            mount -t proc none \"$1/proc\"
            refused() {
                code=0; chroot \"$1\" /bin/reheap status --root \"$2\" || code=$?
                [ $code = 1 ] || exit 71
            }
            refused \"$1\" /host
            refused \"$1\" /proc/1/root
            refused \"$1\" /proc/self/root
            chroot \"$1\" /bin/reheap status' sh \"$1\"";
    in_namespace(script, &[image.directory.path()])
        .succeeded()
        .said(&[
            "`/host` as a root directory: it is the root directory of the system that process 1 runs in",
            "`/proc/1/root` as a root directory: it is the root directory of the system that process 1",
            "`/proc/self/root` as a root directory: it is the root directory of this system",
            "hint: start reheap in that system, without --root: reheap status",
        ]);
}

/// `status` alone, as it changes nothing whatever it takes that directory for.
#[test]
fn the_root_directory_of_a_process_in_a_container_is_not_taken_for_this_systems() {
    let image = Image::of_glibc();
    let directory = tempfile::tempdir().unwrap();
    let script = "
        mkfifo \"$1/in\" \"$1/out\"
        unshare -m sh -euc '
            mount --bind \"$1\" \"$1\"
            cd \"$1\"
            mkdir old
            pivot_root . old
            exec cat' sh \"$2\" < \"$1/in\" > \"$1/out\" & process=$!
        exec 3> \"$1/in\" 4< \"$1/out\"
        echo x >&3
        read answer <&4
        code=0; \"$REHEAP\" status --root /proc/$process/root || code=$?
        exec 3>&-
        wait
        exit $code";
    in_namespace(script, &[directory.path(), image.directory.path()])
        .ended_with(1)
        .said(&["its link names `/`, which is another directory"]);
}

/// A package manager may remove reheap from another root directory.
#[test]
fn disable_leaves_nothing_where_no_proc_is_mounted() {
    let image = Image::of_glibc();
    image.with_reheap();
    let before = image.snapshot();
    image.reheap("enable mimalloc").succeeded();
    let script = "chroot \"$1\" /bin/reheap disable";
    in_namespace(script, &[image.directory.path()])
        .succeeded()
        .said(&["disabled mimalloc"]);
    let after = image.snapshot();
    let left: Vec<_> = after
        .keys()
        .filter(|path| !before.contains_key(*path))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(after == before);
}
