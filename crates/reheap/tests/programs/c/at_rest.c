// What a program has freed goes back to the system at once, though nothing calls the allocator any more.
#include "check.h"
#include "resident.h"
#include <pthread.h>
#include <sys/wait.h>

#define BLOCKS 200000

// With nothing in use.
#ifndef MIB_AT_REST
#define MIB_AT_REST 4
#endif

struct blocks {
	void **each;
	size_t count;
	size_t bytes;
};

static struct blocks make(size_t count)
{
	struct blocks blocks = { malloc(count * sizeof(void *)), count, count * sizeof(void *) };
	unsigned random = 1;
	CHECK(blocks.each != NULL);
	for (size_t i = 0; i < count; i++) {
		size_t size = 16 + next_random(&random) % 400;
		blocks.each[i] = malloc(size);
		CHECK(blocks.each[i] != NULL);
		memset(blocks.each[i], 1, size);
		blocks.bytes += size;
	}
	return blocks;
}

static void free_from(struct blocks *blocks, size_t first)
{
	errno = EXDEV;
	for (size_t i = first; i < blocks->count; i++)
		free(blocks->each[i]);
	CHECK(errno == EXDEV);
	blocks->count = first;
}

static void drop(struct blocks *blocks)
{
	free_from(blocks, 0);
	free(blocks->each);
}

static void is_at_rest(size_t live)
{
	size_t resident = resident_bytes(), most = live / 4 * 5 + MIB_AT_REST * MIB;
	if (resident > most)
		fprintf(stderr, "%zu KiB resident, at most %zu KiB\n", resident / KIB, most / KIB);
	CHECK(resident <= most);
}

static void *burst(void *unused)
{
	struct blocks blocks = make(BLOCKS);
	drop(&blocks);
	return unused;
}

static void burst_in_main_thread(void)
{
	burst(NULL);
	is_at_rest(0);
}

static void bursts_in_threads(size_t count)
{
	pthread_t threads[3];
	for (size_t i = 0; i < count; i++)
		CHECK(pthread_create(&threads[i], NULL, burst, NULL) == 0);
	for (size_t i = 0; i < count; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	is_at_rest(0);
}

static void burst_in_a_thread(void)
{
	bursts_in_threads(1);
}

static void bursts_in_three_threads(void)
{
	bursts_in_threads(3);
}

static void half_of_it_stays(void)
{
	struct blocks blocks = make(BLOCKS);
	free_from(&blocks, BLOCKS / 2);
	is_at_rest(blocks.bytes / 2);
	drop(&blocks);
	is_at_rest(0);
}

static void ups_and_downs_and_then_all(void)
{
	struct blocks base = make(BLOCKS);
	for (int i = 0; i < 10; i++) {
		struct blocks wave = make(BLOCKS / 2);
		drop(&wave);
	}
	drop(&base);
	is_at_rest(0);
}

static void large_block(void)
{
	void *block = malloc(64 * MIB);
	CHECK(block != NULL);
	memset(block, 1, 64 * MIB);
	free(block);
	is_at_rest(0);
}

// Memory that comes and goes again and again is kept for a while. So each begins anew.
static void in_a_process(void (*scene)(void))
{
	int status;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		scene();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(status == 0);
}

int main(void)
{
	deadline(120);
	in_a_process(burst_in_main_thread);
	in_a_process(burst_in_a_thread);
	in_a_process(bursts_in_three_threads);
	in_a_process(half_of_it_stays);
	in_a_process(ups_and_downs_and_then_all);
	in_a_process(large_block);
	return passed("at_rest");
}
