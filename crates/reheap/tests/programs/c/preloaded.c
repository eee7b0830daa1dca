// Every function of the malloc family is that of the library named by the arguments, in each thread and in a child.
//
// `preloaded NAME` for a library `libNAME-VERSION.so`; dynamic only.
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

static const char *const family[] = {
	"malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign", "memalign", "valloc", "pvalloc", "reallocarray",
	"malloc_usable_size", "free_sized", "free_aligned_sized",
#ifdef __GLIBC__
	"cfree", "malloc_trim", "mallinfo", "mallinfo2", "malloc_info", "malloc_stats", "mallopt", "dlopen", "dlmopen",
	"__register_atfork", "__libc_malloc", "__libc_calloc", "__libc_realloc", "__libc_free", "__libc_memalign",
	"__libc_valloc", "__libc_pvalloc",
#endif
};

static char expected[128];

static int is_expected(const char *path)
{
	const char *name = strrchr(path, '/');
	size_t length = strlen(expected);
	return name && strncmp(name, expected, length) == 0 && name[length] >= '0' && name[length] <= '9';
}

static void every_function_is_the_librarys(void)
{
	Dl_info info;
	for (size_t i = 0; i < sizeof family / sizeof *family; i++) {
		void *function = dlsym(RTLD_DEFAULT, family[i]);
		CHECK(function != NULL);
		CHECK(dladdr(function, &info) != 0);
		CHECK(is_expected(info.dli_fname));
	}
	void *(*called)(size_t) = malloc;
	CHECK(dladdr((void *)called, &info) != 0);
	CHECK(is_expected(info.dli_fname));
}

static void nothing_else_of_it_is_seen(void)
{
	static const char *const others[] = { "mi_malloc", "rpmalloc", "sn_malloc", "__reheap_malloc", "__malloc_atfork" };
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		CHECK(dlsym(RTLD_DEFAULT, others[i]) == NULL);
	Dl_info info;
	/* Programs ask for jemalloc's own functions to learn whether it is there. */
	void *mallocx = dlsym(RTLD_DEFAULT, "mallocx");
	CHECK((mallocx != NULL) == (strcmp(expected, "/libjemalloc-") == 0));
	CHECK(mallocx == NULL || (dladdr(mallocx, &info) != 0 && is_expected(info.dli_fname)));
	CHECK(dladdr(dlsym(RTLD_DEFAULT, "pthread_create"), &info) != 0);
	CHECK(!is_expected(info.dli_fname));
}

static void it_is_mapped(void)
{
	char line[4096];
	int found = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	CHECK(maps != NULL);
	while (fgets(line, sizeof line, maps))
		found |= is_expected(line);
	fclose(maps);
	CHECK(found);
}

static void *blocks_of_the_libc_and_of_the_program_meet(void *unused)
{
	for (int i = 0; i < 1000; i++) {
		char *copy = strdup("a block that the libc allocates and the program frees");
		CHECK(copy != NULL);
		copy = realloc(copy, 10000);
		CHECK(copy != NULL && strncmp(copy, "a block", 7) == 0);
		free(copy);
	}
	return unused;
}

// The libcs do not have these yet, so no program could be linked with them.
static void the_sized_frees_of_c23_free(void)
{
	void (*free_sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
	void (*free_aligned_sized)(void *, size_t, size_t) =
		(void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
	for (int i = 0; i < 100000; i++) {
		free_sized(malloc(4000), 4000);
		free_aligned_sized(aligned_alloc(256, 4000), 256, 4000);
	}
	CHECK(statm_bytes(1) < 100 * MIB);
}

static void in_a_child_too(void)
{
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		every_function_is_the_librarys();
		blocks_of_the_libc_and_of_the_program_meet(NULL);
		_exit(0);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(int count, char **words)
{
	deadline(60);
	CHECK(count == 2);
	snprintf(expected, sizeof expected, "/lib%s-", words[1]);
	every_function_is_the_librarys();
	nothing_else_of_it_is_seen();
	it_is_mapped();
	the_sized_frees_of_c23_free();
	blocks_of_the_libc_and_of_the_program_meet(NULL);
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, blocks_of_the_libc_and_of_the_program_meet, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	in_a_child_too();
	return passed("preloaded");
}
