# strcmp, strncmp; strcpy, stpcpy, strncpy, stpncpy.

    # ----- strcmp, strncmp -----
    #
    # rdi, rsi: the strings, rdx: the count where there is one; eax: less than, equal to or greater than 0.
    #
    # Four vectors, if neither string is close to the end of its page; then stretches, in which both stay in one page.

    # Compares a vector of both. On a difference, or at the end, jumps with the mask in rax, the lowest bit set of which
    # is that of the first such byte. Register 7 is 0, but not with AVX-512.
    .macro compare_strings_vector reg, at, different
    load    \reg, 0, [rdi + \at]
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
    .macro compare_strings_four reg, vec, different
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

    # The last r8 bytes of a stretch, fewer than a vector.
    .macro compare_strings_rest name, reg, vec
    .ifc \reg\()_\vec, xmm_16
    compare_strings_rest_back \name, \reg, \vec
    .else
    .ifc \reg, ymm
    compare_strings_rest_back \name, \reg, \vec
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

    # Without masks: the last vector before the end of the stretch, if it does not begin before the strings (r9).
    .macro compare_strings_rest_back name, reg, vec
    lea     rax, [rdi + r8 - \vec]
    cmp     rax, r9
    jb      .L\name\()_byte_\reg
    mov     rdi, rax
    lea     rsi, [rsi + r8 - \vec]
    compare_strings_vector \reg, 0, .L\name\()_different_\reg
    add     rdi, \vec
    add     rsi, \vec
    jmp     .L\name\()_stretch_end_\reg

.L\name\()_byte_\reg:
    movzx   eax, byte ptr [rdi]
    movzx   ecx, byte ptr [rsi]
    sub     eax, ecx
    jnz     .L\name\()_return_\reg
    test    ecx, ecx
    jz      .L\name\()_return_\reg
    inc     rdi
    inc     rsi
    dec     r8d
    jnz     .L\name\()_byte_\reg
    .endm

    .macro compare_strings name, limit, reg, vec
    .ifc \reg, xmm
    mov     r9, rdi
    pxor    xmm7, xmm7
    .endif
    .ifc \reg, ymm
    mov     r9, rdi
    vpxor   xmm7, xmm7, xmm7
    .endif
    mov     eax, edi
    or      eax, esi                    # at least as large as either
    and     eax, 4095
    pair    11
    cmp     eax, 4096 - 4*\vec
    ja      .L\name\()_stretch_\reg
    .irp n, 0, 1, 2, 3
    compare_strings_vector \reg, \n*\vec, .L\name\()_first_\reg\()_\n
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
    mov     eax, edi
    mov     ecx, esi
    and     eax, 4095
    and     ecx, 4095
    cmp     eax, ecx
    cmovb   eax, ecx
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
    compare_strings_four \reg, \vec, .L\name\()_single_\reg
    add     rdi, 4*\vec
    add     rsi, 4*\vec
    sub     r8, 4*\vec
    pair    13
    cmp     r8, 4*\vec
    jae     .L\name\()_four_\reg
.L\name\()_single_\reg:
    cmp     r8, \vec
    jb      .L\name\()_rest_\reg
    compare_strings_vector \reg, 0, .L\name\()_different_\reg
    add     rdi, \vec
    add     rsi, \vec
    sub     r8, \vec
    jmp     .L\name\()_single_\reg
.L\name\()_rest_\reg:
    test    r8d, r8d
    jz      .L\name\()_stretch_end_\reg
    compare_strings_rest \name, \reg, \vec
.L\name\()_stretch_end_\reg:
    .ifc \limit, limited
    test    rdx, rdx
    jz      .L\name\()_equal_\reg
    .endif
    jmp     .L\name\()_stretch_\reg

    .p2align 4
    .irp n, 3, 2, 1
.L\name\()_first_\reg\()_\n:
    add     rdi, \vec
    add     rsi, \vec
    .endr
.L\name\()_first_\reg\()_0:
    .ifc \limit, limited
    bsf     rcx, rax
    pair    9
    cmp     rcx, rdx
    jae     .L\name\()_equal_\reg        # the count ends before that byte
    .endif
.L\name\()_different_\reg:
    .ifc \reg, xmm
    find_level_at_end rcx
    .endif
    bsf     rcx, rax
    movzx   eax, byte ptr [rdi + rcx]
    movzx   ecx, byte ptr [rsi + rcx]
    sub     eax, ecx
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

    .macro compare_strings_anyhow name, limit
    .ifc \limit, limited
    test    rdx, rdx
    jz      .L\name\()_nothing
    .endif
.L\name\()_begin:
    cmp     byte ptr [rip + __reheap_mem_level], 2
    jl      .L\name\()_narrow
    jg      .L\name\()_zmm
    compare_strings \name, \limit, ymm2, 32
    .p2align 5
.L\name\()_zmm:
    compare_strings \name, \limit, zmm2, 64
    .p2align 5
.L\name\()_narrow:
    cmp     byte ptr [rip + __reheap_mem_level], 0
    jle     .L\name\()_xmm
    compare_strings \name, \limit, ymm, 32
    .p2align 5
.L\name\()_xmm:
    find_level_in_time .L\name\()_begin, 32
    compare_strings \name, \limit, xmm, 16
    .ifc \limit, limited
.L\name\()_nothing:
    xor     eax, eax
    ret
    .endif
    .endm

    function __reheap_strcmp
    compare_strings_anyhow strcmp, unlimited
    end_function __reheap_strcmp

    function __reheap_strncmp
    compare_strings_anyhow strncmp, limited
    end_function __reheap_strncmp

    # ----- strcpy, stpcpy, strncpy, stpncpy -----
    #
    # rdi: destination, rsi: the string, rdx: the count where there is one. First the length, then the copy: two fast
    # passes, the second over what the first has brought into the cache.

    .macro save_three
    push    rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbx, 0
    push    rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    push    r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r12, 0
    .endm

    .macro restore_three
    pop     r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore r12
    pop     rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbp
    pop     rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbx
    .endm

    .hidden __reheap_strlen, __reheap_strnlen, __reheap_memcpy, __reheap_memset

    # With AVX-512: up to 63 bytes and the end without a loop. eax: a mask, the lowest bit set of
    # which is that of the end, in the half that it lies in.
    .macro copy_short_string name
    cmp     byte ptr [rip + __reheap_mem_level], 2
    jl      .L\name\()_long
    mov     eax, esi
    and     eax, 4095
    pair    11
    cmp     eax, 4096 - 64
    ja      .L\name\()_long
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
    jz      .L\name\()_long
    blsmsk  ecx, eax
    kmovd   k1, ecx
    vmovdqu64 [rdi], ymm20
    vmovdqu8 [rdi + 32] {k1}, ymm21
    .endm

    .macro copy_string
    save_three
    mov     rbx, rdi
    mov     rbp, rsi
    mov     rdi, rsi
    call    __reheap_strlen
    mov     rdi, rbx
    mov     rsi, rbp
    lea     rdx, [rax + 1]
    lea     r12, [rbx + rax]
    call    __reheap_memcpy
    .endm

    function __reheap_strcpy
    copy_short_string strcpy
    mov     rax, rdi
    ret
    copy_second_half strcpy
    mov     rax, rdi
    ret
    .p2align 4
.Lstrcpy_long:
    copy_string
    restore_three
    ret                                 # what memcpy returned
    end_function __reheap_strcpy

    function __reheap_stpcpy
    copy_short_string stpcpy
    tzcnt   eax, eax
    add     rax, rdi
    ret
    copy_second_half stpcpy
    tzcnt   eax, eax
    lea     rax, [rdi + rax + 32]
    ret
    .p2align 4
.Lstpcpy_long:
    copy_string
    mov     rax, r12
    restore_three
    ret
    end_function __reheap_stpcpy

    # The rest of the count becomes zeros.
    .macro copy_string_and_fill
    save_three
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
    restore_three
    ret
    end_function __reheap_strncpy

    function __reheap_stpncpy
    copy_string_and_fill                # memset returned where it began
    restore_three
    ret
    end_function __reheap_stpncpy
