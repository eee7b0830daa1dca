// A thread whose stack is given by the program and ends at a page that is not there.
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

void probe(void);

static ucontext_t main_context, coroutine_context;

__attribute__((noinline)) static void in_coroutine(void) {
    probe();
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void *in_thread(void *unused) {
    probe();
    __asm__ volatile("" ::: "memory");
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, in_thread, NULL)) return 1;
    pthread_join(thread, NULL);
    size_t size = 1 << 16;
    char *stack = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(stack + size, 4096, PROT_NONE);
    getcontext(&coroutine_context);
    coroutine_context.uc_stack.ss_sp = stack;
    coroutine_context.uc_stack.ss_size = size;
    coroutine_context.uc_link = &main_context;
    makecontext(&coroutine_context, in_coroutine, 0);
    return swapcontext(&main_context, &coroutine_context);
}
