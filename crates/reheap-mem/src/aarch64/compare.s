// memcmp and bcmp.
//
// x0, x1: the blocks, x2: the count; w0: less than, equal to or greater than 0. x7, x8: the ends of the blocks.

    // Compares x3, x4 with x5, x6; jumps if they differ.
    .macro compare_pairs
    cmp     x3, x5
    ccmp    x4, x6, #0, eq
    b.ne    .Lcompare_different
    .endm

    .macro equal
    mov     w0, #0
    ret
    .endm

    begin_section __reheap_memcmp
    own_name __reheap_bcmp
    own_name __reheap_memcmp
    .cfi_startproc
    add     x7, x0, x2
    add     x8, x1, x2
    cmp     x2, #16
    b.lo    .Lcompare_0_15
    ldp     x3, x4, [x0]
    ldp     x5, x6, [x1]
    compare_pairs
    cmp     x2, #32
    b.hi    .Lcompare_33
.Lcompare_last:
    ldp     x3, x4, [x7, #-16]
    ldp     x5, x6, [x8, #-16]
    compare_pairs
    equal

    .p2align 4
.Lcompare_33:
    add     x0, x0, #16
    add     x1, x1, #16
    subs    x2, x2, #16 + 64            // what is left, less 64
    b.ls    .Lcompare_few
    .p2align 4
.Lcompare_four:
    ldp     q0, q1, [x0]
    ldp     q4, q5, [x1]
    ldp     q2, q3, [x0, #32]
    ldp     q6, q7, [x1, #32]
    eor     v0.16b, v0.16b, v4.16b
    eor     v1.16b, v1.16b, v5.16b
    eor     v2.16b, v2.16b, v6.16b
    eor     v3.16b, v3.16b, v7.16b
    orr     v0.16b, v0.16b, v1.16b
    orr     v2.16b, v2.16b, v3.16b
    orr     v0.16b, v0.16b, v2.16b
    umaxp   v0.16b, v0.16b, v0.16b
    fmov    x3, d0
    cbnz    x3, .Lcompare_in_four
    add     x0, x0, #64
    add     x1, x1, #64
    subs    x2, x2, #64
    b.hi    .Lcompare_four
.Lcompare_few:
    adds    x2, x2, #64 - 16            // what is left, less 16
    b.le    .Lcompare_last
.Lcompare_one:
    ldp     x3, x4, [x0], #16
    ldp     x5, x6, [x1], #16
    compare_pairs
    subs    x2, x2, #16
    b.hi    .Lcompare_one
    b       .Lcompare_last

    .p2align 4
.Lcompare_in_four:
    mov     x2, #64
    b       .Lcompare_one

    // The first difference decides: in the first halves, or else in the second ones.
    .p2align 4
.Lcompare_different:
    cmp     x3, x5
    csel    x3, x3, x4, ne
    csel    x5, x5, x6, ne
    rev     x3, x3
    rev     x5, x5
    cmp     x3, x5
    mov     w0, #1
    cneg    w0, w0, lo
    ret

    .p2align 4
.Lcompare_0_15:
    tbz     x2, #3, .Lcompare_0_7
    ldr     x3, [x0]
    ldr     x5, [x1]
    ldur    x4, [x7, #-8]
    ldur    x6, [x8, #-8]
    compare_pairs
    equal

    .p2align 4
.Lcompare_0_7:
    tbz     x2, #2, .Lcompare_0_3
    ldr     w3, [x0]
    ldr     w5, [x1]
    ldur    w4, [x7, #-4]
    ldur    w6, [x8, #-4]
    compare_pairs
    equal

    // The first, the middle and the last byte, of which some may be the same.
    .p2align 4
.Lcompare_0_3:
    cbz     x2, .Lcompare_0
    lsr     x9, x2, #1
    ldrb    w3, [x0]
    ldrb    w5, [x1]
    ldrb    w4, [x0, x9]
    ldrb    w6, [x1, x9]
    ldurb   w7, [x7, #-1]
    ldurb   w8, [x8, #-1]
    orr     w7, w7, w3, lsl #16
    orr     w8, w8, w5, lsl #16
    orr     w7, w7, w4, lsl #8
    orr     w8, w8, w6, lsl #8
    sub     w0, w7, w8
    ret
.Lcompare_0:
    equal
    .cfi_endproc
    .size   __reheap_memcmp, . - __reheap_memcmp
    .size   __reheap_bcmp, . - __reheap_bcmp
