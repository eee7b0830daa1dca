//! Writes the first inputs of the fuzz targets to `corpus/`: `cargo run --example seeds`.

use reheap_fuzz::{Seeds, TARGETS};
use std::fs;
use std::path::Path;

fn main() {
    let seeds = Seeds::make();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in TARGETS {
        let directory = corpus.join(target.name);
        fs::create_dir_all(&directory).expect("the directory of a corpus can be made");
        for (name, bytes) in seeds.of(target.name) {
            fs::write(directory.join(name), bytes).expect("a seed can be written");
        }
    }
}
