# strcasestr: like musl's, it compares the needle with every place, but only with those that begin with the same letter. (musl's
# own calls strncasecmp for each byte, and that one got slower to call.)
#
# rbx: the place, rbp, r12: the needle and its length. On the stack: the first letter of the needle, small and capital, as a
# set for strcspn, and eight bytes farther the second.

    .hidden __reheap_strlen, __reheap_strcspn, __reheap_strncasecmp

    # eax: a byte; if it is a letter, small and capital, else twice the same. rcx and rdx are free.
    .macro both_cases
    mov     ecx, eax
    or      ecx, 0x20
    lea     edx, [rcx - 'a']
    cmp     edx, 26
    sbb     edx, edx
    and     edx, 0x20
    mov     ecx, eax
    xor     ecx, edx
    shl     ecx, 8
    or      eax, ecx
    .endm

    function __reheap_strcasestr
    movzx   eax, byte ptr [rsi]
    test    eax, eax
    jz      .Lstrcasestr_empty
    save    rbx, rbp, r12
    sub     rsp, 16
    .cfi_adjust_cfa_offset 16
    mov     rbx, rdi
    mov     rbp, rsi
    both_cases
    mov     [rsp], eax                  # with the end of the set
    movzx   eax, byte ptr [rsi + 1]
    both_cases
    mov     [rsp + 8], eax
    mov     rdi, rsi
    call    __reheap_strlen
    mov     r12, rax
.Lstrcasestr_place:
    movzx   eax, byte ptr [rbx]
    cmp     al, [rsp]
    je      .Lstrcasestr_second
    cmp     al, [rsp + 1]
    je      .Lstrcasestr_second
    mov     rdi, rbx
    mov     rsi, rsp
    call    __reheap_strcspn
    add     rbx, rax
    xor     eax, eax
    cmp     byte ptr [rbx], 0
    je      .Lstrcasestr_return
.Lstrcasestr_second:
    movzx   eax, byte ptr [rbx + 1]
    cmp     al, [rsp + 8]
    je      .Lstrcasestr_both
    cmp     al, [rsp + 9]
    je      .Lstrcasestr_both
    cmp     r12, 1
    je      .Lstrcasestr_both
    inc     rbx
    jmp     .Lstrcasestr_place
.Lstrcasestr_both:
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
