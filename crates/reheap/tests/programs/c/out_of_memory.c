// Under an address space limit memory really runs out: it is refused with ENOMEM, and what is freed can be had again.
#include "check.h"
#include <sys/resource.h>

static void limit_address_space(size_t headroom)
{
	size_t limit = statm_bytes(0) + headroom;
	struct rlimit limits = { limit, limit };
	CHECK(setrlimit(RLIMIT_AS, &limits) == 0);
}

static void several_gibibytes_are_refused(void)
{
	char *kept = malloc(1000);
	fill(kept, 1000, 6);
	for (size_t size = 2 * GIB; size <= 64 * GIB; size += size / 2) {
		errno = 0;
		CHECK(malloc(size) == NULL && errno == ENOMEM);
		errno = 0;
		CHECK(calloc(size / 16, 16) == NULL && errno == ENOMEM);
		errno = 0;
		CHECK(realloc(kept, size) == NULL && errno == ENOMEM);
		errno = 0;
		CHECK(aligned_alloc(64 * KIB, size) == NULL && errno == ENOMEM);
		void *untouched = &untouched;
		CHECK(posix_memalign(&untouched, 4096, size) == ENOMEM && untouched == &untouched);
		CHECK(holds(kept, 1000, 1000, 6));
	}
	free(kept);
}

static size_t allocate_until_refused(void **blocks, size_t count_max, size_t size)
{
	for (size_t i = 0; i < count_max; i++) {
		errno = 0;
		blocks[i] = malloc(size);
		if (blocks[i] == NULL) {
			CHECK(errno == ENOMEM);
			return i;
		}
		*(size_t *)blocks[i] = i;
	}
	return count_max;
}

static void freed_memory_can_be_had_again(size_t size)
{
	enum { COUNT_MAX = 40000 };
	static void *blocks[COUNT_MAX];
	for (int round = 0; round < 2; round++) {
		size_t count = allocate_until_refused(blocks, COUNT_MAX, size);
		CHECK(count > 10 && count < COUNT_MAX);
		for (size_t i = 0; i < count; i++) {
			CHECK(*(size_t *)blocks[i] == i);
			free(blocks[i]);
		}
	}
}

int main(void)
{
	deadline(120);
	free(malloc(1)); // what an allocator reserves for itself at its first call is not the subject here
	limit_address_space(GIB);
	several_gibibytes_are_refused();
	freed_memory_can_be_had_again(8 * MIB);
	freed_memory_can_be_had_again(100 * KIB);
	return passed("out_of_memory");
}
