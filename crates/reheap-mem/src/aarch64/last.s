// memrchr: the last byte in a block that is the wanted one. (musl's strrchr calls it.)
//
// The whole block may be read, so four loads are made at once.
//
// x0: the block, x2: its end, w1: the byte. x3: the 16 bytes that are looked at.

    .macro answer_last
    cmp     x4, x0
    csel    x0, x4, xzr, hs
    ret
    .endm

    function __reheap_memrchr
    cbz     x2, .Lmemrchr_none
    add     x2, x0, x2
    sub     x4, x2, #1                  // the last byte
    bic     x3, x4, #15
    ldr     q0, [x3]
    dup     v1.16b, w1
    cmeq    v0.16b, v0.16b, v1.16b
    neg     x6, x2, lsl #2
    mask    x5
    lsl     x5, x5, x6                  // without the bits of what is behind
    cbz     x5, .Lmemrchr_rest
    clz     x5, x5
    sub     x4, x4, x5, lsr #2
    answer_last

    .p2align 4
.Lmemrchr_rest:
    subs    x6, x3, x0
    b.ls    .Lmemrchr_none
    subs    x6, x6, #64
    b.lo    .Lmemrchr_few
.Lmemrchr_four:
    ldp     q2, q3, [x3, #-32]
    ldp     q4, q5, [x3, #-64]!
    cmeq    v2.16b, v2.16b, v1.16b
    cmeq    v3.16b, v3.16b, v1.16b
    cmeq    v4.16b, v4.16b, v1.16b
    cmeq    v5.16b, v5.16b, v1.16b
    orr     v2.16b, v2.16b, v3.16b
    orr     v4.16b, v4.16b, v5.16b
    orr     v0.16b, v2.16b, v4.16b
    mask    x5
    cbnz    x5, .Lmemrchr_in_four
    subs    x6, x6, #64
    b.hs    .Lmemrchr_four
.Lmemrchr_few:
    cmp     x3, x0
    b.ls    .Lmemrchr_none
    ldr     q0, [x3, #-16]!
    cmeq    v0.16b, v0.16b, v1.16b
    mask    x5
    cbz     x5, .Lmemrchr_few
    clz     x5, x5
    add     x4, x3, #15
    sub     x4, x4, x5, lsr #2
    answer_last

    .p2align 4
.Lmemrchr_in_four:
    add     x3, x3, #64
    b       .Lmemrchr_few

.Lmemrchr_none:
    mov     x0, #0
    ret
    end_function __reheap_memrchr
