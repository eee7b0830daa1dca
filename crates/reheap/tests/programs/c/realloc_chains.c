// Blocks that grow, shrink and move through realloc keep their contents.
#include "check.h"

static void check_step(char **block, size_t *size, size_t new_size, unsigned seed)
{
	size_t kept = new_size < *size ? new_size : *size;
	char *moved = realloc(*block, new_size);
	CHECK(moved != NULL);
	CHECK(malloc_usable_size(moved) >= new_size);
	CHECK(holds(moved, kept, *size, seed));
	fill(moved, new_size, seed);
	*block = moved;
	*size = new_size;
}

static void byte_by_byte(void)
{
	char *block = NULL;
	size_t size = 0;
	while (size < 5000)
		check_step(&block, &size, size + 1, 11);
	while (size > REALLOC_MIN)
		check_step(&block, &size, size - 1, 11);
	free(block);
}

static void doubling_and_halving(void)
{
	char *block = malloc(1);
	size_t size = 1;
	fill(block, size, 12);
	while (size < 96 * MIB)
		check_step(&block, &size, size * 2 + 3, 12);
	while (size > 1)
		check_step(&block, &size, size / 2, 12);
	free(block);
}

static void at_random_beside_each_other(void)
{
	enum { COUNT = 64 };
	char *blocks[COUNT] = { 0 };
	size_t sizes[COUNT] = { 0 };
	unsigned state = 42;
	for (int step = 0; step < 20000; step++) {
		unsigned i = next_random(&state) % COUNT;
		unsigned magnitude = next_random(&state) % 20; // as many small blocks as large ones
		size_t new_size = next_random(&state) % ((size_t)2 << (step % 50 == 0 ? magnitude : magnitude % 13));
		check_step(&blocks[i], &sizes[i], new_size > 0 ? new_size : REALLOC_MIN, i);
	}
	for (int i = 0; i < COUNT; i++) {
		CHECK(holds(blocks[i], sizes[i], sizes[i], (unsigned)i));
		free(blocks[i]);
	}
}

static void from_aligned_blocks(void)
{
	for (size_t alignment = 16; alignment <= MIB; alignment *= 4) {
		size_t size = 3000;
		char *block = aligned_alloc(alignment, size);
		CHECK(block != NULL && is_aligned(block, alignment));
		fill(block, size, 13);
		static const size_t chain[] = { 3001, 6000, 100000, 99999, 50, 2 * MIB, 10 };
		for (size_t i = 0; i < sizeof chain / sizeof *chain; i++)
			check_step(&block, &size, chain[i], 13);
		free(block);
	}
}

int main(void)
{
	deadline(120);
	byte_by_byte();
	doubling_and_halving();
	at_random_beside_each_other();
	from_aligned_blocks();
	return passed("realloc_chains");
}
