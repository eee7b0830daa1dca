/* The launcher for aarch64; `sys.rs` says what it is for, and what stands where in the report.
   x19: argc, the arguments, a null, the environment   sp: the report   x20: the command   x21: the report's file */
60: mov x19, sp
    sub sp, sp, 256

    mov x8, 167                 /* prctl(PR_SET_PDEATHSIG, SIGKILL): nothing is measured for nobody */
    mov x0, 1
    mov x1, 9
    svc 0
    mov x8, 167                 /* prctl(PR_SET_CHILD_SUBREAPER, 1): daemons become children of the launcher */
    mov x0, 36
    mov x1, 1
    svc 0
    mov x8, 154                 /* setpgid(0, 0): Ctrl-C is for reheap alone */
    mov x0, 0
    mov x1, 0
    svc 0
    mov x8, 56                  /* openat(AT_FDCWD, "/dev/tty", O_NONBLOCK) */
    mov x0, -100
    adr x1, 70f
    mov x2, 0x800
    mov x3, 0
    svc 0
    mov x21, x0
    cmp x0, 0
    b.lt 15f
    mov x8, 29                  /* ioctl(terminal, TIOCNOTTY): give it up */
    mov x1, 0x5422
    svc 0
    mov x8, 57                  /* close(terminal) */
    mov x0, x21
    svc 0

15: mov x8, 113                 /* clock_gettime(CLOCK_MONOTONIC, report.started) */
    mov x0, 1
    add x1, sp, 8
    svc 0
    mov x8, 220                 /* clone(CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0), which is vfork: the command has
                                   this stack until it is a program */
    mov x0, 0x4111
    mov x1, 0
    mov x2, 0
    mov x3, 0
    mov x4, 0
    svc 0
    cmp x0, 0
    b.lt 38f
    b.eq 30f
    mov x20, x0

20: mov x8, 260                 /* wait4(-1, report.status, 0, report.rusage) until it was the command */
    mov x0, -1
    add x1, sp, 40
    mov x2, 0
    add x3, sp, 48
    svc 0
    cmp x0, x20
    b.eq 25f
    cmp x0, 0
    b.ge 20b                    /* an orphan of the command's */
    cmn x0, 4                   /* EINTR: once more */
    b.eq 20b
    b 40f
25: mov x8, 113                 /* clock_gettime(CLOCK_MONOTONIC, report.ended) */
    mov x0, 1
    add x1, sp, 24
    svc 0
26: mov x8, 260                 /* wait4(-1, 0, WNOHANG, 0): how much is left, which is nothing if this is an error */
    mov x0, -1
    mov x1, 0
    mov x2, 1
    mov x3, 0
    svc 0
    cmp x0, 0
    b.gt 26b                    /* an orphan that has ended */
    cset w0, eq
    str w0, [sp, 44]            /* report.is_something_left */
    mov x8, 64                  /* write(0, report + 8, 184) */
    mov x0, 0
    add x1, sp, 8
    mov x2, 184
    svc 0
    cmp x0, 184
    b.ne 40f

28: mov x8, 260                 /* wait4(-1, 0, 0, 0) until nothing is left of what the command started */
    mov x0, -1
    mov x1, 0
    mov x2, 0
    mov x3, 0
    svc 0
    cmp x0, 0
    b.ge 28b
    cmn x0, 4
    b.eq 28b
    mov x0, 0
    b 50f

    /* The command: a process group of its own; the report moves to another descriptor, and its place is taken. */
30: mov x8, 154                 /* setpgid(0, 0) */
    mov x0, 0
    mov x1, 0
    svc 0
    mov x8, 167                 /* prctl(PR_SET_PDEATHSIG, SIGKILL) */
    mov x0, 1
    mov x1, 9
    svc 0
    mov x8, 25                  /* fcntl(0, F_DUPFD_CLOEXEC, 3) */
    mov x0, 0
    mov x1, 1030
    mov x2, 3
    svc 0
    mov x21, x0
    cmp x0, 0
    b.lt 35f
    mov x8, 57                  /* close(0) */
    mov x0, 0
    svc 0
    mov x8, 56                  /* openat(AT_FDCWD, argv[1], O_RDONLY): the lowest free descriptor, which is 0 */
    mov x0, -100
    ldr x1, [x19, 16]
    mov x2, 0
    mov x3, 0
    svc 0
    cmp x0, 0
    b.lt 35f
    mov x8, 221                 /* execve(argv[2], argv + 2, environment) */
    ldr x0, [x19, 24]
    add x1, x19, 24
    ldr x2, [x19]
    add x2, x19, x2, lsl 3
    add x2, x2, 16
    svc 0
35: str x0, [sp]                /* still here: write(report, the negative error code, 8) */
    mov x8, 64
    mov x0, x21
    mov x1, sp
    mov x2, 8
    svc 0
    mov x0, 127
    b 50f

38: neg x0, x0                  /* there is no process: the exit code is the error code */
    b 50f

40: mov x0, 255
50: mov x8, 94                  /* exit_group */
    svc 0
70: .asciz "/dev/tty"
reheap_launcher_end:
.popsection
