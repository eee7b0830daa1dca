//! What was seen: how each run of each attack ended, under each variant.

use reheap_bench::results::{AllocatorVersion, LeftOut, Machine};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The version of the format.
pub const FORMAT: u32 = 1;

/// All that `reheap attack` found out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The version of the format, and what tells such a file from others.
    pub reheap_attack: u32,
    /// The version of reheap.
    pub reheap: String,
    /// Where it was.
    pub machine: Machine,
    /// Whether addresses were random.
    pub randomisation: Randomisation,
    /// How often each attack ran under each variant.
    pub runs: u32,
    /// What was tried, in the order of the rows.
    pub attacks: Vec<Attack>,
    /// Under what, in the order of the columns.
    pub variants: Vec<Variant>,
    /// The variants that took no part.
    pub left_out: Vec<LeftOut>,
}

/// Whether the kernel chooses addresses at random. Some outcomes are chance only if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Randomisation {
    /// Of everything.
    On,
    /// Not of the heap behind the program (`kernel.randomize_va_space=1`).
    Partly,
    /// Every start has the same addresses.
    Off,
}

/// A memory error, and what the attacker wants from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attack {
    /// As the user types it.
    pub name: String,
    /// Its number in the Common Weakness Enumeration.
    pub cwe: u16,
    /// What the program does wrong.
    pub error: String,
    /// What the attacker gets if it succeeds.
    pub gain: String,
}

/// A libc with an allocator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// As the user types it.
    pub name: String,
    /// The allocator; none if it is the user's own command.
    pub allocator: Option<AllocatorVersion>,
    /// Its options.
    pub tuning: BTreeMap<String, String>,
    /// Where its `malloc` was seen.
    pub malloc_in: String,
    /// One for each attack, in their order.
    pub cells: Vec<Cell>,
    /// What many starts had as addresses.
    pub starts: Starts,
}

/// How the runs of one attack ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The attack.
    pub attack: String,
    /// Runs that ended in the same way are counted together.
    pub endings: Vec<Ending>,
}

/// One way to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// What it means.
    pub outcome: Outcome,
    /// The allocator's message, or what else was seen.
    pub said: String,
    /// How many runs ended so.
    pub runs: u32,
}

/// What the end of a run means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The allocator noticed the error and ended the program.
    Stopped,
    /// The program ran on, and the attacker got nothing.
    NoEffect,
    /// A fault that nobody detected, or a program that does not go on.
    Crashed,
    /// The attacker got what they wanted.
    Succeeded,
}

/// What addresses looked like over many starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Starts {
    /// Of the first block of 64 bytes, one for each start.
    pub small: Vec<u64>,
    /// Of a block of 1 MiB.
    pub large: Vec<u64>,
    /// From one block of 64 bytes to the next, in bytes, and how often.
    pub distances: BTreeMap<i64, u32>,
}

/// Why a file has no results to read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Cut short, or something else.
    #[error("it is not JSON, or was cut short ({0})")]
    NotJson(serde_json::Error),
    /// JSON of something else.
    #[error("it is not what `reheap attack --json` wrote")]
    NotResults,
    /// Of another reheap.
    #[error("it has format {0}, and this reheap reads format {FORMAT}")]
    OtherFormat(u64),
    /// The format fits, the content does not.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

/// The file's text.
pub fn to_json(results: &Results) -> String {
    let mut text = serde_json::to_string_pretty(results).expect("results have only string keys");
    text.push('\n');
    text
}

/// Reads a file that reheap wrote.
///
/// # Errors
/// If it is no such file, was cut short or damaged, or has another format.
pub fn from_json(text: &str) -> Result<Results, ReadError> {
    let value: Value = serde_json::from_str(text).map_err(ReadError::NotJson)?;
    match value.get("reheap_attack").and_then(Value::as_u64) {
        None => return Err(ReadError::NotResults),
        Some(format) if format != u64::from(FORMAT) => return Err(ReadError::OtherFormat(format)),
        Some(_) => {}
    }
    let results: Results =
        serde_json::from_value(value).map_err(|error| ReadError::Damaged(error.to_string()))?;
    for variant in &results.variants {
        let fits = |(cell, attack): (&Cell, &Attack)| {
            cell.attack == attack.name && cell.endings.iter().any(|ending| ending.runs > 0)
        };
        let fit = variant.cells.iter().zip(&results.attacks).all(fits);
        if !fit || variant.cells.len() != results.attacks.len() {
            let name = &variant.name;
            let text = format!("`{name}` has other attacks than the list");
            return Err(ReadError::Damaged(text));
        }
    }
    Ok(results)
}
