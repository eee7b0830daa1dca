// What another thread freed is given back, also if the thread that allocated it does nothing but use one block over and
// over: a short way for that one block must not keep the allocator from looking at all others.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>

enum { BLOCKS = 100000, SIZE = 1000, ROUND = 10000 };

static void *blocks[BLOCKS];

static void *free_all(void *unused)
{
	(void)unused;
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return NULL;
}

// Unlike `statm_bytes` without a stream, which would allocate blocks of other sizes.
static size_t resident_bytes(void)
{
	char text[256];
	int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	CHECK(file >= 0);
	ssize_t length = read(file, text, sizeof text - 1);
	CHECK(length > 0);
	close(file);
	text[length] = 0;
	char *field = text;
	strtoul(field, &field, 10);
	return strtoul(field, &field, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

int main(void)
{
	deadline(30);
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(SIZE);
		CHECK(blocks[i] != NULL);
		memset(blocks[i], i, SIZE);
	}
	size_t full = resident_bytes();
	CHECK(full > (size_t)BLOCKS * SIZE);
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, free_all, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	// When that is seen is the allocator's business, whether it is seen is not: the deadline decides.
	do {
		for (int i = 0; i < ROUND; i++) {
			void *volatile block = malloc(40);
			free(block);
		}
	} while (resident_bytes() > full / 2);
	return passed("one_block");
}
