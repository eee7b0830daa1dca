use super::*;
use crate::catalogue;
use crate::target::Libc;

fn target() -> Target {
    Target::of_this_machine(Libc::Glibc).unwrap()
}

/// Bytes that begin as an ELF file for this processor does.
fn library(target: &Target) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[18..20].copy_from_slice(&target.arch().elf_machine().to_le_bytes());
    bytes
}

fn file(bytes: &[u8], kind: Kind, target: &Target, name: &str) -> File {
    File {
        path: kind.path(target, name),
        sha256: sha256(bytes),
        size: bytes.len() as u64,
        kind,
        target: target.triple().to_owned(),
        allocator: None,
        version: None,
        options: BTreeMap::new(),
        origin: "a test".to_owned(),
        compiler: "none".to_owned(),
        key: "key".to_owned(),
    }
}

fn write(directory: &Path, files: Vec<File>) {
    let left_out = Vec::new();
    super::write(directory, Produced { files, left_out }).unwrap();
}

/// A directory with one library in it.
fn directory() -> (tempfile::TempDir, File) {
    let directory = tempfile::tempdir().unwrap();
    let (target, bytes) = (target(), library(&target()));
    let file = file(&bytes, Kind::Own, &target, "libx.so");
    let path = directory.path().join(&file.path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, &bytes).unwrap();
    write(directory.path(), vec![file.clone()]);
    (directory, file)
}

fn find(directory: &Path) -> Result<Option<Found>, PrebuiltError> {
    Prebuilt::open(directory)?.find(Kind::Own, &target(), "libx.so", "key")
}

fn refusal(directory: &Path) -> String {
    find(directory).unwrap_err().to_string()
}

#[test]
fn a_file_that_is_as_the_manifest_says_is_found() {
    let (directory, file) = directory();
    let found = find(directory.path()).unwrap().unwrap();
    assert_eq!(found.path, directory.path().join(&file.path));
    assert_eq!(found.bytes, library(&target()));
}

#[test]
fn a_file_that_nobody_lists_or_that_was_made_of_something_else_is_not_found() {
    let (directory, _) = directory();
    let prebuilt = Prebuilt::open(directory.path()).unwrap();
    let none = |kind, name, key| prebuilt.find(kind, &target(), name, key).unwrap().is_none();
    assert!(none(Kind::Own, "libx.so", "another key"));
    assert!(none(Kind::Own, "liby.so", "key"));
    assert!(none(Kind::Preload, "libx.so", "key"));
    let allocator = catalogue::default_allocator();
    assert!(prebuilt.preload(allocator, &target()).unwrap().is_none());
}

#[test]
fn a_changed_file_is_refused_by_name_with_both_hashes() {
    let (directory, file) = directory();
    let path = directory.path().join(&file.path);
    let mut bytes = fs::read(&path).unwrap();
    bytes[40] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let refusal = refusal(directory.path());
    for part in [path.to_str().unwrap(), &file.sha256, &sha256(&bytes)] {
        assert!(refusal.contains(part), "{refusal}");
    }
}

#[test]
fn a_truncated_file_is_refused_with_both_sizes() {
    let (directory, file) = directory();
    let path = directory.path().join(&file.path);
    fs::write(&path, &fs::read(&path).unwrap()[..20]).unwrap();
    let refusal = refusal(directory.path());
    assert!(
        refusal.ends_with("libx.so`: it has 20 bytes, and `manifest.json` says 64"),
        "{refusal}"
    );
}

#[test]
fn a_file_that_the_manifest_lists_and_that_is_missing_is_refused() {
    let (directory, file) = directory();
    fs::remove_file(directory.path().join(&file.path)).unwrap();
    let refusal = refusal(directory.path());
    assert!(refusal.contains("libx.so`: it is missing"), "{refusal}");
}

#[test]
fn a_library_for_another_processor_is_refused() {
    let (directory, mut file) = directory();
    let mut bytes = library(&target());
    bytes[18] ^= 1;
    fs::write(directory.path().join(&file.path), &bytes).unwrap();
    file.sha256 = sha256(&bytes);
    write(directory.path(), vec![file]);
    let refusal = refusal(directory.path());
    let expected = format!("it is not for {}", target().arch());
    assert!(refusal.ends_with(&expected), "{refusal}");
}

#[test]
fn files_of_which_none_is_for_this_machine_are_refused() {
    let (directory, mut file) = directory();
    file.target = "riscv64-unknown-linux-gnu".to_owned();
    write(directory.path(), vec![file.clone()]);
    let refusal = refusal(directory.path());
    let machine = format!(
        "they are for riscv64, and this machine is {}",
        target().arch()
    );
    assert!(refusal.ends_with(&machine), "{refusal}");
    let mut of_this = file.clone();
    of_this.target = target().triple().to_owned();
    write(directory.path(), vec![file, of_this]);
    assert!(find(directory.path()).unwrap().is_some());
}

#[test]
fn files_for_another_processor_serve_whoever_looks_for_that_one() {
    let other = match target().arch() {
        Architecture::X86_64 => Architecture::Aarch64,
        _ => Architecture::X86_64,
    };
    let other = Target::new(other, Libc::Glibc);
    let directory = tempfile::tempdir().unwrap();
    let bytes = library(&other);
    let file = file(&bytes, Kind::Preload, &other, "liba.so");
    let path = directory.path().join(&file.path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
    write(directory.path(), vec![file]);
    let opened = Prebuilt::open(directory.path()).unwrap();
    let found = |target| opened.find(Kind::Preload, target, "liba.so", "key");
    assert!(found(&other).unwrap().is_some());
    assert!(found(&target()).is_err());
}

#[test]
fn what_a_build_learns_of_its_target_is_in_the_key_of_its_file() {
    let allocator = crate::catalogue::find("jemalloc").unwrap();
    let key = |arch| {
        of_objects(allocator, &Target::new(arch, Libc::Musl))
            .unwrap()
            .1
    };
    // Pages of 64 KiB.
    assert_ne!(key(Architecture::X86_64), key(Architecture::Aarch64));
}

/// What reheap says of a manifest that was changed like this.
fn refusal_of_manifest(change: impl Fn(&str) -> String) -> String {
    let (directory, _) = directory();
    let path = directory.path().join(MANIFEST);
    let text = fs::read_to_string(&path).unwrap();
    let changed = change(&text);
    assert_ne!(changed, text);
    fs::write(&path, changed).unwrap();
    let refusal = refusal(directory.path());
    assert!(refusal.contains(path.to_str().unwrap()), "{refusal}");
    refusal
}

#[test]
fn a_manifest_of_an_unknown_version_is_refused_whatever_else_is_in_it() {
    let refusal = refusal_of_manifest(|_| r#"{"version": 2, "archives": []}"#.to_owned());
    let expected = "it has version 2, and this reheap reads version 1";
    assert!(refusal.ends_with(expected), "{refusal}");
}

#[test]
fn a_manifest_of_another_reheap_is_refused() {
    let own = format!(r#""reheap": "{REHEAP}""#);
    let refusal = refusal_of_manifest(|text| text.replace(&own, r#""reheap": "0.0.1""#));
    let expected = format!("they belong to reheap 0.0.1, and this is reheap {REHEAP}");
    assert!(refusal.ends_with(&expected), "{refusal}");
}

#[test]
fn a_manifest_that_is_cut_off_is_refused() {
    let refusal = refusal_of_manifest(|text| text[..text.len() / 2].to_owned());
    assert!(refusal.contains("it is damaged ("), "{refusal}");
}

#[test]
fn a_directory_without_a_manifest_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refusal = refusal(directory.path());
    assert!(refusal.ends_with("there is no such file"), "{refusal}");
}

#[test]
fn the_manifest_lists_files_by_path_whatever_order_they_were_made_in() {
    let directory = tempfile::tempdir().unwrap();
    let files: Vec<File> = ["b.so", "a.so", "c.so"]
        .map(|name| file(b"", Kind::Own, &target(), name))
        .into();
    write(directory.path(), files);
    let text = fs::read_to_string(directory.path().join(MANIFEST)).unwrap();
    let places: Vec<_> = ["a.so", "b.so", "c.so"].map(|name| text.find(name)).into();
    assert!(places.is_sorted() && places[0].is_some(), "{text}");
}

#[test]
fn the_manifest_says_why_a_library_is_not_there() {
    let (directory, file) = directory();
    let jemalloc = catalogue::find("jemalloc").unwrap();
    let left_out = LeftOut {
        path: Kind::Preload.path(&target(), &preload::file_name(jemalloc)),
        reason: "no compiler".to_owned(),
    };
    let produced = Produced {
        files: vec![file],
        left_out: vec![left_out],
    };
    super::write(directory.path(), produced).unwrap();
    let prebuilt = Prebuilt::open(directory.path()).unwrap();
    let reason = |name| {
        prebuilt
            .preload_left_out(catalogue::find(name).unwrap(), &target())
            .map(str::to_owned)
    };
    assert_eq!(reason("jemalloc").as_deref(), Some("no compiler"));
    assert_eq!(reason("mimalloc"), None);
}

#[test]
fn a_manifest_that_names_a_file_outside_of_its_directory_is_refused() {
    for path in [
        "../libx.so",
        "own/../../libx.so",
        "/lib/libx.so",
        "./libx.so",
        "",
    ] {
        let (directory, mut file) = directory();
        file.path = path.to_owned();
        write(directory.path(), vec![file]);
        let refusal = refusal(directory.path());
        let expected = format!("it names `{path}`, which is not a path in its directory");
        assert!(refusal.ends_with(&expected), "{refusal}");
    }
}

#[test]
fn a_file_behind_a_link_that_leads_out_of_the_directory_is_refused_although_its_bytes_are_right() {
    use std::os::unix::fs::symlink;
    let outside = tempfile::tempdir().unwrap();
    for is_directory in [false, true] {
        let (directory, file) = directory();
        let path = directory.path().join(&file.path);
        let inside = if is_directory {
            path.parent().unwrap()
        } else {
            &path
        };
        let moved = outside.path().join(format!("moved-{is_directory}"));
        fs::rename(inside, &moved).unwrap();
        symlink(&moved, inside).unwrap();
        let refusal = refusal(directory.path());
        let expected = format!("a link leads to `{}", moved.display());
        assert!(refusal.contains(&expected), "{refusal}");
    }
    // A link to another place in the directory is as good as the file.
    let (directory, file) = directory();
    let path = directory.path().join(&file.path);
    let moved = directory.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    symlink(&moved, &path).unwrap();
    assert!(find(directory.path()).unwrap().is_some());
}

#[test]
fn what_others_could_replace_is_refused_although_its_bytes_are_right() {
    use std::os::unix::fs::PermissionsExt as _;
    let (directory, file) = directory();
    let file = directory.path().join(&file.path);
    let manifest = directory.path().join(MANIFEST);
    let parent = file.parent().unwrap();
    for path in [directory.path(), &manifest, parent, &file] {
        let before = fs::metadata(path).unwrap().permissions();
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        let error = find(directory.path()).unwrap_err();
        assert_eq!(error.distrust().unwrap().path, path, "{error}");
        fs::set_permissions(path, before).unwrap();
        assert!(find(directory.path()).unwrap().is_some());
    }
}
