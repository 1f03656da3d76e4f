#include "crema/types.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/fail.h"

size_t crema_dtype_size(crema_dtype type) {
  switch (type) {
#define CR_SIZE(name, value, bytes, text) \
  case CREMA_##name: return bytes;
    CREMA_DTYPE_MAP(CR_SIZE)
#undef CR_SIZE
  }
  return 0;
}

const char *crema_dtype_name(crema_dtype type) {
  switch (type) {
#define CR_NAME(name, value, bytes, text) \
  case CREMA_##name: return text;
    CREMA_DTYPE_MAP(CR_NAME)
#undef CR_NAME
  }
  return "?";
}

int64_t crema_shape_count(const crema_shape *shape, int from, int to) {
  if (shape == NULL) return 0;
  int64_t count = 1;
  for (int i = from; i < to; ++i) count *= shape->dim[i];
  return count;
}

crema_status crema_shape_check(const crema_shape *shape) {
  CR_REQUIRE(shape);
  if (shape->axes < 0 || shape->axes > CREMA_MAX_AXES) {
    return cr_fail(CREMA_E_SHAPE, "a shape has 0 to %d axes, this one has %d", CREMA_MAX_AXES,
                   shape->axes);
  }
  /* A zero extent makes the count zero. The product of the non-zero extents must also fit, because
   * layers compute products over some of the axes. */
  int64_t limit = INT64_MAX / 8;
  int64_t count = 1;
  for (int i = 0; i < shape->axes; ++i) {
    int64_t extent = shape->dim[i];
    if (extent < 0) {
      return cr_fail(CREMA_E_SHAPE, "axis %d of a shape has the negative extent %" PRId64, i,
                     extent);
    }
    if (extent == 0) continue;
    if (count > limit / extent) {
      char text[256];
      return cr_fail(CREMA_E_SHAPE, "the shape %s has too many elements",
                     crema_shape_text(shape, text, sizeof text));
    }
    count *= extent;
  }
  return CREMA_OK;
}

bool crema_shape_equal(const crema_shape *a, const crema_shape *b) {
  if (a == NULL || b == NULL) return false;
  if (a->axes != b->axes) return false;
  for (int i = 0; i < a->axes; ++i) {
    if (a->dim[i] != b->dim[i]) return false;
  }
  return true;
}

crema_status crema_shape_axis(const crema_shape *shape, int axis, int *out) {
  CR_REQUIRE(shape);
  CR_REQUIRE(out);
  if (axis < -shape->axes || axis >= shape->axes) {
    return cr_fail(CREMA_E_RANGE, "axis %d is outside of a shape with %d axes", axis, shape->axes);
  }
  *out = axis < 0 ? axis + shape->axes : axis;
  return CREMA_OK;
}

/* False when the product does not fit, which a shape that was never checked can cause. */
static bool count_fits(const crema_shape *shape, int64_t *count) {
  bool fits = true;
  *count = 1;
  for (int i = 0; i < shape->axes && i < CREMA_MAX_AXES; ++i) {
    if (shape->dim[i] == 0) {
      *count = 0;
      return true;
    }
    fits = fits && !__builtin_mul_overflow(*count, shape->dim[i], count);
  }
  return fits;
}

const char *crema_shape_text(const crema_shape *shape, char *text, size_t size) {
  if (text == NULL || size == 0) return text;
  size_t used = 0;
  text[0] = '\0';
  if (shape == NULL) return text;
  for (int i = 0; i < shape->axes && i < CREMA_MAX_AXES; ++i) {
    int n = snprintf(text + used, size - used, "%" PRId64 " ", shape->dim[i]);
    if (n < 0 || (size_t)n >= size - used) return text;
    used += (size_t)n;
  }
  int64_t count;
  if (count_fits(shape, &count)) snprintf(text + used, size - used, "(%" PRId64 ")", count);
  else if (used > 0) text[used - 1] = '\0';
  return text;
}
