// Starts a program in each of the ways that there are: `starts HOW PROGRAM`. With `nothing` in front, the program gets no
// environment. It ends as the program does.
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void become(const char *how, char **words)
{
	const char *name = words[0];
	if (strcmp(how, "execve") == 0)
		execve(name, words, environ);
	if (strcmp(how, "execv") == 0)
		execv(name, words);
	if (strcmp(how, "execvp") == 0)
		execvp(name, words);
	if (strcmp(how, "execvpe") == 0)
		execvpe(name, words, environ);
	if (strcmp(how, "execl") == 0)
		execl(name, name, words[1], NULL);
	if (strcmp(how, "execlp") == 0)
		execlp(name, name, words[1], NULL);
	if (strcmp(how, "execle") == 0)
		execle(name, name, words[1], NULL, environ);
	if (strcmp(how, "fexecve") == 0)
		fexecve(open(name, O_RDONLY), words, environ);
}

int main(int count, char **words)
{
	char *nothing[] = {NULL};
	int how = 1;
	if (count < 3)
		return 2;
	if (strcmp(words[how], "nothing") == 0) {
		environ = nothing;
		how++;
	}
	pid_t child = 0;
	int status = 0;
	free(malloc(1));
	if (strcmp(words[how], "posix_spawn") == 0)
		status = posix_spawn(&child, words[how + 1], NULL, NULL, words + how + 1, environ);
	else if (strcmp(words[how], "posix_spawnp") == 0)
		status = posix_spawnp(&child, words[how + 1], NULL, NULL, words + how + 1, environ);
	else
		become(words[how], words + how + 1);
	if (child == 0 || status != 0)
		return 3; // it did not start
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}
