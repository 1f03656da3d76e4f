/* Filter: keeps the items of its bottoms that a selector picks.
 *
 * Formula: top i = the items of bottom i whose selector, the last bottom, is not 0.
 * Shapes: bottoms (N, ...), selector (N) -> one top for each bottom except the selector: (items
 * kept, ...).
 * Fields: none.
 * Caffe: the same.
 * Example, x 4 3, selector 4:
 *   layer { name: "keep" type: "Filter" bottom: "x" bottom: "selector" top: "y" }
 *
 * The number of items of the tops is known when the selector's values are: forward shapes the tops.
 */
#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_op.h"

typedef struct filter_state {
  cr_layer_op *forward, *backward; /* one per filtered bottom */
  cr_tensor *index;                /* indices of the items kept, `kept` of them */
  int64_t kept;
} filter_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  filter_state *s = layer->state;
  size_t n = (size_t)layer->tops;
  void *memory = NULL;
  (void)bottom, (void)top;
  if (layer->tops != layer->bottoms - 1) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "%d bottoms (the last one selects) need %d tops, found %d", layer->bottoms,
                         layer->bottoms - 1, layer->tops);
  }
  CR_TRY(cr_layer_memory(layer, 2 * n * sizeof *s->forward, &memory));
  s->forward = memory;
  s->backward = s->forward + n;
  return CREMA_OK;
}

/* Shapes tops and ops for `kept` items. */
static crema_status shape_tops(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top,
                               int64_t kept) {
  filter_state *s = layer->state;
  const crema_shape index = cr_shape_1(kept);
  s->kept = kept;
  CR_TRY(cr_layer_tensor(layer, &s->index, cr_layer_arithmetic(layer), kept));
  for (int i = 0; i < layer->tops; ++i) {
    crema_shape to = bottom[i]->shape;
    const int64_t inner = crema_shape_count(&to, 1, to.axes);
    const crema_shape x = cr_shape_2(to.dim[0], inner), y = cr_shape_2(kept, inner);
    to.dim[0] = kept;
    CR_TRY(crema_blob_reshape(top[i], &to));
    cr_op_desc desc = cr_layer_op_desc(CR_OP_GATHER_FWD);
    CR_TRY(CR_LAYER_MAKE(layer, &s->forward[i], &desc, &x, &index, &y));
    desc.kind = CR_OP_GATHER_BWD;
    CR_TRY(CR_LAYER_MAKE(layer, &s->backward[i], &desc, &y, &index, &x));
  }
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const crema_shape *selector = &bottom[layer->tops]->shape;
  char a[128], b[128];
  if (selector->axes < 1 || crema_shape_count(selector, 1, selector->axes) != 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the selector must have one value per item, found %s",
                         crema_shape_text(selector, a, sizeof a));
  }
  for (int i = 0; i < layer->tops; ++i) {
    if (bottom[i]->shape.axes > 0 && bottom[i]->shape.dim[0] == selector->dim[0]) continue;
    return cr_layer_fail(
        layer, CREMA_E_SHAPE,
        "bottom %d of shape %s does not have as many items as the selector of shape %s", i,
        crema_shape_text(&bottom[i]->shape, a, sizeof a), crema_shape_text(selector, b, sizeof b));
  }
  return shape_tops(layer, bottom, top, selector->dim[0]);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  filter_state *s = layer->state;
  crema_blob *selector = bottom[layer->tops];
  cr_host_values select;
  float *index = NULL;
  int64_t items = crema_blob_count(selector), kept = 0;
  CR_TRY(cr_host_read(selector->data, &select));
  for (int64_t i = 0; i < items; ++i) kept += cr_host_get(&select, i) != 0;
  CR_TRY(shape_tops(layer, bottom, top, kept));
  CR_TRY(cr_tensor_host_write_floats(s->index, &index));
  for (int64_t i = 0; i < items; ++i) {
    if (cr_host_get(&select, i) != 0) *index++ = (float)i;
  }
  for (int i = 0; i < layer->tops && kept > 0; ++i) {
    CR_TRY(CR_LAYER_RUN(&s->forward[i], context, bottom[i]->data, s->index, top[i]->data));
  }
  return CREMA_OK;
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  filter_state *s = layer->state;
  /* The choice is constant around almost every selector. */
  if (propagate_down[layer->tops]) cr_tensor_set_zero(bottom[layer->tops]->diff);
  for (int i = 0; i < layer->tops; ++i) {
    if (!propagate_down[i]) continue;
    cr_tensor_set_zero(bottom[i]->diff);
    if (s->kept == 0) continue;
    CR_TRY(CR_LAYER_RUN(&s->backward[i], context, top[i]->diff, s->index, bottom[i]->diff));
  }
  return CREMA_OK;
}

const cr_layer_class cr_layer_filter = {
    CR_LAYER_OF_OPS("Filter", sizeof(filter_state), setup, reshape, forward, backward),
    .bottoms = {2, CR_ANY},
    .tops = {1, CR_ANY},
    .graph.integer_bottoms = CR_LAST_BOTTOM,
};
