/* BatchNorm of the NVIDIA dialect and of Intel Caffe, which can scale and shift by itself, to a
 * BatchNorm and a Scale layer behind it; so PSPNet's BN. Its parameters 0 to 2 are the statistics
 * (mean, variance, one value without a meaning), 3 the scale and 4 the shift. Models of its early
 * versions, as of DIGITS, have them in another order: scale, shift, mean, variance, one value.
 * Models of BVLC have three: sums of means and of variances and what to divide them by, which the
 * BatchNorm layer does. */
#include <string.h>

#include "core/fail.h"
#include "proto/upgrade.h"

enum { STATISTICS = 3, PARAMETERS = 5 };

/* Of statistics that a momentum of 1 leaves as they are. */
#define MOST_WEIGHT 1e6F

/* The product of the four extents of old files; 0 when there are none. */
static int64_t count_of_legacy(const Caffe__BlobProto *blob) {
  const int32_t extent[] = {blob->num, blob->channels, blob->height, blob->width};
  int64_t count = blob->has_num || blob->has_channels || blob->has_height || blob->has_width;
  for (int i = 0; i < 4; ++i) count *= extent[i] > 0 && count < INT32_MAX ? extent[i] : 0;
  return count;
}

/* The number of elements; 0 when the extents make no sense. */
static int64_t count_of(const Caffe__BlobProto *blob) {
  int64_t count = 1;
  bool legacy = blob->has_num || blob->has_channels || blob->has_height || blob->has_width;
  if (blob->shape == NULL) return legacy ? count_of_legacy(blob) : 1;
  for (size_t i = 0; i < blob->shape->n_dim; ++i) {
    int64_t extent = blob->shape->dim[i];
    count *= extent > 0 && extent < INT32_MAX && count < INT32_MAX ? extent : 0;
  }
  return count;
}

static bool has_extents(const Caffe__BlobProto *blob) {
  return blob->shape != NULL || count_of_legacy(blob) > 0;
}

/* Whether the values of a layer that scales are given, in one of the two orders. */
static bool has_scaling_blobs(const Caffe__LayerParameter *layer) {
  int64_t count[PARAMETERS];
  if (layer->n_blobs != PARAMETERS) return false;
  for (int i = 0; i < PARAMETERS; ++i) {
    if (!has_extents(layer->blobs[i])) return false;
    count[i] = count_of(layer->blobs[i]);
  }
  bool one = count[2] == 1 ? count[4] == count[0] : count[2] == count[0] && count[4] == 1;
  return one && count[0] == count[1] && count[0] == count[3];
}

/* PSPNet's layer, which has the four parameters scale, shift, mean and variance. */
static bool is_bn(const Caffe__LayerParameter *layer) {
  return cr_upgrade_is_of(layer, "BN");
}

/* Intel Caffe without the shift. */
static bool has_scale_alone(const Caffe__LayerParameter *layer) {
  return layer->n_blobs == PARAMETERS - 1 && count_of(layer->blobs[2]) == 1 &&
         count_of(layer->blobs[3]) == count_of(layer->blobs[0]);
}

/* As Intel Caffe has it. What it does by default where nothing is said is left to the file's own
 * Scale layers, as in other dialects. */
static bool has_weight(const Caffe__BatchNormParameter *norm) {
  if (norm == NULL || (norm->has_use_weight_bias && !norm->use_weight_bias)) return false;
  return norm->has_use_weight_bias || norm->filler != NULL;
}

/* As in the NVIDIA dialect, a filler means scale_bias; so do the parameters that it needs. These
 * alone count without a top, which layers of models need not have. */
static bool scales(const Caffe__LayerParameter *layer) {
  const Caffe__BatchNormParameter *norm = layer->batch_norm_param;
  const bool bn = is_bn(layer);
  if (layer->n_top > 1 || (!bn && !cr_upgrade_is_of(layer, "BatchNorm"))) return false;
  if (bn ? layer->n_blobs > 0 : has_scaling_blobs(layer) || has_scale_alone(layer)) return true;
  if (layer->n_top == 0) return false;
  return bn || has_weight(norm) ||
         (norm != NULL && (norm->scale_bias || norm->scale_filler || norm->bias_filler));
}

static size_t count_scaling(const Caffe__NetParameter *net) {
  size_t count = 0;
  for (size_t i = 0; i < net->n_layer; ++i) count += scales(net->layer[i]);
  return count;
}

bool cr_upgrade_norm_needed(const Caffe__NetParameter *net) {
  return count_scaling(net) > 0;
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
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
    const ProtobufCFieldDescriptor *field = cr_upgrade_field(&layer->base, fields[i]);
    ProtobufCMessage ***array = cr_field_slot(&layer->base, field);
    size_t *count = cr_field_length(&layer->base, field);
    drop(array, count, to, *count);
    drop(array, count, 0, from);
    if (*count == 0) cr_field_clear(&layer->base, field);
  }
}

/* The statistics are not learnt, whatever the multipliers say; the NVIDIA dialect also learns scale
 * and shift at the full rate whatever they say: `full`. */
static void set_multipliers(Caffe__LayerParameter *norm, Caffe__LayerParameter *scale, bool full) {
  for (size_t i = 0; i < norm->n_param; ++i) {
    norm->param[i]->has_lr_mult = norm->param[i]->has_decay_mult = 1;
    norm->param[i]->lr_mult = norm->param[i]->decay_mult = 0.0F;
  }
  for (size_t i = 0; full && i < scale->n_param; ++i) {
    cr_upgrade_clear(&scale->param[i]->base, "lr_mult");
    cr_upgrade_clear(&scale->param[i]->base, "decay_mult");
  }
}

/* Moves the field of `norm` under another name to `scale`, where it is given. */
static crema_status move_filler(Caffe__BatchNormParameter *norm, const char *from,
                                ProtobufCMessage *scale, const char *to) {
  const ProtobufCFieldDescriptor *field = cr_upgrade_field(&norm->base, from);
  if (cr_field_count(&norm->base, field) == 0) return CREMA_OK;
  return cr_field_move(&norm->base, field, scale, cr_upgrade_field(scale, to));
}

static crema_status move_fillers(Caffe__BatchNormParameter *norm, Caffe__LayerParameter *layer,
                                 bool bias) {
  static const char *const read[] = {"scale_bias", "use_weight_bias", "bias_term"};
  ProtobufCMessage *param;
  CR_TRY(cr_field_message(&layer->base, cr_upgrade_field(&layer->base, "scale_param"), &param));
  Caffe__ScaleParameter *scale = (Caffe__ScaleParameter *)param;
  scale->has_bias_term = 1;
  scale->bias_term = bias;
  if (norm == NULL) return CREMA_OK;
  CR_TRY(move_filler(norm, norm->filler != NULL ? "filler" : "scale_filler", param, "filler"));
  CR_TRY(move_filler(norm, "bias_filler", param, "bias_filler"));
  for (size_t i = 0; i < sizeof read / sizeof read[0]; ++i) cr_upgrade_clear(&norm->base, read[i]);
  return CREMA_OK;
}

/* `scale` is a copy of `norm`, and keeps its rules. It works in place on the top of `norm`, if
 * there is one. */
static crema_status divide(Caffe__LayerParameter *norm, Caffe__LayerParameter *scale, bool full) {
  const bool bias = norm->n_blobs != PARAMETERS - 1 &&
                    (norm->batch_norm_param == NULL || norm->batch_norm_param->bias_term);
  cr_upgrade_clear(&scale->base, "name");
  cr_upgrade_clear(&scale->base, "type");
  cr_upgrade_clear(&scale->base, "bottom");
  cr_upgrade_clear(&scale->base, "propagate_down");
  cr_upgrade_clear(&scale->base, "batch_norm_param");
  cr_upgrade_clear(&norm->base, "loss_weight");
  CR_TRY(cr_upgrade_text(&scale->name, norm->name != NULL ? norm->name : "", CR_UPGRADED_SCALE));
  CR_TRY(cr_upgrade_text(&scale->type, "Scale", ""));
  if (scale->n_top > 0) {
    CR_TRY(cr_field_reserve(&scale->base, cr_upgrade_field(&scale->base, "bottom"), 1));
    CR_TRY(cr_upgrade_text(&scale->bottom[0], scale->top[0], ""));
    scale->n_bottom = 1;
  }
  keep_parameters(norm, 0, STATISTICS);
  keep_parameters(scale, STATISTICS, SIZE_MAX);
  set_multipliers(norm, scale, full);
  return move_fillers(norm->batch_norm_param, scale, bias);
}

/* A blob of one value. */
static crema_status one_blob(float value, Caffe__BlobProto **out) {
  ProtobufCMessage *shape = NULL, *blob = NULL;
  CR_TRY(cr_message_new(&caffe__blob_proto__descriptor, &blob));
  Caffe__BlobProto *made = (Caffe__BlobProto *)blob;
  crema_status status = cr_field_message(blob, cr_upgrade_field(blob, "shape"), &shape);
  if (status == CREMA_OK) status = cr_field_reserve(blob, cr_upgrade_field(blob, "data"), 1);
  if (status == CREMA_OK) status = cr_field_reserve(shape, cr_upgrade_field(shape, "dim"), 1);
  if (status != CREMA_OK) {
    cr_message_free(blob);
    return status;
  }
  made->shape->dim[0] = 1;
  made->shape->n_dim = 1;
  made->data[0] = value;
  made->n_data = 1;
  *out = made;
  return CREMA_OK;
}

crema_status cr_upgrade_flatten(Caffe__BlobProto *blob) {
  ProtobufCMessage *shape = NULL;
  int64_t count = count_of(blob);
  bool legacy = blob->shape == NULL && count_of_legacy(blob) > 0;
  if (count == 0 || (!legacy && (blob->shape == NULL || blob->shape->n_dim < 2))) return CREMA_OK;
  CR_TRY(cr_field_message(&blob->base, cr_upgrade_field(&blob->base, "shape"), &shape));
  if (legacy) CR_TRY(cr_field_reserve(shape, cr_upgrade_field(shape, "dim"), 1));
  blob->shape->dim[0] = count;
  blob->shape->n_dim = 1;
  cr_upgrade_clear(&blob->base, "num");
  cr_upgrade_clear(&blob->base, "channels");
  cr_upgrade_clear(&blob->base, "height");
  cr_upgrade_clear(&blob->base, "width");
  return CREMA_OK;
}

/* Whether mean and variance are sums, as Intel Caffe's are, of one axis: from the second
 * batch on, what they are divided by is 1 + moving_average_fraction or more. In the NVIDIA dialect
 * the value is 1, or n / (n - 1) for n values, and nothing is divided by it. */
static bool has_sums(const Caffe__LayerParameter *norm) {
  const Caffe__BlobProto *mean = norm->blobs[0], *divisor = norm->blobs[2];
  if (mean->shape != NULL && mean->shape->n_dim > 1) return false;
  return divisor->n_data == 1 && divisor->data[0] > 1.5F;
}

/* Makes sums of means and variances, to be divided by `weight`. */
static void add_weight(const Caffe__LayerParameter *norm, float weight) {
  for (int i = 0; i < 2; ++i) {
    Caffe__BlobProto *mean = norm->blobs[i];
    for (size_t k = 0; k < mean->n_data; ++k) mean->data[k] *= weight;
    for (size_t k = 0; k < mean->n_double_data; ++k) mean->double_data[k] *= (double)weight;
  }
}

/* Brings five parameters into today's order. Means and variances that are no sums get `weight`.
 * With a single channel all have one value, and the order is today's. */
static crema_status order_parameters(Caffe__LayerParameter *norm, float weight) {
  Caffe__BlobProto **blob = norm->blobs, *one = NULL;
  if (norm->n_blobs != PARAMETERS || has_sums(norm)) return CREMA_OK;
  for (int i = 0; i < PARAMETERS; ++i) CR_TRY(cr_upgrade_flatten(blob[i]));
  CR_TRY(one_blob(weight, &one));
  if (count_of(blob[4]) == 1 && count_of(blob[2]) != 1) {
    Caffe__BlobProto *old[PARAMETERS];
    memcpy(old, blob, sizeof old);
    blob[0] = old[2];
    blob[1] = old[3];
    blob[2] = old[4];
    blob[3] = old[0];
    blob[4] = old[1];
  }
  cr_message_free(&blob[2]->base);
  blob[2] = one;
  add_weight(norm, weight);
  return CREMA_OK;
}

/* bn_param as a batch_norm_param. */
static crema_status convert_bn_param(Caffe__LayerParameter *layer) {
  const Caffe__BNParameter unset = CAFFE__BNPARAMETER__INIT;
  ProtobufCMessage *param;
  CR_TRY(
      cr_field_message(&layer->base, cr_upgrade_field(&layer->base, "batch_norm_param"), &param));
  Caffe__BatchNormParameter *norm = (Caffe__BatchNormParameter *)param;
  Caffe__BNParameter *bn = layer->bn_param;
  norm->has_moving_average_fraction = norm->has_eps = 1;
  norm->moving_average_fraction = bn != NULL ? bn->momentum : unset.momentum;
  norm->eps = bn != NULL ? bn->eps : unset.eps;
  if (bn == NULL) return CREMA_OK;
  if (bn->frozen) norm->has_use_global_stats = norm->use_global_stats = 1;
  static const char *const fillers[][2] = {{"slope_filler", "scale_filler"},
                                           {"bias_filler", "bias_filler"}};
  for (size_t i = 0; i < sizeof fillers / sizeof fillers[0]; ++i) {
    const ProtobufCFieldDescriptor *from = cr_upgrade_field(&bn->base, fillers[i][0]);
    if (cr_field_count(&bn->base, from) == 0) continue;
    CR_TRY(cr_field_move(&bn->base, from, param, cr_upgrade_field(param, fillers[i][1])));
  }
  return CREMA_OK;
}

/* Adds messages to a repeated field until it has `count` of them. */
static crema_status fill_up(ProtobufCMessage *message, const char *name, size_t count) {
  const ProtobufCFieldDescriptor *field = cr_upgrade_field(message, name);
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

/* From scale, shift, mean, variance and a fifth one to mean, variance, the fifth, scale, shift. */
static void rotate(void **array) {
  void *old[PARAMETERS];
  memcpy(old, array, sizeof old);
  for (int i = 0; i < PARAMETERS; ++i) array[i] = old[(i + 2) % PARAMETERS];
}

static crema_status convert_bn(Caffe__LayerParameter *layer) {
  const bool frozen = layer->bn_param != NULL && layer->bn_param->frozen;
  if (layer->n_blobs != 0 && layer->n_blobs != PARAMETERS - 1) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "layer \"%.200s\": BN of %zu parameters is not supported, it has four: scale, "
                   "shift, mean, variance",
                   layer->name != NULL ? layer->name : "", layer->n_blobs);
  }
  CR_TRY(cr_upgrade_set_type(layer, "BatchNorm"));
  CR_TRY(convert_bn_param(layer));
  cr_upgrade_clear(&layer->base, "bn_param");
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

/* What means and variances of a layer that had them as such are multiplied with as sums. BN moves
 * them towards a batch's by 1 - momentum, and so does a BatchNorm from this weight on; from 1 it
 * would forget them in a few batches. The NVIDIA dialect drops them in its first batch. */
static float weight_of(const Caffe__LayerParameter *norm, bool bn) {
  if (!bn || norm->n_blobs != PARAMETERS || norm->blobs[0]->has_raw_data) return 1;
  const float rest = 1 - norm->batch_norm_param->moving_average_fraction;
  return rest > 1 / MOST_WEIGHT ? 1 / rest : MOST_WEIGHT;
}

crema_status cr_upgrade_norm(Caffe__NetParameter *net) {
  size_t extra = count_scaling(net);
  CR_TRY(cr_field_reserve(&net->base, cr_upgrade_field(&net->base, "layer"), extra));
  /* Back to front, so that the layers that are added are not visited. */
  for (size_t i = net->n_layer; i-- > 0;) {
    ProtobufCMessage *scale;
    if (!scales(net->layer[i])) continue;
    const bool bn = is_bn(net->layer[i]);
    const bool full = !bn && !has_weight(net->layer[i]->batch_norm_param);
    if (bn) CR_TRY(convert_bn(net->layer[i]));
    CR_TRY(order_parameters(net->layer[i], weight_of(net->layer[i], bn)));
    CR_TRY(cr_message_copy(&net->layer[i]->base, &scale));
    memmove(net->layer + i + 2, net->layer + i + 1, (net->n_layer - i - 1) * sizeof *net->layer);
    net->layer[i + 1] = (Caffe__LayerParameter *)scale;
    ++net->n_layer;
    CR_TRY(divide(net->layer[i], net->layer[i + 1], full));
  }
  return CREMA_OK;
}
