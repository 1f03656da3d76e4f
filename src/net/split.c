/* Splits: copies of blobs that more than one layer reads. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "layers/registry.h"
#include "net/graph.h"
#include "proto/field.h"

/* Tops and bottoms are each numbered through all layers. */
typedef struct split_plan {
  Caffe__NetParameter *param;
  const cr_net_left_out *left_out;
  size_t tops, bottoms, splits;
  size_t *first_top, *first_bottom; /* one per layer: the number of its first */
  size_t *source;                   /* one per bottom: the top that made it */
  size_t *uses;                     /* one per top: bottoms that read it, and its loss weight */
  size_t *next;                     /* one per top: the next copy to be given away */
  float *weight;                    /* one per top: loss weight */
  int *maker;                       /* one per top: its layer */
  int *reader;                      /* one per top: the first layer that reads it, or -1 */
  Caffe__LayerParameter **split;    /* one per top: the Split after it, or NULL */
  cr_name_map latest;               /* blob name to the last top of that name */
  cr_arena arena;                   /* of the arrays */
} split_plan;

static crema_status start_plan(split_plan *plan) {
  Caffe__NetParameter *param = plan->param;
  if (param->n_layer > INT32_MAX / 2) {
    return cr_fail(CREMA_E_RANGE, "%zu layers are too many", param->n_layer);
  }
  CR_TRY(CR_NET_NEW(plan, plan->first_top, param->n_layer));
  CR_TRY(CR_NET_NEW(plan, plan->first_bottom, param->n_layer));
  for (size_t i = 0; i < param->n_layer; ++i) {
    plan->first_top[i] = plan->tops;
    plan->first_bottom[i] = plan->bottoms;
    plan->tops += param->layer[i]->n_top;
    plan->bottoms += param->layer[i]->n_bottom;
  }
  if (plan->tops > INT32_MAX / 2 || plan->bottoms > INT32_MAX / 2) {
    return cr_fail(CREMA_E_RANGE, "%zu tops and %zu bottoms are too many", plan->tops,
                   plan->bottoms);
  }
  CR_TRY(CR_NET_NEW(plan, plan->source, plan->bottoms));
  CR_TRY(CR_NET_NEW(plan, plan->uses, plan->tops));
  CR_TRY(CR_NET_NEW(plan, plan->next, plan->tops));
  CR_TRY(CR_NET_NEW(plan, plan->weight, plan->tops));
  CR_TRY(CR_NET_NEW(plan, plan->maker, plan->tops));
  CR_TRY(CR_NET_NEW(plan, plan->reader, plan->tops));
  CR_TRY(CR_NET_NEW(plan, plan->split, plan->tops));
  return CREMA_OK;
}

/* The number of an omitted layer that makes the blob, -1 for none. If each phase has its own maker,
 * prefers the maker for this phase: its rule shows the missing stage or level. */
static int find_left_out(const cr_net_left_out *left_out, const char *blob) {
  int found = -1;
  for (size_t i = 0; i < left_out->count; ++i) {
    for (size_t j = 0; j < left_out->layer[i]->n_top; ++j) {
      if (strcmp(left_out->layer[i]->top[j], blob) != 0) continue;
      if (found < 0 || strstr(left_out->rule[found], "(phase") != NULL) found = (int)i;
    }
  }
  return found;
}

static crema_status fail_unknown_bottom(split_plan *plan, size_t layer, size_t bottom) {
  Caffe__LayerParameter *param = plan->param->layer[layer];
  const char *name = param->bottom[bottom];
  for (size_t i = layer; i < plan->param->n_layer; ++i) {
    const Caffe__LayerParameter *later = plan->param->layer[i];
    for (size_t j = 0; j < later->n_top; ++j) {
      if (strcmp(later->top[j], name) != 0) continue;
      return cr_net_fail_blob(param, name, CREMA_E_UNKNOWN_NAME,
                              "bottom %zu '%.200s' is only made later, by layer '%.200s'", bottom,
                              name, cr_net_text(later->name));
    }
  }
  int left_out = find_left_out(plan->left_out, name);
  if (left_out >= 0) {
    return cr_net_fail_blob(
        param, name, CREMA_E_UNKNOWN_NAME,
        "bottom %zu '%.200s' is not made by any earlier layer; layer '%.200s' would "
        "make it, but its %s leaves it out",
        bottom, name, cr_net_text(plan->left_out->layer[left_out]->name),
        plan->left_out->rule[left_out]);
  }
  const char *nearest = cr_name_map_nearest(&plan->latest, name);
  return cr_net_fail_blob(param, name, CREMA_E_UNKNOWN_NAME,
                          "bottom %zu '%.200s' is not made by any earlier layer%s%s%s", bottom,
                          name, nearest == NULL ? "" : "; did you mean '",
                          nearest == NULL ? "" : nearest, nearest == NULL ? "" : "'?");
}

/* Counts the uses of each top. */
static crema_status count_uses(split_plan *plan, size_t layer) {
  Caffe__LayerParameter *param = plan->param->layer[layer];
  for (size_t j = 0; j < param->n_bottom; ++j) {
    int made = cr_name_map_get(&plan->latest, param->bottom[j]);
    if (made < 0) return fail_unknown_bottom(plan, layer, j);
    plan->source[plan->first_bottom[layer] + j] = (size_t)made;
    if (plan->reader[made] < 0) plan->reader[made] = (int)layer;
    plan->uses[made] += 1;
  }
  for (size_t j = 0; j < param->n_top; ++j) {
    size_t top = plan->first_top[layer] + j;
    plan->maker[top] = (int)layer;
    plan->reader[top] = -1;
    CR_TRY(cr_name_map_set(&plan->latest, param->top[j], (int)top));
    if (j < param->n_loss_weight && param->loss_weight[j] != 0.0f) {
      plan->weight[top] = param->loss_weight[j];
      plan->uses[top] += 1;
    }
  }
  return CREMA_OK;
}

/* A layer that works in place needs its own blob: the copies of a Split share memory. */
static crema_status check_in_place(const split_plan *plan, size_t layer) {
  const Caffe__LayerParameter *param = plan->param->layer[layer];
  for (size_t j = 0; j < param->n_top && j < param->n_bottom; ++j) {
    if (strcmp(param->top[j], param->bottom[j]) != 0) continue;
    size_t source = plan->source[plan->first_bottom[layer] + j];
    if (plan->uses[source] < 2) continue;
    int reader = plan->reader[source];
    if (reader == (int)layer) {
      return cr_net_fail_blob(param, param->top[j], CREMA_E_ARGUMENT,
                              "cannot work in place on '%.200s', which is used more than once",
                              param->top[j]);
    }
    return cr_net_fail_blob(param, param->top[j], CREMA_E_ARGUMENT,
                            "cannot work in place on '%.200s', which layer '%.200s' reads too",
                            param->top[j], cr_net_text(plan->param->layer[reader]->name));
  }
  return CREMA_OK;
}

/* "<blob>_<layer>_<top>_split", followed by "_<copy>" when copy >= 0. */
static crema_status split_name(const split_plan *plan, size_t top, long copy, char **out) {
  const Caffe__LayerParameter *maker = plan->param->layer[plan->maker[top]];
  size_t index = top - plan->first_top[plan->maker[top]];
  cr_buffer text = {0};
  crema_status status =
      cr_buffer_print(&text, "%s_%s_%zu_split", maker->top[index], cr_net_text(maker->name), index);
  if (status == CREMA_OK && copy >= 0) status = cr_buffer_print(&text, "_%ld", copy);
  if (status == CREMA_OK) {
    *out = cr_proto_strdup(text.data);
    if (*out == NULL) status = cr_fail_memory(text.size + 1, "a blob's name");
  }
  cr_buffer_free(&text);
  return status;
}

/* Makes the Split after `top`, which the plan keeps until it is inserted. */
static crema_status make_split(split_plan *plan, size_t top) {
  const Caffe__LayerParameter *maker = plan->param->layer[plan->maker[top]];
  size_t copies = plan->uses[top];
  CR_TRY(cr_message_new(&caffe__layer_parameter__descriptor, &plan->split[top]));
  Caffe__LayerParameter *split = plan->split[top];
  CR_TRY(split_name(plan, top, -1, &split->name));
  split->type = cr_proto_strdup(cr_layer_split.type);
  if (split->type == NULL) return cr_fail_memory(1, "a split layer");
  CR_TRY(cr_message_reserve(&split->base, "bottom", 1));
  CR_TRY(cr_message_reserve(&split->base, "top", copies));
  CR_TRY(cr_message_reserve(&split->base, "loss_weight", copies));
  split->bottom[0] = cr_proto_strdup(maker->top[top - plan->first_top[plan->maker[top]]]);
  if (split->bottom[0] == NULL) return cr_fail_memory(1, "a blob's name");
  split->n_bottom = 1;
  for (size_t k = 0; k < copies; ++k) {
    CR_TRY(split_name(plan, top, (long)k, &split->top[k]));
    split->n_top += 1;
  }
  if (plan->weight[top] != 0.0f) {
    for (size_t k = 0; k < copies; ++k) split->loss_weight[k] = k == 0 ? plan->weight[top] : 0.0f;
    split->n_loss_weight = copies;
    plan->next[top] = 1;
  }
  plan->splits += 1;
  return CREMA_OK;
}

/* Makes the layer's bottoms read copies, and moves its loss weights to copies. A weight that moved
 * leaves an explicit 0, so that a loss layer does not use its default. */
static crema_status rewire(split_plan *plan, size_t layer) {
  Caffe__LayerParameter *param = plan->param->layer[layer];
  for (size_t j = 0; j < param->n_bottom; ++j) {
    size_t source = plan->source[plan->first_bottom[layer] + j];
    if (plan->split[source] == NULL) continue;
    char *name = cr_proto_strdup(plan->split[source]->top[plan->next[source]]);
    if (name == NULL) return cr_fail_memory(1, "a blob's name");
    plan->next[source] += 1;
    free(param->bottom[j]);
    param->bottom[j] = name;
  }
  for (size_t j = 0; j < param->n_top; ++j) {
    size_t top = plan->first_top[layer] + j;
    if (plan->split[top] != NULL && plan->weight[top] != 0.0f) param->loss_weight[j] = 0.0f;
  }
  return CREMA_OK;
}

/* Puts each Split after the layer whose top it copies. */
static crema_status interleave(split_plan *plan) {
  Caffe__NetParameter *param = plan->param;
  size_t total = param->n_layer + plan->splits;
  Caffe__LayerParameter **layer = cr_proto_alloc(total * sizeof(Caffe__LayerParameter *));
  if (layer == NULL) return cr_fail_memory(total * sizeof *layer, "the net's layers");
  size_t at = 0;
  for (size_t i = 0; i < param->n_layer; ++i) {
    layer[at++] = param->layer[i];
    for (size_t j = 0; j < param->layer[i]->n_top; ++j) {
      size_t top = plan->first_top[i] + j;
      if (plan->split[top] != NULL) layer[at++] = plan->split[top];
      plan->split[top] = NULL;
    }
  }
  free(param->layer);
  param->layer = layer;
  param->n_layer = total;
  return CREMA_OK;
}

crema_status cr_net_insert_splits(crema_net *net, const cr_net_left_out *left_out) {
  Caffe__NetParameter *param = net->param;
  split_plan plan = {.param = param, .left_out = left_out};
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(start_plan(&plan), out);
  for (net->at = 0; net->at < param->n_layer; ++net->at) {
    CR_TRY_GOTO(count_uses(&plan, net->at), out);
  }
  for (net->at = 0; net->at < param->n_layer; ++net->at) {
    CR_TRY_GOTO(check_in_place(&plan, net->at), out);
  }
  for (size_t t = 0; t < plan.tops; ++t) {
    if (plan.uses[t] > 1) CR_TRY_GOTO(make_split(&plan, t), out);
  }
  if (plan.splits == 0) goto out;
  for (size_t i = 0; i < param->n_layer; ++i) CR_TRY_GOTO(rewire(&plan, i), out);
  CR_TRY_GOTO(interleave(&plan), out);
out:
  cr_name_map_free(&plan.latest);
  for (size_t t = 0; plan.split != NULL && t < plan.tops; ++t) {
    if (plan.split[t] != NULL) cr_message_free(&plan.split[t]->base);
  }
  cr_arena_free(&plan.arena);
  return status;
}
