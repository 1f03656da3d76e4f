#include "layers/common/layer_pair.h"

#include "core/fail.h"

/* A layer's bottoms and tops, with its table and shapes. */
typedef struct pair_view {
  const cr_layer *layer;
  crema_blob *const *bottom, *const *top;
  const cr_pair_shapes *shapes;
} pair_view;

static const crema_shape *blob_shape(const crema_shape *given, const crema_blob *blob) {
  return given ? given : &blob->shape;
}

/* The shape of an argument; NULL: it is absent. */
static const crema_shape *shape_of(const pair_view *v, cr_operand operand) {
  const cr_pair_shapes *given = v->shapes;
  switch (operand) {
    case CR_X0:
    case CR_INPUT:
    case CR_DX: return blob_shape(given->x[0], v->bottom[0]);
    case CR_X1: return blob_shape(given->x[1], v->bottom[1]);
    case CR_X2: return blob_shape(given->x[2], v->bottom[2]);
    case CR_Y:
    case CR_DY: return blob_shape(given->y, v->top[0]);
    case CR_Y1: return v->layer->tops > 1 ? blob_shape(given->y1, v->top[1]) : NULL;
    case CR_W0: return blob_shape(given->w, v->layer->blob[0]);
    case CR_OWN0: return given->own[0];
    case CR_OWN1: return given->own[1];
    case CR_OWN2: return given->own[2];
    case CR_BYTES: return given->bytes;
    default: return NULL;
  }
}

static crema_status make_op(cr_layer *layer, cr_layer_op *slot, const cr_pair_pass *pass,
                            const cr_op_desc *desc, const pair_view *v, cr_operand without) {
  const crema_shape *shape[CR_PAIR_OPERANDS];
  cr_op_desc made = *desc;
  int args = 0;
  made.kind = pass->op;
  for (; pass->operand[args] != CR_END; ++args) {
    const cr_operand operand = pass->operand[args];
    shape[args] = operand == without ? NULL : shape_of(v, operand);
  }
  return cr_layer_op_make(layer, slot, &made, args, shape);
}

static bool keeps_input(const cr_layer *layer) {
  const cr_operand *operand = layer->kind->pair->backward.operand;
  while (*operand != CR_END && *operand != CR_INPUT) ++operand;
  return *operand == CR_INPUT && layer->kind->backward != NULL;
}

static crema_status own_tensor(cr_layer *layer, cr_tensor **tensor, crema_dtype type,
                               const crema_shape *shape) {
  if (shape == NULL) return CREMA_OK;
  return cr_layer_pass_tensor(layer, tensor, type, crema_shape_count(shape, 0, shape->axes));
}

crema_status cr_layer_pair_make(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top,
                                const cr_op_desc *desc, const cr_pair_shapes *shapes) {
  cr_layer_pair *s = layer->state;
  const cr_layer_pair_table *table = layer->kind->pair;
  const pair_view view = {layer, bottom, top, shapes};
  for (int i = 0; i < CR_PAIR_OWN; ++i)
    CR_TRY(own_tensor(layer, &s->own[i], cr_layer_arithmetic(layer), shapes->own[i]));
  CR_TRY(own_tensor(layer, &s->bytes, CREMA_U8, shapes->bytes));
  if (keeps_input(layer)) CR_TRY(cr_layer_keep_make(layer, &s->keep, bottom[0]));
  CR_TRY(make_op(layer, &s->forward, &table->forward, desc, &view, CR_END));
  if (table->bytes_for_backward && shapes->bytes != NULL) {
    CR_TRY(make_op(layer, &s->forward_only, &table->forward, desc, &view, CR_BYTES));
  }
  if (layer->kind->backward == NULL) return CREMA_OK;
  return make_op(layer, &s->backward, &table->backward, shapes->backward ? shapes->backward : desc,
                 &view, CR_END);
}

/* The tensor of an argument; NULL: it is absent. */
static cr_tensor *tensor_of(const cr_layer *layer, crema_blob *const *bottom,
                            crema_blob *const *top, int index, cr_operand operand) {
  const cr_layer_pair *s = layer->state;
  switch (operand) {
    case CR_X0: return bottom[0]->data;
    case CR_X1: return bottom[1]->data;
    case CR_X2: return bottom[2]->data;
    case CR_INPUT: return cr_layer_keep_input(&s->keep, bottom[0], top[0]);
    case CR_DX: return bottom[index]->diff;
    case CR_Y: return top[0]->data;
    case CR_DY: return top[0]->diff;
    case CR_Y1: return layer->tops > 1 ? top[1]->data : NULL;
    case CR_W0: return layer->blob[0]->data;
    case CR_OWN0: return s->own[0];
    case CR_OWN1: return s->own[1];
    case CR_OWN2: return s->own[2];
    case CR_BYTES: return s->bytes;
    default: return NULL;
  }
}

crema_status cr_layer_pair_run(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                               crema_blob *const *top, const cr_op_scalars *scalars) {
  cr_layer_pair *s = layer->state;
  const cr_layer_pair_table *table = layer->kind->pair;
  const cr_operand *operand = table->forward.operand;
  const bool without_bytes =
      table->bytes_for_backward && s->bytes != NULL && !layer->needs_backward;
  cr_tensor *tensor[CR_PAIR_OPERANDS] = {NULL};
  cr_tensor *input = layer->bottoms > 0 ? bottom[0]->data : NULL;
  if (keeps_input(layer)) {
    CR_TRY(cr_layer_keep_forward(layer, &s->keep, context, bottom[0], top[0], &input));
  }
  for (int i = 0; operand[i] != CR_END; ++i) {
    if (without_bytes && operand[i] == CR_BYTES) continue;
    const bool reads_input = operand[i] == CR_X0;
    tensor[i] = reads_input ? input : tensor_of(layer, bottom, top, 0, operand[i]);
  }
  return cr_layer_op_run(without_bytes ? &s->forward_only : &s->forward, context, tensor, scalars);
}

crema_status cr_layer_pair_run_back(cr_layer *layer, crema_context *context, crema_blob *const *top,
                                    crema_blob *const *bottom, int index,
                                    const cr_op_scalars *scalars) {
  cr_layer_pair *s = layer->state;
  const cr_operand *operand = layer->kind->pair->backward.operand;
  cr_tensor *tensor[CR_PAIR_OPERANDS] = {NULL};
  for (int i = 0; operand[i] != CR_END; ++i) {
    tensor[i] = tensor_of(layer, bottom, top, index, operand[i]);
  }
  return cr_layer_op_run(&s->backward, context, tensor, scalars);
}

crema_status cr_layer_pair_forward(cr_layer *layer, crema_context *context,
                                   crema_blob *const *bottom, crema_blob *const *top) {
  return cr_layer_pair_run(layer, context, bottom, top, NULL);
}

crema_status cr_layer_pair_backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                                    const bool *propagate_down, crema_blob *const *bottom) {
  if (!propagate_down[0]) return CREMA_OK;
  return cr_layer_pair_run_back(layer, context, top, bottom, 0, NULL);
}
