//! What is to be measured, before anything runs.

use crate::metrics::Metric;
use crate::outlook::Share;
use crate::results::{
    Activity, AllocatorVersion, Benchmark, Ending, LeftOut, Role, Settings, Unreached, Variant,
};
use crate::run::{CommandLine, Finished};
use crate::server::Load;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::time::Duration;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of the benchmark, for [`Benchmark::name`].
    pub name: String,
    /// The values of a sweep, for [`Benchmark::parameters`].
    pub parameters: BTreeMap<String, String>,
    /// How much memory each run may use.
    pub memory_limit_bytes: Option<u64>,
    /// What is read from the output.
    pub metrics: Vec<Metric>,
    /// What is run; the first is the baseline, and one with [`Role::BaselineCopy`] is its second run of each round.
    pub variants: Vec<PlannedVariant>,
    /// Variants that are not run, for [`Benchmark::left_out`].
    pub left_out: Vec<LeftOut>,
    /// What the variants are asked for, if they are servers. Its output differs from run to run, so
    /// [`Settings::output`] has to be [`crate::results::OutputCheck::Ignored`].
    pub load: Option<Load>,
    /// How many rounds, and how long.
    pub settings: Settings,
    /// What part of the given time that is.
    pub share: Share,
}

impl Plan {
    /// Whether there are others like it, with other values or another memory limit, to find out how far it works. That
    /// it does not work in one of them is a result.
    pub(super) fn is_one_of_many(&self) -> bool {
        self.memory_limit_bytes.is_some() || !self.parameters.is_empty()
    }

    /// Where the variants in these roles are.
    pub(super) fn places(&self, of: impl Fn(Role) -> bool) -> Vec<usize> {
        let variants = self.variants.iter().enumerate();
        variants
            .filter(|(_, variant)| of(variant.role))
            .map(|(place, _)| place)
            .collect()
    }

    /// The benchmark before the first run.
    pub(super) fn without_runs(&self) -> Benchmark {
        let variants = self.variants.iter().map(|planned| {
            let command = &planned.command;
            let words = [command.program.as_os_str()].into_iter().chain(
                command
                    .arguments
                    .iter()
                    .map(|argument| argument.as_os_str()),
            );
            let variables = command.environment.iter();
            Variant {
                name: planned.name.clone(),
                role: planned.role,
                allocator: planned.allocator.clone(),
                tuning: planned.tuning.clone(),
                command: words.map(text).collect(),
                environment: variables
                    .map(|(name, value)| (text(name), text(value)))
                    .collect(),
                executable_bytes: planned.executable_bytes,
                files_sha256: planned.files_sha256.clone(),
                activity: planned.activity.clone(),
                unreached: planned.unreached.clone(),
                runs: Vec::new(),
                left: None,
            }
        });
        let metrics = self.metrics.iter();
        Benchmark {
            name: self.name.clone(),
            parameters: self.parameters.clone(),
            memory_limit_bytes: self.memory_limit_bytes,
            metrics: metrics
                .map(|metric| (metric.name.clone(), metric.direction))
                .collect(),
            variants: variants.collect(),
            left_out: self.left_out.clone(),
            ended: Ending::Interrupted,
            served: self.load.is_some(),
        }
    }
}

/// A variant that is to be run. Its members are those of [`Variant`].
#[derive(Clone, Debug)]
pub struct PlannedVariant {
    /// The name of the variant, for [`Variant::name`].
    pub name: String,
    /// What the variant is there for, for [`Variant::role`].
    pub role: Role,
    /// The allocator, for [`Variant::allocator`].
    pub allocator: Option<AllocatorVersion>,
    /// The allocator's options, for [`Variant::tuning`].
    pub tuning: BTreeMap<String, String>,
    /// What is run.
    pub command: CommandLine,
    /// The size of the executable, for [`Variant::executable_bytes`].
    pub executable_bytes: Option<u64>,
    /// A hash of the baseline's files, for [`Variant::files_sha256`].
    pub files_sha256: Option<String>,
    /// How the allocator was seen to be active, for [`Variant::activity`].
    pub activity: Activity,
    /// Programs without the allocator, for [`Variant::unreached`].
    pub unreached: Vec<Unreached>,
    /// The variant's run before, if there was one: then it needs no warm-up.
    pub first_run: Option<FirstRun>,
}

/// The run of a variant before the rounds, which is not measured.
#[derive(Clone, Debug)]
pub struct FirstRun {
    /// How long it took, with the start of a server.
    pub took: Duration,
    /// What came of it.
    pub finished: Finished,
}

fn text(word: &OsStr) -> String {
    word.to_string_lossy().into_owned()
}
