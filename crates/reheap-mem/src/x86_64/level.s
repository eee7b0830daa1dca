# What the processor can do, found out when it pays.
#
# CPUID traps in a virtual machine, and asking takes ten of them: tens of microseconds each, more than a small program's
# whole run. So these values say "not known yet" until the functions together have done as much work as the answer may
# save. Until then they run their SSE2 code and count (`find_level_in_time` in macros.s). Several threads may ask at once;
# they all get the same answer. Plain numbers in .data are right from the first instruction of the process on, where a
# function pointer of a static-pie is not: musl calls memcpy and memset before it has relocated itself.
#
# They are not made read-only afterwards: who can write to .data has easier ways.

    .data
    .globl  __reheap_mem_level, __reheap_mem_string_copy_min, __reheap_mem_string_set_min, __reheap_mem_streaming_min
    .globl  __reheap_mem_unasked, __reheap_mem_search_level
    .hidden __reheap_mem_level, __reheap_mem_string_copy_min, __reheap_mem_string_set_min, __reheap_mem_streaming_min
    .hidden __reheap_mem_unasked, __reheap_mem_search_level
    .type   __reheap_mem_level, @object
    .type   __reheap_mem_string_copy_min, @object
    .type   __reheap_mem_string_set_min, @object
    .type   __reheap_mem_streaming_min, @object
    .type   __reheap_mem_unasked, @object
    .type   __reheap_mem_search_level, @object
    .size   __reheap_mem_level, 1
    .size   __reheap_mem_string_copy_min, 8
    .size   __reheap_mem_string_set_min, 8
    .size   __reheap_mem_streaming_min, 8
    .size   __reheap_mem_unasked, 8
    .size   __reheap_mem_search_level, 1
    .p2align 6
__reheap_mem_string_copy_min: .quad -1          # from this count on `rep movsb`
__reheap_mem_string_set_min:  .quad -1          # from this count on `rep stosb`
__reheap_mem_streaming_min:   .quad 0x400000    # from this count on stores past the caches
__reheap_mem_unasked:         .quad 0x40000     # so many bytes are left before CPUID is asked
__reheap_mem_level:           .byte -128        # -128: not known; 0: SSE2; 1: AVX2; 2: AVX-512 in vectors of 32 bytes; 3: of 64
__reheap_mem_search_level:    .byte -128        # the same for search.s and last.s, which only load
    .p2align 6                                  # a line of its own: a neighbour that is written often would slow it down

    .section .text.__reheap_mem_find_level, "ax", @progbits
    # Changes no register, so that a function may call it before its first instruction. Numbers of leaves and bits: Intel
    # SDM, CPUID; AMD APM volume 3, appendix E.
    .globl  __reheap_mem_find_level
    .hidden __reheap_mem_find_level
    .type   __reheap_mem_find_level, @function
__reheap_mem_find_level:
    .cfi_startproc
    save    rax, rbx, rcx, rdx, rsi, rdi, r8, r9, r10, r11
    xor     esi, esi                    # the level
    xor     edi, edi                    # that of searches
    xor     eax, eax
    cpuid
    mov     r8d, eax                    # the highest leaf
    mov     r9d, ebx                    # the vendor's first four letters
    cmp     r8d, 7
    jb      .Lfound

    # AVX2 counts only if the system saves the upper halves: OSXSAVE, AVX, and both states in XCR0. And only with LZCNT, which
    # would silently be another instruction. (TZCNT is in all code: where it is not known, it is BSF, and for what is not 0
    # that gives the same. On AMD's processors it is faster.)
    mov     eax, 1
    cpuid
    not     ecx
    test    ecx, (1 << 27) | (1 << 28)
    jnz     .Lno_wide
    xor     ecx, ecx
    xgetbv
    not     eax
    mov     r11d, eax                   # what is not saved
    mov     eax, 0x80000001
    cpuid
    mov     r10d, ecx
    mov     eax, 7
    xor     ecx, ecx
    cpuid
    test    r11d, 0x6                   # SSE, AVX
    jnz     .Lno_wide
    test    r10d, 1 << 5                # LZCNT
    jz      .Lno_wide
    test    ebx, 1 << 5                 # AVX2
    jz      .Lno_wide
    mov     esi, 1

    test    r11d, 0xe6                  # and the three states of AVX-512
    jnz     .Lno_wide
    not     ebx
    test    ebx, (1 << 3) | (1 << 8) | (1 << 16) | (1 << 30) | (1 << 31)    # BMI1, BMI2, F, BW, VL
    jnz     .Lno_wide
    mov     esi, 2

    # Vectors of 64 bytes only on processors that do not lower their clock for them: Intel's are those that have AVX-VNNI
    # too.
    cmp     eax, 1
    jb      .Lno_wide
    mov     eax, 7
    mov     ecx, 1
    cpuid
    test    eax, 1 << 4                 # AVX-VNNI
    jz      .Lno_wide
    mov     esi, 3
.Lno_wide:
    # AMD's never lower their clock, but Zen 4 stores vectors of 64 bytes more slowly than two of 32 bytes.
    mov     edi, esi
    mov     eax, 3
    cmp     r9d, 0x68747541             # "Auth" of "AuthenticAMD"
    jne     .Lsame_for_searches
    cmp     esi, 2
    cmove   edi, eax
.Lsame_for_searches:
    mov     eax, 7
    xor     ecx, ecx
    cpuid

    # String instructions only on Intel's processors with ERMS: on AMD's Zen 3 and 4, which also announce it, the loops
    # are faster. `rep movsb` is not faster than the loops either as long as the blocks are cached, but it does not read
    # what it overwrites.
    cmp     r9d, 0x756e6547             # "Genu" of "GenuineIntel"
    jne     .Lcaches_of_amd
    mov     r10d, ebx
    test    r10d, 1 << 9                # ERMS
    jz      .Lcaches_of_intel
    mov     eax, 2048
    mov     ecx, 8192                   # where vectors of 64 bytes are good, the loop is for longer
    cmp     esi, 3
    cmove   eax, ecx
    mov     [rip + __reheap_mem_string_set_min], rax
.Lcaches_of_intel:
    mov     r9d, 4
    jmp     .Lcaches

.Lcaches_of_amd:
    xor     r10d, r10d
    # Leaf 0x8000001d has the layout of Intel's leaf 4, and is there if TOPOEXT says so.
    mov     eax, 0x80000000
    cpuid
    cmp     eax, 0x8000001d
    jb      .Lfound
    mov     eax, 0x80000001
    cpuid
    test    ecx, 1 << 22
    jz      .Lfound
    mov     r9d, 0x8000001d

    # The last cache that holds data is the largest. A copy of more than a quarter of it would push out too much of
    # what other code needs, so it goes past them; from a quarter of that on `rep movsb` is used, where it is good.
.Lcaches:
    xor     r8d, r8d                    # its size
    xor     r11d, r11d                  # which cache
.Lnext_cache:
    mov     eax, r9d
    mov     ecx, r11d
    cpuid
    test    eax, 31
    jz      .Lall_caches                # no more
    and     eax, 31
    cmp     eax, 2
    je      .Lskip_cache                # instructions only
    lea     rax, [rcx + 1]              # sets
    mov     ecx, ebx
    shr     ecx, 22
    inc     ecx
    imul    rax, rcx                    # ways
    mov     ecx, ebx
    shr     ecx, 12
    and     ecx, 0x3ff
    inc     ecx
    imul    rax, rcx                    # partitions
    and     ebx, 0xfff
    inc     ebx
    imul    rax, rbx                    # bytes of a line
    mov     r8, rax
.Lskip_cache:
    inc     r11d
    cmp     r11d, 16
    jb      .Lnext_cache
.Lall_caches:
    shr     r8, 2
    cmp     r8, 0x100000                # a virtual machine may say anything
    jb      .Lfound
    mov     [rip + __reheap_mem_streaming_min], r8
    test    r10d, 1 << 9
    jz      .Lfound
    shr     r8, 2
    mov     [rip + __reheap_mem_string_copy_min], r8
.Lfound:
    mov     byte ptr [rip + __reheap_mem_search_level], dil
    mov     byte ptr [rip + __reheap_mem_level], sil
    restore r11, r10, r9, r8, rdi, rsi, rdx, rcx, rbx, rax
    ret
    .cfi_endproc
    .size   __reheap_mem_find_level, . - __reheap_mem_find_level
