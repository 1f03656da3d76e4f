/* The files of a record.
 *
 * metrics.jsonl only grows. Each line is one write to a file that is opened for appending. A reader
 * therefore sees whole lines while training runs. A crash can damage only the last line. The next
 * run ends such a line first. */
#define _GNU_SOURCE
#include "record/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/c_locale.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/io.h"
#include "core/log.h"
#include "core/system.h"
#include "data/pipeline/pipeline.h"
#include "layers/common/input_class.h"
#include "memory/math.h"
#include "record/json_line.h"
#include "solver/solver.h"

enum { FORMAT = 1 };

struct cr_run_record {
  int file; /* metrics.jsonl; -1 */
  char *path;
  crema_solver *solver;
  crema_device *device;
  bool failed; /* a line could not be written */
  /* At the last line of training: samples, seconds of training, seconds of waiting for data. */
  int64_t samples;
  double seconds, waited;
};

/* ---- the content of lines --------------------------------------------------------- */

static double waited_for_data(const crema_net *net) {
  double sum = 0;
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    cr_input_stats stats = {0};
    if (layer->kind->input == NULL || layer->kind->input->stats == NULL) continue;
    layer->kind->input->stats(layer, &stats);
    sum += stats.pipeline.wait_seconds;
  }
  return sum;
}

static void add_memory(const cr_run_record *record, cr_json_line *line) {
  crema_device_memory memory = {0};
  cr_json_integer(line, "host_bytes", cr_system_resident());
  if (record->device == NULL || crema_device_memory_read(record->device, &memory) != CREMA_OK) {
    return;
  }
  cr_json_integer(line, "device_bytes", (int64_t)memory.current);
}

/* Values of one output are a number, or a list if there are several. */
static void add_outputs(const crema_solver_event *event, cr_json_line *line) {
  cr_json_open(line, "outputs", '{');
  for (int i = 0; i < event->values;) {
    const char *name = event->value[i].name;
    int end = i + 1;
    while (end < event->values && event->value[end].name == name) ++end;
    if (end == i + 1) {
      cr_json_number(line, name, event->value[i].value);
    } else {
      cr_json_open(line, name, '[');
      for (int k = i; k < end; ++k) cr_json_number(line, NULL, event->value[k].value);
      cr_json_close(line, '[');
    }
    i = end;
  }
  cr_json_close(line, '{');
}

/* The Euclidean norms of a layer's parameters and of their gradients. */
static crema_status add_layer_norms(const cr_layer *layer, cr_json_line *line) {
  double weights = 0, gradients = 0;
  for (int p = 0; p < layer->params; ++p) {
    double part;
    CR_TRY(cr_tensor_sumsq(layer->blob[p]->data, &part));
    weights += part;
    if (!layer->param_propagate_down[p]) continue;
    CR_TRY(cr_tensor_sumsq(layer->blob[p]->diff, &part));
    gradients += part;
  }
  cr_json_open(line, layer->name, '{');
  cr_json_number(line, "weights", sqrt(weights));
  cr_json_number(line, "gradients", sqrt(gradients));
  cr_json_close(line, '{');
  return CREMA_OK;
}

static crema_status add_norms(const crema_net *net, cr_json_line *line) {
  cr_json_open(line, "norms", '{');
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    if (layer->params > 0) CR_TRY(add_layer_norms(layer, line));
  }
  cr_json_close(line, '{');
  return CREMA_OK;
}

static crema_status add_training(cr_run_record *record, const crema_solver_event *event,
                                 cr_json_line *line) {
  const crema_net *net = record->solver->net;
  const double seconds = event->seconds - record->seconds, waited = waited_for_data(net);
  const double samples = (double)(event->samples - record->samples);
  cr_json_number(line, "loss", event->loss);
  cr_json_number(line, "rate", event->rate);
  cr_json_integer(line, "samples", event->samples);
  cr_json_number(line, "seconds", event->seconds);
  cr_json_number(line, "samples_per_second", seconds > 0 ? samples / seconds : 0);
  cr_json_number(line, "waited_for_data", waited - record->waited);
  add_memory(record, line);
  add_outputs(event, line);
  record->seconds = event->seconds;
  record->samples = event->samples;
  record->waited = waited;
  return add_norms(net, line);
}

/* ---- lines --------------------------------------------------------------------- */

static void begin_line(cr_json_line *line, const char *event, int64_t iteration) {
  cr_json_open(line, NULL, '{');
  cr_json_text(line, "event", event);
  cr_json_integer(line, "iteration", iteration);
  cr_json_integer(line, "time_ms", (int64_t)(cr_clock_date() * 1e3));
}

static crema_status fail_to(const char *path, const char *name, const char *what) {
  return cr_fail_errno(errno, "%s/%s: cannot %s", path, name, what);
}

/* Ends the line and writes it. Frees it. */
static crema_status end_line(const cr_run_record *record, cr_json_line *line) {
  cr_json_close(line, '{');
  crema_status status = line->status;
  if (status == CREMA_OK) status = cr_buffer_append(&line->text, "\n", 1);
  if (status == CREMA_OK && !cr_io_write(record->file, line->text.data, line->text.size)) {
    status = fail_to(record->path, "metrics.jsonl", "write");
  }
  cr_buffer_free(&line->text);
  return status;
}

static crema_status write_event(cr_run_record *record, const crema_solver_event *event) {
  static const char *const names[] = {"train", "test", "snapshot"};
  cr_json_line line = {0};
  crema_status status = CREMA_OK;
  begin_line(&line, names[event->kind], event->iteration);
  switch (event->kind) {
    case CREMA_SOLVER_TRAINED: status = add_training(record, event, &line); break;
    case CREMA_SOLVER_TESTED:
      cr_json_integer(&line, "net", event->test_net);
      add_outputs(event, &line);
      break;
    case CREMA_SOLVER_SAVED:
      cr_json_text(&line, "model", event->model);
      cr_json_text(&line, "state", event->state);
      break;
  }
  if (line.status == CREMA_OK) line.status = status;
  return end_line(record, &line);
}

void cr_run_record_event(cr_run_record *record, const crema_solver_event *event) {
  cr_c_locale locale;
  if (record->failed) return;
  crema_status status = cr_c_locale_begin(&locale);
  if (status == CREMA_OK) {
    status = write_event(record, event);
    cr_c_locale_end(&locale);
  }
  if (status == CREMA_OK) return;
  record->failed = true;
  cr_log_warning("%s; training continues without a record", crema_error_text());
}

void cr_run_record_close(cr_run_record *record, const char *result, const char *text) {
  cr_json_line line = {0};
  if (record == NULL) return;
  if (!record->failed && record->file >= 0) {
    begin_line(&line, "end", crema_solver_iteration(record->solver));
    cr_json_text(&line, "result", result);
    if (text != NULL) cr_json_text(&line, "text", text);
    if (end_line(record, &line) != CREMA_OK) cr_log_warning("%s", crema_error_text());
  }
  if (record->file >= 0) (void)cr_io_close(record->file);
  free(record->path);
  free(record);
}

/* ---- the beginning -------------------------------------------------------------- */

static void add_machine(const cr_run_record *record, cr_json_line *line) {
  char host[256] = "";
  crema_device_info info;
  (void)!gethostname(host, sizeof host - 1);
  cr_json_open(line, "machine", '{');
  cr_json_text(line, "host", host);
  cr_json_integer(line, "processors", cr_system_processors());
  if (record->device != NULL && crema_device_describe(record->device, &info) == CREMA_OK) {
    cr_json_text(line, "device", info.name);
  } else {
    cr_json_text(line, "device", "CPU");
  }
  cr_json_close(line, '{');
}

/* The command line; empty if the system does not report it. */
static void add_command(cr_json_line *line) {
  char text[1 << 14];
  int file = cr_io_open("/proc/self/cmdline", O_RDONLY, 0);
  ssize_t size = file < 0 ? 0 : cr_io_read(file, text, sizeof text - 1);
  if (file >= 0) (void)cr_io_close(file);
  text[size > 0 ? size : 0] = '\0';
  cr_json_open(line, "command", '[');
  for (const char *at = text; at < text + size; at += strlen(at) + 1) cr_json_text(line, NULL, at);
  cr_json_close(line, '[');
}

static crema_status add_texts(const cr_run_record *record, cr_json_line *line) {
  char *solver = NULL;
  cr_buffer net = {0};
  crema_status status = crema_solver_text(record->solver, &solver);
  if (status == CREMA_OK) status = cr_text_print(&record->solver->net->param->base, &net);
  if (status == CREMA_OK) {
    cr_json_text(line, "solver", solver);
    cr_json_text(line, "net", net.data == NULL ? "" : net.data);
  }
  cr_buffer_free(&net);
  crema_free(solver);
  return status;
}

static crema_status write_run(const cr_run_record *record, const cr_run_start *run) {
  cr_json_line line = {0};
  cr_buffer path = {0};
  char folder[4096] = "", start[32] = "";
  const time_t now = (time_t)cr_clock_date();
  struct tm parts;
  if (getcwd(folder, sizeof folder) == NULL) folder[0] = '\0';
  if (gmtime_r(&now, &parts) != NULL) strftime(start, sizeof start, "%Y-%m-%dT%H:%M:%SZ", &parts);
  cr_json_open(&line, NULL, '{');
  cr_json_integer(&line, "format", FORMAT);
  cr_json_text(&line, "started", start);
  cr_json_text(&line, "crema", crema_version());
  cr_json_text(&line, "directory", folder);
  add_command(&line);
  cr_json_text(&line, "solver_file", run->solver_path);
  cr_json_text(&line, "name", crema_net_name(record->solver->net));
  cr_json_integer(&line, "seed", (int64_t)record->solver->seed);
  add_machine(record, &line);
  crema_status status = add_texts(record, &line);
  cr_json_close(&line, '{');
  if (status == CREMA_OK) status = line.status;
  if (status == CREMA_OK) status = cr_buffer_print(&path, "%s/run.json", record->path);
  if (status == CREMA_OK) status = cr_buffer_append(&line.text, "\n", 1);
  if (status == CREMA_OK) status = cr_file_write(path.data, line.text.data, line.text.size);
  cr_buffer_free(&path);
  cr_buffer_free(&line.text);
  return status;
}

static crema_status path_in(const cr_run_record *record, const char *name, cr_buffer *out) {
  cr_buffer_clear(out);
  return cr_buffer_print(out, "%s/%s", record->path, name);
}

/* Fails for a folder that has files but no record: it may be a mistake. */
static crema_status check_folder(const char *path) {
  DIR *folder = opendir(path);
  const struct dirent *entry;
  bool others = false;
  if (folder == NULL) return cr_fail_errno(errno, "%s: cannot open", path);
  while (!others && (entry = readdir(folder)) != NULL) others = entry->d_name[0] != '.';
  (void)closedir(folder);
  if (!others) return CREMA_OK;
  return cr_fail(CREMA_E_EXISTS, "%s: the folder has files, but no record of a run", path);
}

/* Ends a line that a crash has cut. */
static crema_status mend_last_line(const cr_run_record *record) {
  char last = '\n';
  const off_t size = lseek(record->file, 0, SEEK_END);
  if (size > 0 && cr_io_read_at(record->file, &last, 1, size - 1) != 1) {
    return fail_to(record->path, "metrics.jsonl", "read");
  }
  if (last == '\n' || cr_io_write(record->file, "\n", 1)) return CREMA_OK;
  return fail_to(record->path, "metrics.jsonl", "write");
}

static crema_status open_files(cr_run_record *record, const cr_run_start *run, cr_buffer *path) {
  cr_json_line line = {0};
  if (!cr_io_make_folder(record->path, 0777) && errno != EEXIST) {
    return cr_fail_errno(errno, "%s: cannot make the folder", record->path);
  }
  CR_TRY(path_in(record, "run.json", path));
  if (!cr_file_exists(path->data)) {
    CR_TRY(check_folder(record->path));
    CR_TRY(write_run(record, run));
  }
  CR_TRY(path_in(record, "metrics.jsonl", path));
  record->file = cr_io_open(path->data, O_RDWR | O_APPEND | O_CREAT, 0666);
  if (record->file < 0) return fail_to(record->path, "metrics.jsonl", "open");
  CR_TRY(mend_last_line(record));
  begin_line(&line, "start", crema_solver_iteration(record->solver));
  cr_json_integer(&line, "max_iterations", crema_solver_max_iterations(record->solver));
  return end_line(record, &line);
}

crema_status cr_run_record_open(const char *path, crema_solver *solver, const cr_run_start *run,
                                cr_run_record **out) {
  cr_run_record *record = NULL;
  cr_buffer buffer = {0};
  cr_c_locale locale;
  *out = NULL;
  CR_TRY(CR_NEW(record, 1, "a record"));
  record->file = -1;
  record->solver = solver;
  record->device = run->device;
  record->path = strdup(path);
  crema_status status = record->path == NULL ? cr_fail_memory(strlen(path) + 1, "a path")
                                             : cr_c_locale_begin(&locale);
  if (status == CREMA_OK) {
    status = open_files(record, run, &buffer);
    cr_c_locale_end(&locale);
  }
  cr_buffer_free(&buffer);
  if (status == CREMA_OK) {
    *out = record;
  } else {
    record->failed = true;
    cr_run_record_close(record, "failed", NULL);
  }
  return status;
}
