#include "layers/common/layer_parts.h"

#include "core/fail.h"
#include "device/backend/backend.h"
#include "layers/common/layer_op.h"

crema_status cr_layer_parts_make(cr_layer *layer, cr_layer_parts *parts, int count) {
  void *shapes = NULL, *places = NULL;
  CR_TRY(cr_layer_memory(layer, (size_t)count * sizeof *parts->part, &shapes));
  CR_TRY(cr_layer_memory(layer, (size_t)count * sizeof *parts->place, &places));
  parts->count = count;
  parts->part = shapes;
  parts->place = places;
  return CREMA_OK;
}

void cr_layer_parts_reshape(cr_layer_parts *parts, int axis, const crema_shape *whole,
                            const crema_shape *const *shape) {
  parts->axis = axis;
  parts->shape = *whole;
  for (int i = 0; i < parts->count; ++i) parts->part[i] = *shape[i];
  parts->known = false;
}

static bool find_places(cr_layer_parts *parts, const cr_backend *backend) {
  int64_t at = 0;
  if (backend->part == NULL) return false;
  for (int i = 0; i < parts->count; ++i) {
    if (!backend->part(parts->lies, &parts->shape, parts->axis, &parts->part[i], at,
                       &parts->place[i])) {
      return false;
    }
    at += parts->part[i].dim[parts->axis];
  }
  return true;
}

crema_status cr_layer_parts_borrow(cr_layer_parts *parts, crema_context *context, cr_tensor *whole,
                                   cr_tensor *const *part, bool *done) {
  const cr_format lies = cr_tensor_head(whole);
  if (!parts->known || !cr_format_equal(lies, parts->lies)) {
    parts->lies = lies;
    parts->fit = find_places(parts, context->device->backend);
    parts->known = true;
  }
  *done = parts->fit;
  for (int i = 0; i < parts->count && *done; ++i) {
    if (part[i] == NULL) continue;
    CR_TRY(cr_tensor_borrow(part[i], whole, lies, &parts->place[i], context, done));
  }
  return CREMA_OK;
}
