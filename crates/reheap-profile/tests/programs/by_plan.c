// Does in its own process what reheap does in another by ptrace, which qemu's user mode does not have: before main, it maps
// and writes what a file says. The file has steps: what to do, an address, and a number of bytes, each of 64 bits, and then
// as many bytes.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAP = 1, WRITE = 2, READABLE = 3, WRITABLE = 4, EXECUTABLE = 5, CALL = 6, CODE = 7 };
enum { GUARDED = 0x10, PAGE = 4096 };

struct step {
  uint64_t what, address, bytes;
};

// Functions that indirect calls may only reach at a landing pad, if the program has any.
extern char __start_guarded[] __attribute__((weak)), __stop_guarded[] __attribute__((weak));

static void check(int condition, const char *what) {
  if (!condition) {
    write(2, what, strlen(what));
    _exit(8);
  }
}

static void protect(uint64_t address, uint64_t bytes, int protection) {
  uint64_t start = address / PAGE * PAGE;
  check(mprotect((void *)start, address + bytes - start, protection) == 0, "mprotect fails\n");
}

static void write_code(uint64_t address, const void *bytes, uint64_t count) {
  protect(address, count, PROT_READ | PROT_WRITE);
  memcpy((void *)address, bytes, count);
  protect(address, count, PROT_READ | PROT_EXEC);
  __builtin___clear_cache((char *)address, (char *)address + count);
}

static void perform(struct step step, const void *bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  void *place = (void *)step.address;
  switch (step.what) {
  case MAP: check(mmap(place, step.bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == place, "mmap fails\n"); break;
  case WRITE: memcpy(place, bytes, step.bytes); break;
  case READABLE: protect(step.address, step.bytes, PROT_READ); break;
  case WRITABLE: protect(step.address, step.bytes, PROT_READ | PROT_WRITE); break;
  case EXECUTABLE: protect(step.address, step.bytes, PROT_READ | PROT_EXEC); break;
  case CALL: check(((int (*)(const char *))place)(bytes) == 0, "the hooks do not attach\n"); break;
  case CODE: write_code(step.address, bytes, step.bytes); break;
  default: check(0, "no such step\n");
  }
}

static char plan[4 << 20] __attribute__((aligned(8)));

__attribute__((constructor)) static void perform_plan(int argc, char **argv, char **environment) {
  (void)argc, (void)argv;
  static const char name[] = "PLAN=";
  while (*environment && strncmp(*environment, name, strlen(name)) != 0) environment++;
  check(*environment != NULL, "there is no plan\n");
  int file = open(*environment + strlen(name), O_RDONLY);
  ssize_t bytes = read(file, plan, sizeof plan);
  check(bytes > 0 && bytes < (ssize_t)sizeof plan, "the plan cannot be read\n");
  close(file);
  for (ssize_t at = 0; at < bytes;) {
    struct step step;
    memcpy(&step, plan + at, sizeof step);
    at += sizeof step;
    int has_bytes = step.what == WRITE || step.what == CALL || step.what == CODE;
    perform(step, plan + at);
    at += has_bytes ? (ssize_t)step.bytes : 0;
  }
  uint64_t guarded = (uint64_t)__stop_guarded - (uint64_t)__start_guarded;
  if (guarded) protect((uint64_t)__start_guarded, guarded, PROT_READ | PROT_EXEC | GUARDED);
}
