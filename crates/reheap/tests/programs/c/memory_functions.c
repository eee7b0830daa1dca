// The memory functions against loops, at every offset and at the very end of a page, where reading too far is a fault.
#include "check.h"
#include <sys/mman.h>

enum { LENGTH_MAX = 320, OFFSETS = 33 };

static unsigned char *page_end;     // the byte behind it is not mapped
static unsigned char *page_end_too;

static unsigned char *end_of_mapping(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 4;
	unsigned char *start = mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(start != MAP_FAILED);
	CHECK(mprotect(start + pages * page, page, PROT_NONE) == 0);
	return start + pages * page;
}

static void numbered(unsigned char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = expected_byte(i, 77);
}

static void copies(size_t length, size_t offset)
{
	unsigned char *from = page_end - length - offset, *to = page_end_too - length - (offset * 7) % OFFSETS;
	numbered(from, length);
	to[-1] = 0xfe;
	CHECK(memcpy(to, from, length) == to);
	for (size_t i = 0; i < length; i++)
		CHECK(to[i] == expected_byte(i, 77));
	CHECK(to[-1] == 0xfe);
	CHECK(mempcpy(to, from, length) == to + length);
	CHECK(memcmp(to, from, length) == 0);
	for (size_t at = 0; at < length; at += 1 + length / 20) {
		to[at] ^= 0x80;
		int sign = to[at] < from[at] ? -1 : 1;
		CHECK(memcmp(to, from, length) * sign > 0);
		CHECK(memcmp(from, to, length) * sign < 0);
		CHECK(memcmp(to, from, at) == 0);
		to[at] ^= 0x80;
	}
}

static void moves(size_t length, size_t offset)
{
	static unsigned char room[LENGTH_MAX + 2 * OFFSETS], expected[LENGTH_MAX + 2 * OFFSETS];
	for (size_t from = 0; from <= OFFSETS; from += 11) {
		numbered(room, sizeof room);
		numbered(expected, sizeof expected);
		for (size_t i = 0; i < length; i++)
			expected[offset + i] = room[from + i];
		CHECK(memmove(room + offset, room + from, length) == room + offset);
		for (size_t i = 0; i < sizeof room; i++)
			CHECK(room[i] == expected[i]);
	}
}

static void sets(size_t length, size_t offset)
{
	unsigned char *to = page_end - length - offset;
	unsigned char guard[2] = { 0x11, 0x22 };
	to[-1] = guard[0];
	if (offset > 0)
		to[length] = guard[1];
	CHECK(memset(to, 0x1c3, length) == to); // only the low byte counts
	for (size_t i = 0; i < length; i++)
		CHECK(to[i] == 0xc3);
	CHECK(to[-1] == guard[0] && (offset == 0 || to[length] == guard[1]));
}

static void searches(size_t length, size_t offset)
{
	unsigned char *bytes = page_end - length - 1 - offset;
	memset(bytes, 'x', length);
	bytes[length] = 0;
	CHECK(strlen((char *)bytes) == length);
	CHECK(strnlen((char *)bytes, length / 2) == length / 2);
	CHECK(memchr(bytes, 'y', length) == NULL);
	CHECK(memchr(bytes, 0, length + 1) == bytes + length);
	CHECK(memrchr(bytes, 'y', length) == NULL);
	CHECK(strchr((char *)bytes, 'y') == NULL);
	CHECK(strchr((char *)bytes, 0) == (char *)bytes + length);
	for (size_t at = 0; at < length; at += 1 + length / 20) {
		bytes[at] = 'y';
		CHECK(memchr(bytes, 'y', length) == bytes + at);
		CHECK(memchr(bytes, 'y' | 0x500, SIZE_MAX) == bytes + at); // C11 7.24.5.1: stops at the first match
		CHECK(memrchr(bytes, 'y', length) == bytes + at);
		CHECK(strchr((char *)bytes, 'y') == (char *)bytes + at);
		bytes[at] = 'x';
	}
}

int main(void)
{
	deadline(120);
	page_end = end_of_mapping();
	page_end_too = end_of_mapping();
	for (size_t length = 0; length <= LENGTH_MAX; length++)
		for (size_t offset = 0; offset < OFFSETS; offset += length < 140 ? 1 : 8) {
			copies(length, offset);
			moves(length, offset);
			sets(length, offset);
			searches(length, offset);
		}
	static unsigned char large[3 * MIB], copy[3 * MIB];
	for (size_t length = 1000; length < sizeof large - 64; length = length * 3 / 2) {
		numbered(large, length);
		CHECK(memcpy(copy + 3, large + 1, length) == copy + 3);
		CHECK(memcmp(copy + 3, large + 1, length) == 0);
		CHECK(memmove(large + 33, large, length) == large + 33);
		for (size_t i = 0; i < length; i++)
			CHECK(large[33 + i] == expected_byte(i, 77));
		CHECK(memmove(large, large + 33, length) == large);
		for (size_t i = 0; i < length; i++)
			CHECK(large[i] == expected_byte(i, 77));
		memset(large + 5, 9, length);
		CHECK(large[5] == 9 && large[4 + length] == 9 && large[4] == expected_byte(4, 77));
	}
	return passed("memory_functions");
}
