# memset.
#
# rdi: destination, esi: the byte, rdx: count; rax: the destination.

    .hidden __reheap_mem_string_set_min, __reheap_mem_streaming_min

    function __reheap_memset
    mov     rax, rdi
    cmp     rdx, 64
    ja      .Lset_65
    cmp     edx, 16
    jb      .Lset_0_15
    splat
    movups  [rdi], xmm0
    movups  [rdi + rdx - 16], xmm0
    cmp     edx, 32
    ja      .Lset_33
    ret

    .p2align 4
.Lset_33:
    movups  [rdi + 16], xmm0
    movups  [rdi + rdx - 32], xmm0
    ret

    .p2align 4
.Lset_0_15:
    movzx   esi, sil
    movabs  rcx, 0x0101010101010101
    imul    rcx, rsi
    cmp     edx, 8
    jae     .Lset_8_15
    cmp     edx, 4
    jae     .Lset_4_7
    cmp     edx, 1
    jb      .Lset_0
    mov     [rdi], cl
    je      .Lset_0
    mov     [rdi + rdx - 2], cx
.Lset_0:
    ret

    .p2align 4
.Lset_4_7:
    mov     [rdi], ecx
    mov     [rdi + rdx - 4], ecx
    ret

    .p2align 4
.Lset_8_15:
    mov     [rdi], rcx
    mov     [rdi + rdx - 8], rcx
    ret

    # `rep stosb` for the rest from a multiple of the width on: the first bytes, which may not lie at one, are stored here.
    .macro set_by_string reg, vec
.Lset_string_\reg:
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

    .p2align 6
.Lset_65:
    cmp     byte ptr [rip + __reheap_mem_level], 2
    jl      .Lset_65_narrow
    jg      .Lset_65_zmm
    cmp     rdx, 128
    ja      .Lset_129_wide
    vpbroadcastb ymm20, esi
    set_4_vectors ymm2, 32

    .p2align 4
.Lset_65_zmm:
    cmp     rdx, 256
    ja      .Lset_129_wide
    vpbroadcastb zmm20, esi
    cmp     edx, 128
    ja      .Lset_129_zmm
    store   zmm2, 0, [rdi]
    store   zmm2, 0, [rdi + rdx - 64]
    ret
    .p2align 4
.Lset_129_zmm:
    set_4_vectors zmm2, 64

    .p2align 4
.Lset_65_narrow:
    cmp     byte ptr [rip + __reheap_mem_level], 0
    jle     .Lset_65_xmm
    vmovd   xmm0, esi
    vpbroadcastb ymm0, xmm0
    cmp     rdx, 128
    ja      .Lset_129_ymm
    set_4_vectors ymm, 32

    .p2align 4
.Lset_129_wide:
    vpbroadcastb ymm0, esi
.Lset_129_ymm:
    set_large set, ymm, 32, .Lset_string_ymm
    set_by_string ymm, 32

    .p2align 4
.Lset_65_xmm:
    find_level_in_time .Lset_65
    splat
    set_large set, xmm, 16, .Lset_string_xmm
    set_by_string xmm, 16
    end_function __reheap_memset
