/* Gaussian filtering of values at points of a feature space, in linear time: the permutohedral
 * lattice (Adams, Baek and Davis, "Fast high-dimensional filtering using the permutohedral
 * lattice", 2010). Values are spread over the corners of their points' simplices, blurred along the
 * axes of the lattice, and read back. */
#ifndef CR_LAYERS_LATTICE_H
#define CR_LAYERS_LATTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema/status.h"

enum { CR_LATTICE_MOST_AXES = 5 };

/* A lattice point in a hash table: its index, -1: none, and the sum that its place is found by. */
typedef struct cr_lattice_slot {
  int32_t index;
  uint32_t sum;
} cr_lattice_slot;

/* Lattice points by their coordinates. */
typedef struct cr_lattice_table {
  int64_t corners;       /* lattice points in use */
  int64_t room;          /* for lattice points, of the most axes */
  int32_t *key;          /* corners x axes: coordinates */
  cr_lattice_slot *slot; /* twice as many */
} cr_lattice_table;

/* Consecutive points with their lattice points: the unit of work of one thread. A lattice point has
 * a row of values in each band that meets it. */
typedef struct cr_lattice_band {
  cr_lattice_table table;
  int32_t *place; /* the numbers of its lattice points in `all` */
  size_t places;  /* that there is room for */
  int64_t row;    /* of its first lattice point, among the rows of all bands */
} cr_lattice_band;

/* Zero-initialise. Memory is kept for the next lattice. */
typedef struct cr_lattice {
  int axes;         /* of the space of features */
  int64_t points;   /* that have values */
  int64_t per_band; /* points; the last band may have fewer */
  int64_t bands;
  cr_lattice_band *band;
  int64_t room;         /* for bands */
  int32_t *corner;      /* points x (axes + 1): indices of the band's lattice points */
  float *share;         /* of a point in each of its corners; they add up to 1 */
  size_t shares;        /* that there is room for */
  cr_lattice_table all; /* the lattice points of all bands */
  int32_t *next;        /* (axes + 1) x corners x 2: neighbours along each axis; `corners`: none */
  int32_t *begin;       /* of each lattice point, its first number in `row`; corners + 1 */
  int32_t *row;         /* the rows of each lattice point */
  int64_t rows;         /* of all bands */
  size_t nexts, begins, row_room; /* that there is room for */
  int width;                      /* numbers of each point that is being filtered */
  float *value[2];                /* of lattice points, behind them zeros; in turn */
  float *own[2];                  /* the bands' rows: values to read and sums of added values */
  size_t values, owns;            /* that there is room for */
  double *wide;                   /* the values of lattice points, for each thread twice */
  size_t wides;                   /* that there is room for */
} cr_lattice;

/* Makes a lattice for `points` points with `axes` features each, in units of the deviation, in
 * bands of `per_band` points (0: one band), with `threads` threads. Replaces the lattice's old
 * points. Errors: CREMA_E_RANGE (a feature that is nan or above 1,000,000, or too many points),
 * CREMA_E_NO_MEMORY. */
crema_status cr_lattice_make(cr_lattice *lattice, const float *feature, int64_t points, int axes,
                             int64_t per_band, int workers) CREMA_MUST_USE;
/* out[i] = about the sum over k of exp(-|f_i - f_k|^2 / 2) * in[k], up to a factor that is the same
 * for all; `width` numbers for each point. The bits depend on the bands, but not on the threads.
 * With `reverse`, the axes are blurred in the reverse order: the transposed sums, for gradients.
 * Errors: CREMA_E_NO_MEMORY. */
crema_status cr_lattice_filter(cr_lattice *lattice, const float *in, int width, int workers,
                               bool reverse, float *out) CREMA_MUST_USE;

/* The same for doubles. */
crema_status cr_lattice_filter_wide(cr_lattice *lattice, const double *in, int width, int workers,
                                    bool reverse, double *out) CREMA_MUST_USE;

/* The same in steps: added values are blurred and can then be read, while other values are added
 * for the next time. Widths of 8, 16, 24 and 32 are the fastest. */
crema_status cr_lattice_begin(cr_lattice *lattice, int width) CREMA_MUST_USE;
/* Adds the values of the points first ... first + count - 1, which are of one band. Several threads
 * may add at a time, each to its own band. */
void cr_lattice_add(cr_lattice *lattice, int64_t first, int64_t count, const float *in);
crema_status cr_lattice_blur(cr_lattice *lattice, int workers, bool reverse) CREMA_MUST_USE;
/* out = in + the sums of these points, which are of one band, each times its `weight`. `in` and
 * `out` may be one array. */
void cr_lattice_read(const cr_lattice *lattice, int64_t first, int64_t count, const float *weight,
                     const float *in, float *out);
void cr_lattice_free(cr_lattice *lattice);

#endif
