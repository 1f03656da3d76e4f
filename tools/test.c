#include <stdlib.h>

#include "blob_dump.h"
#include "cli.h"
#include "core/fail.h"
#include "core/log.h"
#include "device_flag.h"
#include "net/net.h"
#include "net_flags.h"

/* The values of all outputs in order, and the output that each belongs to. */
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
    double weight = (double)net->output_weight[i];
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

/* `folder`: of -dump_blobs. */
static crema_status score(crema_net *net, int64_t batches, const char *folder) {
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
  cli_net_flags flags;
  const char *folder = "";
  cli_flag list[CLI_NET_FLAGS + 2];
  cli_net_flags_list(&flags, "batches to run", "accepted; a net is always tested in phase TEST",
                     list);
  list[CLI_NET_FLAGS] =
      (cli_flag){"allow_missing", CLI_BOOL, &flags.allow_missing, CLI_ALLOW_MISSING_HELP};
  list[CLI_NET_FLAGS + 1] = (cli_flag){"dump_blobs", CLI_DIR, &folder, CLI_DUMP_HELP};
  const cli_spec spec = {.command = "test",
                         .arguments = "NET",
                         .file_flag = {"model"},
                         .required = {"weights"},
                         .help = help_text,
                         .flags = list,
                         .flag_count = CLI_NET_FLAGS + 2};
  int exit_code;
  crema_phase phase = CREMA_TEST;
  cli_net net;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (!cli_choose_phase(flags.phase, &phase)) return 1;
  if (phase != CREMA_TEST) cr_log_warning("-phase has no effect on test");
  if (!cli_net_flags_load(&flags, CREMA_TEST, &net)) return 1;
  int code = score(net.net, flags.iterations, folder) == CREMA_OK ? 0 : cli_fail();
  cli_net_close(&net);
  return code;
}
