//! The names that `use` and `extern crate` bring into a module.

use super::items::{Item, ItemKind, is_punctuation, is_word};
use crate::crates;
use proc_macro2::TokenTree;
use std::collections::{BTreeSet, HashMap};

/// What is imported.
#[derive(Debug, Clone, Default)]
pub(super) struct Imports {
    /// From a name to the paths that it is short for; under conditions, there may be several.
    names: HashMap<String, Vec<Vec<String>>>,
    /// The crates of which everything is imported.
    globs: Vec<String>,
}

impl Imports {
    pub(super) fn of(items: &[Item]) -> Self {
        Self::default().with(items)
    }

    /// These, and those of an inner block.
    pub(super) fn with(&self, items: &[Item]) -> Self {
        let mut all = self.clone();
        for item in items.iter().filter(|item| item.kind == ItemKind::Import) {
            let tokens = &item.tokens;
            let begin = tokens
                .iter()
                .position(|token| is_word(Some(token), "use") || is_word(Some(token), "crate"));
            all.add(
                &mut Vec::new(),
                &tokens[begin.map_or(0, |index| index + 1)..],
            );
        }
        all
    }

    /// The whole path of a path in this module.
    pub(super) fn resolved(&self, path: Vec<String>) -> Vec<String> {
        let paths = path.first().and_then(|first| self.names.get(first));
        match paths.and_then(|paths| paths.last()) {
            // A name may be imported under itself: `use mimalloc;`
            Some(whole) => whole
                .iter()
                .cloned()
                .chain(path.into_iter().skip(1))
                .collect(),
            None => match self.globs.iter().find(|name| has_type(name, &path)) {
                Some(name) => [vec![name.clone()], path].concat(),
                None => path,
            },
        }
    }

    /// The crates and modules with which the paths begin.
    pub(super) fn first_names(self) -> BTreeSet<String> {
        let paths = self.names.into_values().flatten();
        let names = paths.filter_map(|path| path.into_iter().next());
        names.chain(self.globs).collect()
    }

    /// Whether a path has one meaning.
    pub(super) fn is_one(&self, path: &[String]) -> bool {
        let paths = path.first().and_then(|first| self.names.get(first));
        paths.is_none_or(|paths| paths.windows(2).all(|two| two[0] == two[1]))
    }

    /// One tree of `use`, or several with commas between them.
    fn add(&mut self, prefix: &mut Vec<String>, tokens: &[TokenTree]) {
        for tree in tokens.split(|token| is_punctuation(token, ',') || is_punctuation(token, ';')) {
            let depth = prefix.len();
            let mut alias = None;
            let mut expects_alias = false;
            for token in tree {
                match token {
                    TokenTree::Ident(name) if name == "as" => expects_alias = true,
                    TokenTree::Ident(name) if expects_alias => alias = Some(name.to_string()),
                    TokenTree::Ident(name) if name == "self" && prefix.len() > depth => {}
                    TokenTree::Ident(name) => prefix.push(name.to_string()),
                    TokenTree::Group(group) => {
                        let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                        self.add(prefix, &inside);
                    }
                    token if is_punctuation(token, '*') => {
                        self.globs.extend(prefix.first().cloned())
                    }
                    _ => {}
                }
            }
            // `use a::{self}` names the module itself.
            let name = alias.or_else(|| prefix.last().cloned());
            if let Some(name) = name.filter(|_| !prefix.is_empty()) {
                self.names.entry(name).or_default().push(prefix.clone());
            }
            prefix.truncate(depth);
        }
    }
}

/// Whether a known crate of that name has such a type.
fn has_type(name: &str, path: &[String]) -> bool {
    let mut rows = crates::CRATES.iter();
    path.len() == 1
        && rows.any(|row| {
            crates::identifier(row.package) == name && row.type_name == Some(path[0].as_str())
        })
}
