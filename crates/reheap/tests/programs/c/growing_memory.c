// A large buffer that grows needs memory for what is in it, and not for a copy. What it no longer needs goes back at once.
#include "check.h"

static int mappings(void)
{
	int count = 0;
	FILE *file = fopen("/proc/self/maps", "r");
	CHECK(file != NULL);
	for (int byte; (byte = fgetc(file)) != EOF;)
		count += byte == '\n';
	fclose(file);
	return count;
}

static void in_small_steps(void)
{
	size_t before = peak_bytes();
	char *block = NULL;
	for (size_t size = 100; size < 64 * MIB; size += 50000) {
		block = realloc(block, size);
		CHECK(block != NULL);
		block[size - 1] = 1;
	}
	CHECK(peak_bytes() < before + 12 * MIB);
	free(block);
}

static void by_doubling(void)
{
	char *block = NULL;
	for (size_t size = 64 * KIB; size <= 128 * MIB; size *= 2) {
		block = realloc(block, size);
		CHECK(block != NULL);
		fill(block, size, 1);
	}
	CHECK(peak_bytes() < 150 * MIB);
	free(block);
	CHECK(statm_bytes(1) < 32 * MIB);
}

static void when_it_was_large_from_the_beginning(void)
{
	char *block = malloc(100 * MIB);
	CHECK(block != NULL);
	fill(block, 100 * MIB, 2);
	block = realloc(block, 128 * MIB);
	CHECK(block != NULL && holds(block, 100 * MIB, 100 * MIB, 2));
	CHECK(peak_bytes() < 150 * MIB);
	free(block);
}

static void when_it_shrinks(void)
{
	char *grown = realloc(malloc(MIB), 100 * MIB), *block = malloc(100 * MIB);
	CHECK(grown != NULL && block != NULL);
	fill(grown, 100 * MIB, 3);
	fill(block, 100 * MIB, 4);
	grown = realloc(grown, MIB);
	block = realloc(block, MIB);
	CHECK(grown != NULL && holds(grown, MIB, 100 * MIB, 3));
	CHECK(block != NULL && holds(block, MIB, 100 * MIB, 4));
	CHECK(statm_bytes(1) < 64 * MIB);
	free(grown);
	free(block);
}

static void many_side_by_side(void)
{
	enum { COUNT = 5000 };
	static char *blocks[COUNT];
	int before = mappings();
	for (int i = 0; i < COUNT; i++) {
		blocks[i] = malloc(200 * KIB);
		CHECK(blocks[i] != NULL);
		fill(blocks[i], 100, (unsigned)i);
		blocks[i] = realloc(blocks[i], 300 * KIB);
		CHECK(blocks[i] != NULL);
	}
	for (int i = 0; i < COUNT; i++) {
		CHECK(holds(blocks[i], 100, 100, (unsigned)i));
		free(blocks[i]);
	}
	CHECK(mappings() < before + 100);
}

int main(void)
{
	deadline(120);
	in_small_steps();
	by_doubling();
	when_it_was_large_from_the_beginning();
	when_it_shrinks();
	many_side_by_side();
	return passed("growing_memory");
}
