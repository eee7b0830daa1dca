//! Container images.

use reheap_image::Workplace;
use reheap_image::added::{Addition, Checked};
use reheap_image::layer::{Compression, Entry};
use reheap_image::read::{self, Wanted};
use reheap_image::tree::Tree;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// An image of others is read or refused, whatever is in its archive; and one that can be read can have a layer more.
///
/// Digests stop most damage early. So the files of an image are also looked at without them, as `reheap inspect` does.
pub(crate) fn image(bytes: &[u8]) {
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    std::fs::write(file.path(), bytes).expect("a temporary file can be written");
    let never = AtomicBool::new(false);
    let workplace = Workplace::new(None, &never);
    if let Ok(image) = read::open(file.path(), Wanted::First, &workplace)
        && let Ok(tree) = Tree::read(&image.layers, &workplace)
    {
        for path in ["/bin/sh", "/a", "/usr/lib/reheap/original-image.json"] {
            if let Ok(Some(path)) = tree.resolve(Path::new(path)) {
                let _ = tree.open(&path, &workplace);
            }
        }
    }
    let image = read::open(file.path(), Wanted::TheOnly, &workplace);
    let Ok(image) = image.and_then(|image| Checked::new(image, &workplace)) else {
        return;
    };
    let _ = image.record(&workplace);
    let addition = Addition {
        title: String::new(),
        command: String::new(),
        files: BTreeMap::from([("lib/a.so".into(), Entry::bytes("a"))]),
        environment: vec![("A".to_owned(), "b".to_owned())],
        labels: BTreeMap::new(),
        compression: Compression::Gzip,
        time: 0,
    };
    let _ = image.add(&addition, &workplace);
}
