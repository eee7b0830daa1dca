// A program that brings a malloc of its own, as Firefox and Redis do; its memory is never given back.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static _Alignas(16) char memory[16 << 20];
static size_t used;

void *malloc(size_t size)
{
	size_t before = used;
	if (size > sizeof memory - used)
		return NULL;
	used += (size + 15) & ~(size_t)15;
	return memory + before;
}

void *calloc(size_t count, size_t size)
{
	return malloc(count * size);
}

void *realloc(void *block, size_t size)
{
	char *moved = malloc(size);
	size_t held = moved && block ? (size_t)(moved - (char *)block) : 0;
	return held ? memcpy(moved, block, held < size ? held : size) : moved;
}

void free(void *block)
{
	(void)block;
}

int main(void)
{
	free(malloc(100));
	return printf("%zu bytes\n", used) < 0;
}
