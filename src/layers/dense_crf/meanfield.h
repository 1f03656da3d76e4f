/* The mean field of MultiStageMeanfield: the iterations of a sample, forward and backward. */
#ifndef CR_LAYERS_MEANFIELD_H
#define CR_LAYERS_MEANFIELD_H

#include "core/buffer.h"
#include "layers/common/layer_host.h"
#include "layers/dense_crf/lattice.h"

/* The kernels, and the parameters: the weights of both kernels, and the compatibilities. */
enum {
  CR_SPATIAL,
  CR_BILATERAL,
  CR_MEANFIELD_KERNELS,
  CR_COMPATIBILITY = CR_MEANFIELD_KERNELS,
  CR_MEANFIELD_PARAMS
};

/* The maps of an iteration: the probabilities and the sums of both kernels. */
enum { CR_MEANFIELD_MAPS = 1 + CR_MEANFIELD_KERNELS };

/* Pixels of a band, the unit of work of a thread. Sums depend on the bands, which depend only on
 * the image. */
enum { CR_MEANFIELD_BAND = 1 << 13 };

/* Rows of doubles that each thread has, one for each class. */
enum { CR_MEANFIELD_ROWS = 2 };

typedef struct cr_meanfield {
  int iterations;
  float alpha, beta, gamma;
  int64_t classes, width; /* width: numbers of a pixel, the classes and zeros */
  int64_t height, columns, pixels;
  bool spatial_made; /* for this height and width */
  cr_lattice lattice[CR_MEANFIELD_KERNELS];
  cr_tensor *norm;     /* of each kernel and pixel: 1 / the sum of its weights */
  cr_tensor *present;  /* the maps of one iteration, for the forward pass */
  cr_tensor *past;     /* the maps of all iterations, for the backward pass */
  cr_tensor *gradient; /* of the sums of both kernels; of the probabilities through each */
  cr_buffer feature;   /* float */
  cr_buffer product;   /* double: of each kernel, compatibilities times weights, transposed */
  cr_buffer row;       /* double: the threads' rows */
  cr_buffer sum;       /* double: of each band and kernel, products of gradients and means */
} cr_meanfield;

/* The data of a pass, which works on one sample at a time. */
typedef struct cr_meanfield_pass {
  cr_meanfield *of;
  int64_t sample;
  int workers, step;
  bool keeps; /* the maps of all iterations */
  cr_host_values scores, estimate, image, diff;
  cr_host_results top, diff_scores, diff_estimate; /* {0}: not wanted */
  cr_host_results norm, maps, gradient;
} cr_meanfield_pass;

static inline cr_host_values cr_meanfield_values(cr_host_results r) {
  return (cr_host_values){r.wide, r.narrow};
}

static inline cr_host_results cr_meanfield_from(cr_host_results r, int64_t offset) {
  return (cr_host_results){r.wide ? r.wide + offset : NULL, r.narrow ? r.narrow + offset : NULL};
}

static inline bool cr_meanfield_wants(const cr_host_results *r) {
  return r->wide != NULL || r->narrow != NULL;
}

static inline int64_t cr_meanfield_bands(const cr_meanfield *s) {
  return (s->pixels + CR_MEANFIELD_BAND - 1) / CR_MEANFIELD_BAND;
}

static inline int64_t cr_meanfield_end(const cr_meanfield *s, int64_t band) {
  const int64_t end = (band + 1) * CR_MEANFIELD_BAND;
  return end < s->pixels ? end : s->pixels;
}

/* Map `which` (0: probabilities, 1 + k: the sums of kernel k) of iteration `step`. */
cr_host_results cr_meanfield_map(const cr_meanfield_pass *pass, int step, int which);

/* A thread's row; a kernel's product. */
static inline double *cr_meanfield_row(const cr_meanfield *s, int worker, int which) {
  return (double *)(void *)s->row.data + (worker * CR_MEANFIELD_ROWS + which) * s->width;
}

static inline const double *cr_meanfield_product(const cr_meanfield *s, int kernel) {
  return (const double *)(const void *)s->product.data + kernel * s->classes * s->classes;
}

/* The mean of a kernel at pixel i after iteration `step`. */
void cr_meanfield_mean(const cr_meanfield_pass *pass, int step, int kernel, int64_t i, double *to);

/* Sums over a kernel's lattice; with `reverse`, the transposed sums. */
crema_status cr_meanfield_filter(const cr_meanfield_pass *pass, int kernel, int width, bool reverse,
                                 cr_host_results in, cr_host_results out) CREMA_MUST_USE;

/* Makes the lattices and norms of the pass's sample. Errors: as cr_lattice_make. */
crema_status cr_meanfield_make(const cr_meanfield_pass *pass) CREMA_MUST_USE;
/* Computes all iterations; without a top, only their maps. */
crema_status cr_meanfield_infer(cr_meanfield_pass *pass) CREMA_MUST_USE;
/* Computes the gradients of the bottoms and adds to the bands' sums. The maps must be kept. */
crema_status cr_meanfield_back(cr_meanfield_pass *pass) CREMA_MUST_USE;

#endif
