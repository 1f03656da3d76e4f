/* Tensors on a back end whose only private layout is the reverse order. */
#ifndef CR_TESTS_MEMORY_REVERSED_FIXTURE_H
#define CR_TESTS_MEMORY_REVERSED_FIXTURE_H

#include "check.h"
#include "core/fail.h"
#include "device/device.h"
#include "device/registry.h"
#include "memory/tensor.h"
#include "memory/tensor_help.h"

/* A back end on host memory with private layouts: values in reverse order. Its conversions are
 * counted, so that tests see what was converted and what was not. */
typedef struct fixture {
  cr_backend backend;
  crema_device device;
  crema_context *context;
  cr_layout reversed;
  cr_layout reversed_double;
} fixture;

static int conversions;
static bool conversions_fail;
static void (*during_conversion)(void); /* NULL: nothing happens meanwhile */

static inline double get(crema_dtype type, uintptr_t memory, int64_t i) {
  return type == CREMA_F64 ? ((const double *)memory)[i] : (double)((const float *)memory)[i];
}

static inline void set(crema_dtype type, uintptr_t memory, int64_t i, double value) {
  if (type == CREMA_F64) {
    ((double *)memory)[i] = value;
  } else {
    ((float *)memory)[i] = (float)value;
  }
}

static inline crema_status convert(crema_context *context, int64_t count, cr_format dst_format,
                                   crema_devptr dst, cr_format src_format, crema_devptr src) {
  (void)context;
  if (conversions_fail) return cr_fail(CREMA_E_DEVICE, "injected");
  if (dst_format.type != src_format.type &&
      (dst_format.layout != NULL || src_format.layout != NULL)) {
    return cr_fail(CREMA_E_INTERNAL, "type and layout must not change at once");
  }
  if (during_conversion != NULL) during_conversion();
  ++conversions;
  for (int64_t i = 0; i < count; ++i) {
    double value = get(src_format.type, src.address, src_format.layout != NULL ? count - 1 - i : i);
    set(dst_format.type, dst.address, dst_format.layout != NULL ? count - 1 - i : i, value);
  }
  return CREMA_OK;
}

/* The same with layouts of one order that may change their type at once. */
static inline crema_status convert_in_order(crema_context *context, int64_t count,
                                            cr_format dst_format, crema_devptr dst,
                                            cr_format src_format, crema_devptr src) {
  const bool held = dst_format.layout != NULL && src_format.layout != NULL;
  if (held) dst_format.layout = src_format.layout = NULL;
  return convert(context, count, dst_format, dst, src_format, src);
}

enum { COUNT = 5 };

static inline int set_up(void **state) {
  static fixture f;
  conversions = 0;
  conversions_fail = false;
  during_conversion = NULL;
  f.backend = cr_backend_cpu;
  f.backend.convert = convert;
  f.backend.same_order = NULL;
  f.device = (crema_device){.backend = &f.backend};
  f.reversed = (cr_layout){.device = &f.device,
                           .type = CREMA_F32,
                           .shape = {.axes = 1, .dim = {COUNT}},
                           .bytes = COUNT * sizeof(float)};
  f.reversed_double = f.reversed;
  f.reversed_double.type = CREMA_F64;
  f.reversed_double.bytes = COUNT * sizeof(double);
  *state = &f;
  return crema_context_create(&f.device, 1, &f.context) == CREMA_OK ? 0 : -1;
}

static inline int tear_down(void **state) {
  fixture *f = *state;
  crema_context_destroy(f->context);
  return 0;
}

static inline cr_tensor *new_tensor(int64_t count) {
  cr_tensor *tensor = NULL;
  ok(cr_tensor_create(CREMA_F32, count, &tensor));
  return tensor;
}

static inline const float *read_floats(fixture *f, cr_tensor *tensor, cr_format format) {
  crema_devptr out = {0};
  ok(cr_tensor_read(tensor, f->context, format, &out));
  assert_true(out.address != 0);
  assert_int_equal(out.address % 64, 0);
  return (const float *)out.address;
}

static inline void write_counting(fixture *f, cr_tensor *tensor, float start) {
  crema_devptr out = {0};
  ok(cr_tensor_write(tensor, f->context, CR_PLAIN_F32, &out));
  for (int64_t i = 0; i < cr_tensor_count(tensor); ++i) {
    ((float *)out.address)[i] = start + (float)i;
  }
}

#define FIXTURE_TEST(name) TEST_BETWEEN(name, set_up, tear_down)

#endif
