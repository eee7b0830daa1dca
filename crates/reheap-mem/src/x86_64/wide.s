# wcslen, wcschr, wmemcmp, wmemset, wmemcpy, wmemmove: characters of four bytes.
#
# Strings and blocks that do not begin at a multiple of four are undefined in C, but musl's loops cope with them, and so do
# the loops over single characters here.

    .hidden __reheap_memcpy, __reheap_memmove, __reheap_memset

    # ----- wcslen, wcschr -----
    #
    # rdi: a multiple of the width, r9: the beginning. Register 7 is 0, register 0 the character.

    # Register n: what is looked for in the vector. Register 6 is free.
    .macro match_wide kind, reg, n, at, how=load_aligned
    .ifc \kind\()_\reg, end_ymm
    vpcmpeqd ymm\n, ymm7, [rdi + \at]
    .else
    \how    \reg, \n, [rdi + \at]
    .ifc \kind, either
    .ifc \reg, ymm
    vpcmpeqd ymm6, ymm\n, ymm0
    .else
    movdqa  xmm6, xmm\n
    pcmpeqd xmm6, xmm0
    .endif
    .endif
    bytes   pcmpeqd, \reg, \n, \reg\()7
    .ifc \kind, either
    bytes   por, \reg, \n, \reg\()6
    .endif
    .endif
    .endm

    .macro find_wide name, kind, reg, vec
    .ifc \reg, ymm
    vpxor   xmm7, xmm7, xmm7
    .ifc \kind, either
    vmovd   xmm0, esi
    vpbroadcastd ymm0, xmm0
    .endif
    .else
    pxor    xmm7, xmm7
    .ifc \kind, either
    movd    xmm0, esi
    pshufd  xmm0, xmm0, 0
    .endif
    .endif
    mov     ecx, edi
    and     ecx, 4095
    cmp     ecx, 4096 - \vec
    ja      .L\name\()_near_end_\reg   # where a vector may lie in two pages
    match_wide \kind, \reg, 1, 0, load
    mask    \reg, eax, 1
    test    eax, eax
    jnz     .L\name\()_found_\reg
    and     rdi, -\vec
    jmp     .L\name\()_past_\reg
.L\name\()_near_end_\reg:
    and     ecx, \vec - 1
    and     rdi, -\vec
    match_wide \kind, \reg, 1, 0
    mask    \reg, eax, 1
    shr     eax, cl
    shl     eax, cl                     # without what lies before the beginning
    test    eax, eax
    jz      .L\name\()_past_\reg
    jmp     .L\name\()_found_\reg
    .p2align 4
.L\name\()_past_\reg:
    .irp n, 1, 2, 3, 4
    match_wide \kind, \reg, 1, \vec*\n
    mask    \reg, eax, 1
    test    eax, eax
    jnz     .L\name\()_found_\reg\()_\n
    .endr
    add     rdi, 5*\vec
    and     rdi, -4*\vec                # four from such an address on lie in one page; some may be known already
    .p2align 4
.L\name\()_four_\reg:
    .irp n, 1, 2, 3, 4
    match_wide \kind, \reg, \n, \vec*\n-\vec
    .endr
    .ifc \reg, ymm
    vpor    ymm5, ymm1, ymm2
    vpor    ymm8, ymm3, ymm4
    vpor    ymm9, ymm5, ymm8
    vpmovmskb eax, ymm9
    .else
    load_aligned xmm, 5, xmm1
    por     xmm5, xmm2
    load_aligned xmm, 6, xmm3
    por     xmm6, xmm4
    por     xmm5, xmm6
    pmovmskb eax, xmm5
    .endif
    test    eax, eax
    jnz     .L\name\()_in_four_\reg
    add     rdi, 4*\vec
    jmp     .L\name\()_four_\reg
    .ifc \reg, ymm
    # First in which two it is. If the first one of them does not have it, the mask of both is that of the second one.
    .p2align 4
.L\name\()_in_four_ymm:
    vpmovmskb ecx, ymm1
    vpmovmskb eax, ymm5
    test    eax, eax
    jnz     .L\name\()_in_two_ymm
    vpmovmskb ecx, ymm3
    vpmovmskb eax, ymm8
    add     rdi, 64
.L\name\()_in_two_ymm:
    test    ecx, ecx
    jz      .L\name\()_found_ymm_1
    mov     eax, ecx
    jmp     .L\name\()_found_ymm
    .irp n, 4, 3, 2, 1
    .p2align 4
.L\name\()_found_ymm_\n:
    tzcnt   eax, eax
    answer_\name ymm, \n*32
    .endr
    .p2align 4
    .else
.L\name\()_in_four_\reg:
    .irp n, 1, 2, 3
    mask    \reg, eax, \n
    test    eax, eax
    jnz     .L\name\()_found_\reg
    add     rdi, \vec
    .endr
    mask    \reg, eax, 4
    jmp     .L\name\()_found_\reg
    .irp n, 4, 3, 2, 1
.L\name\()_found_\reg\()_\n:
    add     rdi, \vec
    .endr
    .endif
.L\name\()_found_\reg:
    tzcnt   eax, eax
    .ifc \reg, xmm
    add     rdi, rax
    xor     eax, eax
    find_level_at_end rcx
    .endif
.L\name\()_answer_\reg:
    answer_\name \reg
    .endm

    # What is at rdi + rax + at.
    .macro answer_wcslen reg, at=0
    sub     rdi, r9
    lea     rax, [rdi + rax + \at]
    shr     rax, 2
    leave_function \reg
    .endm

    .macro answer_wcschr reg, at=0
    lea     rdi, [rdi + rax + \at]
    xor     eax, eax
    cmp     esi, [rdi]
    cmove   rax, rdi
    leave_function \reg
    .endm

    # With vectors of 64 bytes, where they are good. eax: one bit for each character that is 0.
    .macro match_end_masked n, from:vararg
    .ifnb \from
    vmovdqu64 zmm2\n, \from
    .endif
    vptestnmd k0, zmm2\n, zmm2\n
    kmovd   eax, k0
    .endm

    .macro find_end_masked
    lea     eax, [rdi + 63]
    xor     eax, edi
    test    ah, 4096 >> 8               # whether the last byte is in another page than the first one
    jnz     .Lwcslen_near_end_zmm
    match_end_masked 1, [rdi]
    test    eax, eax
    jz      .Lwcslen_past_zmm
.Lwcslen_first_zmm:
    tzcnt   eax, eax
    ret
.Lwcslen_near_end_zmm:
    mov     ecx, edi
    and     rdi, -64
    shr     ecx, 2
    match_end_masked 1, [rdi]
    and     ecx, 15
    shr     eax, cl
    test    eax, eax
    jnz     .Lwcslen_first_zmm
    .p2align 4
.Lwcslen_past_zmm:
    and     rdi, -64
    .irp n, 1, 2, 3, 4
    match_end_masked 1, [rdi + 64*\n]
    test    eax, eax
    jnz     .Lwcslen_found_zmm_\n
    .endr
    add     rdi, 5*64
    and     rdi, -4*64                  # four from such an address on lie in one page; some may be known already
    .p2align 4
.Lwcslen_four_zmm:
    vmovdqa64 zmm21, [rdi]
    vmovdqa64 zmm23, [rdi + 128]
    vpminud zmm25, zmm21, [rdi + 64]
    vpminud zmm26, zmm23, [rdi + 192]
    vpminud zmm27, zmm25, zmm26
    match_end_masked 7
    test    eax, eax
    jnz     .Lwcslen_in_four_zmm
    add     rdi, 4*64
    jmp     .Lwcslen_four_zmm

    # First in which two it is. If the first one of them does not have it, the mask of both is that of the second one.
    .p2align 4
.Lwcslen_in_four_zmm:
    match_end_masked 1
    mov     ecx, eax
    match_end_masked 5
    test    eax, eax
    jnz     .Lwcslen_in_two_zmm
    match_end_masked 3
    mov     ecx, eax
    match_end_masked 6
    add     rdi, 2*64
.Lwcslen_in_two_zmm:
    test    ecx, ecx
    jz      .Lwcslen_found_zmm_1
    mov     eax, ecx
    .irp n, 0, 1, 2, 3, 4
    .if \n
    .p2align 4
    .endif
.Lwcslen_found_zmm_\n:
    tzcnt   eax, eax
    sub     rdi, r9
    lea     rax, [rdi + rax*4 + \n*64]
    shr     rax, 2
    ret
    .endr
    .endm

    function __reheap_wcslen
    test    edi, 3
    jnz     .Lwcslen_single
    mov     r9, rdi
    cmp     byte ptr [rip + __reheap_mem_search_level], 3
    jne     .Lwcslen_up_to_32
    find_end_masked
    .p2align 4
.Lwcslen_up_to_32:
    if_wide .Lwcslen_ymm
    find_wide wcslen, end, xmm, 16
    .p2align 4
.Lwcslen_ymm:
    find_wide wcslen, end, ymm, 32
.Lwcslen_single:
    xor     eax, eax
.Lwcslen_next:
    cmp     dword ptr [rdi + rax*4], 0
    je      .Lwcslen_end
    inc     rax
    jmp     .Lwcslen_next
.Lwcslen_end:
    ret
    end_function __reheap_wcslen

    function __reheap_wcschr
    test    edi, 3
    jnz     .Lwcschr_single
    mov     r9, rdi
    if_wide .Lwcschr_ymm
    find_wide wcschr, either, xmm, 16
    .p2align 4
.Lwcschr_ymm:
    find_wide wcschr, either, ymm, 32
.Lwcschr_single:
    xor     eax, eax
.Lwcschr_next:
    cmp     esi, [rdi]
    je      .Lwcschr_answer_xmm
    cmp     dword ptr [rdi], 0
    je      .Lwcschr_answer_xmm
    add     rdi, 4
    jmp     .Lwcschr_next
    end_function __reheap_wcschr

    # ----- wmemcmp -----
    #
    # rdi, rsi: the blocks, rdx: how many characters, then bytes; they have a sign.

    # More bytes than two vectors have.
    .macro compare_wide reg, vec
    cmp     rdx, 4*\vec
    ja      .Lwmemcmp_over_4_\reg
    compare_vectors \reg, 0, .Lwmemcmp_0_\reg
    compare_vectors \reg, \vec, .Lwmemcmp_1_\reg
    compare_vectors \reg, rdx-2*\vec, .Lwmemcmp_last_two_\reg
    compare_vectors \reg, rdx-\vec, .Lwmemcmp_last_\reg
    leave_function \reg

    .p2align 4
.Lwmemcmp_over_4_\reg:
    add     rdx, -4*\vec                # how many bytes there are before the last four vectors
    cmp     rdx, 12*\vec
    jbe     .Lwmemcmp_loop_\reg
    compare_vectors \reg, 0, .Lwmemcmp_0_\reg
    align_first \vec
    .p2align 4
.Lwmemcmp_loop_\reg:
    equal_4_vectors \reg, \vec, 0
    jnz     .Lwmemcmp_4_\reg
    add     rdi, 4*\vec
    add     rsi, 4*\vec
    sub     rdx, 4*\vec
    ja      .Lwmemcmp_loop_\reg
    add     rdi, rdx                    # back by what is not left: the last four vectors
    add     rsi, rdx
    cmp     rdx, -2*\vec
    jle     .Lwmemcmp_two_are_left_\reg
    equal_4_vectors \reg, \vec, 0
    jnz     .Lwmemcmp_4_\reg
    leave_function \reg
.Lwmemcmp_two_are_left_\reg:
    add     rdi, 2*\vec
    add     rsi, 2*\vec
    compare_vectors \reg, 0, .Lwmemcmp_0_\reg
    compare_vectors \reg, \vec, .Lwmemcmp_1_\reg
    leave_function \reg
.Lwmemcmp_4_\reg:
    .irp n, 1, 2, 3, 4
    compare_vectors \reg, 0, .Lwmemcmp_0_\reg
    add     rdi, \vec
    add     rsi, \vec
    .endr
    xor     eax, eax                    # if somebody wrote to them meanwhile
    leave_function \reg

.Lwmemcmp_last_two_\reg:
    sub     rdx, \vec
.Lwmemcmp_last_\reg:
    lea     rdi, [rdi + rdx - \vec]
    lea     rsi, [rsi + rdx - \vec]
    jmp     .Lwmemcmp_0_\reg
.Lwmemcmp_1_\reg:
    add     rdi, \vec
    add     rsi, \vec
.Lwmemcmp_0_\reg:
    .ifc \reg, ymm
    vzeroupper
    .endif
    tzcnt   ecx, eax
    and     ecx, -4
    mov     eax, [rdi + rcx]
    cmp     eax, [rsi + rcx]
    jmp     .Lwmemcmp_which
    .endm

    function __reheap_wmemcmp
    shl     rdx, 2
    cmp     rdx, 16
    jae     .Lwmemcmp_over_12

    # Up to three: the first, what is in the middle, and the last.
    test    edx, edx
    jz      .Lwmemcmp_equal
    mov     eax, [rdi]
    cmp     eax, [rsi]
    jne     .Lwmemcmp_which
    mov     ecx, edx
    shr     ecx, 3                      # 0 for one, 1 for two or three
    mov     eax, [rdi + rcx*4]
    cmp     eax, [rsi + rcx*4]
    jne     .Lwmemcmp_which
    mov     eax, [rdi + rdx - 4]
    cmp     eax, [rsi + rdx - 4]
.Lwmemcmp_which:
    setg    al
    setl    cl
    sub     al, cl
    movsx   eax, al
    ret
.Lwmemcmp_equal:
    xor     eax, eax
    ret

    .p2align 4
.Lwmemcmp_over_12:
    test    edi, 3
    jnz     .Lwmemcmp_next
    cmp     rdx, 32
    ja      .Lwmemcmp_over_32
    compare_vectors xmm, 0, .Lwmemcmp_0_xmm
    compare_vectors xmm, rdx-16, .Lwmemcmp_last_xmm
    ret

.Lwmemcmp_next:
    mov     eax, [rdi]
    cmp     eax, [rsi]
    jne     .Lwmemcmp_which
    add     rdi, 4
    add     rsi, 4
    sub     rdx, 4
    jnz     .Lwmemcmp_next
    xor     eax, eax
    ret

    .p2align 4
.Lwmemcmp_over_32:
    if_wide .Lwmemcmp_ymm
    find_level_in_time .Lwmemcmp_over_32
    compare_wide xmm, 16
    .p2align 4
.Lwmemcmp_ymm:
    cmp     rdx, 64
    ja      .Lwmemcmp_65_ymm
    compare_vectors ymm, 0, .Lwmemcmp_0_ymm
    compare_vectors ymm, rdx-32, .Lwmemcmp_last_ymm
    vzeroupper
    ret
    .p2align 4
.Lwmemcmp_65_ymm:
    compare_wide ymm, 32
    end_function __reheap_wmemcmp

    # ----- wmemset -----

    function __reheap_wmemset
    shl     rdx, 2
    mov     eax, esi
    rol     eax, 8
    cmp     eax, esi
    je      __reheap_memset             # four times the same byte
    mov     rax, rdi
    cmp     rdx, 16
    jb      .Lwmemset_0_12
    test    edi, 3
    jnz     .Lwmemset_single
    cmp     rdx, 32
    ja      .Lwmemset_over_32
    movd    xmm0, esi
    pshufd  xmm0, xmm0, 0
    movups  [rdi], xmm0
    movups  [rdi + rdx - 16], xmm0
    ret

    # Up to three: the first, the last, and what is in the middle.
    .p2align 4
.Lwmemset_0_12:
    test    edx, edx
    jz      .Lwmemset_0
    mov     ecx, edx
    shr     ecx, 3                      # 0 for one, 1 for two or three
    mov     [rdi], esi
    mov     [rdi + rcx*4], esi
    mov     [rdi + rdx - 4], esi
.Lwmemset_0:
    ret
.Lwmemset_next:
    mov     [rdi], esi
    add     rdi, 4
    sub     rdx, 4
.Lwmemset_single:
    test    rdx, rdx
    jnz     .Lwmemset_next
    ret

    .p2align 4
.Lwmemset_over_32:
    if_wide .Lwmemset_ymm
    find_level_in_time .Lwmemset_over_32
    movd    xmm0, esi
    pshufd  xmm0, xmm0, 0
    cmp     rdx, 64
    ja      .Lwmemset_65_xmm
    set_4_vectors xmm, 16
.Lwmemset_65_xmm:
    set_large wmemset, xmm, 16
    .p2align 4
.Lwmemset_ymm:
    vmovd   xmm0, esi
    vpbroadcastd ymm0, xmm0
    cmp     rdx, 64
    ja      .Lwmemset_65_ymm
    vmovdqu [rdi], ymm0
    vmovdqu [rdi + rdx - 32], ymm0
    vzeroupper
    ret
    .p2align 4
.Lwmemset_65_ymm:
    cmp     rdx, 128
    ja      .Lwmemset_129_ymm
    set_4_vectors ymm, 32
    .p2align 4
.Lwmemset_129_ymm:
    set_large wmemset, ymm, 32
    end_function __reheap_wmemset

    # ----- wmemcpy, wmemmove -----

    function __reheap_wmemcpy
    shl     rdx, 2
    jmp     __reheap_memcpy
    end_function __reheap_wmemcpy

    function __reheap_wmemmove
    shl     rdx, 2
    jmp     __reheap_memmove
    end_function __reheap_wmemmove
