/* Shared code of the reference kernels, which are written in plain C.
 *
 * Every reference kernel works on values in row-major order and gives the same bits for any number
 * of threads. A sum is either computed by one thread or split into CR_REF_PARTS parts that are
 * added in order. */
#ifndef CR_DEVICE_CPU_KERNELS_REF_H
#define CR_DEVICE_CPU_KERNELS_REF_H

#include "device/backend/kernel.h"

enum {
  /* Loops over fewer elements than this run on one thread: starting threads costs more. */
  CR_REF_PARALLEL_MIN = 16384,
  /* The number of partial sums of long sums, for any number of threads. */
  CR_REF_PARTS = 64
};

/* The element of part `part` at which it begins, when `count` elements are cut into
 * CR_REF_PARTS parts of nearly equal length; part CR_REF_PARTS begins at `count`. */
static inline int64_t cr_ref_part(int64_t count, int part) {
  return count / CR_REF_PARTS * part + count % CR_REF_PARTS * part / CR_REF_PARTS;
}

#endif
