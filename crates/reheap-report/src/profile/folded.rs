//! Folded stacks: a line for each stack, as `flamegraph.pl`, inferno and speedscope read them.

use crate::escape::visible;
use crate::profile::sites::Stacks;
use crate::profile::whole::Whole;
use reheap_profile::profile::{Profile, Site};

/// What the width of a stack stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The bytes that were allocated.
    Bytes,
    /// The blocks that were allocated.
    Blocks,
}

impl By {
    /// The figure of a stack.
    pub(crate) fn of(self, site: &Site) -> f64 {
        match self {
            By::Bytes => site.allocated_bytes,
            By::Blocks => site.allocated_blocks,
        }
    }
}

/// The stacks, the outermost function first, each with its bytes or blocks.
pub fn folded(profile: &Profile, by: By) -> String {
    let whole = Whole::of(profile);
    let stacks = Stacks::of(&whole);
    let mut text = String::new();
    for stack in &stacks.stacks {
        let frames = stack.frames.iter().rev();
        let names: Vec<String> = frames
            .map(|frame| name(&stacks.frame(*frame).function))
            .collect();
        let names = if names.is_empty() {
            "?".to_owned()
        } else {
            names.join(";")
        };
        let figure = by.of(stack).round() as u64;
        if figure > 0 {
            text.push_str(&format!("{names} {figure}\n"));
        }
    }
    text
}

/// A function without what separates functions.
fn name(function: &str) -> String {
    match function {
        "" => "?".to_owned(),
        function => visible(function).replace(';', ":"),
    }
}
