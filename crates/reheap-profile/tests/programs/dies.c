// Ends as its first argument says. The functions around the end are for its stack.

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf before_fault;
static volatile char *volatile nowhere = (char *)0x1230;

__attribute__((noinline)) static void innermost(const char *how)
{
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "fault"))
        *nowhere = 1;
    if (!strcmp(how, "trap"))
        __builtin_trap();
}

__attribute__((noinline)) static void middle(const char *how)
{
    innermost(how);
    // Otherwise the call above becomes a jump.
    __asm__ volatile("");
}

static void survive(int signal)
{
    (void)signal;
    siglongjmp(before_fault, 1);
}

static void report(int number)
{
    signal(number, SIG_DFL);
    raise(number);
}

static void *in_thread(void *how)
{
    middle(how);
    return NULL;
}

static void *become_true(void *nothing)
{
    execlp("true", "true", (char *)NULL);
    return nothing;
}

static void start_thread(const char *how)
{
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, (void *)how);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    const char *where = argv[1], *how = argc > 2 ? argv[2] : "";
    if (!strcmp(where, "here"))
        middle(how);
    if (!strcmp(where, "thread"))
        start_thread(how);
    if (!strcmp(where, "exec-in-thread")) {
        if (fork() == 0) {
            pthread_t thread;
            pthread_create(&thread, NULL, become_true, NULL);
            pthread_join(thread, NULL);
        }
    }
    if (!strcmp(where, "child") && fork() == 0)
        middle(how);
    if (!strcmp(where, "survives")) {
        signal(SIGSEGV, survive);
        if (!sigsetjmp(before_fault, 1))
            middle("fault");
        middle(how);
    }
    if (!strcmp(where, "children")) {
        // All wait until the pipe is closed, or each is over before the next one begins.
        int is_together = !strcmp(how, "together"), gate[2];
        if (pipe(gate))
            return 1;
        for (int i = 0; i < 2; i++) {
            if (fork() == 0) {
                char byte;
                close(gate[1]);
                if (is_together && read(gate[0], &byte, 1))
                    return 1;
                middle("abort");
            }
            if (!is_together)
                wait(NULL);
        }
        close(gate[1]);
    }
    if (!strcmp(where, "reports")) {
        signal(SIGSEGV, report);
        middle("fault");
    }
    if (!strcmp(where, "leaves-child")) {
        if (fork() == 0)
            for (;;)
                pause();
        puts("left");
        return 7;
    }
    if (!strcmp(where, "many")) {
        for (int i = 0; i < 500; i++) {
            if (fork() == 0)
                _exit(0);
            wait(NULL);
        }
    }
    if (!strcmp(where, "killed"))
        kill(getpid(), SIGTERM);
    if (!strcmp(where, "stops")) {
        pid_t child = fork();
        if (child == 0) {
            raise(SIGSTOP);
            _exit(3);
        }
        int status;
        waitpid(child, &status, WUNTRACED);
        if (!WIFSTOPPED(status))
            return 1;
        kill(child, SIGCONT);
        waitpid(child, &status, 0);
        return WEXITSTATUS(status);
    }
    if (!strcmp(where, "real-time")) {
        signal(SIGRTMIN + 3, SIG_IGN);
        raise(SIGRTMIN + 3);
    }
    while (wait(NULL) > 0)
        ;
    return 5;
}
