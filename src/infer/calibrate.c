#include "infer/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "core/file.h"

/* Fewer than ENOUGH samples are too few to clip the tail. */
enum { BINS = 2048, LEVELS = 128, ENOUGH = 16 * BINS };
static const double most_clipped = 0.01; /* the share of the values beyond a threshold of kl */

/* How often magnitudes fall between k and k + 1 times `width`; zeros do not count. */
typedef struct histogram {
  double width; /* 0: there was no value yet */
  float largest;
  uint64_t total, count[BINS];
} histogram;

/* The bottoms of one layer. */
typedef struct watch {
  int layer; /* of the net */
  int bottoms;
  histogram *bottom;
} watch;

struct cr_calibration {
  crema_net *net;
  int watches;
  watch *watch;
};

/* Doubles the width of the bins until `largest` is in one. */
static void widen(histogram *h, float largest) {
  if (h->width == 0) h->width = (double)largest / (BINS - 1);
  while ((double)largest >= h->width * BINS) {
    for (int k = 0; k < BINS / 2; ++k) h->count[k] = h->count[2 * k] + h->count[2 * k + 1];
    memset(&h->count[BINS / 2], 0, sizeof h->count / 2);
    h->width *= 2;
  }
}

static crema_status count_values(histogram *h, const float *x, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!isfinite(x[i])) return cr_fail(CREMA_E_RANGE, "a value is not finite");
    largest = fmaxf(largest, fabsf(x[i]));
  }
  if (largest == 0) return CREMA_OK;
  h->largest = fmaxf(h->largest, largest);
  widen(h, largest);
  for (int64_t i = 0; i < count; ++i) {
    if (x[i] == 0) continue;
    const int bin = (int)((double)fabsf(x[i]) / h->width);
    ++h->count[bin < BINS ? bin : BINS - 1];
    ++h->total;
  }
  return CREMA_OK;
}

static double percentile(const histogram *h) {
  uint64_t below = 0;
  for (int k = 0; k < BINS; ++k) {
    below += h->count[k];
    if ((double)below >= 0.9999 * (double)h->total) return fmin((k + 1) * h->width, h->largest);
  }
  return h->largest;
}

/* The divergence of the first `bins` bins from the same values in LEVELS steps of equal width. The
 * last bin also counts all values beyond it. */
static double divergence(const histogram *h, int bins, uint64_t beyond) {
  double sum = 0;
  for (int level = 0; level < LEVELS; ++level) {
    const int begin = level * bins / LEVELS, end = (level + 1) * bins / LEVELS;
    double whole = 0;
    int filled = 0;
    for (int k = begin; k < end; ++k) {
      whole += (double)h->count[k];
      filled += h->count[k] > 0;
    }
    for (int k = begin; k < end; ++k) {
      const double p = (double)h->count[k] + (k == bins - 1 ? (double)beyond : 0);
      if (p == 0) continue;
      /* A bin that only has values beyond counts as one value of the steps. */
      const double step = filled > 0 && h->count[k] > 0 ? whole / filled : 1;
      sum += p * log(p / step);
    }
  }
  /* Both distributions have the sum 1. */
  const double steps = (double)(h->total - beyond);
  return sum / (double)h->total + log(fmax(steps, 1) / (double)h->total);
}

/* The last bin stands for all values beyond it, so a threshold below nearly all values would have
 * no divergence. Thresholds that clip more than 1 % of the values are no candidates. */
static double least_divergence(const histogram *h) {
  uint64_t beyond = h->total;
  double best = INFINITY, threshold = h->largest;
  for (int k = 0; k < LEVELS; ++k) beyond -= h->count[k];
  for (int bins = LEVELS; bins <= BINS; ++bins) {
    const bool few = (double)beyond <= most_clipped * (double)h->total;
    const double d = few ? divergence(h, bins, beyond) : INFINITY;
    if (d < best) {
      best = d;
      threshold = fmin((bins + 0.5) * h->width, h->largest);
    }
    if (bins < BINS) beyond -= h->count[bins];
  }
  return threshold;
}

static double threshold_of(const histogram *h, cr_calibrate_method method) {
  if (h->total < ENOUGH) return h->largest;
  switch (method) {
    case CR_CALIBRATE_PERCENTILE: return percentile(h);
    case CR_CALIBRATE_KL: return least_divergence(h);
    case CR_CALIBRATE_MINMAX: break;
  }
  return h->largest;
}

/* The class of the layer that makes bottom 0 of layer `index`; NULL: there is none. */
static const cr_layer_class *maker_of(const crema_net *net, int index) {
  for (int i = index - 1; i >= 0; --i) {
    const cr_net_layer *layer = &net->layer[i];
    for (int j = 0; j < layer->layer->tops; ++j) {
      if (layer->top_id[j] == net->layer[index].bottom_id[0]) return layer->layer->kind;
    }
  }
  return NULL;
}

static bool averages(const cr_net_layer *layer) {
  const cr_layer *self = layer->layer;
  return self->kind->int8.averages_integers != NULL &&
         self->kind->int8.averages_integers(self, &layer->top[0]->shape);
}

/* Scales are watched unless a product or another Scale before them does their work. */
static bool is_watched(const crema_net *net, int index) {
  const cr_layer *layer = net->layer[index].layer;
  const cr_layer_class *kind = layer->kind, *maker = maker_of(net, index);
  const bool scales = kind->int8.scales_integers && layer->bottoms == 1 &&
                      (maker == NULL || !(maker->int8.takes_int8 || maker->int8.scales_integers));
  return kind->int8.takes_int8 || kind->memory.adds_bottom != NULL || scales ||
         averages(&net->layer[index]);
}

crema_status cr_calibration_create(crema_net *net, cr_calibration **out) {
  cr_calibration *c = NULL;
  crema_status status = CREMA_OK;
  CR_TRY(CR_NEW(c, 1, "a calibration"));
  c->net = net;
  CR_TRY_GOTO(CR_NEW(c->watch, net->layers + 1, "a calibration"), fail);
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    if (!is_watched(net, i)) continue;
    watch *w = &c->watch[c->watches++];
    w->layer = i;
    w->bottoms = layer->bottoms;
    CR_TRY_GOTO(CR_NEW(w->bottom, layer->bottoms + 1, "a calibration"), fail);
  }
  *out = c;
  return CREMA_OK;
fail:
  cr_calibration_destroy(c);
  return status;
}

void cr_calibration_destroy(cr_calibration *c) {
  if (c == NULL) return;
  for (int i = 0; i < c->watches; ++i) free(c->watch[i].bottom);
  free(c->watch);
  free(c);
}

int cr_calibration_layers(const cr_calibration *c) {
  return c->watches;
}

static crema_status look(const cr_calibration *c, watch *w) {
  const cr_net_layer *layer = &c->net->layer[w->layer];
  for (int j = 0; j < w->bottoms; ++j) {
    const float *values = NULL;
    CR_TRY(cr_tensor_host_read_floats(layer->bottom[j]->data, &values));
    crema_status status = count_values(&w->bottom[j], values, crema_blob_count(layer->bottom[j]));
    if (status != CREMA_OK) return cr_layer_in(layer->layer, status);
  }
  return CREMA_OK;
}

/* Runs layer by layer, as a layer in place may overwrite the values of a bottom. */
crema_status cr_calibration_run(cr_calibration *c) {
  int next = 0;
  for (int i = 0; i < c->net->layers; ++i) {
    if (next < c->watches && c->watch[next].layer == i) CR_TRY(look(c, &c->watch[next++]));
    CR_TRY(cr_net_forward_range(c->net, i, i, NULL));
  }
  return CREMA_OK;
}

static crema_status print_scale(cr_buffer *text, double threshold) {
  return cr_buffer_print(text, " %.9g", threshold > 0 ? 127 / threshold : 1.0);
}

/* One per output channel. */
static crema_status print_weights(const cr_layer *layer, cr_buffer *text) {
  const float *weights = NULL;
  const crema_shape *shape = &layer->blob[0]->shape;
  const Caffe__InnerProductParameter *product = layer->param->inner_product_param;
  const bool turned = layer->kind->fusion.product == CR_PRODUCT_INNER && product->transpose;
  const int64_t all = crema_blob_count(layer->blob[0]), rows = shape->dim[turned ? 1 : 0];
  CR_TRY(cr_tensor_host_read_floats(layer->blob[0]->data, &weights));
  CR_TRY(cr_buffer_print(text, "%s_param_0", layer->name));
  for (int64_t r = 0; r < rows; ++r) {
    float largest = 0;
    for (int64_t i = 0; i < all / rows; ++i) {
      const int64_t at = turned ? i * rows + r : r * (all / rows) + i;
      largest = fmaxf(largest, fabsf(weights[at]));
    }
    CR_TRY(print_scale(text, largest));
  }
  return cr_buffer_print(text, "\n");
}

/* The largest values dominate an average, so averages need the full range. */
static crema_status print_bottoms(const cr_net_layer *of, const watch *w,
                                  cr_calibrate_method method, cr_buffer *text) {
  const cr_layer *layer = of->layer;
  if (averages(of)) method = CR_CALIBRATE_MINMAX;
  CR_TRY(cr_buffer_print(text, "%s", layer->name));
  for (int j = 0; j < w->bottoms; ++j) {
    CR_TRY(print_scale(text, threshold_of(&w->bottom[j], method)));
  }
  return cr_buffer_print(text, "\n");
}

static crema_status print_table(const cr_calibration *c, cr_calibrate_method method,
                                cr_buffer *text) {
  for (int i = 0; i < c->watches; ++i) {
    const cr_layer *layer = c->net->layer[c->watch[i].layer].layer;
    if (layer->kind->int8.takes_int8) CR_TRY(print_weights(layer, text));
  }
  for (int i = 0; i < c->watches; ++i) {
    CR_TRY(print_bottoms(&c->net->layer[c->watch[i].layer], &c->watch[i], method, text));
  }
  return CREMA_OK;
}

crema_status cr_calibration_write(const cr_calibration *c, cr_calibrate_method method,
                                  const char *path) {
  cr_buffer text = {0};
  cr_file_draft draft;
  crema_status status = print_table(c, method, &text);
  if (status == CREMA_OK) status = cr_file_draft_begin(path, &draft);
  if (status == CREMA_OK) {
    status = cr_file_draft_end(&draft, cr_file_draft_write(&draft, text.data, text.size));
  }
  cr_buffer_free(&text);
  return status;
}
