// A program that brings its whole malloc family keeps it, still links, and the libc's own allocations do no harm.
//
// musl calls its internal allocator in some functions (newlocale, dlerror, atexit) and the public one in others
// (strdup, getline): the first must not pull in a second `malloc`, the second must use the program's.
#include "check.h"
#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <regex.h>

static _Alignas(4096) unsigned char arena[64 << 20];
static atomic_size_t used;
static atomic_int own_mallocs, own_frees;

typedef struct {
	size_t size;
	size_t unused;
} OwnHeader;

static void *take(size_t alignment, size_t size)
{
	if (size > sizeof arena / 2 || alignment > 4096) {
		errno = ENOMEM;
		return NULL;
	}
	size_t room = sizeof(OwnHeader) + alignment + size;
	size_t start = atomic_fetch_add(&used, (room + 15) & ~(size_t)15);
	if (start + room > sizeof arena)
		check_failed(__FILE__, __LINE__, "the arena is large enough");
	uintptr_t block = ((uintptr_t)arena + start + sizeof(OwnHeader) + alignment - 1) & ~(uintptr_t)(alignment - 1);
	((OwnHeader *)block)[-1].size = size;
	atomic_fetch_add(&own_mallocs, 1);
	return (void *)block;
}

static int is_own(const void *block)
{
	return (const unsigned char *)block >= arena && (const unsigned char *)block < arena + sizeof arena;
}

void *malloc(size_t size) { return take(16, size); }

void free(void *block)
{
	if (block == NULL)
		return;
	CHECK(is_own(block));
	atomic_fetch_add(&own_frees, 1);
}

void *calloc(size_t count, size_t size)
{
	size_t total;
	if (__builtin_mul_overflow(count, size, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	void *block = take(16, total);
	return block ? memset(block, 0, total) : NULL;
}

void *realloc(void *block, size_t size)
{
	void *moved = take(16, size);
	if (moved == NULL || block == NULL)
		return moved;
	CHECK(is_own(block));
	size_t old_size = ((OwnHeader *)block)[-1].size;
	memcpy(moved, block, old_size < size ? old_size : size);
	return moved;
}

#ifndef ONLY_THE_FOUR_OF_C89
void *memalign(size_t alignment, size_t size) { return take(alignment < 16 ? 16 : alignment, size); }

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **block, size_t alignment, size_t size)
{
	void *made = memalign(alignment, size);
	if (made == NULL)
		return ENOMEM;
	*block = made;
	return 0;
}

void *valloc(size_t size) { return memalign(4096, size); }

void *reallocarray(void *block, size_t count, size_t size) { return realloc(block, count * size); }

size_t malloc_usable_size(void *block) { return block ? ((OwnHeader *)block)[-1].size : 0; }

static void the_rest_of_the_family_is_the_programs_own(void)
{
	void *block;
	CHECK(is_own(aligned_alloc(64, 10)) && is_own(memalign(64, 10)) && is_own(valloc(10)));
	CHECK(posix_memalign(&block, 64, 10) == 0 && is_own(block));
	CHECK(is_own(reallocarray(block, 2, 10)));
	CHECK(malloc_usable_size(malloc(33)) == 33);
}
#else
static void the_rest_of_the_family_is_the_programs_own(void) {}
#endif

static void what_the_program_frees_came_from_its_own_malloc(void)
{
	char *copy = strdup("copy"), *text = NULL, *line = NULL, *stream = NULL;
	size_t size = 0;
	CHECK(is_own(copy));
	CHECK(asprintf(&text, "%d", 42) == 2 && is_own(text));
	FILE *memory = fmemopen("one\ntwo\n", 8, "r");
	CHECK(memory != NULL);
	CHECK(getline(&line, &size, memory) == 4 && is_own(line));
	fclose(memory);
	FILE *output = open_memstream(&stream, &size);
	CHECK(output != NULL && fputs("hello", output) >= 0 && fclose(output) == 0);
	CHECK(is_own(stream) && strcmp(stream, "hello") == 0);
	char *directory = realpath("/", NULL);
	CHECK(is_own(directory));
	free(copy), free(text), free(line), free(stream), free(directory);
}

static void the_libc_may_use_its_own(void)
{
	locale_t locale = newlocale(LC_ALL_MASK, "de_DE.UTF-8", (locale_t)0);
	CHECK(locale != (locale_t)0);
	locale_t copy = duplocale(locale);
	CHECK(copy != (locale_t)0);
	freelocale(copy);
	freelocale(locale);
	CHECK(setlocale(LC_ALL, "C.UTF-8") != NULL);
	regex_t expression;
	CHECK(regcomp(&expression, "(a|b)*c", REG_EXTENDED) == 0);
	CHECK(regexec(&expression, "ababc", 0, NULL, 0) == 0);
	regfree(&expression);
	CHECK(setenv("CONFORMANCE", "1", 1) == 0 && unsetenv("CONFORMANCE") == 0);
}

static void at_exit(void) { free(malloc(10)); }

static void *in_thread(void *unused)
{
	(void)unused;
	for (int i = 0; i < 1000; i++)
		free(malloc(100));
	return malloc(5);
}

int main(void)
{
	deadline(60);
	void *block = malloc(100);
	CHECK(is_own(block) && is_own(calloc(3, 4)) && is_own(realloc(NULL, 5)));
	free(block);
	the_rest_of_the_family_is_the_programs_own();
	what_the_program_frees_came_from_its_own_malloc();
	the_libc_may_use_its_own();
	pthread_t threads[8];
	for (int i = 0; i < 8; i++)
		CHECK(pthread_create(&threads[i], NULL, in_thread, NULL) == 0);
	for (int i = 0; i < 8; i++) {
		void *result;
		CHECK(pthread_join(threads[i], &result) == 0 && is_own(result));
	}
	for (int i = 0; i < 50; i++)
		CHECK(atexit(at_exit) == 0);
	CHECK(own_mallocs > 8000 && own_frees > 8000);
	return passed("own_malloc");
}
