/* Include and exclude rules. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "net/graph.h"

static bool has_stage(const cr_net_state *state, const char *stage) {
  for (size_t i = 0; i < state->stage_count; ++i) {
    if (strcmp(state->stages[i], stage) == 0) return true;
  }
  for (size_t i = 0; state->own != NULL && i < state->own->n_stage; ++i) {
    if (strcmp(state->own->stage[i], stage) == 0) return true;
  }
  return false;
}

/* Whether the rule holds. When it does not, `why` gets the first part that fails, as the text has
 * it. */
static bool holds(const Caffe__NetStateRule *rule, const cr_net_state *state, char *why,
                  size_t size) {
  if (rule->has_phase && (int)rule->phase != (int)state->phase) {
    snprintf(why, size, "phase: %s", rule->phase == CAFFE__PHASE__TRAIN ? "TRAIN" : "TEST");
    return false;
  }
  if (rule->has_min_level && state->level < rule->min_level) {
    snprintf(why, size, "min_level: %d", (int)rule->min_level);
    return false;
  }
  if (rule->has_max_level && state->level > rule->max_level) {
    snprintf(why, size, "max_level: %d", (int)rule->max_level);
    return false;
  }
  for (size_t i = 0; i < rule->n_stage; ++i) {
    if (has_stage(state, rule->stage[i])) continue;
    snprintf(why, size, "stage: \"%.24s\"", rule->stage[i]);
    return false;
  }
  for (size_t i = 0; i < rule->n_not_stage; ++i) {
    if (!has_stage(state, rule->not_stage[i])) continue;
    snprintf(why, size, "not_stage: \"%.24s\"", rule->not_stage[i]);
    return false;
  }
  return true;
}

/* A layer is kept when one of its include rules holds, or when it has none and no exclude rule
 * holds. Otherwise `rule` names the rule that decided. */
static bool is_included(const Caffe__LayerParameter *layer, const cr_net_state *state, char *rule,
                        size_t size) {
  char why[48] = "";
  for (size_t i = 0; i < layer->n_exclude; ++i) {
    if (!holds(layer->exclude[i], state, why, sizeof why)) continue;
    snprintf(rule, size, "exclude rule");
    return false;
  }
  if (layer->n_include == 0) return true;
  for (size_t i = 0; i < layer->n_include; ++i) {
    if (holds(layer->include[i], state, why, sizeof why)) return true;
    snprintf(rule, size, "include rule (%s)", why);
    cr_log_debug("The %s of layer %s does not fit the net's state", rule, cr_net_text(layer->name));
  }
  return false;
}

crema_status cr_net_filter(crema_net *net, const cr_net_state *state, cr_net_left_out *left_out) {
  Caffe__NetParameter *param = net->param;
  for (size_t i = 0; i < param->n_layer; ++i) {
    if (param->layer[i]->n_include > 0 && param->layer[i]->n_exclude > 0) {
      net->at = i;
      return cr_net_fail_layer(param->layer[i], CREMA_E_ARGUMENT,
                               "has include and exclude rules; give one kind only");
    }
  }
  CR_TRY(CR_NEW(left_out->layer, param->n_layer + 1, "the net's layers"));
  CR_TRY(CR_NEW(left_out->rule, param->n_layer + 1, "the net's layers"));
  size_t kept = 0;
  for (size_t i = 0; i < param->n_layer; ++i) {
    char *rule = left_out->rule[left_out->count];
    if (is_included(param->layer[i], state, rule, sizeof *left_out->rule)) {
      param->layer[kept++] = param->layer[i];
    } else {
      left_out->layer[left_out->count++] = param->layer[i];
    }
  }
  param->n_layer = kept;
  return CREMA_OK;
}

void cr_net_left_out_free(cr_net_left_out *left_out) {
  for (size_t i = 0; i < left_out->count; ++i) cr_message_free(&left_out->layer[i]->base);
  free(left_out->layer);
  free(left_out->rule);
}
