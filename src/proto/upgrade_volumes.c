/* Layers over three spatial axes of C3D (facebookarchive/C3D), video-caffe (chuckcho) and Pseudo-3D
 * networks (ZhaofanQiu), which have their own types and fields. */
#include <string.h>

#include "core/fail.h"
#include "proto/upgrade.h"

/* A type of a fork and the type that it becomes. C3D's first version has its fields in `param`, the
 * second in `moved`. */
typedef struct volume_kind {
  const char *type, *becomes, *param, *moved;
} volume_kind;

static const volume_kind kinds[] = {
    {"Convolution3D", "Convolution", "convolution_param", "convolution3d_param"},
    {"Deconvolution3D", "Deconvolution", "convolution_param", "convolution3d_param"},
    {"Pooling3D", "Pooling", "pooling_param", "pooling3d_param"},
    {"NdConvolution", "Convolution", "convolution_param", NULL},
    {"NdPooling", "Pooling", "pooling_param", NULL},
};

/* An extent of a window in C3D, where one value is for height and width, its depth's name in the
 * Pooling3D of Pseudo-3D networks, and the extent in video-caffe. */
static const struct {
  const char *plane, *depth, *length, *shape;
  uint32_t fallback; /* 0: the field has no default, or 0 */
} extents[] = {
    {"kernel_size", "kernel_depth", "kernel_l", "kernel_shape", 0},
    {"stride", "temporal_stride", "stride_l", "stride_shape", 1},
    {"pad", "temporal_pad", "pad_l", "pad_shape", 0},
};

enum { KINDS = sizeof kinds / sizeof kinds[0], EXTENTS = sizeof extents / sizeof extents[0] };

static const volume_kind *kind_of(const Caffe__LayerParameter *layer) {
  for (int i = 0; i < KINDS; ++i) {
    if (cr_upgrade_is_of(layer, kinds[i].type)) return &kinds[i];
  }
  return NULL;
}

static size_t given(const ProtobufCMessage *param, const char *name) {
  return cr_field_count(param, cr_message_field(param, name));
}

static bool has_depth(const ProtobufCMessage *param) {
  return given(param, "kernel_depth") > 0;
}

static bool has_shape(const ProtobufCMessage *param) {
  for (int i = 0; i < EXTENTS; ++i) {
    if (given(param, extents[i].shape) > 0) return true;
  }
  return false;
}

/* convolution_param or pooling_param of a layer; NULL if it has none. */
static ProtobufCMessage *window_of(const Caffe__LayerParameter *layer) {
  if (layer->convolution_param != NULL) return &layer->convolution_param->base;
  return layer->pooling_param != NULL ? &layer->pooling_param->base : NULL;
}

static bool has_length(const Caffe__PoolingParameter *param) {
  return param != NULL && (param->has_kernel_l || param->has_stride_l || param->has_pad_l);
}

/* Pseudo-3D networks: the lengths become depths. */
static crema_status rename_lengths(ProtobufCMessage *param) {
  for (int i = 0; i < EXTENTS; ++i) {
    if (given(param, extents[i].length) == 0) continue;
    if (given(param, extents[i].depth) > 0) {
      return cr_upgrade_twice(extents[i].length, extents[i].depth);
    }
    CR_TRY(cr_message_move(param, extents[i].length, param, extents[i].depth));
  }
  return CREMA_OK;
}

bool cr_upgrade_volumes_needed(const Caffe__LayerParameter *layer) {
  const ProtobufCMessage *param = window_of(layer);
  return kind_of(layer) != NULL || has_length(layer->pooling_param) ||
         (param != NULL && (has_depth(param) || has_shape(param)));
}

/* The repeated field of an extent: for Pooling, "<name>_3d". */
static const ProtobufCFieldDescriptor *list_of(const ProtobufCMessage *param, int extent) {
  static const char *const longer[EXTENTS] = {"kernel_size_3d", "stride_3d", "pad_3d"};
  const ProtobufCFieldDescriptor *list = cr_message_field(param, longer[extent]);
  return list != NULL ? list : cr_message_field(param, extents[extent].plane);
}

static crema_status append(ProtobufCMessage *param, const ProtobufCFieldDescriptor *list,
                           int64_t value) {
  if (value < 0 || value > UINT32_MAX) {
    return cr_fail(CREMA_E_RANGE, "an entry of %s is %lld", list->name, (long long)value);
  }
  CR_TRY(cr_field_reserve(param, list, 1));
  size_t *length = cr_field_length(param, list);
  (*(uint32_t **)cr_field_slot(param, list))[(*length)++] = (uint32_t)value;
  return CREMA_OK;
}

/* video-caffe: the entries of the shape. */
static crema_status take_shape(ProtobufCMessage *param, int extent) {
  const ProtobufCFieldDescriptor *list = list_of(param, extent);
  const ProtobufCFieldDescriptor *field = cr_message_field(param, extents[extent].shape);
  if (cr_field_count(param, field) == 0) return CREMA_OK;
  if (given(param, extents[extent].plane) + cr_field_count(param, list) > 0) {
    return cr_upgrade_twice(extents[extent].plane, extents[extent].shape);
  }
  const Caffe__BlobShape *shape = *(Caffe__BlobShape **)cr_field_slot(param, field);
  for (size_t i = 0; i < shape->n_dim; ++i) CR_TRY(append(param, list, shape->dim[i]));
  cr_field_clear(param, field);
  return CREMA_OK;
}

/* C3D: the depth, then twice the value for height and width. */
static crema_status take_depth(ProtobufCMessage *param, int extent) {
  const ProtobufCFieldDescriptor *list = list_of(param, extent);
  const char *names[] = {extents[extent].depth, extents[extent].plane};
  uint32_t value[2];
  if (given(param, extents[extent].plane) > 1 ||
      (cr_field_count(param, list) > 0 && list != cr_message_field(param, names[1]))) {
    return cr_fail(CREMA_E_PARSE, "with %s, %s takes one value, for height and width", names[0],
                   names[1]);
  }
  for (int i = 0; i < 2; ++i) {
    const ProtobufCFieldDescriptor *field = cr_message_field(param, names[i]);
    value[i] = extents[extent].fallback;
    if (cr_field_count(param, field) > 0) {
      memcpy(&value[i], cr_field_value(param, field, 0), sizeof value[i]);
    }
    cr_field_clear(param, field);
  }
  CR_TRY(append(param, list, value[0]));
  CR_TRY(append(param, list, value[1]));
  return append(param, list, value[1]);
}

static crema_status upgrade_window(ProtobufCMessage *param, bool of_c3d) {
  const bool shape = has_shape(param);
  if (!shape && !of_c3d && !has_depth(param)) return CREMA_OK;
  if (shape && has_depth(param)) return cr_upgrade_twice("kernel_depth", "kernel_shape");
  if (!shape && given(param, "kernel_depth") == 0) {
    return cr_fail(CREMA_E_ARGUMENT, "kernel_depth is required");
  }
  for (int i = 0; i < EXTENTS; ++i) {
    CR_TRY(shape ? take_shape(param, i) : take_depth(param, i));
  }
  return CREMA_OK;
}

static crema_status upgrade_layer(Caffe__LayerParameter *layer) {
  const volume_kind *kind = kind_of(layer);
  if (kind != NULL && kind->moved != NULL) {
    if (given(&layer->base, kind->moved) > 0 && given(&layer->base, kind->param) > 0) {
      return cr_upgrade_twice(kind->moved, kind->param);
    }
    CR_TRY(cr_message_move(&layer->base, kind->moved, &layer->base, kind->param));
  }
  ProtobufCMessage *param = window_of(layer);
  if (has_length(layer->pooling_param)) CR_TRY(rename_lengths(&layer->pooling_param->base));
  if (param != NULL) CR_TRY(upgrade_window(param, kind != NULL && kind->moved != NULL));
  if (layer->convolution_param != NULL) cr_message_clear(param, "filter_group");
  return kind == NULL ? CREMA_OK : cr_upgrade_set_type(layer, kind->becomes);
}

crema_status cr_upgrade_volumes(cr_upgrade *upgrade) {
  for (size_t i = 0; i < upgrade->net->n_layer; ++i) {
    Caffe__LayerParameter *layer = upgrade->net->layer[i];
    if (!cr_upgrade_volumes_needed(layer)) continue;
    CR_TRY(cr_upgrade_in_layer(upgrade, &layer->base, upgrade_layer(layer)));
  }
  return CREMA_OK;
}
