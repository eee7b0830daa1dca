# strncat, memccpy: the length first, then the copy, like strcpy. (musl's strcat calls strlen and strcpy.)

    .hidden __reheap_strlen, __reheap_strnlen, __reheap_memchr, __reheap_memcpy, __reheap_mempcpy

    # rdi: the string to append to, rsi: what, rdx: how much of it at most.
    function __reheap_strncat
    save    rbx, rbp, r12
    mov     rbx, rdi
    mov     rbp, rsi
    mov     rdi, rsi
    mov     rsi, rdx
    call    __reheap_strnlen
    mov     r12, rax
    mov     rdi, rbx
    call    __reheap_strlen
    lea     rdi, [rbx + rax]
    mov     rsi, rbp
    mov     rdx, r12
    call    __reheap_memcpy
    mov     byte ptr [rax + r12], 0
    mov     rax, rbx
    restore r12, rbp, rbx
    ret
    end_function __reheap_strncat

    # rdi: destination, rsi: source, edx: the last byte to copy, rcx: how many at most. Only our own memchr is called, which
    # leaves r8 and r11 alone.
    function __reheap_memccpy
    mov     r11, rdi
    mov     r8, rcx
    push    rsi
    .cfi_adjust_cfa_offset 8
    mov     rdi, rsi
    mov     esi, edx
    mov     rdx, rcx
    call    __reheap_memchr
    pop     rsi
    .cfi_adjust_cfa_offset -8
    mov     rdi, r11
    lea     rdx, [rax + 1]
    sub     rdx, rsi
    test    rax, rax
    jnz     __reheap_mempcpy            # which returns where the copy ends
    mov     rdx, r8
    sub     rsp, 8
    .cfi_adjust_cfa_offset 8
    call    __reheap_memcpy
    add     rsp, 8
    .cfi_adjust_cfa_offset -8
    xor     eax, eax
    ret
    end_function __reheap_memccpy
