//! What the fuzz targets call of this crate: each reader of a project's files, on a text that may be anything.

use crate::adoption::placement::Placement;
use crate::condition::{Atoms, Condition};
use crate::manifest::Manifest;
use crate::sources::{self, Outline};
use crate::text::Text;
use crate::workflows::dockerfile::Dockerfile;
use crate::workflows::{shell, yaml};

/// Reads a text as a manifest, as Rust, as a Dockerfile, a script, a workflow and a condition. None of them may panic,
/// and each place that they name is in the text.
///
/// # Panics
/// If one does, or if a place is not in the text.
pub fn read_as_each_kind(text: &Text) {
    let _ = Manifest::of(text.clone(), None);
    let condition = Condition::of_cfg(&text.contents);
    condition.add_atoms(&mut Atoms::default());
    let _ = condition.of_target();
    if let Ok(placement) = Placement::parse(&format!("cfg({})", text.contents)) {
        let _ = placement.includes("x86_64-unknown-linux-musl");
        let _ = placement.key();
    }
    if let Ok(outline) = Outline::of(text) {
        let places = [outline.head_end, outline.imports_end, outline.first_item];
        for place in places.into_iter().flatten() {
            assert!(text.contents.is_char_boundary(place), "byte {place}");
        }
    }
    let _ = sources::allocators_in(text);
    for range in sources::literals_in(text) {
        assert!(text.contents.get(range.clone()).is_some(), "{range:?}");
    }
    let dockerfile = Dockerfile::of(text);
    for stage in 0..dockerfile.stages.len() {
        let _ = dockerfile.base(stage);
        let _ = dockerfile.around(stage).count();
    }
    for command in shell::commands(&text.contents) {
        let _ = yaml::container_of(&text.contents, text.line(command.at));
    }
}
