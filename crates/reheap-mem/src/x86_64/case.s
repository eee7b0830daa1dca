# strcasecmp, strncasecmp: strings compared as if their capitals were small letters. In all of musl's locales these are the
# 26 of ASCII, and so the functions with a locale are the same.
#
# Constants in registers 13 to 15: what makes "a" the lowest signed byte, what "z" becomes by that, and the bit that tells
# small letters from capitals.

    .section .rodata.__reheap_strcasecmp, "a", @progbits
    .p2align 5
.Lfrom_a:
    .fill   32, 1, 0x80 - 'a'
.Lz:
    .fill   32, 1, 0x80 - 'a' + 'z'
.Lsmall:
    .fill   32, 1, 0x20

    .macro prepare_folding reg
    load_aligned \reg, 13, [rip + .Lfrom_a]
    load_aligned \reg, 14, [rip + .Lz]
    load_aligned \reg, 15, [rip + .Lsmall]
    .endm

    # Register 6: the bits in which register 0 and the bytes at `other` differ, without that of the case where register 0 has
    # a letter. 5 is free.
    .macro differ_but_for_case reg, other:vararg
    .ifc \reg, ymm
    vpxor   ymm5, ymm0, \other
    vpor    ymm6, ymm0, ymm15
    .else
    movups  xmm5, \other
    pxor    xmm5, xmm0
    movdqa  xmm6, xmm0
    por     xmm6, xmm15
    .endif
    bytes   paddb, \reg, 6, \reg\()13
    bytes   pcmpgtb, \reg, 6, \reg\()14
    bytes   pandn, \reg, 6, \reg\()15
    bytes   pandn, \reg, 6, \reg\()5
    .endm

    # Makes a capital a small letter; r10 is free.
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
    test    r10b, 0xff - 0x20
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
