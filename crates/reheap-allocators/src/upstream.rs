//! Building an allocator: upstream's own build script, then our glue.
//!
//! The sources come from `-sys` packages of the Rust registry. reheap carries a lock file that pins them, so Cargo
//! fetches them with checksums and with the user's own configuration (mirror, proxy, offline). Their build scripts
//! compile them. Copies of the C sources would be simpler to find, but would need build recipes of our own (jemalloc
//! needs its configure) and updates by hand.

use crate::built::{BuiltAllocator, GLUE, Place, UPSTREAM};
use crate::cache::{Cache, CacheError, hash};
use crate::catalogue::file::FileError;
use crate::catalogue::{Allocator, Code, Evidence, Glue, Package, Recipe, shared_glue};
use crate::compiler::{Compiler, STARTED_BY_REHEAP};
use crate::link_kind::LinkKind;
use crate::target::{Architecture, Libc, Target};
use reheap_elf::archive::{self, ArchiveError, Member};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const MANIFEST: &str = include_str!("../sources/manifest.toml");
const LOCK: &str = include_str!("../sources/lock.toml");
/// The kind of entry in the cache.
const ENTRIES: &str = "allocators";
const GLUE_FLAGS: [&str; 5] = [
    "-std=gnu11",
    "-O2",
    "-ffunction-sections",
    "-fno-builtin-malloc",
    "-Wall",
];

/// The programs that a build calls, and their environment.
#[derive(Debug, Clone)]
pub struct Toolchain {
    /// Cargo.
    pub cargo: PathBuf,
    /// The C compiler for the target.
    pub cc: Compiler,
    /// The C++ compiler for the target, or why there is none.
    pub cxx: Result<Compiler, String>,
    /// The environment of the user. The build drops the variables that would change its result.
    pub environment: BTreeMap<OsString, OsString>,
}

/// Why an allocator could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The cache is not usable.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// It needs a compiler that is not there.
    #[error("cannot build {allocator} for {target}: {reason}")]
    NoCxx {
        /// The allocator.
        allocator: &'static str,
        /// The target's triple.
        target: String,
        /// Why none was found.
        reason: String,
    },
    /// A program could not be started.
    #[error("cannot start `{program}`")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// A program failed.
    #[error("cannot {action}:\n{output}")]
    Failed {
        /// What the program should have done.
        action: String,
        /// The end of what the program printed.
        output: String,
    },
    /// A library that a program made is not an archive.
    #[error("cannot read `{}`", .path.display())]
    Archive {
        /// The library.
        path: PathBuf,
        /// What is wrong with it.
        source: ArchiveError,
    },
    /// The user's file is not usable any more.
    #[error(transparent)]
    File(#[from] FileError),
    /// The build did not leave what its catalogue row says.
    #[error("cannot use the build of {allocator}, which is not what the catalogue says: {reason}")]
    NotAsCatalogued {
        /// The allocator.
        allocator: &'static str,
        /// What differs.
        reason: String,
    },
    /// `stock` is not built.
    #[error("cannot build `stock`: it is the libc's own allocator")]
    Stock,
}

/// The allocator, built for the target now or taken from the cache.
///
/// # Errors
/// [`BuildError::Stock`] for `stock`, which reheap does not build, and [`BuildError::NoCxx`] when the allocator needs a
/// C++ compiler and there is none. Otherwise, a program of the build fails, its result is not what the catalogue says,
/// or the cache cannot be written.
pub fn build(
    allocator: &'static Allocator,
    target: &Target,
    kind: LinkKind,
    toolchain: &Toolchain,
    cache: &Cache,
) -> Result<BuiltAllocator, BuildError> {
    let recipe = allocator.build.as_ref().ok_or(BuildError::Stock)?;
    let cxx = match (&toolchain.cxx, recipe.needs_cxx) {
        (Ok(cxx), true) => Some(cxx),
        (Err(reason), true) => {
            return Err(BuildError::NoCxx {
                allocator: allocator.name,
                target: target.triple().to_owned(),
                reason: reason.clone(),
            });
        }
        (_, false) => None,
    };
    let name = entry_name(allocator, recipe, target, kind, toolchain);
    let making = Making {
        name: &name,
        allocator,
        recipe,
        target,
        kind,
        toolchain,
        cxx,
    };
    let directory = cache.entry(ENTRIES, &name, |unfinished| making.make(cache, unfinished))?;
    Ok(BuiltAllocator {
        place: Place::Cache(directory),
        recipe,
        kind,
    })
}

/// Whether the cache has the allocator, so that [`build`] returns at once.
pub fn is_built(
    allocator: &'static Allocator,
    target: &Target,
    kind: LinkKind,
    toolchain: &Toolchain,
    cache: &Cache,
) -> bool {
    allocator.build.as_ref().is_some_and(|recipe| {
        let name = entry_name(allocator, recipe, target, kind, toolchain);
        cache.has(ENTRIES, &name)
    })
}

/// Whether the cache has anything for which the compilers are worth looking for, to ask [`is_built`].
pub fn may_be_built(allocator: &Allocator, target: &Target, kind: LinkKind, cache: &Cache) -> bool {
    let prefix = entry_prefix(allocator, target, kind);
    let entries = fs::read_dir(cache.root().join(ENTRIES));
    entries.is_ok_and(|entries| {
        let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.any(|name| name.starts_with(&prefix))
    })
}

fn entry_prefix(allocator: &Allocator, target: &Target, kind: LinkKind) -> String {
    let (stem, suffix) = (allocator.stem(), kind.suffix());
    format!("{stem}-{}{suffix}-", target.triple())
}

/// The cache entry's name, with a hash of everything that goes into the build.
pub(crate) fn entry_name(
    allocator: &Allocator,
    recipe: &Recipe,
    target: &Target,
    kind: LinkKind,
    toolchain: &Toolchain,
) -> String {
    let cxx = match &toolchain.cxx {
        Ok(cxx) if recipe.needs_cxx => cxx.identity.as_str(),
        _ => "",
    };
    let ingredients = ingredients(recipe, kind);
    let environment = environment_for(target)
        .into_iter()
        .flat_map(|(name, value)| [name, value]);
    let parts = [&ingredients, &toolchain.cc.identity, cxx].into_iter();
    let key = hash(parts.chain(environment).map(str::as_bytes));
    format!("{}{}", entry_prefix(allocator, target, kind), &key[..16])
}

/// What build scripts learn from their environment about the machines of a target.
///
/// Kernels for aarch64 have pages of 4, 16 or 64 KiB. jemalloc works with pages up to those that it is built for, and
/// its configure, which cannot look at another machine, would assume 4 KiB. It would also take functions from musl that
/// came after 1.1.24, if the musl that it is built with has them. And on x86-64 it would ask this machine's processor how
/// many bits an address has, so that a library of glibc reserved 10 MiB or 2. It gets what most of those have that are in
/// use (48), and what configure assumes where it does not ask (57), as the catalogue says.
///
/// jemalloc's makefile compiles all sources three times: for a list of symbols, for a library with position-independent
/// code, and for one without, which the recipe does not take.
fn environment_for(target: &Target) -> Vec<(&'static str, &'static str)> {
    let mut variables = vec![("MAKEFLAGS", "-- STATIC_LIBS=lib/libjemalloc_pic.a")];
    if target.page_bits() == 16 {
        variables.push(("JEMALLOC_SYS_WITH_LG_PAGE", "16"));
    }
    if target.arch() == Architecture::X86_64 {
        variables.push(match target.libc() {
            Libc::Glibc => ("JEMALLOC_SYS_WITH_LG_VADDR", "48"),
            Libc::Musl => ("JEMALLOC_SYS_WITH_LG_VADDR", "57"),
        });
    }
    if target.libc() == Libc::Musl {
        variables.push(("je_cv_gettid", "no"));
        variables.push(("je_cv_pthread_getname_np", "no"));
    }
    variables
}

/// The compiler flags of all glue. Outside a preload, only the functions of the family are visible.
pub(crate) fn glue_flags(kind: LinkKind) -> Vec<&'static str> {
    let visibility: &[&str] = match kind {
        LinkKind::Executable => &[],
        LinkKind::Preload => &["-fvisibility=hidden", "-DREHEAP_PRELOAD"],
        LinkKind::Graft => &["-fvisibility=hidden", "-DREHEAP_PRELOAD", "-DREHEAP_GRAFT"],
    };
    [&GLUE_FLAGS, visibility, kind.compiler_flags()].concat()
}

/// A hash of everything that goes into a build for a target, except the compilers. Nothing of the user's environment and
/// of Cargo's configuration is in it: what could change the build does not reach it ([`passes`], [`pinned_profile`],
/// [`pinned_environment`]).
pub(crate) fn ingredients_for(recipe: &Recipe, kind: LinkKind, target: &Target) -> String {
    let ingredients = ingredients(recipe, kind);
    let environment = environment_for(target);
    if environment.is_empty() {
        return ingredients;
    }
    let environment = environment.iter().flat_map(|(name, value)| [*name, *value]);
    let parts = [ingredients.as_str()].into_iter().chain(environment);
    hash(parts.map(str::as_bytes))
}

/// A hash of everything that goes into a build for any target, except the compilers.
fn ingredients(recipe: &Recipe, kind: LinkKind) -> String {
    let row = format!("{recipe:?}");
    let flags = glue_flags(kind).join(" ");
    let shared: String = shared_glue(kind).map(|glue| glue.source).collect();
    let parts = [MANIFEST, LOCK, &row, &shared, &flags];
    hash(parts.map(str::as_bytes))
}

/// The package that an allocator is built from, with the checksum of the lock file.
pub(crate) fn origin_with_checksum(recipe: &Recipe) -> String {
    let Code::Package(package) = &recipe.package else {
        return recipe.origin();
    };
    let name = format!("name = \"{}\"", package.name);
    let version = format!("version = \"{}\"", package.version);
    let checksum = LOCK.split("[[package]]").find_map(|package| {
        let is_it = package.contains(&name) && package.contains(&version);
        let line = package.lines().find(|line| line.starts_with("checksum"));
        line.filter(|_| is_it)?.split('"').nth(1)
    });
    match checksum {
        Some(checksum) => format!("{}, checksum {checksum}", recipe.origin()),
        None => recipe.origin(),
    }
}

/// A build that is not in the cache yet.
struct Making<'a> {
    /// Of its entry.
    name: &'a str,
    allocator: &'static Allocator,
    recipe: &'static Recipe,
    target: &'a Target,
    kind: LinkKind,
    toolchain: &'a Toolchain,
    cxx: Option<&'a Compiler>,
}

impl Making<'_> {
    fn make(&self, cache: &Cache, unfinished: &Path) -> Result<(), BuildError> {
        // The entry's own, and so guarded by its lock. What an interrupted build left there was compiled by the same
        // compiler, and Cargo may still be at work in it.
        let builds = cache.directory("build")?;
        cache.remove_abandoned(&builds, ENTRIES, |name| Some(name));
        let build_directory = cache.directory(&format!("build/{}", self.name))?;
        let wrappers = Wrappers::write(&build_directory, &self.toolchain.cc, self.cxx)?;
        let upstream = unfinished.join(UPSTREAM);
        fs::create_dir(&upstream).map_err(CacheError::new("make", &upstream))?;
        let mut glue_flags: Vec<String> = self.allocator_flags().map(str::to_owned).collect();
        let headers = self.make_upstream(&wrappers, &build_directory, &upstream)?;
        glue_flags.extend(headers.map(|headers| format!("-I{}", headers.display())));
        let glue = unfinished.join(GLUE);
        fs::create_dir(&glue).map_err(CacheError::new("make", &glue))?;
        let additions = self.recipe.additions(self.kind);
        for source in shared_glue(self.kind)
            .chain(self.recipe.glue)
            .chain(additions.glue)
        {
            compile_glue(
                source,
                self.kind,
                &glue_flags,
                self.toolchain,
                &wrappers,
                &glue,
            )?;
        }
        // The objects are copied, so nothing needs the intermediate files any more.
        let _ = fs::remove_dir_all(&build_directory);
        Ok(())
    }

    /// Puts the objects of upstream's static library into `directory`, and says where its headers are, if it has some.
    fn make_upstream(
        &self,
        wrappers: &Wrappers,
        build_directory: &Path,
        directory: &Path,
    ) -> Result<Option<PathBuf>, BuildError> {
        let package = match &self.recipe.package {
            Code::Package(package) => package,
            Code::File(file) => {
                write_objects(&file.objects()?, directory)?;
                return Ok(None);
            }
        };
        let library = self.compile_upstream(package, wrappers, build_directory)?;
        let archive = &library.archive;
        let bytes = fs::read(archive).map_err(CacheError::new("read", archive))?;
        let name = self.allocator.name;
        let members = archive::read(&bytes).map_err(|source| BuildError::Archive {
            path: archive.clone(),
            source,
        })?;
        check_evidence(
            name,
            &package.evidence,
            &members,
            &library.package_directory,
        )?;
        write_objects(&members, directory)?;
        let header = library
            .package_directory
            .join(package.evidence.version_line.0);
        Ok(header.parent().map(Path::to_owned))
    }

    /// The flags of this allocator, for itself and for its glue.
    fn allocator_flags(&self) -> impl Iterator<Item = &'static str> {
        let additions = self.recipe.additions(self.kind).compiler_flags;
        self.recipe.compiler_flags.iter().chain(additions).copied()
    }

    fn compile_upstream(
        &self,
        package: &Package,
        wrappers: &Wrappers,
        build_directory: &Path,
    ) -> Result<Library, BuildError> {
        let sources = build_directory.join("sources");
        fs::create_dir_all(&sources).map_err(CacheError::new("make", &sources))?;
        for (name, text) in [
            ("Cargo.toml", MANIFEST),
            ("Cargo.lock", LOCK),
            ("lib.rs", ""),
        ] {
            let path = sources.join(name);
            fs::write(&path, text).map_err(CacheError::new("write", &path))?;
        }
        let target = self.target;
        let kind_flags = self.kind.compiler_flags().iter().copied();
        let compiler_flags: Vec<&str> = kind_flags.chain(self.allocator_flags()).collect();
        let compiler_flags = compiler_flags.join(" ");
        let mut cargo = self.toolchain.command(&self.toolchain.cargo);
        cargo
            .current_dir(&sources)
            .args([
                "build",
                "--release",
                "--locked",
                "--message-format=json-render-diagnostics",
            ])
            .args([
                "--target",
                target.triple(),
                "--features",
                package.feature,
                "--target-dir",
            ])
            .arg(build_directory.join("target"))
            .args(pinned_profile(package))
            .envs(compiler_variables("CC", target, &wrappers.cc))
            .env(format!("CFLAGS_{}", target.env_suffix()), &compiler_flags)
            .env(format!("CXXFLAGS_{}", target.env_suffix()), &compiler_flags);
        // mimalloc prints its build time. GCC and Clang use this variable as the current time
        // (reproducible-builds.org).
        cargo.env("SOURCE_DATE_EPOCH", "0");
        cargo.envs(environment_for(target));
        cargo.envs(pinned_environment(target));
        if let Some(cxx) = &wrappers.cxx {
            cargo.envs(compiler_variables("CXX", target, cxx));
        }
        let output = run(&mut cargo, || {
            format!("build {} {}", package.name, package.version)
        })?;
        find_library(package, &output).ok_or_else(|| BuildError::NotAsCatalogued {
            allocator: self.allocator.name,
            reason: format!(
                "no build script of {} made `{}`",
                package.name, package.library
            ),
        })
    }
}

fn write_objects(members: &[Member], directory: &Path) -> Result<(), CacheError> {
    for (index, member) in members.iter().enumerate() {
        // `cc` puts a hash of the path in front of each name. The rest is the same on every machine.
        let plain = member.name.rsplit('-').next().unwrap_or(&member.name);
        let path = directory.join(format!("{index:03}-{plain}"));
        fs::write(&path, &member.data).map_err(CacheError::new("write", &path))?;
    }
    Ok(())
}

/// The profile of the manifest, as flags: a configuration file would win over the manifest.
fn pinned_profile(package: &Package) -> impl Iterator<Item = String> {
    let (_, profile) = MANIFEST
        .split_once("[profile.release]\n")
        .expect("the manifest has a profile");
    let settings = profile.lines().take_while(|line| !line.is_empty());
    settings.flat_map(|line| {
        let setting = line.split(" #").next().unwrap_or(line);
        let name = package.name;
        let of_package = format!("profile.release.package.{name}.{setting}");
        ["--config".to_owned(), of_package]
    })
}

/// The variables that name a compiler for a target, in both spellings: the crate `cc` takes the one with dashes first.
fn compiler_variables<'a>(
    name: &str,
    target: &Target,
    compiler: &'a Path,
) -> [(String, &'a Path); 2] {
    let suffixes = [target.env_suffix(), target.triple().to_owned()];
    suffixes.map(|suffix| (format!("{name}_{suffix}"), compiler))
}

/// Variables that win over configuration files: over their flags for rustc and their wrapper of it, which the crate `cc`
/// heeds, and over C flags in their `[env]`, unless these have `force`.
fn pinned_environment(target: &Target) -> impl Iterator<Item = (String, &'static str)> {
    let of_c = ["CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS"];
    let of_c = of_c.into_iter().flat_map(move |name| {
        let of_target = format!("{name}_{}", target.triple());
        [name.to_owned(), format!("TARGET_{name}"), of_target]
    });
    let of_rust = ["CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER"].map(str::to_owned);
    of_c.chain(of_rust).map(|name| (name, ""))
}

/// The compilers as programs without arguments, as build scripts want them.
pub(crate) struct Wrappers {
    pub(crate) cc: PathBuf,
    cxx: Option<PathBuf>,
}

impl Wrappers {
    pub(crate) fn write(
        directory: &Path,
        cc: &Compiler,
        cxx: Option<&Compiler>,
    ) -> Result<Self, BuildError> {
        let write = |compiler: &Compiler, name: &str| {
            let directory = directory.join(name);
            fs::create_dir_all(&directory)
                .and_then(|()| compiler.write_wrapper(&directory))
                .map_err(CacheError::new("write a compiler wrapper in", &directory))
        };
        Ok(Self {
            cc: write(cc, "cc")?,
            cxx: cxx.map(|c| write(c, "cxx")).transpose()?,
        })
    }
}

struct Library {
    archive: PathBuf,
    package_directory: PathBuf,
}

impl Toolchain {
    /// A program that gets the user's environment without the variables that would change the build.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let kept = self
            .environment
            .iter()
            .filter(|(name, _)| passes(&name.to_string_lossy()));
        let mut command = Command::new(program);
        command.env_clear().envs(kept);
        // Cargo links build scripts with the `cc` in PATH. If that is reheap, it would wait for what is built here.
        command.env(STARTED_BY_REHEAP, "1");
        command
    }
}

/// Whether a variable of the user reaches the build. Those about Cargo's place and its access to the registry do. Those
/// that would change the result do not.
fn passes(name: &str) -> bool {
    const KEPT: [&str; 8] = [
        "CARGO_HOME",
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTR",
        "CARGO_SOURCE_",
        "RUSTUP_",
        "CC_",
        "CXX_",
    ];
    const DROPPED: &[&str] = &[
        "CARGO",
        "RUST",
        "CFLAGS",
        "CXXFLAGS",
        "CPPFLAGS",
        "LDFLAGS",
        "ARFLAGS",
        "EXTRA_",
        // of the crate `cc`
        "CRATE_CC_",
        // of configure, which jemalloc runs
        "CONFIG_SITE",
        "ac_cv_",
        "je_cv_",
        "CC",
        "CXX",
        "TARGET_",
        "HOST_",
        "JEMALLOC_",
        "SNMALLOC_",
        "MAKEFLAGS",
        "REHEAP_",
    ];
    KEPT.iter().any(|kept| name.starts_with(kept))
        || !DROPPED.iter().any(|dropped| name.starts_with(dropped))
}

/// The static library and the directory of the sources, from Cargo's messages (Cargo book, "External tools", JSON
/// messages).
fn find_library(package: &Package, messages: &[u8]) -> Option<Library> {
    let messages: Vec<serde_json::Value> = messages
        .split(|&b| b == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    let of_package = |message: &serde_json::Value| {
        message["package_id"]
            .as_str()
            .is_some_and(|id| id.contains(package.name))
    };
    let executed = messages
        .iter()
        .find(|m| m["reason"] == "build-script-executed" && of_package(m))?;
    let archive = Path::new(executed["out_dir"].as_str()?).join(package.library);
    let artifact = messages
        .iter()
        .find(|m| m["reason"] == "compiler-artifact" && of_package(m))?;
    let package_directory = Path::new(artifact["manifest_path"].as_str()?)
        .parent()?
        .to_owned();
    archive.is_file().then_some(Library {
        archive,
        package_directory,
    })
}

fn check_evidence(
    name: &'static str,
    evidence: &Evidence,
    members: &[Member],
    package_directory: &Path,
) -> Result<(), BuildError> {
    let differs = |reason: String| BuildError::NotAsCatalogued {
        allocator: name,
        reason,
    };
    let contains = |text: &str| {
        let text = text.replace('|', "");
        members
            .iter()
            .any(|m| memchr::memmem::find(&m.data, text.as_bytes()).is_some())
    };
    for text in evidence.present {
        if !contains(text) {
            return Err(differs(format!("it does not contain `{text}`")));
        }
    }
    for text in evidence.absent {
        if contains(text) {
            return Err(differs(format!("it contains `{text}`")));
        }
    }
    let (file, line) = evidence.version_line;
    let path = package_directory.join(file);
    let text = fs::read_to_string(&path).map_err(CacheError::new("read", &path))?;
    if !text.contains(line) {
        return Err(differs(format!(
            "`{}` does not say `{line}`",
            path.display()
        )));
    }
    Ok(())
}

pub(crate) fn compile_glue(
    glue: &Glue,
    kind: LinkKind,
    flags: &[String],
    toolchain: &Toolchain,
    wrappers: &Wrappers,
    directory: &Path,
) -> Result<(), BuildError> {
    let source = directory.join(format!("{}.c", glue.name));
    fs::write(&source, glue.source).map_err(CacheError::new("write", &source))?;
    let mut cc = toolchain.command(&wrappers.cc);
    cc.current_dir(directory)
        .args(glue_flags(kind))
        .arg("-c")
        .args(flags)
        .arg(format!("{}.c", glue.name))
        .args(["-o", &format!("{}.o", glue.name)]);
    run(&mut cc, || format!("compile the glue `{}.c`", glue.name))?;
    Ok(fs::remove_file(&source).map_err(CacheError::new("remove", &source))?)
}

pub(crate) fn run(
    command: &mut Command,
    action: impl Fn() -> String,
) -> Result<Vec<u8>, BuildError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|source| BuildError::Start { program, source })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = stderr.lines().collect();
        return Err(BuildError::Failed {
            action: action(),
            output: lines[lines.len().saturating_sub(25)..].join("\n"),
        });
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prebuilt files and the cache do not know what the environment asks for, so it must not matter.
    #[test]
    fn what_would_make_another_build_does_not_reach_it() {
        for name in [
            "CFLAGS",
            "CFLAGS_x86_64_unknown_linux_musl",
            "TARGET_CXXFLAGS",
            "CRATE_CC_NO_DEFAULTS",
            "RUSTFLAGS",
            "CONFIG_SITE",
            "je_cv_gettid",
            "EXTRA_CFLAGS",
            "JEMALLOC_SYS_WITH_LG_PAGE",
        ] {
            assert!(!passes(name), "{name}");
        }
        for name in ["PATH", "CARGO_HOME", "CARGO_NET_OFFLINE", "HTTPS_PROXY"] {
            assert!(passes(name), "{name}");
        }
    }
}
