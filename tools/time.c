#include <stdlib.h>

#include "blob_dump.h"
#include "cli.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "device/device.h"
#include "device_flag.h"
#include "net/net.h"
#include "net_flags.h"
#include "op_table.h"

/* Seconds summed over all iterations. */
typedef struct times {
  double *forward, *backward; /* one per layer */
  double all_forward, all_backward, total;
} times;

/* In all iterations. */
typedef struct counts {
  uint64_t conversions, launches;
} counts;

static counts count(const crema_net *net) {
  return (counts){crema_net_conversions(net), cr_device_launches(net->context->device)};
}

/* Runs one layer and adds the time until its work is done to *sum. */
static crema_status time_layer(crema_net *net, int layer, bool backward, double *sum) {
  double start = cr_clock_seconds();
  if (backward) CR_TRY(cr_net_backward_range(net, layer, layer));
  else CR_TRY(cr_net_forward_range(net, layer, layer, NULL));
  CR_TRY(crema_context_finish(net->context));
  *sum += cr_clock_seconds() - start;
  return CREMA_OK;
}

static crema_status time_iteration(crema_net *net, bool backward, int64_t iteration, times *t) {
  int layers = crema_net_layer_count(net);
  double start = cr_clock_seconds();
  for (int i = 0; i < layers; ++i) CR_TRY(time_layer(net, i, false, &t->forward[i]));
  double middle = cr_clock_seconds();
  for (int i = layers - 1; i >= 0 && backward; --i)
    CR_TRY(time_layer(net, i, true, &t->backward[i]));
  double end = cr_clock_seconds();
  t->all_forward += middle - start;
  t->all_backward += end - middle;
  t->total += end - start;
  cr_log_info("Iteration: %lld %s time: %g ms.", (long long)iteration + 1,
              backward ? "forward-backward" : "forward", (end - start) * 1e3);
  return CREMA_OK;
}

static void report(const crema_net *net, bool backward, const times *t, const counts *done,
                   int64_t iterations) {
  double scale = 1e3 / (double)iterations;
  cr_log_info("Average time per layer: ");
  for (int i = 0; i < crema_net_layer_count(net); ++i) {
    const char *name = crema_net_layer_name(net, i);
    cr_log_info("%10s\tforward: %g ms.", name, t->forward[i] * scale);
    if (backward) cr_log_info("%10s\tbackward: %g ms.", name, t->backward[i] * scale);
  }
  cr_log_info("Average Forward pass: %g ms.", t->all_forward * scale);
  if (backward) {
    cr_log_info("Average Backward pass: %g ms.", t->all_backward * scale);
    cr_log_info("Average Forward-Backward: %g ms.", t->total * scale);
  }
  cr_log_info("Total Time: %g ms.", t->total * 1e3);
  cr_net_memory memory;
  if (cr_net_memory_read(net, &memory) == CREMA_OK && memory.planned > 0) {
    cr_log_info("Activations%s: %.2f MB at most at once, in %.2f MB of memory.",
                backward ? " and gradients" : "", (double)memory.planned / 1e6,
                (double)memory.planned_held / 1e6);
  }
  if (done->conversions > 0) {
    cr_log_info("Type conversions per iteration: %g",
                (double)done->conversions / (double)iterations);
  }
  if (done->launches > 0) {
    cr_log_info("Kernels and library calls per iteration: %g",
                (double)done->launches / (double)iterations);
  }
}

/* `folder`: of -dump_blobs. `ops`: with the table of ops. */
static crema_status run(crema_net *net, bool backward, int64_t iterations, const char *folder,
                        bool ops) {
  times t = {0};
  cli_op_table table = {.row = NULL};
  double loss;
  crema_status status = CREMA_OK;
  size_t layers = (size_t)crema_net_layer_count(net);
  t.forward = calloc(2 * layers + 1, sizeof *t.forward);
  if (t.forward == NULL) return cr_fail_memory(2 * layers * sizeof *t.forward, "layer times");
  t.backward = t.forward + layers;
  /* The first pass allocates and plans. Weights of a file are kept from their second use on. */
  cr_log_info("Performing Forward");
  CR_TRY_GOTO(cli_dump_begin(net, folder), out);
  CR_TRY_GOTO(crema_net_forward(net, &loss), out);
  if (!backward) CR_TRY_GOTO(crema_net_forward(net, &loss), out);
  cr_log_info("Initial loss: %g", loss);
  if (backward) {
    cr_log_info("Performing Backward");
    CR_TRY_GOTO(crema_net_backward(net), out);
  }
  CR_TRY_GOTO(crema_context_finish(net->context), out);
  CR_TRY_GOTO(cli_dump_write(net, folder, backward), out);
  cr_log_info("*** Benchmark begins ***");
  cr_log_info("Testing for %lld iterations.", (long long)iterations);
  const counts before = count(net);
  if (ops) cli_op_table_begin(&table, net->context);
  for (int64_t i = 0; i < iterations && status == CREMA_OK; ++i) {
    status = time_iteration(net, backward, i, &t);
  }
  counts done = count(net);
  done.conversions -= before.conversions;
  done.launches -= before.launches;
  if (status == CREMA_OK) report(net, backward, &t, &done, iterations);
  if (ops) cli_op_table_end(&table, net->context);
  if (status != CREMA_OK) goto out;
  cr_log_info("*** Benchmark ends ***");
out:
  free(t.forward);
  return status;
}

static const char help_text[] =
    "Runs a network forward and backward and prints the mean time of each layer and of the\n"
    "whole pass. The weights are random unless -weights gives them; layers that it lacks are\n"
    "reported. With -compiled, which is for phase TEST, there is no backward pass. If memory is\n"
    "planned (phase TRAIN, -compiled), the last lines report the most that values of a pass\n"
    "take at once.\n"
    "\n"
    "-ops adds a table of the ops: one row per kernel, the most time first. crema then waits for\n"
    "the device after each op. CREMA_VERBOSE=1 prints a line per run of an op.\n"
    "\n"
    "Example:\n"
    "  crema time -model lenet_train_test.prototxt -iterations 20\n";

int crema_cmd_time(int argc, char **argv) {
  cli_net_flags flags;
  const char *folder = "";
  bool ops = false;
  cli_flag list[CLI_NET_FLAGS + 2];
  cli_net_flags_list(&flags, "passes to time", "TRAIN, or TEST, which -compiled needs", list);
  flags.allow_missing = true; /* the values of the parameters do not affect the time */
  list[CLI_NET_FLAGS] = (cli_flag){"ops", CLI_BOOL, &ops, "print what each kernel takes"};
  list[CLI_NET_FLAGS + 1] = (cli_flag){"dump_blobs", CLI_DIR, &folder, CLI_DUMP_HELP};
  const cli_spec spec = {.command = "time",
                         .arguments = "NET",
                         .file_flag = {"model"},
                         .help = help_text,
                         .flags = list,
                         .flag_count = CLI_NET_FLAGS + 2};
  int exit_code;
  crema_phase phase = CREMA_TRAIN;
  cli_net net;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  flags.plan_memory = folder[0] == '\0'; /* else all gradients are kept */
  if (flags.compiled) phase = CREMA_TEST;
  if (!cli_choose_phase(flags.phase, &phase)) return 1;
  if (!cli_net_flags_load(&flags, phase, &net)) return 1;
  int code =
      run(net.net, !flags.compiled, flags.iterations, folder, ops) == CREMA_OK ? 0 : cli_fail();
  cli_net_close(&net);
  return code;
}
