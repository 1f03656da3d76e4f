#include "layers/common/layer_shape.h"

#include <string.h>

#include "core/fail.h"
#include "layers/common/layer_op.h"

crema_status cr_layer_read_shape(const cr_layer *layer, const Caffe__BlobShape *from,
                                 crema_shape *out) {
  memset(out, 0, sizeof *out);
  if (from->n_dim > CREMA_MAX_AXES) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "shape has %zu axes, at most %d are possible",
                         from->n_dim, CREMA_MAX_AXES);
  }
  out->axes = (int)from->n_dim;
  for (size_t i = 0; i < from->n_dim; ++i) out->dim[i] = from->dim[i];
  return cr_layer_in(layer, crema_shape_check(out));
}

crema_status cr_layer_read_span(const cr_layer *layer, const crema_shape *from, int axis,
                                int num_axes, crema_shape *out) {
  int first = 0;
  *out = cr_shape(0, NULL);
  if (num_axes < -1) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "num_axes is %d, must be -1 (all) or more",
                         num_axes);
  }
  if (num_axes == 0) return CREMA_OK;
  CR_TRY(cr_layer_axis(layer, from, axis, "axis", &first));
  int axes = num_axes == -1 ? from->axes - first : num_axes;
  if (axes > from->axes - first) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "num_axes %d from axis %d on is more than the %d axes of the bottom", axes,
                         first, from->axes);
  }
  *out = cr_shape(axes, from->dim + first);
  return CREMA_OK;
}

crema_status cr_layer_fit_span(const cr_layer *layer, const char *what, const crema_shape *whole,
                               const crema_shape *part, int axis, crema_shape *out) {
  char a[128], b[128];
  int first = 0;
  if (part->axes > 0) CR_TRY(cr_layer_axis(layer, whole, axis, "axis", &first));
  bool same = part->axes <= whole->axes - first;
  for (int i = 0; same && i < part->axes; ++i) same = part->dim[i] == whole->dim[first + i];
  if (!same) {
    return cr_layer_fail(
        layer, CREMA_E_SHAPE, "a %s of shape %s does not fit a bottom of shape %s from axis %d on",
        what, crema_shape_text(part, a, sizeof a), crema_shape_text(whole, b, sizeof b), first);
  }
  *out = cr_layer_fold(whole, first, first + part->axes);
  return CREMA_OK;
}

crema_status cr_layer_view(crema_blob *bottom, const crema_shape *shape, crema_blob *top) {
  CR_TRY(crema_blob_reshape(top, shape));
  CR_TRY(cr_blob_share_data(top, bottom));
  return cr_blob_share_diff(top, bottom);
}

crema_status cr_layer_multiply(const cr_layer *layer, int64_t factor, int64_t *extent) {
  if (factor > 0 && *extent > INT64_MAX / 8 / factor) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "%lld times an extent of %lld is too large",
                         (long long)factor, (long long)*extent);
  }
  *extent *= factor;
  return CREMA_OK;
}
