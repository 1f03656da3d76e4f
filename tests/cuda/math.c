/* The options of -math over the fake runtime: which of cuDNN's engines and which arithmetic of
 * cuBLASLt exact and fast math request, in ops, nets, solvers and sessions. */
#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "core/fail.h"
#include "crema/model.h"
#include "crema/solver.h"
#include "device/device.h"
#include "fake_symbols.h"
#include "folder.h"
#include "memory/tensor.h"
#include "ops/op.h"

/* As the fake cuDNN numbers them. CUT rounds floats to TF32, and sums of halves to halves. */
enum { SMALL = 1, CHANGING = 2, CUT = 21, ON_TENSOR_CORES = 31 };

static struct {
  void (*refuse_engines)(uint64_t engines);
  int (*last_algorithm)(void);
  int (*last_compute)(void);
  int (*last_reductions)(void);
} fake;

static crema_device *device;

/* The bits of some values, from `seed`, that TF32 cannot hold. */
static void fill(cr_tensor *tensor, unsigned seed) {
  float *to = NULL;
  ok(cr_tensor_host_write_floats(tensor, &to));
  for (int64_t i = 0; i < cr_tensor_count(tensor); ++i) {
    seed = seed * 1664525u + 1013904223u;
    to[i] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
  }
}

enum { ARGUMENTS = 4 };

typedef struct job {
  cr_op *op;
  cr_tensor *tensor[ARGUMENTS]; /* the last one is the result; the bias is absent */
} job;

static job new_job(const cr_op_desc *kind, crema_dtype type, const crema_shape *x,
                   const crema_shape *w, const crema_shape *y) {
  const crema_shape *shape[ARGUMENTS] = {x, w, NULL, y};
  cr_op_desc *desc = NULL;
  job j = {.op = NULL};
  ok(cr_op_describe(kind, ARGUMENTS, shape, NULL, &desc));
  for (int i = 0; i < ARGUMENTS; ++i) {
    if (shape[i] == NULL) continue;
    ok(cr_tensor_create(type, crema_shape_count(shape[i], 0, shape[i]->axes), &j.tensor[i]));
    if (i < 2) fill(j.tensor[i], (unsigned)i + 1);
  }
  ok(cr_op_create(&desc, &j.op));
  return j;
}

static job new_convolution(crema_dtype type) {
  static const crema_shape x = {4, {1, 2, 4, 4}}, w = {4, {3, 2, 3, 3}}, y = {4, {1, 3, 2, 2}};
  cr_op_desc conv;
  memset(&conv, 0, sizeof conv);
  conv.kind = CR_OP_CONV_FWD;
  conv.type = CREMA_F32;
  conv.u.conv = (cr_conv_params){
      .window = {.axes = 2, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}}, .group = 1};
  return new_job(&conv, type, &x, &w, &y);
}

static job new_product(crema_dtype type) {
  static const crema_shape x = {2, {4, 8}}, w = {2, {5, 8}}, y = {2, {4, 5}};
  cr_op_desc product;
  memset(&product, 0, sizeof product);
  product.kind = CR_OP_IP_FWD;
  product.type = CREMA_F32;
  return new_job(&product, type, &x, &w, &y);
}

static void drop_job(job *j) {
  cr_op_destroy(j->op);
  for (int i = 0; i < ARGUMENTS; ++i) cr_tensor_destroy(j->tensor[i]);
}

/* Copies the results to `out`, which has place for 32. */
static void run(job *j, crema_context *context, float *out) {
  cr_tensor *result = j->tensor[ARGUMENTS - 1];
  const float *from = NULL;
  ok(cr_op_run(j->op, context, j->tensor, NULL));
  ok(crema_context_finish(context));
  ok(cr_tensor_host_read_floats(result, &from));
  memcpy(out, from, (size_t)cr_tensor_count(result) * sizeof *out);
  assert_int_equal(cr_device_fallbacks(device), 0);
}

static crema_context *new_context(crema_math math) {
  crema_context *context = NULL;
  ok(crema_context_create(device, 1, &context));
  if (math != CREMA_MATH_DEFAULT) cr_context_set_math(context, math);
  return context;
}

static int engine_of(crema_dtype type, crema_math math, uint64_t refused) {
  float result[32];
  crema_context *context = new_context(math);
  fake.refuse_engines(refused);
  job j = new_convolution(type);
  run(&j, context, result);
  drop_job(&j);
  crema_context_destroy(context);
  fake.refuse_engines(0);
  return fake.last_algorithm();
}

/* The engines come in the order of cuDNN's list. */
TEST(fast_math_admits_tf32_and_any_order) {
  const uint64_t changing = UINT64_C(1) << CHANGING, cut = UINT64_C(1) << CUT;
  const uint64_t tensor_cores = UINT64_C(1) << ON_TENSOR_CORES;
  static const crema_math exact[] = {CREMA_MATH_DEFAULT, CREMA_MATH_EXACT};
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(engine_of(CREMA_F32, exact[i], 0), SMALL);
    assert_int_equal(engine_of(CREMA_F16, exact[i], 0), ON_TENSOR_CORES);
    assert_int_equal(engine_of(CREMA_BF16, exact[i], 0), ON_TENSOR_CORES);
  }
  assert_int_equal(engine_of(CREMA_F32, CREMA_MATH_FAST, 0), CHANGING);
  assert_int_equal(engine_of(CREMA_F32, CREMA_MATH_FAST, changing), CUT);
  assert_int_equal(engine_of(CREMA_F32, CREMA_MATH_FAST, changing | cut), ON_TENSOR_CORES);
  assert_int_equal(engine_of(CREMA_F32, CREMA_MATH_FAST, changing | cut | tensor_cores), SMALL);
  /* Sums of halves stay float32. */
  assert_int_equal(engine_of(CREMA_F16, CREMA_MATH_FAST, 0), CHANGING);
  assert_int_equal(engine_of(CREMA_F16, CREMA_MATH_FAST, changing), ON_TENSOR_CORES);
}

/* Each context gets its own plan, and an exact one the same bits as without any fast context. */
TEST(contexts_of_both_kinds_share_an_op) {
  float before[32], exact[32], fast[32];
  crema_context *context[2] = {new_context(CREMA_MATH_DEFAULT), new_context(CREMA_MATH_FAST)};
  job conv = new_convolution(CREMA_F32), product = new_product(CREMA_F32);
  run(&product, context[0], before);
  for (int i = 0; i < 2; ++i) {
    run(&conv, context[0], exact);
    assert_int_equal(fake.last_algorithm(), SMALL);
    run(&conv, context[1], fast);
    assert_int_equal(fake.last_algorithm(), CHANGING);
    run(&product, context[1], fast);
    assert_memory_not_equal(fast, before, 20 * sizeof *fast);
    for (int k = 0; k < 20; ++k) assert_true(fabsf(fast[k] - before[k]) < 0.01f);
    run(&product, context[0], exact);
    assert_memory_equal(exact, before, 20 * sizeof *exact);
  }
  drop_job(&product);
  drop_job(&conv);
  for (int i = 0; i < 2; ++i) crema_context_destroy(context[i]);
}

static void check_product(crema_dtype type, crema_math math, int compute, int reductions) {
  float result[32];
  crema_context *context = new_context(math);
  job j = new_product(type);
  run(&j, context, result);
  assert_int_equal(fake.last_compute(), compute);
  assert_int_equal(fake.last_reductions(), reductions);
  drop_job(&j);
  crema_context_destroy(context);
}

TEST(products_request_tf32_for_floats_only) {
  enum { FIXED = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE };
  enum { ANY = FIXED | CUBLASLT_REDUCTION_SCHEME_INPLACE };
  static const crema_dtype types[] = {CREMA_F32, CREMA_F16, CREMA_BF16};
  for (int i = 0; i < 3; ++i) {
    check_product(types[i], CREMA_MATH_DEFAULT, CUBLAS_COMPUTE_32F, FIXED);
    check_product(types[i], CREMA_MATH_EXACT, CUBLAS_COMPUTE_32F, FIXED);
  }
  check_product(CREMA_F32, CREMA_MATH_FAST, CUBLAS_COMPUTE_32F_FAST_TF32, ANY);
  check_product(CREMA_F16, CREMA_MATH_FAST, CUBLAS_COMPUTE_32F, ANY);
  check_product(CREMA_BF16, CREMA_MATH_FAST, CUBLAS_COMPUTE_32F, ANY);
}

/* ---- options ---- */

static const char net_text[] =
    "layer { name: 'data' type: 'DummyData' top: 'data' dummy_data_param {"
    " shape { dim: 2 dim: 8 } data_filler { type: 'constant' value: 0.3 } } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param {"
    " num_output: 3 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'Reduction' bottom: 'ip' top: 'loss' loss_weight: 1 }\n";

static const char solver_text[] =
    "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 9 random_seed: 7 "
    "snapshot_after_train: false\n";

static const char deploy_text[] =
    "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: 8 } } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param {"
    " num_output: 3 weight_filler { type: 'xavier' } } }\n";

static bool last_was_fast(void) {
  return fake.last_compute() == CUBLAS_COMPUTE_32F_FAST_TF32;
}

static bool solver_is_fast(const char *field, crema_math math) {
  char text[512];
  crema_solver_options options;
  crema_solver *solver = NULL;
  snprintf(text, sizeof text, "%s%s\n", solver_text, field);
  write_text("solver.prototxt", text);
  crema_solver_options_init(&options);
  options.device = device;
  options.math = math;
  ok(crema_solver_load(path_of("solver.prototxt"), &options, &solver));
  ok(crema_solver_step(solver, 1));
  crema_solver_destroy(solver);
  return last_was_fast();
}

TEST(solvers_follow_the_option_then_the_field) {
  assert_false(solver_is_fast("", CREMA_MATH_DEFAULT));
  assert_true(solver_is_fast("math: FAST", CREMA_MATH_DEFAULT));
  assert_false(solver_is_fast("math: EXACT", CREMA_MATH_DEFAULT));
  assert_false(solver_is_fast("math: FAST", CREMA_MATH_EXACT));
  assert_true(solver_is_fast("", CREMA_MATH_FAST));
  assert_true(solver_is_fast("math: EXACT", CREMA_MATH_FAST));
}

TEST(nets_and_sessions_have_the_option) {
  static const crema_math all[] = {CREMA_MATH_DEFAULT, CREMA_MATH_FAST, CREMA_MATH_EXACT};
  crema_model *model = NULL;
  ok(crema_model_load_memory(deploy_text, strlen(deploy_text), NULL, 0, NULL, &model));
  for (int i = 0; i < 3; ++i) {
    crema_net_options net_options;
    crema_net *net = NULL;
    crema_net_options_init(&net_options);
    net_options.device = device;
    net_options.math = all[i];
    ok(crema_net_parse(deploy_text, strlen(deploy_text), "net", &net_options, &net));
    ok(crema_net_forward(net, NULL));
    crema_net_destroy(net);
    assert_int_equal(last_was_fast(), all[i] == CREMA_MATH_FAST);

    crema_session_options session_options;
    crema_session *session = NULL;
    crema_session_options_init(&session_options);
    session_options.device = device;
    session_options.math = all[i];
    ok(crema_session_create(model, &session_options, &session));
    ok(crema_session_run(session));
    crema_session_destroy(session);
    assert_int_equal(last_was_fast(), all[i] == CREMA_MATH_FAST);
  }
  crema_model_destroy(model);
}

static int begin(void **state) {
  void *cudnn = fake_library("libcudnn.so.9");
  void *cublaslt = fake_library("libcublasLt.so.13");
  fake_find(cudnn, "fake_refuse_engines", &fake.refuse_engines);
  fake_find(cudnn, "fake_last_algorithm", &fake.last_algorithm);
  fake_find(cublaslt, "fake_last_compute", &fake.last_compute);
  fake_find(cublaslt, "fake_last_reductions", &fake.last_reductions);
  ok(crema_device_get(CREMA_DEVICE_CUDA, 0, &device));
  return make_solver_folder(state, net_text, solver_text);
}

int main(void) {
  return run_all_tests(begin, remove_solver_folder);
}
