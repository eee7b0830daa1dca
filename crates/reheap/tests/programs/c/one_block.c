// What another thread freed is given back, also if the thread that allocated it does nothing but use one block over and
// over: a short way for that one block must not keep the allocator from looking at all others.
#include "check.h"
#include "resident.h"
#include <pthread.h>

enum { BLOCKS = 100000, SIZE = 1000, ROUND = 10000 };

static void *blocks[BLOCKS];

static void *free_all(void *unused)
{
	(void)unused;
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return NULL;
}

int main(void)
{
	deadline(30);
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(SIZE);
		CHECK(blocks[i] != NULL);
		memset(blocks[i], i, SIZE);
	}
	size_t full = resident_bytes();
	CHECK(full > (size_t)BLOCKS * SIZE);
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, free_all, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	// When that is seen is the allocator's business, whether it is seen is not: the deadline decides.
	do {
		for (int i = 0; i < ROUND; i++) {
			void *volatile block = malloc(40);
			free(block);
		}
	} while (resident_bytes() > full / 2);
	return passed("one_block");
}
