#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core/clock.h"
#include "core/list.h"
#include "core/log.h"
#include "crema/solver.h"
#include "device_flag.h"
#include "exchange_flags.h"
#include "input_report.h"
#include "memory_report.h"
#include "signals.h"
#include "solver/solver.h"
#include "train_records.h"
#include "train_report.h"

typedef struct train_flags {
  const char *solver, *weights, *snapshot, *gpu, *math, *phase, *stage, *plugin;
  const char *sigint_effect, *sighup_effect, *on_nan;
  cli_exchange_flags exchange;
  int64_t iterations, level;
  bool skip_corrupt;
  bool memory_report;
  bool input_report;
  bool resume_auto;
  bool warn_unknown_fields;
  bool plan;
} train_flags;

typedef struct training {
  crema_solver_action on_sigint, on_sighup;
  cli_train_report report;
  int ended_by;         /* the signal that ends the training whatever the flags say; 0: none came */
  crema_solver *solver; /* NULL until it is made */
  crema_device *device; /* NULL: as the solver file says */
  cli_train_records records;
} training;

/* SIGXCPU: the soft limit on CPU time is reached; the hard limit a little later kills. */
static void look_for_end(training *self) {
  if (cli_signal_came(SIGTERM)) self->ended_by = SIGTERM;
  if (self->ended_by == 0 && cli_signal_came(SIGXCPU)) self->ended_by = SIGXCPU;
}

static crema_solver_action poll_signals(void *user) {
  training *self = user;
  look_for_end(self);
  if (self->ended_by > 0) return CREMA_SOLVER_STOP;
  if (cli_signal_came(SIGINT) && self->on_sigint != CREMA_SOLVER_CONTINUE) return self->on_sigint;
  if (cli_signal_came(SIGHUP) && self->on_sighup != CREMA_SOLVER_CONTINUE) return self->on_sighup;
  if (self->solver != NULL && cli_signal_came(SIGUSR1)) {
    cli_progress("");
    cli_memory_report(self->solver, self->device);
  }
  const cli_train_report *report = &self->report;
  if (report->stop_at > 0 && report->done >= report->stop_at) return CREMA_SOLVER_STOP;
  return CREMA_SOLVER_CONTINUE;
}

static void show_progress(void *user, const crema_solver_progress *progress) {
  training *self = user;
  cli_train_report_progress(&self->report, progress);
  cli_train_records_progress(&self->records);
}

static void record_event(void *user, const crema_solver_event *event) {
  training *self = user;
  cli_train_records_add(&self->records, event);
}

static bool parse_effect(const char *flag, const char *text, crema_solver_action *out) {
  static const char *const words[] = {"stop", "snapshot", "none"};
  static const crema_solver_action actions[] = {CREMA_SOLVER_STOP, CREMA_SOLVER_SNAPSHOT,
                                                CREMA_SOLVER_CONTINUE};
  const int found = cli_find_word(flag, text, words, 3);
  if (found >= 0) *out = actions[found];
  return found >= 0;
}

static bool parse_on_nan(const char *text, crema_solver_on_nan *out) {
  static const char *const words[] = {"stop", "warn"};
  const int found = cli_find_word("-on_nan", text, words, 2);
  *out = found == 1 ? CREMA_SOLVER_NAN_WARN : CREMA_SOLVER_NAN_STOP;
  return found >= 0;
}

static bool ends_in(const char *path, const char *ending) {
  const size_t length = strlen(path), size = strlen(ending);
  return length >= size && strcmp(path + length - size, ending) == 0;
}

/* A model for a snapshot is found by its name, as the error of reading it cannot know the flags. */
static bool check_snapshot(const char *path) {
  if (!ends_in(path, ".caffemodel") && !ends_in(path, ".caffemodel.h5")) return true;
  cli_usage_error(
      "train: %s holds weights, but -snapshot requires a .solverstate; -weights %s "
      "starts from the weights",
      path, path);
  return false;
}

static bool check_flags(const train_flags *flags, training *run) {
  crema_phase phase = CREMA_TRAIN;
  if (flags->snapshot[0] != '\0' && flags->resume_auto) {
    cli_usage_error("train: -snapshot names the snapshot, -resume_auto finds the newest; give one");
    return false;
  }
  if (flags->weights[0] != '\0' && flags->snapshot[0] != '\0') {
    cli_usage_error(
        "train: give -snapshot to continue from a snapshot or -weights to start from weights, "
        "not both");
    return false;
  }
  if (flags->iterations < 0) {
    cli_usage_error("-iterations: expected a number of at least 0");
    return false;
  }
  if (!check_snapshot(flags->snapshot) || !cli_check_level(flags->level)) return false;
  run->report.stop_at = flags->iterations;
  if (!cli_choose_phase(flags->phase, &phase)) return false;
  if (phase != CREMA_TRAIN) cr_log_warning("-phase has no effect on train");
  return parse_effect("-sigint_effect", flags->sigint_effect, &run->on_sigint) &&
         parse_effect("-sighup_effect", flags->sighup_effect, &run->on_sighup);
}

/* The exit code of a run that succeeded. A run that a signal ended has the exit code of a program
 * that this signal killed, although it wrote a snapshot. */
static int success_code(training *run) {
  look_for_end(run);
  return run->ended_by > 0 ? 128 + run->ended_by : 0;
}

/* Where training begins. */
static crema_status choose_start(crema_solver *solver, const train_flags *flags) {
  bool found = false;
  crema_status status = CREMA_OK;
  if (flags->snapshot[0] != '\0') {
    cr_log_info("Resuming from %s", flags->snapshot);
    return crema_solver_restore(solver, flags->snapshot);
  }
  if (flags->resume_auto) status = crema_solver_restore_latest(solver, &found);
  if (status != CREMA_OK || found) return status;
  return crema_solver_load_weights(solver, flags->weights[0] != '\0' ? flags->weights : NULL);
}

static void print_line(void *user, const char *text) {
  (void)user;
  puts(text);
}

/* Returns the exit code. */
static int plan(const train_flags *flags, const crema_solver_options *options) {
  crema_solver *solver = NULL;
  crema_status status = crema_solver_load(flags->solver, options, &solver);
  if (status == CREMA_OK) status = crema_solver_plan(solver, print_line, NULL);
  const int code = status == CREMA_OK ? 0 : cli_fail();
  crema_solver_destroy(solver);
  return code;
}

/* Returns the exit code. */
static int train(const train_flags *flags, const crema_solver_options *options) {
  crema_solver *solver = NULL;
  training *run = options->user;
  double start = 0;
  if (flags->memory_report) cli_memory_report_begin();
  crema_status status = cli_train_trace_begin(&run->records);
  if (status == CREMA_OK) status = crema_solver_load(flags->solver, options, &solver);
  if (status == CREMA_OK && cr_snapshot_is_wanted(solver)) status = cr_snapshot_check(solver);
  if (status == CREMA_OK) status = choose_start(solver, flags);
  if (status == CREMA_OK) {
    status = cli_train_records_open(&run->records, solver, flags->solver);
  }
  if (status == CREMA_OK) {
    run->solver = solver;
    cli_train_report_begin(&run->report, solver, flags->solver);
    /* After the next line is printed, signals may be sent. */
    cli_signals_note(run->on_sigint == CREMA_SOLVER_STOP);
    cr_log_info("Starting Optimization");
    start = cr_clock_seconds();
    status = crema_solver_solve(solver);
  }
  cli_train_records_close(&run->records, solver, status);
  cli_progress("");
  /* Caffe's command repeats the last line of the solver; the summary stands for it on a terminal.
   */
  if (status == CREMA_OK && !solver->stop_requested && !cli_progress_wanted()) {
    cr_log_info("Optimization Done.");
  }
  if (status == CREMA_OK) cli_train_report_end(&run->report);
  /* Prints the failure before freeing anything can change its text. */
  int code = status == CREMA_OK ? success_code(run) : cli_fail();
  if (status == CREMA_OK && flags->input_report) {
    cli_input_report(crema_solver_net(solver), cr_clock_seconds() - start);
  }
  if (status == CREMA_OK && flags->memory_report) {
    cli_memory_report(solver, run->device);
  }
  crema_solver_destroy(solver);
  return code;
}

static const char help_text[] =
    "Trains the net that the solver file names, with tests and snapshots as the solver file says.\n"
    "\n"
    "Examples:\n"
    "  crema train models/lenet/solver.prototxt\n"
    "  crema train solver.prototxt -snapshot lenet_iter_5000.solverstate\n"
    "  crema train solver.prototxt -gpu 0,1\n";

static const char help_more[] =
    "\n"
    "Resuming:\n"
    "  -snapshot restores the weights, the history, the iteration, the learning rate, the "
    "position\n"
    "  in the data and the random state. -resume_auto is for jobs that a scheduler restarts. The\n"
    "  number of devices may change from run to run.\n"
    "\n"
    "Devices:\n"
    "  With several devices, each computes gradients from its own batch. -gpu sim:4 simulates "
    "four\n"
    "  devices on the CPU. mpirun -n 4 crema train ... trains with processes, on one host or "
    "more.\n"
    "  -exchange tree sends gradients along a tree to the first device, which updates the "
    "weights.\n"
    "  reduce, nccl and mpi add them up on all devices while the backward pass still runs.\n"
    "\n"
    "Signals:\n"
    "  Ctrl-C   snapshot, then stop; a second Ctrl-C, at least 0.5 s later, stops without one\n"
    "  SIGTERM  snapshot, then stop with exit code 143\n"
    "  SIGXCPU  (limit on CPU time) snapshot, then stop with exit code 152\n"
    "  SIGHUP   snapshot, then continue, also under nohup\n"
    "  SIGUSR1  print the memory report\n"
    "\n"
    "Exit codes:\n"
    "  0 success; 1 failure, also if the last snapshot is missing; 2 error in the command line.\n"
    "  If a snapshot cannot be written, training continues and the next one is tried. If standard\n"
    "  error is a pipe whose reader ends, training continues.\n";

int crema_cmd_train(int argc, char **argv) {
  train_flags flags = {.solver = "",
                       .weights = "",
                       .snapshot = "",
                       .gpu = "",
                       .math = "",
                       .phase = "",
                       .stage = "",
                       .sigint_effect = "stop",
                       .sighup_effect = "snapshot",
                       .on_nan = "stop",
                       .plugin = "",
                       .exchange = CLI_EXCHANGE_DEFAULTS};
  training run = {
      .records = {.record = "", .tensorboard = "", .trace = "", .trace_iterations = 20}};
  crema_solver_options options;
  crema_solver_options_init(&options);
  const cli_flag list[] = {
      {"", CLI_GROUP, NULL, "Common flags"},
      {"solver", CLI_FILE, &flags.solver, "the solver file (text)"},
      {"weights", CLI_FILES, &flags.weights,
       "start from these models instead of the weights that the solver file names"},
      {"snapshot", CLI_FILE, &flags.snapshot, "resume from this .solverstate"},
      {"resume_auto", CLI_BOOL, &flags.resume_auto,
       "resume from the newest whole snapshot under snapshot_prefix, if there is one"},
      {"iterations", CLI_INT, &flags.iterations,
       "stop after so many iterations of this run; 0: at max_iter"},
      {"gpu", CLI_NUMBERS, &flags.gpu,
       "train on these GPUs, or on all; default: as the solver file says"},
      {"math", CLI_WORD, &flags.math, CLI_MATH_HELP "; default: as the solver file says"},
      {"plugin", CLI_FILES, &flags.plugin, CLI_PLUGIN_HELP},
      {"warn_unknown_fields", CLI_BOOL, &flags.warn_unknown_fields, CLI_UNKNOWN_FIELDS_HELP},
      {"", CLI_GROUP, NULL, "Net and data"},
      {"level", CLI_INT, &flags.level, "level of the train net's state"},
      {"stage", CLI_NAMES, &flags.stage, "stages of the train net's state"},
      {"skip_corrupt", CLI_BOOL, &flags.skip_corrupt,
       "skip records that cannot be decoded, with a warning"},
      {"phase", CLI_WORD, &flags.phase, "accepted; a net is always trained in phase TRAIN"},
      {"", CLI_GROUP, NULL, "Several devices or processes"},
      {"exchange", CLI_WORD, &flags.exchange.exchange, CLI_EXCHANGE_HELP},
      {"batch_mode", CLI_WORD, &flags.exchange.batch_mode, CLI_BATCH_MODE_HELP},
      {"order", CLI_WORD, &flags.exchange.order, CLI_ORDER_HELP},
      {"plan", CLI_BOOL, &flags.plan,
       "measure links and some iterations, print the predicted time of each exchange; do not "
       "train"},
      {"graphs", CLI_BOOL, &options.graphs,
       "on a CUDA device, capture whole passes in graphs: fewer calls of the host"},
      {"", CLI_GROUP, NULL, "Memory"},
      {"recompute", CLI_BOOL, &options.recompute,
       "compute most values a second time for the backward pass: slower, but less memory"},
      {"no_memory_plan", CLI_BOOL, &options.no_memory_plan,
       "keep all values of a pass until the next pass instead of reusing their memory"},
      {"", CLI_GROUP, NULL, "Reports"},
      {"memory_report", CLI_BOOL, &flags.memory_report,
       "print at the end how much memory the blobs and the device take"},
      {"input_report", CLI_BOOL, &flags.input_report,
       "print at the end how fast the input was and whether training waited for it"},
      {"record", CLI_DIR, &run.records.record,
       "write metrics.jsonl and run.json to this folder while training runs (docs/records.md)"},
      {"tensorboard", CLI_DIR, &run.records.tensorboard,
       "write an event file for TensorBoard to this folder"},
      {"trace", CLI_FILE, &run.records.trace,
       "write a timeline that Perfetto and crema trace read to this file"},
      {"trace_iterations", CLI_INT, &run.records.trace_iterations,
       "end the timeline after this many iterations"},
      {"", CLI_GROUP, NULL, "Signals and bad values"},
      {"sigint_effect", CLI_WORD, &flags.sigint_effect, "on Ctrl-C: stop, snapshot or none"},
      {"sighup_effect", CLI_WORD, &flags.sighup_effect, "on SIGHUP: stop, snapshot or none"},
      {"on_nan", CLI_WORD, &flags.on_nan,
       "if the loss or a weight is NaN or infinite: stop, or warn at each display (no snapshot has "
       "such weights)"},
  };
  const cli_spec spec = {.command = "train",
                         .arguments = "SOLVER",
                         .file_flag = {"solver"},
                         .help = help_text,
                         .more = help_more,
                         .flags = list,
                         .flag_count = sizeof list / sizeof *list};
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  cli_log_optional(); /* the snapshots are there */
  if (!check_flags(&flags, &run) || !parse_on_nan(flags.on_nan, &options.on_nan)) return 1;
  if (!cli_load_plugins(flags.plugin) || !cli_signals_start()) return 1;
  crema_device *device[CLI_MOST_DEVICES] = {NULL};
  if (!cli_read_exchange(&flags.exchange, &options)) return 1;
  if (!cli_choose_math(flags.math, &options.math)) return 1;
  if (!cli_choose_devices(flags.gpu, device, &options.device_count)) return 1;
  options.devices = device;
  options.with_processes = true;
  run.device = device[0];
  cr_list stages = {0};
  const bool split = cr_list_split(flags.stage, &stages) == CREMA_OK;
  options.stages = (const char *const *)stages.item;
  options.stage_count = stages.count;
  options.no_weights = true; /* until it is known where training begins */
  options.level = (int)flags.level;
  options.skip_corrupt = flags.skip_corrupt;
  options.warn_unknown_fields = flags.warn_unknown_fields;
  options.poll = poll_signals;
  options.progress = show_progress;
  if (cli_train_records_events(&run.records)) options.event = record_event;
  options.user = &run;
  int code = !split ? cli_fail() : flags.plan ? plan(&flags, &options) : train(&flags, &options);
  cr_list_free(&stages);
  return code;
}
