// What the files of this directory share; it stands in front of each of them.
//
// Everything here runs on any ARMv8.0-A: Advanced SIMD is part of it, so there is one path and nothing to choose.
//
// Where the end is not known, all loads are of aligned blocks of 16 bytes, and none is made before the block in front of
// it is known not to hold the end. Such a load stays in its page, and in its granule where memory is tagged (MTE).

    .section .note.GNU-stack, "", %progbits
    .text

    // Our own names are for this executable only; the public names are added when a libc is derived.
    // A section for each, so that a linker can leave out those that nobody needs.
    .macro begin_section name
    .section .text.\name, "ax", %progbits
    .p2align 6
    .endm

    .macro own_name name
    .globl  \name
    .hidden \name
    .type   \name, %function
\name:
    .endm

    .macro function name
    begin_section \name
    own_name \name
    .cfi_startproc
    .endm

    .macro end_function name
    .cfi_endproc
    .size   \name, . - \name
    .endm

    // Register v0 has 0xff in the bytes that are looked for and 0 in the others. Gives four bits for each, the first
    // byte's lowest.
    .macro mask to
    shrn    v0.8b, v0.8h, #4
    fmov    \to, d0
    .endm

    // The number of zero bits below the lowest set one: four times the place of the first byte.
    .macro first_in reg
    rbit    \reg, \reg
    clz     \reg, \reg
    .endm
