# memcmp and bcmp.
#
# rdi, rsi: the blocks, rdx: count; eax: less than, equal to or greater than 0; for bcmp only whether it is 0.

    # With AVX-512. Up to one vector at once, without a loop or another branch on the count.
    .macro compare_masked reg
    mask_from_count
    vmovdqu8 \reg\()0 {k1} {z}, [rdi]
    vpcmpub k0 {k1}, \reg\()0, [rsi], 4
    .endm

    # rax is 0 if four vectors of both are equal.
    .macro differences_masked reg, vec
    .irp n, 1, 2, 3, 4
    vmovdqu64 \reg\n, [rdi + \vec*\n - \vec]
    vpxorq  \reg\n, \reg\n, [rsi + \vec*\n - \vec]
    .endr
    vpternlogq \reg\()1, \reg\()2, \reg\()3, 0xfe
    vporq   \reg\()1, \reg\()1, \reg\()4
    vptestmb k0, \reg\()1, \reg\()1
    kmovq   rax, k0                     # faster than `kortestq`, on AMD's processors
    .endm

    # From rax, which is not 0 if the blocks differ. Of 64 bytes the lower half of the mask would not say it.
    .macro answer_unequal reg
    .ifc \reg, zmm2
    neg     rax
    sbb     eax, eax
    .endif
    ret
    .endm

    .macro compare_vector_masked reg, at, different
    vmovdqu64 \reg\()0, [rdi + \at]
    vpcmpub k0, \reg\()0, [rsi + \at], 4
    kmovq   rax, k0
    pair    9
    test    rax, rax
    jnz     \different
    .endm

    # memcmp of more than one vector.
    .macro compare_more_masked reg, vec
    compare_vector_masked \reg, 0, .Ldifferent_0_masked
    pair    13
    cmp     rdx, 2*\vec
    ja      .Lcompare_over_2_\reg
    compare_vector_masked \reg, rdx-\vec, .Ldifferent_last_\reg
    ret

.Ldifferent_last_\reg:
    lea     rdi, [rdi + rdx - \vec]
    lea     rsi, [rsi + rdx - \vec]
    jmp     .Ldifferent_0_masked
.Ldifferent_1_\reg:
    add     rdi, \vec
    add     rsi, \vec
    jmp     .Ldifferent_0_masked
.Ldifferent_last_two_\reg:
    lea     rdi, [rdi + rdx - 2*\vec]
    lea     rsi, [rsi + rdx - 2*\vec]
    jmp     .Ldifferent_0_masked

    .p2align 4
.Lcompare_over_2_\reg:
    cmp     rdx, 4*\vec
    ja      .Lcompare_over_4_\reg
    compare_vector_masked \reg, \vec, .Ldifferent_1_\reg
    compare_vector_masked \reg, rdx-2*\vec, .Ldifferent_last_two_\reg
    compare_vector_masked \reg, rdx-\vec, .Ldifferent_last_\reg
    ret

    .p2align 4
.Lcompare_over_4_\reg:
    add     rdx, -4*\vec                # how many bytes there are before the last four vectors
    cmp     rdx, 4*\vec
    jbe     .Lcompare_loop_\reg
    align_first \vec
    .p2align 4
.Lcompare_loop_\reg:
    differences_masked \reg, \vec
    pair    9, \reg
    test    rax, rax
    jnz     .Ldifferent_4_\reg
    add     rdi, 4*\vec
    add     rsi, 4*\vec
    pair    13
    sub     rdx, 4*\vec
    ja      .Lcompare_loop_\reg
    add     rdi, rdx                    # back by what is not left: the last four vectors
    add     rsi, rdx
    cmp     rdx, -2*\vec
    jle     .Lcompare_last_two_\reg
    differences_masked \reg, \vec
    test    rax, rax
    jnz     .Ldifferent_4_\reg
    ret
.Lcompare_last_two_\reg:
    add     rdi, 2*\vec
    add     rsi, 2*\vec
    compare_vector_masked \reg, 0, .Ldifferent_0_masked
    compare_vector_masked \reg, \vec, .Ldifferent_1_\reg
    ret
    .p2align 4
.Ldifferent_4_\reg:
    .irp n, 1, 2, 3, 4
    compare_vector_masked \reg, 0, .Ldifferent_0_masked
    add     rdi, \vec
    add     rsi, \vec
    .endr
    xor     eax, eax                    # if somebody wrote to them meanwhile
    ret
    .endm

    function __reheap_memcmp
    cmp     byte ptr [rip + __reheap_mem_level], 2
    jl      .Lcompare_narrow
    cmp     rdx, 32
    ja      .Lcompare_33_masked
    compare_masked ymm2
    kmovd   eax, k0
    test    eax, eax
    jnz     .Ldifferent_0_masked
    ret

    .p2align 4
.Ldifferent_0_masked:
    tzcnt   rcx, rax
    movzx   eax, byte ptr [rdi + rcx]
    movzx   ecx, byte ptr [rsi + rcx]
    sub     eax, ecx
    ret

    .p2align 4
.Lcompare_33_masked:
    cmp     byte ptr [rip + __reheap_mem_level], 2
    jg      .Lcompare_33_zmm
    compare_more_masked ymm2, 32

    .p2align 4
.Lcompare_33_zmm:
    cmp     rdx, 64
    ja      .Lcompare_65_zmm
    compare_masked zmm2
    kmovq   rax, k0
    test    rax, rax
    jnz     .Ldifferent_0_masked
    ret

    .p2align 4
.Lcompare_65_zmm:
    compare_more_masked zmm2, 64

    .p2align 4
.Lcompare_counted:
    find_level_in_time __reheap_memcmp
    jmp     .Lcompare_sse2

    .p2align 5
.Lcompare_narrow:
    jo      .Lcompare_counted               # -128 - 2 is no byte: the level is not known
.Lcompare_sse2:
    cmp     rdx, 16
    jb      .Lcompare_0_15
    cmp     rdx, 64
    ja      .Lcompare_65
    compare_vectors xmm, 0, .Ldifferent_0_xmm
    cmp     rdx, 32
    ja      .Lcompare_33
    compare_vectors xmm, rdx-16, .Ldifferent_last_xmm
    ret

    .p2align 4
.Ldifferent_last_xmm:
    lea     rdi, [rdi + rdx - 16]
    lea     rsi, [rsi + rdx - 16]
.Ldifferent_0_xmm:
    tzcnt   ecx, eax
    movzx   eax, byte ptr [rdi + rcx]
    movzx   ecx, byte ptr [rsi + rcx]
    sub     eax, ecx
    ret

    .p2align 4
.Lcompare_0_15:
    cmp     edx, 8
    jae     .Lcompare_8_15
    cmp     edx, 4
    jae     .Lcompare_4_7
    cmp     edx, 1
    jb      .Lcompare_0
    je      .Lcompare_1
    movzx   eax, word ptr [rdi]         # the first two, then the last: two or three different ones
    movzx   ecx, word ptr [rsi]
    bswap   eax
    bswap   ecx
    shr     eax, 8
    shr     ecx, 8
    mov     al, [rdi + rdx - 1]
    mov     cl, [rsi + rdx - 1]
    sub     eax, ecx
    ret
.Lcompare_0:
    xor     eax, eax
    ret
.Lcompare_1:
    movzx   eax, byte ptr [rdi]
    movzx   ecx, byte ptr [rsi]
    sub     eax, ecx
    ret

    .p2align 4
.Lcompare_4_7:
    mov     eax, [rdi]
    mov     ecx, [rsi]
    mov     r8d, [rdi + rdx - 4]
    mov     r9d, [rsi + rdx - 4]
    shl     r8, 32
    shl     r9, 32
    or      rax, r8
    or      rcx, r9
    cmp     rax, rcx
    jne     .Lcompare_words
    xor     eax, eax
    ret

    .p2align 4
.Lcompare_8_15:
    mov     rax, [rdi]
    mov     rcx, [rsi]
    cmp     rax, rcx
    jne     .Lcompare_words
    mov     rax, [rdi + rdx - 8]
    mov     rcx, [rsi + rdx - 8]
    cmp     rax, rcx
    jne     .Lcompare_words
    xor     eax, eax
    ret
.Lcompare_words:
    bswap   rax
    bswap   rcx
    cmp     rax, rcx
    sbb     eax, eax
    or      eax, 1
    ret

    .p2align 4
.Lcompare_33:
    compare_vectors xmm, 16, .Ldifferent_16_xmm
    compare_vectors xmm, rdx-32, .Ldifferent_last_two_xmm
    compare_vectors xmm, rdx-16, .Ldifferent_last_xmm
    ret

    .p2align 4
.Ldifferent_last_two_xmm:
    lea     rdi, [rdi + rdx - 32]
    lea     rsi, [rsi + rdx - 32]
    jmp     .Ldifferent_0_xmm
.Ldifferent_16_xmm:
    tzcnt   ecx, eax
    movzx   eax, byte ptr [rdi + rcx + 16]
    movzx   ecx, byte ptr [rsi + rcx + 16]
    sub     eax, ecx
    ret

    .p2align 4
.Lcompare_65:
    if_wide .Lcompare_65_ymm
    compare_vectors xmm, 0, .Ldifferent_0_xmm
    add     rdx, -64                    # how many bytes there are before the last four vectors
    cmp     rdx, 64
    jbe     .Lcompare_loop_xmm
    align_first 16
.Lcompare_loop_xmm:
    equal_4_vectors xmm, 16, 0
    jnz     .Ldifferent_4_xmm
    add     rdi, 64
    add     rsi, 64
    sub     rdx, 64
    ja      .Lcompare_loop_xmm
    add     rdi, rdx                    # back by what is not left: the last four vectors
    add     rsi, rdx
    equal_4_vectors xmm, 16, 0
    jnz     .Ldifferent_4_xmm
    ret

    # Which of the four it is.
    .macro different_4_vectors reg, vec
    mask    \reg, ecx, 0
    mask    \reg, edx, 1
    mask    \reg, r8d, 2
    mask    \reg, r9d, 3
    .ifc \reg, ymm
    vzeroupper
    shl     rdx, 32
    or      rcx, rdx
    shl     r9, 32
    or      r8, r9
    .else
    shl     edx, 16
    or      ecx, edx
    shl     r9d, 16
    or      r8d, r9d
    shl     r8, 32
    or      rcx, r8
    .endif
    not     rcx
    .ifc \reg, ymm
    test    rcx, rcx
    jnz     .Ldifferent_half_ymm
    add     rdi, 64
    add     rsi, 64
    mov     rcx, r8
    not     rcx
.Ldifferent_half_ymm:
    .endif
    tzcnt   rcx, rcx
    movzx   eax, byte ptr [rdi + rcx]
    movzx   ecx, byte ptr [rsi + rcx]
    sub     eax, ecx
    ret
    .endm

    .p2align 4
.Ldifferent_4_xmm:
    different_4_vectors xmm, 16

    .p2align 4
.Lcompare_65_ymm:
    cmp     rdx, 128
    ja      .Lcompare_129_ymm
    compare_vectors ymm, 0, .Ldifferent_0_ymm
    compare_vectors ymm, 32, .Ldifferent_32_ymm
    compare_vectors ymm, rdx-64, .Ldifferent_last_two_ymm
    compare_vectors ymm, rdx-32, .Ldifferent_last_ymm
    vzeroupper
    ret

.Ldifferent_32_ymm:
    add     rdi, 32
    add     rsi, 32
    jmp     .Ldifferent_0_ymm
.Ldifferent_last_two_ymm:
    lea     rdi, [rdi + rdx - 64]
    lea     rsi, [rsi + rdx - 64]
    jmp     .Ldifferent_0_ymm
.Ldifferent_last_ymm:
    lea     rdi, [rdi + rdx - 32]
    lea     rsi, [rsi + rdx - 32]
.Ldifferent_0_ymm:
    vzeroupper
    jmp     .Ldifferent_0_xmm

    .p2align 4
.Lcompare_129_ymm:
    add     rdx, -128
    cmp     rdx, 12*32
    jbe     .Lcompare_loop_ymm
    compare_vectors ymm, 0, .Ldifferent_0_ymm
    align_first 32
    .p2align 4
.Lcompare_loop_ymm:
    equal_4_vectors ymm, 32, 0
    jnz     .Ldifferent_4_ymm
    add     rdi, 128
    add     rsi, 128
    sub     rdx, 128
    ja      .Lcompare_loop_ymm
    add     rdi, rdx
    add     rsi, rdx
    cmp     rdx, -64
    jle     .Lcompare_last_two_ymm
    equal_4_vectors ymm, 32, 0
    jnz     .Ldifferent_4_ymm
    vzeroupper
    ret
.Lcompare_last_two_ymm:
    add     rdi, 64
    add     rsi, 64
    compare_vectors ymm, 0, .Ldifferent_0_ymm
    compare_vectors ymm, 32, .Ldifferent_32_ymm
    vzeroupper
    ret
    .p2align 4
.Ldifferent_4_ymm:
    different_4_vectors ymm, 32
    end_function __reheap_memcmp

    # ----- bcmp -----

    function __reheap_bcmp
    cmp     byte ptr [rip + __reheap_mem_level], 2
    jl      .Lequal_narrow
    cmp     rdx, 32
    ja      .Lequal_33_masked
    compare_masked ymm2
    kmovd   eax, k0                     # any number but 0 says that they differ
    ret

    # bcmp of more than one vector.
    .macro equal_more_masked reg, vec
    cmp     rdx, 4*\vec
    ja      .Lequal_over_4_\reg
    vmovdqu64 \reg\()1, [rdi]
    vmovdqu64 \reg\()2, [rdi + rdx - \vec]
    vpxorq  \reg\()1, \reg\()1, [rsi]
    vpxorq  \reg\()2, \reg\()2, [rsi + rdx - \vec]
    cmp     edx, 2*\vec
    jbe     .Lequal_two_\reg
    vmovdqu64 \reg\()3, [rdi + \vec]
    vmovdqu64 \reg\()4, [rdi + rdx - 2*\vec]
    vpxorq  \reg\()3, \reg\()3, [rsi + \vec]
    vpxorq  \reg\()4, \reg\()4, [rsi + rdx - 2*\vec]
    vpternlogq \reg\()1, \reg\()3, \reg\()4, 0xfe
.Lequal_two_\reg:
    vporq   \reg\()1, \reg\()1, \reg\()2
    vptestmb k0, \reg\()1, \reg\()1
    kmovq   rax, k0
    answer_unequal \reg

    .p2align 4
.Lequal_over_4_\reg:
    add     rdx, -4*\vec
    cmp     rdx, 12*\vec
    jbe     .Lequal_loop_\reg
    vmovdqu64 \reg\()1, [rdi]
    vpcmpub k0, \reg\()1, [rsi], 4
    kmovq   rax, k0
    test    rax, rax
    jnz     .Lunequal_\reg
    align_first \vec
    .p2align 4
.Lequal_loop_\reg:
    differences_masked \reg, \vec
    pair    9, \reg
    test    rax, rax
    jnz     .Lunequal_\reg
    add     rdi, 4*\vec
    add     rsi, 4*\vec
    pair    13, \reg
    sub     rdx, 4*\vec
    ja      .Lequal_loop_\reg
    add     rdi, rdx
    add     rsi, rdx
    cmp     rdx, -2*\vec
    jle     .Lequal_last_two_\reg
    differences_masked \reg, \vec
.Lunequal_\reg:
    answer_unequal \reg
.Lequal_last_two_\reg:
    vmovdqu64 \reg\()1, [rdi + 2*\vec]
    vmovdqu64 \reg\()2, [rdi + 3*\vec]
    vpxorq  \reg\()1, \reg\()1, [rsi + 2*\vec]
    vpxorq  \reg\()2, \reg\()2, [rsi + 3*\vec]
    vporq   \reg\()1, \reg\()1, \reg\()2
    vptestmb k0, \reg\()1, \reg\()1
    kmovq   rax, k0
    answer_unequal \reg
    .endm

    .p2align 4
.Lequal_33_masked:
    cmp     byte ptr [rip + __reheap_mem_level], 2
    jg      .Lequal_33_zmm
    equal_more_masked ymm2, 32

    .p2align 4
.Lequal_33_zmm:
    cmp     rdx, 64
    ja      .Lequal_65_zmm
    compare_masked zmm2
    kmovq   rax, k0
    answer_unequal zmm2

    .p2align 4
.Lequal_65_zmm:
    equal_more_masked zmm2, 64

    .p2align 4
.Lequal_counted:
    find_level_in_time __reheap_bcmp
    jmp     .Lequal_sse2

    .p2align 5
.Lequal_narrow:
    jo      .Lequal_counted               # -128 - 2 is no byte: the level is not known
.Lequal_sse2:
    cmp     rdx, 16
    jb      .Lequal_0_15
    cmp     rdx, 32
    ja      .Lequal_33
    movdqu  xmm0, [rdi]
    movdqu  xmm1, [rsi]
    movdqu  xmm2, [rdi + rdx - 16]
    movdqu  xmm3, [rsi + rdx - 16]
    pcmpeqb xmm0, xmm1
    pcmpeqb xmm2, xmm3
    pand    xmm0, xmm2
    pmovmskb eax, xmm0
    sub     eax, 0xffff
    ret

    .p2align 4
.Lequal_0_15:
    cmp     edx, 8
    jae     .Lequal_8_15
    cmp     edx, 4
    jae     .Lequal_4_7
    xor     eax, eax
    cmp     edx, 1
    jb      .Lequal_0
    movzx   eax, byte ptr [rdi]
    movzx   ecx, byte ptr [rsi]
    je      .Lequal_1
    movzx   r8d, word ptr [rdi + rdx - 2]
    movzx   r9d, word ptr [rsi + rdx - 2]
    shl     eax, 16
    shl     ecx, 16
    or      eax, r8d
    or      ecx, r9d
.Lequal_1:
    sub     eax, ecx
.Lequal_0:
    ret

    .p2align 4
.Lequal_4_7:
    mov     eax, [rdi]
    mov     ecx, [rdi + rdx - 4]
    sub     eax, [rsi]
    sub     ecx, [rsi + rdx - 4]
    or      eax, ecx
    ret

    .p2align 4
.Lequal_8_15:
    mov     rax, [rdi]
    mov     rcx, [rdi + rdx - 8]
    sub     rax, [rsi]
    sub     rcx, [rsi + rdx - 8]
    or      rcx, rax
    setne   al
    movzx   eax, al
    ret

    .p2align 4
.Lequal_33:
    cmp     rdx, 64
    ja      .Lequal_65
    movdqu  xmm0, [rdi]
    movdqu  xmm4, [rsi]
    movdqu  xmm1, [rdi + 16]
    movdqu  xmm5, [rsi + 16]
    movdqu  xmm2, [rdi + rdx - 32]
    movdqu  xmm6, [rsi + rdx - 32]
    movdqu  xmm3, [rdi + rdx - 16]
    movdqu  xmm7, [rsi + rdx - 16]
    pcmpeqb xmm0, xmm4
    pcmpeqb xmm1, xmm5
    pcmpeqb xmm2, xmm6
    pcmpeqb xmm3, xmm7
    pand    xmm0, xmm1
    pand    xmm2, xmm3
    pand    xmm0, xmm2
    pmovmskb eax, xmm0
    sub     eax, 0xffff
    ret

    .p2align 4
.Lequal_65:
    if_wide .Lequal_65_ymm
    add     rdx, -64
    cmp     rdx, 64
    jbe     .Lequal_loop_xmm
    compare_vectors xmm, 0, .Lunequal_xmm
    align_first 16
.Lequal_loop_xmm:
    equal_4_vectors xmm, 16, 0
    jnz     .Lunequal_xmm
    add     rdi, 64
    add     rsi, 64
    sub     rdx, 64
    ja      .Lequal_loop_xmm
    add     rdi, rdx
    add     rsi, rdx
    equal_4_vectors xmm, 16, 0
.Lunequal_xmm:
    ret

    .p2align 4
.Lequal_65_ymm:
    cmp     rdx, 128
    ja      .Lequal_129_ymm
    load    ymm, 0, [rdi]
    load    ymm, 1, [rdi + 32]
    load    ymm, 2, [rdi + rdx - 64]
    load    ymm, 3, [rdi + rdx - 32]
    vpcmpeqb ymm0, ymm0, [rsi]
    vpcmpeqb ymm1, ymm1, [rsi + 32]
    vpcmpeqb ymm2, ymm2, [rsi + rdx - 64]
    vpcmpeqb ymm3, ymm3, [rsi + rdx - 32]
    vpand   ymm0, ymm0, ymm1
    vpand   ymm2, ymm2, ymm3
    vpand   ymm0, ymm0, ymm2
    vpmovmskb eax, ymm0
    inc     eax
    vzeroupper
    ret

    .p2align 4
.Lequal_129_ymm:
    add     rdx, -128
    cmp     rdx, 12*32
    jbe     .Lequal_loop_ymm
    compare_vectors ymm, 0, .Lunequal_ymm
    align_first 32
    .p2align 4
.Lequal_loop_ymm:
    equal_4_vectors ymm, 32, 0
    jnz     .Lunequal_ymm
    add     rdi, 128
    add     rsi, 128
    sub     rdx, 128
    ja      .Lequal_loop_ymm
    add     rdi, rdx
    add     rsi, rdx
    cmp     rdx, -64
    jle     .Lequal_last_two_ymm
    equal_4_vectors ymm, 32, 0
.Lunequal_ymm:
    vzeroupper
    ret
.Lequal_last_two_ymm:
    load    ymm, 0, [rdi + 64]
    load    ymm, 1, [rdi + 96]
    vpcmpeqb ymm0, ymm0, [rsi + 64]
    vpcmpeqb ymm1, ymm1, [rsi + 96]
    vpand   ymm0, ymm0, ymm1
    vpmovmskb eax, ymm0
    inc     eax
    vzeroupper
    ret
    end_function __reheap_bcmp
