// Memory runs out while threads start, work and end: what cannot be had is refused with ENOMEM, nothing dies of it and
// nothing waits for ever, and what is freed can be had again.
//
// Where memory runs out is a matter of luck: in an allocator's structures for a new thread, in a new arena, in a table
// of pages, in a block. So the program runs itself once for each of many limits, of the address space or of the private
// memory that can be written to (RLIMIT_AS, RLIMIT_DATA). A limit holds from before the program's first allocation; or
// from after it, and then what the allocator has reserved until then is filled up, but for as much as the limit says. A
// thread that cannot be started is no failure: pthread_create says EAGAIN.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

#ifdef ONLY_LIMIT // what the allocator is limited by
static const int LIMITS[] = { ONLY_LIMIT };
#else
static const int LIMITS[] = { RLIMIT_AS, RLIMIT_DATA };
#endif
enum { THREADS = 48, STARTS = 96, KEPT = 64 };

static atomic_int refusals;
static _Atomic(void *) kept[KEPT]; // blocks that outlive the thread that allocated them

static void *counted(void *block, size_t size)
{
	if (block != NULL) {
		*(unsigned char *)block = 1;
		((unsigned char *)block)[size - 1] = 1;
		return block;
	}
	CHECK(errno == ENOMEM);
	atomic_fetch_add(&refusals, 1);
	return NULL;
}

static void *allocate(unsigned kind, size_t size)
{
	void *block = NULL;
	errno = 0;
	switch (kind % 5) {
	case 0:
		return counted(malloc(size), size);
	case 1:
		return counted(calloc(1, size), size);
	case 2:
		return counted(aligned_alloc(256, size), size);
	case 3:
		errno = posix_memalign(&block, 4096, size);
		return counted(block, size);
	default:
		return counted(realloc(NULL, size), size);
	}
}

// Blocks in a list, so that no table of the program's own limits how many there are.
struct node {
	struct node *next;
	size_t size;
};

static void free_list(struct node *list)
{
	while (list != NULL) {
		struct node *next = list->next;
		free(list);
		list = next;
	}
}

// Threads end when all that can be there at once are there, so that an allocator cannot give the structures of one that
// ended to the next.
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned started;

static void count_start(void)
{
	pthread_mutex_lock(&mutex);
	started++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static void wait_until_started(unsigned count)
{
	pthread_mutex_lock(&mutex);
	while (started < count)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
}

static const size_t SIZES[] = { 16, 40, 200, 1000, 5000, 14000, 40000, 200000, 1 << 20, 5 << 20 };
enum { SIZE_COUNT = sizeof SIZES / sizeof *SIZES };

struct task {
	unsigned number;
	unsigned seed;
};

static void *work(void *argument)
{
	const struct task *task = argument;
	unsigned state = task->seed;
	struct node *list = NULL;
	for (int round = 0; round < 3; round++) {
		size_t size = SIZES[next_random(&state) % SIZE_COUNT];
		unsigned kind = next_random(&state);
		for (int count = 0; count < 20000; count++) {
			struct node *block = allocate(kind, size);
			if (block == NULL)
				break;
			block->next = list;
			list = block;
		}
		if (list != NULL) {
			struct node *next = list->next;
			errno = 0;
			struct node *grown = realloc(list, 3 * size);
			CHECK(grown != NULL || errno == ENOMEM);
			list = grown != NULL ? grown : list;
			CHECK(list->next == next);
		}
		if (next_random(&state) % 2) {
			free_list(list);
			list = NULL;
		}
	}
	if (list != NULL) {
		struct node *rest = list->next;
		free(atomic_exchange(&kept[next_random(&state) % KEPT], list));
		list = rest;
	}
	free_list(list);
	wait_until_started(task->number + THREADS < STARTS ? task->number + THREADS : STARTS);
	return NULL;
}

// Stacks are here, so that threads start when there is no memory at all.
static _Alignas(4096) char stacks[THREADS][128 * KIB];

static int start(pthread_t *thread, unsigned slot, struct task *task)
{
	pthread_attr_t attributes;
	CHECK(pthread_attr_init(&attributes) == 0);
	CHECK(pthread_attr_setstack(&attributes, stacks[slot], sizeof stacks[slot]) == 0);
	int error = pthread_create(thread, &attributes, work, task);
	CHECK(error == 0 || error == EAGAIN || error == ENOMEM);
	pthread_attr_destroy(&attributes);
	return error == 0;
}

static void start_and_end_threads(unsigned seed)
{
	static struct task tasks[STARTS];
	pthread_t threads[THREADS];
	int is_running[THREADS] = { 0 };
	for (unsigned i = 0; i < STARTS + THREADS; i++) {
		unsigned slot = i % THREADS;
		if (is_running[slot])
			CHECK(pthread_join(threads[slot], NULL) == 0);
		is_running[slot] = 0;
		if (i < STARTS) {
			tasks[i] = (struct task){ i, seed + i };
			is_running[slot] = start(&threads[slot], slot, &tasks[i]);
			count_start();
		}
	}
}

// Of the address space or of private memory, without an allocation.
static size_t used_bytes(int resource)
{
	char text[4096];
	int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	CHECK(file >= 0);
	ssize_t length = read(file, text, sizeof text - 1);
	CHECK(length > 0);
	close(file);
	text[length] = 0;
	char *line = strstr(text, resource == RLIMIT_AS ? "VmSize:" : "VmData:");
	CHECK(line != NULL);
	return strtoul(line + strlen("VmSize:"), NULL, 10) * KIB;
}

static void limit(int resource, size_t headroom)
{
	size_t bytes = used_bytes(resource) + headroom;
	struct rlimit limits = { bytes, bytes };
	CHECK(setrlimit(resource, &limits) == 0);
}

static size_t allocate_until_refused(struct node **list, size_t size)
{
	size_t count = 0;
	for (struct node *block; (block = allocate(0, size)) != NULL; count++) {
		*block = (struct node){ *list, size };
		*list = block;
	}
	return count;
}

// Leaves about that much of what there is.
static void fill_up(size_t left)
{
	struct node *list = NULL;
	for (size_t size = 16 * MIB; size >= KIB; size /= 4)
		allocate_until_refused(&list, size);
	for (size_t freed = 0; list != NULL && freed < left;) {
		struct node *next = list->next;
		freed += list->size;
		free(list);
		list = next;
	}
}

// Where there never was much, how the rest is cut decides.
static void freed_memory_can_be_had_again(void)
{
	enum { MANY = 200 };
	struct node *list = NULL;
	size_t count = allocate_until_refused(&list, 100 * KIB);
	free_list(list);
	list = NULL;
	size_t count_again = allocate_until_refused(&list, 100 * KIB);
	CHECK(count_again >= count / 2 || count < MANY);
	free_list(list);
}

static int run_limited(int resource, size_t bytes, int is_filled, unsigned seed)
{
	deadline(60);
	if (is_filled) {
		free(malloc(1));
		limit(resource, 4 * MIB);
		fill_up(bytes);
	} else {
		limit(resource, bytes);
	}
	start_and_end_threads(seed);
	for (int i = 0; i < KEPT; i++)
		free(atomic_exchange(&kept[i], NULL));
	freed_memory_can_be_had_again();
	CHECK(atomic_load(&refusals) > 0);
	return 0;
}

static void run_with_limit(int resource, size_t bytes, int is_filled, unsigned seed)
{
	char texts[4][24];
	snprintf(texts[0], sizeof texts[0], "%d", resource);
	snprintf(texts[1], sizeof texts[1], "%zu", bytes);
	snprintf(texts[2], sizeof texts[2], "%d", is_filled);
	snprintf(texts[3], sizeof texts[3], "%u", seed);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		execl("/proc/self/exe", "program", texts[0], texts[1], texts[2], texts[3], (char *)NULL);
		_exit(127);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	if (status != 0)
		printf("%s %s %s %s: %s %d\n", texts[0], texts[1], texts[2], texts[3],
		       WIFSIGNALED(status) ? "signal" : "exit code",
		       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	fflush(stdout);
	CHECK(status == 0);
}

int main(int count, char **arguments)
{
	if (count == 5)
		return run_limited(atoi(arguments[1]), strtoul(arguments[2], NULL, 10), atoi(arguments[3]),
				   (unsigned)atoi(arguments[4]));
	unsigned state = count > 1 ? (unsigned)atoi(arguments[1]) : 1;
	for (size_t bytes = 0; bytes < 64 * MIB; bytes += bytes + next_random(&state) % (64 * KIB)) {
		for (int is_filled = 0; is_filled < 2; is_filled++) {
			for (size_t i = 0; i < sizeof LIMITS / sizeof *LIMITS; i++)
				run_with_limit(LIMITS[i], bytes, is_filled, next_random(&state));
		}
	}
	return passed("threads_out_of_memory");
}
