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

/* Seconds of whole passes, and their calls, per iteration. */
typedef struct whole_times {
  double forward, backward, launches;
} whole_times;

/* A pass as training runs it, until the device is done. */
static crema_status time_pass(crema_net *net, bool backward, double *sum) {
  const int last = crema_net_layer_count(net) - 1;
  const double start = cr_clock_seconds();
  CR_TRY(backward ? cr_net_backward_range(net, 0, last) : cr_net_forward_range(net, 0, last, NULL));
  CR_TRY(crema_context_finish(net->context));
  *sum += cr_clock_seconds() - start;
  return CREMA_OK;
}

/* The first passes capture graphs and do not count. */
static crema_status time_whole(crema_net *net, bool backward, int64_t iterations, bool graphs,
                               whole_times *out) {
  enum { UNCOUNTED = 4 };
  uint64_t before = 0;
  cr_net_use_graphs(net, graphs);
  for (int64_t i = -UNCOUNTED; i < iterations; ++i) {
    if (i == 0) {
      *out = (whole_times){0};
      before = count(net).launches;
    }
    CR_TRY(time_pass(net, false, &out->forward));
    if (backward) CR_TRY(time_pass(net, true, &out->backward));
  }
  out->launches = (double)(count(net).launches - before) / (double)iterations;
  out->forward /= (double)iterations;
  out->backward /= (double)iterations;
  return CREMA_OK;
}

/* Whole passes, in which the host does not wait for the device after each layer. */
static crema_status compare_graphs(crema_net *net, bool backward, int64_t iterations) {
  whole_times plain = {0}, graphs = {0};
  CR_TRY(time_whole(net, backward, iterations, false, &plain));
  CR_TRY(time_whole(net, backward, iterations, true, &graphs));
  cr_log_info("Whole Forward pass: %g ms, with graphs: %g ms.", plain.forward * 1e3,
              graphs.forward * 1e3);
  if (backward) {
    cr_log_info("Whole Backward pass: %g ms, with graphs: %g ms.", plain.backward * 1e3,
                graphs.backward * 1e3);
  }
  if (plain.launches > 0) {
    cr_log_info("Kernels and library calls per iteration of whole passes: %g, with graphs: %g",
                plain.launches, graphs.launches);
  }
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

typedef struct time_flags {
  const char *folder; /* of -dump_blobs */
  bool ops;           /* with the table of ops */
  bool graphs;
} time_flags;

static crema_status run(crema_net *net, bool backward, int64_t iterations,
                        const time_flags *flags) {
  const char *folder = flags->folder;
  const bool ops = flags->ops;
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
  if (status == CREMA_OK && flags->graphs) status = compare_graphs(net, backward, iterations);
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
    "-graphs also times whole passes, without graphs and with graphs of a CUDA device.\n"
    "\n"
    "Example:\n"
    "  crema time -model lenet_train_test.prototxt -iterations 20\n";

int crema_cmd_time(int argc, char **argv) {
  cli_net_flags flags;
  time_flags own = {.folder = ""};
  cli_flag list[CLI_NET_FLAGS + 3];
  cli_net_flags_list(&flags, "passes to time", "TRAIN, or TEST, which -compiled needs", list);
  flags.allow_missing = true; /* the values of the parameters do not affect the time */
  list[CLI_NET_FLAGS] = (cli_flag){"ops", CLI_BOOL, &own.ops, "print what each kernel takes"};
  list[CLI_NET_FLAGS + 1] = (cli_flag){"dump_blobs", CLI_DIR, &own.folder, CLI_DUMP_HELP};
  list[CLI_NET_FLAGS + 2] = (cli_flag){"graphs", CLI_BOOL, &own.graphs,
                                       "also time whole passes with graphs of a CUDA device"};
  const cli_spec spec = {.command = "time",
                         .arguments = "NET",
                         .file_flag = {"model"},
                         .help = help_text,
                         .flags = list,
                         .flag_count = CLI_NET_FLAGS + 3};
  int exit_code;
  crema_phase phase = CREMA_TRAIN;
  cli_net net;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  flags.plan_memory = own.folder[0] == '\0'; /* else all gradients are kept */
  flags.graphs = own.graphs;
  if (flags.compiled) phase = CREMA_TEST;
  if (!cli_choose_phase(flags.phase, &phase)) return 1;
  if (!cli_net_flags_load(&flags, phase, &net)) return 1;
  int code = run(net.net, !flags.compiled, flags.iterations, &own) == CREMA_OK ? 0 : cli_fail();
  cli_net_close(&net);
  return code;
}
