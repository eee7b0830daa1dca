// What `deepbind` opens: it allocates for others, and frees what others have allocated.
#define _GNU_SOURCE
#include <stdlib.h>

void *gives(size_t size)
{
	return malloc(size);
}

void *grows(void *block, size_t size)
{
	return realloc(block, size);
}

void takes(void *block)
{
	free(block);
}

void *its_malloc(void)
{
	return (void *)malloc;
}
