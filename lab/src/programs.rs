//! The programs that are measured: what they need is fetched, and each becomes a call of `reheap bench`.
//!
//! Those under `lab/workloads` are not part of the workspace's build and tests, because they need what only those want
//! who measure: hundreds of packages, a module of the npm registry, Java, Node, Redis. What this machine lacks is left
//! out, with the reason.
//!
//! To add one: its directory under `workloads/`, and a [`RustProgram`], a [`SystemProgram`] or a [`ServerProgram`]
//! here.

use anyhow::{Context, Result, ensure};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::{Workspace, musl_target};

/// How many threads the programs are run with.
const THREADS: &str = "2";
/// The manifest of the workspace of the programs around real packages.
pub(crate) const REAL: &str = "lab/workloads/Cargo.toml";

/// The module that `wasm-compile` compiles: 14 MB, all of a compiler for JavaScript that was written in Go.
const ESBUILD: NpmFile = NpmFile {
    package: "esbuild-wasm",
    version: "0.28.2",
    path: "package/esbuild.wasm",
    sha256: "b1831a5c0f6cf688034fb94d0419812f165ea316a3380d3fc00a151e562d2eaf",
};

/// A smaller one, of SQLite, for measurements that compile hundreds of times.
pub(crate) const SQLITE: NpmFile = NpmFile {
    package: "sql.js",
    version: "1.13.0",
    path: "package/dist/sql-wasm.wasm",
    sha256: "0734155c83e493983d1f2ff5b09a4fab6e35a32e9449c7e4e545756439f62d73",
};

/// A program in Rust, which can be linked with any libc and any allocator.
pub(crate) struct RustProgram {
    /// As the results are called.
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    pub(crate) executable: &'static str,
    pub(crate) manifest: PathBuf,
    /// Further flags of Cargo.
    pub(crate) flags: &'static [&'static str],
    /// The parameter that it is run with several values of, for `-L`.
    pub(crate) sweep: Option<&'static str>,
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// What it is linked with beside what all programs are.
    pub(crate) variants: &'static [&'static str],
    /// Figures that it prints, for `--metric`.
    pub(crate) metrics: &'static [&'static str],
    /// What it is run with, with whole paths.
    pub(crate) arguments: Vec<String>,
}

/// A program that is installed on this machine, dynamically linked, whose allocator a preload replaces.
pub(crate) struct SystemProgram {
    pub(crate) name: &'static str,
    /// Environment variables that it needs to be worth measuring.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// The program and its arguments, with whole paths.
    pub(crate) words: Vec<String>,
}

/// Commands that are compared as they are, the first being the baseline.
pub(crate) struct Commands {
    pub(crate) name: &'static str,
    pub(crate) environment: Vec<(&'static str, String)>,
    /// As `NAME=COMMAND`.
    pub(crate) variants: Vec<String>,
    pub(crate) output_varies: bool,
}

/// A server and what keeps it busy, as `reheap bench` takes them.
pub(crate) struct ServerProgram {
    pub(crate) name: &'static str,
    pub(crate) server: &'static str,
    pub(crate) ready_port: u16,
    pub(crate) load: &'static str,
    pub(crate) metrics: &'static [&'static str],
}

/// Redis from the distribution, nothing of it on disk.
pub(crate) const REDIS: ServerProgram = ServerProgram {
    name: "redis",
    server: "redis-server --port 7777 --save '' --appendonly no",
    ready_port: 7777,
    load: "redis-benchmark -p 7777 -t set,get,lpush,hset -n 200000 -r 100000 -d 256 -P 16 --csv",
    metrics: &[
        r#"set="SET","([\d.]+)""#,
        r#"get="GET","([\d.]+)""#,
        r#"lpush="LPUSH","([\d.]+)""#,
        r#"hset="HSET","([\d.]+)""#,
    ],
};

/// Everything that can be measured here.
pub(crate) struct Prepared {
    pub(crate) rust: Vec<RustProgram>,
    pub(crate) system: Vec<SystemProgram>,
    pub(crate) commands: Vec<Commands>,
    pub(crate) servers: Vec<ServerProgram>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// A program that takes no part, and why.
pub(crate) struct LeftOut {
    pub(crate) name: String,
    pub(crate) reason: String,
}

impl LeftOut {
    pub(crate) fn new(name: &str, error: &anyhow::Error) -> LeftOut {
        LeftOut {
            name: name.to_owned(),
            reason: format!("{error:#}"),
        }
    }
}

/// Fetches and compiles what the programs need to run. Those in Rust are not built yet: each variant does that anew.
pub(crate) fn prepare(workspace: &Workspace, progress: &Progress) -> Result<Prepared> {
    let directory = fetched(workspace)?;
    let mut prepared = Prepared::of_rust(small(workspace));
    prepared
        .rust
        .push(rust_program(workspace, "json", "Cargo.toml"));
    prepared
        .rust
        .push(rust_program(workspace, "tokenize", REAL));
    match ESBUILD.fetch(&directory, progress) {
        Ok(module) => {
            let mut program = rust_program(workspace, "wasm-compile", REAL);
            program.arguments.push(module.display().to_string());
            prepared.rust.push(program);
        }
        Err(error) => prepared.leave_out("wasm-compile", &error),
    }
    let system = [
        ("readers", readers(workspace)),
        ("deflate", deflate(workspace, &directory, progress)),
        ("requests", requests(workspace)),
    ];
    for (name, program) in system {
        match program {
            Ok(program) => prepared.system.push(program),
            Err(error) => prepared.leave_out(name, &error),
        }
    }
    match need("redis-server").and_then(|()| need("redis-benchmark")) {
        Ok(()) => prepared.servers.push(REDIS),
        Err(error) => prepared.leave_out(REDIS.name, &error),
    }
    Ok(prepared)
}

/// The directory of what is fetched and compiled for the programs.
pub(crate) fn fetched(workspace: &Workspace) -> Result<PathBuf> {
    let directory = workspace.target.join("real-workloads");
    files::make_directory(&directory)?;
    Ok(directory)
}

/// Micro benchmarks: loops that do little else than allocate.
pub(crate) const MICRO: [&str; 2] = ["churn", "passwords"];

/// The micro benchmarks, with one thread and with two.
pub(crate) fn small(workspace: &Workspace) -> Vec<RustProgram> {
    let program = |package, amount: &str| RustProgram {
        sweep: Some("threads=1,2"),
        arguments: ["--threads", "{threads}", "--amount", amount]
            .map(String::from)
            .to_vec(),
        ..rust_program(workspace, package, "Cargo.toml")
    };
    // Enough that starting the process does not count.
    let [churn, passwords] = MICRO;
    vec![program(churn, "8000000"), program(passwords, "1000000")]
}

impl Prepared {
    pub(crate) fn of_rust(rust: Vec<RustProgram>) -> Self {
        Self {
            rust,
            system: Vec::new(),
            commands: Vec::new(),
            servers: Vec::new(),
            left_out: Vec::new(),
        }
    }

    pub(crate) fn leave_out(&mut self, name: &str, error: &anyhow::Error) {
        self.left_out.push(LeftOut::new(name, error));
    }
}

pub(crate) fn rust_program(
    workspace: &Workspace,
    package: &'static str,
    manifest: &str,
) -> RustProgram {
    RustProgram {
        name: package,
        package,
        executable: package,
        manifest: workspace.root.join(manifest),
        flags: &[],
        sweep: None,
        environment: &[],
        variants: &[],
        metrics: &[],
        arguments: ["--threads", THREADS].map(String::from).to_vec(),
    }
}

impl RustProgram {
    /// The flags that make Cargo, or `cargo reheap`, build this program and nothing else.
    pub(crate) fn cargo_flags(&self, workspace: &Workspace) -> Vec<String> {
        self.flags_into(&workspace.target)
    }

    /// The same with a target directory.
    fn flags_into(&self, target: &Path) -> Vec<String> {
        let shown = |path: &Path| path.display().to_string();
        let (manifest, target) = (shown(&self.manifest), shown(target));
        let flags = [
            "--release",
            "--locked",
            "-p",
            self.package,
            "--manifest-path",
            &manifest,
        ];
        let target = ["--target-dir", &target];
        let all = flags.into_iter().chain(target);
        all.chain(self.flags.iter().copied())
            .map(String::from)
            .collect()
    }

    /// Builds it with plain Cargo for this machine, as a dynamic executable, where `cargo reheap bench` builds it too.
    pub(crate) fn build_stock(
        &self,
        workspace: &Workspace,
        progress: &Progress,
    ) -> Result<PathBuf> {
        let mut command = workspace.cargo();
        let triple = format!("{}-unknown-linux-gnu", env::consts::ARCH);
        command.arg("build").args(self.cargo_flags(workspace));
        command.args(["--target", &triple]);
        progress.step(&format!("building {}", self.package), &mut command)?;
        let directory = workspace.target.join(triple).join("release");
        Ok(directory.join(self.executable))
    }

    /// Builds it for musl with plain Cargo and this feature, and puts the executable aside. It has a target directory of its own:
    /// in the same one, Cargo and `cargo reheap` each compile again what the other has compiled.
    pub(crate) fn build_with_feature(
        &self,
        workspace: &Workspace,
        progress: &Progress,
        feature: &str,
    ) -> Result<PathBuf> {
        let target = workspace.target.join("plain-cargo");
        let mut command = workspace.cargo();
        command.arg("build").args(self.flags_into(&target));
        command.args(["--target", musl_target()?.triple(), "--features", feature]);
        progress.step(
            &format!("building {} with {feature}", self.package),
            &mut command,
        )?;
        self.put_aside(&target, feature)
    }

    /// Copies the executable for musl from a target directory to where no other build replaces it.
    pub(crate) fn put_aside(&self, target: &Path, variant: &str) -> Result<PathBuf> {
        let of_target = target.join(musl_target()?.triple());
        let aside = of_target.join("reheap-bench").join(variant);
        files::make_directory(&aside)?;
        let (from, to) = (
            of_target.join("release").join(self.executable),
            aside.join(self.executable),
        );
        files::copy(&from, &to)?;
        Ok(to)
    }
}

/// Python, all of whose objects come from malloc: by default small ones come from Python's own allocator.
fn readers(workspace: &Workspace) -> Result<SystemProgram> {
    need("python3")?;
    let script = workspace.root.join("lab/workloads/readers/readers.py");
    Ok(SystemProgram {
        name: "readers",
        environment: vec![("PYTHONMALLOC", "malloc".to_owned())],
        words: ["python3", &script.display().to_string()]
            .map(String::from)
            .to_vec(),
    })
}

/// Java. Compiled first, or the compiler would be measured too.
fn deflate(workspace: &Workspace, directory: &Path, progress: &Progress) -> Result<SystemProgram> {
    need("java")?;
    need("javac")?;
    let mut javac = Command::new("javac");
    javac
        .arg("-d")
        .arg(directory)
        .arg(workspace.root.join("lab/workloads/deflate/Deflate.java"));
    progress.step("compiling deflate", &mut javac)?;
    let directory = directory.display().to_string();
    // The limit makes the collector return buffers while the program runs, not when its own heap is full.
    let words = [
        "java",
        "-XX:MaxDirectMemorySize=64m",
        "-cp",
        &directory,
        "Deflate",
    ];
    let threads = ["--threads", THREADS];
    Ok(SystemProgram {
        name: "deflate",
        environment: Vec::new(),
        words: words.into_iter().chain(threads).map(String::from).collect(),
    })
}

fn requests(workspace: &Workspace) -> Result<SystemProgram> {
    need("node")?;
    let file = workspace.root.join("lab/workloads/requests/requests.mjs");
    let script = file.display().to_string();
    Ok(SystemProgram {
        name: "requests",
        environment: Vec::new(),
        words: ["node", &script, "--threads", THREADS]
            .map(String::from)
            .to_vec(),
    })
}

/// Fails where a program is not in the search path.
fn need(program: &str) -> Result<()> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).any(|directory| directory.join(program).is_file());
    ensure!(found, "`{program}` is not installed");
    Ok(())
}

/// A file in a package of the npm registry. Its checksum is pinned, so it does not matter who delivered it.
pub(crate) struct NpmFile {
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    /// The file in the package's archive.
    pub(crate) path: &'static str,
    pub(crate) sha256: &'static str,
}

impl NpmFile {
    /// The file, in this directory, fetched if it is not there yet.
    pub(crate) fn fetch(&self, directory: &Path, progress: &Progress) -> Result<PathBuf> {
        let name = Path::new(self.path)
            .file_name()
            .context("a package's file has no name")?;
        let file = directory.join(name);
        if check(&file, self.sha256).is_ok() {
            return Ok(file);
        }
        let package = format!("{}@{}", self.package, self.version);
        progress.say(format!("fetching {package}"));
        let fresh = tempfile::tempdir_in(directory).context("cannot make a temporary directory")?;
        let archive = fresh.path().join("package.tgz");
        download(self.package, self.version, fresh.path(), &archive)?;
        let mut tar = Command::new("tar");
        tar.arg("-xzf")
            .arg(&archive)
            .arg("-C")
            .arg(fresh.path())
            .arg(self.path);
        stdout_of(&mut tar)?;
        let unpacked = fresh.path().join(self.path);
        check(&unpacked, self.sha256).with_context(|| format!("cannot use {package}"))?;
        fs::rename(&unpacked, &file)
            .with_context(|| format!("cannot write `{}`", file.display()))?;
        Ok(file)
    }
}

/// All of a package of the npm registry. The checksum is that of its archive.
pub(crate) struct NpmPackage {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) sha256: &'static str,
}

impl NpmPackage {
    /// Fetches it and unpacks it into a new directory.
    pub(crate) fn unpack(&self, directory: &Path, progress: &Progress) -> Result<()> {
        progress.say(format!("fetching {}@{}", self.name, self.version));
        files::make_directory(directory)?;
        let archive = directory.join("package.tgz");
        download(self.name, self.version, directory, &archive)?;
        check(&archive, self.sha256)?;
        let mut tar = Command::new("tar");
        tar.args(["--strip-components=1", "-xzf"]).arg(&archive);
        stdout_of(tar.current_dir(directory))?;
        fs::remove_file(&archive).context("cannot delete an archive")
    }
}

/// By npm, which knows the user's mirror and proxy; by curl where there is no npm.
fn download(package: &str, version: &str, directory: &Path, archive: &Path) -> Result<()> {
    if need("npm").is_err() {
        let (_, name) = package.rsplit_once('/').unwrap_or(("", package));
        let address = format!("https://registry.npmjs.org/{package}/-/{name}-{version}.tgz");
        let mut curl = Command::new("curl");
        curl.args(["-fsSL", "-o"]).arg(archive).arg(address);
        return stdout_of(&mut curl).map(drop);
    }
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", &format!("{package}@{version}")])
        .current_dir(directory);
    let packed = directory.join(stdout_of(&mut npm)?.trim());
    fs::rename(&packed, archive).with_context(|| format!("npm pack left no `{}`", packed.display()))
}

/// Fails unless a file has this checksum.
pub(crate) fn check(file: &Path, sha256: &str) -> Result<()> {
    let digest = files::sha256(&files::read_bytes(file)?);
    ensure!(
        digest == sha256,
        "`{}` has the SHA-256 {digest}, not {sha256}",
        file.display(),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_the_pinned_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("empty");
        fs::write(&file, "").unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert!(check(&file, empty).is_ok());
        let error = check(&file, ESBUILD.sha256).unwrap_err().to_string();
        assert!(
            error.contains(empty) && error.contains(ESBUILD.sha256),
            "{error}"
        );
    }

    #[test]
    fn a_program_that_is_not_installed_is_named() {
        let error = need("no-such-program").unwrap_err();
        assert_eq!(error.to_string(), "`no-such-program` is not installed");
    }
}
