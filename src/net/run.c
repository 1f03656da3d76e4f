/* Running a net: shapes, forward, backward. */
#include "net/run.h"
#include "core/assert.h"
#include "core/fail.h"
#include "core/signals.h"
#include "core/timeline.h"
#include "device/device.h"
#include "device/memory/heap.h"
#include "device/memory/scratchpad.h"
#include "device/watch.h"
#include "layers/common/input_class.h"
#include "memory/trace.h"
#include "net/common/fail.h"
#include "net/graph.h"
#include "net/graphs.h"
#include "net/lifetimes.h"
#include "net/loss.h"

static crema_status check_range(const crema_net *net, int first, int last) {
  if (net->layers == 0 && first == 0 && last == -1) return CREMA_OK;
  if (first >= 0 && last < net->layers && first <= last) return CREMA_OK;
  return cr_fail(CREMA_E_RANGE, "layers %d to %d of a net with %d layers", first, last,
                 net->layers);
}

/* Writes d loss / d top = loss weight, times the factor for all gradients. Later passes need that
 * again only after a change of shape, or if the layer's backward pass works in place. */
static crema_status seed_loss(const crema_net *net, cr_net_layer *layer) {
  const cr_layer *self = layer->layer;
  bool in_place = false;
  for (int j = 0; j < self->tops; ++j) {
    if (self->loss_weight[j] == 0.0f) continue;
    float *diff = NULL, seed = (float)((double)self->loss_weight[j] * net->grad_scale);
    int64_t count = crema_blob_count(layer->top[j]);
    CR_TRY(cr_tensor_host_write_floats(layer->top[j]->diff, &diff));
    for (int64_t k = 0; k < count; ++k) diff[k] = seed;
    in_place = in_place || (j < self->bottoms && layer->top[j] == layer->bottom[j]);
  }
  layer->loss_seeded = !in_place;
  return CREMA_OK;
}

void cr_net_set_grad_scale(crema_net *net, double scale) {
  if (scale == net->grad_scale) return;
  net->grad_scale = scale;
  for (int i = 0; i < net->layers; ++i) net->layer[i].loss_seeded = false;
}

static void trace_layer(const cr_layer *layer, const char *pass, double begin) {
  cr_timeline_span(0, "layer", layer->name, begin, "\"pass\":\"%s\",\"type\":\"%s\"", pass,
                   cr_timeline_text(layer->kind->type).text);
}

static crema_status forward_layer(crema_net *net, int index, bool with_loss) {
  cr_net_layer *layer = &net->layer[index];
  cr_layer *self = layer->layer;
  cr_trace_set_layer(net->context, index);
  cr_watch_layer(net->context, self->name, false);
  const double traced = cr_timeline_now();
  CR_TRY(cr_net_follow_in_pass(net, layer));
  const bool done = layer->once && layer->ran == net->shapes + 1;
  if (!layer->fused && !done) {
    CR_TRY(cr_layer_forward(self, net->context, layer->bottom, layer->top));
    layer->ran = net->shapes + 1;
  }
  if (cr_net_counts_passes(self)) self->pass += 1;
  if (self->kind->memory.reshapes_always) {
    cr_net_note_shapes(layer);
    layer->loss_seeded = false;
  }
  if (layer->has_loss) {
    if (!layer->loss_seeded) CR_TRY(seed_loss(net, layer));
    if (with_loss) CR_TRY(cr_net_loss_add(net, layer));
  }
  CR_TRY(cr_net_settle_forward(net, index));
  if (net->debug_info) CR_TRY(cr_net_debug_forward(net, index));
  cr_net_release_after_forward(net, index);
  if (traced > 0) trace_layer(self, "forward", traced);
  return CREMA_OK;
}

static void begin_pass(const crema_net *net) {
  cr_signals_hold(); /* once for all ops */
  if (net->plans || net->settles) cr_heap_rest(net->context);
  net->context->per_use = net->per_use;
}

static void end_pass(const crema_net *net) {
  net->context->per_use = NULL;
  cr_watch_layer(net->context, NULL, false);
  cr_signals_release();
}

/* Calls one of the net's hooks, if it is set. */
static crema_status call_hook(crema_net *net, crema_net_hook_fn *hook, int layer) {
  if (hook == NULL) return CREMA_OK;
  CR_TRY(cr_net_show_views(net));
  CR_TRY(hook(net->hooks.user, net, layer));
  return cr_net_take_views(net);
}

/* Runs the layers from `first` to `last` forward, with the hooks. */
static crema_status forward_layers(crema_net *net, int first, int last, bool with_loss) {
  for (int i = first; i <= last; ++i) {
    CR_TRY(call_hook(net, net->hooks.before_forward, i));
    crema_status status = forward_layer(net, i, with_loss);
    if (status != CREMA_OK) return cr_net_fail_in_pass(net, i, status);
    CR_TRY(call_hook(net, net->hooks.after_forward, i));
  }
  return CREMA_OK;
}

/* Runs the whole net forward, if possible by a graph. The losses are read after it. */
static crema_status forward_by_graph(crema_net *net, cr_net_section section, bool with_loss) {
  bool ran = false;
  CR_TRY(forward_layers(net, 0, section.first - 1, false));
  CR_TRY(cr_net_graphs_run(net, section, &ran));
  if (!ran) {
    const crema_status status = forward_layers(net, section.first, section.last, false);
    const crema_status ended = cr_net_graphs_end(net, section, status == CREMA_OK);
    CR_TRY(status != CREMA_OK ? status : ended);
  }
  for (int i = 0; with_loss && i < net->layers; ++i) {
    if (net->layer[i].has_loss) CR_TRY(cr_net_loss_add(net, &net->layer[i]));
  }
  return CREMA_OK;
}

static crema_status run_forward(crema_net *net, int first, int last, bool with_loss) {
  cr_net_section section = {.direction = CR_FORWARD, .last = last};
  if (net->graphs != NULL && first == 0 && last == net->layers - 1) {
    section.first = cr_net_graphs_first(net);
    if (cr_net_graphs_wanted(net, section)) return forward_by_graph(net, section, with_loss);
  }
  return forward_layers(net, first, last, with_loss);
}

/* Leaves the loss to cr_net_loss_read. */
static crema_status submit_forward(crema_net *net, int first, int last, bool with_loss) {
  CR_TRY(check_range(net, first, last));
  if (net->debug_info && net->fusions > 0) CR_TRY(cr_net_undo_fusion(net));
  if (with_loss) cr_net_loss_begin(net);
  net->replay.last = -1;
  crema_status status = CREMA_OK;
  /* No caller looks at the pass before its end. */
  const bool whole = first == 0 && last == net->layers - 1 && !with_loss && !net->debug_info &&
                     net->hooks.before_forward == NULL && net->hooks.after_forward == NULL &&
                     net->context->watch.watcher == NULL;
  bool ran = false;
  if (whole) CR_TRY(cr_net_run_commands(net, &ran));
  if (ran) return CREMA_OK;
  if (first == 0) CR_TRY(cr_net_follow_inputs(net, last));
  CR_TRY(cr_net_place_parts(net));
  CR_ASSERT(cr_net_check(net));
  CR_TRY(cr_net_take_views(net));
  begin_pass(net);
  if (whole) cr_net_begin_commands(net);
  else cr_net_forget_commands(net);
  status = run_forward(net, first, last, with_loss);
  if (whole) cr_net_end_commands(net, status == CREMA_OK);
  end_pass(net);
  if (status == CREMA_OK && with_loss) status = cr_net_loss_end(net);
  if (status == CREMA_OK) status = cr_net_show_views(net);
  return status;
}

crema_status cr_net_forward_range(crema_net *net, int first, int last, double *loss) {
  CR_TRY(submit_forward(net, first, last, loss != NULL));
  return loss == NULL ? CREMA_OK : cr_net_loss_read(net, loss);
}

crema_status cr_net_forward_submit(crema_net *net) {
  return submit_forward(net, 0, net->layers - 1, true);
}

static crema_status backward_layer(crema_net *net, int index) {
  cr_net_layer *layer = &net->layer[index];
  cr_layer *self = layer->layer;
  CR_TRY(cr_net_replay_segment(net, index));
  cr_watch_layer(net->context, self->name, true);
  const double traced = cr_timeline_now();
  if (!layer->need_backward || !cr_net_has_gradient(layer)) {
    cr_net_release_after_backward(net, index);
    return CREMA_OK;
  }
  if (self->kind->backward == NULL) {
    return cr_net_fail_layer(self->param, CREMA_E_UNSUPPORTED, "has no backward pass");
  }
  const cr_net_layer *worker = layer->backs != NULL ? layer->backs : layer;
  if (!layer->backed) {
    CR_TRY(worker->layer->kind->backward(worker->layer, net->context, worker->top,
                                         worker->propagate_down, worker->bottom));
  }
  CR_TRY(cr_net_settle_backward(net, index));
  if (net->debug_info) CR_TRY(cr_net_debug_backward(net, index));
  cr_net_release_after_backward(net, index);
  if (traced > 0) trace_layer(self, "backward", traced);
  return CREMA_OK;
}

/* Runs the layers from `last` to `first` backward, with the hooks. `watcher` may be NULL. */
static crema_status backward_layers(crema_net *net, int first, int last,
                                    const cr_net_watcher *watcher) {
  for (int i = last; i >= first; --i) {
    CR_TRY(call_hook(net, net->hooks.before_backward, i));
    crema_status status = backward_layer(net, i);
    if (status != CREMA_OK) return cr_net_fail_in_pass(net, i, status);
    if (watcher != NULL) CR_TRY(watcher->layer_done(watcher->user, i));
    CR_TRY(call_hook(net, net->hooks.after_backward, i));
  }
  return CREMA_OK;
}

/* Runs a section backward, if possible by a graph. */
static crema_status backward_section(crema_net *net, int first, int last) {
  const cr_net_section section = {.direction = CR_BACKWARD, .first = first, .last = last};
  bool ran = false;
  if (!cr_net_graphs_wanted(net, section)) return backward_layers(net, first, last, NULL);
  CR_TRY(cr_net_graphs_run(net, section, &ran));
  if (ran) return CREMA_OK;
  const crema_status status = backward_layers(net, first, last, NULL);
  const crema_status ended = cr_net_graphs_end(net, section, status == CREMA_OK);
  return status != CREMA_OK ? status : ended;
}

/* Runs the whole net backward. The watcher gets each layer at which it acts. */
static crema_status backward_by_sections(crema_net *net, const cr_net_watcher *watcher) {
  for (int last = net->layers - 1, first = last; last >= 0; last = first = first - 1) {
    while (first > 0 && (watcher == NULL || !watcher->acts_at(watcher->user, first))) --first;
    CR_TRY(backward_section(net, first, last));
    if (watcher != NULL) CR_TRY(watcher->layer_done(watcher->user, first));
  }
  return CREMA_OK;
}

static crema_status backward_range(crema_net *net, int first, int last,
                                   const cr_net_watcher *watcher) {
  CR_TRY(check_range(net, first, last));
  if (net->plans && net->phase == CREMA_TEST) {
    return cr_fail(CREMA_E_STATE,
                   "a net of phase TEST with plan_memory keeps nothing for a backward pass");
  }
  crema_status status = CREMA_OK;
  /* Gradients share again after the last of them has its shape. */
  CR_TRY(cr_net_plan_again(net));
  CR_ASSERT(cr_net_check(net));
  CR_TRY(cr_net_take_views(net));
  begin_pass(net);
  const bool by_sections = net->graphs != NULL && first == 0 && last == net->layers - 1 &&
                           (watcher == NULL || watcher->acts_at != NULL);
  status =
      by_sections ? backward_by_sections(net, watcher) : backward_layers(net, first, last, watcher);
  end_pass(net);
  return status == CREMA_OK ? cr_net_show_views(net) : status;
}

crema_status cr_net_backward_range(crema_net *net, int first, int last) {
  return backward_range(net, first, last, NULL);
}

crema_status crema_net_forward(crema_net *net, double *loss) {
  CR_REQUIRE(net);
  return cr_net_forward_range(net, 0, net->layers - 1, loss);
}

crema_status cr_net_backward_watched(crema_net *net, const cr_net_watcher *watcher) {
  CR_TRY(backward_range(net, 0, net->layers - 1, watcher));
  CR_TRY(cr_context_end_backward(net->context));
  return net->debug_info ? cr_net_debug_all_params(net) : CREMA_OK;
}

crema_status crema_net_backward(crema_net *net) {
  CR_REQUIRE(net);
  return cr_net_backward_watched(net, NULL);
}

void crema_net_clear_param_diffs(crema_net *net) {
  if (net == NULL) return;
  for (int i = 0; i < net->learnables; ++i) cr_tensor_set_zero(net->learnable[i]->diff);
  (void)!cr_net_show_views(net); /* the views have memory already */
}
