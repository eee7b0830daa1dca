//! From what the user chose to the folder of a derived libc.

use crate::env_vars;
use crate::ui::{self, Failure};
use anyhow::Context as _;
use reheap_allocators::cache::Cache;
use reheap_allocators::canary;
use reheap_allocators::catalogue::{self, Allocator};
use reheap_allocators::compiler::{self, Compiler, Language, NoCompiler, Purpose, Search};
use reheap_allocators::libc::{Original, Replacement};
use reheap_allocators::machine;
use reheap_allocators::memory::{self, BuiltMemoryFunctions, MemoryFunctions};
use reheap_allocators::preload::{self, PreloadError};
use reheap_allocators::probe;
use reheap_allocators::target::{Architecture, Libc, Target, TargetError};
use reheap_allocators::tuning::{Tuning, TuningError};
use reheap_allocators::upstream::{self, BuildError, BuiltAllocator, LinkKind, Toolchain};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which allocator, how tuned.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ChoiceArguments {
    /// The allocator to put in; `stock` for the libc's own, which finds more memory errors than the
    /// fast ones do (`reheap list`) [default: mimalloc]
    #[arg(short, long, value_name = "ALLOCATOR")]
    pub(crate) allocator: Option<String>,
    /// An allocator option, baked in; `reheap list` shows them
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub(crate) tuning: Vec<String>,
    /// Whose memcpy, memcmp, strlen and the like: reheap's fast ones, or the libc's own
    /// [default: fast, unless the allocator is `stock`]
    #[arg(long, value_name = "WHOSE")]
    pub(crate) memory_functions: Option<WhoseMemoryFunctions>,
}

/// Whose memory functions a static executable gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WhoseMemoryFunctions {
    // Reheap's; on AArch64, which has good ones in musl, the libc's own. Not a doc comment: the help would get a list.
    Fast,
    // The libc's own.
    Stock,
}

/// A checked choice.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) allocator: &'static Allocator,
    pub(crate) tuning: Tuning,
    pub(crate) memory_functions: MemoryFunctions,
    pub(crate) network: Network,
    pub(crate) deepbind: Deepbind,
}

/// What becomes of RTLD_DEEPBIND when a dynamic program of glibc opens a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deepbind {
    /// The preload takes the flag away, as the environment says nothing else.
    Stripped,
    /// The user gave `--keep-deepbind`.
    Kept,
}

/// Whether the sources of an allocator may be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// Cargo decides by its configuration.
    AsConfigured,
    /// The user gave `--offline` or `--frozen`.
    Forbidden,
}

impl ChoiceArguments {
    /// Checks the flags for a static executable, and the environment variables where a flag is missing, against the
    /// catalogue.
    pub(crate) fn check(&self) -> anyhow::Result<Choice> {
        let mut choice = self.check_for_run()?;
        if choice.is_stock() && !choice.tuning.is_empty() {
            let text =
                "`stock` in a static executable is musl's allocator, which has no tuning options";
            return Err(Failure::usage(text).into());
        }
        let whose = match self.memory_functions {
            Some(whose) => Some(whose),
            None => memory_functions_of_environment()?,
        };
        choice.memory_functions = match whose {
            Some(WhoseMemoryFunctions::Fast) | None => MemoryFunctions::Fast,
            Some(WhoseMemoryFunctions::Stock) => MemoryFunctions::Stock,
        };
        if choice.is_stock() && self.memory_functions == Some(WhoseMemoryFunctions::Fast) {
            let text = "`stock` leaves the libc as it is, with its own memory functions";
            let hint = "choose an allocator, or leave --memory-functions out";
            return Err(Failure::usage(text).hint(hint).into());
        }
        Ok(choice)
    }

    /// The same for a dynamic program, whose `stock` may be glibc's allocator.
    pub(crate) fn check_for_run(&self) -> anyhow::Result<Choice> {
        let from_environment =
            |name: &str| env_vars::variable(name).map(|value| value.to_string_lossy().into_owned());
        let name = self
            .allocator
            .clone()
            .or_else(|| from_environment(env_vars::ALLOCATOR));
        let name = name.unwrap_or_else(|| catalogue::default_allocator().name.to_owned());
        let mut options: Vec<String> = self.tuning.clone();
        if options.is_empty() {
            let variable = from_environment(env_vars::TUNING).unwrap_or_default();
            options = variable.split_whitespace().map(str::to_owned).collect();
        }
        Choice::of(&name, &options)
    }
}

impl Choice {
    /// Checks an allocator's name and its options against the catalogue.
    pub(crate) fn of(name: &str, options: &[String]) -> anyhow::Result<Self> {
        let allocator = catalogue::find(name).map_err(|error| {
            let hint = match error.nearest {
                Some(nearest) => {
                    format!("did you mean `-a {nearest}`? `reheap list` shows all")
                }
                None => "`reheap list` shows all".to_owned(),
            };
            Failure::usage(error.to_string()).hint(hint)
        })?;
        let tuning = Tuning::parse(allocator, options).map_err(|error| {
            let failure = Failure::usage(error.to_string());
            match &error {
                TuningError::UnknownKey {
                    nearest: Some(nearest),
                    ..
                } => failure.hint(format!("did you mean `-t {nearest}=…`?")),
                TuningError::UnknownKey { known, .. } if !known.is_empty() => {
                    failure.hint(format!("it has {}", known.join(", ")))
                }
                _ => failure,
            }
        })?;
        Ok(Self {
            allocator,
            tuning,
            memory_functions: MemoryFunctions::Fast,
            network: Network::AsConfigured,
            deepbind: Deepbind::Stripped,
        })
    }

    /// The cheapest allocator imaginable; for measuring only.
    pub(crate) fn limit() -> Self {
        Self {
            allocator: &catalogue::LIMIT,
            tuning: Tuning::default(),
            memory_functions: MemoryFunctions::Fast,
            network: Network::AsConfigured,
            deepbind: Deepbind::Stripped,
        }
    }

    /// Whether the libc stays as it is.
    pub(crate) fn is_stock(&self) -> bool {
        self.allocator.build.is_none()
    }
}

fn memory_functions_of_environment() -> anyhow::Result<Option<WhoseMemoryFunctions>> {
    let Some(value) = env_vars::variable(env_vars::MEMORY_FUNCTIONS) else {
        return Ok(None);
    };
    let value = value.to_string_lossy();
    match <WhoseMemoryFunctions as clap::ValueEnum>::from_str(&value, false) {
        Ok(whose) => Ok(Some(whose)),
        Err(_) => {
            let text = format!("there are no `{value}` memory functions");
            let hint = format!("{}=fast or =stock", env_vars::MEMORY_FUNCTIONS);
            Err(Failure::usage(text).hint(hint).into())
        }
    }
}

/// The cache that the environment names, or the user's.
pub(crate) fn cache() -> anyhow::Result<Cache> {
    let cache = match env_vars::variable(env_vars::CACHE_DIR) {
        Some(folder) => Cache::at(std::path::absolute(folder)?),
        None => Cache::of_user().ok_or_else(|| {
            Failure::failed("there is no home folder to keep built allocators in")
                .hint(format!("name one: {}=<folder>", env_vars::CACHE_DIR))
        })?,
    };
    if cache.root().to_str().is_none() {
        let shown = cache.root().display();
        let text = format!(
            "cannot use the cache folder `{shown}`: its name is not UTF-8, and Cargo builds only where it is"
        );
        let hint = format!("name another: {}=<folder>", env_vars::CACHE_DIR);
        return Err(Failure::failed(text).hint(hint).into());
    }
    Ok(cache)
}

/// The target of that triple, or the musl target of this machine.
pub(crate) fn target(triple: Option<&str>) -> anyhow::Result<Target> {
    let host = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    triple
        .unwrap_or(&host)
        .parse()
        .map_err(|error: TargetError| {
            let failure = Failure::usage(error.to_string());
            match &error {
                TargetError::NotMusl { .. } => failure
                    .hint("dynamic programs are for `reheap run -a <allocator> -- <command>`"),
                _ => failure,
            }
            .into()
        })
}

/// Rust's own musl libc for the target, which its executables are linked with.
pub(crate) fn libc_of_rust(target: &Target) -> anyhow::Result<PathBuf> {
    let rustc = env_vars::program("RUSTC", "rustc");
    let output = Command::new(&rustc)
        .args(["--print", "target-libdir", "--target", target.triple()])
        .output()
        .with_context(|| format!("cannot start `{}`", rustc.display()))?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let libc = folder.join("self-contained/libc.a");
    if output.status.success() && libc.is_file() {
        return Ok(libc);
    }
    let failure = Failure::failed(format!("Rust's target `{target}` is not installed"));
    Err(failure.hint(format!("rustup target add {target}")).into())
}

/// Where compilers are looked for: the environment, and what `reheap doctor --fix` put into the cache.
pub(crate) fn search() -> Search {
    let search = Search::new(env_vars::all());
    match cache() {
        Ok(cache) => search.with_tools(machine::tools_folder(cache.root())),
        Err(_) => search,
    }
}

/// The compiler for a language, or an error that names the ways to get one.
pub(crate) fn compiler(
    target: &Target,
    language: Language,
    purpose: Purpose,
) -> anyhow::Result<Compiler> {
    let search = search();
    Ok(compiler::find(target, language, purpose, &search).map_err(|e| no_compiler(&e))?)
}

fn no_compiler(error: &NoCompiler) -> Failure {
    Failure::failed(error.to_string()).hint("reheap doctor --fix")
}

/// What goes into a libc, built for its target.
pub(crate) struct Built {
    allocator: BuiltAllocator,
    memory_functions: Option<BuiltMemoryFunctions>,
}

impl Built {
    /// The same with what the choice says about it.
    pub(crate) fn replacement<'a>(&'a self, choice: &'a Choice) -> Replacement<'a> {
        Replacement {
            allocator: choice.allocator,
            built: &self.allocator,
            tuning: &choice.tuning,
            memory_functions: self.memory_functions.as_ref(),
        }
    }
}

/// The allocator and the memory functions, built for the target, from the cache or now.
pub(crate) fn build(choice: &Choice, target: &Target, cache: &Cache) -> anyhow::Result<Built> {
    let toolchain = toolchain(choice, target)?;
    let kind = LinkKind::Executable;
    let is_built = upstream::is_built(choice.allocator, target, kind, &toolchain, cache);
    let allocator = while_building(choice, target, is_built, || {
        upstream::build(choice.allocator, target, kind, &toolchain, cache)
    })?;
    let memory_functions = memory::build(choice.memory_functions, target, &toolchain, cache)
        .map_err(|error| {
            let text = format!("{:#}", anyhow::Error::new(error));
            Failure::failed(text).hint("--memory-functions stock keeps those of the libc")
        })?;
    Ok(Built {
        allocator,
        memory_functions,
    })
}

/// The preload of the allocator for the target's libc, from the cache or now.
pub(crate) fn build_preload(
    choice: &Choice,
    target: &Target,
    cache: &Cache,
) -> anyhow::Result<PathBuf> {
    let names_a_compiler = |(name, _): (OsString, _)| {
        let name = name.to_string_lossy().into_owned();
        name.starts_with("CC_") || name.starts_with("CXX_")
    };
    if !env_vars::all().any(names_a_compiler)
        && let Some(library) = preload::find_built(choice.allocator, target, cache)
    {
        return Ok(library);
    }
    let toolchain = toolchain(choice, target)?;
    let is_built = preload::is_built(choice.allocator, target, &toolchain, cache);
    while_building(choice, target, is_built, || {
        preload::build(choice.allocator, target, &toolchain, cache)
    })
}

/// The same with the options in it, for where no environment variable comes along.
pub(crate) fn build_tuned_preload(
    choice: &Choice,
    target: &Target,
    cache: &Cache,
) -> anyhow::Result<PathBuf> {
    let plain = build_preload(choice, target, cache)?;
    if choice.tuning.is_empty() {
        return Ok(plain);
    }
    let toolchain = toolchain(choice, target)?;
    let built = preload::build_tuned(choice.allocator, &choice.tuning, target, &toolchain, cache);
    Ok(built?)
}

/// The program that is started to see whether a preload works.
pub(crate) fn build_canary(target: &Target, cache: &Cache) -> anyhow::Result<PathBuf> {
    Ok(canary::build(target, &toolchain_for_glue(target)?, cache)?)
}

/// The probe that shows which preload a program of the target's libc calls.
pub(crate) fn build_probe(target: &Target) -> anyhow::Result<PathBuf> {
    let toolchain = toolchain_for_glue(target)?;
    Ok(probe::build(target, &toolchain, &cache()?)?)
}

/// This machine's target for a libc; `None` on a processor that reheap does not know.
pub(crate) fn host(libc: Libc) -> Option<Target> {
    let architecture = Architecture::ALL
        .into_iter()
        .find(|known| known.name() == std::env::consts::ARCH)?;
    Some(Target::new(architecture, libc))
}

/// The programs that build the allocator for the target.
pub(crate) fn toolchain(choice: &Choice, target: &Target) -> anyhow::Result<Toolchain> {
    let mut toolchain = toolchain_for_glue(target)?;
    let recipe = choice.allocator.build.as_ref();
    if recipe.is_some_and(|recipe| recipe.needs_cxx) {
        let found = compiler::find(target, Language::Cxx, Purpose::Objects, &search());
        toolchain.cxx = found.map_err(|e| e.to_string());
    }
    if choice.network == Network::Forbidden {
        let environment = &mut toolchain.environment;
        environment.insert("CARGO_NET_OFFLINE".into(), "true".into());
    }
    Ok(toolchain)
}

/// The programs that build what is reheap's own and in C.
pub(crate) fn toolchain_for_glue(target: &Target) -> anyhow::Result<Toolchain> {
    Ok(Toolchain {
        cargo: env_vars::program("CARGO", "cargo"),
        cc: compiler(target, Language::C, Purpose::Objects)?,
        cxx: Err("not asked for".to_owned()),
        environment: env_vars::all().collect(),
    })
}

/// Builds, and says so where it takes time.
fn while_building<T, E>(
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
        ui::while_showing(&format!("building {name} for {target} ({once})"), build)
    };
    built.map_err(|error| {
        let name = choice.allocator.name;
        let reasons = anyhow::Error::new(error);
        let hint = match choice.network {
            _ if lacks_cxx(&reasons) => Some("reheap doctor --fix"),
            Network::Forbidden => Some("its sources are fetched once: try again without --offline"),
            Network::AsConfigured => None,
        };
        let failure = Failure::failed(format!("cannot build {name}: {reasons:#}"));
        match hint {
            Some(hint) => failure.hint(hint).into(),
            None => failure.into(),
        }
    })
}

fn lacks_cxx(error: &anyhow::Error) -> bool {
    let of_preload = error.downcast_ref().map(|error| match error {
        PreloadError::Build(error) => Some(error),
        _ => None,
    });
    let error = of_preload.flatten().or_else(|| error.downcast_ref());
    matches!(error, Some(BuildError::NoCxx { .. }))
}

/// The folder of the derived libc for a choice; `None` for the stock allocator.
pub(crate) fn derived_folder(
    choice: &Choice,
    target: &Target,
    original: &Path,
    cache: &Cache,
) -> anyhow::Result<Option<PathBuf>> {
    if choice.is_stock() {
        return Ok(None);
    }
    let original = Original::read(original)?;
    let built = build(choice, target, cache)?;
    let replacement = built.replacement(choice);
    Ok(Some(original.derived_folder(&replacement, cache)?))
}
