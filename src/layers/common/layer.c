#include "layers/common/layer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "core/rng.h"
#include "layers/common/input_class.h"
#include "layers/common/layer_op.h"
#include "layers/common/layer_share.h"

/* Room for the loss weights of all tops, automatic ones included, with their defaults. */
static crema_status make_loss_weights(cr_layer *layer) {
  const Caffe__LayerParameter *param = layer->param;
  size_t count = param->n_top;
  const int least = layer->kind->tops.min > 1 ? layer->kind->tops.min : 1;
  if (count < (size_t)least) count = (size_t)least;
  CR_TRY(CR_NEW(layer->loss_weight, count, "loss weights"));
  if (layer->kind->loss) layer->loss_weight[0] = 1;
  for (size_t i = 0; i < param->n_loss_weight && i < count; ++i) {
    layer->loss_weight[i] = param->loss_weight[i];
  }
  return CREMA_OK;
}

/* Layers that bring samples draw alike if their transform_param has the same seed, so that crops of
 * images and of their masks fit. */
static uint64_t make_key(const cr_layer *layer, uint64_t seed) {
  const Caffe__TransformationParameter *transform = layer->param->transform_param;
  const bool own = layer->kind->input != NULL && transform != NULL && transform->random_seed >= 0;
  if (own) return cr_mix_key((uint64_t)transform->random_seed, 0);
  return cr_mix_key(seed, cr_hash_text(layer->name));
}

crema_status cr_layer_create_as(const cr_layer_class *kind, const Caffe__LayerParameter *param,
                                Caffe__Phase phase, crema_context *context, uint64_t seed,
                                const char *net_path, cr_layer **out) {
  crema_status status;
  *out = NULL;
  cr_layer *layer = calloc(1, sizeof *layer);
  if (layer == NULL) return cr_fail_memory(sizeof *layer, "a layer");
  layer->kind = kind;
  layer->param = param;
  layer->name = cr_layer_name(param);
  layer->phase = phase;
  layer->context = context;
  layer->source_dir_file = net_path;
  layer->key = make_key(layer, seed);
  layer->bottoms = (int)param->n_bottom;
  layer->tops = (int)param->n_top;
  layer->needs_backward = true;
  layer->reusable_bottom = -1;
  layer->solver.solvers = 1;
  layer->types = CR_LAYER_FLOATS;
  if (param->multinode != NULL && param->multinode->num_nodes > 1) {
    status = cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                           "multinode: num_nodes is %u: a layer that is divided between machines "
                           "is not supported",
                           param->multinode->num_nodes);
    goto fail;
  }
  CR_TRY_GOTO(make_loss_weights(layer), fail);
  if (kind->state_size) {
    layer->state = calloc(1, kind->state_size);
    if (layer->state == NULL) {
      status = cr_fail_memory(kind->state_size, "the state of a layer");
      goto fail;
    }
  }
  *out = layer;
  return CREMA_OK;
fail:
  cr_layer_destroy(layer);
  return status;
}

crema_status cr_layer_check_in_place(const cr_layer *layer, crema_blob *const *bottom,
                                     crema_blob *const *top) {
  for (int t = 0; t < layer->tops; ++t) {
    for (int b = 0; b < layer->bottoms; ++b) {
      const bool addend = b >= cr_layer_own_bottoms(layer);
      if (top[t] != bottom[b] || (t == 0 && addend)) continue;
      if (t == 0 && b == 0 && layer->kind->in_place) continue;
      return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                           "cannot run in place: top %d is the same blob as bottom %d", t, b);
    }
  }
  return CREMA_OK;
}

static void free_params(cr_layer *layer) {
  for (int i = 0; i < layer->params; ++i) crema_blob_destroy(layer->blob[i]);
  free(layer->param_propagate_down);
  free(layer->blob);
  layer->param_propagate_down = NULL;
  layer->blob = NULL;
  layer->params = 0;
}

void cr_layer_destroy(cr_layer *layer) {
  if (layer == NULL) return;
  cr_layer_share_close(layer);
  if (layer->state && layer->kind->destroy) layer->kind->destroy(layer);
  cr_layer_free_owned(layer);
  free(layer->state);
  free(layer->loss_weight);
  free_params(layer);
  cr_input_group_release(layer->solver.group);
  free(layer);
}

void cr_layer_set_solver(cr_layer *layer, const cr_solver_rank *solver) {
  static const cr_solver_rank alone = {.solvers = 1};
  if (solver == NULL) solver = &alone;
  (void)cr_input_group_retain(solver->group);
  cr_input_group_release(layer->solver.group);
  layer->solver = *solver;
  layer->solver.root = NULL; /* may be freed before the layer */
  if (solver->rank > 0 && layer->kind->input == NULL) {
    layer->key = cr_mix_key(layer->key, (uint64_t)solver->rank);
  }
}

crema_status cr_layer_setup(cr_layer *layer, const cr_layer *root, crema_blob *const *bottom,
                            crema_blob *const *top) {
  const cr_layer_class *kind = layer->kind;
  const cr_input_class *input = kind->input;
  if (root != NULL) {
    CR_TRY(cr_layer_share_join(layer, root));
    CR_TRY(cr_layer_share_shape(layer, top));
    return input == NULL || input->join == NULL ? CREMA_OK : input->join(layer, top);
  }
  CR_TRY(cr_layer_share_open(layer));
  if (kind->setup != NULL) CR_TRY(kind->setup(layer, bottom, top));
  return cr_layer_share_shape(layer, top);
}

/* Rounds floats in the tops to integers if the tops hold integers. */
static crema_status forward_class(cr_layer *layer, crema_context *context,
                                  crema_blob *const *bottom, crema_blob *const *top) {
  CR_TRY(layer->kind->forward(layer, context, bottom, top));
  if (cr_dtype_is_floating(layer->types.forward)) return CREMA_OK;
  for (int i = 0; i < layer->tops; ++i) CR_TRY(cr_tensor_settle(top[i]->data, context));
  return CREMA_OK;
}

crema_status cr_layer_forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                              crema_blob *const *top) {
  const cr_input_class *input = layer->kind->input;
  if (layer->share == NULL) return forward_class(layer, context, bottom, top);
  if (input != NULL && input->await != NULL) CR_TRY(input->await(layer));
  cr_layer_share_lock(layer);
  crema_status status = forward_class(layer, context, bottom, top);
  cr_layer_share_unlock(layer);
  return status;
}

crema_status cr_layer_set_params(cr_layer *layer, int count) {
  free_params(layer);
  if (count == 0) return CREMA_OK;
  size_t n = (size_t)count;
  layer->blob = calloc(n, sizeof *layer->blob);
  layer->param_propagate_down = calloc(n, sizeof *layer->param_propagate_down);
  if (layer->blob == NULL || layer->param_propagate_down == NULL) {
    free_params(layer);
    return cr_fail_memory(n * sizeof *layer->blob, "layer parameters");
  }
  layer->params = count;
  for (int i = 0; i < count; ++i) layer->param_propagate_down[i] = true;
  return CREMA_OK;
}

crema_status cr_layer_append_param(cr_layer *layer) {
  const size_t count = (size_t)layer->params + 1;
  crema_blob **blob = realloc(layer->blob, count * sizeof *blob);
  if (blob == NULL) return cr_fail_memory(count * sizeof *blob, "layer parameters");
  layer->blob = blob;
  bool *learns = realloc(layer->param_propagate_down, count * sizeof *learns);
  if (learns == NULL) return cr_fail_memory(count * sizeof *learns, "layer parameters");
  layer->param_propagate_down = learns;
  blob[layer->params] = NULL;
  learns[layer->params++] = true;
  return CREMA_OK;
}

/* The values of a new parameter. */
static crema_status set_param(const cr_layer *layer, int index,
                              const Caffe__FillerParameter *filler, crema_blob *blob) {
  static const Caffe__FillerParameter zero = CAFFE__FILLER_PARAMETER__INIT;
  if (filler == NULL) filler = &zero;
  if (layer->awaits_params) return cr_fill_later(filler, layer->context, blob);
  if (layer->given == NULL) return cr_fill(filler, layer->context, blob);
  if (index >= layer->givens) {
    return cr_fail(CREMA_E_INTERNAL, "no values are given for it");
  }
  return cr_blob_share_data(blob, layer->given[index]);
}

crema_status cr_layer_add_param(cr_layer *layer, int index, const crema_shape *shape,
                                const Caffe__FillerParameter *filler) {
  crema_blob *blob = NULL;
  crema_status status;
  if (index < 0 || index >= layer->params) {
    return cr_layer_fail(layer, CREMA_E_INTERNAL, "has no parameter %d", index);
  }
  bool fixed = layer->kind->graph.statistics;
  crema_dtype type = fixed ? cr_layer_arithmetic(layer) : layer->types.forward;
  if (layer->given != NULL && index < layer->givens) {
    type = cr_tensor_type(layer->given[index]->data);
  }
  CR_TRY_GOTO(cr_blob_create_typed(
                  shape, type, fixed ? cr_layer_arithmetic(layer) : layer->types.backward, &blob),
              fail);
  CR_TRY_GOTO(set_param(layer, index, filler, blob), fail);
  crema_blob_destroy(layer->blob[index]);
  layer->blob[index] = blob;
  return CREMA_OK;
fail:
  crema_blob_destroy(blob);
  return cr_layer_in(layer, cr_fail_in(status, "parameter %d", index));
}

static cr_where where_of(const cr_layer *layer) {
  return (cr_where){.layer = layer->name, .type = layer->kind->type};
}

crema_status cr_layer_fail(const cr_layer *layer, crema_status code, const char *fmt, ...) {
  const cr_where where = where_of(layer);
  va_list args;
  va_start(args, fmt);
  cr_fail_at_list(code, &where, fmt, args);
  va_end(args);
  return code;
}

crema_status cr_layer_in(const cr_layer *layer, crema_status status) {
  const cr_where where = where_of(layer);
  return cr_fail_where(status, &where);
}
