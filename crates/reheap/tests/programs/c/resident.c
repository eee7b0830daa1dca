// A child that says when it has memory of the kind that its first argument names, and outlives its parent, the command: so
// whoever profiles the command sees the child last in a state that is known. With "waits", it is the command itself.
// It ends when its input does.
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { BLOCKS = 40000, BLOCK_BYTES = 500, MAPPED_BYTES = 8 << 20 };

static char *blocks[BLOCKS];

static void use_memory(const char *what) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        if (!blocks[i]) abort();
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    // The last block keeps the end of a heap where it is.
    int step = strcmp(what, "frees") == 0 ? BLOCKS : strcmp(what, "scatters") == 0 ? 32 : 1;
    for (int i = 0; i < BLOCKS; i++) {
        if ((i + 1) % step != 0) free(blocks[i]);
    }
    char *mapped = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) abort();
    memset(mapped, 1, MAPPED_BYTES);
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    int ready[2], is_waiting = strcmp(what, "waits") == 0;
    char byte = 0;
    if (pipe(ready) != 0) abort();
    if (!is_waiting && fork() != 0) return read(ready[0], &byte, 1) == 1 ? 0 : 1;
    // Who profiles is no ancestor any more when the parent ends. Some systems let only an ancestor look.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    use_memory(what);
    if (write(is_waiting ? 1 : ready[1], "ready", 5) != 5) abort();
    // Whoever reads the command's output waits until nobody has it open.
    close(1);
    close(2);
    // So that whoever comes later sees blocks too.
    struct pollfd input = {0, POLLIN, 0};
    while (poll(&input, 1, 1) == 0) free(malloc(BLOCK_BYTES));
    return read(0, &byte, 1) == 0 ? 0 : 1;
}
