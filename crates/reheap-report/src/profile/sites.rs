//! Call sites of all processes together: each stack once, and which of its functions is to be named.
//!
//! The innermost frames of most stacks are the same: `operator new`, `alloc::vec::Vec::push`. A table of these would
//! say nothing, so a call site is called after the innermost function that is not of a language's own library.

use crate::profile::histogram::sum;
use crate::profile::whole::Whole;
use reheap_profile::profile::{Frame, Site};
use std::collections::{BTreeMap, HashMap};

/// Where functions of languages' own libraries are.
const LIBRARIES: [&str; 13] = [
    "alloc::",
    "<alloc::",
    "core::",
    "<core::",
    "std::",
    "<std::",
    "hashbrown::",
    "<hashbrown::",
    "__rustc::",
    "__rust_",
    "operator new",
    "void* std::",
    "__gnu_cxx::",
];
/// Functions of C that allocate for others.
const ALLOCATING: [&str; 24] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "strdup",
    "strndup",
    "__strdup",
    "__strndup",
    "__rdl_alloc",
    "__rg_alloc",
    "je_malloc",
    "je_mallocx",
    "mi_malloc",
    "mi_zalloc",
    "g_malloc",
    "g_malloc0",
    "g_realloc",
    "xmalloc",
    "xcalloc",
    "xrealloc",
    "xstrdup",
];

/// Stacks and the frames that they are of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stacks<'a> {
    pub(crate) frames: Vec<&'a Frame>,
    /// That with most bytes first.
    pub(crate) stacks: Vec<Site>,
}

impl<'a> Stacks<'a> {
    pub(crate) fn of(whole: &Whole<'a>) -> Stacks<'a> {
        let mut frames: Vec<&Frame> = Vec::new();
        let mut places: HashMap<&Frame, u32> = HashMap::new();
        let mut stacks: BTreeMap<Vec<u32>, Site> = BTreeMap::new();
        for process in &whole.profile.processes {
            let of_process: Vec<u32> = (process.sites.frames.iter())
                .map(|frame| {
                    *places.entry(frame).or_insert_with(|| {
                        frames.push(frame);
                        frames.len() as u32 - 1
                    })
                })
                .collect();
            for site in &process.sites.stacks {
                let places: Vec<u32> = site
                    .frames
                    .iter()
                    .filter_map(|place| of_process.get(*place as usize).copied())
                    .collect();
                match stacks.get_mut(&places) {
                    Some(sum) => add(sum, site),
                    None => {
                        let frames = places.clone();
                        stacks.insert(
                            places,
                            Site {
                                frames,
                                ..site.clone()
                            },
                        );
                    }
                }
            }
        }
        let mut stacks: Vec<Site> = stacks.into_values().collect();
        stacks.sort_by(|one, other| other.allocated_bytes.total_cmp(&one.allocated_bytes));
        Stacks { frames, stacks }
    }

    pub(crate) fn bytes(&self) -> f64 {
        self.stacks.iter().map(|stack| stack.allocated_bytes).sum()
    }

    /// How many samples all estimates are from.
    pub(crate) fn samples(&self) -> u64 {
        sum(self.stacks.iter().map(|stack| stack.samples))
    }

    pub(crate) fn frame(&self, place: u32) -> &'a Frame {
        self.frames[place as usize]
    }

    /// The places in the program that allocated, that with most bytes first.
    pub(crate) fn call_sites(&self) -> Vec<CallSite<'a>> {
        let mut sites: Vec<CallSite<'a>> = Vec::new();
        let mut known: HashMap<Option<&Frame>, usize> = HashMap::new();
        for stack in &self.stacks {
            let own = self.own(stack);
            let frame = own.map(|at| self.frame(stack.frames[at]));
            let at = *known.entry(frame).or_insert_with(|| {
                let callers = own.map_or(&[][..], |at| &stack.frames[at + 1..]);
                sites.push(CallSite {
                    frame,
                    callers: callers.iter().map(|caller| self.frame(*caller)).collect(),
                    samples: 0,
                    blocks: 0.0,
                    bytes: 0.0,
                    bytes_error: 0.0,
                    live_bytes: 0.0,
                });
                sites.len() - 1
            });
            let site = &mut sites[at];
            site.samples = site.samples.saturating_add(stack.samples);
            site.blocks += stack.allocated_blocks;
            site.bytes += stack.allocated_bytes;
            site.bytes_error = site.bytes_error.hypot(stack.allocated_bytes_error);
            site.live_bytes += stack.live_bytes;
        }
        sites.sort_by(|one, other| other.bytes.total_cmp(&one.bytes));
        sites
    }

    /// Where in a stack the function is that it is called after.
    fn own(&self, stack: &Site) -> Option<usize> {
        let is_own = |place: &u32| {
            let function = self.frame(*place).function.as_str();
            let mut libraries = LIBRARIES.iter();
            let is_of_library = libraries.any(|library| function.starts_with(library));
            !is_of_library && !ALLOCATING.contains(&function)
        };
        match stack.frames.iter().position(is_own) {
            None if stack.frames.is_empty() => None,
            own => Some(own.unwrap_or(0)),
        }
    }
}

fn add(sum: &mut Site, more: &Site) {
    sum.samples = sum.samples.saturating_add(more.samples);
    sum.allocated_blocks += more.allocated_blocks;
    sum.allocated_bytes += more.allocated_bytes;
    sum.allocated_bytes_error = sum.allocated_bytes_error.hypot(more.allocated_bytes_error);
    sum.live_blocks += more.live_blocks;
    sum.live_bytes += more.live_bytes;
}

/// A place in the program that allocated.
#[derive(Clone, Debug)]
pub(crate) struct CallSite<'a> {
    /// None if nothing of the stack is known.
    pub(crate) frame: Option<&'a Frame>,
    /// Of the stack with most bytes, the innermost first.
    pub(crate) callers: Vec<&'a Frame>,
    pub(crate) samples: u64,
    pub(crate) blocks: f64,
    pub(crate) bytes: f64,
    /// The standard error of `bytes`.
    pub(crate) bytes_error: f64,
    pub(crate) live_bytes: f64,
}

impl CallSite<'_> {
    /// The function; `?` if it is not known.
    pub(crate) fn function(&self) -> &str {
        self.frame.map_or("?", |frame| &frame.function)
    }

    /// `json.rs:120`, or the library.
    pub(crate) fn place(&self) -> Option<String> {
        let frame = self.frame?;
        place(frame)
    }
}

/// Where a frame is: `json.rs:120`, or the executable or library.
pub(crate) fn place(frame: &Frame) -> Option<String> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => Some(format!("{}:{line}", name(file))),
        (Some(file), None) => Some(name(file)),
        (None, _) => frame.module.as_deref().map(name),
    }
}

/// A function's name without what is between angle brackets and behind the first bracket, where it is longer than this.
pub(crate) fn short_function(name: &str, letters_max: usize) -> String {
    if name.chars().count() <= letters_max {
        return name.to_owned();
    }
    without_arguments(name).unwrap_or_else(|| name.to_owned())
}

/// None if brackets do not match, as in `operator<`.
fn without_arguments(name: &str) -> Option<String> {
    let mut text = String::new();
    let mut depth = 0usize;
    let mut before = ' ';
    for (at, character) in name.char_indices() {
        match character {
            // A method of a trait begins with the type.
            '<' if at == 0 => return None,
            '<' => {
                if depth == 0 {
                    text.push_str("<…>");
                }
                depth += 1;
            }
            // The arrow of a function's type.
            '>' if before == '-' => {}
            '>' => depth = depth.checked_sub(1)?,
            '(' if depth == 0 && at > 0 && !name.starts_with('(') => break,
            _ if depth == 0 => text.push(character),
            _ => {}
        }
        before = character;
    }
    (depth == 0).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_arguments() {
        assert_eq!(
            short_function("a::Vec<u8, Global>::push", 10),
            "a::Vec<…>::push"
        );
        assert_eq!(short_function("parse(std::string const&)", 10), "parse");
        assert_eq!(short_function("short", 10), "short");
        assert_eq!(
            short_function("operator<(a, b, c)", 4),
            "operator<(a, b, c)"
        );
    }
}
