// What every program of the C suite shares: a check that names its line, a deadline, blocks whose contents are known.
//
// A failed check ends the process at once, whichever thread it is in, so that the first failure is the one reported.
#ifndef CHECK_H
#define CHECK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

// How often a program tries what goes wrong by chance. `make test` tries a quarter of it (`common/multi_call.rs`).
#ifdef SAMPLE
#define TIMES(all) ((all) / 4)
#else
#define TIMES(all) (all)
#endif

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

// The least size that realloc gives a block for: glibc frees when it is 0 (see `family`).
#ifdef __GLIBC__
#define REALLOC_MIN ((size_t)1)
#else
#define REALLOC_MIN ((size_t)0)
#endif

static inline void check_failed(const char *file, int line, const char *condition)
{
	char message[512];
	int length = snprintf(message, sizeof message, "%s:%d: check failed: %s (errno %d)\n", file, line, condition, errno);
	if (write(STDOUT_FILENO, message, (size_t)length) < 0)
		_exit(2);
	_exit(1);
}

static void deadline_passed(int signal_number)
{
	static const char message[] = "deadline passed: a deadlock, or a machine that is far too busy\n";
	(void)signal_number;
	if (write(STDOUT_FILENO, message, sizeof message - 1) < 0)
		_exit(2);
	_exit(1);
}

// A deadlock must be a failure that says so, not a test that never ends.
static inline void deadline(unsigned seconds)
{
	signal(SIGALRM, deadline_passed);
	alarm(seconds);
}

static inline int passed(const char *name)
{
	printf("ok %s\n", name);
	return 0;
}

// Large blocks are touched once per 1021 bytes (a prime below a page) so that the suite stays fast.
static inline size_t stride(size_t size)
{
	return size > 64 * KIB ? 1021 : 1;
}

static inline unsigned char expected_byte(size_t offset, unsigned seed)
{
	return (unsigned char)(offset * 31 + offset / 251 + seed);
}

static inline void fill(void *block, size_t size, unsigned seed)
{
	unsigned char *bytes = block;
	if (size == 0)
		return;
	for (size_t i = 0; i < size; i += stride(size))
		bytes[i] = expected_byte(i, seed);
	bytes[size - 1] = expected_byte(size - 1, seed);
}

// `filled` is the size that `fill` was given, `size` how much of it must still be there.
static inline int holds(const void *block, size_t size, size_t filled, unsigned seed)
{
	const unsigned char *bytes = block;
	for (size_t i = 0; i < size; i += stride(filled))
		if (bytes[i] != expected_byte(i, seed))
			return 0;
	return size < filled || size == 0 || bytes[size - 1] == expected_byte(size - 1, seed);
}

static inline int is_zero(const void *block, size_t size)
{
	const unsigned char *bytes = block;
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != 0)
			return 0;
	return 1;
}

static inline int is_aligned(const void *block, size_t alignment)
{
	return (uintptr_t)block % alignment == 0;
}

// Numerical Recipes' generator: the same numbers in every run and for every allocator.
static inline unsigned next_random(unsigned *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

// From the field `column` of /proc/self/statm, 0 for the address space and 1 for what is resident; without an
// allocation.
static inline size_t statm_bytes(int column)
{
	char text[256];
	FILE *file = fopen("/proc/self/statm", "r");
	CHECK(file != NULL);
	CHECK(fgets(text, sizeof text, file) != NULL);
	fclose(file);
	char *field = text;
	size_t pages = strtoul(field, &field, 10);
	for (int i = 0; i < column; i++)
		pages = strtoul(field, &field, 10);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

// The most that was in memory at once.
static inline size_t peak_bytes(void)
{
	char line[256];
	size_t kib = 0;
	FILE *file = fopen("/proc/self/status", "r");
	CHECK(file != NULL);
	while (kib == 0 && fgets(line, sizeof line, file) != NULL)
		if (strncmp(line, "VmHWM:", 6) == 0)
			kib = strtoul(line + 6, NULL, 10);
	fclose(file);
	return kib * KIB;
}
#endif
