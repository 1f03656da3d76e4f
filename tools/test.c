#include <stdlib.h>
#include <string.h>

#include "blob_dump.h"
#include "cli.h"
#include "core/fail.h"
#include "core/log.h"
#include "device_flag.h"
#include "image_flags.h"
#include "net/epoch.h"
#include "net/net.h"
#include "net_flags.h"
#include "solver/detections.h"

/* The sums of a test. */
typedef struct scores {
  cr_net_means means;
  cr_detections found; /* of outputs of DetectionEvaluate, which are not averaged */
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

static crema_status print_batch(crema_net *net, int64_t batch, scores *s) {
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    crema_blob *blob = crema_net_output(net, i);
    const float *value;
    if (is_evaluation(net, i)) {
      CR_TRY(cr_detections_add_output(&s->found, net, i));
      continue;
    }
    CR_TRY(crema_blob_cpu_data(blob, &value));
    for (int64_t k = 0; k < crema_blob_count(blob); ++k) {
      cr_log_info("Batch %lld, %s = %g", (long long)batch, crema_net_output_name(net, i),
                  (double)value[k]);
    }
  }
  return CREMA_OK;
}

static void report(crema_net *net, const cr_net_means *means) {
  cr_log_info("Loss: %g", cr_net_means_value(means, means->count));
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    const double weight = (double)net->output_weight[i];
    if (is_evaluation(net, i)) continue;
    for (int64_t k = means->first[i]; k < means->first[i + 1]; ++k) {
      const double mean = cr_net_means_value(means, k);
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
static crema_status report_detections(crema_net *net, cr_detections *found,
                                      const char *ap_version) {
  Caffe__SolverParameter param = CAFFE__SOLVER_PARAMETER__INIT;
  double mean = 0;
  if (found->row.size == 0) return CREMA_OK;
  param.ap_version = (char *)ap_version;
  param.show_per_class_result = true;
  CR_TRY(cr_detections_report(found, &param, net, true, &mean));
  cr_log_info("mAP (%s) = %g", ap_version, mean);
  return CREMA_OK;
}

/* The batches of a test: an epoch, or a given number of batches. */
typedef struct test_plan {
  cr_net_epoch epoch;
  bool all;
  int64_t batches;
} test_plan;

/* Without a number of batches and without an end of the data, as many batches as Caffe runs. */
static crema_status make_plan(const crema_net *net, int64_t batches, test_plan *out) {
  enum { USUAL = 50 };
  char text[256];
  CR_TRY(cr_net_find_epoch(net, true, &out->epoch));
  out->all = batches == 0 && out->epoch.samples > 0;
  out->batches = out->all ? out->epoch.batches : batches > 0 ? batches : USUAL;
  if (out->all) {
    cr_log_info("Each of %lld samples is scored once.", (long long)out->epoch.samples);
  } else if (batches == 0) {
    cr_log_info("%s: %d batches are scored (-iterations sets another number)", out->epoch.reason,
                USUAL);
  } else if (cr_net_describe_test(&out->epoch, batches, text, sizeof text)) {
    cr_log_info("%s (-iterations all scores each sample once)", text);
  }
  return CREMA_OK;
}

static crema_status run_batch(crema_net *net, const test_plan *plan, int64_t index,
                              const char *folder, scores *s) {
  const int64_t samples = plan->all ? cr_net_epoch_take(&plan->epoch, index) : 0;
  double loss;
  cr_net_take_samples(net, samples < plan->epoch.batch ? samples : 0);
  CR_TRY(crema_net_forward(net, &loss));
  if (index == 0) CR_TRY(cli_dump_write(net, folder, false));
  CR_TRY(print_batch(net, index, s));
  return cr_net_means_add(net, loss, samples, &s->means);
}

/* `batches`: 0: all samples once; `folder`: of -dump_blobs. */
static crema_status score(crema_net *net, int64_t batches, const char *folder,
                          const char *ap_version) {
  scores s = {0};
  test_plan plan = {.batches = 0};
  crema_status status = CREMA_OK;
  CR_TRY(cli_dump_begin(net, folder));
  CR_TRY(make_plan(net, batches, &plan));
  CR_TRY_GOTO(cr_net_means_begin(net, &s.means), out);
  cr_log_info("Running for %lld iterations.", (long long)plan.batches);
  for (int64_t i = 0; i < plan.batches; ++i) {
    status = run_batch(net, &plan, i, folder, &s);
    if (status == CREMA_OK) continue;
    status = cr_fail_in(status, "batch %lld", (long long)i);
    goto out;
  }
  report(net, &s.means);
  status = report_detections(net, &s.found, ap_version);
out:
  cr_detections_free(&s.found);
  cr_net_means_free(&s.means);
  return status;
}

/* The number of batches, 0 for all; false with the error printed. */
static bool read_iterations(const char *text, int64_t *out) {
  char *end = NULL;
  *out = 0;
  if (strcmp(text, "all") == 0) return true;
  *out = strtoll(text, &end, 10);
  if (end != text && *end == '\0' && *out > 0) return true;
  cli_usage_error("-iterations: expected a number above 0 or all, found \"%s\"", text);
  return false;
}

static const char help_text[] =
    "Runs a network in phase TEST over its test data and prints the outputs of each batch and\n"
    "their means. Each sample is scored once; the last batch can be shorter, and means are\n"
    "weighted by the number of samples. With a number of -iterations, batches are full, continue\n"
    "at the first sample after the last, and count equally, as in Caffe. For a detector, which\n"
    "ends in DetectionEvaluate, the average precision of each class and their mean (mAP) follow.\n"
    "\n"
    "Example:\n"
    "  crema test -model lenet_train_test.prototxt -weights lenet_iter_10000.caffemodel\n";

int crema_cmd_test(int argc, char **argv) {
  cli_net_flags flags;
  const char *folder = "", *ap_version = "Integral", *iterations = "all";
  int64_t batches = 0;
  cli_flag list[CLI_NET_FLAGS + 3];
  cli_net_flags_list(&flags, "", "accepted; a net is always tested in phase TEST", list);
  *cli_iterations_flag(list) =
      (cli_flag){"iterations", CLI_WORD, &iterations, "batches to run, or all: each sample once"};
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
  if (!read_iterations(iterations, &batches)) return 1;
  if (!cli_choose_phase(flags.phase, &phase)) return 1;
  if (phase != CREMA_TEST) cr_log_warning("-phase has no effect on test");
  if (cr_detections_check_version(ap_version) != CREMA_OK) return cli_fail();
  if (!cli_net_flags_load(&flags, CREMA_TEST, &net)) return 1;
  cli_warn_of_inputs(flags.model, net.net, "crema classify gives images to a deploy net");
  int code = score(net.net, batches, folder, ap_version) == CREMA_OK ? 0 : cli_fail();
  cli_net_close(&net);
  return code;
}
