//! `install.sh`: what it downloads is checked, installed, replaced and removed again, and a failure leaves what was there.
//!
//! The archives are made here, as `make dist` makes them. Most have a script for a program, which says its version.

use crate::common::command::Running;
use crate::common::registry::{Answer, serve};
use crate::common::{Outcome, run};
use reheap_allocators::cache::sha256;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;

const ARCHITECTURE: &str = std::env::consts::ARCH;

/// What a server has.
#[derive(Clone)]
struct Release {
    archive: Vec<u8>,
    sums: String,
}

impl Release {
    /// A release with these files beside the program.
    fn new(version: &str, files: &[&str]) -> Self {
        let program = format!("#!/bin/sh\necho reheap {version}\n");
        Self::with_program(version, program.as_bytes(), files)
    }

    fn with_program(version: &str, program: &[u8], files: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let name = format!("reheap-{version}-{ARCHITECTURE}-linux");
        let write = |file: &str, bytes: &[u8], mode| {
            let path = directory.path().join(&name).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        write("bin/reheap", program, 0o755);
        for file in files {
            write(file, version.as_bytes(), 0o644);
        }
        let archive = directory.path().join("archive");
        let mut tar = Command::new("tar");
        tar.args(["--use-compress-program=gzip -1", "-cf"])
            .arg(&archive)
            .arg(&name)
            .current_dir(directory.path());
        run(&mut tar).succeeded();
        let archive = fs::read(archive).unwrap();
        let sums = format!("{}  {name}.tar.gz\n", sha256(&archive));
        Self { archive, sums }
    }

    /// The address of a server, and what it is asked.
    fn serve(&self) -> (String, Receiver<String>) {
        self.serve_as(|_, answer| answer)
    }

    /// The same for a server that gives something else than it should.
    fn serve_as(
        &self,
        changed: impl Fn(&str, Answer) -> Answer + Send + 'static,
    ) -> (String, Receiver<String>) {
        let release = self.clone();
        let (host, asked) = serve(move |request| {
            let name = request.path.trim_start_matches('/');
            let right = match name {
                "SHA256SUMS" => Answer::ok(release.sums.clone()),
                _ if release.sums.contains(name) => Answer::ok(release.archive.clone()),
                _ => Answer::error("404 Not Found"),
            };
            changed(name, right)
        });
        (format!("http://{host}"), asked)
    }

    fn install(&self, prefix: &Path) -> Outcome {
        let (from, _asked) = self.serve();
        run(&mut script_from(&from, prefix))
    }
}

fn script(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../install.sh"))
        .args(arguments);
    command
}

fn script_from(from: &str, prefix: &Path) -> Command {
    script(&["--from", from, "--prefix", prefix.to_str().unwrap()])
}

fn uninstall(prefix: &Path) -> Outcome {
    run(&mut script(&[
        "--uninstall",
        "--prefix",
        prefix.to_str().unwrap(),
    ]))
}

/// All files and links below a directory, without what makes the names of versions unique.
fn files(directory: &Path) -> Vec<String> {
    let mut find = Command::new("find");
    find.args([".", "!", "-type", "d"]).current_dir(directory);
    let mut files: Vec<String> = run(&mut find)
        .succeeded()
        .stdout
        .lines()
        .map(without_suffix)
        .collect();
    files.sort();
    files
}

/// `./share/reheap/0.1.0-aB3dE6/bin/reheap` becomes `./share/reheap/0.1.0/bin/reheap`.
fn without_suffix(file: &str) -> String {
    let parts = file.split('/').map(|part| match part.split_once('-') {
        Some((version, suffix)) if version.contains('.') && suffix.len() == 6 => version,
        _ => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// What the installed program says of itself.
fn version(prefix: &Path) -> String {
    let program = prefix.join("bin/reheap");
    let said = run(Command::new(program).arg("--version")).succeeded();
    said.stdout.trim().to_owned()
}

#[test]
fn what_is_installed_runs_and_is_removed_again_with_nothing_else() {
    let program = tempfile::tempdir().unwrap();
    let program = program.path().join("reheap");
    // Without debug information, which makes the archive ten times as large.
    let mut strip = Command::new("strip");
    run(strip
        .arg(env!("CARGO_BIN_EXE_reheap"))
        .arg("-o")
        .arg(&program))
    .succeeded();
    let release = Release::with_program(
        "0.1.0",
        &fs::read(program).unwrap(),
        &["share/doc/reheap/README.md", "share/man/man1/reheap.1"],
    );
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("local");
    fs::create_dir_all(prefix.join("share/man/man1")).unwrap();
    fs::write(prefix.join("share/man/man1/other.1"), "another's").unwrap();

    release
        .install(&prefix)
        .succeeded()
        .said(&["installed reheap"]);
    assert!(version(&prefix).starts_with("reheap "));
    let page = fs::read_to_string(prefix.join("share/man/man1/reheap.1"));
    assert_eq!(page.unwrap(), "0.1.0");

    uninstall(&prefix).succeeded();
    assert_eq!(files(&prefix), ["./share/man/man1/other.1"]);
    assert!(!prefix.join("bin").exists() && !prefix.join("share/reheap").exists());
}

#[test]
fn what_is_installed_is_for_everybody_whatever_the_umask_is() {
    let release = Release::new("0.1.0", &["share/reheap/preloads/a/b.so"]);
    let (from, _asked) = release.serve();
    let directory = tempfile::tempdir().unwrap();
    for umask in ["027", "077"] {
        let prefix = directory.path().join(umask);
        let script = script_from(&from, &prefix);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("umask {umask}; exec sh \"$@\""), "sh"]);
        run(shell.args(script.get_args())).succeeded();
        let closed = "( -type d ! -perm -755 ) -o ( -type f ! -perm -644 )";
        let mut find = Command::new("find");
        find.arg(&prefix).args(closed.split(' '));
        assert_eq!(run(&mut find).succeeded().stdout, "", "{umask}");
    }
}

#[test]
fn a_newer_version_replaces_the_files_and_removes_those_that_it_has_not() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path();
    let old = Release::new("0.1.0", &["share/man/old.1", "share/man/both.1"]);
    old.install(prefix).succeeded();
    let new = Release::new("0.2.0", &["share/man/new.1", "share/man/both.1"]);
    new.install(prefix).succeeded();
    let installed = [
        "./bin/reheap",
        "./share/man/both.1",
        "./share/man/new.1",
        "./share/reheap/0.2.0/bin/reheap",
        "./share/reheap/0.2.0/share/man/both.1",
        "./share/reheap/0.2.0/share/man/new.1",
        "./share/reheap/current",
    ];
    assert_eq!(files(prefix), installed);
    let both = fs::read_to_string(prefix.join("share/man/both.1"));
    assert_eq!(both.unwrap(), "0.2.0");
    assert_eq!(version(prefix), "reheap 0.2.0");
}

/// Commands in front of the usual ones that count, and end the installation without a warning at one of them.
fn tools_that_kill(directory: &Path) -> String {
    let tools = directory.join("tools");
    fs::create_dir(&tools).unwrap();
    let path = std::env::var("PATH").unwrap();
    for name in ["chmod", "ln", "mkdir", "mktemp", "mv", "rm", "rmdir"] {
        let text = format!(
            "#!/bin/sh\necho step >>\"$STEPS\"\n[ \"$(wc -l <\"$STEPS\")\" -ne \"$KILLED_AT\" ] || kill -9 0\n\
             PATH={path} exec {name} \"$@\"\n"
        );
        fs::write(tools.join(name), text).unwrap();
        fs::set_permissions(tools.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!("{}:{path}", tools.display())
}

#[test]
fn a_crash_between_any_two_steps_leaves_all_of_the_old_version_or_all_of_the_new_one() {
    let contents = ["share/man/x.1", "share/reheap/x.json"];
    let (new, _asked) = Release::new("0.2.0", &contents).serve();
    let directory = tempfile::tempdir().unwrap();
    let path = tools_that_kill(directory.path());
    let (steps, prefix) = (directory.path().join("steps"), directory.path().join("p"));
    let old = directory.path().join("old");
    Release::new("0.1.0", &contents).install(&old).succeeded();
    for is_upgrade in [false, true] {
        for killed_at in 1.. {
            if is_upgrade {
                run(Command::new("cp").arg("-a").arg(&old).arg(&prefix)).succeeded();
            }
            fs::write(&steps, "").unwrap();
            let mut install = script_from(&new, &prefix);
            install.process_group(0).env("PATH", &path);
            install
                .env("STEPS", &steps)
                .env("KILLED_AT", killed_at.to_string());
            let outcome = run(&mut install);
            if !is_upgrade && !prefix.join("bin/reheap").exists() {
                assert!(outcome.code().is_none(), "{outcome:?}");
            } else {
                let is = version(&prefix);
                let is = is.trim_start_matches("reheap ");
                assert!(is == "0.2.0" || is_upgrade && is == "0.1.0", "{is}");
                for file in contents {
                    let place = prefix.join("bin/reheap").canonicalize().unwrap();
                    let of_version = place.parent().unwrap().parent().unwrap().join(file);
                    assert_eq!(fs::read_to_string(of_version).unwrap(), is, "{killed_at}");
                }
            }
            run(&mut script_from(&new, &prefix)).succeeded();
            assert_eq!(version(&prefix), "reheap 0.2.0");
            let left = files(&prefix.join("share/reheap"));
            assert_eq!(left.len(), contents.len() + 2, "{killed_at}: {left:?}");
            fs::remove_dir_all(&prefix).unwrap();
            if outcome.code() == Some(0) {
                assert!(killed_at > 5, "few steps were tried: {killed_at}");
                break;
            }
        }
    }
}

#[test]
fn a_program_that_runs_keeps_the_files_of_its_version_until_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path();
    let cat = fs::read("/bin/cat").unwrap();
    Release::with_program("0.1.0", &cat, &[])
        .install(prefix)
        .succeeded();
    let mut running = Command::new(prefix.join("bin/reheap"));
    let mut running = running
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It has started when it answers.
    let mut input = running.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"x").unwrap();
    std::io::Read::read_exact(running.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    let new = Release::new("0.2.0", &[]);
    let kept = "./share/reheap/0.1.0/bin/reheap".to_owned();
    let said = new.install(prefix).succeeded();
    said.said(&["stays, because a program uses it"]);
    assert_eq!(version(prefix), "reheap 0.2.0");
    assert!(files(prefix).contains(&kept));
    drop(input);
    running.wait().unwrap();
    new.install(prefix).succeeded().did_not_say("stays");
    assert!(!files(prefix).contains(&kept));
}

#[test]
fn busybox_has_everything_that_the_script_needs() {
    let tools = tempfile::tempdir().unwrap();
    let mut applets = Command::new("busybox");
    applets.args(["--install", "-s"]).arg(tools.path());
    run(&mut applets).succeeded();
    let directory = tempfile::tempdir().unwrap();
    let with_busybox = |script: &Command| {
        let mut command = Command::new(tools.path().join("sh"));
        command.args(script.get_args());
        run(command.env_clear().env("PATH", tools.path()))
    };
    for (version, file) in [("0.1.0", "share/man/old"), ("0.2.0", "share/man/new")] {
        let (from, _asked) = Release::new(version, &[file]).serve();
        with_busybox(&script_from(&from, directory.path())).succeeded();
    }
    assert!(directory.path().join("share/man/new").exists());
    assert!(!directory.path().join("share/man/old").exists());
    let prefix = directory.path().to_str().unwrap();
    with_busybox(&script(&["--uninstall", "--prefix", prefix])).succeeded();
    assert_eq!(files(directory.path()), [""; 0]);
}

/// What a server may give instead, and what is said then.
type Fault = (fn(&str, Answer) -> Answer, &'static str);

const FAULTS: [Fault; 6] = [
    (
        |_, _| Answer::error("404 Not Found"),
        "cannot download `http",
    ),
    (
        |_, _| Answer::error("500 Internal Server Error"),
        "cannot download `http",
    ),
    (
        |_, answer| Answer {
            missing_bytes: 1000,
            ..answer
        },
        "SHA256SUMS`",
    ),
    (
        |name, answer| match name {
            "SHA256SUMS" => answer,
            _ => Answer {
                missing_bytes: 1,
                ..answer
            },
        },
        "-linux.tar.gz`",
    ),
    (
        |name, mut answer| {
            if name != "SHA256SUMS" {
                answer.body.truncate(20);
            }
            answer
        },
        "SHA256SUMS says",
    ),
    (
        |name, answer| match name {
            "SHA256SUMS" => Answer::ok("<html>Sign in to this network</html>"),
            _ => answer,
        },
        "SHA256SUMS` names no archive for ",
    ),
];

#[test]
fn what_a_server_gives_wrongly_is_said_and_the_version_that_is_there_stays() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path();
    Release::new("0.1.0", &[]).install(prefix).succeeded();
    let before = files(prefix);
    let new = Release::new("0.2.0", &["share/man/x.1"]);
    for (fault, said) in FAULTS {
        let (from, _asked) = new.serve_as(fault);
        let outcome = run(&mut script_from(&from, prefix)).ended_with(1);
        outcome.said(&["install.sh: ", said]);
        assert_eq!(files(prefix), before);
        assert_eq!(version(prefix), "reheap 0.1.0");
    }
}

#[test]
fn an_archive_that_is_not_what_its_name_says_is_not_installed() {
    let prefix = tempfile::tempdir().unwrap();
    let of_other_processor = {
        let mut program = fs::read("/bin/true").unwrap();
        program[18] ^= 0xff; // e_machine
        Release::with_program("0.1.0", &program, &[])
    };
    let outcome = of_other_processor.install(prefix.path()).ended_with(1);
    outcome.said(&["the downloaded program does not run here"]);
    let mut cut = Release::new("0.1.0", &[]);
    let half = cut.archive.len() / 2;
    cut.archive.truncate(half);
    let name = cut.sums.split_whitespace().nth(1).unwrap().to_owned();
    cut.sums = format!("{}  {name}\n", sha256(&cut.archive));
    let outcome = cut.install(prefix.path()).ended_with(1);
    outcome.said(&["cannot unpack `reheap-0.1.0"]);
    assert_eq!(files(prefix.path()), [""; 0]);
}

#[test]
fn an_interrupted_download_leaves_nothing() {
    let prefix = tempfile::tempdir().unwrap();
    let release = Release::new("0.1.0", &[]);
    let (from, asked) = release.serve_as(|name, answer| Answer {
        stalls: name != "SHA256SUMS",
        missing_bytes: if name == "SHA256SUMS" { 0 } else { 1000 },
        ..answer
    });
    let running = Running::start(script_from(&from, prefix.path()).process_group(0));
    assert_eq!(asked.recv().unwrap(), "/SHA256SUMS");
    assert!(asked.recv().unwrap().ends_with(".tar.gz"));
    rustix::process::kill_process_group(running.pid(), rustix::process::Signal::TERM).unwrap();
    running
        .finish(crate::common::command::EVENT_DEADLINE)
        .ended_with(143);
    assert_eq!(files(prefix.path()), [""; 0]);
}

#[test]
fn a_server_without_an_archive_for_this_processor_is_said_to_have_none() {
    let mut release = Release::new("1.0.0", &[]);
    release.sums = "0000  reheap-1.0.0-m68k-linux.tar.gz\n".to_owned();
    let prefix = tempfile::tempdir().unwrap();
    let outcome = release.install(prefix.path()).ended_with(1);
    outcome
        .said(&["SHA256SUMS` names no archive for ", ARCHITECTURE])
        .did_not_say("downloading");
    assert_eq!(files(prefix.path()), [""; 0]);
}

#[test]
fn a_program_that_something_else_installed_is_not_replaced() {
    let prefix = tempfile::tempdir().unwrap();
    let program: PathBuf = prefix.path().join("bin/reheap");
    fs::create_dir(program.parent().unwrap()).unwrap();
    fs::write(&program, "of a package").unwrap();
    let release = Release::new("0.1.0", &[]);
    let outcome = release.install(prefix.path()).ended_with(1);
    outcome.said(&["bin/reheap` was not installed by install.sh"]);
    assert_eq!(files(prefix.path()), ["./bin/reheap"]);
}

#[test]
fn without_a_release_and_a_server_it_says_how_else_to_install() {
    let prefix = tempfile::tempdir().unwrap();
    let to = prefix.path().to_str().unwrap();
    for more in [&[][..], &["--version", "0.1.0"]] {
        let outcome = run(&mut script(&[&["--prefix", to], more].concat())).ended_with(1);
        assert_eq!(
            outcome.stderr,
            "install.sh: there is no release of reheap yet\n\n\
             hint: in a clone of reheap: cargo install --locked --path crates/reheap\n      \
             or name a server that has what `make dist` makes: --from URL\n"
        );
    }
    assert_eq!(fs::read_dir(prefix.path()).unwrap().count(), 0);
    run(&mut script(&["--help"]))
        .succeeded()
        .printed(&["There is no release of reheap yet, so --from is needed."]);
}

#[test]
fn what_was_never_installed_is_not_removed_and_unknown_flags_are_refused() {
    let prefix = tempfile::tempdir().unwrap();
    uninstall(prefix.path())
        .ended_with(1)
        .said(&["nothing of reheap is installed"]);
    run(&mut script(&["--nonsense"])).ended_with(2);
}
