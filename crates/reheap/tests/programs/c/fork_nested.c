// A signal handler forks in a thread that is about to fork, or has just forked, while another thread allocates.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { FORKS = TIMES(300) };

static atomic_int begun, handled, is_done;

static void wait_for(pid_t child, int expected)
{
	int status;
	pid_t ended;
	do
		ended = waitpid(child, &status, 0);
	while (ended < 0 && errno == EINTR);
	CHECK(ended == child && WIFEXITED(status) && WEXITSTATUS(status) == expected);
}

// The child of a handler may do little: it ends.
static void fork_again(int signal_number)
{
	(void)signal_number;
	int errno_before = errno;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(5);
	wait_for(child, 5);
	atomic_fetch_add(&handled, 1);
	errno = errno_before;
}

// One signal for each fork, each at another moment of it.
static void *interrupt(void *thread)
{
	for (int seen = 0; !atomic_load(&is_done);) {
		for (int i = 0; i < seen % 60; i++) {
			char *block = malloc(3000);
			CHECK(block != NULL);
			fill(block, 3000, 1);
			free(block);
		}
		int now = atomic_load(&begun);
		if (now != seen)
			CHECK(pthread_kill(*(pthread_t *)thread, SIGUSR1) == 0);
		seen = now;
	}
	return NULL;
}

int main(void)
{
	deadline(120);
	struct sigaction action = { .sa_handler = fork_again, .sa_flags = SA_RESTART };
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	pthread_t self = pthread_self(), other;
	CHECK(pthread_create(&other, NULL, interrupt, &self) == 0);
	for (int i = 0; i < FORKS || atomic_load(&handled) < FORKS; i++) {
		atomic_fetch_add(&begun, 1);
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			char *block = malloc(500);
			CHECK(block != NULL);
			free(block);
			_exit(6);
		}
		wait_for(child, 6);
	}
	atomic_store(&is_done, 1);
	CHECK(pthread_join(other, NULL) == 0);
	puts("ok fork_nested");
	return 0;
}
