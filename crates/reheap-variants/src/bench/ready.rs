//! Describes a variant that is ready to run.

use crate::bench::sweep::{Parameters, substitute};
use crate::bench::variants;
use reheap_allocators::target::Libc;
use reheap_bench::command_files;
use reheap_bench::experiment::{FirstRun, PlannedVariant};
use reheap_bench::results::{Activity, AllocatorVersion, Role, Unreached};
use reheap_bench::run::{CommandLine, Preparation};
use reheap_command::choice::Choice;
use reheap_subject::program::Route;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

/// A variant with everything that it needs. Only the values of a sweep are still missing in its command.
#[derive(Debug, Clone)]
pub struct ReadyVariant {
    pub(crate) name: String,
    /// Whether others are compared with it.
    pub role: Role,
    pub(crate) allocator: Option<AllocatorVersion>,
    pub(crate) tuning: BTreeMap<String, String>,
    /// The program, as a user types it, and its arguments.
    pub(crate) words: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) preparation: Option<Preparation>,
    pub(crate) activity: Activity,
    pub(crate) unreached: Vec<Unreached>,
    /// The run in which it was tried out, if it was, with the first values of a sweep.
    pub(crate) first_run: Option<FirstRun>,
}

impl ReadyVariant {
    /// A variant about which reheap claims nothing yet.
    pub(crate) fn new(libc: Libc, choice: &Choice, words: Vec<OsString>) -> ReadyVariant {
        ReadyVariant {
            name: variants::name(libc, choice),
            role: Role::Candidate,
            allocator: Some(AllocatorVersion {
                name: choice.allocator.name.to_owned(),
                version: choice.allocator.version.to_owned(),
            }),
            tuning: choice.tuning.as_given(),
            words,
            environment: Vec::new(),
            preparation: None,
            activity: Activity::NothingClaimed,
            unreached: Vec::new(),
            first_run: None,
        }
    }

    /// Its command with the values of a sweep, and without an input.
    pub(crate) fn command(&self, parameters: &Parameters) -> anyhow::Result<CommandLine> {
        Ok(CommandLine {
            environment: self.environment.clone(),
            preparation: self.preparation.clone(),
            ..command_line(&self.words, parameters)?
        })
    }

    /// The variant with the values of a sweep.
    pub(crate) fn planned(
        &self,
        parameters: &Parameters,
        input: Option<&PathBuf>,
    ) -> anyhow::Result<PlannedVariant> {
        let mut command = self.command(parameters)?;
        command.input = input.cloned();
        Ok(PlannedVariant {
            name: self.name.clone(),
            role: self.role,
            allocator: self.allocator.clone(),
            tuning: self.tuning.clone(),
            executable_bytes: fs::metadata(&command.program).ok().map(|file| file.len()),
            files_sha256: match self.role {
                Role::Baseline => command_files::sha256(&command),
                Role::BaselineCopy | Role::Candidate => None,
            },
            command,
            activity: self.activity.clone(),
            unreached: self.unreached.clone(),
            first_run: None,
        })
    }

    /// The baseline once more: its second run of each round.
    pub(crate) fn copy(&self) -> ReadyVariant {
        ReadyVariant {
            name: format!("{} again", self.name),
            role: Role::BaselineCopy,
            ..self.clone()
        }
    }
}

/// The command that a person types, as reheap gives it to the kernel.
pub fn command_line(words: &[OsString], parameters: &Parameters) -> anyhow::Result<CommandLine> {
    let words: Vec<OsString> = words
        .iter()
        .map(|word| match word.to_str() {
            Some(text) => substitute(text, parameters).into(),
            None => word.clone(),
        })
        .collect();
    let (typed, arguments) = words.split_first().expect("a command has a word");
    let route = Route::find(typed)?;
    let (file, leading) = route.launch();
    let leading = leading.into_iter().map(OsString::from);
    Ok(CommandLine {
        program: std::path::absolute(file)?,
        arguments: leading.chain(arguments.iter().cloned()).collect(),
        ..CommandLine::default()
    })
}
