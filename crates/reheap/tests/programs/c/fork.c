// Forks while other threads allocate, begin and end; every child allocates.
//
// A lock that some other thread holds at the moment of the fork stays locked for ever in the child, so the child
// deadlocks in its next allocation unless the allocator waits for quiet before a fork. Threads that begin and end hold
// the rarer locks.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { WORKERS = 3, FORKS = TIMES(300), MAILBOXES = 64 };

static atomic_bool stop;
static _Atomic(char *) mailboxes[MAILBOXES];

static void *short_lived(void *seed)
{
	unsigned state = (unsigned)(uintptr_t)seed;
	char *blocks[64];
	for (int i = 0; i < 64; i++) {
		blocks[i] = malloc(next_random(&state) % 3000 + 1);
		CHECK(blocks[i] != NULL);
		blocks[i][0] = 1;
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	return NULL;
}

static void *worker(void *number)
{
	unsigned state = (unsigned)(uintptr_t)number;
	char *blocks[64] = { 0 };
	while (!stop) {
		pthread_t thread;
		CHECK(pthread_create(&thread, NULL, short_lived, (void *)(uintptr_t)next_random(&state)) == 0);
		for (int step = 0; step < 50; step++) {
			unsigned i = next_random(&state) % 64;
			if (step % 7 == 0)
				blocks[i] = atomic_exchange(&mailboxes[i], blocks[i]);
			free(blocks[i]);
			blocks[i] = malloc(next_random(&state) % (step == 0 ? 100000 : 3000) + 1);
			CHECK(blocks[i] != NULL);
			blocks[i][0] = 1;
		}
		CHECK(pthread_join(thread, NULL) == 0);
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	return NULL;
}

static void use_heap_in_child(unsigned seed)
{
	char *blocks[60];
	for (size_t i = 0; i < 60; i++) {
		blocks[i] = malloc(i * 37 + 1);
		CHECK(blocks[i] != NULL);
		fill(blocks[i], i * 37 + 1, seed);
	}
	for (int i = 0; i < MAILBOXES; i++)
		free(atomic_exchange(&mailboxes[i], NULL)); // allocated by threads that this process does not have
	char *large = calloc(3, MIB);
	CHECK(large != NULL && large[2 * MIB] == 0);
	free(large);
	for (size_t i = 0; i < 60; i++) {
		CHECK(holds(blocks[i], i * 37 + 1, i * 37 + 1, seed));
		free(blocks[i]);
	}
}

static atomic_bool stop_in_child;

static void *thread_of_child(void *seed)
{
	do
		use_heap_in_child((unsigned)(uintptr_t)seed);
	while (!stop_in_child);
	return NULL;
}

// A child that has threads of its own forks in turn: what the first fork left behind must not stand in the way.
static void grandchild(unsigned number)
{
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		deadline(20);
		use_heap_in_child(number);
		_exit(0);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(status == 0);
}

static void child(unsigned number)
{
	deadline(40);
	use_heap_in_child(number);
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, thread_of_child, (void *)(uintptr_t)number) == 0);
	if (number % 10 == 0)
		grandchild(number);
	stop_in_child = 1;
	CHECK(pthread_join(thread, NULL) == 0);
	_exit(0);
}

int main(void)
{
	deadline(240);
	pthread_t threads[WORKERS];
	for (uintptr_t i = 0; i < WORKERS; i++)
		CHECK(pthread_create(&threads[i], NULL, worker, (void *)(i + 1)) == 0);
	for (unsigned i = 0; i < FORKS; i++) {
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (pid == 0)
			child(i);
		int status;
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(status == 0);
	}
	stop = 1;
	for (int i = 0; i < WORKERS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	return passed("fork");
}
