/* Element types and shapes. */
#ifndef CREMA_TYPES_H
#define CREMA_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element types: name, value, bytes per element, text. The first six values match the `Type` enum
 * of NVIDIA's Caffe. A bool is one byte: 0 is false, any other value is true. */
#define CREMA_DTYPE_MAP(X)  \
  X(F64, 0, 8, "double")    \
  X(F32, 1, 4, "float")     \
  X(F16, 2, 2, "float16")   \
  X(I32, 3, 4, "int")       \
  X(U32, 4, 4, "uint")      \
  X(BOOL, 5, 1, "bool")     \
  X(BF16, 6, 2, "bfloat16") \
  X(I8, 7, 1, "int8")       \
  X(U8, 8, 1, "uint8")

typedef enum crema_dtype {
#define CREMA_DTYPE_ENUM(name, value, bytes, text) CREMA_##name = value,
  CREMA_DTYPE_MAP(CREMA_DTYPE_ENUM)
#undef CREMA_DTYPE_ENUM
} crema_dtype;

/* The size of an element of `type` in bytes; 0 for an unknown value. */
CREMA_API size_t crema_dtype_size(crema_dtype type);

/* The type's name, such as "float"; "?" for an unknown value. Static storage. */
CREMA_API const char *crema_dtype_name(crema_dtype type);

/* The maximum number of axes of a shape. */
enum { CREMA_MAX_AXES = 32 };

/* The extents of an array, outermost axis first. Without axes it is a scalar: one element. */
typedef struct crema_shape {
  int axes;                    /* number of axes in use */
  int64_t dim[CREMA_MAX_AXES]; /* each at least 0 */
} crema_shape;

/* The product of the extents of axes `from` (inclusive) to `to` (exclusive). */
CREMA_API int64_t crema_shape_count(const crema_shape *shape, int from, int to);

/* Checks that 0 <= axes <= CREMA_MAX_AXES, that no extent is negative, and that the element count
 * times 8 bytes fits in an int64_t. Errors: CREMA_E_SHAPE. */
CREMA_API crema_status crema_shape_check(const crema_shape *shape) CREMA_MUST_USE;

/* Whether `a` and `b` have the same number of axes and the same extents. */
CREMA_API bool crema_shape_equal(const crema_shape *a, const crema_shape *b);

/* Resolves `axis`, which may be negative (-1: the last axis), to an index in *out. Errors:
 * CREMA_E_RANGE. */
CREMA_API crema_status crema_shape_axis(const crema_shape *shape, int axis,
                                        int *out) CREMA_MUST_USE;

/* Writes the shape to `text`, of `size` bytes, in the form "2 3 4 (24)" and returns `text`. The
 * element count in parentheses is omitted if it overflows an int64_t. */
CREMA_API const char *crema_shape_text(const crema_shape *shape, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
