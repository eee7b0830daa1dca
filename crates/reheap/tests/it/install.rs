//! `install.sh`: what it downloads is checked, installed and removed again, and a failure leaves what was there.
//!
//! The archive is made here, as `make dist` makes it; the server is Python's, on this machine.

use crate::common::{Outcome, run};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server's directory with an archive of reheap.
struct Release {
    directory: tempfile::TempDir,
    version: &'static str,
}

impl Release {
    /// A release with these files beside the program.
    fn new(version: &'static str, files: &[&str]) -> Release {
        let directory = tempfile::tempdir().unwrap();
        let release = Release { directory, version };
        let tree = release.directory.path().join(release.name());
        fs::create_dir_all(tree.join("bin")).unwrap();
        // Without debug information, which makes the archive ten times as large.
        let mut strip = Command::new("strip");
        strip.arg(env!("CARGO_BIN_EXE_reheap")).arg("-o");
        run(strip.arg(tree.join("bin/reheap"))).succeeded();
        for file in files {
            fs::create_dir_all(tree.join(file).parent().unwrap()).unwrap();
            fs::write(tree.join(file), version).unwrap();
        }
        let mut tar = Command::new("tar");
        tar.args(["--use-compress-program=gzip -1", "-cf", &release.archive()])
            .arg(release.name())
            .current_dir(release.directory.path());
        run(&mut tar).succeeded();
        let mut sum = Command::new("sha256sum");
        sum.arg(release.archive())
            .current_dir(release.directory.path());
        fs::write(release.file("SHA256SUMS"), run(&mut sum).succeeded().stdout).unwrap();
        release
    }

    fn name(&self) -> String {
        format!("reheap-{}-{}-linux", self.version, std::env::consts::ARCH)
    }

    fn archive(&self) -> String {
        format!("{}.tar.gz", self.name())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// Python's server for a directory. It ends with the test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(directory: &Path) -> Server {
        let mut child = Command::new("python3")
            .args([
                "-u",
                "-m",
                "http.server",
                "0",
                "--bind",
                "127.0.0.1",
                "--directory",
            ])
            .arg(directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 starts; xtask/prepare install");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        // Serving HTTP on 127.0.0.1 port 40123 (http://127.0.0.1:40123/) ...
        let port = line.split_whitespace().nth(5).unwrap();
        let address = format!("http://127.0.0.1:{port}");
        Server { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn script(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../install.sh"))
        .args(arguments);
    command
}

fn install(release: &Release, prefix: &Path) -> Outcome {
    let server = Server::start(release.directory.path());
    let prefix = prefix.to_str().unwrap();
    run(&mut script(&[
        "--from",
        &server.address,
        "--prefix",
        prefix,
    ]))
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<String> {
    let mut find = Command::new("find");
    find.args([".", "-type", "f"]).current_dir(directory);
    let mut files: Vec<String> = run(&mut find)
        .succeeded()
        .stdout
        .lines()
        .map(String::from)
        .collect();
    files.sort();
    files
}

#[test]
fn what_is_installed_runs_and_is_removed_again_with_nothing_else() {
    let release = Release::new(
        "0.1.0",
        &["share/reheap/manifest.json", "share/man/man1/reheap.1"],
    );
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("local");
    fs::create_dir_all(prefix.join("share/man/man1")).unwrap();
    fs::write(prefix.join("share/man/man1/other.1"), "another's").unwrap();

    install(&release, &prefix)
        .succeeded()
        .said(&["installed reheap"]);
    let version = run(Command::new(prefix.join("bin/reheap")).arg("--version")).succeeded();
    assert!(version.stdout.starts_with("reheap "), "{}", version.stdout);

    run(&mut script(&[
        "--uninstall",
        "--prefix",
        prefix.to_str().unwrap(),
    ]))
    .succeeded();
    assert_eq!(files(&prefix), ["./share/man/man1/other.1"]);
    assert!(!prefix.join("bin").exists());
}

#[test]
fn what_is_installed_is_for_everybody_whatever_the_umask_is() {
    let release = Release::new(
        "0.1.0",
        &["share/reheap/manifest.json", "share/reheap/preloads/a/b.so"],
    );
    let server = Server::start(release.directory.path());
    let directory = tempfile::tempdir().unwrap();
    for (umask, earlier) in [("027", false), ("077", false), ("077", true)] {
        let prefix = directory.path().join(format!("{umask}-{earlier}"));
        if earlier {
            // What an installation with that umask used to leave.
            let closed = prefix.join("share/reheap/preloads");
            fs::create_dir_all(&closed).unwrap();
            fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../install.sh");
        let line = format!("umask {umask}; exec sh \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &line, "sh", script, "--from", &server.address]);
        run(shell.arg("--prefix").arg(&prefix)).succeeded();
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
    install(
        &Release::new("0.1.0", &["share/reheap/old", "share/reheap/both"]),
        prefix,
    )
    .succeeded();
    install(
        &Release::new("0.2.0", &["share/reheap/new", "share/reheap/both"]),
        prefix,
    )
    .succeeded();
    let installed = [
        "./bin/reheap",
        "./share/reheap/both",
        "./share/reheap/installed-files",
        "./share/reheap/new",
    ];
    assert_eq!(files(prefix), installed);
    assert_eq!(
        fs::read_to_string(prefix.join("share/reheap/both")).unwrap(),
        "0.2.0"
    );
}

#[test]
fn busybox_has_everything_that_the_script_needs() {
    let tools = tempfile::tempdir().unwrap();
    let mut applets = Command::new("busybox");
    applets.args(["--install", "-s"]).arg(tools.path());
    run(&mut applets).succeeded();
    let first = Release::new("0.1.0", &["share/reheap/old"]);
    let second = Release::new("0.2.0", &["share/reheap/new"]);
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().to_str().unwrap();
    let with_busybox = |arguments: &[&str]| {
        let script = script(arguments);
        let mut command = Command::new(tools.path().join("sh"));
        command.args(script.get_args());
        run(command.env_clear().env("PATH", tools.path()))
    };
    for release in [&first, &second] {
        let server = Server::start(release.directory.path());
        with_busybox(&["--from", &server.address, "--prefix", prefix]).succeeded();
    }
    assert!(directory.path().join("share/reheap/new").exists());
    assert!(!directory.path().join("share/reheap/old").exists());
    with_busybox(&["--uninstall", "--prefix", prefix]).succeeded();
    assert_eq!(files(directory.path()), [""; 0]);
}

#[test]
fn an_archive_with_another_checksum_is_not_installed() {
    let release = Release::new("0.1.0", &[]);
    let mut archive = fs::OpenOptions::new()
        .append(true)
        .open(release.file(&release.archive()))
        .unwrap();
    archive.write_all(b"more").unwrap();
    let prefix = tempfile::tempdir().unwrap();
    install(&release, prefix.path())
        .ended_with(1)
        .said(&["SHA256SUMS says"]);
    assert_eq!(files(prefix.path()), [""; 0]);
}

#[test]
fn a_server_without_the_files_is_named() {
    let empty = tempfile::tempdir().unwrap();
    let server = Server::start(empty.path());
    let prefix = tempfile::tempdir().unwrap();
    let to = prefix.path().to_str().unwrap();
    run(&mut script(&["--from", &server.address, "--prefix", to]))
        .ended_with(1)
        .said(&["cannot download"]);
    assert_eq!(files(prefix.path()), [""; 0]);
}

#[test]
fn a_server_without_an_archive_for_this_processor_is_said_to_have_none() {
    let directory = tempfile::tempdir().unwrap();
    let sums = "0000  reheap-1.0.0-m68k-linux.tar.gz\n";
    fs::write(directory.path().join("SHA256SUMS"), sums).unwrap();
    let server = Server::start(directory.path());
    let prefix = tempfile::tempdir().unwrap();
    let to = prefix.path().to_str().unwrap();
    run(&mut script(&["--from", &server.address, "--prefix", to]))
        .ended_with(1)
        .said(&["SHA256SUMS` names no archive for ", std::env::consts::ARCH])
        .did_not_say("downloading");
    assert_eq!(files(prefix.path()), [""; 0]);
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
    let to = prefix.path().to_str().unwrap();
    run(&mut script(&["--uninstall", "--prefix", to]))
        .ended_with(1)
        .said(&["nothing of reheap is installed"]);
    run(&mut script(&["--nonsense"])).ended_with(2);
}
