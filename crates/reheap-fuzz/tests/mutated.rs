//! Every target survives its seeds, and mutations of them that are the same in each run.

use reheap_fuzz::mutation::{Random, mutated};
use reheap_fuzz::{Seeds, TARGETS, Target};
use reheap_graft::{Access, Contract, Library, Stock};
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::LazyLock;

static SEEDS: LazyLock<Seeds> = LazyLock::new(Seeds::make);

/// Panics with the file to which it has written an input that the target does not survive.
fn survives(target: &Target, name: &str, bytes: &[u8]) {
    if catch_unwind(|| (target.run)(bytes)).is_err() {
        let file = format!("{}-{}", target.name, name.replace(' ', "-"));
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
        fs::write(&file, bytes).unwrap();
        panic!(
            "`{}` fails with {name}; the input is in `{}`",
            target.name,
            file.display()
        );
    }
}

/// Tries the target of that name.
fn try_all(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let seeds: Vec<(&str, &[u8])> = SEEDS.of(name).collect();
    assert!(!seeds.is_empty(), "`{name}` has no seed");
    for (seed, bytes) in &seeds {
        survives(target, &format!("seed {seed}"), bytes);
    }
    for round in 0..target.mutations {
        let mut random = Random::new(round);
        let (seed, other) = (
            seeds[random.below(seeds.len())],
            seeds[random.below(seeds.len())],
        );
        let bytes = mutated(seed.1, other.1, &mut random);
        survives(target, &format!("mutation {round}"), &bytes);
    }
}

macro_rules! tests {
    ($($name:ident)*) => {
        $(#[test] fn $name() { try_all(stringify!($name)); })*

        #[test]
        fn every_target_is_tried_and_has_a_program() {
            let tried = [$(stringify!($name)),*];
            let targets: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(tried.as_slice(), targets);
            let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/Cargo.toml");
            let manifest = fs::read_to_string(manifest).unwrap();
            for name in targets {
                assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
            }
        }
    };
}

tests! { archive derive identify libraries locate graft stacks image layout trace results profile attacks project manifest script maps }

#[test]
fn the_malloc_of_each_program_among_the_seeds_is_located_by_what_the_program_is_for() {
    let found = SEEDS.of("locate").map(|(name, program)| {
        let located = reheap_graft::locate(program);
        (
            name,
            located
                .map(|located| (located.access, located.functions.len()))
                .ok(),
        )
    });
    let found: Vec<_> = found.collect();
    assert_eq!(
        found,
        [
            ("aarch64", Some((Access::Symbols, 4))),
            ("derived", Some((Access::Marker, 4))),
            ("dynamic", None),
            ("family", Some((Access::Code, 6))),
            ("glibc", Some((Access::Code, 6))),
            ("static", Some((Access::Symbols, 2))),
        ]
    );
}

#[test]
fn the_static_programs_among_the_seeds_get_another_allocator() {
    let contract = Contract {
        errno_at: "errno_at",
        realloc_of_glibc: "realloc",
    };
    let grafted = SEEDS.of("graft").filter(|(_, bytes)| {
        let (length, rest) = bytes.split_first_chunk().unwrap();
        let (program, library) = rest.split_at(u32::from_le_bytes(*length) as usize);
        let library = Library::parse(library).unwrap();
        let stock = Stock::examine(program);
        stock.is_ok_and(|stock| reheap_graft::graft(&stock, &library, contract).is_ok())
    });
    let names: Vec<&str> = grafted.map(|(name, _)| name).collect();
    assert_eq!(names, ["family", "static", "static-pie"]);
}

#[test]
fn mutations_are_the_same_in_each_run_and_differ_from_the_seed() {
    let seed = br#"{"a": [1, 2, {"b": "c"}], "d": null}"#;
    let all = || (0..200).map(|round| mutated(seed, b"other", &mut Random::new(round)));
    assert!(all().eq(all()));
    let is_changed = all().filter(|bytes| bytes != seed).count();
    assert!(is_changed > 190, "{is_changed}");
    let is_json = |bytes: &Vec<u8>| serde_json::from_slice::<serde_json::Value>(bytes).is_ok();
    assert!((50..180).contains(&all().filter(is_json).count()));
}
