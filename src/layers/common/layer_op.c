#include "layers/common/layer_op.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

cr_op_desc cr_layer_op_desc(cr_op_kind kind) {
  cr_op_desc desc;
  /* Padding bytes are zeroed too: cr_op_desc_same compares memory. */
  memset(&desc, 0, sizeof desc);
  desc.kind = kind;
  desc.type = CREMA_F32;
  return desc;
}

struct cr_layer_owned {
  cr_layer_owned *next;
  cr_tensor *tensor; /* NULL: the node is memory */
  bool of_pass;      /* made by cr_layer_pass_tensor */
  max_align_t memory[];
};

static void free_op(cr_layer_op *slot) {
  cr_op_destroy(slot->op);
  slot->op = NULL;
}

crema_status cr_layer_op_make_numbers(cr_layer *layer, cr_layer_op *slot, const cr_op_desc *desc,
                                      int args, const crema_shape *const *shape, const float *scale,
                                      int numbers, const float *number) {
  cr_op_desc *made = NULL;
  CR_TRY(cr_op_describe_numbers(desc, args, shape, scale, numbers, number, &made));
  made->type = cr_layer_arithmetic(layer);
  if (slot->op && cr_op_desc_same(cr_op_made_for(slot->op), made)) {
    cr_op_desc_free(made);
    return CREMA_OK;
  }
  if (!slot->listed) {
    slot->listed = true;
    slot->next = layer->ops;
    layer->ops = slot;
  }
  free_op(slot);
  return cr_op_create(&made, &slot->op);
}

crema_status cr_layer_op_make_scaled(cr_layer *layer, cr_layer_op *slot, const cr_op_desc *desc,
                                     int args, const crema_shape *const *shape,
                                     const float *scale) {
  return cr_layer_op_make_numbers(layer, slot, desc, args, shape, scale, 0, NULL);
}

crema_status cr_layer_op_make(cr_layer *layer, cr_layer_op *slot, const cr_op_desc *desc, int args,
                              const crema_shape *const *shape) {
  return cr_layer_op_make_scaled(layer, slot, desc, args, shape, NULL);
}

crema_status cr_layer_op_run(cr_layer_op *slot, crema_context *context, cr_tensor *const *tensor,
                             const cr_op_scalars *scalars) {
  if (slot->op == NULL) return cr_fail(CREMA_E_STATE, "the layer has no shapes yet");
  return cr_op_run(slot->op, context, tensor, scalars);
}

static crema_status own(cr_layer *layer, size_t bytes, cr_layer_owned **out) {
  cr_layer_owned *node = bytes > SIZE_MAX - sizeof *node ? NULL : calloc(1, sizeof *node + bytes);
  if (node == NULL) return cr_fail_memory(bytes, "the state of a layer");
  node->next = layer->owned;
  layer->owned = node;
  *out = node;
  return CREMA_OK;
}

crema_status cr_layer_memory(cr_layer *layer, size_t bytes, void **out) {
  cr_layer_owned *node = NULL;
  CR_TRY(own(layer, bytes, &node));
  *out = node->memory;
  return CREMA_OK;
}

static crema_status need_tensor(cr_layer *layer, cr_tensor **tensor, crema_dtype type,
                                int64_t count, bool of_pass) {
  cr_layer_owned *node = NULL;
  if (*tensor == NULL) {
    CR_TRY(own(layer, 0, &node));
    CR_TRY(cr_tensor_create(type, count, &node->tensor));
    node->of_pass = of_pass;
    *tensor = node->tensor;
    return CREMA_OK;
  }
  return cr_tensor_count(*tensor) == count ? CREMA_OK : cr_tensor_resize(*tensor, count);
}

crema_status cr_layer_tensor(cr_layer *layer, cr_tensor **tensor, crema_dtype type, int64_t count) {
  return need_tensor(layer, tensor, type, count, false);
}

crema_status cr_layer_pass_tensor(cr_layer *layer, cr_tensor **tensor, crema_dtype type,
                                  int64_t count) {
  return need_tensor(layer, tensor, type, count, true);
}

void cr_layer_set_transient(const cr_layer *layer) {
  for (const cr_layer_owned *node = layer->owned; node != NULL; node = node->next) {
    if (node->of_pass && !cr_tensor_is_shared(node->tensor))
      cr_tensor_set_transient(node->tensor, true);
  }
}

void cr_layer_release(const cr_layer *layer, crema_context *context) {
  for (const cr_layer_owned *node = layer->owned; node != NULL; node = node->next) {
    if (node->of_pass) cr_tensor_release_in(context, node->tensor);
  }
}

crema_status cr_layer_settle(const cr_layer *layer, crema_context *context) {
  for (const cr_layer_owned *node = layer->owned; node != NULL; node = node->next) {
    if (node->of_pass) CR_TRY(cr_tensor_settle(node->tensor, context));
  }
  return CREMA_OK;
}

void cr_layer_free_owned(cr_layer *layer) {
  for (cr_layer_op *slot = layer->ops; slot != NULL; slot = slot->next) free_op(slot);
  layer->ops = NULL;
  while (layer->owned != NULL) {
    cr_layer_owned *node = layer->owned;
    layer->owned = node->next;
    cr_tensor_destroy(node->tensor);
    free(node);
  }
}

crema_status cr_layer_axis(const cr_layer *layer, const crema_shape *shape, int axis,
                           const char *field, int *out) {
  char text[128];
  if (crema_shape_axis(shape, axis, out) == CREMA_OK) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_RANGE,
                       "%s %d is out of range for a blob of %d axes, shape %s", field, axis,
                       shape->axes, crema_shape_text(shape, text, sizeof text));
}

bool cr_layer_in_place(const crema_blob *bottom, const crema_blob *top) {
  return bottom == top || cr_tensor_shares_with(bottom->data, top->data);
}

crema_shape cr_layer_fold(const crema_shape *shape, int from, int to) {
  return cr_shape_3(crema_shape_count(shape, 0, from), crema_shape_count(shape, from, to),
                    crema_shape_count(shape, to, shape->axes));
}

crema_status cr_layer_check_addend(const cr_layer *layer, crema_blob *const *bottom,
                                   const crema_shape *top) {
  const int own = cr_layer_own_bottoms(layer);
  if (own == layer->bottoms) return CREMA_OK;
  return cr_layer_same_shape(layer, "the bottom that is added", top, &bottom[own]->shape);
}

crema_status cr_layer_same_shape(const cr_layer *layer, const char *what,
                                 const crema_shape *expected, const crema_shape *found) {
  char a[128], b[128];
  if (crema_shape_equal(expected, found)) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE, "%s must have shape %s, found %s", what,
                       crema_shape_text(expected, a, sizeof a),
                       crema_shape_text(found, b, sizeof b));
}

crema_status cr_layer_need_channels(const cr_layer *layer, const crema_shape *shape) {
  char text[128];
  if (shape->axes >= 2) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottom must have 2 axes or more, found shape %s",
                       crema_shape_text(shape, text, sizeof text));
}
