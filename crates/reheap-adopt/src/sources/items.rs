//! Items of Rust as far as they matter here: their attributes, and where they begin and end.

use super::ATTRIBUTE;
use crate::condition::Condition;
use crate::text::Text;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::ops::Range;

/// An item, or a statement.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) kind: ItemKind,
    /// What is in the brackets of each attribute.
    attributes: Vec<Group>,
    /// All of it but the attributes.
    pub(super) tokens: Vec<TokenTree>,
    start: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// `#![…]`, which is of what it is in.
    Inner,
    /// `mod name`
    Module(String),
    /// `static`
    Static,
    /// `use …`, `extern crate …`
    Import,
    /// A call of a macro, by its last name.
    Macro(String),
    /// Anything else.
    Other,
}

/// Items that end only at a semicolon, whatever braces they have.
const UNTIL_SEMICOLON: [&str; 6] = ["static", "const", "use", "type", "extern", "let"];
/// After these, they are no such items.
const NOT_AFTER: [&str; 4] = ["fn", "unsafe", "async", "impl"];

/// The items of a module, or of a body.
pub(super) fn of(tokens: TokenStream) -> Vec<Item> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut items = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let start_at = |at: usize| {
            let token = tokens.get(at);
            token.map_or(0, |token| token.span().byte_range().start)
        };
        let mut start = start_at(at);
        let mut attributes = Vec::new();
        while let Some((group, is_inner, length)) = attribute(&tokens[at..]) {
            at += length;
            if is_inner {
                items.push(Item {
                    kind: ItemKind::Inner,
                    attributes: vec![group],
                    tokens: Vec::new(),
                    start,
                });
                start = start_at(at);
            } else {
                attributes.push(group);
            }
        }
        let length = length_of_item(&tokens[at..]);
        let own = tokens[at..at + length].to_vec();
        at += length;
        if !own.is_empty() {
            items.push(Item {
                kind: kind(&own),
                attributes,
                tokens: own,
                start,
            });
        }
    }
    items
}

/// What is in the brackets of an attribute, whether it has a `!`, and how many tokens it is.
fn attribute(tokens: &[TokenTree]) -> Option<(Group, bool, usize)> {
    if !is_punctuation(tokens.first()?, '#') {
        return None;
    }
    let is_inner = is_punctuation(tokens.get(1)?, '!');
    let length = if is_inner { 3 } else { 2 };
    match tokens.get(length - 1)? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
            Some((group.clone(), is_inner, length))
        }
        _ => None,
    }
}

fn length_of_item(tokens: &[TokenTree]) -> usize {
    let words: Vec<String> = tokens.iter().map_while(word).collect();
    let ends_late = words.iter().enumerate().any(|(index, word)| {
        let next = words.get(index + 1).map(String::as_str);
        UNTIL_SEMICOLON.contains(&word.as_str())
            && !next.is_some_and(|next| NOT_AFTER.contains(&next))
            && (word != "extern" || next == Some("crate"))
    });
    let is_end = |token: &TokenTree| {
        let is_brace =
            matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        is_punctuation(token, ';') || is_brace && !ends_late
    };
    tokens
        .iter()
        .position(is_end)
        .map_or(tokens.len(), |end| end + 1)
}

fn word(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(name) => Some(name.to_string()),
        // `pub(crate)`
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => {
            Some(String::new())
        }
        _ => None,
    }
}

fn kind(tokens: &[TokenTree]) -> ItemKind {
    let mut at = 0;
    if is_word(tokens.first(), "pub") {
        at = 1;
        if matches!(tokens.get(1), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
        {
            at = 2;
        }
    }
    let rest = &tokens[at..];
    if let [first, TokenTree::Ident(name), ..] = rest
        && is_word(Some(first), "mod")
    {
        let name = name.to_string();
        return ItemKind::Module(name.trim_start_matches("r#").to_owned());
    }
    if is_word(rest.first(), "static") {
        return ItemKind::Static;
    }
    if is_word(rest.first(), "use")
        || is_word(rest.first(), "extern") && is_word(rest.get(1), "crate")
    {
        return ItemKind::Import;
    }
    match name_of_macro(rest) {
        Some(name) => ItemKind::Macro(name),
        None => ItemKind::Other,
    }
}

/// The last name of a call such as `a::b! { … }`.
fn name_of_macro(tokens: &[TokenTree]) -> Option<String> {
    let end = tokens.iter().position(|token| match token {
        TokenTree::Ident(_) => false,
        token => !is_punctuation(token, ':'),
    })?;
    match (tokens.get(end.checked_sub(1)?)?, &tokens[end]) {
        (TokenTree::Ident(name), bang) if is_punctuation(bang, '!') => Some(name.to_string()),
        _ => None,
    }
}

/// Of how many branches the conditions are known. Each has those of all before it, so they would fill the memory.
const BRANCHES_MAX: usize = 64;

/// The branches of `cfg_if!`, each with its whole condition.
pub(super) fn branches_of_cfg_if(item: &Item, text: &Text) -> Vec<(Condition, Vec<Item>)> {
    let arguments = item.tokens.iter().find_map(|token| match token {
        TokenTree::Group(group) => Some(group.stream()),
        _ => None,
    });
    let mut branches = Vec::new();
    let mut none_before = Condition::always();
    let mut here = Condition::always();
    let tokens: Vec<TokenTree> = arguments.into_iter().flatten().collect();
    let mut at = 0;
    while at < tokens.len() {
        if let Some((group, _, length)) = attribute(&tokens[at..]) {
            here = conditions_of(&group, text);
            at += length;
            continue;
        }
        if let TokenTree::Group(group) = &tokens[at]
            && group.delimiter() == Delimiter::Brace
        {
            branches.push((none_before.and(&here), of(group.stream())));
            none_before = match branches.len() {
                ..BRANCHES_MAX => none_before.and(&Condition::Not(Box::new(here))),
                _ => Condition::Unknown("no branch before it".to_owned()),
            };
            here = Condition::always();
        }
        at += 1;
    }
    branches
}

impl Item {
    /// The condition of all its `cfg` attributes.
    pub(super) fn condition(&self, text: &Text) -> Condition {
        let conditions = self
            .attributes
            .iter()
            .map(|attribute| conditions_of(attribute, text));
        conditions.fold(Condition::always(), |all, one| all.and(&one))
    }

    pub(super) fn has_attribute(&self, name: &str) -> bool {
        self.attributes
            .iter()
            .any(|attribute| is_word(attribute.stream().into_iter().next().as_ref(), name))
    }

    /// Where it says that it is the global allocator, and under which condition it says so.
    pub(super) fn global_allocator(&self, text: &Text) -> Option<(usize, Condition)> {
        self.attributes.iter().find_map(|group| {
            let at = group.span().byte_range().start;
            let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
            let last = tokens.last();
            if is_word(last, ATTRIBUTE) {
                return Some((at, Condition::always()));
            }
            let (name, arguments) = call(&tokens)?;
            let arguments: Vec<TokenTree> = arguments.stream().into_iter().collect();
            match name.as_str() {
                // Rust 2024: `#[unsafe(…)]`; nobody needs it here, but it is allowed around attributes.
                "unsafe" if is_word(arguments.last(), ATTRIBUTE) => Some((at, Condition::always())),
                "cfg_attr" => {
                    let comma = arguments
                        .iter()
                        .position(|token| is_punctuation(token, ','))?;
                    let (condition, then) = arguments.split_at(comma);
                    let is_it = then.iter().any(|token| is_word(Some(token), ATTRIBUTE));
                    is_it.then(|| (at, Condition::of_cfg(&slice(condition, text))))
                }
                _ => None,
            }
        })
    }

    /// Whether it is the global allocator under a condition and a plain static otherwise.
    pub(super) fn is_global_allocator_sometimes(&self, text: &Text) -> bool {
        let global = self.global_allocator(text);
        global.is_some_and(|(_, condition)| !condition.is_always())
    }

    /// The line on which it begins, below its attributes.
    pub(super) fn line(&self) -> usize {
        self.tokens
            .first()
            .map_or(1, |token| token.span().start().line)
    }

    /// The path of `include!("…")`.
    pub(super) fn included(&self) -> Option<String> {
        let arguments: Vec<TokenTree> = self
            .tokens
            .iter()
            .find_map(|token| match token {
                TokenTree::Group(group) => Some(group.stream()),
                _ => None,
            })?
            .into_iter()
            .collect();
        match &arguments[..] {
            [TokenTree::Literal(path)] => Some(path.to_string().trim_matches('"').to_owned()),
            _ => None,
        }
    }

    /// The value of `#[path = "…"]`.
    pub(super) fn path_attribute(&self) -> Option<String> {
        self.attributes.iter().find_map(|group| {
            let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
            match (&tokens[..], is_word(tokens.first(), "path")) {
                ([_, _, TokenTree::Literal(path)], true) => {
                    let path = path.to_string();
                    Some(path.trim_matches('"').to_owned())
                }
                _ => None,
            }
        })
    }

    /// What is in the braces that it ends with.
    pub(super) fn braces(&self) -> Option<TokenStream> {
        match self.tokens.last() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                Some(group.stream())
            }
            _ => None,
        }
    }

    /// The bytes of the file that it takes, with its attributes.
    pub(super) fn bytes(&self) -> Range<usize> {
        let end = self
            .tokens
            .last()
            .map(|token| token.span().byte_range().end);
        self.start..end.unwrap_or(self.start)
    }

    /// Where its last attribute ends.
    pub(super) fn end_of_attributes(&self) -> usize {
        let last = self.attributes.last();
        last.map_or(self.start, |last| last.span().byte_range().end)
    }

    /// The paths of names in a static's type.
    pub(super) fn type_paths(&self) -> Vec<Vec<String>> {
        let from = self
            .tokens
            .iter()
            .position(|token| is_punctuation(token, ':'));
        let to = self
            .tokens
            .iter()
            .position(|token| is_punctuation(token, '='));
        let end = to.unwrap_or(self.tokens.len());
        let tokens = from.map_or(&[][..], |from| &self.tokens[(from + 1).min(end)..end]);
        paths(tokens)
    }
}

/// The paths among tokens, such as `a::B` and `C` of `a::B<C>`.
fn paths(tokens: &[TokenTree]) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(name) if colons == 2 || path.is_empty() => {
                path.push(name.to_string());
                colons = 0;
            }
            token if is_punctuation(token, ':') => colons += 1,
            token => {
                if !path.is_empty() {
                    all.push(std::mem::take(&mut path));
                }
                colons = 0;
                if let TokenTree::Ident(name) = token {
                    path.push(name.to_string());
                }
            }
        }
    }
    if !path.is_empty() {
        all.push(path);
    }
    all
}

/// The condition of an attribute, if it is `cfg(…)`.
fn conditions_of(attribute: &Group, text: &Text) -> Condition {
    let tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
    match call(&tokens) {
        Some((name, arguments)) if name == "cfg" => {
            let arguments: Vec<TokenTree> = arguments.stream().into_iter().collect();
            Condition::of_cfg(&slice(&arguments, text))
        }
        _ => Condition::always(),
    }
}

/// `name(arguments)`
fn call(tokens: &[TokenTree]) -> Option<(String, &Group)> {
    match tokens {
        [TokenTree::Ident(name), TokenTree::Group(arguments)] => {
            Some((name.to_string(), arguments))
        }
        _ => None,
    }
}

/// The text of tokens, without the comments between them.
fn slice(tokens: &[TokenTree], text: &Text) -> String {
    let mut all = String::new();
    let mut end = None;
    for token in tokens {
        let bytes = token.span().byte_range();
        match token {
            TokenTree::Group(group) => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                all += &format!("({})", slice(&inside, text));
            }
            _ => {
                // Between two words.
                if end.is_some_and(|end: usize| end < bytes.start) {
                    all.push(' ');
                }
                all += &text.contents[bytes.clone()];
            }
        }
        end = Some(bytes.end);
    }
    all
}

pub(super) fn is_punctuation(token: &TokenTree, which: char) -> bool {
    matches!(token, TokenTree::Punct(mark) if mark.as_char() == which)
}

pub(super) fn is_word(token: Option<&TokenTree>, which: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(word)) if word == which)
}
