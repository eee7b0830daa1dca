//! Finds what builds allocators, and the cache that keeps them: each part once, when it is first needed.

mod allocators;

use crate::prebuilt;
use anyhow::Context as _;
use reheap_allocators::built::BuiltAllocator;
use reheap_allocators::cache::{self, Cache, CacheError};
use reheap_allocators::catalogue::{Allocator, CATALOGUE};
use reheap_allocators::compiler::{self, Compiler, Language, LinkError, Purpose, Search};
use reheap_allocators::libc::Replacement;
use reheap_allocators::link_kind::LinkKind;
use reheap_allocators::machine;
use reheap_allocators::machine::is_short_of_room;
use reheap_allocators::memory::BuiltMemoryFunctions;
use reheap_allocators::own_library::OwnLibrary;
use reheap_allocators::prebuilt::{Prebuilt, PrebuiltError};
use reheap_allocators::preload::{self, PreloadError};
use reheap_allocators::program::Program;
use reheap_allocators::target::{Libc, Target};
use reheap_allocators::trust::Distrusted;
use reheap_allocators::upstream::{self, BuildError, Toolchain};
use reheap_command::choice::Choice;
use reheap_command::env_vars;
use reheap_command::pulse;
use reheap_command::ui::Failure;
use rustix::fs::Access;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// Whether the sources of an allocator may be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Cargo decides by its configuration.
    AsConfigured,
    /// The user gave `--offline` or `--frozen`.
    Forbidden,
}

/// Where an allocator comes from when it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The package, or what `REHEAP_PREBUILT` names.
    Prebuilt,
    /// The cache.
    Cache,
    /// It is built then.
    Build,
}

impl Origin {
    /// The name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prebuilt => "prebuilt",
            Self::Cache => "cache",
            Self::Build => "build",
        }
    }

    /// The name for people.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Prebuilt => "prebuilt",
            Self::Cache => "in the cache",
            Self::Build => "built when it is first used",
        }
    }
}

/// A compiler, or why there is none.
type Found = Result<Compiler, String>;

/// The cache, the compilers and Rust's own libcs.
///
/// A compiler counts only after it compiled a small file, and finding one may take a second. So reheap looks for each
/// only once, whatever it builds.
pub struct Workshop {
    network: Network,
    rustc: PathBuf,
    cache: OnceCell<Cache>,
    prebuilt: OnceCell<Option<Prebuilt>>,
    search: OnceCell<Search>,
    compilers: RefCell<BTreeMap<(Target, Language, Purpose), Found>>,
    libcs_of_rust: RefCell<BTreeMap<Target, PathBuf>>,
}

impl Workshop {
    /// Finds nothing yet.
    pub fn new(network: Network) -> Self {
        Self {
            network,
            rustc: env_vars::program("RUSTC", "rustc"),
            cache: OnceCell::new(),
            prebuilt: OnceCell::new(),
            search: OnceCell::new(),
            compilers: RefCell::default(),
            libcs_of_rust: RefCell::default(),
        }
    }

    /// Makes the workshop use another Rust compiler, if there is one.
    pub fn with_rustc(mut self, rustc: Option<PathBuf>) -> Self {
        self.rustc = rustc.unwrap_or(self.rustc);
        self
    }

    /// The Rust compiler whose libraries programs are linked with.
    pub fn rustc(&self) -> &Path {
        &self.rustc
    }

    /// The cache that the environment names, or the user's.
    pub fn cache(&self) -> anyhow::Result<&Cache> {
        if let Some(cache) = self.cache.get() {
            return Ok(cache);
        }
        let cache = find_cache()?;
        cache.hold().map_err(unusable_cache)?;
        Ok(self.cache.get_or_init(|| cache))
    }

    /// The files that came with this program, or those that the environment names.
    pub fn prebuilt(&self) -> anyhow::Result<Option<&Prebuilt>> {
        if let Some(prebuilt) = self.prebuilt.get() {
            return Ok(prebuilt.as_ref());
        }
        let found = prebuilt::open()?;
        Ok(self.prebuilt.get_or_init(|| found).as_ref())
    }

    /// The prebuilt files, after all of them were compared with their manifest.
    pub fn check_prebuilt(&self) -> anyhow::Result<Option<&Prebuilt>> {
        let prebuilt = self.prebuilt()?;
        if let Some(prebuilt) = prebuilt {
            prebuilt.check_all().map_err(prebuilt::failure)?;
        }
        Ok(prebuilt)
    }

    /// What `find` finds among the prebuilt files.
    fn find_prebuilt<T>(
        &self,
        find: impl FnOnce(&Prebuilt) -> Result<Option<T>, PrebuiltError>,
    ) -> anyhow::Result<Option<T>> {
        match self.prebuilt()? {
            Some(prebuilt) => Ok(find(prebuilt).map_err(prebuilt::failure)?),
            None => Ok(None),
        }
    }

    /// Where compilers are looked for: the environment, and what `reheap doctor --fix` put into the cache.
    pub fn search(&self) -> &Search {
        self.search.get_or_init(|| {
            let search = Search::new(env_vars::all());
            match self.cache() {
                Ok(cache) => search
                    .with_tools(machine::tools_directory(cache.root()))
                    .with_memory(cache.clone()),
                Err(_) => search,
            }
        })
    }

    fn find_compiler(&self, target: &Target, language: Language, purpose: Purpose) -> Found {
        let wanted = (*target, language, purpose);
        if let Some(known) = self.compilers.borrow().get(&wanted) {
            return known.clone();
        }
        let found = compiler::find(target, language, purpose, self.search());
        let found = found.map_err(|error| error.to_string());
        self.compilers.borrow_mut().insert(wanted, found.clone());
        found
    }

    /// The compiler for a language, or an error that names the ways to get one.
    pub fn compiler(
        &self,
        target: &Target,
        language: Language,
        purpose: Purpose,
    ) -> anyhow::Result<Compiler> {
        let found = self.find_compiler(target, language, purpose);
        Ok(found.map_err(|reason| no_compiler(reason, target))?)
    }

    /// A directory with the C++ library of the compiler that crates are compiled with; `None` if there is no such compiler.
    pub fn cxx_library(&self, target: &Target) -> anyhow::Result<Option<PathBuf>> {
        let found = self.find_compiler(target, Language::Cxx, Purpose::ObjectsWithLibrary);
        let Ok(compiler) = found else {
            return Ok(None);
        };
        Ok(Some(compiler.cxx_library(self.search(), self.cache()?)?))
    }

    /// The compiler that the user asks for, for programs.
    pub fn named_compiler(
        &self,
        command: &OsStr,
        target: &Target,
        language: Language,
    ) -> anyhow::Result<Compiler> {
        let search = self.search().clone().with_compiler(command);
        let found = compiler::find(target, language, Purpose::Programs, &search);
        Ok(found.map_err(|error| Failure::failed(error.to_string()))?)
    }

    /// The first C compiler that was looked for and is not there.
    pub fn missing_c_compiler(&self) -> Option<Failure> {
        let compilers = self.compilers.borrow();
        let of_c = compilers
            .iter()
            .filter(|(wanted, _)| wanted.1 == Language::C);
        let mut missing =
            of_c.filter_map(|((target, ..), found)| Some((target, found.as_ref().err()?)));
        let (target, reason) = missing.next()?;
        Some(no_compiler(reason.clone(), target))
    }

    /// Rust's own musl libc for the target, which its executables are linked with.
    pub fn libc_of_rust(&self, target: &Target) -> anyhow::Result<PathBuf> {
        if let Some(known) = self.libcs_of_rust.borrow().get(target) {
            return Ok(known.clone());
        }
        let found = find_libc_of_rust(&self.rustc, target)?;
        let mut known = self.libcs_of_rust.borrow_mut();
        known.insert(*target, found.clone());
        Ok(found)
    }

    /// The musl libc that a compiler links static programs with: its own, or Rust's if it brings none.
    pub fn original_libc(&self, compiler: &Compiler, target: &Target) -> anyhow::Result<PathBuf> {
        match compiler.original_libc(self.search()) {
            Err(LinkError::NoLibcOfItsOwn { .. }) => self.libc_of_rust(target),
            result => Ok(result?),
        }
    }

    /// The programs that build the allocator for the target.
    fn toolchain(&self, allocator: &Allocator, target: &Target) -> anyhow::Result<Toolchain> {
        let mut toolchain = self.toolchain_for_glue(target)?;
        let recipe = allocator.build.as_ref();
        if recipe.is_some_and(|recipe| recipe.needs_cxx) {
            toolchain.cxx = self.find_compiler(target, Language::Cxx, Purpose::Objects);
        }
        if self.network == Network::Forbidden {
            let environment = &mut toolchain.environment;
            environment.insert("CARGO_NET_OFFLINE".into(), "true".into());
        }
        Ok(toolchain)
    }

    /// The programs that build what is reheap's own and in C.
    pub(crate) fn toolchain_for_glue(&self, target: &Target) -> anyhow::Result<Toolchain> {
        Ok(Toolchain {
            cargo: env_vars::program("CARGO", "cargo"),
            cc: self.compiler(target, Language::C, Purpose::Objects)?,
            cxx: Err("not asked for".to_owned()),
            environment: self.search().environment(),
        })
    }

    /// Where [`Workshop::preload`] gets it from.
    pub fn origin_of_preload(
        &self,
        allocator: &'static Allocator,
        target: &Target,
    ) -> anyhow::Result<Origin> {
        self.origin(
            target,
            |prebuilt| prebuilt.lists_preload(allocator, target),
            |cache| {
                preload::find_built(allocator, target, cache).is_some()
                    && (!names_a_compiler(target)
                        || self.would_find(allocator, target, |toolchain| {
                            preload::is_built(allocator, target, toolchain, cache)
                        }))
            },
        )
    }

    /// Where [`Workshop::build`] gets the allocator from.
    pub fn origin_of_objects(
        &self,
        allocator: &'static Allocator,
        target: &Target,
    ) -> anyhow::Result<Origin> {
        let kind = LinkKind::Executable;
        self.origin(
            target,
            |prebuilt| prebuilt.lists_allocator(allocator, target),
            |cache| {
                upstream::may_be_built(allocator, target, kind, cache)
                    && self.would_find(allocator, target, |toolchain| {
                        upstream::is_built(allocator, target, kind, toolchain, cache)
                    })
            },
        )
    }

    fn origin(
        &self,
        target: &Target,
        is_prebuilt: impl Fn(&Prebuilt) -> bool,
        is_built: impl Fn(&Cache) -> bool,
    ) -> anyhow::Result<Origin> {
        if let Some(prebuilt) = self.prebuilt()? {
            prebuilt.check(target).map_err(prebuilt::failure)?;
            if is_prebuilt(prebuilt) {
                return Ok(Origin::Prebuilt);
            }
        }
        Ok(if self.cache().is_ok_and(is_built) {
            Origin::Cache
        } else {
            Origin::Build
        })
    }

    /// Whether the compilers that would build it have built it. To find them takes a second.
    fn would_find(
        &self,
        allocator: &Allocator,
        target: &Target,
        is_built: impl Fn(&Toolchain) -> bool,
    ) -> bool {
        self.toolchain(allocator, target)
            .is_ok_and(|toolchain| is_built(&toolchain))
    }

    /// A library of reheap's own, such as the probe: one that is there needs no compiler.
    pub fn own_library(&self, library: &OwnLibrary, target: &Target) -> anyhow::Result<PathBuf> {
        if let Some(prebuilt) = self.prebuilt_own_library(library, target)? {
            return Ok(prebuilt);
        }
        let cache = self.cache()?;
        if !names_a_compiler(target)
            && let Some(built) = library.find_built(target, cache)
        {
            check_entry_of(&built)?;
            return Ok(built);
        }
        let built = library.build(target, &self.toolchain_for_glue(target)?, cache);
        built.map_err(cannot_build)
    }

    /// A library of reheap's own, if there is a prebuilt one.
    pub(crate) fn prebuilt_own_library(
        &self,
        library: &OwnLibrary,
        target: &Target,
    ) -> anyhow::Result<Option<PathBuf>> {
        let found = self.find_prebuilt(|prebuilt| prebuilt.own_library(library, target))?;
        Ok(found.map(|found| found.path))
    }

    /// A program of reheap's own: prebuilt, from the cache, or compiled now.
    pub fn program(&self, program: &Program, target: &Target) -> anyhow::Result<PathBuf> {
        if let Some(found) = self.find_prebuilt(|prebuilt| prebuilt.program(program, target))? {
            return Ok(found.path);
        }
        let built = program.build(target, &self.toolchain_for_glue(target)?, self.cache()?);
        built.map_err(|error| cannot_build(error.into()))
    }

    /// Builds, and says so if it takes time.
    fn while_building<T, E>(
        &self,
        choice: &Choice,
        target: &Target,
        is_built: bool,
        build: impl FnOnce() -> Result<T, E>,
    ) -> anyhow::Result<T>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let built = if is_built {
            build()
        } else {
            check(self.cache()?)?;
            require_rust_for(&self.rustc, target)?;
            let once = if choice
                .allocator
                .build
                .as_ref()
                .is_some_and(|r| r.builds_slowly)
            {
                "once; it takes a minute or two"
            } else {
                "once; it takes some seconds"
            };
            let name = choice.allocator.name;
            pulse::while_showing(&format!("building {name} for {target} ({once})"), build)
        };
        built.map_err(|error| {
            let name = choice.allocator.name;
            let reasons = anyhow::Error::new(error);
            let text = format!("cannot build {name}: {reasons:#}");
            let is_full = self
                .cache()
                .is_ok_and(|cache| is_short_of_room(cache.root()));
            let failure = Failure::failed(text);
            let failure = match self.network {
                _ if lacks_cxx(&reasons) => failure.hint("reheap doctor --fix"),
                _ if is_full => failure.hint("make room for the cache").or(&another_cache()),
                Network::Forbidden => failure
                    .hint("reheap has to download its sources once: try again without --offline"),
                Network::AsConfigured => failure,
            };
            failure.into()
        })
    }
}

/// Refuses an allocator that cannot be built for the target, and names those that can.
pub fn refuse_missing(choice: &Choice, target: &Target) -> Result<(), Failure> {
    let (allocator, architecture) = (choice.allocator, target.arch());
    let Some(reason) = allocator.missing_on(architecture) else {
        return Ok(());
    };
    let there = |row: &&Allocator| row.build.is_some() && row.missing_on(architecture).is_none();
    let names: Vec<_> = CATALOGUE.iter().filter(there).map(|row| row.name).collect();
    let text = format!("cannot use {} for `{target}`: {reason}", allocator.name);
    Err(Failure::usage(text).hint(format!("use one of these: {}", names.join(", "))))
}

/// Whether the environment names a compiler for the target. If it does not, what any of them has built will do.
fn names_a_compiler(target: &Target) -> bool {
    let names = compiler::variables(target);
    let is_one = |name: &OsStr| names.iter().any(|known| name == known.as_str());
    env_vars::all().any(|(name, value)| is_one(&name) && !value.is_empty())
}

/// `doctor` is about static executables: it does not look for a compiler for glibc.
fn no_compiler(reason: String, target: &Target) -> Failure {
    let failure = Failure::failed(reason);
    match target.libc() {
        Libc::Musl if Target::of_this_machine(Libc::Musl) == Some(*target) => {
            failure.hint("reheap doctor --fix")
        }
        Libc::Musl => failure.hint(format!("reheap doctor --fix --target {target}")),
        Libc::Glibc => failure.hint(format!(
            "install gcc, clang or zig from your system's packages, or name a compiler: CC_{}=<path>",
            target.triple().replace('-', "_")
        )),
    }
}

/// The cache that the environment names, or the user's, for a command that only looks at it or cleans it.
pub fn find_cache() -> anyhow::Result<Cache> {
    let cache = match env_vars::variable(env_vars::CACHE_DIR) {
        Some(directory) => Cache::at(std::path::absolute(directory)?),
        None => Cache::at(default_cache_directory()),
    };
    if cache.root().to_str().is_none() {
        let shown = cache.root().display();
        let text = format!(
            "cannot use the cache directory `{shown}`: Cargo does not build in a directory whose name is not UTF-8"
        );
        return Err(Failure::failed(text).hint(another_cache()).into());
    }
    cache.check_trust().map_err(unusable_cache)?;
    Ok(cache)
}

/// The user's; or a temporary one where the user has no home that could hold it, as many users of services. Somebody may
/// have made that one first, so it is trusted only as any other.
fn default_cache_directory() -> PathBuf {
    let below_home = env_vars::cache_home().map(|home| home.join("reheap"));
    below_home
        .filter(|root| can_be_there(root))
        .unwrap_or_else(|| {
            let user = rustix::process::geteuid();
            env_vars::temporary_directory().join(format!("reheap-{user}"))
        })
}

/// Whether a directory is there, or can be made.
fn can_be_there(directory: &Path) -> bool {
    let nearest = directory.ancestors().find(|above| above.exists());
    nearest.is_some_and(|nearest| {
        let access = Access::WRITE_OK | Access::EXEC_OK;
        nearest == directory || nearest.is_dir() && rustix::fs::access(nearest, access).is_ok()
    })
}

/// Checked before reheap announces a long build that would have nowhere to go.
fn check(cache: &Cache) -> anyhow::Result<()> {
    Ok(cache.check().map_err(unusable_cache)?)
}

/// Refuses a library of the cache that others could replace.
fn check_entry_of(library: &Path) -> anyhow::Result<()> {
    let entry = library.parent().unwrap_or(library);
    Ok(cache::check_entry(entry).map_err(unusable_cache)?)
}

/// The cache keeps nothing, as in a read-only home.
pub fn unusable_cache(error: CacheError) -> Failure {
    let command = error.distrust().and_then(Distrusted::command);
    let text = format!("cannot use the cache: {:#}", anyhow::Error::new(error));
    let failure = Failure::failed(text);
    match command {
        Some(command) => failure.hint(command).or(&another_cache()),
        None => failure.hint(another_cache()),
    }
}

/// Why something of reheap's own could not be built.
fn cannot_build(error: PreloadError) -> anyhow::Error {
    match error {
        PreloadError::Cache(error) | PreloadError::Build(BuildError::Cache(error)) => {
            unusable_cache(error).into()
        }
        error => error.into(),
    }
}

/// The way out where the cache cannot stay where it is.
pub(crate) fn another_cache() -> String {
    format!("set another one: {}=<directory>", env_vars::CACHE_DIR)
}

fn find_libc_of_rust(rustc: &Path, target: &Target) -> anyhow::Result<PathBuf> {
    let libraries = library_directory_of_rust(rustc, target)?;
    let libc = libraries.join("self-contained/libc.a");
    if libc.is_file() {
        Ok(libc)
    } else {
        Err(not_installed(target, &libraries).into())
    }
}

/// Cargo builds allocators for the target, and would say only that there is no `core` for it.
fn require_rust_for(rustc: &Path, target: &Target) -> anyhow::Result<()> {
    let libraries = library_directory_of_rust(rustc, target)?;
    if libraries.is_dir() {
        Ok(())
    } else {
        Err(not_installed(target, &libraries).into())
    }
}

/// Where Rust's libraries for the target are, or would be.
fn library_directory_of_rust(rustc: &Path, target: &Target) -> anyhow::Result<PathBuf> {
    let output = env_vars::command(rustc)
        .args(["--print", "target-libdir", "--target", target.triple()])
        .output()
        .with_context(|| format!("cannot start `{}`", rustc.display()))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        Ok(printed.trim().into())
    } else {
        Err(not_installed(target, Path::new("")).into())
    }
}

/// rustup adds a target to the toolchain of the directory or the default one. `cargo +nightly` or a configured `rustc` may
/// use another, so the hint names it.
fn not_installed(target: &Target, libraries: &Path) -> Failure {
    let failure = Failure::failed(format!("Rust's target `{target}` is not installed"));
    failure.hint(match toolchain_of_rustup(libraries) {
        Some(toolchain) => format!("rustup target add --toolchain {toolchain} {target}"),
        None => format!("rustup target add {target}"),
    })
}

/// The toolchain that a directory is in, if rustup installed it (rustup book, "Toolchains").
fn toolchain_of_rustup(directory: &Path) -> Option<&str> {
    let mut components = directory.components();
    components.find(|component| *component == Component::Normal("toolchains".as_ref()))?;
    components.next()?.as_os_str().to_str()
}

fn lacks_cxx(error: &anyhow::Error) -> bool {
    let of_preload = error.downcast_ref().map(|error| match error {
        PreloadError::Build(error) => Some(error),
        _ => None,
    });
    let error = of_preload.flatten().or_else(|| error.downcast_ref());
    matches!(error, Some(BuildError::NoCxx { .. }))
}

/// What goes into a libc, built for its target.
pub struct Built {
    allocator: BuiltAllocator,
    memory_functions: Option<BuiltMemoryFunctions>,
}

impl Built {
    /// What was built, with what the choice says about it, as deriving a libc takes it.
    pub fn replacement<'a>(&'a self, choice: &'a Choice) -> Replacement<'a> {
        Replacement {
            allocator: choice.allocator,
            built: &self.allocator,
            tuning: &choice.tuning,
            memory_functions: self.memory_functions.as_ref(),
        }
    }
}
