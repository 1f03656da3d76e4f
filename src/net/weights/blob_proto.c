/* One blob as a message. */
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "device/backend/convert.h"
#include "device/device.h"
#include "net/weights/weights.h"
#include "proto/field.h"

static bool is_legacy(const Caffe__BlobProto *proto) {
  return proto->has_num || proto->has_channels || proto->has_height || proto->has_width;
}

/* Of four axes, in files of C3D of five. */
static crema_shape legacy_shape(const Caffe__BlobProto *proto) {
  if (proto->has_length) {
    return (crema_shape){
        .axes = 5,
        .dim = {proto->num, proto->channels, proto->length, proto->height, proto->width}};
  }
  return (crema_shape){.axes = 4,
                       .dim = {proto->num, proto->channels, proto->height, proto->width}};
}

crema_status cr_blob_proto_shape(const Caffe__BlobProto *proto, crema_shape *out) {
  memset(out, 0, sizeof *out);
  if (proto->shape == NULL && is_legacy(proto)) {
    *out = legacy_shape(proto);
    return crema_shape_check(out);
  }
  if (proto->shape == NULL) return CREMA_OK; /* a scalar */
  if (proto->shape->n_dim > CREMA_MAX_AXES) {
    return cr_fail(CREMA_E_SHAPE, "a blob has %zu axes; at most %d are possible",
                   proto->shape->n_dim, CREMA_MAX_AXES);
  }
  out->axes = (int)proto->shape->n_dim;
  for (int i = 0; i < out->axes; ++i) out->dim[i] = proto->shape->dim[i];
  return crema_shape_check(out);
}

/* Equal once ones are put in front of `shape` to give it as many axes. */
static bool fits_legacy(const crema_shape *legacy, const crema_shape *shape) {
  if (shape->axes > legacy->axes) return false;
  for (int i = 0; i < legacy->axes; ++i) {
    int axis = i - (legacy->axes - shape->axes);
    if (legacy->dim[i] != (axis < 0 ? 1 : shape->dim[axis])) return false;
  }
  return true;
}

bool cr_blob_proto_fits(const Caffe__BlobProto *proto, const crema_shape *shape) {
  if (is_legacy(proto)) {
    crema_shape legacy = legacy_shape(proto);
    if (fits_legacy(&legacy, shape)) return true;
    if (proto->shape == NULL) return false;
  }
  if (proto->shape == NULL) return shape->axes == 0;
  if (proto->shape->n_dim != (size_t)shape->axes) return false;
  for (int i = 0; i < shape->axes; ++i) {
    if (proto->shape->dim[i] != shape->dim[i]) return false;
  }
  return true;
}

/* Files hold the bytes of values in this order, and they are copied as they are. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "raw values are little-endian");

/* Caffe__Type and crema_dtype have the same numbers. */
static crema_status find_raw(const ProtobufCBinaryData *raw, bool has_type, Caffe__Type raw_type,
                             cr_blob_values *out) {
  if (!has_type) {
    return cr_fail(CREMA_E_CORRUPT, "%zu bytes of raw values have no type that is known", raw->len);
  }
  crema_dtype type = (crema_dtype)raw_type;
  if (crema_dtype_size(type) == 0) {
    return cr_fail(CREMA_E_CORRUPT, "raw values of type %s are no parameters",
                   crema_dtype_name(type));
  }
  if (raw->len % crema_dtype_size(type) != 0) {
    return cr_fail(CREMA_E_CORRUPT,
                   "%zu bytes of raw values are not a number of elements of type %s", raw->len,
                   crema_dtype_name(type));
  }
  *out = (cr_blob_values){raw->data, type, raw->len / crema_dtype_size(type)};
  return CREMA_OK;
}

static crema_status find_values(const Caffe__BlobProto *proto, bool diff, cr_blob_values *out) {
  size_t n_f64 = diff ? proto->n_double_diff : proto->n_double_data;
  size_t n_f32 = diff ? proto->n_diff : proto->n_data;
  const ProtobufCBinaryData *raw = diff ? &proto->raw_diff : &proto->raw_data;
  *out = (cr_blob_values){0};
  if (n_f64 > 0) {
    *out = (cr_blob_values){diff ? proto->double_diff : proto->double_data, CREMA_F64, n_f64};
  } else if (n_f32 > 0) {
    *out = (cr_blob_values){diff ? proto->diff : proto->data, CREMA_F32, n_f32};
  } else if ((diff ? proto->has_raw_diff : proto->has_raw_data) && raw->len > 0) {
    return find_raw(raw, diff ? proto->has_raw_diff_type : proto->has_raw_data_type,
                    diff ? proto->raw_diff_type : proto->raw_data_type, out);
  }
  return CREMA_OK;
}

crema_status cr_blob_values_copy(const cr_blob_values *values, crema_dtype type, void *out) {
  enum { BLOCK = 1 << 15 };
  double block[BLOCK / sizeof(double)]; /* aligned for any type */
  size_t width = crema_dtype_size(values->type), step = BLOCK / width;
  if (values->count == 0) return CREMA_OK;
  if (values->type == type) {
    memcpy(out, values->at, values->count * width);
    return CREMA_OK;
  }
  for (size_t at = 0; at < values->count; at += step) {
    size_t count = values->count - at < step ? values->count - at : step;
    memcpy(block, (const char *)values->at + at * width, count * width);
    CR_TRY(cr_convert_plain((int64_t)count, type, (char *)out + at * crema_dtype_size(type),
                            values->type, block));
  }
  return CREMA_OK;
}

/* A 16-bit blob also gets more precise values as floats, from which training continues. */
static crema_status store_values(const cr_blob_values *values, cr_tensor *tensor) {
  crema_dtype own = cr_tensor_type(tensor);
  if (!cr_dtype_is_floating(own) && values->type != own) {
    return cr_fail(CREMA_E_TYPE, "values of type %s cannot go to a blob of type %s",
                   crema_dtype_name(values->type), crema_dtype_name(own));
  }
  if (own == CREMA_F64 || values->type == own) {
    void *out = NULL;
    CR_TRY(cr_tensor_host_write(tensor, &out));
    return cr_blob_values_copy(values, own, out);
  }
  float *out = NULL;
  CR_TRY(cr_tensor_host_write_floats(tensor, &out));
  return cr_blob_values_copy(values, CREMA_F32, out);
}

/* The same with values that may still be in the file of `stored`, which may be NULL. */
static crema_status take_values(const cr_blob_values *values, const cr_net_stored *stored,
                                cr_tensor *tensor) {
  uint64_t at = 0;
  void *read = NULL;
  if (stored == NULL || !cr_stored_net_is_in_file(&stored->net, values->at, &at)) {
    return store_values(values, tensor);
  }
  if (values->type == cr_tensor_type(tensor)) {
    return cr_tensor_take_from(tensor, stored->source, at);
  }
  size_t bytes = values->count * crema_dtype_size(values->type);
  CR_TRY(cr_tensor_source_lock(stored->source, at, bytes, &read));
  const cr_blob_values there = {read, values->type, values->count};
  crema_status status = store_values(&there, tensor);
  cr_tensor_source_unlock(stored->source);
  return status;
}

crema_status cr_blob_values_find(const Caffe__BlobProto *proto, crema_shape *shape,
                                 cr_blob_values *data, cr_blob_values *diff) {
  CR_TRY(cr_blob_proto_shape(proto, shape));
  size_t count = (size_t)crema_shape_count(shape, 0, shape->axes);
  CR_TRY(find_values(proto, false, data));
  CR_TRY(find_values(proto, true, diff));
  if (data->count == count && (diff->count == 0 || diff->count == count)) return CREMA_OK;
  return cr_fail(CREMA_E_CORRUPT, "a blob of %zu elements is stored with %zu values", count,
                 data->count != count ? data->count : diff->count);
}

crema_status cr_blob_proto_check(const Caffe__BlobProto *proto, crema_shape *shape) {
  cr_blob_values data, diff;
  return cr_blob_values_find(proto, shape, &data, &diff);
}

crema_status cr_blob_from_proto(crema_blob *blob, const Caffe__BlobProto *proto, bool reshape) {
  crema_shape shape;
  CR_TRY(cr_blob_proto_check(proto, &shape));
  if (reshape) CR_TRY(crema_blob_reshape(blob, &shape));
  return cr_blob_from_stored(blob, proto, NULL);
}

crema_status cr_blob_from_stored(crema_blob *blob, const Caffe__BlobProto *proto,
                                 const cr_net_stored *stored) {
  crema_shape shape;
  cr_blob_values data, diff;
  CR_TRY(cr_blob_values_find(proto, &shape, &data, &diff));
  if (!cr_blob_proto_fits(proto, &blob->shape)) {
    char text[2][256];
    return cr_fail(CREMA_E_SHAPE, "shapes differ: stored is %s, wanted is %s",
                   crema_shape_text(&shape, text[0], sizeof text[0]),
                   crema_shape_text(&blob->shape, text[1], sizeof text[1]));
  }
  if (data.count == 0) return CREMA_OK;
  CR_TRY(take_values(&data, stored, blob->data));
  return diff.count == 0 ? CREMA_OK : take_values(&diff, stored, blob->diff);
}

crema_status cr_shape_to_proto(const crema_shape *shape, Caffe__BlobShape **slot) {
  CR_TRY(cr_message_new(&caffe__blob_shape__descriptor, slot));
  CR_TRY(cr_message_reserve(&(*slot)->base, "dim", (size_t)shape->axes));
  for (int i = 0; i < shape->axes; ++i) (*slot)->dim[(*slot)->n_dim++] = shape->dim[i];
  return CREMA_OK;
}

void cr_blob_proto_free(Caffe__BlobProto *proto) {
  if (proto == NULL) return;
  proto->data = proto->diff = NULL;
  proto->double_data = proto->double_diff = NULL;
  proto->n_data = proto->n_diff = proto->n_double_data = proto->n_double_diff = 0;
  proto->has_raw_data = proto->has_raw_diff = false;
  proto->raw_data = proto->raw_diff = (ProtobufCBinaryData){0};
  cr_message_free(&proto->base);
}

crema_status cr_blob_field_for(crema_dtype type, bool old_format, cr_blob_field *out) {
  bool half = type == CREMA_F16 || type == CREMA_BF16;
  *out = (cr_blob_field){type, type != CREMA_F32};
  if (old_format && half) *out = (cr_blob_field){CREMA_F32, false};
  if (old_format && type == CREMA_F64) *out = (cr_blob_field){CREMA_F64, false};
  if (crema_dtype_size(type) > 0) return CREMA_OK;
  return cr_fail(CREMA_E_TYPE, "values of type %s cannot be stored", crema_dtype_name(type));
}

static void set_raw(Caffe__BlobProto *proto, bool diff, Caffe__Type type, void *values,
                    size_t bytes) {
  ProtobufCBinaryData raw = {bytes, values};
  if (diff) {
    proto->has_raw_diff = proto->has_raw_diff_type = true;
    proto->raw_diff_type = type;
    proto->raw_diff = raw;
  } else {
    proto->has_raw_data = proto->has_raw_data_type = true;
    proto->raw_data_type = type;
    proto->raw_data = raw;
  }
}

void cr_blob_field_set(Caffe__BlobProto *proto, bool diff, cr_blob_field field, void *values,
                       size_t count) {
  if (field.raw) {
    set_raw(proto, diff, (Caffe__Type)field.type, values, count * crema_dtype_size(field.type));
  } else if (field.type == CREMA_F64) {
    *(diff ? &proto->double_diff : &proto->double_data) = values;
    *(diff ? &proto->n_double_diff : &proto->n_double_data) = count;
  } else {
    *(diff ? &proto->diff : &proto->data) = values;
    *(diff ? &proto->n_diff : &proto->n_data) = count;
  }
}

/* The tensor's values stay its own and are only read. */
static crema_status put_values(cr_tensor *tensor, bool diff, unsigned save,
                               Caffe__BlobProto *proto) {
  cr_blob_field field;
  crema_devptr values = {0};
  CR_TRY(cr_blob_field_for(cr_tensor_type(tensor), (save & CR_SAVE_OLD_FORMAT) != 0, &field));
  CR_TRY(cr_tensor_read(tensor, cr_host_context(), (cr_format){field.type, NULL}, &values));
  cr_blob_field_set(proto, diff, field, (void *)values.address, (size_t)cr_tensor_count(tensor));
  return CREMA_OK;
}

crema_status cr_blob_to_proto(crema_blob *blob, unsigned save, Caffe__BlobProto **out) {
  Caffe__BlobProto *proto = NULL;
  crema_status status;
  CR_TRY(cr_message_new(&caffe__blob_proto__descriptor, &proto));
  CR_TRY_GOTO(cr_shape_to_proto(&blob->shape, &proto->shape), fail);
  CR_TRY_GOTO(put_values(blob->data, false, save, proto), fail);
  if ((save & CR_SAVE_DIFFS) != 0) CR_TRY_GOTO(put_values(blob->diff, true, save, proto), fail);
  *out = proto;
  return CREMA_OK;
fail:
  cr_blob_proto_free(proto);
  return status;
}
