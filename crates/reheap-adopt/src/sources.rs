//! Where a crate's sources set a global allocator, and under which condition.
//!
//! Sources are read as tokens and not as syntax trees: that works for every edition and for unstable syntax, and a token
//! knows its place in the file. Modules are followed as rustc does (Rust reference, "Modules"). What a macro makes cannot
//! be known; a `#[global_allocator]` inside a call of one is found, and marked as such. `cfg_if!` and `include!` are
//! understood.

mod imports;
mod items;
mod mentions;
mod outline;
pub mod settings;

use crate::condition::Condition;
use crate::error::AdoptError;
use crate::text::Text;
use imports::Imports;
use items::{Item, ItemKind};
pub use mentions::Mention;
pub use outline::{Outline, allocators_in, identifiers_in, is_made_elsewhere, literals_in};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use settings::Setting;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Brackets in brackets, and modules in modules. Nobody writes so many, and each costs some of the stack.
const DEPTH_MAX: usize = 256;
/// The attribute.
const ATTRIBUTE: &str = "global_allocator";

/// A `#[global_allocator]`.
#[derive(Debug, Clone)]
pub struct GlobalAllocator {
    /// The file.
    pub path: PathBuf,
    /// Where the attribute is, from 1.
    pub line: usize,
    /// The bytes of the item, with its attributes.
    pub bytes: Range<usize>,
    /// The paths in its type, as code of this crate would write them in full: the type's own, then those of parameters.
    pub types: Vec<Vec<String>>,
    /// When it is compiled.
    pub condition: Condition,
    /// Where in the code it is.
    pub place: Place,
    /// Whether the names in its type are imported from one crate only, whatever the build.
    pub is_one_type: bool,
}

/// Where an item is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a module.
    Module,
    /// In the body of a function or another item.
    Body,
    /// Among the arguments of a macro, which may compile it or not.
    Macro(String),
}

/// What the sources of one crate say.
#[derive(Debug, Default)]
pub struct Sources {
    /// The global allocators.
    pub allocators: Vec<GlobalAllocator>,
    /// Where else the code needs crates.
    pub mentions: Vec<Mention>,
    /// The names of its modules.
    pub modules: HashSet<String>,
    /// Every identifier in the code.
    pub identifiers: HashSet<String>,
    /// The files, the root first.
    pub files: Vec<PathBuf>,
    /// Files that are no Rust, or cannot be read.
    pub unread: Vec<AdoptError>,
    /// Whether the crate does without the standard library on all targets.
    pub is_no_std: bool,
    /// Where `compile_error!` says that there is no such build.
    pub refused: Vec<Condition>,
    /// Whether it has items beside allocators, imports and modules.
    pub does_more: bool,
    /// Options of allocators that it sets.
    pub settings: Vec<Setting>,
}

/// A module while its items are read.
struct Module {
    /// Where the files of its own modules are.
    directory: PathBuf,
    condition: Condition,
    place: Place,
    imports: Imports,
}

/// What all modules of a walk share.
#[derive(Default)]
struct Walk {
    sources: Sources,
    /// Without links: a directory that leads to itself has its files by endless names.
    seen: BTreeSet<PathBuf>,
    /// In how many modules, bodies and branches it is.
    depth: usize,
    /// Modules in other files are left out.
    is_one_file: bool,
}

impl Sources {
    /// Reads a crate, from the file of its root.
    pub fn of_crate(root: &Path) -> Self {
        let mut walk = Walk::default();
        let directory = root.parent().unwrap_or(Path::new("")).to_owned();
        walk.file(root, directory, &Condition::always());
        walk.sources
    }

    /// The identifiers of one file, whatever includes it.
    ///
    /// # Errors
    /// If it cannot be read, or is no Rust.
    pub fn identifiers_of(path: &Path) -> Result<HashSet<String>, AdoptError> {
        let text = Text::read(path)?;
        let mut identifiers = HashSet::new();
        add_identifiers(&tokens(&text)?, &mut identifiers);
        Ok(identifiers)
    }
}

impl Walk {
    fn file(&mut self, path: &Path, directory: PathBuf, condition: &Condition) {
        if let Some((text, tokens)) = self.read(path) {
            self.contents(&text, tokens, directory, condition);
        }
    }

    /// A file that was not read before.
    fn read(&mut self, path: &Path) -> Option<(Text, TokenStream)> {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if !self.seen.insert(real) {
            return None;
        }
        let read = Text::read(path).and_then(|text| match self.depth {
            ..DEPTH_MAX => tokens(&text).map(|tokens| (text, tokens)),
            _ => Err(too_deep(&text)),
        });
        read.map_err(|error| self.sources.unread.push(error)).ok()
    }

    /// What a file says as a whole, whether it is a module or included in one.
    fn add_file(&mut self, text: &Text, tokens: &TokenStream) {
        self.sources.files.push(text.path.clone());
        add_identifiers(tokens, &mut self.sources.identifiers);
        self.sources.settings.extend(settings::of(tokens, text));
    }

    fn contents(
        &mut self,
        text: &Text,
        tokens: TokenStream,
        directory: PathBuf,
        condition: &Condition,
    ) {
        let is_root = self.sources.files.is_empty();
        self.add_file(text, &tokens);
        let items = items::of(tokens);
        let inner = items.iter().filter(|item| item.kind == ItemKind::Inner);
        let mut condition = condition.clone();
        for item in inner {
            condition = condition.and(&item.condition(text));
            self.sources.is_no_std |= is_root && item.has_attribute("no_std");
        }
        let module = Module {
            directory,
            condition,
            place: Place::Module,
            imports: Imports::of(&items),
        };
        self.items(text, &items, &module);
    }

    fn items(&mut self, text: &Text, items: &[Item], module: &Module) {
        self.depth += 1;
        self.each_item(text, items, module);
        self.depth -= 1;
    }

    fn each_item(&mut self, text: &Text, items: &[Item], module: &Module) {
        for item in items {
            let condition = || module.condition.and(&item.condition(text));
            if module.place == Place::Module {
                let mentions = mentions::of(item, text, &module.imports, &condition());
                self.sources.mentions.extend(mentions);
            }
            match &item.kind {
                ItemKind::Module(name) => self.module(text, item, name, module),
                ItemKind::Static if item.global_allocator(text).is_some() => {
                    self.allocator(text, item, module);
                }
                ItemKind::Macro(name) if name == "cfg_if" => {
                    let branches = items::branches_of_cfg_if(item, text);
                    for (branch, body) in branches {
                        let inside = Module {
                            directory: module.directory.clone(),
                            condition: condition().and(&branch),
                            place: module.place.clone(),
                            imports: module.imports.with(&body),
                        };
                        self.items(text, &body, &inside);
                    }
                }
                ItemKind::Macro(name) if name == "compile_error" => {
                    self.sources.refused.push(condition());
                }
                ItemKind::Macro(name) if name == "include" && module.place == Place::Module => {
                    self.included(text, item, module, &condition());
                }
                kind if mentions_attribute(&item.tokens) => {
                    let place = match (kind, &module.place) {
                        (_, Place::Macro(name)) | (ItemKind::Macro(name), _) => {
                            Place::Macro(name.clone())
                        }
                        _ => Place::Body,
                    };
                    self.bodies(text, &item.tokens, &condition(), place, &module.imports);
                }
                ItemKind::Other => self.sources.does_more = true,
                _ => {}
            }
        }
    }

    /// Looks into whatever is in braces, brackets and parentheses.
    fn bodies(
        &mut self,
        text: &Text,
        tokens: &[TokenTree],
        condition: &Condition,
        place: Place,
        imports: &Imports,
    ) {
        for token in tokens {
            let TokenTree::Group(group) = token else {
                continue;
            };
            let items = items::of(group.stream());
            let inside = Module {
                directory: PathBuf::new(),
                condition: condition.clone(),
                place: place.clone(),
                imports: imports.with(&items),
            };
            self.items(text, &items, &inside);
        }
    }

    fn module(&mut self, text: &Text, item: &Item, name: &str, parent: &Module) {
        self.sources.modules.insert(name.to_owned());
        let condition = parent.condition.and(&item.condition(text));
        let path = item.path_attribute();
        if let Some(body) = item.braces() {
            let items = items::of(body);
            let inner = items.iter().filter(|item| item.kind == ItemKind::Inner);
            let inside = Module {
                directory: parent.directory.join(path.as_deref().unwrap_or(name)),
                condition: inner.fold(condition, |all, item| all.and(&item.condition(text))),
                place: parent.place.clone(),
                imports: Imports::of(&items),
            };
            self.items(text, &items, &inside);
            return;
        }
        if self.is_one_file {
            return;
        }
        if let Some(path) = path {
            // Relative to the file's directory; the files of its own modules are beside it.
            let file = text.path.parent().unwrap_or(Path::new("")).join(path);
            let directory = file.parent().unwrap_or(Path::new("")).to_owned();
            self.file_if_there(&file, directory, &condition);
            return;
        }
        let directory = parent.directory.join(name);
        let flat = parent.directory.join(format!("{name}.rs"));
        if flat.is_file() {
            self.file(&flat, directory, &condition)
        } else {
            self.file_if_there(&directory.join("mod.rs"), directory, &condition)
        }
    }

    /// The items of a file that `include!` names; its path begins at the file that includes it. Files that a build script
    /// makes have no such path.
    fn included(&mut self, text: &Text, item: &Item, parent: &Module, condition: &Condition) {
        let Some(path) = item.included().filter(|_| !self.is_one_file) else {
            return;
        };
        let file = text.path.parent().unwrap_or(Path::new("")).join(path);
        if !file.is_file() {
            return;
        }
        let Some((included, tokens)) = self.read(&file) else {
            return;
        };
        self.add_file(&included, &tokens);
        let items = items::of(tokens);
        let inside = Module {
            directory: file.parent().unwrap_or(Path::new("")).to_owned(),
            condition: condition.clone(),
            place: Place::Module,
            imports: parent.imports.with(&items),
        };
        self.items(&included, &items, &inside);
    }

    /// A build script may make a module that is not there yet.
    fn file_if_there(&mut self, path: &Path, directory: PathBuf, condition: &Condition) {
        if path.is_file() {
            self.file(path, directory, condition);
        }
    }

    fn allocator(&mut self, text: &Text, item: &Item, module: &Module) {
        let Some((at, condition)) = item.global_allocator(text) else {
            return;
        };
        let written = item.type_paths();
        let is_one_type = written.iter().all(|path| module.imports.is_one(path));
        let paths = written.into_iter();
        self.sources.allocators.push(GlobalAllocator {
            path: text.path.clone(),
            line: text.line(at),
            bytes: item.bytes(),
            types: paths.map(|path| module.imports.resolved(path)).collect(),
            condition: module.condition.and(&item.condition(text)).and(&condition),
            place: module.place.clone(),
            is_one_type,
        });
    }
}

/// The tokens of a file; a `#!` line is none. They are not so deep that a function that calls itself for each bracket
/// would leave its stack.
fn tokens(text: &Text) -> Result<TokenStream, AdoptError> {
    let mut contents = text.contents.clone();
    let is_script = contents.starts_with("#!") && !contents[2..].trim_start().starts_with('[');
    if is_script || contents.starts_with('\u{feff}') {
        // As many bytes, so that places stay the same.
        let end = if is_script {
            contents.find('\n').unwrap_or(contents.len())
        } else {
            '\u{feff}'.len_utf8()
        };
        contents.replace_range(..end, &" ".repeat(end));
    }
    let tokens: TokenStream =
        contents
            .parse()
            .map_err(|error: proc_macro2::LexError| AdoptError::Syntax {
                path: text.path.clone(),
                line: error.span().start().line,
                reason:
                    "it is no Rust: a bracket or a string is not closed, or a character is wrong"
                        .to_owned(),
            })?;
    if is_too_deep(&tokens) {
        Err(too_deep(text))
    } else {
        Ok(tokens)
    }
}

fn is_too_deep(tokens: &TokenStream) -> bool {
    let mut level = vec![tokens.clone()];
    for _ in 0..=DEPTH_MAX {
        let groups = level.into_iter().flatten().filter_map(|token| match token {
            TokenTree::Group(group) => Some(group.stream()),
            _ => None,
        });
        level = groups.collect();
    }
    !level.is_empty()
}

fn too_deep(text: &Text) -> AdoptError {
    AdoptError::Syntax {
        path: text.path.clone(),
        line: 1,
        reason: format!("its brackets or modules are more than {DEPTH_MAX} deep"),
    }
}

fn add_identifiers(tokens: &TokenStream, identifiers: &mut HashSet<String>) {
    for token in tokens.clone() {
        match token {
            TokenTree::Ident(name) => _ = identifiers.insert(name.to_string()),
            TokenTree::Group(group) => add_identifiers(&group.stream(), identifiers),
            _ => {}
        }
    }
}

/// Whether the attribute is anywhere in it.
fn mentions_attribute(tokens: &[TokenTree]) -> bool {
    tokens.iter().any(|token| match token {
        TokenTree::Group(group) => {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            let is_it = group.delimiter() == Delimiter::Bracket
                && inside
                    .iter()
                    .any(|token| matches!(token, TokenTree::Ident(name) if name == ATTRIBUTE));
            is_it || mentions_attribute(&inside)
        }
        _ => false,
    })
}
