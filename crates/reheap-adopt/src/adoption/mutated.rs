//! Texts that are nearly right: no reader panics, and whatever is put into one leaves no trace when it is taken out.
//!
//! The texts are seeds with pieces deleted, doubled, moved or inserted, always the same ones. Random texts get stuck in
//! the first bracket; these reach the code behind it.

use super::removal::gives_back;
use super::{manifests, statics};
use crate::manifest::Manifest;
use crate::readers::read_as_each_kind;
use crate::sources::{self, Outline};
use crate::text::Text;
use std::path::PathBuf;

const SOURCES: [&str; 6] = [
    "#!/usr/bin/env run\n#![allow(dead_code)]\n//! About it.\n\nuse std::fs;\nmod a;\n\n/// Doc\nfn main() { let r = r#\"// Set up by\"#; }\n",
    "\u{feff}//! Doc\r\n\r\nextern crate core;\r\nuse std::{io, fs::{self, File}};\r\nfn main() {}\r\n",
    "// Set up by `reheap adopt`; `reheap adopt --undo` takes it out.\n#[cfg(unix)]\n#[global_allocator]\n\
     static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;\n\n#[cfg(feature = \"é\")]\nmod imp { pub fn x() {} }\nfn main() {}",
    "cfg_if::cfg_if! { if #[cfg(unix)] { #[global_allocator] static A: B<C> = B(C); } else { } }\n/* a /* b */ */ fn main() { 'a: loop { break 'a } }\n",
    "macro_rules! m { ($($x:tt)*) => { $($x)* } }\nm! { #[global_allocator] static G: X = X; }\nfn main() { std::env::set_var(\"MALLOC_CONF\", \"a\"); }\n",
    "#[path = \"../x.rs\"] mod x;\n#[unsafe(no_mangle)] pub static malloc_conf: &[u8] = b\"a:b\\0\";\nconst GLOBAL: char = '\\u{1f600}';\nfn main() {}\n\n\n",
];

const MANIFESTS: [&str; 4] = [
    "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\nlibc = \"0.2\" # it's\nlog = { version = \"0.4\", features = [\n  \"std\", # x\n] }\n\n[features]\ndefault = [\"log/std\"]\n",
    "package.name = 'a'\r\npackage.version = '0.1.0'\r\ndependencies.libc = '0.2'\r\n[target.'cfg(target_env = \"musl\")'.dependencies]\r\nmimalloc.workspace = true\r\n",
    "[workspace]\nmembers = [\"a\", \"b\"]\n[workspace.dependencies]\nmi = { package = \"mimalloc\", version = \"0.1\", optional = true }\n[[bin]]\nname = \"é\"\n",
    "[package]\nname = \"a\"\n\n[dependencies] # reheap adopt\nmimalloc = { version = \"0.1.52\", optional = true } # reheap adopt\n\n[features] # reheap adopt\nfast = [\"dep:mimalloc\"] # reheap adopt\ndefault = [\"fast\"] # reheap adopt\n",
];

const OTHERS: [&str; 3] = [
    "ARG V=3.22\nFROM alpine:${V:-3} AS base\nRUN apk add \\\n  # why\n  jemalloc && echo \"a b\"\nFROM base\nENV LD_PRELOAD=\"/usr/lib/libjemalloc.so.2\" A=b\nRUN <<EOF\nar d libc.a malloc.lo\nEOF\nCOPY [\"a\", \"/b\"]\n",
    "on: push\njobs:\n  b:\n    strategy:\n      matrix:\n        target: [x86_64-unknown-linux-musl, \"é\"]\n    container: {image: 'alpine:3'}\n    steps:\n    - run: |\n        cargo build --target ${{ matrix.target }}\n      env:\n        LD_PRELOAD: /usr/lib/x.so\n",
    "#!/bin/sh\n# it's\nexport LD_PRELOAD=$(ls /usr/lib/*/libjemalloc.so.2)\nfor f in $(find / -name libc.a); do llvm-ar -d \"$f\" 'malloc.lo'; done\nsh -c \"ar d libc.a x; true\"\n",
];

const CONDITIONS: [&str; 2] = [
    "all(target_os = \"linux\", not(any(target_env = \"gnu\", feature = \"é\")), unix)",
    "any(windows, target_pointer_width = \"32\")",
];

const INSERTED: [&str; 24] = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "\"",
    "'",
    "#",
    "//",
    "/*",
    "*/",
    "\\",
    "\n",
    "\r\n",
    "\t",
    "é",
    "\u{feff}",
    "=",
    ",",
    "# reheap adopt",
    "#![x]",
    "\u{2028}",
    "\0",
];

/// Numbers that look random and are always the same (Marsaglia, "Xorshift RNGs").
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }
}

/// The text with one to three changes.
fn mutated(text: &str, numbers: &mut Numbers) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..=numbers.below(3) {
        let at = numbers.below(characters.len() + 1);
        let end = (at + numbers.below(30)).min(characters.len());
        match numbers.below(4) {
            0 => drop(characters.drain(at..end)),
            1 => {
                let again = characters[at..end].to_vec();
                characters.splice(at..at, again);
            }
            2 => {
                let piece: Vec<char> = characters.drain(at..end).collect();
                let to = numbers.below(characters.len() + 1);
                characters.splice(to..to, piece);
            }
            _ => {
                let piece = INSERTED[numbers.below(INSERTED.len())];
                characters.splice(at..at, piece.chars());
            }
        }
    }
    characters.into_iter().collect()
}

/// Calls this for so many texts that are nearly the seeds, and for the seeds.
fn for_each(seeds: &[&str], count: usize, name: &str, mut see: impl FnMut(&Text)) {
    let mut numbers = Numbers(0x2026_1123);
    for index in 0..count {
        let seed = seeds[index % seeds.len()];
        let contents = if index < seeds.len() {
            seed.to_owned()
        } else {
            mutated(seed, &mut numbers)
        };
        see(&Text {
            path: PathBuf::from(name),
            contents,
        });
    }
}

#[test]
fn a_source_that_gets_a_static_has_its_bytes_back_without_it() {
    let mut accepted = 0;
    let mut numbers = Numbers(1);
    for_each(&SOURCES, 200, "main.rs", |text| {
        let _ = Outline::of(text);
        sources::literals_in(text);
        let Ok(after) = statics::add(text, "mimalloc::MiMalloc", Some("unix")) else {
            return;
        };
        accepted += 1;
        let before = &text.contents;
        // A static that was there goes, too, so the texts without any are compared.
        let is_undone = gives_back(&text.path, Some(&after), before).unwrap();
        assert!(is_undone, "{before:?}\nbecame\n{after:?}");
        let edited = Text {
            path: text.path.clone(),
            contents: mutated(&after, &mut numbers),
        };
        statics::remove(&edited);
    });
    assert!(accepted > 50, "only {accepted} were Rust");
}

#[test]
fn a_manifest_that_gets_a_line_has_its_bytes_back_without_it() {
    let mut accepted = 0;
    for_each(&MANIFESTS, 500, "Cargo.toml", |text| {
        let _ = Manifest::of(text.clone(), None);
        let _ = gives_back(&text.path, Some(&text.contents), &text.contents);
        let table = ["target", "cfg(target_env = \"musl\")", "dependencies"];
        let value = "{ version = \"0.7.0\", optional = true }";
        let Ok(after) = manifests::add(text, &table, "tikv-jemallocator", value) else {
            return;
        };
        let before = &text.contents;
        // Lines of an older set-up may be broken; then adopt refuses.
        if let Ok(is_undone) = gives_back(&text.path, Some(&after), before) {
            accepted += 1;
            assert!(is_undone, "{before:?}\nbecame\n{after:?}");
        }
    });
    assert!(accepted > 50, "only {accepted} were manifests");
}

#[test]
fn no_workflow_container_script_or_condition_makes_a_reader_panic() {
    for_each(&OTHERS, 500, "Dockerfile", |text| {
        read_as_each_kind(text);
    });
    for_each(&CONDITIONS, 200, "cfg", read_as_each_kind);
}
