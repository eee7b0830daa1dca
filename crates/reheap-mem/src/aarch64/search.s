// strlen, strnlen, memchr, rawmemchr, strchr, strchrnul: the first byte of a kind. (memrchr, the last one, is in last.s.)
//
// Three kinds of byte are looked for: `end` (0), `byte` (the one in v1), and `either`.
//
// x0: where to look, w1: the byte. x2: the end of the block where it has one. x3: the 16 bytes that are looked at.

    // Turns the bytes of v0 into 0xff or 0.
    .macro match kind
    .ifc \kind, end
    cmeq    v0.16b, v0.16b, #0
    .endif
    .ifc \kind, byte
    cmeq    v0.16b, v0.16b, v1.16b
    .endif
    .ifc \kind, either
    cmeq    v2.16b, v0.16b, v1.16b
    cmhs    v0.16b, v2.16b, v0.16b      // 0xff is at least any byte, and 0 is at least 0
    .endif
    .endm

    // From the start of the block to which x0 points, without the bits of what is in front of it.
    .macro find name, kind, limit
    bic     x3, x0, #15
    ldr     q0, [x3]
    .ifnc \kind, end
    dup     v1.16b, w1
    .endif
    match   \kind
    lsl     x4, x0, #2                  // shifts look at the lowest six bits: four times the place in the block
    mask    x5
    lsr     x5, x5, x4
    .ifc \limit, limited
    adds    x2, x0, x2
    csinv   x2, x2, xzr, cc             // not beyond the last address: `memchr(s, c, -1)` is allowed where c is in s
    .endif
    cbz     x5, .L\name\()_rest
    first_in x5
    answer_first_\name

    .p2align 4
.L\name\()_rest:
    .ifc \limit, limited
    sub     x6, x2, #16
.L\name\()_loop:
    cmp     x3, x6
    b.hs    .L\name\()_none
    .else
.L\name\()_loop:
    .endif
    ldr     q0, [x3, #16]!
    match   \kind
    mask    x5
    cbz     x5, .L\name\()_loop
    first_in x5
    answer_\name
    .endm

    // ----- strlen -----

    .macro answer_first_strlen
    lsr     x0, x5, #2
    ret
    .endm

    .macro answer_strlen
    sub     x0, x3, x0
    add     x0, x0, x5, lsr #2
    ret
    .endm

    function __reheap_strlen
    find    strlen, end, unlimited
    end_function __reheap_strlen

    // ----- strnlen -----

    .macro answer_first_strnlen
    lsr     x0, x5, #2
    cmp     x0, x1
    csel    x0, x0, x1, lo
    ret
    .endm

    .macro answer_strnlen
    sub     x0, x3, x0
    add     x0, x0, x5, lsr #2
    cmp     x0, x1
    csel    x0, x0, x1, lo
    ret
    .endm

    function __reheap_strnlen
    cbz     x1, .Lstrnlen_none
    mov     x2, x1
    find    strnlen, end, limited
.Lstrnlen_none:
    mov     x0, x1
    ret
    end_function __reheap_strnlen

    // ----- memchr -----

    .macro answer_within
    cmp     x0, x2
    csel    x0, x0, xzr, lo
    ret
    .endm

    .macro answer_first_memchr
    add     x0, x0, x5, lsr #2
    answer_within
    .endm

    .macro answer_memchr
    add     x0, x3, x5, lsr #2
    answer_within
    .endm

    function __reheap_memchr
    cbz     x2, .Lmemchr_none
    find    memchr, byte, limited
.Lmemchr_none:
    mov     x0, #0
    ret
    end_function __reheap_memchr

    // ----- rawmemchr -----

    .macro answer_first_rawmemchr
    add     x0, x0, x5, lsr #2
    ret
    .endm

    .macro answer_rawmemchr
    add     x0, x3, x5, lsr #2
    ret
    .endm

    function __reheap_rawmemchr
    find    rawmemchr, byte, unlimited
    end_function __reheap_rawmemchr

    // ----- strchrnul -----

    .macro answer_first_strchrnul
    answer_first_rawmemchr
    .endm

    .macro answer_strchrnul
    answer_rawmemchr
    .endm

    function __reheap_strchrnul
    find    strchrnul, either, unlimited
    end_function __reheap_strchrnul

    // ----- strchr -----

    .macro answer_if_found
    ldrb    w3, [x0]
    cmp     w3, w1, uxtb
    csel    x0, x0, xzr, eq
    ret
    .endm

    .macro answer_first_strchr
    add     x0, x0, x5, lsr #2
    answer_if_found
    .endm

    .macro answer_strchr
    add     x0, x3, x5, lsr #2
    answer_if_found
    .endm

    function __reheap_strchr
    find    strchr, either, unlimited
    end_function __reheap_strchr
