//! What a machine lacks of what reheap needs, and the commands that fix it.
//!
//! A check makes the same search as the commands themselves ([`compiler::find`] and so on). A second list of file names
//! could disagree with them. A fix that needs no password is [`Fix::Run`]. Every other fix is [`Fix::ByHand`], a text
//! for the user.
//!
//! reheap fetches Zig as the Python package `ziglang` into its own cache. `pip install --target` changes nothing that
//! is installed, so pip also allows it where the system's Python is "externally managed" (PEP 668). A virtual
//! environment would need another package on Debian.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::catalogue::{CATALOGUE, Recipe};
use crate::compiler::{self, Language, Purpose, Search};
use crate::shell;
use crate::target::Target;

/// The version of Zig with which reheap is tested.
const ZIG_VERSION: &str = "0.14.1";

/// Zig needs 350 MB, what it compiles for itself 150 MB, and the build of an allocator up to 200 MB.
const FREE_BYTES_WANTED: u64 = 1 << 30;
/// What the build of an allocator may need, with a compiler that is there.
const BUILD_BYTES_MAX: u64 = 200 << 20;

/// The directory below the cache into which [`Fix::Run`] puts Zig, for [`Search::with_tools`].
pub fn tools_directory(cache: &Path) -> PathBuf {
    cache.join("tools").join(format!("ziglang-{ZIG_VERSION}"))
}

/// Something that reheap needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// Prebuilt files that fit this reheap, or none.
    Prebuilt,
    /// Cargo and rustc.
    Rust,
    /// The standard library and the libc of the musl target.
    RustTarget,
    /// A linker driver for the host, to link build scripts with.
    HostLinker,
    /// A C compiler for objects.
    CObjects,
    /// A C compiler that links static programs.
    CPrograms,
    /// A C++ compiler for objects.
    CxxObjects,
    /// A C++ compiler that links static programs.
    CxxPrograms,
    /// An archiver.
    Archiver,
    /// Make.
    Make,
    /// A cache directory that reheap can write to.
    Cache,
    /// Room on the disk.
    Disk,
}

impl Item {
    /// Everything, in an order in which each fix can rely on those before it.
    pub const ALL: [Item; 12] = [
        Item::Prebuilt,
        Item::Disk,
        Item::Cache,
        Item::Rust,
        Item::RustTarget,
        Item::HostLinker,
        Item::Archiver,
        Item::Make,
        Item::CObjects,
        Item::CPrograms,
        Item::CxxObjects,
        Item::CxxPrograms,
    ];

    /// A stable name, for arguments and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Item::Prebuilt => "prebuilt",
            Item::Rust => "rust",
            Item::RustTarget => "rust-target",
            Item::HostLinker => "host-linker",
            Item::CObjects => "c-objects",
            Item::CPrograms => "c-programs",
            Item::CxxObjects => "c++-objects",
            Item::CxxPrograms => "c++-programs",
            Item::Archiver => "archiver",
            Item::Make => "make",
            Item::Cache => "cache",
            Item::Disk => "disk",
        }
    }

    /// A title for the user.
    pub fn title(self) -> &'static str {
        match self {
            Item::Prebuilt => "prebuilt files",
            Item::Rust => "Rust",
            Item::RustTarget => "Rust's musl target",
            Item::HostLinker => "linker for build scripts",
            Item::CObjects => "C compiler for allocators",
            Item::CPrograms => "C compiler for programs",
            Item::CxxObjects => "C++ compiler for allocators",
            Item::CxxPrograms => "C++ compiler for programs",
            Item::Archiver => "archiver",
            Item::Make => "make",
            Item::Cache => "cache directory",
            Item::Disk => "free disk space",
        }
    }

    /// The commands that need it.
    pub fn needed_by(self) -> &'static str {
        match self {
            Item::Prebuilt | Item::Rust | Item::HostLinker | Item::Cache | Item::Disk => {
                "every allocator"
            }
            Item::RustTarget => "cargo reheap, every allocator",
            Item::CObjects | Item::Archiver => "every allocator, C code in Rust projects",
            Item::CPrograms => "reheap cc",
            Item::CxxObjects => &ALLOCATORS_OF_CXX,
            Item::CxxPrograms => "reheap c++, C++ code in Rust projects",
            Item::Make => &ALLOCATORS_OF_MAKE,
        }
    }
}

static ALLOCATORS_OF_CXX: LazyLock<String> =
    LazyLock::new(|| allocators(|recipe| recipe.needs_cxx));
static ALLOCATORS_OF_MAKE: LazyLock<String> =
    LazyLock::new(|| allocators(|recipe| recipe.needs_make));

/// The allocators of the catalogue whose recipes fit, in words.
fn allocators(fits: impl Fn(&Recipe) -> bool) -> String {
    let rows = CATALOGUE.iter();
    let fitting = rows.filter(|row| row.build.as_ref().is_some_and(&fits));
    let names: Vec<&str> = fitting.map(|row| row.name).collect();
    let noun = match names.len() {
        1 => "the allocator",
        _ => "the allocators",
    };
    format!("{noun} {}", names.join(", "))
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The item is there; in words.
    Good(String),
    /// The item is missing; why, in words.
    Lacking(String),
}

/// One checked item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub item: Item,
    /// What was found.
    pub finding: Finding,
    /// The fix, if the item is missing.
    pub fix: Option<Fix>,
}

impl Check {
    /// Whether the item is there.
    pub fn is_good(&self) -> bool {
        matches!(self.finding, Finding::Good(_))
    }
}

/// How to get what is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    /// Commands that need no password and no decision, in the order to run them.
    Run(Vec<CommandLine>),
    /// For the user: a command for another account, or a sentence.
    ByHand(String),
}

impl fmt::Display for Fix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fix::Run(commands) => formatter.write_str(&in_one_line(commands)),
            Fix::ByHand(text) => formatter.write_str(text),
        }
    }
}

fn in_one_line(commands: &[CommandLine]) -> String {
    let lines: Vec<String> = commands.iter().map(CommandLine::to_string).collect();
    lines.join(" && ")
}

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The program as the user would type it.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl CommandLine {
    fn new(program: &str, arguments: &[&str]) -> CommandLine {
        CommandLine {
            program: program.to_owned(),
            arguments: arguments.iter().map(OsString::from).collect(),
        }
    }

    /// The command, ready to start in the environment of `search`.
    pub fn command(&self, search: &Search) -> Command {
        let program = search.program(&self.program);
        let mut command = Command::new(program.unwrap_or_else(|| PathBuf::from(&self.program)));
        search.prepare_plain(&mut command);
        // apt-get asks questions despite --yes.
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command.args(&self.arguments);
        command
    }
}

impl fmt::Display for CommandLine {
    /// Quoted, to be pasted into a shell.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.program)?;
        for argument in &self.arguments {
            let text = argument.to_string_lossy();
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:@,%".contains(c);
            if !text.is_empty() && text.chars().all(plain) {
                write!(formatter, " {text}")?;
            } else {
                let quoted = shell::quoted(argument);
                write!(formatter, " {}", String::from_utf8_lossy(&quoted))?;
            }
        }
        Ok(())
    }
}

/// Whether reheap may install packages of the system without a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// It may.
    Root,
    /// It may not.
    User,
}

impl Rights {
    /// The rights of this process.
    pub fn of_this_process() -> Rights {
        if rustix::process::geteuid().is_root() {
            Rights::Root
        } else {
            Rights::User
        }
    }
}

/// Why prebuilt files cannot be used, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// Why.
    pub reason: String,
    /// What to do.
    pub remedy: String,
}

/// A machine to check.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The target to build programs for.
    pub target: Target,
    /// The environment.
    pub search: Search,
    /// The cache directory, which need not exist yet.
    pub cache: PathBuf,
    /// Cargo, as the environment names it.
    pub cargo: PathBuf,
    /// The Rust compiler, as the environment names it.
    pub rustc: PathBuf,
    /// What reheap may install.
    pub rights: Rights,
    /// The prebuilt files, in words.
    pub prebuilt: Result<String, Unusable>,
}

impl Machine {
    /// Checks one item.
    pub fn check(&self, item: Item) -> Check {
        let found = match item {
            Item::Prebuilt => {
                let found = self.prebuilt.clone();
                found.map_err(|unusable| unusable.reason)
            }
            Item::Rust => self.rust(),
            Item::RustTarget => self.rust_target(),
            Item::HostLinker => self.on_path(&["cc"]),
            Item::CObjects => self.compiler(Language::C, Purpose::Objects),
            Item::CPrograms => self.compiler(Language::C, Purpose::Programs),
            Item::CxxObjects => self.compiler(Language::Cxx, Purpose::Objects),
            Item::CxxPrograms => self.compiler(Language::Cxx, Purpose::Programs),
            Item::Archiver => match compiler::find_archiver(&self.target, &self.search) {
                Some(archiver) => Ok(archiver.program.display().to_string()),
                None => Err("none of `ar`, `llvm-ar`, `zig ar` was found".to_owned()),
            },
            Item::Make => self.on_path(&["make", "gmake"]),
            Item::Cache => self.cache_is_writable(),
            Item::Disk => self.disk(),
        };
        match found {
            Ok(found) => Check {
                item,
                finding: Finding::Good(found),
                fix: None,
            },
            Err(reason) => Check {
                item,
                finding: Finding::Lacking(reason),
                fix: Some(self.fix(item)),
            },
        }
    }

    fn on_path(&self, names: &[&str]) -> Result<String, String> {
        match names.iter().find_map(|name| self.search.program(name)) {
            Some(program) => Ok(program.display().to_string()),
            None => Err(format!("`{}` was not found", names[0])),
        }
    }

    fn compiler(&self, language: Language, purpose: Purpose) -> Result<String, String> {
        match compiler::find(&self.target, language, purpose, &self.search) {
            Ok(compiler) => {
                let found = format!("{} ({})", compiler.program.display(), compiler.kind);
                let lacks = match purpose {
                    Purpose::Programs => compiler.lacks(&self.search),
                    _ => Vec::new(),
                };
                Ok(match lacks[..] {
                    [] => found,
                    _ => format!(
                        "{found}, without {}; for programs that need it: --compiler zig",
                        lacks.join(" and ")
                    ),
                })
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The first line that a program prints.
    fn first_line(&self, program: &Path, arguments: &[&str]) -> Result<String, String> {
        let shown = program.display();
        let found = self
            .search
            .program(program)
            .ok_or_else(|| format!("`{shown}` was not found"))?;
        let mut command = Command::new(found);
        self.search.prepare_plain(&mut command);
        let output = command
            .args(arguments)
            .output()
            .map_err(|error| format!("cannot start `{shown}`: {error}"))?;
        let first = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            text.lines().next().unwrap_or_default().to_owned()
        };
        if output.status.success() {
            Ok(first(&output.stdout))
        } else {
            Err(format!("`{shown}` failed: {}", first(&output.stderr)))
        }
    }

    fn rust(&self) -> Result<String, String> {
        let cargo = self.first_line(&self.cargo, &["--version"])?;
        let rustc = self.first_line(&self.rustc, &["--version"])?;
        Ok(format!("{cargo}, {rustc}"))
    }

    fn rust_target(&self) -> Result<String, String> {
        let triple = self.target.triple();
        let asked = ["--print", "target-libdir", "--target", triple];
        let directory = self.first_line(&self.rustc, &asked)?;
        let libc = Path::new(&directory).join("self-contained/libc.a");
        if libc.is_file() {
            Ok(triple.to_owned())
        } else {
            Err(format!("`{}` does not exist", libc.display()))
        }
    }

    /// The cache directory, or the nearest parent that exists.
    fn existing_directory(&self) -> &Path {
        let mut directories = self.cache.ancestors();
        directories
            .find(|directory| directory.is_dir())
            .unwrap_or(Path::new("/"))
    }

    fn cache_is_writable(&self) -> Result<String, String> {
        let directory = self.existing_directory();
        match tempfile::tempfile_in(directory) {
            Ok(_) => Ok(self.cache.display().to_string()),
            Err(error) => Err(format!(
                "cannot write in `{}`: {error}",
                directory.display()
            )),
        }
    }

    fn disk(&self) -> Result<String, String> {
        let directory = self.existing_directory();
        let free_bytes = free_bytes(directory).map_err(|error| {
            format!(
                "cannot read the free space of `{}`: {error}",
                directory.display()
            )
        })?;
        let shown = format!("{} MiB in `{}`", free_bytes >> 20, directory.display());
        if free_bytes >= FREE_BYTES_WANTED {
            Ok(shown)
        } else {
            Err(format!(
                "{shown}; reheap needs {} MiB",
                FREE_BYTES_WANTED >> 20
            ))
        }
    }

    fn fix(&self, item: Item) -> Fix {
        match item {
            Item::Prebuilt => {
                let unusable = self.prebuilt.clone().err();
                Fix::ByHand(unusable.map_or_else(String::new, |unusable| unusable.remedy))
            }
            Item::Rust => Fix::ByHand("install Rust, see https://rustup.rs".to_owned()),
            Item::RustTarget => self.fix_rust_target(),
            Item::Disk => Fix::ByHand(format!(
                "make room in `{}`",
                self.existing_directory().display()
            )),
            Item::Cache => {
                Fix::ByHand("name another directory with REHEAP_CACHE_DIR=<directory>".to_owned())
            }
            Item::HostLinker => self.packages(|manager| match manager {
                Manager::Apk => Some("gcc musl-dev"),
                Manager::Apt => Some("gcc libc6-dev"),
                Manager::Dnf | Manager::Pacman => Some("gcc"),
            }),
            Item::Archiver => self.packages(|_| Some("binutils")),
            Item::Make => self.packages(|_| Some("make")),
            // musl-gcc is a small package. Where it needs root, Zig does not.
            Item::CObjects | Item::CPrograms => {
                // Debian's lacks the kernel's headers and a function that the unwinder needs, which allocators do not
                // miss and programs may.
                if item == Item::CPrograms && self.manager() == Some(Manager::Apt) {
                    return self.fix_zig();
                }
                let packages = self.packages(|manager| match manager {
                    Manager::Apk => Some("gcc musl-dev"),
                    Manager::Apt => Some("musl-tools"),
                    Manager::Dnf => Some("musl-gcc"),
                    Manager::Pacman => Some("musl gcc"),
                });
                self.first_that_runs(packages, self.fix_zig())
            }
            // Only distributions that use musl themselves package a libstdc++ for musl.
            Item::CxxObjects | Item::CxxPrograms => {
                let packages = self.packages(|manager| match manager {
                    Manager::Apk => Some("g++"),
                    Manager::Apt | Manager::Dnf | Manager::Pacman => None,
                });
                self.first_that_runs(packages, self.fix_zig())
            }
        }
    }

    fn first_that_runs(&self, first: Fix, second: Fix) -> Fix {
        match (first, second) {
            (first @ Fix::Run(_), _) => first,
            (_, second @ Fix::Run(_)) => second,
            (Fix::ByHand(first), Fix::ByHand(second)) => {
                Fix::ByHand(format!("{first}, or {second}"))
            }
        }
    }

    fn fix_rust_target(&self) -> Fix {
        let triple = self.target.triple();
        if self.search.program("rustup").is_some() {
            return Fix::Run(vec![CommandLine::new("rustup", &["target", "add", triple])]);
        }
        let package = format!("rust-std-static-{triple}");
        match self.manager() {
            Some(Manager::Dnf) => self.packages(|_| Some(&package)),
            _ => Fix::ByHand(format!(
                "install Rust with rustup, see https://rustup.rs, then: rustup target add {triple}"
            )),
        }
    }

    fn fix_zig(&self) -> Fix {
        let package = format!("ziglang=={ZIG_VERSION}");
        let target = tools_directory(&self.cache);
        let install = |program: &str, words: &[&str]| {
            let mut line = CommandLine::new(program, words);
            line.arguments.push("--target".into());
            line.arguments.push(target.clone().into_os_string());
            line.arguments.push(package.clone().into());
            line
        };
        let with_pip = || install("python3", &["-m", "pip", "install", "--upgrade"]);
        let python = Path::new("python3");
        if self.first_line(python, &["-m", "pip", "--version"]).is_ok() {
            return Fix::Run(vec![with_pip()]);
        }
        if self.search.program("uv").is_some() {
            return Fix::Run(vec![install("uv", &["pip", "install"])]);
        }
        let pip = self.packages(|manager| match manager {
            Manager::Apk => Some("py3-pip"),
            Manager::Apt | Manager::Dnf => Some("python3-pip"),
            Manager::Pacman => Some("python-pip"),
        });
        match pip {
            Fix::Run(mut commands) => {
                commands.push(with_pip());
                Fix::Run(commands)
            }
            Fix::ByHand(_) => Fix::ByHand(
                "put `zig` on PATH, from your system's packages or https://ziglang.org/download"
                    .to_owned(),
            ),
        }
    }

    fn manager(&self) -> Option<Manager> {
        let mut managers = Manager::ALL.into_iter();
        managers.find(|manager| self.search.program(manager.program()).is_some())
    }

    /// Installs packages of the system; their names are separated by spaces.
    fn packages<'a>(&self, names: impl Fn(Manager) -> Option<&'a str>) -> Fix {
        let found = self
            .manager()
            .and_then(|manager| Some((manager, names(manager)?)));
        let Some((manager, names)) = found else {
            return Fix::ByHand("install it from your system's packages".to_owned());
        };
        let commands = manager.install(names);
        match self.rights {
            Rights::Root => Fix::Run(commands),
            Rights::User => {
                let lines: Vec<String> = commands
                    .iter()
                    .map(|command| format!("sudo {command}"))
                    .collect();
                Fix::ByHand(lines.join(" && "))
            }
        }
    }
}

/// A program that installs the packages of a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manager {
    Apk,
    Apt,
    Dnf,
    Pacman,
}

impl Manager {
    const ALL: [Manager; 4] = [Manager::Apk, Manager::Apt, Manager::Dnf, Manager::Pacman];

    fn program(self) -> &'static str {
        match self {
            Manager::Apk => "apk",
            Manager::Apt => "apt-get",
            Manager::Dnf => "dnf",
            Manager::Pacman => "pacman",
        }
    }

    fn install(self, names: &str) -> Vec<CommandLine> {
        let (before, install): (&[&str], &[&str]) = match self {
            Manager::Apk => (&[], &["add"]),
            // A new container has no package list at all.
            Manager::Apt => (
                &["update"],
                &["install", "--yes", "--no-install-recommends"],
            ),
            Manager::Dnf => (&[], &["install", "--assumeyes"]),
            Manager::Pacman => (&[], &["--sync", "--refresh", "--needed", "--noconfirm"]),
        };
        let mut commands = Vec::new();
        if !before.is_empty() {
            commands.push(CommandLine::new(self.program(), before));
        }
        let words: Vec<&str> = install.iter().copied().chain(names.split(' ')).collect();
        commands.push(CommandLine::new(self.program(), &words));
        commands
    }
}

/// Whether the file system of a directory has less room than the build of an allocator may need.
pub fn is_short_of_room(directory: &Path) -> bool {
    free_bytes(directory).is_ok_and(|free_bytes| free_bytes < BUILD_BYTES_MAX)
}

fn free_bytes(directory: &Path) -> rustix::io::Result<u64> {
    let disk = rustix::fs::statvfs(directory)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::target::Architecture;

    /// A machine on whose PATH only these shell scripts are.
    struct Bench {
        directory: tempfile::TempDir,
        machine: Machine,
    }

    fn machine_with(scripts: &[(&str, &str)], rights: Rights) -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let bin = directory.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for (name, script) in scripts {
            let path = bin.join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let machine = Machine {
            target: Target::musl(Architecture::X86_64),
            search: Search::new([("PATH".into(), bin.into_os_string())]),
            cache: directory.path().join("a cache/reheap"),
            cargo: "cargo".into(),
            rustc: "rustc".into(),
            rights,
            prebuilt: Ok("none".to_owned()),
        };
        Bench { directory, machine }
    }

    fn fix_of(bench: &Bench, item: Item) -> String {
        let check = bench.machine.check(item);
        assert!(!check.is_good(), "{check:?}");
        check.fix.unwrap().to_string()
    }

    #[test]
    fn a_bare_machine_lacks_everything_but_room_and_nothing_can_be_run() {
        let bench = machine_with(&[], Rights::Root);
        for item in Item::ALL {
            let check = bench.machine.check(item);
            let expected = matches!(item, Item::Prebuilt | Item::Cache | Item::Disk);
            assert_eq!(check.is_good(), expected, "{check:?}");
            assert!(!matches!(check.fix, Some(Fix::Run(_))), "{check:?}");
        }
        assert!(!bench.machine.cache.exists(), "looking makes no directory");
    }

    #[test]
    fn a_missing_target_is_fixed_with_rustup() {
        let bench = machine_with(&[("rustc", "echo /nowhere"), ("rustup", "")], Rights::User);
        assert_eq!(
            fix_of(&bench, Item::RustTarget),
            "rustup target add x86_64-unknown-linux-musl"
        );
    }

    #[test]
    fn a_target_with_its_libc_is_good() {
        let bench = machine_with(&[("rustc", "echo \"${0%/*}\"")], Rights::User);
        let directory = bench.directory.path().join("bin/self-contained");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("libc.a"), "").unwrap();
        assert!(bench.machine.check(Item::RustTarget).is_good());
    }

    #[test]
    fn root_on_debian_gets_musl_tools_and_a_user_gets_zig() {
        let scripts = [("apt-get", ""), ("python3", "[ \"$2\" = pip ]")];
        assert_eq!(
            fix_of(&machine_with(&scripts, Rights::Root), Item::CObjects),
            "apt-get update && apt-get install --yes --no-install-recommends musl-tools"
        );
        let bench = machine_with(&scripts, Rights::User);
        let zig = fix_of(&bench, Item::CObjects);
        let directory = tools_directory(&bench.machine.cache);
        assert_eq!(
            zig,
            format!(
                "python3 -m pip install --upgrade --target '{}' ziglang==0.14.1",
                directory.display()
            )
        );
        assert_eq!(fix_of(&bench, Item::CxxPrograms), zig);
    }

    #[test]
    fn c_programs_on_debian_are_better_made_with_zig_also_by_root() {
        let scripts = [("apt-get", ""), ("python3", "[ \"$2\" = pip ]")];
        let zig = fix_of(&machine_with(&scripts, Rights::Root), Item::CPrograms);
        assert!(zig.starts_with("python3 -m pip install"), "{zig}");
    }

    #[test]
    fn a_python_without_pip_gets_it_first() {
        let scripts = [("apt-get", ""), ("python3", "exit 1")];
        let bench = machine_with(&scripts, Rights::Root);
        let fix = fix_of(&bench, Item::CxxPrograms);
        assert!(
            fix.starts_with(
                "apt-get update && apt-get install --yes --no-install-recommends python3-pip && python3 -m pip"
            ),
            "{fix}"
        );
    }

    #[test]
    fn what_needs_a_password_is_left_to_the_user() {
        let bench = machine_with(&[("dnf", "")], Rights::User);
        assert_eq!(
            bench.machine.check(Item::Make).fix,
            Some(Fix::ByHand("sudo dnf install --assumeyes make".to_owned()))
        );
    }

    #[test]
    fn alpine_gets_its_own_compilers() {
        let bench = machine_with(&[("apk", "")], Rights::Root);
        assert_eq!(fix_of(&bench, Item::CPrograms), "apk add gcc musl-dev");
        assert_eq!(fix_of(&bench, Item::CxxPrograms), "apk add g++");
    }

    #[test]
    fn a_cache_directory_in_a_place_that_is_no_directory_is_reported() {
        let mut bench = machine_with(&[], Rights::User);
        bench.machine.cache = "/proc/reheap".into();
        let check = bench.machine.check(Item::Cache);
        assert!(!check.is_good());
        assert!(check.fix.unwrap().to_string().contains("REHEAP_CACHE_DIR"));
    }
}
