//! Defines which allocator a program gets and what else the user chooses with it: the flags, once for all commands, and
//! the checked choice.

use crate::env_vars;
use crate::named_file;
use crate::ui::Failure;
use anyhow::Context as _;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use reheap_allocators::catalogue::{self, Allocator, CATALOGUE, file};
use reheap_allocators::memory::MemoryFunctions;
use reheap_allocators::target::{Target, TargetError};
use reheap_allocators::tuning::{Tuning, TuningError};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

/// The stack size that glibc gives threads by default. musl's 128 KiB are too small for programs that never ran with
/// it.
const DEFAULT_STACK_BYTES: u64 = 8 << 20;

/// Which allocator, and its tuning.
#[derive(Debug, Clone, clap::Args)]
pub struct AllocatorArguments {
    /// The allocator; `stock` is the libc's own, which finds more memory errors than fast ones do
    /// (see `reheap list`); ./libmine.so is a file of your own [default: mimalloc]
    #[arg(short, long, value_name = "ALLOCATOR", value_parser = AllocatorName::Any, hide_possible_values = true)]
    pub allocator: Option<String>,
    /// Its options.
    #[command(flatten)]
    pub tuning: TuningArguments,
}

/// How an allocator is tuned.
#[derive(Debug, Clone, clap::Args)]
pub struct TuningArguments {
    /// An option of the allocator; `reheap list NAME` shows them
    #[arg(id = "tuning", short, long, value_name = "KEY=VALUE")]
    pub options: Vec<String>,
}

/// What goes into the libc of a static executable.
#[derive(Debug, Clone, clap::Args)]
pub struct LibcChoiceArguments {
    #[command(flatten)]
    allocator: AllocatorArguments,
    /// The memcpy, memcmp, strlen and so on: reheap's fast ones or the libc's own
    /// [default: fast, unless the allocator is `stock`]
    #[arg(long, value_name = "WHOSE")]
    memory_functions: Option<WhoseMemoryFunctions>,
}

/// What a static executable is linked with.
#[derive(Debug, Clone, clap::Args)]
pub struct StaticArguments {
    #[command(flatten)]
    libc: LibcChoiceArguments,
    /// The stack size of threads that do not set one, in bytes; 0 for musl's default of 128 KiB
    /// [default: 8388608]
    #[arg(long, value_name = "BYTES")]
    stack_size: Option<u64>,
}

/// Whose memory functions a static executable gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "clap would make a list of them in the help")]
pub enum WhoseMemoryFunctions {
    // Reheap's.
    Fast,
    // The libc's own.
    Stock,
}

/// Lets shells complete the allocators of the catalogue. [`Choice::of`] refuses other names, because it can suggest
/// what the user meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocatorName {
    /// Any of the catalogue.
    Any,
    /// Any but the libc's own.
    Another,
}

impl TypedValueParser for AllocatorName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let is_offered = |row: &&Allocator| *self == AllocatorName::Any || row.build.is_some();
        let rows = CATALOGUE.iter().filter(is_offered);
        Some(Box::new(rows.map(|row| PossibleValue::new(row.name))))
    }
}

/// A place where a user chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The command line.
    Flags,
    /// The environment.
    Environment,
    /// A manifest.
    Manifest(Table),
}

/// A table of a Cargo.toml.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The file.
    pub manifest: PathBuf,
    /// Its name, as in `package.metadata.reheap`.
    pub name: &'static str,
}

/// What one place asks for, unchecked. What it does not name, the next place does.
#[derive(Debug, Clone)]
pub struct Wishes {
    /// Where it was said.
    pub place: Place,
    /// The allocator's name.
    pub allocator: Option<String>,
    /// Options of the allocator, each as `key=value`.
    pub tuning: Option<Vec<String>>,
    /// `None` if nothing is said of them.
    pub memory_functions: Option<WhoseMemoryFunctions>,
    /// The stack of threads that set none.
    pub stack_size_bytes: Option<u64>,
}

/// A checked choice for a static executable.
#[derive(Debug, Clone)]
pub struct StaticChoice {
    /// The allocator and its tuning.
    pub choice: Choice,
    /// The stack of threads that set none.
    pub stack_size_bytes: u64,
    /// The Cargo.toml that names the allocator, or its tuning.
    pub manifest: Option<PathBuf>,
}

/// A checked choice.
#[derive(Debug, Clone)]
pub struct Choice {
    /// A row of the catalogue.
    pub allocator: &'static Allocator,
    /// Its options.
    pub tuning: Tuning,
    /// The memory functions of a static executable; a dynamic program has its libc's.
    pub memory_functions: MemoryFunctions,
}

/// Whether hardened allocators are among those to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hardened {
    /// Only hardened allocators.
    Only,
    /// All but hardened ones: they cost more, so nobody wants them who does not ask for security.
    LeftOut,
}

impl Choice {
    /// The allocators that are worth trying, the default first, and then jemalloc, the best known.
    pub fn to_try(hardened: Hardened) -> anyhow::Result<Vec<Self>> {
        let is_wanted = |row: &&Allocator| {
            row.build.is_some() && row.is_hardened == (hardened == Hardened::Only)
        };
        let mut rows: Vec<&Allocator> = CATALOGUE.iter().filter(is_wanted).collect();
        let default = catalogue::default_allocator().name;
        rows.sort_by_key(|row| match row.name {
            name if name == default => 0,
            "jemalloc" => 1,
            _ => 2,
        });
        rows.iter().map(|row| Self::of(row.name, &[])).collect()
    }
}

impl AllocatorArguments {
    /// Checks the flags, and the environment variables where a flag is missing, against the catalogue.
    pub fn check(&self) -> anyhow::Result<Choice> {
        Ok(choose(&[self.wishes(), Wishes::of_environment()])?.0)
    }

    fn wishes(&self) -> Wishes {
        let options = &self.tuning.options;
        Wishes {
            allocator: self.allocator.clone(),
            tuning: (!options.is_empty()).then(|| options.clone()),
            ..Wishes::none(Place::Flags)
        }
    }
}

impl LibcChoiceArguments {
    /// Checks the flags, and the environment variables where a flag is missing, for a static executable.
    pub fn check(&self) -> anyhow::Result<Choice> {
        let places = [self.wishes(), Wishes::of_environment_for_static()?];
        Ok(StaticChoice::of(&places)?.choice)
    }

    fn wishes(&self) -> Wishes {
        Wishes {
            memory_functions: self.memory_functions,
            ..self.allocator.wishes()
        }
    }
}

impl StaticArguments {
    /// Checks the flags, and the environment variables where a flag is missing.
    pub fn check(&self) -> anyhow::Result<StaticChoice> {
        StaticChoice::of(&[self.wishes(), Wishes::of_environment_for_static()?])
    }

    /// What the flags ask for.
    pub fn wishes(&self) -> Wishes {
        Wishes {
            stack_size_bytes: self.stack_size,
            ..self.libc.wishes()
        }
    }
}

impl Wishes {
    /// A place that asks for nothing.
    pub fn none(place: Place) -> Self {
        Self {
            place,
            allocator: None,
            tuning: None,
            memory_functions: None,
            stack_size_bytes: None,
        }
    }

    /// What the environment variables ask for, for a static executable.
    pub fn of_environment_for_static() -> anyhow::Result<Self> {
        Ok(Self {
            memory_functions: memory_functions_of_environment()?,
            ..Self::of_environment()
        })
    }

    fn of_environment() -> Self {
        let text =
            |name: &str| env_vars::variable(name).map(|value| value.to_string_lossy().into_owned());
        let options = text(env_vars::TUNING).unwrap_or_default();
        let options: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
        Self {
            allocator: text(env_vars::ALLOCATOR),
            tuning: (!options.is_empty()).then_some(options),
            ..Self::none(Place::Environment)
        }
    }
}

/// The allocator that the strongest of these places names, the strongest first, and where that is.
fn first_allocator(places: &[Wishes]) -> (&str, Option<&Place>) {
    let named = places
        .iter()
        .find_map(|wishes| Some((wishes.allocator.as_deref()?, Some(&wishes.place))));
    named.unwrap_or((catalogue::default_allocator().name, None))
}

/// Checks what these places ask for, the strongest first, against the catalogue, and gives the Cargo.toml that decided.
///
/// The options in a manifest are for the allocator that is chosen there. Whoever types `-a` for another one does not
/// want them.
fn choose(places: &[Wishes]) -> anyhow::Result<(Choice, Option<PathBuf>)> {
    let (name, named_in) = first_allocator(places);
    let allocator = find_allocator(name, named_in.unwrap_or(&Place::Flags))?;
    let is_for_it = |at: usize| match places[at].place {
        Place::Flags | Place::Environment => true,
        Place::Manifest(_) => first_allocator(&places[at..]).0 == name,
    };
    let mut tuned = (0..places.len()).filter(|at| is_for_it(*at));
    let tuned = tuned.find_map(|at| Some((places[at].tuning.as_ref()?, &places[at].place)));
    let tuning = match tuned {
        Some((options, place)) => parse_tuning(allocator, options, place)?,
        None => Tuning::default(),
    };
    let tuned_in = tuned.map(|(_, place)| place);
    let decides = |place: &&Place| Some(*place) == named_in || Some(*place) == tuned_in;
    let deciding = places.iter().map(|wishes| &wishes.place).filter(decides);
    let manifest = deciding.filter_map(Place::manifest).next();
    let choice = Choice {
        allocator,
        tuning,
        memory_functions: MemoryFunctions::Fast,
    };
    Ok((choice, manifest.map(Path::to_owned)))
}

impl StaticChoice {
    /// Checks what these places ask for, the strongest first.
    pub fn of(places: &[Wishes]) -> anyhow::Result<Self> {
        let (mut choice, manifest) = choose(places)?;
        let checked = choice.check_for_static();
        match &manifest {
            Some(manifest) => {
                checked.with_context(|| format!("cannot use `{}`", manifest.display()))?;
            }
            None => checked?,
        }
        let whose = places
            .iter()
            .find_map(|wishes| Some((wishes.memory_functions?, wishes)));
        choice.memory_functions = match whose {
            Some((WhoseMemoryFunctions::Fast, _)) | None => MemoryFunctions::Fast,
            Some((WhoseMemoryFunctions::Stock, _)) => MemoryFunctions::Stock,
        };
        if let Some((WhoseMemoryFunctions::Fast, wishes)) = whose.filter(|_| choice.is_stock()) {
            refuse_fast_stock(wishes)?;
        }
        let stack_size_bytes = places.iter().find_map(|wishes| wishes.stack_size_bytes);
        Ok(Self {
            choice,
            stack_size_bytes: stack_size_bytes.unwrap_or(DEFAULT_STACK_BYTES),
            manifest,
        })
    }
}

/// `stock` gets nothing from reheap. That is a mistake only where one place asks for both.
fn refuse_fast_stock(wishes: &Wishes) -> Result<(), Failure> {
    let text = "`stock` keeps the libc's own memory functions";
    match &wishes.place {
        Place::Flags => {
            let hint = "choose another allocator, or leave out --memory-functions";
            Err(Failure::usage(text).hint(hint))
        }
        Place::Manifest(table) if wishes.allocator.is_some() => {
            let hint = "choose another allocator, or leave out `memory-functions`";
            Err(table.refuse("memory-functions", text).hint(hint))
        }
        Place::Manifest(_) | Place::Environment => Ok(()),
    }
}

impl PartialEq for Choice {
    fn eq(&self, other: &Self) -> bool {
        self.allocator.name == other.allocator.name
            && self.allocator.version == other.allocator.version
            && self.tuning == other.tuning
            && self.memory_functions == other.memory_functions
    }
}

impl Place {
    /// The directory that relative paths are in.
    pub(crate) fn directory(&self) -> &Path {
        let directory = self.manifest().and_then(Path::parent);
        directory.unwrap_or(Path::new(""))
    }

    fn manifest(&self) -> Option<&Path> {
        match self {
            Self::Manifest(table) => Some(&table.manifest),
            Self::Flags | Self::Environment => None,
        }
    }
}

impl Table {
    /// The refusal of a key.
    pub fn refuse(&self, key: &str, reason: impl fmt::Display) -> Failure {
        let (name, manifest) = (self.name, self.manifest.display());
        Failure::usage(format!(
            "cannot use `{name}.{key}` in `{manifest}`: {reason}"
        ))
    }
}

impl Choice {
    /// Checks an allocator's name and its options against the catalogue.
    pub fn of(name: &str, options: &[String]) -> anyhow::Result<Self> {
        let allocator = find_allocator(name, &Place::Flags)?;
        Ok(Self {
            allocator,
            tuning: parse_tuning(allocator, options, &Place::Flags)?,
            memory_functions: MemoryFunctions::Fast,
        })
    }

    /// Refuses tuning that nothing in a static executable would heed.
    pub fn check_for_static(&self) -> anyhow::Result<()> {
        if self.is_stock() && !self.tuning.is_empty() {
            let text =
                "`stock` in a static executable is musl's allocator, which has no tuning options";
            return Err(Failure::usage(text).into());
        }
        Ok(())
    }

    /// Whether the libc stays as it is.
    pub fn is_stock(&self) -> bool {
        self.allocator.build.is_none()
    }
}

/// The allocator of that name, or in the file of that name; the refusal says what to write in the place where the name
/// is.
fn find_allocator(name: &str, place: &Place) -> Result<&'static Allocator, Failure> {
    if named_file::is_one(name) {
        let path = named_file::locate(name, place.directory())?;
        return file::row(name, &path).map_err(|error| match place {
            Place::Flags | Place::Environment => Failure::failed(error.to_string()),
            Place::Manifest(table) => table.refuse("allocator", error),
        });
    }
    catalogue::find(name).map_err(|error| {
        let (failure, nearest) = match place {
            Place::Flags | Place::Environment => (
                Failure::usage(error.to_string()),
                error.nearest.map(|nearest| format!("`-a {nearest}`")),
            ),
            Place::Manifest(table) => (
                table.refuse("allocator", &error),
                error
                    .nearest
                    .map(|nearest| format!("`allocator = \"{nearest}\"`")),
            ),
        };
        failure.hint(match nearest {
            _ if named_file::looks_like_one(name) => {
                format!(
                    "name a file with a slash, `./{name}`, and one of the system as `system:{name}`"
                )
            }
            Some(nearest) => format!("did you mean {nearest}? `reheap list` shows all"),
            None => "`reheap list` shows all".to_owned(),
        })
    })
}

/// The options for the allocator; a refusal like that of [`find_allocator`].
fn parse_tuning(
    allocator: &'static Allocator,
    options: &[String],
    place: &Place,
) -> Result<Tuning, Failure> {
    Tuning::parse(allocator, options).map_err(|error| {
        let failure = match place {
            Place::Flags | Place::Environment => Failure::usage(error.to_string()),
            Place::Manifest(table) => table.refuse("tuning", &error),
        };
        match (&error, place) {
            (
                TuningError::UnknownKey {
                    nearest: Some(nearest),
                    ..
                },
                Place::Manifest(_),
            ) => failure.hint(format!("did you mean `{nearest}`?")),
            (
                TuningError::UnknownKey {
                    nearest: Some(nearest),
                    ..
                },
                Place::Flags | Place::Environment,
            ) => failure.hint(format!("did you mean `-t {nearest}=…`?")),
            (TuningError::UnknownKey { known, .. }, _) if !known.is_empty() => {
                failure.hint(format!("its options are {}", known.join(", ")))
            }
            _ => failure,
        }
    })
}

fn memory_functions_of_environment() -> anyhow::Result<Option<WhoseMemoryFunctions>> {
    let Some(value) = env_vars::variable(env_vars::MEMORY_FUNCTIONS) else {
        return Ok(None);
    };
    let value = value.to_string_lossy();
    match <WhoseMemoryFunctions as clap::ValueEnum>::from_str(&value, false) {
        Ok(whose) => Ok(Some(whose)),
        Err(_) => {
            let text = format!("unknown memory functions `{value}`");
            let hint = format!("use {}=fast or =stock", env_vars::MEMORY_FUNCTIONS);
            Err(Failure::usage(text).hint(hint).into())
        }
    }
}

/// The target of that triple, or the musl target of this machine.
pub fn musl_target(triple: Option<&str>) -> anyhow::Result<Target> {
    let host = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let triple = triple.unwrap_or(&host);
    triple.parse().map_err(|error: TargetError| {
        let failure = Failure::usage(error.to_string());
        let meant = Target::meant_by(triple);
        match (meant, error) {
            (Some(target), _) => failure.hint(format!("did you mean `--target {target}`?")),
            (None, TargetError::NotMusl { .. }) => {
                failure.hint("for a dynamic program, use `reheap run -a <allocator> -- <command>`")
            }
            _ => failure,
        }
        .into()
    })
}
