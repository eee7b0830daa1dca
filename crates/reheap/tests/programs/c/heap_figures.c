// What glibc's functions around malloc say of 64 MiB that come and go: mallinfo2, malloc_trim, malloc_info,
// malloc_stats and mallopt.
//
// `heap_figures SIZE GIVES KEEPS`: SIZE is that of a block; GIVES is 1 where malloc_trim returns what was freed to the
// system, KEEPS is 1 where mallopt takes a trim threshold. What malloc_info prints is left on standard output, behind
// `ok`.
#include "check.h"

#define TOTAL (64 * MIB)
// What an allocator may need or keep beside the blocks: rpmalloc keeps as much as that.
#define MORE (TOTAL / 2)

// Declared here: glibc before 2.33 lacks it, the preload has it.
struct figures {
	size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct figures wide(void) __asm__("mallinfo2");

static size_t in_use(void)
{
	struct figures figures = wide();
	CHECK(figures.arena == figures.uordblks + figures.fordblks);
	return figures.uordblks + figures.hblkhd;
}

static void the_short_form_is_the_long_one_cut_off(void)
{
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	struct mallinfo narrow = mallinfo();
	struct figures figures = wide();
	size_t difference = (size_t)narrow.uordblks > figures.uordblks ? (size_t)narrow.uordblks - figures.uordblks : figures.uordblks - (size_t)narrow.uordblks;
	CHECK(difference < MIB);
	CHECK(narrow.arena > 0);
}

static void blocks_that_come_and_go_are_seen(size_t size, int gives)
{
	size_t count = TOTAL / size;
	char **blocks = malloc(count * sizeof *blocks);
	CHECK(blocks != NULL);
	memset(blocks, 0, count * sizeof *blocks);
	size_t before = in_use();
	for (size_t i = 0; i < count; i++) {
		blocks[i] = malloc(size);
		CHECK(blocks[i] != NULL);
		memset(blocks[i], 1, size);
	}
	size_t full = in_use(), resident_full = statm_bytes(1);
	CHECK(full > before + TOTAL - 4 * MIB);
	CHECK(full < before + TOTAL + MORE);
	the_short_form_is_the_long_one_cut_off();
	for (size_t i = 0; i < count; i++)
		free(blocks[i]);
	int trimmed = malloc_trim(0);
	size_t resident = statm_bytes(1);
	CHECK(trimmed == 0 || trimmed == 1);
	CHECK(in_use() < full - TOTAL / 2);
	if (gives)
		CHECK(resident < resident_full - TOTAL / 2);
	// What is given back before, at the last free, leaves nothing to trim.
	CHECK(!gives || trimmed == 1 || size > MIB);
	free(blocks);
}

static void a_block_that_grows_is_seen(void)
{
	size_t before = in_use();
	char *block = realloc(malloc(1000), TOTAL);
	CHECK(block != NULL);
	memset(block, 1, TOTAL);
	size_t full = in_use();
	CHECK(full > before + TOTAL - 4 * MIB);
	free(block);
	malloc_trim(0);
	CHECK(in_use() < full - TOTAL / 2);
}

static void parameters_without_a_meaning_are_refused(int keeps)
{
	CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 0);
	CHECK(mallopt(M_MXFAST, 64) == 0);
	CHECK(mallopt(M_PERTURB, 1) == 0);
	CHECK(mallopt(M_ARENA_MAX, 1) == 0);
	CHECK(mallopt(12345, 1) == 0);
	CHECK(mallopt(M_TRIM_THRESHOLD, 1 << 20) == 0);
	CHECK(mallopt(M_TRIM_THRESHOLD, 0) == keeps);
	CHECK(mallopt(M_TRIM_THRESHOLD, -1) == keeps);
}

// Freed memory stays in memory after "never", and leaves it by itself after "at once".
static void the_trim_threshold_is_heeded(void)
{
	CHECK(mallopt(M_TRIM_THRESHOLD, -1) == 1);
	char *block = malloc(TOTAL / 4);
	CHECK(block != NULL);
	memset(block, 1, TOTAL / 4);
	size_t full = statm_bytes(1);
	free(block);
	CHECK(statm_bytes(1) > full - TOTAL / 8);
	malloc_trim(0);
	CHECK(mallopt(M_TRIM_THRESHOLD, 0) == 1);
	block = malloc(TOTAL / 4);
	CHECK(block != NULL);
	memset(block, 1, TOTAL / 4);
	full = statm_bytes(1);
	free(block);
	CHECK(statm_bytes(1) < full - TOTAL / 8);
}

int main(int count, char **words)
{
	deadline(60);
	CHECK(count == 4);
	size_t size = strtoul(words[1], NULL, 10);
	int gives = atoi(words[2]), keeps = atoi(words[3]);
	blocks_that_come_and_go_are_seen(size, gives);
	a_block_that_grows_is_seen();
	CHECK(malloc_info(1, stdout) == EINVAL);
	passed("heap_figures");
	CHECK(malloc_info(0, stdout) == 0);
	malloc_stats();
	parameters_without_a_meaning_are_refused(keeps);
	if (keeps)
		the_trim_threshold_is_heeded();
	return 0;
}
