//! What glibc for another processor gets where `LD_PRELOAD` names a library of reheap: a library of its own kind that is
//! empty.
//!
//! A 64-bit program may start a 32-bit one, and the kernel may start a program for yet another processor in an emulator.
//! Each inherits the variable. Without a library that it can load, glibc prints a line about it in every process.

use reheap_elf::Architecture;
use reheap_elf::empty::{self, Machine};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Libraries by what glibc for their processor expands `$LIB` to (ld.so(8)).
pub(crate) type Foreign = BTreeMap<&'static str, Vec<u8>>;

/// The names that mean one processor only. The first is that of 32-bit libraries beside 64-bit ones.
const NAMES: [(&str, Machine); 6] = [
    ("lib32", Machine::I386),
    ("lib/i386-linux-gnu", Machine::I386),
    ("lib/x86_64-linux-gnu", Machine::X86_64),
    ("lib/arm-linux-gnueabi", Machine::ARM),
    ("lib/arm-linux-gnueabihf", Machine::ARM),
    ("lib/aarch64-linux-gnu", Machine::AARCH64),
];
/// This one is of 64-bit programs on some systems, and of 32-bit programs on others.
const AMBIGUOUS: &str = "lib";

/// Those that programs for other processors than this one need on a system.
pub(crate) fn libraries(own: Architecture, root: &Path) -> Foreign {
    let (own, narrow, linker) = match own {
        Architecture::X86_64 => (Machine::X86_64, Machine::I386, "ld-linux.so.2"),
        Architecture::Aarch64 => (Machine::AARCH64, Machine::ARM, "ld-linux-armhf.so.3"),
        // They have no preloads, so nothing is in front of the libraries of others.
        _ => return Foreign::new(),
    };
    let mut machines: Vec<_> = NAMES
        .into_iter()
        .filter(|(_, machine)| *machine != own)
        .collect();
    if is_in_lib(linker, root) {
        machines.push((AMBIGUOUS, narrow));
    }
    let library = |(name, machine)| (name, empty::library(machine));
    machines.into_iter().map(library).collect()
}

/// Whether a dynamic linker expands `$LIB` to `lib`: its own file is in the directory that it expands that to, and a link
/// in `lib` leads there.
fn is_in_lib(linker: &str, root: &Path) -> bool {
    let lib = root.join(AMBIGUOUS);
    let resolved = (fs::canonicalize(lib.join(linker)), fs::canonicalize(&lib));
    matches!(resolved, (Ok(linker), Ok(lib)) if linker.parent() == Some(&lib))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const LINKER: &str = "lib/ld-linux.so.2";

    fn names(root: &Path) -> Vec<&'static str> {
        let libraries = libraries(Architecture::X86_64, root);
        libraries.into_keys().collect()
    }

    #[test]
    fn lib_is_for_32_bit_programs_where_their_dynamic_linker_is_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        assert!(!names(root).contains(&"lib"), "no 32-bit programs");
        for directory in ["usr/lib", "usr/lib32"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        symlink("usr/lib", root.join("lib")).unwrap();
        fs::write(root.join("usr/lib32/ld-linux.so.2"), "").unwrap();
        symlink("../lib32/ld-linux.so.2", root.join(LINKER)).unwrap();
        assert!(!names(root).contains(&"lib"), "they use lib32");
        fs::remove_file(root.join(LINKER)).unwrap();
        fs::write(root.join(LINKER), "").unwrap();
        assert!(names(root).contains(&"lib"));
    }

    #[test]
    fn the_own_libraries_of_a_processor_are_not_replaced() {
        for architecture in Architecture::WITH_PRELOADS {
            let own = format!("lib/{architecture}-linux-gnu");
            assert!(!libraries(architecture, Path::new("/")).contains_key(own.as_str()));
        }
    }
}
