// Allocates in the ways that the probe has to see: on threads, in a forked child, in a program that is executed, and
// before it is killed.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 1000 };

static void *allocate(void *unused)
{
	for (int i = 1; i <= BLOCKS; i++)
		free(malloc((size_t)i));
	return unused;
}

static void on_threads(void)
{
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, allocate, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static void every_function(void)
{
	void *block = NULL;
	free(realloc(calloc(10, 10), 1000));
	free(aligned_alloc(64, 64));
	if (posix_memalign(&block, 64, 64) == 0)
		free(block);
}

static int in_child(char *program)
{
	pid_t child = fork();
	if (child == 0) {
		allocate(NULL);
		if (program)
			execl(program, program, "threads", NULL);
		_exit(0);
	}
	int status;
	return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

// An executable that is not position-independent has a place for it.
void *(*volatile address_of_malloc)(size_t) = malloc;

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "";
	if (strcmp(what, "threads") == 0)
		on_threads();
	if (strcmp(what, "functions") == 0)
		every_function();
	if (strcmp(what, "fork") == 0)
		return in_child(NULL);
	if (strcmp(what, "exec") == 0)
		return in_child(words[2]);
	if (strcmp(what, "killed") == 0) {
		allocate(NULL);
		kill(getpid(), SIGKILL);
	}
	return 0;
}
