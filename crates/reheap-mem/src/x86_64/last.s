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

    # rax is not 0 if four vectors in front of rdi have such a byte. Register 5 shows where the last two have it, register 1
    # where the last one does; 6 and 3: the same for the two before.
    .macro match_last_four reg, vec
    .irp n, 1, 2, 3, 4
    .ifc \reg, ymm
    vpcmpeqb ymm\n, ymm0, [rdi - \vec*\n]
    .else
    vpxorq  \reg\n, \reg\()0, [rdi - \vec*\n]
    .endif
    .endr
    .ifc \reg, ymm
    vpor    ymm5, ymm1, ymm2
    vpor    ymm6, ymm3, ymm4
    vpor    ymm7, ymm5, ymm6
    .else
    vpminub \reg\()5, \reg\()1, \reg\()2
    vpminub \reg\()6, \reg\()3, \reg\()4
    vpminub \reg\()7, \reg\()5, \reg\()6
    .endif
    mask_last \reg, rax, eax, 7
    .endm

    # One bit for each such byte.
    .macro mask_last reg, whole, low, n
    .ifc \reg, ymm
    vpmovmskb \low, ymm\n
    .else
    vptestnmb k0, \reg\()\n, \reg\()\n
    kmovq   \whole, k0
    .endif
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
    pair    11, \reg
    cmp     eax, \vec - 1
    jb      .Lmemrchr_page_begin_\reg
    match_last \reg, [rdi - \vec]
    pair    9, \reg
    test    rax, rax
    jz      .Lmemrchr_rest_\reg
    lzcnt   rax, rax
    sub     rdi, rax
    lea     rax, [rdi + 63 - \vec]
    pair    9, \reg
    cmp     rax, r9
    jb      .Lmemrchr_none_\reg
    leave_function \reg

    .p2align 4
.Lmemrchr_rest_\reg:
    pair    13, \reg
    cmp     rdx, \vec
    jbe     .Lmemrchr_none_\reg
    dec     rdi
    and     rdi, -\vec                  # no byte from there on is left
    mov     rcx, rdi
    sub     rcx, r9
.Lmemrchr_vectors_\reg:
    pair    13, \reg
    cmp     rcx, 4*\vec
    ja      .Lmemrchr_many_\reg

    # Up to four vectors: what is found in the first of them may lie in front of the block.
.Lmemrchr_few_\reg:
    .irp n, 1, 2, 3, 4
    sub     rdi, \vec
    match_last \reg, [rdi]
    pair    9, \reg
    test    rax, rax
    jnz     .Lmemrchr_found_\reg
    .if \n < 4
    pair    10, \reg
    cmp     rcx, \n*\vec
    jbe     .Lmemrchr_none_\reg
    .endif
    .endr
    xor     eax, eax
    leave_function \reg

.Lmemrchr_other_few_\reg:
    add     rdi, -4*\vec
    add     rcx, -4*\vec
    jmp     .Lmemrchr_few_\reg

    .p2align 4
.Lmemrchr_many_\reg:
    .irp n, 1, 2, 3, 4
    match_last \reg, [rdi - \n*\vec]
    pair    9, \reg
    test    rax, rax
    jnz     .Lmemrchr_found_\reg\()_\n
    .endr
    pair    13, \reg
    cmp     rcx, 8*\vec
    jbe     .Lmemrchr_other_few_\reg
    dec     rdi
    and     rdi, -4*\vec                # four in front of such an address lie in one page
    .p2align 4
.Lmemrchr_four_\reg:
    match_last_four \reg, \vec
    pair    9, \reg
    test    rax, rax
    jnz     .Lmemrchr_in_four_\reg
    sub     rdi, 4*\vec
    pair    9, \reg
    cmp     rdi, r9
    ja      .Lmemrchr_four_\reg
.Lmemrchr_none_\reg:
    xor     eax, eax
    leave_function \reg

    .irp n, 4, 3, 2, 1
    .p2align 4
.Lmemrchr_found_\reg\()_\n:
    lzcnt   rax, rax
    sub     rdi, rax
    lea     rax, [rdi + 63 - \n*\vec]
    leave_function \reg
    .endr

    # First in which two it is. If the last one of them does not have it, the mask of both is that of the one before.
    .p2align 4
.Lmemrchr_in_four_\reg:
    sub     rdi, \vec
    mask_last \reg, rcx, ecx, 1
    mask_last \reg, rax, eax, 5
    test    rax, rax
    jnz     .Lmemrchr_in_two_\reg
    sub     rdi, 2*\vec
    mask_last \reg, rcx, ecx, 3
    mask_last \reg, rax, eax, 6
.Lmemrchr_in_two_\reg:
    lea     rdx, [rdi - \vec]
    test    rcx, rcx
    cmovz   rdi, rdx
    cmovnz  rax, rcx
    jmp     .Lmemrchr_found_\reg

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
    mov     rcx, rdi
    test    rax, rax
    jnz     .Lmemrchr_found_\reg
    sub     rcx, r9
    ja      .Lmemrchr_vectors_\reg
    xor     eax, eax
    leave_function \reg

    .p2align 4
.Lmemrchr_found_\reg:
    lzcnt   rax, rax
    sub     rdi, rax
    add     rdi, 63
    xor     eax, eax
    cmp     rdi, r9
    cmovae  rax, rdi
    leave_function \reg
    .endm

    function __reheap_memrchr
    test    rdx, rdx
    jz      .Lmemrchr_none
    mov     r9, rdi
.Lmemrchr_begin:
    cmp     byte ptr [rip + __reheap_mem_search_level], 3
    jne     .Lmemrchr_up_to_32
    find_last zmm2, 64
    .p2align 5
.Lmemrchr_up_to_32:
    cmp     byte ptr [rip + __reheap_mem_search_level], 1
    jne     .Lmemrchr_not_avx2
    find_last ymm, 32

    .p2align 5
.Lmemrchr_not_avx2:
    jl      .Lmemrchr_xmm
    find_last ymm2, 32

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
