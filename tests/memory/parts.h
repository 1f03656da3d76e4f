/* Tensors that lie in another one's memory as a part of its values: what tests of them share. */
#ifndef CR_TESTS_MEMORY_PARTS_H
#define CR_TESTS_MEMORY_PARTS_H

#include <string.h>

#include "check.h"
#include "device/cpu/onednn/layout.h"
#include "device/device.h"
#include "memory/tensor.h"

enum { MOST = 4096 };

static const cr_dnnl_order blocks = {CR_DNNL_BLOCKED, 8};
static const cr_dnnl_order last = {CR_DNNL_LAST, 1};

static inline cr_format format_of(const crema_shape *shape, cr_dnnl_order order) {
  cr_md md = NULL;
  cr_format format = {CREMA_F32, NULL};
  ok(cr_dnnl_md_ordered(shape, CREMA_F32, order, &md));
  ok(cr_dnnl_layout(cr_cpu_device(), md, &format.layout));
  cr_md_destroy(md);
  return format;
}

static inline int64_t count_of(const crema_shape *shape) {
  return crema_shape_count(shape, 0, shape->axes);
}

static inline cr_tensor *make(const crema_shape *shape) {
  cr_tensor *tensor = NULL;
  ok(cr_tensor_create(CREMA_F32, count_of(shape), &tensor));
  return tensor;
}

/* Values that no other part has, in `format`. */
static inline void fill(cr_tensor *tensor, const crema_shape *shape, cr_format format, float base) {
  const cr_format plain = {CREMA_F32, NULL};
  crema_devptr data = {0};
  static float values[MOST];
  assert_true(count_of(shape) <= MOST);
  for (int64_t i = 0; i < count_of(shape); ++i) values[i] = base + (float)i;
  ok(cr_tensor_write(tensor, cr_host_context(), format, &data));
  ok(cr_cpu_device()->backend->convert(cr_host_context(), count_of(shape), format, data, plain,
                                       (crema_devptr){(uintptr_t)values}));
}

static inline void check_part(cr_tensor *tensor, const crema_shape *shape, float base) {
  const float *values = NULL;
  ok(cr_tensor_host_read_floats(tensor, &values));
  for (int64_t i = 0; i < count_of(shape); ++i) assert_true(values[i] == base + (float)i);
}

/* The values of `part` are those of `whole` from channel `at` on. */
static inline void check_within(cr_tensor *whole, const crema_shape *all, const crema_shape *part,
                                int64_t at, float base) {
  const float *values = NULL;
  const int64_t inner = crema_shape_count(all, 2, all->axes);
  ok(cr_tensor_host_read_floats(whole, &values));
  for (int64_t n = 0; n < part->dim[0]; ++n) {
    for (int64_t i = 0; i < part->dim[1] * inner; ++i) {
      const float found = values[(n * all->dim[1] + at) * inner + i];
      assert_true(found == base + (float)(n * part->dim[1] * inner + i));
    }
  }
}

/* `tensor` is read in `whole`. */
static inline bool read_there(cr_tensor *tensor, const crema_shape *shape, cr_tensor *whole,
                              const crema_shape *all, int axis, int64_t at) {
  const cr_part part = {.shape = *shape, .whole = *all, .axis = axis, .at = at};
  bool done = false;
  ok(cr_tensor_alias_set(tensor, whole, &part, true, &done));
  return done;
}

static inline bool set_alias(cr_tensor *tensor, const crema_shape *shape, cr_tensor *whole,
                             const crema_shape *all, int64_t at) {
  const cr_part part = {.shape = *shape, .whole = *all, .axis = 1, .at = at};
  bool done = false;
  ok(cr_tensor_alias_set(tensor, whole, &part, false, &done));
  return done;
}

static inline void say_complete(cr_tensor *whole) {
  cr_format format;
  crema_devptr data = {0};
  assert_true(cr_tensor_whole_format(whole, &format));
  ok(cr_tensor_write(whole, cr_host_context(), format, &data));
}

static inline uintptr_t address_of(cr_tensor *tensor) {
  crema_devptr data = {0};
  ok(cr_tensor_read(tensor, cr_host_context(), cr_tensor_head(tensor), &data));
  return data.address;
}

static inline int formats_of(const cr_tensor *tensor) {
  cr_tensor_held held;
  int count = 0;
  while (cr_tensor_held_at(tensor, count, &held)) ++count;
  return count;
}

static const crema_shape two = {4, {2, 8, 3, 5}}, inner_shape = {4, {2, 16, 3, 5}},
                         outer_shape = {4, {2, 24, 3, 5}};

/* a and b make `inner`; that and c make `outer`. */
typedef struct nest {
  cr_tensor *a, *b, *c, *inner, *outer;
} nest;

static inline void open_nest(nest *n) {
  *n = (nest){make(&two), make(&two), make(&two), make(&inner_shape), make(&outer_shape)};
  assert_true(set_alias(n->inner, &inner_shape, n->outer, &outer_shape, 0));
  assert_true(set_alias(n->c, &two, n->outer, &outer_shape, 16));
  assert_true(set_alias(n->a, &two, n->inner, &inner_shape, 0));
  assert_true(set_alias(n->b, &two, n->inner, &inner_shape, 8));
}

static inline void close_nest(nest *n) {
  cr_tensor_destroy(n->a);
  cr_tensor_destroy(n->outer);
  cr_tensor_destroy(n->inner);
  cr_tensor_destroy(n->b);
  cr_tensor_destroy(n->c);
}

static inline void fill_inner(nest *n) {
  fill(n->a, &two, format_of(&two, last), 1);
  fill(n->b, &two, format_of(&two, last), 1000);
  cr_tensor_alias_order(n->a, cr_cpu_device(), cr_tensor_head(n->a));
  ok(cr_tensor_alias_move(n->a, cr_host_context()));
  ok(cr_tensor_alias_move(n->b, cr_host_context()));
  say_complete(n->inner);
}

/* What a Slice does; false where the newest values of `whole` are elsewhere. */
static inline bool read_alias(cr_tensor *part, cr_tensor *whole) {
  cr_format format;
  crema_devptr data = {0};
  cr_tensor_alias_order(part, cr_cpu_device(), cr_tensor_head(whole));
  if (!cr_tensor_alias_can_read(part, whole)) return false;
  assert_true(cr_tensor_alias_format(part, &format));
  ok(cr_tensor_write(part, cr_host_context(), format, &data));
  return true;
}

#endif
