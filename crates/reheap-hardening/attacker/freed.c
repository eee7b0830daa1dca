// ---- Use of what was freed, and of what nobody has written yet ----

enum { FIELD = 32 }; // where an object has its interesting field: behind what allocators keep in a free block

// The program reads what it has freed: what was in it is still there.
static void uaf_read(void) {
    size_t size = whole(SMALL);
    char *block = get_among(size);
    fill(block, 's', size);
    drop(block);
    if (!differs(block + FIELD, 's', 16)) got("the secret that was in the block");
    nothing("the secret is gone");
}

// The program writes to what it has freed. A part of the program that gets the block finds the attacker's bytes in it.
static void uaf_write(void) {
    size_t size = whole(SMALL);
    char *block = get_among(size);
    drop(block);
    fill(block + FIELD, 'A', 16);
    for (int round = 0; round < ROUNDS; round++) {
        size_t taken = take_many(ALL, size);
        for (size_t i = 0; i < taken; i++)
            if (blocks[i] == block && !differs(block + FIELD, 'A', 16)) got("the attacker's bytes in a new block");
        drop_many(taken);
    }
    nothing("no new block has the attacker's bytes");
}

struct object {
    char before[FIELD];
    union {
        word length;
        void (*call)(void);
    };
    char after[SMALL - FIELD - sizeof(word)];
};

// The attacker makes the program allocate other objects until one is where the freed one was.
static void spray(struct object what) {
    for (int round = 0; round < ROUNDS; round++) {
        if (round) drop_many(MANY);
        size_t taken = take_many(MANY, sizeof what);
        if (taken < MANY) nothing("malloc gives no memory");
        for (size_t i = 0; i < taken; i++) *(struct object *)hide(blocks[i]) = what;
    }
    hide(NULL);
}

// The program takes the attacker's object for its own and believes the length in it.
static void uaf_reuse(void) {
    struct object *object = get_among(sizeof *object);
    *object = (struct object){.length = 8};
    hide(object);
    drop(object);
    spray((struct object){.length = 0x4141414141414141});
    if (((struct object *)hide(object))->length == 0x4141414141414141) got("a length of the attacker's own");
    nothing("the attacker's object is not where the freed one was");
}

static void call_of_the_program(void) { nothing("the program's own function was called"); }
static void call_of_the_attacker(void) { got("the attacker's function called"); }

// The program calls a function through the object that it has freed.
static void uaf_call(void) {
    struct object *object = get_among(sizeof *object);
    *object = (struct object){.call = call_of_the_program};
    hide(object);
    drop(object);
    spray((struct object){.call = call_of_the_attacker});
    ((struct object *)hide(object))->call();
}

// A secret that the program freed and did not overwrite is in a block that the attacker gets to see.
static void stale(size_t wanted, size_t at, size_t count) {
    size_t size = whole(wanted);
    char *block = wanted == LARGE ? get_large(size) : get_among(size);
    fill(block, 's', size);
    drop(block);
    for (int round = 0; round < ROUNDS; round++) {
        size_t taken = take_many(count, size);
        for (size_t i = 0; i < taken; i++)
            if (!differs(blocks[i] + at, 's', 16)) got("a secret of the block's former owner");
        drop_many(taken);
    }
    nothing("no new block has the secret");
}

static void stale_data(void) { stale(SMALL, FIELD, ALL); }
static void stale_data_large(void) { stale(LARGE, LARGE / 2, 32); }

static int is_near(word value, void *of) {
    word distance = value - (word)of;
    return distance + (64 << 20) < 128 << 20;
}

// A program that sends a block which it has not filled tells where the heap or a library is. Also told is where the
// value is an address without its last twelve bits, as glibc leaves at the end of a list.
static void uninitialised_read(void) {
    size_t sizes[] = {SMALL, 2048};
    for (int of = 0; of < 2; of++) {
        if (take_many(64, sizes[of]) < 64) nothing("malloc gives no memory");
        for (int i = 0; i < 64; i++) fill(blocks[i], 0, sizes[of]);
        for (int i = 0; i < 64; i += 2) drop(blocks[i]);
        for (int i = 0; i < ALL / 8; i++) {
            word *block = get(sizes[of]);
            for (int at = 0; at < SMALL / 8; at++)
                if (is_near(block[at], block) || is_near(block[at], (void *)malloc) ||
                    block[at] == (word)block >> 12)
                    got("an address");
        }
    }
    nothing("new blocks have no addresses in them");
}

// The attacker who knows where two blocks are says where the next one will be, and is right more often than not. One guess
// would be chance: in some allocators, parts of a piece of memory are in order and others are not.
static void predict_next(void) {
    size_t size = whole(SMALL), right = 0;
    if (take_many(MANY, size) < MANY) nothing("malloc gives no memory");
    for (int i = 2; i < MANY; i++) right += blocks[i] - blocks[i - 1] == blocks[i - 1] - blocks[i - 2];
    if (right > MANY / 2) got("the next block's address in advance");
    nothing("the next block was mostly elsewhere");
}
