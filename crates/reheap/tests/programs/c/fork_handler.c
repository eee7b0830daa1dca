// A fork whose handlers, a library's, wait for threads that allocate.
#include "check.h"
#include <sys/wait.h>

void start_workers(void);

int main(void)
{
	deadline(60);
	start_workers();
	for (int i = 0; i < 50; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			void *volatile block = malloc(1000);
			_exit(block == NULL);
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	return passed("fork_handler");
}
