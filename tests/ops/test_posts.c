/* Ops with post operations give what the same ops give one after the other, whether a kernel
 * applies them or the dispatcher does, on every back end that all machines have. */
#include <math.h>
#include <string.h>

#include "core/rng.h"
#include "device/backend/convert.h"
#include "device/device.h"
#include "memory/sim_fixture.h"
#include "op_make.h"

enum { ARGS = 5, N = 4, C = 16, SIDE = 3, IMAGE = N * C * SIDE * SIDE };

#define FUNCTION(name, a, b, c) \
  { CR_POST_UNARY, CR_UNARY_##name, a, b, c }
#define ADD \
  { .kind = CR_POST_ADD }

/* LOG and THRESHOLD are functions that oneDNN's convolutions do not apply. */
static const cr_posts lists[] = {
    {{FUNCTION(RELU, 0, 0, 0)}},
    {{FUNCTION(RELU, 0.25, 0, 0)}},
    {{FUNCTION(SIGMOID, 0, 0, 0)}},
    {{FUNCTION(CLIP, 0, 6, 0)}},
    {{FUNCTION(THRESHOLD, 0.5, 0, 0)}},
    {{ADD}},
    {{ADD, FUNCTION(RELU, 0, 0, 0)}},
    {{FUNCTION(RELU, 0, 0, 0), ADD}},
    {{FUNCTION(RELU, 0.25, 0, 0), ADD, FUNCTION(RELU, 0, 0, 0)}},
    {{FUNCTION(ABS, 0, 0, 0), FUNCTION(LOG, 1, 1, 1), ADD, FUNCTION(TANH, 0, 0, 0)}},
    {{FUNCTION(SWISH, 1, 0, 0), FUNCTION(ELU, 1, 1, 0), ADD, FUNCTION(LOG, 1, 0, 2)}},
};

static const crema_shape image = {4, {N, C, SIDE, SIDE}}, filter = {4, {C, C, 3, 3}};
static const crema_shape channels = {1, {C}}, rows = {2, {N, C *SIDE *SIDE}};
static const crema_shape matrix = {2, {C * SIDE * SIDE, C *SIDE *SIDE}};
static const crema_shape outputs = {1, {C * SIDE * SIDE}};

static cr_mt19937 rng;

static cr_tensor *draw(crema_dtype type, const crema_shape *shape, double size) {
  cr_tensor *tensor = NULL;
  void *to = NULL;
  const int64_t count = crema_shape_count(shape, 0, shape->axes);
  ok(cr_tensor_create(type, count, &tensor));
  ok(cr_tensor_host_write(tensor, &to));
  for (int64_t i = 0; i < count; ++i) {
    const double value = size * ((double)cr_mt19937_below(&rng, 2001) / 1000 - 1);
    char *at = (char *)to + (size_t)i * crema_dtype_size(type);
    ok(cr_convert_plain(1, type, at, CREMA_F64, &value));
  }
  return tensor;
}

static double value_at(cr_tensor *tensor, int64_t i) {
  const void *from = NULL;
  double value = 0;
  ok(cr_tensor_host_read(tensor, &from));
  const size_t size = crema_dtype_size(cr_tensor_type(tensor));
  ok(cr_convert_plain(1, CREMA_F64, &value, cr_tensor_type(tensor),
                      (const char *)from + (size_t)i * size));
  return value;
}

static cr_op_desc blank(cr_op_kind kind, crema_dtype type) {
  return op_blank(kind, type == CREMA_F64 ? CREMA_F64 : CREMA_F32);
}

static void run_once(const cr_op_desc *given, int args, const crema_shape *shape,
                     crema_context *context, cr_tensor *const *tensor) {
  cr_op *op = op_make(given, args, (const crema_shape *[]){shape, shape, shape});
  ok(cr_op_run(op, context, tensor, NULL));
  cr_op_destroy(op);
}

/* The post operations one by one on `y`. */
static void apply(const cr_posts *posts, crema_dtype type, const crema_shape *shape,
                  crema_context *context, cr_tensor *addend, cr_tensor *y) {
  for (int k = 0; k < cr_posts_count(posts); ++k) {
    const cr_post *post = &posts->post[k];
    if (post->kind == CR_POST_ADD) {
      const cr_op_desc sum = blank(CR_OP_SUM, type);
      run_once(&sum, 3, shape, context, (cr_tensor *[]){y, addend, y});
      continue;
    }
    cr_op_desc unary = blank(CR_OP_UNARY_FWD, type);
    unary.u.unary.function = post->function;
    unary.u.unary.alpha = post->alpha;
    unary.u.unary.beta = post->beta;
    unary.u.unary.gamma = post->gamma;
    run_once(&unary, 2, shape, context, (cr_tensor *[]){y, y});
  }
}

static double tolerance(crema_dtype type) {
  return type == CREMA_F64 ? 1e-12 : type == CREMA_F32 ? 1e-5 : 8 * 0x1p-8;
}

/* One list, on one kind of op. `over`: the result is written over the addend. */
static void check(const cr_posts *posts, bool conv, crema_dtype type, crema_context *context,
                  bool over) {
  const crema_shape *y = conv ? &image : &rows;
  const crema_shape *const shape[] = {y, conv ? &filter : &matrix, conv ? &channels : &outputs, y,
                                      cr_posts_add(posts) ? y : NULL};
  cr_op_desc desc = blank(conv ? CR_OP_CONV_FWD : CR_OP_IP_FWD, type);
  const cr_window window = {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  if (conv) desc.u.conv.window = window;
  if (conv) desc.u.conv.group = 1;
  cr_op *plain = op_make(&desc, 4, shape);
  *(conv ? &desc.u.conv.posts : &desc.u.ip.posts) = *posts;
  cr_op *fused = op_make(&desc, ARGS, shape);
  cr_tensor *tensor[ARGS] = {draw(type, y, 1), draw(type, shape[1], 0.25), draw(type, shape[2], 1),
                             draw(type, y, 1), draw(type, y, 1)};
  cr_tensor *wanted = draw(type, y, 1);
  ok(cr_op_run(plain, context, (cr_tensor *[]){tensor[0], tensor[1], tensor[2], wanted}, NULL));
  apply(posts, type, y, context, tensor[4], wanted);
  cr_tensor *args[ARGS] = {tensor[0], tensor[1], tensor[2], over ? tensor[4] : tensor[3],
                           cr_posts_add(posts) ? tensor[4] : NULL};
  ok(cr_op_run(fused, context, args, NULL));
  double largest = 0, error = 0;
  for (int64_t i = 0; i < IMAGE; ++i) {
    largest = fmax(largest, fabs(value_at(wanted, i)));
    error = fmax(error, fabs(value_at(wanted, i) - value_at(args[3], i)));
  }
  /* A rounding may move a value across a threshold. */
  if (posts->post[0].function == CR_UNARY_THRESHOLD && error == 1) error = 0;
  if (!(error <= tolerance(type) * largest)) {
    fail_msg("list %d of %s in %s%s: an error of %g of %g", (int)(posts - lists),
             cr_op_kernel_name(fused), crema_dtype_name(type), over ? ", over the addend" : "",
             error, largest);
  }
  /* A library's kernel stays one, without what it does not apply. */
  if (context == cr_host_context() && type == CREMA_F32 &&
      strstr(cr_op_kernel_name(plain), "_dnnl") != NULL) {
    assert_string_equal(cr_op_kernel_name(fused), cr_op_kernel_name(plain));
  }
  cr_tensor_destroy(wanted);
  for (int i = 0; i < ARGS; ++i) cr_tensor_destroy(tensor[i]);
  cr_op_destroy(fused);
  cr_op_destroy(plain);
}

/* The same for AFFINE_FWD, which has functions only. */
static void check_affine(const cr_posts *posts, crema_dtype type, crema_context *context) {
  const crema_shape y = {3, {N, C, SIDE * SIDE}};
  const crema_shape *const shape[] = {&y, &channels, &channels, &y};
  cr_op_desc desc = blank(CR_OP_AFFINE_FWD, type);
  cr_op *plain = op_make(&desc, 4, shape);
  desc.u.affine = *posts;
  cr_op *fused = op_make(&desc, 4, shape);
  cr_tensor *tensor[4] = {draw(type, &y, 1), draw(type, &channels, 1), draw(type, &channels, 1),
                          draw(type, &y, 1)};
  cr_tensor *wanted = draw(type, &y, 1);
  ok(cr_op_run(plain, context, (cr_tensor *[]){tensor[0], tensor[1], tensor[2], wanted}, NULL));
  apply(posts, type, &y, context, NULL, wanted);
  ok(cr_op_run(fused, context, tensor, NULL));
  for (int64_t i = 0; i < IMAGE; ++i) {
    const double error = fabs(value_at(wanted, i) - value_at(tensor[3], i));
    const bool jump = posts->post[0].function == CR_UNARY_THRESHOLD && error == 1;
    if (!jump && !(error <= tolerance(type) * 2)) {
      fail_msg("list %d of %s in %s: an error of %g", (int)(posts - lists),
               cr_op_kernel_name(fused), crema_dtype_name(type), error);
    }
  }
  cr_tensor_destroy(wanted);
  for (int i = 0; i < 4; ++i) cr_tensor_destroy(tensor[i]);
  cr_op_destroy(fused);
  cr_op_destroy(plain);
}

static void check_all(crema_context *context) {
  static const crema_dtype types[] = {CREMA_F32, CREMA_BF16, CREMA_F64};
  cr_mt19937_seed(&rng, 7);
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; ++i) {
    for (int t = 0; t < 3; ++t) {
      if (!cr_posts_add(&lists[i])) check_affine(&lists[i], types[t], context);
      for (int conv = 0; conv < 2; ++conv) {
        check(&lists[i], conv == 1, types[t], context, false);
        if (cr_posts_add(&lists[i])) check(&lists[i], conv == 1, types[t], context, true);
      }
    }
  }
}

TEST(on_the_cpu) {
  check_all(cr_host_context());
}

TEST(on_a_simulated_device) {
  cr_sim_options options = sim_test_options(1);
  options.memory = 1 << 24;
  sim_begin(&options);
  crema_context *context = sim_test_context(sim_test_device(0));
  check_all(context);
  crema_context_destroy(context);
  sim_end();
}

TEST(lists_have_an_end_and_one_addition) {
  cr_posts posts = {0};
  const cr_post relu = FUNCTION(RELU, 0, 0, 0), add = ADD;
  assert_false(cr_posts_add(&posts));
  assert_true(cr_posts_append(&posts, &add));
  assert_false(cr_posts_append(&posts, &add));
  for (int i = 1; i < CR_POSTS; ++i) assert_true(cr_posts_append(&posts, &relu));
  assert_false(cr_posts_append(&posts, &relu));
  assert_int_equal(cr_posts_count(&posts), CR_POSTS);
  assert_true(cr_posts_add(&posts));
}

TEST(an_addition_needs_an_addend) {
  cr_op_desc desc = blank(CR_OP_IP_FWD, CREMA_F32), *made = NULL;
  cr_op *op = NULL;
  desc.u.ip.posts.post[0].kind = CR_POST_ADD;
  for (int args = 4; args <= 5; ++args) {
    ok(cr_op_describe(&desc, args, (const crema_shape *[]){&rows, &matrix, &outputs, &rows, NULL},
                      NULL, &made));
    assert_fails(cr_op_create(&made, &op), CREMA_E_INTERNAL, "addend");
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
