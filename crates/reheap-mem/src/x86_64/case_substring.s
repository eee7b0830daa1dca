# strcasestr: like musl's, it compares the needle with every place, but only with those that begin with the same letter. (musl's
# own calls strncasecmp for each byte, and that one got slower to call.)
#
# rbx: the place, rbp, r12: the needle and its length. On the stack: the first letter of the needle, small and capital.

    .hidden __reheap_strlen, __reheap_strcspn, __reheap_strncasecmp

    function __reheap_strcasestr
    movzx   eax, byte ptr [rsi]
    test    eax, eax
    jz      .Lstrcasestr_empty
    save    rbx, rbp, r12
    sub     rsp, 16
    .cfi_adjust_cfa_offset 16
    mov     rbx, rdi
    mov     rbp, rsi
    mov     ecx, eax
    or      ecx, 0x20
    lea     edx, [rcx - 'a']
    mov     r8d, ecx
    xor     r8d, 0x20
    shl     r8d, 8
    or      ecx, r8d
    cmp     edx, 26
    cmovb   eax, ecx
    mov     [rsp], eax                  # with the end of the set
    mov     rdi, rsi
    call    __reheap_strlen
    mov     r12, rax
.Lstrcasestr_place:
    mov     rdi, rbx
    mov     rsi, rsp
    call    __reheap_strcspn
    add     rbx, rax
    xor     eax, eax
    cmp     byte ptr [rbx], 0
    je      .Lstrcasestr_return
    mov     rdi, rbx
    mov     rsi, rbp
    mov     rdx, r12
    call    __reheap_strncasecmp
    inc     rbx
    test    eax, eax
    jnz     .Lstrcasestr_place
    lea     rax, [rbx - 1]
.Lstrcasestr_return:
    add     rsp, 16
    .cfi_adjust_cfa_offset -16
    restore r12, rbp, rbx
    ret
.Lstrcasestr_empty:
    mov     rax, rdi
    ret
    end_function __reheap_strcasestr
