/* A device with memory of its own against the CPU, in one run: copies and launches, inference of
 * AlexNet, GoogLeNet and SqueezeNet, training steps of LeNet, CIFAR-10 quick and AlexNet. Medians;
 * `difference` is the largest difference of the outputs over the largest output. Usage:
 * gpu [-gpu N | -gpu opencl:N | -gpu sim] [-root FOLDER] [PART...]; FOLDER holds models/ and
 * bench/nets/; the parts are memory, products and the networks' names; without any: all. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain/measure.h"
#include "chain/opencl_peak.h"
#include "crema/crema.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "device/memory/driver.h"
#include "net/common/net_struct.h"
#include "ops/op.h"

enum { PATH = 1024, SKIPPED = 77 };

static const struct {
  const char *name, *path;
} inferences[] = {{"alexnet", "models/alexnet/deploy.prototxt"},
                  {"googlenet", "models/googlenet/deploy.prototxt"},
                  {"squeezenet", "models/squeezenet_v1.0/deploy.prototxt"}};

static const struct {
  const char *name, *path;
  int batch;
} trainings[] = {{"lenet", "bench/nets/lenet_solver.prototxt", 64},
                 {"cifar10_quick", "bench/nets/cifar10_quick_solver.prototxt", 100},
                 {"alexnet", "bench/nets/alexnet_solver.prototxt", 32}};

typedef struct request {
  const char *gpu, *root;
  char **parts;
  int part_count;
  crema_device *device;
} request;

static void check(crema_status status, const char *what) {
  if (status == CREMA_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, crema_status_message(status), crema_error_text());
  exit(1);
}

static bool wants(const request *r, const char *part) {
  for (int i = 0; i < r->part_count; ++i) {
    if (strcmp(r->parts[i], part) == 0) return true;
  }
  return r->part_count == 0;
}

/* ---- memory ---- */

typedef struct transfer {
  crema_context *context;
  crema_devptr device, second;
  void *host;
  size_t bytes;
} transfer;

static void copy_in(void *state) {
  transfer *t = state;
  check(cr_copy_from_cpu(t->context, t->device, t->host, t->bytes), "copy");
  check(crema_context_finish(t->context), "wait");
}
static void copy_out(void *state) {
  transfer *t = state;
  check(cr_copy_to_cpu(t->context, t->host, t->device, t->bytes), "copy");
  check(crema_context_finish(t->context), "wait");
}
static void copy_within(void *state) {
  transfer *t = state;
  check(cr_copy_same_device(t->context, t->second, t->device, t->bytes), "copy");
  check(crema_context_finish(t->context), "wait");
}

static double seconds_of(void (*run)(void *state), void *state) {
  contestant one = {"", run, state, 0.0};
  measure(&one, 1, 3, 11, 200, 0.5, NULL);
  return one.seconds;
}

static void report(const char *what, double value, const char *unit) {
  printf("%-44s %12.2f %s\n", what, value, unit);
  fflush(stdout);
}

static void bench_copies(crema_context *context) {
  transfer t = {.context = context, .bytes = (size_t)64 << 20};
  crema_device *device = crema_context_device(context);
  void *pinned = NULL, *pageable = malloc(t.bytes);
  check(cr_device_alloc(device, t.bytes, &t.device), "memory");
  check(cr_device_alloc(device, t.bytes, &t.second), "memory");
  check(cr_pinned_alloc(device, t.bytes, &pinned), "memory");
  if (pageable == NULL) exit(1);
  memset(pinned, 1, t.bytes);
  memset(pageable, 1, t.bytes);
  const double size = (double)t.bytes * 1e-9;
  t.host = pinned;
  report("to the device, page-locked, 64 MiB", size / seconds_of(copy_in, &t), "GB/s");
  report("from the device, page-locked", size / seconds_of(copy_out, &t), "GB/s");
  t.host = pageable;
  report("to the device, pageable", size / seconds_of(copy_in, &t), "GB/s");
  report("from the device, pageable", size / seconds_of(copy_out, &t), "GB/s");
  report("within the device, read and written", 2 * size / seconds_of(copy_within, &t), "GB/s");
  free(pageable);
  cr_pinned_free(device, pinned, t.bytes);
  cr_device_free(device, t.second);
  cr_device_free(device, t.device);
}

typedef struct launching {
  crema_context *context;
  cr_op *op;
  cr_tensor *tensor;
  int count;
} launching;

static void launch(void *state) {
  launching *l = state;
  for (int i = 0; i < l->count; ++i) check(cr_op_run(l->op, l->context, &l->tensor, NULL), "op");
  check(crema_context_finish(l->context), "wait");
}

static void allocate(void *state) {
  crema_device *device = state;
  for (int i = 0; i < 1000; ++i) {
    crema_devptr memory = {0};
    check(cr_device_alloc(device, 1 << 20, &memory), "memory");
    cr_device_free(device, memory);
  }
}

static void bench_calls(crema_context *context) {
  launching l = {.context = context, .count = 1};
  const cr_op_desc set = {.kind = CR_OP_SET, .type = CREMA_F32};
  cr_op_desc *desc = NULL;
  const crema_shape shape = {1, {1}};
  check(cr_op_describe(&set, 1, (const crema_shape *[]){&shape}, NULL, &desc), "op");
  check(cr_op_create(&desc, &l.op), "op");
  check(cr_tensor_create(CREMA_F32, 1, &l.tensor), "tensor");
  report("a small kernel and a wait for it", seconds_of(launch, &l) * 1e6, "us");
  l.count = 1000;
  report("a small kernel in a row of 1000", seconds_of(launch, &l) * 1e3, "us");
  report("memory from the pool and back, 1 MiB",
         seconds_of(allocate, crema_context_device(context)) * 1e6, "ns");
  cr_tensor_destroy(l.tensor);
  cr_op_destroy(l.op);
}

static void bench_memory(const request *r) {
  crema_context *context = NULL;
  check(crema_context_create(r->device, 1, &context), "context");
  bench_copies(context);
  bench_calls(context);
  crema_context_destroy(context);
}

/* ---- inference ---- */

/* Weights as a good initialisation gives them, the same for every net with the same layers. */
static void fill_weights(crema_net *net) {
  unsigned random = 7;
  for (int l = 0; l < crema_net_layer_count(net); ++l) {
    for (int p = 0; p < crema_net_layer_param_count(net, l); ++p) {
      crema_blob *blob = crema_net_layer_param(net, l, p);
      const int64_t count = crema_blob_count(blob), outputs = crema_blob_shape(blob)->dim[0];
      const double width = p == 0 ? sqrt(6.0 * (double)outputs / (double)count) : 0.1;
      float *to = NULL;
      check(crema_blob_mutable_cpu_data(blob, &to), "weights");
      for (int64_t i = 0; i < count; ++i) {
        random = random * 1664525u + 1013904223u;
        to[i] = (float)(width * ((double)(random >> 8) / 8388608.0 - 1));
      }
    }
  }
}

static crema_net *load_net(const char *path, crema_device *device, int batch) {
  crema_net_options options;
  crema_net *net = NULL;
  float *to = NULL;
  crema_net_options_init(&options);
  options.device = device;
  check(crema_net_load(path, &options, &net), path);
  crema_blob *input = crema_net_input(net, 0);
  crema_shape shape = *crema_blob_shape(input);
  shape.dim[0] = batch;
  check(crema_blob_reshape(input, &shape), "reshape");
  check(crema_net_reshape(net), "reshape");
  fill_weights(net);
  check(crema_blob_mutable_cpu_data(input, &to), "input");
  unsigned random = 3;
  for (int64_t i = 0; i < crema_blob_count(input); ++i) {
    random = random * 1664525u + 1013904223u;
    to[i] = (float)(random >> 24) / 128.0f - 1.0f;
  }
  return net;
}

/* The input counts as changed each time, and the output is read. */
static void infer(void *state) {
  crema_net *net = state;
  float *in = NULL;
  const float *out = NULL;
  check(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &in), "input");
  check(crema_net_forward(net, NULL), "forward");
  check(crema_blob_cpu_data(crema_net_output(net, 0), &out), "output");
}

static double difference(const crema_blob *a, const crema_blob *b) {
  const float *x = NULL, *y = NULL;
  double largest = 0, worst = 0;
  check(crema_blob_cpu_data((crema_blob *)a, &x), "values");
  check(crema_blob_cpu_data((crema_blob *)b, &y), "values");
  for (int64_t i = 0; i < crema_blob_count(a); ++i) {
    const double apart = fabs((double)x[i] - (double)y[i]);
    largest = fmax(largest, fabs((double)x[i]));
    if (!(apart <= worst)) worst = apart;
  }
  return largest > 0 ? worst / largest : worst;
}

static void print_row(const char *name, int batch, const contestant *two, double apart,
                      uint64_t fallbacks) {
  printf("%-16s %5d %12.3f %12.3f %8.2f %12.1f %11.1e %9llu\n", name, batch, two[0].seconds * 1e3,
         two[1].seconds * 1e3, two[0].seconds / two[1].seconds, batch / two[1].seconds, apart,
         (unsigned long long)fallbacks);
  fflush(stdout);
}

static void print_head(const char *what) {
  printf("\n%-16s %5s %12s %12s %8s %12s %11s %9s\n", what, "batch", "CPU ms", "device ms",
         "faster", "images/s", "difference", "on CPU");
}

static void bench_inference(const request *r, const char *name, const char *path, int batch) {
  crema_net *cpu = load_net(path, NULL, batch), *gpu = load_net(path, r->device, batch);
  const uint64_t before = cr_device_fallbacks(r->device);
  infer(gpu);
  const uint64_t fallbacks = cr_device_fallbacks(r->device) - before;
  contestant two[2] = {{"CPU", infer, cpu, 0.0}, {"device", infer, gpu, 0.0}};
  measure(two, 2, 2, 5, 200, 3.0, NULL);
  print_row(name, batch, two, difference(crema_net_output(cpu, 0), crema_net_output(gpu, 0)),
            fallbacks);
  crema_net_destroy(gpu);
  crema_net_destroy(cpu);
}

/* ---- products ---- */

/* A layer whose time is a matrix product's, on an input of these extents. */
static const struct {
  const char *name;
  double operations;
  const char *text;
} products[] = {
    {"product 1024", 2.0 * 1024 * 1024 * 1024,
     "input_shape { dim: 1024 dim: 1024 } layer { name: 'p' type: 'InnerProduct' bottom: 'data' "
     "top: 'p' inner_product_param { num_output: 1024 bias_term: false } }"},
    {"product 4096", 2.0 * 64 * 4096 * 4096,
     "input_shape { dim: 64 dim: 4096 } layer { name: 'p' type: 'InnerProduct' bottom: 'data' "
     "top: 'p' inner_product_param { num_output: 4096 bias_term: false } }"},
    {"conv 3x3 64 56", 2.0 * 8 * 64 * 64 * 9 * 56 * 56,
     "input_shape { dim: 8 dim: 64 dim: 56 dim: 56 } layer { name: 'p' type: 'Convolution' "
     "bottom: 'data' top: 'p' convolution_param { num_output: 64 kernel_size: 3 pad: 1 "
     "bias_term: false } }"},
    {"conv 3x3 256 14", 2.0 * 8 * 256 * 256 * 9 * 14 * 14,
     "input_shape { dim: 8 dim: 256 dim: 14 dim: 14 } layer { name: 'p' type: 'Convolution' "
     "bottom: 'data' top: 'p' convolution_param { num_output: 256 kernel_size: 3 pad: 1 "
     "bias_term: false } }"},
    {"conv 1x1 256 28", 2.0 * 8 * 256 * 256 * 28 * 28,
     "input_shape { dim: 8 dim: 256 dim: 28 dim: 28 } layer { name: 'p' type: 'Convolution' "
     "bottom: 'data' top: 'p' convolution_param { num_output: 256 kernel_size: 1 "
     "bias_term: false } }"},
};

static crema_net *parse_net(const char *layer, crema_device *device) {
  char text[1024];
  crema_net_options options;
  crema_net *net = NULL;
  crema_net_options_init(&options);
  options.device = device;
  const int length = snprintf(text, sizeof text, "name: 'n' input: 'data' %s", layer);
  check(crema_net_parse(text, (size_t)length, "net", &options, &net), layer);
  fill_weights(net);
  return net;
}

/* A net's passes in a row, and a wait for the last. */
typedef struct multiplying {
  crema_net *net;
  int passes;
} multiplying;

static void multiply(void *state) {
  const multiplying *m = state;
  for (int i = 0; i < m->passes; ++i) check(crema_net_forward(m->net, NULL), "forward");
  check(crema_context_finish(m->net->context), "wait");
}

/* Doubles the passes until a run takes half the time at least. */
static void calibrate(multiplying *m, double seconds) {
  contestant one = {"", multiply, m, 0.0};
  m->passes = 1;
  measure(&one, 1, 2, 1, 1, 0, NULL);
  while (one.seconds < seconds / 2) {
    m->passes *= 2;
    measure(&one, 1, 0, 1, 1, 0, NULL);
  }
}

/* Runs long enough that waits and clocks do not matter, and repeated in turn with the kernel of
 * multiply-adds, so that other work on the machine slows down both. */
enum { PRODUCT_RUNS = 7 };
static const double run_seconds = 0.1;

static void bench_product(crema_net *net, double operations, opencl_peak *peak, const char *where,
                          const char *name) {
  multiplying m = {.net = net};
  double ratio = 0;
  calibrate(&m, run_seconds);
  contestant two[2] = {{"peak", opencl_peak_run, peak, 0.0}, {"product", multiply, &m, 0.0}};
  if (peak != NULL) measure(two, 2, 1, PRODUCT_RUNS, 4 * PRODUCT_RUNS, 1.5, &ratio);
  else measure(&two[1], 1, 1, PRODUCT_RUNS, 4 * PRODUCT_RUNS, 1.5, NULL);
  const double work = operations * m.passes;
  printf("%-16s %-7s %12.1f", name, where, work / two[1].seconds * 1e-9);
  if (peak == NULL) printf(" %12s %8s\n", "-", "-");
  else
    printf(" %12.1f %7.1f%%\n", opencl_peak_operations(peak) / two[0].seconds * 1e-9,
           100 * ratio * work / opencl_peak_operations(peak));
  fflush(stdout);
}

/* Operations a second of products on the CPU and on the device, the device's peak at that time as
 * a kernel of multiply-adds reaches it, and the share of the peak: medians, of the ratios of
 * neighbouring runs. Only OpenCL's devices have such a kernel. */
static void bench_products(const request *r) {
  crema_device_info info;
  check(crema_device_describe(r->device, &info), "device");
  opencl_peak *peak = crema_device_get_type(r->device) == CREMA_DEVICE_OPENCL
                          ? opencl_peak_open(info.name, run_seconds)
                          : NULL;
  printf("\n%-16s %-7s %12s %12s %8s\n", "product", "", "GFLOP/s", "peak GFLOP/s", "share");
  for (size_t i = 0; i < sizeof products / sizeof products[0]; ++i) {
    crema_net *cpu = parse_net(products[i].text, NULL);
    crema_net *gpu = parse_net(products[i].text, r->device);
    bench_product(cpu, products[i].operations, NULL, "CPU", products[i].name);
    bench_product(gpu, products[i].operations, peak, "device", products[i].name);
    crema_net_destroy(gpu);
    crema_net_destroy(cpu);
  }
  opencl_peak_close(peak);
}

/* ---- training ---- */

/* A step, and a wait for its last update: parameters are read from the device. */
static void train(void *state) {
  crema_solver *solver = state;
  crema_net *net = crema_solver_net(solver);
  const float *value = NULL;
  check(crema_solver_step(solver, 1), "step");
  for (int l = crema_net_layer_count(net) - 1; l >= 0 && value == NULL; --l) {
    const int count = crema_net_layer_param_count(net, l);
    if (count > 0) {
      check(crema_blob_cpu_data(crema_net_layer_param(net, l, count - 1), &value), "value");
    }
  }
}

static crema_solver *load_solver(const char *path, crema_device *device) {
  crema_solver_options options;
  crema_solver *solver = NULL;
  crema_solver_options_init(&options);
  options.device = device;
  check(crema_solver_load(path, &options, &solver), path);
  return solver;
}

/* The largest difference of all parameters. */
static double params_apart(crema_net *a, crema_net *b) {
  double worst = 0;
  for (int l = 0; l < crema_net_layer_count(a); ++l) {
    for (int p = 0; p < crema_net_layer_param_count(a, l); ++p) {
      worst =
          fmax(worst, difference(crema_net_layer_param(a, l, p), crema_net_layer_param(b, l, p)));
    }
  }
  return worst;
}

static void bench_training(const request *r, const char *name, const char *path, int batch) {
  crema_device *host = NULL;
  check(crema_device_get(CREMA_DEVICE_CPU, 0, &host), "CPU");
  crema_solver *cpu = load_solver(path, host), *gpu = load_solver(path, r->device);
  const uint64_t before = cr_device_fallbacks(r->device);
  train(cpu);
  train(gpu);
  const uint64_t fallbacks = cr_device_fallbacks(r->device) - before;
  const double apart = params_apart(crema_solver_net(cpu), crema_solver_net(gpu));
  contestant two[2] = {{"CPU", train, cpu, 0.0}, {"device", train, gpu, 0.0}};
  measure(two, 2, 2, 5, 200, 3.0, NULL);
  print_row(name, batch, two, apart, fallbacks);
  crema_solver_destroy(gpu);
  crema_solver_destroy(cpu);
}

/* ---- the command line ---- */

static bool read_request(int argc, char **argv, request *r) {
  *r = (request){.gpu = "0", .root = CREMA_SOURCE_DIR};
  int i = 1;
  for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
    if (strcmp(argv[i], "-gpu") == 0) r->gpu = argv[i + 1];
    else if (strcmp(argv[i], "-root") == 0) r->root = argv[i + 1];
    else return false;
  }
  r->parts = argv + i;
  r->part_count = argc - i;
  return i >= argc || argv[i][0] != '-';
}

static bool open_device(request *r) {
  const bool simulated = strcmp(r->gpu, "sim") == 0;
  const bool opencl = strncmp(r->gpu, "opencl:", 7) == 0;
  const crema_device_type type = simulated ? CREMA_DEVICE_SIM
                                 : opencl  ? CREMA_DEVICE_OPENCL
                                           : CREMA_DEVICE_CUDA;
  crema_device_info info;
  if (simulated && crema_device_simulate("1") != CREMA_OK) return false;
  if (crema_device_get(type, simulated ? 0 : atoi(opencl ? r->gpu + 7 : r->gpu), &r->device) !=
      CREMA_OK) {
    return false;
  }
  check(crema_device_describe(r->device, &info), "device");
  printf("%s, %.1f GiB, %s\n", info.name, (double)info.memory_total / 1073741824.0, info.library);
  return true;
}

int main(int argc, char **argv) {
  request r;
  char path[PATH];
  if (!read_request(argc, argv, &r)) {
    fprintf(stderr, "usage: gpu [-gpu N | -gpu opencl:N | -gpu sim] [-root FOLDER] [PART...]\n");
    return 2;
  }
  if (!open_device(&r)) {
    printf("skipped: %s\n", crema_error_text());
    return SKIPPED;
  }
  if (wants(&r, "memory")) bench_memory(&r);
  if (wants(&r, "products")) bench_products(&r);
  print_head("inference");
  for (size_t i = 0; i < sizeof inferences / sizeof inferences[0]; ++i) {
    snprintf(path, sizeof path, "%s/%s", r.root, inferences[i].path);
    for (int batch = 1; wants(&r, inferences[i].name) && batch <= 64; batch *= 8) {
      bench_inference(&r, inferences[i].name, path, batch);
    }
  }
  print_head("training step");
  for (size_t i = 0; i < sizeof trainings / sizeof trainings[0]; ++i) {
    snprintf(path, sizeof path, "%s/%s", r.root, trainings[i].path);
    if (wants(&r, trainings[i].name))
      bench_training(&r, trainings[i].name, path, trainings[i].batch);
  }
  return 0;
}
