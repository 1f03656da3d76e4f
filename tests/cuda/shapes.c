/* Every op but convolution and pooling on shapes drawn at random: empty, 1, odd, around the sizes
 * of warps and blocks, long. The rows of the device against the reference kernels of the CPU,
 * forward and through the gradients. (Windows have a test of their own, ops/test_windows.c, which
 * runs on the device's rows too.) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "op_check.h"
#include "op_run.h"
#include "ops/op.h"
#include "sequences.h"

enum { TEXT = 256, DRAWS = 6 };

/* Of one argument; more would only take longer. */
static const int64_t most_elements = 30000;

static uint32_t seed;

static int64_t draw_extent(cr_mt19937 *rng, bool may_be_empty) {
  static const int64_t extents[] = {1,  2,  3,  4,  5,  7,   8,   9,   15,  16,   17,   31,
                                    32, 33, 63, 64, 65, 100, 127, 129, 257, 1023, 1025, 4097};
  if (may_be_empty && cr_mt19937_below(rng, 8) == 0) return 0;
  const uint32_t count = sizeof extents / sizeof extents[0];
  /* Small ones more often, so that several fit into one argument. */
  const uint32_t a = cr_mt19937_below(rng, count), b = cr_mt19937_below(rng, count);
  return extents[a < b ? a : b];
}

/* ---- templates ---- */

/* Shapes as in an op_case, with letters for extents: A, B, C at least 1, a, b, c also 0, each
 * letter the same everywhere. P is the sum of A and B, K at most B and 5, Q twice the product of A
 * and K, g four times b. */
typedef struct shape_template {
  op_given desc;
  const char *shapes;
  const float *scale; /* as in an op_case */
  cr_op_scalars scalars;
  bool top_k; /* u.accuracy.top_k is drawn as K */
} shape_template;

static const float coeffs[] = {0.5f, -1.25f, 2, 1};

#define OP(name, text) \
  { .desc = {.kind = CR_OP_##name}, .shapes = text }
#define OP_WITH(name, text, ...) \
  { .desc = {.kind = CR_OP_##name, .u = {__VA_ARGS__}}, .shapes = text }
#define FUNCTION(name) OP_WITH(UNARY_FWD, "a B; a B", .unary = {CR_UNARY_##name, 1.5f, 0.75f, 2.5f})
#define LOSS(name, text, ...)                                                        \
  {                                                                                  \
    .desc = {.kind = CR_OP_##name, .u = {__VA_ARGS__}}, .shapes = text, .scalars = { \
      .alpha = 0.75f,                                                                \
      .seed = 3,                                                                     \
      .counter = 8                                                                   \
    }                                                                                \
  }
#define UPDATE(name, second, rules)                                                            \
  {                                                                                            \
    .desc = {.kind = CR_OP_##name, .u.update = {.rule = rules}}, .shapes = "a; a; a; " second, \
    .scalars = OP_UPDATE_SCALARS                                                               \
  }

static const shape_template templates[] = {
    OP_WITH(IP_FWD, "a B; C B; C; a C", .ip = {.transpose = false}),
    OP_WITH(IP_FWD, "A B; B C; -; A C", .ip = {.transpose = true}),
    OP_WITH(LRN_FWD, "a B C 2; a B C 2; -", .lrn = {5, 1, 0.75f, 1, false}),
    OP_WITH(LRN_FWD, "a 3 B C; a 3 B C; -", .lrn = {3, 1, 0.5f, 2, true}),
    OP_WITH(BN_FWD_TRAIN, "A B C; A B C; B; B", .bn = {.eps = 1e-2f, .global = false}),
    OP_WITH(BN_FWD_TRAIN, "A B C; A B C; B; B; -; -; B; B; 1", .bn = {1e-2f, false, 0.5f, false}),
    OP_WITH(BN_FWD_TRAIN, "A B C; A B C; B; B; B; B", .bn = {1e-2f, false, 0, true}),
    OP_WITH(BN_FWD_TRAIN, "A B C; A B C; B; B; -; -; B; B; 1", .bn = {1e-2f, false, 0.5f, true}),
    OP_WITH(BN_FWD_GLOBAL, "a B C; a B C; B; B", .bn = {.eps = 1e-2f, .global = true}),
    OP_WITH(SOFTMAX_FWD, "a B C; a B C", .axis = 1),
    OP_WITH(SOFTMAX_FWD, "A B C; A B C", .axis = 0),
    OP_WITH(SOFTMAX_FWD, "a b C; a b C", .axis = 2),
    OP_WITH(UNARY_FWD, "a B; a B", .unary = {CR_UNARY_RELU, 0.1f, 0, 0}),
    OP_WITH(UNARY_FWD, "a B; a B", .unary = {CR_UNARY_SIGMOID, 0, 0, 0}),
    OP_WITH(UNARY_FWD, "a B; a B", .unary = {CR_UNARY_TANH, 0, 0, 0}),
    FUNCTION(POWER),
    FUNCTION(EXP),
    FUNCTION(LOG),
    FUNCTION(ABS),
    FUNCTION(ELU),
    FUNCTION(BNLL),
    FUNCTION(SWISH),
    OP(PRELU_FWD, "a B c; B; a B c"),
    {.desc = {.kind = CR_OP_SUM}, .shapes = "a B; a B; a B; a B", .scale = coeffs},
    {.desc = {.kind = CR_OP_SUM, .u.sum.rectify = true}, .shapes = "a B; a B; a B"},
    OP(SUM, "a; a"),
    OP(PROD, "a B; a B; a B; a B"),
    OP(MAX, "a B; a B; a B; a B; a B i32"),
    LOSS(AXPBY, "a B; a B", .norm = 0),
    OP_WITH(SET, "a B C", .value = 2.5f),
    OP(COPY, "a B; a B"),
    OP(COPY, "a B u8; a B u8"),
    OP_WITH(CONCAT, "c A 5; c B 5; c P 5", .axis = 1),
    OP_WITH(CONCAT, "A c; B c; P c", .axis = 0),
    OP_WITH(SLICE, "c P 3; c A 3; c B 3", .axis = 1),
    OP(AFFINE_FWD, "a B c; B; B; a B c"),
    OP(AFFINE_FWD, "a B 1; B; -; a B 1"),
    OP(AFFINE_FWD, "A 1 c; -; 1; A 1 c"),
    OP_WITH(RELU_BWD_BIAS, "a B c; a B c; a B c; B", .unary = {CR_UNARY_RELU, 0, 0, 0}),
    OP_WITH(RELU_BWD_BIAS, "A 2 C; A 2 C; A 2 C; 2", .unary = {CR_UNARY_RELU, 0.1f, 0, 0}),
    LOSS(DROPOUT_FWD, "a B; a B; a B u8", .dropout = {.ratio = 0.4f}),
    LOSS(SOFTMAX_LOSS_FWD, "a B C; a C; a B C; 1; 1; -", .nll = {false, .ignore = 0}),
    LOSS(SOFTMAX_LOSS_FWD, "A B c; A c; A B c; 1; 1; -; A c", .nll = {true, .ignore = 1}),
    LOSS(SOFTMAX_LOSS_FWD, "a 7 C; a C; a 7 C; 1; 1; 7 7; a C", .nll = {true, .ignore = 3}),
    LOSS(SOFTMAX_LOSS_FWD, "a B C; a C; -; 1; 1; -", .nll = {false, true, 0}),
    LOSS(SOFTMAX_LOSS_FWD, "A B c; A c; -; 1; 1; -; A c", .nll = {true, true, 1}),
    LOSS(SOFTMAX_LOSS_FWD, "a 7 C; a C; -; 1; 1; 7 7; a C", .nll = {true, true, 3}),
    {.desc = {.kind = CR_OP_ACCURACY}, .shapes = "a B C; a C; 1; B", .top_k = true},
    LOSS(SIGMOID_LOSS_FWD, "a B; a B; 1; 1", .nll = {true, .ignore = 1}),
    LOSS(HINGE_FWD, "a B; a; 1", .norm = 1),
    LOSS(HINGE_FWD, "a B; a; 1", .norm = 2),
    LOSS(CONTRASTIVE_FWD, "a B; a B; a; 1", .contrastive = {1, false}),
    LOSS(MULTINOMIAL_FWD, "a B; a; 1", .norm = 0),
    OP_WITH(MVN_FWD, "a B; a B; a", .mvn = {true, 1e-2f}),
    OP_WITH(MVN_FWD, "a B; a B; a", .mvn = {false, 0}),
    OP_WITH(NORMALIZE_FWD, "a B C; B; a B C; a C", .normalize = {false, 1e-2f}),
    OP_WITH(NORMALIZE_FWD, "a B C; 1; a B C; a C", .normalize = {false, 1e-2f}),
    OP_WITH(NORMALIZE_FWD, "a B C; B; a B C; a", .normalize = {true, 1e-2f}),
    OP_WITH(NORMALIZE_FWD, "a B 1; B; a B 1; a", .normalize = {false, 1e-2f}),
    LOSS(ROW_LOSS, "a B; a; a", .logistic = false),
    LOSS(ROW_LOSS, "a B; a; a", .logistic = true),
    LOSS(SMOOTH_L1_FWD, "a B; a B; -; a B; 1", .smooth = {3}),
    LOSS(SMOOTH_L1_FWD, "a B; a B; a B; -; 1", .smooth = {INFINITY}),
    OP(INTERP_FWD, "a 2 B C; a 2 C B"),
    OP(INTERP_FWD, "a 2 B 3; a 2 B C"),
    OP(UNPOOL_FWD, "a 2 3 B; a 2 3 B; a 2 C P"),
    OP_WITH(ROW_REDUCE_FWD, "a b; a", .rows = {CR_REDUCE_SUM, 0.25f}),
    OP_WITH(ROW_REDUCE_FWD, "a b; a", .rows = {CR_REDUCE_ASUM, -2}),
    OP_WITH(ROW_REDUCE_FWD, "a b; a", .rows = {CR_REDUCE_SUMSQ, 1}),
    OP(ARG_MAX, "a B C; a K C; a K C"),
    OP_WITH(CROP_FWD, "A P C; A B C", .offset = {0}),
    OP_WITH(PERMUTE, "a B C 3; 3 C a B", .order = {3, 2, 0, 1}),
    OP(TILE_FWD, "a c; a B c"),
    OP(GATHER_FWD, "B c; a; a c"),
    OP(GATHER_FWD, "B c; a; a c; c"),
    OP_WITH(ROI_POOL_FWD, "A 5 B 6; c 5; c 5 3 2", .roi = {.scale = 0.5f, .ratio = 0}),
    OP_WITH(ROI_POOL_FWD, "1 b C 9; c 5; c b 7 K", .roi = {.scale = 1, .ratio = 0}),
    OP_WITH(PSROI_POOL_FWD, "B Q 7 9; c 5; c A 2 K", .roi = {.scale = 0.25f, .ratio = 0}),
    OP_WITH(PSROI_POOL_FWD, "1 Q 5 C; c 5; c A K 2", .roi = {.scale = 1, .ratio = 0}),
    OP_WITH(ROI_ALIGN_FWD, "A 5 B 6; c 5; c 5 3 2", .roi = {.scale = 0.5f, .ratio = 2}),
    OP_WITH(ROI_ALIGN_FWD, "1 6 C 9; c 5; c 6 7 K", .roi = {.scale = 1, .ratio = 0}),
    OP_WITH(ROI_ALIGN_FWD, "2 a 6 B; c 5; c a 2 7", .roi = {.scale = 0.25f, .ratio = 3}),
    OP_WITH(REDUCE, "a B; 1 f64", .reduce = CR_REDUCE_SUM),
    OP_WITH(REDUCE, "a B; 1 f64", .reduce = CR_REDUCE_ASUM),
    OP_WITH(REDUCE, "a B; 1 f64", .reduce = CR_REDUCE_SUMSQ),
    OP(LSTM_FWD, "a c g; a c; g b; c b; c b; a c b; a c b; a c g"),
    OP(LSTM_UNIT_FWD, "1 c g; 1 c; 1 c b; 1 c b; 1 c b"),
    OP(RNN_FWD, "a c b; a c; b b; c b; a c b"),
    OP(RECURRENT_BWD_WEIGHTS, "a c b; c b; a c; a c g; g b"),
    OP(RECURRENT_BWD_WEIGHTS, "a c b; c b; a c; a c b; b b"),
    UPDATE(UPDATE, "-", CR_UPDATE_SGD),
    UPDATE(UPDATE_KEEP, "-", CR_UPDATE_NESTEROV),
    UPDATE(UPDATE, "-", CR_UPDATE_ADAGRAD),
    UPDATE(UPDATE_KEEP, "-", CR_UPDATE_RMSPROP),
    UPDATE(UPDATE, "a", CR_UPDATE_ADADELTA),
    UPDATE(UPDATE_KEEP, "a", CR_UPDATE_ADAM),
    UPDATE(UPDATE_KEEP, "a", CR_UPDATE_DIRECTION),
    UPDATE(UPDATE, "-", CR_UPDATE_DESCENT),
};
enum { TEMPLATES = sizeof templates / sizeof templates[0] };

typedef struct extents {
  int64_t of[128]; /* by letter */
} extents;

static extents draw_extents(cr_mt19937 *rng) {
  extents e = {{0}};
  for (char letter = 'A'; letter <= 'C'; ++letter) {
    e.of[(int)letter] = draw_extent(rng, false);
    e.of[letter - 'A' + 'a'] = draw_extent(rng, true);
  }
  e.of['P'] = e.of['A'] + e.of['B'];
  e.of['g'] = 4 * e.of['b'];
  e.of['K'] = 1 + (int64_t)cr_mt19937_below(rng, e.of['B'] < 5 ? (uint32_t)e.of['B'] : 5);
  e.of['Q'] = 2 * e.of['A'] * e.of['K'];
  return e;
}

/* False: an argument is too large. */
static bool spell(const char *shapes, const extents *e, char *text) {
  size_t used = 0;
  int64_t elements = 1;
  for (const char *p = shapes; *p != '\0'; ++p) {
    const bool type = (*p == 'u' || *p == 'i' || *p == 'f') && p[1] >= '0' && p[1] <= '9';
    if (*p == ';') elements = 1;
    if (type) {
      used += (size_t)snprintf(text + used, TEXT - used, "%.*s", (int)strcspn(p, ";"), p);
      p += strcspn(p, ";") - 1;
    } else if ((*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z')) {
      elements *= e->of[(int)*p];
      used += (size_t)snprintf(text + used, TEXT - used, "%lld", (long long)e->of[(int)*p]);
    } else {
      text[used++] = *p;
    }
    if (elements > most_elements) return false;
  }
  text[used] = '\0';
  return true;
}

static void check_template(const shape_template *t, cr_mt19937 *rng) {
  char text[TEXT], label[2 * TEXT];
  extents e = draw_extents(rng);
  while (!spell(t->shapes, &e, text)) e = draw_extents(rng);
  snprintf(label, sizeof label, "%s of %s", cr_op_kind_name(t->desc.kind), text);
  op_case test = {.label = label,
                  .shapes = text,
                  .desc = t->desc,
                  .scale = t->scale,
                  .scalars = t->scalars,
                  .large = true};
  if (t->top_k) test.desc.u.accuracy.top_k = (int)e.of['K'];
  op_record records[OP_ROWS_MAX] = {{0}};
  op_check_case(&test, t->desc.kind, CREMA_F32, rng, records);
  for (int i = 0; i < op_gradient_count; ++i) {
    if (op_gradients[i].forward != t->desc.kind) continue;
    op_check_case(&test, op_gradients[i].backward, CREMA_F32, rng, records);
  }
}

TEST(rows_agree_with_the_cpu) {
  const cr_op_kind kind = (cr_op_kind)(uintptr_t)*state;
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed + (uint32_t)kind);
  for (int i = 0; i < TEMPLATES; ++i) {
    if (templates[i].desc.kind != kind) continue;
    for (int n = 0; n < DRAWS; ++n) check_template(&templates[i], &rng);
  }
}

/* ---- values that a row must notice ---- */

/* Runs the last row of the case's kind. */
static op_outcome run_case(const op_case *test, double *const *in, double *const *out) {
  cr_op_desc *desc = op_desc_new();
  op_outcome outcome = OP_DECLINED;
  assert_true(op_case_args(test, CREMA_F32, desc));
  for (const cr_kernel *const *row = op_table(); *row; ++row) {
    if ((*row)->op != test->desc.kind || (*row)->type != CREMA_F32) continue;
    outcome = op_run_row(&(op_run){.kernel = *row,
                                   .desc = desc,
                                   .scalars = &test->scalars,
                                   .in_place_from = -1,
                                   .in_place_to = -1,
                                   .opaque = -1},
                         in, out);
  }
  free(desc);
  return outcome;
}

/* A flag whose whole part is not 0 says that a pair is similar, and so does nan. */
TEST(pairs_with_special_flags) {
  enum { PAIRS = 6 };
  static const bool same[PAIRS] = {false, false, true, true, true, true};
  double a[PAIRS], b[PAIRS] = {0}, flag[PAIRS] = {0.5, -0.5, 1, -1, INFINITY, NAN};
  double diff[] = {0.5}, da[PAIRS], loss[1];
  for (int i = 0; i < PAIRS; ++i) a[i] = 1;
  for (int legacy = 0; legacy < 2; ++legacy) {
    op_case pairs = {.shapes = "6 1; 6 1; 6; 1",
                     .desc = {CR_OP_CONTRASTIVE_FWD, {.contrastive = {1, legacy != 0}}},
                     .scalars = {.alpha = 2}};
    double *const forward_in[OP_MAX_ARGS] = {a, b, flag};
    double *const forward_out[OP_MAX_ARGS] = {NULL, NULL, NULL, loss};
    assert_int_equal(run_case(&pairs, forward_in, forward_out), OP_RAN);
    assert_true(loss[0] == 4);
    pairs.shapes = "6 1; 6 1; 6; 1; 6 1";
    pairs.desc.kind = CR_OP_CONTRASTIVE_BWD;
    double *const backward_in[OP_MAX_ARGS] = {a, b, flag, diff};
    double *const backward_out[OP_MAX_ARGS] = {NULL, NULL, NULL, NULL, da};
    assert_int_equal(run_case(&pairs, backward_in, backward_out), OP_RAN);
    for (int i = 0; i < PAIRS; ++i) assert_true(da[i] == (same[i] ? 2 : 0));
  }
}

/* Of two positions the second has a label that is no class. */
TEST(hinges_without_a_class_are_reported_and_ignored) {
  static const double bad[] = {3, -1, NAN};
  double scores[] = {0.5, 2, -3, 1, 1, 1}, label[] = {0, 0}, diff[] = {1}, loss[1], dx[6];
  double *const forward_in[OP_MAX_ARGS] = {scores, label};
  double *const forward_out[OP_MAX_ARGS] = {NULL, NULL, loss};
  double *const backward_in[OP_MAX_ARGS] = {scores, label, diff};
  double *const backward_out[OP_MAX_ARGS] = {NULL, NULL, NULL, dx};
  for (int norm = 1; norm <= 2; ++norm) {
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
      op_case hinges = {.shapes = "2 3; 2; 1",
                        .desc = {CR_OP_HINGE_FWD, {.norm = norm}},
                        .scalars = {.alpha = 1}};
      label[1] = bad[i];
      assert_int_equal(run_case(&hinges, forward_in, forward_out), OP_FAILED);
      assert_error_has("at position 1 of 2 is outside 0..2");
      assert_true(loss[0] == (norm == 1 ? 3.5 : 9.25));
      hinges.shapes = "2 3; 2; 1; 2 3";
      hinges.desc.kind = CR_OP_HINGE_BWD;
      assert_int_equal(run_case(&hinges, backward_in, backward_out), OP_FAILED);
      assert_error_has("at position 1 of 2 is outside 0..2");
      for (int k = 0; k < 6; ++k) {
        static const double slope[2][6] = {{-1, 1}, {-1, 6}};
        assert_true(dx[k] == slope[norm - 1][k]);
      }
    }
  }
}

/* ---- regions of interest ---- */

/* The last row of `kind` on two maps of 1 x 2 x 3 and two regions, of which one value each is
 * pooled.
 */
static op_outcome run_regions(cr_op_kind kind, double *map, double *rois, double *result) {
  static const char *const shapes[] = {"2 1 2 3; 2 5; 2 1 1 1", "2 1 1 1; 2 5; 2 1 2 3",
                                       "2 1 1 1; 2 5; 2 1 2 3; 2 1 2 3"};
  const bool forward =
      kind == CR_OP_ROI_POOL_FWD || kind == CR_OP_PSROI_POOL_FWD || kind == CR_OP_ROI_ALIGN_FWD;
  const int which = forward ? 0 : kind == CR_OP_ROI_POOL_BWD ? 2 : 1;
  double diff[2] = {8, 4};
  double *const in[][OP_MAX_ARGS] = {{map, rois}, {diff, rois}, {diff, rois, map}};
  double *const out[][OP_MAX_ARGS] = {
      {NULL, NULL, result}, {NULL, NULL, result}, {NULL, NULL, NULL, result}};
  const op_case test = {.shapes = shapes[which], .desc = {kind, {.roi = {.scale = 1}}}};
  return run_case(&test, in[which], out[which]);
}

static const cr_op_kind region_kinds[] = {CR_OP_ROI_POOL_FWD,   CR_OP_ROI_POOL_BWD,
                                          CR_OP_PSROI_POOL_FWD, CR_OP_PSROI_POOL_BWD,
                                          CR_OP_ROI_ALIGN_FWD,  CR_OP_ROI_ALIGN_BWD};

/* The words are the CPU's. */
TEST(bad_regions_are_reported_once) {
  static const struct {
    int at;
    double value;
    const char *words;
  } bad[] = {{5, 2, "region 1 is of image 2, and there are 2"},
             {5, -1, "region 1 is of image -1"},
             {5, NAN, "region 1 is of image"},
             {1, 2e9, "region 0 has a side at 2e+09"},
             {9, -2e9, "region 1 has a side at -2e+09"},
             {7, NAN, "region 1 has a side"},
             {8, 4100, "region 1 would take"}};
  double map[12] = {0}, result[12];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    for (size_t k = 0; k < sizeof region_kinds / sizeof *region_kinds; ++k) {
      const cr_op_kind kind = region_kinds[k];
      const bool aligned = kind == CR_OP_ROI_ALIGN_FWD || kind == CR_OP_ROI_ALIGN_BWD;
      double rois[10] = {0, 0, 0, 2, 1, 1, 0, 0, 2, 1};
      assert_int_equal(run_regions(kind, map, rois, result), OP_RAN);
      rois[bad[i].at] = bad[i].value;
      if (!aligned && strstr(bad[i].words, "would")) continue;
      assert_int_equal(run_regions(kind, map, rois, result), OP_FAILED);
      assert_error_has(bad[i].words);
    }
  }
}

/* NaN is a part's largest value where it comes first, and else never. A part of equal values gives
 * its gradient to the first, a part without values to none. */
TEST(largest_of_special_values) {
  static const struct {
    double map[4], value;
    int which;
  } cases[] = {{{NAN, 1, 2, 3}, NAN, 0},
               {{1, NAN, 2, NAN}, 2, 3},
               {{-INFINITY, NAN, -INFINITY, -INFINITY}, -INFINITY, 0},
               {{3, 5, 5, 5}, 5, 1},
               {{-2, -INFINITY, -1, -1}, -1, 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const double *m = cases[i].map;
    double rois[10] = {1, 0, 0, 1, 1, 0, 5, 5, 6, 6}, result[12];
    double map[12] = {9, 9, 9, 9, 9, 9, m[0], m[1], 9, m[2], m[3], 9};
    assert_int_equal(run_regions(CR_OP_ROI_POOL_FWD, map, rois, result), OP_RAN);
    assert_true(isnan(cases[i].value) ? isnan(result[0]) : result[0] == cases[i].value);
    assert_true(result[1] == 0);
    assert_int_equal(run_regions(CR_OP_ROI_POOL_BWD, map, rois, result), OP_RAN);
    for (int k = 0; k < 12; ++k) assert_true(result[k] == (k == 6 + cases[i].which ? 8 : 0));
  }
}

int main(void) {
  /* These programs test the rows of a GPU, too, which most machines do not have. */
  if (!op_tests_start(&seed)) return OP_TESTS_SKIPPED;
  static struct CMUnitTest tests[CR_OP_KINDS + 5] = {
      cmocka_unit_test(pairs_with_special_flags),
      cmocka_unit_test(hinges_without_a_class_are_reported_and_ignored),
      cmocka_unit_test(bad_regions_are_reported_once), cmocka_unit_test(largest_of_special_values)};
  size_t count = 4;
  for (int kind = 0; kind < CR_OP_KINDS; ++kind) {
    bool wanted = false;
    for (int i = 0; i < TEMPLATES; ++i) wanted |= templates[i].desc.kind == (cr_op_kind)kind;
    if (!wanted) continue;
    tests[count++] = (struct CMUnitTest){.name = cr_op_kind_name((cr_op_kind)kind),
                                         .test_func = rows_agree_with_the_cpu,
                                         .initial_state = (void *)(uintptr_t)kind};
  }
  tests[count++] = (struct CMUnitTest)cmocka_unit_test(sequences_begin_and_end);
  return run_group(tests, count, NULL, NULL);
}
