// strcmp, strncmp; strcpy, stpcpy, strncpy, stpncpy.

    // ----- strcmp, strncmp -----
    //
    // x0, x1: the strings, x2: the count where there is one; w0: less than, equal to or greater than 0.
    //
    // Blocks of 16 bytes as they lie in the one string, against what they face in the other: that lies in two of its blocks,
    // and the second of these is loaded only if the string does not end in the first. x5: where in a block of the other
    // string a block of the one begins; x12: how much of that block is left from there; x7: that block, and v3: its bytes.

    // v4: 0xff where v1 and v2 differ, or end.
    .macro match_stop
    cmeq    v4.16b, v1.16b, v2.16b
    umin    v4.16b, v4.16b, v2.16b
    cmeq    v4.16b, v4.16b, #0
    .endm

    .macro mask_stop to
    shrn    v0.8b, v4.8h, #4
    fmov    \to, d0
    .endm

    .macro compare_strings name, limit
    .ifc \limit, limited
    cbz     x2, .L\name\()_equal
    .endif
    // Strings that somebody sorts or looks up mostly differ at once.
    ldrb    w3, [x0]
    ldrb    w4, [x1]
    cmp     w3, w4
    b.ne    .L\name\()_at_once
    .ifc \limit, limited
    mov     x3, #0x7fffffffffffffff     // no string is longer
    cmp     x2, #0
    csel    x2, x2, x3, ge
    .endif
    and     x4, x0, #15
    and     x5, x1, #15
    // The one is the string whose block ends first; w9: -1 if that is the second one.
    cmp     x4, x5
    csetm   w9, lo
    csel    x6, x0, x1, hs
    csel    x1, x1, x0, hs
    mov     x0, x6
    csel    x6, x4, x5, hs
    csel    x5, x5, x4, hs
    adr     x10, .L\name\()_places
    bic     x3, x0, #15
    bic     x7, x1, #15
    ldr     q1, [x3]
    ldr     q3, [x7]
    ldr     q5, [x10, x6]
    ldr     q6, [x10, x5]
    tbl     v1.16b, {v1.16b}, v5.16b
    tbl     v2.16b, {v3.16b}, v6.16b
    match_stop
    mask_stop x3
    mov     x11, #16
    first_in x3
    sub     x11, x11, x6                // so much of the block is the string's
    lsr     x3, x3, #2
    cmp     x3, x11
    b.lo    .L\name\()_at

    .ifc \limit, limited
    subs    x2, x2, x11
    b.ls    .L\name\()_equal
    .endif
    add     x0, x0, x11
    add     x1, x1, x11
    ands    x5, x1, #15
    b.eq    .L\name\()_both_aligned
    mov     x12, #16
    sub     x12, x12, x5
    .ifc \limit, limited
    subs    x2, x2, x12                 // from here on: how much is to be compared behind that block
    b.ls    .L\name\()_last
    .endif
    cmeq    v0.16b, v3.16b, #0
    lsl     x4, x1, #2
    mask    x3
    lsr     x3, x3, x4
    cbnz    x3, .L\name\()_last
    .p2align 4
.L\name\()_loop:
    ldr     q2, [x1], #16
    ldr     q1, [x0], #16
    ldr     q3, [x7, #16]!
    match_stop
    cmeq    v0.16b, v3.16b, #0
    orr     v0.16b, v0.16b, v4.16b
    mask    x3
    .ifc \limit, limited
    subs    x2, x2, #16
    b.ls    .L\name\()_leave
    .endif
    cbz     x3, .L\name\()_loop
.L\name\()_leave:
    mask_stop x3
    .ifc \limit, limited
    add     x4, x2, x12
    .endif
    cbnz    x3, .L\name\()_before

    // The other string, or the count, ends in its block v3: zeros stand for what is behind it.
.L\name\()_last:
    .ifc \limit, limited
    adds    x2, x2, x12
    b.le    .L\name\()_equal
    .endif
    ldr     q1, [x0]
    ldr     q6, [x10, x5]
    tbl     v2.16b, {v3.16b}, v6.16b
    match_stop
    mask_stop x3
.L\name\()_found:
    first_in x3
    lsr     x3, x3, #2
.L\name\()_at:
    .ifc \limit, limited
    cmp     x3, x2
    b.hs    .L\name\()_equal
    .endif
    ldrb    w4, [x0, x3]
    ldrb    w5, [x1, x3]
    sub     w0, w4, w5
    eor     w0, w0, w9
    sub     w0, w0, w9
    ret

.L\name\()_at_once:
    sub     w0, w3, w4
    ret

    // Both lie alike in their blocks.
    .p2align 4
.L\name\()_both_aligned:
    ldr     q1, [x0], #16
    ldr     q2, [x1], #16
    match_stop
    mask_stop x3
    .ifc \limit, limited
    cbnz    x3, .L\name\()_both_found
    subs    x2, x2, #16
    b.hi    .L\name\()_both_aligned
.L\name\()_equal:
    mov     w0, #0
    ret
.L\name\()_before:
    add     x2, x4, #16
.L\name\()_both_found:
    .else
    cbz     x3, .L\name\()_both_aligned
.L\name\()_before:
    .endif
    sub     x0, x0, #16
    sub     x1, x1, #16
    b       .L\name\()_found

    // With these places from x on, `tbl` moves the bytes of a block x places down. 0xff is no place: it gives 0.
    .p2align 4
.L\name\()_places:
    .byte   0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    .fill   16, 1, 0xff
    .endm

    function __reheap_strcmp
    compare_strings strcmp, unlimited
    end_function __reheap_strcmp

    function __reheap_strncmp
    compare_strings strncmp, limited
    end_function __reheap_strncmp

    // ----- strcpy, stpcpy -----
    //
    // x0: destination, x1: the string. x3: a block of it, or its end; x6: the way from the string to the destination.

    .macro match_end to
    cmeq    v0.16b, v1.16b, #0
    mask    \to
    .endm

    .macro copy_string name, result
    bic     x3, x1, #15
    lsl     x5, x1, #2
    ldr     q1, [x3]
    sub     x6, x0, x1
    match_end x4
    lsr     x4, x4, x5
    cbnz    x4, .L\name\()_first
    ldr     q1, [x3, #16]!
    match_end x4
    cbnz    x4, .L\name\()_second
    ldr     q2, [x1]
    str     q2, [x0]
    .p2align 4
.L\name\()_loop:
    str     q1, [x3, x6]
    ldr     q1, [x3, #16]!
    match_end x4
    cbz     x4, .L\name\()_loop
    cmn     x6, #16
    b.hs    .L\name\()_overlaps
    first_in x4
    add     x3, x3, x4, lsr #2
    ldur    q1, [x3, #-15]
    add     x5, x3, x6
    stur    q1, [x5, #-15]
    finish  \result
    // `strcpy(s, s + 1)` is not allowed, but does what is meant with a loop over bytes.
.L\name\()_overlaps:
    ldrb    w4, [x3]
    add     x5, x3, x6
    strb    w4, [x5]
    add     x3, x3, #1
    cbnz    w4, .L\name\()_overlaps
    finish  \result

    .p2align 4
.L\name\()_first:
    mov     x3, x1
.L\name\()_second:
    first_in x4
    add     x3, x3, x4, lsr #2
    sub     x4, x3, x1                  // the length
    add     x5, x0, x4
    cmp     x4, #15
    b.lo    .L\name\()_short
    ldr     q1, [x1]
    ldur    q2, [x3, #-15]
    str     q1, [x0]
    stur    q2, [x5, #-15]
    finish  \result
.L\name\()_short:
    cmp     x4, #7
    b.lo    .L\name\()_0_6
    ldr     x6, [x1]
    ldur    x7, [x3, #-7]
    str     x6, [x0]
    stur    x7, [x5, #-7]
    finish  \result
.L\name\()_0_6:
    cmp     x4, #3
    b.lo    .L\name\()_0_2
    ldr     w6, [x1]
    ldur    w7, [x3, #-3]
    str     w6, [x0]
    stur    w7, [x5, #-3]
    finish  \result
.L\name\()_0_2:
    cbz     x4, .L\name\()_0
    ldrh    w6, [x1]
    strh    w6, [x0]
.L\name\()_0:
    strb    wzr, [x5]
    finish  \result
    .endm

    // x5: the end of the copy.
    .macro finish result
    .ifc \result, end
    mov     x0, x5
    .endif
    ret
    .endm

    function __reheap_strcpy
    copy_string strcpy, beginning
    end_function __reheap_strcpy

    function __reheap_stpcpy
    copy_string stpcpy, end
    end_function __reheap_stpcpy

    // ----- strncpy, stpncpy -----
    //
    // First the length, then the copy, then zeros.

    .hidden __reheap_strnlen, __reheap_memmove

    // x19: destination, x20: the string, x21: the count, x22: the length.
    .macro copy_and_fill name, result
    stp     x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset x29, -48
    .cfi_offset x30, -40
    mov     x29, sp
    stp     x19, x20, [sp, #16]
    stp     x21, x22, [sp, #32]
    .cfi_offset x19, -32
    .cfi_offset x20, -24
    .cfi_offset x21, -16
    .cfi_offset x22, -8
    mov     x19, x0
    mov     x20, x1
    mov     x21, x2
    mov     x0, x1
    mov     x1, x2
    bl      __reheap_strnlen
    mov     x22, x0
    mov     x2, x0
    mov     x0, x19
    mov     x1, x20
    bl      __reheap_memmove            // returns the destination in x0
    add     x5, x19, x22
    add     x4, x19, x21
    sub     x2, x21, x22
    ldp     x19, x20, [sp, #16]
    ldp     x21, x22, [sp, #32]
    ldp     x29, x30, [sp], #48
    .cfi_def_cfa_offset 0
    .cfi_restore x19
    .cfi_restore x20
    .cfi_restore x21
    .cfi_restore x22
    .cfi_restore x29
    .cfi_restore x30

    // Zeros for x2 bytes, from x5 to x4.
    mov     x3, x5
    movi    v0.16b, #0
    cmp     x2, #16
    b.lo    .L\name\()_0_15
    cmp     x2, #32
    b.lo    .L\name\()_16_31
    sub     x6, x4, #32
.L\name\()_fill:
    stp     q0, q0, [x3], #32
    cmp     x3, x6
    b.lo    .L\name\()_fill
    stp     q0, q0, [x6]
    finish  \result
.L\name\()_16_31:
    str     q0, [x3]
    stur    q0, [x4, #-16]
    finish  \result
.L\name\()_0_15:
    tbz     x2, #3, .L\name\()_0_7
    str     xzr, [x3]
    stur    xzr, [x4, #-8]
    finish  \result
.L\name\()_0_7:
    tbz     x2, #2, .L\name\()_0_3
    str     wzr, [x3]
    stur    wzr, [x4, #-4]
    finish  \result
.L\name\()_0_3:
    cbz     x2, .L\name\()_0
    lsr     x6, x2, #1
    strb    wzr, [x3]
    strb    wzr, [x3, x6]
    sturb   wzr, [x4, #-1]
.L\name\()_0:
    finish  \result
    .endm

    function __reheap_strncpy
    copy_and_fill strncpy, beginning
    end_function __reheap_strncpy

    function __reheap_stpncpy
    copy_and_fill stpncpy, end
    end_function __reheap_stpncpy
