//! The names by which linked files know each other.

use crate::workshop::{Counted, Workshop};
use reheap_elf::linkage::{self, Side};
use std::fmt::Write as _;

#[test]
fn a_library_with_many_long_names_is_read_once_and_not_once_for_each_name() {
    const NAMES: usize = 60_000;
    let workshop = Workshop::with(&["cc"]);
    let mut assembly = "call taken\n".to_owned();
    for number in 0..NAMES {
        // More than what fits into memory at once, and in an order of hash values.
        let name = format!(
            "{}{number}",
            "a_long_name_as_compilers_of_other_languages_make_".repeat(2)
        );
        _ = writeln!(assembly, ".globl {name}\n{name}:");
    }
    workshop.write("names.s", assembly);
    workshop.run("cc -shared -nostdlib names.s -o names.so");
    let library = Counted::new(workshop.bytes("names.so"));

    let (mut offered, mut taken) = (0, Vec::new());
    let seen = linkage::for_each_name(&library, &mut |name, side| match side {
        Side::Offers => offered += usize::from(name.starts_with(b"a_long_name")),
        Side::Takes => taken.push(name.to_vec()),
    });
    assert_eq!(seen, Ok(Some(())));
    assert_eq!((offered, taken), (NAMES, vec![b"taken".to_vec()]));
    let blocks = library.bytes.len() / 4096;
    assert!(
        library.reads.get() <= blocks,
        "{} reads",
        library.reads.get()
    );

    library.reads.set(0);
    let mut taken = Vec::new();
    let seen = linkage::for_each_taken_name(&library, &mut |name| taken.push(name.to_vec()));
    assert_eq!((seen, taken), (Ok(Some(())), vec![b"taken".to_vec()]));
    // The table of symbols in large pieces, and one block of names.
    assert!(
        library.reads.get() < blocks / 10,
        "{} reads",
        library.reads.get()
    );
}
