// That an allocator and another preload both do their work in one process.
//
// `other_preloads ALLOCATOR WHAT [ARGUMENT]`: ALLOCATOR's library `libALLOCATOR-VERSION.so` must be the one whose
// malloc is called, and the other preload must have its effect, by name: see `effects`. Dynamic, with glibc, only.
#include "check.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio_ext.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static void allocator_is(const char *name)
{
	Dl_info info;
	void *(*function)(size_t) = malloc;
	CHECK(dladdr((void *)function, &info) != 0);
	const char *file = strrchr(info.dli_fname, '/');
	char expected[128];
	int length = snprintf(expected, sizeof expected, "/lib%s-", name);
	CHECK(file && strncmp(file, expected, (size_t)length) == 0 && file[length] >= '0' && file[length] <= '9');
}

static void *allocate(void *number)
{
	unsigned state = (unsigned)(uintptr_t)number;
	char *blocks[64] = { 0 };
	for (int step = 0; step < 20000; step++) {
		unsigned i = next_random(&state) % 64;
		size_t size = next_random(&state) % (state % 100 == 0 ? 3000000 : 3000) + 1;
		free(blocks[i]);
		blocks[i] = malloc(size);
		CHECK(blocks[i] != NULL);
		blocks[i][0] = blocks[i][size - 1] = 1;
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	return NULL;
}

// Long enough for memory to go back to the system, for which allocators look at the clock.
static void use_heap_in_threads(void)
{
	pthread_t threads[3];
	for (uintptr_t i = 0; i < 3; i++)
		CHECK(pthread_create(&threads[i], NULL, allocate, (void *)(i + 1)) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

static void use_heap_in_child(void)
{
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		allocate((void *)7);
		_exit(0);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(status == 0);
}

// libfaketime: the argument is the year.
static void clock_says(const char *year)
{
	char text[16];
	time_t now = time(NULL);
	struct tm *local = localtime(&now);
	CHECK(local != NULL);
	CHECK(strftime(text, sizeof text, "%Y", local) > 0);
	CHECK(strcmp(text, year) == 0);
	struct timespec precise;
	CHECK(clock_gettime(CLOCK_REALTIME, &precise) == 0);
	CHECK(precise.tv_sec - now >= 0 && precise.tv_sec - now < 100);
}

// libeatmydata: not even what cannot be written to a disk is refused.
static void sync_does_nothing(const char *unused)
{
	(void)unused;
	int ends[2];
	CHECK(pipe(ends) == 0);
	CHECK(fsync(ends[1]) == 0);
	CHECK(open("/dev/null", O_WRONLY) >= 0);
}

static unsigned real_uid(void)
{
	char line[256];
	unsigned uid = 0;
	FILE *file = fopen("/proc/self/status", "r");
	CHECK(file != NULL);
	while (fgets(line, sizeof line, file) && sscanf(line, "Uid: %u", &uid) != 1) {}
	fclose(file);
	return uid;
}

// libfakeroot: whoever the caller is, identities are pretended, and so are the owners of files.
static void identity_is_pretended(const char *file)
{
	struct stat status;
	unsigned uid = real_uid();
	CHECK(chown(file, 4242, 4243) == 0);
	CHECK(stat(file, &status) == 0);
	CHECK(status.st_uid == 4242 && status.st_gid == 4243);
	CHECK(setresuid(4242, 4242, 4242) == 0);
	CHECK(getuid() == 4242);
	CHECK(real_uid() == uid);
}

// uid_wrapper: the same without files, and for a bare system call.
static void user_is_pretended(const char *unused)
{
	(void)unused;
	unsigned uid = real_uid();
	CHECK(setresuid(4242, 4242, 4242) == 0);
	CHECK(getuid() == 4242);
	CHECK(syscall(SYS_getuid) == 4242);
	CHECK(real_uid() == uid);
}

// torsocks: what Tor cannot carry is refused, also for a bare system call.
static void only_streams_are_allowed(const char *unused)
{
	(void)unused;
	CHECK(socket(AF_INET, SOCK_DGRAM, 0) == -1);
	CHECK(syscall(SYS_socket, AF_INET, SOCK_DGRAM, 0) == -1);
}

// stdbuf: lines are written at once even to a pipe.
static void output_is_by_lines(const char *unused)
{
	(void)unused;
	CHECK(__flbf(stdout));
}

// proxychains: a connection to an address where nobody is (RFC 5737) goes to the proxy, whose answer is the argument.
static void proxy_says(const char *expected)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(80) };
	CHECK(inet_pton(AF_INET, "192.0.2.1", &address.sin_addr) == 1);
	int connection = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(connection, (struct sockaddr *)&address, sizeof address) == 0);
	char text[64] = { 0 };
	for (size_t length = 0; length < strlen(expected);) {
		ssize_t got = read(connection, text + length, strlen(expected) - length);
		CHECK(got > 0);
		length += (size_t)got;
	}
	CHECK(strcmp(text, expected) == 0);
}

// A library that handles crashes, as libSegFault does: it says so and ends the process.
static void crash_is_told(const char *unused)
{
	(void)unused;
	raise(SIGSEGV);
	CHECK(!"this is reached");
}

// An audit library, which lives in a namespace of its own, says so by itself.
static void nothing_more(const char *unused)
{
	(void)unused;
}

static const struct {
	const char *name;
	void (*check)(const char *);
} effects[] = {
	{ "faketime", clock_says },
	{ "eatmydata", sync_does_nothing },
	{ "fakeroot", identity_is_pretended },
	{ "stdbuf", output_is_by_lines },
	{ "proxychains", proxy_says },
	{ "crash", crash_is_told },
	{ "audit", nothing_more },
	{ "uid_wrapper", user_is_pretended },
	{ "torsocks", only_streams_are_allowed },
	{ "greedy", nothing_more },
};

int main(int count, char **arguments)
{
	deadline(120);
	CHECK(count >= 3);
	allocator_is(arguments[1]);
	use_heap_in_threads();
	use_heap_in_child();
	for (size_t i = 0; i < sizeof effects / sizeof *effects; i++) {
		if (strcmp(effects[i].name, arguments[2]) == 0) {
			effects[i].check(count > 3 ? arguments[3] : "");
			return passed(arguments[2]);
		}
	}
	CHECK(!"the effect is known");
	return 1;
}
