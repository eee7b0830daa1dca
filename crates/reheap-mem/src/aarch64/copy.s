// memmove. memcpy and memset are musl's own: they are assembly on this processor.
//
// x0: destination, x1: source, x2: the count. x3: the end of the source, x4: that of the destination.

    function __reheap_memmove
    add     x3, x1, x2
    add     x4, x0, x2
    cmp     x2, #16
    b.lo    .Lmove_0_15
    cmp     x2, #32
    b.hi    .Lmove_33
    ldr     q0, [x1]
    ldur    q1, [x3, #-16]
    str     q0, [x0]
    stur    q1, [x4, #-16]
    ret

    .p2align 4
.Lmove_0_15:
    tbz     x2, #3, .Lmove_0_7
    ldr     x5, [x1]
    ldur    x6, [x3, #-8]
    str     x5, [x0]
    stur    x6, [x4, #-8]
    ret
.Lmove_0_7:
    tbz     x2, #2, .Lmove_0_3
    ldr     w5, [x1]
    ldur    w6, [x3, #-4]
    str     w5, [x0]
    stur    w6, [x4, #-4]
    ret
.Lmove_0_3:                             // the first, the middle and the last byte, of which some may be the same
    cbz     x2, .Lmove_0
    lsr     x7, x2, #1
    ldrb    w5, [x1]
    ldrb    w6, [x1, x7]
    ldurb   w8, [x3, #-1]
    strb    w5, [x0]
    strb    w6, [x0, x7]
    sturb   w8, [x4, #-1]
.Lmove_0:
    ret

    .p2align 4
.Lmove_33:
    cmp     x2, #64
    b.hi    .Lmove_65
    ldp     q0, q1, [x1]
    ldp     q2, q3, [x3, #-32]
    stp     q0, q1, [x0]
    stp     q2, q3, [x4, #-32]
    ret

    .p2align 4
.Lmove_65:
    cmp     x2, #128
    b.hi    .Lmove_129
    ldp     q0, q1, [x1]
    ldp     q2, q3, [x1, #32]
    ldp     q4, q5, [x3, #-64]
    ldp     q6, q7, [x3, #-32]
    stp     q0, q1, [x0]
    stp     q2, q3, [x0, #32]
    stp     q4, q5, [x4, #-64]
    stp     q6, q7, [x4, #-32]
    ret

    // Whatever a store may overwrite has been loaded before: the last 64 bytes, and always the next 64.
    .p2align 4
.Lmove_129:
    sub     x5, x0, x1
    cmp     x5, x2
    b.lo    .Lmove_from_the_end         // the destination begins within the source
    and     x6, x0, #15
    ldr     q3, [x1]
    sub     x5, x0, x6
    sub     x1, x1, x6
    add     x5, x5, #16                 // the first multiple of 16 behind x0
    ldp     q4, q5, [x3, #-64]
    ldp     q6, q7, [x3, #-32]
    ldp     q0, q1, [x1, #16]
    ldp     q2, q16, [x1, #48]
    str     q3, [x0]
    sub     x2, x4, x5
    subs    x2, x2, #128                // at least 113 were left
    b.ls    .Lmove_last
    .p2align 4
.Lmove_forward:
    stp     q0, q1, [x5]
    stp     q2, q16, [x5, #32]
    ldp     q0, q1, [x1, #80]
    ldp     q2, q16, [x1, #112]
    add     x5, x5, #64
    add     x1, x1, #64
    subs    x2, x2, #64
    b.hi    .Lmove_forward
.Lmove_last:
    stp     q0, q1, [x5]
    stp     q2, q16, [x5, #32]
    stp     q4, q5, [x4, #-64]
    stp     q6, q7, [x4, #-32]
    ret

    .p2align 4
.Lmove_from_the_end:
    cbz     x5, .Lmove_0
    and     x6, x4, #15
    ldur    q3, [x3, #-16]
    sub     x5, x4, x6                  // the last multiple of 16 before the end
    sub     x3, x3, x6
    ldp     q4, q5, [x1]
    ldp     q6, q7, [x1, #32]
    ldp     q0, q1, [x3, #-32]
    ldp     q2, q16, [x3, #-64]
    stur    q3, [x4, #-16]
    sub     x2, x5, x0
    subs    x2, x2, #128
    b.ls    .Lmove_first
    .p2align 4
.Lmove_backward:
    stp     q0, q1, [x5, #-32]
    stp     q2, q16, [x5, #-64]
    ldp     q0, q1, [x3, #-96]
    ldp     q2, q16, [x3, #-128]
    sub     x5, x5, #64
    sub     x3, x3, #64
    subs    x2, x2, #64
    b.hi    .Lmove_backward
.Lmove_first:
    stp     q0, q1, [x5, #-32]
    stp     q2, q16, [x5, #-64]
    stp     q4, q5, [x0]
    stp     q6, q7, [x0, #32]
    ret
    end_function __reheap_memmove
