/* MultiStageMeanfield: the mean field of a conditional random field over an image, as a layer whose
 * weights are learned (Zheng et al., "Conditional random fields as recurrent neural networks",
 * 2015).
 *
 * Formula: x starts as the estimate; then num_iterations times p = softmax(x) and x = scores -
 * compatibility (spatial S(p) + bilateral B(p)), for the classes of each pixel. S(p) and B(p) are
 * means of all p_j, weighted with exp(-|f_i - f_j|^2 / 2). The features f are in units of their
 * deviations: positions (theta_gamma) for S, positions and colours (theta_alpha, theta_beta) for B.
 * A permutohedral lattice approximates the means.
 * Shapes: scores (N, C, H, W), estimate (as scores), image (N, 3, H, W) -> x (as scores).
 * Parameters: spatial, bilateral and compatibility (1, 1, C, C). The image gets no gradient.
 * Fields: multi_stage_meanfield_param.
 * Caffe: as in CRF-RNN's forks. crema does not read their files spatial.par and bilateral.par: the
 * fields have the initial weights. Caffe needs two iterations or more. Its gradients of parameters
 * replace the gradients of earlier passes; crema adds to them.
 * Example, scores 1 3 8 8, q 1 3 8 8, image 1 3 8 8:
 *   layer { name: "crf" type: "MultiStageMeanfield" bottom: "scores" bottom: "q" bottom: "image"
 *     top: "y" multi_stage_meanfield_param { num_iterations: 5 theta_alpha: 160 theta_beta: 3
 *       theta_gamma: 3 spatial_filter_weight: 3 bilateral_filter_weight: 5 } } */
#include <math.h>
#include <stdlib.h>

#include "core/c_locale.h"
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"
#include "layers/dense_crf/meanfield.h"

static const Caffe__MultiStageMeanfieldParameter *param_of(const cr_layer *layer) {
  static const Caffe__MultiStageMeanfieldParameter defaults =
      CAFFE__MULTI_STAGE_MEANFIELD_PARAMETER__INIT;
  const Caffe__MultiStageMeanfieldParameter *p = layer->param->multi_stage_meanfield_param;
  return p != NULL ? p : &defaults;
}

static crema_status check_deviation(const cr_layer *layer, const char *name, float value) {
  if (value > 0 && isfinite(value)) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_RANGE, "%s is %g, must be above 0", name, (double)value);
}

static crema_status read_fields(cr_layer *layer) {
  cr_meanfield *s = layer->state;
  const Caffe__MultiStageMeanfieldParameter *p = param_of(layer);
  if (p->num_iterations < 1 || p->num_iterations > 10000) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "num_iterations is %u, must be 1 to 10000",
                         p->num_iterations);
  }
  CR_TRY(check_deviation(layer, "theta_alpha", p->theta_alpha));
  CR_TRY(check_deviation(layer, "theta_beta", p->theta_beta));
  CR_TRY(check_deviation(layer, "theta_gamma", p->theta_gamma));
  s->iterations = (int)p->num_iterations;
  s->alpha = p->theta_alpha;
  s->beta = p->theta_beta;
  s->gamma = p->theta_gamma;
  return CREMA_OK;
}

/* A class's entry of a list of weights; NULL or empty: `weight`. Moves on to the next entry. */
static crema_status next_weight(const cr_layer *layer, const char *name, const char **list,
                                float weight, float *out) {
  char *end = NULL;
  *out = weight;
  if (*list == NULL || **list == '\0') return CREMA_OK;
  *out = strtof(*list, &end);
  if (end != *list && (*end == '\0' || *end == ' ')) {
    *list = *end == ' ' ? end : " ";
    return CREMA_OK;
  }
  const cr_meanfield *s = layer->state;
  return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                       "%s must have a number for each of %lld classes, separated by blanks", name,
                       (long long)s->classes);
}

/* Sets the diagonal of a parameter that has no values yet. */
static crema_status set_diagonal(const cr_layer *layer, int index, const char *name,
                                 const char *list, float weight) {
  const cr_meanfield *s = layer->state;
  cr_host_values old;
  cr_host_results matrix = {0};
  const bool fills = !layer->awaits_params && layer->given == NULL;
  if (fills) CR_TRY(cr_host_update(layer->blob[index]->data, &old, &matrix));
  for (int64_t c = 0; c < s->classes; ++c) {
    float one = weight;
    CR_TRY(next_weight(layer, name, &list, weight, &one));
    if (!isfinite(one)) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "a weight of class %lld is %g", (long long)c,
                           (double)one);
    }
    if (fills) cr_host_put(&matrix, c * s->classes + c, (double)one);
  }
  return CREMA_OK;
}

static crema_status set_weights(const cr_layer *layer) {
  const Caffe__MultiStageMeanfieldParameter *p = param_of(layer);
  cr_c_locale locale;
  CR_TRY(cr_c_locale_begin(&locale));
  crema_status status = set_diagonal(layer, CR_SPATIAL, "spatial_filter_weights_str",
                                     p->spatial_filter_weights_str, p->spatial_filter_weight);
  if (status == CREMA_OK) {
    status = set_diagonal(layer, CR_BILATERAL, "bilateral_filter_weights_str",
                          p->bilateral_filter_weights_str, p->bilateral_filter_weight);
  }
  cr_c_locale_end(&locale);
  CR_TRY(status);
  return set_diagonal(layer, CR_COMPATIBILITY, "", NULL, -1);
}

static crema_status check_shapes(const cr_layer *layer, crema_blob *const *bottom) {
  const crema_shape *scores = &bottom[0]->shape;
  crema_shape image = *scores;
  char text[128];
  if (scores->axes != 4 || scores->dim[1] < 1 || scores->dim[1] > 100000) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must have scores (N, C, H, W), found %s",
                         crema_shape_text(scores, text, sizeof text));
  }
  image.dim[1] = 3;
  CR_TRY(cr_layer_same_shape(layer, "bottom 1 (the estimate)", scores, &bottom[1]->shape));
  return cr_layer_same_shape(layer, "bottom 2 (the image)", &image, &bottom[2]->shape);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_meanfield *s = layer->state;
  (void)top;
  CR_TRY(read_fields(layer));
  CR_TRY(check_shapes(layer, bottom));
  s->classes = bottom[0]->shape.dim[1];
  const crema_shape matrix = cr_shape_4(1, 1, s->classes, s->classes);
  CR_TRY(cr_layer_set_params(layer, CR_MEANFIELD_PARAMS));
  for (int i = 0; i < CR_MEANFIELD_PARAMS; ++i) CR_TRY(cr_layer_add_param(layer, i, &matrix, NULL));
  return set_weights(layer);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_meanfield *s = layer->state;
  const crema_shape *scores = &bottom[0]->shape;
  const crema_dtype type = cr_layer_arithmetic(layer);
  CR_TRY(check_shapes(layer, bottom));
  if (scores->dim[1] != s->classes) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the weights are for %lld classes, found %lld",
                         (long long)s->classes, (long long)scores->dim[1]);
  }
  s->width = (s->classes + 7) / 8 * 8; /* the lattice is fastest with such widths */
  s->spatial_made = s->spatial_made && s->height == scores->dim[2] && s->columns == scores->dim[3];
  s->height = scores->dim[2];
  s->columns = scores->dim[3];
  s->pixels = s->height * s->columns;
  const crema_shape maps = cr_shape_4(s->iterations, CR_MEANFIELD_MAPS, s->pixels, s->width);
  CR_TRY(cr_layer_in(layer, crema_shape_check(&maps)));
  const int64_t map = s->pixels * s->width;
  CR_TRY(cr_layer_tensor(layer, &s->norm, type, CR_MEANFIELD_KERNELS * s->pixels));
  CR_TRY(cr_layer_pass_tensor(layer, &s->present, type, CR_MEANFIELD_MAPS * map));
  CR_TRY(cr_layer_tensor(layer, &s->past, type, s->iterations * CR_MEANFIELD_MAPS * map));
  CR_TRY(cr_layer_tensor(layer, &s->gradient, type, 2 * CR_MEANFIELD_KERNELS * map));
  return crema_blob_reshape(top[0], scores);
}

static double *doubles(cr_buffer *buffer) {
  return (double *)(void *)buffer->data;
}

/* The products of the compatibilities with the weights of both kernels, transposed. */
static crema_status make_products(cr_layer *layer) {
  cr_meanfield *s = layer->state;
  const int64_t n = s->classes;
  cr_host_values mix, weight;
  CR_TRY(
      cr_buffer_reserve(&s->product, (size_t)(CR_MEANFIELD_KERNELS * n * n + 1) * sizeof(double)));
  CR_TRY(cr_host_read(layer->blob[CR_COMPATIBILITY]->data, &mix));
  for (int k = 0; k < CR_MEANFIELD_KERNELS; ++k) {
    double *to = doubles(&s->product) + k * n * n;
    CR_TRY(cr_host_read(layer->blob[k]->data, &weight));
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t c = 0; c < n; ++c) {
        double sum = 0;
        for (int64_t m = 0; m < n; ++m) {
          sum += cr_host_get(&mix, c * n + m) * cr_host_get(&weight, m * n + j);
        }
        to[j * n + c] = sum;
      }
    }
  }
  return CREMA_OK;
}

/* What both passes need: threads, rows and the bottoms' values. A pass that keeps its maps is
 * backward, and computes no top from the scores. */
static crema_status begin(cr_layer *layer, const crema_context *context, crema_blob *const *bottom,
                          cr_tensor *maps, cr_meanfield_pass *pass) {
  cr_meanfield *s = layer->state;
  /* Of each class: its products with all classes, and adding to and reading from both lattices. */
  const double cost = (double)(s->pixels * s->width) * (double)(2 * s->classes + 50);
  pass->workers = cr_host_workers(context, cost);
  CR_TRY(cr_buffer_reserve(
      &s->row, (size_t)(pass->workers * CR_MEANFIELD_ROWS * s->width) * sizeof(double)));
  CR_TRY(make_products(layer));
  if (!pass->keeps || s->iterations > 1) CR_TRY(cr_host_read(bottom[0]->data, &pass->scores));
  CR_TRY(cr_host_read(bottom[1]->data, &pass->estimate));
  CR_TRY(cr_host_read(bottom[2]->data, &pass->image));
  cr_host_values old;
  CR_TRY(cr_host_update(s->norm, &old, &pass->norm));
  return cr_host_write(maps, &pass->maps);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  cr_meanfield *s = layer->state;
  cr_meanfield_pass pass = {.of = s};
  CR_TRY(cr_host_write(top[0]->data, &pass.top));
  if (crema_blob_count(top[0]) == 0) return CREMA_OK;
  CR_TRY(begin(layer, context, bottom, s->present, &pass));
  for (; pass.sample < bottom[0]->shape.dim[0]; ++pass.sample) {
    CR_TRY(cr_layer_in(layer, cr_meanfield_make(&pass)));
    CR_TRY(cr_layer_in(layer, cr_meanfield_infer(&pass)));
  }
  return CREMA_OK;
}

/* Adds the sums of all bands to the first band's. The sum H[c][j] of a kernel, at j * classes + c,
 * is over pixels and iterations: the gradient of x[c] times the mean of class j. */
static void add_bands(cr_meanfield *s) {
  const int64_t count = CR_MEANFIELD_KERNELS * s->classes * s->classes;
  double *sum = doubles(&s->sum);
  for (int64_t b = 1; b < cr_meanfield_bands(s); ++b) {
    for (int64_t i = 0; i < count; ++i) sum[i] += sum[b * count + i];
  }
}

/* A matrix of doubles or of a parameter's values. */
typedef struct matrix {
  const double *own;
  const cr_host_values *values;
  int64_t row, column; /* steps */
} matrix;

static double element(const matrix *m, int64_t row, int64_t column) {
  const int64_t at = row * m->row + column * m->column;
  return m->own ? m->own[at] : cr_host_get(m->values, at);
}

/* diff -= left * right. */
static crema_status subtract_product(const cr_meanfield *s, cr_tensor *diff, const matrix *left,
                                     const matrix *right) {
  const int64_t n = s->classes;
  cr_host_values in;
  cr_host_results out;
  CR_TRY(cr_host_update(diff, &in, &out));
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t c = 0; c < n; ++c) {
      double sum = 0;
      for (int64_t m = 0; m < n; ++m) sum += element(left, r, m) * element(right, m, c);
      cr_host_put(&out, r * n + c, cr_host_get(&in, r * n + c) - sum);
    }
  }
  return CREMA_OK;
}

/* Adds the gradients of the parameters. With the sum H of gradient times mean, they are
 * -compatibility^T H for a kernel's weights, and -H weights^T of both kernels for the
 * compatibilities. */
static crema_status add_gradients(cr_layer *layer) {
  cr_meanfield *s = layer->state;
  const int64_t n = s->classes;
  cr_host_values mix, weight;
  CR_TRY(cr_host_read(layer->blob[CR_COMPATIBILITY]->data, &mix));
  add_bands(s);
  for (int k = 0; k < CR_MEANFIELD_KERNELS; ++k) {
    CR_TRY(cr_host_read(layer->blob[k]->data, &weight));
    const matrix sums = {doubles(&s->sum) + k * n * n, NULL, 1, n};
    const matrix mix_turned = {NULL, &mix, 1, n}, weight_turned = {NULL, &weight, 1, n};
    if (layer->param_propagate_down[k]) {
      CR_TRY(subtract_product(s, layer->blob[k]->diff, &mix_turned, &sums));
    }
    if (layer->param_propagate_down[CR_COMPATIBILITY]) {
      CR_TRY(subtract_product(s, layer->blob[CR_COMPATIBILITY]->diff, &sums, &weight_turned));
    }
  }
  return CREMA_OK;
}

static crema_status clear_sums(cr_meanfield *s) {
  const size_t count =
      (size_t)(cr_meanfield_bands(s) * CR_MEANFIELD_KERNELS * s->classes * s->classes);
  CR_TRY(cr_buffer_reserve(&s->sum, (count + 1) * sizeof(double)));
  for (size_t i = 0; i < count; ++i) doubles(&s->sum)[i] = 0;
  return CREMA_OK;
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  cr_meanfield *s = layer->state;
  cr_meanfield_pass pass = {.of = s, .keeps = true};
  if (propagate_down[2]) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "the image (bottom 2) has no gradient");
  }
  if (crema_blob_count(top[0]) == 0) return CREMA_OK;
  CR_TRY(begin(layer, context, bottom, s->past, &pass));
  CR_TRY(cr_layer_in(layer, clear_sums(s)));
  CR_TRY(cr_host_read(top[0]->diff, &pass.diff));
  CR_TRY(cr_host_write(s->gradient, &pass.gradient));
  if (propagate_down[0]) CR_TRY(cr_host_write(bottom[0]->diff, &pass.diff_scores));
  if (propagate_down[1]) CR_TRY(cr_host_write(bottom[1]->diff, &pass.diff_estimate));
  for (; pass.sample < bottom[0]->shape.dim[0]; ++pass.sample) {
    CR_TRY(cr_layer_in(layer, cr_meanfield_make(&pass)));
    CR_TRY(cr_layer_in(layer, cr_meanfield_infer(&pass)));
    CR_TRY(cr_layer_in(layer, cr_meanfield_back(&pass)));
  }
  return add_gradients(layer);
}

static void destroy(cr_layer *layer) {
  cr_meanfield *s = layer->state;
  for (int k = 0; k < CR_MEANFIELD_KERNELS; ++k) cr_lattice_free(&s->lattice[k]);
  cr_buffer_free(&s->sum);
  cr_buffer_free(&s->row);
  cr_buffer_free(&s->product);
  cr_buffer_free(&s->feature);
}

/* With one iteration, the probabilities do not depend on the scores, which backward then must not
 * read. */
static bool uses_bottom(const cr_layer *layer, int bottom) {
  return bottom != 0 || param_of(layer)->num_iterations > 1;
}

const cr_layer_class cr_layer_multi_stage_meanfield = {
    CR_LAYER_OF_OPS("MultiStageMeanfield", sizeof(cr_meanfield), setup, reshape, forward, backward),
    .destroy = destroy,
    .bottoms = {3, 3},
    .tops = {1, 1},
    .no_gradient_bottoms = 1u << 2,
    .uses_bottom = uses_bottom,
    .fusion.reach = cr_layer_reaches_sample,
};
