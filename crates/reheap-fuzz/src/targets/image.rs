//! Container images.

use reheap_image::Workplace;
use reheap_image::added::{Addition, Checked};
use reheap_image::blob::Blob;
use reheap_image::layer::{Compression, Entry};
use reheap_image::read::{self, Location, Wanted};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// An image of others is read or refused, whatever is in its archive; and one that can be read can have a layer more.
pub(crate) fn image(bytes: &[u8]) {
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    fs::write(file.path(), bytes).expect("a temporary file can be written");
    look_at(file.path());
}

/// A directory in OCI's layout is read or refused, whatever is in its files. They get right digests, which no fuzzer
/// would find.
///
/// The input is files, each behind its length in 16 bits, little-endian. The last is the index, the others are blobs. In
/// each, `@` and a digit become the digest of the file with that number, if it is in front of it.
pub(crate) fn layout(mut bytes: &[u8]) {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let blobs = directory.path().join("blobs/sha256");
    fs::create_dir_all(&blobs).expect("a temporary directory can be made");
    let mut digests: Vec<String> = Vec::new();
    let mut index = Vec::new();
    while let [low, high, rest @ ..] = bytes {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (file, rest) = rest.split_at(length);
        index = with_digests(file, &digests);
        let blob = Blob::of_bytes(index.clone());
        fs::write(blobs.join(blob.digest().digest()), &index).expect("a file can be written");
        digests.push(blob.digest().to_string());
        bytes = rest;
    }
    fs::write(directory.path().join("index.json"), index).expect("a file can be written");
    look_at(directory.path());
}

fn with_digests(file: &[u8], digests: &[String]) -> Vec<u8> {
    let mut contents = Vec::new();
    let mut rest = file;
    while let [first, behind @ ..] = rest {
        let number = behind
            .first()
            .filter(|_| *first == b'@')
            .and_then(|digit| char::from(*digit).to_digit(10));
        match number.and_then(|number| digests.get(number as usize)) {
            Some(digest) => {
                contents.extend_from_slice(digest.as_bytes());
                rest = &behind[1..];
            }
            None => {
                contents.push(*first);
                rest = behind;
            }
        }
    }
    contents
}

/// Inspects an image, which can be done without digests, and adds to it as `reheap image` does.
fn look_at(path: &Path) {
    let _ = reheap_subject::readers::has_a_malloc(path);
    let never = AtomicBool::new(false);
    let workplace = Workplace::new(None, &never);
    let image = read::open(&Location::new(path), Wanted::TheOnly, &workplace);
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
