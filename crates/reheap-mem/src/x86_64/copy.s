# memcpy, memmove, mempcpy: one code for all three, because whether the blocks overlap costs one comparison, and only from
# more than eight vectors on. Up to those everything is loaded before anything is stored.
#
# rdi: destination, rsi: source, rdx: count; rax: the result.

    .hidden __reheap_mem_string_copy_min, __reheap_mem_streaming_min

    function __reheap_mempcpy
    lea     rax, [rdi + rdx]
    jmp     .Lcopy
    end_function __reheap_mempcpy

    .globl  __reheap_memmove
    .hidden __reheap_memmove
    .type   __reheap_memmove, @function
    function __reheap_memcpy
__reheap_memmove:
    mov     rax, rdi
.Lcopy:
    cmp     rdx, 16
    jb      .Lcopy_0_15
    cmp     rdx, 64
    ja      .Lcopy_65
    cmp     edx, 32
    ja      .Lcopy_33
    movups  xmm0, [rsi]
    movups  xmm1, [rsi + rdx - 16]
    movups  [rdi], xmm0
    movups  [rdi + rdx - 16], xmm1
    ret

    .p2align 4
.Lcopy_0_15:
    cmp     edx, 8
    jb      .Lcopy_0_7
    mov     rcx, [rsi]
    mov     rsi, [rsi + rdx - 8]
    mov     [rdi], rcx
    mov     [rdi + rdx - 8], rsi
    ret
    .p2align 4
.Lcopy_0_7:
    cmp     edx, 4
    jae     .Lcopy_4_7
    cmp     edx, 1
    jb      .Lcopy_0
    movzx   ecx, byte ptr [rsi]
    je      .Lcopy_1
    movzx   esi, word ptr [rsi + rdx - 2]
    mov     [rdi + rdx - 2], si
.Lcopy_1:
    mov     [rdi], cl
.Lcopy_0:
    ret

    .p2align 4
.Lcopy_4_7:
    mov     ecx, [rsi]
    mov     esi, [rsi + rdx - 4]
    mov     [rdi], ecx
    mov     [rdi + rdx - 4], esi
    ret

    # Twice to four times the width.
    .macro copy_4_vectors reg, vec
    load    \reg, 0, [rsi]
    load    \reg, 1, [rsi + \vec]
    load    \reg, 2, [rsi + rdx - 2*\vec]
    load    \reg, 3, [rsi + rdx - \vec]
    store   \reg, 0, [rdi]
    store   \reg, 1, [rdi + \vec]
    store   \reg, 2, [rdi + rdx - 2*\vec]
    store   \reg, 3, [rdi + rdx - \vec]
    leave_function \reg
    .endm

    # Four to eight times the width.
    .macro copy_8_vectors reg, vec
    load    \reg, 0, [rsi]
    load    \reg, 1, [rsi + \vec]
    load    \reg, 2, [rsi + 2*\vec]
    load    \reg, 3, [rsi + 3*\vec]
    load    \reg, 4, [rsi + rdx - 4*\vec]
    load    \reg, 5, [rsi + rdx - 3*\vec]
    load    \reg, 6, [rsi + rdx - 2*\vec]
    load    \reg, 7, [rsi + rdx - \vec]
    store   \reg, 0, [rdi]
    store   \reg, 1, [rdi + \vec]
    store   \reg, 2, [rdi + 2*\vec]
    store   \reg, 3, [rdi + 3*\vec]
    store   \reg, 4, [rdi + rdx - 4*\vec]
    store   \reg, 5, [rdi + rdx - 3*\vec]
    store   \reg, 6, [rdi + rdx - 2*\vec]
    store   \reg, 7, [rdi + rdx - \vec]
    leave_function \reg
    .endm

    # Loads the first vector and the last four; rdi and rsi go on to where the destination is aligned. The first goes to
    # rcx, the last four to rdx.
    .macro copy_ends_and_align reg, vec
    load    \reg, 0, [rsi]
    load    \reg, 5, [rsi + rdx - 4*\vec]
    load    \reg, 6, [rsi + rdx - 3*\vec]
    load    \reg, 7, [rsi + rdx - 2*\vec]
    load    \reg, 8, [rsi + rdx - \vec]
    lea     rdx, [rdi + rdx - 4*\vec]
    mov     rcx, rdi
    sub     rsi, rdi
    or      rdi, \vec - 1
    inc     rdi
    add     rsi, rdi
    .endm

    # More than eight times the width. The stores of the loops are aligned; the ends, which are not, are loaded before
    # the loop, as it may overwrite them, and stored after it.
    .macro copy_large reg, vec
    mov     rcx, rdi
    sub     rcx, rsi                    # how far the destination is ahead of the source
    cmp     rcx, rdx
    jb      .Lcopy_overlap_\reg
    cmp     rdx, [rip + __reheap_mem_streaming_min]
    jae     .Lcopy_streaming_\reg
    cmp     rdx, [rip + __reheap_mem_string_copy_min]
    jae     .Lcopy_string_\reg
    # A load whose address ends like that of a store just before waits for it (Intel's optimization manual, "4K
    # aliasing"). Backwards the loads go away from the stores.
    test    ecx, 0xf00
    jz      .Lcopy_aliased_\reg

.Lcopy_forwards_\reg:
    copy_ends_and_align \reg, \vec
    .p2align 4
.Lcopy_forwards_loop_\reg:
    load    \reg, 1, [rsi]
    load    \reg, 2, [rsi + \vec]
    load    \reg, 3, [rsi + 2*\vec]
    load    \reg, 4, [rsi + 3*\vec]
    add     rsi, 4*\vec
    store_aligned \reg, 1, [rdi]
    store_aligned \reg, 2, [rdi + \vec]
    store_aligned \reg, 3, [rdi + 2*\vec]
    store_aligned \reg, 4, [rdi + 3*\vec]
    add     rdi, 4*\vec
    cmp     rdi, rdx
    jb      .Lcopy_forwards_loop_\reg
.Lcopy_last_\reg:
    store   \reg, 5, [rdx]
    store   \reg, 6, [rdx + \vec]
    store   \reg, 7, [rdx + 2*\vec]
    store   \reg, 8, [rdx + 3*\vec]
    store   \reg, 0, [rcx]
    leave_function \reg

.Lcopy_streaming_\reg:
    neg     rcx
    cmp     rcx, rdx
    jb      .Lcopy_forwards_\reg        # the source begins inside the destination
    copy_ends_and_align \reg, \vec
    .p2align 4
.Lcopy_streaming_loop_\reg:
    prefetcht0 [rsi + 2048]
    .if \vec > 16
    prefetcht0 [rsi + 2048 + 64]
    .endif
    .if \vec > 32
    prefetcht0 [rsi + 2048 + 128]
    prefetcht0 [rsi + 2048 + 192]
    .endif
    load    \reg, 1, [rsi]
    load    \reg, 2, [rsi + \vec]
    load    \reg, 3, [rsi + 2*\vec]
    load    \reg, 4, [rsi + 3*\vec]
    add     rsi, 4*\vec
    store_streaming \reg, 1, [rdi]
    store_streaming \reg, 2, [rdi + \vec]
    store_streaming \reg, 3, [rdi + 2*\vec]
    store_streaming \reg, 4, [rdi + 3*\vec]
    add     rdi, 4*\vec
    cmp     rdi, rdx
    jb      .Lcopy_streaming_loop_\reg
    sfence
    jmp     .Lcopy_last_\reg

.Lcopy_aliased_\reg:
    neg     rcx
    cmp     rcx, rdx
    jb      .Lcopy_forwards_\reg        # the source begins inside the destination
    jmp     .Lcopy_backwards_\reg

.Lcopy_overlap_\reg:
    test    rcx, rcx
    jz      .Lcopy_nothing_\reg         # onto itself
.Lcopy_backwards_\reg:
    load    \reg, 0, [rsi + rdx - \vec]
    load    \reg, 5, [rsi]
    load    \reg, 6, [rsi + \vec]
    load    \reg, 7, [rsi + 2*\vec]
    load    \reg, 8, [rsi + 3*\vec]
    lea     rcx, [rdi + rdx - \vec]     # where the last one goes
    sub     rsi, rdi
    lea     rdx, [rdi + rdx - 1]
    and     rdx, -\vec
    add     rsi, rdx
    lea     r8, [rdi + 4*\vec]
    .p2align 4
.Lcopy_backwards_loop_\reg:
    load    \reg, 1, [rsi - \vec]
    load    \reg, 2, [rsi - 2*\vec]
    load    \reg, 3, [rsi - 3*\vec]
    load    \reg, 4, [rsi - 4*\vec]
    sub     rsi, 4*\vec
    store_aligned \reg, 1, [rdx - \vec]
    store_aligned \reg, 2, [rdx - 2*\vec]
    store_aligned \reg, 3, [rdx - 3*\vec]
    store_aligned \reg, 4, [rdx - 4*\vec]
    sub     rdx, 4*\vec
    cmp     rdx, r8
    ja      .Lcopy_backwards_loop_\reg
    store   \reg, 5, [rdi]
    store   \reg, 6, [rdi + \vec]
    store   \reg, 7, [rdi + 2*\vec]
    store   \reg, 8, [rdi + 3*\vec]
    store   \reg, 0, [rcx]
.Lcopy_nothing_\reg:
    leave_function \reg

.Lcopy_string_\reg:
    neg     rcx
    cmp     rcx, rdx
    jb      .Lcopy_forwards_\reg        # `rep movsb` is slow on blocks that overlap
    jmp     .Lcopy_string
    .endm

    .p2align 4
.Lcopy_33:
    cmp     byte ptr [rip + __reheap_mem_level], 2
    jl      .Lcopy_33_xmm
    load    ymm2, 0, [rsi]
    load    ymm2, 1, [rsi + rdx - 32]
    store   ymm2, 0, [rdi]
    store   ymm2, 1, [rdi + rdx - 32]
    ret

    .p2align 4
.Lcopy_33_xmm:
    movups  xmm0, [rsi]
    movups  xmm1, [rsi + 16]
    movups  xmm2, [rsi + rdx - 32]
    movups  xmm3, [rsi + rdx - 16]
    movups  [rdi], xmm0
    movups  [rdi + 16], xmm1
    movups  [rdi + rdx - 32], xmm2
    movups  [rdi + rdx - 16], xmm3
    ret

    .p2align 6
.Lcopy_65:
    cmp     byte ptr [rip + __reheap_mem_level], 2
    jl      .Lcopy_65_narrow
    jg      .Lcopy_65_zmm
    cmp     rdx, 128
    ja      .Lcopy_129_ymm2
    copy_4_vectors ymm2, 32
    .p2align 4
.Lcopy_129_ymm2:
    cmp     rdx, 256
    ja      .Lcopy_257_ymm              # what it loses by `vzeroupper` does not count there
    copy_8_vectors ymm2, 32

    .p2align 4
.Lcopy_65_zmm:
    cmp     rdx, 128
    ja      .Lcopy_129_zmm
    load    zmm2, 0, [rsi]
    load    zmm2, 1, [rsi + rdx - 64]
    store   zmm2, 0, [rdi]
    store   zmm2, 1, [rdi + rdx - 64]
    ret
    .p2align 4
.Lcopy_129_zmm:
    cmp     rdx, 256
    ja      .Lcopy_257_zmm
    copy_4_vectors zmm2, 64
    .p2align 4
.Lcopy_257_zmm:
    cmp     rdx, 512
    ja      .Lcopy_513_zmm
    copy_8_vectors zmm2, 64
    .p2align 4
.Lcopy_513_zmm:
    copy_large zmm2, 64

    .p2align 4
.Lcopy_65_narrow:
    if_wide .Lcopy_65_ymm
    find_level_in_time .Lcopy_65
    cmp     rdx, 128
    ja      .Lcopy_129_xmm
    copy_8_vectors xmm, 16
    .p2align 4
.Lcopy_129_xmm:
    copy_large xmm, 16

    .p2align 4
.Lcopy_65_ymm:
    cmp     rdx, 128
    ja      .Lcopy_129_ymm
    copy_4_vectors ymm, 32
    .p2align 4
.Lcopy_129_ymm:
    cmp     rdx, 256
    ja      .Lcopy_257_ymm
    copy_8_vectors ymm, 32
    .p2align 4
.Lcopy_257_ymm:
    copy_large ymm, 32

    .p2align 4
.Lcopy_string:
    # To a multiple of 64; the first bytes, which may not lie at one, are stored after the others.
    movups  xmm0, [rsi]
    movups  xmm1, [rsi + 16]
    movups  xmm2, [rsi + 32]
    movups  xmm3, [rsi + 48]
    mov     r8, rdi
    lea     rcx, [rdi + rdx]
    sub     rsi, rdi
    or      rdi, 63
    inc     rdi
    add     rsi, rdi
    sub     rcx, rdi
    rep movsb
    movups  [r8], xmm0
    movups  [r8 + 16], xmm1
    movups  [r8 + 32], xmm2
    movups  [r8 + 48], xmm3
    ret
    end_function __reheap_memcpy
    .size   __reheap_memmove, . - __reheap_memmove
