//! The features without which Cargo does not build a program (`required-features`).
//!
//! A package that is also a library is built without them, too. Whoever uses that library would then compile an
//! allocator that nothing uses, so these features turn it on.

use crate::project::{Package, Target};
use std::collections::BTreeSet;

/// The features that turn the allocator on in these programs of a package; none if one of them is built without any.
pub(super) fn features<'a>(package: &Package, programs: &[&'a Target]) -> BTreeSet<&'a str> {
    let known = &package.manifest.features;
    let of_programs = programs.iter().map(|target| {
        let required = target.required_features.iter().map(String::as_str);
        let own = required.filter(|name| known.names().any(|other| other == *name));
        // One that turns on the others is on exactly if the program is built.
        own.max_by_key(|name| known.active([*name]).features.len())
    });
    of_programs.collect::<Option<_>>().unwrap_or_default()
}
