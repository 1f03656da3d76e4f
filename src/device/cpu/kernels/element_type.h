/* The element type for which a reference kernel is compiled.
 *
 * Each ref_*.c is compiled once per element type of an op's values (src/CMakeLists.txt), with one
 * of CR_REF_F64, CR_REF_F32, CR_REF_F16 and CR_REF_BF16 defined. Values are read as cr_real, in
 * which everything is computed, and rounded when they are written. Arguments that ops.inc marks
 * with a plus are arrays of cr_real. <tgmath.h> gives the mathematical functions for either
 * cr_real. */
#ifndef CR_DEVICE_CPU_KERNELS_ELEMENT_TYPE_H
#define CR_DEVICE_CPU_KERNELS_ELEMENT_TYPE_H

#include <string.h>
#include <tgmath.h>

#include "device/backend/half.h"
#include "device/backend/kernel.h"
#include "device/cpu/kernels/plain_rows.h"
#include "device/cpu/kernels/ref.h"

#if defined CR_REF_F64

#define CR_REF_SUFFIX f64
#define CR_REF_ARITHMETIC CREMA_F64
#define CR_REF_VALUES CR_TYPE(F64)
typedef double cr_real;
typedef double cr_value;

#elif defined CR_REF_F32

#define CR_REF_SUFFIX f32
#define CR_REF_ARITHMETIC CREMA_F32
#define CR_REF_VALUES CR_TYPE(F32)
typedef float cr_real;
typedef float cr_value;

#elif defined CR_REF_F16 || defined CR_REF_BF16

#define CR_REF_ARITHMETIC CREMA_F32
typedef float cr_real;
/* A structure, so that nobody computes with the bits by mistake. */
typedef struct cr_value {
  uint16_t bits;
} cr_value;

#ifdef CR_REF_F16
#define CR_REF_SUFFIX f16
#define CR_REF_VALUES CR_TYPE(F16)
#define CR_REF_WIDEN cr_f16_to_f32
#define CR_REF_NARROW cr_f32_to_f16
#else
#define CR_REF_SUFFIX bf16
#define CR_REF_VALUES CR_TYPE(BF16)
#define CR_REF_WIDEN cr_bf16_to_f32
#define CR_REF_NARROW cr_f32_to_bf16
#endif

#else
#error "no element type is defined for the reference kernels"
#endif

/* ---- values -------------------------------------------------------------- */

/* Both are free of branches once inlined: loops over them are vectorised. */
#ifdef CR_REF_NARROW
static inline cr_real cr_get(const cr_value *x, int64_t i) {
  return CR_REF_WIDEN(x[i].bits);
}
static inline void cr_put(cr_value *y, int64_t i, cr_real value) {
  y[i].bits = CR_REF_NARROW(value);
}
#else
static inline cr_real cr_get(const cr_value *x, int64_t i) {
  return x[i];
}
static inline void cr_put(cr_value *y, int64_t i, cr_real value) {
  y[i] = value;
}
#endif

static inline void cr_get_all(const cr_value *x, int64_t count, cr_real *to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = cr_get(x, i);
}

static inline void cr_put_all(const cr_real *x, int64_t count, cr_value *to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) cr_put(to, i, x[i]);
}

/* Argument i as values, and as numbers of the arithmetic's type; NULL when absent. */
static inline cr_value *cr_as_values(const crema_devptr *buffer, int i) {
  return (cr_value *)buffer[i].address; /* NOLINT: device addresses are host addresses here */
}
static inline cr_real *cr_as_reals(const crema_devptr *buffer, int i) {
  return (cr_real *)buffer[i].address; /* NOLINT: as above */
}

/* ---- sums over values that are in memory --------------------------------- */

/* Many terms are added to one value in full precision: in the array itself where it has that, else
 * in spare memory, of which that array needs this much. */
static inline size_t cr_sums_bytes(int64_t count) {
  return sizeof(cr_value) == sizeof(cr_real) ? 0 : (size_t)count * sizeof(cr_real);
}

/* The sums, `count` of them, begun as 0 or, to go on with, as `values`. */
static inline cr_real *cr_sums_begin(cr_value *values, int64_t count, bool go_on, cr_real *spare) {
  const bool direct = cr_sums_bytes(1) == 0;
  cr_real *sums = direct ? (cr_real *)values : spare;
  if (!go_on) {
    memset(sums, 0, (size_t)count * sizeof *sums);
  } else if (!direct) {
    cr_get_all(values, count, sums);
  }
  return sums;
}

static inline void cr_sums_end(const cr_real *sums, int64_t count, cr_value *values) {
  if (cr_sums_bytes(1) > 0) cr_put_all(sums, count, values);
}

/* ---- names --------------------------------------------------------------- */

/* The name of a function of this element type that several files share: name_f16. */
#define CR_REF_NAME(name) CR_REF_JOIN(name, CR_REF_SUFFIX)
#define CR_REF_JOIN(name, suffix) CR_REF_PASTE(name, suffix)
#define CR_REF_PASTE(name, suffix) name##_##suffix

/* Defines the kernel cr_<row>_<type>_ref; further fields of cr_kernel follow. */
#define CR_REF_KERNEL(row, OP, ...) CR_REF_KERNEL_TYPED(row, CR_REF_SUFFIX, OP, __VA_ARGS__)
#define CR_REF_KERNEL_TYPED(row, suffix, OP, ...) CR_REF_KERNEL_AS(row, suffix, OP, __VA_ARGS__)
#define CR_REF_KERNEL_AS(row, suffix, OP, ...)                                  \
  const cr_kernel cr_##row##_##suffix##_ref = {.name = #row "_" #suffix "_ref", \
                                               .op = CR_OP_##OP,                \
                                               .type = CR_REF_ARITHMETIC,       \
                                               .types = CR_REF_VALUES,          \
                                               __VA_ARGS__}

#endif
