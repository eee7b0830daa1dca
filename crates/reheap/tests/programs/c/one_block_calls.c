// What another thread freed is given back soon while one block comes and goes: counted in calls, of which mimalloc 2 as
// its authors wrote it needs ten thousand here. A program that allocates now and then, not in a tight loop,
// would otherwise keep that memory for hours. The block is alone on its page, or beside one that stays.
//
// When it is seen that pages are unused is a matter of calls; when such pages go back to the system, also of time. So
// the program runs itself with that time set to none.
#include "check.h"
#include "resident.h"
#include <pthread.h>

enum { BLOCKS = 100000, SIZE = 1000, CALLS_MAX = 100000, ROUND = 10000 };

static void *blocks[BLOCKS];

static void *free_all(void *unused)
{
	(void)unused;
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return NULL;
}

static void memory_is_given_back_while_a_block_comes_and_goes(size_t size)
{
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
	for (int calls = 0; resident_bytes() > full / 2; calls += ROUND) {
		CHECK(calls < CALLS_MAX);
		for (int i = 0; i < ROUND; i++) {
			void *volatile block = malloc(size);
			free(block);
		}
	}
}

int main(int count, char **arguments)
{
	if (count == 1) {
		CHECK(setenv("MIMALLOC_PURGE_DELAY", "0", 1) == 0);
		execl("/proc/self/exe", arguments[0], "again", (char *)NULL);
		CHECK(!"started again");
	}
	deadline(60);
	memory_is_given_back_while_a_block_comes_and_goes(40);
	void *volatile stays = malloc(600);
	CHECK(stays != NULL);
	memory_is_given_back_while_a_block_comes_and_goes(600);
	free(stays);
	return passed("one_block_calls");
}
