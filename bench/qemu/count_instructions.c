/* A plugin for qemu-user that prints the number of executed instructions on standard error when the
 * program ends. docs/dev/performance-notes.md describes its use; nothing else builds it.
 *
 * Debian's qemu has no package with the header of its plugins, so the functions are declared here,
 * as in version 1 of the interface. Counters are not atomic: run one thread. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

struct qemu_plugin_tb;
typedef uint64_t qemu_plugin_id_t;
enum { ADD_U64 = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*call)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int operation,
                                              void *number, uint64_t operand);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*call)(qemu_plugin_id_t, void *),
                                    void *user);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);

extern int qemu_plugin_version;
int qemu_plugin_version = 1;

static uint64_t executed;

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &executed,
                                           qemu_plugin_tb_n_insns(block));
}

static void on_exit(qemu_plugin_id_t id, void *user) {
  (void)id, (void)user;
  fprintf(stderr, "%" PRIu64 " instructions\n", executed);
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv);
int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
  (void)info, (void)argc, (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  qemu_plugin_register_atexit_cb(id, on_exit, NULL);
  return 0;
}
