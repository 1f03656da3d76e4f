/* S4-39: every layer of the registry in every pair of forward and backward types, on the shapes of
 * layer_rows.inc: it is built, runs both passes, and its values and gradients are near those in
 * FLOAT. Layers that read files are tried so by tests/docs/layers.py. */
#include "crema/memory_data.h"
#include "layers/layer_table.h"
#include "net/net.h"

static const char *type_name(crema_dtype type) {
  switch (type) {
    case CREMA_F64: return "DOUBLE";
    case CREMA_F16: return "FLOAT16";
    case CREMA_BF16: return "BFLOAT16";
    default: return "FLOAT";
  }
}

typedef struct type_pair {
  const char *forward, *backward;
  double tolerance; /* of the less precise of the two, for sums of some rounded terms */
} type_pair;

/* The first is what the others are compared with. */
static const type_pair pairs[] = {{"FLOAT", "FLOAT", 0},        {"DOUBLE", "DOUBLE", 1e-6},
                                  {"DOUBLE", "FLOAT", 1e-6},    {"FLOAT", "DOUBLE", 1e-6},
                                  {"DOUBLE", "FLOAT16", 2e-3},  {"FLOAT", "FLOAT16", 2e-3},
                                  {"FLOAT16", "FLOAT16", 2e-3}, {"FLOAT16", "DOUBLE", 2e-3},
                                  {"FLOAT16", "FLOAT", 2e-3},   {"BFLOAT16", "BFLOAT16", 2e-2}};
enum { PAIRS = sizeof pairs / sizeof *pairs, BLOBS = 2 * (2 * RIG_MAX) };

/* What a pass left: the values of tops, and the gradients of bottoms and parameters. */
typedef struct outcome {
  double *value[BLOBS];
  int64_t count[BLOBS];
} outcome;

/* Whether the types are the layer's alone, or those of the whole net. */
typedef enum scope { WHOLE_NET, ONE_LAYER, SCOPES } scope;

static size_t append(char *text, size_t size, size_t used, const char *fmt, ...) {
  va_list list;
  va_start(list, fmt);
  int more = vsnprintf(text + used, size - used, fmt, list);
  va_end(list);
  assert_true(more >= 0 && (size_t)more < size - used);
  return used + (size_t)more;
}

/* The row's layer behind an Input layer per bottom, with all its tops as losses. */
static void write_net(const layer_row *row, const type_pair *in, scope where, char *text,
                      size_t size) {
  const char *shapes = row->shapes;
  size_t used = 0;
  int bottoms = 0;
  if (where == WHOLE_NET) {
    used = append(text, size, used, "default_forward_type: %s default_backward_type: %s\n",
                  in->forward, in->backward);
  }
  used = append(text, size, used, "force_backward: %s\n", has_flag(row, 'N') ? "false" : "true");
  for (; shapes != NULL && *shapes != '\0'; ++bottoms) {
    crema_shape shape;
    shapes = rig_read_shape(shapes, &shape);
    used = append(text, size, used,
                  "layer { name: 'in%d' type: 'Input' top: 'b%d' input_param { shape {", bottoms,
                  bottoms);
    for (int i = 0; i < shape.axes; ++i) {
      used = append(text, size, used, " dim: %lld", (long long)shape.dim[i]);
    }
    used = append(text, size, used, " } } }\n");
  }
  used = append(text, size, used, "layer { name: 'op' type: '%s' %s", row->type, row->body);
  if (where == ONE_LAYER) {
    used =
        append(text, size, used, " forward_type: %s backward_type: %s", in->forward, in->backward);
  }
  for (int i = 0; i < bottoms; ++i) used = append(text, size, used, " bottom: 'b%d'", i);
  for (int i = 0; i < row->tops; ++i) {
    used = append(text, size, used, " top: 't%d'", i);
    if (!has_flag(row, 'N')) {
      used = append(text, size, used, " loss_weight: %d", i < row->differentiable ? 1 : 0);
    }
  }
  (void)append(text, size, used, " }\n");
}

/* Values that every type has: multiples of 1/64 below 2 need 7 bits. */
static void round_values(crema_blob *blob) {
  float *value = rig_data(blob);
  for (int64_t i = 0; i < crema_blob_count(blob); ++i) value[i] = roundf(value[i] * 64) / 64;
}

static double *copy_values(const float *from, int64_t count) {
  double *out = malloc(((size_t)count + 1) * sizeof *out);
  assert_non_null(out);
  for (int64_t i = 0; i < count; ++i) out[i] = (double)from[i];
  return out;
}

static void keep(outcome *out, int at, crema_blob *blob, bool diff) {
  out->count[at] = crema_blob_count(blob);
  out->value[at] = copy_values(diff ? rig_diff(blob) : rig_data(blob), out->count[at]);
}

/* Fills what the row's layer reads, as the rig's rows do. */
static void fill_net(const cr_net_layer *op, const layer_row *row) {
  rig view = {.layer = op->layer, .bottoms = op->layer->bottoms};
  uint32_t random = 2463534242u;
  for (int i = 0; i < view.bottoms; ++i) view.bottom[i] = op->bottom[i];
  fill_bottoms(&view, row, &random);
  fill_params(&view, &random);
  for (int i = 0; i < view.bottoms; ++i) round_values(view.bottom[i]);
  for (int p = 0; p < op->layer->params; ++p) round_values(op->layer->blob[p]);
}

static crema_net *build_net(const layer_row *row, const type_pair *in, scope where) {
  crema_net_options options;
  crema_net *net = NULL;
  char text[4096];
  write_net(row, in, where, text, sizeof text);
  crema_net_options_init(&options);
  options.phase = row->phase == CAFFE__PHASE__TEST ? CREMA_TEST : CREMA_TRAIN;
  options.seed = 1701;
  if (crema_net_parse(text, strlen(text), "types", &options, &net) != CREMA_OK) {
    print_error("%s\n%s\n", text, crema_error_text());
    fail();
  }
  return net;
}

static void run_net(const layer_row *row, const type_pair *in, scope where, outcome *out) {
  double loss = 0;
  memset(out, 0, sizeof *out);
  crema_net *net = build_net(row, in, where);
  cr_net_layer *op = &net->layer[cr_net_find_layer(net, "op")];
  assert_string_equal(type_name(op->layer->types.forward), in->forward);
  assert_string_equal(type_name(op->layer->types.backward), in->backward);
  fill_net(op, row);
  ok(crema_net_forward(net, &loss));
  assert_true(isfinite(loss));
  for (int t = 0; t < op->layer->tops; ++t) keep(out, t, op->top[t], false);
  if (!has_flag(row, 'N')) {
    crema_net_clear_param_diffs(net);
    ok(crema_net_backward(net));
    for (int i = 0; i < op->layer->bottoms; ++i) {
      if (op->layer->kind->no_gradient_bottoms >> i & 1u) continue;
      keep(out, RIG_MAX + i, op->bottom[i], true);
    }
    for (int p = 0; p < op->layer->params; ++p) {
      keep(out, 2 * RIG_MAX + p, op->layer->blob[p], true);
    }
  }
  crema_net_destroy(net);
}

static void free_outcome(outcome *out) {
  for (int k = 0; k < BLOBS; ++k) free(out->value[k]);
}

static void compare(const layer_row *row, const type_pair *in, scope where, const outcome *want,
                    const outcome *found) {
  for (int k = 0; k < BLOBS; ++k) {
    double scale = 1;
    assert_int_equal(want->count[k], found->count[k]);
    for (int64_t i = 0; i < want->count[k]; ++i) scale = fmax(scale, fabs(want->value[k][i]));
    for (int64_t i = 0; i < want->count[k]; ++i) {
      double a = want->value[k][i], b = found->value[k][i];
      if (isfinite(b) && fabs(a - b) <= in->tolerance * scale) continue;
      print_error("%s %s, %s forward and %s backward%s, %s %d, element %lld: %g, in FLOAT %g\n",
                  row->type, row->body, in->forward, in->backward,
                  where == ONE_LAYER ? " in a net of FLOAT" : "",
                  k < RIG_MAX       ? "top"
                  : k < 2 * RIG_MAX ? "gradient of bottom"
                                    : "gradient of parameter",
                  k % RIG_MAX, (long long)i, b, a);
      fail();
    }
  }
}

TEST(s4_39_every_layer_in_every_pair_of_types) {
  for (size_t i = 0; i < ROWS; ++i) {
    outcome want, found;
    if (has_flag(&rows[i], 'S')) continue;
    run_net(&rows[i], &pairs[0], WHOLE_NET, &want);
    for (int k = 1; k < PAIRS; ++k) {
      for (scope where = WHOLE_NET; where < SCOPES; ++where) {
        run_net(&rows[i], &pairs[k], where, &found);
        compare(&rows[i], &pairs[k], where, &want, &found);
        free_outcome(&found);
      }
    }
    free_outcome(&want);
  }
}

/* A layer computes in DOUBLE when any of its four types is DOUBLE, else in FLOAT; its statistics
 * and losses are of that type. */
TEST(s4_02_arithmetic_is_as_precise_as_the_widest_type) {
  static const crema_dtype types[] = {CREMA_F64, CREMA_F32, CREMA_F16, CREMA_BF16};
  for (int n = 0; n < 256; ++n) {
    const int digit[] = {n % 4, n / 4 % 4, n / 16 % 4, n / 64};
    const bool wide = digit[0] == 0 || digit[1] == 0 || digit[2] == 0 || digit[3] == 0;
    const cr_layer layer = {.types = {.forward = types[digit[0]],
                                      .backward = types[digit[1]],
                                      .forward_math = types[digit[2]],
                                      .backward_math = types[digit[3]]}};
    assert_int_equal(cr_layer_arithmetic(&layer), wide ? CREMA_F64 : CREMA_F32);
  }
}

/* ---- conversions ---- */

enum { COUNTED = 3 * RIG_MAX };

/* What the layer's bottoms, tops and parameters were converted so far. */
static void count_all(const cr_net_layer *op, uint64_t *count) {
  const cr_layer *self = op->layer;
  for (int i = 0; i < COUNTED; ++i) count[i] = 0;
  for (int i = 0; i < self->bottoms; ++i) count[i] = crema_blob_conversions(op->bottom[i]);
  for (int i = 0; i < self->tops; ++i) count[RIG_MAX + i] = crema_blob_conversions(op->top[i]);
  for (int p = 0; p < self->params; ++p) {
    count[2 * RIG_MAX + p] = crema_blob_conversions(self->blob[p]);
  }
}

static void assert_few(const layer_row *row, const char *pass, const uint64_t *before,
                       const uint64_t *after, uint64_t most) {
  for (int i = 0; i < COUNTED; ++i) {
    if (after[i] - before[i] <= most) continue;
    print_error("%s %s: %s %d is converted %d times in a %s pass\n", row->type, row->body,
                i < RIG_MAX       ? "bottom"
                : i < 2 * RIG_MAX ? "top"
                                  : "parameter",
                i % RIG_MAX, (int)(after[i] - before[i]), pass);
    fail();
  }
}

/* Forward converts a value once at most, to floats or from them; backward a value and a gradient
 * once each. */
static void count_pass(const layer_row *row, crema_net *net, uint64_t forward, uint64_t backward) {
  const cr_net_layer *op = &net->layer[cr_net_find_layer(net, "op")];
  uint64_t start[COUNTED], middle[COUNTED], end[COUNTED];
  fill_net(op, row);
  count_all(op, start);
  ok(crema_net_forward(net, NULL));
  count_all(op, middle);
  assert_few(row, "forward", start, middle, forward);
  if (has_flag(row, 'N')) return;
  crema_net_clear_param_diffs(net);
  ok(crema_net_backward(net));
  count_all(op, end);
  assert_few(row, "backward", middle, end, backward);
}

TEST(every_layer_converts_a_value_once_in_a_direction) {
  static const type_pair of[] = {{"FLOAT", "FLOAT", 0}, {"FLOAT16", "FLOAT16", 0}};
  for (size_t i = 0; i < ROWS; ++i) {
    if (has_flag(&rows[i], 'S')) continue;
    for (int k = 0; k < 2; ++k) {
      crema_net *net = build_net(&rows[i], &of[k], WHOLE_NET);
      for (int pass = 0; pass < 2; ++pass)
        count_pass(&rows[i], net, k == 0 ? 0 : 1, k == 0 ? 0 : 2);
      crema_net_destroy(net);
    }
  }
}

/* Samples that a program gives: pictures take the net's type, labels stay exact. */
TEST(s4_39_samples_in_every_pair_of_types) {
  float samples[8], labels[2] = {3, 70001};
  for (int i = 0; i < 8; ++i) samples[i] = (float)i * 0.3f - 1;
  for (int k = 0; k < PAIRS; ++k) {
    char text[512];
    crema_net *net = NULL;
    crema_blob *data = NULL, *label = NULL;
    const float *value = NULL;
    (void)append(text, sizeof text, 0,
                 "default_forward_type: %s default_backward_type: %s layer { name: 'op' "
                 "type: 'MemoryData' top: 'data' top: 'label' "
                 "memory_data_param { batch_size: 2 channels: 1 height: 2 width: 2 } }",
                 pairs[k].forward, pairs[k].backward);
    ok(crema_net_parse(text, strlen(text), "types", NULL, &net));
    ok(crema_memory_data_set(net, "op", samples, labels, 2));
    ok(crema_net_forward(net, NULL));
    ok(crema_net_backward(net));
    ok(crema_net_blob(net, "data", &data));
    ok(crema_net_blob(net, "label", &label));
    assert_string_equal(type_name(crema_blob_data_type(data)), pairs[k].forward);
    ok(crema_blob_cpu_data(data, &value));
    for (int i = 0; i < 8; ++i) {
      assert_true(fabsf(value[i] - samples[i]) <= (float)pairs[k].tolerance);
    }
    ok(crema_blob_cpu_data(label, &value));
    for (int i = 0; i < 2; ++i) assert_true(value[i] == labels[i]);
    crema_net_destroy(net);
  }
}

/* All others are tried above. */
TEST(s4_39_only_layers_that_read_files_are_left_out) {
  static const char *const files[] = {
      "AnnotatedData", "BoxData",  "CPMData", "Data",       "HDF5Data",  "HDF5Output", "ImageData",
      "ImageSegData",  "MatWrite", "RoIData", "VideoClips", "VideoData", "WindowData"};
  size_t count = 0;
  const char *const *names = cr_layer_class_names(&count);
  for (size_t n = 0; n < count; ++n) {
    bool found = strcmp(names[n], "MemoryData") == 0;
    for (size_t k = 0; k < sizeof files / sizeof *files; ++k) {
      found = found || strcmp(files[k], names[n]) == 0;
    }
    for (size_t i = 0; i < ROWS && !found; ++i) {
      found = strcmp(rows[i].type, names[n]) == 0 && !has_flag(&rows[i], 'S');
    }
    if (found) continue;
    print_error("layer type %s is not tried in other types\n", names[n]);
    fail();
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
