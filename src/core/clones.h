/* Functions that are compiled once per kind of vector instructions. */
#ifndef CR_CORE_CLONES_H
#define CR_CORE_CLONES_H

#include <stdbool.h>

/* Compiled for AVX-512, for AVX2 and for any processor; the loader picks one. Without effect on a
 * parallel region inside, which GCC makes a function of its own: such a function is given a range
 * and called by the threads. Sanitizers are not ready yet when the loader asks.
 *
 * cr_fuses: whether the one that runs has fused multiply-adds, which __builtin_fmaf is only then.
 * Results are the same bits wherever an element lies in a vector if it is written out; compilers
 * that may fuse by themselves do so differently where elements do not fill a vector. */
#if defined __x86_64__ && defined __GNUC__ && !defined __clang__ && \
    !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
#if __GNUC__ >= 12
#define CR_CLONES __attribute__((target_clones("avx512f", "arch=x86-64-v3", "default")))
static inline bool cr_fuses(void) {
  return __builtin_cpu_supports("avx512f") || __builtin_cpu_supports("x86-64-v3");
}
#else
#define CR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
static inline bool cr_fuses(void) {
  return false;
}
#endif
#else
#define CR_CLONES
static inline bool cr_fuses(void) {
#ifdef __FP_FAST_FMAF
  return true;
#else
  return false;
#endif
}
#endif

/* A part of such a function: compiled for its instructions, and with its constant arguments. */
#ifdef __GNUC__
#define CR_INLINE static inline __attribute__((always_inline))
#else
#define CR_INLINE static inline
#endif

#endif
