//! What `reheap status` finds: edited files, libraries that are not what `enable` put there, changes that were
//! interrupted.

use crate::common::Outcome;
use crate::common::image::{Image, LIBRARIES, build, in_namespace, musl_linker};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn what_somebody_edited_since_is_told_and_only_our_line_is_taken_out() {
    let image = Image::of_glibc();
    image.reheap("enable mimalloc").succeeded();
    let file = image.path("etc/ld.so.preload");
    let edited = format!("/opt/mine.so\n{}", image.read("etc/ld.so.preload"));
    fs::write(&file, edited).unwrap();
    let status = image.status();
    assert_eq!(status["problems"], serde_json::json!([]));
    let note = status["notes"][0].as_str().unwrap();
    assert!(note.contains("somebody edited"), "{note}");
    image
        .reheap("disable")
        .succeeded()
        .said(&["removed reheap's part and kept the rest"]);
    assert_eq!(image.read("etc/ld.so.preload"), "/opt/mine.so\n");

    image.reheap("enable mimalloc").succeeded();
    fs::write(&file, "").unwrap();
    let problem = image.status()["problems"][0].as_str().unwrap().to_owned();
    assert!(problem.contains("no longer has"), "{problem}");
    image
        .reheap("disable")
        .succeeded()
        .said(&["left it unchanged"]);
    assert_eq!(image.read("etc/ld.so.preload"), "");
}

#[test]
fn of_an_image_only_the_processes_in_it_count() {
    let image = Image::of_glibc();
    let nothing = image.reheap("status").succeeded();
    nothing.did_not_print("processes");
    assert_eq!(image.status()["processes_without"], 0);
    let directory = tempfile::tempdir().unwrap();
    let status = |commands: &str| {
        let script = format!(
            "mkfifo \"$2/in\" \"$2/out\"
            chroot \"$1\" /bin/cat < \"$2/in\" > \"$2/out\" &
            exec 3> \"$2/in\" 4< \"$2/out\"
            rm \"$2/in\" \"$2/out\"
            echo x >&3
            read answer <&4
            {commands}
            \"$REHEAP\" status --root \"$1\"
            exec 3>&-
            wait"
        );
        in_namespace(&script, &[image.directory.path(), directory.path()]).succeeded()
    };
    status("\"$REHEAP\" enable mimalloc --root \"$1\"").printed(&["processes  0 of 1 have it\n"]);
    status("").printed(&["processes  1 of 1 have it: cat\n"]);
    status("\"$REHEAP\" disable --root \"$1\"").printed(&[
        "allocator  stock: nothing is enabled\nprocesses  1 of 1 still have a library of reheap: cat\n",
    ]);
}

#[test]
fn a_record_that_cannot_be_read_is_no_dead_end() {
    let image = Image::of_glibc();
    let before = image.snapshot();
    image.reheap("enable mimalloc").succeeded();
    let record = image.path("etc/reheap-enabled.json");
    fs::write(&record, "{").unwrap();
    for line in ["status", "status --json", "disable", "enable rpmalloc"] {
        image.reheap(line).ended_with(1).said(&[
            "cannot read `/etc/reheap-enabled.json`, the record of what is enabled: EOF",
            "hint: delete it, then run `reheap disable`",
        ]);
    }
    fs::remove_file(record).unwrap();
    let problem = image.status()["problems"][0].as_str().unwrap().to_owned();
    assert!(problem.contains("that no `enable` recorded"), "{problem}");
    image.reheap("disable").succeeded();
    assert!(!image.path("etc/ld.so.preload").exists());
    assert_eq!(fs::read_dir(image.path(LIBRARIES)).unwrap().count(), 0);
    // What directories were made is only in the record.
    fs::remove_dir_all(image.path("usr/local")).unwrap();
    assert_eq!(image.snapshot(), before);
}

#[test]
fn a_library_that_is_not_what_enable_put_there_is_a_problem_that_enable_fixes() {
    let image = Image::of_glibc();
    image.copy(&musl_linker());
    image.reheap("enable mimalloc").succeeded();
    let before = image.snapshot();
    let libraries = image.status()["enabled"]["libraries"].clone();
    let library = libraries["glibc"].as_str().unwrap();
    let file = image.path(library);
    let whole = fs::read(&file).unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    let link = file
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("$LIB")
        .join(file.file_name().unwrap());
    let truncate = || fs::write(&file, &whole[..1000]).unwrap();
    let change = || fs::write(&file, &changed).unwrap();
    let delete = || fs::remove_file(&file).unwrap();
    let turn = || {
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("../glibc", &link).unwrap();
    };
    let close = || fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
    for (harm, said) in [
        (
            &truncate as &dyn Fn(),
            "is not the file that `enable` wrote (1000 bytes, sha256 ",
        ),
        (&change, "is not the file that `enable` wrote ("),
        (
            &delete,
            "is missing: run `reheap enable` again, or `reheap disable`",
        ),
        (&turn, "is not a link to `../musl/"),
        (&close, "is not world-readable: "),
    ] {
        harm();
        let status = image.status();
        let problem = status["problems"][0].as_str().unwrap();
        assert!(problem.contains(said), "{problem}");
        let shown = image.reheap("status").ended_with(1).stdout;
        assert!(
            shown.contains(&format!("problem    {problem}\n")),
            "{shown}"
        );
        image.reheap("enable mimalloc").succeeded();
        assert_eq!(image.status()["problems"], serde_json::json!([]));
        image.reheap("status").succeeded();
        assert_eq!(image.snapshot(), before);
    }
    let directory = file.parent().unwrap();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
    let problem = image.status()["problems"][0].as_str().unwrap().to_owned();
    assert!(problem.contains("not every user may enter it"), "{problem}");
    image
        .reheap("enable mimalloc")
        .ended_with(1)
        .said(&["not every user may enter it", "hint: chmod o+x "]);
}

#[test]
fn a_record_of_an_older_reheap_is_read_and_says_that_the_library_was_not_recorded() {
    let image = Image::of_glibc();
    let before = image.snapshot();
    image.reheap("enable mimalloc").succeeded();
    let mut record: Value = serde_json::from_str(&image.read("etc/reheap-enabled.json")).unwrap();
    let hashes = record.as_object_mut().unwrap().remove("sha256").unwrap();
    fs::write(image.path("etc/reheap-enabled.json"), record.to_string()).unwrap();
    let status = image.status();
    assert_eq!(status["problems"], serde_json::json!([]));
    let note = status["notes"][0].as_str().unwrap();
    assert!(note.contains("recorded no hash of it"), "{note}");
    image.reheap("enable mimalloc").succeeded();
    assert_eq!(image.status()["enabled"]["sha256"], hashes);
    assert_eq!(image.status()["notes"], serde_json::json!([]));
    image.reheap("disable").succeeded();
    assert_eq!(image.snapshot(), before);
}

#[test]
fn libraries_of_another_version_of_reheap_are_noted_until_enable_replaces_them() {
    let image = Image::of_glibc();
    image.reheap("enable mimalloc -t purge_delay=0").succeeded();
    let path = image.path("etc/reheap-enabled.json");
    let mut record: Value = serde_json::from_str(&image.read("etc/reheap-enabled.json")).unwrap();
    let now = record["version"].as_str().unwrap().to_owned();
    record["reheap"] = "0.0.9".into();
    record["version"] = "2.0.1".into();
    fs::write(&path, record.to_string()).unwrap();
    let status = image.status();
    assert_eq!(status["problems"], serde_json::json!([]));
    let note = status["notes"][0].as_str().unwrap();
    let before = "mimalloc 2.0.1 was enabled by reheap 0.0.9, and this is reheap ";
    let after = format!(
        " with mimalloc {now}: to replace the library, run `reheap enable mimalloc -t purge_delay=0`"
    );
    assert!(note.starts_with(before) && note.ends_with(&after), "{note}");
    image.reheap("enable mimalloc -t purge_delay=0").succeeded();
    assert_eq!(image.status()["notes"], serde_json::json!([]));
}

/// The change's journal says that something is not as it will be, which is no problem then.
#[test]
fn a_change_that_is_being_made_is_no_problem() {
    let image = Image::of_glibc();
    image.reheap("enable mimalloc").succeeded();
    fs::write(image.path("etc/reheap-change.json"), "{\"deleting\":[]}").unwrap();
    let directory = fs::File::open(image.path("etc")).unwrap();
    directory.lock().unwrap();
    let status = image.status();
    assert_eq!(status["problems"], serde_json::json!([]));
    let note = status["notes"][0].as_str().unwrap();
    assert!(
        note.contains("another reheap command is changing the system"),
        "{note}"
    );
    drop(directory);
    let problem = image.status()["problems"][0].as_str().unwrap().to_owned();
    assert!(
        problem.contains("an interrupted command left files"),
        "{problem}"
    );
}

#[test]
fn enable_says_one_line_and_more_where_somebody_must_know_or_wants_to() {
    build("mimalloc");
    let image = Image::of_glibc();
    let lines = |outcome: Outcome| -> Vec<String> {
        let outcome = outcome.succeeded();
        outcome.stderr.lines().map(str::to_owned).collect()
    };
    let root = image.directory.path().display();
    let summary = |libcs: &str| {
        format!("reheap: enabled mimalloc 2.3.2 for {libcs}; undo: reheap disable --root {root}")
    };
    assert_eq!(
        lines(image.reheap("enable mimalloc")),
        [summary("glibc programs")]
    );
    image.reheap("disable").succeeded();
    assert!(lines(image.reheap("enable mimalloc --verbose")).len() > 2);
    image.reheap("disable").succeeded();

    image.copy(&musl_linker());
    let said = lines(image.reheap("enable mimalloc"));
    let both = "glibc programs and musl programs of new login sessions";
    assert_eq!(said, [summary(both)]);
    image.reheap("disable").succeeded();
    fs::remove_dir(image.path("etc/profile.d")).unwrap();
    let said = lines(image.reheap("enable mimalloc"));
    let both = "glibc programs and musl programs started with LD_PRELOAD";
    assert_eq!(said, [summary(both)]);
    image.reheap("disable").succeeded();

    let others = image.path("etc/ld.so.preload");
    fs::write(&others, "").unwrap();
    fs::set_permissions(&others, fs::Permissions::from_mode(0o600)).unwrap();
    let said = lines(image.reheap("enable mimalloc"));
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[1].starts_with("reheap: warning: glibc: /etc/ld.so.preload is not world-readable"),
        "{said:?}"
    );
}
