/* Arithmetic of extents. */
#ifndef CR_DEVICE_CPU_KERNELS_EXTENT_H
#define CR_DEVICE_CPU_KERNELS_EXTENT_H

#include <stdint.h>

static inline int64_t cr_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t cr_most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* count / size, rounded up. */
static inline int64_t cr_pieces(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

/* `count` rounded up to a multiple of `size`. */
static inline int64_t cr_whole(int64_t count, int64_t size) {
  return cr_pieces(count, size) * size;
}

#endif
