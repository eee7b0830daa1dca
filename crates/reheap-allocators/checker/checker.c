// Checks an allocator that a user brought: does it have the whole malloc family, and does the family keep its contract?
//
// Each check runs in a child, so one that crashes or never ends hides no other. Nothing here calls the allocator but the
// checks: lines go out by write(2). `checker.rs` reads them:
//
//   malloc FILE                where the program's malloc is
//   passed CHECK
//   failed CHECK: REASON
//   crashed CHECK: SIGNAL
//   hung CHECK
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS_MAX = 10, THREADS = 4 };

static const char *running; // the name of the check

static void say(const char *word, const char *name, const char *separator, const char *rest)
{
	char line[PATH_MAX + 200];
	int length = snprintf(line, sizeof line, "%s %s%s%s\n", word, name, separator, rest);
	if (length > 0 && write(STDOUT_FILENO, line, (size_t)length) < 0)
		_exit(2);
}

static void must(int holds, const char *what)
{
	if (holds)
		return;
	say("failed", running, ": ", what);
	_exit(1);
}

static int is_aligned(const void *block, size_t alignment)
{
	return (uintptr_t)block % alignment == 0;
}

static int is_filled(const unsigned char *block, size_t size, unsigned char with)
{
	for (size_t i = 0; i < size; i++)
		if (block[i] != with)
			return 0;
	return 1;
}

static void blocks(void)
{
	enum { COUNT = 3000 };
	static unsigned char *all[COUNT];
	for (size_t i = 0; i < COUNT; i++) {
		size_t size = i * 7 % 2000 + 1;
		all[i] = malloc(size);
		must(all[i] != NULL, "malloc returns NULL though there is memory");
		must(is_aligned(all[i], size < 16 ? 8 : _Alignof(max_align_t)) || size < 8, "malloc returns a block that is not aligned");
		memset(all[i], (int)i, size);
	}
	for (size_t i = 0; i < COUNT; i++)
		must(is_filled(all[i], i * 7 % 2000 + 1, (unsigned char)i), "two blocks overlap");
	for (size_t i = 0; i < COUNT; i += 2)
		free(all[i]);
	for (size_t i = 1; i < COUNT; i += 2) {
		must(is_filled(all[i], i * 7 % 2000 + 1, (unsigned char)i), "free changes another block");
		free(all[i]);
	}
	for (size_t size = 1 << 20; size <= 64 << 20; size *= 4) {
		unsigned char *large = malloc(size);
		must(large != NULL, "malloc returns NULL though there is memory");
		large[0] = large[size - 1] = 1;
		free(large);
	}
}

static void zero_bytes(void)
{
	void *first = malloc(0), *second = malloc(0), *third = calloc(0, 8);
	must(first && second && third, "malloc(0) returns NULL, as neither glibc nor musl does");
	must(first != second && second != third, "malloc(0) returns the same block twice");
	free(first), free(second), free(third), free(NULL);
}

static void clearing(void)
{
	for (size_t size = 1; size < 4 << 20; size = size * 3 + 1)
		for (int round = 0; round < 3; round++) {
			unsigned char *block = malloc(size);
			must(block != NULL, "malloc returns NULL though there is memory");
			memset(block, 0xa5, size);
			free(block);
			block = calloc(1, size);
			must(block != NULL && is_filled(block, size, 0), "calloc returns a block that is not zero");
			memset(block, 0x5a, size);
			free(block);
		}
	volatile size_t half = SIZE_MAX / 2;
	errno = 0;
	must(calloc(half, 3) == NULL, "calloc returns a block though the product overflows");
	must(errno == ENOMEM, "calloc does not set errno to ENOMEM");
}

static void resizing(void)
{
	unsigned char *block = realloc(NULL, 10);
	must(block != NULL, "realloc(NULL, 10) returns NULL");
	memset(block, 7, 10);
	for (size_t size = 20; size < 32 << 20; size = size * 5 / 2) {
		block = realloc(block, size);
		must(block != NULL && is_filled(block, 10, 7), "realloc loses what is in a block that grows");
	}
	volatile size_t too_large = (size_t)PTRDIFF_MAX;
	errno = 0;
	must(realloc(block, too_large) == NULL && errno == ENOMEM, "realloc does not refuse too large a size with ENOMEM");
	must(is_filled(block, 10, 7), "realloc changes a block when it fails");
	block = realloc(block, 10);
	must(block != NULL && is_filled(block, 10, 7), "realloc loses what is in a block that shrinks");
	free(block);
	void *aligned = memalign(4096, 100);
	must(aligned != NULL, "memalign returns NULL though there is memory");
	memset(aligned, 9, 100);
	aligned = realloc(aligned, 100000);
	must(aligned != NULL && is_filled(aligned, 100, 9), "realloc loses what is in an aligned block");
	free(aligned);
}

static void resizing_to_zero(void)
{
	void *block = malloc(100);
	block = realloc(block, 0);
#ifdef __GLIBC__
	must(block == NULL, "realloc(block, 0) returns a block, and glibc's frees it and returns NULL");
#else
	must(block != NULL, "realloc(block, 0) returns NULL, and musl's returns a block");
	free(block);
#endif
}

static void too_large(void)
{
	volatile size_t size = (size_t)PTRDIFF_MAX;
	errno = 0;
	must(malloc(size) == NULL, "malloc returns a block of PTRDIFF_MAX bytes");
	must(errno == ENOMEM, "malloc does not set errno to ENOMEM");
	errno = 0;
	must(malloc(size + 1) == NULL && errno == ENOMEM, "malloc does not refuse more than PTRDIFF_MAX bytes with ENOMEM");
}

static void aligned(void)
{
	for (size_t alignment = 16; alignment <= 1 << 20; alignment *= 2)
		for (size_t size = 1; size < 200000; size = size * 6 + 1) {
			unsigned char *c11 = aligned_alloc(alignment, size), *old = memalign(alignment, size);
			void *posix = NULL;
			must(posix_memalign(&posix, alignment, size) == 0, "posix_memalign fails though there is memory");
			must(c11 && old && posix, "aligned_alloc or memalign returns NULL though there is memory");
			must(is_aligned(c11, alignment), "aligned_alloc returns a block that is not aligned");
			must(is_aligned(old, alignment), "memalign returns a block that is not aligned");
			must(is_aligned(posix, alignment), "posix_memalign returns a block that is not aligned");
			memset(c11, 1, size), memset(old, 2, size), memset(posix, 3, size);
			must(is_filled(c11, size, 1) && is_filled(old, size, 2), "aligned blocks overlap");
			must(malloc_usable_size(c11) >= size && malloc_usable_size(posix) >= size, "malloc_usable_size of an aligned block is too small");
			free(c11), free(old), free(posix);
		}
	void *untouched = &errno;
	must(posix_memalign(&untouched, 3, 8) == EINVAL, "posix_memalign accepts an alignment of 3");
	must(posix_memalign(&untouched, sizeof(void *) * 3, 8) == EINVAL, "posix_memalign accepts an alignment that is no power of two");
	must(untouched == &errno, "posix_memalign writes a pointer when it fails");
}

static void usable_size(void)
{
	must(malloc_usable_size(NULL) == 0, "malloc_usable_size(NULL) is not 0");
	for (size_t size = 1; size < 300000; size = size * 9 / 8 + 1) {
		unsigned char *block = malloc(size), *neighbour = malloc(size);
		must(block && neighbour, "malloc returns NULL though there is memory");
		size_t usable = malloc_usable_size(block);
		must(usable >= size, "malloc_usable_size is smaller than the size that was asked for");
		memset(neighbour, 3, size);
		memset(block, 4, usable);
		must(is_filled(neighbour, size, 3), "a block is not as large as malloc_usable_size says");
		free(block), free(neighbour);
	}
}

static void errno_stays(void)
{
	enum { COUNT = 500 };
	static void *all[COUNT];
	for (size_t i = 0; i < COUNT; i++)
		all[i] = malloc(i * i + 1);
	void *large = malloc(64 << 20);
	errno = 12345;
	for (size_t i = 0; i < COUNT; i++)
		free(all[i]);
	free(large);
	free(NULL);
	must(errno == 12345, "free changes errno (POSIX.1-2024 forbids it)");
}

static pthread_key_t key;
static void *_Atomic handed[THREADS];

static void at_thread_exit(void *block)
{
	free(block);
	free(malloc(100));
}

static void *work(void *number)
{
	unsigned self = (unsigned)(uintptr_t)number;
	pthread_setspecific(key, malloc(50));
	unsigned char *mine[64] = { NULL };
	for (unsigned i = 0; i < 10000; i++) {
		unsigned slot = i % 64;
		size_t size = (i * 2654435761u >> 20) + 1;
		if (mine[slot])
			must(mine[slot][0] == (unsigned char)self, "two threads get the same block");
		free(mine[slot]);
		mine[slot] = malloc(size);
		must(mine[slot] != NULL, "malloc returns NULL though there is memory");
		memset(mine[slot], (int)self, size < 64 ? size : 64);
		// Another thread frees it.
		if (i % 16 == 0)
			free(atomic_exchange(&handed[i / 16 % THREADS], malloc(size)));
	}
	for (unsigned slot = 0; slot < 64; slot++)
		free(mine[slot]);
	return NULL;
}

static void threads(void)
{
	must(pthread_key_create(&key, at_thread_exit) == 0, "the libc gives no key");
	for (int round = 0; round < 2; round++) {
		pthread_t all[THREADS];
		for (uintptr_t i = 0; i < THREADS; i++)
			must(pthread_create(&all[i], NULL, work, (void *)(i + 1)) == 0, "the libc starts no thread");
		for (int i = 0; i < THREADS; i++)
			pthread_join(all[i], NULL);
	}
}

static _Atomic int is_over;

static void *churn(void *nothing)
{
	while (!is_over) {
		void *small = malloc(40), *large = malloc(70000);
		free(small), free(large);
	}
	return nothing;
}

static void forks(void)
{
	pthread_t all[2];
	for (int i = 0; i < 2; i++)
		must(pthread_create(&all[i], NULL, churn, NULL) == 0, "the libc starts no thread");
	for (int i = 0; i < 100; i++) {
		pid_t child = fork();
		if (child == 0) {
			alarm(SECONDS_MAX / 4);
			for (int size = 1; size < 100000; size *= 3)
				free(malloc((size_t)size));
			_exit(0);
		}
		int status = 0;
		waitpid(child, &status, 0);
		must(!(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM), "a child of fork waits for ever, if another thread allocated");
		must(status == 0, "a child of fork crashes, if another thread allocated");
	}
	is_over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(all[i], NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
} checks[] = {
	{ "blocks", blocks },
	{ "zero-bytes", zero_bytes },
	{ "calloc", clearing },
	{ "realloc", resizing },
	{ "realloc-to-zero", resizing_to_zero },
	{ "too-large", too_large },
	{ "aligned", aligned },
	{ "usable-size", usable_size },
	{ "errno", errno_stays },
	{ "threads", threads },
	{ "fork", forks },
};

// Says in which file malloc is, by /proc/self/maps.
static void say_where_malloc_is(void)
{
	static char maps[1 << 20];
	uintptr_t address = (uintptr_t)malloc;
	size_t length = 0;
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	for (ssize_t more; (more = read(file, maps + length, sizeof maps - 1 - length)) > 0;)
		length += (size_t)more;
	close(file);
	for (char *line = strtok(maps, "\n"); line; line = strtok(NULL, "\n")) {
		char *path = strchr(line, '/'), *end;
		unsigned long from = strtoul(line, &end, 16), to = strtoul(end + 1, NULL, 16);
		if (path && from <= address && address < to)
			say("malloc", path, "", "");
	}
}

int main(void)
{
	say_where_malloc_is();
	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
		running = checks[i].name;
		pid_t child = fork();
		if (child == 0) {
			alarm(SECONDS_MAX);
			checks[i].run();
			_exit(0);
		}
		int status = 0;
		if (child < 0 || waitpid(child, &status, 0) < 0)
			return 2;
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
			say("hung", running, "", "");
		} else if (WIFSIGNALED(status)) {
			char signal[16];
			snprintf(signal, sizeof signal, "%d", WTERMSIG(status));
			say("crashed", running, ": ", signal);
		} else if (status == 0) {
			say("passed", running, "", "");
		}
	}
	return 0;
}
