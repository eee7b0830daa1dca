//! The program that is attacked, as C.

use reheap_allocators::program::Program;

/// One source: the files in the order in which they use each other.
const SOURCE: &str = concat!(
    include_str!("../../attacker/common.c"),
    include_str!("../../attacker/frees.c"),
    include_str!("../../attacker/overflows.c"),
    include_str!("../../attacker/freed.c"),
    include_str!("../../attacker/forged.c"),
    include_str!("../../attacker/threads.c"),
    include_str!("../../attacker/main.c"),
);

/// A compiler that optimises more would leave errors out, as nobody may rely on what they do. One that checks by itself
/// would stop them in place of the allocator.
const COMPILER_FLAGS: [&str; 8] = [
    "-O1",
    "-std=gnu11",
    "-w",
    "-fno-builtin",
    "-fno-stack-protector",
    "-fno-sanitize=all",
    "-U_FORTIFY_SOURCE",
    "-pthread",
];

/// The program.
pub(crate) const ATTACKER: Program = Program {
    name: "attacker",
    source: SOURCE,
    compiler_flags: &COMPILER_FLAGS,
};
