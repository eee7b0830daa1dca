# strspn, strcspn: how far a string goes on with bytes of a set, or without. (musl's strpbrk, strtok and strsep call these.)
#
# Up to four bytes are compared with each. More make a table: of 256 bytes for SSE2, which can look up only one byte at a
# time. With AVX2, SSE 4.2 compares the first bytes of the string with the set. Only behind those a table pays. It has a bit
# for each byte, where its low half and its highest bit lead to; the rest of the high half says which bit. A shuffle is a
# look-up of each byte of a vector.
#
# rdi: the string, always an aligned part of it; rsi: the set. r9: the beginning.

    .hidden __reheap_strlen, __reheap_strchrnul

    .section .rodata.__reheap_strspn, "a", @progbits
    .p2align 5
.Lbit_of_high_half:
    .rept 4
    .byte   1, 2, 4, 8, 16, 32, 64, 128
    .endr
.Llow_half:
    .fill   32, 1, 15
.Lhighest_bit:
    .fill   32, 1, 128

    # One bit in eax for each byte of the vector that ends the span. Registers 0 to 3: the bytes; 7 is 0.
    .macro ends_few kind, reg, vec
    load_aligned \reg, 4, [rdi]
    .ifc \reg, ymm
    vpcmpeqb ymm5, ymm4, ymm0
    .else
    movdqa  xmm5, xmm4
    pcmpeqb xmm5, xmm0
    .endif
    .irp n, 1, 2, 3
    .ifc \reg, ymm
    vpcmpeqb ymm6, ymm4, ymm\n
    .else
    movdqa  xmm6, xmm4
    pcmpeqb xmm6, xmm\n
    .endif
    bytes   por, \reg, 5, \reg\()6
    .endr
    .ifc \kind, inside
    mask    \reg, eax, 5
    xor     eax, (1 << (\vec - 1)) * 2 - 1
    .else
    bytes   pcmpeqb, \reg, 4, \reg\()7
    bytes   por, \reg, 5, \reg\()4
    mask    \reg, eax, 5
    .endif
    .endm

    # The same by the table. Registers 0 and 1: its halves, 2: bits, 3 and 6: constants.
    .macro ends_many kind, reg, vec
    vmovdqa ymm4, [rdi]
    vpshufb ymm5, ymm0, ymm4            # 0 from 128 on
    vpxor   ymm8, ymm4, ymm6
    vpshufb ymm8, ymm1, ymm8            # 0 below
    vpor    ymm5, ymm5, ymm8
    vpsrlw  ymm4, ymm4, 4
    vpand   ymm4, ymm4, ymm3
    vpshufb ymm4, ymm2, ymm4
    vpand   ymm5, ymm5, ymm4
    vpcmpeqb ymm5, ymm5, ymm7
    vpmovmskb eax, ymm5
    .ifc \kind, outside
    not     eax
    .endif
    .endm

    .macro span_vectors name, kind, size, reg, vec
    mov     ecx, edi
    and     ecx, \vec - 1
    and     rdi, -\vec
    ends_\size \kind, \reg, \vec
    shr     eax, cl
    add     rdi, rcx
    test    eax, eax
    jnz     .L\name\()_end_\size\()_\reg
    sub     rdi, rcx
    .p2align 4
.L\name\()_next_\size\()_\reg:
    add     rdi, \vec
    ends_\size \kind, \reg, \vec
    test    eax, eax
    jz      .L\name\()_next_\size\()_\reg
.L\name\()_end_\size\()_\reg:
    tzcnt   eax, eax
    add     rdi, rax
    .ifc \reg, xmm
    find_level_at_end rcx
    .endif
    mov     rax, rdi
    sub     rax, r9
    leave_function \reg
    .endm

    # The first 512 bytes with a set of up to 16, without a table: by SSE 4.2, which every processor with AVX2 has.
    .macro span_short name, kind
    mov     ecx, esi
    and     ecx, 4095
    cmp     ecx, 4096 - 16
    ja      .L\name\()_table
    mov     ecx, edi
    and     ecx, 4095
    cmp     ecx, 4096 - 128
    ja      .L\name\()_table
    vmovdqu xmm0, [rsi]
    vpxor   xmm7, xmm7, xmm7
    vpcmpeqb xmm1, xmm0, xmm7
    vpmovmskb ecx, xmm1
    test    ecx, ecx
    jnz     .L\name\()_short
    cmp     byte ptr [rsi + 16], 0
    jne     .L\name\()_table
.L\name\()_short:
    .irp at, 0, 16, 32, 48, 64, 80, 96, 112
    .ifc \kind, inside
    vpcmpistri xmm0, [rdi + \at], 0x12  # the first one that is not in the set
    jc      .L\name\()_in_\at
    .else
    vmovdqu xmm2, [rdi + \at]
    vpcmpistri xmm0, xmm2, 0            # the first one that is
    jbe     .L\name\()_in_\at
    .endif
    .endr
    lea     r8, [rdi + 512]
    and     rdi, -16                    # what is compared again goes on with the span
    add     rdi, 128
    .p2align 4
.L\name\()_next_short:
    .ifc \kind, inside
    vpcmpistri xmm0, [rdi], 0x12
    jc      .L\name\()_in_next
    .else
    vmovdqa xmm2, [rdi]
    vpcmpistri xmm0, xmm2, 0
    jbe     .L\name\()_in_next
    .endif
    add     rdi, 16
    cmp     rdi, r8
    jb      .L\name\()_next_short
    jmp     .L\name\()_table
    .irp at, 0, 16, 32, 48, 64, 80, 96, 112
.L\name\()_in_\at:
    index_of_end \name, \kind, \at
    lea     eax, [rcx + \at]
    ret
    .endr
.L\name\()_in_next:
    index_of_end \name, \kind, next
    lea     rax, [rdi + rcx]
    sub     rax, r9
    ret
    .endm

    # ecx: where in a vector SSE 4.2 found what ends the span, or else the end of the string.
    .macro index_of_end name, kind, at
    .ifc \kind, outside
    jc      .L\name\()_index_\at
    vpcmpeqb xmm2, xmm2, xmm7           # none before the end
    vpmovmskb ecx, xmm2
    tzcnt   ecx, ecx
.L\name\()_index_\at:
    .endif
    .endm

    .macro span_few name, kind, reg, vec
    splat   \reg, 0, eax
    splat   \reg, 1, ecx
    splat   \reg, 2, edx
    splat   \reg, 3, r8d
    bytes   pxor, \reg, 7, \reg\()7
    span_vectors \name, \kind, few, \reg, \vec
    .endm

    .macro span name, kind
    mov     r9, rdi
    movzx   eax, byte ptr [rsi]
    test    eax, eax
    jz      .L\name\()_empty
    movzx   ecx, byte ptr [rsi + 1]
    test    ecx, ecx
    jz      .L\name\()_one
    movzx   edx, byte ptr [rsi + 2]
    test    edx, edx
    jz      .L\name\()_two
    movzx   r8d, byte ptr [rsi + 3]
    test    r8d, r8d
    jz      .L\name\()_three
    cmp     byte ptr [rsi + 4], 0
    jne     .L\name\()_many
    jmp     .L\name\()_few
.L\name\()_one:
    one_\name
.L\name\()_two:
    mov     edx, eax
.L\name\()_three:
    mov     r8d, eax
.L\name\()_few:
    if_wide .L\name\()_few_ymm
    find_level_in_time .L\name\()_few, 32
    span_few \name, \kind, xmm, 16
    .p2align 4
.L\name\()_few_ymm:
    span_few \name, \kind, ymm, 32

    .p2align 4
.L\name\()_many:
    if_wide .L\name\()_many_ymm
    find_level_in_time .L\name\()_many, 32
    sub     rsp, 256
    .cfi_adjust_cfa_offset 256
    pxor    xmm0, xmm0
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movups  [rsp + 16*\n], xmm0
    .endr
.L\name\()_set_xmm:
    mov     byte ptr [rsp + rax], 1
    inc     rsi
    movzx   eax, byte ptr [rsi]
    test    eax, eax
    jnz     .L\name\()_set_xmm
    .ifc \kind, outside
    mov     byte ptr [rsp], 1
    .endif
    .p2align 4
.L\name\()_byte:
    .irp n, 0, 1, 2, 3
    movzx   eax, byte ptr [rdi + \n]
    cmp     byte ptr [rsp + rax], 0
    .ifc \kind, outside
    jne     .L\name\()_byte_\n
    .else
    je      .L\name\()_byte_\n
    .endif
    .endr
    add     rdi, 4
    jmp     .L\name\()_byte
    .irp n, 3, 2, 1
.L\name\()_byte_\n:
    inc     rdi
    .endr
.L\name\()_byte_0:
    add     rsp, 256
    .cfi_adjust_cfa_offset -256
    find_level_at_end rcx
    mov     rax, rdi
    sub     rax, r9
    ret

    # The halves of the table are 128 bytes apart, so that the highest bit of a byte tells them apart; the first one is at
    # the bottom of what the System V ABI lets a function use below its stack.
    .p2align 4
.L\name\()_many_ymm:
    span_short \name, \kind
.L\name\()_table:
    sub     rsp, 16
    .cfi_adjust_cfa_offset 16
    lea     r8, [rip + .Lbit_of_high_half]
    vpxor   xmm7, xmm7, xmm7
    vmovdqu [rsp - 128], xmm7
    vmovdqu [rsp], xmm7
.L\name\()_set_ymm:
    mov     ecx, eax
    and     ecx, 0x8f
    shr     eax, 4
    movzx   eax, byte ptr [r8 + rax]
    or      [rsp + rcx - 128], al
    inc     rsi
    movzx   eax, byte ptr [rsi]
    test    eax, eax
    jnz     .L\name\()_set_ymm
    .ifc \kind, outside
    or      byte ptr [rsp - 128], 1
    .endif
    vbroadcasti128 ymm0, [rsp - 128]
    vbroadcasti128 ymm1, [rsp]
    add     rsp, 16
    .cfi_adjust_cfa_offset -16
    vmovdqa ymm2, [r8]
    vmovdqa ymm3, [rip + .Llow_half]
    vmovdqa ymm6, [rip + .Lhighest_bit]
    span_vectors \name, \kind, many, ymm, 32
    .endm

    .macro one_strspn
    mov     ecx, eax
    .endm

    function __reheap_strspn
    span    strspn, inside
.Lstrspn_empty:
    ret                                 # 0
    end_function __reheap_strspn

    .macro one_strcspn
    mov     esi, eax
    save    rdi
    call    __reheap_strchrnul
    restore rdi
    sub     rax, rdi
    ret
    .endm

    function __reheap_strcspn
    span    strcspn, outside
.Lstrcspn_empty:
    jmp     __reheap_strlen
    end_function __reheap_strcspn
