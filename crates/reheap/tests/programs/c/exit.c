// The heap works before main, in atexit handlers, in destructors, and while other threads still run.
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

static char *from_constructor;
static int handlers_called;

__attribute__((constructor(101))) static void before_main(void)
{
	from_constructor = malloc(200);
	fill(from_constructor, 200, 1);
}

static void use_heap(void)
{
	for (size_t size = 1; size < MIB; size = size * 3 + 1) {
		char *block = malloc(size), *aligned = aligned_alloc(256, size);
		CHECK(block != NULL && aligned != NULL);
		fill(block, size, 5);
		block = realloc(block, size * 2);
		CHECK(block != NULL && holds(block, size, size, 5));
		free(block), free(aligned);
	}
}

static void handler(void)
{
	use_heap();
	handlers_called++;
}

static void handler_that_registers_another(void)
{
	handler();
	CHECK(atexit(handler) == 0);
}

__attribute__((destructor(101))) static void after_main(void)
{
	if (from_constructor == NULL)
		return;
	CHECK(handlers_called == 102);
	use_heap();
	CHECK(holds(from_constructor, 200, 200, 1));
	free(from_constructor);
	static const char message[] = "ok exit\n";
	CHECK(write(STDOUT_FILENO, message, sizeof message - 1) == sizeof message - 1);
}

static void *allocate_for_ever(void *unused)
{
	(void)unused;
	for (;;)
		use_heap();
	return NULL;
}

static void exits_with(int expected, void (*end)(void))
{
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		from_constructor = NULL; // not the process that reports
		deadline(60);
		pthread_t thread;
		CHECK(pthread_create(&thread, NULL, allocate_for_ever, NULL) == 0);
		end();
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == expected);
}

static void end_by_quick_exit(void)
{
	CHECK(at_quick_exit(use_heap) == 0);
	quick_exit(3);
}

static void end_by_exit(void)
{
	CHECK(atexit(use_heap) == 0);
	exit(4);
}

int main(void)
{
	deadline(120);
	CHECK(holds(from_constructor, 200, 200, 1));
	exits_with(3, end_by_quick_exit);
	exits_with(4, end_by_exit);
	// musl keeps 32 handlers in place and allocates for more.
	for (int i = 0; i < 100; i++)
		CHECK(atexit(handler) == 0);
	CHECK(atexit(handler_that_registers_another) == 0);
	for (int i = 0; i < 3; i++) {
		pthread_t thread;
		CHECK(pthread_create(&thread, NULL, allocate_for_ever, NULL) == 0);
	}
	return 0; // after_main reports
}
