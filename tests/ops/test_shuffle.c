/* Channels of groups that take turns, where they are held channels-last. */
#include <string.h>

#include "check.h"
#include "device/cpu/onednn/layout.h"
#include "device/device.h"
#include "memory/blob.h"
#include "memory/tensor.h"
#include "ops/op.h"

enum { N = 2, H = 3, W = 5, MOST = 2000 };

static cr_format channels_last(crema_dtype type, const crema_shape *shape) {
  const cr_dnnl_order last = {CR_DNNL_LAST, 1};
  cr_md md = NULL;
  cr_format format = {type, NULL};
  ok(cr_dnnl_md_ordered(shape, type, last, &md));
  ok(cr_dnnl_layout(cr_cpu_device(), md, &format.layout));
  cr_md_destroy(md);
  return format;
}

static cr_tensor *make(crema_dtype type, const crema_shape *shape) {
  cr_tensor *tensor = NULL;
  ok(cr_tensor_create(type, crema_shape_count(shape, 0, shape->axes), &tensor));
  return tensor;
}

/* Small integers, which 16 bits hold, in `format`; those of value number i are i % 251. */
static void fill(cr_tensor *tensor, cr_format format) {
  static float values[MOST];
  crema_devptr data = {0};
  const int64_t count = cr_tensor_count(tensor);
  assert_true(count <= MOST);
  for (int64_t i = 0; i < count; ++i) values[i] = (float)(i % 251);
  float *floats = NULL;
  ok(cr_tensor_host_write_floats(tensor, &floats));
  memcpy(floats, values, (size_t)count * sizeof *values);
  ok(cr_tensor_update(tensor, cr_host_context(), format, &data));
}

static void run(int64_t groups, int64_t width, cr_tensor *x, cr_tensor *y, const char *kernel) {
  const crema_shape from = cr_shape_4(N, groups, width, H * W),
                    to = cr_shape_4(N, width, groups, H * W);
  cr_op_desc kind, *desc = NULL;
  cr_op *op = NULL;
  memset(&kind, 0, sizeof kind);
  kind.kind = CR_OP_PERMUTE;
  kind.type = CREMA_F32;
  for (int i = 0; i < 4; ++i) kind.u.order[i] = i == 1 ? 2 : i == 2 ? 1 : i;
  ok(cr_op_describe(&kind, 2, (const crema_shape *[]){&from, &to}, NULL, &desc));
  ok(cr_op_create(&desc, &op));
  ok(cr_op_run(op, cr_host_context(), (cr_tensor *[]){x, y}, NULL));
  assert_string_equal(cr_op_kernel_name(op), kernel);
  cr_op_destroy(op);
}

/* The channels from `at` on of `all` that are in `x` have taken turns in `y`. */
static void check(cr_tensor *y, int64_t groups, int64_t width, int64_t all, int64_t at) {
  const float *found = NULL;
  ok(cr_tensor_host_read_floats(y, &found));
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t c = 0; c < groups * width; ++c) {
      const int64_t source = c % groups * width + c / groups + at;
      for (int64_t i = 0; i < H * W; ++i) {
        const float want = (float)(((n * all + source) * H * W + i) % 251);
        assert_true(found[(n * groups * width + c) * H * W + i] == want);
      }
    }
  }
}

TEST(channels_take_turns) {
  static const crema_dtype types[] = {CREMA_F32, CREMA_BF16, CREMA_F16};
  static const int64_t sizes[][2] = {{2, 9}, {3, 4}, {9, 2}, {2, 16}};
  for (int k = 0; k < 12; ++k) {
    const crema_dtype type = types[k % 3];
    const int64_t groups = sizes[k / 3][0], width = sizes[k / 3][1];
    const crema_shape shape = cr_shape_4(N, groups * width, H, W);
    cr_tensor *x = make(type, &shape), *y = make(type, &shape);
    fill(x, channels_last(type, &shape));
    run(groups, width, x, y, "shuffle_fast");
    assert_true(cr_format_equal(cr_tensor_head(y), channels_last(type, &shape)));
    check(y, groups, width, groups * width, 0);
    cr_tensor_destroy(y);
    cr_tensor_destroy(x);
  }
}

/* Those of a part, read between the others. */
TEST(channels_of_a_part_take_turns) {
  const cr_part part = {
      .shape = {4, {N, 12, H, W}}, .whole = {4, {N, 20, H, W}}, .axis = 1, .at = 5};
  cr_tensor *whole = make(CREMA_F32, &part.whole), *x = make(CREMA_F32, &part.shape);
  cr_tensor *y = make(CREMA_F32, &part.shape);
  cr_format format = {0};
  crema_devptr data = {0};
  bool done = false;
  ok(cr_tensor_alias_set(x, whole, &part, true, &done));
  fill(whole, channels_last(CREMA_F32, &part.whole));
  cr_tensor_alias_order(x, cr_cpu_device(), cr_tensor_head(whole));
  assert_true(done && cr_tensor_alias_can_read(x, whole) && cr_tensor_alias_format(x, &format));
  ok(cr_tensor_write(x, cr_host_context(), format, &data));
  run(3, 4, x, y, "shuffle_fast");
  check(y, 3, 4, 20, 5);
  cr_tensor_destroy(y);
  cr_tensor_destroy(x);
  cr_tensor_destroy(whole);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
