// Commits one memory error per run, as an attacker would use it, and proves from inside what the attacker got.
//
//     attacker NAME
//
// Only what the attacker really got is printed as "attacker: …"; all else is judged from outside, by how the process
// ends. Printing is a raw write: stdio would allocate, and the heap may be broken by then. All bookkeeping is in static
// memory for the same reason.
//
// A compiler may assume that no program does what this one does: that two calls of malloc never give the same block, or
// that nobody reads what was freed. So each pointer passes through `hide`, after which the compiler knows nothing of it.
// The files in this directory are compiled as one, in the order of `attacking/attacker.rs`.
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

typedef uintptr_t word;

enum {
    SMALL = 64,        // most objects of programs are about this large
    MIDDLE = 1056,     // above what allocators keep in lists for a thread
    LARGE = 1 << 20,   // often a mapping of its own
    PAGE = 4096,
    MANY = 4096,       // blocks that an attacker makes so that some are next to each other
    ALL = 20000,       // blocks after which any free block of a size has come back
    ROUNDS = 3,        // how often the program frees all these and goes on: some allocators hold freed blocks back
};

// ---- What the outside gets to see ----

static void say(const char *text) {
    ssize_t done = write(1, text, strlen(text));
    (void)done;
}

// The attacker has won: what happens later does not matter any more.
__attribute__((noreturn)) static void got(const char *what) {
    say("attacker: got ");
    say(what);
    say("\n");
    _exit(0);
}

__attribute__((noreturn)) static void nothing(const char *why) {
    say("none: ");
    say(why);
    say("\n");
    _exit(0);
}

static void say_number(word number) {
    char text[19] = "0x";
    int digits = 1;
    while (digits < 16 && number >> (4 * digits)) digits++;
    for (int i = 0; i < digits; i++)
        text[2 + i] = "0123456789abcdef"[number >> (4 * (digits - 1 - i)) & 15];
    text[2 + digits] = 0;
    say(text);
}

// ---- Blocks ----

static void *hide(void *pointer) {
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

static void *get(size_t size) {
    void *block = hide(malloc(size));
    if (!block) nothing("malloc gives no memory");
    return block;
}

static void drop(void *block) {
    free(hide(block));
    __asm__ volatile("" : : : "memory");
}

// A block between others that stay in use, as in a program that has run for a while. Some allocators give memory back to
// the system as soon as all blocks in a piece of it are free, and then each use of it crashes.
static void *get_among(size_t size) {
    for (int i = 0; i < 40; i++) get(size);
    void *block = get(size);
    for (int i = 0; i < 40; i++) get(size);
    return block;
}

// glibc maps the first large block, and gives it back to the system when it is freed. From then on, blocks of that size are
// in its heap as all others are. A block behind keeps this one from being the end of the heap.
static void *get_large(size_t size) {
    drop(get(size));
    void *block = get(size);
    get(size);
    return block;
}

// The size of the blocks that have no spare byte behind them: with one, an overflow by one byte would hit nothing.
static size_t whole(size_t size) {
    void *block = get(size);
    size_t usable = malloc_usable_size(block);
    drop(block);
    return usable < size || usable > 2 * size ? size : usable;
}

static void fill(void *block, char byte, size_t size) {
    char *bytes = hide(block);
    for (size_t i = 0; i < size; i++) bytes[i] = byte;
    hide(bytes);
}

// Whether any of these bytes is another one.
static int differs(void *block, char byte, size_t size) {
    char *bytes = hide(block);
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != byte) return 1;
    return 0;
}

static char *blocks[ALL];

static void sort(size_t count) {
    for (size_t gap = count / 2; gap; gap = gap == 2 ? 1 : gap * 5 / 11)
        for (size_t i = gap; i < count; i++) {
            char *block = blocks[i];
            size_t at = i;
            for (; at >= gap && blocks[at - gap] > block; at -= gap) blocks[at] = blocks[at - gap];
            blocks[at] = block;
        }
}

// Fills `blocks` as far as there is memory: a broken heap may have none after a while.
static size_t take_many(size_t count, size_t size) {
    for (size_t i = 0; i < count; i++)
        if (!(blocks[i] = hide(malloc(size)))) return i;
    return count;
}

static void drop_many(size_t count) {
    for (size_t i = 0; i < count; i++) drop(blocks[i]);
}

enum { SEEN = 1 << 17 };
static char *seen[SEEN];

// Two owners of one block: what one writes, the other reads. The attacker sees it at once, before more of the heap breaks.
static void got_if_seen(char *block) {
    size_t at = (word)block / 16 * 0x9e3779b97f4a7c15 >> 47;
    for (; seen[at]; at = (at + 1) % SEEN)
        if (seen[at] == block) got("one block for two owners");
    seen[at] = block;
}

static void got_if_twice(size_t size) {
    for (int round = 0; round < ROUNDS; round++) {
        size_t taken = 0;
        for (; taken < ALL && (blocks[taken] = hide(malloc(size))); taken++) got_if_seen(blocks[taken]);
        drop_many(taken);
        memset(seen, 0, sizeof seen);
    }
}

// Allocates until a block comes from this memory.
static void got_if_from(char *memory, size_t bytes, size_t size, size_t count, const char *what) {
    for (int round = 0; round < ROUNDS; round++) {
        size_t taken = 0;
        for (; taken < count && (blocks[taken] = hide(malloc(size))); taken++)
            if (blocks[taken] >= memory && blocks[taken] < memory + bytes) got(what);
        drop_many(taken);
    }
}

// The same for someone who cannot know in which size's list it is.
static void got_if_from_any_size(char *memory, size_t bytes, const char *what) {
    got_if_from(memory, bytes, SMALL, ALL, what);
    got_if_from(memory, bytes, 256, ALL / 4, what);
    for (size_t size = 16; size <= 1024; size += 16) got_if_from(memory, bytes, size, 64, what);
}

// ---- Memory of the attacker's own, in which nothing is allocated ----

static _Alignas(PAGE) word own[2 * PAGE / sizeof(word)];

// ---- Blocks next to each other ----

struct row {
    char *a, *b, *c;   // one behind the other; where no block is next to another, `a` alone, and the others are null
    char *elsewhere;   // another block of this size
    size_t size;       // of each
    size_t distance;   // from the beginning of one to that of the next
    size_t gap;        // what is the allocator's in between, in bytes
    int has_header;    // whether the gap ends with the size of the block behind it, as in glibc
};

static char *made[MANY]; // in the order in which they were made

static size_t place(char *block, size_t count) {
    size_t from = 0, to = count;
    while (from + 1 < to) {
        size_t middle = (from + to) / 2;
        if (blocks[middle] <= block) from = middle;
        else to = middle;
    }
    return from;
}

enum age { NEW, OLD };

// What an attacker gets who makes the program allocate so much that a block of theirs is before one that they want. Their
// block is among the last ones made, or among the first. The program makes its mistake in any case: where there is no
// neighbour, it hits what the allocator has there.
static struct row neighbours(size_t wanted, size_t count, enum age age) {
    struct row row = {.size = whole(wanted), .distance = SIZE_MAX};
    if (take_many(count, row.size) < count) nothing("malloc gives no memory");
    for (size_t i = 0; i < count; i++) made[i] = blocks[i];
    sort(count);
    // Some allocators leave room between blocks at random, and only those that are closest are next to each other.
    for (size_t i = 1; i < count; i++)
        if ((size_t)(blocks[i] - blocks[i - 1]) < row.distance) row.distance = blocks[i] - blocks[i - 1];
    int are_near = row.distance >= row.size && row.distance - row.size <= 64 + row.size / 4;
    for (size_t step = 0; are_near && step < count; step++) {
        size_t at = age == OLD ? (count / 4 + step) % count : count - 1 - step;
        size_t i = place(made[at], count);
        if (i + 2 >= count) continue;
        if (blocks[i + 1] - blocks[i] != (ptrdiff_t)row.distance ||
            blocks[i + 2] - blocks[i + 1] != (ptrdiff_t)row.distance)
            continue;
        row.a = blocks[i], row.b = blocks[i + 1], row.c = blocks[i + 2];
        row.elsewhere = i > 8 ? blocks[i - 8] : blocks[i + 8];
        row.gap = row.distance - row.size;
        word size = row.gap >= sizeof(word) ? ((word *)hide(row.b))[-1] : 0;
        row.has_header = (size & ~(word)15) == row.distance;
        return row;
    }
    row.a = age == OLD ? made[count / 4] : made[count - 1];
    row.elsewhere = made[count / 2];
    return row;
}

static const char ALONE[] = "no block is next to the one that was misused";

// The header of a block that is twice as long, so that it reaches over the next one.
static word forged(struct row *row) {
    if (!row->has_header) return 0;
    return 2 * row->distance | (((word *)hide(row->b))[-1] & 15);
}

// The block with the forged header was freed: whether malloc gives it as one that reaches over `c`.
static void got_if_overlapping(struct row *row) {
    if (!row->has_header) return;
    size_t size = 2 * row->distance - sizeof(word);
    for (int i = 0; i < 64; i++) {
        char *block = get(size);
        if (block != row->b) continue;
        fill(block, 'A', size);
        if (differs(row->c, 'v', 8)) got("a block that reaches over a live one");
    }
}
