// Starts a child that dies by SIGUSR1 and asks for its end by the function that is named; or a child of which nobody
// asks.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t start_and_kill(void)
{
	pid_t child = fork();
	if (child == 0) {
		raise(SIGUSR1);
		_exit(0);
	}
	return child;
}

// Whether SIGUSR1 is what the function told; nothing may be changed on the way.
static int was_told(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1;
}

int main(int count, char **words)
{
	const char *function = count > 1 ? words[1] : "";
	struct rusage usage;
	siginfo_t info;
	int status = 0;
	if (strcmp(function, "system") == 0)
		return !was_told(system("kill -USR1 $$"));
	if (strcmp(function, "pclose") == 0)
		return !was_told(pclose(popen("kill -USR1 $$", "r")));
	if (strcmp(function, "nobody") == 0)
		signal(SIGCHLD, SIG_IGN);
	pid_t child = start_and_kill();
	if (strcmp(function, "wait") == 0)
		return wait(&status) != child || !was_told(status);
	if (strcmp(function, "waitpid") == 0)
		return waitpid(child, &status, 0) != child || !was_told(status);
	if (strcmp(function, "without a place") == 0)
		return waitpid(child, NULL, 0) != child;
	if (strcmp(function, "wait3") == 0)
		return wait3(&status, 0, &usage) != child || !was_told(status);
	if (strcmp(function, "wait4") == 0)
		return wait4(child, &status, 0, &usage) != child || !was_told(status);
	if (strcmp(function, "waitid") == 0)
		return waitid(P_PID, (id_t)child, &info, WEXITED) != 0 || info.si_status != SIGUSR1;
	if (strcmp(function, "nobody") == 0)
		return wait(NULL) != -1; // when all have ended
	return 2;
}
