// Sizes on both sides of every size class that an allocator may have, and blocks of several GiB.
#include "check.h"

static void check_block(size_t size)
{
	char *block = malloc(size);
	CHECK(block != NULL);
	CHECK(malloc_usable_size(block) >= size);
	fill(block, size, (unsigned)size);
	char *clear = calloc(1, size);
	CHECK(clear != NULL && clear != block);
	CHECK(size == 0 || (clear[0] == 0 && clear[size / 2] == 0 && clear[size - 1] == 0));
	fill(clear, size, (unsigned)size + 1);
	CHECK(holds(block, size, size, (unsigned)size));
	free(block);
	CHECK(holds(clear, size, size, (unsigned)size + 1));
	free(clear);
}

// Size classes of all the allocators lie at 2^k + j * 2^(k-2) or 2^k + j * 2^(k-3), small ones at multiples of 8 or 16.
static void both_sides_of_every_size_class(void)
{
	for (size_t size = 0; size <= 2100; size++)
		check_block(size);
	for (size_t power = 2 * KIB; power <= 4 * MIB; power *= 2)
		for (size_t eighth = 0; eighth < 8; eighth++)
			for (size_t around = 0; around < 3; around++)
				check_block(power + eighth * (power / 8) - 1 + around);
}

static void headers_and_pages_around_powers_of_two(void)
{
	static const size_t below[] = { 16, 64, 4096, 8, 24, 32, 48, 128 };
	for (size_t power = 4 * KIB; power <= 32 * MIB; power *= 2)
		for (size_t i = 0; i < (power <= 4 * MIB ? 8 : 3); i++) {
			check_block(power - below[i]);
			check_block(power + below[i]);
		}
}

// Untouched, so that it costs address space only; a machine that does not overcommit may refuse, then with ENOMEM.
static void several_gibibytes_are_given_or_refused_cleanly(void)
{
	static const size_t sizes[] = { GIB - 1, GIB, 2 * GIB - 4096, 2 * GIB, 2 * GIB + 1, 3 * GIB, 4 * GIB - 1, 4 * GIB, 4 * GIB + 1, 6 * GIB, 8 * GIB };
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		size_t size = sizes[i];
		errno = 0;
		char *block = malloc(size);
		CHECK(block != NULL || errno == ENOMEM);
		if (block != NULL) {
			CHECK(malloc_usable_size(block) >= size);
			block[0] = 1, block[size / 2] = 2, block[size - 1] = 3;
			CHECK(block[0] == 1 && block[size / 2] == 2 && block[size - 1] == 3);
			free(block);
		}
		errno = 0;
		char *aligned = aligned_alloc(MIB, size);
		CHECK(aligned != NULL || errno == ENOMEM);
		if (aligned != NULL) {
			CHECK(is_aligned(aligned, MIB));
			aligned[0] = 1, aligned[size - 1] = 2;
			free(aligned);
		}
	}
}

int main(void)
{
	deadline(120);
	both_sides_of_every_size_class();
	headers_and_pages_around_powers_of_two();
	several_gibibytes_are_given_or_refused_cleanly();
	return passed("sizes");
}
