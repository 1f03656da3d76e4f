/* Reference kernels, and CUDA's element-wise gradients, where a function has a kink; reference
 * kernels where a bound is just reached, or an argument does not fit. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/plain_rows.h"
#include "device/gpu/kernels/unary.h"
#include "run_ref.h"

static const cr_op_params no_params = {.index = 0};
static const cr_op_scalars twice = {.alpha = 2};

/* Shapes as in op_cases.c: extents, separated by ";", "-" for an absent argument. */
static int read_shapes(const char *text, crema_shape *shape, const crema_shape **out) {
  int args = 0;
  for (const char *p = text; p != NULL; p = strchr(p, ';') ? strchr(p, ';') + 1 : NULL, ++args) {
    char *end;
    assert_true(args < ARGS_MAX);
    shape[args] = (crema_shape){.axes = 0};
    while (*p == ' ') ++p;
    out[args] = *p == '-' ? NULL : &shape[args];
    for (long long dim = strtoll(p, &end, 10); end != p; dim = strtoll(p, &end, 10)) {
      shape[args].dim[shape[args].axes++] = dim;
      p = end;
    }
  }
  return args;
}

static crema_status run(const cr_kernel *kernel, const char *shapes, const cr_op_params *params,
                        void *const *memory, const cr_op_scalars *scalars) {
  crema_shape shape[ARGS_MAX];
  const crema_shape *given[ARGS_MAX];
  const int args = read_shapes(shapes, shape, given);
  return run_ref(kernel, params, given, args, memory, scalars);
}

static void assert_near(const float *found, const float *wanted, int count) {
  for (int i = 0; i < count; ++i) {
    if (fabsf(found[i] - wanted[i]) <= 1e-6f * fmaxf(1, fabsf(wanted[i]))) continue;
    fail_msg("value %d is %g, not %g", i, (double)found[i], (double)wanted[i]);
  }
}

/* ---- element-wise functions ---- */

/* The derivative at x, where the function is y: that of the reference kernel, which CUDA's is, too.
 */
static float slope_at(const cr_op_params *params, float x, float y) {
  float dy = 4, dx = NAN;
  const cr_unary_args args = {.x = cr_float_values(&x),
                              .y = cr_float_values(&y),
                              .dy = cr_float_values(&dy),
                              .function = (int)params->unary.function,
                              .alpha = (float)params->unary.alpha,
                              .beta = (float)params->unary.beta,
                              .gamma = (float)params->unary.gamma};
  ok(run(&cr_unary_bwd_f32_ref, "1; 1; 1; 1", params, (void *[]){&x, &y, &dy, &dx}, NULL));
  const bool relu = params->unary.function == CR_UNARY_RELU;
  const float on_device = relu ? cr_relu_bwd_device(&args, 0) : cr_unary_bwd_device(&args, 0);
  assert_near(&on_device, &dx, 1);
  return dx / dy;
}

/* Each derivative at the kink itself and beside it. */
TEST(slopes_at_kinks) {
  static const struct {
    cr_unary function;
    float alpha, beta, x, y, slope;
  } rows[] = {{CR_UNARY_RELU, 0.25f, 0, 0, 0, 0.25f},
              {CR_UNARY_RELU, 0.25f, 0, 1e-6f, 1e-6f, 1},
              {CR_UNARY_RELU, 0, 0, 0, 0, 0},
              {CR_UNARY_ABS, 0, 0, 0, 0, 0},
              {CR_UNARY_ABS, 0, 0, -1e-6f, 1e-6f, -1},
              {CR_UNARY_ABS, 0, 0, 1e-6f, 1e-6f, 1},
              {CR_UNARY_ELU, 0.5f, 3, 0, 0, 1.5f},
              {CR_UNARY_ELU, 0.5f, 3, 1e-6f, 3e-6f, 3},
              {CR_UNARY_CLIP, -1, 2, -1.001f, -1, 0},
              {CR_UNARY_CLIP, -1, 2, -0.999f, -0.999f, 1},
              {CR_UNARY_CLIP, -1, 2, 1.999f, 1.999f, 1},
              {CR_UNARY_CLIP, -1, 2, 2.001f, 2, 0},
              {CR_UNARY_THRESHOLD, 0.5f, 0, 0.5f, 0, 0},
              {CR_UNARY_POWER, 0, 2, -1, 1, 0},
              {CR_UNARY_POWER, 1, 2, -1, -2, 2},
              {CR_UNARY_POWER, 2, 0, 0, 0, 0},
              {CR_UNARY_POWER, 2.5f, 0, 0, 0, 0},
              {CR_UNARY_POWER, 3, 1, -2, -8, 12}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    cr_op_params params = {.unary = {.function = rows[i].function}};
    params.unary.alpha = (double)rows[i].alpha;
    params.unary.beta = (double)rows[i].beta;
    const float found = slope_at(&params, rows[i].x, rows[i].y);
    assert_near(&found, &rows[i].slope, 1);
  }
}

/* Where values begin to be cut, the derivative is the one that was asked for. */
TEST(slopes_at_bounds) {
  for (int i = 0; i < 6; ++i) {
    static const float at[3] = {-1, 2, NAN};
    const float gamma = i < 3 ? 1 : 0, wanted = i % 3 < 2 ? gamma : 0;
    cr_op_params params = {.unary = {.function = CR_UNARY_CLIP, .alpha = -1, .beta = 2}};
    params.unary.gamma = (double)gamma;
    const float found = slope_at(&params, at[i % 3], at[i % 3]);
    assert_near(&found, &wanted, 1);
  }
}

TEST(values_at_kinks) {
  static const struct {
    cr_unary function;
    float alpha, beta, x, y;
  } rows[] = {{CR_UNARY_THRESHOLD, 0.5f, 0, 0.5f, 0}, {CR_UNARY_THRESHOLD, 0.5f, 0, 0.50001f, 1},
              {CR_UNARY_RELU, 0, 0, -INFINITY, 0},    {CR_UNARY_RELU, 0.5f, 0, -4, -2},
              {CR_UNARY_POWER, 0, 1, 0, 1},           {CR_UNARY_POWER, 3, 1, -2, -8},
              {CR_UNARY_CLIP, -1, 2, INFINITY, 2},    {CR_UNARY_CLIP, -1, 2, -INFINITY, -1},
              {CR_UNARY_CLIP, -1, 2, NAN, NAN},       {CR_UNARY_ELU, 0.5f, 3, NAN, NAN},
              {CR_UNARY_BNLL, 0, 0, 200, 200},        {CR_UNARY_BNLL, 0, 0, -200, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    float x = rows[i].x, y = 17;
    cr_op_params params = {.unary = {.function = rows[i].function}};
    params.unary.alpha = (double)rows[i].alpha;
    params.unary.beta = (double)rows[i].beta;
    ok(run(&cr_unary_fwd_f32_ref, "1; 1", &params, (void *[]){&x, &y}, NULL));
    if (isnan(rows[i].y)) assert_true(isnan(y));
    else assert_near(&y, &rows[i].y, 1);
  }
  const cr_op_params unknown = {.unary = {.function = CR_UNARY_FUNCTIONS}};
  float x = 0, y = 0;
  assert_fails(run(&cr_unary_fwd_f32_ref, "1; 1", &unknown, (void *[]){&x, &y}, NULL),
               CREMA_E_UNSUPPORTED, "function");
}

/* At 0 the slope belongs to the values below. */
TEST(learned_slopes_at_zero) {
  float x[] = {0, 1e-6f, -1e-6f}, slope = 0.25f, dy[] = {4, 4, 4}, dx[3];
  ok(run(&cr_prelu_bwd_data_f32_ref, "1 1 3; 1; 1 1 3; 1 1 3", &no_params,
         (void *[]){x, &slope, dy, dx}, NULL));
  assert_near(dx, (const float[]){1, 4, 1}, 3);
}

/* Of 0, negative, subnormal, large and infinite numbers among others. */
TEST(falling_powers_of_any_number) {
  static const float bases[] = {1, 0, -1, 1e-39f, 1e-45f, 3e38f, INFINITY, NAN, FLT_MIN};
  static const float betas[] = {0.75f, 0.5f};
  float x[40], y[40];
  for (int i = 0; i < 40; ++i) x[i] = 1;
  for (size_t i = 0; i < 2 * sizeof bases / sizeof *bases; ++i) {
    const float base = bases[i / 2], beta = betas[i % 2];
    const cr_op_params params = {.lrn = {.size = 3, .alpha = 0, .beta = beta, .k = base}};
    const float wanted = base < 0 ? NAN : (float)pow((double)base, -(double)beta);
    ok(run(&cr_lrn_fwd_f32_ref, "1 2 4 5; 1 2 4 5; -", &params, (void *[]){x, y, NULL}, NULL));
    for (int k = 0; k < 40; ++k) {
      if (isfinite(wanted)) assert_float_equal(y[k] / wanted, 1, 5e-6f);
      else assert_true(isnan(wanted) ? isnan(y[k]) : isinf(y[k]));
    }
  }
}

/* Results may lie where what they are made of does; a line is a few vectors and a rest, or less. */
TEST(responses_are_normalised_in_place) {
  enum { COUNT = 2 * 9 * 70 };
  static const char *const two[] = {"2 9 7 10; 2 9 7 10; -", "2 9 2 35; 2 9 2 35; -"};
  static const char *const four[] = {"2 9 7 10; 2 9 7 10; 2 9 7 10; -; 2 9 7 10",
                                     "2 9 2 35; 2 9 2 35; 2 9 2 35; -; 2 9 2 35"};
  float x[COUNT], dy[COUNT], y[COUNT], dx[COUNT];
  for (int i = 0; i < 4; ++i) {
    const int shape = i / 2;
    cr_op_params params = {.lrn = {.size = 5, .alpha = 3, .beta = 0.75f, .k = 1}};
    params.lrn.within_channel = i % 2;
    for (int k = 0; k < COUNT; ++k) x[k] = sinf((float)k), dy[k] = cosf((float)(3 * k));
    ok(run(&cr_lrn_bwd_f32_ref, four[shape], &params, (void *[]){x, y, dy, NULL, dx}, NULL));
    ok(run(&cr_lrn_bwd_f32_ref, four[shape], &params, (void *[]){x, y, dy, NULL, dy}, NULL));
    assert_memory_equal(dx, dy, sizeof dx);
    for (int k = 0; k < COUNT; ++k) y[k] = x[k], dy[k] = cosf((float)(3 * k));
    ok(run(&cr_lrn_bwd_f32_ref, four[shape], &params, (void *[]){y, y, dy, NULL, y}, NULL));
    assert_memory_equal(dx, y, sizeof dx);
    ok(run(&cr_lrn_fwd_f32_ref, two[shape], &params, (void *[]){x, y, NULL}, NULL));
    ok(run(&cr_lrn_fwd_f32_ref, two[shape], &params, (void *[]){x, x, NULL}, NULL));
    assert_memory_equal(y, x, sizeof x);
  }
}

/* One square beyond all numbers, first seen when lines before it are done, and no number: the power
 * of what sees it is 0, or none; of all else it is as ever. */
TEST(responses_to_numbers_without_square) {
  enum { CHANNELS = 12, WIDTH = 40, LARGE = 8 };
  static const float odd[] = {1e25f, NAN};
  const cr_op_params params = {.lrn = {.size = 3, .alpha = 3, .beta = 0.75f, .k = 1}};
  const char shapes[] = "1 12 5 8; 1 12 5 8; -";
  float x[CHANNELS][WIDTH], wanted[CHANNELS][WIDTH], y[CHANNELS][WIDTH];
  for (int c = 0; c < CHANNELS; ++c) {
    for (int i = 0; i < WIDTH; ++i) x[c][i] = sinf((float)(c * WIDTH + i + 1));
  }
  ok(run(&cr_lrn_fwd_f32_ref, shapes, &params, (void *[]){x, wanted, NULL}, NULL));
  for (int k = 0; k < 2; ++k) {
    for (int i = 20; i < WIDTH; ++i) x[LARGE][i] = odd[k];
    ok(run(&cr_lrn_fwd_f32_ref, shapes, &params, (void *[]){x, y, NULL}, NULL));
    for (int c = 0; c < CHANNELS; ++c) {
      for (int i = 0; i < WIDTH; ++i) {
        const bool sees = i >= 20 && c >= LARGE - 1 && c <= LARGE + 1;
        if (sees && k > 0) assert_true(isnan(y[c][i]));
        else assert_true(y[c][i] == (sees ? 0 : wanted[c][i]));
      }
    }
  }
}

/* Planes that are worked on together do not see each other, nor what lies between them where k is
 * 0.
 */
TEST(planes_are_normalised_alone) {
  enum { PLANES = 12, SIZE = 40, ODD = 5 };
  static const float odd[] = {1e25f, NAN, INFINITY, 0};
  cr_op_params params = {.lrn = {.size = 3, .alpha = 3, .beta = 0.75f, .within_channel = true}};
  float x[PLANES][SIZE], wanted[PLANES][SIZE], dy[PLANES][SIZE], dx[PLANES][SIZE], y;
  for (int i = 0; i < PLANES * SIZE; ++i) dy[i / SIZE][i % SIZE] = cosf((float)(3 * i));
  for (int k = 0; k < 8; ++k) {
    params.lrn.k = (float)(k % 2);
    for (int i = 0; i < PLANES * SIZE; ++i) x[i / SIZE][i % SIZE] = sinf((float)(i + 1));
    for (int i = 0; i < SIZE; ++i) x[ODD][i] = odd[k / 2];
    ok(run(&cr_lrn_bwd_f32_ref, "1 12 5 8; 1 12 5 8; 1 12 5 8; -; 1 12 5 8", &params,
           (void *[]){x, &y, dy, NULL, dx}, NULL));
    for (int p = 0; p < PLANES; ++p) {
      ok(run(&cr_lrn_bwd_f32_ref, "1 1 5 8; 1 1 5 8; 1 1 5 8; -; 1 1 5 8", &params,
             (void *[]){x[p], &y, dy[p], NULL, wanted[p]}, NULL));
      for (int i = 0; i < SIZE && p != ODD; ++i) {
        assert_true(isfinite(dx[p][i]));
        assert_float_equal(dx[p][i] / wanted[p][i], 1, 1e-4f);
      }
    }
  }
}

/* The maximum of two or three arrays may lie in any of them; of the first two the second wins. */
TEST(maxima_may_lie_in_a_source) {
  static const float source[3][6] = {{1, 5, 3, -1, 0, 7}, {2, 4, 3, -1, 0, 7}, {0, 6, 3, -2, 1, 8}};
  static const int32_t which[2][6] = {{1, 0, 1, 1, 1, 1}, {1, 2, 1, 1, 2, 2}};
  static const char *const shapes[] = {"6; 6; 6; 6", "6; 6; 6; 6; 6"};
  for (int i = 0; i < 5; ++i) {
    const int sources = i < 2 ? 2 : 3, in = i < 2 ? i : i - 2;
    float x[3][6];
    int32_t at[6];
    void *memory[5] = {x[0], x[1], x[2]};
    memcpy(x, source, sizeof x);
    memory[sources] = x[in], memory[sources + 1] = at;
    ok(run(&cr_max_f32_ref, shapes[sources - 2], &no_params, memory, NULL));
    assert_memory_equal(at, which[sources - 2], sizeof at);
    for (int k = 0; k < 6; ++k) assert_float_equal(x[in][k], source[at[k]][k], 0);
  }
}

static void normalise_back(const char *shapes, float *x, float *dy, float *dx) {
  const cr_op_params params = {.lrn = {.size = 5, .alpha = 3, .beta = 0.75f, .k = 1}};
  float none;
  ok(run(&cr_lrn_bwd_f32_ref, shapes, &params, (void *[]){x, &none, dy, NULL, dx}, NULL));
}

/* However planes are cut and put together: each position by itself gives the same. */
TEST(positions_are_normalised_alone) {
  enum { CHANNELS = 7, WIDTH = 300 };
  float x[2][WIDTH * CHANNELS], dy[2][WIDTH * CHANNELS], dx[2][WIDTH * CHANNELS];
  for (int c = 0; c < CHANNELS; ++c) {
    for (int i = 0; i < WIDTH; ++i) {
      const int wide = c * WIDTH + i, alone = i * CHANNELS + c;
      x[0][wide] = x[1][alone] = sinf((float)wide);
      dy[0][wide] = dy[1][alone] = cosf((float)(3 * wide));
    }
  }
  normalise_back("1 7 3 100; 1 7 3 100; 1 7 3 100; -; 1 7 3 100", x[0], dy[0], dx[0]);
  normalise_back("300 7 1 1; 300 7 1 1; 300 7 1 1; -; 300 7 1 1", x[1], dy[1], dx[1]);
  for (int i = 0; i < WIDTH * CHANNELS; ++i) {
    assert_float_equal(dx[0][i], dx[1][i % WIDTH * CHANNELS + i / WIDTH], 0);
  }
}

enum { MANY = 331, CLASSES = 100 };

/* An element is the same wherever it lies in a vector. */
TEST(elements_are_computed_alone) {
  float x[MANY], y[MANY], dy[MANY], dx[MANY], one, slope;
  for (int i = 0; i < MANY; ++i) x[i] = 3 + 2.9f * sinf((float)i), dy[i] = cosf((float)(3 * i));
  for (int f = 0; f < CR_UNARY_FUNCTIONS; ++f) {
    cr_op_params params = {.unary = {.function = (cr_unary)f, .alpha = 0.7, .beta = 1.3}};
    ok(run(&cr_unary_fwd_f32_ref, "331; 331", &params, (void *[]){x, y}, NULL));
    ok(run(&cr_unary_bwd_f32_ref, "331; 331; 331; 331", &params, (void *[]){x, y, dy, dx}, NULL));
    for (int i = 0; i < MANY; ++i) {
      void *all[] = {&x[i], &y[i], &dy[i], &slope};
      ok(run(&cr_unary_fwd_f32_ref, "1; 1", &params, (void *[]){&x[i], &one}, NULL));
      ok(run(&cr_unary_bwd_f32_ref, "1; 1; 1; 1", &params, all, NULL));
      if (memcmp(&y[i], &one, sizeof one) == 0 && memcmp(&dx[i], &slope, sizeof slope) == 0) {
        continue;
      }
      fail_msg("function %d of element %d is %.9g and %.9g alone, its slope %.9g and %.9g", f, i,
               (double)y[i], (double)one, (double)dx[i], (double)slope);
    }
  }
}

/* Scores of no classes have no loss, and labels that count are wrong. */
TEST(no_classes_are_no_fault) {
  float label[5] = {0, 0, 0, 0, 0}, loss[5], sum, count;
  const cr_op_params all = {.nll = {.of_scores = true}},
                     none = {.nll = {.has_ignore = true, .of_scores = true}};
  void *const to[] = {loss, label, NULL, &sum, &count};
  assert_fails(run(&cr_softmax_loss_fwd_f32_ref, "5 0; 5; -; 1; 1", &all, to, NULL), CREMA_E_RANGE,
               "label 0, but there are no classes");
  ok(run(&cr_softmax_loss_fwd_f32_ref, "5 0; 5; -; 1; 1", &none, to, NULL));
  assert_near(&count, (const float[]){0}, 1);
  ok(run(&cr_softmax_loss_fwd_fast, "5 0; 5; -; 1; 1", &none, to, NULL));
  assert_near(&count, (const float[]){0}, 1);
  ok(run(&cr_softmax_fwd_f32_ref, "5 0; 5 0", &(cr_op_params){.axis = 1}, (void *[]){loss, loss},
         NULL));
}

/* The losses of rows, for both ops, and the gradients of their scores. */
static void lose_rows(int rows, int classes, float *x, float *label, float *loss, float *dx) {
  const cr_op_params nll = {.nll = {.of_scores = true}}, none = {.logistic = false};
  const cr_op_scalars scalars = {.alpha = 0.3};
  float sum, count;
  char shapes[128];
  snprintf(shapes, sizeof shapes, "%d %d; %d; -; 1; 1; -; %d", rows, classes, rows, rows);
  ok(run(&cr_softmax_loss_fwd_f32_ref, shapes, &nll,
         (void *[]){x, label, NULL, &sum, &count, NULL, loss}, NULL));
  snprintf(shapes, sizeof shapes, "%d %d; %d; %d", rows, classes, rows, rows);
  ok(run(&cr_row_loss_f32_ref, shapes, &none, (void *[]){x, label, loss + MANY}, NULL));
  ok(run(&cr_row_loss_fast, shapes, &none, (void *[]){x, label, loss + 2 * MANY}, NULL));
  snprintf(shapes, sizeof shapes, "%d %d; %d; %d %d; -; -", rows, classes, rows, rows, classes);
  ok(run(&cr_softmax_loss_bwd_f32_ref, shapes, &nll, (void *[]){x, label, dx, NULL, NULL},
         &scalars));
}

/* Of rows beside each other, two positions as in a plane of their own. */
TEST(positions_have_probabilities_alone) {
  enum { MOST = 23 };
  static float x[MOST * MANY], y[MOST * MANY];
  const cr_op_params params = {.axis = 1};
  for (int i = 0; i < MOST * MANY; ++i) x[i] = 5 * sinf((float)i);
  ok(run(&cr_softmax_fwd_f32_ref, "1 23 331; 1 23 331", &params, (void *[]){x, y}, NULL));
  for (int i = 0; i + 1 < MANY; ++i) {
    float two[2 * MOST], prob[2 * MOST];
    for (int c = 0; c < MOST; ++c) memcpy(two + 2 * c, x + c * MANY + i, 2 * sizeof *two);
    ok(run(&cr_softmax_fwd_f32_ref, "1 23 2; 1 23 2", &params, (void *[]){two, prob}, NULL));
    for (int c = 0; c < MOST; ++c) {
      assert_memory_equal(prob + 2 * c, y + c * MANY + i, 2 * sizeof *prob);
    }
  }
}

TEST(rows_are_computed_alone) {
  static float x[MANY * CLASSES], label[MANY], loss[2][3 * MANY], dx[2][MANY * CLASSES];
  for (int classes = 21; classes <= CLASSES; classes += CLASSES - 21) {
    for (int i = 0; i < MANY * classes; ++i) x[i] = 5 * sinf((float)i);
    for (int i = 0; i < MANY; ++i) label[i] = (float)(i % classes);
    lose_rows(MANY, classes, x, label, loss[0], dx[0]);
    for (int i = 0; i < MANY; ++i) {
      lose_rows(1, classes, x + i * classes, label + i, loss[1] + i, dx[1] + i * classes);
    }
    assert_memory_equal(loss[0], loss[1], sizeof loss[0]);
    assert_memory_equal(dx[0], dx[1], (size_t)(MANY * classes) * sizeof(float));
  }
}

/* ---- losses ---- */

/* Scores whose margin is just reached have no slope. */
TEST(hinges_at_the_margin) {
  float x[] = {1, -1, -1, -1, -1, 1}, label[] = {0, 2}, diff = 0.5f, dx[6], loss = -1;
  cr_op_params params = {.norm = 1};
  ok(run(&cr_hinge_bwd_f32_ref, "2 3; 2; 1; 2 3", &params, (void *[]){x, label, &diff, dx},
         &twice));
  assert_near(dx, (const float[6]){0}, 6);
  x[0] = 0.5f, x[3] = 0.25f;
  for (int norm = 1; norm <= 2; ++norm) {
    const float wanted[] = {norm == 1 ? -1 : -1, 0, 0, norm == 1 ? 1 : 2.5f, 0, 0};
    params.norm = norm;
    ok(run(&cr_hinge_bwd_f32_ref, "2 3; 2; 1; 2 3", &params, (void *[]){x, label, &diff, dx},
           &twice));
    assert_near(dx, wanted, 6);
    ok(run(&cr_hinge_fwd_f32_ref, "2 3; 2; 1", &params, (void *[]){x, label, &loss}, NULL));
    const float sum = norm == 1 ? 0.5f + 1.25f : 0.25f + 1.5625f;
    assert_near(&loss, &sum, 1);
  }
  label[1] = 3;
  assert_fails(run(&cr_hinge_fwd_f32_ref, "2 3; 2; 1", &params, (void *[]){x, label, &loss}, NULL),
               CREMA_E_RANGE, "label 3 at position 1 of 2");
  assert_fails(run(&cr_hinge_bwd_f32_ref, "2 3; 2; 1; 2 3", &params,
                   (void *[]){x, label, &diff, dx}, &twice),
               CREMA_E_RANGE, "label 3 at position 1 of 2");
}

/* Flags whose whole part is not 0 say similar, and so does nan; a distance of just the margin has
 * no slope. */
TEST(pairs_at_the_margin) {
  enum { PAIRS = 6 };
  static const bool same[PAIRS] = {false, false, true, true, true, true};
  float a[PAIRS], b[PAIRS] = {0}, flag[PAIRS] = {0.5f, -0.5f, 1, -1, 2, NAN};
  float diff = 0.5f, da[PAIRS], loss = -1;
  for (int legacy = 0; legacy < 2; ++legacy) {
    const cr_op_params params = {.contrastive = {1, legacy != 0}};
    for (int i = 0; i < PAIRS; ++i) a[i] = 1;
    ok(run(&cr_contrastive_bwd_f32_ref, "6 1; 6 1; 6; 1; 6 1", &params,
           (void *[]){a, b, flag, &diff, da}, &twice));
    for (int i = 0; i < PAIRS; ++i) assert_true(da[i] == (same[i] ? 2 : 0));
    ok(run(&cr_contrastive_fwd_f32_ref, "6 1; 6 1; 6; 1", &params, (void *[]){a, b, flag, &loss},
           NULL));
    assert_true(loss == 4);
  }
}

/* A target is ignored when its whole part is the label in question, which a float may be unable to
 * hold. */
TEST(ignored_targets) {
  float x[] = {1, 1, 1, 1}, target[] = {0, -0.5f, 1, 16777216}, loss = -1, count = -1;
  cr_op_params params = {.nll = {true, .ignore = 0}};
  void *const memory[] = {x, target, &loss, &count};
  ok(run(&cr_sigmoid_loss_fwd_f32_ref, "4; 4; 1; 1", &params, memory, NULL));
  assert_true(count == 2);
  params.nll.ignore = 16777216;
  ok(run(&cr_sigmoid_loss_fwd_f32_ref, "4; 4; 1; 1", &params, memory, NULL));
  assert_true(count == 3);
  params.nll.ignore = 16777217;
  ok(run(&cr_sigmoid_loss_fwd_f32_ref, "4; 4; 1; 1", &params, memory, NULL));
  assert_true(count == 4);
  params = (cr_op_params){.nll = {false, .ignore = 0}};
  ok(run(&cr_sigmoid_loss_fwd_f32_ref, "4; 4; 1; 1", &params, memory, NULL));
  assert_true(count == 4);
  float diff = 1, dx[4];
  ok(run(&cr_sigmoid_loss_bwd_f32_ref, "4; 4; 1; 4", &params, (void *[]){x, target, &diff, dx},
         &twice));
  assert_true(dx[0] > 1.4f && dx[1] > 2.4f);
}

/* Probabilities below the least one count as that. */
TEST(impossible_classes) {
  float prob[] = {0, 1, 1e-21f, 1}, label[] = {0, 0}, diff = 0.5f, dx[4], loss = -1;
  const cr_op_params params = {.nll = {false, .ignore = 0}};
  const float wanted = (float)(-2 * log(1e-20)), slopes[] = {-1e20f, 0, -1e20f, 0};
  ok(run(&cr_multinomial_fwd_f32_ref, "2 2; 2; 1", &params, (void *[]){prob, label, &loss}, NULL));
  assert_near(&loss, &wanted, 1);
  ok(run(&cr_multinomial_bwd_f32_ref, "2 2; 2; 1; 2 2", &params, (void *[]){prob, label, &diff, dx},
         &twice));
  assert_near(dx, slopes, 4);
}

/* The first bad label is told of, wherever it is. */
TEST(bad_labels_are_found) {
  enum { ROWS = 1500 };
  static float prob[2 * ROWS], label[ROWS], dx[2 * ROWS];
  float one = 1, two = 2, gain[4] = {1, 0, 0, 1};
  const cr_op_params params = {.nll = {false, .ignore = 0}};
  /* Rows, and one sample with as many positions. */
  static const char *const shapes[] = {"1500 2; 1500; 1500 2; 1; 1",
                                       "1 2 1500; 1 1500; 1 2 1500; 1; 1",
                                       "1500 2; 1500; 1500 2; 1; 1; 2 2"};
  for (int i = 0; i < 2 * ROWS; ++i) prob[i] = 0.5f;
  for (int at = 0; at < ROWS; at += 499) {
    char words[64];
    memset(label, 0, sizeof label);
    label[at] = 2, label[ROWS - 1] = 2;
    snprintf(words, sizeof words, "position %d of 1500", at);
    for (int i = 0; i < 3; ++i) {
      void *const to[] = {prob, label, dx, &one, &two, gain};
      assert_fails(run(&cr_softmax_loss_fwd_f32_ref, shapes[i], &params, to, NULL), CREMA_E_RANGE,
                   words);
      assert_fails(run(&cr_softmax_loss_fwd_fast, shapes[i], &params, to, NULL), CREMA_E_RANGE,
                   words);
    }
    void *const back[] = {prob, label, dx};
    assert_fails(run(&cr_softmax_loss_bwd_f32_ref, "1500 2; 1500; 1500 2", &params, back, &twice),
                 CREMA_E_RANGE, words);
    assert_fails(run(&cr_softmax_loss_bwd_fast, "1500 2; 1500; 1500 2", &params, back, &twice),
                 CREMA_E_RANGE, words);
    assert_fails(run(&cr_multinomial_fwd_f32_ref, "1500 2; 1500; 1", &params,
                     (void *[]){prob, label, &one}, NULL),
                 CREMA_E_RANGE, words);
    assert_fails(run(&cr_multinomial_bwd_f32_ref, "1500 2; 1500; 1; 1500 2", &params,
                     (void *[]){prob, label, &one, dx}, &twice),
                 CREMA_E_RANGE, words);
  }
}

/* Kernels that need numbers fail without them. */
TEST(numbers_are_needed) {
  static const struct {
    const cr_kernel *kernel;
    const char *shapes, *words;
  } rows[] = {{&cr_axpby_f32_ref, "4; 4", "without its factors"},
              {&cr_update_f32_ref, "4; 4; 4; -", "without its scalars"},
              {&cr_dropout_fwd_f32_ref, "4; 4; 4", "without a seed"},
              {&cr_softmax_loss_bwd_f32_ref, "2 2; 2; 2 2", "lacks its factor"},
              {&cr_softmax_loss_bwd_fast, "2 2; 2; 2 2", "lacks its factor"},
              {&cr_hinge_bwd_f32_ref, "2 2; 2; 1; 2 2", "lacks its factor"},
              {&cr_multinomial_bwd_f32_ref, "2 2; 2; 1; 2 2", "lacks its factor"},
              {&cr_sigmoid_loss_bwd_f32_ref, "4; 4; 1; 4", "lacks its factor"},
              {&cr_contrastive_bwd_f32_ref, "2 2; 2 2; 2; 1; 2 2", "lacks its factor"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    float memory[5][4] = {{0}};
    assert_fails(run(rows[i].kernel, rows[i].shapes, &no_params,
                     (void *[]){memory[0], memory[1], memory[2], memory[3], memory[4]}, NULL),
                 CREMA_E_ARGUMENT, rows[i].words);
  }
  float image[4] = {0}, out = 0;
  int32_t at = 0;
  const cr_op_params pool = {.pool = {.window = {2, {2, 2}, {1, 1}, {0, 0}, {1, 1}}}};
  assert_fails(run(&cr_stochastic_pool_fwd_f32_ref, "1 1 2 2; 1 1 1 1; 1 1 1 1", &pool,
                   (void *[]){image, &out, &at}, NULL),
               CREMA_E_ARGUMENT, "without a seed");
  assert_fails(
      run(&cr_pool_bwd_f32_ref, "1 1 1 1; -; 1 1 2 2", &pool, (void *[]){&out, NULL, image}, NULL),
      CREMA_E_ARGUMENT, "indices of the maxima are missing");
}

/* ---- indices ---- */

TEST(rows_and_masks_have_bounds) {
  static const float bad[] = {-1, 3, 1e20f, NAN, -INFINITY};
  float src[] = {1, 2, 3}, index[] = {2, 0, 2}, dst[12], back[3];
  const char gather[] = "3 1; 3; 3 1", unpool[] = "1 1 1 3; 1 1 1 3; 1 1 3 1";
  ok(run(&cr_gather_fwd_f32_ref, gather, &no_params, (void *[]){src, index, dst}, NULL));
  assert_near(dst, (const float[]){3, 1, 3}, 3);
  assert_fails(run(&cr_gather_fwd_f32_ref, "3 1; 3; 3 1; 2", &no_params,
                   (void *[]){src, index, dst, src}, NULL),
               CREMA_E_SHAPE, "2 biases for rows of 1 values");
  ok(run(&cr_unpool_fwd_f32_ref, unpool, &no_params, (void *[]){src, index, dst}, NULL));
  assert_near(dst, (const float[]){2, 0, 3}, 3);
  ok(run(&cr_unpool_bwd_f32_ref, "1 1 3 1; 1 1 1 3; 1 1 1 3", &no_params,
         (void *[]){dst, index, back}, NULL));
  assert_near(back, (const float[]){3, 2, 3}, 3);
  for (int i = 0; i < 5; ++i) {
    index[1] = bad[i];
    assert_fails(run(&cr_gather_fwd_f32_ref, gather, &no_params, (void *[]){src, index, dst}, NULL),
                 CREMA_E_RANGE, "at position 1 of 3 is outside 0..2");
    assert_fails(run(&cr_gather_bwd_f32_ref, gather, &no_params, (void *[]){src, index, dst}, NULL),
                 CREMA_E_RANGE, "at position 1 of 3 is outside 0..2");
    assert_fails(run(&cr_unpool_fwd_f32_ref, unpool, &no_params, (void *[]){src, index, dst}, NULL),
                 CREMA_E_RANGE, "value 1 of the mask");
    assert_fails(run(&cr_unpool_bwd_f32_ref, "1 1 3 1; 1 1 1 3; 1 1 1 3", &no_params,
                     (void *[]){dst, index, src}, NULL),
                 CREMA_E_RANGE, "value 1 of the mask");
  }
}

/* All is dropped where the ratio is 1. */
TEST(all_may_be_dropped) {
  float x[] = {1, 2, 3, 4, 5}, y[5] = {9, 9, 9, 9, 9}, dx[5] = {9, 9, 9, 9, 9};
  uint8_t mask[5] = {1, 1, 1, 1, 1};
  const cr_op_params params = {.dropout = {.ratio = 1}};
  ok(run(&cr_dropout_fwd_f32_ref, "5; 5; 5", &params, (void *[]){x, y, mask},
         &(cr_op_scalars){.seed = 3}));
  ok(run(&cr_dropout_bwd_f32_ref, "5; 5; 5", &params, (void *[]){x, mask, dx}, NULL));
  for (int i = 0; i < 5; ++i) assert_true(y[i] == 0 && mask[i] == 0 && dx[i] == 0);
}

/* ---- regions ---- */

TEST(regions_have_bounds) {
  float map[12] = {0}, roi[] = {0, 0, 0, 2, 1, 1, 0, 0, 2, 1}, out[2] = {0}, diff[12];
  static const struct {
    int at;
    float value;
    const char *words;
  } bad[] = {{5, 2, "region 1 is of image 2, and there are 2"},
             {5, -1, "region 1 is of image -1"},
             {5, NAN, "region 1 is of image"},
             {1, 2e9f, "region 0 has a side at 2e+09"},
             {9, -2e9f, "region 1 has a side at -2e+09"},
             {7, NAN, "region 1 has a side"}};
  const cr_op_params params = {.roi = {.scale = 1, .ratio = 1}};
  const char shapes[] = "2 1 2 3; 2 5; 2 1 1 1", back[] = "2 1 1 1; 2 5; 2 1 2 3";
  const char back_max[] = "2 1 1 1; 2 5; 2 1 2 3; 2 1 2 3";
  ok(run(&cr_roi_pool_fwd_f32_ref, shapes, &params, (void *[]){map, roi, out}, NULL));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    const float good = roi[bad[i].at];
    roi[bad[i].at] = bad[i].value;
    const struct {
      const cr_kernel *kernel;
      const char *shapes;
      void *memory[4];
    } rows[] = {{&cr_roi_pool_fwd_f32_ref, shapes, {map, roi, out}},
                {&cr_roi_pool_bwd_f32_ref, back_max, {out, roi, map, diff}},
                {&cr_psroi_pool_fwd_f32_ref, shapes, {map, roi, out}},
                {&cr_psroi_pool_bwd_f32_ref, back, {out, roi, map}},
                {&cr_roi_align_fwd_f32_ref, shapes, {map, roi, out}},
                {&cr_roi_align_bwd_f32_ref, back, {out, roi, map}},
                {&cr_roi_pool_fwd_fast, shapes, {map, roi, out}},
                {&cr_roi_pool_bwd_fast, back_max, {out, roi, map, diff}},
                {&cr_psroi_pool_fwd_fast, shapes, {map, roi, out}},
                {&cr_psroi_pool_bwd_fast, back, {out, roi, map}},
                {&cr_roi_align_fwd_fast, shapes, {map, roi, out}},
                {&cr_roi_align_bwd_fast, back, {out, roi, map}}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
      assert_fails(run(rows[k].kernel, rows[k].shapes, &params, rows[k].memory, NULL),
                   CREMA_E_RANGE, bad[i].words);
    }
    roi[bad[i].at] = good;
  }
}

/* Values are taken up to a pixel outside of the map; as far away, its border counts. */
TEST(samples_at_the_border) {
  static const struct {
    float begin, value;
  } rows[] = {{-1.5f, 1}, {-1.75f, 0}, {-1.25f, 1}, {-0.5f, 1},    {0, 1.5f},
              {1.5f, 3},  {2.5f, 3},   {2.75f, 0},  {1.25f, 2.75f}};
  float map[] = {1, 2, 3}, out;
  const cr_op_params params = {.roi = {.scale = 1, .ratio = 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const float begin = rows[i].begin;
    float across[] = {0, begin, -0.5f, begin + 1, 0.5f},
          down[] = {0, -0.5f, begin, 0.5f, begin + 1};
    ok(run(&cr_roi_align_fwd_f32_ref, "1 1 1 3; 1 5; 1 1 1 1", &params,
           (void *[]){map, across, &out}, NULL));
    assert_near(&out, &rows[i].value, 1);
    ok(run(&cr_roi_align_fwd_fast, "1 1 1 3; 1 5; 1 1 1 1", &params, (void *[]){map, across, &out},
           NULL));
    assert_near(&out, &rows[i].value, 1);
    ok(run(&cr_roi_align_fwd_f32_ref, "1 1 3 1; 1 5; 1 1 1 1", &params, (void *[]){map, down, &out},
           NULL));
    assert_near(&out, &rows[i].value, 1);
  }
}

/* No region takes more than 4096 samples a side for each value. */
TEST(regions_of_many_samples) {
  float map[] = {1, 2}, out, diff[2];
  const cr_op_params params = {.roi = {.scale = 1}};
  for (int side = 0; side < 2; ++side) {
    float roi[] = {0, 0, 0, 1, 1};
    roi[3 + side] = 4096;
    ok(run(&cr_roi_align_fwd_f32_ref, "1 1 1 2; 1 5; 1 1 1 1", &params, (void *[]){map, roi, &out},
           NULL));
    roi[3 + side] = 4096.5f;
    assert_fails(run(&cr_roi_align_fwd_f32_ref, "1 1 1 2; 1 5; 1 1 1 1", &params,
                     (void *[]){map, roi, &out}, NULL),
                 CREMA_E_RANGE, "region 0 would take");
    assert_fails(run(&cr_roi_align_fwd_fast, "1 1 1 2; 1 5; 1 1 1 1", &params,
                     (void *[]){map, roi, &out}, NULL),
                 CREMA_E_RANGE, "region 0 would take");
    assert_fails(run(&cr_roi_align_bwd_f32_ref, "1 1 1 1; 1 5; 1 1 1 2", &params,
                     (void *[]){&out, roi, diff}, NULL),
                 CREMA_E_RANGE, "region 0 would take");
  }
}

/* NaN is a part's largest value where it comes first, and else never. A part of equal values gives
 * its gradient to the first, a part without values to none. */
TEST(largest_of_special_values) {
  static const struct {
    float map[4], value;
    int which;
  } rows[] = {{{NAN, 1, 2, 3}, NAN, 0},
              {{1, NAN, 2, NAN}, 2, 2},
              {{-INFINITY, NAN, -INFINITY, -INFINITY}, -INFINITY, 0},
              {{3, 5, 5, 5}, 5, 1},
              {{-2, -INFINITY, -1, -1}, -1, 2}};
  const cr_op_params params = {.roi = {.scale = 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    float map[4], roi[] = {0, 0, 0, 1, 1, 0, 5, 5, 6, 6}, out[2], diff[] = {8, 4}, sum[4];
    memcpy(map, rows[i].map, sizeof map);
    for (int fast = 0; fast < 2; ++fast) {
      ok(run(fast ? &cr_roi_pool_fwd_fast : &cr_roi_pool_fwd_f32_ref, "1 1 2 2; 2 5; 2 1 1 1",
             &params, (void *[]){map, roi, out}, NULL));
      assert_true(isnan(rows[i].value) ? isnan(out[0]) : out[0] == rows[i].value);
      assert_true(out[1] == 0);
      ok(run(fast ? &cr_roi_pool_bwd_fast : &cr_roi_pool_bwd_f32_ref,
             "2 1 1 1; 2 5; 1 1 2 2; 1 1 2 2", &params, (void *[]){diff, roi, map, sum}, NULL));
      for (int k = 0; k < 4; ++k) assert_true(sum[k] == (k == rows[i].which ? 8 : 0));
    }
  }
}

/* ---- rows ---- */

/* A sequence begins anew where cont is 0, whatever the state was before. */
TEST(sequences_forget_what_is_no_number) {
  enum { UNITS = 3, GATES = 4 * UNITS };
  float gates[2 * GATES], weights[GATES * UNITS], cont[] = {0, 1}, h0[UNITS], c0[UNITS];
  float h[2 * UNITS], c[2 * UNITS], values[2 * GATES], diff[2 * UNITS], dg[2 * GATES];
  float dh0[UNITS], dc0[UNITS];
  for (int i = 0; i < 2 * GATES; ++i) gates[i] = (float)sin(i);
  for (int i = 0; i < GATES * UNITS; ++i) weights[i] = (float)cos(i);
  for (int i = 0; i < UNITS; ++i) h0[i] = c0[i] = NAN;
  for (int i = 0; i < 2 * UNITS; ++i) diff[i] = 1;
  ok(run(&cr_lstm_fwd_f32_ref, "2 1 12; 2 1; 12 3; 1 3; 1 3; 2 1 3; 2 1 3; 2 1 12", &no_params,
         (void *[]){gates, cont, weights, h0, c0, h, c, values}, NULL));
  for (int i = 0; i < 2 * UNITS; ++i) assert_true(isfinite(h[i]) && isfinite(c[i]));
  ok(run(&cr_lstm_bwd_f32_ref, "2 1 12; 2 1 3; 1 3; 2 1; 12 3; 2 1 3; -; 2 1 12; 1 3; 1 3",
         &no_params, (void *[]){values, c, c0, cont, weights, diff, NULL, dg, dh0, dc0}, NULL));
  for (int i = 0; i < 2 * GATES; ++i) assert_true(isfinite(dg[i]));
  for (int i = 0; i < UNITS; ++i) assert_true(dh0[i] == 0 && dc0[i] == 0);
  ok(run(&cr_rnn_fwd_f32_ref, "2 1 3; 2 1; 3 3; 1 3; 2 1 3", &no_params,
         (void *[]){gates, cont, weights, h0, h}, NULL));
  for (int i = 0; i < 2 * UNITS; ++i) assert_true(isfinite(h[i]));
  ok(run(&cr_rnn_bwd_f32_ref, "2 1 3; 2 1; 3 3; 2 1 3; 2 1 3; 1 3", &no_params,
         (void *[]){h, cont, weights, diff, dg, dh0}, NULL));
  for (int i = 0; i < UNITS; ++i) assert_true(dh0[i] == 0);
}

/* The divisor is the deviation and eps. */
TEST(deviations_get_eps_added) {
  float x[] = {1, 3, 2, 2}, y[4], divisor[2];
  const cr_op_params params = {.mvn = {true, 0.5f}};
  ok(run(&cr_mvn_fwd_f32_ref, "2 2; 2 2; 2", &params, (void *[]){x, y, divisor}, NULL));
  assert_near(divisor, (const float[]){1.5f, 0.5f}, 2);
  assert_near(y, (const float[]){-2.0f / 3, 2.0f / 3, 0, 0}, 4);
  ok(run(&cr_mvn_fwd_f32_ref, "0 2; 0 2; 0", &params, (void *[]){x, y, divisor}, NULL));
  ok(run(&cr_mvn_fwd_f32_ref, "2 0; 2 0; 2", &params, (void *[]){x, y, divisor}, NULL));
  assert_near(divisor, (const float[]){0.5f, 0.5f}, 2);
}

/* Positions of a wide image are normalised as if each was a sample. */
TEST(wide_images_are_many_rows) {
  enum { C = 5, WIDE = 1030, ALL = C * WIDE };
  static float x[ALL], turned[ALL], y[ALL], y_turned[ALL], dy[ALL], dy_turned[ALL], dx[ALL];
  static float dx_turned[ALL], norm[WIDE], norm_turned[WIDE];
  float scale[C], ds[C], ds_turned[C];
  const cr_op_params params = {.normalize = {.eps = 0.01f}};
  for (int c = 0; c < C; ++c) {
    scale[c] = 1 + 0.25f * (float)c;
    for (int i = 0; i < WIDE; ++i) {
      x[c * WIDE + i] = turned[i * C + c] = (float)sin(0.37 * i + c);
      dy[c * WIDE + i] = dy_turned[i * C + c] = (float)cos(0.11 * i * (c + 1));
    }
  }
  ok(run(&cr_normalize_fwd_f32_ref, "1 5 1030; 5; 1 5 1030; 1 1030", &params,
         (void *[]){x, scale, y, norm}, NULL));
  ok(run(&cr_normalize_fwd_f32_ref, "1030 5 1; 5; 1030 5 1; 1030", &params,
         (void *[]){turned, scale, y_turned, norm_turned}, NULL));
  ok(run(&cr_normalize_bwd_f32_ref, "1 5 1030; 5; 1 1030; 1 5 1030; 1 5 1030; 5", &params,
         (void *[]){x, scale, norm, dy, dx, ds}, NULL));
  ok(run(&cr_normalize_bwd_f32_ref, "1030 5 1; 5; 1030; 1030 5 1; 1030 5 1; 5", &params,
         (void *[]){turned, scale, norm_turned, dy_turned, dx_turned, ds_turned}, NULL));
  assert_near(norm, norm_turned, WIDE);
  for (int c = 0; c < C; ++c) {
    assert_true(fabsf(ds[c] - ds_turned[c]) < 1e-4f * (1 + fabsf(ds_turned[c])));
    for (int i = 0; i < WIDE; ++i) {
      assert_near(&y[c * WIDE + i], &y_turned[i * C + c], 1);
      assert_true(fabsf(dx[c * WIDE + i] - dx_turned[i * C + c]) < 1e-5f);
    }
  }
}

/* ---- shapes ---- */

/* One extent at a time is not what the others make it. */
TEST(shapes_must_fit) {
  static const struct {
    const cr_kernel *kernel;
    const char *shapes;
  } rows[] = {
      {&cr_roi_pool_fwd_f32_ref, "2 3 4 5; 2 5; 2 3 2 2"},
      {&cr_roi_pool_fwd_f32_ref, "2 3 4 5; 2 4; 2 3 2 2"},
      {&cr_roi_pool_fwd_f32_ref, "2 3 4 5; 2 5; 3 3 2 2"},
      {&cr_roi_pool_fwd_f32_ref, "2 3 4 5; 2 5; 2 4 2 2"},
      {&cr_roi_pool_fwd_f32_ref, "2 3 20; 2 5; 2 3 2 2"},
      {&cr_roi_pool_fwd_f32_ref, "2 3 4 5; 2 5 1; 2 3 2 2"},
      {&cr_roi_pool_fwd_f32_ref, "2 3 4 5; 2 5; 2 3 4"},
      {&cr_roi_pool_bwd_f32_ref, "2 3 2 2; 2 5; 2 3 4 5; 2 3 4 5"},
      {&cr_roi_pool_bwd_f32_ref, "2 3 2 2; 2 5; 2 3 4 4; 2 3 4 5"},
      {&cr_roi_pool_bwd_f32_ref, "2 3 2 2; 2 5; 2 4 4 5; 2 4 4 5"},
      {&cr_psroi_pool_fwd_f32_ref, "2 12 4 5; 2 5; 2 3 2 2"},
      {&cr_psroi_pool_fwd_f32_ref, "2 3 4 5; 2 5; 2 3 2 2"},
      {&cr_psroi_pool_bwd_f32_ref, "2 3 2 2; 2 5; 2 12 4 5"},
      {&cr_psroi_pool_bwd_f32_ref, "2 3 2 2; 2 5; 2 3 4 5"},
      {&cr_roi_align_fwd_f32_ref, "2 3 4 5; 2 5; 2 3 2 2"},
      {&cr_roi_align_fwd_f32_ref, "2 12 4 5; 2 5; 2 3 2 2"},
      {&cr_interp_fwd_f32_ref, "2 3 4 5; 2 3 2 2"},
      {&cr_interp_fwd_f32_ref, "2 3 4 5; 3 3 2 2"},
      {&cr_interp_fwd_f32_ref, "2 3 4 5; 2 2 2 2"},
      {&cr_interp_fwd_f32_ref, "2 3 20; 2 3 2 2"},
      {&cr_interp_fwd_f32_ref, "2 3 4 5; 2 3 4"},
      {&cr_unpool_fwd_f32_ref, "2 3 1 2; 2 3 1 2; 2 3 2 2"},
      {&cr_unpool_fwd_f32_ref, "2 3 1 2; 2 3 1 2; 3 3 2 2"},
      {&cr_lstm_fwd_f32_ref, "2 1 12; 2 1; 12 3; 1 3; 1 3; 2 1 3; 2 1 3; 2 1 12"},
      {&cr_lstm_fwd_f32_ref, "2 1 9; 2 1; 12 3; 1 3; 1 3; 2 1 3; 2 1 3; 2 1 12"},
      {&cr_lstm_fwd_f32_ref, "2 1 12; 3 1; 12 3; 1 3; 1 3; 2 1 3; 2 1 3; 2 1 12"},
      {&cr_lstm_fwd_f32_ref, "2 1 12; 2 1; 9 3; 1 3; 1 3; 2 1 3; 2 1 3; 2 1 12"},
      {&cr_lstm_fwd_f32_ref, "2 1 12; 2 1; 12 3; 2 3; 1 3; 2 1 3; 2 1 3; 2 1 12"},
      {&cr_lstm_fwd_f32_ref, "2 1 12; 2 1; 12 3; 1 3; 2 3; 2 1 3; 2 1 3; 2 1 12"},
      {&cr_lstm_fwd_f32_ref, "2 1 12; 2 1; 12 3; 1 3; 1 3; 2 1 3; 2 1 3; 2 1 9"},
      {&cr_rnn_fwd_f32_ref, "2 1 3; 2 1; 3 3; 1 3; 2 1 3"},
      {&cr_rnn_fwd_f32_ref, "2 1 2; 2 1; 3 3; 1 3; 2 1 3"},
      {&cr_rnn_fwd_f32_ref, "2 1 3; 2 1; 3 2; 1 3; 2 1 3"},
      {&cr_rnn_fwd_f32_ref, "2 1 3; 2 1; 3 3; 1 2; 2 1 3"},
      {&cr_recurrent_bwd_weights_f32_ref, "2 1 3; 1 3; 2 1; 2 1 3; 3 3"},
      {&cr_recurrent_bwd_weights_f32_ref, "2 1 3; 1 3; 2 1; 2 1 3; 3 2"},
      {&cr_recurrent_bwd_weights_f32_ref, "2 1 3; 1 2; 2 1; 2 1 3; 3 3"},
      {&cr_normalize_fwd_f32_ref, "2 3 4; 3; 2 3 4; 2 4"},
      {&cr_normalize_fwd_f32_ref, "2 3 4; 2; 2 3 4; 2 4"},
      {&cr_normalize_fwd_f32_ref, "2 3 4; 3; 2 3 4; 2 3"},
  };
  static float memory[1024];
  void *const any[] = {memory, memory, memory, memory, memory, memory, memory, memory};
  const cr_kernel *before = NULL;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const bool fits = rows[i].kernel != before; /* the first of each kernel */
    before = rows[i].kernel;
    const crema_status status = run(rows[i].kernel, rows[i].shapes, &no_params, any, NULL);
    if (status == (fits ? CREMA_OK : CREMA_E_SHAPE)) continue;
    fail_msg("%s of \"%s\": %s", rows[i].kernel->name, rows[i].shapes,
             status == CREMA_OK ? "taken" : crema_error_text());
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
