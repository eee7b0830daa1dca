# strcmp, strncmp; strcpy, stpcpy, strncpy, stpncpy.

    function __reheap_strcmp
    compare_strings_anyhow strcmp, exact, unlimited
    end_function __reheap_strcmp

    function __reheap_strncmp
    compare_strings_anyhow strncmp, exact, limited
    end_function __reheap_strncmp

    # ----- strcpy, stpcpy, strncpy, stpncpy -----
    #
    # rdi: destination, rsi: the string, rdx: the count where there is one. Where there is a count, first the length, then the
    # copy: two fast passes, the second over what the first has brought into the cache.

    .hidden __reheap_strlen, __reheap_strnlen, __reheap_memcpy, __reheap_memset

    # With AVX-512: up to 63 bytes and the end without a loop. eax: a mask, the lowest bit set of
    # which is that of the end, in the half that it lies in.
    .macro copy_short_string name
    cmp     byte ptr [rip + __reheap_mem_level], 2
    jl      .L\name\()_narrow
    mov     eax, esi
    and     eax, 4095
    pair    11
    cmp     eax, 4096 - 64
    ja      .L\name\()_page_end
    vmovdqu64 ymm20, [rsi]
    vptestnmb k0, ymm20, ymm20
    kmovd   eax, k0
    pair    8
    test    eax, eax
    jz      .L\name\()_second
    blsmsk  ecx, eax                    # up to the lowest one, which is the end
    kmovd   k1, ecx
    vmovdqu8 [rdi] {k1}, ymm20
    .endm

    .macro copy_second_half name
    .p2align 4
.L\name\()_second:
    vmovdqu64 ymm21, [rsi + 32]
    vptestnmb k0, ymm21, ymm21
    kmovd   eax, k0
    pair    8
    test    eax, eax
    jz      .L\name\()_65
    vmovdqu64 [rdi], ymm20
    blsmsk  ecx, eax
    kmovd   k1, ecx
    vmovdqu8 [rdi + 32] {k1}, ymm21
    .endm

    # Up to 64 bytes with AVX2: what is loaded last ends with the string.
    .macro copy_short_string_ymm name
    mov     eax, esi
    and     eax, 4095
    cmp     eax, 4096 - 64
    ja      .L\name\()_page_end
    vpxor   xmm7, xmm7, xmm7
    vmovdqu ymm0, [rsi]
    vpcmpeqb ymm1, ymm0, ymm7
    vpmovmskb eax, ymm1
    test    eax, eax
    jz      .L\name\()_33_ymm
    tzcnt   eax, eax
    cmp     eax, 15
    jae     .L\name\()_16_ymm
    vzeroupper
    cmp     eax, 7
    jae     .L\name\()_8
    cmp     eax, 3
    jae     .L\name\()_4
    test    eax, eax
    jz      .L\name\()_1
    movzx   ecx, word ptr [rsi]
    mov     [rdi], cx
.L\name\()_1:
    mov     byte ptr [rdi + rax], 0
    answer_\name rdi, rax
    ret
.L\name\()_4:
    mov     ecx, [rsi]
    mov     edx, [rsi + rax - 3]
    mov     [rdi], ecx
    mov     [rdi + rax - 3], edx
    answer_\name rdi, rax
    ret
.L\name\()_8:
    mov     rcx, [rsi]
    mov     rdx, [rsi + rax - 7]
    mov     [rdi], rcx
    mov     [rdi + rax - 7], rdx
    answer_\name rdi, rax
    ret
    .p2align 4
.L\name\()_16_ymm:
    vmovdqu xmm1, [rsi + rax - 15]
    vmovdqu [rdi], xmm0
    vmovdqu [rdi + rax - 15], xmm1
    answer_\name rdi, rax
    vzeroupper
    ret
    .p2align 4
.L\name\()_33_ymm:
    vpcmpeqb ymm1, ymm7, [rsi + 32]
    vpmovmskb eax, ymm1
    test    eax, eax
    jz      .L\name\()_65_ymm
    tzcnt   eax, eax
    vmovdqu ymm1, [rsi + rax + 1]
    vmovdqu [rdi], ymm0
    vmovdqu [rdi + rax + 1], ymm1
    answer_\name rdi, rax, 32
    vzeroupper
    ret
    .endm

    # One bit for each zero in register n; register 6 is free.
    .macro mask_end reg, n, whole=rax, low=eax
    .ifc \reg, ymm
    vpcmpeqb ymm6, ymm\n, ymm7
    vpmovmskb \low, ymm6
    .else
    vptestnmb k0, \reg\()\n, \reg\()\n
    .ifc \reg, zmm2
    kmovq   \whole, k0
    .else
    kmovd   \low, k0
    .endif
    .endif
    .endm

    # More than 64 bytes, of which register 0 has the first 32. From a multiple of the width of the string on; r8 leads from
    # there to the destination.
    .macro copy_long_string name, reg, vec
    mov     r8, rdi
    sub     r8, rsi
    # `strcpy(s, s + 1)` is not allowed, but does what is meant with a loop over bytes. This one may load again what lies up to
    # four vectors in front of what it has stored.
    cmp     r8, -4*\vec
    ja      .L\name\()_overlaps_\reg
    mov     r9, rdi
    load    \reg, 2, [rsi + 64 - \vec]
    .if \vec == 32
    store   \reg, 0, [rdi]
    .endif
    store   \reg, 2, [rdi + 64 - \vec]
    add     rsi, 64
    and     rsi, -\vec
    # Six vectors of 32 bytes, or four of 64.
    .irp n, 0, 1, 2, 3, 4, 5
    .if \n < 2 + 128 / \vec
    load_aligned \reg, 2, [rsi + \n*\vec]
    mask_end \reg, 2
    test    rax, rax
    jnz     .L\name\()_last_\reg\()_\n
    store   \reg, 2, [rsi + r8 + \n*\vec]
    .endif
    .endr
    add     rsi, 2*\vec + 128
    and     rsi, -4*\vec                # four from such an address on lie in one page
    # The next four are loaded between the stores of these four: that is faster than all loads, then all stores.
    lea     rdi, [rsi + r8]
    .irp n, 2, 3, 4, 5
    load_aligned \reg, \n, [rsi + \vec*\n - 2*\vec]
    .endr
    .p2align 4
.L\name\()_four_\reg:
    vpminub \reg\()0, \reg\()2, \reg\()3
    vpminub \reg\()1, \reg\()4, \reg\()5
    vpminub \reg\()6, \reg\()0, \reg\()1
    mask_end \reg, 6
    test    rax, rax
    jnz     .L\name\()_in_four_\reg
    add     rsi, 4*\vec
    .irp n, 2, 3, 4, 5
    store   \reg, \n, [rdi + \vec*\n - 2*\vec]
    load_aligned \reg, \n, [rsi + \vec*\n - 2*\vec]
    .endr
    add     rdi, 4*\vec
    jmp     .L\name\()_four_\reg

    # First in which two it is. If the first one of them does not have it, the mask of both is that of the second one.
.L\name\()_in_four_\reg:
    mask_end \reg, 2, rcx, ecx
    mask_end \reg, 0
    test    rax, rax
    jnz     .L\name\()_in_two_\reg
    store   \reg, 2, [rdi]
    store   \reg, 3, [rdi + \vec]
    add     rdi, 2*\vec
    add     rsi, 2*\vec
    mask_end \reg, 4, rcx, ecx
    mask_end \reg, 1
    load_aligned \reg, 2, \reg\()4
.L\name\()_in_two_\reg:
    test    rcx, rcx
    jnz     .L\name\()_in_first_\reg
    store   \reg, 2, [rdi]
    add     rsi, \vec
    jmp     .L\name\()_last_\reg\()_0
.L\name\()_in_first_\reg:
    mov     rax, rcx
    jmp     .L\name\()_last_\reg\()_0

    .irp n, 5, 4, 3, 2, 1
    .if \n < 2 + 128 / \vec
.L\name\()_last_\reg\()_\n:
    add     rsi, \vec
    .endif
    .endr
.L\name\()_last_\reg\()_0:
    tzcnt   rax, rax
    add     rsi, rax
    load    \reg, 2, [rsi - \vec + 1]
    store   \reg, 2, [rsi + r8 - \vec + 1]
    add     rsi, r8
    answer_\name\()_long
    leave_function \reg
.L\name\()_overlaps_\reg:
    .ifc \reg, ymm
    vzeroupper
    .endif
    jmp     .L\name\()_page_end
    .endm

    .macro copy_string name
    copy_short_string \name
    .ifc \name, stpcpy
    tzcnt   eax, eax
    add     rax, rdi
    .else
    mov     rax, rdi
    .endif
    ret
    copy_second_half \name
    .ifc \name, stpcpy
    tzcnt   eax, eax
    lea     rax, [rdi + rax + 32]
    .else
    mov     rax, rdi
    .endif
    ret
    .p2align 4
.L\name\()_65:
    cmp     byte ptr [rip + __reheap_mem_level], 2
    jg      .L\name\()_65_zmm
    copy_long_string \name, ymm2, 32
    .p2align 4
.L\name\()_65_zmm:
    copy_long_string \name, zmm2, 64

    .p2align 4
.L\name\()_narrow:
    cmp     byte ptr [rip + __reheap_mem_level], 0
    jle     .L\name\()_page_end
    copy_short_string_ymm \name
    .p2align 4
.L\name\()_65_ymm:
    copy_long_string \name, ymm, 32

    # With SSE2 only, close to the end of the string's page, or onto a long string itself: two passes, the second in any order.
    .p2align 4
.L\name\()_page_end:
    save    rbx, rbp, r12
    mov     rbx, rdi
    mov     rbp, rsi
    mov     rdi, rsi
    call    __reheap_strlen
    mov     rdi, rbx
    mov     rsi, rbp
    lea     rdx, [rax + 1]
    lea     r12, [rbx + rax]
    call    __reheap_memcpy
    .ifc \name, stpcpy
    mov     rax, r12
    .endif                              # else what memcpy returned
    restore r12, rbp, rbx
    ret
    .endm

    .macro answer_strcpy to, length, more=0
    mov     rax, \to
    .endm

    .macro answer_strcpy_long
    mov     rax, r9
    .endm

    .macro answer_stpcpy to, length, more=0
    lea     rax, [\to + \length + \more]
    .endm

    .macro answer_stpcpy_long
    mov     rax, rsi
    .endm

    function __reheap_strcpy
    copy_string strcpy
    end_function __reheap_strcpy

    function __reheap_stpcpy
    copy_string stpcpy
    end_function __reheap_stpcpy

    # The rest of the count becomes zeros.
    .macro copy_string_and_fill
    save    rbx, rbp, r12
    mov     rbx, rdi
    mov     rbp, rsi
    mov     r12, rdx
    mov     rdi, rsi
    mov     rsi, rdx
    call    __reheap_strnlen
    sub     r12, rax                    # so many are left
    mov     rdi, rbx
    mov     rsi, rbp
    mov     rdx, rax
    lea     rbp, [rbx + rax]
    call    __reheap_memcpy
    mov     rdi, rbp
    xor     esi, esi
    mov     rdx, r12
    call    __reheap_memset
    .endm

    function __reheap_strncpy
    copy_string_and_fill
    mov     rax, rbx
    restore r12, rbp, rbx
    ret
    end_function __reheap_strncpy

    function __reheap_stpncpy
    copy_string_and_fill                # memset returned where it began
    restore r12, rbp, rbx
    ret
    end_function __reheap_stpncpy
