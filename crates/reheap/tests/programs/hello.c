// A small program: one block, one line.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    char *line = malloc(100);
    if (!line) return 1;
    strcpy(line, "hello");
    puts(line);
    free(line);
    return 0;
}
