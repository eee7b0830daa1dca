# How a block is filled with what register 0 has: what memset and wmemset share.
#
# rdi: the block, rdx: its bytes. Where they begin has to be a multiple of what is repeated in the register.

    # Twice to four times the width.
    .macro set_4_vectors reg, vec
    store   \reg, 0, [rdi]
    store   \reg, 0, [rdi + \vec]
    store   \reg, 0, [rdi + rdx - 2*\vec]
    store   \reg, 0, [rdi + rdx - \vec]
    leave_function \reg
    .endm

    # More than four times the width; what is long enough for a string instruction goes to `string`.
    .macro set_large name, reg, vec, string
    cmp     rdx, 8*\vec
    ja      .L\name\()_loop_\reg
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
.L\name\()_loop_\reg:
    .ifnb \string
    cmp     rdx, [rip + __reheap_mem_string_set_min]
    jae     \string
    .endif
    store   \reg, 0, [rdi]
    lea     rdx, [rdi + rdx - 4*\vec]   # where the last four go
    or      rdi, \vec - 1
    inc     rdi
    cmp     rdi, rdx
    jae     .L\name\()_last_\reg
    .p2align 4
.L\name\()_next_\reg:
    store_aligned \reg, 0, [rdi]
    store_aligned \reg, 0, [rdi + \vec]
    store_aligned \reg, 0, [rdi + 2*\vec]
    store_aligned \reg, 0, [rdi + 3*\vec]
    add     rdi, 4*\vec
    cmp     rdi, rdx
    jb      .L\name\()_next_\reg
.L\name\()_last_\reg:
    store   \reg, 0, [rdx]
    store   \reg, 0, [rdx + \vec]
    store   \reg, 0, [rdx + 2*\vec]
    store   \reg, 0, [rdx + 3*\vec]
    leave_function \reg
    .endm

