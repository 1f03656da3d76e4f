/* crema plot: charts of training runs. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core/fail.h"
#include "plot/chart.h"
#include "plot/table.h"

static const char help_text[] =
    "Draws loss, test outputs, learning rate and throughput of training runs over the iterations,\n"
    "each in its own panel. A RUN is a folder of crema train -record or a log of Caffe or crema.\n"
    "Several runs are drawn in one image. The ending of OUT selects SVG, PNG, or a table of the\n"
    "values (CSV).\n"
    "\n"
    "Examples:\n"
    "  crema train solver.prototxt -record run && crema plot run loss.svg\n"
    "  crema plot -log -smoothing 0.9 old/train.log new/train.log compare.png\n";

static bool is_table(const char *path) {
  const size_t length = strlen(path);
  return length > 4 && strcmp(path + length - 4, ".csv") == 0;
}

static crema_status plot(char **path, size_t runs, const chart_options *options, const char *out) {
  cr_arena arena = {0};
  plot_run *run = NULL;
  crema_status status = CR_NEW(run, runs, "runs");
  for (size_t i = 0; i < runs && status == CREMA_OK; ++i) {
    status = plot_run_read(path[i], &arena, &run[i]);
  }
  if (status == CREMA_OK && is_table(out)) status = table_write(run, runs, out);
  else if (status == CREMA_OK) status = chart_draw(run, runs, options, out);
  free(run);
  cr_arena_free(&arena);
  return status;
}

int crema_cmd_plot(int argc, char **argv) {
  chart_options options = {0};
  const cli_flag flags[] = {
      {"log", CLI_BOOL, &options.logarithmic, "logarithmic axes for losses and learning rates"},
      {"smoothing", CLI_DOUBLE, &options.smoothing,
       "exponential mean of training curves: 0 (none) to below 1"},
  };
  const cli_spec spec = {.command = "plot",
                         .arguments = "RUN... OUT.svg|OUT.png|OUT.csv",
                         .min_arguments = 2,
                         .max_arguments = -1,
                         .help = help_text,
                         .flags = flags,
                         .flag_count = sizeof flags / sizeof *flags};
  int code;
  if (!cli_parse(&spec, &argc, argv, &code)) return code;
  if (!(options.smoothing >= 0 && options.smoothing < 1)) {
    return cli_usage_error("-smoothing: expected a number of at least 0 and below 1");
  }
  if (plot(argv + 1, (size_t)argc - 2, &options, argv[argc - 1]) != CREMA_OK) return cli_fail();
  return 0;
}
