//! Options of allocators in code: variables that it sets, and symbols that jemalloc reads.

use super::items::{is_punctuation, is_word};
use crate::text::Text;
use proc_macro2::{TokenStream, TokenTree};
use std::path::PathBuf;

/// One place that sets options.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// What it sets.
    pub what: What,
}

/// What is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A variable of the own environment, by `set_var`.
    Variable(String),
    /// A symbol with the options of jemalloc.
    Symbol(String),
}

/// The names that jemalloc may look for.
const SYMBOLS: [&str; 2] = ["malloc_conf", "_rjem_malloc_conf"];

pub(super) fn of(tokens: &TokenStream, text: &Text) -> Vec<Setting> {
    let mut settings = Vec::new();
    add(
        &tokens.clone().into_iter().collect::<Vec<_>>(),
        text,
        &mut settings,
    );
    settings
}

fn add(tokens: &[TokenTree], text: &Text, settings: &mut Vec<Setting>) {
    for (at, token) in tokens.iter().enumerate() {
        let rest = &tokens[at + 1..];
        let what = match (token, rest) {
            (TokenTree::Ident(name), [TokenTree::Group(arguments), ..]) if name == "set_var" => {
                let first = arguments.stream().into_iter().next();
                first.and_then(|token| string(&token)).map(What::Variable)
            }
            (TokenTree::Ident(name), [equals, value, ..])
                if name == "export_name" && is_punctuation(equals, '=') =>
            {
                string(value).map(What::Symbol)
            }
            // Only with `#[no_mangle]`, without which nobody gives a static such a name.
            (TokenTree::Ident(name), [TokenTree::Ident(symbol), ..])
                if name == "static"
                    || name == "mut" && is_word(tokens.get(at.wrapping_sub(1)), "static") =>
            {
                Some(What::Symbol(symbol.to_string()))
            }
            _ => None,
        };
        if let Some(what) = what.filter(|what| what.is_of_interest()) {
            settings.push(Setting {
                path: text.path.clone(),
                line: token.span().start().line,
                what,
            });
        }
        if let TokenTree::Group(group) = token {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            add(&inside, text, settings);
        }
    }
}

impl What {
    fn is_of_interest(&self) -> bool {
        match self {
            Self::Variable(name) => name.starts_with("MIMALLOC_") || name.ends_with("MALLOC_CONF"),
            Self::Symbol(name) => SYMBOLS.contains(&name.as_str()),
        }
    }
}

/// The text of a literal string.
fn string(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else {
        return None;
    };
    let text = literal.to_string();
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    Some(inside.to_owned())
}
