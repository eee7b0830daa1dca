#include <stdio.h>
#include <stdlib.h>

int main(int c, char **v) {
    char *p = malloc(c);
    printf("%p %f", p, c / 3.0);
    free(p);
    return 0;
}
