//! Where code needs a crate although it may not choose its allocator: imports, and a static that is the global allocator
//! only under a condition of its own.

use super::imports::Imports;
use super::items::{Item, ItemKind};
use crate::condition::Condition;
use crate::text::Text;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A place that does not compile without a crate.
#[derive(Debug, Clone)]
pub struct Mention {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The crate, as code calls it.
    pub name: String,
    /// When the place is compiled.
    pub condition: Condition,
}

/// The crates that an item of a module names. `condition` is the item's.
pub(super) fn of(
    item: &Item,
    text: &Text,
    imports: &Imports,
    condition: &Condition,
) -> Vec<Mention> {
    let first_names = match &item.kind {
        ItemKind::Import => Imports::of(std::slice::from_ref(item)).first_names(),
        ItemKind::Static if item.is_global_allocator_sometimes(text) => {
            let paths = item
                .type_paths()
                .into_iter()
                .filter(|path| imports.is_one(path));
            paths
                .map(|path| imports.resolved(path).swap_remove(0))
                .collect()
        }
        _ => BTreeSet::new(),
    };
    // Another `use` may have brought that name from somewhere else.
    let is_crate = |name: &String| imports.resolved(vec![name.clone()])[0] == *name;
    let first_names = first_names.into_iter().filter(is_crate);
    first_names
        .map(|name| Mention {
            path: text.path.clone(),
            line: item.line(),
            name,
            condition: condition.clone(),
        })
        .collect()
}
