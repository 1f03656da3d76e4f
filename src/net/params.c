/* Parameters: their owners, their learning-rate factors, and sharing. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "net/graph.h"

static crema_status resize(void *array, size_t count, size_t width) {
  void *old = NULL;
  memcpy(&old, array, sizeof old);
  void *memory = realloc(old, count * width);
  if (memory == NULL) return cr_fail_memory(count * width, "the net's parameters");
  memcpy(array, &memory, sizeof memory);
  return CREMA_OK;
}

static crema_status reserve(cr_net_build *build, int extra) {
  crema_net *net = build->net;
  int64_t needed = (int64_t)net->params + extra;
  if (needed <= build->param_capacity) return CREMA_OK;
  size_t count = (size_t)needed * 2;
  if (count > INT32_MAX) return cr_fail(CREMA_E_RANGE, "the net has too many parameters");
  CR_TRY(resize(&net->net_param, count, sizeof *net->net_param));
  CR_TRY(resize(&net->learnable, count, sizeof *net->learnable));
  CR_TRY(resize(&net->lr_mult, count, sizeof *net->lr_mult));
  CR_TRY(resize(&net->decay_mult, count, sizeof *net->decay_mult));
  CR_TRY(resize(&build->has_lr_mult, count, sizeof *build->has_lr_mult));
  CR_TRY(resize(&build->has_decay_mult, count, sizeof *build->has_decay_mult));
  build->param_capacity = (int)count;
  return CREMA_OK;
}

static void add_owner(cr_net_build *build, cr_net_param *entry, crema_blob *blob,
                      const Caffe__ParamSpec *spec) {
  crema_net *net = build->net;
  int id = net->learnables++;
  entry->owner = -1;
  entry->learnable = id;
  net->learnable[id] = blob;
  net->lr_mult[id] = spec->lr_mult;
  net->decay_mult[id] = spec->decay_mult;
  build->has_lr_mult[id] = spec->has_lr_mult;
  build->has_decay_mult[id] = spec->has_decay_mult;
}

/* Any of the sharers may give a factor; all that give it must agree. */
static crema_status merge_factor(const Caffe__LayerParameter *layer, const cr_net_param *entry,
                                 const char *what, bool given, float value, bool *has,
                                 float *factor) {
  if (!given) return CREMA_OK;
  if (*has && *factor != value) {
    return cr_net_fail_layer(layer, CREMA_E_ARGUMENT,
                             "shared param '%.200s' has %s %g here and %g in another layer",
                             entry->name, what, (double)value, (double)*factor);
  }
  *has = true;
  *factor = value;
  return CREMA_OK;
}

/* Sharers have one type, as they share one memory. */
static crema_status check_types(const Caffe__LayerParameter *layer, const cr_net_param *entry,
                                const char *owner, const crema_blob *mine,
                                const crema_blob *theirs) {
  crema_dtype data[] = {cr_tensor_type(mine->data), cr_tensor_type(theirs->data)};
  crema_dtype diff[] = {cr_tensor_type(mine->diff), cr_tensor_type(theirs->diff)};
  if (data[0] == data[1] && diff[0] == diff[1]) return CREMA_OK;
  return cr_net_fail_layer(
      layer, CREMA_E_TYPE,
      "cannot share param '%.200s' with layer '%.200s': types differ; this layer's values and "
      "gradients are %s and %s, the owner's %s and %s",
      entry->name, owner, crema_dtype_name(data[0]), crema_dtype_name(diff[0]),
      crema_dtype_name(data[1]), crema_dtype_name(diff[1]));
}

static crema_status check_sharer(const crema_net *net, const cr_net_param *entry,
                                 const Caffe__ParamSpec *spec) {
  const cr_net_param *owner = &net->net_param[entry->owner];
  const cr_layer *owner_layer = net->layer[owner->layer].layer;
  const crema_shape *mine = &net->layer[entry->layer].layer->blob[entry->index]->shape;
  const crema_shape *theirs = &owner_layer->blob[owner->index]->shape;
  CR_TRY(check_types(net->param->layer[entry->layer], entry, owner_layer->name,
                     net->layer[entry->layer].layer->blob[entry->index],
                     owner_layer->blob[owner->index]));
  bool permissive = spec->share_mode == CAFFE__PARAM_SPEC__DIM_CHECK_MODE__PERMISSIVE;
  if (permissive
          ? crema_shape_count(mine, 0, mine->axes) == crema_shape_count(theirs, 0, theirs->axes)
          : crema_shape_equal(mine, theirs)) {
    return CREMA_OK;
  }
  char text[2][256];
  return cr_net_fail_layer(
      net->param->layer[entry->layer], CREMA_E_SHAPE,
      "cannot share param '%.200s' with layer '%.200s': %s differ; this layer's "
      "shape is %s, the owner's is %s",
      entry->name, owner_layer->name, permissive ? "counts" : "shapes",
      crema_shape_text(mine, text[0], sizeof text[0]),
      crema_shape_text(theirs, text[1], sizeof text[1]));
}

static crema_status add_sharer(cr_net_build *build, cr_net_param *entry, int owner,
                               const Caffe__ParamSpec *spec) {
  crema_net *net = build->net;
  const Caffe__LayerParameter *layer = net->param->layer[entry->layer];
  entry->owner = owner;
  entry->learnable = net->net_param[owner].learnable;
  int id = entry->learnable;
  cr_log_debug("Sharing parameters '%.200s' owned by layer '%.200s', param index %d", entry->name,
               net->layer[net->net_param[owner].layer].layer->name, net->net_param[owner].index);
  CR_TRY(check_sharer(net, entry, spec));
  CR_TRY(merge_factor(layer, entry, "lr_mult", spec->has_lr_mult, spec->lr_mult,
                      &build->has_lr_mult[id], &net->lr_mult[id]));
  return merge_factor(layer, entry, "decay_mult", spec->has_decay_mult, spec->decay_mult,
                      &build->has_decay_mult[id], &net->decay_mult[id]);
}

crema_status cr_net_append_params(cr_net_build *build, int index) {
  static const Caffe__ParamSpec plain = CAFFE__PARAM_SPEC__INIT;
  crema_net *net = build->net;
  const Caffe__LayerParameter *param = net->param->layer[index];
  cr_layer *layer = net->layer[index].layer;
  net->layer[index].first_param = net->params;
  CR_TRY(reserve(build, layer->params));
  for (int p = 0; p < layer->params; ++p) {
    const Caffe__ParamSpec *spec = (size_t)p < param->n_param ? param->param[p] : &plain;
    cr_net_param *entry = &net->net_param[net->params];
    *entry = (cr_net_param){.layer = index, .index = p, .name = cr_net_text(spec->name)};
    int owner = entry->name[0] == '\0' ? -1 : cr_name_map_get(&build->param_index, entry->name);
    if (owner >= 0) {
      CR_TRY(add_sharer(build, entry, owner, spec));
    } else {
      add_owner(build, entry, layer->blob[p], spec);
      if (entry->name[0] != '\0') {
        CR_TRY(cr_name_map_set(&build->param_index, entry->name, net->params));
      }
    }
    net->params += 1;
  }
  return CREMA_OK;
}

/* Whether a top of the layer has its values from a parameter of it. */
static bool shows_params(const cr_net_layer *layer) {
  const cr_layer *self = layer->layer;
  for (int j = 0; j < self->tops; ++j) {
    for (int p = 0; p < self->params; ++p) {
      if (cr_tensor_shares_with(layer->top[j]->data, self->blob[p]->data)) return true;
    }
  }
  return false;
}

/* Tops that alias parameters, directly or through other tops, take the values again, because the
 * parameters now have other memory. */
static crema_status show_params_again(crema_net *net) {
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    cr_layer *self = layer->layer;
    if (self->kind->reshape == NULL) continue;
    crema_status status = self->kind->reshape(self, layer->bottom, layer->top);
    if (status != CREMA_OK) return cr_net_fail_in_layer(self->param, status);
  }
  return CREMA_OK;
}

crema_status cr_net_tie_params(crema_net *net) {
  bool shown = false;
  for (int i = 0; i < net->params; ++i) {
    const cr_net_param *entry = &net->net_param[i];
    if (entry->owner < 0) continue;
    shown = shown || shows_params(&net->layer[entry->layer]);
    crema_blob *blob = net->layer[entry->layer].layer->blob[entry->index];
    crema_blob *owner = net->learnable[entry->learnable];
    CR_TRY(cr_blob_share_data(blob, owner));
    CR_TRY(cr_blob_share_diff(blob, owner));
  }
  return shown ? show_params_again(net) : CREMA_OK;
}

static crema_status share_layer(cr_layer *target, const cr_layer *source) {
  if (target->params != source->params) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "layer '%.200s' has %d parameters here and %d in the other net", target->name,
                   target->params, source->params);
  }
  for (int p = 0; p < target->params; ++p) {
    if (!crema_shape_equal(&target->blob[p]->shape, &source->blob[p]->shape)) {
      char text[2][256];
      return cr_fail(
          CREMA_E_SHAPE,
          "cannot share parameter %d of layer '%.200s': its shape is %s, the other net's "
          "is %s",
          p, target->name, crema_shape_text(&target->blob[p]->shape, text[0], sizeof text[0]),
          crema_shape_text(&source->blob[p]->shape, text[1], sizeof text[1]));
    }
    crema_dtype mine = cr_tensor_type(target->blob[p]->data);
    crema_dtype theirs = cr_tensor_type(source->blob[p]->data);
    if (mine != theirs) {
      return cr_fail(CREMA_E_TYPE,
                     "cannot share parameter %d of layer '%.200s': its type is %s here and %s in "
                     "the other net",
                     p, target->name, crema_dtype_name(mine), crema_dtype_name(theirs));
    }
    CR_TRY(cr_blob_share_data(target->blob[p], source->blob[p]));
  }
  return CREMA_OK;
}

static crema_blob *blob_of_param(const crema_net *net, int entry) {
  const cr_net_param *param = &net->net_param[entry];
  return net->layer[param->layer].layer->blob[param->index];
}

/* Layers that the donor lacks also share with it if a parameter's name ties them to a layer that it
 * has. `taken`: one per layer, whether the donor has it. */
static crema_status tie_rest(crema_net *net, const bool *taken, bool *shown) {
  int *from = NULL; /* entry of a taken layer, or -1 */
  CR_TRY(CR_NEW(from, net->learnables + 1, "matching layers"));
  crema_status status = CREMA_OK;
  for (int id = 0; id < net->learnables; ++id) from[id] = -1;
  for (int i = net->params - 1; i >= 0; --i) {
    if (taken[net->net_param[i].layer]) from[net->net_param[i].learnable] = i;
  }
  for (int i = 0; i < net->params && status == CREMA_OK; ++i) {
    const cr_net_param *entry = &net->net_param[i];
    if (taken[entry->layer] || from[entry->learnable] < 0) continue;
    *shown = *shown || shows_params(&net->layer[entry->layer]);
    status = cr_blob_share_data(blob_of_param(net, i), blob_of_param(net, from[entry->learnable]));
  }
  free(from);
  return status;
}

/* Shares the parameters of all layers that both nets have and marks them in `taken`. */
static crema_status share_layers(crema_net *net, crema_net *donor, bool *taken, bool *shown) {
  int *cursor = NULL;
  CR_TRY(CR_NEW(cursor, net->layers + 1, "matching layers"));
  crema_status status = CREMA_OK;
  cr_net_match_start(net, cursor);
  for (int i = 0; i < donor->layers && status == CREMA_OK; ++i) {
    cr_layer *source = donor->layer[i].layer;
    int target = cr_net_match(net, source->name, cursor);
    if (target < 0) {
      cr_log_debug("Ignoring source layer %s", source->name);
      continue;
    }
    taken[target] = true;
    *shown = *shown || shows_params(&net->layer[target]);
    status = share_layer(net->layer[target].layer, source);
  }
  free(cursor);
  return status;
}

crema_status cr_net_share_params(crema_net *net, crema_net *donor) {
  bool *taken = NULL, shown = false;
  CR_TRY(CR_NEW(taken, net->layers + 1, "matching layers"));
  crema_status status = share_layers(net, donor, taken, &shown);
  if (status == CREMA_OK) status = tie_rest(net, taken, &shown);
  free(taken);
  return status == CREMA_OK && shown ? show_params_again(net) : status;
}

crema_status crema_net_share_weights(crema_net *net, crema_net *donor) {
  CR_REQUIRE(net);
  CR_REQUIRE(donor);
  if (net == donor) return cr_fail(CREMA_E_ARGUMENT, "a net cannot share weights with itself");
  CR_TRY(cr_net_take_views(donor));
  return cr_net_share_params(net, donor);
}
