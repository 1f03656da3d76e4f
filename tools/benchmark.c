/* crema benchmark: how fast a net is, and how much memory it takes, plain and compiled.
 *
 * A process measures its peak memory over its whole life, so each measurement has its own process.
 * That process is this command with the measurement in the environment variable ROW. */
#include <math.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/list.h"
#include "core/system.h"
#include "device/backend/backend.h"
#include "device_flag.h"
#include "infer/session.h"
#include "net_flags.h"

extern char **environ;

enum { MOST_RUNS = 10000, MOST_SESSIONS = 256 };

#define ROW "CREMA_BENCHMARK_ROW"

typedef struct benchmark {
  const char *net, *weights, *threads, *batch, *precision, *table, *gpu, *math;
  crema_device *device; /* NULL: the CPU */
  crema_math chosen_math;
  crema_precision chosen; /* of the compiled model */
  double seconds;
  bool allow_missing;
} benchmark;

/* One measurement. */
typedef struct row {
  int compiled, threads, batch, sessions;
} row;

typedef struct result {
  double p50, p99;             /* milliseconds of a run */
  double rate;                 /* items in a second, of all sessions together */
  double peak;                 /* MB of the process */
  double weights, activations; /* MB; the activations of one session */
} result;

/* ---- a measurement ------------------------------------------------------- */

/* Where threads wait for each other, once. macOS has no pthread_barrier_t. */
typedef struct gate {
  pthread_mutex_t mutex;
  pthread_cond_t open;
  int missing; /* threads that have not arrived */
} gate;

static void pass_gate(gate *g) {
  pthread_mutex_lock(&g->mutex);
  if (--g->missing == 0) pthread_cond_broadcast(&g->open);
  while (g->missing > 0) pthread_cond_wait(&g->open, &g->mutex);
  pthread_mutex_unlock(&g->mutex);
}

typedef struct worker {
  const benchmark *b;
  const row *row;
  cli_net net;
  pthread_t thread;
  gate *start;
  crema_status status;
  cr_error *error;
  int runs;
  double seconds, time[MOST_RUNS];
} worker;

static crema_blob *input_of(const cli_net *n, int index) {
  return n->session != NULL ? crema_session_input(n->session, index)
                            : crema_net_input(n->net, index);
}

static crema_blob *output_of(const cli_net *n, int index) {
  return n->session != NULL ? crema_session_output(n->session, index)
                            : crema_net_output(n->net, index);
}

static crema_status forward(const cli_net *n) {
  return n->session != NULL ? crema_session_run(n->session) : crema_net_forward(n->net, NULL);
}

static crema_status set_batch(const cli_net *n, int64_t items) {
  if (crema_net_input_count(n->net) == 0) {
    return cr_fail(CREMA_E_ARGUMENT, "the net has no Input layer, whose batch could be set");
  }
  for (int i = 0; i < crema_net_input_count(n->net); ++i) {
    crema_blob *input = input_of(n, i);
    crema_shape shape = *crema_blob_shape(input);
    if (shape.axes > 0) shape.dim[0] = items;
    CR_TRY(crema_blob_reshape(input, &shape));
  }
  return CREMA_OK;
}

static crema_status open_plain(const benchmark *b, cli_net *out) {
  crema_net_options options;
  crema_net_options_init(&options);
  options.seed = 1;
  options.device = b->device;
  options.math = b->chosen_math;
  CR_TRY(crema_net_load(b->net, &options, &out->net));
  if (b->weights == NULL) return CREMA_OK;
  const crema_weights_options weights = {.allow_missing = b->allow_missing};
  return crema_net_load_weights_with(out->net, b->weights, &weights);
}

/* Runs until the time is over; outputs are read, as a program would. */
static crema_status run_worker(worker *w) {
  const double end = cr_clock_seconds() + w->b->seconds;
  double before = cr_clock_seconds(), first = before;
  while (w->runs < MOST_RUNS && (before < end || w->runs < 3)) {
    const float *values = NULL;
    CR_TRY(forward(&w->net));
    for (int i = 0; i < crema_net_output_count(w->net.net); ++i) {
      CR_TRY(crema_blob_cpu_data(output_of(&w->net, i), &values));
    }
    const double now = cr_clock_seconds();
    w->time[w->runs++] = (now - before) * 1e3;
    before = now;
  }
  w->seconds = before - first;
  return CREMA_OK;
}

/* The first passes plan and make memory. */
static void *work(void *user) {
  worker *w = user;
  w->status = set_batch(&w->net, w->row->batch);
  for (int i = 0; i < 2 && w->status == CREMA_OK; ++i) {
    w->status = forward(&w->net);
  }
  pass_gate(w->start);
  if (w->status == CREMA_OK) w->status = run_worker(w);
  if (w->status != CREMA_OK) w->error = cr_error_keep();
  return NULL;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static crema_status print_result(worker *all, int sessions) {
  struct rusage usage;
  crema_session_memory memory = {0};
  worker *w = &all[0];
  double rate = 0;
  qsort(w->time, (size_t)w->runs, sizeof *w->time, by_value);
  for (int i = 0; i < sessions; ++i) {
    rate += (double)all[i].runs * all[i].row->batch / all[i].seconds;
  }
  if (w->net.session != NULL) CR_TRY(crema_session_memory_read(w->net.session, &memory));
  getrusage(RUSAGE_SELF, &usage);
  const int last = (int)ceil(0.99 * w->runs) - 1;
  printf("%.17g %.17g %.17g %.17g %.17g %.17g\n", w->time[w->runs / 2], w->time[last], rate,
         (double)usage.ru_maxrss / 1024, (double)memory.weights / 1e6,
         (double)memory.activations / 1e6);
  return CREMA_OK;
}

static crema_status open_workers(const benchmark *b, const row *r, worker *all) {
  crema_model_options options;
  crema_session_options session;
  crema_model_options_init(&options);
  crema_session_options_init(&session);
  options.allow_missing = b->allow_missing;
  options.precision = b->chosen;
  options.table = b->table;
  options.seed = 1;
  session.threads = r->threads;
  session.device = b->device;
  session.math = b->chosen_math;
  if (!r->compiled) return open_plain(b, &all[0].net);
  CR_TRY(crema_model_load(b->net, b->weights, &options, &all[0].net.model));
  for (int i = 0; i < r->sessions; ++i) {
    CR_TRY(crema_session_create(all[0].net.model, &session, &all[i].net.session));
    all[i].net.net = cr_session_net(all[i].net.session);
  }
  return CREMA_OK;
}

static crema_status run_workers(const benchmark *b, const row *r, worker *all) {
  gate start = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, r->sessions};
  crema_status status = CREMA_OK;
  for (int i = 0; i < r->sessions; ++i) {
    all[i].b = b;
    all[i].row = r;
    all[i].start = &start;
    if (i > 0 && pthread_create(&all[i].thread, NULL, work, &all[i]) != 0) {
      exit(cli_error("no more threads")); /* all other threads wait at the gate */
    }
  }
  (void)work(&all[0]);
  for (int i = 1; i < r->sessions; ++i) pthread_join(all[i].thread, NULL);
  for (int i = 0; i < r->sessions; ++i) {
    if (status == CREMA_OK && all[i].status != CREMA_OK) {
      status = cr_error_again(all[i].status, all[i].error);
    }
    free(all[i].error);
  }
  pthread_cond_destroy(&start.open);
  pthread_mutex_destroy(&start.mutex);
  return status == CREMA_OK ? print_result(all, r->sessions) : status;
}

static int measure_here(const benchmark *b, const char *text) {
  row r;
  if (sscanf(text, "%d %d %d %d", &r.compiled, &r.threads, &r.batch, &r.sessions) != 4 ||
      r.sessions < 1 || r.sessions > MOST_SESSIONS) {
    return cli_error(ROW " is set to \"%s\"", text);
  }
  worker *all = calloc((size_t)r.sessions, sizeof *all);
  if (all == NULL) return cli_error("out of memory");
  crema_status status = open_workers(b, &r, all);
  if (status == CREMA_OK) status = run_workers(b, &r, all);
  const int code = status == CREMA_OK ? 0 : cli_fail();
  for (int i = r.sessions - 1; i >= 0; --i) cli_net_close(&all[i].net);
  free(all);
  return code;
}

/* ---- all of them --------------------------------------------------------- */

static bool read_result(int fd, result *out) {
  char text[512];
  size_t used = 0;
  for (ssize_t got; used < sizeof text - 1; used += (size_t)got) {
    got = read(fd, text + used, sizeof text - 1 - used);
    if (got <= 0) break;
  }
  text[used] = '\0';
  return sscanf(text, "%lf %lf %lf %lf %lf %lf", &out->p50, &out->p99, &out->rate, &out->peak,
                &out->weights, &out->activations) == 6;
}

/* False, with the error printed (by the process itself as a rule), when it fails. */
static bool measure(char **argv, const row *r, result *out) {
  char text[64], threads[16], program[4096];
  int pipes[2], status = 0;
  pid_t pid = 0;
  posix_spawn_file_actions_t actions;
  snprintf(text, sizeof text, "%d %d %d %d", r->compiled, r->threads, r->batch, r->sessions);
  snprintf(threads, sizeof threads, "%d", r->threads);
  setenv(ROW, text, 1);
  setenv("OMP_NUM_THREADS", threads, 1);
  if (pipe(pipes) != 0) {
    cli_error("no pipe");
    return false;
  }
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, pipes[0]);
  const bool started = cr_system_program(program, sizeof program) &&
                       posix_spawn(&pid, program, &actions, NULL, argv, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(pipes[1]);
  const bool got = started && read_result(pipes[0], out);
  close(pipes[0]);
  if (started) waitpid(pid, &status, 0);
  if (!started || (!got && WIFSIGNALED(status))) {
    cli_error("the process that measures %s", started ? "was killed" : "cannot be started");
  }
  return got;
}

/* Numbers of a list with commas, above 0. */
static bool read_numbers(const char *flag, const char *text, cr_list *out) {
  if (cr_list_split(text, out) != CREMA_OK) {
    cli_fail();
    return false;
  }
  for (size_t i = 0; i < out->count; ++i) {
    char *end = NULL;
    const long number = strtol(out->item[i], &end, 10);
    if (*end == '\0' && number >= 1 && number <= 4096) continue;
    cli_usage_error("-%s %s: expected numbers from 1 to 4096 with commas", flag, text);
    return false;
  }
  return true;
}

/* Says of what kind the compiled model is; where that can go wrong, before anything is measured. */
static bool tell_precision(const benchmark *b) {
  const cr_backend *cpu = cr_cpu_device()->backend;
  const crema_dtype type = b->chosen == CREMA_PRECISION_BF16 ? CREMA_BF16 : CREMA_I8;
  crema_model_options options;
  crema_model *model = NULL;
  if (b->chosen == CREMA_PRECISION_F32) return true;
  crema_model_options_init(&options);
  options.precision = b->chosen;
  options.table = b->table;
  options.allow_missing = b->allow_missing;
  const crema_status status = crema_model_load(b->net, b->weights, &options, &model);
  crema_model_destroy(model);
  if (status != CREMA_OK) {
    cli_fail();
    return false;
  }
  const bool fast = cpu->is_fast != NULL && cpu->is_fast(type);
  printf("compiled: %s%s\n", b->precision,
         fast ? "" : ", for which the processor has no instructions: it stays in f32");
  return true;
}

static bool measure_pairs(char **argv, const cr_list *threads, const cr_list *batch) {
  printf("%7s %5s | %8s %8s %8s | %8s %8s %8s %8s | %s\n", "threads", "batch", "plain", "p99 ms",
         "peak MB", "compiled", "p99 ms", "peak MB", "planned", "ratio");
  for (size_t t = 0; t < threads->count; ++t) {
    for (size_t b = 0; b < batch->count; ++b) {
      result plain, compiled;
      row r = {.threads = atoi(threads->item[t]), .batch = atoi(batch->item[b]), .sessions = 1};
      if (!measure(argv, &r, &plain)) return false;
      r.compiled = 1;
      if (!measure(argv, &r, &compiled)) return false;
      printf("%7d %5d | %8.2f %8.2f %8.1f | %8.2f %8.2f %8.1f %8.1f | %.2f\n", r.threads, r.batch,
             plain.p50, plain.p99, plain.peak, compiled.p50, compiled.p99, compiled.peak,
             compiled.weights + compiled.activations, compiled.p50 / plain.p50);
    }
  }
  return true;
}

/* One session per processor, one thread each, compared with a single session. */
static bool measure_sessions(char **argv, const cr_list *batch) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  const int most = processors > MOST_SESSIONS ? MOST_SESSIONS : (int)processors;
  printf("\n%8s %5s | %9s %8s | %s\n", "sessions", "batch", "items/s", "peak MB",
         "x one session's");
  for (size_t b = 0; b < batch->count; ++b) {
    result one, all;
    row r = {.compiled = 1, .threads = 1, .batch = atoi(batch->item[b]), .sessions = 1};
    if (!measure(argv, &r, &one)) return false;
    r.sessions = most < 1 ? 1 : most;
    if (!measure(argv, &r, &all)) return false;
    printf("%8d %5d | %9.1f %8.1f | %.2f\n", r.sessions, r.batch, all.rate, all.peak,
           all.rate / one.rate);
  }
  return true;
}

static int measure_all(const benchmark *b, char **argv) {
  cr_list threads = {0}, batch = {0};
  bool good = read_numbers("threads", b->threads, &threads) &&
              read_numbers("batch", b->batch, &batch) && tell_precision(b) &&
              measure_pairs(argv, &threads, &batch) && measure_sessions(argv, &batch);
  cr_list_free(&batch);
  cr_list_free(&threads);
  return good ? 0 : 1;
}

static const char help_text[] =
    "Measures a network, plain and compiled (crema help compile), on the CPU or with -gpu on a "
    "GPU.\n"
    "Inputs are 0; without -weights, weights are random. The table has, for each number of "
    "threads\n"
    "and each batch size:\n"
    "  plain, compiled  median time of a run in ms\n"
    "  p99 ms           99th percentile of the time of a run\n"
    "  peak MB          peak memory of the process on the host\n"
    "  planned          MB of the weights and activations of the compiled model\n"
    "  ratio            time of the compiled model by time of the plain net\n"
    "A second table has the throughput of one session per processor, each in its own thread.\n"
    "-precision bf16 and int8 change only the compiled model.\n"
    "\n"
    "Example:\n"
    "  crema benchmark -threads 1,2 -batch 1,16 models/squeezenet_v1.1/deploy.prototxt\n";

int crema_cmd_benchmark(int argc, char **argv) {
  benchmark b = {
      .threads = "1,2", .batch = "1,16", .seconds = 1, .precision = "f32", .math = "exact"};
  const cli_flag flags[] = {
      {"model", CLI_FILE, &b.net, "the net (text)"},
      {"weights", CLI_FILE, &b.weights, "the net's .caffemodel"},
      {"threads", CLI_NUMBERS, &b.threads, "numbers of threads of one run"},
      {"batch", CLI_NUMBERS, &b.batch, "numbers of items of one run"},
      {"seconds", CLI_DOUBLE, &b.seconds, "how long each measurement takes"},
      {"precision", CLI_WORD, &b.precision,
       "of the compiled model: f32, bf16 or int8, which needs a -table"},
      {"table", CLI_FILE, &b.table, CLI_TABLE_HELP},
      {"gpu", CLI_DEVICE, &b.gpu, CLI_GPU_HELP},
      {"math", CLI_WORD, &b.math, CLI_MATH_HELP},
      {"allow_missing", CLI_BOOL, &b.allow_missing, CLI_ALLOW_MISSING_HELP},
  };
  const cli_spec spec = {.command = "benchmark",
                         .arguments = "NET",
                         .file_flag = {"model"},
                         .help = help_text,
                         .flags = flags,
                         .flag_count = sizeof flags / sizeof *flags};
  int exit_code;
  char **given = calloc((size_t)argc + 2, sizeof *given); /* cli_parse changes argv */
  if (given == NULL) return cli_error("out of memory");
  given[0] = (char *)"crema";
  for (int i = 0; i < argc; ++i) given[i + 1] = argv[i];
  if (cli_parse(&spec, &argc, argv, &exit_code)) {
    const char *row_text = getenv(ROW);
    /* The first process has logged the device. */
    bool (*open)(const char *, crema_device **) =
        row_text != NULL ? cli_open_first_device : cli_choose_first_device;
    if (!cli_choose_precision(b.precision, &b.chosen) || !cli_choose_math(b.math, &b.chosen_math) ||
        !open(b.gpu, &b.device)) {
      exit_code = 1;
    } else {
      exit_code = row_text != NULL ? measure_here(&b, row_text) : measure_all(&b, given);
    }
  }
  free(given);
  return exit_code;
}
