//! What the trials found, as it is kept in `trials.json`.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use xtask::files;

const FILE: &str = "trials.json";

/// All results, by the name of the program.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Records {
    /// The machine of the latest trial.
    pub(super) machine: serde_json::Value,
    /// The day of the latest trial.
    pub(super) day: String,
    pub(super) dynamic: BTreeMap<String, DynamicTrial>,
    #[serde(rename = "static")]
    pub(super) built: BTreeMap<String, StaticTrial>,
    #[serde(default)]
    pub(super) graft: BTreeMap<String, GraftTrial>,
}

/// A dynamic program: its plain run, and the same under each allocator.
#[derive(Serialize, Deserialize)]
pub(super) struct DynamicTrial {
    pub(super) day: String,
    /// Debian package to version, the program's own first by its row.
    pub(super) packages: BTreeMap<String, String>,
    pub(super) plain: Plain,
    pub(super) under: BTreeMap<String, Under>,
}

/// What a plain run does.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Plain {
    pub(super) outcome: String,
    pub(super) seconds: f64,
    pub(super) stdout_bytes: u64,
    pub(super) stdout_sha256: String,
    /// Whether standard error was the same in the plain runs, and so is compared.
    pub(super) stderr_is_compared: bool,
}

/// What a program does under an allocator.
#[derive(Serialize, Deserialize)]
pub(super) struct Under {
    #[serde(flatten)]
    pub(super) verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seconds: Option<f64>,
    /// The last lines of standard error, where the run was not the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stderr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) evidence: Option<Evidence>,
}

/// How a run compares with a plain one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "detail")]
pub(super) enum Verdict {
    Same,
    /// What differs.
    Differs(String),
    /// By which signal.
    Crashed(String),
    Hung,
    /// reheap's reason.
    Refused(String),
    /// It was the same, but the allocator was not seen in the program.
    NotActive,
}

impl Verdict {
    /// A cell of the table.
    pub(super) fn cell(&self) -> String {
        match self {
            Self::Same => "same".to_owned(),
            Self::Differs(what) => format!("**differs**: {what}"),
            Self::Crashed(signal) => format!("**crashed**: {signal}"),
            Self::Hung => "**hung**".to_owned(),
            Self::Refused(_) => "refused".to_owned(),
            Self::NotActive => "**not active**".to_owned(),
        }
    }
}

/// What the dynamic linker's own log says of a second run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Evidence {
    /// How often the program was started and got its malloc from the allocator's library.
    pub(super) starts: usize,
    /// How many programs of any name did.
    pub(super) starts_of_all: usize,
    /// Functions of the malloc family that something bound elsewhere, as `who: function of whom`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) elsewhere: Vec<String>,
}

/// A program that was built statically, and its test suite.
#[derive(Serialize, Deserialize)]
pub(super) struct StaticTrial {
    pub(super) day: String,
    pub(super) version: String,
    /// How many tests the build with musl's own allocator has, and which of them fail.
    pub(super) stock: Tests,
    pub(super) with: BTreeMap<String, With>,
}

/// What a test suite says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tests {
    pub(super) passed: usize,
    pub(super) failed: Vec<String>,
}

/// A test suite under an allocator.
#[derive(Serialize, Deserialize)]
pub(super) struct With {
    #[serde(flatten)]
    pub(super) verdict: Verdict,
    pub(super) seconds: f64,
    /// The executables in which reheap's marker was found again.
    pub(super) proved: usize,
    /// The end of the output, where it was not the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<String>,
}

/// A released program, and what became of it with each allocator.
#[derive(Serialize, Deserialize)]
pub(super) struct GraftTrial {
    pub(super) day: String,
    pub(super) origin: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
    /// Nothing for a program that is expected to be refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) plain: Option<Plain>,
    pub(super) with: BTreeMap<String, Grafted>,
}

/// A program with an allocator.
#[derive(Serialize, Deserialize)]
pub(super) struct Grafted {
    #[serde(flatten)]
    pub(super) verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) done: Option<GraftDone>,
    /// The last lines of standard error, where the run was not the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stderr: Option<String>,
}

/// What `reheap graft` says that it did.
#[derive(Serialize, Deserialize)]
pub(super) struct GraftDone {
    pub(super) functions: Vec<String>,
    pub(super) found_by: String,
    pub(super) more_bytes: u64,
}

impl Records {
    /// Those of the directory; none if there are none yet.
    pub(super) fn read(directory: &Path) -> Result<Records> {
        let path = directory.join(FILE);
        if !path.exists() {
            return Ok(Records::default());
        }
        files::read_json(&path)
    }

    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        files::write(directory.join(FILE), files::json(self)?)
    }
}
