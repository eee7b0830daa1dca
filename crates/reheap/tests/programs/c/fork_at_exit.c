// A program ends by exit while other threads fork, flush all streams, and use streams that allocate.
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

enum { ROUNDS = 60 };

static void *fork_for_ever(void *unused)
{
	(void)unused;
	for (;;) {
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		if (child > 0)
			waitpid(child, NULL, 0);
	}
	return NULL;
}

static void *flush_for_ever(void *unused)
{
	(void)unused;
	for (;;)
		fflush(NULL);
	return NULL;
}

static void *write_for_ever(void *unused)
{
	(void)unused;
	for (;;) {
		char *text = NULL;
		size_t size;
		FILE *stream = open_memstream(&text, &size);
		if (stream == NULL)
			continue;
		fputs("some text", stream);
		fclose(stream);
		free(text);
	}
	return NULL;
}

int main(void)
{
	deadline(120);
	for (int round = 0; round < ROUNDS; round++) {
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			deadline(60);
			void *(*const work[])(void *) = { fork_for_ever, flush_for_ever, write_for_ever };
			for (int i = 0; i < 3; i++) {
				pthread_t thread;
				CHECK(pthread_create(&thread, NULL, work[i], NULL) == 0);
			}
			// Each round ends at another moment of their work.
			for (int i = 0; i < round * 20; i++)
				free(malloc(100));
			exit(7);
		}
		int status;
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	}
	puts("ok fork_at_exit");
	return 0;
}
