// Vectors of 1 MiB that are filled and freed again and again, among blocks of all sizes, need little memory: pages of a
// size that is hardly used keep little, and a large block grows where it is. Upstream needs 9 MiB.
#include "check.h"

enum { SIZES = 40 };

static void grow(unsigned *state)
{
	size_t size = KIB + next_random(state) % KIB;
	char *vector = NULL;
	while (size < MIB) {
		vector = realloc(vector, size);
		CHECK(vector != NULL);
		fill(vector, size, 1);
		size += size / 2 + next_random(state) % (size / 2);
	}
	CHECK(vector != NULL);
	free(vector);
}

static void use_a_few(unsigned *state)
{
	char *blocks[SIZES];
	for (int i = 0; i < SIZES; i++) {
		size_t size = 16 + next_random(state) % ((size_t)16 << i % 12);
		blocks[i] = malloc(size);
		CHECK(blocks[i] != NULL);
		fill(blocks[i], size, 2);
	}
	for (int i = 0; i < SIZES; i++)
		free(blocks[i]);
}

int main(void)
{
	deadline(120);
	unsigned state = 1;
	size_t before = peak_bytes();
	for (int round = 0; round < 200; round++) {
		grow(&state);
		use_a_few(&state);
	}
	CHECK(peak_bytes() < before + 6 * MIB);
	return passed("changing_sizes");
}
