// What cannot be had is refused: a null pointer with errno set, or posix_memalign's own error, and nothing else
// changes.
#include "check.h"

#define REFUSED(call, error) \
	do { \
		errno = 0; \
		CHECK((call) == NULL); \
		CHECK(errno == (error)); \
	} while (0)

static const size_t impossible[] = {
	PTRDIFF_MAX, (size_t)PTRDIFF_MAX - 15, (size_t)PTRDIFF_MAX - 4096, (size_t)PTRDIFF_MAX + 1, (size_t)PTRDIFF_MAX + 4097,
	SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 7, SIZE_MAX - 15, SIZE_MAX - 63, SIZE_MAX - 127, SIZE_MAX - 4095, SIZE_MAX - 4096,
	SIZE_MAX - 65535, SIZE_MAX - MIB, SIZE_MAX - 2 * MIB, SIZE_MAX - 4 * MIB, SIZE_MAX - 32 * MIB, SIZE_MAX - GIB,
	SIZE_MAX / 4 * 3, (size_t)1 << 62, (size_t)1 << 56, (size_t)1 << 50, (size_t)1 << 48,
};
enum { IMPOSSIBLE_COUNT = sizeof impossible / sizeof *impossible };

static void impossible_sizes_are_refused_with_enomem(void)
{
	for (int i = 0; i < IMPOSSIBLE_COUNT; i++) {
		size_t size = impossible[i];
		REFUSED(malloc(size), ENOMEM);
		REFUSED(calloc(1, size), ENOMEM);
		REFUSED(calloc(size, 1), ENOMEM);
		REFUSED(realloc(NULL, size), ENOMEM);
		REFUSED(reallocarray(NULL, size, 1), ENOMEM);
		REFUSED(valloc(size), ENOMEM);
		for (size_t alignment = 8; alignment <= MIB; alignment *= 2) {
			REFUSED(aligned_alloc(alignment, size), ENOMEM);
			REFUSED(memalign(alignment, size), ENOMEM);
		}
	}
}

static void overflowing_products_are_refused_with_enomem(void)
{
	static const size_t factors[][2] = {
		{ SIZE_MAX, 2 }, { 2, SIZE_MAX }, { SIZE_MAX, SIZE_MAX }, { (size_t)1 << 32, (size_t)1 << 32 },
		{ (size_t)1 << 63, 2 }, { SIZE_MAX / 2 + 2, 2 }, { SIZE_MAX / 3 + 1, 3 }, { (size_t)1 << 33, ((size_t)1 << 31) + 1 },
		{ SIZE_MAX / 16 + 1, 16 }, { (size_t)1 << 40, (size_t)1 << 23 },
	};
	for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
		REFUSED(calloc(factors[i][0], factors[i][1]), ENOMEM);
		REFUSED(reallocarray(NULL, factors[i][0], factors[i][1]), ENOMEM);
		char *kept = malloc(50);
		fill(kept, 50, 4);
		REFUSED(reallocarray(kept, factors[i][0], factors[i][1]), ENOMEM);
		CHECK(holds(kept, 50, 50, 4));
		free(kept);
	}
	void *none = calloc(0, SIZE_MAX), *also_none = calloc(SIZE_MAX, 0);
	CHECK(none && also_none);
	free(none), free(also_none);
}

static void a_refused_realloc_keeps_the_block(void)
{
	for (size_t size = 1; size < 3 * MIB; size = size * 5 + 1) {
		char *block = malloc(size);
		CHECK(block != NULL);
		fill(block, size, 9);
		for (int i = 0; i < IMPOSSIBLE_COUNT; i++) {
			REFUSED(realloc(block, impossible[i]), ENOMEM);
			CHECK(holds(block, size, size, 9));
		}
		block = realloc(block, size + 1);
		CHECK(block != NULL && holds(block, size, size, 9));
		free(block);
	}
}

static void an_alignment_that_is_no_power_of_two_is_refused_with_einval(void)
{
	static const size_t wrong[] = { 3, 5, 6, 7, 12, 24, 48, 100, 4095, 4097, MIB + 1, SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 };
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		REFUSED(aligned_alloc(wrong[i], 64), EINVAL);
		REFUSED(memalign(wrong[i], 64), EINVAL);
		void *untouched = &untouched;
		CHECK(posix_memalign(&untouched, wrong[i], 64) == EINVAL);
		CHECK(untouched == &untouched);
	}
	void *untouched = &untouched;
	for (size_t alignment = 0; alignment < sizeof(void *); alignment = alignment ? alignment * 2 : 1) {
		CHECK(posix_memalign(&untouched, alignment, 64) == EINVAL);
		CHECK(untouched == &untouched);
	}
	// C leaves alignment 0 open: musl gives a block, others refuse it with EINVAL.
	errno = 0;
	void *either = aligned_alloc(0, 64);
	CHECK(either != NULL || errno == EINVAL);
	free(either);
}

static void an_alignment_larger_than_memory_is_refused(void)
{
	for (size_t alignment = (size_t)1 << 48; alignment != 0; alignment *= 2) {
		REFUSED(aligned_alloc(alignment, 1), ENOMEM);
		REFUSED(memalign(alignment, 1), ENOMEM);
		REFUSED(aligned_alloc(alignment, alignment), ENOMEM);
	}
}

static void posix_memalign_returns_its_error_and_leaves_the_pointer(void)
{
	for (int i = 0; i < IMPOSSIBLE_COUNT; i++) {
		for (size_t alignment = sizeof(void *); alignment <= MIB; alignment *= 2) {
			void *untouched = &untouched;
			CHECK(posix_memalign(&untouched, alignment, impossible[i]) == ENOMEM);
			CHECK(untouched == &untouched);
		}
	}
}

static void the_heap_works_after_all_these_refusals(void)
{
	for (size_t size = 1; size < 10 * MIB; size = size * 2 + 1) {
		char *block = malloc(size);
		CHECK(block != NULL);
		fill(block, size, 2);
		CHECK(holds(block, size, size, 2));
		free(block);
	}
}

int main(void)
{
	deadline(120);
	impossible_sizes_are_refused_with_enomem();
	overflowing_products_are_refused_with_enomem();
	a_refused_realloc_keeps_the_block();
	an_alignment_that_is_no_power_of_two_is_refused_with_einval();
	an_alignment_larger_than_memory_is_refused();
	posix_memalign_returns_its_error_and_leaves_the_pointer();
	the_heap_works_after_all_these_refusals();
	return passed("refusals");
}
