// Threads come and go, and leave their blocks to others. Each block keeps its contents, and none is in use twice: in the
// threads, in those after them, and in a child that a thread forks while others allocate.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 150, THREADS = 8, CALLS = 100, SLOTS = 512, OWN = 16, ROUNDS_PER_FORK = 30 };

struct block {
	unsigned size, filled, seed;
	unsigned char bytes[];
};

static _Atomic(struct block *) slots[SLOTS];

static void drop(struct block *block)
{
	if (!block)
		return;
	CHECK(holds(block->bytes, block->size, block->filled, block->seed));
	free(block);
}

static struct block *make(unsigned *state)
{
	unsigned kind = next_random(state) % 4, size = next_random(state) % (kind ? 1000 : 9000);
	struct block *block = kind == 1 ? calloc(1, sizeof *block + size) : malloc(sizeof *block + size);
	CHECK(block != NULL);
	CHECK(kind != 1 || is_zero(block, sizeof *block + size));
	*block = (struct block){size, size, next_random(state)};
	fill(block->bytes, size, block->seed);
	if (kind != 2)
		return block;
	unsigned other = next_random(state) % 2000;
	block = realloc(block, sizeof *block + other);
	CHECK(block != NULL);
	block->size = other < size ? other : size;
	return block;
}

static void *work(void *argument)
{
	unsigned state = *(unsigned *)argument;
	struct block *own[OWN] = {0};
	for (int i = 0; i < CALLS; i++) {
		struct block *block = make(&state);
		if (next_random(&state) % 2) {
			block = atomic_exchange(&slots[next_random(&state) % SLOTS], block);
		} else {
			struct block **place = &own[next_random(&state) % OWN], *before = *place;
			*place = block;
			block = before;
		}
		drop(block);
	}
	for (int i = 0; i < OWN; i++)
		drop(own[i]);
	return NULL;
}

static void run_threads(unsigned seed)
{
	pthread_t threads[THREADS];
	unsigned seeds[THREADS];
	for (unsigned i = 0; i < THREADS; i++) {
		seeds[i] = seed * THREADS + i + 1;
		CHECK(pthread_create(&threads[i], NULL, work, &seeds[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

static void drop_all(void)
{
	for (int i = 0; i < SLOTS; i++)
		drop(atomic_exchange(&slots[i], NULL));
}

// The other threads of the round allocate meanwhile.
static void *fork_now(void *unused)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		deadline(20);
		drop_all();
		run_threads(ROUNDS);
		drop_all();
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	return unused;
}

int main(void)
{
	deadline(60);
	for (unsigned round = 0; round < ROUNDS; round++) {
		pthread_t forks;
		int is_forking = round % ROUNDS_PER_FORK == 0;
		if (is_forking)
			CHECK(pthread_create(&forks, NULL, fork_now, NULL) == 0);
		run_threads(round);
		if (is_forking)
			CHECK(pthread_join(forks, NULL) == 0);
	}
	drop_all();
	return passed("short_threads");
}
