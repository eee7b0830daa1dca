// A timer's handler forks, in a thread that it interrupted in the middle of an allocation.
//
// The thread may hold any lock of the allocator then, and fork must not wait for it. Without other threads the child
// has all of the heap's state, so it may return from the handler and allocate on; the parent always may. Build with
// -DOTHERS=2 for other threads that allocate too: then the child does what POSIX allows, which is to execute or to end.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>

#ifndef OTHERS
#define OTHERS 0
#endif

enum { FORKS = TIMES(80), STEPS_OF_CHILD = 2000 };

static atomic_int forks;
static atomic_bool stop;
static volatile sig_atomic_t is_child;

// One signal. If the timer went on, the next one could always be there when the handler returns, because the other
// threads use CPU time while it forks. The interrupted thread would then never get any further.
static void set_timer(long microseconds)
{
	struct itimerval timer = { .it_value = { 0, microseconds } };
	CHECK(setitimer(ITIMER_PROF, &timer, NULL) == 0);
}

static void wait_for(pid_t pid)
{
	int status;
	pid_t ended;
	while ((ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR) {}
	CHECK(ended == pid);
	CHECK(status == 0);
}

static void end_as_child(int number)
{
	if (number % 4 == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(3);
	}
	_exit(0);
}

static void fork_now(int signal_number)
{
	int errno_before = errno;
	(void)signal_number;
	if (is_child || stop)
		return;
	int number = atomic_fetch_add(&forks, 1);
	pid_t pid = fork(); // timers are not inherited
	CHECK(pid >= 0);
	if (pid == 0) {
		is_child = 1;
		deadline(20);
		if (OTHERS || number % 2 == 0)
			end_as_child(number);
		return;
	}
	wait_for(pid);
	set_timer(1000);
	errno = errno_before;
}

static char *blocks[128];

// Sizes beyond what allocators keep for each thread, so that locks are taken often.
static void step(char **blocks, unsigned *state)
{
	unsigned i = next_random(state) % 128;
	size_t size = next_random(state) % (*state % 4 == 0 ? 300000 : 20000) + 1;
	if (*state % 3 == 0) {
		blocks[i] = realloc(blocks[i], size);
	} else {
		free(blocks[i]);
		blocks[i] = *state % 3 == 1 ? malloc(size) : aligned_alloc(64, (size + 63) / 64 * 64);
	}
	CHECK(blocks[i] != NULL);
	blocks[i][0] = blocks[i][size - 1] = 1;
}

static void *allocate(void *number)
{
	sigset_t mask;
	sigemptyset(&mask);
	sigaddset(&mask, SIGPROF);
	CHECK(pthread_sigmask(SIG_BLOCK, &mask, NULL) == 0);
	unsigned state = (unsigned)(uintptr_t)number;
	char *own[128] = { 0 };
	while (!stop)
		step(own, &state);
	for (int i = 0; i < 128; i++)
		free(own[i]);
	return NULL;
}

int main(void)
{
	deadline(200);
	pthread_t threads[OTHERS + 1];
	for (uintptr_t i = 0; i < OTHERS; i++)
		CHECK(pthread_create(&threads[i], NULL, allocate, (void *)(i + 1)) == 0);
	struct sigaction action = { .sa_handler = fork_now, .sa_flags = SA_RESTART };
	CHECK(sigaction(SIGPROF, &action, NULL) == 0);
	set_timer(1000);
	unsigned state = 7;
	while (forks < FORKS && !is_child)
		step(blocks, &state);
	if (is_child) {
		for (int i = 0; i < STEPS_OF_CHILD; i++)
			step(blocks, &state);
		_exit(0);
	}
	stop = 1;
	set_timer(0);
	for (int i = 0; i < OTHERS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	for (int i = 0; i < 128; i++)
		free(blocks[i]);
	return passed("fork_in_handler");
}
