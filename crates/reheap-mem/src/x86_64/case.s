# strcasecmp, strncasecmp: strings compared as if their capitals were small letters. In all of musl's locales these are the
# 26 of ASCII, and so the functions with a locale are the same.
#
# Constants in registers 13 to 15: what makes "A" the lowest signed byte, what "Z" becomes by that, and the bit that tells
# small letters from capitals.

    .section .rodata.__reheap_strcasecmp, "a", @progbits
    .p2align 5
.Lfrom_capital_a:
    .fill   32, 1, 0x80 - 'A'
.Lcapital_z:
    .fill   32, 1, 0x80 - 'A' + 'Z'
.Lsmall:
    .fill   32, 1, 0x20

    .macro prepare_folding reg
    load_aligned \reg, 13, [rip + .Lfrom_capital_a]
    load_aligned \reg, 14, [rip + .Lcapital_z]
    load_aligned \reg, 15, [rip + .Lsmall]
    .endm

    # Folds register n; 6 is free.
    .macro fold reg, n
    .ifc \reg, ymm
    vpaddb  ymm6, ymm\n, ymm13
    .else
    movdqa  xmm6, xmm\n
    paddb   xmm6, xmm13
    .endif
    bytes   pcmpgtb, \reg, 6, \reg\()14
    bytes   pandn, \reg, 6, \reg\()15
    bytes   por, \reg, \n, \reg\()6
    .endm

    # The same of a byte in a register; r10 is free.
    .macro fold_byte low, whole
    lea     r10d, [\whole - 'A']
    cmp     r10d, 26
    sbb     r10d, r10d
    and     r10d, 0x20
    or      \low, r10d
    .endm

    # Most of the strings that a name is looked up among begin with another letter.
    .macro compare_first_bytes name
    movzx   eax, byte ptr [rdi]
    movzx   ecx, byte ptr [rsi]
    mov     r10d, eax
    xor     r10d, ecx
    test    r10d, 0xff - 0x20
    jnz     .L\name\()_at_once
    .endm

    .globl  __reheap_strcasecmp_l
    .hidden __reheap_strcasecmp_l
    .type   __reheap_strcasecmp_l, @function
    function __reheap_strcasecmp
__reheap_strcasecmp_l:
    compare_strings_anyhow strcasecmp, folded, unlimited
    end_function __reheap_strcasecmp
    .size   __reheap_strcasecmp_l, . - __reheap_strcasecmp_l

    .globl  __reheap_strncasecmp_l
    .hidden __reheap_strncasecmp_l
    .type   __reheap_strncasecmp_l, @function
    function __reheap_strncasecmp
__reheap_strncasecmp_l:
    compare_strings_anyhow strncasecmp, folded, limited
    end_function __reheap_strncasecmp
    .size   __reheap_strncasecmp_l, . - __reheap_strncasecmp_l
