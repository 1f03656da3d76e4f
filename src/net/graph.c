/* Building the graph: layers, their bottoms and tops, in the order of running. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "device/memory/heap.h"
#include "layers/common/input_class.h"
#include "layers/registry.h"
#include "memory/tensor_source.h"
#include "net/checks/checks.h"
#include "net/graph.h"
#include "net/lifetimes.h"
#include "net/run.h"
#include "net/weights/weights.h"
#include "proto/field.h"

static const char automatic[] = "(automatic)";

/* Tops a layer will have once automatic ones are added. */
static int final_tops(const Caffe__LayerParameter *param, const cr_layer_class *kind) {
  int named = (int)param->n_top;
  int least = kind->tops.min > 1 ? kind->tops.min : 1;
  return kind->graph.auto_tops && named < least ? least : named;
}

/* Finds all classes and makes the arrays whose sizes follow from them. */
static crema_status start_build(cr_net_build *build) {
  crema_net *net = build->net;
  Caffe__NetParameter *param = net->param;
  net->layers = (int)param->n_layer;
  CR_TRY(CR_NET_NEW(net, net->layer, param->n_layer));
  CR_TRY(CR_NET_NEW(build, build->kind, param->n_layer));
  CR_TRY(CR_NET_NEW(build, build->fused_into, param->n_layer));
  int64_t blobs = 0;
  for (size_t i = 0; i < param->n_layer; ++i) {
    Caffe__LayerParameter *layer = param->layer[i];
    net->at = i;
    crema_status status = cr_layer_class_of(layer, net->path, &build->kind[i]);
    if (status != CREMA_OK) {
      return cr_fail_where(status, &(cr_where){.layer = cr_net_text(layer->name)});
    }
    blobs += final_tops(layer, build->kind[i]);
    build->fused_into[i] = -1;
  }
  /* From last to first, so that the index ends up with the first layer of each name. */
  for (int i = net->layers - 1; i >= 0; --i) {
    const char *name = cr_net_text(param->layer[i]->name);
    net->layer[i].next_same = cr_name_map_get(&net->layer_index, name);
    CR_TRY(cr_name_map_set(&net->layer_index, name, i));
  }
  if (blobs > INT32_MAX / 2) return cr_fail(CREMA_E_RANGE, "the net has too many blobs");
  build->blob_capacity = (int)blobs;
  CR_TRY(CR_NET_NEW(net, net->blob, blobs));
  CR_TRY(CR_NET_NEW(net, net->blob_name, blobs));
  CR_TRY(CR_NET_NEW(net, net->input, blobs));
  CR_TRY(CR_NET_NEW(net, net->output, blobs));
  CR_TRY(CR_NET_NEW(net, net->output_weight, blobs));
  CR_TRY(CR_NET_NEW(build, build->available, blobs));
  return CR_NET_NEW(build, build->blob_need_backward, blobs);
}

static crema_status check_count(const Caffe__LayerParameter *param, const char *what, int found,
                                const cr_layer_count *range) {
  const int least = range->min, most = range->max;
  char text[40];
  if (found >= least && (most == CR_ANY || found <= most)) return CREMA_OK;
  if (most == CR_ANY) snprintf(text, sizeof text, "at least %d", least);
  else if (least == most) snprintf(text, sizeof text, "%d", least);
  else snprintf(text, sizeof text, "%d to %d", least, most);
  return cr_net_fail_layer(param, CREMA_E_ARGUMENT, "takes %s %s blob%s; found %d", text, what,
                           least == 1 && most == 1 ? "" : "s", found);
}

/* Whether the layer adds its last bottom to its top. */
static bool has_addend(const cr_net_build *build, int index) {
  return build->options->frozen != NULL && cr_posts_add(&build->options->frozen[index].posts);
}

/* Samples of several layers belong together by their numbers. If one layer skips a record, each
 * later record meets the wrong partner. The other layers cannot skip theirs, as their batches are
 * taken before all records of this layer have been tried. */
static crema_status check_skipping(const cr_net_build *build, int index) {
  const Caffe__LayerParameter *param = build->net->param->layer[index];
  const cr_input_class *input = build->kind[index]->input;
  if (param->data_param == NULL || !param->data_param->skip_corrupt || input == NULL ||
      input->progress == NULL) {
    return CREMA_OK;
  }
  for (int i = 0; i < build->net->layers; ++i) {
    const cr_input_class *other = build->kind[i]->input;
    if (i == index || other == NULL || other->save == NULL) continue;
    return cr_net_fail_layer(
        param, CREMA_E_UNSUPPORTED,
        "skip_corrupt: layer '%s' brings samples, too, and every sample behind a skipped record "
        "would meet the wrong one of that layer; make databases without the damaged records",
        cr_net_text(build->net->param->layer[i]->name));
  }
  return CREMA_OK;
}

/* All that can be checked before the layer is made. */
static crema_status check_layer(const cr_net_build *build, int index) {
  const Caffe__LayerParameter *param = build->net->param->layer[index];
  const cr_layer_class *kind = build->kind[index];
  int bottoms = (int)param->n_bottom - has_addend(build, index), tops = final_tops(param, kind);
  CR_TRY(check_count(param, "bottom", bottoms, &kind->bottoms));
  CR_TRY(check_count(param, "top", tops, &kind->tops));
  if (kind->graph.equal_bottoms_tops && bottoms != tops) {
    return cr_net_fail_layer(param, CREMA_E_ARGUMENT,
                             "takes as many tops as bottoms; found %d bottoms and %d tops", bottoms,
                             tops);
  }
  if (param->n_propagate_down > 0 && param->n_propagate_down != param->n_bottom) {
    return cr_net_fail_layer(param, CREMA_E_ARGUMENT,
                             "propagate_down must be given not at all or once per bottom (%d); "
                             "found %zu",
                             bottoms, param->n_propagate_down);
  }
  if (param->n_loss_weight > 0 && param->n_loss_weight != (size_t)tops) {
    return cr_net_fail_layer(param, CREMA_E_ARGUMENT,
                             "loss_weight must be given not at all or once per top (%d); found %zu",
                             tops, param->n_loss_weight);
  }
  return check_skipping(build, index);
}

static crema_status make_layer(cr_net_build *build, int index) {
  crema_net *net = build->net;
  Caffe__LayerParameter *param = net->param->layer[index];
  cr_net_layer *layer = &net->layer[index];
  if (!param->has_phase) {
    param->has_phase = 1;
    param->phase = net->phase == CREMA_TRAIN ? CAFFE__PHASE__TRAIN : CAFFE__PHASE__TEST;
  }
  cr_log_debug("Creating Layer %s", cr_net_text(param->name));
  CR_TRY(cr_layer_create(param, param->phase, net->context, net->seed, net->path, &layer->layer));
  cr_layer_set_solver(layer->layer, build->options->solver);
  layer->layer->awaits_params = build->options->awaits_params;
  CR_TRY(cr_net_layer_types(net->param, param, build->kind[index], &layer->layer->types));
  size_t bottoms = param->n_bottom, tops = (size_t)final_tops(param, build->kind[index]);
  layer->layer->tops = (int)tops;
  if (build->options->frozen != NULL) {
    layer->layer->given = build->options->frozen[index].blob;
    layer->layer->givens = build->options->frozen[index].params;
    layer->layer->posts = build->options->frozen[index].posts;
    layer->layer->int8 = build->options->frozen[index].int8;
    layer->parts_in_place = build->options->frozen[index].parts_in_place;
    layer->once = build->options->frozen[index].once;
    layer->layer->winograd = build->options->frozen[index].winograd;
    if (build->options->frozen[index].retyped)
      layer->layer->types.forward = build->options->frozen[index].tops;
  }
  CR_TRY(CR_NET_NEW(net, layer->bottom, bottoms));
  CR_TRY(CR_NET_NEW(net, layer->bottom_id, bottoms));
  CR_TRY(CR_NET_NEW(net, layer->propagate_down, bottoms));
  CR_TRY(CR_NET_NEW(net, layer->top, tops));
  CR_TRY(CR_NET_NEW(net, layer->top_id, tops));
  return CR_NET_NEW(net, layer->seen, bottoms + tops);
}

/* Inserting splits has made sure that the blob exists. It is also unread, unless the prototxt file
 * itself uses the name of a split's copy. */
static crema_status append_bottom(cr_net_build *build, int index, int bottom) {
  crema_net *net = build->net;
  const Caffe__LayerParameter *param = net->param->layer[index];
  cr_net_layer *layer = &net->layer[index];
  const char *name = param->bottom[bottom];
  int blob = cr_name_map_get(&net->blob_index, name);
  if (blob < 0 || !build->available[blob]) {
    return cr_net_fail_blob(param, name, CREMA_E_UNKNOWN_NAME, "bottom %d '%s' is not available",
                            bottom, name);
  }
  cr_log_debug("%s <- %s", layer->layer->name, name);
  build->available[blob] = false;
  layer->bottom[bottom] = net->blob[blob];
  layer->bottom_id[bottom] = blob;
  layer->propagate_down[bottom] =
      build->blob_need_backward[blob] && !layer->layer->kind->graph.ends_gradient;
  if (param->n_propagate_down > 0) layer->propagate_down[bottom] = param->propagate_down[bottom];
  return CREMA_OK;
}

static crema_status add_blob(cr_net_build *build, int index, int top, const char *name, int *out) {
  crema_net *net = build->net;
  crema_dtype data = CREMA_F32, diff = CREMA_F32;
  static const crema_shape empty = {.axes = 1, .dim = {0}};
  if (net->blobs >= build->blob_capacity) return cr_fail(CREMA_E_INTERNAL, "too many blobs");
  CR_TRY(cr_arena_text(&net->arena, name, &net->blob_name[net->blobs]));
  cr_net_top_types(build, index, top, &data, &diff);
  CR_TRY(cr_blob_create_typed(&empty, data, diff, &net->blob[net->blobs]));
  *out = net->blobs++;
  return CREMA_OK;
}

static crema_status fail_duplicate_top(const cr_net_build *build, int index, int top, int blob) {
  const crema_net *net = build->net;
  char line[CR_NET_LINE_TEXT];
  const Caffe__LayerParameter *param = net->param->layer[index];
  for (int i = 0; i < index; ++i) {
    const cr_net_layer *other = &net->layer[i];
    for (int j = 0; j < other->layer->tops; ++j) {
      if (other->top_id[j] != blob) continue;
      return cr_net_fail_blob(param, param->top[top], CREMA_E_EXISTS,
                              "top '%.200s' is already made by layer '%.200s'%s", param->top[top],
                              other->layer->name, cr_net_line_text(net, (size_t)i, line));
    }
  }
  return cr_net_fail_blob(param, param->top[top], CREMA_E_EXISTS, "top '%.200s' is made twice",
                          param->top[top]);
}

static crema_status append_top(cr_net_build *build, int index, int top) {
  crema_net *net = build->net;
  const Caffe__LayerParameter *param = net->param->layer[index];
  cr_net_layer *layer = &net->layer[index];
  bool named = (size_t)top < param->n_top;
  const char *name = named ? param->top[top] : automatic;
  int blob = named ? cr_name_map_get(&net->blob_index, name) : -1;
  bool in_place = named && (size_t)top < param->n_bottom && strcmp(name, param->bottom[top]) == 0;
  if (top == 0 && has_addend(build, index)) {
    in_place = in_place || strcmp(name, param->bottom[param->n_bottom - 1]) == 0;
  }
  if (blob >= 0 && !in_place) return fail_duplicate_top(build, index, top, blob);
  cr_log_debug("%s -> %s%s", layer->layer->name, name, in_place ? " (in-place)" : "");
  if (blob < 0) {
    CR_TRY(add_blob(build, index, top, name, &blob));
    if (named) CR_TRY(cr_name_map_set(&net->blob_index, net->blob_name[blob], blob));
  }
  layer->top[top] = net->blob[blob];
  layer->top_id[top] = blob;
  build->available[blob] = named;
  const cr_input_class *input = layer->layer->kind->input;
  if (input != NULL && input->net_input) net->input[net->inputs++] = blob;
  return CREMA_OK;
}

/* Statistics are not learned: their lr_mult is 0, given or not. */
static crema_status pin_statistics(cr_net_build *build, int index) {
  Caffe__LayerParameter *param = build->net->param->layer[index];
  size_t params = (size_t)build->net->layer[index].layer->params;
  const cr_layer_class *kind = build->kind[index];
  if (!kind->graph.statistics) return CREMA_OK;
  for (size_t i = 0; i < param->n_param; ++i) {
    if (param->param[i]->lr_mult == 0.0f) continue;
    return cr_net_fail_layer(param, CREMA_E_ARGUMENT,
                             "param %zu has lr_mult %g; the statistics of a %s layer are "
                             "not learned: give lr_mult 0 or no param at all",
                             i, (double)param->param[i]->lr_mult, kind->type);
  }
  if (param->n_param >= params) return CREMA_OK;
  CR_TRY(cr_message_reserve(&param->base, "param", params - param->n_param));
  while (param->n_param < params) {
    Caffe__ParamSpec **added = &param->param[param->n_param];
    CR_TRY(cr_message_new(&caffe__param_spec__descriptor, added));
    (*added)->has_lr_mult = 1;
    (*added)->lr_mult = 0.0f;
    param->n_param += 1;
  }
  return CREMA_OK;
}

/* Values that the prototxt itself gives for the layer's parameters; freed once copied. */
static crema_status take_inline_blobs(const crema_net *net, int index) {
  Caffe__LayerParameter *param = net->param->layer[index];
  cr_layer *layer = net->layer[index].layer;
  if (param->n_blobs == 0) return CREMA_OK;
  if (param->n_blobs != (size_t)layer->params) {
    return cr_net_fail_layer(param, CREMA_E_ARGUMENT,
                             "%zu blobs are given, but the layer has %d parameters", param->n_blobs,
                             layer->params);
  }
  net->layer[index].inline_params = true;
  for (int i = 0; i < layer->params; ++i) {
    crema_status status = cr_blob_from_proto(layer->blob[i], param->blobs[i], false);
    if (status != CREMA_OK) return cr_fail_in(status, "blobs %d", i);
  }
  cr_message_clear(&param->base, "blobs");
  return CREMA_OK;
}

/* Fuses a ReLU into the preceding layer; see cr_net_plan_fusion. */
static void apply_fusion(cr_net_build *build, int index) {
  crema_net *net = build->net;
  int relu = build->fused_into[index];
  if (relu < 0) return;
  if (relu < index) { /* `index` is the ReLU, `relu` the layer before it */
    net->layer[index].fused = true;
    net->fusions += 1;
    cr_net_fuse_bias(net, relu, index);
    return;
  }
  cr_layer *self = net->layer[index].layer;
  cr_post post;
  if (build->kind[relu]->fusion.post(net->param->layer[relu], cr_layer_arithmetic(self), &post)) {
    (void)cr_posts_append(&self->posts, &post);
  }
}

/* The layer of solver 0 that this layer shares work with; NULL: none. */
static crema_status find_root(const cr_net_build *build, int index, const cr_layer **out) {
  const cr_layer *self = build->net->layer[index].layer;
  const crema_net *net = build->options->solver == NULL ? NULL : build->options->solver->root;
  *out = NULL;
  if (net == NULL || !self->kind->graph.shareable || self->solver.rank == 0) return CREMA_OK;
  int found = cr_net_find_layer(net, self->name);
  if (found < 0) {
    return cr_net_fail_layer(self->param, CREMA_E_ARGUMENT,
                             "the net of solver 0 has no such layer to be shared");
  }
  *out = net->layer[found].layer;
  return CREMA_OK;
}

static crema_status shape_layer(cr_net_build *build, int index) {
  crema_net *net = build->net;
  cr_net_layer *layer = &net->layer[index];
  cr_layer *self = layer->layer;
  const cr_layer_class *kind = self->kind;
  CR_TRY(cr_layer_check_in_place(self, layer->bottom, layer->top));
  const cr_layer *root = NULL;
  CR_TRY(find_root(build, index, &root));
  crema_status status = cr_layer_setup(self, root, layer->bottom, layer->top);
  if (status != CREMA_OK) return cr_net_show_bottoms(net, index, status);
  if (net->param->layer[index]->n_param > (size_t)self->params) {
    return cr_net_fail_layer(net->param->layer[index], CREMA_E_ARGUMENT,
                             "%zu param entries are given, but the layer has %d parameters",
                             net->param->layer[index]->n_param, self->params);
  }
  CR_TRY(pin_statistics(build, index));
  CR_TRY(take_inline_blobs(net, index));
  apply_fusion(build, index);
  if (kind->reshape != NULL) status = kind->reshape(self, layer->bottom, layer->top);
  if (status != CREMA_OK) return cr_net_show_bottoms(net, index, status);
  cr_net_note_shapes(layer);
  for (int j = 0; j < self->tops; ++j) {
    char text[256];
    layer->has_loss = layer->has_loss || self->loss_weight[j] != 0.0f;
    if (!cr_log_enabled(CREMA_LOG_DEBUG)) continue;
    cr_log_debug("Top shape: %s", crema_shape_text(&layer->top[j]->shape, text, sizeof text));
    if (self->loss_weight[j] != 0.0f) {
      cr_log_debug("    with loss weight %g", (double)self->loss_weight[j]);
    }
  }
  return CREMA_OK;
}

/* A layer runs backward when a parameter or something below it learns. */
static void mark_backward(cr_net_build *build, int index) {
  cr_net_layer *layer = &build->net->layer[index];
  cr_layer *self = layer->layer;
  const Caffe__LayerParameter *param = self->param;
  for (int j = 0; j < self->bottoms && !self->kind->graph.ends_gradient; ++j) {
    if (build->blob_need_backward[layer->bottom_id[j]]) layer->need_backward = true;
  }
  for (int p = 0; p < self->params; ++p) {
    float lr_mult = (size_t)p < param->n_param ? param->param[p]->lr_mult : 1.0f;
    self->param_propagate_down[p] = lr_mult != 0.0f;
    if (lr_mult != 0.0f) layer->need_backward = true;
  }
  if (!layer->need_backward) return;
  for (int j = 0; j < self->tops; ++j) build->blob_need_backward[layer->top_id[j]] = true;
}

static crema_status add_layer(cr_net_build *build, int index) {
  crema_net *net = build->net;
  CR_TRY(check_layer(build, index));
  CR_TRY(make_layer(build, index));
  cr_layer *self = net->layer[index].layer;
  for (int j = 0; j < self->bottoms; ++j) CR_TRY(append_bottom(build, index, j));
  CR_TRY(cr_net_check_bottom_types(build, index));
  for (int j = 0; j < self->tops; ++j) CR_TRY(append_top(build, index, j));
  CR_TRY(shape_layer(build, index));
  if (build->options->frozen == NULL) mark_backward(build, index);
  return cr_net_append_params(build, index);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Loss weights of the outputs. In-place layers also make a blob; the weight of the last such layer
 * counts. */
static crema_status weigh_outputs(cr_net_build *build) {
  crema_net *net = build->net;
  float *weight = NULL;
  CR_TRY(CR_NET_NEW(build, weight, net->blobs));
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    for (int j = 0; j < layer->layer->tops; ++j) {
      weight[layer->top_id[j]] = layer->layer->loss_weight[j];
    }
  }
  for (int i = 0; i < net->outputs; ++i) net->output_weight[i] = weight[net->output[i]];
  return CREMA_OK;
}

/* Outputs: blobs that no layer consumes, in the order of their names. */
static crema_status find_outputs(cr_net_build *build) {
  crema_net *net = build->net;
  char **name = NULL;
  size_t count = 0;
  CR_TRY(CR_NET_NEW(build, name, net->blobs));
  for (int i = 0; i < net->blobs; ++i) {
    if (build->available[i]) name[count++] = net->blob_name[i];
  }
  qsort(name, count, sizeof *name, by_name);
  for (size_t i = 0; i < count; ++i) {
    cr_log_debug("This network produces output %s", name[i]);
    net->output[net->outputs++] = cr_name_map_get(&net->blob_index, name[i]);
  }
  return weigh_outputs(build);
}

static void log_memory(const crema_net *net) {
  if (!cr_log_enabled(CREMA_LOG_DEBUG)) return;
  int64_t bytes = 0;
  for (int i = 0; i < net->blobs; ++i) {
    size_t size = crema_dtype_size(crema_blob_data_type(net->blob[i]));
    bytes += crema_blob_count(net->blob[i]) * (int64_t)size;
  }
  cr_log_debug("Memory required for data: %lld", (long long)bytes);
}

/* Parameters that are not trained stay in the formats that they were needed in. */
static crema_status make_params_per_use(crema_net *net) {
  if (net->phase != CREMA_TRAIN || !net->context->device->backend->host_memory) return CREMA_OK;
  CR_TRY(cr_tensor_scratch_create(&net->per_use));
  for (int i = 0; i < net->learnables; ++i) {
    cr_tensor_set_per_use(net->learnable[i]->diff);
    if (net->lr_mult[i] != 0) cr_tensor_set_per_use(net->learnable[i]->data);
  }
  return CREMA_OK;
}

/* Nets with values that are released or settle have a heap. */
static crema_status start_planning(crema_net *net) {
  if (!net->plans && !net->settles) return CREMA_OK;
  CR_TRY(cr_heap_open(net->context));
  for (int i = 0; i < net->layers; ++i) {
    cr_net_layer *layer = &net->layer[i];
    const size_t blobs = (size_t)(layer->layer->bottoms + layer->layer->tops);
    CR_TRY(CR_NET_NEW(net, layer->last_use, blobs));
  }
  if (net->plans) {
    const size_t blobs = (size_t)net->blobs;
    CR_TRY(CR_NET_NEW(net, net->kept, blobs));
    CR_TRY(CR_NET_NEW(net, net->replay.segment, net->layers));
    CR_TRY(CR_NET_NEW(net, net->released, 2 * blobs));
    CR_TRY(make_params_per_use(net));
  }
  return cr_net_plan_lifetimes(net);
}

crema_status cr_net_build_graph(crema_net *net, const cr_net_build_options *options,
                                bool force_backward) {
  const bool frozen = options->frozen != NULL;
  cr_net_build build = {.net = net, .options = options};
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(start_build(&build), out);
  if (!frozen) CR_TRY_GOTO(cr_net_plan_fusion(&build), out);
  for (int i = 0; i < net->layers; ++i) {
    net->at = (size_t)i;
    status = add_layer(&build, i);
    if (status != CREMA_OK) {
      status = cr_net_fail_in_layer(net->param->layer[i], status);
      goto out;
    }
  }
  CR_TRY_GOTO(find_outputs(&build), out);
  CR_TRY_GOTO(cr_net_warn_of_lost_losses(net), out);
  CR_TRY_GOTO(cr_net_prune_backward(&build, force_backward), out);
  CR_TRY_GOTO(cr_net_find_makers(net), out);
  cr_net_read_sums(net);
  CR_TRY_GOTO(cr_net_share_sums(net), out);
  CR_TRY_GOTO(cr_net_tie_params(net), out);
  CR_TRY_GOTO(cr_net_warn_of_overwriting(net), out);
  if (!frozen) {
    cr_net_warn_of_losses(net);
    cr_net_warn_of_transforms(net);
    CR_TRY_GOTO(cr_net_warn_of_crops(net), out);
  }
  cr_net_plan_settling(net);
  CR_TRY_GOTO(start_planning(net), out);
  net->parts_moved = true;
  CR_TRY_GOTO(cr_net_place_parts(net), out);
  for (int i = 0; i < net->layers; ++i) CR_TRY_GOTO(cr_net_settle_params(net, i), out);
  log_memory(net);
out:
  cr_name_map_free(&build.param_index);
  free(build.has_decay_mult);
  free(build.has_lr_mult);
  cr_arena_free(&build.arena);
  return status;
}
