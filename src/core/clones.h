/* Functions that are compiled once per kind of vector instructions. */
#ifndef CR_CORE_CLONES_H
#define CR_CORE_CLONES_H

/* Compiled for AVX-512, for AVX2 and for any processor; the loader picks one. Without effect on a
 * parallel region inside, which GCC makes a function of its own: such a function is given a range
 * and called by the threads. Sanitizers are not ready yet when the loader asks. */
#if defined __x86_64__ && defined __GNUC__ && !defined __clang__ && \
    !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
#define CR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CR_CLONES
#endif

/* A part of such a function: compiled for its instructions, and with its constant arguments. */
#ifdef __GNUC__
#define CR_INLINE static inline __attribute__((always_inline))
#else
#define CR_INLINE static inline
#endif

#endif
