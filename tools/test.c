#include <stdlib.h>
#include <string.h>

#include "blob_dump.h"
#include "cli.h"
#include "core/fail.h"
#include "core/log.h"
#include "device_flag.h"
#include "net/net.h"
#include "net_flags.h"
#include "solver/detections.h"

/* The values of all outputs in order, except outputs of DetectionEvaluate. */
typedef struct scores {
  int64_t count;
  double *sum;
  double loss;
  cr_detections found; /* of DetectionEvaluate */
} scores;

/* Whether a layer of type DetectionEvaluate makes the output. */
static bool is_evaluation(const crema_net *net, int output) {
  const char *name = crema_net_output_name(net, output);
  for (int i = 0; i < crema_net_layer_count(net); ++i) {
    if (strcmp(crema_net_layer_type(net, i), "DetectionEvaluate") != 0) continue;
    const int top = crema_net_layer_top(net, i, 0);
    if (top >= 0 && strcmp(crema_net_blob_name(net, top), name) == 0) return true;
  }
  return false;
}

/* The number of values of an output that are averaged. */
static int64_t averaged(crema_net *net, int output) {
  return is_evaluation(net, output) ? 0 : crema_blob_count(crema_net_output(net, output));
}

static crema_status add_batch(crema_net *net, int64_t batch, scores *s) {
  int64_t at = 0;
  if (s->sum == NULL) {
    for (int i = 0; i < crema_net_output_count(net); ++i) s->count += averaged(net, i);
    s->sum = calloc((size_t)s->count + 1, sizeof *s->sum);
    if (s->sum == NULL) return cr_fail_memory((size_t)s->count * sizeof *s->sum, "scores");
  }
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    crema_blob *blob = crema_net_output(net, i);
    const float *value;
    if (is_evaluation(net, i)) {
      CR_TRY(cr_detections_add_output(&s->found, net, i));
      continue;
    }
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
    double weight = (double)net->output_weight[i];
    int64_t values = averaged(net, i);
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

/* Prints the average precision of each class of a detector and their mean. */
static crema_status report_detections(crema_net *net, scores *s, const char *ap_version) {
  Caffe__SolverParameter param = CAFFE__SOLVER_PARAMETER__INIT;
  double mean = 0;
  if (s->found.row.size == 0) return CREMA_OK;
  param.ap_version = (char *)ap_version;
  param.show_per_class_result = true;
  CR_TRY(cr_detections_report(&s->found, &param, net, true, &mean));
  cr_log_info("mAP (%s) = %g", ap_version, mean);
  return CREMA_OK;
}

/* `folder`: of -dump_blobs. */
static crema_status score(crema_net *net, int64_t batches, const char *folder,
                          const char *ap_version) {
  scores s = {0};
  crema_status status = CREMA_OK;
  CR_TRY(cli_dump_begin(net, folder));
  cr_log_info("Running for %lld iterations.", (long long)batches);
  for (int64_t i = 0; i < batches; ++i) {
    double loss;
    status = crema_net_forward(net, &loss);
    if (status == CREMA_OK && i == 0) status = cli_dump_write(net, folder, false);
    if (status == CREMA_OK) status = add_batch(net, i, &s);
    if (status != CREMA_OK) {
      status = cr_fail_in(status, "batch %lld", (long long)i);
      goto out;
    }
    s.loss += loss;
  }
  report(net, &s, batches);
  status = report_detections(net, &s, ap_version);
out:
  cr_detections_free(&s.found);
  free(s.sum);
  return status;
}

static const char help_text[] =
    "Runs a network in phase TEST over its test data and prints the outputs of each batch and\n"
    "their means. For a detector, which ends in DetectionEvaluate, it prints the average "
    "precision\n"
    "of each class over all batches, and their mean (mAP).\n"
    "\n"
    "Example:\n"
    "  crema test -model lenet_train_test.prototxt -weights lenet_iter_10000.caffemodel \\\n"
    "    -iterations 100\n";

int crema_cmd_test(int argc, char **argv) {
  cli_net_flags flags;
  const char *folder = "", *ap_version = "Integral";
  cli_flag list[CLI_NET_FLAGS + 3];
  cli_net_flags_list(&flags, "batches to run", "accepted; a net is always tested in phase TEST",
                     list);
  list[CLI_NET_FLAGS] =
      (cli_flag){"allow_missing", CLI_BOOL, &flags.allow_missing, CLI_ALLOW_MISSING_HELP};
  list[CLI_NET_FLAGS + 1] = (cli_flag){"dump_blobs", CLI_DIR, &folder, CLI_DUMP_HELP};
  list[CLI_NET_FLAGS + 2] = (cli_flag){"ap_version", CLI_WORD, &ap_version,
                                       "of a detector: 11point, Integral or MaxIntegral"};
  const cli_spec spec = {.command = "test",
                         .arguments = "NET",
                         .file_flag = {"model"},
                         .required = {"weights"},
                         .help = help_text,
                         .flags = list,
                         .flag_count = CLI_NET_FLAGS + 3};
  int exit_code;
  crema_phase phase = CREMA_TEST;
  cli_net net;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (!cli_choose_phase(flags.phase, &phase)) return 1;
  if (phase != CREMA_TEST) cr_log_warning("-phase has no effect on test");
  if (cr_detections_check_version(ap_version) != CREMA_OK) return cli_fail();
  if (!cli_net_flags_load(&flags, CREMA_TEST, &net)) return 1;
  int code = score(net.net, flags.iterations, folder, ap_version) == CREMA_OK ? 0 : cli_fail();
  cli_net_close(&net);
  return code;
}
