//! Variants that are ready to be run, and the comparisons that they are run in.

use crate::bench::options::substitute;
use crate::program;
use reheap_bench::experiment::PlannedVariant;
use reheap_bench::results::{Activity, AllocatorVersion, Role};
use reheap_bench::run::CommandLine;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

/// A variant with everything that it takes; only the values of a sweep are still to be put into its command.
#[derive(Debug, Clone)]
pub(crate) struct Ready {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) allocator: Option<AllocatorVersion>,
    pub(crate) tuning: BTreeMap<String, String>,
    /// The program, as a user types it, and its arguments.
    pub(crate) words: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) activity: Activity,
}

impl Ready {
    /// The variant with the values of a sweep.
    pub(crate) fn planned(
        &self,
        parameters: &BTreeMap<String, String>,
        input: Option<PathBuf>,
    ) -> anyhow::Result<PlannedVariant> {
        let command = command_line(&self.words, parameters, &self.environment, input)?;
        Ok(PlannedVariant {
            name: self.name.clone(),
            role: self.role,
            allocator: self.allocator.clone(),
            tuning: self.tuning.clone(),
            executable_bytes: fs::metadata(&command.program).ok().map(|file| file.len()),
            command,
            activity: self.activity.clone(),
        })
    }

    /// The baseline once more, which shows how much is noise.
    pub(crate) fn copy(&self) -> Ready {
        Ready {
            name: format!("{} again", self.name),
            role: Role::BaselineCopy,
            ..self.clone()
        }
    }
}
