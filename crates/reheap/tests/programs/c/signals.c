// Signals arrive in the middle of allocations; their handler uses no heap, but an allocator that is interrupted must go
// on well.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/time.h>

enum { THREADS = 4, SIGNALS = TIMES(2000) };

static atomic_int received;
static atomic_bool stop;

static void count_signal(int number)
{
	int saved = errno;
	(void)number;
	atomic_fetch_add(&received, 1);
	close(-1); // sets errno, which the interrupted allocation must not see
	errno = saved;
}

static void *allocate(void *number)
{
	unsigned state = (unsigned)(uintptr_t)number;
	char *blocks[128] = { 0 };
	size_t sizes[128] = { 0 };
	while (!stop) {
		unsigned i = next_random(&state) % 128;
		CHECK(holds(blocks[i], sizes[i], sizes[i], i));
		size_t size = next_random(&state) % (state % 64 == 0 ? 100000 : 1000);
		if (state % 3 == 0) {
			if (size == 0)
				size = REALLOC_MIN;
			blocks[i] = realloc(blocks[i], size);
		} else {
			free(blocks[i]);
			blocks[i] = state % 3 == 1 ? malloc(size) : aligned_alloc(64, size);
		}
		CHECK(blocks[i] != NULL);
		sizes[i] = size;
		fill(blocks[i], size, i);
	}
	for (int i = 0; i < 128; i++)
		free(blocks[i]);
	return NULL;
}

int main(void)
{
	deadline(240);
	struct sigaction action = { .sa_handler = count_signal, .sa_flags = SA_RESTART };
	CHECK(sigaction(SIGPROF, &action, NULL) == 0);
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	pthread_t threads[THREADS];
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, allocate, (void *)(i + 1)) == 0);

	// A timer of the process for whoever runs, and a signal to each thread in turn while this thread allocates too.
	struct itimerval every_millisecond = { { 0, 1000 }, { 0, 1000 } };
	CHECK(setitimer(ITIMER_PROF, &every_millisecond, NULL) == 0);
	for (int i = 0; received < SIGNALS; i++) {
		CHECK(pthread_kill(threads[i % THREADS], SIGUSR1) == 0);
		for (int k = 0; k < 20; k++)
			free(malloc((size_t)(i % 5000 + k)));
	}
	stop = 1;
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	every_millisecond = (struct itimerval){ 0 };
	CHECK(setitimer(ITIMER_PROF, &every_millisecond, NULL) == 0);
	return passed("signals");
}
