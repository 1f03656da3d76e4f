/* From process start to the first output of SqueezeNet: starts itself a number of times; the child
 * loads network and weights, runs them on an image-sized input and reports on a pipe. In turn with
 * it runs a child that does the least possible work: it makes the bare chain with random weights,
 * reads no file, and runs the chain once. That shows how fast the machine is at the moment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chain/chain.h"
#include "chain/measure.h"
#include "crema/crema.h"

enum { RUNS = 25, REPORT_FD = 3 };

static const char folder[] = CREMA_SOURCE_DIR "/models/squeezenet_v1.0/";

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, crema_error_text());
  return 1;
}

static int run_child(void) {
  char path[4096];
  crema_net *net = NULL;
  snprintf(path, sizeof path, "%sdeploy.prototxt", folder);
  if (crema_net_load(path, NULL, &net) != CREMA_OK) return fail("network");
  snprintf(path, sizeof path, "%ssqueezenet_v1.0.caffemodel", folder);
  if (crema_net_load_weights(net, path) != CREMA_OK) return fail("weights");
  float *in = NULL;
  if (crema_blob_mutable_cpu_data(crema_net_input(net, 0), &in) != CREMA_OK) return fail("input");
  int64_t count = crema_blob_count(crema_net_input(net, 0));
  for (int64_t i = 0; i < count; ++i) in[i] = (float)(i % 256) - 128.0f;
  const float *out = NULL;
  if (crema_net_forward(net, NULL) != CREMA_OK) return fail("forward");
  if (crema_blob_cpu_data(crema_net_output(net, 0), &out) != CREMA_OK) return fail("output");
  if (write(REPORT_FD, "x", 1) != 1) return 1;
  crema_net_destroy(net);
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

/* Seconds from before the fork to the child's report. */
static double start_once(const char *child) {
  int ends[2];
  char byte;
  if (pipe(ends) != 0) exit(1);
  double before = seconds_now();
  pid_t pid = fork();
  if (pid == 0) {
    if (dup2(ends[1], REPORT_FD) < 0) _exit(1);
    execl("/proc/self/exe", "startup", child, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  if (read(ends[0], &byte, 1) != 1) exit(1);
  double seconds = seconds_now() - before;
  close(ends[0]);
  waitpid(pid, NULL, 0);
  return seconds;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "crema") == 0) return run_child();
  if (argc > 1 && strcmp(argv[1], "chain") == 0) return run_chain_child();
  double ours[RUNS], bare[RUNS], ratio[RUNS];
  start_once("crema"); /* files into the cache */
  start_once("chain");
  for (int i = 0; i < RUNS; ++i) {
    ours[i] = start_once("crema");
    bare[i] = start_once("chain");
    ratio[i] = ours[i] / bare[i];
  }
  qsort(ours, RUNS, sizeof ours[0], compare_doubles);
  qsort(bare, RUNS, sizeof bare[0], compare_doubles);
  qsort(ratio, RUNS, sizeof ratio[0], compare_doubles);
  printf(
      "first output of SqueezeNet after %.1f ms (median of %d starts; %.1f to %.1f; target 60)\n",
      ours[RUNS / 2] * 1e3, RUNS, ours[0] * 1e3, ours[RUNS - 1] * 1e3);
  printf("  the bare chain, which reads no file: %.1f ms (%.1f to %.1f); ratio %.2f\n",
         bare[RUNS / 2] * 1e3, bare[0] * 1e3, bare[RUNS - 1] * 1e3, ratio[RUNS / 2]);
  return 0;
}
