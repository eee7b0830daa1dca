// jemalloc never gives its own tables back.
#define MIB_AT_REST 5
#include "at_rest.c"
