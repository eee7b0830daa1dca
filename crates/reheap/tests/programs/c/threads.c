// 64 threads that allocate, free, and free what other threads allocated.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 64, SLOTS = 512, STEPS = 6000 };

typedef struct {
	size_t size;
	unsigned seed;
} Header;

// Every block travels through here: whoever takes one out checks it and frees it, mostly in another thread.
static _Atomic(Header *) slots[SLOTS];

static Header *make(unsigned *state, unsigned step)
{
	size_t size = sizeof(Header) + next_random(state) % (step % 100 == 0 ? 200000 : step % 10 == 0 ? 5000 : 300);
	Header *block;
	switch (step % 4) {
	case 0:
		block = calloc(1, size);
		CHECK(block != NULL && is_zero(block, sizeof(Header)));
		break;
	case 1:
		block = aligned_alloc(64, size);
		CHECK(block != NULL && is_aligned(block, 64));
		break;
	case 2:
		block = realloc(malloc(8), size);
		CHECK(block != NULL);
		break;
	default:
		block = malloc(size);
		CHECK(block != NULL);
	}
	block->size = size;
	block->seed = *state;
	fill(block + 1, size - sizeof *block, block->seed);
	return block;
}

static void check_and_free(Header *block)
{
	if (block == NULL)
		return;
	CHECK(holds(block + 1, block->size - sizeof *block, block->size - sizeof *block, block->seed));
	free(block);
}

static void *exchange_blocks(void *number)
{
	unsigned state = (unsigned)(uintptr_t)number * 7919u + 1;
	Header *own[16] = { 0 };
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = next_random(&state) % 16;
		check_and_free(own[i]);
		own[i] = make(&state, step);
		if (step % 2 == 0) {
			unsigned slot = next_random(&state) % SLOTS;
			own[i] = atomic_exchange(&slots[slot], own[i]);
		}
	}
	for (int i = 0; i < 16; i++)
		check_and_free(own[i]);
	return malloc(100); // freed by the thread that joins
}

int main(void)
{
	deadline(240);
	for (int round = 0; round < 2; round++) {
		pthread_t threads[THREADS];
		for (uintptr_t i = 0; i < THREADS; i++)
			CHECK(pthread_create(&threads[i], NULL, exchange_blocks, (void *)(i + 1)) == 0);
		for (int i = 0; i < THREADS; i++) {
			void *result;
			CHECK(pthread_join(threads[i], &result) == 0);
			CHECK(result != NULL);
			free(result);
		}
	}
	for (int i = 0; i < SLOTS; i++)
		check_and_free(atomic_exchange(&slots[i], NULL)); // their threads are gone
	return passed("threads");
}
