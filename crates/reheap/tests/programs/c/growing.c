// Large buffers that grow and shrink keep their contents, whoever frees them, in children of forks and under limits.
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { SHARED = 16 };
static struct buffer {
	pthread_mutex_t lock;
	char *block;
	size_t size;
	unsigned seed;
} shared[SHARED];

static size_t random_size(unsigned *state)
{
	return next_random(state) % ((size_t)8 << (10 + next_random(state) % 11)) + 1;
}

static void make(struct buffer *buffer, unsigned *state)
{
	size_t size = random_size(state);
	unsigned kind = next_random(state) % 3;
	buffer->block = kind == 0 ? calloc(1, size) : kind == 1 ? aligned_alloc((size_t)4096 << size % 14, size) : malloc(size);
	CHECK(buffer->block != NULL);
	for (size_t i = 0; kind == 0 && i < size; i += stride(size))
		CHECK(buffer->block[i] == 0);
	buffer->size = size;
	buffer->seed = next_random(state);
	fill(buffer->block, size, buffer->seed);
}

static void resize(struct buffer *buffer, unsigned *state)
{
	int is_a_little_more = next_random(state) % 3 == 0;
	size_t size = is_a_little_more ? buffer->size + buffer->size / 8 : random_size(state);
	size_t kept = size < buffer->size ? size : buffer->size;
	char *resized = realloc(buffer->block, size);
	CHECK(resized != NULL);
	CHECK(malloc_usable_size(resized) >= size);
	CHECK(holds(resized, kept, buffer->size, buffer->seed));
	fill(resized, size, buffer->seed);
	buffer->block = resized;
	buffer->size = size;
}

static void use(struct buffer *buffer, unsigned *state)
{
	if (buffer->block == NULL) {
		make(buffer, state);
	} else if (buffer->size > 32 * MIB || next_random(state) % 6 == 0) {
		CHECK(holds(buffer->block, buffer->size, buffer->size, buffer->seed));
		free(buffer->block);
		buffer->block = NULL;
	} else {
		resize(buffer, state);
	}
}

static void *use_those_of_all(void *seed)
{
	unsigned state = (unsigned)(uintptr_t)seed;
	for (int step = 0; step < 400; step++) {
		struct buffer *buffer = &shared[next_random(&state) % SHARED];
		pthread_mutex_lock(&buffer->lock);
		use(buffer, &state);
		pthread_mutex_unlock(&buffer->lock);
	}
	return NULL;
}

static void threads_share_buffers(void)
{
	pthread_t threads[3];
	for (size_t i = 0; i < SHARED; i++)
		pthread_mutex_init(&shared[i].lock, NULL);
	for (uintptr_t i = 0; i < 3; i++)
		CHECK(pthread_create(&threads[i], NULL, use_those_of_all, (void *)(i + 1)) == 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

static void a_child_has_buffers_of_its_own(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	unsigned state = 5;
	for (int step = 0; step < 100; step++)
		use(&shared[step % SHARED], &state);
	if (child == 0)
		_exit(0);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void all_are_freed(void)
{
	for (int i = 0; i < SHARED; i++) {
		if (shared[i].block != NULL)
			CHECK(holds(shared[i].block, shared[i].size, shared[i].size, shared[i].seed));
		free(shared[i].block);
	}
}

// Under the limit there is room for the buffer, but not much more.
static void what_cannot_grow_stays_whole(void)
{
	size_t size = 40 * MIB;
	char *block = malloc(MIB);
	block = realloc(block, size);
	CHECK(block != NULL);
	fill(block, size, 8);
	size_t limit = statm_bytes(0) + 32 * MIB;
	struct rlimit before, limits;
	CHECK(getrlimit(RLIMIT_AS, &before) == 0);
	limits = (struct rlimit){ limit, before.rlim_max };
	CHECK(setrlimit(RLIMIT_AS, &limits) == 0);
	for (size_t more = 4 * GIB; more <= 16 * GIB; more *= 2) {
		errno = 0;
		CHECK(realloc(block, more) == NULL && errno == ENOMEM);
		CHECK(holds(block, size, size, 8));
	}
	block = realloc(block, size - 20 * MIB);
	CHECK(block != NULL && holds(block, size - 20 * MIB, size, 8));
	CHECK(setrlimit(RLIMIT_AS, &before) == 0);
	free(block);
}

int main(void)
{
	deadline(120);
	what_cannot_grow_stays_whole();
	threads_share_buffers();
	a_child_has_buffers_of_its_own();
	all_are_freed();
	return passed("growing");
}
