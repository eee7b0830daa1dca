/* The launcher for x86_64; `sys.rs` says what it is for, and what stands where in the report.
   r12: argc, the arguments, a null, the environment   rsp: the report   r13: the command   r14: the report's file */
60: mov r12, rsp
    sub rsp, 256

    mov eax, 157                /* prctl(PR_SET_PDEATHSIG, SIGKILL): nothing is measured for nobody */
    mov edi, 1
    mov esi, 9
    syscall
    mov eax, 157                /* prctl(PR_SET_CHILD_SUBREAPER, 1): daemons become children of the launcher */
    mov edi, 36
    mov esi, 1
    syscall
    mov eax, 109                /* setpgid(0, 0): Ctrl-C is for reheap alone */
    xor edi, edi
    xor esi, esi
    syscall
    mov eax, 2                  /* open("/dev/tty", O_NONBLOCK) */
    lea rdi, [rip + 70f]
    mov esi, 0x800
    xor edx, edx
    syscall
    mov r14d, eax
    test eax, eax
    js 15f
    mov eax, 16                 /* ioctl(terminal, TIOCNOTTY): give it up */
    mov edi, r14d
    mov esi, 0x5422
    syscall
    mov eax, 3                  /* close(terminal) */
    mov edi, r14d
    syscall

15: mov eax, 228                /* clock_gettime(CLOCK_MONOTONIC, report.started) */
    mov edi, 1
    lea rsi, [rsp + 8]
    syscall
    mov eax, 58                 /* vfork: the command has this stack until it is a program */
    syscall
    test eax, eax
    js 38f
    jz 30f
    mov r13d, eax

20: mov eax, 61                 /* wait4(-1, report.status, 0, report.rusage) until it was the command */
    mov rdi, -1
    lea rsi, [rsp + 40]
    xor edx, edx
    lea r10, [rsp + 48]
    syscall
    cmp eax, r13d
    je 25f
    test eax, eax
    jns 20b                     /* an orphan of the command's */
    cmp eax, -4                 /* EINTR: once more */
    je 20b
    jmp 40f
25: mov eax, 228                /* clock_gettime(CLOCK_MONOTONIC, report.ended) */
    mov edi, 1
    lea rsi, [rsp + 24]
    syscall
26: mov eax, 61                 /* wait4(-1, 0, WNOHANG, 0): how much is left, which is nothing if this is an error */
    mov rdi, -1
    xor esi, esi
    mov edx, 1
    xor r10d, r10d
    syscall
    test eax, eax
    jg 26b                      /* an orphan that has ended */
    sete al
    movzx eax, al
    mov [rsp + 44], eax         /* report.is_something_left */
    mov eax, 1                  /* write(0, report + 8, 184) */
    xor edi, edi
    lea rsi, [rsp + 8]
    mov edx, 184
    syscall
    cmp eax, 184
    jne 40f

28: mov eax, 61                 /* wait4(-1, 0, 0, 0) until nothing is left of what the command started */
    mov rdi, -1
    xor esi, esi
    xor edx, edx
    xor r10d, r10d
    syscall
    test eax, eax
    jns 28b
    cmp eax, -4
    je 28b
    xor edi, edi
    jmp 50f

    /* The command: a process group of its own; the report moves to another descriptor, and its place is taken. */
30: mov eax, 109                /* setpgid(0, 0) */
    xor edi, edi
    xor esi, esi
    syscall
    mov eax, 157                /* prctl(PR_SET_PDEATHSIG, SIGKILL) */
    mov edi, 1
    mov esi, 9
    syscall
    mov eax, 72                 /* fcntl(0, F_DUPFD_CLOEXEC, 3) */
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
35: mov [rsp], rax              /* still here: write(report, the negative error code, 8) */
    mov eax, 1
    mov rdi, r14
    mov rsi, rsp
    mov edx, 8
    syscall
    mov edi, 127
    jmp 50f

38: mov edi, eax                /* there is no process: the exit code is the error code */
    neg edi
    jmp 50f

40: mov edi, 255
50: mov eax, 231                /* exit_group */
    syscall
70: .asciz "/dev/tty"
reheap_launcher_end:
.popsection
