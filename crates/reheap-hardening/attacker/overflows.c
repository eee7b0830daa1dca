// ---- Writes and reads beyond a block ----
//
// The program frees the block that it has misused, as programs do soon afterwards, and only then it uses the neighbour.
// So an allocator that looks at a block's surroundings when it is freed has its chance.

// The attacker's bytes go from the end of `a` over what is between the blocks into `b`. Where that is the size of `b`,
// another one is written, so that malloc gives a block that reaches over `c`.
static void overflow(size_t count, enum age age) {
    struct row row = neighbours(SMALL, MANY, age);
    if (row.b) {
        fill(row.b, 'v', row.size);
        fill(row.c, 'v', row.size);
    }
    word header = forged(&row);
    for (size_t i = 0; i < count; i++) {
        size_t in_header = i + sizeof header - row.gap;
        int is_header = row.has_header && i < row.gap && in_header < sizeof header;
        row.a[row.size + i] = is_header ? ((char *)&header)[in_header] : 'A';
    }
    hide(row.a);
    drop(row.a);
    if (!row.b) nothing(ALONE);
    if (differs(row.b, 'v', row.size)) got("the attacker's bytes in the neighbour");
    drop(row.b);
    got_if_overlapping(&row);
    nothing("it changed no one's data");
}

static void overflow_1(void) { overflow(1, NEW); }
static void overflow_8(void) { overflow(8, NEW); }
static void overflow_64(void) { overflow(64, NEW); }
// Some allocators check less once all blocks of a piece of memory are in use.
static void overflow_64_old(void) { overflow(64, OLD); }

// The same in the other direction, from the beginning of `b` into `a`.
static void underflow(size_t count) {
    struct row row = neighbours(SMALL, MANY, NEW);
    char *misused = row.b ? row.b : row.a;
    if (row.b) {
        fill(row.a, 'v', row.size);
        fill(row.c, 'v', row.size);
    }
    word header = forged(&row);
    for (size_t i = 1; i <= count; i++) {
        int is_header = row.has_header && count >= sizeof header && i <= sizeof header;
        misused[-(ptrdiff_t)i] = is_header ? ((char *)&header)[sizeof header - i] : 'A';
    }
    hide(misused);
    drop(misused);
    if (!row.b) nothing(ALONE);
    if (differs(row.a, 'v', row.size)) got("the attacker's bytes in the neighbour");
    got_if_overlapping(&row);
    drop(row.a);
    nothing("it changed no one's data");
}

static void underflow_1(void) { underflow(1); }
static void underflow_8(void) { underflow(8); }
static void underflow_64(void) { underflow(64); }

// As with Heartbleed: the program sends more than it was given, and a secret is behind it.
static void overread(void) {
    struct row row = neighbours(SMALL, MANY, NEW);
    if (row.b) fill(row.b, 's', row.size);
    int seen = !differs(row.b ? row.b : row.a + row.size, 's', 16);
    drop(row.a);
    if (!row.b) nothing(ALONE);
    if (seen) got("the neighbour's secret");
    nothing("the neighbour's secret was not there");
}

// A long overflow, into a block on the next page.
static void overflow_page(void) {
    size_t size = whole(SMALL), count = take_many(MANY, size);
    for (size_t i = 0; i < count; i++) made[i] = blocks[i];
    sort(count);
    char *from = made[count - 1], *to = NULL;
    for (size_t step = 0; step < count && !to; step++) {
        char *block = made[count - 1 - step];
        size_t i = place(block, count);
        while (i < count && (word)blocks[i] / PAGE <= ((word)block + size) / PAGE) i++;
        if (i < count && blocks[i] - block <= 2 * PAGE) from = block, to = blocks[i];
    }
    if (to) fill(to, 'v', size);
    fill(from + size, 'A', to ? to + 16 - (from + size) : 2 * PAGE);
    drop(from);
    if (to && differs(to, 'v', 16)) got("the attacker's bytes in a block on the next page");
    nothing(to ? "it changed no one's data" : "no block is on the next page");
}

// Large blocks often are mappings of their own, without a guard in between.
static void overflow_large(void) {
    size_t size = whole(LARGE), near = LARGE / 2, count = take_many(16, size);
    sort(count);
    char *from = blocks[count / 2], *to = NULL;
    for (size_t i = 0; i + 1 < count && !to; i++)
        if (blocks[i + 1] - (blocks[i] + size) <= (ptrdiff_t)near) from = blocks[i], to = blocks[i + 1];
    if (to) fill(to, 'v', PAGE);
    fill(from + size, 'A', to ? to + 64 - (from + size) : near);
    drop(from);
    if (to && differs(to, 'v', 64)) got("the attacker's bytes in the next large block");
    nothing(to ? "it changed no one's data" : "no block is within 512 KiB behind it");
}
