// Two hundred forks while other threads use streams, which allocate under the libc's own locks.
//
// `fflush(NULL)` holds the lock of the list of all streams while it waits for one that grows or reads, or while it
// writes to one whose function allocates, and fork takes that lock. An allocator that stops the other threads before
// fork has the lock waits for fork, while fork waits for a thread that it stopped.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { FLUSHERS = 4, WRITERS = 4, FORKS = TIMES(200) };

static atomic_bool stop;
static FILE *log_stream;

static void *flush_all(void *unused)
{
	(void)unused;
	while (!stop) {
		CHECK(fflush(NULL) == 0);
		usleep(100); // glibc's lock is not fair: fork would wait for seconds
	}
	return NULL;
}

static void write_to_memory(int lines)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	CHECK(stream != NULL);
	for (int i = 0; i < lines; i++)
		CHECK(fputs("a line that makes the stream grow\n", stream) >= 0);
	CHECK(fclose(stream) == 0);
	CHECK(size == (size_t)lines * 34 && strlen(text) == size);
	free(text);
}

// The first write allocates the stream's buffer, the first line read its own.
static void use_files(void)
{
	FILE *file = fopen("/dev/null", "w");
	CHECK(file != NULL);
	CHECK(fputs("nothing", file) >= 0);
	CHECK(fclose(file) == 0);
	file = fopen("/proc/self/comm", "r");
	CHECK(file != NULL);
	char *line = NULL;
	size_t size = 0;
	CHECK(getline(&line, &size, file) > 0);
	free(line);
	CHECK(fclose(file) == 0);
}

static ssize_t write_to_heap(void *cookie, const char *bytes, size_t size)
{
	char *block = malloc(size + 1000);
	(void)cookie;
	CHECK(block != NULL);
	memcpy(block, bytes, size);
	free(block);
	return (ssize_t)size;
}

static void *write_often(void *unused)
{
	(void)unused;
	for (int i = 0; !stop; i++) {
		write_to_memory(i % 300);
		use_files();
		CHECK(fputs("for the next flush", log_stream) >= 0);
	}
	return NULL;
}

// Streams of its own: one that another thread had locked stays locked in musl's children.
static void child(int number)
{
	deadline(40);
	for (size_t i = 0; i < 100; i++)
		free(malloc(i * 100 + 1));
	write_to_memory(number);
	use_files();
	_exit(0);
}

int main(void)
{
	deadline(120);
	log_stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = write_to_heap });
	CHECK(log_stream != NULL);
	pthread_t threads[FLUSHERS + WRITERS];
	for (int i = 0; i < FLUSHERS + WRITERS; i++)
		CHECK(pthread_create(&threads[i], NULL, i < FLUSHERS ? flush_all : write_often, NULL) == 0);
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (pid == 0)
			child(i);
		int status;
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(status == 0);
		write_to_memory(i);
	}
	stop = 1;
	for (int i = 0; i < FLUSHERS + WRITERS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	return passed("fork_stdio");
}
