/* Element types on the CPU, each measured in turn with what it is compared to, in one process:
 *
 *   conversion of 64 MB of floats to halves of either kind and back, against copying, in bytes read
 *   and written per second;
 *   a net's forward pass in phase TEST and a solver's step, in BFLOAT16 and FLOAT16 (values,
 *   gradients and mathematics) against FLOAT, and the memory of weights and blobs in the layers'
 *   types; "all" is the most that is needed at once, with FLOAT copies that a layer's kernels want,
 *   what a training keeps in FLOAT beside weights of halves, and gradients.
 *
 * Usage: types [-t THREADS] [-s SECONDS] [convert] [NET_FILE...]. A net file has to make its own
 * input and to end in a loss. Without names: the conversions and ResNet-50. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chain/measure.h"
#include "core/file.h"
#include "crema/crema.h"
#include "device/backend/convert.h"
#include "memory/blob.h"
#include "net/net.h"

static double budget = 10; /* seconds for each comparison */

static void check(crema_status status, const char *what) {
  if (status == CREMA_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, crema_status_message(status), crema_error_text());
  exit(1);
}

static void *need(void *memory) {
  if (memory != NULL) return memory;
  fprintf(stderr, "out of memory\n");
  exit(1);
}

/* ---- conversions --------------------------------------------------------- */

enum { FLOATS = 16 << 20, PIECE = 1 << 20 };

typedef struct conversion {
  crema_dtype from, to;
  const char *src;
  char *dst;
} conversion;

static void run_copy(void *state) {
  const conversion *c = state;
#pragma omp parallel for schedule(static)
  for (long at = 0; at < FLOATS * 4L; at += PIECE) memcpy(c->dst + at, c->src + at, PIECE);
}

static void run_conversion(void *state) {
  const conversion *c = state;
  check(cr_convert_plain(FLOATS, c->to, c->dst, c->from, c->src), "conversion");
}

static void compare_conversions(int threads) {
  static const crema_dtype halves[] = {CREMA_F16, CREMA_BF16};
  char *src = need(aligned_alloc(64, FLOATS * 4L)), *dst = need(aligned_alloc(64, FLOATS * 4L));
  memset(src, 1, FLOATS * 4L);
  memset(dst, 1, FLOATS * 4L);
  printf("%-20s %7s %12s %12s %7s\n", "64 MB of floats", "threads", "GB/s", "copy GB/s", "ratio");
  for (int i = 0; i < 4; ++i) {
    conversion c = {CREMA_F32, halves[i / 2], src, dst};
    if (i % 2 != 0) c = (conversion){halves[i / 2], CREMA_F32, src, dst};
    contestant two[2] = {{"copy", run_copy, &c, 0.0}, {"conversion", run_conversion, &c, 0.0}};
    double ratio = 0.0;
    measure(two, 2, 2, 9, 200, budget / 4, &ratio);
    const double moved = FLOATS * 6e-9, copied = FLOATS * 8e-9;
    char name[32];
    snprintf(name, sizeof name, "%s -> %s", crema_dtype_name(c.from), crema_dtype_name(c.to));
    printf("%-20s %7d %12.2f %12.2f %7.2f\n", name, threads, moved / two[1].seconds,
           copied / two[0].seconds, ratio * moved / copied);
    fflush(stdout);
  }
  free(dst);
  free(src);
}

/* ---- nets ---------------------------------------------------------------- */

static const char *const types[] = {"FLOAT", "BFLOAT16", "FLOAT16"};

enum { TYPES = sizeof types / sizeof *types };

/* A net of one type, as a solver's train net and as a test net. */
typedef struct typed {
  char folder[32], net_path[64], solver_path[64];
  crema_net *net;
  crema_solver *solver;
} typed;

static void write_file(const char *path, const char *first, const void *rest, size_t size) {
  FILE *file = fopen(path, "w");
  if (file == NULL || fputs(first, file) < 0 || fwrite(rest, 1, size, file) != size ||
      fclose(file) != 0) {
    perror(path);
    exit(1);
  }
}

static void set_all(crema_net *net, int layer, int index, float value) {
  crema_blob *blob = crema_net_layer_param(net, layer, index);
  float *to = NULL;
  check(crema_blob_mutable_cpu_data(blob, &to), "statistics");
  for (int64_t i = 0; i < crema_blob_count(blob); ++i) to[i] = value;
}

/* As if the net had seen data of variance 1, so that no value leaves the range of its type. */
static void set_statistics(crema_net *net) {
  for (int i = 0; i < crema_net_layer_count(net); ++i) {
    if (strcmp(crema_net_layer_type(net, i), "BatchNorm") != 0) continue;
    set_all(net, i, 1, 1.0f);
    set_all(net, i, 2, 1.0f);
  }
}

static void open_typed(typed *t, const cr_buffer *text, const char *type) {
  char head[512];
  snprintf(t->folder, sizeof t->folder, "/tmp/crema-types-XXXXXX");
  if (mkdtemp(t->folder) == NULL) {
    perror(t->folder);
    exit(1);
  }
  snprintf(t->net_path, sizeof t->net_path, "%s/net.prototxt", t->folder);
  snprintf(t->solver_path, sizeof t->solver_path, "%s/solver.prototxt", t->folder);
  snprintf(head, sizeof head,
           "default_forward_type: %s default_backward_type: %s\n"
           "default_forward_math: %s default_backward_math: %s\n",
           type, type, type, type);
  write_file(t->net_path, head, text->data, text->size);
  snprintf(head, sizeof head,
           "net: \"%s\" base_lr: 0.00001 momentum: 0.9 lr_policy: 'fixed' max_iter: 1000000 "
           "random_seed: 1 snapshot_after_train: false\n",
           t->net_path);
  write_file(t->solver_path, head, "", 0);
  check(crema_net_load(t->net_path, NULL, &t->net), "net");
  set_statistics(t->net);
}

static void close_typed(typed *t) {
  crema_solver_destroy(t->solver);
  crema_net_destroy(t->net);
  unlink(t->solver_path);
  unlink(t->net_path);
  rmdir(t->folder);
}

static void run_forward(void *state) {
  check(crema_net_forward(((typed *)state)->net, NULL), "forward");
}

static void run_step(void *state) {
  check(crema_solver_step(((typed *)state)->solver, 1), "step");
}

/* What a net's values take. */
typedef struct account {
  double values; /* blobs and parameters in the layers' types; of a net that plans its memory, what
                    a forward pass leaves for backward */
  double all; /* the most at any time, with FLOAT copies that a layer's kernels want, FLOAT values
                 of parameters beside halves, and parameters' gradients */
  const cr_tensor *seen[4096]; /* those that share values are counted once */
  int count;
} account;

static bool is_new(account *a, const cr_tensor *tensor) {
  if (tensor == NULL) return false;
  for (int i = 0; i < a->count; ++i) {
    if (cr_tensor_shares_with(a->seen[i], tensor)) return false;
  }
  if (a->count < (int)(sizeof a->seen / sizeof *a->seen)) a->seen[a->count++] = tensor;
  return true;
}

static double bytes_of(const cr_tensor *tensor) {
  return (double)cr_tensor_memory_of(tensor).host;
}

/* What a tensor holds in other types than its own. */
static double converted_bytes(const cr_tensor *tensor) {
  double bytes = 0.0;
  cr_tensor_held held;
  for (int i = 0; cr_tensor_held_at(tensor, i, &held); ++i) {
    if (held.format.type == cr_tensor_type(tensor)) continue;
    bytes += held.format.layout != NULL
                 ? (double)held.format.layout->bytes
                 : (double)cr_tensor_count(tensor) * (double)crema_dtype_size(held.format.type);
  }
  return bytes;
}

/* What a forward pass leaves for backward, in bytes, and the most that a pass needs. */
static void passing_bytes(crema_net *net, double *left, double *most) {
  cr_net_memory before, after;
  if (!net->plans) return; /* the context lends temporary memory alone */
  check(cr_net_memory_read(net, &before), "memory");
  check(crema_net_forward(net, NULL), "forward");
  check(cr_net_memory_read(net, &after), "memory");
  check(crema_net_backward(net), "backward");
  *left = (double)after.planned_now - (double)before.planned_now;
  *most = (double)after.planned;
}

static account megabytes_of(crema_net *net) {
  static account a;
  a = (account){0};
  passing_bytes(net, &a.values, &a.all);
  for (int i = 0; i < net->blobs; ++i) {
    cr_tensor *const both[] = {net->blob[i]->data, net->blob[i]->diff};
    for (int k = 0; k < 2; ++k) {
      if (!is_new(&a, both[k])) continue;
      a.values += bytes_of(both[k]);
      a.all += bytes_of(both[k]);
    }
  }
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    for (int k = 0; k < layer->params; ++k) {
      const cr_tensor *data = layer->blob[k]->data, *diff = layer->blob[k]->diff;
      if (is_new(&a, data)) {
        a.values += bytes_of(data) - converted_bytes(data);
        a.all += bytes_of(data);
      }
      if (is_new(&a, diff)) a.all += bytes_of(diff);
    }
  }
  a.values /= 1e6;
  a.all /= 1e6;
  return a;
}

static void compare(const char *file, int threads, const char *what, const char *type,
                    void (*run)(void *), typed *floats, typed *other) {
  contestant two[2] = {{"FLOAT", run, floats, 0.0}, {type, run, other, 0.0}};
  double ratio = 0.0;
  measure(two, 2, 1, 3, 100, budget, &ratio);
  crema_net *nets[2] = {floats->net, other->net};
  if (run == run_step) {
    nets[0] = crema_solver_net(floats->solver);
    nets[1] = crema_solver_net(other->solver);
  }
  const account before = megabytes_of(nets[0]), after = megabytes_of(nets[1]);
  printf("%-14s %7d %-8s %-9s %10.2f %10.2f %6.2f %9.1f %9.1f %6.2f %9.1f %9.1f %6.2f\n", file,
         threads, what, type, two[0].seconds * 1e3, two[1].seconds * 1e3, ratio, before.values,
         after.values, after.values / before.values, before.all, after.all, after.all / before.all);
  fflush(stdout);
}

static void compare_net(const char *path, int threads) {
  cr_buffer text = {0};
  check(cr_file_read(path, &text), path);
  const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
  printf("%-14s %7s %-8s %-9s %10s %10s %6s %9s %9s %6s %9s %9s %6s\n", "net", "threads", "pass",
         "type", "FLOAT ms", "ms", "faster", "FLOAT MB", "MB", "ratio", "all FLOAT", "all MB",
         "ratio");
  for (int i = 1; i < TYPES; ++i) {
    typed two[2] = {0};
    open_typed(&two[0], &text, types[0]);
    open_typed(&two[1], &text, types[i]);
    compare(name, threads, "forward", types[i], run_forward, &two[0], &two[1]);
    for (int k = 0; k < 2; ++k) {
      crema_net_destroy(two[k].net);
      two[k].net = NULL;
      check(crema_solver_load(two[k].solver_path, NULL, &two[k].solver), "solver");
    }
    compare(name, threads, "step", types[i], run_step, &two[0], &two[1]);
    close_typed(&two[1]);
    close_typed(&two[0]);
  }
  cr_buffer_free(&text);
}

int main(int argc, char **argv) {
  int threads[2], counts = wanted_threads(argc, argv, threads), files = 0;
  bool convert = false;
  for (int t = 0; t < counts; ++t) {
    const int used = use_threads(threads[t]);
    for (int i = 1; i < argc; ++i) {
      if (strcmp(argv[i], "-t") == 0) {
        ++i;
      } else if (strcmp(argv[i], "-s") == 0 && i + 1 < argc) {
        budget = atof(argv[++i]);
      } else if (strcmp(argv[i], "convert") == 0) {
        convert = true;
        compare_conversions(used);
      } else {
        ++files;
        compare_net(argv[i], used);
      }
    }
    if (convert || files > 0) continue;
    compare_conversions(used);
    compare_net(CREMA_SOURCE_DIR "/bench/nets/resnet50.prototxt", used);
  }
  return 0;
}
