// ---- Frees that must not be ----

// The block is free twice. Two parts of the program get it, one of them with the attacker's bytes.
static void double_free(void) {
    size_t size = whole(SMALL);
    char *block = get_among(size);
    drop(block);
    drop(block);
    got_if_twice(size);
    nothing("no block came back twice");
}

// An allocator that looks only at the block freed last does not see it. Sixteen blocks go before: what a thread keeps
// for itself without looking (seven blocks in glibc) is full then.
static void double_free_between(void) {
    size_t size = whole(SMALL);
    if (take_many(60, size) < 60) nothing("malloc gives no memory");
    char *block = blocks[20], *other = blocks[21];
    for (int i = 0; i < 16; i++) drop(blocks[i]);
    drop(block);
    drop(other);
    drop(block);
    got_if_twice(size);
    nothing("no block came back twice");
}

static size_t size_of_all;
static char *of_other[ALL];

static void *free_and_take(void *block) {
    get(2 * size_of_all); // a thread's first call may take another path
    drop(block);
    for (size_t i = 0; i < ALL && (of_other[i] = hide(malloc(size_of_all))); i++) got_if_seen(of_other[i]);
    return NULL;
}

static void in_another_thread(void *(*work)(void *), void *of) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, of)) nothing("there is no second thread");
    pthread_join(thread, NULL);
}

// An allocator with lists for each thread sees it only if it looks into those of others.
static void double_free_thread(void) {
    size_of_all = whole(SMALL);
    char *block = get_among(size_of_all);
    drop(block);
    in_another_thread(free_and_take, block);
    got_if_twice(size_of_all);
    nothing("no block came back twice");
}

static void double_free_large(void) {
    char *block = get_large(LARGE);
    drop(block);
    drop(block);
    for (int i = 0; i < 64; i++) got_if_seen(get(LARGE));
    nothing("no block came back twice");
}

// The program resizes what it has freed already.
static void realloc_after_free(void) {
    size_t size = whole(SMALL);
    char *block = get_among(size);
    drop(block);
    char *resized = hide(realloc(hide(block), PAGE));
    if (resized) got_if_seen(resized);
    got_if_twice(size);
    nothing("no block came back twice");
}

// A block that begins within another one, which is still in use.
static void free_interior(void) {
    char *block = get_among(256);
    fill(block, 0, 256);
    drop(block + 64);
    got_if_from_any_size(block, 256, "a block within a live one");
    nothing("the freed address did not come back");
}

// What the program next writes into "its block" goes over a function's variables and its return address.
static void free_stack(void) {
    _Alignas(64) char variables[512];
    fill(variables, 0, sizeof variables);
    drop(variables + 64);
    got_if_from_any_size(variables, sizeof variables, "a block on the stack");
    nothing("the freed address did not come back");
}

// The same with memory that never came from malloc, such as a mapped file.
static void free_foreign(void) {
    char *pages = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) nothing("there are no pages to map");
    drop(pages + PAGE);
    got_if_from_any_size(pages, 16 * PAGE, "a block in memory that malloc never had");
    nothing("the freed address did not come back");
}

void free_sized(void *, size_t) __attribute__((weak));

// The program frees a small block as one of 256 bytes, as with a class whose destructor is not virtual.
static void sized_free(void) {
    if (!free_sized) nothing("there is no sized free");
    struct row row = neighbours(SMALL, MANY, NEW);
    if (row.b) fill(row.b, 'v', row.size);
    free_sized(hide(row.a), 256);
    if (!row.b) nothing(ALONE);
    for (size_t i = 0; i < ALL; i++) {
        char *block = get(256);
        if (block != row.a) continue;
        fill(block, 'A', 256);
        if (differs(row.b, 'v', row.size)) got("a block that reaches over a live one");
    }
    nothing("the allocator did not believe the size");
}
