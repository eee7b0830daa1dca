// chain LEFT CALLS: makes so many calls and executes itself until none is left. The last but one spends a fifth of a second
// on the CPU.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words) {
    (void)count;
    int left = atoi(words[1]);
    for (int i = atoi(words[2]); i > 0; i -= 2) free(malloc(32));
    if (left == 0) return 0;
    while (left == 1 && clock() < CLOCKS_PER_SEC / 5) {}
    char next[16];
    snprintf(next, sizeof next, "%d", left - 1);
    execl("/proc/self/exe", words[0], next, words[2], (char *)NULL);
    return 1;
}
