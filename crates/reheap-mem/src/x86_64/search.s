# strlen, strnlen, memchr, rawmemchr, strchr, strchrnul: the first byte of a kind. And memrchr, the last one.
#
# They may read what does not belong to the block, but nothing that lies in another page: loads are aligned, but for the
# first ones, and those are not made close to the end of a page.
#
# Three kinds of byte are looked for: `end` (0), `byte` (the one in register 0), and `either`. Each vector of the text is
# turned into one that is 0 where such a byte is, so that four of them can be tested by their minimum.
#
# rdi: where to look, esi: the byte. r9: the beginning, r8: the end of the block where it has one.

    # Turns register n; t is free.
    .macro turn kind, reg, n, t
    .ifc \kind, byte
    bytes   pxor, \reg, \n, \reg\()0
    .endif
    .ifc \kind, either
    .ifc \reg, ymm
    vpxor   ymm\t, ymm\n, ymm0
    .else
    movdqa  xmm\t, xmm\n
    pxor    xmm\t, xmm0
    .endif
    bytes   pminub, \reg, \n, \reg\()\t
    .endif
    .endm

    # Loads a vector and turns it.
    .macro load_turned kind, reg, n, t, from:vararg
    .ifc \kind\()_\reg, byte_ymm
    vpxor   ymm\n, ymm0, \from
    .else
    load_aligned \reg, \n, \from
    turn    \kind, \reg, \n, \t
    .endif
    .endm

    # Jumps if register n has a 0 in it, with one bit for each in eax. Register 7 is 0.
    .macro jump_if_found reg, n, label
    bytes   pcmpeqb, \reg, \n, \reg\()7
    mask    \reg, eax, \n
    test    eax, eax
    jnz     \label
    .endm

    .macro done_at_limit limit, label
    .ifc \limit, limited
    cmp     rdi, r8
    jae     \label
    .endif
    .endm

    # The rest, from rdi on, a multiple of the width. rdi becomes the address of the byte that is found.
    .macro find_rest name, kind, limit, reg, vec
    .irp n, 1, 2, 3, 4
    load_turned \kind, \reg, 1, 2, [rdi]
    jump_if_found \reg, 1, .L\name\()_found_\reg
    add     rdi, \vec
    done_at_limit \limit, .L\name\()_none_\reg
    .endr
    and     rdi, -4*\vec                # four from such an address on lie in one page
    .p2align 4
.L\name\()_loop_\reg:
    .irp n, 1, 2, 3, 4
    load_turned \kind, \reg, \n, 5, [rdi + \n*\vec - \vec]
    .endr
    .ifc \reg, ymm
    vpminub ymm5, ymm1, ymm2
    vpminub ymm6, ymm3, ymm4
    .else
    movdqa  xmm5, xmm1
    pminub  xmm5, xmm2
    movdqa  xmm6, xmm3
    pminub  xmm6, xmm4
    .endif
    bytes   pminub, \reg, 5, \reg\()6
    jump_if_found \reg, 5, .L\name\()_in_four_\reg
    add     rdi, 4*\vec
    done_at_limit \limit, .L\name\()_none_\reg
    jmp     .L\name\()_loop_\reg

.L\name\()_in_four_\reg:
    .irp n, 1, 2, 3
    jump_if_found \reg, \n, .L\name\()_found_\reg
    add     rdi, \vec
    .endr
    bytes   pcmpeqb, \reg, 4, \reg\()7
    mask    \reg, eax, 4
.L\name\()_found_\reg:
    bsf     eax, eax
    add     rdi, rax
    .ifc \reg, ymm
    vzeroupper
    .endif
    answer_\name
    .ifc \limit, limited
.L\name\()_none_\reg:
    .ifc \reg, ymm
    vzeroupper
    .endif
    jmp     .L\name\()_none
    .endif
    .endm

    # The function's body, but for its first instructions, which fill in what is to be looked for.
    .macro find name, kind, limit
    cmp     byte ptr [rip + __reheap_mem_level], 1
    jbe     .L\name\()_narrow
    find_zmm \name, \kind, \limit

    .p2align 5
.L\name\()_narrow:
    jb      .L\name\()_xmm
    mov     eax, edi
    and     eax, 4095
    cmp     eax, 4096 - 32
    ja      .L\name\()_xmm
    vpxor   xmm7, xmm7, xmm7
    .ifnc \kind, end
    vmovd   xmm0, esi
    vpbroadcastb ymm0, xmm0
    .endif
    load    ymm, 1, [rdi]
    turn    \kind, ymm, 1, 2
    bytes   pcmpeqb, ymm, 1, ymm7
    mask    ymm, eax, 1
    test    eax, eax
    jz      .L\name\()_rest_ymm
    bsf     eax, eax
    vzeroupper
    answer_first_\name

.L\name\()_rest_ymm:
    begin_\limit
    or      rdi, 31
    inc     rdi
    done_at_limit \limit, .L\name\()_none_ymm
.L\name\()_next_ymm:
    find_rest \name, \kind, \limit, ymm, 32

    .p2align 5
.L\name\()_xmm:
    begin_\limit
    .ifnc \kind, end
    splat
    .endif
    mov     eax, edi
    and     eax, 4095
    pxor    xmm7, xmm7
    cmp     eax, 4096 - 32
    ja      .L\name\()_page_end
    movups  xmm1, [rdi]
    turn    \kind, xmm, 1, 2
    jump_if_found xmm, 1, .L\name\()_first
    movups  xmm1, [rdi + 16]
    turn    \kind, xmm, 1, 2
    jump_if_found xmm, 1, .L\name\()_second
.L\name\()_rest:
    or      rdi, 31
    inc     rdi
    done_at_limit \limit, .L\name\()_none
    if_wide .L\name\()_wide
    find_rest \name, \kind, \limit, xmm, 16

    .p2align 4
.L\name\()_second:
    add     rdi, 16
.L\name\()_first:
    bsf     eax, eax
    add     rdi, rax
    answer_\name

    # The last 32 bytes of a page, or fewer: from the multiple of 16 on, without the bits of what is in front.
    .p2align 4
.L\name\()_page_end:
    mov     rdx, rdi
    and     rdx, -16
    movaps  xmm1, [rdx]
    turn    \kind, xmm, 1, 2
    pcmpeqb xmm1, xmm7
    pmovmskb eax, xmm1
    mov     ecx, edi
    and     ecx, 15
    shr     eax, cl
    test    eax, eax
    jnz     .L\name\()_first
    test    edi, 16
    jnz     .L\name\()_rest
    movaps  xmm1, [rdx + 16]
    turn    \kind, xmm, 1, 2
    pcmpeqb xmm1, xmm7
    pmovmskb eax, xmm1
    test    eax, eax
    jz      .L\name\()_rest
    mov     rdi, rdx
    jmp     .L\name\()_second

    .p2align 4
.L\name\()_wide:
    vpxor   xmm7, xmm7, xmm7            # the caller may have left something in the upper half
    .ifnc \kind, end
    vinserti128 ymm0, ymm0, xmm0, 1
    .endif
    jmp     .L\name\()_next_ymm
    .endm

    # The same with AVX-512. Register 20: the byte.

    # k0: one bit for each byte that is looked for; register 21 is free.
    .macro match_zmm kind, from:vararg
    .ifc \kind, byte
    vpcmpeqb k0, zmm20, \from
    .else
    vmovdqu64 zmm21, \from
    turn_zmm \kind, 21
    vptestnmb k0, zmm21, zmm21
    .endif
    .endm

    .macro turn_zmm kind, n
    .ifc \kind, either
    vpxorq  zmm25, zmm\n, zmm20
    vpminub zmm\n, zmm\n, zmm25
    .endif
    .endm

    .macro find_zmm name, kind, limit
    .ifnc \kind, end
    vpbroadcastb zmm20, esi
    .endif
    mov     eax, edi
    and     eax, 4095
    cmp     eax, 4096 - 64
    ja      .L\name\()_page_end_zmm
    match_zmm \kind, [rdi]
    kmovq   rax, k0
    test    rax, rax
    jz      .L\name\()_rest_zmm
.L\name\()_first_zmm:
    tzcnt   rax, rax
    answer_first_\name

    .p2align 4
.L\name\()_found_zmm:
    tzcnt   rax, rax
    add     rdi, rax
    answer_\name

    .p2align 4
.L\name\()_page_end_zmm:
    mov     rcx, rdi
    and     rcx, -64
    match_zmm \kind, [rcx]
    kmovq   rax, k0
    mov     ecx, edi
    shr     rax, cl                     # by the lowest six bits
    test    rax, rax
    jnz     .L\name\()_first_zmm
.L\name\()_rest_zmm:
    begin_\limit
    or      rdi, 63
    inc     rdi
    .irp n, 1, 2, 3, 4
    done_at_limit \limit, .L\name\()_none
    match_zmm \kind, [rdi]
    kmovq   rax, k0
    test    rax, rax
    jnz     .L\name\()_found_zmm
    add     rdi, 64
    .endr
    and     rdi, -256
    .p2align 4
.L\name\()_loop_zmm:
    done_at_limit \limit, .L\name\()_none
    .irp n, 1, 2, 3, 4
    .ifc \kind, byte
    vpxorq  zmm2\n, zmm20, [rdi + 64*\n - 64]
    .else
    vmovdqa64 zmm2\n, [rdi + 64*\n - 64]
    turn_zmm \kind, 2\n
    .endif
    .endr
    vpminub zmm26, zmm21, zmm22
    vpminub zmm27, zmm23, zmm24
    vpminub zmm26, zmm26, zmm27
    vptestnmb k0, zmm26, zmm26
    add     rdi, 256
    kortestq k0, k0
    jz      .L\name\()_loop_zmm
    sub     rdi, 256
    .irp n, 1, 2, 3
    vptestnmb k0, zmm2\n, zmm2\n
    kmovq   rax, k0
    test    rax, rax
    jnz     .L\name\()_found_zmm
    add     rdi, 64
    .endr
    vptestnmb k0, zmm24, zmm24
    kmovq   rax, k0
    jmp     .L\name\()_found_zmm
    .endm

    # r9 = rdi and, where there is a count in rdx, r8 = rdi + rdx, but not beyond the last address:
    # `memchr(s, c, -1)` is allowed where c is in s.
    .macro begin_unlimited
    mov     r9, rdi
    .endm

    .macro begin_limited
    mov     r9, rdi
    mov     r8, rdi
    add     r8, rdx
    sbb     rcx, rcx
    or      r8, rcx
    .endm

    # ----- strlen -----

    .macro answer_strlen
    mov     rax, rdi
    sub     rax, r9
    ret
    .endm

    .macro answer_first_strlen
    ret
    .endm

    function __reheap_strlen
    find    strlen, end, unlimited
    end_function __reheap_strlen

    # ----- strnlen -----

    .macro answer_strnlen
    cmp     rdi, r8
    cmova   rdi, r8
    mov     rax, rdi
    sub     rax, r9
    ret
    .endm

    .macro answer_first_strnlen
    cmp     rax, rdx
    cmova   rax, rdx
    ret
    .endm

    function __reheap_strnlen
    mov     rdx, rsi
    test    rsi, rsi
    jz      .Lstrnlen_zero
    find    strnlen, end, limited
.Lstrnlen_none:
    mov     rax, r8
    sub     rax, r9
    ret
.Lstrnlen_zero:
    xor     eax, eax
    ret
    end_function __reheap_strnlen

    # ----- memchr -----

    .macro answer_memchr
    xor     eax, eax
    cmp     rdi, r8
    cmovb   rax, rdi
    ret
    .endm

    .macro answer_first_memchr
    cmp     rax, rdx
    jae     .Lmemchr_none
    add     rax, rdi
    ret
    .endm

    function __reheap_memchr
    test    rdx, rdx
    jz      .Lmemchr_none
    find    memchr, byte, limited
.Lmemchr_none:
    xor     eax, eax
    ret
    end_function __reheap_memchr

    # ----- rawmemchr -----

    .macro answer_rawmemchr
    mov     rax, rdi
    ret
    .endm

    .macro answer_first_rawmemchr
    add     rax, rdi
    ret
    .endm

    function __reheap_rawmemchr
    find    rawmemchr, byte, unlimited
    end_function __reheap_rawmemchr

    # ----- strchrnul -----

    .macro answer_strchrnul
    mov     rax, rdi
    ret
    .endm

    .macro answer_first_strchrnul
    add     rax, rdi
    ret
    .endm

    function __reheap_strchrnul
    find    strchrnul, either, unlimited
    end_function __reheap_strchrnul

    # ----- strchr -----

    .macro answer_strchr
    xor     eax, eax
    cmp     sil, [rdi]
    cmove   rax, rdi
    ret
    .endm

    .macro answer_first_strchr
    add     rdi, rax
    answer_strchr
    .endm

    function __reheap_strchr
    find    strchr, either, unlimited
    end_function __reheap_strchr

    # ----- memrchr -----

    # The rest before rdi, a multiple of 32; r9: the beginning.
    .macro find_last_rest reg, vec
    .p2align 4
.Lmemrchr_loop_\reg:
    cmp     rdi, r9
    jbe     .Lmemrchr_none_\reg
    load_aligned \reg, 1, [rdi - \vec]
    bytes   pcmpeqb, \reg, 1, \reg\()0
    mask    \reg, eax, 1
    sub     rdi, \vec
    test    eax, eax
    jz      .Lmemrchr_loop_\reg
    .ifc \reg, ymm
    vzeroupper
    .endif
    bsr     ecx, eax
    add     rdi, rcx
    xor     eax, eax
    cmp     rdi, r9
    cmovae  rax, rdi
    ret
.Lmemrchr_none_\reg:
    .ifc \reg, ymm
    vzeroupper
    .endif
    xor     eax, eax
    ret
    .endm

    function __reheap_memrchr
    test    rdx, rdx
    jz      .Lmemrchr_none
    mov     r9, rdi
    lea     rdi, [rdi + rdx - 1]        # the last byte
    cmp     byte ptr [rip + __reheap_mem_level], 1
    jbe     .Lmemrchr_narrow
    vpbroadcastb zmm20, esi
    cmp     rdx, 64
    jbe     .Lmemrchr_64_zmm
    mov     ecx, edi
    not     ecx                         # of the 64 bytes that the last one lies in, so many are behind it, modulo 64
    and     rdi, -64
    vpcmpeqb k0, zmm20, [rdi]
    kmovq   rax, k0
    shl     rax, cl
    shr     rax, cl
    test    rax, rax
    jnz     .Lmemrchr_found_zmm
    .p2align 4
.Lmemrchr_loop_zmm:
    cmp     rdi, r9
    jbe     .Lmemrchr_none
    sub     rdi, 64
    vpcmpeqb k0, zmm20, [rdi]
    kmovq   rax, k0
    test    rax, rax
    jz      .Lmemrchr_loop_zmm
.Lmemrchr_found_zmm:
    bsr     rax, rax
    add     rdi, rax
    xor     eax, eax
    cmp     rdi, r9
    cmovae  rax, rdi
    ret

    .p2align 4
.Lmemrchr_64_zmm:
    mask_from_count
    vpcmpeqb k0 {k1}, zmm20, [r9]
    kmovq   rax, k0
    test    rax, rax
    jz      .Lmemrchr_none
    bsr     rax, rax
    add     rax, r9
    ret

    .p2align 5
.Lmemrchr_narrow:
    splat
    # From the multiple of 32 before it: two vectors, without the bits of what is behind.
    mov     ecx, edi
    not     ecx
    and     ecx, 31                     # so many bits
    and     rdi, -32
    movaps  xmm1, [rdi]
    movaps  xmm2, [rdi + 16]
    pcmpeqb xmm1, xmm0
    pcmpeqb xmm2, xmm0
    pmovmskb eax, xmm1
    pmovmskb edx, xmm2
    shl     edx, 16
    or      eax, edx
    shl     eax, cl
    test    eax, eax
    jnz     .Lmemrchr_first
    cmp     rdi, r9
    jbe     .Lmemrchr_none
    if_wide .Lmemrchr_wide
    find_last_rest xmm, 16

    .p2align 4
.Lmemrchr_first:
    bsr     eax, eax
    sub     eax, ecx
    add     rdi, rax
    xor     eax, eax
    cmp     rdi, r9
    cmovae  rax, rdi
    ret
.Lmemrchr_none:
    xor     eax, eax
    ret

    .p2align 4
.Lmemrchr_wide:
    vinserti128 ymm0, ymm0, xmm0, 1
    find_last_rest ymm, 32
    end_function __reheap_memrchr
