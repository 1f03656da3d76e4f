/* Random nets of layers that hand on gradients: copies, views, sums and concats, layers in place;
 * and blocks of convolution, normalization, activation and sum as nets for inference have them. */
#ifndef CR_TESTS_RANDOM_NETS_H
#define CR_TESTS_RANDOM_NETS_H

#include <stdlib.h>
#include <time.h>

#include "net/net_case.h"

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

/* A convolution or inner product with any of normalization, scale, bias, activation behind it,
 * each in place or not. */
static open_blob *add_chain(sketch *s, open_blob *from, int outputs) {
  static const char *const behind[] = {
      "type: 'BatchNorm' batch_norm_param { eps: 0.1 }",
      ("type: 'Scale' scale_param { bias_term: true filler { type: 'uniform' "
       "min: 0.5 max: 1.5 } bias_filler { type: 'uniform' min: -0.5 max: 0.5 } }"),
      "type: 'Scale' scale_param { axis: -3 filler { type: 'uniform' min: -1 max: 1 } }",
      "type: 'Bias' bias_param { filler { type: 'uniform' min: -0.5 max: 0.5 } }",
      "type: 'Power' power_param { scale: 1.5 shift: -0.2 }",
      "type: 'Scale' scale_param { num_axes: 0 filler { value: 0.8 } }",
      "type: 'Dropout'"};
  static const char *const activation[] = {
      "type: 'ReLU'",    "type: 'ReLU' relu_param { negative_slope: 0.1 }",
      "type: 'PReLU'",   "type: 'ELU'",
      "type: 'Sigmoid'", "type: 'TanH'",
      "type: 'Swish'",   "type: 'Clip' clip_param { min: 0 max: 1 }",
      "type: 'AbsVal'"};
  crema_shape to = from->shape;
  const int kernel = draw(s, 2) == 0 ? 1 : 3;
  to.dim[1] = outputs;
  from->fresh = false;
  open_blob *blob = add_blob(s, to);
  head(s, "Convolution", from->name, blob->name);
  put(s, "convolution_param { num_output: %d kernel_size: %d pad: %d group: %d %s" FILL "} }\n",
      outputs, kernel, kernel / 2, from->shape.dim[1] % 2 == 0 && draw(s, 3) == 0 ? 2 : 1,
      PICK(s, "", "bias_term: false "));
  const uint32_t parts = draw(s, 5);
  for (uint32_t i = 0; i <= parts; ++i) {
    const bool last = i == parts;
    if (last && draw(s, 3) == 0) break;
    open_blob *next = draw(s, 3) == 0 ? add_blob(s, to) : blob;
    put(s, "layer { name: 'l%d' bottom: '%s' top: '%s' %s }\n", s->layers++, blob->name, next->name,
        last ? activation[draw(s, sizeof activation / sizeof activation[0])]
             : behind[draw(s, sizeof behind / sizeof behind[0])]);
    if (next != blob) blob->fresh = false;
    blob = next;
  }
  return blob;
}

/* Two chains, or one and what it began with, and their sum, which may have an activation. */
static void add_block(sketch *s) {
  open_blob *from = take(s);
  if (from->shape.axes != 4 || from->shape.dim[1] > 16 || s->blobs > BLOBS - 16) return;
  const int outputs = (int)from->shape.dim[1];
  open_blob *a = draw(s, 2) == 0 ? from : add_chain(s, from, outputs);
  open_blob *b = add_chain(s, from, outputs);
  if (draw(s, 3) == 0) return;
  a->fresh = b->fresh = false;
  const char *top = add_blob(s, a->shape)->name;
  put(s, "layer { name: 'l%d' type: 'Eltwise' bottom: '%s' bottom: '%s' top: '%s' %s }\n",
      s->layers++, draw(s, 2) == 0 ? a->name : b->name, draw(s, 4) == 0 ? b->name : a->name, top,
      PICK(s, "", "eltwise_param { coeff: 0.5 coeff: 2 }", "eltwise_param { coeff: 1 coeff: 1 }"));
  if (draw(s, 2) == 0) head(s, "ReLU", top, top), put(s, "}\n");
}

/* What the net is for: blocks, and no losses, are for inference. */
typedef enum sketch_use { FOR_TRAINING, FOR_INFERENCE } sketch_use;

static void draw_net(sketch *s, uint64_t seed, sketch_use use) {
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
    if (s->blobs > BLOBS - 20) break;
    switch (draw(s, use == FOR_TRAINING ? 14 : 22)) {
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
      case 11:
      case 12:
      case 13: add_same(s); break;
      default: add_block(s); break;
    }
  }
  for (int i = 0, count = s->blobs; i < count; ++i) {
    if (!s->blob[i].fresh || use == FOR_INFERENCE) continue;
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

#endif
