// A thread for each task, as simple servers have it: what a thread leaves behind, the next ones must find.
#include "../../../reheap/tests/programs/c/check.h"
#include <pthread.h>

enum { TASKS = 4000, SIZES = 40 };

static void *task(void *unused)
{
	void *blocks[SIZES];
	(void)unused;
	for (int i = 0; i < SIZES; i++) {
		blocks[i] = malloc((size_t)64 << i % 12);
		CHECK(blocks[i] != NULL);
		memset(blocks[i], i, 64);
	}
	for (int i = 0; i < SIZES; i++)
		free(blocks[i]);
	return NULL;
}

int main(void)
{
	deadline(120);
	size_t resident_before = statm_bytes(1);
	for (int i = 0; i < TASKS; i++) {
		pthread_t thread;
		CHECK(pthread_create(&thread, NULL, task, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	// Every thread had 1.5 MB, together 6 GB.
	CHECK(statm_bytes(1) < resident_before + 32 * MIB);
	return passed("thread_per_task");
}
