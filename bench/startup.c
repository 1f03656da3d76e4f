/* From process start to the first output of SqueezeNet: starts itself a number of times; the child
 * loads network and weights, runs them on an image-sized input and reports on a pipe. In turn with
 * it runs a child that does the least possible work: it makes the bare chain with random weights,
 * reads no file, and runs the chain once. That shows how fast the machine is at the moment. A third
 * child does what the first one does with a compiled model.
 *
 * Then the same with ResNet-152, whose weights (240 MB, all zero: no kernel is faster for it) lie
 * in a file in the page cache; beside it a child that reads such a file and does nothing else. What
 * a start takes is compared with that and a later pass together. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chain/chain.h"
#include "chain/measure.h"
#include "crema/crema.h"

enum { RUNS = 25, LARGE_RUNS = 9, REPORT_FD = 3, PATH_SIZE = 4096 };

static const char models[] = CREMA_SOURCE_DIR "/models/";
static char large_weights[] = "/tmp/crema-startup-XXXXXX";

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, crema_error_text());
  return 1;
}

static int fill_input(crema_blob *blob) {
  float *in = NULL;
  if (crema_blob_mutable_cpu_data(blob, &in) != CREMA_OK) return fail("input");
  for (int64_t i = 0; i < crema_blob_count(blob); ++i) in[i] = (float)(i % 256) - 128.0f;
  return 0;
}

static int report(crema_blob *output) {
  const float *out = NULL;
  if (crema_blob_cpu_data(output, &out) != CREMA_OK) return fail("output");
  return write(REPORT_FD, "x", 1) != 1;
}

/* A later pass. The second one still makes memory for the weights. */
static int report_pass(double seconds) {
  return write(REPORT_FD, &seconds, sizeof seconds) != sizeof seconds;
}

static int run_child(const char *path, const char *weights) {
  crema_net *net = NULL;
  if (crema_net_load(path, NULL, &net) != CREMA_OK) return fail("network");
  if (crema_net_load_weights(net, weights) != CREMA_OK) return fail("weights");
  if (fill_input(crema_net_input(net, 0)) != 0) return 1;
  if (crema_net_forward(net, NULL) != CREMA_OK) return fail("forward");
  if (report(crema_net_output(net, 0)) != 0) return 1;
  double before = 0;
  for (int i = 0; i < 2; ++i) {
    before = seconds_now();
    if (crema_net_forward(net, NULL) != CREMA_OK) return fail("forward");
  }
  if (report_pass(seconds_now() - before) != 0) return 1;
  crema_net_destroy(net);
  return 0;
}

static int run_compiled_child(const char *path, const char *weights) {
  crema_model *model = NULL;
  crema_session *session = NULL;
  if (crema_model_load(path, weights, NULL, &model) != CREMA_OK) return fail("model");
  if (crema_session_create(model, NULL, &session) != CREMA_OK) return fail("session");
  if (fill_input(crema_session_input(session, 0)) != 0) return 1;
  if (crema_session_run(session) != CREMA_OK) return fail("run");
  if (report(crema_session_output(session, 0)) != 0) return 1;
  double before = 0;
  for (int i = 0; i < 2; ++i) {
    before = seconds_now();
    if (crema_session_run(session) != CREMA_OK) return fail("run");
  }
  if (report_pass(seconds_now() - before) != 0) return 1;
  crema_session_destroy(session);
  crema_model_destroy(model);
  return 0;
}

/* Reads the file to fresh memory. */
static int run_reading_child(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) return 1;
  const long size = ftell(file);
  char *bytes = malloc((size_t)size);
  rewind(file);
  if (bytes == NULL || fread(bytes, 1, (size_t)size, file) != (size_t)size) return 1;
  if (write(REPORT_FD, "x", 1) != 1) return 1;
  free(bytes);
  fclose(file);
  return 0;
}

static int run_chain_child(void) {
  chain *c = chain_network("squeezenet", 1);
  size_t count;
  float *values = chain_input_values(c, &count);
  for (size_t i = 0; i < count; ++i) values[i] = (float)(i % 256) - 128.0f;
  chain_run(c);
  float *out = chain_output_values(c, &count);
  if (write(REPORT_FD, "x", 1) != 1) return 1;
  free(out);
  chain_destroy(c);
  return 0;
}

/* What a child does, and its files. */
typedef struct task {
  const char *kind, *net, *weights;
} task;

/* Seconds from before the fork to the child's report; *pass: of a later pass, 0 without one. */
static double start_once(const task *what, double *pass) {
  int ends[2];
  char byte;
  if (pipe(ends) != 0) exit(1);
  double before = seconds_now();
  pid_t pid = fork();
  if (pid == 0) {
    if (dup2(ends[1], REPORT_FD) < 0) _exit(1);
    execl("/proc/self/exe", "startup", what->kind, what->net, what->weights, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  if (read(ends[0], &byte, 1) != 1) exit(1);
  double seconds = seconds_now() - before;
  if (read(ends[0], pass, sizeof *pass) != sizeof *pass) *pass = 0;
  close(ends[0]);
  waitpid(pid, NULL, 0);
  return seconds;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_times(const char *what, int runs, double *seconds) {
  qsort(seconds, (size_t)runs, sizeof seconds[0], compare_doubles);
  printf("  %-48s %6.1f ms (%.1f to %.1f)\n", what, seconds[runs / 2] * 1e3, seconds[0] * 1e3,
         seconds[runs - 1] * 1e3);
}

enum { TASKS = 3 };

/* Starts all of them in turn; the ratios are those to the last, `with_pass` with a later pass. */
static void compare(const char *title, const task tasks[TASKS], const char *const names[TASKS],
                    int runs, bool with_pass) {
  double seconds[TASKS][RUNS], ratio[TASKS - 1][RUNS], pass[TASKS];
  for (int t = 0; t < TASKS; ++t) start_once(&tasks[t], &pass[t]); /* files into the cache */
  for (int i = 0; i < runs; ++i) {
    for (int t = 0; t < TASKS; ++t) seconds[t][i] = start_once(&tasks[t], &pass[t]);
    for (int t = 0; t < TASKS - 1; ++t) {
      ratio[t][i] = seconds[t][i] / (seconds[TASKS - 1][i] + (with_pass ? pass[t] : 0));
    }
  }
  printf("%s, median of %d starts:\n", title, runs);
  for (int t = 0; t < TASKS; ++t) print_times(names[t], runs, seconds[t]);
  for (int t = 0; t < TASKS - 1; ++t) {
    qsort(ratio[t], (size_t)runs, sizeof ratio[t][0], compare_doubles);
    printf("  ratio of %-39s %6.2f\n", names[t], ratio[t][runs / 2]);
  }
}

static int compare_small(void) {
  char net[PATH_SIZE], weights[PATH_SIZE];
  snprintf(net, sizeof net, "%ssqueezenet_v1.0/deploy.prototxt", models);
  snprintf(weights, sizeof weights, "%ssqueezenet_v1.0/squeezenet_v1.0.caffemodel", models);
  const task tasks[TASKS] = {
      {"crema", net, weights}, {"compiled", net, weights}, {"chain", net, weights}};
  static const char *const names[TASKS] = {"crema", "crema, compiled",
                                           "the bare chain, which reads no file"};
  compare("first output of SqueezeNet", tasks, names, RUNS, false);
  return 0;
}

static int compare_large(void) {
  char path[PATH_SIZE];
  crema_net *net = NULL;
  snprintf(path, sizeof path, "%sresnet152/deploy.prototxt", models);
  int fd = mkstemp(large_weights);
  if (fd < 0) return 1;
  close(fd);
  crema_status status = crema_net_load(path, NULL, &net);
  if (status == CREMA_OK) status = crema_net_save_weights(net, large_weights);
  crema_net_destroy(net);
  if (status == CREMA_OK) {
    const task tasks[TASKS] = {{"crema", path, large_weights},
                               {"compiled", path, large_weights},
                               {"read", large_weights, large_weights}};
    static const char *const names[TASKS] = {"crema", "crema, compiled (target 350)",
                                             "a process that reads the weights and ends"};
    compare("first output of ResNet-152 (ratios, target 1.3: to reading and a later pass)", tasks,
            names, LARGE_RUNS, true);
  }
  unlink(large_weights);
  return status == CREMA_OK ? 0 : fail("ResNet-152");
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "crema") == 0) return run_child(argv[2], argv[3]);
  if (argc == 4 && strcmp(argv[1], "compiled") == 0) return run_compiled_child(argv[2], argv[3]);
  if (argc == 4 && strcmp(argv[1], "chain") == 0) return run_chain_child();
  if (argc == 4 && strcmp(argv[1], "read") == 0) return run_reading_child(argv[2]);
  if (compare_small() != 0) return 1;
  return compare_large();
}
