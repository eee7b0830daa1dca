//! `reheap enable`, `disable` and `status`, in images made of this machine's files, and for a whole system in a mount
//! namespace of its own: never for the machine that the tests run on.

use crate::common::command::{in_time, status_of};
use crate::common::image::{Image, LIBRARIES, build, in_namespace, musl_linker};
use crate::common::{cache, cache_for_all, glibc_linker, reheap, run};
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[test]
fn an_image_of_glibc_gets_the_library_and_gets_rid_of_it_without_a_trace() {
    let image = Image::of_glibc();
    let before = image.snapshot();
    image
        .reheap("enable mimalloc --verbose")
        .succeeded()
        .said(&[
            "enabled mimalloc 2.3.2 for glibc programs; undo: reheap disable --root /",
            "tested with glibc (a program with threads and a fork, /bin/sh, /bin/cat)",
            "setuid programs too, because",
            "mimalloc finds fewer memory errors than the libc's own allocator",
        ]);
    let named = image.read("etc/ld.so.preload");
    let library = named.strip_suffix('\n').unwrap();
    assert!(
        library.starts_with("/usr/local/lib/reheap/mimalloc-2.3.2-"),
        "{library}"
    );
    for path in image
        .path(library)
        .ancestors()
        .take_while(|path| *path != image.directory.path())
    {
        assert_eq!(
            path.metadata().unwrap().permissions().mode() & 0o7777,
            0o755,
            "{path:?}"
        );
    }
    assert!(
        !image.path("etc/profile.d/reheap.sh").exists(),
        "there is no musl"
    );

    let status = image.reheap("status").succeeded().stdout;
    for line in [
        "allocator  mimalloc 2.3.2, by reheap ",
        &format!("glibc      {library}\n"),
        "set in     /etc/ld.so.preload\n",
    ] {
        assert!(status.contains(line), "no `{line}` in\n{status}");
    }
    assert!(
        !status.contains("processes"),
        "no process is in it:\n{status}"
    );
    let status = image.status();
    assert_eq!(status["enabled"]["allocator"], "mimalloc");
    assert_eq!(status["enabled"]["libraries"]["glibc"], library);
    assert_eq!(status["problems"], serde_json::json!([]));

    image
        .reheap("enable mimalloc")
        .succeeded()
        .said(&["mimalloc 2.3.2 is already enabled"]);
    image
        .reheap("disable")
        .succeeded()
        .said(&["disabled mimalloc 2.3.2"])
        .did_not_say("LD_PRELOAD");
    assert_eq!(image.snapshot(), before);
    image
        .reheap("disable")
        .succeeded()
        .said(&["nothing is enabled"]);
    assert_eq!(image.status()["enabled"], Value::Null);
}

/// ostree has such a link.
#[test]
fn a_library_that_lies_behind_a_link_is_recognised_in_programs() {
    let image = Image::of_glibc();
    fs::create_dir_all(image.path("var/usrlocal")).unwrap();
    std::os::unix::fs::symlink("../var/usrlocal", image.path("usr/local")).unwrap();
    let before = image.snapshot();
    image
        .reheap("enable mimalloc -v")
        .succeeded()
        .said(&["tested with glibc (a program with threads and a fork, /bin/sh, /bin/cat)"]);
    let library = image.read("etc/ld.so.preload");
    let library = library.trim();
    assert!(library.starts_with("/usr/local/lib/reheap/"), "{library}");

    let mut cat = Command::new("/bin/cat");
    let cat = cat.env("LD_PRELOAD", image.path(library));
    let mut cat = cat
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // When it answers it has loaded what it loads.
    cat.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    let mut stdout = cat.stdout.take().unwrap();
    in_time("an answer of cat", move || stdout.read_exact(&mut [0])).unwrap();
    let status = image.status();
    assert_eq!(status["processes"][0]["pid"], cat.id());
    assert_eq!(status["processes"][0]["library"], library);
    drop(cat.stdin.take());
    status_of(&mut cat);

    image.reheap("disable").succeeded();
    assert_eq!(image.snapshot(), before);
}

#[test]
fn an_image_of_musl_gets_a_script_for_logins_and_the_line_for_its_dockerfile() {
    let image = Image::of_musl();
    let before = image.snapshot();
    let outcome = image.reheap("enable mimalloc -v").succeeded();
    let line = outcome.stdout.trim_end().to_owned();
    let library = line.strip_prefix("ENV LD_PRELOAD=").unwrap();
    assert!(image.path(library).is_file(), "{line}");
    let again = image.reheap("enable mimalloc").succeeded();
    assert_eq!(again.stdout, outcome.stdout);
    again.said(&["is already enabled"]);
    outcome
        .said(&["except setuid programs; services and cron jobs do not"])
        .did_not_say("setuid programs too, because");
    assert!(
        !image.path("etc/ld.so.preload").exists(),
        "musl reads no such file"
    );

    // A login shell inside of another does not set it twice, and keeps what others preload.
    let script = image.path("etc/profile.d/reheap.sh");
    let twice = format!(". {0}; . {0}; echo \"$LD_PRELOAD\"", script.display());
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", &twice]);
    assert_eq!(
        run(shell.env_remove("LD_PRELOAD"))
            .succeeded()
            .stdout
            .trim(),
        library
    );
    image.reheap("disable").succeeded();
    assert_eq!(image.snapshot(), before);
}

#[test]
fn another_allocator_takes_the_place_of_the_first_and_the_lines_of_others_stay() {
    let image = Image::of_glibc();
    image.copy(&musl_linker());
    let others = "# by hand\n/lib64/other.so # not there\n";
    fs::write(image.path("etc/ld.so.preload"), others).unwrap();
    fs::set_permissions(
        image.path("etc/ld.so.preload"),
        fs::Permissions::from_mode(0o600),
    )
    .unwrap();
    let before = image.snapshot();
    image.reheap("enable rpmalloc").succeeded();
    image
        .reheap("enable mimalloc -t purge_delay=0 --verbose")
        .succeeded()
        .said(&["warning: glibc: /etc/ld.so.preload is not world-readable"])
        .did_not_say("glibc: every dynamic program");
    let text = image.read("etc/ld.so.preload");
    let (ours, rest) = text.split_once('\n').unwrap();
    assert!(ours.contains("/mimalloc-2.3.2-"), "{text}");
    assert_eq!(rest, others);
    let directories: Vec<_> = fs::read_dir(image.path(LIBRARIES)).unwrap().collect();
    assert_eq!(directories.len(), 1, "{directories:?}");

    let status = image.status();
    assert_eq!(status["enabled"]["tuning"]["purge_delay"], "0");
    assert_eq!(status["others"][0], "/lib64/other.so");
    let inspected = run(reheap("inspect --json").arg(image.path(ours)))
        .succeeded()
        .stdout;
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    assert_eq!(
        inspected[0]["marker"]["tuning"]["purge_delay"], "0",
        "{inspected:#}"
    );

    image.reheap("disable").succeeded();
    assert_eq!(image.snapshot(), before);
}

/// An access control list as the kernel takes it (`linux/posix_acl_xattr.h`): owner, a user, group, mask, others.
fn access_list(user: u32) -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in [
        (0x01_u16, 6_u16, u32::MAX),
        (0x02, 4, user),
        (0x04, 4, u32::MAX),
        (0x10, 4, u32::MAX),
        (0x20, 0, u32::MAX),
    ] {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

fn attribute(path: &Path, name: &str) -> Vec<u8> {
    let mut value = vec![0; 1000];
    let size = rustix::fs::getxattr(path, name, &mut value[..])
        .unwrap_or_else(|error| panic!("{path:?} {name}: {error}"));
    value.truncate(size);
    value
}

#[test]
fn disable_brings_back_times_attributes_and_hard_links() {
    let image = Image::of_glibc();
    image.copy(&musl_linker());
    let attributes = [
        ("user.note", b"by hand".to_vec()),
        ("system.posix_acl_access", access_list(4321)),
    ];
    let files = ["etc/ld.so.preload", "etc/profile.d/reheap.sh"].map(|path| image.path(path));
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_234_567_890, 123_456_789);
    for (file, second) in files.iter().zip(["bin/second", "etc/third"]) {
        fs::write(file, "# mine\n").unwrap();
        fs::hard_link(file, image.path(second)).unwrap();
        for (name, value) in &attributes {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(file, *name, value, flags).unwrap();
        }
        fs::File::open(file).unwrap().set_modified(time).unwrap();
    }
    let directories = ["", "etc", "etc/profile.d", "usr"].map(|path| image.path(path));
    for directory in &directories {
        fs::File::open(directory)
            .unwrap()
            .set_modified(time)
            .unwrap();
    }
    let check_times = |paths: &[PathBuf]| {
        for path in paths {
            assert_eq!(
                path.metadata().unwrap().modified().unwrap(),
                time,
                "{path:?}"
            );
        }
    };
    let before = image.snapshot();

    for line in ["enable rpmalloc", "enable mimalloc"] {
        image.reheap(line).succeeded();
        check_times(&directories);
        for file in &files {
            // Whoever could read the file can read the one in its place.
            for (name, value) in &attributes {
                assert_eq!(attribute(file, name), *value, "{file:?} {name}");
            }
        }
        // What is another name of the file is not changed.
        for second in ["bin/second", "etc/third"] {
            assert_eq!(image.read(second), "# mine\n");
        }
    }
    image.reheap("disable").succeeded();
    assert_eq!(image.snapshot(), before);
    check_times(&files);
    check_times(&directories);
    for (file, second) in files.iter().zip(["bin/second", "etc/third"]) {
        for (name, value) in &attributes {
            assert_eq!(attribute(file, name), *value, "{file:?} {name}");
        }
        let inode = |path: &Path| path.metadata().unwrap().ino();
        assert_eq!(inode(file), inode(&image.path(second)));
    }
}

#[test]
fn a_shell_that_does_not_survive_the_library_stops_everything() {
    let image = Image::of_glibc();
    image.compile(
        "bin/sh",
        "#include <stdlib.h>\nint main(void) { if (getenv(\"LD_PRELOAD\")) abort(); return 0; }\n",
    );
    let before = image.snapshot();
    image
        .reheap("enable mimalloc")
        .ended_with(1)
        .said(&["cannot enable mimalloc 2.3.2: with glibc, /bin/sh ended too early"]);
    assert_eq!(image.snapshot(), before);
}

/// Some systems have a dynamic linker that was built to read another file.
#[test]
fn a_dynamic_linker_that_does_not_read_the_file_is_noticed_and_everything_undone() {
    let image = Image::of_glibc();
    let linker = image.path(glibc_linker());
    let mut bytes = fs::read(&linker).unwrap();
    let name = b"/etc/ld.so.preload\0";
    let position = bytes
        .windows(name.len())
        .position(|window| window == name)
        .unwrap();
    bytes[position + 5..position + 10].copy_from_slice(b"xx.xx");
    fs::write(&linker, bytes).unwrap();
    let before = image.snapshot();
    image
        .reheap("enable mimalloc")
        .ended_with(1)
        .said(&["a program with threads and a fork does not have `/usr/local/lib/reheap/"]);
    assert_eq!(image.snapshot(), before);
}

#[test]
fn a_full_or_read_only_disk_and_files_that_cannot_be_replaced_leave_the_image_as_it_was() {
    build("mimalloc");
    for (mount, said) in [
        (
            "mount -t tmpfs -o size=64k,mode=755 none \"$1/usr/local/lib\"",
            "No space left on device",
        ),
        (
            "mount -t tmpfs -o size=8k,mode=755 none \"$1/etc\"; mkdir \"$1/etc/profile.d\"",
            "No space left on device",
        ),
        (
            "mount --bind \"$1/etc\" \"$1/etc\"; mount -o remount,ro,bind \"$1/etc\"",
            "Read-only file system",
        ),
        (
            "mount --bind \"$1/etc/profile.d\" \"$1/etc/profile.d\"; mount -o remount,ro,bind \"$1/etc/profile.d\"",
            "Read-only file system",
        ),
        (
            "mount --bind \"$1/etc/ld.so.preload\" \"$1/etc/ld.so.preload\"",
            "Device or resource busy",
        ),
        (
            "mount --bind \"$1/etc/profile.d/reheap.sh\" \"$1/etc/profile.d/reheap.sh\"",
            "Device or resource busy",
        ),
    ] {
        let image = Image::of_glibc();
        image.copy(&musl_linker());
        fs::create_dir_all(image.path("usr/local/lib")).unwrap();
        fs::write(image.path("etc/ld.so.preload"), "/lib64/other.so\n").unwrap();
        fs::write(image.path("etc/profile.d/reheap.sh"), "# another's\n").unwrap();
        let script = format!(
            "{mount}
            list() {{ (cd \"$1\"; find . -print0 | sort -z | xargs -0 ls -ld --time-style=+; find . -type f -exec md5sum {{}} + | sort) }}
            before=$(list \"$1\")
            code=0; \"$REHEAP\" enable mimalloc --root \"$1\" || code=$?
            after=$(list \"$1\")
            [ \"$before\" = \"$after\" ] || {{ echo \"$before\"; echo ---; echo \"$after\"; exit 77; }}
            exit $code"
        );
        in_namespace(&script, &[image.directory.path()])
            .ended_with(1)
            .said(&["cannot enable mimalloc 2.3.2", said]);
    }
}

#[test]
fn the_whole_system_has_it_setuid_programs_too_and_is_itself_again_afterwards() {
    build("rpmalloc");
    let copy = tempfile::tempdir().unwrap();
    let script = "
        copy=$1
        mount -t tmpfs none \"$copy\"
        mkdir \"$copy/etc\" \"$copy/before\" \"$copy/lib\"
        cp -a /etc/. \"$copy/etc\" 2>/dev/null || :
        rm -f \"$copy/etc/ld.so.preload\"
        cp -a \"$copy/etc/.\" \"$copy/before\"
        mount --bind \"$copy/etc\" /etc
        mount --bind \"$copy/lib\" /usr/local/lib
        \"$REHEAP\" enable rpmalloc
        grep -q 'reheap/rpmalloc-.*/glibc/' /proc/self/maps
        cp /bin/cat \"$copy/cat\"
        if chown 65534 \"$copy/cat\" 2>/dev/null; then
            chmod 755 \"$copy\"; chmod 4755 \"$copy/cat\"; mount --bind \"$copy\" /mnt
            setpriv --reuid 1234 --clear-groups /mnt/cat /proc/self/maps | grep -q reheap/rpmalloc
        fi
        \"$REHEAP\" status --json
        \"$REHEAP\" disable
        ! grep -q reheap /proc/self/maps
        diff -r --no-dereference \"$copy/before\" /etc
        [ -z \"$(ls -A /usr/local/lib)\" ]";
    let outcome = in_namespace(script, &[copy.path()]).succeeded();
    let status: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(status["enabled"]["allocator"], "rpmalloc");
    let mut files = status["files"].as_array().unwrap().iter();
    assert_eq!(
        outcome.stderr.contains("may still pass on LD_PRELOAD"),
        files.any(|file| file["path"] == "/etc/profile.d/reheap.sh")
    );
    let names = status["processes"].as_array().unwrap();
    assert!(
        names.iter().any(|process| process["name"] == "reheap"),
        "{status:#}"
    );
}

#[test]
fn the_real_system_needs_root() {
    if !rustix::process::geteuid().is_root() {
        run(&mut reheap("enable mimalloc"))
            .ended_with(1)
            .said(&["without root"]);
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("reheap");
    fs::copy(env!("CARGO_BIN_EXE_reheap"), &program).unwrap();
    for line in ["enable mimalloc", "disable"] {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--clear-groups"])
            .arg(&program);
        run(command.args(line.split(' ')).env("HOME", "/nonexistent"))
            .ended_with(1)
            .said(&["without root", "hint: sudo reheap"]);
    }
}

impl Image {
    /// A shell that is canary enough, and sends a signal to who started it: before anything names the library, or
    /// after.
    fn with_a_shell_that_sends(&self, signal: &str, when: &str) {
        let source = format!(
            "#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
             int main(void) {{
                 char line[64];
                 if ({when}) kill(getppid(), {signal});
                 ssize_t size = read(0, line, sizeof line);
                 if (size > 0) size = write(1, line, size);
                 while (read(0, line, sizeof line) > 0);
                 return 0;
             }}"
        );
        fs::remove_file(self.path("bin/sh")).unwrap();
        self.compile("bin/sh", &source);
    }
}

const BEFORE: &str = "getenv(\"LD_PRELOAD\")";
const AFTER: &str = "!getenv(\"LD_PRELOAD\")";

#[test]
fn a_command_that_was_killed_is_told_of_and_mended() {
    for (when, is_named) in [(BEFORE, false), (AFTER, true)] {
        let image = Image::of_glibc();
        let before = image.snapshot();
        image.with_a_shell_that_sends("SIGKILL", when);
        let outcome = image.reheap("enable mimalloc");
        assert_eq!(outcome.code(), None, "{outcome:?}");
        fs::remove_file(image.path("bin/sh")).unwrap(); // it may still run
        image.copy("/bin/sh");
        assert_eq!(image.path("etc/ld.so.preload").exists(), is_named);

        let problem = image.status()["problems"][0].as_str().unwrap().to_owned();
        assert!(problem.contains("a change was interrupted"), "{problem}");
        image
            .reheap("disable")
            .succeeded()
            .said(&["undid an interrupted change", "nothing is enabled"]);
        assert_eq!(image.snapshot(), before);
    }
}

#[test]
fn a_command_that_was_interrupted_undoes_what_it_did() {
    for (signal, when, code) in [("SIGINT", BEFORE, 130), ("SIGTERM", AFTER, 143)] {
        let image = Image::of_glibc();
        image.with_a_shell_that_sends(signal, when);
        let before = image.snapshot();
        image
            .reheap("enable mimalloc")
            .ended_with(code)
            .said(&["interrupted"]);
        assert_eq!(image.snapshot(), before);
    }
}

#[test]
fn who_is_not_root_enables_in_an_image_of_their_own() {
    build("mimalloc");
    let image = Image::of_glibc();
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let cache = cache_for_all(directory.path());
    let program = directory.path().join("reheap");
    fs::copy(env!("CARGO_BIN_EXE_reheap"), &program).unwrap();
    let mut command = if rustix::process::geteuid().is_root() {
        run(Command::new("chown")
            .args(["-R", "65534"])
            .arg(image.directory.path()))
        .succeeded();
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--clear-groups"])
            .arg(&program);
        command
    } else {
        Command::new(&program)
    };
    command
        .args(["enable", "mimalloc", "--verbose", "--root"])
        .arg(image.directory.path());
    command.env("REHEAP_CACHE_DIR", cache).current_dir("/");
    run(&mut command)
        .succeeded()
        .said(&["a program with threads and a fork"]);
    assert!(image.read("etc/ld.so.preload").contains("/mimalloc-2.3.2-"));
}

/// A container without rights allows neither chroot(2) nor a user namespace.
#[test]
fn where_no_root_can_be_changed_the_images_dynamic_linker_starts_one_canary() {
    build("mimalloc");
    let musl = Image::of_musl();
    musl.copy("/bin/sh"); // it is enough that it is there
    for (image, libc) in [(Image::of_glibc(), "glibc"), (musl, "musl")] {
        let script = "echo 0 > /proc/sys/user/max_user_namespaces
            exec setpriv --bounding-set=-sys_chroot \"$REHEAP\" enable mimalloc --verbose --root \"$1\"";
        let mut command = Command::new("unshare");
        command
            .args(["-rm", "sh", "-euc", script, "sh"])
            .arg(image.directory.path());
        command
            .env("REHEAP", env!("CARGO_BIN_EXE_reheap"))
            .env("REHEAP_CACHE_DIR", cache());
        run(command.env_remove("LD_PRELOAD")).succeeded().said(&[
            &format!("tested with {libc} (a program with threads and a fork)\n"),
            "warning: reheap cannot start programs with that directory as their root",
        ]);
    }
}
