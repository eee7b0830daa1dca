// Several threads fork at the same moment, handlers of pthread_atfork allocate, and the first allocation may be the
// child's.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

static char *from_prepare;
static atomic_int handlers_called;

static void prepare(void)
{
	from_prepare = malloc(100);
	fill(from_prepare, 100, 1);
	atomic_fetch_add(&handlers_called, 1);
}

static void after(void)
{
	CHECK(holds(from_prepare, 100, 100, 1));
	free(from_prepare);
	free(malloc(5000));
	atomic_fetch_add(&handlers_called, 1);
}

static void wait_for(pid_t pid)
{
	int status;
	CHECK(pid > 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(status == 0);
}

static void *fork_often(void *unused)
{
	(void)unused;
	for (int i = 0; i < 50; i++) {
		char *inherited = malloc(1000);
		fill(inherited, 1000, 2);
		pid_t pid = fork();
		if (pid == 0) {
			deadline(60);
			CHECK(holds(inherited, 1000, 1000, 2));
			inherited = realloc(inherited, 100000);
			CHECK(inherited != NULL && holds(inherited, 1000, 1000, 2));
			free(inherited);
			_exit(0);
		}
		wait_for(pid);
		CHECK(holds(inherited, 1000, 1000, 2));
		free(inherited);
	}
	return NULL;
}

int main(void)
{
	deadline(120);
	pid_t pid = fork();
	if (pid == 0) {
		deadline(60);
		char *block = malloc(10);
		CHECK(block != NULL);
		free(block);
		_exit(0);
	}
	wait_for(pid);

	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, fork_often, NULL) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);

	CHECK(pthread_atfork(prepare, after, after) == 0);
	pid = fork();
	if (pid == 0) {
		CHECK(handlers_called == 2);
		_exit(0);
	}
	wait_for(pid);
	CHECK(handlers_called == 2);
	return passed("fork_at_once");
}
