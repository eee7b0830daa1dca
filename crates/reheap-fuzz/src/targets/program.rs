//! Programs that somebody profiles: where their malloc is, the frames of their stacks, and the names in their files.

use reheap_elf::identify;
use reheap_graft::{Contract, Graft, Library, Stock, locate as locate_malloc};
use reheap_profile::stacks::{FRAMES_MAX, Modules, Processor, Registers, Symbols, Unwinder};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;

/// Where the code of the target `stacks` is mapped.
pub(crate) const CODE_START: u64 = 0x1000_0000;
const CODE_END: u64 = 0x2000_0000;
/// Where its stack is.
const STACK_START: u64 = 0x7fff_0000_0000;
/// Of so many words of the stack a walk begins, so that one input does not take long.
const WALKS_MAX: usize = 8;

/// The malloc of any program is located or not. If it is, each function is at a place of its own.
pub(crate) fn locate(bytes: &[u8]) {
    let Ok(located) = locate_malloc(bytes) else {
        return;
    };
    let places: BTreeSet<u64> = located
        .functions
        .iter()
        .map(|function| function.address)
        .collect();
    assert_eq!(places.len(), located.functions.len(), "{located:?}");
}

/// Stacks end, whatever the tables of a program say, and each of their addresses has a name.
///
/// The input is the program behind its length, and the words of a stack. Each of the first words is also a place where the
/// program was interrupted.
pub(crate) fn stacks(bytes: &[u8]) {
    let Some((program, stack)) = super::two(bytes) else {
        return;
    };
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    file.write_all(program)
        .expect("a temporary file can be written");
    let inode = file.as_file().metadata().expect("it is open").ino();
    let path = file.path().display();
    let maps = format!("{CODE_START:x}-{CODE_END:x} r-xp 00000000 00:00 {inode} {path}\n");
    let no_debug_files = tempfile::tempdir().expect("a temporary directory can be made");
    let mut modules = Modules::new();
    let mut symbols = Symbols::with_debug_directory(no_debug_files.path().to_owned());
    for processor in [Processor::X86_64, Processor::Aarch64] {
        let mut unwinder = Unwinder::from_maps(&mut modules, processor, maps.as_bytes(), None);
        for (index, word) in stack.as_chunks().0.iter().take(WALKS_MAX).enumerate() {
            let registers = Registers {
                program_counter: u64::from_le_bytes(*word),
                stack_pointer: STACK_START,
                frame_pointer: STACK_START + 16 * index as u64,
            };
            let walked = unwinder.unwind_interrupted(&mut modules, &registers, stack);
            assert!(walked.addresses.len() <= FRAMES_MAX);
            for address in walked.addresses {
                assert!(!symbols.frames(&modules, address).is_empty());
            }
        }
    }
}

/// A program gets another allocator or not. If it does, every function leads there, and the original can be had again. The
/// input is the program behind its length, and the library.
pub(crate) fn graft(bytes: &[u8]) {
    let Some((program, library)) = super::two(bytes) else {
        return;
    };
    // Whatever says that it is grafted already has an original or not.
    let _ = reheap_graft::undo(program);
    // It is reheap's own, so it has a marker.
    let (true, Ok(library)) = (identify::identify(library).is_ok(), Library::parse(library)) else {
        return;
    };
    let contract = Contract {
        errno_at: "errno_at",
        realloc_of_glibc: "realloc",
    };
    let stock = Stock::examine(program);
    let Ok(grafted) = stock.and_then(|stock| reheap_graft::graft(&stock, &library, contract))
    else {
        return;
    };
    let found = Graft::read(&grafted.bytes).expect("what was written can be read");
    assert_eq!(found.expect("it has a note").entries, grafted.entries);
    let original = reheap_graft::undo(&grafted.bytes);
    assert_eq!(original.as_deref(), Ok(program));
    identify::identify(&*grafted.bytes).expect("its tables are as good as the program's");
}
