// The first allocations of a process come from several threads at once: musl makes threads without a malloc.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { PROCESSES = 50, THREADS = 4, BLOCKS = 200 };

static atomic_int waiting;

static void *allocate(void *number)
{
	unsigned seed = (unsigned)(uintptr_t)number;
	char *blocks[BLOCKS];
	atomic_fetch_sub(&waiting, 1);
	while (waiting > 0)
		;
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc((size_t)i * 20);
		CHECK(blocks[i] != NULL);
		fill(blocks[i], (size_t)i * 20, seed);
	}
	for (int i = 0; i < BLOCKS; i++) {
		CHECK(holds(blocks[i], (size_t)i * 20, (size_t)i * 20, seed));
		free(blocks[i]);
	}
	return NULL;
}

static void begin_with_threads(void)
{
	pthread_t threads[THREADS];
	waiting = THREADS;
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, allocate, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(void)
{
	deadline(120);
	for (int i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			begin_with_threads();
			_exit(0);
		}
		int status;
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(status == 0);
	}
	return passed("first_malloc");
}
