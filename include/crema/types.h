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

/* name, value, bytes an element, text. The first six values are those of the NVIDIA dialect's
 * `Type` enum. A bool is a byte: 0 is false, all else true. */
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

/* Bytes an element of `type` takes; 0 for foreign values. */
CREMA_API size_t crema_dtype_size(crema_dtype type);

/* The type's name, such as "float"; "?" for foreign values. Static storage. */
CREMA_API const char *crema_dtype_name(crema_dtype type);

/* The most axes that a shape can have. */
enum { CREMA_MAX_AXES = 32 };

/* Extents, outermost first. No axes: a scalar of one element. */
typedef struct crema_shape {
  int axes;                    /* how many are used */
  int64_t dim[CREMA_MAX_AXES]; /* each at least 0 */
} crema_shape;

/* Product of the extents from axis `from` up to, not including, axis `to`. */
CREMA_API int64_t crema_shape_count(const crema_shape *shape, int from, int to);

/* Checks 0 <= axes <= CREMA_MAX_AXES, extents >= 0, and that the count fits an
 * int64_t when multiplied by 8 bytes. Errors: CREMA_E_SHAPE. */
CREMA_API crema_status crema_shape_check(const crema_shape *shape) CREMA_MUST_USE;

/* Whether axes and extents of `a` and `b` are the same. */
CREMA_API bool crema_shape_equal(const crema_shape *a, const crema_shape *b);

/* Resolves a possibly negative axis (-1: the last). Errors: CREMA_E_RANGE. */
CREMA_API crema_status crema_shape_axis(const crema_shape *shape, int axis,
                                        int *out) CREMA_MUST_USE;

/* Writes the shape as "2 3 4 (24)" into `text` of `size` bytes, without the "(...)" when the number
 * of elements does not fit; returns `text`. */
CREMA_API const char *crema_shape_text(const crema_shape *shape, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
