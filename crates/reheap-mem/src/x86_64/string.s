# strcmp, strncmp; strcpy, stpcpy, strncpy, stpncpy.

    # ----- strcmp, strncmp -----
    #
    # rdi, rsi: the strings, rdx: the count where there is one; eax: less than, equal to or greater than 0.
    #
    # A vector of both at a time, from any address. Where one of the two is so close to the end of its page that a vector
    # would reach into the next, single bytes until it is past that; with AVX-512, those that are left in the page.

    .macro done_at_count limit, label, vec
    .ifc \limit, limited
    cmp     rdx, \vec
    jbe     \label
    sub     rdx, \vec
    .endif
    .endm

    # Byte rcx of both decides, unless the count ends before it.
    .macro answer_at_rcx name, limit
    .ifc \limit, limited
    cmp     rcx, rdx
    jae     .L\name\()_equal
    .endif
    movzx   eax, byte ptr [rdi + rcx]
    movzx   ecx, byte ptr [rsi + rcx]
    sub     eax, ecx
    ret
    .endm

    .macro compare_strings name, limit, reg, vec
    .ifc \reg, ymm
    vpxor   xmm7, xmm7, xmm7
    .else
    pxor    xmm7, xmm7
    .endif
    .p2align 4
.L\name\()_loop_\reg:
    mov     eax, edi
    mov     ecx, esi
    and     eax, 4095
    and     ecx, 4095
    cmp     eax, 4096 - \vec
    ja      .L\name\()_page_end_\reg
    cmp     ecx, 4096 - \vec
    ja      .L\name\()_page_end_\reg
    # A byte is 0 where both differ or end.
    load    \reg, 0, [rdi]
    .ifc \reg, ymm
    vpcmpeqb ymm1, ymm0, [rsi]
    .else
    movups  xmm1, [rsi]
    pcmpeqb xmm1, xmm0
    .endif
    bytes   pminub, \reg, 1, \reg\()0
    bytes   pcmpeqb, \reg, 1, \reg\()7
    mask    \reg, eax, 1
    test    eax, eax
    jnz     .L\name\()_different_\reg
    done_at_count \limit, .L\name\()_equal_\reg, \vec
    add     rdi, \vec
    add     rsi, \vec
    jmp     .L\name\()_loop_\reg

.L\name\()_different_\reg:
    .ifc \reg, ymm
    vzeroupper
    .endif
    bsf     ecx, eax
    answer_at_rcx \name, \limit

.L\name\()_page_end_\reg:
    mov     r8d, \vec
.L\name\()_byte_\reg:
    movzx   eax, byte ptr [rdi]
    movzx   ecx, byte ptr [rsi]
    cmp     eax, ecx
    jne     .L\name\()_byte_differs_\reg
    test    eax, eax
    jz      .L\name\()_equal_\reg
    done_at_count \limit, .L\name\()_equal_\reg, 1
    inc     rdi
    inc     rsi
    dec     r8d
    jnz     .L\name\()_byte_\reg
    jmp     .L\name\()_loop_\reg

.L\name\()_byte_differs_\reg:
    .ifc \reg, ymm
    vzeroupper
    .endif
    sub     eax, ecx
    ret
.L\name\()_equal_\reg:
    .ifc \reg, ymm
    vzeroupper
    .endif
    xor     eax, eax
    ret
    .endm

    .macro compare_strings_anyhow name, limit
    .ifc \limit, limited
    test    rdx, rdx
    jz      .L\name\()_equal
    .endif
    cmp     byte ptr [rip + __reheap_mem_level], 1
    jb      .L\name\()_xmm
    je      .L\name\()_ymm

    .p2align 4
.L\name\()_loop_zmm:
    mov     eax, edi
    mov     ecx, esi
    and     eax, 4095
    and     ecx, 4095
    cmp     eax, 4096 - 64
    ja      .L\name\()_page_end_zmm
    cmp     ecx, 4096 - 64
    ja      .L\name\()_page_end_zmm
    vmovdqu64 zmm20, [rdi]
    vptestmb k1, zmm20, zmm20
    vpcmpeqb k0 {k1}, zmm20, [rsi]
    kmovq   rax, k0
    inc     rax                         # 0 if all of them are the same
    jnz     .L\name\()_different_zmm
    done_at_count \limit, .L\name\()_equal, 64
    add     rdi, 64
    add     rsi, 64
    jmp     .L\name\()_loop_zmm

.L\name\()_different_zmm:
    tzcnt   rcx, rax                    # adding one has left a 1 where the first 0 was
    answer_at_rcx \name, \limit

    # Of the one that is closer to the end of its page, what is left there: from 1 to 63.
.L\name\()_page_end_zmm:
    cmp     eax, ecx
    cmovb   eax, ecx
    mov     ecx, 4096
    sub     ecx, eax
    mov     rax, -1
    bzhi    rax, rax, rcx
    kmovq   k2, rax
    vmovdqu8 zmm20 {k2} {z}, [rdi]
    vptestmb k1 {k2}, zmm20, zmm20
    vpcmpeqb k0 {k1}, zmm20, [rsi]
    kxorq   k0, k0, k2
    kmovq   rax, k0
    test    rax, rax
    jz      .L\name\()_page_ended_zmm
    tzcnt   rcx, rax
    answer_at_rcx \name, \limit
.L\name\()_page_ended_zmm:
    done_at_count \limit, .L\name\()_equal, rcx
    add     rdi, rcx
    add     rsi, rcx
    jmp     .L\name\()_loop_zmm
.L\name\()_equal:
    xor     eax, eax
    ret

    .p2align 5
.L\name\()_xmm:
    compare_strings \name, \limit, xmm, 16
    .p2align 5
.L\name\()_ymm:
    compare_strings \name, \limit, ymm, 32
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

    # With AVX-512: up to 63 bytes and the end in one go. rax: the position of the end.
    .macro copy_short_string name
    cmp     byte ptr [rip + __reheap_mem_level], 1
    jbe     .L\name\()_long
    mov     eax, esi
    and     eax, 4095
    cmp     eax, 4096 - 64
    ja      .L\name\()_long
    vmovdqu64 zmm20, [rsi]
    vptestnmb k0, zmm20, zmm20
    kmovq   rax, k0
    test    rax, rax
    jz      .L\name\()_long
    blsmsk  rcx, rax                    # up to the lowest one, which is the end
    kmovq   k1, rcx
    vmovdqu8 [rdi] {k1}, zmm20
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
    .p2align 4
.Lstrcpy_long:
    copy_string
    restore_three
    ret                                 # what memcpy returned
    end_function __reheap_strcpy

    function __reheap_stpcpy
    copy_short_string stpcpy
    tzcnt   rax, rax
    add     rax, rdi
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
