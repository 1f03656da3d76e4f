/* Interning of oneDNN's layouts, and conversion to and from them. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device/backend/half.h"
#include "device/backend/half_blocks.h"
#include "device/cpu/onednn/layout.h"
#include "device/device.h"
#include "device/memory/host_memory.h"
#include "memory/tensor.h"
#include "ops/op.h"

static const cr_dnnl_order plain = {CR_DNNL_PLAIN, 1};
static const cr_dnnl_order blocks = {CR_DNNL_BLOCKED, 8};
static const cr_dnnl_order last = {CR_DNNL_LAST, 1};

static const cr_layout *layout_of(crema_shape shape, crema_dtype type, cr_dnnl_order order) {
  cr_md md = NULL;
  const cr_layout *layout = NULL;
  ok(cr_dnnl_md_ordered(&shape, type, order, &md));
  ok(cr_dnnl_layout(cr_cpu_device(), md, &layout));
  cr_md_destroy(md);
  return layout;
}

static void convert(int64_t count, cr_format dst_format, void *dst, cr_format src_format,
                    void *src) {
  const cr_backend *backend = cr_cpu_device()->backend;
  ok(backend->convert(cr_host_context(), count, dst_format, (crema_devptr){(uintptr_t)dst},
                      src_format, (crema_devptr){(uintptr_t)src}));
}

TEST(test_interning) {
  crema_shape shape = {4, {2, 20, 5, 7}};
  const cr_layout *a = layout_of(shape, CREMA_F32, blocks);
  assert_non_null(a);
  assert_ptr_equal(a, layout_of(shape, CREMA_F32, blocks));
  assert_ptr_not_equal(a, layout_of(shape, CREMA_F32, last));
  assert_ptr_not_equal(a, layout_of(shape, CREMA_U8, blocks));
  assert_null(layout_of(shape, CREMA_F32, plain));
  assert_int_equal(a->bytes, 2 * 24 * 5 * 7 * sizeof(float));
  assert_true(crema_shape_equal(&a->shape, &shape));
  assert_int_equal(cr_dnnl_layout_order(a).kind, CR_DNNL_BLOCKED);
  assert_int_equal(cr_dnnl_layout_order(a).block, 8);
  assert_int_equal(cr_dnnl_layout_order(NULL).kind, CR_DNNL_PLAIN);
}

/* Layouts that are row-major memory under another name are plain. */
TEST(test_plain_in_disguise) {
  assert_null(layout_of((crema_shape){4, {2, 16, 1, 1}}, CREMA_F32, blocks));
  assert_null(layout_of((crema_shape){4, {2, 16, 1, 1}}, CREMA_F32, last));
  assert_null(layout_of((crema_shape){4, {2, 1, 5, 5}}, CREMA_F32, last));
  assert_non_null(layout_of((crema_shape){4, {2, 12, 1, 1}}, CREMA_F32, blocks));
}

/* To a private layout, to another and back: the values are the same and the pads are zero. */
TEST(test_round_trip) {
  enum { COUNT = 2 * 20 * 5 * 7, HELD = 2 * 24 * 5 * 7 };
  crema_shape shape = {4, {2, 20, 5, 7}};
  cr_format flat = {CREMA_F32, NULL}, blocked = {CREMA_F32, layout_of(shape, CREMA_F32, blocks)},
            tail = {CREMA_F32, layout_of(shape, CREMA_F32, last)};
  static float in[COUNT], a[HELD], b[HELD], out[COUNT];
  for (int i = 0; i < COUNT; ++i) in[i] = (float)(i + 1);
  memset(a, 0x7e, sizeof a);
  convert(COUNT, blocked, a, flat, in);
  /* Value (n, c, h, w) lies at ((n * 3 + c / 8) * 35 + h * 7 + w) * 8 + c % 8. */
  for (int n = 0; n < 2; ++n) {
    for (int c = 0; c < 24; ++c) {
      for (int p = 0; p < 35; ++p) {
        float want = c < 20 ? in[(n * 20 + c) * 35 + p] : 0.0f;
        assert_float_equal(a[((n * 3 + c / 8) * 35 + p) * 8 + c % 8], want, 0.0f);
      }
    }
  }
  convert(COUNT, tail, b, blocked, a);
  convert(COUNT, flat, out, tail, b);
  assert_memory_equal(in, out, sizeof in);
}

/* Pictures of three channels, of values of each size. */
TEST(test_pictures) {
  enum { PLANE = 61 * 71, COUNT = 2 * 3 * PLANE };
  static const crema_dtype types[] = {CREMA_F32, CREMA_U8, CREMA_BF16, CREMA_I32, CREMA_I8};
  const crema_shape shape = {4, {2, 3, 61, 71}};
  static unsigned char in[COUNT * 4], out[COUNT * 4 + 1], back[COUNT * 4];
  for (int i = 0; i < COUNT * 4; ++i) in[i] = (unsigned char)(i % 4 == 3 ? 1 : i * 7 + i / 251);
  for (size_t k = 0; k < sizeof types / sizeof types[0]; ++k) {
    const size_t size = crema_dtype_size(types[k]);
    const cr_format flat = {types[k], NULL}, tail = {types[k], layout_of(shape, types[k], last)};
    out[COUNT * size] = 0xa5;
    convert(COUNT, tail, out, flat, in);
    for (int i = 0; i < COUNT; ++i) {
      const int n = i / (3 * PLANE), p = i % (3 * PLANE) / 3, c = i % 3;
      const size_t from = (size_t)((n * 3 + c) * PLANE + p) * size;
      assert_memory_equal(out + (size_t)i * size, in + from, size);
    }
    assert_int_equal(out[COUNT * size], 0xa5);
    convert(COUNT, flat, back, tail, out);
    assert_memory_equal(back, in, COUNT * size);
  }
}

/* Floats in a private layout become halves in the same order in one step, and move from there to
 * plain memory and back: the bits are those of a conversion in plain memory. */
TEST(test_halves_in_the_same_order) {
  enum { COUNT = 2 * 20 * 5 * 7, HELD = 2 * 24 * 5 * 7 };
  const crema_dtype types[] = {CREMA_F16, CREMA_BF16};
  const cr_dnnl_order orders[] = {blocks, last};
  const crema_shape shape = {4, {2, 20, 5, 7}};
  static float in[COUNT], held[HELD], back[COUNT];
  static uint16_t want[COUNT], narrow[HELD], out[COUNT], again[HELD];
  for (int i = 0; i < COUNT; ++i) in[i] = (float)(i * i % 1013) * 0.37f - 150.0f;
  for (int k = 0; k < 4; ++k) {
    const crema_dtype type = types[k / 2];
    const cr_format wide = {CREMA_F32, layout_of(shape, CREMA_F32, orders[k % 2])};
    const cr_format half = {type, cr_layout_in(wide.layout, type)}, flat = {type, NULL};
    assert_ptr_equal(half.layout, layout_of(shape, type, orders[k % 2]));
    assert_ptr_equal(cr_layout_in(half.layout, CREMA_F32), wide.layout);
    convert(COUNT, flat, want, CR_PLAIN_F32, in);
    convert(COUNT, wide, held, CR_PLAIN_F32, in);
    memset(narrow, 0x7e, sizeof narrow);
    convert(COUNT, half, narrow, wide, held);
    convert(COUNT, flat, out, half, narrow);
    assert_memory_equal(out, want, sizeof want);
    memset(again, 0x7e, sizeof again);
    convert(COUNT, half, again, flat, out);
    assert_memory_equal(again, narrow, half.layout->bytes);
    memset(held, 0x7e, sizeof held);
    convert(COUNT, wide, held, half, narrow);
    convert(COUNT, CR_PLAIN_F32, back, wide, held);
    for (int i = 0; i < COUNT; ++i) {
      float value = 0.0f;
      cr_load_floats(type, want, i, 1, &value);
      assert_float_equal(back[i], value, 0.0f);
    }
  }
}

/* From each private order to each other, without a way through floats: every bit stays as it is,
 * those of NaN too, and pads are zero. */
TEST(test_halves_between_private_orders) {
  enum { COUNT = 2 * 20 * 9 * 9, HELD = 2 * 32 * 9 * 9, ORDERS = 3 };
  const cr_dnnl_order orders[ORDERS] = {blocks, {CR_DNNL_BLOCKED, 16}, last};
  const crema_shape shape = {4, {2, 20, 9, 9}};
  const cr_format flat = {CREMA_F16, NULL};
  static uint16_t in[COUNT], from[HELD], to[HELD], want[HELD], out[COUNT];
  for (int i = 0; i < COUNT; ++i) in[i] = (uint16_t)(i * 47);
  for (int k = 0; k < ORDERS * ORDERS; ++k) {
    const cr_format a = {CREMA_F16, layout_of(shape, CREMA_F16, orders[k % ORDERS])};
    const cr_format b = {CREMA_F16, layout_of(shape, CREMA_F16, orders[k / ORDERS])};
    if (k % ORDERS == k / ORDERS) continue;
    convert(COUNT, a, from, flat, in);
    convert(COUNT, b, want, flat, in);
    memset(to, 0x7e, sizeof to);
    convert(COUNT, b, to, a, from);
    assert_memory_equal(to, want, b.layout->bytes);
    convert(COUNT, flat, out, b, to);
    assert_memory_equal(out, in, sizeof in);
  }
}

/* What another layer is to read stays in the order in which it was written; no value is converted
 * more than once, and moved without need. */
TEST(test_settled_values_keep_their_order) {
  enum { COUNT = 2 * 20 * 5 * 7 };
  const crema_shape shape = {4, {2, 20, 5, 7}};
  const cr_format wide = {CREMA_F32, layout_of(shape, CREMA_F32, blocks)};
  crema_context *context = cr_host_context();
  crema_devptr data = {0};
  cr_tensor *tensor = NULL;
  float *value = NULL;
  ok(cr_tensor_create(CREMA_BF16, COUNT, &tensor));
  ok(cr_tensor_host_write_floats(tensor, &value));
  for (int i = 0; i < COUNT; ++i) value[i] = (float)i + 0.3f;
  ok(cr_tensor_update(tensor, context, wide, &data));
  ok(cr_tensor_settle(tensor, context));
  assert_int_equal(cr_tensor_conversions(tensor), 1);
  const cr_format head = cr_tensor_head(tensor);
  assert_int_equal(head.type, CREMA_BF16);
  assert_ptr_equal(head.layout, cr_layout_in(wide.layout, CREMA_BF16));
  ok(cr_tensor_read(tensor, context, wide, &data));
  assert_int_equal(cr_tensor_conversions(tensor), 2);
  const void *plain_values = NULL;
  ok(cr_tensor_host_read(tensor, &plain_values));
  for (int i = 0; i < COUNT; ++i) {
    assert_int_equal(((const uint16_t *)plain_values)[i], cr_f32_to_bf16((float)i + 0.3f));
  }
  cr_tensor_destroy(tensor);
}

/* Batch normalisation of halves that are held in blocks is the library's, in FLOAT if need be:
 * crema's own kernel takes halves as they are, but only row-major. */
TEST(test_order_is_kept_by_the_choice_of_kernel) {
  enum { COUNT = 2 * 20 * 5 * 7 };
  const crema_shape shape = {4, {2, 20, 5, 7}}, channels = {1, {20}};
  const cr_layout *layout = layout_of(shape, CREMA_F16, blocks);
  for (int held = 0; held < 2; ++held) {
    const cr_op_desc given = {
        .kind = CR_OP_BN_FWD_GLOBAL, .type = CREMA_F32, .u.bn = {.eps = 1e-5f}};
    const crema_shape *const shapes[] = {&shape, &shape, &channels, &channels};
    cr_op_desc *desc = NULL;
    cr_tensor *tensor[4] = {NULL};
    crema_devptr data = {0};
    cr_op *op = NULL;
    for (int i = 0; i < 4; ++i) {
      const crema_dtype type = i < 2 ? CREMA_F16 : CREMA_F32;
      ok(cr_tensor_create(type, i < 2 ? COUNT : 20, &tensor[i]));
    }
    if (held) {
      ok(cr_tensor_write(tensor[0], cr_host_context(), (cr_format){CREMA_F16, layout}, &data));
      memset((void *)data.address, 0, layout->bytes);
    }
    ok(cr_op_describe(&given, 4, shapes, NULL, &desc));
    ok(cr_op_create(&desc, &op));
    ok(cr_op_run(op, cr_host_context(), tensor, NULL));
    if (held) assert_string_equal(cr_op_kernel_name(op), "bn_fwd_global_dnnl");
    if (held) assert_non_null(cr_tensor_head(tensor[1]).layout);
    else assert_null(cr_tensor_head(tensor[1]).layout);
    cr_op_destroy(op);
    for (int i = 0; i < 4; ++i) cr_tensor_destroy(tensor[i]);
  }
}

/* Between layouts of the same values under different shapes. */
TEST(test_other_shape) {
  enum { COUNT = 2 * 16 * 4 * 4 };
  cr_format flat = {CREMA_F32, NULL};
  cr_format a_format = {CREMA_F32, layout_of((crema_shape){4, {2, 16, 4, 4}}, CREMA_F32, blocks)};
  cr_format b_format = {CREMA_F32, layout_of((crema_shape){4, {4, 8, 4, 4}}, CREMA_F32, last)};
  static float in[COUNT], a[COUNT], b[COUNT], out[COUNT];
  for (int i = 0; i < COUNT; ++i) in[i] = (float)i;
  convert(COUNT, a_format, a, flat, in);
  convert(COUNT, b_format, b, a_format, a);
  convert(COUNT, flat, out, b_format, b);
  assert_memory_equal(in, out, sizeof in);
}

TEST(test_element_types) {
  enum { COUNT = 1 * 16 * 2 * 2 };
  crema_shape shape = {4, {1, 16, 2, 2}};
  cr_format bytes = {CREMA_U8, layout_of(shape, CREMA_U8, blocks)};
  int32_t in[COUNT], out[COUNT];
  uint8_t held[COUNT];
  for (int i = 0; i < COUNT; ++i) in[i] = i * 3;
  convert(COUNT, bytes, held, (cr_format){CREMA_I32, NULL}, in);
  convert(COUNT, (cr_format){CREMA_I32, NULL}, out, bytes, held);
  assert_memory_equal(in, out, sizeof in);

  cr_format floats = {CREMA_F32, layout_of(shape, CREMA_F32, blocks)};
  double wide[COUNT], wide_out[COUNT];
  float narrow[COUNT];
  for (int i = 0; i < COUNT; ++i) wide[i] = i * 0.5;
  convert(COUNT, floats, narrow, (cr_format){CREMA_F64, NULL}, wide);
  convert(COUNT, (cr_format){CREMA_F64, NULL}, wide_out, floats, narrow);
  assert_memory_equal(wide, wide_out, sizeof wide);
}

TEST(test_notes) {
  crema_shape shape = {4, {1, 16, 2, 2}};
  cr_md md = NULL;
  const cr_layout *notes = NULL, *again = NULL;
  ok(cr_dnnl_md_ordered(&shape, CREMA_F32, blocks, &md));
  ok(cr_dnnl_layout_opaque(cr_cpu_device(), md, &shape, CREMA_U8, &notes));
  ok(cr_dnnl_layout_opaque(cr_cpu_device(), md, &shape, CREMA_U8, &again));
  cr_md_destroy(md);
  assert_ptr_equal(notes, again);
  assert_true(cr_dnnl_layout_is_opaque(notes));
  assert_ptr_not_equal(notes, layout_of(shape, CREMA_F32, blocks));
  assert_int_equal(notes->bytes, 64 * sizeof(float));
  float held[64];
  uint8_t out[64];
  memset(held, 1, sizeof held);
  memset(out, 1, sizeof out);
  cr_format note_format = {CREMA_U8, notes}, flat = {CREMA_U8, NULL};
  convert(64, flat, out, note_format, held);
  for (int i = 0; i < 64; ++i) assert_int_equal(out[i], 0);
  assert_int_equal(
      cr_dnnl_convert(cr_host_context(), 64, note_format, (crema_devptr){(uintptr_t)held}, flat,
                      (crema_devptr){(uintptr_t)out}),
      CREMA_E_INTERNAL);
}

static int requests;

static void *count_request(void *user, size_t bytes, size_t alignment) {
  (void)user;
  ++requests;
  return aligned_alloc(alignment, bytes);
}

static void give_back(void *user, void *memory) {
  (void)user;
  free(memory);
}

/* Plain memory in between is made only for what oneDNN cannot convert at once. */
TEST(test_memory_between) {
  enum { COUNT = 1 * 16 * 2 * 2 };
  static const crema_host_allocator counting = {count_request, give_back, NULL};
  crema_shape shape = {4, {1, 16, 2, 2}}, other = {4, {2, 8, 2, 2}};
  cr_format flat = {CREMA_F32, NULL}, halves = {CREMA_BF16, NULL}, doubles = {CREMA_F64, NULL};
  cr_format blocked = {CREMA_F32, layout_of(shape, CREMA_F32, blocks)};
  cr_format tail = {CREMA_F32, layout_of(shape, CREMA_F32, last)};
  cr_format elsewhere = {CREMA_F32, layout_of(other, CREMA_F32, last)};
  const struct {
    cr_format dst, src;
    int wanted;
  } rows[] = {{blocked, flat, 0},    {tail, blocked, 0},     {flat, blocked, 0},
              {halves, blocked, 0},  {blocked, halves, 0},   {doubles, blocked, 1},
              {blocked, doubles, 1}, {elsewhere, blocked, 1}};
  double in[COUNT] = {0}, out[COUNT];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    requests = 0;
    cr_host_set_allocator(&counting);
    convert(COUNT, rows[i].dst, out, rows[i].src, in);
    cr_host_set_allocator(NULL);
    if (requests != rows[i].wanted) fail_msg("row %zu: %d", i, requests);
  }
}

TEST(test_refusals) {
  cr_md md = NULL;
  crema_shape matrix = {2, {3, 4}}, empty = {4, {0, 8, 2, 2}}, shape = {4, {1, 16, 2, 2}};
  assert_int_equal(cr_dnnl_md_ordered(&matrix, CREMA_F32, blocks, &md), CREMA_E_UNSUPPORTED);
  assert_int_equal(cr_dnnl_md_ordered(&empty, CREMA_F32, plain, &md), CREMA_E_UNSUPPORTED);
  assert_int_equal(cr_dnnl_md_ordered(&matrix, CREMA_U32, plain, &md), CREMA_E_UNSUPPORTED);
  cr_format blocked = {CREMA_F32, layout_of(shape, CREMA_F32, blocks)};
  float in[65] = {0}, out[65];
  assert_int_equal(cr_dnnl_convert(cr_host_context(), 65, blocked, (crema_devptr){(uintptr_t)out},
                                   (cr_format){CREMA_F32, NULL}, (crema_devptr){(uintptr_t)in}),
                   CREMA_E_INTERNAL);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
