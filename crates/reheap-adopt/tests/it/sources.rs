//! Sources as people write them, and the global allocators that are found in them.

use reheap_adopt::condition::Build;
use reheap_adopt::sources::{GlobalAllocator, Place, Sources};
use std::collections::BTreeSet;
use std::fs;

/// What is found in a crate of these files; the first is its root.
fn sources(files: &[(&str, &str)]) -> Sources {
    let directory = tempfile::tempdir().unwrap();
    for (name, contents) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
    Sources::of_crate(&directory.path().join(files[0].0))
}

fn holds(allocator: &GlobalAllocator, triple: &str, features: &[&str]) -> bool {
    allocator.condition.holds(&Build {
        target: cfg_expr::targets::get_builtin_target_by_triple(triple).unwrap(),
        features: &features
            .iter()
            .map(|feature| (*feature).to_owned())
            .collect(),
        others: &BTreeSet::new(),
    })
}

const GNU: &str = "x86_64-unknown-linux-gnu";
const MUSL: &str = "x86_64-unknown-linux-musl";

#[test]
fn a_static_is_found_with_its_type_and_condition() {
    let found = sources(&[(
        "main.rs",
        "#!/usr/bin/env run\n//! About.\n#![forbid(unsafe_code)]\nuse std::{fmt, mem as m};\nuse mimalloc::MiMalloc;\n\n\
         #[cfg(all(target_env = \"musl\", /* both */ feature = \"fast\"))]\n#[global_allocator]\n\
         static GLOBAL: MiMalloc = MiMalloc;\n\nfn main() {}\n",
    )]);
    let [allocator] = &found.allocators[..] else {
        panic!("{found:?}");
    };
    assert_eq!(allocator.types, [["mimalloc", "MiMalloc"]]);
    assert_eq!((allocator.line, &allocator.place), (8, &Place::Module));
    assert!(holds(allocator, MUSL, &["fast"]));
    assert!(!holds(allocator, MUSL, &[]) && !holds(allocator, GNU, &["fast"]));
}

#[test]
fn conditions_of_modules_and_of_cfg_if_add_up() {
    let found = sources(&[
        ("main.rs", "#[cfg(unix)]\nmod memory;\nfn main() {}\n"),
        ("memory/mod.rs", "#![cfg(not(miri))]\nmod kinds;\n"),
        (
            "memory/kinds.rs",
            "cfg_if::cfg_if! {\n if #[cfg(target_env = \"musl\")] {\n #[global_allocator]\n\
             static A: mimalloc::MiMalloc = mimalloc::MiMalloc;\n } else if #[cfg(feature = \"je\")] {\n\
             use tikv_jemallocator::Jemalloc as J;\n #[global_allocator] static A: J = J;\n } else {\n\
             #[global_allocator] static A: std::alloc::System = std::alloc::System;\n }\n}\n",
        ),
    ]);
    let [musl, jemalloc, system] = &found.allocators[..] else {
        panic!("{found:?}");
    };
    assert_eq!(jemalloc.types, [["tikv_jemallocator", "Jemalloc"]]);
    assert!(holds(musl, MUSL, &[]) && !holds(jemalloc, MUSL, &["je"]));
    assert!(holds(jemalloc, GNU, &["je"]) && !holds(system, GNU, &["je"]));
    assert!(holds(system, GNU, &[]) && !holds(system, "x86_64-pc-windows-msvc", &[]));
}

#[test]
fn wrapped_types_and_unusual_places_are_found() {
    let found = sources(&[(
        "main.rs",
        "#[cfg_attr(feature = \"count\", global_allocator)]\nstatic A: stats::Counted<mimalloc::MiMalloc> = new();\n\
         fn main() {\n #[global_allocator]\n static B: own::Heap = own::Heap { size: 3 };\n}\n\
         choose! { #[global_allocator] static C: D = D; }\n",
    )]);
    let [counted, inside, chosen] = &found.allocators[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        counted.types,
        [["stats", "Counted"], ["mimalloc", "MiMalloc"]]
    );
    assert!(holds(counted, GNU, &["count"]) && !holds(counted, GNU, &[]));
    assert_eq!(inside.place, Place::Body);
    assert_eq!(chosen.place, Place::Macro("choose".to_owned()));
}

#[test]
fn files_are_found_by_path_and_in_nested_modules() {
    let found = sources(&[
        (
            "src/main.rs",
            "mod a;\nmod b { mod c; }\n#[path = \"../other/d.rs\"] mod d;\nmod generated;\n",
        ),
        ("src/a.rs", "mod e;\n"),
        ("src/a/e.rs", "const X: [u8; 2] = { [1, 2] };\n"),
        ("src/b/c.rs", "struct C { a: u8 }\nimpl C {}\n"),
        ("other/d.rs", "mod f;\n"),
        (
            "other/f.rs",
            "const fn f() {}\nunsafe extern \"C\" { fn g(); }\n#[global_allocator]\npub static A: x::Y = x::Y;\n",
        ),
    ]);
    assert_eq!(found.files.len(), 6, "{found:?}");
    assert_eq!(found.allocators.len(), 1, "{found:?}");
    assert!(found.unread.is_empty());
}

#[test]
fn a_file_that_is_too_deep_is_not_read() {
    let of = |depth: usize| {
        let (open, close) = ("(".repeat(depth), ")".repeat(depth));
        let inside = "{ #[global_allocator] static A: B = B; }";
        sources(&[("main.rs", &format!("fn f() {{ {open}{inside}{close} }}\n"))])
    };
    let found = of(253);
    assert_eq!(found.allocators[0].place, Place::Body);
    for found in [of(254), of(100_000)] {
        assert!(found.allocators.is_empty());
        let error = found.unread[0].to_string();
        assert!(error.ends_with("are more than 256 deep"), "{error}");
    }
}

#[test]
fn modules_that_are_too_deep_are_not_read() {
    let texts = (0..2000).map(|number| format!("#[path = \"f{}.rs\"]\nmod next;\n", number + 1));
    let mut files: Vec<(String, String)> = texts
        .enumerate()
        .map(|(number, text)| (format!("f{number}.rs"), text))
        .collect();
    // The last one that is read has brackets as deep as they may be.
    let (open, close) = ("(".repeat(253), ")".repeat(253));
    files[255].1 +=
        &format!("fn f() {{ {open}{{ #[global_allocator] static A: B = B; }}{close} }}\n");
    let files: Vec<(&str, &str)> = files.iter().map(|file| (&*file.0, &*file.1)).collect();
    let found = sources(&files);
    assert_eq!((found.files.len(), found.allocators.len()), (256, 1));
    let error = found.unread[0].to_string();
    assert!(
        error.contains("f256.rs`") && error.ends_with("are more than 256 deep"),
        "{error}"
    );
}

#[test]
fn a_file_with_many_names_is_read_once() {
    let directory = tempfile::tempdir().unwrap();
    let modules: String = (0..20).map(|number| format!("mod m{number};\n")).collect();
    for name in ["main.rs", "mod.rs"] {
        fs::write(directory.path().join(name), &modules).unwrap();
    }
    for number in 0..20 {
        std::os::unix::fs::symlink(".", directory.path().join(format!("m{number}"))).unwrap();
    }
    let found = Sources::of_crate(&directory.path().join("main.rs"));
    assert_eq!(found.files.len(), 2);
}

#[test]
fn after_many_branches_of_cfg_if_a_condition_is_unknown() {
    let branch = |number: usize| {
        let item = match number {
            63 | 64 => "#[global_allocator] static A: B = B;",
            _ => "",
        };
        format!("if #[cfg(feature = \"f{number}\")] {{ {item} }} else ")
    };
    let branches: String = (0..20_000).map(branch).collect();
    let found = sources(&[("main.rs", &format!("cfg_if! {{ {branches} {{}} }}\n"))]);
    let [known, unknown] = &found.allocators[..] else {
        panic!("{found:?}");
    };
    assert!(holds(known, GNU, &["f63"]) && !holds(known, GNU, &["f62", "f63"]));
    let unknown = unknown.condition.to_string();
    assert_eq!(unknown, "all(no branch before it, feature = \"f64\")");
}

#[test]
fn a_file_that_is_no_rust_is_named_with_its_line() {
    let found = sources(&[
        ("main.rs", "mod broken;\n"),
        ("broken.rs", "fn a() {\n\n}}\n"),
    ]);
    let error = found.unread[0].to_string();
    assert!(error.contains("broken.rs`, line 3"), "{error}");
}

#[test]
fn included_files_belong_to_the_module_that_includes_them() {
    let heap = "#[global_allocator]\nstatic HEAP: Heap = Heap;\nmod inside;\n";
    let found = sources(&[
        (
            "main.rs",
            "use mimalloc::MiMalloc as Heap;\n#[cfg(unix)]\ninclude!(\"parts/heap.in\");\n\
             include!(concat!(env!(\"OUT_DIR\"), \"/made.rs\"));\ninclude!(\"absent.rs\");\nfn main() {}\n",
        ),
        ("parts/heap.in", heap),
        ("parts/inside.rs", "include!(\"inside.rs\");\n"),
    ]);
    let [allocator] = &found.allocators[..] else {
        panic!("{found:?}");
    };
    assert_eq!(allocator.types, [["mimalloc", "MiMalloc"]]);
    assert!(allocator.path.ends_with("parts/heap.in") && allocator.line == 1);
    assert!(holds(allocator, GNU, &[]) && !holds(allocator, "x86_64-pc-windows-msvc", &[]));
    assert_eq!((found.files.len(), found.unread.len()), (3, 0));
}
