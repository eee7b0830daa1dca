// How much of the program is resident, without an allocation: `statm_bytes` has a stream, and with it blocks of other
// sizes.
#ifndef RESIDENT_H
#define RESIDENT_H
#include "check.h"
#include <fcntl.h>

static inline size_t resident_bytes(void)
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
#endif
