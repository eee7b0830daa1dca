# strncat, memccpy: the length first, then the copy, like strcpy. (musl's strcat calls strlen and strcpy.)

    .hidden __reheap_strlen, __reheap_strnlen, __reheap_memchr, __reheap_memcpy

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

    # rdi: destination, rsi: source, edx: the last byte to copy, rcx: how many at most.
    function __reheap_memccpy
    save    rbx, rbp, r12
    mov     rbx, rdi
    mov     rbp, rsi
    mov     r12, rcx
    mov     rdi, rsi
    mov     esi, edx
    mov     rdx, rcx
    call    __reheap_memchr
    lea     rdx, [rax + 1]
    sub     rdx, rbp
    lea     rcx, [rbx + rdx]            # behind the copy of that byte
    test    rax, rax
    cmovz   rdx, r12
    cmovz   rcx, rax
    mov     r12, rcx
    mov     rdi, rbx
    mov     rsi, rbp
    call    __reheap_memcpy
    mov     rax, r12
    restore r12, rbp, rbx
    ret
    end_function __reheap_memccpy
