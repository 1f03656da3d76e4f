/* DenseCRF: labels of pixels that agree with those of near and of similar pixels (Kraehenbuehl
 * and Koltun, "Efficient inference in fully connected CRFs with Gaussian edge potentials", 2011).
 *
 * Formula: Q = softmax of the scores; then max_iter times Q_i = softmax of scores_i + the sum
 * over the kernels of weight * (the mean of all Q_j, weighted with exp(-|f_i - f_j|^2 / 2)), with
 * features f in units of their deviations: positions (pos_w, pos_xy_std), or positions and colours
 * (bi_w, bi_xy_std, bi_rgb_std). Means are those of a permutohedral lattice, an approximation.
 * Shapes: scores (N, C, H, W), sizes (N, 2 or more): height and width of the part of each picture
 * that counts, pictures (N, 3, H, W), needed with bi_w -> (N, C, H, W): Q or, without
 * output_probability, its logarithm; 0 outside of the part.
 * Fields: dense_crf_param.
 * Caffe: as in DeepLab's fork. It has no gradient.
 * Example, scores 1 3 8 8, size 1 2, image 1 3 8 8:
 *   layer { name: "crf" type: "DenseCRF" bottom: "scores" bottom: "size" bottom: "image" top: "y"
 *     dense_crf_param { max_iter: 5 pos_w: 3 pos_xy_std: 3
 *       bi_w: 4 bi_xy_std: 50 bi_rgb_std: 3 } } */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "layers/common/lattice.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_op.h"

typedef struct kernel {
  cr_lattice lattice;
  float weight;
  float position, colour; /* deviations; colour 0: positions only */
  cr_buffer reciprocal;   /* float for each pixel: of the sum of its weights */
} kernel;

typedef struct crf_state {
  int iterations;
  bool logarithm;
  kernel *kernel;
  size_t kernels;
  cr_buffer feature;            /* float */
  cr_buffer score, chance, sum; /* float: of each pixel, its classes */
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
                         "dense_crf_param: bi_w needs pictures (bottom 2), and these need bi_w");
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
  crema_shape picture = *scores;
  char text[128];
  if (scores->axes != 4 || scores->dim[1] < 1 || scores->dim[1] > 100000) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must have scores (N, C, H, W), found %s",
                         crema_shape_text(scores, text, sizeof text));
  }
  if (sizes->axes < 2 || sizes->dim[0] != scores->dim[0] ||
      crema_shape_count(sizes, 1, sizes->axes) < 2) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "bottom 1 must have height and width of %lld pictures, found %s",
                         (long long)scores->dim[0], crema_shape_text(sizes, text, sizeof text));
  }
  if (layer->bottoms == 3) {
    picture.dim[1] = 3;
    CR_TRY(cr_layer_same_shape(layer, "bottom 2", &picture, &bottom[2]->shape));
  }
  return crema_blob_reshape(top[0], scores);
}

/* ---- one picture --------------------------------------------------------- */

typedef struct picture {
  const float *scores, *colours; /* colours NULL: none */
  int64_t classes, plane;        /* plane: pixels of the whole map */
  int64_t map_width, height, width;
} picture;

static float *floats(cr_buffer *buffer) {
  return (float *)(void *)buffer->data;
}

static crema_status make_features(crf_state *s, const picture *of, const kernel *k, int *axes) {
  *axes = k->colour > 0 ? 5 : 2;
  CR_TRY(
      cr_buffer_reserve(&s->feature, (size_t)(of->height * of->width * *axes + 1) * sizeof(float)));
  float *to = floats(&s->feature);
  for (int64_t y = 0; y < of->height; ++y) {
    for (int64_t x = 0; x < of->width; ++x) {
      *to++ = (float)x / k->position;
      *to++ = (float)y / k->position;
      for (int c = 0; c < *axes - 2; ++c) {
        *to++ = of->colours[c * of->plane + y * of->map_width + x] / k->colour;
      }
    }
  }
  return CREMA_OK;
}

/* The lattice, and by what sums over it are divided. */
static crema_status make_kernel(crf_state *s, const picture *of, kernel *k) {
  const int64_t pixels = of->height * of->width;
  int axes = 0;
  CR_TRY(make_features(s, of, k, &axes));
  CR_TRY(cr_lattice_make(&k->lattice, floats(&s->feature), pixels, axes));
  CR_TRY(cr_buffer_reserve(&k->reciprocal, (size_t)(pixels + 1) * sizeof(float)));
  float *ones = floats(&s->feature); /* there are at least two for each pixel */
  for (int64_t i = 0; i < pixels; ++i) ones[i] = 1;
  CR_TRY(cr_lattice_filter(&k->lattice, ones, 1, floats(&k->reciprocal)));
  for (int64_t i = 0; i < pixels; ++i) {
    floats(&k->reciprocal)[i] = 1 / (floats(&k->reciprocal)[i] + 1e-20f);
  }
  return CREMA_OK;
}

static void softmax(const float *from, int64_t pixels, int64_t classes, float *to) {
  for (int64_t i = 0; i < pixels; ++i, from += classes, to += classes) {
    float most = from[0], sum = 0;
    for (int64_t c = 1; c < classes; ++c) most = from[c] > most ? from[c] : most;
    for (int64_t c = 0; c < classes; ++c) sum += to[c] = expf(from[c] - most);
    for (int64_t c = 0; c < classes; ++c) to[c] /= sum;
  }
}

static crema_status iterate(crf_state *s, const picture *of) {
  const int64_t pixels = of->height * of->width, count = pixels * of->classes;
  float *chance = floats(&s->chance), *next = floats(&s->sum);
  float *filtered = next + count;
  for (int64_t i = 0; i < count; ++i) next[i] = floats(&s->score)[i];
  for (size_t n = 0; n < s->kernels; ++n) {
    kernel *k = &s->kernel[n];
    CR_TRY(cr_lattice_filter(&k->lattice, chance, (int)of->classes, filtered));
    for (int64_t i = 0; i < pixels; ++i) {
      const float weight = k->weight * floats(&k->reciprocal)[i];
      for (int64_t c = 0; c < of->classes; ++c) {
        next[i * of->classes + c] += weight * filtered[i * of->classes + c];
      }
    }
  }
  softmax(next, pixels, of->classes, chance);
  return CREMA_OK;
}

static crema_status infer(crf_state *s, const picture *of) {
  const int64_t pixels = of->height * of->width;
  const size_t bytes = (size_t)(pixels * of->classes + 1) * sizeof(float);
  CR_TRY(cr_buffer_reserve(&s->score, bytes));
  CR_TRY(cr_buffer_reserve(&s->chance, bytes));
  CR_TRY(cr_buffer_reserve(&s->sum, 2 * bytes));
  for (int64_t i = 0; i < pixels; ++i) {
    const int64_t at = i / of->width * of->map_width + i % of->width;
    for (int64_t c = 0; c < of->classes; ++c) {
      floats(&s->score)[i * of->classes + c] = of->scores[c * of->plane + at];
    }
  }
  for (size_t n = 0; n < s->kernels; ++n) CR_TRY(make_kernel(s, of, &s->kernel[n]));
  softmax(floats(&s->score), pixels, of->classes, floats(&s->chance));
  for (int i = 0; i < s->iterations; ++i) CR_TRY(iterate(s, of));
  return CREMA_OK;
}

static void put_result(crf_state *s, const picture *of, const cr_host_results *to, int64_t first) {
  for (int64_t i = 0; i < of->height * of->width; ++i) {
    const int64_t at = first + i / of->width * of->map_width + i % of->width;
    for (int64_t c = 0; c < of->classes; ++c) {
      const float q = floats(&s->chance)[i * of->classes + c];
      cr_host_put(to, at + c * of->plane,
                  s->logarithm ? log((double)fmaxf(q, FLT_MIN)) : (double)q);
    }
  }
}

/* The part of the map that counts: no more than there is. */
static crema_status read_size(const cr_layer *layer, const float *size, const crema_shape *map,
                              picture *of) {
  if (!(size[0] >= 0 && size[1] >= 0)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "a picture of %g x %g pixels", (double)size[0],
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
  (void)context;
  CR_TRY(cr_tensor_host_read_floats(bottom[0]->data, &scores));
  CR_TRY(cr_tensor_host_read_floats(bottom[1]->data, &sizes));
  if (layer->bottoms == 3) CR_TRY(cr_tensor_host_read_floats(bottom[2]->data, &colours));
  CR_TRY(cr_host_write(top[0]->data, &to));
  for (int64_t i = 0; i < crema_blob_count(top[0]); ++i) cr_host_put(&to, i, 0);
  for (int64_t n = 0; n < map->dim[0]; ++n) {
    const int64_t plane = map->dim[2] * map->dim[3], first = n * map->dim[1] * plane;
    const float *size = sizes + n * crema_shape_count(&bottom[1]->shape, 1, bottom[1]->shape.axes);
    picture of = {.scores = scores + first, .colours = colours ? colours + n * 3 * plane : NULL};
    if (plane == 0) continue;
    CR_TRY(read_size(layer, size, map, &of));
    CR_TRY(cr_layer_in(layer, infer(s, &of)));
    put_result(s, &of, &to, first);
  }
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  crf_state *s = layer->state;
  for (size_t i = 0; s->kernel != NULL && i < s->kernels; ++i) {
    cr_lattice_free(&s->kernel[i].lattice);
    cr_buffer_free(&s->kernel[i].reciprocal);
  }
  free(s->kernel);
  cr_buffer_free(&s->sum);
  cr_buffer_free(&s->chance);
  cr_buffer_free(&s->score);
  cr_buffer_free(&s->feature);
}

const cr_layer_class cr_layer_dense_crf = {
    CR_LAYER_HOST("DenseCRF", sizeof(crf_state), setup, reshape, forward, destroy),
    .bottoms = {2, 3},
    .tops = {1, 1},
};
