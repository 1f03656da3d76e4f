/* Where oneDNN cannot be called, or fails, an op runs on crema's own kernels with the same results,
 * also when that happens between two runs, whatever layouts the first one left. The
 * program's own mmap, dnnl_primitive_create and dnnl_sgemm fail; a limit that limits nothing makes
 * the library look. */
#include <stdbool.h>

#include <dnnl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "check.h"
#include "crema/log.h"
#include "device/cpu/onednn/gemm.h"
#include "device/cpu/onednn/layout.h"
#include "device/device.h"
#include "interpose.h"
#include "log_lines.h"
#include "ops/op.h"

static bool no_memory, no_primitives, no_products;
static int products;

INTERPOSED void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
  /* Small requests go through, as the reserve is gone long before all memory is. */
  if (!from_program() || !no_memory || bytes < (size_t)16 << 20) {
    return REAL(mmap)(at, bytes, protection, flags, file, offset);
  }
  errno = ENOMEM;
  return MAP_FAILED;
}

INTERPOSED dnnl_status_t dnnl_primitive_create(dnnl_primitive_t *out,
                                               const_dnnl_primitive_desc_t pd) {
  return from_program() && no_primitives ? dnnl_out_of_memory
                                         : REAL(dnnl_primitive_create)(out, pd);
}

INTERPOSED dnnl_status_t dnnl_sgemm(char ta, char tb, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k,
                                    float alpha, const float *a, dnnl_dim_t lda, const float *b,
                                    dnnl_dim_t ldb, float beta, float *c, dnnl_dim_t ldc) {
  if (from_program()) {
    ++products;
    if (no_products) return dnnl_out_of_memory;
  }
  return REAL(dnnl_sgemm)(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

static log_lines lines;

/* ---- a few layers -------------------------------------------------------- */

enum { N = 2, C = 3, O = 20, SIDE = 12, HALF = SIDE / 2 };

enum { SRC, WEIGHTS, BIAS, CONV, NORM, NORM_AUX, POOL, POOL_AUX, D_POOL, D_NORM, D_CONV, TENSORS };

static const crema_shape shapes[TENSORS] = {
    [SRC] = {4, {N, C, SIDE, SIDE}},
    [WEIGHTS] = {4, {O, C, 3, 3}},
    [BIAS] = {1, {O}},
    [CONV] = {4, {N, O, SIDE, SIDE}},
    [NORM] = {4, {N, O, SIDE, SIDE}},
    [NORM_AUX] = {4, {N, O, SIDE, SIDE}},
    [POOL] = {4, {N, O, HALF, HALF}},
    [POOL_AUX] = {4, {N, O, HALF, HALF}},
    [D_POOL] = {4, {N, O, HALF, HALF}},
    [D_NORM] = {4, {N, O, SIDE, SIDE}},
    [D_CONV] = {4, {N, O, SIDE, SIDE}},
};

static crema_dtype type_of(int tensor) {
  return tensor == NORM_AUX ? CREMA_U8 : tensor == POOL_AUX ? CREMA_I32 : CREMA_F32;
}

typedef struct step {
  cr_op_kind kind;
  cr_op_params u;
  int args, arg[5];
} step;

static const cr_window conv_window = {
    .axes = 2, .kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}, .dilation = {1, 1}};
static const cr_window pool_window = {
    .axes = 2, .kernel = {4, 4}, .stride = {2, 2}, .pad = {1, 1}, .dilation = {1, 1}};

enum { STEPS = 5 };

/* Forward through convolution, LRN and pooling, and back to the convolution's gradient. */
static void describe(step *s) {
  const cr_lrn_params lrn = {.size = 5, .alpha = 0.1f, .beta = 0.75f, .k = 1.0f};
  s[0] = (step){.kind = CR_OP_CONV_FWD, .args = 4, .arg = {SRC, WEIGHTS, BIAS, CONV}};
  s[0].u.conv = (cr_conv_params){.window = conv_window, .group = 1};
  s[1] = (step){.kind = CR_OP_LRN_FWD, .args = 3, .arg = {CONV, NORM, NORM_AUX}};
  s[1].u.lrn = lrn;
  s[2] = (step){.kind = CR_OP_POOL_FWD, .args = 3, .arg = {NORM, POOL, POOL_AUX}};
  s[2].u.pool = (cr_pool_params){.window = pool_window, .method = CR_POOL_MAX};
  s[3] = (step){.kind = CR_OP_POOL_BWD, .args = 3, .arg = {D_POOL, POOL_AUX, D_NORM}};
  s[3].u.pool = (cr_pool_params){.window = pool_window, .method = CR_POOL_MAX};
  s[4] = (step){.kind = CR_OP_LRN_BWD, .args = 5, .arg = {CONV, NORM, D_NORM, NORM_AUX, D_CONV}};
  s[4].u.lrn = lrn;
}

typedef struct chain {
  step step[STEPS];
  cr_op *op[STEPS];
  cr_tensor *tensor[TENSORS];
} chain;

static void fill(cr_tensor *tensor) {
  void *values = NULL;
  ok(cr_tensor_host_write(tensor, &values));
  uint32_t random = 12345;
  for (int64_t i = 0; i < cr_tensor_count(tensor); ++i) {
    random = random * 1664525u + 1013904223u;
    ((float *)values)[i] = (float)(random >> 8) / (float)(1 << 24) - 0.5f;
  }
}

static void chain_open(chain *c) {
  describe(c->step);
  for (int i = 0; i < TENSORS; ++i) {
    int64_t count = crema_shape_count(&shapes[i], 0, shapes[i].axes);
    ok(cr_tensor_create(type_of(i), count, &c->tensor[i]));
  }
  const int given[] = {SRC, WEIGHTS, BIAS, D_POOL};
  for (size_t i = 0; i < sizeof given / sizeof *given; ++i) fill(c->tensor[given[i]]);
  for (int i = 0; i < STEPS; ++i) {
    step *s = &c->step[i];
    const cr_op_desc work = {.kind = s->kind, .type = CREMA_F32, .u = s->u};
    const crema_shape *shape[5];
    cr_op_desc *desc = NULL;
    for (int a = 0; a < s->args; ++a) shape[a] = &shapes[s->arg[a]];
    ok(cr_op_describe(&work, s->args, shape, NULL, &desc));
    ok(cr_op_create(&desc, &c->op[i]));
  }
}

static void chain_run(chain *c, int first, int end) {
  for (int i = first; i < end; ++i) {
    cr_tensor *args[5] = {NULL};
    for (int a = 0; a < c->step[i].args; ++a) args[a] = c->tensor[c->step[i].arg[a]];
    if (c->step[i].kind == CR_OP_POOL_BWD) cr_tensor_set_zero(c->tensor[D_NORM]);
    if (cr_op_run(c->op[i], cr_host_context(), args, NULL) != CREMA_OK) {
      fail_msg("step %d: %s", i, crema_error_text());
    }
  }
}

/* Runs without the library. */
static bool is_own(const chain *c, int i) {
  return strstr(cr_op_kernel_name(c->op[i]), "_dnnl") == NULL;
}

static void chain_close(chain *c) {
  for (int i = 0; i < STEPS; ++i) cr_op_destroy(c->op[i]);
  for (int i = 0; i < TENSORS; ++i) cr_tensor_destroy(c->tensor[i]);
}

static void expect_equal(const chain *a, const chain *b, int tensor) {
  const void *x = NULL, *y = NULL;
  ok(cr_tensor_host_read(a->tensor[tensor], &x));
  ok(cr_tensor_host_read(b->tensor[tensor], &y));
  for (int64_t i = 0; i < cr_tensor_count(a->tensor[tensor]); ++i) {
    assert_float_equal(((const float *)x)[i], ((const float *)y)[i], 1e-4);
  }
}

static void expect_equal_chains(const chain *a, const chain *b) {
  expect_equal(a, b, CONV);
  expect_equal(a, b, POOL);
  expect_equal(a, b, D_CONV);
}

/* ---- tests --------------------------------------------------------------- */

static chain usual, other;

static int begin(void **state) {
  (void)state;
  no_memory = no_primitives = no_products = false;
  memset(&usual, 0, sizeof usual);
  memset(&other, 0, sizeof other);
  chain_open(&usual);
  chain_run(&usual, 0, STEPS);
  chain_open(&other);
  listen_to(&lines, CREMA_LOG_WARNING);
  return 0;
}

static int end(void **state) {
  (void)state;
  no_memory = no_primitives = no_products = false;
  chain_close(&usual);
  chain_close(&other);
  return 0;
}

TEST_BETWEEN(test_library_fails, begin, end) {
  no_primitives = true;
  chain_run(&other, 0, STEPS);
  for (int i = 0; i < STEPS; ++i) assert_string_not_equal(cr_op_kernel_name(other.op[i]), "");
  assert_true(is_own(&other, 0));
  assert_true(lines.count > 0);
  assert_non_null(strstr(last_line(&lines), "out of memory"));
  expect_equal_chains(&usual, &other);
}

TEST_BETWEEN(test_from_the_start, begin, end) {
  no_memory = true;
  chain_run(&other, 0, STEPS);
  for (int i = 0; i < STEPS; ++i) assert_true(is_own(&other, i));
  expect_equal_chains(&usual, &other);
  /* Once a process: the next op finds out in silence. */
  int said = lines.count;
  assert_true(said <= 1);
  chain_run(&other, 0, STEPS);
  assert_int_equal(lines.count, said);
}

/* After any step of a pass: what it left in oneDNN's layouts is read all the same. */
TEST_BETWEEN(test_half_way, begin, end) {
  for (int first = 0; first <= STEPS; ++first) {
    no_memory = false;
    chain_close(&other);
    memset(&other, 0, sizeof other);
    chain_open(&other);
    chain_run(&other, 0, first);
    for (int i = 0; i < first; ++i) assert_int_equal(is_own(&other, i), is_own(&usual, i));
    no_memory = true;
    chain_run(&other, first, STEPS);
    for (int i = first; i < STEPS; ++i) assert_true(is_own(&other, i));
    expect_equal_chains(&usual, &other);
  }
}

/* Plans that were made are given up, and not taken again by themselves. */
TEST_BETWEEN(test_later, begin, end) {
  chain_run(&other, 0, STEPS);
  for (int i = 0; i < STEPS; ++i) assert_int_equal(is_own(&other, i), is_own(&usual, i));
  no_memory = true;
  chain_run(&other, 0, STEPS);
  for (int i = 0; i < STEPS; ++i) assert_true(is_own(&other, i));
  expect_equal_chains(&usual, &other);
  no_memory = false;
  chain_run(&other, 0, STEPS);
  for (int i = 0; i < STEPS; ++i) assert_true(is_own(&other, i));
}

/* Conversion gives the same bytes with oneDNN and without, pads and other element types included.
 */
TEST_BETWEEN(test_layouts, begin, end) {
  enum { VALUES = 2 * 20 * 5 * 7, HELD = 2 * 32 * 5 * 7 };
  const crema_shape shape = {4, {2, 20, 5, 7}};
  const cr_dnnl_order orders[] = {
      {CR_DNNL_BLOCKED, 4}, {CR_DNNL_BLOCKED, 8}, {CR_DNNL_BLOCKED, 16}, {CR_DNNL_LAST, 1}};
  static float in[VALUES], held[2][HELD], out[VALUES];
  static int32_t whole[VALUES];
  static uint8_t bytes[2][HELD];
  for (int i = 0; i < VALUES; ++i) in[i] = (float)(i + 1), whole[i] = i % 200;
  for (int i = 0; i < 4; ++i) {
    const cr_layout *layout[2] = {NULL, NULL};
    for (int t = 0; t < 2; ++t) {
      cr_md md = NULL;
      ok(cr_dnnl_md_ordered(&shape, t == 0 ? CREMA_F32 : CREMA_U8, orders[i], &md));
      ok(cr_dnnl_layout(cr_cpu_device(), md, &layout[t]));
      cr_md_destroy(md);
    }
    const cr_format flat = {CREMA_F32, NULL}, ints = {CREMA_I32, NULL};
    const cr_format blocked = {CREMA_F32, layout[0]}, small = {CREMA_U8, layout[1]};
    memset(held, 0x7e, sizeof held);
    memset(bytes, 0x7e, sizeof bytes);
    for (int slow = 0; slow < 2; ++slow) {
      no_memory = slow == 1;
      const crema_devptr to = {(uintptr_t)held[slow]}, to_bytes = {(uintptr_t)bytes[slow]};
      ok(cr_dnnl_convert(cr_host_context(), VALUES, blocked, to, flat,
                         (crema_devptr){(uintptr_t)in}));
      ok(cr_dnnl_convert(cr_host_context(), VALUES, small, to_bytes, ints,
                         (crema_devptr){(uintptr_t)whole}));
    }
    assert_memory_equal(held[0], held[1], layout[0]->bytes);
    assert_memory_equal(bytes[0], bytes[1], layout[1]->bytes);
    ok(cr_dnnl_convert(cr_host_context(), VALUES, flat, (crema_devptr){(uintptr_t)out}, blocked,
                       (crema_devptr){(uintptr_t)held[0]}));
    assert_memory_equal(in, out, sizeof in);
  }
}

/* ---- recurrences --------------------------------------------------------- */

/* Rows of one kernel file that make their matrix products by the library's or by crema's own. */
enum { T = 3, BATCH = 2, D = 5, RECURRENT_ARGS = 10 };

typedef struct recurrence {
  cr_op_kind kind;
  int args, written; /* the arguments from `written` on are written */
  crema_shape shape[RECURRENT_ARGS];
} recurrence;

#define CELLS     \
  {               \
    3, {          \
      T, BATCH, D \
    }             \
  }
#define FIRST  \
  {            \
    2, {       \
      BATCH, D \
    }          \
  }
#define CONT   \
  {            \
    2, {       \
      T, BATCH \
    }          \
  }
#define GATES(n)          \
  {                       \
    3, {                  \
      T, BATCH, (n) * (D) \
    }                     \
  }
#define HIDDEN(n) \
  {               \
    2, {          \
      (n) * D, D  \
    }             \
  }

static const recurrence recurrences[] = {
    {CR_OP_LSTM_FWD, 8, 5, {GATES(4), CONT, HIDDEN(4), FIRST, FIRST, CELLS, CELLS, GATES(4)}},
    {CR_OP_LSTM_BWD,
     10,
     7,
     {GATES(4), CELLS, FIRST, CONT, HIDDEN(4), CELLS, CELLS, GATES(4), FIRST, FIRST}},
    {CR_OP_RNN_FWD, 5, 4, {GATES(1), CONT, HIDDEN(1), FIRST, CELLS}},
    {CR_OP_RNN_BWD, 6, 4, {CELLS, CONT, HIDDEN(1), CELLS, GATES(1), FIRST}},
    {CR_OP_RECURRENT_BWD_WEIGHTS, 5, 4, {CELLS, FIRST, CONT, GATES(4), HIDDEN(4)}},
};

/* What the op writes, one array after the other, into `out`; how many values. */
static int run_recurrence(const recurrence *r, float *out, char *name, size_t name_size) {
  cr_tensor *tensor[RECURRENT_ARGS] = {NULL};
  const crema_shape *shape[RECURRENT_ARGS];
  const cr_op_desc work = {.kind = r->kind, .type = CREMA_F32};
  cr_op_desc *desc = NULL;
  cr_op *op = NULL;
  int count = 0;
  for (int i = 0; i < r->args; ++i) {
    shape[i] = &r->shape[i];
    ok(cr_tensor_create(CREMA_F32, crema_shape_count(shape[i], 0, shape[i]->axes), &tensor[i]));
    if (i < r->written) fill(tensor[i]);
  }
  ok(cr_op_describe(&work, r->args, shape, NULL, &desc));
  ok(cr_op_create(&desc, &op));
  ok(cr_op_run(op, cr_host_context(), tensor, NULL));
  snprintf(name, name_size, "%s", cr_op_kernel_name(op));
  for (int i = r->written; i < r->args; ++i) {
    const void *values = NULL;
    ok(cr_tensor_host_read(tensor[i], &values));
    memcpy(out + count, values, (size_t)cr_tensor_count(tensor[i]) * sizeof *out);
    count += (int)cr_tensor_count(tensor[i]);
  }
  for (int i = 0; i < r->args; ++i) cr_tensor_destroy(tensor[i]);
  cr_op_destroy(op);
  return count;
}

TEST_BETWEEN(test_recurrences, begin, end) {
  enum { MOST = 1024 };
  static float with_library[MOST], own[MOST], refused[MOST];
  char name[64];
  for (size_t i = 0; i < sizeof recurrences / sizeof *recurrences; ++i) {
    const recurrence *r = &recurrences[i];
    no_memory = no_products = false;
    int before = products;
    const int count = run_recurrence(r, with_library, name, sizeof name);
    assert_true(count > 0 && count <= MOST);
    assert_non_null(strstr(name, "_dnnl"));
    assert_true(products > before);
    no_products = true;
    assert_int_equal(run_recurrence(r, refused, name, sizeof name), count);
    assert_non_null(strstr(name, "_dnnl"));
    no_products = false;
    no_memory = true;
    before = products;
    assert_int_equal(run_recurrence(r, own, name, sizeof name), count);
    assert_non_null(strstr(name, "_ref"));
    assert_int_equal(products, before);
    for (int k = 0; k < count; ++k) {
      assert_float_equal(own[k], with_library[k], 1e-5);
      assert_float_equal(refused[k], with_library[k], 1e-5);
    }
  }
}

/* The library refuses a product: crema's own one gives the same, whatever the order of the operands
 * and how far apart their rows are. */
TEST_BETWEEN(test_products, begin, end) {
  enum { M = 3, INNER = 7, COLUMNS = 5, A_ROW = 9, B_ROW = 11, C_ROW = 6 };
  static float a[A_ROW * INNER], b[B_ROW * INNER], c[2][C_ROW * M];
  for (int i = 0; i < A_ROW * INNER; ++i) a[i] = (float)(i * 37 % 101) / 50 - 1;
  for (int i = 0; i < B_ROW * INNER; ++i) b[i] = (float)(i * 53 % 97) / 48 - 1;
  for (int way = 0; way < 16; ++way) {
    cr_gemm_f32 g = {.m = M,
                     .n = COLUMNS,
                     .k = way & 8 ? 0 : INNER,
                     .a = a,
                     .a_row = A_ROW,
                     .a_transposed = (way & 1) != 0,
                     .b = b,
                     .b_row = B_ROW,
                     .b_transposed = (way & 2) != 0,
                     .c_row = C_ROW,
                     .accumulate = (way & 4) != 0};
    for (int own = 0; own < 2; ++own) {
      for (int i = 0; i < C_ROW * M; ++i) c[own][i] = (float)(i + 1);
      no_products = own == 1;
      g.c = c[own];
      cr_cpu_gemm_f32(&g);
    }
    for (int i = 0; i < C_ROW * M; ++i) {
      assert_float_equal(c[1][i], c[0][i], 1e-5);
      const bool result = i % C_ROW < COLUMNS;
      const bool kept = !result || (g.accumulate && g.k == 0);
      if (kept) assert_float_equal(c[1][i], (float)(i + 1), 0);
      if (result && !kept) assert_float_not_equal(c[1][i], (float)(i + 1), 1e-6);
      if (result && !g.accumulate && g.k == 0) assert_float_equal(c[1][i], 0, 0);
    }
  }
}

int main(void) {
  const struct rlimit limit = {(rlim_t)1 << 50, (rlim_t)1 << 50};
  if (setrlimit(RLIMIT_DATA, &limit) != 0) return 1;
  return run_all_tests(NULL, NULL);
}
