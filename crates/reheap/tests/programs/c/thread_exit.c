// Threads that end: their destructors free and allocate, in whatever order the allocator's own destructor runs.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <threads.h>

enum { THREADS = 64, ROUNDS = 3 };

// Keys made before and after the first allocation: destructors run in key order, so one of these runs before the
// allocator's own and one after it.
static pthread_key_t early_key, late_key;
static tss_t c11_key;
static atomic_int destructor_calls;
static _Atomic(char *) left_behind[THREADS * ROUNDS * 4];
static atomic_int left_behind_count;

typedef struct {
	pthread_key_t *key;
	int rounds_left;
	char *payload;
} Ending;

static Ending *ending(pthread_key_t *key, int rounds_left)
{
	Ending *made = malloc(sizeof *made);
	CHECK(made != NULL);
	*made = (Ending){ key, rounds_left, malloc(300) };
	CHECK(made->payload != NULL);
	fill(made->payload, 300, 21);
	return made;
}

static void leave_behind(void)
{
	char *block = malloc(77);
	CHECK(block != NULL);
	fill(block, 77, 22);
	left_behind[atomic_fetch_add(&left_behind_count, 1)] = block;
}

// Sets its key again, so that it is called in every round that POSIX has (PTHREAD_DESTRUCTOR_ITERATIONS is 4).
static void free_and_allocate(void *value)
{
	Ending *ended = value;
	CHECK(holds(ended->payload, 300, 300, 21));
	if (ended->rounds_left > 0)
		CHECK(pthread_setspecific(*ended->key, ending(ended->key, ended->rounds_left - 1)) == 0);
	else
		leave_behind();
	free(ended->payload);
	free(ended);
	void *large = malloc(100000);
	CHECK(large != NULL);
	fill(large, 100000, 1);
	free(large);
	atomic_fetch_add(&destructor_calls, 1);
}

static void c11_free_and_allocate(void *value)
{
	CHECK(holds(value, 400, 400, 23));
	free(value);
	leave_behind();
	atomic_fetch_add(&destructor_calls, 1);
}

static void make_endings(void)
{
	CHECK(pthread_setspecific(early_key, ending(&early_key, 3)) == 0);
	CHECK(pthread_setspecific(late_key, ending(&late_key, 3)) == 0);
	char *value = malloc(400);
	CHECK(value != NULL);
	fill(value, 400, 23);
	CHECK(tss_set(c11_key, value) == thrd_success);
}

static void *posix_thread(void *number)
{
	make_endings();
	if ((uintptr_t)number % 2 == 0)
		pthread_exit(malloc(10));
	return malloc(10);
}

static int c11_thread(void *number)
{
	make_endings();
	char *block = malloc(1000);
	CHECK(block != NULL);
	fill(block, 1000, 3);
	CHECK(holds(block, 1000, 1000, 3));
	free(block);
	if ((uintptr_t)number % 2 == 0)
		thrd_exit(7);
	return 7;
}

// Its first use of the heap is in its destructors.
static void *silent_thread(void *given)
{
	CHECK(pthread_setspecific(late_key, given) == 0);
	return NULL;
}

static void free_in_cleanup(void *block)
{
	CHECK(holds(block, 500, 500, 24));
	free(block);
	free(malloc(2000));
}

static void *cancelled_thread(void *unused)
{
	(void)unused;
	char *block = malloc(500);
	fill(block, 500, 24);
	pthread_cleanup_push(free_in_cleanup, block);
	for (;;)
		pause();
	pthread_cleanup_pop(0);
	return NULL;
}

static void check_left_behind(void)
{
	for (int i = 0; i < left_behind_count; i++) {
		CHECK(holds(left_behind[i], 77, 77, 22));
		free(left_behind[i]);
	}
	left_behind_count = 0;
}

static void posix_threads_end(void)
{
	pthread_t threads[THREADS];
	destructor_calls = 0;
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, posix_thread, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++) {
		void *result;
		CHECK(pthread_join(threads[i], &result) == 0);
		CHECK(result != NULL);
		free(result);
	}
	CHECK(destructor_calls == THREADS * (4 + 4 + 1));
	check_left_behind();
}

static void c11_threads_end(void)
{
	thrd_t threads[THREADS];
	destructor_calls = 0;
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(thrd_create(&threads[i], c11_thread, (void *)i) == thrd_success);
	for (int i = 0; i < THREADS; i++) {
		int result = 0;
		CHECK(thrd_join(threads[i], &result) == thrd_success);
		CHECK(result == 7);
	}
	CHECK(destructor_calls == THREADS * (4 + 4 + 1));
	check_left_behind();
}

static void a_thread_may_use_the_heap_first_in_a_destructor(void)
{
	for (int i = 0; i < THREADS; i++) {
		pthread_t thread;
		CHECK(pthread_create(&thread, NULL, silent_thread, ending(&late_key, 3)) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	check_left_behind();
}

static void cancelled_threads_free_in_their_cleanup(void)
{
	for (int i = 0; i < THREADS; i++) {
		pthread_t thread;
		void *result;
		CHECK(pthread_create(&thread, NULL, cancelled_thread, NULL) == 0);
		CHECK(pthread_cancel(thread) == 0);
		CHECK(pthread_join(thread, &result) == 0);
		CHECK(result == PTHREAD_CANCELED);
	}
}

static void *touch_heap(void *unused)
{
	(void)unused;
	char *blocks[100];
	for (size_t i = 0; i < 100; i++) {
		blocks[i] = malloc(i * 50 + 1);
		CHECK(blocks[i] != NULL);
		fill(blocks[i], i * 50 + 1, 1);
	}
	for (size_t i = 0; i < 100; i++)
		free(blocks[i]);
	return NULL;
}

static void what_ended_threads_used_is_used_again(void)
{
	size_t resident_before = statm_bytes(1);
	for (int i = 0; i < 2000; i++) {
		pthread_t thread;
		CHECK(pthread_create(&thread, NULL, touch_heap, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	CHECK(statm_bytes(1) < resident_before + 64 * MIB);
}

int main(void)
{
	deadline(240);
	CHECK(pthread_key_create(&early_key, free_and_allocate) == 0);
	free(malloc(1));
	CHECK(pthread_key_create(&late_key, free_and_allocate) == 0);
	CHECK(tss_create(&c11_key, c11_free_and_allocate) == thrd_success);
	for (int round = 0; round < ROUNDS; round++) {
		posix_threads_end();
		c11_threads_end();
	}
	a_thread_may_use_the_heap_first_in_a_destructor();
	cancelled_threads_free_in_their_cleanup();
	what_ended_threads_used_is_used_again();
	return passed("thread_exit");
}
