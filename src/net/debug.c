/* Diagnosing a net: debug_info lines and the search for values that are not finite numbers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "core/log.h"
#include "memory/math.h"
#include "net/common/fail.h"
#include "net/lifetimes.h"
#include "net/run.h"

/* The mean absolute value of the data. */
static crema_status mean_data(crema_blob *blob, double *out) {
  const int64_t count = crema_blob_count(blob);
  double sum = 0.0;
  if (cr_dtype_is_floating(cr_tensor_type(blob->data))) {
    CR_TRY(cr_tensor_asum(blob->data, &sum));
  } else {
    const void *values = NULL;
    CR_TRY(crema_blob_data_as(blob, CREMA_F64, &values));
    for (int64_t i = 0; i < count; ++i) sum += fabs(((const double *)values)[i]);
  }
  *out = count == 0 ? 0.0 : sum / (double)count;
  return CREMA_OK;
}

static crema_status mean_diff(crema_blob *blob, double *out) {
  const int64_t count = crema_blob_count(blob);
  double sum = 0.0;
  CR_TRY(cr_tensor_asum(blob->diff, &sum));
  *out = count == 0 ? 0.0 : sum / (double)count;
  return CREMA_OK;
}

/* The diff holds a gradient, which is shown without the net's factor for all gradients. */
static crema_status mean_gradient(const crema_net *net, crema_blob *blob, double *out) {
  CR_TRY(mean_diff(blob, out));
  *out /= net->grad_scale;
  return CREMA_OK;
}

/* A parameter's name if it has one, else its index in the layer. */
static const char *param_label(const crema_net *net, int entry, char *text, size_t size) {
  const cr_net_param *param = &net->net_param[entry];
  if (param->name[0] != '\0') return param->name;
  snprintf(text, size, "%d", param->index);
  return text;
}

/* Logs the mean absolute value of a parameter's data, or of its diff. */
static crema_status log_param(const crema_net *net, const cr_net_layer *layer, int p, bool diff) {
  crema_blob *blob = layer->layer->blob[p];
  char text[16];
  double mean = 0.0;
  CR_TRY(diff ? mean_gradient(net, blob, &mean) : mean_data(blob, &mean));
  cr_log_info("    [%s] Layer %s, param blob %s %s: %g", diff ? "Backward" : "Forward",
              layer->layer->name, param_label(net, layer->first_param + p, text, sizeof text),
              diff ? "diff" : "data", mean);
  return CREMA_OK;
}

crema_status cr_net_debug_forward(crema_net *net, int index) {
  cr_net_layer *layer = &net->layer[index];
  const cr_layer *self = layer->layer;
  double mean = 0.0;
  for (int j = 0; j < self->tops; ++j) {
    CR_TRY(mean_data(layer->top[j], &mean));
    cr_log_info("    [Forward] Layer %s, top blob %s data: %g", self->name,
                net->blob_name[layer->top_id[j]], mean);
  }
  for (int p = 0; p < self->params; ++p) CR_TRY(log_param(net, layer, p, false));
  return CREMA_OK;
}

crema_status cr_net_debug_backward(crema_net *net, int index) {
  cr_net_layer *layer = &net->layer[index];
  const cr_layer *self = layer->layer;
  double mean = 0.0;
  for (int j = 0; j < self->bottoms; ++j) {
    if (!layer->propagate_down[j]) continue;
    CR_TRY(mean_gradient(net, layer->bottom[j], &mean));
    cr_log_info("    [Backward] Layer %s, bottom blob %s diff: %g", self->name,
                net->blob_name[layer->bottom_id[j]], mean);
  }
  for (int p = 0; p < self->params; ++p) {
    if (self->param_propagate_down[p]) CR_TRY(log_param(net, layer, p, true));
  }
  return CREMA_OK;
}

crema_status cr_net_debug_all_params(crema_net *net) {
  double asum_data = 0.0, asum_diff = 0.0, sumsq_data = 0.0, sumsq_diff = 0.0;
  for (int i = 0; i < net->learnables; ++i) {
    double part[4];
    CR_TRY(cr_tensor_asum(net->learnable[i]->data, &part[0]));
    CR_TRY(cr_tensor_asum(net->learnable[i]->diff, &part[1]));
    CR_TRY(cr_tensor_sumsq(net->learnable[i]->data, &part[2]));
    CR_TRY(cr_tensor_sumsq(net->learnable[i]->diff, &part[3]));
    asum_data += part[0];
    asum_diff += part[1];
    sumsq_data += part[2];
    sumsq_diff += part[3];
  }
  cr_log_info(
      "    [Backward] All net params (data, diff): L1 norm = (%g, %g); "
      "L2 norm = (%g, %g)",
      asum_data, asum_diff / net->grad_scale, sqrt(sumsq_data), sqrt(sumsq_diff) / net->grad_scale);
  return CREMA_OK;
}

crema_status cr_net_debug_update(crema_net *net) {
  if (!net->debug_info) return CREMA_OK;
  for (int i = 0; i < net->params; ++i) {
    const cr_net_param *param = &net->net_param[i];
    cr_layer *self = net->layer[param->layer].layer;
    char text[2][16];
    const char *label = param_label(net, i, text[0], sizeof text[0]);
    double data = 0.0, diff = 0.0;
    CR_TRY(mean_diff(self->blob[param->index], &diff));
    if (param->owner < 0) {
      CR_TRY(mean_data(self->blob[param->index], &data));
      cr_log_info("    [Update] Layer %s, param %s data: %g; diff: %g", self->name, label, data,
                  diff);
      continue;
    }
    const cr_net_param *owner = &net->net_param[param->owner];
    cr_log_info("    [Update] Layer %s, param blob %s (owned by layer %s, param %s) diff: %g",
                self->name, label, net->layer[owner->layer].layer->name,
                param_label(net, param->owner, text[1], sizeof text[1]), diff);
  }
  return CREMA_OK;
}

/* Reads doubles as doubles: some of them are too large for floats. */
static crema_status is_finite(crema_blob *blob, bool *out) {
  const bool doubles = cr_tensor_type(blob->data) == CREMA_F64;
  const int64_t count = crema_blob_count(blob);
  const void *data = NULL;
  *out = true;
  CR_TRY(crema_blob_data_as(blob, doubles ? CREMA_F64 : CREMA_F32, &data));
  const double *wide = data;
  const float *narrow = data;
  for (int64_t k = 0; k < count && *out; ++k) *out = isfinite(doubles ? wide[k] : narrow[k]);
  return CREMA_OK;
}

/* The first parameter of a layer that is not finite; *name NULL when there is none. */
static crema_status search_params(const cr_layer *layer, const char **name) {
  /* Parameters beyond the list share its last entry. */
  static const char *const word[] = {"param 0", "param 1", "param 2", "param 3",
                                     "param 4", "param 5", "a param"};
  const int last = (int)(sizeof word / sizeof word[0]) - 1;
  bool finite = true;
  *name = NULL;
  for (int p = 0; p < layer->params && *name == NULL; ++p) {
    CR_TRY(is_finite(layer->blob[p], &finite));
    if (!finite) *name = word[p < last ? p : last];
  }
  return CREMA_OK;
}

/* The first parameter or top of a layer that is not finite; *name NULL when there is none. */
static crema_status search_layer(const crema_net *net, const cr_net_layer *layer,
                                 const char **name) {
  bool finite = true;
  CR_TRY(search_params(layer->layer, name));
  for (int j = 0; j < layer->layer->tops && *name == NULL; ++j) {
    CR_TRY(is_finite(layer->top[j], &finite));
    if (!finite) *name = net->blob_name[layer->top_id[j]];
  }
  return CREMA_OK;
}

crema_status cr_net_find_nonfinite(crema_net *net, bool *found, const char **layer_name,
                                   const char **blob_name) {
  *found = false;
  for (int i = 0; i < net->layers; ++i) {
    const char *name = NULL;
    /* Layers compute released values again, one after another. */
    if (net->plans) CR_TRY(cr_net_replay_layer(net, i));
    CR_TRY(search_layer(net, &net->layer[i], &name));
    cr_net_release_after_forward(net, i);
    if (name == NULL) continue;
    *found = true;
    if (layer_name != NULL) *layer_name = net->layer[i].layer->name;
    if (blob_name != NULL) *blob_name = name;
    return CREMA_OK;
  }
  return CREMA_OK;
}

crema_status cr_net_check_weights(const crema_net *net) {
  for (int i = 0; i < net->layers; ++i) {
    const char *name = NULL;
    CR_TRY(search_params(net->layer[i].layer, &name));
    if (name == NULL) continue;
    return cr_layer_in(net->layer[i].layer,
                       cr_fail(CREMA_E_NUMERIC, "%s holds values that are not finite", name));
  }
  return CREMA_OK;
}
