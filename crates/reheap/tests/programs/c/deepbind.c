// Blocks go both ways between a program and a plug-in that was opened with RTLD_DEEPBIND: one allocates, the other
// frees.
//
// `deepbind` opens it with dlopen, `deepbind dlmopen` with that, and `deepbind kept` only looks whether the flag has
// its effect: that the plug-in gets another malloc than the program. The plug-in lies where only this file's RUNPATH
// leads.
#include "check.h"
#include <dlfcn.h>

static void *symbol(void *plugin, const char *name)
{
	void *found = dlsym(plugin, name);
	CHECK(found != NULL);
	return found;
}

static void *open_plugin(const char *by)
{
	int flags = RTLD_NOW | RTLD_DEEPBIND;
	void *plugin = strcmp(by, "dlmopen") == 0 ? dlmopen(LM_ID_BASE, "plugin.so", flags) : dlopen("plugin.so", flags);
	if (!plugin)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(plugin != NULL);
	return plugin;
}

static void blocks_go_both_ways(void *plugin)
{
	void *(*gives)(size_t) = (void *(*)(size_t))symbol(plugin, "gives");
	void *(*grows)(void *, size_t) = (void *(*)(void *, size_t))symbol(plugin, "grows");
	void (*takes)(void *) = (void (*)(void *))symbol(plugin, "takes");
	for (size_t size = 1; size < 40 * MIB; size = size * 3 / 2 + 1) {
		char *theirs = gives(size), *ours = malloc(size);
		CHECK(theirs && ours);
		fill(theirs, size, 1), fill(ours, size, 2);
		theirs = realloc(theirs, size + 100);
		ours = grows(ours, size + 100);
		CHECK(theirs && holds(theirs, size, size, 1));
		CHECK(ours && holds(ours, size, size, 2));
		free(theirs);
		takes(ours);
	}
}

// dlopen of a file that is not there, and what it says, are glibc's.
static void what_cannot_be_opened_is_told(void)
{
	CHECK(dlopen("no-such-plugin.so", RTLD_NOW | RTLD_DEEPBIND) == NULL);
	const char *said = dlerror();
	CHECK(said != NULL && strstr(said, "no-such-plugin.so") != NULL);
	CHECK(dlmopen(LM_ID_BASE, "no-such-plugin.so", RTLD_NOW | RTLD_DEEPBIND) == NULL);
	CHECK(dlerror() != NULL);
	CHECK(dlopen(NULL, RTLD_NOW) != NULL);
}

int main(int count, char **words)
{
	deadline(60);
	const char *what = count > 1 ? words[1] : "";
	void *plugin = open_plugin(what);
	void *(*its_malloc)(void) = (void *(*)(void))symbol(plugin, "its_malloc");
	int is_ours = its_malloc() == dlsym(RTLD_DEFAULT, "malloc");
	if (strcmp(what, "kept") == 0) {
		CHECK(!is_ours);
		return passed("deepbind");
	}
	CHECK(is_ours);
	blocks_go_both_ways(plugin);
	what_cannot_be_opened_is_told();
	return passed("deepbind");
}
