// ---- One attack per process ----

// Addresses for judging how far they can be guessed: the first small block, the first large one, and what follows.
static void addresses(void) {
    say_number((word)get(SMALL));
    say(" ");
    say_number((word)get(LARGE));
    char *latest = get(SMALL);
    for (int i = 0; i < 16; i++) {
        char *next = get(SMALL);
        say(" ");
        say_number((word)(next - latest));
        latest = next;
    }
    say("\n");
    _exit(0);
}

// The file that `malloc` is in, as /proc/self/maps has it. Also shows that the allocator can start.
static void where(void) {
    if (!hide(malloc(SMALL)) || !hide(malloc(LARGE))) {
        say("malloc gives no memory\n");
        _exit(1);
    }
    static char maps[1 << 16];
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    for (ssize_t more; (more = read(file, maps + length, sizeof maps - 1 - length)) > 0;) length += (size_t)more;
    for (char *line = maps, *next; *line; line = next) {
        next = strchr(line, '\n');
        next = next ? next + 1 : line + strlen(line);
        char *end;
        word from = strtoul(line, &end, 16), to = strtoul(end + 1, NULL, 16);
        char *path = memchr(line, '/', (size_t)(next - line));
        if ((word)malloc < from || (word)malloc >= to || !path) continue;
        next[-1] = 0;
        say(path);
    }
    say("\n");
    _exit(0);
}

static const struct {
    const char *name;
    void (*run)(void);
} attacks[] = {
    {"double-free", double_free},
    {"double-free-between", double_free_between},
    {"double-free-thread", double_free_thread},
    {"double-free-large", double_free_large},
    {"realloc-after-free", realloc_after_free},
    {"free-interior", free_interior},
    {"free-stack", free_stack},
    {"free-foreign", free_foreign},
    {"sized-free", sized_free},
    {"overflow-1", overflow_1},
    {"overflow-8", overflow_8},
    {"overflow-64", overflow_64},
    {"overflow-64-old", overflow_64_old},
    {"overflow-page", overflow_page},
    {"overflow-large", overflow_large},
    {"underflow-1", underflow_1},
    {"underflow-8", underflow_8},
    {"underflow-64", underflow_64},
    {"overread", overread},
    {"uaf-read", uaf_read},
    {"uaf-write", uaf_write},
    {"uaf-reuse", uaf_reuse},
    {"uaf-call", uaf_call},
    {"poisoned-list", poisoned_list},
    {"poisoned-list-known", poisoned_list_known},
    {"freed-neighbour", freed_neighbour},
    {"fake-chunk", fake_chunk},
    {"unlink", unlink_forged},
    {"uninitialised-read", uninitialised_read},
    {"stale-data", stale_data},
    {"stale-data-large", stale_data_large},
    {"realloc-race", realloc_race},
    {"thread-reuse", thread_reuse},
    {"predict-next", predict_next},
    {"addresses", addresses},
    {"where", where},
};

static void say_instruction(unsigned char *at) {
    // A pipe, because the kernel says politely when there is nothing to read at that address.
    unsigned char bytes[4];
    int ends[2];
    if (pipe(ends) || write(ends[1], at, sizeof bytes) != sizeof bytes ||
        read(ends[0], bytes, sizeof bytes) != sizeof bytes) {
        say("none");
        return;
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        char text[3] = {"0123456789abcdef"[bytes[i] >> 4], "0123456789abcdef"[bytes[i] & 15], 0};
        say(text);
    }
}

// Some allocators stop a program by an instruction that no program may execute, and say nothing. From outside that looks
// like any other fault. The instruction tells.
static void on_fault(int signal_number, siginfo_t *info, void *context) {
    ucontext_t *state = context;
#if defined(__x86_64__)
    word at = (word)state->uc_mcontext.gregs[REG_RIP];
    if (signal_number == SIGTRAP) at--; // it is already behind int3
#elif defined(__aarch64__)
    word at = (word)state->uc_mcontext.pc;
#endif
    say("fault: address=");
    say_number((word)info->si_addr);
    say(" instruction=");
    say_instruction((unsigned char *)at);
    say("\n");
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    _exit(128 + signal_number);
}

static void watch_for_faults(void) {
    static char stack[1 << 16];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
    int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction present, ours = {.sa_sigaction = on_fault};
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(signals[i], NULL, &present);
        // Some allocators need their own handler.
        if (present.sa_handler == SIG_DFL) sigaction(signals[i], &ours, NULL);
    }
}

int main(int count, char **arguments) {
    // Thousands of runs end in crashes that are meant: no core files. The second call is for systems that pipe them.
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    watch_for_faults();
    for (size_t i = 0; count == 2 && i < sizeof attacks / sizeof *attacks; i++) {
        if (strcmp(attacks[i].name, arguments[1])) continue;
        if (attacks[i].run != where) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        attacks[i].run();
    }
    return 2;
}
