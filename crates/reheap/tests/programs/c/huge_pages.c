// The heap has no transparent huge pages, and that is a matter of the heap alone: the process itself and the programs
// that it starts may have them.
//
// mimalloc's own way of doing without them is a flag of the process that children inherit and exec keeps.
#include "check.h"
#include <sys/prctl.h>
#include <sys/wait.h>

static int is_forbidden_to_the_process(void)
{
	int is_forbidden = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
	CHECK(is_forbidden >= 0);
	return is_forbidden;
}

// Whether the kernel marks the mapping of this address with this flag (proc_pid_smaps(5), VmFlags).
static int is_marked(uintptr_t address, const char *flag)
{
	char line[512];
	int is_inside = 0, is_set = -1;
	FILE *file = fopen("/proc/self/smaps", "r");
	CHECK(file != NULL);
	while (is_set < 0 && fgets(line, sizeof line, file)) {
		unsigned long start, end;
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			is_inside = start <= address && address < end;
		else if (is_inside && strncmp(line, "VmFlags:", 8) == 0)
			is_set = strstr(line, flag) != NULL;
	}
	fclose(file);
	CHECK(is_set >= 0);
	return is_set;
}

int main(int count, char **arguments)
{
	int was_forbidden = count == 1 ? is_forbidden_to_the_process() : arguments[1][0] == '1';
	CHECK(is_forbidden_to_the_process() == was_forbidden);
	// A kernel that has no huge pages has no mark either.
	int has_huge_pages = access("/sys/kernel/mm/transparent_hugepage", F_OK) == 0;
	for (size_t size = 100; size < 100 * MIB; size *= 100) {
		char *block = malloc(size);
		CHECK(block != NULL);
		fill(block, size, 1);
		CHECK(is_marked((uintptr_t)block + size / 2, " nh") == has_huge_pages);
		CHECK(!is_marked((uintptr_t)block + size / 2, " hg"));
		free(block);
	}
	CHECK(is_forbidden_to_the_process() == was_forbidden);
	if (count == 1) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			execl("/proc/self/exe", arguments[0], was_forbidden ? "1" : "0", (char *)NULL);
			_exit(2);
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		return passed("huge_pages");
	}
	return 0;
}
