/* Include and exclude rules. */
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "net/build.h"

static bool has_stage(const cr_net_state *state, const char *stage) {
  for (size_t i = 0; i < state->stage_count; ++i) {
    if (strcmp(state->stages[i], stage) == 0) return true;
  }
  for (size_t i = 0; state->own != NULL && i < state->own->n_stage; ++i) {
    if (strcmp(state->own->stage[i], stage) == 0) return true;
  }
  return false;
}

/* The first part of the rule that does not hold, for the log; NULL when all hold. */
static const char *broken_part(const Caffe__NetStateRule *rule, const cr_net_state *state) {
  if (rule->has_phase && (int)rule->phase != (int)state->phase) return "phase";
  if (rule->has_min_level && state->level < rule->min_level) return "min_level";
  if (rule->has_max_level && state->level > rule->max_level) return "max_level";
  for (size_t i = 0; i < rule->n_stage; ++i) {
    if (!has_stage(state, rule->stage[i])) return "stage";
  }
  for (size_t i = 0; i < rule->n_not_stage; ++i) {
    if (has_stage(state, rule->not_stage[i])) return "not_stage";
  }
  return NULL;
}

/* A layer is kept when one of its include rules holds, or when it has none and no exclude
 * rule holds. */
static bool is_included(const Caffe__LayerParameter *layer, const cr_net_state *state) {
  for (size_t i = 0; i < layer->n_exclude; ++i) {
    if (broken_part(layer->exclude[i], state) == NULL) return false;
  }
  if (layer->n_include == 0) return true;
  for (size_t i = 0; i < layer->n_include; ++i) {
    const char *part = broken_part(layer->include[i], state);
    if (part == NULL) return true;
    cr_log_debug("The rule %s of layer %s does not fit the net's state", part,
                 cr_net_text(layer->name));
  }
  return false;
}

crema_status cr_net_filter(Caffe__NetParameter *param, const cr_net_state *state) {
  for (size_t i = 0; i < param->n_layer; ++i) {
    if (param->layer[i]->n_include > 0 && param->layer[i]->n_exclude > 0) {
      return cr_net_fail_layer(param->layer[i], CREMA_E_ARGUMENT,
                               "has include and exclude rules; give one kind only");
    }
  }
  size_t kept = 0;
  for (size_t i = 0; i < param->n_layer; ++i) {
    if (is_included(param->layer[i], state)) {
      param->layer[kept++] = param->layer[i];
    } else {
      cr_message_free(&param->layer[i]->base);
    }
  }
  param->n_layer = kept;
  return CREMA_OK;
}
