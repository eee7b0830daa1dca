// The first block of a size brings one page of the system into memory, and not the next one.
#include "check.h"
#include <sys/mman.h>

int main(void)
{
	static const size_t sizes[] = {90, 180, 210, 300, 410, 500};
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		unsigned char resident;
		char *block = malloc(sizes[i]);
		CHECK(block != NULL);
		*block = 1;
		void *next = (void *)(((uintptr_t)block | (page - 1)) + 1);
		CHECK(mincore(next, page, &resident) == 0 && !(resident & 1));
	}
	return passed("first_block");
}
