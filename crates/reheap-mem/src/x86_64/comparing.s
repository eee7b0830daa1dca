# How two strings are compared: what strcmp, strncmp and their siblings that ignore case share.
#
# rdi, rsi: the strings, rdx: the count where there is one; eax: less than, equal to or greater than 0.
#
# Four vectors, if neither string is close to the end of its page; then stretches, in which both stay in one page.
#
# `case` is `exact`, or `folded`: then case.s says how, and there is no code with AVX-512.

    # Compares a vector of both. On a difference, or at the end, jumps with the mask in rax, the lowest bit set of which
    # is that of the first such byte. Register 7 is 0, but not with AVX-512.
    .macro compare_strings_vector case, reg, at, different
    load    \reg, 0, [rdi + \at]
    .ifc \case, folded
    differ_but_for_case \reg, [rsi + \at]
    bytes   pcmpeqb, \reg, 6, \reg\()7
    bytes   pminub, \reg, 6, \reg\()0  # 0 where both differ or end
    jump_if_zero \reg, 6, \different
    .else
    compare_strings_vector_exactly \reg, \at, \different
    .endif
    .endm

    .macro jump_if_zero reg, n, label
    bytes   pcmpeqb, \reg, \n, \reg\()7
    mask    \reg, eax, \n
    test    eax, eax
    jnz     \label
    .endm

    # The same of register 0.
    .macro compare_strings_vector_exactly reg, at, different
    .ifc \reg, xmm
    movups  xmm1, [rsi + \at]
    pcmpeqb xmm1, xmm0
    pminub  xmm1, xmm0                  # 0 where both differ or end
    pcmpeqb xmm1, xmm7
    pmovmskb eax, xmm1
    test    eax, eax
    .else
    .ifc \reg, ymm
    vpcmpeqb ymm1, ymm0, [rsi + \at]
    vpminub ymm1, ymm1, ymm0
    vpcmpeqb ymm1, ymm1, ymm7
    vpmovmskb eax, ymm1
    test    eax, eax
    .else
    vptestmb k1, \reg\()0, \reg\()0
    vpcmpeqb k0 {k1}, \reg\()0, [rsi + \at]
    kmovq   rax, k0
    pair    9
    .ifc \reg, zmm2
    inc     rax                         # 0 if all of them are the same; else there is a 1 where the first 0 was
    .else
    inc     eax
    .endif
    .endif
    .endif
    jnz     \different
    .endm

    # Four vectors, from any address.
    .macro compare_strings_four case, reg, vec, different
    .ifc \case, folded
    load    \reg, 0, [rdi]
    differ_but_for_case \reg, [rsi]
    load_aligned \reg, 1, \reg\()0
    load_aligned \reg, 2, \reg\()6
    .irp n, 1, 2, 3
    load    \reg, 0, [rdi + \vec*\n]
    differ_but_for_case \reg, [rsi + \vec*\n]
    bytes   pminub, \reg, 1, \reg\()0
    bytes   por, \reg, 2, \reg\()6
    .endr
    bytes   pcmpeqb, \reg, 2, \reg\()7
    bytes   pminub, \reg, 2, \reg\()1
    jump_if_zero \reg, 2, \different
    .else
    compare_strings_four_exactly \reg, \vec, \different
    .endif
    .endm

    .macro compare_strings_four_exactly reg, vec, different
    .ifc \reg, xmm
    .irp n, 1, 2, 3, 4
    movups  xmm0, [rdi + \vec*\n - \vec]
    movups  xmm\n, [rsi + \vec*\n - \vec]
    pcmpeqb xmm\n, xmm0
    pminub  xmm\n, xmm0
    .endr
    pminub  xmm1, xmm2
    pminub  xmm3, xmm4
    pminub  xmm1, xmm3
    pcmpeqb xmm1, xmm7
    pmovmskb eax, xmm1
    test    eax, eax
    jnz     \different
    .else
    .ifc \reg, ymm
    .irp n, 1, 2, 3, 4
    vmovdqu ymm0, [rdi + \vec*\n - \vec]
    vpcmpeqb ymm\n, ymm0, [rsi + \vec*\n - \vec]
    vpminub ymm\n, ymm\n, ymm0
    .endr
    vpminub ymm1, ymm1, ymm2
    vpminub ymm3, ymm3, ymm4
    vpminub ymm1, ymm1, ymm3
    vpcmpeqb ymm1, ymm1, ymm7
    vpmovmskb eax, ymm1
    test    eax, eax
    jnz     \different
    .else
    vmovdqu64 \reg\()0, [rdi]
    vmovdqu64 \reg\()1, [rdi + \vec]
    vmovdqu64 \reg\()2, [rdi + 2*\vec]
    vmovdqu64 \reg\()3, [rdi + 3*\vec]
    vpxorq  \reg\()4, \reg\()0, [rsi]
    vpxorq  \reg\()5, \reg\()1, [rsi + \vec]
    vpxorq  \reg\()6, \reg\()2, [rsi + 2*\vec]
    vpxorq  \reg\()7, \reg\()3, [rsi + 3*\vec]
    vpminub \reg\()0, \reg\()0, \reg\()1
    vpminub \reg\()2, \reg\()2, \reg\()3
    vpminub \reg\()0, \reg\()0, \reg\()2
    vpternlogq \reg\()4, \reg\()5, \reg\()6, 0xfe
    vporq   \reg\()4, \reg\()4, \reg\()7
    vptestmb k1, \reg\()0, \reg\()0       # where no string ends
    vptestnmb k0 {k1}, \reg\()4, \reg\()4 # and nothing differs
    .ifc \reg, zmm2
    kortestq k0, k0
    .else
    kortestd k0, k0
    .endif
    jnc     \different
    .endif
    .endif
    .endm

    # eax: the difference; ecx: the second byte. r10 is free.
    .macro subtract_bytes case, a:req, b:vararg
    movzx   eax, byte ptr \a
    movzx   ecx, byte ptr \b
    .ifc \case, folded
    fold_byte eax, rax
    fold_byte ecx, rcx
    .endif
    sub     eax, ecx
    .endm

    # The last r8 bytes of a stretch, fewer than a vector.
    .macro compare_strings_rest name, case, reg, vec
    .ifc \reg, xmm
    compare_strings_rest_back \name, \case, \reg, \vec
    .else
    .ifc \reg, ymm
    compare_strings_rest_back \name, \case, \reg, \vec
    .else
    mov     rax, -1
    bzhi    rax, rax, r8
    kmovq   k2, rax
    vmovdqu8 \reg\()0 {k2} {z}, [rdi]
    vptestmb k1 {k2}, \reg\()0, \reg\()0
    vpcmpeqb k0 {k1}, \reg\()0, [rsi]
    kxorq   k0, k0, k2
    kmovq   rax, k0
    test    rax, rax
    jnz     .L\name\()_different_\reg
    add     rdi, r8
    add     rsi, r8
    .endif
    .endif
    .endm

    # eax: how far the one of both that is nearer to its end is into its page. ecx is free.
    .macro nearer_page_end
    mov     eax, edi
    mov     ecx, esi
    and     eax, 4095
    and     ecx, 4095
    cmp     eax, ecx
    cmovb   eax, ecx
    .endm

    # Without masks: a vector that goes beyond the stretch, if it does not go beyond the page; or the last one before the end
    # of the stretch, if it does not begin before the strings (r9).
    .macro compare_strings_rest_back name, case, reg, vec
    nearer_page_end
    cmp     eax, 4096 - \vec
    ja      .L\name\()_back_\reg
    compare_strings_vector \case, \reg, 0, .L\name\()_in_rest_\reg
.L\name\()_behind_\reg:
    add     rdi, r8
    add     rsi, r8
    jmp     .L\name\()_stretch_end_\reg
.L\name\()_in_rest_\reg:
    tzcnt   rcx, rax
    cmp     rcx, r8
    jb      .L\name\()_different_\reg
    jmp     .L\name\()_behind_\reg

.L\name\()_back_\reg:
    lea     rax, [rdi + r8 - \vec]
    cmp     rax, r9
    jb      .L\name\()_byte_\reg
    mov     rdi, rax
    lea     rsi, [rsi + r8 - \vec]
    compare_strings_vector \case, \reg, 0, .L\name\()_different_\reg
    add     rdi, \vec
    add     rsi, \vec
    jmp     .L\name\()_stretch_end_\reg

.L\name\()_byte_\reg:
    subtract_bytes \case, [rdi], [rsi]
    jnz     .L\name\()_return_\reg
    test    ecx, ecx
    jz      .L\name\()_return_\reg
    inc     rdi
    inc     rsi
    dec     r8d
    jnz     .L\name\()_byte_\reg
    .endm

    .macro compare_strings name, case, limit, reg, vec
    .ifc \reg, xmm
    mov     r9, rdi
    pxor    xmm7, xmm7
    .endif
    .ifc \reg, ymm
    mov     r9, rdi
    vpxor   xmm7, xmm7, xmm7
    .endif
    .ifc \case, folded
    prepare_folding \reg
    .endif
    mov     eax, edi
    or      eax, esi                    # at least as large as either
    and     eax, 4095
    pair    11
    cmp     eax, 4096 - 4*\vec
    ja      .L\name\()_careful_\reg
.L\name\()_vectors_\reg:
    .irp n, 0, 1, 2, 3
    compare_strings_vector \case, \reg, \n*\vec, .L\name\()_first_\reg\()_\n
    .ifc \limit, limited
    pair    10
    sub     rdx, \vec
    jbe     .L\name\()_equal_\reg
    .endif
    .endr
    mov     ecx, edi
    and     ecx, \vec - 1
    sub     rdi, rcx                    # to where it is aligned: what is compared again is equal
    sub     rsi, rcx
    .ifc \limit, limited
    add     rdx, rcx
    .endif
    add     rdi, 4*\vec
    add     rsi, 4*\vec

.L\name\()_stretch_\reg:
    nearer_page_end
.L\name\()_from_there_\reg:
    mov     r8d, 4096
    sub     r8d, eax                    # so many bytes up to the end of the first page that ends
    .ifc \limit, limited
    cmp     r8, rdx
    cmova   r8, rdx
    sub     rdx, r8                     # so many are left behind the stretch
    .endif
    pair    13
    cmp     r8, 4*\vec
    jb      .L\name\()_single_\reg
    .p2align 4
.L\name\()_four_\reg:
    compare_strings_four \case, \reg, \vec, .L\name\()_single_\reg
    add     rdi, 4*\vec
    add     rsi, 4*\vec
    sub     r8, 4*\vec
    pair    13
    cmp     r8, 4*\vec
    jae     .L\name\()_four_\reg
.L\name\()_single_\reg:
    cmp     r8, \vec
    jb      .L\name\()_rest_\reg
    compare_strings_vector \case, \reg, 0, .L\name\()_different_\reg
    add     rdi, \vec
    add     rsi, \vec
    sub     r8, \vec
    jmp     .L\name\()_single_\reg
.L\name\()_rest_\reg:
    test    r8d, r8d
    jz      .L\name\()_stretch_end_\reg
    compare_strings_rest \name, \case, \reg, \vec
.L\name\()_stretch_end_\reg:
    .ifc \limit, limited
    test    rdx, rdx
    jz      .L\name\()_equal_\reg
    .endif
    jmp     .L\name\()_stretch_\reg

    # A quarter of all pairs comes here though neither string is that close.
    .p2align 4
.L\name\()_careful_\reg:
    nearer_page_end
    cmp     eax, 4096 - 4*\vec
    jbe     .L\name\()_vectors_\reg
    jmp     .L\name\()_from_there_\reg

    .p2align 4
    .irp n, 3, 2, 1
.L\name\()_first_\reg\()_\n:
    add     rdi, \vec
    add     rsi, \vec
    .endr
.L\name\()_first_\reg\()_0:
    .ifc \limit, limited
    tzcnt   r11, rax
    .ifc \case, folded
    cmp     r11, rdx
    .ifc \reg, xmm
    jae     .L\name\()_equal_xmm
    .else
    jb      .L\name\()_in_count_\reg
    xor     eax, eax                    # the count ends before that byte
    leave_function \reg
.L\name\()_in_count_\reg:
    .endif
    subtract_bytes folded, [rdi + r11], [rsi + r11]
    .else
    subtract_bytes exact, [rdi + r11], [rsi + r11]
    xor     ecx, ecx
    cmp     r11, rdx
    cmovae  eax, ecx
    .endif
    .ifc \reg, xmm
    find_level_at_end rcx
    .endif
    leave_function \reg
    .endif
.L\name\()_different_\reg:
    .ifc \reg, xmm
    find_level_at_end rcx
    .endif
    tzcnt   rcx, rax
    subtract_bytes \case, [rdi + rcx], [rsi + rcx]
.L\name\()_return_\reg:
    leave_function \reg
    .ifc \limit, limited
.L\name\()_equal_\reg:
    .ifc \reg, xmm
    find_level_at_end rcx
    .endif
    xor     eax, eax
    leave_function \reg
    .endif
    .endm

    .macro compare_strings_anyhow name, case, limit
    .ifc \limit, limited
    test    rdx, rdx
    jz      .L\name\()_nothing
    .endif
    .ifc \case, folded
    compare_first_bytes \name
    .endif
.L\name\()_begin:
    .ifc \case, exact
    cmp     byte ptr [rip + __reheap_mem_level], 2
    jl      .L\name\()_narrow
    jg      .L\name\()_zmm
    compare_strings \name, \case, \limit, ymm2, 32
    .p2align 5
.L\name\()_zmm:
    compare_strings \name, \case, \limit, zmm2, 64
    .p2align 5
.L\name\()_narrow:
    .endif
    cmp     byte ptr [rip + __reheap_mem_level], 0
    jle     .L\name\()_xmm
    compare_strings \name, \case, \limit, ymm, 32
    .p2align 5
.L\name\()_xmm:
    find_level_in_time .L\name\()_begin, 32
    compare_strings \name, \case, \limit, xmm, 16
    .ifc \limit, limited
.L\name\()_nothing:
    xor     eax, eax
    ret
    .endif
    .ifc \case, folded
.L\name\()_at_once:
    fold_byte eax, rax
    fold_byte ecx, rcx
    sub     eax, ecx
    ret
    .endif
    .endm

