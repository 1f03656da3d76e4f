/* Plain kernels at the edges: extreme values, labels out of range, random masks, bad shapes. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/plain_rows.h"
#include "run_ref.h"

static void run_unary(cr_unary function, int64_t count, float *x, float *y) {
  const crema_shape shape = {1, {count}};
  cr_op_params desc = {.unary = {.function = function}};
  ok(run_ref(&cr_unary_fwd_f32_ref, &desc, (const crema_shape *[]){&shape, &shape}, 2,
             (void *[]){x, y}, NULL));
}

TEST(test_saturation) {
  float x[] = {-INFINITY, -200, -30, 0, 30, 200, INFINITY}, y[7];
  run_unary(CR_UNARY_SIGMOID, 7, x, y);
  assert_true(y[0] == 0 && y[3] == 0.5f && y[5] == 1 && y[6] == 1);
  assert_true(y[1] >= 0 && y[1] < 1e-30f);
  /* The lower tail keeps its relative precision. */
  assert_true(fabs((double)y[2] / exp(-30.0) - 1) < 1e-6);
  run_unary(CR_UNARY_TANH, 7, x, y);
  assert_true(y[0] == -1 && y[1] == -1 && y[3] == 0 && y[5] == 1 && y[6] == 1);
  run_unary(CR_UNARY_RELU, 7, x, y);
  assert_true(y[0] == 0 && y[1] == 0 && y[5] == 200 && y[6] == INFINITY);
}

/* A net that has gone wrong must show it. */
TEST(test_nan_passes_through) {
  float x[] = {1, NAN, -1}, y[3];
  const cr_unary functions[] = {CR_UNARY_RELU, CR_UNARY_SIGMOID, CR_UNARY_TANH};
  for (int i = 0; i < 3; ++i) {
    run_unary(functions[i], 3, x, y);
    assert_true(isnan(y[1]) && !isnan(y[0]) && !isnan(y[2]));
  }
  const crema_shape scores = {3, {1, 2, 1}}, label = {2, {1, 1}}, one = {1, {1}};
  float score[] = {NAN, 0.5f}, prob[2], truth = 0, loss, count;
  cr_op_params desc = {.nll = {false, .ignore = 0}};
  const cr_kernel *const kernels[] = {&cr_softmax_loss_fwd_f32_ref, &cr_softmax_loss_fwd_fast};
  for (int i = 0; i < 2; ++i) {
    ok(run_ref(kernels[i], &desc, (const crema_shape *[]){&scores, &label, &scores, &one, &one}, 5,
               (void *[]){score, &truth, prob, &loss, &count}, NULL));
    assert_true(isnan(loss));
  }
}

/* The order of ArgMax: of equal values the later first, nan behind minus infinity. `apart`: from
 * one value of a position to the next. */
static void check_order(int64_t apart) {
  enum { CHANNELS = 40, MOST = 3 };
  const int wanted[] = {35, 2, 9, 5, 39};
  const crema_shape x = {3, {1, CHANNELS, apart}}, ranks = {3, {1, CHANNELS, apart}};
  static float from[CHANNELS * MOST], index[CHANNELS * MOST];
  for (int64_t i = 0; i < CHANNELS * apart; ++i) {
    const int64_t c = i / apart;
    from[i] = c == 35 || c == 2 ? INFINITY : c == 9 ? 4 : c == 5 ? -INFINITY : NAN;
  }
  ok(run_ref(&cr_arg_max_f32_ref, &(cr_op_params){0}, (const crema_shape *[]){&x, &ranks, NULL}, 3,
             (void *[]){from, index, NULL}, NULL));
  for (int64_t p = 0; p < apart; ++p) {
    for (int k = 0; k < 5; ++k) assert_true(index[k * apart + p] == (float)wanted[k]);
    assert_true(index[5 * apart + p] == 38 && index[(CHANNELS - 1) * apart + p] == 0);
  }
}

TEST(test_order_of_the_largest) {
  check_order(1);
  check_order(3);
}

TEST(test_softmax_of_large_scores) {
  const crema_shape shape = {2, {2, 3}};
  float x[] = {1000, 1001, -1000, -2000, -2000, -2000}, y[6];
  cr_op_params desc = {.axis = 1};
  ok(run_ref(&cr_softmax_fwd_f32_ref, &desc, (const crema_shape *[]){&shape, &shape}, 2,
             (void *[]){x, y}, NULL));
  assert_true(fabsf(y[0] - 0.26894143f) < 1e-6f && fabsf(y[1] - 0.73105858f) < 1e-6f);
  assert_true(y[2] == 0 && fabsf(y[3] - 1.0f / 3) < 1e-6f);
}

static crema_status run_loss(float *scores, float *labels, cr_op_params *desc, float *loss,
                             float *count) {
  const crema_shape shape = {3, {3, 2, 1}}, label = {2, {3, 1}}, one = {1, {1}};
  float prob[6];
  return run_ref(&cr_softmax_loss_fwd_f32_ref, desc,
                 (const crema_shape *[]){&shape, &label, &shape, &one, &one}, 5,
                 (void *[]){scores, labels, prob, loss, count}, NULL);
}

TEST(test_labels) {
  float scores[] = {-INFINITY, 0, 2, 2, 0, 1.0986123f}, loss, count;
  cr_op_params desc = {.nll = {false, .ignore = 0}};
  /* A probability of 0 counts as FLT_MIN. */
  ok(run_loss(scores, (float[]){0, 1, 1}, &desc, &loss, &count));
  const double wanted = -log((double)FLT_MIN) - log(0.5) - log(0.75);
  assert_true(fabs((double)loss - wanted) < 1e-5 * wanted);
  assert_true(count == 3);
  const float bad[] = {2, -1, 1e20f, -INFINITY, NAN};
  for (int i = 0; i < 5; ++i) {
    assert_fails(run_loss(scores, (float[]){0, 1, bad[i]}, &desc, &loss, &count), CREMA_E_RANGE,
                 "position 2 of 3");
    assert_error_has("outside 0..1");
  }
  /* An ignored label may lie outside; when all are ignored, nothing is counted. */
  cr_op_params ignoring = {.nll = {true, .ignore = 255}};
  ok(run_loss(scores, (float[]){255, 1, 255}, &ignoring, &loss, &count));
  assert_true(count == 1 && fabsf(loss - 0.6931472f) < 1e-6f);
  ok(run_loss(scores, (float[]){255, 255, 255}, &ignoring, &loss, &count));
  assert_true(count == 0 && loss == 0);
}

TEST(test_accuracy_label) {
  const crema_shape shape = {3, {2, 2, 1}}, label = {2, {2, 1}}, one = {1, {1}};
  float score[] = {1, 0, 0, 1}, labels[] = {0, 5}, share = -1;
  cr_op_params desc = {.accuracy = {.top_k = 1}};
  const crema_shape *const shapes[] = {&shape, &label, &one, NULL};
  void *const memory[] = {score, labels, &share, NULL};
  assert_fails(run_ref(&cr_accuracy_f32_ref, &desc, shapes, 4, memory, NULL), CREMA_E_RANGE,
               "label 5 at position 1 of 2");
  labels[1] = 0;
  ok(run_ref(&cr_accuracy_f32_ref, &desc, shapes, 4, memory, NULL));
  assert_true(share == 0.5f);
}

enum { MASKED = 100000 };

static void draw_mask(float ratio, uint64_t seed, uint64_t counter, float *y, uint8_t *mask) {
  const crema_shape shape = {1, {MASKED}};
  float *x = malloc(MASKED * sizeof *x);
  assert_non_null(x);
  for (int i = 0; i < MASKED; ++i) x[i] = 1;
  cr_op_params desc = {.dropout = {.ratio = ratio}};
  const cr_op_scalars scalars = {.seed = seed, .counter = counter};
  ok(run_ref(&cr_dropout_fwd_f32_ref, &desc, (const crema_shape *[]){&shape, &shape, &shape}, 3,
             (void *[]){x, y, mask}, &scalars));
  free(x);
}

TEST(test_dropout_mask) {
  float *y = malloc(MASKED * sizeof *y);
  uint8_t *mask = malloc(MASKED), *other = malloc(MASKED);
  assert_true(y && mask && other);
  const float ratios[] = {0.1f, 0.5f, 0.9f};
  for (int r = 0; r < 3; ++r) {
    draw_mask(ratios[r], 42, 7, y, mask);
    int dropped = 0;
    for (int i = 0; i < MASKED; ++i) dropped += mask[i] == 0;
    /* Five standard deviations. */
    const double p = (double)ratios[r], spread = 5 * sqrt(p * (1 - p) * MASKED);
    assert_true(fabs(dropped - p * MASKED) < spread);
    for (int i = 0; i < MASKED; ++i) {
      assert_true(mask[i] ? fabs((double)y[i] * (1 - p) - 1) < 1e-6 : y[i] == 0);
    }
  }
  draw_mask(0.5f, 42, 7, y, mask);
  draw_mask(0.5f, 42, 7, y, other);
  assert_memory_equal(mask, other, MASKED);
  draw_mask(0.5f, 42, 8, y, other);
  assert_true(memcmp(mask, other, MASKED) != 0);
  draw_mask(0.5f, 43, 7, y, other);
  assert_true(memcmp(mask, other, MASKED) != 0);
  free(y);
  free(mask);
  free(other);
}

/* Shapes that do not fit are found when the op is planned. */
TEST(test_bad_shapes) {
  const crema_shape image = {4, {1, 3, 4, 4}}, filter = {4, {2, 2, 3, 3}}, out = {4, {1, 2, 2, 2}};
  float memory[64];
  void *const any[] = {memory, memory, memory, memory};
  cr_op_params conv = {.conv = {.window = {2, {3, 3}, {1, 1}, {0, 0}, {1, 1}}, .group = 1}};
  const crema_shape *const shapes[] = {&image, &filter, NULL, &out};
  assert_fails(run_ref(&cr_conv_fwd_f32_ref, &conv, shapes, 4, any, NULL), CREMA_E_SHAPE,
               "1 3 4 4");
  cr_op_params grouped = conv;
  grouped.conv.group = 2;
  assert_int_equal(run_ref(&cr_conv_fwd_f32_ref, &grouped, shapes, 4, any, NULL), CREMA_E_SHAPE);
  cr_op_params still = conv;
  still.conv.window.stride[1] = 0;
  assert_int_equal(run_ref(&cr_conv_fwd_f32_ref, &still, shapes, 4, any, NULL), CREMA_E_SHAPE);
  cr_op_params product = {.ip = {.transpose = false}};
  assert_int_equal(run_ref(&cr_ip_fwd_f32_ref, &product, shapes, 4, any, NULL), CREMA_E_SHAPE);
  cr_op_params concat = {.axis = 1};
  assert_int_equal(run_ref(&cr_concat_f32_ref, &concat,
                           (const crema_shape *[]){&image, &image, &out}, 3, any, NULL),
                   CREMA_E_SHAPE);
}

/* Pairs at distances 5, 1.2 (twice, one of which is similar) and 0, under both versions' margins
 * and for both versions. The divisor of today's gradients is the distance and 1e-4. */
TEST(test_contrastive) {
  enum { PAIRS = 4 };
  const crema_shape pairs = {2, {PAIRS, 2}}, labels = {1, {PAIRS}}, one = {1, {1}};
  float a[] = {3, 4, 1.2f, 0, 0, 1.2f, 1, 1}, b[] = {0, 0, 0, 0, 0, 0, 1, 1};
  float similar[] = {0, 0, 1, 0}, diff = 0.25f;
  const cr_op_scalars twice = {.alpha = 2};
  for (int legacy = 0; legacy < 2; ++legacy) {
    const float margin = 2;
    float loss = -1, slope[2 * PAIRS];
    cr_op_params desc = {.contrastive = {margin, legacy != 0}};
    assert_int_equal(run_ref(&cr_contrastive_fwd_f32_ref, &desc,
                             (const crema_shape *[]){&pairs, &pairs, &labels, &one}, 4,
                             (void *[]){a, b, similar, &loss}, NULL),
                     CREMA_OK);
    double near_ = legacy ? 2 - 1.44 : 0.8 * 0.8, same = legacy ? 2 : 4;
    assert_true(fabs((double)loss - (near_ + 1.44 + same)) < 1e-5);
    desc = (cr_op_params){.contrastive = {margin, legacy != 0}};
    assert_int_equal(run_ref(&cr_contrastive_bwd_f32_ref, &desc,
                             (const crema_shape *[]){&pairs, &pairs, &labels, &one, &pairs}, 5,
                             (void *[]){a, b, similar, &diff, slope}, &twice),
                     CREMA_OK);
    double push = legacy ? -2 * 1.2 : -2 * 0.8 / (1.2 + 1e-4) * 1.2;
    const double wanted[] = {0, 0, 0.5 * push, 0, 0, 0.5 * 2 * 1.2, 0, 0};
    for (int i = 0; i < 2 * PAIRS; ++i) {
      if (!(fabs((double)slope[i] - wanted[i]) < 1e-5)) {
        fail_msg("%d: gradient %d is %g, not %g", legacy, i, (double)slope[i], wanted[i]);
      }
    }
  }
}

/* Many scores, which are taken in pieces: the loss and each gradient by their formulae. */
TEST(test_many_scores) {
  enum { SCORES = 9000 };
  static float x[SCORES], target[SCORES], slope[SCORES];
  const crema_shape scores = {2, {3, SCORES / 3}}, one = {1, {1}};
  const cr_op_scalars twice = {.alpha = 2};
  const cr_op_params desc = {.nll = {true, .ignore = -1}};
  float diff = 0.25f, loss = -1, count = -1;
  double sum = 0;
  for (int i = 0; i < SCORES; ++i) {
    x[i] = (float)sin(0.37 * i) * 3;
    target[i] = i % 5 == 0 ? -1 : (float)(i % 2);
  }
  ok(run_ref(&cr_sigmoid_loss_fwd_f32_ref, &desc,
             (const crema_shape *[]){&scores, &scores, &one, &one}, 4,
             (void *[]){x, target, &loss, &count}, NULL));
  ok(run_ref(&cr_sigmoid_loss_bwd_f32_ref, &desc,
             (const crema_shape *[]){&scores, &scores, &one, &scores}, 4,
             (void *[]){x, target, &diff, slope}, &twice));
  for (int i = 0; i < SCORES; ++i) {
    const double p = 1 / (1 + exp(-(double)x[i])), t = (double)target[i];
    const double wanted = t < 0 ? 0 : 0.5 * (p - t);
    if (t >= 0) sum -= t * log(p) + (1 - t) * log(1 - p);
    if (fabs((double)slope[i] - wanted) < 1e-6) continue;
    fail_msg("gradient %d is %g, not %g", i, (double)slope[i], wanted);
  }
  assert_true(fabs((double)loss - sum) < 1e-4 * sum);
  assert_true(count == SCORES * 4 / 5);
}

/* Gradients of rows: those without one are 0 whatever their scores are, and so are all of a softmax
 * whose label is no class, which a sigmoid takes for none of them. */
static void check_rows(int rows, int classes, bool logistic) {
  enum { ROWS = 300, SCORES = 7000 };
  static float x[SCORES], label[ROWS], diff_loss[ROWS], slope[SCORES];
  const crema_shape scores = {2, {rows, classes}}, each = {1, {rows}};
  const cr_op_scalars twice = {.alpha = 2};
  const cr_op_params desc = {.logistic = logistic};
  int64_t counted = 0;
  for (int i = 0; i < rows; ++i) {
    label[i] = i % 7 == 0 ? -1 : (float)(i % (classes + 1));
    diff_loss[i] = i % 5 < 1 ? 0 : (float)(i % 5) / 4;
    for (int c = 0; c < classes; ++c) {
      x[i * classes + c] = diff_loss[i] == 0 ? NAN : (float)sin(i + 2.0 * c);
    }
  }
  ok(run_ref(&cr_row_loss_bwd_f32_ref, &desc,
             (const crema_shape *[]){&scores, &each, &each, &scores}, 4,
             (void *[]){x, label, diff_loss, slope}, &twice));
  for (int i = 0; i < rows; ++i) {
    const bool known = label[i] >= 0 && label[i] < (float)classes;
    const bool counts = diff_loss[i] != 0 && (known || logistic);
    double sum = 0;
    for (int c = 0; c < classes; ++c) sum += exp((double)x[i * classes + c]);
    for (int c = 0; c < classes; ++c) {
      const double own = exp((double)x[i * classes + c]), p = own / (logistic ? 1 + own : sum);
      const double wanted = counts ? 2 * (double)diff_loss[i] * (p - (known && label[i] == c)) : 0;
      const double found = (double)slope[i * classes + c];
      counted += wanted != 0;
      if (counts ? fabs(found - wanted) < 1e-6 : found == 0) continue;
      fail_msg("row %d of %d, class %d: %g, not %g", i, rows, c, found, wanted);
    }
  }
  assert_true(counted > 0);
}

TEST(test_rows_without_gradient) {
  for (int logistic = 0; logistic < 2; ++logistic) {
    check_rows(300, 3, logistic != 0);
    check_rows(70, 100, logistic != 0);
    check_rows(2, 3100, logistic != 0);
  }
}

/* The losses of many rows; the scores of some are far below the highest, and some rows have no
 * class. */
static void check_losses_of_rows(const cr_kernel *kernel) {
  enum { ROWS = 50000, CLASSES = 5 };
  static float x[ROWS * CLASSES], label[ROWS], loss[ROWS];
  const crema_shape scores = {2, {ROWS, CLASSES}}, each = {1, {ROWS}};
  const cr_op_params desc = {.logistic = false};
  for (int i = 0; i < ROWS; ++i) {
    label[i] = i % 7 == 0 ? -1 : (float)(i % (CLASSES + 1));
    for (int c = 0; c < CLASSES; ++c) {
      x[i * CLASSES + c] = (float)sin(i + 2.0 * c) * (i % 11 == 0 ? 90 : 3);
    }
  }
  ok(run_ref(kernel, &desc, (const crema_shape *[]){&scores, &each, &each}, 3,
             (void *[]){x, label, loss}, NULL));
  for (int i = 0; i < ROWS; ++i) {
    const bool known = label[i] >= 0 && label[i] < CLASSES;
    const float *row = x + (size_t)i * CLASSES;
    double sum = 0;
    for (int c = 0; c < CLASSES && known; ++c) {
      sum += exp((double)row[c] - (double)row[(int)label[i]]);
    }
    const double wanted = known ? fmin(log(sum), -log((double)FLT_MIN)) : 0;
    if (fabs((double)loss[i] - wanted) <= 3e-7 * (1 + wanted)) continue;
    fail_msg("row %d: %.9g, not %.9g", i, (double)loss[i], wanted);
  }
}

TEST(test_losses_of_many_rows) {
  check_losses_of_rows(&cr_row_loss_f32_ref);
  check_losses_of_rows(&cr_row_loss_fast);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
