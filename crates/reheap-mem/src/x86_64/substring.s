# memmem, strstr: the first place where one block stands in another.
#
# 64 places at once are looked at for the needle's first byte and, where that would end, for its last one. Where both are,
# the rest is compared. A haystack can be made to have them nearly everywhere, so what comparing costs is added up. When
# it has cost more than 4 bytes for each byte of the haystack so far, and 1 KiB, the two-way algorithm goes on: it needs
# linear time and no memory (Crochemore and Perrin, "Two-way string-matching", Journal of the ACM 38, 1991).
#
# strstr finds the end of the haystack piece by piece, because a program may call it again behind each find: what is behind
# the find must cost nothing. Pieces have at least the needle's length, so what two searches both look at is not more than
# either.

    .hidden __reheap_memchr, __reheap_strchr, __reheap_strlen, __reheap_strnlen

    # ----- memmem -----
    #
    # rdi: the place that is looked at, r8: the last one; rsi: the needle, rdx: its length, at least 2, and r10 one less.
    # r9: the first place. rbp: four times that place, less 1 KiB, and what comparing has cost. r11: a place where both
    # bytes are; rax: a bit for each. Registers 0 and 1: the two bytes.

    # Register n: what matches among the places so far behind rdi. Register 3 is free.
    .macro match_both reg, n, at
    load    \reg, \n, [rdi + \at]
    load    \reg, 3, [rdi + r10 + \at]
    bytes   pcmpeqb, \reg, \n, \reg\()0
    bytes   pcmpeqb, \reg, 3, \reg\()1
    bytes   pand, \reg, \n, \reg\()3
    .endm

    .macro match_64 reg
    match_both \reg, 2, 0
    .ifc \reg, ymm
    match_both ymm, 4, 32
    .else
    match_both xmm, 4, 16
    match_both xmm, 5, 32
    match_both xmm, 6, 48
    .endif
    .endm

    # Those of `match_64`, as bits of rax; rbx and rcx are free.
    .macro bits_of_64 reg
    mask    \reg, eax, 2
    .ifc \reg, ymm
    vpmovmskb ecx, ymm4
    .else
    pmovmskb ecx, xmm4
    shl     ecx, 16
    or      eax, ecx
    pmovmskb ecx, xmm5
    pmovmskb ebx, xmm6
    shl     ebx, 16
    or      ecx, ebx
    .endif
    shl     rcx, 32
    or      rax, rcx
    .endm

    # Compares the bytes from rcx on with those of the place; jumps if they differ.
    .macro compare_16 reg, different
    .ifc \reg, ymm
    vmovdqu xmm2, [rsi + rcx]
    vpcmpeqb xmm2, xmm2, [r11 + rcx]
    vpmovmskb ebx, xmm2
    .else
    movups  xmm2, [rsi + rcx]
    movups  xmm3, [r11 + rcx]
    pcmpeqb xmm2, xmm3
    pmovmskb ebx, xmm2
    .endif
    cmp     ebx, 0xffff
    jne     \different
    .endm

    .macro leave_memmem reg
    .ifc \reg, ymm
    vzeroupper
    .else
    find_level_at_end rcx
    .endif
    .cfi_remember_state
    restore rbp, rbx
    ret
    .cfi_restore_state
    .endm

    .macro find_substring reg
    movzx   eax, byte ptr [rsi]
    splat   \reg, 0, eax
    movzx   eax, byte ptr [rsi + r10]
    splat   \reg, 1, eax
    lea     rbp, [rdi*4 - 1024]
    mov     rax, r8
    sub     rax, rdi
    cmp     rax, 63
    jb      .Lmemmem_few_\reg
.Lmemmem_next_\reg:
    lea     rcx, [r8 - 63]              # the last 64 places
    jmp     .Lmemmem_64_\reg
    .p2align 4
.Lmemmem_loop_\reg:
    match_64 \reg
    .ifc \reg, ymm
    vpor    ymm3, ymm2, ymm4
    .else
    movdqa  xmm3, xmm2
    por     xmm3, xmm4
    por     xmm3, xmm5
    por     xmm3, xmm6
    .endif
    mask    \reg, eax, 3
    test    eax, eax
    jnz     .Lmemmem_some_\reg
    add     rdi, 64
.Lmemmem_64_\reg:
    cmp     rdi, rcx
    jbe     .Lmemmem_loop_\reg

    cmp     rdi, r8
    ja      .Lmemmem_none_\reg
    mov     r11, rdi                    # fewer than 64: the last 64 again, without the bits of those before
    mov     rdi, rcx
    match_64 \reg
    bits_of_64 \reg
    mov     ecx, r11d
    sub     ecx, edi
    shr     rax, cl
    shl     rax, cl
    jmp     .Lmemmem_bits_\reg

    # Fewer than 64 in all. Loads that would reach into another page are not made.
    .p2align 4
.Lmemmem_few_\reg:
    mov     eax, edi
    and     eax, 4095
    cmp     eax, 4096 - 64
    ja      .Lmemmem_bytes_\reg
    lea     eax, [rdi + r10]
    and     eax, 4095
    cmp     eax, 4096 - 64
    ja      .Lmemmem_bytes_\reg
    match_64 \reg
    bits_of_64 \reg
    lea     ecx, [rdi + 63]
    sub     ecx, r8d                    # so many behind the last one
    shl     rax, cl
    shr     rax, cl
    jmp     .Lmemmem_bits_\reg

.Lmemmem_bytes_\reg:
    xor     eax, eax
    mov     rcx, r8
    sub     rcx, rdi
.Lmemmem_byte_\reg:
    add     rax, rax
    movzx   ebx, byte ptr [rdi + rcx]
    cmp     bl, [rsi]
    jne     .Lmemmem_no_\reg
    lea     r11, [rdi + rcx]
    movzx   ebx, byte ptr [r11 + r10]
    cmp     bl, [rsi + r10]
    jne     .Lmemmem_no_\reg
    inc     rax
.Lmemmem_no_\reg:
    dec     rcx
    jns     .Lmemmem_byte_\reg
    jmp     .Lmemmem_bits_\reg

    .p2align 4
.Lmemmem_some_\reg:
    bits_of_64 \reg
.Lmemmem_bits_\reg:
    test    rax, rax
    jz      .Lmemmem_past_\reg
.Lmemmem_place_\reg:
    tzcnt   rcx, rax
    lea     r11, [rdi + rcx]
    xor     ecx, ecx                    # how many bytes are known to be the same
    cmp     rdx, 16
    jae     .Lmemmem_compare_16_\reg
    cmp     edx, 8
    jae     .Lmemmem_compare_8_\reg
    cmp     edx, 4
    jae     .Lmemmem_compare_4_\reg
    cmp     edx, 3
    jb      .Lmemmem_found_\reg
    movzx   ebx, byte ptr [rsi + 1]
    cmp     bl, [r11 + 1]
    je      .Lmemmem_found_\reg
.Lmemmem_different_\reg:
    lea     rbp, [rbp + rcx + 16]
    lea     rcx, [rdi*4]
    cmp     rbp, rcx
    jg      .Lmemmem_too_much_\reg
    lea     rcx, [rax - 1]
    and     rax, rcx                    # without the lowest bit
    jnz     .Lmemmem_place_\reg
.Lmemmem_past_\reg:
    add     rdi, 64
    jmp     .Lmemmem_next_\reg

.Lmemmem_compare_4_\reg:
    mov     ebx, [rsi]
    cmp     ebx, [r11]
    jne     .Lmemmem_different_\reg
    mov     ebx, [rsi + rdx - 4]
    cmp     ebx, [r11 + rdx - 4]
    jne     .Lmemmem_different_\reg
    jmp     .Lmemmem_found_\reg
.Lmemmem_compare_8_\reg:
    mov     rbx, [rsi]
    cmp     rbx, [r11]
    jne     .Lmemmem_different_\reg
    mov     rbx, [rsi + rdx - 8]
    cmp     rbx, [r11 + rdx - 8]
    jne     .Lmemmem_different_\reg
    jmp     .Lmemmem_found_\reg
    .p2align 4
.Lmemmem_compare_16_\reg:
    compare_16 \reg, .Lmemmem_different_\reg
    add     rcx, 16
    lea     rbx, [rdx - 16]
    cmp     rcx, rbx
    jb      .Lmemmem_compare_16_\reg
    mov     rcx, rbx
    compare_16 \reg, .Lmemmem_different_\reg
.Lmemmem_found_\reg:
    mov     rax, r11
    leave_memmem \reg
.Lmemmem_none_\reg:
    xor     eax, eax
    leave_memmem \reg
.Lmemmem_too_much_\reg:
    lea     rdi, [r11 + 1]
    .ifc \reg, ymm
    vzeroupper
    .endif
    .cfi_remember_state
    restore rbp, rbx
    jmp     .Ltwo_way
    .cfi_restore_state
    .endm

    # rdi, rsi: the haystack and its length, rdx, rcx: the needle and its length.
    function __reheap_memmem
    mov     rax, rdi
    test    rcx, rcx
    jz      .Lmemmem_return
    cmp     rsi, rcx
    jb      .Lmemmem_nowhere
    cmp     rcx, 1
    je      .Lmemmem_one
    lea     r8, [rdi + rsi]
    sub     r8, rcx
    mov     rsi, rdx
    mov     rdx, rcx
    lea     r10, [rcx - 1]
    mov     r9, rdi
    .cfi_remember_state
    save    rbx, rbp
.Lmemmem_begin:
    if_wide .Lmemmem_ymm
    find_level_in_time .Lmemmem_begin, 32
    find_substring xmm
    .p2align 5
.Lmemmem_ymm:
    find_substring ymm
    .cfi_restore_state
.Lmemmem_nowhere:
    xor     eax, eax
.Lmemmem_return:
    ret
.Lmemmem_one:
    movzx   eax, byte ptr [rdx]
    mov     rdx, rsi
    mov     esi, eax
    jmp     __reheap_memchr

    # ----- the two-way algorithm -----
    #
    # As above; rdi may be behind r8 already.

    # The needle's largest suffix, in the order in which `above` jumps if the first byte is the larger one. r9: where the
    # byte before it is, r11: its period.
    .macro largest_suffix above
    mov     r9, -1
    xor     ecx, ecx                    # where the byte before a suffix is that may be larger
    mov     r10d, 1                     # which byte of both
    mov     r11d, 1
.Lsuffix_\above:
    lea     rax, [rcx + r10]
    cmp     rax, rdx
    jae     .Lsuffix_end_\above
    movzx   eax, byte ptr [rsi + rax]
    lea     rbx, [r9 + r10]
    cmp     [rsi + rbx], al
    je      .Lsuffix_same_\above
    \above  .Lsuffix_smaller_\above
    mov     r9, rcx                     # it is larger
    inc     rcx
    mov     r10d, 1
    mov     r11d, 1
    jmp     .Lsuffix_\above
.Lsuffix_smaller_\above:
    add     rcx, r10
    mov     r10d, 1
    mov     r11, rcx
    sub     r11, r9
    jmp     .Lsuffix_\above
.Lsuffix_same_\above:
    cmp     r10, r11
    je      .Lsuffix_period_\above
    inc     r10
    jmp     .Lsuffix_\above
.Lsuffix_period_\above:
    add     rcx, r11
    mov     r10d, 1
    jmp     .Lsuffix_\above
.Lsuffix_end_\above:
    .endm

.Ltwo_way:
    save    rbx, rbp, r12, r13
    largest_suffix ja
    mov     rbp, r9
    mov     r12, r11
    largest_suffix jb
    cmp     r9, rbp
    cmovg   rbp, r9
    cmovg   r12, r11
    inc     rbp                         # the needle's right half begins here; r12: that half's period

    # Does the whole needle have that period?
    xor     ecx, ecx
    lea     r9, [rsi + r12]
    mov     r13, rdx
    sub     r13, r12                    # so much is known to match after a shift by the period
.Lperiod:
    cmp     rcx, rbp
    jae     .Lperiodic
    movzx   eax, byte ptr [rsi + rcx]
    cmp     al, [r9 + rcx]
    jne     .Lnot_periodic
    inc     rcx
    jmp     .Lperiod
.Lnot_periodic:
    xor     r13d, r13d
    mov     r12, rdx
    sub     r12, rbp
    cmp     r12, rbp
    cmovb   r12, rbp
    inc     r12                         # one more than the longer half: a shift that is always right
.Lperiodic:
    xor     r10d, r10d                  # how much is known to match
    .p2align 4
.Ltwo_way_place:
    cmp     rdi, r8
    ja      .Ltwo_way_none
    mov     rcx, rbp
    cmp     rcx, r10
    cmovb   rcx, r10
.Lright_half:
    cmp     rcx, rdx
    jae     .Lleft_half
    movzx   eax, byte ptr [rsi + rcx]
    inc     rcx
    cmp     al, [rdi + rcx - 1]
    je      .Lright_half
    sub     rcx, rbp
    add     rdi, rcx
    xor     r10d, r10d
    jmp     .Ltwo_way_place

.Lleft_half:
    mov     rcx, rbp
.Lleft_byte:
    cmp     rcx, r10
    jbe     .Ltwo_way_found
    movzx   eax, byte ptr [rsi + rcx - 1]
    dec     rcx
    cmp     al, [rdi + rcx]
    je      .Lleft_byte
    add     rdi, r12
    mov     r10, r13
    jmp     .Ltwo_way_place

.Ltwo_way_none:
    xor     edi, edi
.Ltwo_way_found:
    mov     rax, rdi
    restore r13, r12, rbp, rbx
    ret
    end_function __reheap_memmem

    # ----- strstr -----
    #
    # rbx: the first place that is not looked at, r13: the end of what is known of the haystack; rbp, r12: the needle and its
    # length. r14: the next piece's length; r15: how much shorter than that it was.

    function __reheap_strstr
    movzx   eax, byte ptr [rsi]
    test    eax, eax
    jz      .Lstrstr_empty
    cmp     byte ptr [rsi + 1], 0
    je      .Lstrstr_one
    save    rsi
    mov     esi, eax
    call    __reheap_strchr             # much of what is searched does not even have the first byte
    restore rsi
    test    rax, rax
    jz      .Lstrstr_return
    xor     ecx, ecx                    # or has it where the needle stands
.Lstrstr_byte:
    movzx   edx, byte ptr [rsi + rcx + 1]
    test    edx, edx
    jz      .Lstrstr_return
    inc     rcx
    cmp     dl, [rax + rcx]
    je      .Lstrstr_byte
    .cfi_remember_state
    # The stack is not at a multiple of 16 for what is called from here, all of which is ours and needs none.
    save    rbx, rbp, r12, r13, r14, r15
    mov     rbx, rax
    mov     r13, rax
    mov     rbp, rsi
    mov     rdi, rsi
    call    __reheap_strlen
    mov     r12, rax
    lea     r14, [rax + 256]
.Lstrstr_piece:
    mov     rdi, r13
    mov     rsi, r14
    call    __reheap_strnlen
    add     r13, rax
    mov     r15, r14
    sub     r15, rax
    mov     rdi, rbx
    mov     rsi, r13
    sub     rsi, rbx
    mov     rdx, rbp
    mov     rcx, r12
    call    __reheap_memmem
    test    rax, rax
    jnz     .Lstrstr_end
    test    r15, r15
    jnz     .Lstrstr_end
    lea     rbx, [r13 + 1]
    sub     rbx, r12
    add     r14, r14
    mov     ecx, 0x4000
    cmp     r14, rcx
    cmova   r14, rcx                    # the search is to find it in the first cache
    cmp     r14, r12
    cmovb   r14, r12
    jmp     .Lstrstr_piece
.Lstrstr_end:
    restore r15, r14, r13, r12, rbp, rbx
    ret
    .cfi_restore_state
.Lstrstr_empty:
    mov     rax, rdi
.Lstrstr_return:
    ret
.Lstrstr_one:
    mov     esi, eax
    jmp     __reheap_strchr
    end_function __reheap_strstr
