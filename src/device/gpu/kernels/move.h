/* Work that moves values: dropout, concat and slice, crop, permute, tile, gather; one thread per
 * element that is written. */
#ifndef CR_GPU_KERNELS_MOVE_H
#define CR_GPU_KERNELS_MOVE_H

#include "crema/types.h"
#include "device/gpu/kernels/pack.h"
#include "device/gpu/kernels/philox.h"

typedef struct cr_dropout_args {
  cr_hd_values x, out;
  CR_GLOBAL uint8_t *mask;           /* 1: kept */
  uint64_t seed, counter, threshold; /* the fraction `ratio` of all 2^32 words is below it */
  const CR_GLOBAL uint64_t *passes; /* see cr_hd_counter */
  float scale;
} cr_dropout_args;

/* Four elements have the four words of one call of the generator (Srivastava et al., 2014). */
CR_HD void cr_dropout_fwd_device(const void *args, int64_t i) {
  const cr_dropout_args *a = (const cr_dropout_args *)args;
  uint32_t word[4];
  cr_hd_philox(a->seed, cr_hd_counter(a->counter, a->passes), (uint64_t)(i / 4), word);
  const int k = (int)(i % 4);
  const uint32_t own = k == 0 ? word[0] : k == 1 ? word[1] : k == 2 ? word[2] : word[3];
  const bool kept = own >= a->threshold;
  a->mask[i] = kept ? 1 : 0;
  cr_put(a->out, i, kept ? cr_get(a->x, i) * a->scale : 0);
}

CR_HD void cr_dropout_fwd_pack(const void *args, int64_t i) {
  const cr_dropout_args *a = (const cr_dropout_args *)args;
  CR_GLOBAL uint32_t *mask = (CR_GLOBAL uint32_t *)(a->mask + i);
  cr_pack y = cr_get_pack(a->x, i);
  for (int four = 0; four < CR_PACK / 4; ++four) {
    uint32_t word[4], bytes = 0;
    cr_hd_philox(a->seed, cr_hd_counter(a->counter, a->passes), (uint64_t)(i / 4 + four), word);
    for (int k = 0; k < 4; ++k) {
      const bool kept = word[k] >= a->threshold;
      y.of[4 * four + k] = kept ? y.of[4 * four + k] * a->scale : 0;
      bytes |= (uint32_t)kept << (8 * k);
    }
    mask[four] = bytes;
  }
  cr_put_pack(a->out, i, y);
}

CR_HD float cr_dropout_bwd_device(const void *args, int64_t i) {
  const cr_dropout_args *a = (const cr_dropout_args *)args;
  const float x = cr_get(a->x, i);
  return a->mask[i] != 0 ? x * a->scale : 0;
}

CR_HD void cr_dropout_bwd_pack(const void *args, int64_t i) {
  const cr_dropout_args *a = (const cr_dropout_args *)args;
  const CR_GLOBAL uint32_t *mask = (const CR_GLOBAL uint32_t *)(a->mask + i);
  cr_pack x = cr_get_pack(a->x, i);
  for (int four = 0; four < CR_PACK / 4; ++four) {
    const uint32_t bytes = mask[four];
    for (int k = 0; k < 4; ++k) {
      const bool kept = ((bytes >> (8 * k)) & 0xffu) != 0;
      x.of[4 * four + k] = kept ? x.of[4 * four + k] * a->scale : 0;
    }
  }
  cr_put_pack(a->out, i, x);
}

/* The number of parts that one launch moves. */
enum { CR_GPU_PARTS = 8 };

/* Concat and slice: parts of the rows of a whole. */
typedef struct cr_parts_args {
  cr_hd_values whole;
  cr_hd_values part[CR_GPU_PARTS]; /* absent: not moved */
  int64_t begin[CR_GPU_PARTS + 1]; /* where each part begins in a row; then where the last ends */
  cr_divisor length;               /* of the parts of a row together */
  int64_t step;                    /* between the rows of the whole */
  int parts;                       /* at least 1 */
  bool joins;                      /* moves the parts into the whole */
} cr_parts_args;

/* Where an element of the parts lies. Number `i` counts through the parts of row 0, then of row 1,
 * and so on. */
typedef struct cr_moved_place {
  int part;
  int64_t in_whole, in_part;
} cr_moved_place;

CR_HD cr_moved_place cr_moved_place_of(const cr_parts_args *a, int64_t i) {
  const cr_quotient at = cr_divide_by(i, a->length);
  const int64_t column = a->begin[0] + at.rest;
  cr_moved_place place;
  int k = 0;
  while (k + 1 < a->parts && column >= a->begin[k + 1]) ++k;
  place.part = k;
  place.in_whole = at.whole * a->step + column;
  place.in_part = at.whole * (a->begin[k + 1] - a->begin[k]) + column - a->begin[k];
  return place;
}

CR_HD void cr_move_parts_device(const void *args, int64_t i) {
  const cr_parts_args *a = (const cr_parts_args *)args;
  const cr_moved_place at = cr_moved_place_of(a, i);
  const cr_hd_values part = a->part[at.part];
  if (part.at == NULL) return;
  if (a->joins) cr_put(a->whole, at.in_whole, cr_get(part, at.in_part));
  else cr_put(part, at.in_part, cr_get(a->whole, at.in_whole));
}

/* All lengths are multiples of a pack. */
CR_HD void cr_move_parts_pack(const void *args, int64_t i) {
  const cr_parts_args *a = (const cr_parts_args *)args;
  const cr_moved_place at = cr_moved_place_of(a, i);
  const cr_hd_values part = a->part[at.part];
  if (part.at == NULL) return;
  if (a->joins) cr_copy_pack(a->whole, at.in_whole, part, at.in_part);
  else cr_copy_pack(part, at.in_part, a->whole, at.in_whole);
}

/* Goes through the elements of `walked` in order; strides give the same element of the other array.
 */
typedef struct cr_walk_args {
  cr_hd_values from, out;
  int axes;
  int64_t dim[CREMA_MAX_AXES], stride[CREMA_MAX_AXES];
  int64_t low[CREMA_MAX_AXES], high[CREMA_MAX_AXES]; /* crop backward: the window in `dim` */
  int64_t base;
} cr_walk_args;

/* Crop and permute, forward: the source of element i of `out` is base + sum at[a] * stride[a]. */
CR_HD float cr_walk_read_device(const void *args, int64_t i) {
  const cr_walk_args *a = (const cr_walk_args *)args;
  int64_t from = a->base, rest = i;
  for (int k = a->axes - 1; k >= 0; --k) {
    const cr_quotient q = cr_divide(rest, a->dim[k]);
    from += q.rest * a->stride[k];
    rest = q.whole;
  }
  return cr_get(a->from, from);
}

/* Crop, backward: element i of the whole is 0 outside the window low <= at < high. */
CR_HD float cr_walk_window_device(const void *args, int64_t i) {
  const cr_walk_args *a = (const cr_walk_args *)args;
  int64_t from = 0, rest = i;
  bool inside = true;
  for (int k = a->axes - 1; k >= 0; --k) {
    const cr_quotient q = cr_divide(rest, a->dim[k]);
    if (q.rest < a->low[k] || q.rest >= a->high[k]) inside = false;
    from += (q.rest - a->low[k]) * a->stride[k];
    rest = q.whole;
  }
  return inside ? cr_get(a->from, from) : 0;
}

typedef struct cr_tile_args {
  cr_hd_values from, to;
  int64_t tiles, inner;
} cr_tile_args;

CR_HD void cr_tile_fwd_device(const void *args, int64_t i) {
  const cr_tile_args *a = (const cr_tile_args *)args;
  const cr_quotient at = cr_divide(i, a->inner);
  cr_put(a->to, i, cr_get(a->from, cr_divide(at.whole, a->tiles).whole * a->inner + at.rest));
}

CR_HD void cr_tile_bwd_device(const void *args, int64_t i) {
  const cr_tile_args *a = (const cr_tile_args *)args;
  const cr_quotient at = cr_divide(i, a->inner);
  const cr_hd_values from = cr_hd_values_from(a->from, at.whole * a->tiles * a->inner + at.rest);
  cr_wide sum = 0;
  for (int64_t k = 0; k < a->tiles; ++k) sum += (cr_wide)cr_get(from, k * a->inner);
  cr_put(a->to, i, (float)sum);
}

typedef struct cr_gather_args {
  cr_hd_values from, to;
  cr_hd_values bias; /* forward; absent: 0 */
  const CR_GLOBAL float *index;
  int64_t rows, width, count; /* of the table, of a row, of the indices */
  CR_GLOBAL cr_gpu_fault *fault;
} cr_gather_args;

/* The row that the `i`-th index names; -1, reported, when there is none. */
CR_HD int64_t cr_gather_row(const cr_gather_args *a, int64_t i) {
  const float value = a->index[i];
  if (value >= 0 && (cr_wide)value < (cr_wide)a->rows) return (int64_t)value;
  cr_report(a->fault, CR_GPU_FAULT_INDEX, value, i, a->count, a->rows);
  return -1;
}

CR_HD void cr_gather_fwd_device(const void *args, int64_t i) {
  const cr_gather_args *a = (const cr_gather_args *)args;
  const cr_quotient at = cr_divide(i, a->width);
  const int64_t row = cr_gather_row(a, at.whole);
  float y = row < 0 ? 0 : cr_get(a->from, row * a->width + at.rest);
  if (a->bias.at != NULL) y = y + cr_get(a->bias, at.rest);
  cr_put(a->to, i, y);
}

/* Column i of the table's gradient, which is in F32. One thread processes the indices in order, so
 * that the terms of repeated rows are added in a fixed order. */
CR_HD void cr_gather_bwd_device(const void *args, int64_t i) {
  const cr_gather_args *a = (const cr_gather_args *)args;
  CR_GLOBAL float *sum = (CR_GLOBAL float *)a->to.at;
  for (int64_t n = 0; n < a->count; ++n) {
    const int64_t row = cr_gather_row(a, n);
    if (row >= 0) sum[row * a->width + i] += cr_get(a->from, n * a->width + i);
  }
}

#endif
