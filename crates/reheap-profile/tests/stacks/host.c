// Loads a library when it is told to (a line on its standard input), and ends at the next line.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) void from_host(void (*function)(void)) {
    function();
    __asm__ volatile("" ::: "memory");
}

int main(int count, char **arguments) {
    char line[100];
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : dlopen(NULL, RTLD_NOW);
    if (!library) {
        fputs(dlerror(), stderr);
        return 2;
    }
    from_host((void (*)(void))dlsym(library, "from_plugin"));
    puts("done");
    fflush(stdout);
    return !fgets(line, sizeof line, stdin);
}
