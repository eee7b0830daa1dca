/* The launcher for x86_64; `sys.rs` says what it is for, and what stands where in the report.
   r12: argc, the arguments, a null, the environment   rsp: the report   r13: the command   r14: the report's file */
60: mov r12, rsp
    sub rsp, 256

    mov eax, 228                /* clock_gettime(CLOCK_MONOTONIC, report.started) */
    mov edi, 1
    lea rsi, [rsp + 8]
    syscall
    mov eax, 57                 /* fork */
    syscall
    test eax, eax
    js 40f
    jz 30f
    mov r13d, eax

20: mov eax, 61                 /* wait4(command, report.status, 0, report.rusage) */
    mov edi, r13d
    lea rsi, [rsp + 40]
    xor edx, edx
    lea r10, [rsp + 48]
    syscall
    cmp eax, -4                 /* EINTR: once more */
    je 20b
    test eax, eax
    js 40f
    mov eax, 228                /* clock_gettime(CLOCK_MONOTONIC, report.ended) */
    mov edi, 1
    lea rsi, [rsp + 24]
    syscall
    mov eax, 18                 /* pwrite64(0, report + 8, 184, 8) */
    xor edi, edi
    lea rsi, [rsp + 8]
    mov edx, 184
    mov r10d, 8
    syscall
    cmp eax, 184
    jne 40f
    xor edi, edi
    jmp 50f

    /* The command: the report moves to another descriptor, and its place is taken. */
30: mov eax, 72                 /* fcntl(0, F_DUPFD_CLOEXEC, 3) */
    xor edi, edi
    mov esi, 1030
    mov edx, 3
    syscall
    mov r14, rax
    test eax, eax
    js 35f
    mov eax, 3                  /* close(0) */
    xor edi, edi
    syscall
    mov eax, 2                  /* open(argv[1], O_RDONLY): the lowest free descriptor, which is 0 */
    mov rdi, [r12 + 16]
    xor esi, esi
    xor edx, edx
    syscall
    test eax, eax
    js 35f
    mov eax, 59                 /* execve(argv[2], argv + 2, environment) */
    mov rdi, [r12 + 24]
    lea rsi, [r12 + 24]
    mov rdx, [r12]
    lea rdx, [r12 + rdx * 8 + 16]
    syscall
35: mov [rsp], rax              /* still here: pwrite64(report, the negative error code, 8, 0) */
    mov eax, 18
    mov rdi, r14
    mov rsi, rsp
    mov edx, 8
    xor r10d, r10d
    syscall
    mov edi, 127
    jmp 50f

40: mov edi, 1
50: mov eax, 231                /* exit_group */
    syscall
reheap_launcher_end:
.popsection
