/* Transposes matrices through registers: vectors of 8 for kernels that have their own loops, and a
 * full matrix in blocks of 4 x 4. */
#ifndef CR_DEVICE_CPU_KERNELS_TRANSPOSE_H
#define CR_DEVICE_CPU_KERNELS_TRANSPOSE_H

#include "core/cpu_dispatch.h"
#include "device/cpu/kernels/element_type.h"

enum { CR_QUAD = 4, CR_EIGHT = 8 };

typedef cr_real cr_quad
    __attribute__((vector_size(CR_QUAD * sizeof(cr_real)), aligned(sizeof(cr_real)), may_alias));
typedef cr_real cr_eight
    __attribute__((vector_size(CR_EIGHT * sizeof(cr_real)), aligned(sizeof(cr_real)), may_alias));

/* By address, because the calling convention for such vectors depends on the processor. */
CR_INLINE void cr_get_quads(const cr_real *low, const cr_real *high, cr_eight *out) {
  const cr_quad a = *(const cr_quad *)low, b = *(const cr_quad *)high;
  *out = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
}

/* Transposes two 4 x 4 blocks: one in the lower halves of four vectors, one in the upper halves. */
CR_INLINE void cr_turn_eights(cr_eight *v) {
  const cr_eight a = __builtin_shufflevector(v[0], v[1], 0, 8, 1, 9, 4, 12, 5, 13);
  const cr_eight b = __builtin_shufflevector(v[2], v[3], 0, 8, 1, 9, 4, 12, 5, 13);
  const cr_eight c = __builtin_shufflevector(v[0], v[1], 2, 10, 3, 11, 6, 14, 7, 15);
  const cr_eight d = __builtin_shufflevector(v[2], v[3], 2, 10, 3, 11, 6, 14, 7, 15);
  v[0] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
  v[1] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  v[2] = __builtin_shufflevector(c, d, 0, 1, 8, 9, 4, 5, 12, 13);
  v[3] = __builtin_shufflevector(c, d, 2, 3, 10, 11, 6, 7, 14, 15);
}

/* Writes the transpose of `height` rows of `width` values. `from_step` and `to_step` are the
 * distances of rows, in values. */
CR_INLINE void cr_transpose(int64_t height, int64_t width, const cr_real *from, int64_t from_step,
                            cr_real *to, int64_t to_step) {
  const int64_t rows = height - height % CR_EIGHT, columns = width - width % CR_QUAD;
  for (int64_t i = 0; i < rows; i += CR_EIGHT) {
    for (int64_t j = 0; j < columns; j += CR_QUAD) {
      const cr_real *at = from + i * from_step + j;
      cr_eight v[CR_QUAD];
      for (int k = 0; k < CR_QUAD; ++k) {
        cr_get_quads(at + k * from_step, at + (k + CR_QUAD) * from_step, &v[k]);
      }
      cr_turn_eights(v);
      for (int k = 0; k < CR_QUAD; ++k) *(cr_eight *)(to + (j + k) * to_step + i) = v[k];
    }
  }
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = i < rows ? columns : 0; j < width; ++j) {
      to[j * to_step + i] = from[i * from_step + j];
    }
  }
}

#endif
