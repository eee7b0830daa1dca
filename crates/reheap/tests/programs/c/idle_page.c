// Memory of which nothing is in use is given back, also if it was in use one block at a time, and if a thread that
// ended left memory for blocks of the same size in the meantime.
//
// mimalloc gives back an empty page of the size that a block comes and goes of after a number of new pages for others.
// It finds such a page only if none is in front of it, and one that is taken over from a thread that ended is put
// there. When unused pages go back to the system is also a matter of time, so the program runs itself with that time
// set to none.
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

enum { SIZE = 600, LARGE = 400 * 1024, LARGE_COUNT = 120, MEDIUM = 20 * 1024, MEDIUM_COUNT = 2000 };

static void *left_by_thread[2];
static void *kept[LARGE_COUNT + MEDIUM_COUNT + 1];

static void *leave_blocks(void *unused)
{
	(void)unused;
	for (int i = 0; i < 2; i++)
		left_by_thread[i] = malloc(SIZE);
	return NULL;
}

static void one_block_comes_and_goes(int times)
{
	for (int i = 0; i < times; i++) {
		void *volatile block = malloc(SIZE);
		CHECK(block != NULL);
		memset(block, 1, SIZE);
		free(block);
	}
}

static void keep(int from, int count, size_t size)
{
	for (int i = from; i < from + count; i++)
		CHECK((kept[i] = malloc(size)) != NULL);
}

static int is_resident(uintptr_t address)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char state = 0;
	// What is not even mapped is not resident either.
	if (mincore((void *)(address / page * page), page, &state) != 0)
		return 0;
	return state & 1;
}

int main(int count, char **arguments)
{
	if (count == 1) {
		CHECK(setenv("MIMALLOC_PURGE_DELAY", "0", 1) == 0);
		execl("/proc/self/exe", arguments[0], "again", (char *)NULL);
		CHECK(!"started again");
	}
	deadline(60);
	void *block = malloc(SIZE);
	CHECK(block != NULL);
	memset(block, 1, SIZE);
	uintptr_t address = (uintptr_t)block;
	free(block);
	CHECK(is_resident(address));

	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, leave_blocks, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	// More than there is room for without what the thread left; then one page for another size.
	keep(0, LARGE_COUNT, LARGE);
	keep(LARGE_COUNT, 1, 2 * SIZE);
	for (int i = 0; i < 2; i++)
		free(left_by_thread[i]);

	one_block_comes_and_goes(20);
	keep(LARGE_COUNT + 1, MEDIUM_COUNT, MEDIUM);
	CHECK(!is_resident(address));
	return passed("idle_page");
}
