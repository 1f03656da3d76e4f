#include "data/augment/mean.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "proto/proto.h"

/* Four extents, outermost first; missing leading extents are 1. The mean of clips has five: the
 * frames of a channel count as channels. */
static crema_status read_extents(const Caffe__BlobProto *proto, int64_t dim[4]) {
  dim[0] = dim[1] = dim[2] = dim[3] = 1;
  if (proto->shape != NULL && proto->shape->n_dim == 5) {
    const int64_t *from = proto->shape->dim;
    dim[0] = from[0];
    dim[1] = from[1] > 0 && from[2] > 0 && from[1] <= INT_MAX / from[2] ? from[1] * from[2] : 0;
    dim[2] = from[3];
    dim[3] = from[4];
  } else if (proto->shape != NULL) {
    size_t axes = proto->shape->n_dim;
    if (axes > 4) return cr_fail(CREMA_E_SHAPE, "a mean image of %zu axes", axes);
    for (size_t i = 0; i < axes; ++i) dim[4 - axes + i] = proto->shape->dim[i];
  } else {
    dim[0] = proto->has_num ? proto->num : 1;
    dim[1] = proto->channels;
    dim[2] = proto->height;
    dim[3] = proto->width;
  }
  if (dim[0] != 1 || dim[1] < 1 || dim[2] < 1 || dim[3] < 1 || dim[1] > INT_MAX ||
      dim[2] > INT_MAX || dim[3] > INT_MAX) {
    return cr_fail(CREMA_E_SHAPE, "a mean image of shape %lld %lld %lld %lld", (long long)dim[0],
                   (long long)dim[1], (long long)dim[2], (long long)dim[3]);
  }
  return CREMA_OK;
}

static crema_status from_proto(const Caffe__BlobProto *proto, cr_mean *out) {
  int64_t dim[4];
  CR_TRY(read_extents(proto, dim));
  size_t count = proto->n_data > 0 ? proto->n_data : proto->n_double_data;
  uint64_t plane = (uint64_t)dim[2] * (uint64_t)dim[3];
  if (plane > count || count / plane != (uint64_t)dim[1] || count % plane != 0) {
    return cr_fail(CREMA_E_CORRUPT, "a mean image of %lld x %lld x %lld holds %zu values",
                   (long long)dim[1], (long long)dim[2], (long long)dim[3], count);
  }
  float *values = malloc(count * sizeof *values);
  if (values == NULL) return cr_fail_memory(count * sizeof *values, "a mean image");
  if (proto->n_data > 0) {
    memcpy(values, proto->data, count * sizeof *values);
  } else {
    for (size_t i = 0; i < count; ++i) values[i] = (float)proto->double_data[i];
  }
  *out = (cr_mean){(int)dim[1], (int)dim[2], (int)dim[3], values};
  return CREMA_OK;
}

crema_status cr_mean_read(const char *path, cr_mean *out) {
  ProtobufCMessage *message = NULL;
  *out = (cr_mean){0};
  CR_TRY(cr_message_read_binary(&caffe__blob_proto__descriptor, path, &message));
  crema_status status = from_proto((const Caffe__BlobProto *)message, out);
  if (status != CREMA_OK) status = cr_fail_in(status, "%s", path);
  cr_message_free(message);
  return status;
}

crema_status cr_mean_write(const char *path, const cr_mean *mean) {
  /* Lives on the stack and borrows the values, so it is not freed. */
  Caffe__BlobProto proto = CAFFE__BLOB_PROTO__INIT;
  proto.has_num = proto.has_channels = proto.has_height = proto.has_width = 1;
  proto.num = 1;
  proto.channels = mean->channels;
  proto.height = mean->height;
  proto.width = mean->width;
  proto.n_data = (size_t)mean->channels * (size_t)mean->height * (size_t)mean->width;
  proto.data = mean->values;
  return cr_message_write_binary(&proto.base, path);
}

void cr_mean_free(cr_mean *mean) {
  free(mean->values);
  *mean = (cr_mean){0};
}
