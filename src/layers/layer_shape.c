#include "layers/layer_shape.h"

#include <string.h>

#include "core/fail.h"

crema_status cr_layer_read_shape(const cr_layer *layer, const Caffe__BlobShape *from,
                                 crema_shape *out) {
  memset(out, 0, sizeof *out);
  if (from->n_dim > CREMA_MAX_AXES) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "shape has %zu axes, at most %d are possible",
                         from->n_dim, CREMA_MAX_AXES);
  }
  out->axes = (int)from->n_dim;
  for (size_t i = 0; i < from->n_dim; i++) out->dim[i] = from->dim[i];
  return cr_fail_in(crema_shape_check(out), "layer '%s' (%s)", layer->name, layer->class->type);
}
