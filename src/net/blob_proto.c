/* One blob as a message. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/half.h"
#include "device/device.h"
#include "net/net.h"

static bool is_legacy(const Caffe__BlobProto *proto) {
  return proto->has_num || proto->has_channels || proto->has_height || proto->has_width;
}

static crema_shape legacy_shape(const Caffe__BlobProto *proto) {
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

/* Equal once ones are put in front of `shape` to make it four axes. */
static bool fits_legacy(const crema_shape *legacy, const crema_shape *shape) {
  if (shape->axes > 4) return false;
  for (int i = 0; i < 4; ++i) {
    int axis = i - (4 - shape->axes);
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

/* Where the values of data or diff are found in a message; at most one of the three is set. */
typedef struct blob_values {
  const float *f32;
  const double *f64;
  const ProtobufCBinaryData *raw;
  Caffe__Type raw_type;
  size_t count;
} blob_values;

static size_t raw_width(Caffe__Type type) {
  switch (type) {
    case CAFFE__TYPE__DOUBLE: return 8;
    case CAFFE__TYPE__FLOAT:
    case CAFFE__TYPE__INT:
    case CAFFE__TYPE__UINT: return 4;
    case CAFFE__TYPE__FLOAT16: return 2;
    default: return 0;
  }
}

static crema_status find_values(const Caffe__BlobProto *proto, bool diff, blob_values *out) {
  size_t n_f64 = diff ? proto->n_double_diff : proto->n_double_data;
  size_t n_f32 = diff ? proto->n_diff : proto->n_data;
  const ProtobufCBinaryData *raw = diff ? &proto->raw_diff : &proto->raw_data;
  memset(out, 0, sizeof *out);
  if (n_f64 > 0) {
    out->f64 = diff ? proto->double_diff : proto->double_data;
    out->count = n_f64;
  } else if (n_f32 > 0) {
    out->f32 = diff ? proto->diff : proto->data;
    out->count = n_f32;
  } else if ((diff ? proto->has_raw_diff : proto->has_raw_data) && raw->len > 0) {
    out->raw = raw;
    out->raw_type = diff ? proto->raw_diff_type : proto->raw_data_type;
    size_t width = raw_width(out->raw_type);
    if (width == 0 || raw->len % width != 0) {
      return cr_fail(CREMA_E_CORRUPT, "%zu bytes of raw values are not a number of elements",
                     raw->len);
    }
    out->count = raw->len / width;
  }
  return CREMA_OK;
}

static float raw_value(const blob_values *values, size_t i) {
  const uint8_t *at = values->raw->data + i * raw_width(values->raw_type);
  uint64_t bits = 0;
  for (size_t b = raw_width(values->raw_type); b-- > 0;) bits = bits << 8 | at[b];
  switch (values->raw_type) {
    case CAFFE__TYPE__FLOAT: return cr_f32_from_bits((uint32_t)bits);
    case CAFFE__TYPE__FLOAT16: return cr_f16_to_f32((uint16_t)bits);
    case CAFFE__TYPE__INT: return (float)(int32_t)(uint32_t)bits;
    case CAFFE__TYPE__UINT: return (float)(uint32_t)bits;
    default: break;
  }
  double value;
  memcpy(&value, &bits, sizeof value);
  return (float)value;
}

static crema_status store_values(const blob_values *values, cr_tensor *tensor) {
  crema_devptr memory = {0};
  CR_TRY(cr_tensor_write(tensor, cr_host_context(), CR_PLAIN_F32, &memory));
  float *out = (float *)memory.address;
  if (values->f32 != NULL) {
    memcpy(out, values->f32, values->count * sizeof *out);
  } else if (values->f64 != NULL) {
    for (size_t i = 0; i < values->count; ++i) out[i] = (float)values->f64[i];
  } else {
    for (size_t i = 0; i < values->count; ++i) out[i] = raw_value(values, i);
  }
  return CREMA_OK;
}

/* Finds data and diff (diff->count 0: none) and checks their counts against the shape. */
static crema_status find_both(const Caffe__BlobProto *proto, crema_shape *shape, blob_values *data,
                              blob_values *diff) {
  CR_TRY(cr_blob_proto_shape(proto, shape));
  size_t count = (size_t)crema_shape_count(shape, 0, shape->axes);
  CR_TRY(find_values(proto, false, data));
  CR_TRY(find_values(proto, true, diff));
  if (data->count == count && (diff->count == 0 || diff->count == count)) return CREMA_OK;
  return cr_fail(CREMA_E_CORRUPT, "a blob of %zu elements is stored with %zu values", count,
                 data->count != count ? data->count : diff->count);
}

crema_status cr_blob_proto_check(const Caffe__BlobProto *proto, crema_shape *shape) {
  blob_values data, diff;
  return find_both(proto, shape, &data, &diff);
}

crema_status cr_blob_from_proto(crema_blob *blob, const Caffe__BlobProto *proto, bool reshape) {
  crema_shape shape;
  blob_values data, diff;
  CR_TRY(find_both(proto, &shape, &data, &diff));
  if (!reshape && !cr_blob_proto_fits(proto, &blob->shape)) {
    char text[2][256];
    return cr_fail(CREMA_E_SHAPE, "shapes differ: stored is %s, wanted is %s",
                   crema_shape_text(&shape, text[0], sizeof text[0]),
                   crema_shape_text(&blob->shape, text[1], sizeof text[1]));
  }
  if (reshape) CR_TRY(crema_blob_reshape(blob, &shape));
  if (data.count == 0) return CREMA_OK;
  CR_TRY(store_values(&data, blob->data));
  return diff.count == 0 ? CREMA_OK : store_values(&diff, blob->diff);
}

static crema_status store_shape(const crema_shape *shape, Caffe__BlobProto *proto) {
  proto->shape = cr_proto_alloc(sizeof *proto->shape);
  if (proto->shape == NULL) return cr_fail_memory(sizeof *proto->shape, "a blob's message");
  caffe__blob_shape__init(proto->shape);
  proto->shape->dim = cr_proto_alloc((size_t)shape->axes * sizeof *proto->shape->dim);
  if (proto->shape->dim == NULL) return cr_fail_memory(sizeof *shape, "a blob's message");
  for (int i = 0; i < shape->axes; ++i) proto->shape->dim[i] = shape->dim[i];
  proto->shape->n_dim = (size_t)shape->axes;
  return CREMA_OK;
}

void cr_blob_proto_free(Caffe__BlobProto *proto) {
  if (proto == NULL) return;
  proto->data = proto->diff = NULL;
  proto->n_data = proto->n_diff = 0;
  cr_message_free(&proto->base);
}

crema_status cr_blob_to_proto(crema_blob *blob, bool with_diff, Caffe__BlobProto **out) {
  Caffe__BlobProto *proto = cr_proto_alloc(sizeof *proto);
  if (proto == NULL) return cr_fail_memory(sizeof *proto, "a blob's message");
  caffe__blob_proto__init(proto);
  crema_status status;
  const float *values = NULL;
  size_t count = (size_t)crema_blob_count(blob);
  CR_TRY_GOTO(store_shape(&blob->shape, proto), fail);
  CR_TRY_GOTO(crema_blob_cpu_data(blob, &values), fail);
  proto->data = (float *)values; /* only read */
  proto->n_data = count;
  if (with_diff) {
    CR_TRY_GOTO(crema_blob_cpu_diff(blob, &values), fail);
    proto->diff = (float *)values;
    proto->n_diff = count;
  }
  *out = proto;
  return CREMA_OK;
fail:
  cr_blob_proto_free(proto);
  return status;
}
