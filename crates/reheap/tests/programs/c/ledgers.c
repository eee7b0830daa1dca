// Ledgers that grow entry by entry, are cut again, and change hands: nearly all blocks come from realloc.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 500, KEPT = 300 };

struct ledger {
    long *entries;
    size_t count;
};

static void append(struct ledger *ledger) {
    ledger->entries = realloc(ledger->entries, (ledger->count + 1) * sizeof *ledger->entries);
    ledger->entries[ledger->count] = (long)ledger->count;
    ledger->count++;
}

static void *keep(void *argument) {
    struct ledger *ledger = argument;
    for (int i = 0; i < ENTRIES; i++) append(ledger);
    while (ledger->count > KEPT) {
        ledger->count--;
        ledger->entries = reallocarray(ledger->entries, ledger->count, sizeof *ledger->entries);
    }
    return NULL;
}

// Ten blocks of some thousand bytes, one after another.
static void *volatile page;
static void few(void) {
    page = malloc(4000);
    for (size_t i = 1; i < 10; i++) page = realloc(page, 4000 + 500 * i);
    free(page);
}

int main(int count, char **words) {
    if (count > 1 && strcmp(words[1], "few") == 0) {
        few();
        return 0;
    }
    struct ledger ledgers[2] = {{0}};
    pthread_t clerks[2];
    for (int i = 0; i < 2; i++) pthread_create(&clerks[i], NULL, keep, &ledgers[i]);
    for (int i = 0; i < 2; i++) pthread_join(clerks[i], NULL);
    keep(&ledgers[0]);
    free(ledgers[0].entries);
    return ledgers[1].count != KEPT;
}
