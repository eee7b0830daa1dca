// Every way to start a program, from several threads while others allocate: the child shares the memory or has a copy.
#include "check.h"
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { SPAWNERS = 4, ALLOCATORS = 3, ROUNDS = TIMES(20) };

extern char **environ;

static atomic_bool stop;

static void *allocate(void *number)
{
	unsigned state = (unsigned)(uintptr_t)number;
	char *blocks[64] = { 0 };
	while (!stop) {
		unsigned i = next_random(&state) % 64;
		free(blocks[i]);
		blocks[i] = malloc(next_random(&state) % (state % 16 == 0 ? 200000 : 2000) + 1);
		CHECK(blocks[i] != NULL);
		blocks[i][0] = 1;
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	return NULL;
}

static void ends_well(pid_t pid)
{
	int status;
	CHECK(pid > 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(status == 0);
}

static void by_posix_spawn(void)
{
	char *arguments[] = { "true", NULL };
	posix_spawn_file_actions_t actions;
	CHECK(posix_spawn_file_actions_init(&actions) == 0);
	CHECK(posix_spawn_file_actions_addopen(&actions, 9, "/dev/null", 0, 0) == 0);
	pid_t pid;
	CHECK(posix_spawnp(&pid, "true", &actions, NULL, arguments, environ) == 0);
	CHECK(posix_spawn_file_actions_destroy(&actions) == 0);
	ends_well(pid);
}

static void by_vfork(void)
{
	pid_t pid = vfork();
	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(3);
	}
	ends_well(pid);
}

static void by_fork(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		execlp("true", "true", (char *)NULL);
		_exit(3);
	}
	ends_well(pid);
}

// One at a time: musl's popen may otherwise close a descriptor of its own that was another stream's until just now.
static void by_popen(void)
{
	static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
	char line[64];
	CHECK(pthread_mutex_lock(&turn) == 0);
	FILE *stream = popen("echo from a shell", "r");
	CHECK(stream != NULL);
	CHECK(fgets(line, sizeof line, stream) != NULL);
	CHECK(strcmp(line, "from a shell\n") == 0);
	CHECK(pclose(stream) == 0);
	CHECK(pthread_mutex_unlock(&turn) == 0);
}

static void *spawn(void *unused)
{
	(void)unused;
	for (int i = 0; i < ROUNDS; i++) {
		by_posix_spawn();
		by_vfork();
		by_fork();
		by_popen();
		CHECK(system("exit 0") == 0);
	}
	return NULL;
}

int main(void)
{
	deadline(200);
	pthread_t threads[SPAWNERS + ALLOCATORS];
	for (uintptr_t i = 0; i < SPAWNERS + ALLOCATORS; i++)
		CHECK(pthread_create(&threads[i], NULL, i < SPAWNERS ? spawn : allocate, (void *)(i + 1)) == 0);
	for (int i = 0; i < SPAWNERS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	stop = 1;
	for (int i = SPAWNERS; i < SPAWNERS + ALLOCATORS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	return passed("spawn");
}
