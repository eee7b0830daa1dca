//! The features without which Cargo does not build a program (`required-features`).
//!
//! A package that is also a library is built without them, too. Whoever uses that library would then compile an
//! allocator that nothing uses, so these features turn it on.

use super::set_up::Place;
use std::collections::BTreeSet;

/// The features that turn the allocator on; none if a program is built without any.
pub(super) fn features<'a>(place: &Place<'a>) -> BTreeSet<&'a str> {
    let known = &place.package.manifest.features;
    let of_programs = place.targets.iter().map(|target| {
        let required = target.required_features.iter().map(String::as_str);
        let own = required.filter(|name| known.names().any(|it| it == *name));
        // One that turns on the others is on exactly if the program is built.
        own.max_by_key(|name| known.active([*name]).features.len())
    });
    of_programs.collect::<Option<_>>().unwrap_or_default()
}
