# memset.
#
# rdi: destination, esi: the byte, rdx: count; rax: the destination.

    .hidden __reheap_mem_string_set_min, __reheap_mem_streaming_min

    function __reheap_memset
    mov     rax, rdi
    splat   xmm
    cmp     rdx, 16
    jb      .Lset_0_15
    movups  [rdi], xmm0
    movups  [rdi + rdx - 16], xmm0
    cmp     rdx, 32
    ja      .Lset_33
    ret

    .p2align 4
.Lset_33:
    movups  [rdi + 16], xmm0
    movups  [rdi + rdx - 32], xmm0
    cmp     rdx, 64
    ja      .Lset_65
    ret

    .p2align 4
.Lset_0_15:
    cmp     edx, 8
    jae     .Lset_8_15
    cmp     edx, 4
    jae     .Lset_4_7
    cmp     edx, 1
    jb      .Lset_0
    mov     [rdi], sil
    je      .Lset_0
    movd    ecx, xmm0
    mov     [rdi + rdx - 2], cx
.Lset_0:
    ret

    .p2align 4
.Lset_4_7:
    movd    [rdi], xmm0
    movd    [rdi + rdx - 4], xmm0
    ret

    .p2align 4
.Lset_8_15:
    movq    [rdi], xmm0
    movq    [rdi + rdx - 8], xmm0
    ret

    # More than four times the width.
    .macro set_large reg, vec
    cmp     rdx, 8*\vec
    ja      .Lset_loop_\reg
    store   \reg, 0, [rdi]
    store   \reg, 0, [rdi + \vec]
    store   \reg, 0, [rdi + 2*\vec]
    store   \reg, 0, [rdi + 3*\vec]
    store   \reg, 0, [rdi + rdx - 4*\vec]
    store   \reg, 0, [rdi + rdx - 3*\vec]
    store   \reg, 0, [rdi + rdx - 2*\vec]
    store   \reg, 0, [rdi + rdx - \vec]
    leave_function \reg

    .p2align 4
.Lset_loop_\reg:
    cmp     rdx, [rip + __reheap_mem_string_set_min]
    jae     .Lset_string_\reg
    store   \reg, 0, [rdi]
    lea     rdx, [rdi + rdx - 4*\vec]   # where the last four go
    or      rdi, \vec - 1
    inc     rdi
    .p2align 4
.Lset_next_\reg:
    store_aligned \reg, 0, [rdi]
    store_aligned \reg, 0, [rdi + \vec]
    store_aligned \reg, 0, [rdi + 2*\vec]
    store_aligned \reg, 0, [rdi + 3*\vec]
    add     rdi, 4*\vec
    cmp     rdi, rdx
    jb      .Lset_next_\reg
    store   \reg, 0, [rdx]
    store   \reg, 0, [rdx + \vec]
    store   \reg, 0, [rdx + 2*\vec]
    store   \reg, 0, [rdx + 3*\vec]
    leave_function \reg

.Lset_string_\reg:
    # From a multiple of the width on: the first bytes, which may not lie at one, are stored here.
    store   \reg, 0, [rdi]
    .ifc \reg, ymm
    vzeroupper
    .endif
    lea     rcx, [rdi + rdx]
    mov     r8, rax
    or      rdi, \vec - 1
    inc     rdi
    sub     rcx, rdi
    movzx   eax, sil
    rep stosb
    mov     rax, r8
    ret
    .endm

    .p2align 4
.Lset_65:
    if_wide .Lset_65_ymm
    set_large xmm, 16

    .p2align 4
.Lset_65_ymm:
    vinserti128 ymm0, ymm0, xmm0, 1
    cmp     rdx, 128
    ja      .Lset_129_ymm
    store   ymm, 0, [rdi]
    store   ymm, 0, [rdi + 32]
    store   ymm, 0, [rdi + rdx - 64]
    store   ymm, 0, [rdi + rdx - 32]
    leave_function ymm
    .p2align 4
.Lset_129_ymm:
    set_large ymm, 32
    end_function __reheap_memset
