/* Functions that are compiled once per kind of vector instructions. */
#ifndef CR_CORE_CPU_DISPATCH_H
#define CR_CORE_CPU_DISPATCH_H

#include <stdbool.h>

/* The function is compiled for AVX-512, for AVX2 and for any processor; the loader picks one.
 * GCC makes a parallel region inside it its own function, without these instructions: give
 * the function a range instead and call it from the threads. Write `static` behind it: Clang gives
 * the function another name for the linker. Sanitizers are not ready when the loader asks, so they
 * get one version.
 *
 * cr_fuses: true if the version that runs has fused multiply-adds, so that __builtin_fmaf is one
 * instruction. Write fused products explicitly. If the compiler chooses which products to fuse, the
 * bits depend on an element's place in a vector. */
#ifdef __clang__
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define CR_CPU_ONE_VERSION
#endif
#elif defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define CR_CPU_ONE_VERSION
#endif
#if defined __x86_64__ && defined __linux__ && defined __GNUC__ && !defined CR_CPU_ONE_VERSION
#if __GNUC__ >= 12 && !defined __clang__
#define CR_CLONES __attribute__((target_clones("avx512f", "arch=x86-64-v3", "default")))
static inline bool cr_fuses(void) {
  return __builtin_cpu_supports("avx512f") || __builtin_cpu_supports("x86-64-v3");
}
#else
/* Clang 14 picks a wrong version if one is named by its architecture. */
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

/* A part of such a function: compiled for the same instructions and for its constant arguments. */
#ifdef __GNUC__
#define CR_INLINE static inline __attribute__((always_inline))
#else
#define CR_INLINE static inline
#endif

#endif
