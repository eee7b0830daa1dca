//! Defines which allocator a program gets and what else the user chooses with it: the flags, once for all commands, and
//! the checked choice.

use crate::env_vars;
use crate::ui::Failure;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use reheap_allocators::catalogue::{self, Allocator, CATALOGUE};
use reheap_allocators::memory::MemoryFunctions;
use reheap_allocators::target::{Target, TargetError};
use reheap_allocators::tuning::{Tuning, TuningError};
use std::ffi::OsStr;

/// The stack size that glibc gives threads by default. musl's 128 KiB are too small for programs that never ran with
/// it.
pub(crate) const DEFAULT_STACK_BYTES: u64 = 8 << 20;

/// Which allocator, and its tuning.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AllocatorArguments {
    /// The allocator; `stock` is the libc's own, which finds more memory errors than fast ones do
    /// (see `reheap list`) [default: mimalloc]
    #[arg(short, long, value_name = "ALLOCATOR", value_parser = AllocatorName, hide_possible_values = true)]
    pub(crate) allocator: Option<String>,
    #[command(flatten)]
    pub(crate) tuning: TuningArguments,
}

/// How an allocator is tuned.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TuningArguments {
    /// An option of the allocator; `reheap list` shows them
    #[arg(id = "tuning", short, long, value_name = "KEY=VALUE")]
    pub(crate) options: Vec<String>,
}

/// What goes into the libc of a static executable.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LibcChoiceArguments {
    #[command(flatten)]
    allocator: AllocatorArguments,
    /// Which memcpy, memcmp, strlen and so on to use: reheap's fast ones or the libc's own
    /// [default: fast, unless the allocator is `stock`]
    #[arg(long, value_name = "WHOSE")]
    memory_functions: Option<WhoseMemoryFunctions>,
}

/// What a static executable is linked with.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct StaticArguments {
    #[command(flatten)]
    pub(crate) libc: LibcChoiceArguments,
    /// The stack size of threads that do not set one, in bytes; 0 for musl's default of 128 KiB
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_STACK_BYTES)]
    pub(crate) stack_size: u64,
}

/// Whose memory functions a static executable gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WhoseMemoryFunctions {
    // Reheap's; on AArch64, which has good ones in musl, the libc's own. Not a doc comment: the help would get a list.
    Fast,
    // The libc's own.
    Stock,
}

/// Lets shells complete the allocators of the catalogue. [`Choice::of`] refuses other names, because it can suggest
/// what the user meant.
#[derive(Debug, Clone)]
pub(crate) struct AllocatorName;

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
        let names = CATALOGUE.iter().map(|row| PossibleValue::new(row.name));
        Some(Box::new(names))
    }
}

/// A checked choice.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) allocator: &'static Allocator,
    pub(crate) tuning: Tuning,
    /// Those of a static executable; a dynamic program has its libc's.
    pub(crate) memory_functions: MemoryFunctions,
}

/// Whether hardened allocators are among those to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hardened {
    /// Only they are.
    Only,
    /// They cost more than others, so nobody wants them who does not ask for security.
    LeftOut,
}

impl Choice {
    /// The allocators that are worth trying, the default first, and then jemalloc, the best known.
    pub(crate) fn to_try(hardened: Hardened) -> anyhow::Result<Vec<Self>> {
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
    pub(crate) fn check(&self) -> anyhow::Result<Choice> {
        let from_environment =
            |name: &str| env_vars::variable(name).map(|value| value.to_string_lossy().into_owned());
        let name = self
            .allocator
            .clone()
            .or_else(|| from_environment(env_vars::ALLOCATOR));
        let name = name.unwrap_or_else(|| catalogue::default_allocator().name.to_owned());
        let mut options: Vec<String> = self.tuning.options.clone();
        if options.is_empty() {
            let variable = from_environment(env_vars::TUNING).unwrap_or_default();
            options = variable.split_whitespace().map(str::to_owned).collect();
        }
        Choice::of(&name, &options)
    }
}

impl LibcChoiceArguments {
    /// Checks the flags, and the environment variables where a flag is missing, for a static executable.
    pub(crate) fn check(&self) -> anyhow::Result<Choice> {
        let mut choice = self.allocator.check()?;
        choice.check_for_static()?;
        let whose = match self.memory_functions {
            Some(whose) => Some(whose),
            None => memory_functions_of_environment()?,
        };
        choice.memory_functions = match whose {
            Some(WhoseMemoryFunctions::Fast) | None => MemoryFunctions::Fast,
            Some(WhoseMemoryFunctions::Stock) => MemoryFunctions::Stock,
        };
        if choice.is_stock() && self.memory_functions == Some(WhoseMemoryFunctions::Fast) {
            let text = "`stock` keeps the libc's own memory functions";
            let hint = "choose another allocator, or leave out --memory-functions";
            return Err(Failure::usage(text).hint(hint).into());
        }
        Ok(choice)
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
                    failure.hint(format!("its options are {}", known.join(", ")))
                }
                _ => failure,
            }
        })?;
        Ok(Self {
            allocator,
            tuning,
            memory_functions: MemoryFunctions::Fast,
        })
    }

    /// Refuses tuning that nothing in a static executable would heed.
    pub(crate) fn check_for_static(&self) -> anyhow::Result<()> {
        if self.is_stock() && !self.tuning.is_empty() {
            let text =
                "`stock` in a static executable is musl's allocator, which has no tuning options";
            return Err(Failure::usage(text).into());
        }
        Ok(())
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
            let text = format!("unknown memory functions `{value}`");
            let hint = format!("use {}=fast or =stock", env_vars::MEMORY_FUNCTIONS);
            Err(Failure::usage(text).hint(hint).into())
        }
    }
}

/// The target of that triple, or the musl target of this machine.
pub(crate) fn musl_target(triple: Option<&str>) -> anyhow::Result<Target> {
    let host = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    triple
        .unwrap_or(&host)
        .parse()
        .map_err(|error: TargetError| {
            let failure = Failure::usage(error.to_string());
            match &error {
                TargetError::NotMusl { .. } => failure
                    .hint("for a dynamic program, use `reheap run -a <allocator> -- <command>`"),
                _ => failure,
            }
            .into()
        })
}
