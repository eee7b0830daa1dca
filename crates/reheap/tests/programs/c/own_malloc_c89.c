// A program that defines only malloc, calloc, realloc and free, as many embedded heaps do.
#define ONLY_THE_FOUR_OF_C89
#include "own_malloc.c"
