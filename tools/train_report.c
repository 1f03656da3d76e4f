#include "train_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "core/buffer.h"
#include "core/clock.h"
#include "device/backend/backend.h"
#include "layers/common/input_class.h"
#include "solver/detections.h"
#include "solver/solver.h"

/* One line of the banner or the summary. */
static void print_row(const char *name, const char *fmt, ...) CREMA_PRINTF(2, 3);

static void print_row(const char *name, const char *fmt, ...) {
  char text[512], line[600];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  snprintf(line, sizeof line, "  %-11s %s", name, text);
  cli_terminal_line(line);
}

static void format_time(double seconds, char *text, size_t size) {
  const long whole = (long)(seconds + 0.5);
  if (whole >= 3600) {
    snprintf(text, size, "%ldh%02ldm", whole / 3600, whole / 60 % 60);
  } else if (whole < 60) {
    snprintf(text, size, "%lds", whole);
  } else {
    snprintf(text, size, "%ldm%02lds", whole / 60, whole % 60);
  }
}

/* ---- the banner ---- */

/* The file or folder that an input layer reads; NULL: none is known. */
static const char *source_of(const Caffe__LayerParameter *param) {
  if (param->data_param != NULL) return param->data_param->source;
  if (param->image_data_param != NULL) return param->image_data_param->source;
  if (param->hdf5_data_param != NULL) return param->hdf5_data_param->source;
  if (param->window_data_param != NULL) return param->window_data_param->source;
  return NULL;
}

static void print_data(const crema_net *net) {
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    const cr_input_class *input = layer->kind->input;
    if (input == NULL) continue;
    const char *source = source_of(layer->param);
    const uint64_t records = input->epoch != NULL ? input->epoch(layer) : 0;
    char count[48] = "";
    if (records > 0) {
      snprintf(count, sizeof count, ", %llu records", (unsigned long long)records);
    }
    print_row("data", "%s%s", source != NULL ? source : layer->kind->type, count);
  }
}

static void print_device(const crema_solver *solver) {
  crema_device_info info;
  char number[64] = "";
  if (crema_device_describe(solver->device, &info) != CREMA_OK) return;
  if (solver->ranks > 1) snprintf(number, sizeof number, "%d x ", solver->ranks);
  if (crema_device_get_type(solver->device) == CREMA_DEVICE_CPU) {
    const int threads = cr_scheduler_threads(solver->context);
    print_row("device", "%sCPU (%s), %d thread%s", number, info.name, threads,
              threads == 1 ? "" : "s");
  } else {
    print_row("device", "%s%s", number, info.name);
  }
}

static void print_banner(const cli_train_report *report, const char *path) {
  const crema_solver *solver = report->solver;
  char line[600];
  int64_t parameters = 0, last = solver->param->max_iter;
  for (int i = 0; i < solver->net->learnables; ++i) {
    parameters += crema_blob_count(solver->net->learnable[i]);
  }
  if (report->stop_at > 0 && solver->iteration + report->stop_at < last) {
    last = solver->iteration + report->stop_at;
  }
  snprintf(line, sizeof line, "Training %s (%s)",
           crema_net_name(solver->net)[0] == '\0' ? "a net" : crema_net_name(solver->net), path);
  cli_terminal_line(line);
  print_data(solver->net);
  print_device(solver);
  print_row("parameters", "%lld", (long long)parameters);
  print_row("batch size", "%lld", (long long)solver->batch_samples * solver->param->iter_size);
  print_row("iterations", "%lld to %lld", (long long)solver->iteration, (long long)last);
}

void cli_train_report_begin(cli_train_report *report, crema_solver *solver, const char *path) {
  report->solver = solver;
  report->start = cr_clock_seconds();
  if (cli_progress_wanted() && cr_solver_leads(solver)) print_banner(report, path);
}

/* ---- the best score ---- */

/* The output of the first test net that scores it, as the solver chooses it. Sets *is_loss. */
static const char *scored_output(const crema_solver *solver, bool *is_loss) {
  const crema_net *net = solver->test_net[0];
  const int outputs = crema_net_output_count(net);
  *is_loss = false;
  if (cr_detections_wanted(solver->param)) return "mAP";
  for (int i = 0; i < outputs; ++i) {
    if (net->output_weight[i] == 0) return crema_net_output_name(net, i);
  }
  *is_loss = true;
  return outputs > 0 ? crema_net_output_name(net, 0) : "score";
}

/* A test takes place before the iteration that the solver has counted last. */
static void look_for_score(cli_train_report *report, int64_t iteration) {
  const crema_solver *solver = report->solver;
  bool is_loss;
  if (!solver->has_score || solver->test_nets == 0) return;
  (void)scored_output(solver, &is_loss);
  const double score = solver->score;
  if (report->has_best && !(is_loss ? score < report->best : score > report->best)) return;
  report->has_best = true;
  report->best = score;
  report->best_iteration = iteration;
}

/* ---- the progress line ---- */

void cli_train_report_progress(cli_train_report *report, const crema_solver_progress *progress) {
  ++report->done;
  if (!cli_progress_wanted()) return;
  if (report->solver != NULL) look_for_score(report, progress->iteration - 1);
  /* Redrawn a few times a second. */
  if (progress->seconds - report->shown < 0.2 && progress->iteration < progress->max_iterations) {
    return;
  }
  report->shown = progress->seconds;
  int64_t left = progress->max_iterations - progress->iteration;
  if (report->stop_at > 0 && report->stop_at - report->done < left) {
    left = report->stop_at - report->done;
  }
  const int64_t end = progress->iteration + left;
  char text[240], time_left[32];
  format_time(progress->seconds / (double)report->done * (double)left, time_left, sizeof time_left);
  snprintf(text, sizeof text,
           "iteration %lld/%lld  %.0f %%  %s left  loss %.4g  lr %.4g  %.0f samples/s",
           (long long)progress->iteration, (long long)end,
           end > 0 ? 100.0 * (double)progress->iteration / (double)end : 100.0, time_left,
           progress->loss, progress->rate, (double)progress->samples / progress->seconds);
  cli_progress(text);
}

/* ---- the summary ---- */

/* The files of the last snapshot of this run. */
static void print_snapshot(const crema_solver *solver) {
  cr_buffer path = {0};
  struct stat info;
  const char *ending = cr_snapshot_is_hdf5(solver) ? ".h5" : "";
  if (solver->snapshot_iteration < 0) return;
  crema_status status = cr_buffer_print(&path, "%s_iter_%lld.caffemodel%s", solver->snapshot_prefix,
                                        (long long)solver->snapshot_iteration, ending);
  if (status == CREMA_OK && stat(path.data, &info) == 0) {
    print_row("snapshot", "%s and .solverstate%s", path.data, ending);
  }
  cr_buffer_free(&path);
}

void cli_train_report_end(cli_train_report *report) {
  const crema_solver *solver = report->solver;
  char line[200], time[32];
  bool is_loss;
  if (!cli_progress_wanted() || solver == NULL || !cr_solver_leads(solver)) return;
  look_for_score(report, solver->iteration);
  format_time(cr_clock_seconds() - report->start, time, sizeof time);
  snprintf(line, sizeof line, "%s after %lld iterations in %s (%.0f samples/s)",
           solver->stop_requested ? "Stopped" : "Done", (long long)report->done, time,
           solver->seconds > 0 ? (double)solver->samples / solver->seconds : 0.0);
  cli_terminal_line(line);
  if (report->has_best) {
    print_row("best test", "%s = %.4g at iteration %lld", scored_output(solver, &is_loss),
              report->best, (long long)report->best_iteration);
  }
  print_snapshot(solver);
}
