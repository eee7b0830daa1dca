// The same while other threads allocate. musl's own allocator does not survive it: its fork waits for its own lock.
#define OTHERS 2
#include "fork_in_handler.c"
