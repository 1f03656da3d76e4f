#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/log.h"
#include "device_flag.h"
#include "net/net.h"

enum { MAX_STAGES = 64 };

/* Seconds summed over all iterations. */
typedef struct times {
  double *forward, *backward; /* one a layer */
  double all_forward, all_backward, total;
} times;

/* Runs one layer and adds the time until its work is done to *sum. */
static crema_status time_layer(crema_net *net, int layer, bool backward, double *sum) {
  double start = cr_clock_seconds();
  if (backward) CR_TRY(cr_net_backward_range(net, layer, layer));
  else CR_TRY(cr_net_forward_range(net, layer, layer, NULL));
  CR_TRY(crema_context_finish(net->context));
  *sum += cr_clock_seconds() - start;
  return CREMA_OK;
}

static crema_status time_iteration(crema_net *net, int64_t iteration, times *t) {
  int layers = crema_net_layer_count(net);
  double start = cr_clock_seconds();
  for (int i = 0; i < layers; ++i) CR_TRY(time_layer(net, i, false, &t->forward[i]));
  double middle = cr_clock_seconds();
  for (int i = layers - 1; i >= 0; --i) CR_TRY(time_layer(net, i, true, &t->backward[i]));
  double end = cr_clock_seconds();
  t->all_forward += middle - start;
  t->all_backward += end - middle;
  t->total += end - start;
  cr_log_info("Iteration: %lld forward-backward time: %g ms.", (long long)iteration + 1,
              (end - start) * 1e3);
  return CREMA_OK;
}

static void report(const crema_net *net, const times *t, int64_t iterations) {
  double scale = 1e3 / (double)iterations;
  cr_log_info("Average time per layer: ");
  for (int i = 0; i < crema_net_layer_count(net); ++i) {
    const char *name = crema_net_layer_name(net, i);
    cr_log_info("%10s\tforward: %g ms.", name, t->forward[i] * scale);
    cr_log_info("%10s\tbackward: %g ms.", name, t->backward[i] * scale);
  }
  cr_log_info("Average Forward pass: %g ms.", t->all_forward * scale);
  cr_log_info("Average Backward pass: %g ms.", t->all_backward * scale);
  cr_log_info("Average Forward-Backward: %g ms.", t->total * scale);
  cr_log_info("Total Time: %g ms.", t->total * 1e3);
}

static crema_status run(crema_net *net, int64_t iterations) {
  times t = {0};
  double loss;
  crema_status status = CREMA_OK;
  size_t layers = (size_t)crema_net_layer_count(net);
  t.forward = calloc(2 * layers + 1, sizeof *t.forward);
  if (t.forward == NULL) return cr_fail_memory(2 * layers * sizeof *t.forward, "layer times");
  t.backward = t.forward + layers;
  /* The first pass allocates and plans. */
  cr_log_info("Performing Forward");
  CR_TRY_GOTO(crema_net_forward(net, &loss), out);
  cr_log_info("Initial loss: %g", loss);
  cr_log_info("Performing Backward");
  CR_TRY_GOTO(crema_net_backward(net), out);
  CR_TRY_GOTO(crema_context_finish(net->context), out);
  cr_log_info("*** Benchmark begins ***");
  cr_log_info("Testing for %lld iterations.", (long long)iterations);
  for (int64_t i = 0; i < iterations; ++i) CR_TRY_GOTO(time_iteration(net, i, &t), out);
  report(net, &t, iterations);
  cr_log_info("*** Benchmark ends ***");
out:
  free(t.forward);
  return status;
}

static const char help_text[] =
    "Runs a network forward and backward and prints the mean time of each layer and of the\n"
    "whole pass. The weights are random unless -weights gives them.\n"
    "\n"
    "Example:\n"
    "  crema time -model lenet_train_test.prototxt -iterations 20\n";

int crema_cmd_time(int argc, char **argv) {
  const char *model = "", *weights = "", *gpu = "", *stage = "", *phase = "TRAIN";
  int64_t iterations = 50, level = 0;
  bool skip_corrupt = false;
  bool warn_unknown_fields = false;
  const cli_flag list[] = {
      {"model", CLI_STRING, &model, "the net (text)"},
      {"weights", CLI_STRING, &weights, "its weights; several files are separated by commas"},
      {"iterations", CLI_INT, &iterations, "passes to time"},
      {"phase", CLI_STRING, &phase, "TRAIN or TEST"},
      {"gpu", CLI_STRING, &gpu, "the GPU to run on; without it the CPU"},
      {"level", CLI_INT, &level, "level of the net's state"},
      {"stage", CLI_STRING, &stage, "stages of the net's state, separated by commas"},
      {"skip_corrupt", CLI_BOOL, &skip_corrupt, "warn of records that cannot be decoded and go on"},
      {"warn_unknown_fields", CLI_BOOL, &warn_unknown_fields,
       "go on when a text file has a field that is not known"},
  };
  const cli_spec spec = {.command = "time",
                         .arguments = "",
                         .help = help_text,
                         .flags = list,
                         .flag_count = sizeof list / sizeof *list};
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (model[0] == '\0') return cli_error("time: -model FILE is needed");
  if (iterations < 1) return cli_error("-iterations: expected a number above 0");
  crema_net_options options;
  crema_net_options_init(&options);
  options.phase = CREMA_TRAIN;
  if (!cli_choose_phase(phase, &options.phase)) return 1;
  if (!cli_choose_device(gpu, &options.device)) return 1;
  const char *stages[MAX_STAGES];
  char *text = strdup(stage);
  if (text == NULL) return cli_error("out of memory");
  options.level = (int)level;
  options.stages = stages;
  options.stage_count = cli_split_list(text, stages, MAX_STAGES);
  options.skip_corrupt = skip_corrupt;
  options.warn_unknown_fields = warn_unknown_fields;
  crema_net *net = NULL;
  int code = crema_net_load(model, &options, &net) == CREMA_OK ? 0 : cli_fail();
  if (code == 0 && weights[0] != '\0' && !cli_load_weights(net, weights)) code = 1;
  if (code == 0 && run(net, iterations) != CREMA_OK) code = cli_fail();
  crema_net_destroy(net);
  free(text);
  return code;
}
