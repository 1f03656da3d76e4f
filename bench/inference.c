/* Inference by crema against the bare chain of oneDNN primitives, both with the same weights, in
 * one process, run in turn: AlexNet, GoogLeNet and SqueezeNet at batch 1 and 16 with one thread and
 * with all. The ratio is the median over neighbouring runs. Usage: inference [-t THREADS]
 * [NETWORK...] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain/chain.h"
#include "chain/measure.h"
#include "crema/crema.h"

static const struct {
  const char *name, *path;
} models[] = {{"alexnet", CREMA_SOURCE_DIR "/models/alexnet/deploy.prototxt"},
              {"googlenet", CREMA_SOURCE_DIR "/models/googlenet/deploy.prototxt"},
              {"squeezenet", CREMA_SOURCE_DIR "/models/squeezenet_v1.0/deploy.prototxt"}};

static void check(crema_status status, const char *what) {
  if (status == CREMA_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, crema_status_message(status), crema_error_text());
  exit(1);
}

static void copy_param(crema_net *net, int layer, int index, const float *values, size_t count) {
  crema_blob *blob = crema_net_layer_param(net, layer, index);
  float *to = NULL;
  if (blob == NULL || (size_t)crema_blob_count(blob) != count) {
    fprintf(stderr, "layer %s: parameter %d differs in size\n", crema_net_layer_name(net, layer),
            index);
    exit(1);
  }
  check(crema_blob_mutable_cpu_data(blob, &to), "weights");
  memcpy(to, values, count * sizeof *values);
}

static void copy_weights(crema_net *net, const chain *c) {
  for (int i = 0; i < crema_net_layer_count(net); ++i) {
    if (crema_net_layer_param_count(net, i) == 0) continue;
    const float *weights, *bias;
    size_t weight_count, bias_count;
    if (!chain_weights(c, crema_net_layer_name(net, i), &weights, &weight_count, &bias,
                       &bias_count)) {
      fprintf(stderr, "the chain has no layer %s\n", crema_net_layer_name(net, i));
      exit(1);
    }
    copy_param(net, i, 0, weights, weight_count);
    copy_param(net, i, 1, bias, bias_count);
  }
}

static void run_chain(void *state) {
  chain_run(state);
}

/* The input counts as changed each time, and the output is read in row-major layout. */
static void run_crema(void *state) {
  crema_net *net = state;
  float *in = NULL;
  const float *out = NULL;
  check(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &in), "input");
  check(crema_net_forward(net, NULL), "forward");
  check(crema_blob_cpu_data(crema_net_output(net, 0), &out), "output");
}

static void fill_inputs(chain *c, crema_net *net) {
  size_t count;
  float *a = chain_input_values(c, &count), *b = NULL;
  check(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &b), "input");
  unsigned random = 7;
  for (size_t i = 0; i < count; ++i) {
    random = random * 1664525u + 1013904223u;
    a[i] = b[i] = (float)(random >> 24) / 128.0f - 1.0f;
  }
}

/* The largest difference of the outputs, relative to the largest output. */
static double difference(chain *c, crema_net *net) {
  size_t count;
  const float *b = NULL;
  float *a = chain_output_values(c, &count);
  double largest = 0.0, worst = 0.0;
  check(crema_blob_cpu_data(crema_net_output(net, 0), &b), "output");
  for (size_t i = 0; i < count; ++i) {
    if (fabs((double)a[i]) > largest) largest = fabs((double)a[i]);
    if (!(fabs((double)a[i] - b[i]) <= worst)) worst = fabs((double)a[i] - b[i]);
  }
  free(a);
  return worst / largest;
}

static void compare(const char *name, const char *path, int batch, int threads) {
  chain *c = chain_network(name, batch);
  crema_net *net = NULL;
  check(crema_net_load(path, NULL, &net), path);
  crema_shape shape = *crema_blob_shape(crema_net_input(net, 0));
  shape.dim[0] = batch;
  check(crema_blob_reshape(crema_net_input(net, 0), &shape), "reshape");
  check(crema_net_reshape(net), "reshape");
  copy_weights(net, c);
  fill_inputs(c, net);
  contestant two[2] = {{"crema", run_crema, net, 0.0}, {"chain", run_chain, c, 0.0}};
  double ratio = 0.0;
  measure(two, 2, 3, 7, 400, 3.0, &ratio);
  printf("%-12s %5d %7d %12.3f %12.3f %7.2f %12.1e\n", name, batch, threads, two[0].seconds * 1e3,
         two[1].seconds * 1e3, ratio, difference(c, net));
  fflush(stdout);
  crema_net_destroy(net);
  chain_destroy(c);
}

int main(int argc, char **argv) {
  int threads[2], counts = wanted_threads(argc, argv, threads);
  printf("%-12s %5s %7s %12s %12s %7s %12s\n", "network", "batch", "threads", "crema ms",
         "chain ms", "ratio", "difference");
  for (size_t i = 0; i < sizeof models / sizeof models[0]; ++i) {
    if (!is_wanted(models[i].name, argc, argv)) continue;
    for (int batch = 1; batch <= 16; batch += 15) {
      for (int t = 0; t < counts; ++t) {
        compare(models[i].name, models[i].path, batch, use_threads(threads[t]));
      }
    }
  }
  return 0;
}
