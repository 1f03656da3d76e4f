/* Gaussian filtering of values that lie in a space of features, in linear time: the permutohedral
 * lattice (Adams, Baek and Davis, "Fast high-dimensional filtering using the permutohedral
 * lattice", 2010). Values are spread over the corners of the simplices that their points lie in,
 * blurred along the axes of the lattice, and read again. */
#ifndef CR_LAYERS_LATTICE_H
#define CR_LAYERS_LATTICE_H

#include <stddef.h>
#include <stdint.h>

#include "crema/status.h"

enum { CR_LATTICE_MOST_AXES = 5 };

/* Zero-initialise. Memory is kept for the next lattice. */
typedef struct cr_lattice {
  int axes;        /* of the space of features */
  int64_t points;  /* that have values */
  int32_t *corner; /* points x (axes + 1): indices of lattice points */
  float *share;    /* of a point in each of its corners; they add up to 1 */
  size_t shares;   /* that there is room for */
  int64_t corners; /* lattice points in use */
  int32_t *key;    /* corners x axes: coordinates */
  int32_t *next;   /* (axes + 1) x corners x 2: neighbours along each axis; `corners`: none */
  int64_t room;    /* for lattice points, of the most axes */
  int32_t *slot;   /* a hash table of indices of lattice points, twice as many; -1: empty */
  int width;       /* numbers of each point that is being filtered */
  float *value[2]; /* of lattice points, behind them zeros; in turn */
  size_t values;   /* that there is room for */
} cr_lattice;

/* Makes a lattice for `points` points with `axes` features each, in units of the deviation. What
 * the lattice was made of before is given up. Errors: CREMA_E_RANGE (a feature that is nan or above
 * 1,000,000, or too many points), CREMA_E_NO_MEMORY. */
crema_status cr_lattice_make(cr_lattice *lattice, const float *feature, int64_t points,
                             int axes) CREMA_MUST_USE;
/* out[i] = about the sum over k of exp(-|f_i - f_k|^2 / 2) * in[k], up to a factor that is the same
 * for all; `width` numbers for each point. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_lattice_filter(cr_lattice *lattice, const float *in, int width,
                               float *out) CREMA_MUST_USE;

/* The same in steps: what is added is blurred and can then be read, while other values are added
 * for the next time. Widths of 8, 16, 24 and 32 are the fastest. */
crema_status cr_lattice_begin(cr_lattice *lattice, int width) CREMA_MUST_USE;
/* Adds the values of the points first ... first + count - 1. */
void cr_lattice_add(cr_lattice *lattice, int64_t first, int64_t count, const float *in);
void cr_lattice_blur(cr_lattice *lattice);
/* out = in + the sums of these points, each times its `weight`. `in` and `out` may be one array. */
void cr_lattice_read(const cr_lattice *lattice, int64_t first, int64_t count, const float *weight,
                     const float *in, float *out);
void cr_lattice_free(cr_lattice *lattice);

#endif
