/* The element type for which a plain kernel is compiled.
 *
 * Each plain kernel is compiled with CR_REF_F64 and with CR_REF_F32 defined (src/CMakeLists.txt).
 * Values, numbers and sums are cr_real. Arguments that ops.inc marks with a plus are also arrays of
 * cr_real. The header <tgmath.h> has the mathematical functions for both types. */
#ifndef CR_DEVICE_CPU_KERNELS_ELEMENT_TYPE_H
#define CR_DEVICE_CPU_KERNELS_ELEMENT_TYPE_H

#include <string.h>
#include <tgmath.h>

#include "core/cpu_dispatch.h"
#include "device/backend/kernel.h"
#include "device/cpu/kernels/plain_rows.h"
#include "device/cpu/kernels/ref.h"

/* CR_REF_CLONES: the function is compiled for several kinds of vectors in F32
 * (core/cpu_dispatch.h). */
#if defined CR_REF_F64

#define CR_REF_SUFFIX f64
#define CR_REF_ARITHMETIC CREMA_F64
#define CR_REF_VALUES CR_TYPE(F64)
#define CR_REF_CLONES
typedef double cr_real;
typedef double cr_value;

#elif defined CR_REF_F32

#define CR_REF_SUFFIX f32
#define CR_REF_ARITHMETIC CREMA_F32
#define CR_REF_VALUES CR_TYPE(F32)
#define CR_REF_CLONES CR_CLONES
typedef float cr_real;
typedef float cr_value;

#else
#error "no element type is defined for the plain kernels"
#endif

static inline cr_real cr_get(const cr_value *x, int64_t i) {
  return x[i];
}
static inline void cr_put(cr_value *y, int64_t i, cr_real value) {
  y[i] = value;
}

static inline void cr_get_all(const cr_value *x, int64_t count, cr_real *to) {
  memcpy(to, x, (size_t)count * sizeof *to);
}

static inline void cr_put_all(const cr_real *x, int64_t count, cr_value *to) {
  memcpy(to, x, (size_t)count * sizeof *to);
}

/* Argument i as values, and as numbers of the arithmetic's type; NULL when absent. */
static inline cr_value *cr_as_values(const crema_devptr *buffer, int i) {
  return (cr_value *)buffer[i].address; /* NOLINT: device addresses are host addresses here */
}
static inline cr_real *cr_as_reals(const crema_devptr *buffer, int i) {
  return (cr_real *)buffer[i].address; /* NOLINT: as above */
}

/* Names: */

/* The name of a function of this element type that several files share: name_f32. */
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
