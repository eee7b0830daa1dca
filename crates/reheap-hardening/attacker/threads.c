// ---- Threads ----

static char *passed;
static char *volatile first_of_other;

static void *free_and_get_one(void *block) {
    get(2 * size_of_all); // a thread's first call may take another path
    drop(block);
    first_of_other = get(size_of_all);
    return NULL;
}

// A block that another thread has freed comes back at once, so that the attacker hits it without trying.
static void thread_reuse(void) {
    size_of_all = whole(SMALL);
    passed = get_among(size_of_all);
    in_another_thread(free_and_get_one, passed);
    char *first = get(size_of_all);
    if (first_of_other == passed || first == passed) got("the freed block at once");
    nothing("another block came first");
}

enum { RACES = 200 };
static pthread_barrier_t both;
static char *raced[RACES], *results[2][RACES];

static void race(int as) {
    for (int i = 0; i < RACES; i++) {
        pthread_barrier_wait(&both);
        results[as][i] = hide(realloc(hide(raced[i]), PAGE));
    }
}

static void *race_as_second(void *unused) {
    race(1);
    return unused;
}

// Two threads resize one block at the same time. One of them frees what the other has freed, or both get one block.
static void realloc_race(void) {
    size_t size = whole(SMALL);
    for (int i = 0; i < RACES; i++) raced[i] = get(size);
    pthread_t thread;
    if (pthread_barrier_init(&both, NULL, 2) || pthread_create(&thread, NULL, race_as_second, NULL))
        nothing("there is no second thread");
    race(0);
    pthread_join(thread, NULL);
    for (int i = 0; i < RACES; i++)
        if (results[0][i] && results[0][i] == results[1][i]) got("one block for two owners");
    got_if_twice(size);
    nothing("each thread has a block of its own");
}
