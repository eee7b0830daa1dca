// A plugin of qemu's user mode: writes how many instructions the program executed to the file `out=FILE`.
//
// It counts whole blocks of translated code, so it slows the program down little. A block that a fault leaves early counts
// as a whole, and of threads that count at the same moment some are lost: the programs here have one.
//
// The functions are version 1 of qemu's interface for plugins ("QEMU TCG Plugins" in its manual), which qemu has from 4.2 to
// 8.2. Debian has no header for it.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct block; // qemu_plugin_tb
typedef uint64_t plugin_id;
enum operation { ADD_U64 };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct block *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct block *, enum operation, void *, uint64_t);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct block *);

int qemu_plugin_version = 1;

static uint64_t instructions;
static FILE *out;

static void count(plugin_id id, struct block *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &instructions, qemu_plugin_tb_n_insns(block));
}

static void finish(plugin_id id, void *data) {
    (void)id, (void)data;
    fprintf(out, "%llu\n", (unsigned long long)instructions);
    fclose(out);
}

int qemu_plugin_install(plugin_id id, const void *emulator, int arguments, char **argument) {
    static const char name[] = "out=";
    (void)emulator;
    if (arguments != 1 || strncmp(argument[0], name, sizeof name - 1)) return -1;
    out = fopen(argument[0] + sizeof name - 1, "w");
    if (!out) return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, count);
    qemu_plugin_register_atexit_cb(id, finish, NULL);
    return 0;
}
