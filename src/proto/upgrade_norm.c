/* BatchNorm of the NVIDIA dialect and of Intel Caffe can also scale and shift. It becomes a
 * BatchNorm followed by a Scale. PSPNet's BN is upgraded in the same way. The parameters 0 to 2 are
 * the statistics (mean, variance, one value without a meaning), 3 the scale and 4 the shift. Models
 * of early versions, such as those that DIGITS wrote, have another order: scale, shift, mean,
 * variance, one value. Models of BVLC have three: sums of means, sums of variances, and their
 * divisor. */
#include <string.h>

#include "core/fail.h"
#include "proto/upgrade.h"

enum { STATISTICS = 3, PARAMETERS = 5 };

/* The weight of statistics that a momentum of 1 leaves as they are. */
#define MOST_WEIGHT 1e6F

/* Whether the values of a layer that scales are given, in one of the two orders. */
static bool has_scaling_blobs(const Caffe__LayerParameter *layer) {
  int64_t count[PARAMETERS];
  if (layer->n_blobs != PARAMETERS) return false;
  for (int i = 0; i < PARAMETERS; ++i) {
    if (!cr_upgrade_has_extents(layer->blobs[i])) return false;
    count[i] = cr_upgrade_count(layer->blobs[i]);
  }
  bool one = count[2] == 1 ? count[4] == count[0] : count[2] == count[0] && count[4] == 1;
  return one && count[0] == count[1] && count[0] == count[3];
}

/* PSPNet's layer, which has the four parameters scale, shift, mean and variance. */
static bool is_bn(const Caffe__LayerParameter *layer) {
  return cr_upgrade_is_of(layer, "BN");
}

/* Intel Caffe's field that requests scaling. Its default, if the file gives neither field, is left
 * to the file's own Scale layers, as in other dialects. */
static bool has_weight(const Caffe__BatchNormParameter *norm) {
  if (norm == NULL || (norm->has_use_weight_bias && !norm->use_weight_bias)) return false;
  return norm->has_use_weight_bias || norm->filler != NULL;
}

/* As in the NVIDIA dialect, a filler means scale_bias. The parameters for it mean the same, also in
 * layers of models, which need not have a top. */
bool cr_upgrade_norm_needed(const Caffe__LayerParameter *layer) {
  const Caffe__BatchNormParameter *norm = layer->batch_norm_param;
  const bool bn = is_bn(layer);
  if (layer->n_top > 1 || (!bn && !cr_upgrade_is_of(layer, "BatchNorm"))) return false;
  /* Intel Caffe has four parameters: the NVIDIA dialect's without the shift. */
  const bool no_shift = layer->n_blobs == PARAMETERS - 1 &&
                        cr_upgrade_count(layer->blobs[2]) == 1 &&
                        cr_upgrade_count(layer->blobs[3]) == cr_upgrade_count(layer->blobs[0]);
  if (bn ? layer->n_blobs > 0 : has_scaling_blobs(layer) || no_shift) return true;
  if (layer->n_top == 0) return false;
  return bn || has_weight(norm) ||
         (norm != NULL && (norm->scale_bias || norm->scale_filler || norm->bias_filler));
}

/* Drops messages `from` to `to` - 1 of a repeated field. */
static void drop(ProtobufCMessage ***array, size_t *count, size_t from, size_t to) {
  if (to > *count) to = *count;
  if (from >= to) return;
  for (size_t i = from; i < to; ++i) cr_message_free((*array)[i]);
  memmove(*array + from, *array + to, (*count - to) * sizeof **array);
  *count -= to - from;
}

/* Keeps only the layer's parameters, shared or stored, with indices in [from, to). */
static void keep_parameters(Caffe__LayerParameter *layer, size_t from, size_t to) {
  static const char *const fields[] = {"param", "blobs"};
  for (int i = 0; i < 2; ++i) {
    const ProtobufCFieldDescriptor *field = cr_message_field(&layer->base, fields[i]);
    ProtobufCMessage ***array = cr_field_slot(&layer->base, field);
    size_t *count = cr_field_length(&layer->base, field);
    drop(array, count, to, *count);
    drop(array, count, 0, from);
    if (*count == 0) cr_field_clear(&layer->base, field);
  }
}

/* The statistics are not learned, for any multipliers. With `full`, as in the NVIDIA dialect, scale
 * and shift are learned at the full rate, for any multipliers. */
static void set_multipliers(Caffe__LayerParameter *norm, Caffe__LayerParameter *scale, bool full) {
  for (size_t i = 0; i < norm->n_param; ++i) {
    norm->param[i]->has_lr_mult = norm->param[i]->has_decay_mult = 1;
    norm->param[i]->lr_mult = norm->param[i]->decay_mult = 0.0F;
  }
  for (size_t i = 0; full && i < scale->n_param; ++i) {
    cr_message_clear(&scale->param[i]->base, "lr_mult");
    cr_message_clear(&scale->param[i]->base, "decay_mult");
  }
}

static crema_status move_fillers(Caffe__BatchNormParameter *norm, Caffe__LayerParameter *layer,
                                 bool bias) {
  static const char *const read[] = {"scale_bias", "use_weight_bias", "bias_term"};
  Caffe__ScaleParameter *scale = NULL;
  CR_TRY(cr_message_inner(&layer->base, "scale_param", &scale));
  scale->has_bias_term = 1;
  scale->bias_term = bias;
  if (norm == NULL) return CREMA_OK;
  CR_TRY(cr_message_move(&norm->base, norm->filler != NULL ? "filler" : "scale_filler",
                         &scale->base, "filler"));
  CR_TRY(cr_message_move(&norm->base, "bias_filler", &scale->base, "bias_filler"));
  for (int i = 0; i < 3; ++i) cr_message_clear(&norm->base, read[i]);
  return CREMA_OK;
}

/* `scale` is a copy of `norm`, and keeps its rules. It works in place on the top of `norm`, if
 * there is one. */
static crema_status divide(Caffe__LayerParameter *norm, Caffe__LayerParameter *scale, bool full) {
  static const char *const of_norm[] = {"name", "type", "bottom", "propagate_down",
                                        "batch_norm_param"};
  const bool bias = norm->n_blobs != PARAMETERS - 1 &&
                    (norm->batch_norm_param == NULL || norm->batch_norm_param->bias_term);
  for (int i = 0; i < 5; ++i) cr_message_clear(&scale->base, of_norm[i]);
  cr_message_clear(&norm->base, "loss_weight");
  CR_TRY(cr_upgrade_text(&scale->name, cr_upgrade_name(norm), CR_UPGRADED_SCALE));
  CR_TRY(cr_upgrade_text(&scale->type, "Scale", ""));
  if (scale->n_top > 0) CR_TRY(cr_upgrade_set_bottom(scale, scale->top[0]));
  keep_parameters(norm, 0, STATISTICS);
  keep_parameters(scale, STATISTICS, SIZE_MAX);
  set_multipliers(norm, scale, full);
  return move_fillers(norm->batch_norm_param, scale, bias);
}

/* A blob of one value. */
static crema_status one_blob(float value, Caffe__BlobProto **out) {
  ProtobufCMessage *blob = NULL;
  Caffe__BlobShape *shape = NULL;
  CR_TRY(cr_message_new(&caffe__blob_proto__descriptor, &blob));
  Caffe__BlobProto *made = (Caffe__BlobProto *)blob;
  crema_status status = cr_message_inner(blob, "shape", &shape);
  if (status == CREMA_OK) status = cr_message_reserve(blob, "data", 1);
  if (status == CREMA_OK) status = cr_message_reserve(&shape->base, "dim", 1);
  if (status != CREMA_OK) {
    cr_message_free(blob);
    return status;
  }
  shape->dim[shape->n_dim++] = 1;
  made->data[made->n_data++] = value;
  *out = made;
  return CREMA_OK;
}

/* From scale, shift, mean, variance and a fifth one to mean, variance, the fifth, scale, shift. */
static void rotate(void **array) {
  void *old[PARAMETERS];
  memcpy(old, array, sizeof old);
  for (int i = 0; i < PARAMETERS; ++i) array[i] = old[(i + 2) % PARAMETERS];
}

/* Brings five parameters into today's order. Means and variances that are no sums get `weight`.
 * With a single channel all have one value, and the order is today's. */
static crema_status order_parameters(Caffe__LayerParameter *norm, float weight) {
  Caffe__BlobProto **blob = norm->blobs, *one = NULL;
  if (norm->n_blobs != PARAMETERS) return CREMA_OK;
  /* Intel Caffe has sums, of one axis, whose divisor is 1 + moving_average_fraction or more from
   * the second batch on. In the NVIDIA dialect the value is 1, or n / (n - 1) for n values, and
   * divides nothing. */
  const bool one_axis = blob[0]->shape == NULL || blob[0]->shape->n_dim <= 1;
  if (one_axis && blob[2]->n_data == 1 && blob[2]->data[0] > 1.5F) return CREMA_OK;
  for (int i = 0; i < PARAMETERS; ++i) CR_TRY(cr_upgrade_flatten(blob[i]));
  CR_TRY(one_blob(weight, &one));
  if (cr_upgrade_count(blob[4]) == 1 && cr_upgrade_count(blob[2]) != 1) rotate((void **)blob);
  cr_message_free(&blob[2]->base);
  blob[2] = one;
  for (int i = 0; i < 2; ++i) {
    for (size_t k = 0; k < blob[i]->n_data; ++k) blob[i]->data[k] *= weight;
    for (size_t k = 0; k < blob[i]->n_double_data; ++k) blob[i]->double_data[k] *= (double)weight;
  }
  return CREMA_OK;
}

/* bn_param as a batch_norm_param. */
static crema_status convert_bn_param(Caffe__LayerParameter *layer) {
  const Caffe__BNParameter unset = CAFFE__BNPARAMETER__INIT;
  Caffe__BNParameter *bn = layer->bn_param;
  Caffe__BatchNormParameter *norm = NULL;
  CR_TRY(cr_message_inner(&layer->base, "batch_norm_param", &norm));
  norm->has_moving_average_fraction = norm->has_eps = 1;
  norm->moving_average_fraction = bn != NULL ? bn->momentum : unset.momentum;
  norm->eps = bn != NULL ? bn->eps : unset.eps;
  if (bn == NULL) return CREMA_OK;
  if (bn->frozen) {
    norm->has_use_global_stats = norm->use_global_stats = norm->has_initial_variance = 1;
    norm->initial_variance = 1;
  }
  CR_TRY(cr_message_move(&bn->base, "slope_filler", &norm->base, "scale_filler"));
  return cr_message_move(&bn->base, "bias_filler", &norm->base, "bias_filler");
}

/* Adds messages to a repeated field until it has `count` of them. */
static crema_status fill_up(ProtobufCMessage *message, const char *name, size_t count) {
  const ProtobufCFieldDescriptor *field = cr_message_field(message, name);
  size_t *length = cr_field_length(message, field);
  if (*length >= count) return CREMA_OK;
  CR_TRY(cr_field_reserve(message, field, count - *length));
  while (*length < count) {
    ProtobufCMessage ***array = cr_field_slot(message, field);
    CR_TRY(cr_message_new(field->descriptor, &(*array)[*length]));
    ++*length;
  }
  return CREMA_OK;
}

static crema_status convert_bn(Caffe__LayerParameter *layer) {
  const bool frozen = layer->bn_param != NULL && layer->bn_param->frozen;
  if (layer->n_blobs != 0 && layer->n_blobs != PARAMETERS - 1) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "BN of %zu parameters is not supported, it has four: scale, shift, mean, "
                   "variance",
                   layer->n_blobs);
  }
  CR_TRY(cr_upgrade_set_type(layer, "BatchNorm"));
  CR_TRY(convert_bn_param(layer));
  cr_message_clear(&layer->base, "bn_param");
  if (layer->n_param > 0 || frozen) {
    CR_TRY(fill_up(&layer->base, "param", PARAMETERS));
    for (int i = 0; frozen && i < 2; ++i) {
      layer->param[i]->has_lr_mult = layer->param[i]->has_decay_mult = 1;
      layer->param[i]->lr_mult = layer->param[i]->decay_mult = 0.0F;
    }
    rotate((void **)layer->param);
  }
  if (layer->n_blobs == 0) return CREMA_OK;
  CR_TRY(fill_up(&layer->base, "blobs", PARAMETERS));
  rotate((void **)layer->blobs);
  return CREMA_OK;
}

/* The factor that turns means and variances into sums. BN moves them towards a batch's values by
 * 1 - momentum; a BatchNorm with this weight does the same. With a weight of 1 it would forget them
 * in a few batches. The NVIDIA dialect drops them in its first batch. */
static float weight_of(const Caffe__LayerParameter *norm, bool bn) {
  if (!bn || norm->n_blobs != PARAMETERS || norm->blobs[0]->has_raw_data) return 1;
  const float rest = 1 - norm->batch_norm_param->moving_average_fraction;
  return rest > 1 / MOST_WEIGHT ? 1 / rest : MOST_WEIGHT;
}

static crema_status upgrade_layer(Caffe__NetParameter *net, size_t index) {
  Caffe__LayerParameter *layer = net->layer[index];
  const bool bn = is_bn(layer), full = !bn && !has_weight(layer->batch_norm_param);
  if (bn) CR_TRY(convert_bn(layer));
  CR_TRY(order_parameters(layer, weight_of(layer, bn)));
  CR_TRY(cr_upgrade_double(net, index));
  return divide(layer, net->layer[index + 1], full);
}

crema_status cr_upgrade_norm(cr_upgrade *upgrade) {
  /* Back to front, so that the layers that are added are not visited. */
  for (size_t i = upgrade->net->n_layer; i-- > 0;) {
    const Caffe__LayerParameter *layer = upgrade->net->layer[i];
    if (!cr_upgrade_norm_needed(layer)) continue;
    CR_TRY(cr_upgrade_in_layer(upgrade, &layer->base, upgrade_layer(upgrade->net, i)));
  }
  return CREMA_OK;
}
