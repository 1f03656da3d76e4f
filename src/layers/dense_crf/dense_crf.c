/* DenseCRF: labels of pixels that agree with the labels of near and of similar pixels (Kraehenbuehl
 * and Koltun, "Efficient inference in fully connected CRFs with Gaussian edge potentials", 2011).
 *
 * Formula: Q = softmax of the scores; then max_iter times Q_i = softmax(scores_i + sum over the
 * kernels of weight * M_i). M_i is the mean of all Q_j, weighted with exp(-|f_i - f_j|^2 / 2). The
 * features f are in units of their deviations: positions (pos_w, pos_xy_std), or positions and
 * colours (bi_w, bi_xy_std, bi_rgb_std). A permutohedral lattice approximates the means.
 * Shapes: scores (N, C, H, W), sizes (N, 2 or more), images (N, 3, H, W) -> (N, C, H, W). Sizes
 * have the height and width of the valid part of each image. Images are required with bi_w. The
 * result is Q or, without output_probability, its logarithm; it is 0 outside of the valid part.
 * Fields: dense_crf_param.
 * Caffe: as in DeepLab's fork. It has no gradient.
 * Example, scores 1 3 8 8, size 1 2, image 1 3 8 8:
 *   layer { name: "crf" type: "DenseCRF" bottom: "scores" bottom: "size" bottom: "image" top: "y"
 *     dense_crf_param { max_iter: 5 pos_w: 3 pos_xy_std: 3
 *       bi_w: 4 bi_xy_std: 50 bi_rgb_std: 3 } } */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "core/float_math.h"
#include "core/prefetch.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_op.h"
#include "layers/dense_crf/lattice.h"

typedef struct kernel {
  cr_lattice lattice;
  float weight;
  float position, colour; /* deviations; colour 0: positions only */
  cr_buffer factor;       /* float for each pixel: the weight over the sum of its weights */
} kernel;

typedef struct crf_state {
  int iterations;
  bool logarithm;
  kernel *kernel;
  size_t kernels;
  int width;         /* classes, padded to full vectors */
  cr_buffer feature; /* float */
  cr_buffer score;   /* float: of each pixel its classes */
  cr_buffer row;     /* the same for some pixels, for each thread */
} crf_state;

static crema_status read_kernel(const cr_layer *layer, kernel *k, float weight, float position,
                                float colour) {
  *k = (kernel){.weight = weight, .position = position, .colour = colour};
  if (isfinite(weight) && position > 0 && isfinite(position) && colour >= 0 && isfinite(colour)) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_RANGE,
                       "a kernel of weight %g and deviations %g and %g, which must be above 0",
                       (double)weight, (double)position, (double)colour);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__DenseCRFParameter defaults = CAFFE__DENSE_CRFPARAMETER__INIT;
  crf_state *s = layer->state;
  const Caffe__DenseCRFParameter *p =
      layer->param->dense_crf_param ? layer->param->dense_crf_param : &defaults;
  (void)bottom, (void)top;
  if (p->n_pos_w != p->n_pos_xy_std || p->n_bi_w != p->n_bi_xy_std ||
      p->n_bi_w != p->n_bi_rgb_std) {
    return cr_layer_fail(
        layer, CREMA_E_ARGUMENT,
        "dense_crf_param: each pos_w needs a pos_xy_std, each bi_w a bi_xy_std and "
        "a bi_rgb_std");
  }
  if ((layer->bottoms == 3) != (p->n_bi_w > 0)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "dense_crf_param: bi_w needs images (bottom 2), and these need bi_w");
  }
  if (p->max_iter < 0 || p->max_iter > 10000) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "max_iter is %d, must be 0 to 10000", p->max_iter);
  }
  s->iterations = p->max_iter;
  s->logarithm = !p->output_probability;
  CR_TRY(cr_layer_in(layer, CR_NEW(s->kernel, p->n_pos_w + p->n_bi_w + 1, "kernels")));
  for (size_t i = 0; i < p->n_pos_w; ++i) {
    CR_TRY(read_kernel(layer, &s->kernel[s->kernels++], p->pos_w[i], p->pos_xy_std[i], 0));
  }
  for (size_t i = 0; i < p->n_bi_w; ++i) {
    const float colour = p->bi_rgb_std[i] > 0 ? p->bi_rgb_std[i] : -1;
    CR_TRY(read_kernel(layer, &s->kernel[s->kernels++], p->bi_w[i], p->bi_xy_std[i], colour));
  }
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const crema_shape *scores = &bottom[0]->shape, *sizes = &bottom[1]->shape;
  crema_shape image = *scores;
  char text[128];
  if (scores->axes != 4 || scores->dim[1] < 1 || scores->dim[1] > 100000) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must have scores (N, C, H, W), found %s",
                         crema_shape_text(scores, text, sizeof text));
  }
  if (sizes->axes < 2 || sizes->dim[0] != scores->dim[0] ||
      crema_shape_count(sizes, 1, sizes->axes) < 2) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "bottom 1 must have height and width of %lld images, found %s",
                         (long long)scores->dim[0], crema_shape_text(sizes, text, sizeof text));
  }
  if (layer->bottoms == 3) {
    image.dim[1] = 3;
    CR_TRY(cr_layer_same_shape(layer, "bottom 2", &image, &bottom[2]->shape));
  }
  return crema_blob_reshape(top[0], scores);
}

typedef struct crf_image {
  const float *scores, *colours; /* colours NULL: none */
  int64_t classes, plane;        /* plane: pixels of the full map */
  int64_t map_width, height, width;
  int64_t band; /* rows of pixels that a thread processes at a time; the last band may have fewer */
  int workers;
} crf_image;

enum {
  /* Pixels of a band, about: with the lattice points that they meet they fit into the second cache.
   */
  BAND = 1 << 14,
  /* If there is more than one band, their number is a multiple of this, so that 2 and 4 threads can
   * share them evenly. */
  TEAM = 4
};

/* Approximate number of multiply-adds that take the time of a number in one step. */
enum { OPERATIONS = 32 };

/* Divides an image into bands. Results depend on the bands, so these do not depend on the number of
 * threads. */
static void divide(crf_image *of, crema_context *context, int iterations) {
  const double numbers = (double)of->height * (double)of->width * (double)of->classes;
  const int64_t whole = of->height * of->width / BAND;
  const int64_t teams = whole < TEAM ? 1 : (whole + TEAM / 2) / TEAM;
  const int64_t bands = whole > 0 ? teams * TEAM : 1;
  of->band = of->height > 0 ? (of->height + bands - 1) / bands : 1;
  of->workers = cr_host_workers(context, numbers * OPERATIONS * (iterations + 1));
}

static int64_t bands_of(const crf_image *of) {
  return (of->height + of->band - 1) / of->band;
}

static int64_t end_of_band(const crf_image *of, int64_t index) {
  return (index + 1) * of->band < of->height ? (index + 1) * of->band : of->height;
}

static float *floats(cr_buffer *buffer) {
  return (float *)(void *)buffer->data;
}

static int axes_of(const kernel *k) {
  return k->colour > 0 ? 5 : 2;
}

/* The data of threads that make a kernel. */
typedef struct lattice_making {
  const crf_image *of;
  const kernel *kernel;
  float *feature;
} lattice_making;

static crema_status make_features(void *state, int worker, int64_t index) {
  const lattice_making *m = state;
  const crf_image *of = m->of;
  const kernel *k = m->kernel;
  const int axes = axes_of(k);
  float *to = m->feature + index * of->band * of->width * axes;
  (void)worker;
  for (int64_t y = index * of->band; y < end_of_band(of, index); ++y) {
    for (int64_t x = 0; x < of->width; ++x) {
      *to++ = (float)x / k->position;
      *to++ = (float)y / k->position;
      for (int c = 0; c < axes - 2; ++c) {
        *to++ = of->colours[c * of->plane + y * of->map_width + x] / k->colour;
      }
    }
  }
  return CREMA_OK;
}

/* The lattice, and the divisors of sums over it. */
static crema_status make_kernel(crf_state *s, const crf_image *of, kernel *k) {
  const int64_t pixels = of->height * of->width;
  const int axes = axes_of(k);
  CR_TRY(cr_buffer_reserve(&s->feature, (size_t)(pixels * axes + 1) * sizeof(float)));
  lattice_making m = {of, k, floats(&s->feature)};
  CR_TRY(cr_host_spread(of->workers, bands_of(of), make_features, &m));
  CR_TRY(cr_lattice_make(&k->lattice, m.feature, pixels, axes, of->band * of->width, of->workers));
  CR_TRY(cr_buffer_reserve(&k->factor, (size_t)(pixels + 1) * sizeof(float)));
  float *ones = m.feature; /* there are at least two for each pixel */
  float *factor = floats(&k->factor);
  for (int64_t i = 0; i < pixels; ++i) ones[i] = 1;
  CR_TRY(cr_lattice_filter(&k->lattice, ones, 1, of->workers, false, factor));
  for (int64_t i = 0; i < pixels; ++i) factor[i] = k->weight / (factor[i] + 1e-20f);
  return CREMA_OK;
}

enum { LANES = 8 /* a row is a multiple of it */ };

/* Subtracts each row's maximum. */
CR_INLINE void subtract_maxima(float *row, int64_t pixels, int width) {
  for (int64_t i = 0; i < pixels; ++i, row += width) {
    float lane[LANES], half[LANES / 2];
    memcpy(lane, row, sizeof lane);
    for (int c = LANES; c < width; c += LANES) {
#pragma omp simd
      for (int k = 0; k < LANES; ++k) lane[k] = row[c + k] > lane[k] ? row[c + k] : lane[k];
    }
#pragma omp simd
    for (int k = 0; k < LANES / 2; ++k) half[k] = lane[k] > lane[k + 4] ? lane[k] : lane[k + 4];
    const float one = half[0] > half[1] ? half[0] : half[1];
    const float two = half[2] > half[3] ? half[2] : half[3], most = one > two ? one : two;
    for (int c = 0; c < width; c += LANES) {
#pragma omp simd
      for (int k = 0; k < LANES; ++k) row[c + k] -= most;
    }
  }
}

/* Divides each row by its sum, which is added in an order that does not depend on the vectors. */
CR_INLINE void divide_by_sums(float *row, int64_t pixels, int width) {
  for (int64_t i = 0; i < pixels; ++i, row += width) {
    float lane[LANES], half[LANES / 2];
    memcpy(lane, row, sizeof lane);
    for (int c = LANES; c < width; c += LANES) {
#pragma omp simd
      for (int k = 0; k < LANES; ++k) lane[k] += row[c + k];
    }
#pragma omp simd
    for (int k = 0; k < LANES / 2; ++k) half[k] = lane[k] + lane[k + 4];
    const float scale = 1 / ((half[0] + half[1]) + (half[2] + half[3]));
    for (int c = 0; c < width; c += LANES) {
#pragma omp simd
      for (int k = 0; k < LANES; ++k) row[c + k] *= scale;
    }
  }
}

/* Subnormal powers become 0, because computing with subnormal numbers takes a hundred times as
 * long. */
CR_INLINE void take_powers(bool fused, float *value, int64_t count) {
  const float least = -87; /* exp(-87) is the last one */
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float power = cr_float_exp_below_0(fused, value[i] > least ? value[i] : least);
    value[i] = value[i] > least ? power : 0;
  }
}

/* Softmax of `pixels` rows of `width` scores. */
CR_CLONES static void softmax(float *row, int64_t pixels, int width) {
  subtract_maxima(row, pixels, width);
  if (cr_fuses()) take_powers(true, row, pixels * width);
  else take_powers(false, row, pixels * width);
  divide_by_sums(row, pixels, width);
}

CR_CLONES static void logarithms(float *value, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i)
    value[i] = cr_float_log(value[i] > FLT_MIN ? value[i] : FLT_MIN);
}

/* Pixels of a row of the image that are worked on at a time. */
enum {
  TILE = 32,
  LINE = 16, /* floats of a cache line */
  AHEAD = 8  /* prefetch distance for scores, in tiles; it covers the latency of memory */
};

typedef struct crf_tile {
  int64_t y, x, pixels; /* where it begins */
} crf_tile;

/* The next tile of a band that ends before row `end`. */
static bool next_tile(const crf_image *of, int64_t end, crf_tile *t) {
  t->x += TILE;
  if (t->x >= of->width) {
    t->x = 0;
    ++t->y;
  }
  t->pixels = of->width - t->x < TILE ? of->width - t->x : TILE;
  return t->y < end;
}

/* The number of pixels of the row's next tile to prefetch. */
static int64_t pixels_behind(const crf_image *of, crf_tile t) {
  const int64_t left = of->width - t.x - t.pixels;
  return left < TILE ? left : TILE;
}

/* Scores from planes to rows. Numbers after the last class are padding. The processor does not
 * foresee so many short streams far apart, so the next tile is prefetched. */
static void read_scores(const crf_state *s, const crf_image *of, crf_tile t, float *row) {
  const float *from = of->scores + t.y * of->map_width + t.x;
  const int64_t behind = pixels_behind(of, t);
  for (int64_t c = 0; c < of->classes; ++c, from += of->plane) {
    for (int64_t i = 0; i < behind; i += LINE) __builtin_prefetch(from + t.pixels + i);
    for (int64_t i = 0; i < t.pixels; ++i) row[i * s->width + c] = from[i];
  }
  for (int64_t i = 0; i < t.pixels; ++i) {
    for (int64_t c = of->classes; c < s->width; ++c) row[i * s->width + c] = -INFINITY;
  }
}

static void put_result(const crf_state *s, const crf_image *of, crf_tile t, float *row,
                       const cr_host_results *to, int64_t first) {
  const int64_t behind = pixels_behind(of, t);
  if (s->logarithm) logarithms(row, t.pixels * s->width);
  first += t.y * of->map_width + t.x;
  for (int64_t c = 0; c < of->classes; ++c, first += of->plane) {
    if (to->wide != NULL) {
      for (int64_t i = 0; i < t.pixels; ++i) to->wide[first + i] = (double)row[i * s->width + c];
      continue;
    }
    float *out = to->narrow + first;
    for (int64_t i = 0; i < behind; i += LINE) __builtin_prefetch(out + t.pixels + i, 1);
    for (int64_t i = 0; i < t.pixels; ++i) out[i] = row[i * s->width + c];
  }
}

/* The data of threads that run a step. */
typedef struct inference {
  crf_state *s;
  const crf_image *of;
  int step;
  const cr_host_results *to;
  int64_t at; /* of the image in the result */
} inference;

/* One step for a tile: the scores and the kernels' sums of the last step become probabilities,
 * which the kernels sum for the next step. The last step writes them. */
static void work_on(const inference *i, crf_tile t, float *row) {
  crf_state *s = i->s;
  const int64_t first = t.y * i->of->width + t.x;
  float *score = floats(&s->score) + first * s->width;
  const float *from = score;
  if (i->step == 0) read_scores(s, i->of, t, score);
  /* Scores are read once per step, from memory. */
  for (int64_t k = 0; i->step > 0 && k < TILE * s->width; k += LINE) {
    __builtin_prefetch(score + (int64_t)AHEAD * TILE * s->width + k, 0, CR_SECOND_CACHE);
  }
  if (i->step == 0 || s->kernels == 0) {
    memcpy(row, from, (size_t)(t.pixels * s->width) * sizeof *row);
  }
  for (size_t n = 0; n < s->kernels && i->step > 0; ++n, from = row) {
    cr_lattice_read(&s->kernel[n].lattice, first, t.pixels, floats(&s->kernel[n].factor) + first,
                    from, row);
  }
  softmax(row, t.pixels, s->width);
  if (i->step == s->iterations) {
    put_result(s, i->of, t, row, i->to, i->at);
    return;
  }
  for (size_t n = 0; n < s->kernels; ++n) {
    cr_lattice_add(&s->kernel[n].lattice, first, t.pixels, row);
  }
}

static crema_status work_on_band(void *state, int worker, int64_t index) {
  const inference *i = state;
  const int64_t end = end_of_band(i->of, index);
  float *row = floats(&i->s->row) + (int64_t)worker * TILE * i->s->width;
  crf_tile t = {index * i->of->band, -TILE, 0}; /* before the first one */
  while (next_tile(i->of, end, &t)) work_on(i, t, row);
  return CREMA_OK;
}

static crema_status infer(crf_state *s, const crf_image *of, const cr_host_results *to,
                          int64_t at) {
  const int64_t pixels = of->height * of->width;
  inference i = {.s = s, .of = of, .to = to, .at = at};
  if (pixels == 0) return CREMA_OK;
  s->width = (int)((of->classes + 7) / 8 * 8);
  CR_TRY(cr_buffer_reserve(&s->score, (size_t)(pixels * s->width + 1) * sizeof(float)));
  CR_TRY(cr_buffer_reserve(&s->row, (size_t)of->workers * TILE * (size_t)s->width * sizeof(float)));
  for (size_t n = 0; n < s->kernels; ++n) {
    CR_TRY(make_kernel(s, of, &s->kernel[n]));
    CR_TRY(cr_lattice_begin(&s->kernel[n].lattice, s->width));
  }
  for (; i.step <= s->iterations; ++i.step) {
    for (size_t n = 0; n < s->kernels && i.step > 0; ++n) {
      CR_TRY(cr_lattice_blur(&s->kernel[n].lattice, of->workers, false));
    }
    CR_TRY(cr_host_spread(of->workers, bands_of(of), work_on_band, &i));
  }
  return CREMA_OK;
}

/* The part of the map that counts: no more than there is. */
static crema_status read_size(const cr_layer *layer, const float *size, const crema_shape *map,
                              crf_image *of) {
  if (!(size[0] >= 0 && size[1] >= 0)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "an image of %g x %g pixels", (double)size[0],
                         (double)size[1]);
  }
  of->height = size[0] < (float)map->dim[2] ? (int64_t)size[0] : map->dim[2];
  of->width = size[1] < (float)map->dim[3] ? (int64_t)size[1] : map->dim[3];
  of->map_width = map->dim[3];
  of->plane = map->dim[2] * map->dim[3];
  of->classes = map->dim[1];
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  crf_state *s = layer->state;
  const crema_shape *map = &bottom[0]->shape;
  const float *scores = NULL, *sizes = NULL, *colours = NULL;
  cr_host_results to;
  CR_TRY(cr_tensor_host_read_floats(bottom[0]->data, &scores));
  CR_TRY(cr_tensor_host_read_floats(bottom[1]->data, &sizes));
  if (layer->bottoms == 3) CR_TRY(cr_tensor_host_read_floats(bottom[2]->data, &colours));
  CR_TRY(cr_host_write(top[0]->data, &to));
  for (int64_t n = 0; n < map->dim[0]; ++n) {
    const int64_t plane = map->dim[2] * map->dim[3], first = n * map->dim[1] * plane;
    const float *size = sizes + n * crema_shape_count(&bottom[1]->shape, 1, bottom[1]->shape.axes);
    crf_image of = {.scores = scores + first, .colours = colours ? colours + n * 3 * plane : NULL};
    if (plane == 0) continue;
    CR_TRY(read_size(layer, size, map, &of));
    divide(&of, context, s->iterations);
    if (of.height < map->dim[2] || of.width < map->dim[3]) {
      for (int64_t i = 0; i < map->dim[1] * plane; ++i) cr_host_put(&to, first + i, 0);
    }
    CR_TRY(cr_layer_in(layer, infer(s, &of, &to, first)));
  }
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  crf_state *s = layer->state;
  for (size_t i = 0; s->kernel != NULL && i < s->kernels; ++i) {
    cr_lattice_free(&s->kernel[i].lattice);
    cr_buffer_free(&s->kernel[i].factor);
  }
  free(s->kernel);
  cr_buffer_free(&s->row);
  cr_buffer_free(&s->score);
  cr_buffer_free(&s->feature);
}

const cr_layer_class cr_layer_dense_crf = {
    CR_LAYER_HOST("DenseCRF", sizeof(crf_state), setup, reshape, forward, destroy),
    .bottoms = {2, 3},
    .tops = {1, 1},
};
