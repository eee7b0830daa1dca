// A library with threads that its own fork handlers end and start again, registered in its constructor: as OpenBLAS
// does.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { WORKERS = 3 };

static pthread_t workers[WORKERS];
static atomic_int is_over;
static int are_running;

static void *work(void *unused)
{
	while (!atomic_load(&is_over)) {
		void *volatile block = malloc(1000);
		free(block);
	}
	return unused;
}

void start_workers(void)
{
	atomic_store(&is_over, 0);
	for (int i = 0; i < WORKERS; i++)
		if (pthread_create(&workers[i], NULL, work, NULL) != 0)
			abort();
	are_running = 1;
}

static void end_workers(void)
{
	void *volatile block = malloc(100000);
	free(block);
	if (!are_running)
		return;
	atomic_store(&is_over, 1);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	are_running = 0;
}

static void in_child(void)
{
	void *volatile block = malloc(1000);
	free(block);
}

__attribute__((constructor)) static void register_handlers(void)
{
	pthread_atfork(end_workers, start_workers, in_child);
}
