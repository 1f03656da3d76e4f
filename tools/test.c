#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core/fail.h"
#include "core/log.h"
#include "device_flag.h"
#include "solver/solver.h"

enum { MAX_STAGES = 64 };

/* The values of all outputs, in order, and whose they are. */
typedef struct scores {
  int64_t count;
  double *sum;
  double loss;
} scores;

static crema_status add_batch(crema_net *net, int64_t batch, scores *s) {
  int64_t at = 0;
  if (s->sum == NULL) {
    for (int i = 0; i < crema_net_output_count(net); ++i) {
      s->count += crema_blob_count(crema_net_output(net, i));
    }
    s->sum = calloc((size_t)s->count + 1, sizeof *s->sum);
    if (s->sum == NULL) return cr_fail_memory((size_t)s->count * sizeof *s->sum, "scores");
  }
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    crema_blob *blob = crema_net_output(net, i);
    const float *value;
    CR_TRY(crema_blob_cpu_data(blob, &value));
    for (int64_t k = 0; k < crema_blob_count(blob) && at < s->count; ++k, ++at) {
      s->sum[at] += (double)value[k];
      cr_log_info("Batch %lld, %s = %g", (long long)batch, crema_net_output_name(net, i),
                  (double)value[k]);
    }
  }
  return CREMA_OK;
}

static void report(crema_net *net, const scores *s, int64_t batches) {
  int64_t at = 0;
  cr_log_info("Loss: %g", s->loss / (double)batches);
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    double weight = cr_output_loss_weight(net, i);
    int64_t values = crema_blob_count(crema_net_output(net, i));
    for (int64_t k = 0; k < values && at < s->count; ++k, ++at) {
      double mean = s->sum[at] / (double)batches;
      if (weight != 0) {
        cr_log_info("%s = %g (* %g = %g loss)", crema_net_output_name(net, i), mean, weight,
                    weight * mean);
      } else {
        cr_log_info("%s = %g", crema_net_output_name(net, i), mean);
      }
    }
  }
}

static crema_status score(crema_net *net, int64_t batches) {
  scores s = {0};
  crema_status status = CREMA_OK;
  cr_log_info("Running for %lld iterations.", (long long)batches);
  for (int64_t i = 0; i < batches; ++i) {
    double loss;
    status = crema_net_forward(net, &loss);
    if (status == CREMA_OK) status = add_batch(net, i, &s);
    if (status != CREMA_OK) {
      status = cr_fail_in(status, "batch %lld", (long long)i);
      goto out;
    }
    s.loss += loss;
  }
  report(net, &s, batches);
out:
  free(s.sum);
  return status;
}

static const char help_text[] =
    "Runs a network in phase TEST over its test data and prints the outputs of each batch and\n"
    "their means.\n"
    "\n"
    "Example:\n"
    "  crema test -model lenet_train_test.prototxt -weights lenet_iter_10000.caffemodel \\\n"
    "    -iterations 100\n";

int crema_cmd_test(int argc, char **argv) {
  const char *model = "", *weights = "", *gpu = "", *stage = "", *phase = "";
  int64_t iterations = 50, level = 0;
  bool skip_corrupt = false;
  bool warn_unknown_fields = false;
  const cli_flag list[] = {
      {"model", CLI_STRING, &model, "the net (text)"},
      {"weights", CLI_STRING, &weights, "its weights; several files are separated by commas"},
      {"iterations", CLI_INT, &iterations, "batches to run"},
      {"gpu", CLI_STRING, &gpu, "the GPU to run on; without it the CPU"},
      {"phase", CLI_STRING, &phase, "accepted; a net is always tested in phase TEST"},
      {"level", CLI_INT, &level, "level of the net's state"},
      {"stage", CLI_STRING, &stage, "stages of the net's state, separated by commas"},
      {"skip_corrupt", CLI_BOOL, &skip_corrupt, "warn of records that cannot be decoded and go on"},
      {"warn_unknown_fields", CLI_BOOL, &warn_unknown_fields,
       "go on when a text file has a field that is not known"},
  };
  const cli_spec spec = {.command = "test",
                         .arguments = "",
                         .help = help_text,
                         .flags = list,
                         .flag_count = sizeof list / sizeof *list};
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (model[0] == '\0') return cli_error("test: -model FILE is needed");
  if (weights[0] == '\0') return cli_error("test: -weights FILE is needed");
  if (iterations < 1) return cli_error("-iterations: expected a number above 0");
  crema_net_options options;
  crema_net_options_init(&options);
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
  if (code == 0 && !cli_load_weights(net, weights)) code = 1;
  if (code == 0 && score(net, iterations) != CREMA_OK) code = cli_fail();
  crema_net_destroy(net);
  free(text);
  return code;
}
