# strcmp, strncmp; strcpy, stpcpy, strncpy, stpncpy.

    function __reheap_strcmp
    compare_strings_anyhow strcmp, exact, unlimited
    end_function __reheap_strcmp

    function __reheap_strncmp
    compare_strings_anyhow strncmp, exact, limited
    end_function __reheap_strncmp

    # ----- strcpy, stpcpy, strncpy, stpncpy -----
    #
    # rdi: destination, rsi: the string, rdx: the count where there is one. First the length, then the copy: two fast
    # passes, the second over what the first has brought into the cache.

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
    restore r12, rbp, rbx
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
    restore r12, rbp, rbx
    ret
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
