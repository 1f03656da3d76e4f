/* What the reference kernels, written in plain C, share.
 *
 * Every reference kernel works on f32 values in row-major order, unless its file says otherwise,
 * and gives the same bits for any number of threads: a sum is either made by one thread or split
 * into CR_PLAIN_PARTS parts that are added in order. */
#ifndef CR_DEVICE_CPU_REF_H
#define CR_DEVICE_CPU_REF_H

#include "device/backend/kernel.h"

enum {
  /* Loops over fewer elements than this run on one thread: starting threads costs more. */
  CR_PLAIN_PARALLEL_MIN = 16384,
  /* Long sums are made of this many partial sums, whatever the number of threads. */
  CR_PLAIN_PARTS = 64
};

/* A shape seen as (outer, channels, inner), row-major. */
typedef struct cr_ocs {
  int64_t outer, channels, inner;
} cr_ocs;

/* The number of elements of argument i; 0 when it is absent. */
int64_t cr_ref_count(const cr_plan *plan, int i);

/* Argument i as (dim[0] ... dim[axis - 1], dim[axis], dim[axis + 1] ...). A missing axis has
 * extent 1. */
cr_ocs cr_ref_split(const cr_plan *plan, int i, int axis);

/* The element of part `part` at which it begins, when `count` elements are cut into
 * CR_PLAIN_PARTS parts of nearly equal length; part CR_PLAIN_PARTS begins at `count`. */
static inline int64_t cr_ref_part(int64_t count, int part) {
  return count / CR_PLAIN_PARTS * part + count % CR_PLAIN_PARTS * part / CR_PLAIN_PARTS;
}

#endif
