/* Random nets of layers that hand on gradients: copies, views, sums and concats, layers in place.
 * Every parameter's gradient is compared with differences of the loss, unless building the net
 * warned that a layer in place spoils one. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "crema/log.h"
#include "log_lines.h"
#include "net_case.h"

enum { BLOBS = 64, TEXT = 1 << 15 };

typedef struct open_blob {
  char name[16];
  crema_shape shape;
  bool fresh; /* no layer has read it yet */
} open_blob;

typedef struct sketch {
  uint64_t random;
  char text[TEXT];
  size_t used;
  int layers, blobs;
  open_blob blob[BLOBS];
} sketch;

static uint32_t draw(sketch *s, uint32_t below) {
  s->random = s->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(s->random >> 33) % below;
}

static const char *pick(sketch *s, const char *const *of, uint32_t count) {
  return of[draw(s, count)];
}
#define PICK(s, ...)                          \
  pick(s, (const char *const[]){__VA_ARGS__}, \
       (uint32_t)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static void put(sketch *s, const char *fmt, ...) CREMA_PRINTF(2, 3);
static void put(sketch *s, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int wrote = vsnprintf(s->text + s->used, TEXT - s->used, fmt, args);
  va_end(args);
  assert_true(wrote >= 0 && (size_t)wrote < TEXT - s->used);
  s->used += (size_t)wrote;
}

static open_blob *add_blob(sketch *s, crema_shape shape) {
  open_blob *blob = &s->blob[s->blobs];
  assert_true(s->blobs < BLOBS);
  *blob = (open_blob){.shape = shape, .fresh = true};
  snprintf(blob->name, sizeof blob->name, "b%d", s->blobs++);
  return blob;
}

/* A blob to read; those without a reader are preferred. */
static open_blob *take(sketch *s) {
  open_blob *blob = NULL;
  for (int tries = 0; tries < 4; ++tries) {
    blob = &s->blob[draw(s, (uint32_t)s->blobs)];
    if (blob->fresh) break;
  }
  return blob;
}

static void head(sketch *s, const char *type, const char *bottom, const char *top) {
  put(s, "layer { name: 'l%d' type: '%s' bottom: '%s' top: '%s' ", s->layers++, type, bottom, top);
}

#define FILL "weight_filler { type: 'xavier' } bias_filler { type: 'uniform' min: -0.2 max: 0.2 } "

/* One bottom, one top of the same shape; in place where nobody else reads the bottom. */
static void add_same(sketch *s) {
  static const struct {
    const char *type, *body;
  } kinds[] = {
      {"TanH", ""},
      {"Sigmoid", ""},
      {"ELU", ""},
      {"Swish", ""},
      {"BNLL", ""},
      {"ReLU", ""},
      {"ReLU", "relu_param { negative_slope: 0.3 }"},
      {"PReLU", ""},
      {"AbsVal", ""},
      {"Clip", "clip_param { min: -0.7 max: 0.8 }"},
      {"Dropout", "dropout_param { dropout_ratio: 0.3 }"},
      {"Power", "power_param { scale: 0.5 shift: 0.1 }"},
      {"Power", "power_param { power: 2 shift: 0.3 }"},
      {"Exp", "exp_param { scale: 0.4 }"},
      {"BatchNorm", "batch_norm_param { eps: 0.1 }"},
      {"Scale",
       "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 }"
       " bias_filler { type: 'uniform' min: -0.5 max: 0.5 } }"},
      {"Bias", "bias_param { filler { type: 'uniform' min: -0.5 max: 0.5 } }"},
      {"MVN", "mvn_param { normalize_variance: false }"},
      {"Softmax", ""},
      {"LRN", "lrn_param { local_size: 3 alpha: 0.5 }"},
      {"LRN", "lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }"},
  };
  open_blob *from = take(s);
  const uint32_t kind = draw(s, sizeof kinds / sizeof kinds[0]);
  const bool lrn = strcmp(kinds[kind].type, "LRN") == 0;
  if (from->shape.axes < 2 || (lrn && from->shape.axes != 4)) return;
  const bool in_place = !lrn && from->fresh && draw(s, 2) == 0;
  if (in_place) {
    head(s, kinds[kind].type, from->name, from->name);
  } else {
    from->fresh = false;
    head(s, kinds[kind].type, from->name, add_blob(s, from->shape)->name);
  }
  put(s, "%s }\n", kinds[kind].body);
}

static void add_window(sketch *s) {
  open_blob *from = take(s);
  crema_shape to = from->shape;
  if (to.axes != 4 || to.dim[2] < 3 || to.dim[3] < 3) return;
  from->fresh = false;
  const int64_t kernel = 1 + draw(s, 3), pad = draw(s, (uint32_t)kernel), stride = 1 + draw(s, 2);
  const int64_t dilation = kernel > 1 && pad > 0 ? 1 + draw(s, 2) : 1;
  const bool pool = draw(s, 3) == 0;
  const int64_t outputs = pool ? to.dim[1] : (int64_t[]){2, 4, 8, 16}[draw(s, 4)];
  const int64_t group = to.dim[1] % 2 == 0 && draw(s, 3) == 0 ? 2 : 1;
  for (int a = 2; a < 4; ++a) {
    int64_t span = pool ? kernel : dilation * (kernel - 1) + 1;
    int64_t room = to.dim[a] + 2 * pad - span;
    if (room < 0) return;
    to.dim[a] = (pool ? (room + stride - 1) / stride : room / stride) + 1;
    if (pool && pad > 0 && (to.dim[a] - 1) * stride >= from->shape.dim[a] + pad) --to.dim[a];
    if (pool && stride > kernel) return;
  }
  to.dim[1] = outputs;
  head(s, pool ? "Pooling" : "Convolution", from->name, add_blob(s, to)->name);
  if (pool) {
    put(s, "pooling_param { pool: %s ", PICK(s, "AVE", "MAX"));
  } else {
    put(s, "convolution_param { num_output: %d group: %d dilation: %d " FILL, (int)outputs,
        (int)group, (int)dilation);
  }
  put(s, "kernel_size: %d pad: %d stride: %d } }\n", (int)kernel, (int)pad, (int)stride);
}

static void add_deconvolution(sketch *s) {
  open_blob *from = take(s);
  crema_shape to = from->shape;
  if (to.axes != 4 || to.dim[2] > 5 || to.dim[3] > 5) return;
  from->fresh = false;
  to.dim[1] = 4;
  for (int a = 2; a < 4; ++a) to.dim[a] = 2 * (to.dim[a] - 1) + 3;
  head(s, "Deconvolution", from->name, add_blob(s, to)->name);
  put(s, "convolution_param { num_output: 4 kernel_size: 3 stride: 2 " FILL "} }\n");
}

static void add_inner_product(sketch *s) {
  open_blob *from = take(s);
  if (from->shape.axes < 2) return;
  const int outputs = 2 + (int)draw(s, 7);
  from->fresh = false;
  head(s, "InnerProduct", from->name, add_blob(s, cr_shape_2(from->shape.dim[0], outputs))->name);
  put(s, "inner_product_param { num_output: %d %s" FILL "} }\n", outputs,
      PICK(s, "", "transpose: true ", "bias_term: false "));
}

/* Views and copies of other shapes. */
static void add_shape(sketch *s) {
  open_blob *from = take(s);
  crema_shape to = from->shape;
  const uint32_t kind = draw(s, 4);
  if (to.axes < 2 || (kind == 2 && to.axes != 4) || (kind == 3 && to.dim[1] > 8)) return;
  from->fresh = false;
  if (kind == 0) {
    to = cr_shape_2(to.dim[0], crema_shape_count(&to, 1, to.axes));
    head(s, "Flatten", from->name, add_blob(s, to)->name);
    put(s, "}\n");
  } else if (kind == 1) {
    to = cr_shape_3(to.dim[0], to.dim[1], crema_shape_count(&to, 2, to.axes));
    head(s, "Reshape", from->name, add_blob(s, to)->name);
    put(s, "reshape_param { shape { dim: 0 dim: 0 dim: -1 } } }\n");
  } else if (kind == 2) {
    to = cr_shape_4(to.dim[0], to.dim[2], to.dim[3], to.dim[1]);
    head(s, "Permute", from->name, add_blob(s, to)->name);
    put(s, "permute_param { order: 0 order: 2 order: 3 order: 1 } }\n");
  } else {
    to.dim[1] *= 2;
    head(s, "Tile", from->name, add_blob(s, to)->name);
    put(s, "tile_param { tiles: 2 } }\n");
  }
}

static void add_join(sketch *s) {
  open_blob *a = take(s), *b = take(s);
  const bool sum = draw(s, 2) == 0;
  crema_shape to = a->shape;
  if (to.axes < 2 || to.axes != b->shape.axes) return;
  for (int i = 0; i < to.axes; ++i) {
    if (to.dim[i] != b->shape.dim[i] && (sum || i != 1)) return;
  }
  if (!sum && to.dim[1] + b->shape.dim[1] > 40) return;
  const bool in_place = sum && a != b && a->fresh && draw(s, 3) == 0;
  const char *operation = PICK(s, "SUM", "PROD", "MAX");
  if (in_place && strcmp(operation, "PROD") == 0) return;
  b->fresh = false;
  if (!in_place) a->fresh = false;
  if (!sum) to.dim[1] += b->shape.dim[1];
  put(s, "layer { name: 'l%d' type: '%s' bottom: '%s' bottom: '%s' top: '%s' ", s->layers++,
      sum ? "Eltwise" : "Concat", a->name, b->name, in_place ? a->name : add_blob(s, to)->name);
  if (sum) put(s, "eltwise_param { operation: %s } ", operation);
  put(s, "}\n");
}

static void add_slice(sketch *s) {
  open_blob *from = take(s);
  crema_shape to = from->shape;
  if (to.axes < 2 || to.dim[1] < 3) return;
  from->fresh = false;
  const int64_t cut = 1 + draw(s, (uint32_t)to.dim[1] - 1), all = to.dim[1];
  put(s, "layer { name: 'l%d' type: 'Slice' bottom: '%s' ", s->layers++, from->name);
  to.dim[1] = cut;
  put(s, "top: '%s' ", add_blob(s, to)->name);
  to.dim[1] = all - cut;
  put(s, "top: '%s' slice_param { slice_point: %d } }\n", add_blob(s, to)->name, (int)cut);
}

/* One bottom and one top whose shape is found by the layer; nobody reads on but a loss. */
static void add_end(sketch *s) {
  static const struct {
    const char *type, *body;
    int axes; /* of the bottom; 0: any */
  } kinds[] = {
      {"Im2col", "convolution_param { kernel_size: 2 pad: 1 stride: 2 }", 4},
      {"SPP", "spp_param { pyramid_height: 2 pool: AVE }", 4},
      {"SPP", "spp_param { pyramid_height: 1 pool: MAX }", 4},
      {"Reduction", "reduction_param { axis: 1 operation: MEAN coeff: 3 }", 0},
      {"Reduction", "reduction_param { axis: -1 operation: ASUM }", 0},
      {"Softmax", "softmax_param { axis: -1 }", 0},
      {"Convolution", "convolution_param { axis: -2 num_output: 3 kernel_size: 1 " FILL "}", 4},
      {"InnerProduct", "inner_product_param { axis: -1 num_output: 3 " FILL "}", 0},
      {"Reshape", "reshape_param { axis: 1 num_axes: 2 shape { dim: -1 } }", 4},
      {"Concat", "", 0},
      {"Slice", "", 0},
  };
  open_blob *from = take(s);
  const uint32_t kind = draw(s, sizeof kinds / sizeof kinds[0]);
  const bool four = from->shape.axes == 4 && from->shape.dim[2] > 2 && from->shape.dim[3] > 2;
  if (from->shape.axes < 2 || (kinds[kind].axes == 4 && !four)) return;
  char top[16];
  from->fresh = false;
  snprintf(top, sizeof top, "end%d", s->layers);
  head(s, kinds[kind].type, from->name, top);
  put(s, "%s }\n", kinds[kind].body);
  put(s,
      "layer { name: 'sq%s' type: 'Reduction' bottom: '%s' top: 'sq%s' loss_weight: 0.7"
      " reduction_param { operation: SUMSQ coeff: 0.1 } }\n",
      top, top, top);
}

/* Spatial axes in three dimensions, and back. */
static void add_volume(sketch *s) {
  open_blob *from = take(s);
  if (from->shape.axes != 4 || from->shape.dim[1] % 2 != 0) return;
  const int depth = (int)from->shape.dim[1] / 2, layer = s->layers;
  from->fresh = false;
  put(s,
      "layer { name: 'l%d' type: 'Reshape' bottom: '%s' top: 'v%d' reshape_param { axis: 1 "
      "num_axes: 1"
      " shape { dim: 2 dim: %d } } }\n",
      layer, from->name, layer, depth);
  put(s,
      "layer { name: 'l%dc' type: '%s' bottom: 'v%d' top: 'w%d' convolution_param { num_output: 4"
      " group: 2 kernel_size: 3 pad: 1 " FILL "} }\n",
      layer, PICK(s, "Convolution", "Deconvolution"), layer, layer);
  crema_shape to = from->shape;
  to.dim[1] = 4 * depth;
  char back[16];
  snprintf(back, sizeof back, "w%d", layer);
  head(s, "Reshape", back, add_blob(s, to)->name);
  put(s, "reshape_param { axis: 1 num_axes: 2 shape { dim: %d } } }\n", (int)to.dim[1]);
}

/* Two bottoms: values for each channel come from the other one or from a Parameter layer. */
static void add_factor(sketch *s) {
  open_blob *from = take(s);
  if (from->shape.axes < 2) return;
  const int layer = s->layers;
  from->fresh = false;
  put(s,
      "layer { name: 'l%dp' type: 'Parameter' top: 'p%d' param { name: 'p%d' } parameter_param {"
      " shape { dim: %d } } }\n",
      layer, layer, (int)from->shape.dim[1], (int)from->shape.dim[1]);
  put(s,
      "layer { name: 'l%ds' type: 'Power' bottom: 'p%d' top: 'q%d' power_param { shift: 0.6 } }\n",
      layer, layer, layer);
  put(s, "layer { name: 'l%d' type: '%s' bottom: '%s' bottom: 'q%d' top: '%s' }\n", s->layers++,
      PICK(s, "Scale", "Bias"), from->name, layer, add_blob(s, from->shape)->name);
}

/* The same weights on two blobs. */
static void add_shared(sketch *s) {
  open_blob *from = take(s);
  if (from->shape.axes != 4) return;
  crema_shape to = from->shape;
  const int inputs = (int)to.dim[1];
  from->fresh = false;
  to.dim[1] = 4;
  head(s, "Convolution", from->name, add_blob(s, to)->name);
  put(s,
      "param { name: 'w%d' } param { name: 'c%d' } convolution_param { num_output: 4 kernel_size: "
      "1 " FILL "} }\n",
      inputs, inputs);
}

static void draw_net(sketch *s, uint64_t seed) {
  *s = (sketch){.random = seed * 2 + 1};
  for (int i = 0; i < 8; ++i) (void)draw(s, 2);
  put(s, "%s", INPUT("data", DIM4(2, 3, 6, 5)));
  const crema_shape shape = cr_shape_4(2, 4 << draw(s, 3), 6, 5);
  put(s,
      "layer { name: 'first' type: 'Convolution' bottom: 'data' top: '%s' convolution_param {"
      " num_output: %d kernel_size: 3 pad: 1 " FILL "} }\n",
      add_blob(s, shape)->name, (int)shape.dim[1]);
  const uint32_t steps = 3 + draw(s, 10);
  for (uint32_t i = 0; i < steps; ++i) {
    switch (draw(s, 14)) {
      case 0:
      case 1: add_window(s); break;
      case 2: add_deconvolution(s); break;
      case 3: add_inner_product(s); break;
      case 4: add_shape(s); break;
      case 5: add_join(s); break;
      case 6: add_slice(s); break;
      case 7: add_end(s); break;
      case 8: add_volume(s); break;
      case 9: add_factor(s); break;
      case 10: add_shared(s); break;
      default: add_same(s); break;
    }
  }
  for (int i = 0, count = s->blobs; i < count; ++i) {
    if (!s->blob[i].fresh) continue;
    put(s,
        "layer { name: 'loss%d' type: 'Reduction' bottom: '%s' top: 'loss%d' loss_weight: %g"
        " reduction_param { operation: SUMSQ axis: 0 coeff: 0.1 } }\n",
        i, s->blob[i].name, i, 0.5 + 0.25 * draw(s, 4));
    put(s,
        "layer { name: 'lin%d' type: 'InnerProduct' bottom: '%s' top: 'lin%d' loss_weight: 1"
        " inner_product_param { num_output: 1 axis: %d " FILL "} }\n",
        i, s->blob[i].name, i, s->blob[i].shape.axes > 1 ? 1 : 0);
  }
}

/* The loss with the same masks every time. */
static double loss_of(crema_net *net) {
  double loss = 0;
  for (int i = 0; i < net->layers; ++i) net->layer[i].layer->pass = 3;
  ok(crema_net_forward(net, &loss));
  return loss;
}

/* d loss / d step along `direction`, from below and from above. */
static void slopes(crema_net *net, crema_blob *blob, const float *start, const float *direction,
                   float step, double out[2]) {
  const int64_t count = crema_blob_count(blob);
  double loss[3];
  for (int k = -1; k <= 1; ++k) {
    float *value = NULL;
    ok(crema_blob_mutable_cpu_data(blob, &value));
    for (int64_t i = 0; i < count; ++i) value[i] = start[i] + (float)k * step * direction[i];
    loss[k + 1] = loss_of(net);
  }
  float *value = NULL;
  ok(crema_blob_mutable_cpu_data(blob, &value));
  memcpy(value, start, (size_t)count * sizeof *value);
  for (int k = 0; k < 2; ++k) out[k] = (loss[k + 1] - loss[k]) / (double)step;
}

/* How far the gradient is from the two slopes' mean, or, where they differ (the loss bends), from
 * the nearer one. */
static double distance(double along, const double slope[2]) {
  double low = fmin(slope[0], slope[1]), high = fmax(slope[0], slope[1]);
  if (along >= low && along <= high) return 0;
  return fmin(fabs(along - (low + high) / 2), fmax(low - along, along - high));
}

/* Along the gradient and a random direction of the same length. */
static bool agrees(crema_net *net, sketch *s, crema_blob *blob, double loss, double *want,
                   double *found) {
  static const float steps[] = {3e-3f, 1e-2f, 1e-3f, 3e-2f, 3e-4f};
  const int64_t count = crema_blob_count(blob);
  const size_t bytes = (size_t)count * sizeof(float);
  float *start = malloc(bytes), *direction = malloc(bytes);
  assert_true(start != NULL && direction != NULL);
  memcpy(start, data_of(blob), bytes);
  const float *gradient = diff_of(blob);
  double length = 0, along = 0, best = INFINITY;
  for (int64_t i = 0; i < count; ++i) length += (double)gradient[i] * (double)gradient[i];
  length = sqrt(length);
  for (int64_t i = 0; i < count; ++i) {
    double part = length > 0 ? (double)gradient[i] / length : 0;
    direction[i] = (float)(part + ((double)draw(s, 2001) / 1000 - 1) / sqrt((double)count));
    along += (double)direction[i] * (double)gradient[i];
  }
  for (size_t k = 0; k < sizeof steps / sizeof steps[0] && best > 1; ++k) {
    double now[2];
    slopes(net, blob, start, direction, steps[k], now);
    double allowed = 0.02 * fabs(along) + 2e-6 * (1 + fabs(loss)) / (double)steps[k] + 1e-4;
    double error = distance(along, now) / allowed;
    if (error < best) {
      best = error;
      *found = (now[0] + now[1]) / 2;
    }
  }
  *want = along;
  free(start);
  free(direction);
  return best <= 1;
}

/* Parameter layers start with zeros; ties between them would bend the loss. */
static void spread_parameters(crema_net *net) {
  for (int i = 0; i < net->layers; ++i) {
    cr_layer *layer = net->layer[i].layer;
    if (strcmp(layer->class->type, "Parameter") == 0) fill(layer->blob[0], -0.25f, 0.07f);
  }
}

static int wrong_blobs(crema_net *net, sketch *s, bool tell) {
  int wrong = 0;
  fill(blob_of(net, "data"), -1, 0.011f);
  double loss = loss_of(net);
  if (!(fabs(loss) < 1000)) return 0; /* differences say nothing then */
  crema_net_clear_param_diffs(net);
  ok(crema_net_backward(net));
  for (int p = 0; p < net->learnables; ++p) {
    double want = 0, found = 0;
    if (net->lr_mult[p] == 0 || agrees(net, s, net->learnable[p], loss, &want, &found)) continue;
    wrong += 1;
    if (tell) print_error("parameter %d: gradient %g, by differences %g\n", p, want, found);
  }
  return wrong;
}

/* All gradients of parameters after a pass over a batch of `items`. */
static float *gradients_of(crema_net *net, int64_t items, size_t *count) {
  const crema_shape shape = cr_shape_4(items, 3, 6, 5);
  ok(crema_blob_reshape(blob_of(net, "data"), &shape));
  fill(blob_of(net, "data"), -1, 0.011f);
  (void)loss_of(net);
  crema_net_clear_param_diffs(net);
  ok(crema_net_backward(net));
  *count = 0;
  for (int p = 0; p < net->learnables; ++p) {
    *count += (size_t)crema_blob_count(net->learnable[p]);
  }
  float *all = malloc((*count + 1) * sizeof *all), *at = all;
  assert_non_null(all);
  for (int p = 0; p < net->learnables; ++p) {
    size_t values = (size_t)crema_blob_count(net->learnable[p]);
    memcpy(at, diff_of(net->learnable[p]), values * sizeof *at);
    at += values;
  }
  return all;
}

/* Passes over batches of other sizes in between leave nothing behind. */
static bool forgets_other_batches(crema_net *net) {
  static const int64_t items[] = {2, 5, 1, 2};
  float *first = NULL;
  bool same = true;
  for (size_t k = 0; k < sizeof items / sizeof items[0]; ++k) {
    size_t count = 0;
    float *now = gradients_of(net, items[k], &count);
    if (k == 0) {
      first = now;
      continue;
    }
    for (size_t i = 0; i < count && items[k] == items[0]; ++i) {
      same = same &&
             (first[i] == now[i] || fabsf(first[i] - now[i]) <= 1e-4f * fabsf(first[i]) + 1e-5f ||
              !isfinite(first[i]));
    }
    free(now);
  }
  free(first);
  return same;
}

TEST(gradients_are_right) {
  const char *given = getenv("CREMA_TEST_SEED"), *nets = getenv("CREMA_TEST_NETS");
  const uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
  const uint64_t count = nets != NULL ? strtoull(nets, NULL, 10) : 150;
  static sketch s;
  static log_lines lines;
  int warned = 0, spoiled = 0;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (uint64_t i = 0; i < count; ++i) {
    draw_net(&s, seed * 1000003 + i);
    listen_to(&lines, CREMA_LOG_WARNING);
    crema_net *net = build(s.text, CREMA_TRAIN);
    stop_listening();
    int warnings = count_lines(&lines, "in place");
    spread_parameters(net);
    int wrong = wrong_blobs(net, &s, warnings == 0);
    warned += warnings > 0;
    spoiled += warnings > 0 && wrong > 0;
    bool forgets = forgets_other_batches(net);
    if (!forgets) print_error("gradients differ after passes over other batches\n");
    if ((warnings == 0 && wrong > 0) || !forgets) {
      print_error("net %llu of seed %llu:\n", (unsigned long long)i, (unsigned long long)seed);
      fputs(s.text, stderr); /* longer than cmocka's lines */
      fail();
    }
    crema_net_destroy(net);
  }
  print_message("%d of %d nets that warned have wrong gradients\n", spoiled, warned);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
