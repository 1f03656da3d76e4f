/* Device functions of kernels, written once for the device and for the host.
 *
 * A device function computes one element, or one segment together with a thread block, from an
 * argument block. nvcc and OpenCL's compilers compile these headers for the device. A C compiler
 * compiles them for the tests, which run every device function on the host and compare it with the
 * kernels of the CPU. The headers use the common subset of C11, C++17 and OpenCL C 1.2. */
#ifndef CR_GPU_KERNELS_HD_H
#define CR_GPU_KERNELS_HD_H

#ifndef CR_OPENCL
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

#ifdef __CUDACC__
#define CR_HD __host__ __device__ __forceinline__
#else
#define CR_HD static inline
#endif

/* Marks pointers into a device's memory. Without a generic address space, as in OpenCL C 1.2, other
 * pointers are to a thread's own variables. */
#ifdef CR_OPENCL
#define CR_GLOBAL __global
#else
#define CR_GLOBAL
#endif

/* The type of sums, and the type of F64 values in memory. Some OpenCL devices have no double
 * precision (CR_NO_DOUBLE): their sums are floats, and F64 values are handled as bits. */
#ifdef CR_NO_DOUBLE
typedef float cr_wide;
typedef uint64_t cr_f64;
#else
typedef double cr_wide, cr_f64;
#endif

typedef union cr_float_bits {
  float value;
  uint32_t bits;
} cr_float_bits;

CR_HD float cr_hd_from_bits(uint32_t bits) {
  cr_float_bits both;
  both.bits = bits;
  return both.value;
}

CR_HD uint32_t cr_hd_bits(float value) {
  cr_float_bits both;
  both.value = value;
  return both.bits;
}

#ifndef CR_NO_DOUBLE
CR_HD cr_f64 cr_f64_of(cr_wide value) {
  return value;
}
CR_HD cr_wide cr_f64_value(cr_f64 value) {
  return value;
}
#else
/* The bits of the double that equals a float. */
CR_HD cr_f64 cr_f64_of(cr_wide value) {
  const uint32_t bits = cr_hd_bits(value);
  const uint64_t sign = (uint64_t)(bits >> 31) << 63;
  uint32_t mantissa = bits & 0x7fffffu;
  int exponent = (int)((bits >> 23) & 0xffu);
  if (exponent == 0xff) return sign | ((uint64_t)0x7ff << 52) | ((uint64_t)mantissa << 29);
  if (exponent == 0) {
    if (mantissa == 0) return sign;
    for (exponent = 1; (mantissa & 0x800000u) == 0; --exponent) mantissa <<= 1;
    mantissa &= 0x7fffffu;
  }
  return sign | ((uint64_t)(exponent + 896) << 52) | ((uint64_t)mantissa << 29);
}

/* The float nearest to a double of these bits, ties to even. */
CR_HD cr_wide cr_f64_value(cr_f64 value) {
  const uint32_t sign = (uint32_t)(value >> 63) << 31;
  const int exponent = (int)((value >> 52) & 0x7ffu) - 896;
  uint64_t mantissa = value & (((uint64_t)1 << 52) - 1);
  if (exponent == 0x7ff - 896) {
    return cr_hd_from_bits(sign | 0x7f800000u | (mantissa != 0 ? 0x400000u : 0));
  }
  if (exponent >= 0xff) return cr_hd_from_bits(sign | 0x7f800000u);
  if (exponent < -24) return cr_hd_from_bits(sign);
  /* The leading bit of a number that becomes subnormal; else the exponent. */
  mantissa |= (uint64_t)(exponent > 0 ? exponent : 1) << 52;
  const int shift = exponent > 0 ? 29 : 30 - exponent;
  const uint64_t rest = mantissa & (((uint64_t)1 << shift) - 1),
                 half_way = (uint64_t)1 << (shift - 1);
  uint32_t bits = (uint32_t)(mantissa >> shift);
  if (rest > half_way || (rest == half_way && (bits & 1u) != 0)) ++bits;
  return cr_hd_from_bits(sign | bits);
}
#endif

/* Quotient and remainder of numbers that are not negative. Division of 64-bit numbers is slow on a
 * GPU, and nearly all of ours fit 32 bits. */
typedef struct cr_quotient {
  int64_t whole, rest;
} cr_quotient;

CR_HD cr_quotient cr_divide(int64_t a, int64_t b) {
  cr_quotient q;
  if ((((uint64_t)a | (uint64_t)b) >> 32) == 0) {
    const uint32_t whole = (uint32_t)a / (uint32_t)b;
    q.whole = whole;
    q.rest = (uint32_t)a - whole * (uint32_t)b;
  } else {
    q.whole = a / b;
    q.rest = a - q.whole * b;
  }
  return q;
}

/* A divisor with the constants that replace the division by a multiplication (Granlund and
 * Montgomery, 1994), because a device has no instruction for integer division. */
typedef struct cr_divisor {
  int64_t by;
  uint32_t factor;
  int32_t shift; /* below 0: divided as any other number */
} cr_divisor;

/* On the host, before a launch. `by` 0: no division will use it. */
static inline cr_divisor cr_divisor_of(int64_t by) {
  cr_divisor d = {by, 0, -1};
  if (by < 1 || by > INT32_MAX) return d;
  d.shift = 0;
  while (((int64_t)1 << d.shift) < by) ++d.shift;
  const uint64_t rest = ((uint64_t)1 << d.shift) - (uint64_t)by;
  d.factor = (uint32_t)((rest << 32) / (uint64_t)by + 1);
  return d;
}

/* The device functions are compiled in several forms. Without CR_ONE_TYPE they take values of any
 * type. With it, all values have that type and no array has 2^31 elements or more. A check of the
 * type at each access, and of the size at each division, would keep the compiler from having
 * several loads under way. */
CR_HD cr_quotient cr_divide_by(int64_t a, cr_divisor d) {
  cr_quotient q;
#ifndef CR_ONE_TYPE
  if (d.shift < 0 || ((uint64_t)a >> 31) != 0) return cr_divide(a, d.by);
#endif
  const uint32_t low = (uint32_t)a, high = (uint32_t)(((uint64_t)low * d.factor) >> 32);
  const uint32_t whole = (high + low) >> d.shift;
  q.whole = whole;
  q.rest = low - whole * (uint32_t)d.by;
  return q;
}

/* Loops whose iterations may load before the sums of earlier iterations are complete; and loops of
 * one or two iterations, for which unrolling only costs registers. */
#ifdef __CUDA_ARCH__
#define CR_UNROLL _Pragma("unroll 4")
#define CR_NO_UNROLL _Pragma("unroll 1")
#else
#define CR_UNROLL
#define CR_NO_UNROLL
#endif

/* The element at which part `part` of `parts` begins, when `count` elements are cut into parts of
 * nearly equal length; part `parts` begins at `count`. There are fewer than 2^16 parts. */
CR_HD int64_t cr_part_begin(int64_t count, int64_t parts, int64_t part) {
#ifdef CR_ONE_TYPE
  const uint32_t all = (uint32_t)count, of = (uint32_t)parts, at = (uint32_t)part;
  return (int64_t)(all / of * at + all % of * at / of);
#else
  return count / parts * part + count % parts * part / parts;
#endif
}

/* Lets the host see a thread's earlier stores to page-locked memory before its later ones. OpenCL's
 * kernels have no such fence: their host reads the memory after it has waited. */
#ifdef __CUDA_ARCH__
#define CR_FENCE_FOR_HOST() __threadfence_system()
#else
#define CR_FENCE_FOR_HOST() ((void)0)
#endif

/* A kernel's report of a bad number, which the context's next wait returns. `what` is the number's
 * bits in the upper half and its index + 1 in the lower one. One store writes both, so the text is
 * right for any last thread. It is written last: the host may read it while the kernel runs. */
typedef struct cr_gpu_fault {
  uint64_t what; /* 0: nothing happened */
  int64_t count, limit;
  int32_t kind; /* a cr_gpu_fault_kind */
} cr_gpu_fault;

typedef enum cr_gpu_fault_kind {
  CR_GPU_FAULT_LABEL,
  CR_GPU_FAULT_INDEX,
  CR_GPU_FAULT_REGION, /* is of no image */
  CR_GPU_FAULT_SIDE,   /* of a region: not a number, or too far away */
  CR_GPU_FAULT_SAMPLES /* of a region: too many */
} cr_gpu_fault_kind;

CR_HD void cr_report(CR_GLOBAL cr_gpu_fault *fault, cr_gpu_fault_kind kind, float value,
                     int64_t position, int64_t count, int64_t limit) {
  fault->kind = (int32_t)kind;
  fault->count = count;
  fault->limit = limit;
  CR_FENCE_FOR_HOST();
  fault->what = ((uint64_t)cr_hd_bits(value) << 32) | (uint32_t)(position + 1);
}

enum { CR_HD_IGNORED = -1, CR_HD_BAD = -2 };

/* The class that `value` names, its fraction cut off; CR_HD_IGNORED when that is `ignore` and
 * `has_ignore`; CR_HD_BAD outside 0 ... classes - 1. */
CR_HD int64_t cr_class_of(float value, int64_t classes, bool has_ignore, int ignore) {
  if (!(value > -2147483648.0f && value < 2147483648.0f)) return CR_HD_BAD;
  const int64_t label = (int64_t)value;
  if (has_ignore && label == ignore) return CR_HD_IGNORED;
  return label >= 0 && label < classes ? label : (int64_t)CR_HD_BAD;
}

/* 1 / (1 + exp(-x)); the branch keeps the exponent negative, which avoids an overflow. */
CR_HD float cr_sigmoid_of(float x) {
  const float power = expf(-fabsf(x));
  return x < 0 ? power / (1 + power) : 1 / (1 + power);
}

#endif
