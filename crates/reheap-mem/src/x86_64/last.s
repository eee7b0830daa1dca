# memrchr: the last byte in a block that is the wanted one. (musl's strrchr calls it.)
#
# As in search.s, loads are aligned, but for the first one, and that is not made close to the beginning of a page.

    # rax: one bit for each byte of a vector that is looked for.
    .macro match_last reg, from:vararg
    .ifc \reg, ymm
    vpcmpeqb ymm1, ymm0, \from
    vpmovmskb eax, ymm1
    .else
    vpcmpeqb k0, \reg\()0, \from
    kmovq   rax, k0
    .endif
    .endm

    # Jumps if four vectors in front of rdi have such a byte.
    .macro match_last_four reg, vec, found
    .ifc \reg, ymm
    .irp n, 1, 2, 3, 4
    vpcmpeqb ymm\n, ymm0, [rdi - 32*\n]
    .endr
    vpor    ymm1, ymm1, ymm2
    vpor    ymm3, ymm3, ymm4
    vpor    ymm1, ymm1, ymm3
    vpmovmskb eax, ymm1
    test    eax, eax
    .else
    .irp n, 1, 2, 3, 4
    vpxorq  \reg\n, \reg\()0, [rdi - \vec*\n]
    .endr
    vpminub \reg\()1, \reg\()1, \reg\()2
    vpminub \reg\()3, \reg\()3, \reg\()4
    vpminub \reg\()1, \reg\()1, \reg\()3
    vptestnmb k0, \reg\()1, \reg\()1
    kortestq k0, k0
    .endif
    jnz     \found
    .endm

    # With AVX2 and AVX-512. First the vector that ends with the block, unless it begins in another page; then aligned ones.
    # r9: the beginning.
    .macro find_last reg, vec
    .ifc \reg, ymm
    splat   ymm
    .else
    vpbroadcastb \reg\()0, esi
    .endif
    lea     rdi, [r9 + rdx]             # the end
    lea     eax, [rdi - 1]
    and     eax, 4095
    pair    11
    cmp     eax, \vec - 1
    jb      .Lmemrchr_page_begin_\reg
    match_last \reg, [rdi - \vec]
    pair    9
    test    rax, rax
    jz      .Lmemrchr_rest_\reg
    lzcnt   rax, rax
    sub     rdi, rax
    lea     rax, [rdi + 63 - \vec]
    pair    9
    cmp     rax, r9
    jb      .Lmemrchr_none_\reg
    leave_function \reg

    .p2align 4
.Lmemrchr_rest_\reg:
    pair    13
    cmp     rdx, \vec
    jbe     .Lmemrchr_none_\reg
    dec     rdi
    and     rdi, -\vec                  # no byte from there on is left
.Lmemrchr_vectors_\reg:
    mov     rcx, rdi
    pair    9
    sub     rcx, r9
    jbe     .Lmemrchr_none_\reg
    pair    12
    cmp     rcx, 4*\vec
    jb      .Lmemrchr_few_\reg
    .irp n, 1, 2, 3, 4
    match_last \reg, [rdi - \n*\vec]
    pair    9
    test    rax, rax
    jnz     .Lmemrchr_found_\reg\()_\n
    .endr
    dec     rdi
    and     rdi, -4*\vec                # four in front of such an address lie in one page
    .p2align 4
.Lmemrchr_four_\reg:
    cmp     rdi, r9
    jbe     .Lmemrchr_none_\reg
    match_last_four \reg, \vec, .Lmemrchr_few_\reg
    sub     rdi, 4*\vec
    jmp     .Lmemrchr_four_\reg

    .irp n, 4, 3, 2, 1
    .p2align 4
.Lmemrchr_found_\reg\()_\n:
    lzcnt   rax, rax
    sub     rdi, rax
    lea     rax, [rdi + 63 - \n*\vec]
    leave_function \reg
    .endr

    # Fewer than four vectors, or four of which one has the byte.
    .p2align 4
.Lmemrchr_few_\reg:
    sub     rdi, \vec
    match_last \reg, [rdi]
    pair    9
    test    rax, rax
    jnz     .Lmemrchr_found_\reg
    pair    9
    cmp     rdi, r9
    ja      .Lmemrchr_few_\reg
    jmp     .Lmemrchr_none_\reg

    .p2align 4
.Lmemrchr_page_begin_\reg:
    mov     ecx, edi
    neg     ecx                         # in the aligned vector that the last byte lies in, so many are behind it
    dec     rdi
    and     rdi, -\vec
    match_last \reg, [rdi]
    .ifc \reg, zmm2
    shl     rax, cl                     # modulo 64
    shr     rax, cl
    .else
    shl     eax, cl                     # modulo 32
    shr     eax, cl
    .endif
    test    rax, rax
    jz      .Lmemrchr_vectors_\reg
.Lmemrchr_found_\reg:
    lzcnt   rax, rax
    sub     rdi, rax
    add     rdi, 63
    xor     eax, eax
    cmp     rdi, r9
    cmovae  rax, rdi
    leave_function \reg
.Lmemrchr_none_\reg:
    xor     eax, eax
    leave_function \reg
    .endm

    function __reheap_memrchr
    test    rdx, rdx
    jz      .Lmemrchr_none
    mov     r9, rdi
.Lmemrchr_begin:
    cmp     byte ptr [rip + __reheap_mem_search_level], 2
    jl      .Lmemrchr_narrow
    je      .Lmemrchr_ymm
    find_last zmm2, 64
    .p2align 5
.Lmemrchr_ymm:
    find_last ymm2, 32

    .p2align 5
.Lmemrchr_narrow:
    cmp     byte ptr [rip + __reheap_mem_search_level], 0
    jle     .Lmemrchr_xmm
    find_last ymm, 32

    .p2align 5
.Lmemrchr_xmm:
    find_level_in_time .Lmemrchr_begin
    lea     rdi, [rdi + rdx - 1]        # the last byte
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
    .p2align 4
.Lmemrchr_next:
    cmp     rdi, r9
    jbe     .Lmemrchr_none
    movaps  xmm1, [rdi - 16]
    pcmpeqb xmm1, xmm0
    pmovmskb eax, xmm1
    sub     rdi, 16
    test    eax, eax
    jz      .Lmemrchr_next
    xor     ecx, ecx
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
    end_function __reheap_memrchr
