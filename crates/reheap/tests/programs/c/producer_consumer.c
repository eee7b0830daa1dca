// One side only allocates, the other only frees: memory must find its way back, or the process grows without end.
#include "check.h"
#include <pthread.h>

enum { CAPACITY = 256, BLOCKS = 300000, SIZE_MAX_BYTES = 1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned char *queue[CAPACITY];
static size_t first, last;

static void *produce(void *unused)
{
	unsigned state = 5;
	(void)unused;
	for (size_t i = 0; i < BLOCKS; i++) {
		size_t size = 2 + next_random(&state) % SIZE_MAX_BYTES;
		unsigned char *block = malloc(size);
		CHECK(block != NULL);
		block[0] = block[size - 1] = (unsigned char)i;
		pthread_mutex_lock(&lock);
		while (last - first == CAPACITY)
			pthread_cond_wait(&changed, &lock);
		queue[last++ % CAPACITY] = block;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(void)
{
	deadline(240);
	pthread_t producer;
	size_t resident_before = statm_bytes(1);
	CHECK(pthread_create(&producer, NULL, produce, NULL) == 0);
	for (size_t i = 0; i < BLOCKS; i++) {
		pthread_mutex_lock(&lock);
		while (last == first)
			pthread_cond_wait(&changed, &lock);
		unsigned char *block = queue[first++ % CAPACITY];
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
		CHECK(block[0] == (unsigned char)i);
		free(block);
	}
	CHECK(pthread_join(producer, NULL) == 0);
	// 150 MB went through; at any time at most 256 KB were alive.
	CHECK(statm_bytes(1) < resident_before + 64 * MIB);
	return passed("producer_consumer");
}
