/* The oneDNN rows against the reference kernels, with arguments held in plain memory, in blocks of
 * channels and channels-last, in all element types that the rows take. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/device.h"
#include "dnnl_trial.h"

/* ---- convolution --------------------------------------------------------- */

typedef struct conv_case {
  int axes;
  int64_t n, c, o, group, size, kernel, stride, pad, dilation, out;
  bool bias, relu;
} conv_case;

static const conv_case conv_cases[] = {
    {2, 2, 3, 16, 1, 11, 5, 2, 0, 1, 4, true, true},
    {2, 1, 16, 24, 1, 9, 3, 1, 1, 1, 9, true, false},
    {2, 2, 20, 50, 1, 12, 5, 1, 0, 1, 8, true, true},
    {2, 2, 16, 16, 2, 7, 3, 1, 1, 1, 7, true, true},
    {2, 2, 8, 8, 8, 7, 3, 2, 1, 1, 4, false, false},
    {2, 1, 8, 8, 1, 9, 3, 1, 2, 2, 9, true, false},
    {2, 1, 5, 7, 1, 6, 1, 1, 0, 1, 6, true, false},
    /* The last window does not reach the last element. */
    {2, 2, 8, 8, 1, 8, 3, 2, 0, 1, 3, true, false},
    /* Images of few channels. */
    {2, 2, 3, 32, 1, 31, 3, 2, 1, 1, 16, true, false},
    {2, 1, 1, 64, 1, 41, 7, 1, 3, 1, 41, false, false},
    {2, 1, 4, 32, 1, 45, 5, 4, 0, 1, 11, true, false},
    {2, 1, 2, 96, 1, 30, 11, 2, 5, 1, 15, true, false},
    /* 1x1 with a border. */
    {2, 2, 16, 24, 1, 5, 1, 1, 1, 1, 7, true, true},
    {2, 2, 16, 21, 1, 4, 1, 1, 2, 1, 8, true, false},
    {2, 1, 8, 8, 1, 4, 1, 1, 1, 1, 6, false, false},
    {1, 2, 8, 16, 1, 13, 3, 1, 1, 1, 13, true, false},
    {3, 1, 4, 8, 1, 5, 3, 1, 1, 1, 5, true, false},
};

static void add_spatial(fixture *f, char access, int64_t a, int64_t b, int axes, int64_t extent) {
  int64_t dim[5] = {a, b, extent, extent, extent};
  add(f, access, CREMA_F32, axes + 2, dim);
}

TRIAL_TEST(test_conv_fwd) {
  for (size_t i = 0; i < sizeof conv_cases / sizeof conv_cases[0]; ++i) {
    const conv_case *c = &conv_cases[i];
    fixture f;
    start(&f, CR_OP_CONV_FWD);
    set_window(&f.desc->u.conv.window, c->axes, c->kernel, c->stride, c->pad, c->dilation);
    f.desc->u.conv.group = c->group;
    const cr_post relu = {CR_POST_UNARY, CR_UNARY_RELU, 0.25, 0, 0};
    if (c->relu) f.desc->u.conv.posts.post[0] = relu;
    add_spatial(&f, 'R', c->n, c->c, c->axes, c->size);
    add_spatial(&f, 'R', c->o, c->c / c->group, c->axes, c->kernel);
    if (c->bias) ADD(&f, 'R', c->o);
    else add_absent(&f);
    add_spatial(&f, 'W', c->n, c->o, c->axes, c->out);
    if (!agree(&f, 1e-5)) fail_msg("convolution %zu was declined", i);
    finish(&f);
  }
}

TRIAL_TEST(test_conv_bwd) {
  int accepted = 0;
  for (size_t i = 0; i < sizeof conv_cases / sizeof conv_cases[0]; ++i) {
    const conv_case *c = &conv_cases[i];
    for (int weights = 0; weights < 2; ++weights) {
      fixture f;
      start(&f, weights ? CR_OP_CONV_BWD_WEIGHTS : CR_OP_CONV_BWD_DATA);
      set_window(&f.desc->u.conv.window, c->axes, c->kernel, c->stride, c->pad, c->dilation);
      f.desc->u.conv.group = c->group;
      if (weights) add_spatial(&f, 'R', c->n, c->c, c->axes, c->size);
      add_spatial(&f, 'R', c->n, c->o, c->axes, c->out);
      add_spatial(&f, weights ? 'A' : 'R', c->o, c->c / c->group, c->axes, c->kernel);
      if (!weights) add_spatial(&f, 'W', c->n, c->c, c->axes, c->size);
      else if (c->bias) ADD(&f, 'A', c->o);
      else add_absent(&f);
      accepted += agree(&f, 3e-5);
      finish(&f);
    }
  }
  assert_true(accepted >= 16);
}

/* Square windows over two images, which give two maps. */
typedef struct windows {
  int kernel, stride, pad, group;
  int64_t image[3], map[3]; /* channels, height, width */
} windows;

/* The bits of the kernel's result, with `threads`. */
static void *run_windows(const cr_kernel *row, const windows *w, int threads, size_t *bytes) {
  fixture f;
  trial t;
  const bool weights = row->op == CR_OP_CONV_BWD_WEIGHTS, forward = row->op == CR_OP_CONV_FWD;
  const int64_t *image = w->image, *map = w->map;
  start(&f, row->op);
  set_window(&f.desc->u.conv.window, 2, w->kernel, w->stride, w->pad, 1);
  f.desc->u.conv.group = w->group;
  if (weights || forward) ADD(&f, 'R', 2, image[0], image[1], image[2]);
  if (!forward) ADD(&f, 'R', 2, map[0], map[1], map[2]);
  ADD(&f, weights ? 'A' : 'R', map[0], image[0] / w->group, w->kernel, w->kernel);
  if (weights || forward) add_absent(&f);
  if (forward) ADD(&f, 'W', 2, map[0], map[1], map[2]);
  if (!weights && !forward) ADD(&f, 'W', 2, image[0], image[1], image[2]);
  cr_context_set_threads(cr_host_context(), threads);
  ok(prepare(&t, &f, row));
  execute(&t, &f);
  cr_context_set_threads(cr_host_context(), 0);
  const int result = forward ? 3 : 2;
  void *values = fetch(&t, &f, result);
  *bytes = value_bytes(&f, result);
  release(&t);
  finish(&f);
  return values;
}

/* Each result is made by one thread, in an order that does not depend on how many there are. */
static void check_threads(const cr_kernel *const *rows, int count, const windows *w) {
  for (int i = 0; i < count; ++i) {
    size_t bytes = 0;
    seed_values(NULL);
    void *one = run_windows(rows[i], w, 1, &bytes);
    for (int threads = 2; threads <= 7; threads += 5) {
      seed_values(NULL);
      void *more = run_windows(rows[i], w, threads, &bytes);
      assert_memory_equal(one, more, bytes);
      free(more);
    }
    free(one);
  }
}

TEST(test_cells_with_threads) {
  static const cr_kernel *const rows[] = {&cr_conv_fwd_cells, &cr_conv_bwd_data_cells,
                                          &cr_conv_bwd_weights_cells};
  check_threads(rows, 3, &(windows){16, 8, 4, 1, {9, 70, 75}, {5, 8, 9}});
}

TEST(test_depthwise_with_threads) {
  static const cr_kernel *const rows[] = {&cr_conv_bwd_weights_depth};
  check_threads(rows, 1, &(windows){4, 2, 1, 5, {5, 20, 110}, {5, 10, 55}});
}

/* Ends the fixture; the bits of the result, with `threads`. NULL: the row declined. */
static void *run_convolution(fixture *f, const cr_kernel *row, int threads, size_t *bytes) {
  trial t;
  cr_context_set_threads(cr_host_context(), threads);
  const crema_status status = prepare(&t, f, row);
  void *values = NULL;
  if (status == CREMA_OK) execute(&t, f);
  cr_context_set_threads(cr_host_context(), 0);
  *bytes = value_bytes(f, 3);
  if (status == CREMA_OK) values = fetch(&t, f, 3);
  if (status == CREMA_OK) release(&t);
  else assert_int_equal(status, CREMA_E_UNSUPPORTED);
  finish(f);
  return values;
}

/* The convolution of an image: the bits of the result, with `threads`; NULL: this processor lacks
 * the registers, or the result is not channels-last. */
static void *run_image(int threads, size_t *bytes) {
  fixture f;
  const cr_post limits = {CR_POST_UNARY, CR_UNARY_CLIP, -0.25, 0.5, 0};
  start(&f, CR_OP_CONV_FWD);
  set_window(&f.desc->u.conv.window, 2, 3, 2, 1, 1);
  f.desc->u.conv.group = 1;
  f.desc->u.conv.posts.post[0] = limits;
  ADD(&f, 'R', 2, 3, 53, 59);
  ADD(&f, 'R', 64, 3, 3, 3);
  ADD(&f, 'R', 64);
  ADD(&f, 'W', 2, 64, 27, 30);
  return run_convolution(&f, &cr_conv_fwd_planes, threads, bytes);
}

TEST(test_images_with_threads) {
  size_t bytes = 0;
  seed_values(NULL);
  void *one = run_image(1, &bytes);
  for (int threads = 2; threads <= 7 && one != NULL; threads += 5) {
    seed_values(NULL);
    void *more = run_image(threads, &bytes);
    assert_memory_equal(one, more, bytes);
    free(more);
  }
  free(one);
}

/* A pointwise convolution with so many outputs: the bits of the result, with `threads`; NULL: this
 * processor lacks the registers, or the values are not channels-last. */
static void *run_points(int64_t outputs, int threads, size_t *bytes) {
  fixture f;
  start(&f, CR_OP_CONV_FWD);
  set_window(&f.desc->u.conv.window, 2, 1, 1, 0, 1);
  f.desc->u.conv.group = 1;
  ADD(&f, 'R', 2, 300, 9, 10);
  ADD(&f, 'R', outputs, 300, 1, 1);
  ADD(&f, 'R', outputs);
  ADD(&f, 'W', 2, outputs, 9, 10);
  return run_convolution(&f, &cr_conv_fwd_points, threads, bytes);
}

/* Threads share positions, or outputs where there are many weights. */
TEST(test_points_with_threads) {
  for (int64_t outputs = 48; outputs <= 720; outputs += 672) {
    size_t bytes = 0;
    seed_values(NULL);
    void *one = run_points(outputs, 1, &bytes);
    for (int threads = 2; threads <= 7 && one != NULL; threads += 5) {
      seed_values(NULL);
      void *more = run_points(outputs, threads, &bytes);
      assert_memory_equal(one, more, bytes);
      free(more);
    }
    free(one);
  }
}

/* ---- inner product ------------------------------------------------------- */

TRIAL_TEST(test_ip) {
  for (int i = 0; i < 8; ++i) {
    bool transpose = i & 1, blocked = i & 2, bias = i & 4;
    int64_t m = 3, n = 10, c = 16, s = blocked ? 2 : 1, k = c * s * s;
    for (int kind = 0; kind < 3; ++kind) {
      fixture f;
      start(&f, kind == 0 ? CR_OP_IP_FWD : kind == 1 ? CR_OP_IP_BWD_DATA : CR_OP_IP_BWD_WEIGHTS);
      f.desc->u.ip.transpose = transpose;
      int64_t rows = transpose ? k : n, columns = transpose ? n : k;
      if (kind == 1) {
        ADD(&f, 'R', m, n);
        ADD(&f, 'R', rows, columns);
        ADD(&f, 'W', m, c, s, s);
      } else {
        ADD(&f, 'R', m, c, s, s);
        if (kind == 2) ADD(&f, 'R', m, n);
        ADD(&f, kind == 2 ? 'A' : 'R', rows, columns);
        if (bias) ADD(&f, kind == 2 ? 'A' : 'R', n);
        else add_absent(&f);
        if (kind == 0) ADD(&f, 'W', m, n);
      }
      if (blocked) hold(&f, all_orders[1]);
      if (!agree(&f, 1e-5)) fail_msg("inner product %d of kind %d was declined", i, kind);
      finish(&f);
    }
  }
}

/* Shapes only: convolution and normalisation do not go to the library for samples that it cannot
 * count in 32 bits. */
TEST(test_large_samples) {
  const crema_shape image = {4, {1, 22, 10000, 10000}}, weights = {4, {1, 22, 1, 1}};
  const crema_shape reduced = {4, {1, 1, 1000, 1000}}, channels = {1, {22}};
  static const cr_op_kind kinds[] = {CR_OP_CONV_FWD, CR_OP_LRN_FWD, CR_OP_BN_FWD_TRAIN};
  const crema_shape *const shapes[3][4] = {{&image, &weights, NULL, &reduced},
                                           {&image, &image, NULL},
                                           {&image, &image, &channels, &channels}};
  for (int k = 0; k < 3; ++k) {
    fixture f;
    start(&f, kinds[k]);
    if (k == 0) f.desc->u.conv.group = 1;
    if (k == 0) set_window(&f.desc->u.conv.window, 2, 1, 10, 0, 1);
    if (k == 1) f.desc->u.lrn = (cr_lrn_params){5, 1, 0.75f, 1, false};
    for (int i = 0; i < (k == 1 ? 3 : 4); ++i) {
      if (shapes[k][i] == NULL) {
        add_absent(&f);
      } else {
        add_shape(&f, 'R', CREMA_F32, shapes[k][i]);
      }
    }
    for (int n = 0; dnnl_row(f.desc->kind, n) != NULL; ++n) {
      const cr_kernel *row = dnnl_row(f.desc->kind, n);
      if (!row->library) continue; /* crema's own kernels take samples of any size */
      cr_format format[ARGS_MAX] = {{0}};
      cr_plan plan = {
          .desc = f.desc, .context = cr_host_context(), .hint = f.hint, .format = format};
      assert_int_equal(row->plan(&plan), CREMA_E_UNSUPPORTED);
    }
    finish(&f);
  }
}

/* ---- pooling ------------------------------------------------------------- */

typedef struct pool_case {
  int64_t n, c, size, kernel, stride, pad, out;
  bool average_declined; /* the divisors differ */
} pool_case;

static const pool_case pool_cases[] = {
    {2, 16, 6, 2, 2, 0, 3, false}, {2, 16, 7, 3, 2, 0, 3, false},
    {1, 16, 8, 3, 2, 0, 4, false},                               /* the last window overhangs */
    {2, 16, 6, 3, 1, 1, 6, false}, {1, 16, 6, 4, 3, 1, 3, true}, /* padded and overhanging */
    {2, 32, 5, 5, 1, 0, 1, false},                               /* global */
    {2, 20, 6, 2, 2, 0, 3, false},                               /* channels do not fill blocks */
};

static void add_pool(fixture *f, cr_op_kind kind, const pool_case *c, cr_pool_method method) {
  start(f, kind);
  set_window(&f->desc->u.pool.window, 2, c->kernel, c->stride, c->pad, 1);
  f->desc->u.pool.method = method;
  f->desc->u.pool.src[0] = f->desc->u.pool.src[1] = c->size;
}

TRIAL_TEST(test_pool_fwd) {
  for (size_t i = 0; i < sizeof pool_cases / sizeof pool_cases[0]; ++i) {
    const pool_case *c = &pool_cases[i];
    for (int variant = 0; variant < 3; ++variant) { /* max for training, max, average */
      fixture f;
      add_pool(&f, CR_OP_POOL_FWD, c, variant < 2 ? CR_POOL_MAX : CR_POOL_AVERAGE);
      ADD(&f, 'R', c->n, c->c, c->size, c->size);
      ADD(&f, 'W', c->n, c->c, c->out, c->out);
      if (variant == 0) ADD_TYPE(&f, 'W', CREMA_I32, c->n, c->c, c->out, c->out);
      else add_absent(&f);
      if (variant == 2 && c->average_declined) {
        assert_false(agree(&f, 1e-6));
        finish(&f);
      } else {
        agree_in_all_orders(&f, 1e-6, 2);
      }
    }
  }
}

/* Strides beyond the kernel leave last windows that see nothing of the input. */
TRIAL_TEST(test_pool_empty_windows) {
  static const pool_case c = {1, 16, 5, 1, 3, 0, 3, true};
  for (int variant = 0; variant < 3; ++variant) { /* max for training, max, average */
    for (size_t i = 0; i < sizeof all_orders / sizeof all_orders[0]; ++i) {
      fixture f;
      add_pool(&f, CR_OP_POOL_FWD, &c, variant < 2 ? CR_POOL_MAX : CR_POOL_AVERAGE);
      ADD(&f, 'R', c.n, c.c, c.size, c.size);
      ADD(&f, 'W', c.n, c.c, c.out, c.out);
      if (variant == 0) ADD_TYPE(&f, 'W', CREMA_I32, c.n, c.c, c.out, c.out);
      else add_absent(&f);
      hold(&f, all_orders[i]);
      (void)agree(&f, 0);
      finish(&f);
    }
  }
}

TRIAL_TEST(test_pool_bwd) {
  for (size_t i = 0; i < sizeof pool_cases / sizeof pool_cases[0]; ++i) {
    const pool_case *c = &pool_cases[i];
    fixture forward, f;
    add_pool(&forward, CR_OP_POOL_FWD, c, CR_POOL_MAX);
    ADD(&forward, 'R', c->n, c->c, c->size, c->size);
    ADD(&forward, 'W', c->n, c->c, c->out, c->out);
    ADD_TYPE(&forward, 'W', CREMA_I32, c->n, c->c, c->out, c->out);
    hold(&forward, all_orders[1]);
    trial t;
    ok(prepare(&t, &forward, &cr_pool_fwd_dnnl));
    execute(&t, &forward);
    for (int max = 0; max < 2; ++max) {
      add_pool(&f, CR_OP_POOL_BWD, c, max ? CR_POOL_MAX : CR_POOL_AVERAGE);
      ADD(&f, 'R', c->n, c->c, c->out, c->out);
      if (max) {
        ADD_TYPE(&f, 'R', CREMA_I32, c->n, c->c, c->out, c->out);
        free(f.value[1]);
        f.value[1] = fetch(&t, &forward, 2);
      } else {
        add_absent(&f);
      }
      ADD(&f, 'A', c->n, c->c, c->size, c->size);
      hold(&f, all_orders[1]);
      if (max) f.hint[1] = t.format[2];
      assert_int_equal(agree(&f, 1e-5), max || !c->average_declined);
      finish(&f);
    }
    release(&t);
    finish(&forward);
  }
}

/* ---- normalisation ------------------------------------------------------- */

static void set_lrn(fixture *f, cr_op_kind kind, bool within) {
  start(f, kind);
  f->desc->u.lrn.size = 5;
  f->desc->u.lrn.alpha = 0.5f;
  f->desc->u.lrn.beta = 0.75f;
  f->desc->u.lrn.k = within ? 1.0f : 2.0f;
  f->desc->u.lrn.within_channel = within;
}

/* Forward, then backward from the notes that forward left. */
TRIAL_TEST(test_lrn) {
  enum { N = 2, C = 16, S = 9 };
  int forwards = 0;
  for (int within = 0; within < 2; ++within) {
    for (int order = 0; order < ORDERS; ++order) {
      fixture forward, f;
      set_lrn(&forward, CR_OP_LRN_FWD, within);
      ADD(&forward, 'R', N, C, S, S);
      ADD(&forward, 'W', N, C, S, S);
      ADD_TYPE(&forward, 'W', CREMA_U8, N, C, S, S);
      hold(&forward, all_orders[order]);
      trial t, got, want;
      (void)agree(&forward, 1e-5);
      if (prepare(&t, &forward, dnnl_row(CR_OP_LRN_FWD, 1)) != CREMA_OK) {
        finish(&forward);
        continue;
      }
      ++forwards;
      execute(&t, &forward);
      set_lrn(&f, CR_OP_LRN_BWD, within);
      for (int i = 0; i < 3; ++i) ADD(&f, 'R', N, C, S, S);
      ADD_TYPE(&f, 'R', CREMA_U8, N, C, S, S);
      ADD(&f, 'W', N, C, S, S);
      memcpy(f.value[0], forward.value[0], value_bytes(&f, 0));
      free(f.value[1]);
      f.value[1] = fetch(&t, &forward, 1);
      hold(&f, all_orders[order]);
      ok(prepare(&want, &f, ref_row(CR_OP_LRN_BWD)));
      execute(&want, &f);
      /* Without the notes the row must decline, unless it works without. */
      if (prepare(&got, &f, dnnl_row(CR_OP_LRN_BWD, 0)) == CREMA_OK) {
        assert_null(got.format[3].layout);
        release(&got);
      }
      f.hint[3] = t.format[2];
      if (prepare(&got, &f, dnnl_row(CR_OP_LRN_BWD, 0)) == CREMA_OK) {
        if (t.format[2].layout != NULL)
          memcpy(got.memory[3], t.memory[2], t.format[2].layout->bytes);
        execute(&got, &f);
        void *a = fetch(&got, &f, 4), *b = fetch(&want, &f, 4);
        compare_values(&f, 4, a, b, 1e-5);
        free(b);
        free(a);
        release(&got);
      }
      release(&want);
      release(&t);
      finish(&f);
      finish(&forward);
    }
  }
  assert_true(forwards >= 1);
}

TRIAL_TEST(test_bn) {
  enum { N = 4, C = 20, S = 5 };
  for (int kind = 0; kind < 4; ++kind) {
    fixture f;
    start(&f, kind == 0 ? CR_OP_BN_FWD_TRAIN : kind == 1 ? CR_OP_BN_FWD_GLOBAL : CR_OP_BN_BWD);
    f.desc->u.bn.eps = 1e-5f;
    f.desc->u.bn.global = kind == 1 || kind == 3;
    ADD(&f, 'R', N, C, S, S);
    ADD(&f, kind < 2 ? 'W' : 'R', N, C, S, S);
    ADD(&f, kind == 0 ? 'W' : 'R', C);
    ADD(&f, kind == 0 ? 'W' : 'R', C);
    if (kind >= 2) ADD(&f, 'W', N, C, S, S);
    for (int i = 0; i < C && kind > 0; ++i) {
      float *mean = f.value[2], *variance = f.value[3];
      const float *src = f.value[0];
      mean[i] = 0.0f;
      variance[i] = 0.0f;
      for (int n = 0; n < N; ++n) {
        for (int s = 0; s < S * S; ++s) mean[i] += src[(n * C + i) * S * S + s] / (N * S * S);
      }
      for (int n = 0; n < N; ++n) {
        for (int s = 0; s < S * S; ++s) {
          float d = src[(n * C + i) * S * S + s] - mean[i];
          variance[i] += d * d / (N * S * S);
        }
      }
    }
    agree_in_all_orders(&f, 2e-5, 2);
  }
}

TRIAL_TEST(test_softmax) {
  for (int spatial = 0; spatial < 2; ++spatial) {
    fixture f;
    start(&f, CR_OP_SOFTMAX_BWD);
    f.desc->u.axis = 1;
    ADD(&f, 'R', 5, 37, 1, 1 + spatial);
    ADD(&f, 'R', 5, 37, 1, 1 + spatial);
    ADD(&f, 'W', 5, 37, 1, 1 + spatial);
    agree(&f, 1e-5); /* some processors have only the reference implementation */
    finish(&f);
  }
}

/* ---- element-wise -------------------------------------------------------- */

/* A function with its numbers. */
typedef struct unary_case {
  cr_unary function;
  float alpha, beta, gamma;
  int padded[2]; /* how many orders of channels that leave pads are taken, forward and backward */
} unary_case;

static const unary_case unary_cases[] = {
    {CR_UNARY_RELU, 0, 0, 0, {4, 4}},
    {CR_UNARY_RELU, 0.125f, 0, 0, {4, 4}},
    {CR_UNARY_SIGMOID, 0, 0, 0, {2, 2}},
    {CR_UNARY_TANH, 0, 0, 0, {3, 3}},
    {CR_UNARY_POWER, 2.5f, 0.5f, 1.5f, {1, 1}},
    {CR_UNARY_POWER, 1, -2, 0.5f, {1, 1}},
    {CR_UNARY_EXP, 0.7f, 1.5f, 0.25f, {1, 1}},
    {CR_UNARY_LOG, 1.5f, 0.5f, 2, {1, 1}},
    {CR_UNARY_ABS, 0, 0, 0, {3, 3}},
    {CR_UNARY_ELU, 0.75f, 1.25f, 0, {3, 3}},
    {CR_UNARY_BNLL, 0, 0, 0, {1, 1}},
    {CR_UNARY_THRESHOLD, -0.25f, 0, 0, {1, 1}},
    {CR_UNARY_CLIP, -0.5f, 0.25f, 1, {3, 3}},
    {CR_UNARY_CLIP, 0.125f, 0.5f, 0, {1, 3}},
    {CR_UNARY_SWISH, 1.75f, 0, 0, {3, 3}},
    {CR_UNARY_GELU, 0, 0, 0, {3, 3}},
    {CR_UNARY_GELU_TANH, 0, 0, 0, {3, 3}},
};

TRIAL_TEST(test_unary) {
  for (size_t i = 0; i < sizeof unary_cases / sizeof unary_cases[0]; ++i) {
    const unary_case *c = &unary_cases[i];
    for (int k = 0; k < 4; ++k) {
      const bool backward = k % 2 != 0, padded = k / 2 != 0;
      const int64_t channels = padded ? 20 : 16;
      fixture f;
      start(&f, backward ? CR_OP_UNARY_BWD : CR_OP_UNARY_FWD);
      f.desc->u.unary.function = c->function;
      f.desc->u.unary.alpha = (double)c->alpha;
      f.desc->u.unary.beta = (double)c->beta;
      f.desc->u.unary.gamma = (double)c->gamma;
      for (int a = 0; a < (backward ? 3 : 1); ++a) ADD(&f, 'R', 2, channels, 5, 5);
      ADD(&f, 'W', 2, channels, 5, 5);
      agree_in_all_orders(&f, 2e-6, padded ? c->padded[backward] : 3);
    }
  }
}

TRIAL_TEST(test_same_layout) {
  static const float coeff[] = {1.0f, -0.5f, 2.0f};
  const int64_t channels[] = {32, 20}; /* the second leaves pads */
  for (int i = 0; i < 2; ++i) {
    int64_t c = channels[i];
    fixture f;
    for (int scaled = 0; scaled < 2; ++scaled) {
      start(&f, CR_OP_SUM);
      for (int k = 0; k < 3; ++k) {
        ADD(&f, 'R', 3, c, 17, 17);
        if (scaled) f.desc->arg[k].scale = coeff[k];
      }
      ADD(&f, 'W', 3, c, 17, 17);
      agree_in_all_orders(&f, 1e-6, 3);
    }
    for (int beta = 0; beta < 2; ++beta) {
      start(&f, CR_OP_AXPBY);
      f.scalars.alpha = 0.5f;
      f.scalars.beta = (float)beta;
      ADD(&f, 'R', 3, c, 17, 17);
      ADD(&f, 'U', 3, c, 17, 17);
      agree_in_all_orders(&f, 1e-6, 3);
    }
    start(&f, CR_OP_COPY);
    ADD(&f, 'R', 3, c, 17, 17);
    ADD(&f, 'W', 3, c, 17, 17);
    agree_in_all_orders(&f, 0.0, 3);
  }
}

TRIAL_TEST(test_concat_slice) {
  for (int slice = 0; slice < 2; ++slice) {
    fixture f;
    start(&f, slice ? CR_OP_SLICE : CR_OP_CONCAT);
    f.desc->u.axis = 1;
    if (slice) ADD(&f, 'R', 2, 96, 13, 13);
    ADD(&f, slice ? 'W' : 'R', 2, 16, 13, 13);
    ADD(&f, slice ? 'W' : 'R', 2, 48, 13, 13);
    ADD(&f, slice ? 'W' : 'R', 2, 32, 13, 13);
    if (!slice) ADD(&f, 'W', 2, 96, 13, 13);
    agree_in_all_orders(&f, 0.0, 3);
    /* Channels that do not fill blocks. */
    start(&f, slice ? CR_OP_SLICE : CR_OP_CONCAT);
    f.desc->u.axis = 1;
    if (slice) ADD(&f, 'R', 2, 9, 4, 4);
    ADD(&f, slice ? 'W' : 'R', 2, 4, 4, 4);
    ADD(&f, slice ? 'W' : 'R', 2, 5, 4, 4);
    if (!slice) ADD(&f, 'W', 2, 9, 4, 4);
    agree_in_all_orders(&f, 0.0, 1);
  }
}

/* Parts in blocks of a channels-last whole are read and written as they are held. */
TRIAL_TEST(test_concat_slice_of_mixed_orders) {
  for (int slice = 0; slice < 2; ++slice) {
    fixture f;
    start(&f, slice ? CR_OP_SLICE : CR_OP_CONCAT);
    f.desc->u.axis = 1;
    if (slice) ADD(&f, 'R', 2, 88, 13, 11);
    ADD(&f, slice ? 'W' : 'R', 2, 24, 13, 11);
    ADD(&f, slice ? 'W' : 'R', 2, 48, 13, 11);
    ADD(&f, slice ? 'W' : 'R', 2, 16, 13, 11);
    if (!slice) ADD(&f, 'W', 2, 88, 13, 11);
    hold(&f, all_orders[3]);
    hold_argument(&f, slice ? 1 : 2, all_orders[slice ? 1 : 2]);
    hold_argument(&f, slice ? 2 : 1, all_orders[2]);
    assert_true(agree(&f, 0.0));
    trial t;
    ok(prepare(&t, &f, dnnl_row(f.desc->kind, 0)));
    for (int i = 0; i < f.desc->args; ++i) {
      const cr_dnnl_order held = cr_dnnl_layout_order(f.hint[i].layout);
      const cr_dnnl_order got = cr_dnnl_layout_order(t.format[i].layout);
      if (f.hint[i].layout == NULL) assert_int_equal(got.kind, CR_DNNL_LAST);
      else assert_true(got.kind == held.kind && got.block == held.block);
    }
    release(&t);
    finish(&f);
  }
}

static const cr_op_kind affine_kinds[] = {CR_OP_AFFINE_FWD, CR_OP_AFFINE_BWD_DATA,
                                          CR_OP_AFFINE_BWD_SCALE, CR_OP_AFFINE_BWD_BIAS};

/* Scale and bias of a channel; the layout is that of (N,C,H,W), the op sees (outer,C,inner). */
TRIAL_TEST(test_affine) {
  for (int kind = 0; kind < 4; ++kind) {
    for (int64_t channels = 16; channels <= 19; channels += 3) {
      for (int variant = 0; variant < (kind == 0 ? 3 : 1); ++variant) {
        for (int order = 1; order < 4; ++order) {
          fixture f;
          make_affine(&f, affine_kinds[kind], channels, 21 * 20, variant);
          hold_images(&f, 21, 20, all_orders[order]);
          assert_true(agree(&f, 1e-4));
          finish(&f);
        }
      }
    }
  }
}

/* More channels than are computed at a time. */
TRIAL_TEST(test_affine_of_many_channels) {
  for (int kind = 0; kind < 4; ++kind) {
    fixture f;
    make_affine(&f, affine_kinds[kind], 5003, 4, 0);
    hold_images(&f, 2, 2, all_orders[3]);
    assert_true(agree(&f, 1e-4));
    finish(&f);
  }
}

/* Terms that cancel but for a last 1, which a sum in single precision would lose. */
TEST(test_affine_cancelling) {
  enum { CHANNELS = 3, POSITIONS = 5 };
  static const float terms[POSITIONS] = {3e7f, 3e7f, 1.0f, -3e7f, -3e7f};
  for (int run = 0; run < 4; ++run) {
    const int scale = run % 2, order = run < 2 ? 1 : 3;
    fixture f;
    start(&f, scale ? CR_OP_AFFINE_BWD_SCALE : CR_OP_AFFINE_BWD_BIAS);
    for (int i = 0; i <= scale; ++i) {
      ADD(&f, 'R', 1, CHANNELS, POSITIONS);
      for (int k = 0; k < CHANNELS * POSITIONS; ++k) {
        ((float *)f.value[i])[k] = i == 0 ? terms[k % POSITIONS] : 1.0f;
      }
    }
    ADD(&f, 'A', CHANNELS);
    hold_images(&f, 1, POSITIONS, all_orders[order]);
    trial t;
    ok(prepare(&t, &f, dnnl_row(f.desc->kind, 0)));
    execute(&t, &f);
    for (int c = 0; c < CHANNELS; ++c) {
      assert_float_equal(((float *)t.memory[1 + scale])[c], 1.0f, 0.0f);
    }
    release(&t);
    finish(&f);
  }
}

/* ---- element types ------------------------------------------------------- */

/* With the processor's instructions for them, every kind of op has a row for bf16 numbers that took
 * those of the tests above; without them, the rows that only move or scale values have. F16 has
 * code in release 3, for few processors. */
TEST(test_short_types) {
  static const cr_op_kind kinds[] = {
      CR_OP_CONV_FWD,    CR_OP_CONV_BWD_DATA,  CR_OP_CONV_BWD_WEIGHTS, CR_OP_IP_FWD,
      CR_OP_IP_BWD_DATA, CR_OP_IP_BWD_WEIGHTS, CR_OP_POOL_FWD,         CR_OP_POOL_BWD,
      CR_OP_LRN_FWD,     CR_OP_BN_FWD_TRAIN,   CR_OP_BN_FWD_GLOBAL,    CR_OP_BN_BWD,
      CR_OP_UNARY_FWD,   CR_OP_UNARY_BWD};
  static const cr_op_kind moving[] = {CR_OP_SUM,
                                      CR_OP_AXPBY,
                                      CR_OP_COPY,
                                      CR_OP_CONCAT,
                                      CR_OP_SLICE,
                                      CR_OP_AFFINE_FWD,
                                      CR_OP_AFFINE_BWD_DATA,
                                      CR_OP_AFFINE_BWD_SCALE,
                                      CR_OP_AFFINE_BWD_BIAS};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && multiplies_bf16(); ++i) {
    if (taken[0][kinds[i]] == 0) fail_msg("no row of %s took bf16", cr_op_kind_name(kinds[i]));
  }
  for (size_t i = 0; i < sizeof moving / sizeof moving[0]; ++i) {
    for (int t = 0; t < 2; ++t) {
      if (taken[t][moving[i]] > 0) continue;
      fail_msg("no row of %s took %s", cr_op_kind_name(moving[i]),
               crema_dtype_name(short_types[t]));
    }
  }
  if (DNNL_VERSION_MAJOR < 3) assert_int_equal(taken[1][CR_OP_CONV_FWD], 0);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
