// The two functions of C23 that musl's headers do not have yet, so they are declared here.
#include "check.h"

void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);

int main(void)
{
	deadline(60);
	for (int round = 0; round < 3; round++) {
		for (size_t size = 0; size < 8 * MIB; size = size * 2 + 1) {
			void *plain = malloc(size), *clear = calloc(size, 1), *moved = realloc(malloc(1), size);
			CHECK(plain && clear && moved);
			fill(plain, size, 1), fill(clear, size, 2), fill(moved, size, 3);
			errno = 12345;
			free_sized(plain, size);
			free_sized(clear, size);
			free_sized(moved, size);
			CHECK(errno == 12345);
			for (size_t alignment = 8; alignment <= MIB; alignment *= 4) {
				void *aligned = aligned_alloc(alignment, size);
				CHECK(aligned && is_aligned(aligned, alignment));
				fill(aligned, size, 4);
				errno = 12345;
				free_aligned_sized(aligned, alignment, size);
				CHECK(errno == 12345);
			}
		}
	}
	free_sized(NULL, 0);
	free_sized(NULL, 10);
	free_aligned_sized(NULL, 64, 10);
	return passed("free_sized");
}
