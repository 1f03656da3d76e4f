/* A layer type in a shared object: y = sign(x) max(|x| - t, 0), with the threshold t in param_str.
 *
 * Build it with the headers only, and name it in a prototxt file or with -plugin:
 *
 *   cc -shared -fPIC -o soft_threshold.so soft_threshold.c
 *
 *   layer { name: 'shrink' type: 'Plugin' bottom: 'x' top: 'y'
 *           plugin_param { library: 'soft_threshold.so' param_str: '0.5' } } */
#include <stdlib.h>

#include "crema/crema.h"

static crema_status setup(crema_layer *layer) {
  char *text = NULL;
  crema_status status = crema_layer_field(layer, "plugin_param.param_str", &text);
  if (status != CREMA_OK) return status;
  float *threshold = malloc(sizeof *threshold);
  if (threshold != NULL) *threshold = strtof(text, NULL);
  crema_free(text);
  crema_layer_set_state(layer, threshold);
  if (threshold == NULL) return crema_layer_fail(layer, CREMA_E_NO_MEMORY, "out of memory");
  if (*threshold >= 0) return CREMA_OK;
  return crema_layer_fail(layer, CREMA_E_RANGE, "the threshold is below 0");
}

static crema_status reshape(crema_layer *layer) {
  return crema_blob_reshape(crema_layer_top(layer, 0),
                            crema_blob_shape(crema_layer_bottom(layer, 0)));
}

static crema_status forward(crema_layer *layer) {
  const float t = *(const float *)crema_layer_state(layer), *x = NULL;
  float *y = NULL;
  crema_status status = crema_blob_cpu_data(crema_layer_bottom(layer, 0), &x);
  if (status == CREMA_OK) status = crema_blob_mutable_cpu_data(crema_layer_top(layer, 0), &y);
  if (status != CREMA_OK) return status;
  const int64_t count = crema_blob_count(crema_layer_top(layer, 0));
  for (int64_t i = 0; i < count; ++i) {
    y[i] = x[i] > t ? x[i] - t : x[i] < -t ? x[i] + t : 0.0f;
  }
  return CREMA_OK;
}

static crema_status backward(crema_layer *layer) {
  const float t = *(const float *)crema_layer_state(layer), *x = NULL, *dy = NULL;
  float *dx = NULL;
  if (!crema_layer_propagate_down(layer, 0)) return CREMA_OK;
  crema_status status = crema_blob_cpu_data(crema_layer_bottom(layer, 0), &x);
  if (status == CREMA_OK) status = crema_blob_cpu_diff(crema_layer_top(layer, 0), &dy);
  if (status == CREMA_OK) status = crema_blob_mutable_cpu_diff(crema_layer_bottom(layer, 0), &dx);
  if (status != CREMA_OK) return status;
  const int64_t count = crema_blob_count(crema_layer_top(layer, 0));
  for (int64_t i = 0; i < count; ++i) dx[i] = x[i] > t || x[i] < -t ? dy[i] : 0.0f;
  return CREMA_OK;
}

static void destroy(crema_layer *layer) {
  free(crema_layer_state(layer));
}

crema_status CREMA_PLUGIN(void) {
  static const crema_layer_type type = {.type = "SoftThreshold",
                                        .min_bottoms = 1,
                                        .max_bottoms = 1,
                                        .min_tops = 1,
                                        .max_tops = 1,
                                        .setup = setup,
                                        .reshape = reshape,
                                        .forward = forward,
                                        .backward = backward,
                                        .destroy = destroy};
  return crema_layer_register(&type);
}
