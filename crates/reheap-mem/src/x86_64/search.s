# strlen, strnlen, memchr, rawmemchr, strchr, strchrnul: the first byte of a kind. (memrchr, the last one, is in last.s.)
#
# They may read what does not belong to the block, but nothing that lies in another page: loads are aligned, but for the
# first ones, and those are not made close to the end of a page.
#
# Three kinds of byte are looked for: `end` (0), `byte` (the one in register 0), and `either`. Each vector of the text is
# turned into one that is 0 where such a byte is, so that four of them can be tested by their minimum.
#
# rdi: where to look, esi: the byte, rdx: how much is left, where there is a count. r9: the beginning. For strnlen rsi: the
# whole count. r8 and r11 are not changed: memccpy keeps something there.

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

    .macro leave_search reg
    .ifc \reg, ymm
    vzeroupper
    .endif
    .ifc \reg, xmm
    find_level_at_end rcx
    .endif
    .endm

    # Jumps if the aligned vector there has such a byte, with one bit for each in eax. Registers 1 and 2 are free.
    .macro jump_if_in_vector kind, reg, label, from:vararg
    .ifc \kind, either
    load_turned either, \reg, 1, 2, \from
    bytes   pcmpeqb, \reg, 1, \reg\()7
    .else
    .ifc \kind, byte
    equal_vector \reg, 0, \from
    .else
    equal_vector \reg, 7, \from
    .endif
    .endif
    mask    \reg, eax, 1
    pair    8
    test    eax, eax
    jnz     \label
    .endm

    .macro equal_vector reg, n, from:vararg
    .ifc \reg, ymm
    vpcmpeqb ymm1, ymm\n, \from
    .else
    movaps  xmm1, \from
    pcmpeqb xmm1, xmm\n
    .endif
    .endm

    # On to a multiple of the width; to `none` if the block, of which rdx bytes are left, ends before.
    .macro go_on_aligned limit, vec, none
    .ifc \limit, limited
    mov     rcx, rdi
    or      rcx, -\vec
    sub     rdi, rcx
    neg     rcx
    pair    9
    sub     rdx, rcx
    jbe     \none
    .else
    or      rdi, \vec - 1
    inc     rdi
    .endif
    .endm

    # Behind four vectors, back to where four lie in one page. Where the block ends in the next four, to `last`: up to those,
    # rdx is how much lies behind them.
    .macro begin_loop limit, vec, last
    add     rdi, 4*\vec
    .ifc \limit, limited
    mov     rcx, rdi
    and     rdi, -4*\vec
    sub     rcx, rdi
    lea     rdx, [rdx + rcx - 4*\vec]
    pair    13
    sub     rdx, 4*\vec
    jbe     \last
    .else
    and     rdi, -4*\vec
    .endif
    .endm

    .macro next_in_loop limit, vec, loop
    add     rdi, 4*\vec
    .ifc \limit, limited
    pair    13
    sub     rdx, 4*\vec
    ja      \loop
    .else
    jmp     \loop
    .endif
    .endm

    # What is found in one of the last vectors, of which rdx bytes belong to the block, may lie behind it.
    .macro found_in_last name, reg, vec, none
    .irp n, 0, 1, 2, 3
    .p2align 4
.L\name\()_in_last_\reg\()_\n:
    tzcnt   rax, rax
    .if \n
    add     rax, \n*\vec
    .endif
    pair    9
    cmp     rax, rdx
    jae     \none
    .ifc \reg, xmm
    jmp     .L\name\()_end_xmm
    .else
    leave_search \reg
    answer_\name
    .endif
    .endr
    .endm

    # The rest, from rdi on, a multiple of the width. The byte that is found is at rdi + rax.
    .macro find_rest name, kind, limit, reg, vec
    .ifc \limit, limited
    pair    13
    cmp     rdx, 4*\vec
    jbe     .L\name\()_last_\reg
    .endif
    .irp n, 0, 1, 2, 3
    jump_if_in_vector \kind, \reg, .L\name\()_found_\reg\()_\n, [rdi + \n*\vec]
    .endr
    begin_loop \limit, \vec, .L\name\()_behind_\reg
    .p2align 4
.L\name\()_loop_\reg:
    .irp n, 1, 2, 3, 4
    load_turned \kind, \reg, \n, 5, [rdi + \n*\vec - \vec]
    .endr
    .ifc \reg, ymm
    vpminub ymm5, ymm1, ymm2
    vpminub ymm6, ymm3, ymm4
    vpminub ymm8, ymm5, ymm6
    jump_if_found ymm, 8, .L\name\()_in_four_ymm
    .else
    movdqa  xmm5, xmm1
    pminub  xmm5, xmm2
    movdqa  xmm6, xmm3
    pminub  xmm6, xmm4
    pminub  xmm5, xmm6
    jump_if_found xmm, 5, .L\name\()_in_four_xmm
    .endif
    next_in_loop \limit, \vec, .L\name\()_loop_\reg

    .ifc \limit, limited
.L\name\()_behind_\reg:
    add     rdx, 4*\vec
.L\name\()_last_\reg:
    .irp n, 0, 1, 2, 3
    jump_if_in_vector \kind, \reg, .L\name\()_in_last_\reg\()_\n, [rdi + \n*\vec]
    .if \n < 3
    pair    9
    cmp     rdx, \n*\vec + \vec
    jbe     .L\name\()_none_\reg
    .endif
    .endr
.L\name\()_none_\reg:
    leave_search \reg
    jmp     .L\name\()_none
    found_in_last \name, \reg, \vec, .L\name\()_none_\reg
    .endif

    .ifc \reg, ymm
    # First in which two it is. If the first one of them does not have it, the mask of both is that of the second one.
    .p2align 4
.L\name\()_in_four_ymm:
    vpcmpeqb ymm5, ymm5, ymm7
    vpcmpeqb ymm1, ymm1, ymm7
    vpmovmskb eax, ymm5
    vpmovmskb ecx, ymm1
    test    eax, eax
    jnz     .L\name\()_in_two_ymm
    vpcmpeqb ymm6, ymm6, ymm7
    vpcmpeqb ymm3, ymm3, ymm7
    vpmovmskb eax, ymm6
    vpmovmskb ecx, ymm3
    add     rdi, 64
.L\name\()_in_two_ymm:
    test    ecx, ecx
    jz      .L\name\()_found_ymm_1
    mov     eax, ecx
    jmp     .L\name\()_found_ymm_0
    .irp n, 3, 2, 1
    .p2align 4
.L\name\()_found_ymm_\n:
    tzcnt   eax, eax
    add     rdi, \n*32
    leave_search ymm
    answer_\name
    .endr
    .p2align 4
    .else
.L\name\()_in_four_\reg:
    .irp n, 1, 2, 3
    jump_if_found \reg, \n, .L\name\()_found_\reg\()_0
    add     rdi, \vec
    .endr
    bytes   pcmpeqb, \reg, 4, \reg\()7
    mask    \reg, eax, 4
    jmp     .L\name\()_found_\reg\()_0
    .irp n, 3, 2, 1
.L\name\()_found_\reg\()_\n:
    add     rdi, \vec
    .endr
    .endif
.L\name\()_found_\reg\()_0:
    tzcnt   eax, eax
.L\name\()_end_\reg:
    leave_search \reg
    answer_\name
    .endm

    # The function's body, but for its first instructions, which fill in what is to be looked for.
    .macro find name, kind, limit
.L\name\()_begin:
    cmp     byte ptr [rip + __reheap_mem_search_level], 3
    jne     .L\name\()_up_to_32
    find_masked \name, \kind, \limit, zmm2, 64
    .p2align 5
.L\name\()_up_to_32:
    cmp     byte ptr [rip + __reheap_mem_search_level], 1
    jne     .L\name\()_not_avx2
    lea     eax, [rdi + 31]
    xor     eax, edi
    test    ah, 4096 >> 8               # whether the last byte is in another page than the first one
    jnz     .L\name\()_xmm
    vpxor   xmm7, xmm7, xmm7
    .ifnc \kind, end
    vmovd   xmm0, esi
    vpbroadcastb ymm0, xmm0
    .endif
    .ifc \kind, either
    load    ymm, 1, [rdi]
    turn    either, ymm, 1, 2
    vpcmpeqb ymm1, ymm1, ymm7
    .else
    .ifc \kind, byte
    vpcmpeqb ymm1, ymm0, [rdi]
    .else
    vpcmpeqb ymm1, ymm7, [rdi]
    .endif
    .endif
    vpmovmskb eax, ymm1
    pair    8
    test    eax, eax
    jz      .L\name\()_rest_ymm
    tzcnt   eax, eax
    vzeroupper
    answer_first_\name

.L\name\()_rest_ymm:
    keep    \name
    go_on_aligned \limit, 32, .L\name\()_none_ymm
.L\name\()_next_ymm:
    find_rest \name, \kind, \limit, ymm, 32

    .p2align 5
.L\name\()_not_avx2:
    jl      .L\name\()_xmm
    find_masked \name, \kind, \limit, ymm2, 32

    .p2align 5
.L\name\()_xmm:
    find_level_in_time .L\name\()_begin, 32
    mov     r9, rdi
    .ifc \name, strnlen
    mov     rdx, rsi
    .endif
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
    go_on_aligned \limit, 32, .L\name\()_none
    if_wide .L\name\()_wide, search_level
    find_rest \name, \kind, \limit, xmm, 16

    .p2align 4
.L\name\()_second:
    tzcnt   eax, eax
    add     eax, 16
    answer_first_\name
.L\name\()_first:
    tzcnt   eax, eax
    answer_first_\name

    # The last 32 bytes of a page, or fewer: from the multiple of 16 on, without the bits of what is in front.
    .p2align 4
.L\name\()_page_end:
    mov     r10, rdi
    and     r10, -16
    movaps  xmm1, [r10]
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
    movaps  xmm1, [r10 + 16]
    turn    \kind, xmm, 1, 2
    pcmpeqb xmm1, xmm7
    pmovmskb eax, xmm1
    shl     eax, 16                     # as if both were one mask
    shr     eax, cl
    test    eax, eax
    jnz     .L\name\()_first
    jmp     .L\name\()_rest

    .p2align 4
.L\name\()_wide:
    vpxor   xmm7, xmm7, xmm7            # the caller may have left something in the upper half
    .ifnc \kind, end
    vinserti128 ymm0, ymm0, xmm0, 1
    .endif
    jmp     .L\name\()_next_ymm
    .endm

    # The same with AVX-512. Register 0: the byte.

    # rax, k0: one bit for each byte that is looked for; registers 1 and 5 are free.
    .macro match_masked kind, reg, from:vararg
    .ifc \kind, either
    vmovdqu64 \reg\()1, \from
    turn_either_masked \reg, 1, 5
    vptestnmb k0, \reg\()1, \reg\()1
    .else
    vpcmpeqb k0, \reg\()0, \from
    .endif
    kmovq   rax, k0
    .endm

    .macro turn_either_masked reg, n, t
    vpxorq  \reg\t, \reg\n, \reg\()0
    vpminub \reg\n, \reg\n, \reg\t
    .endm

    # k0 is not 0 if four vectors have such a byte. Registers 1 and 3: the first and the third one, turned; 5: 0 where the first
    # two have such a byte; 6: the same for the last two.
    .macro match_four_masked kind, reg, vec
    .irp n, 1, 3
    .ifc \kind, byte
    vpxorq  \reg\n, \reg\()0, [rdi + \vec*\n - \vec]
    .else
    vmovdqa64 \reg\n, [rdi + \vec*\n - \vec]
    .endif
    .endr
    .ifc \kind, end
    vpminub \reg\()5, \reg\()1, [rdi + \vec]
    vpminub \reg\()6, \reg\()3, [rdi + 3*\vec]
    .endif
    .ifc \kind, byte
    vpxorq  \reg\()2, \reg\()0, [rdi + \vec]
    vpxorq  \reg\()4, \reg\()0, [rdi + 3*\vec]
    vpminub \reg\()5, \reg\()1, \reg\()2
    vpminub \reg\()6, \reg\()3, \reg\()4
    .endif
    .ifc \kind, either                 # comparisons and operations have units of their own, so some of each
    vmovdqa64 \reg\()2, [rdi + \vec]
    vmovdqa64 \reg\()4, [rdi + 3*\vec]
    vpcmpub k1, \reg\()2, \reg\()0, 4
    vpcmpub k2, \reg\()4, \reg\()0, 4
    turn_either_masked \reg, 1, 7
    turn_either_masked \reg, 3, 8
    vpminub \reg\()5 {k1} {z}, \reg\()1, \reg\()2
    vpminub \reg\()6 {k2} {z}, \reg\()3, \reg\()4
    .endif
    vpminub \reg\()7, \reg\()5, \reg\()6
    vptestnmb k0, \reg\()7, \reg\()7
    .endm

    .macro find_masked name, kind, limit, reg, vec
    .ifc \kind, end
    vpxorq  xmm20, xmm20, xmm20
    .else
    vpbroadcastb \reg\()0, esi
    .endif
    lea     eax, [rdi + \vec - 1]
    xor     eax, edi
    pair    9, \reg
    test    ah, 4096 >> 8               # whether the last byte is in another page than the first one
    jnz     .L\name\()_page_end_\reg
    match_masked \kind, \reg, [rdi]
    pair    9, \reg
    test    rax, rax
    jz      .L\name\()_rest_\reg
.L\name\()_first_\reg:
    tzcnt   rax, rax
    answer_first_\name \reg
    .ifc \limit\()_\reg, limited_zmm2
.L\name\()_none:                        # so near that jumps to it are short, and the code up to here is one line of the cache
    none_\name
    .endif

    .p2align 4
.L\name\()_page_end_\reg:
    mov     rcx, rdi
    and     rcx, -\vec
    match_masked \kind, \reg, [rcx]
    mov     ecx, edi
    .ifc \reg, zmm2
    shr     rax, cl                     # by the lowest six bits
    .else
    shr     eax, cl                     # by the lowest five
    .endif
    test    rax, rax
    jnz     .L\name\()_first_\reg
.L\name\()_rest_\reg:
    keep    \name
    go_on_aligned \limit, \vec, .L\name\()_none
    .ifc \limit, limited
    pair    13, \reg
    cmp     rdx, 4*\vec
    jbe     .L\name\()_last_\reg
    .endif
    .irp n, 0, 1, 2, 3
    match_masked \kind, \reg, [rdi + \n*\vec]
    pair    9, \reg
    test    rax, rax
    jnz     .L\name\()_found_\reg\()_\n
    .endr
    begin_loop \limit, \vec, .L\name\()_behind_\reg
    .p2align 4
.L\name\()_loop_\reg:
    match_four_masked \kind, \reg, \vec
    kmovq   rax, k0
    pair    9, \reg
    test    rax, rax
    jnz     .L\name\()_in_four_\reg
    next_in_loop \limit, \vec, .L\name\()_loop_\reg

    # The last four vectors of the block, or fewer.
    .ifc \limit, limited
.L\name\()_behind_\reg:
    add     rdx, 4*\vec
.L\name\()_last_\reg:
    .irp n, 0, 1, 2, 3
    match_masked \kind, \reg, [rdi + \n*\vec]
    pair    9, \reg
    test    rax, rax
    jnz     .L\name\()_in_last_\reg\()_\n
    .if \n < 3
    pair    9, \reg
    cmp     rdx, \n*\vec + \vec
    jbe     .L\name\()_none
    .endif
    .endr
    jmp     .L\name\()_none
    found_in_last \name, \reg, \vec, .L\name\()_none
    .endif

    # First in which two it is. If the first one of them does not have it, the mask of both is that of the second one.
    .p2align 4
.L\name\()_in_four_\reg:
    vptestnmb k0, \reg\()5, \reg\()5
    vptestnmb k1, \reg\()1, \reg\()1
    kmovq   rax, k0
    test    rax, rax
    jnz     .L\name\()_in_two_\reg
    vptestnmb k0, \reg\()6, \reg\()6
    vptestnmb k1, \reg\()3, \reg\()3
    kmovq   rax, k0
    add     rdi, 2*\vec
.L\name\()_in_two_\reg:
    kmovq   rcx, k1
    test    rcx, rcx
    jz      .L\name\()_found_\reg\()_1
    mov     rax, rcx

    .irp n, 0, 1, 2, 3
    .p2align 4
.L\name\()_found_\reg\()_\n:
    tzcnt   rax, rax
    .if \n
    add     rdi, \n*\vec
    .endif
    answer_\name
    .endr
    .endm

    # r9: the beginning, rsi: the whole count, where the answer is made of them. (What the count says may end behind the last
    # address: `memchr(s, c, -1)` is allowed where c is in s.)
    .macro keep name
    .ifc \name, strlen
    mov     r9, rdi
    .endif
    .ifc \name, strnlen
    mov     r9, rdi
    mov     rdx, rsi
    .endif
    .endm

    # ----- strlen -----

    .macro answer_strlen
    sub     rdi, r9
    add     rax, rdi
    ret
    .endm

    .macro answer_first_strlen reg
    ret
    .endm

    function __reheap_strlen
    find    strlen, end, unlimited
    end_function __reheap_strlen

    # ----- strnlen -----

    .macro answer_strnlen
    sub     rdi, r9
    add     rax, rdi
    ret
    .endm

    .macro answer_first_strnlen reg
    cmp     rax, rsi
    cmova   rax, rsi
    ret
    .endm

    .macro none_strnlen
    mov     rax, rsi
    ret
    .endm

    function __reheap_strnlen
    test    rsi, rsi
    jz      .Lstrnlen_none
    find    strnlen, end, limited
    end_function __reheap_strnlen

    # ----- memchr -----

    .macro answer_memchr
    add     rax, rdi
    ret
    .endm

    .macro answer_first_memchr reg
    pair    9, \reg
    cmp     rax, rdx
    jae     .Lmemchr_none
    add     rax, rdi
    ret
    .endm

    .macro none_memchr
    xor     eax, eax
    ret
    .endm

    function __reheap_memchr
    test    rdx, rdx
    jz      .Lmemchr_none
    find    memchr, byte, limited
    end_function __reheap_memchr

    # ----- rawmemchr -----

    .macro answer_rawmemchr
    add     rax, rdi
    ret
    .endm

    .macro answer_first_rawmemchr reg
    add     rax, rdi
    ret
    .endm

    function __reheap_rawmemchr
    find    rawmemchr, byte, unlimited
    end_function __reheap_rawmemchr

    # ----- strchrnul -----

    .macro answer_strchrnul
    add     rax, rdi
    ret
    .endm

    .macro answer_first_strchrnul reg
    add     rax, rdi
    ret
    .endm

    function __reheap_strchrnul
    find    strchrnul, either, unlimited
    end_function __reheap_strchrnul

    # ----- strchr -----

    .macro answer_strchr
    add     rdi, rax
    xor     eax, eax
    cmp     sil, [rdi]
    cmove   rax, rdi
    ret
    .endm

    .macro answer_first_strchr reg
    answer_strchr
    .endm

    function __reheap_strchr
    find    strchr, either, unlimited
    end_function __reheap_strchr
