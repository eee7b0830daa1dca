# wcslen, wcschr, wmemcmp, wmemset, wmemcpy, wmemmove: characters of four bytes. Few programs have much of them, so SSE2 is
# enough.

    .hidden __reheap_memcpy, __reheap_memmove, __reheap_memset

    # ----- wcslen, wcschr -----
    #
    # rdi: a multiple of 16, r9: the beginning. Register 7 is 0, register 0 the character.

    # Register n: what is looked for in the vector. Register 6 is free.
    .macro match_wide kind, n, at
    movdqa  xmm\n, [rdi + \at]
    .ifc \kind, either
    movdqa  xmm6, xmm\n
    pcmpeqd xmm6, xmm0
    .endif
    pcmpeqd xmm\n, xmm7
    .ifc \kind, either
    por     xmm\n, xmm6
    .endif
    .endm

    .macro find_wide name, kind
    test    edi, 3
    jnz     .L\name\()_single           # musl's loop does not ask for what C does
    mov     r9, rdi
    pxor    xmm7, xmm7
    .ifc \kind, either
    movd    xmm0, esi
    pshufd  xmm0, xmm0, 0
    .endif
    mov     ecx, edi
    and     ecx, 15
    and     rdi, -16
    match_wide \kind, 1, 0
    pmovmskb eax, xmm1
    shr     eax, cl
    shl     eax, cl
    test    eax, eax
    jnz     .L\name\()_found
    jmp     .L\name\()_past
.L\name\()_vector:
    match_wide \kind, 1, 0
    pmovmskb eax, xmm1
    test    eax, eax
    jnz     .L\name\()_found
.L\name\()_past:
    add     rdi, 16
    test    edi, 63                     # four from such an address on lie in one page
    jnz     .L\name\()_vector
    .p2align 4
.L\name\()_four:
    .irp n, 1, 2, 3, 4
    match_wide \kind, \n, 16*\n-16
    .endr
    por     xmm1, xmm2
    por     xmm3, xmm4
    por     xmm1, xmm3
    pmovmskb eax, xmm1
    test    eax, eax
    jnz     .L\name\()_vector
    add     rdi, 64
    jmp     .L\name\()_four
.L\name\()_found:
    tzcnt   eax, eax
    add     rdi, rax
    .endm

    function __reheap_wcslen
    find_wide wcslen, end
    mov     rax, rdi
    sub     rax, r9
    shr     rax, 2
    ret
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
    find_wide wcschr, either
.Lwcschr_end:
    xor     eax, eax
    cmp     esi, [rdi]
    cmove   rax, rdi
    ret
.Lwcschr_single:
    cmp     esi, [rdi]
    je      .Lwcschr_end
    cmp     dword ptr [rdi], 0
    je      .Lwcschr_end
    add     rdi, 4
    jmp     .Lwcschr_single
    end_function __reheap_wcschr

    # ----- wmemcmp -----
    #
    # rdi, rsi: the blocks, rdx: how many characters; they have a sign.

    function __reheap_wmemcmp
    shl     rdx, 2
    xor     ecx, ecx
    lea     r8, [rdx - 16]              # where the last vector is
    cmp     rdx, 16
    jb      .Lwmemcmp_few
    .p2align 4
.Lwmemcmp_next:
    movdqu  xmm0, [rdi + rcx]
    movdqu  xmm1, [rsi + rcx]
    pcmpeqd xmm0, xmm1
    pmovmskb eax, xmm0
    sub     eax, 0xffff
    jnz     .Lwmemcmp_different
    cmp     rcx, r8
    je      .Lwmemcmp_equal
    add     rcx, 16
    cmp     rcx, r8
    cmova   rcx, r8
    jmp     .Lwmemcmp_next
.Lwmemcmp_different:
    tzcnt   eax, eax
    add     rcx, rax
    mov     r8d, [rdi + rcx]
    cmp     r8d, [rsi + rcx]
.Lwmemcmp_which:
    setg    al
    setl    cl
    sub     al, cl
    movsx   eax, al
    ret
.Lwmemcmp_few:
    cmp     rcx, rdx
    je      .Lwmemcmp_equal
    mov     eax, [rdi + rcx]
    cmp     eax, [rsi + rcx]
    jne     .Lwmemcmp_which
    add     rcx, 4
    jmp     .Lwmemcmp_few
.Lwmemcmp_equal:
    xor     eax, eax
    ret
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
    jb      .Lwmemset_few
    movd    xmm0, esi
    pshufd  xmm0, xmm0, 0
    lea     rdx, [rdi + rdx - 16]       # where the last vector goes
    lea     rcx, [rdx - 48]
    cmp     rdi, rcx
    jae     .Lwmemset_vectors
    .p2align 4
.Lwmemset_four:
    movups  [rdi], xmm0
    movups  [rdi + 16], xmm0
    movups  [rdi + 32], xmm0
    movups  [rdi + 48], xmm0
    add     rdi, 64
    cmp     rdi, rcx
    jb      .Lwmemset_four
.Lwmemset_vectors:
    cmp     rdi, rdx
    jae     .Lwmemset_last
    movups  [rdi], xmm0
    add     rdi, 16
    jmp     .Lwmemset_vectors
.Lwmemset_last:
    movups  [rdx], xmm0
    ret
.Lwmemset_few:
    add     rdx, rdi
.Lwmemset_single:
    cmp     rdi, rdx
    je      .Lwmemset_return
    mov     [rdi], esi
    add     rdi, 4
    jmp     .Lwmemset_single
.Lwmemset_return:
    ret
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
