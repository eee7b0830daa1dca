// A thread that allocates little costs little: it has neither a heap nor pages of its own, whichever function it calls.
#include "check.h"
#include <pthread.h>

enum { THREADS = 200, BLOCKS = 40, KIB_MAX = 60, MIB_MAX = 4 };

// A thread that finds all shared heaps locked has one of its own. So one begins when the one before has its blocks.
static pthread_barrier_t one_has_blocks, all_have_blocks;

static char *make(int i)
{
	size_t size = 16 + i * 25;
	if (i % 3 == 0)
		return malloc(size);
	if (i % 3 == 1)
		return calloc(1, size);
	return realloc(malloc(size / 3), size);
}

static void *work(void *unused)
{
	char *blocks[BLOCKS];
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = make(i);
		CHECK(blocks[i] != NULL);
		memset(blocks[i], 1, 16 + i * 25);
	}
	pthread_barrier_wait(&one_has_blocks);
	pthread_barrier_wait(&all_have_blocks);
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return unused;
}

int main(void)
{
	static pthread_t threads[THREADS];
	pthread_attr_t attributes;
	deadline(30);
	CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 65536) == 0);
	CHECK(pthread_barrier_init(&one_has_blocks, NULL, 2) == 0);
	CHECK(pthread_barrier_init(&all_have_blocks, NULL, THREADS + 1) == 0);
	size_t mapped = statm_bytes(0), resident = statm_bytes(1);
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_create(&threads[i], &attributes, work, NULL) == 0);
		pthread_barrier_wait(&one_has_blocks);
	}
	CHECK((statm_bytes(0) - mapped) / THREADS < MIB_MAX * MIB);
	CHECK((statm_bytes(1) - resident) / THREADS < KIB_MAX * KIB);
	pthread_barrier_wait(&all_have_blocks);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	return passed("few_blocks");
}
