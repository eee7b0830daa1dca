//! What a user asks for: the words of a command of `cargo reheap`, taken apart before anything is looked up.

use super::flags::Flags;
use super::messages::Format;
use reheap_command::choice::Wishes;
use reheap_command::ui::Failure;
use std::ffi::OsString;

/// The Cargo commands that reheap wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// `cargo build`
    Build,
    /// `cargo check`
    Check,
    /// `cargo clippy`
    Clippy,
    /// `cargo install`
    Install,
    /// `cargo run`
    Run,
    /// `cargo rustc`
    Rustc,
    /// `cargo test`
    Test,
}

impl Verb {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Check => "check",
            Self::Clippy => "clippy",
            Self::Install => "install",
            Self::Run => "run",
            Self::Rustc => "rustc",
            Self::Test => "test",
        }
    }

    /// Whether Cargo only looks at the sources, and links nothing.
    pub(super) fn only_checks(self) -> bool {
        matches!(self, Self::Check | Self::Clippy)
    }
}

/// What a user asks for.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) verb: Verb,
    /// The choices that win over the manifests, the strongest first.
    pub(super) wishes: Vec<Wishes>,
    /// The values of `--target`.
    pub(super) targets: Vec<String>,
    /// Flags for Cargo, without `--target` and `--message-format`.
    pub(super) flags: Flags,
    /// The arguments after Cargo's flags, for the program.
    pub(super) program_arguments: Vec<OsString>,
    /// The values of `--message-format`.
    message_formats: Vec<String>,
}

impl Request {
    /// The words of a command, with what the flags of reheap and the environment wish for.
    pub(super) fn new(
        verb: Verb,
        of_flags: &Wishes,
        arguments: &[OsString],
    ) -> anyhow::Result<Self> {
        let wishes = vec![of_flags.clone(), Wishes::of_environment_for_static()?];
        let mut flags = Flags::new(arguments);
        let program_arguments = flags.split_off(match verb {
            Verb::Run => flags.first_word(),
            _ => flags.double_dash(),
        });
        let targets = flags.take_values("--target");
        if flags.has(&["--target"]) {
            // Cargo would not see that it is there: reheap gives it a target of its own.
            let text = "`--target` has no value";
            let hint = "name a target: --target x86_64-unknown-linux-musl";
            return Err(Failure::usage(text).hint(hint).into());
        }
        Ok(Self {
            verb,
            wishes,
            targets,
            message_formats: flags.take_values("--message-format"),
            flags,
            program_arguments,
        })
    }

    /// This request for one target, and no other.
    pub(super) fn for_target(&self, triple: &str) -> Self {
        Self {
            targets: vec![triple.to_owned()],
            ..self.clone()
        }
    }

    pub(super) fn message_format(&self) -> Format {
        Format::of(&self.message_formats)
    }

    pub(super) fn words_of_message_formats(&self) -> impl Iterator<Item = &str> {
        let formats = self.message_formats.iter();
        formats.flat_map(|format| ["--message-format", format])
    }
}
