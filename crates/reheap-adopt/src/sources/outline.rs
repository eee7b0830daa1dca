//! What one file says, without the modules in other files; and where in it something can be inserted.

use super::items::{self, ItemKind};
use super::{GlobalAllocator, Walk, add_identifiers, tokens};
use crate::condition::Condition;
use crate::error::AdoptError;
use crate::text::Text;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;

/// The bytes of a file that matter to whoever inserts an item.
#[derive(Debug, Default)]
pub struct Outline {
    /// The end of the attributes and comments that are about the whole file.
    pub head_end: Option<usize>,
    /// The end of the imports and modules at the top.
    pub imports_end: Option<usize>,
    /// Where the first item begins that is neither.
    pub first_item: Option<usize>,
}

impl Outline {
    /// Of one file.
    ///
    /// # Errors
    /// If it is no Rust.
    pub fn of(text: &Text) -> Result<Self, AdoptError> {
        let mut outline = Self::default();
        for item in items::of(tokens(text)?) {
            let is_import = match item.kind {
                ItemKind::Import => true,
                ItemKind::Module(_) => item.braces().is_none(),
                _ => false,
            };
            if item.kind == ItemKind::Inner {
                outline.head_end = Some(item.end_of_attributes());
            } else if is_import {
                outline.imports_end = Some(item.bytes().end);
            } else {
                outline.first_item = Some(item.bytes().start);
                break;
            }
        }
        Ok(outline)
    }
}

/// The global allocators in one file.
///
/// # Errors
/// If it is no Rust.
pub fn allocators_in(text: &Text) -> Result<Vec<GlobalAllocator>, AdoptError> {
    let tokens = tokens(text)?;
    let mut walk = Walk {
        is_one_file: true,
        ..Walk::default()
    };
    walk.contents(text, tokens, PathBuf::new(), &Condition::always());
    Ok(walk.sources.allocators)
}

/// The identifiers of one file.
///
/// # Errors
/// If it is no Rust.
pub fn identifiers_in(text: &Text) -> Result<HashSet<String>, AdoptError> {
    let mut identifiers = HashSet::new();
    add_identifiers(&tokens(text)?, &mut identifiers);
    Ok(identifiers)
}

/// The bytes of the strings and other literals of one file; none if it is no Rust.
pub fn literals_in(text: &Text) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if let Ok(tokens) = tokens(text) {
        add_literals(tokens, &mut found);
    }
    found
}

fn add_literals(tokens: TokenStream, found: &mut Vec<Range<usize>>) {
    for token in tokens {
        match token {
            TokenTree::Literal(literal) => found.push(literal.span().byte_range()),
            TokenTree::Group(group) => add_literals(group.stream(), found),
            _ => {}
        }
    }
}

/// Whether code makes a whole program of generated code: it has no `main` of its own to see.
pub fn is_made_elsewhere(text: &Text) -> bool {
    let items = tokens(text).map(items::of).unwrap_or_default();
    let includes = |kind: &ItemKind| matches!(kind, ItemKind::Macro(name) if name == "include");
    let inner = items.iter().filter(|item| item.kind != ItemKind::Inner);
    let mut others = inner.peekable();
    others.peek().is_some() && others.all(|item| includes(&item.kind))
}
