//! The claims of `SECURITY.md`, each attacked as another user of the machine would.

use crate::common;
use crate::common::image::Image;
use crate::common::mirror::{self, Claim};
use crate::common::{Project, assert_closed, reheap, run};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::process::geteuid;
use std::collections::BTreeSet;
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// A user who is not the one that runs the tests.
const ATTACKER: u32 = 65_534;
const SHOW_MAPS: &str = "run -a mimalloc -- cat /proc/self/maps";

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A cache in a directory of its own, with the allocator's preload in it, as after its first use.
struct Cache {
    directory: tempfile::TempDir,
}

impl Cache {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        set_mode(directory.path(), 0o755);
        // Builds it, if this is the first test that needs it.
        let maps = run(&mut reheap(SHOW_MAPS)).succeeded().stdout;
        let mut files = maps
            .lines()
            .filter_map(|line| Some(Path::new(&line[line.find('/')?..])));
        let library =
            files.find(|file| file.components().any(|part| part.as_os_str() == "preloads"));
        let entry = library
            .unwrap_or_else(|| panic!("no preload in\n{maps}"))
            .parent()
            .unwrap();
        let cache = Self { directory };
        fs::create_dir_all(cache.path("above/cache/preloads")).unwrap();
        let copy = run(Command::new("cp")
            .arg("-a")
            .arg(entry)
            .arg(cache.path("above/cache/preloads")));
        copy.succeeded();
        cache
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn root(&self) -> PathBuf {
        self.path("above/cache")
    }

    fn entry(&self) -> PathBuf {
        let mut entries = fs::read_dir(self.path("above/cache/preloads")).unwrap();
        entries.next().unwrap().unwrap().path()
    }

    fn library(&self) -> PathBuf {
        let mut files = fs::read_dir(self.entry()).unwrap();
        let is_library = |path: &PathBuf| path.extension().is_some_and(|suffix| suffix == "so");
        files
            .find_map(|file| Some(file.unwrap().path()).filter(is_library))
            .unwrap()
    }

    /// Runs a program with the preload of the cache.
    fn use_it(&self) -> common::Outcome {
        run(reheap(SHOW_MAPS).env("REHEAP_CACHE_DIR", self.root()))
    }

    #[track_caller]
    fn works(&self) {
        let maps = self.use_it().succeeded().stdout;
        let loaded = self.library().display().to_string();
        assert!(maps.contains(&loaded), "{loaded} is not in\n{maps}");
    }

    #[track_caller]
    fn is_refused(&self, because_of: &Path, said: &[&str]) {
        let about = format!(
            "reheap: cannot use the cache: cannot trust `{}`: ",
            because_of.display()
        );
        let outcome = self.use_it().ended_with(1).said(&[&about]).said(said);
        assert_eq!(outcome.stdout, "", "the command must not run");
    }
}

#[test]
fn a_cache_that_everybody_may_write_is_refused_with_the_command_that_changes_it() {
    let cache = Cache::new();
    cache.works();
    for path in [
        cache.root(),
        cache.path("above"),
        cache.entry(),
        cache.library(),
    ] {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        set_mode(&path, 0o777);
        let hint = format!("hint: chmod go-w {}", path.display());
        cache.is_refused(
            &path,
            &[
                "every user may write to it",
                &hint,
                "REHEAP_CACHE_DIR=<directory>",
            ],
        );
        set_mode(&path, mode & 0o7777);
        cache.works();
    }
    // As in `/tmp`, where nobody renames what is another's.
    set_mode(&cache.path("above"), 0o1777);
    cache.works();
}

#[test]
fn a_cache_that_a_link_leads_to_is_judged_by_where_it_is() {
    let cache = Cache::new();
    fs::rename(cache.path("above"), cache.path("elsewhere")).unwrap();
    fs::create_dir(cache.path("above")).unwrap();
    symlink("../elsewhere/cache", cache.root()).unwrap();
    cache.use_it().succeeded();
    set_mode(&cache.path("elsewhere"), 0o777);
    cache.is_refused(&cache.path("elsewhere"), &["every user may write to it"]);
}

#[test]
fn the_cache_of_another_user_is_refused_also_by_root() {
    let cache = Cache::new();
    if !geteuid().is_root() {
        // Only root can give files away. What root has is everybody's to use.
        return cache.works();
    }
    for path in [
        cache.root(),
        cache.path("above"),
        cache.entry(),
        cache.library(),
    ] {
        chown(&path, Some(ATTACKER), None).unwrap();
        let said = format!("it belongs to user {ATTACKER}, who could replace");
        cache.is_refused(
            &path,
            &[&said, "hint: set another one: REHEAP_CACHE_DIR=<directory>"],
        );
        chown(&path, Some(0), None).unwrap();
    }
    cache.works();
    // The other way round: who owns nothing here uses what root owns.
    run(Command::new("chmod")
        .args(["-R", "go+rX"])
        .arg(cache.root()))
    .succeeded();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups", "sh", "-c"]);
    let program = cache.path("reheap");
    fs::copy(env!("CARGO_BIN_EXE_reheap"), &program).unwrap();
    let script = format!("umask 022; exec {} {SHOW_MAPS}", program.display());
    run(command.arg(script).env("REHEAP_CACHE_DIR", cache.root())).succeeded();
}

/// `unshare -r` makes a namespace with one user. All others look the same there: root, and an attacker.
#[test]
fn a_user_that_a_namespace_does_not_know_may_own_only_what_is_above_the_cache() {
    let cache = Cache::new();
    let use_it = |program: &Path| {
        let mut command = Command::new("unshare");
        command
            .arg("-r")
            .arg(program)
            .args(common::words(SHOW_MAPS));
        run(command.env("REHEAP_CACHE_DIR", cache.root()))
    };
    let reheap = Path::new(env!("CARGO_BIN_EXE_reheap"));
    use_it(reheap).succeeded();
    if !geteuid().is_root() {
        return; // only root can give files away
    }
    // As root's `/home` is, in a namespace of a user.
    chown(cache.path("above"), Some(ATTACKER), None).unwrap();
    use_it(reheap).succeeded();
    let installed = cache.path("bin/reheap");
    fs::create_dir(cache.path("bin")).unwrap();
    fs::copy(reheap, &installed).unwrap();
    chown(&installed, Some(ATTACKER), None).unwrap();
    for path in [cache.root(), cache.entry(), cache.library()] {
        chown(&path, Some(ATTACKER), None).unwrap();
        let shown = path.display();
        let said = format!("cannot trust `{shown}`: it belongs to user 65534, who could replace");
        for program in [reheap, &installed] {
            use_it(program).ended_with(1).said(&[&said]);
        }
        chown(&path, Some(0), None).unwrap();
    }
    // Who installed the program installed these, too.
    let files = cache.path("share/reheap");
    fs::create_dir_all(&files).unwrap();
    fs::write(files.join("manifest.json"), "{}").unwrap();
    for path in [&files, &files.join("manifest.json")] {
        chown(path, Some(ATTACKER), None).unwrap();
    }
    use_it(&installed).ended_with(1).said(&["it is damaged"]);
}

#[test]
fn a_group_may_write_if_it_is_the_users_own() {
    let cache = Cache::new();
    let root = cache.root();
    // The group of whoever runs the tests is root's or a private one; that of a stranger has no entry in `/etc/group`.
    set_mode(&root, 0o775);
    cache.works();
    if geteuid().is_root() {
        chown(&root, None, Some(54_321)).unwrap();
        cache.is_refused(
            &root,
            &["the members of group 54321 may write to it", "chmod go-w"],
        );
    }
}

#[test]
fn whatever_the_umask_nobody_else_may_write_what_reheap_puts_into_the_cache() {
    let cache = Cache::new();
    let mut command = Command::new("sh");
    let reheap = reheap("");
    let program = reheap.get_program().display();
    // `--verify` compiles a small library of reheap's own.
    let script = format!("umask 000; exec {program} run -a mimalloc --verify -- cat /dev/null");
    run(command
        .args(["-c", &script])
        .env("REHEAP_CACHE_DIR", cache.root()))
    .succeeded();
    let project = Project::new(common::HELLO);
    let open = project.script("open", "umask 000; exec \"$@\"");
    let build = project.cargo_reheap("build -a stock");
    let mut build = common::started_by(open.to_str().unwrap(), &build);
    run(build.env("REHEAP_CACHE_DIR", cache.root())).succeeded();
    assert!(cache.root().join("linkers").is_dir());
    let seen = assert_closed(&cache.root());
    assert!(seen > 10, "{seen}");
}

#[test]
fn results_are_as_private_as_the_umask_says() {
    let directory = tempfile::tempdir().unwrap();
    let result = directory.path().join("result.json");
    let mut command = Command::new("sh");
    let script = "umask 077; exec \"$0\" bench --rounds 2 --variant glibc,glibc+mimalloc --json \"$1\" -- cat /dev/null";
    command.args(["-c", script, env!("CARGO_BIN_EXE_reheap")]);
    run(command
        .arg(&result)
        .env("REHEAP_CACHE_DIR", common::cache()))
    .succeeded();
    let mode = fs::metadata(&result).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn prebuilt_files_that_others_could_replace_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let files = directory.path().join("above/files");
    fs::create_dir_all(&files).unwrap();
    fs::write(files.join("manifest.json"), "{}").unwrap();
    let look = |said: &[&str]| {
        let mut command = reheap("run -a mimalloc -- echo started");
        let outcome = run(command.env("REHEAP_PREBUILT", &files))
            .ended_with(1)
            .said(said);
        assert_eq!(outcome.stdout, "");
    };
    look(&["it is damaged"]);
    for path in [
        files.clone(),
        directory.path().join("above"),
        files.join("manifest.json"),
    ] {
        let mode = fs::metadata(&path).unwrap().permissions();
        set_mode(&path, 0o777);
        let shown = path.display();
        look(&[
            &format!("cannot trust `{shown}`: every user may write to it"),
            &format!("hint: chmod go-w {shown}"),
        ]);
        fs::set_permissions(&path, mode).unwrap();
    }
}

/// An older reheap made such a linker with umask 000.
#[test]
fn a_linker_that_others_could_replace_is_refused() {
    let cache = Cache::new();
    let project = Project::new(common::HELLO);
    let build = || {
        let mut build = project.cargo_reheap("build -a stock");
        run(build.env("REHEAP_CACHE_DIR", cache.root()))
    };
    build().succeeded();
    let directory = fs::read_dir(cache.root().join("linkers")).unwrap().next();
    let directory = directory.unwrap().unwrap().path();
    let script = fs::read_dir(&directory)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    for path in [directory, script] {
        set_mode(&path, 0o777);
        let shown = path.display();
        build().ended_with(1).said(&[
            &format!("cannot use the cache: cannot trust `{shown}`: every user may write to it"),
            &format!("hint: chmod go-w {shown}"),
        ]);
        set_mode(&path, 0o755);
    }
    build().succeeded();
}

/// Programs that leave a trace when they are started, under the names of all that reheap looks for.
fn plant(directory: &Path, trace: &Path) {
    let names = "cc gcc c++ g++ clang musl-gcc x86_64-linux-musl-gcc ar zig python3 cargo rustc rustup git ld as";
    for name in names.split(' ') {
        let path = directory.join(name);
        fs::write(
            &path,
            format!("#!/bin/sh\necho {name} >> {}\nexit 1\n", trace.display()),
        )
        .unwrap();
        set_mode(&path, 0o755);
    }
}

#[test]
fn no_compiler_is_taken_from_where_everybody_could_have_put_it() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let open = directory.path().join("open");
    fs::create_dir(&open).unwrap();
    plant(&open, &trace);
    fs::create_dir(open.join("src")).unwrap();
    for (name, text) in [
        ("hello.c", "int main(void) { return 0; }\n"),
        (
            "Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
        ),
        ("src/main.rs", common::HELLO),
    ] {
        fs::write(open.join(name), text).unwrap();
    }
    let rounds = [
        (0o777, open.display().to_string()),
        (0o1777, open.display().to_string()),
        (0o755, ".".to_owned()),
        (0o755, String::new()),
    ];
    for (round, (mode, front)) in rounds.into_iter().enumerate() {
        set_mode(&open, mode);
        let path = format!("{front}:{}", std::env::var("PATH").unwrap());
        let here = |line: &str| {
            let mut command = reheap(line);
            command.env("PATH", &path).current_dir(&open);
            command
        };
        run(&mut here("cc -a mimalloc hello.c -o hello")).succeeded();
        run(&mut here("doctor"));
        run(&mut here("adopt -a mimalloc --dry-run")).succeeded();
        let mut build = Command::new(env!("CARGO_BIN_EXE_cargo-reheap"));
        build.args(["reheap", "build", "-a", "stock"]);
        build.env("PATH", &path).env_remove("CARGO");
        build.env("REHEAP_CACHE_DIR", common::cache());
        build.env(
            "CARGO_TARGET_DIR",
            directory.path().join(format!("target{round}")),
        );
        run(build.current_dir(&open)).succeeded();
        let started = fs::read_to_string(&trace).unwrap_or_default();
        assert_eq!(started, "", "with `{front}` in front, mode {mode:o}");
    }
    // The trap works.
    set_mode(&open, 0o755);
    let path = format!("{}:{}", open.display(), std::env::var("PATH").unwrap());
    run(reheap("doctor").env("PATH", path));
    assert!(fs::read_to_string(&trace).unwrap().contains("cc"));
}

/// What `lock.toml` pins, and what asks for it.
const SOURCES: (&str, &str) = (
    include_str!("../../../reheap-allocators/sources/manifest.toml"),
    include_str!("../../../reheap-allocators/sources/lock.toml"),
);

/// Whoever runs a registry, or sits on the way to it, may say what they like about checksums.
#[test]
fn packages_that_a_registry_has_changed_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let (manifest, lock) = SOURCES;
    let trace = path("trace");
    let pinned: Vec<&str> = lock
        .lines()
        .filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
        .collect();
    for (claim, home, front, end) in [
        (
            Claim::Its,
            "its",
            "checksum for `",
            " changed between lock files",
        ),
        (
            Claim::Pinned,
            "pinned",
            "failed to verify the checksum of `",
            "",
        ),
    ] {
        mirror::serve(manifest, lock, claim, &trace, &path(home));
        let mut command = reheap("run -a rpmalloc -- echo started");
        command.env("CARGO_HOME", path(home));
        command.env("REHEAP_CACHE_DIR", path("cache"));
        let outcome =
            run(&mut command)
                .ended_with(1)
                .said(&["reheap: cannot build rpmalloc: ", front, end]);
        let named = outcome.stderr.split(front).nth(1).unwrap();
        let name = named.split([' ', '`']).next().unwrap();
        assert!(pinned.contains(&name), "{}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "the command must not run");
        assert!(!trace.exists(), "nothing of the package must run");
    }
    // The trap works: without the checksums, Cargo builds what the registry has.
    fs::create_dir(path("plain")).unwrap();
    fs::write(path("plain/Cargo.toml"), manifest).unwrap();
    fs::write(path("plain/lib.rs"), "").unwrap();
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--features", "rpmalloc"])
        .current_dir(path("plain"));
    cargo.env("CARGO_TARGET_DIR", path("target"));
    run(cargo.env("CARGO_HOME", path("its"))).succeeded();
    assert!(trace.exists());
}

/// The names of what appears in a directory while a command runs.
fn names_made_in(directory: &Path, command: &mut Command) -> BTreeSet<String> {
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&watch, directory, WatchFlags::CREATE | WatchFlags::MOVED_TO).unwrap();
    run(command.env("TMPDIR", directory)).succeeded();
    let mut buffer = [MaybeUninit::uninit(); 16 << 10];
    let mut events = Reader::new(&watch, &mut buffer);
    let mut names = BTreeSet::new();
    while let Ok(event) = events.next() {
        names.extend(
            event
                .file_name()
                .map(|name| name.to_str().unwrap().to_owned()),
        );
    }
    names
}

#[test]
fn nobody_can_guess_the_name_of_a_temporary_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for name in ["temporary", "place"] {
        fs::create_dir(path(name)).unwrap();
    }
    fs::write(path("hello.c"), "int main(void) { return 0; }\n").unwrap();
    let result = path("place/result.json");
    let commands = || {
        let mut verify = reheap("run -a mimalloc --verify -- cat /dev/null");
        let mut bench = reheap("bench --rounds 2 --variant glibc,mimalloc --json");
        bench.arg(&result).args(["--", "cat", "/dev/null"]);
        let mut compile = reheap("cc -a mimalloc");
        compile
            .arg(path("hello.c"))
            .arg("-o")
            .arg(path("place/hello"));
        let made = |command: &mut Command| names_made_in(&path("temporary"), command);
        let beside = names_made_in(&path("place"), &mut bench);
        [made(&mut verify), made(&mut compile), beside]
    };
    let (first, second) = (commands(), commands());
    for (index, (first, second)) in first.iter().zip(&second).enumerate() {
        assert!(!first.is_empty(), "command {index} makes no file");
        let both: Vec<_> = first.intersection(second).collect();
        let known = ["result.json", "hello"];
        assert!(
            both.iter().all(|name| known.contains(&name.as_str())),
            "{both:?}"
        );
    }
}

#[test]
fn enable_follows_nobodys_links() {
    let victims = tempfile::tempdir().unwrap();
    let victim = |name: &str| victims.path().join(name);
    let image = Image::of_glibc();
    for name in ["file", "hard"] {
        fs::write(victim(name), "precious\n").unwrap();
        set_mode(&victim(name), 0o600);
    }
    fs::create_dir(victim("directory")).unwrap();
    // Where reheap is known to write: the file itself, and the names that it stages it under.
    for name in ["reheap-after", "reheap-before", "reheap-original"] {
        symlink(
            victim("file"),
            image.path(&format!("etc/.ld.so.preload.{name}")),
        )
        .unwrap();
    }
    image.reheap("enable mimalloc").succeeded();
    image.reheap("disable").succeeded();
    fs::hard_link(
        victim("hard"),
        image.path("etc/.ld.so.preload.reheap-after"),
    )
    .unwrap();
    image.reheap("enable mimalloc").succeeded();
    image.reheap("disable").succeeded();
    // A link out of the system's tree leads to the same path inside of it, where nothing is.
    fs::create_dir_all(image.path("usr/local/lib")).unwrap();
    symlink(victim("directory"), image.path("usr/local/lib/reheap")).unwrap();
    image.reheap("enable mimalloc").ended_with(1);
    fs::remove_file(image.path("usr/local/lib/reheap")).unwrap();
    symlink(victim("file"), image.path("etc/ld.so.preload")).unwrap();
    image.reheap("enable mimalloc").ended_with(1);
    for name in ["file", "hard"] {
        assert_eq!(fs::read_to_string(victim(name)).unwrap(), "precious\n");
        let mode = fs::metadata(victim(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
    }
    assert!(fs::read_dir(victim("directory")).unwrap().next().is_none());
}

#[test]
fn enable_refuses_a_directory_that_others_may_write_to() {
    let image = Image::of_glibc();
    for path in ["etc", "etc/profile.d", "usr"].map(|path| image.path(path)) {
        set_mode(&path, 0o777);
        let said = format!("cannot work below `{}`: users other than", path.display());
        image.reheap("enable mimalloc").ended_with(1).said(&[&said]);
        image.reheap("disable").ended_with(1).said(&[&said]);
        set_mode(&path, 0o755);
    }
    image.reheap("enable mimalloc").succeeded();
}

#[test]
fn enable_trusts_no_user_that_a_namespace_does_not_know() {
    let image = Image::of_glibc();
    let enable = || {
        let command = reheap("enable mimalloc");
        let mut command = common::started_by("unshare -r", &command);
        run(command.arg("--root").arg(image.directory.path()))
    };
    enable().succeeded();
    image.reheap("disable").succeeded();
    if !geteuid().is_root() {
        return; // only root can give files away
    }
    chown(image.directory.path(), Some(ATTACKER), None).unwrap();
    enable().succeeded();
    image.reheap("disable").ended_with(1);
    for path in ["etc", "etc/profile.d", "usr/local/lib/reheap"] {
        let path = image.path(path);
        chown(&path, Some(ATTACKER), None).unwrap();
        let said = format!(
            "cannot work below `{}`: it belongs to user 65534",
            path.display()
        );
        enable().ended_with(1).said(&[&said]);
        chown(&path, Some(0), None).unwrap();
    }
}

#[test]
fn enable_writes_nothing_behind_a_link_that_somebody_puts_there_while_it_works() {
    let victim = tempfile::tempdir().unwrap();
    set_mode(victim.path(), 0o755);
    let image = Image::of_glibc();
    let place = image.path("usr/local/lib");
    fs::create_dir_all(&place).unwrap();
    let (aside, link) = (image.path("usr/local/aside"), image.path("usr/local/link"));
    symlink(victim.path(), &link).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // Each may fail because of what reheap does at the same time.
                let _ = fs::rename(&place, &aside).and_then(|()| fs::rename(&link, &place));
                let _ = fs::rename(&place, &link).and_then(|()| fs::rename(&aside, &place));
            }
        });
        for _ in 0..20 {
            image.reheap("enable mimalloc");
            image.reheap("disable");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let found: Vec<_> = fs::read_dir(victim.path()).unwrap().collect();
    assert!(found.is_empty(), "{found:?}");
}
