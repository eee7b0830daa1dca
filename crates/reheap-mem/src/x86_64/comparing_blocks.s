# How two blocks are compared: what memcmp, bcmp and wmemcmp share.
#
# rdi, rsi: the blocks.

    # Compares a vector of both; on a difference jumps with the mask in eax, the lowest bit set of which is that of the
    # first byte that differs.
    .macro compare_vectors reg, at, different:vararg
    load    \reg, 0, [rdi + \at]
    .ifc \reg, ymm
    vpcmpeqb ymm0, ymm0, [rsi + \at]
    vpmovmskb eax, ymm0
    inc     eax
    .else
    movdqu  xmm1, [rsi + \at]
    pcmpeqb xmm0, xmm1
    pmovmskb eax, xmm0
    sub     eax, 0xffff
    .endif
    jnz     \different
    .endm

    # Four vectors at once; the mask is that of any difference. Register 0 to 3: what is equal.
    .macro equal_4_vectors reg, vec, at:vararg
    load    \reg, 0, [rdi + \at]
    load    \reg, 1, [rdi + \at + \vec]
    load    \reg, 2, [rdi + \at + 2*\vec]
    load    \reg, 3, [rdi + \at + 3*\vec]
    .ifc \reg, ymm
    vpcmpeqb ymm0, ymm0, [rsi + \at]
    vpcmpeqb ymm1, ymm1, [rsi + \at + \vec]
    vpcmpeqb ymm2, ymm2, [rsi + \at + 2*\vec]
    vpcmpeqb ymm3, ymm3, [rsi + \at + 3*\vec]
    vpand   ymm4, ymm0, ymm1
    vpand   ymm5, ymm2, ymm3
    vpand   ymm4, ymm4, ymm5
    vpmovmskb eax, ymm4
    inc     eax
    .else
    movdqu  xmm4, [rsi + \at]
    movdqu  xmm5, [rsi + \at + \vec]
    movdqu  xmm6, [rsi + \at + 2*\vec]
    movdqu  xmm7, [rsi + \at + 3*\vec]
    pcmpeqb xmm0, xmm4
    pcmpeqb xmm1, xmm5
    pcmpeqb xmm2, xmm6
    pcmpeqb xmm3, xmm7
    movdqa  xmm4, xmm0
    pand    xmm4, xmm1
    movdqa  xmm5, xmm2
    pand    xmm5, xmm3
    pand    xmm4, xmm5
    pmovmskb eax, xmm4
    sub     eax, 0xffff
    .endif
    .endm

    # Before a loop, if that is long: on to where the first block is aligned, at most one vector, which is known to be equal.
    # A load at such an address is in one line of the cache. Up to sixteen vectors, most functions gain more by fewer loads.
    .macro align_first vec
    mov     rcx, rdi
    or      rcx, \vec - 1
    inc     rcx
    sub     rcx, rdi
    add     rdi, rcx
    add     rsi, rcx
    sub     rdx, rcx
    .endm

