// Every function of the malloc family does what C11, POSIX.1-2024 and musl say when there is memory.
#include "check.h"

// C23 7.24.3: a block smaller than max_align_t need not be aligned for it.
static size_t required_alignment(size_t size)
{
	size_t alignment = _Alignof(max_align_t);
	while (alignment > size && alignment > 1)
		alignment /= 2;
	return alignment;
}

static void malloc_aligns_and_gives_distinct_blocks(void)
{
	enum { COUNT = 2000 };
	static char *blocks[COUNT];
	for (size_t i = 0; i < COUNT; i++) {
		size_t size = i % 700;
		blocks[i] = malloc(size);
		CHECK(blocks[i] != NULL);
		CHECK(is_aligned(blocks[i], required_alignment(size)));
		CHECK(malloc_usable_size(blocks[i]) >= size);
		fill(blocks[i], size, (unsigned)i);
	}
	for (size_t i = 0; i < COUNT; i++)
		CHECK(holds(blocks[i], i % 700, i % 700, (unsigned)i));
	for (size_t i = 0; i < COUNT; i += 2)
		free(blocks[i]);
	for (size_t i = 1; i < COUNT; i += 2) {
		CHECK(holds(blocks[i], i % 700, i % 700, (unsigned)i));
		free(blocks[i]);
	}
}

static void size_zero_gives_a_block_of_its_own(void)
{
	void *first = malloc(0), *second = malloc(0), *zeroed = calloc(0, 8), *also_zeroed = calloc(8, 0);
	CHECK(first && second && zeroed && also_zeroed);
	CHECK(first != second && first != zeroed && zeroed != also_zeroed);
	void *from_null = realloc(NULL, 0), *array = reallocarray(NULL, 0, 8), *aligned = aligned_alloc(64, 0);
	CHECK(from_null && array && aligned);
	CHECK(from_null != array && aligned != array);
	free(first), free(second), free(zeroed), free(also_zeroed), free(from_null), free(array), free(aligned);
}

#ifdef __GLIBC__
static void realloc_to_zero_frees_as_in_glibc(void)
{
	size_t before = statm_bytes(1);
	for (int round = 0; round < 20000; round++) {
		size_t size = (size_t)1 << (round % 21);
		char *block = malloc(size), *other = malloc(size), *another = malloc(size);
		CHECK(block && other && another);
		memset(block, 1, size), memset(other, 1, size), memset(another, 1, size);
		errno = 12345;
		CHECK(realloc(block, 0) == NULL);
		CHECK(reallocarray(other, 0, 16) == NULL);
		CHECK(reallocarray(another, 16, 0) == NULL);
		CHECK(errno == 12345);
	}
	// 6 GiB have come and gone.
	CHECK(statm_bytes(1) < before + 200 * MIB);
}
#else
static void realloc_to_zero_gives_a_block_as_in_musl(void)
{
	void *other = malloc(1);
	for (size_t size = 1; size < 8 * MIB; size *= 7) {
		void *block = malloc(size);
		CHECK(block != NULL);
		block = realloc(block, 0);
		CHECK(block != NULL && block != other);
		block = realloc(block, 100);
		CHECK(block != NULL);
		fill(block, 100, 1);
		block = reallocarray(block, 0, 16);
		CHECK(block != NULL && block != other);
		free(block);
	}
	free(other);
}
#endif

static void calloc_clears_reused_memory(void)
{
	for (size_t size = 1; size < 4 * MIB; size = size * 3 / 2 + 1) {
		for (int round = 0; round < 3; round++) {
			unsigned char *dirty = malloc(size);
			CHECK(dirty != NULL);
			memset(dirty, 0xa5, size);
			free(dirty);
			unsigned char *clear = calloc(1, size);
			CHECK(clear != NULL);
			CHECK(is_zero(clear, size));
			memset(clear, 0x5a, size);
			free(clear);
		}
	}
	unsigned *numbers = calloc(1000, sizeof *numbers);
	CHECK(numbers != NULL && is_zero(numbers, 1000 * sizeof *numbers));
	free(numbers);
}

static void usable_size_is_usable(void)
{
	CHECK(malloc_usable_size(NULL) == 0);
	for (size_t size = 0; size < 300 * KIB; size = size * 9 / 8 + 1) {
		char *block = malloc(size);
		size_t usable = malloc_usable_size(block);
		CHECK(usable >= size);
		char *neighbour = malloc(size);
		fill(neighbour, size, 3);
		memset(block, 0xee, size);
		CHECK(malloc_usable_size(block) == usable);
		CHECK(holds(neighbour, size, size, 3));
		free(block), free(neighbour);
	}
}

static void check_aligned_block(void *block, size_t alignment, size_t size)
{
	CHECK(block != NULL);
	CHECK(is_aligned(block, alignment));
	CHECK(malloc_usable_size(block) >= size);
	fill(block, size, (unsigned)alignment);
}

static void alignments_up_to_a_mebibyte_hold_for_every_function(void)
{
	static const size_t sizes[] = { 1, 8, 24, 100, 1000, 4096, 5000, 70000, 300000, 1500000 };
	for (size_t alignment = 1; alignment <= MIB; alignment *= 2) {
		for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
			size_t size = sizes[s];
			void *first = memalign(alignment, size), *second = memalign(alignment, size);
			check_aligned_block(first, alignment, size);
			check_aligned_block(second, alignment, size);
			void *c11 = aligned_alloc(alignment, size); // C17 dropped "size must be a multiple"
			check_aligned_block(c11, alignment, size);
			void *posix = NULL;
			if (alignment >= sizeof(void *)) {
				CHECK(posix_memalign(&posix, alignment, size) == 0);
				check_aligned_block(posix, alignment, size);
				CHECK(holds(posix, size, size, (unsigned)alignment));
			}
			CHECK(holds(first, size, size, (unsigned)alignment));
			CHECK(holds(second, size, size, (unsigned)alignment));
			CHECK(holds(c11, size, size, (unsigned)alignment));
			first = realloc(first, size * 2 + 1);
			CHECK(first != NULL && holds(first, size, size, (unsigned)alignment));
			c11 = realloc(c11, size / 2 + 1);
			CHECK(c11 != NULL && holds(c11, size / 2, size, (unsigned)alignment));
			free(first), free(second), free(c11), free(posix);
		}
	}
	for (size_t size = 0; size < 100000; size = size * 3 + 1) {
		void *block = valloc(size);
		check_aligned_block(block, (size_t)sysconf(_SC_PAGESIZE), size);
		free(block);
	}
}

static void many_small_aligned_blocks_do_not_overlap(void)
{
	enum { COUNT = 600 };
	static void *blocks[COUNT];
	for (size_t alignment = 32; alignment <= 4096; alignment *= 2) {
		for (size_t i = 0; i < COUNT; i++) {
			size_t size = i % 97 + 1;
			blocks[i] = aligned_alloc(alignment, size);
			check_aligned_block(blocks[i], alignment, size);
			fill(blocks[i], size, (unsigned)i);
		}
		for (size_t i = 0; i < COUNT; i++) {
			CHECK(holds(blocks[i], i % 97 + 1, i % 97 + 1, (unsigned)i));
			free(blocks[i]);
		}
	}
}

static void reallocarray_is_realloc_of_the_product(void)
{
	int *numbers = reallocarray(NULL, 100, sizeof *numbers);
	CHECK(numbers != NULL);
	for (int i = 0; i < 100; i++)
		numbers[i] = i;
	numbers = reallocarray(numbers, 100000, sizeof *numbers);
	CHECK(numbers != NULL);
	CHECK(malloc_usable_size(numbers) >= 100000 * sizeof *numbers);
	for (int i = 0; i < 100; i++)
		CHECK(numbers[i] == i);
	free(numbers);
}

static void freeing_preserves_errno(void)
{
	// POSIX.1-2024, free: "shall not modify errno if ptr is a null pointer or a pointer previously returned".
	for (size_t size = 1; size < 64 * MIB; size *= 3) {
		void *plain = malloc(size), *aligned = memalign(4096, size);
		CHECK(plain != NULL && aligned != NULL);
		fill(plain, size, 0);
		errno = 12345;
		free(plain);
		free(aligned);
		free(NULL);
		CHECK(errno == 12345);
	}
	enum { COUNT = 2000 };
	static void *blocks[COUNT];
	for (int i = 0; i < COUNT; i++)
		blocks[i] = malloc(20000);
	errno = 12345;
	for (int i = 0; i < COUNT; i++)
		free(blocks[i]);
	CHECK(errno == 12345);
}

int main(void)
{
	deadline(120);
	malloc_aligns_and_gives_distinct_blocks();
	size_zero_gives_a_block_of_its_own();
#ifdef __GLIBC__
	realloc_to_zero_frees_as_in_glibc();
#else
	realloc_to_zero_gives_a_block_as_in_musl();
#endif
	calloc_clears_reused_memory();
	usable_size_is_usable();
	alignments_up_to_a_mebibyte_hold_for_every_function();
	many_small_aligned_blocks_do_not_overlap();
	reallocarray_is_realloc_of_the_product();
	freeing_preserves_errno();
	return passed("family");
}
