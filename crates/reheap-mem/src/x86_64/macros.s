# What the files of this directory share; it stands in front of each of them.
#
# One text serves several widths: a macro with `reg, vec` is written out for
#   xmm,  16: SSE2, which every x86-64 has;
#   ymm,  32: AVX2. Such code leaves through `leave_function`, because a dirty upper half slows down the SSE
#             instructions of the caller (Intel's optimization manual, "Mixing AVX code with SSE code");
#   ymm2, 32: AVX-512, with ymm20 for register 0, ymm21 for register 1, and so on: the upper halves of registers 16 to
#             31 are not what SSE instructions wait for.
#   zmm2, 64: the same, for processors that do not lower their clock for it.

    .section .note.GNU-stack, "", @progbits
    .text

    # Our own names are for this executable only; the public names are added when a libc is derived.
    # A section for each, so that a linker can leave out those that nobody needs.
    .macro function name
    .section .text.\name, "ax", @progbits
    .globl  \name
    .hidden \name
    .type   \name, @function
    .p2align 6
\name:
    .cfi_startproc
    .endm

    .macro end_function name
    .cfi_endproc
    .size   \name, . - \name
    .endm

    # Jumps if AVX2 is known to be there. All comparisons of the level are signed.
    .macro if_wide label, level=level
    cmp     byte ptr [rip + __reheap_mem_\level], 0
    jg      \label
    .endm

    # In SSE2 code that has a wider sibling: if the level is not known yet, counts so many bytes of work. When enough has
    # been done, finds out the level and goes to `label`, where the level is looked at. Threads may count at once: what gets
    # lost is little.
    .macro find_level_in_time label, bytes=rdx
    cmp     byte ptr [rip + __reheap_mem_level], 0
    jge     .Lnot_yet_\@
    sub     qword ptr [rip + __reheap_mem_unasked], \bytes
    ja      .Lnot_yet_\@
    call    __reheap_mem_find_level
    jmp     \label
.Lnot_yet_\@:
    .endm

    # The same at its end, where only then it is known how far it went: from r9 to rdi.
    .macro find_level_at_end free
    mov     \free, rdi
    sub     \free, r9
    find_level_in_time .Lend_\@, \free
.Lend_\@:
    .endm
    .hidden __reheap_mem_level, __reheap_mem_search_level, __reheap_mem_unasked, __reheap_mem_find_level

    # In front of a comparison and its jump, or of another jump, where it counts: together at most so many bytes long, they
    # are not to cross a multiple of 32, nor to end at one. Skylake and what was made of it keeps no such jump among its
    # decoded instructions (Intel, "Mitigations for Jump Conditional Code Erratum"). What has vectors of 64 bytes was made later.
    .macro pair length, reg
    .ifnc \reg, zmm2
    .p2align 5,, \length
    .endif
    .endm

    # Registers that belong to the caller, onto the stack and, named the other way round, back.
    .macro save registers:vararg
    .irp register, \registers
    push    \register
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset \register, 0
    .endr
    .endm

    .macro restore registers:vararg
    .irp register, \registers
    pop     \register
    .cfi_adjust_cfa_offset -8
    .cfi_restore \register
    .endr
    .endm

    .macro leave_function reg
    .ifc \reg, ymm
    vzeroupper
    .endif
    ret
    .endm

    # Loads and stores at any address.
    .macro load reg, n, from:vararg
    .ifc \reg, xmm
    movups  \reg\()\n, \from
    .else
    .ifc \reg, ymm
    vmovdqu \reg\()\n, \from
    .else
    vmovdqu64 \reg\()\n, \from
    .endif
    .endif
    .endm

    .macro store reg, n, to:vararg
    .ifc \reg, xmm
    movups  \to, \reg\()\n
    .else
    .ifc \reg, ymm
    vmovdqu \to, \reg\()\n
    .else
    vmovdqu64 \to, \reg\()\n
    .endif
    .endif
    .endm

    # At multiples of the width.
    .macro load_aligned reg, n, from:vararg
    .ifc \reg, xmm
    movaps  \reg\()\n, \from
    .else
    .ifc \reg, ymm
    vmovdqa \reg\()\n, \from
    .else
    vmovdqa64 \reg\()\n, \from
    .endif
    .endif
    .endm

    .macro store_aligned reg, n, to:vararg
    .ifc \reg, xmm
    movaps  \to, \reg\()\n
    .else
    .ifc \reg, ymm
    vmovdqa \to, \reg\()\n
    .else
    vmovdqa64 \to, \reg\()\n
    .endif
    .endif
    .endm

    # Past the caches; an `sfence` has to follow before others may see it (Intel SDM, MOVNTDQ).
    .macro store_streaming reg, n, to:vararg
    .ifc \reg, xmm
    movntps \to, \reg\()\n
    .else
    vmovntdq \to, \reg\()\n
    .endif
    .endm

    # b = b op a
    .macro bytes op, reg, b, a:vararg
    .ifc \reg, ymm
    v\op    \reg\()\b, \reg\()\b, \a
    .else
    \op     \reg\()\b, \a
    .endif
    .endm

    # One bit per byte.
    .macro mask reg, to, n
    .ifc \reg, ymm
    vpmovmskb \to, \reg\()\n
    .else
    pmovmskb \to, \reg\()\n
    .endif
    .endm

    # k1: as many ones as rdx says, up to 64. What such a mask leaves out is not read, also where it lies in a page that is
    # not there (Intel SDM, "Exceptions Type E4"); then it takes some hundred cycles.
    .macro mask_from_count
    mov     rax, -1
    bzhi    rax, rax, rdx
    kmovq   k1, rax
    .endm

    # A byte, in every byte of register n.
    .macro splat reg=xmm, n=0, byte=esi
    .ifc \reg, ymm
    vmovd   xmm\n, \byte
    vpbroadcastb ymm\n, xmm\n
    .else
    movd    xmm\n, \byte
    punpcklbw xmm\n, xmm\n
    pshuflw xmm\n, xmm\n, 0
    punpcklqdq xmm\n, xmm\n
    .endif
    .endm
