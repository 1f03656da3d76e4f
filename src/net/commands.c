/* Runs passes of compiled nets from a list of commands. */
#include "memory/trace.h"

#include <stdlib.h>

#include "core/fail.h"
#include "core/signals.h"
#include "layers/common/input_class.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_pair.h"
#include "memory/view.h"
#include "net/common/fail.h"
#include "net/run.h"

crema_status cr_net_make_commands(crema_net *net) {
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    const cr_layer_class *kind = layer->layer->kind;
    if (layer->has_loss || layer->layer->share != NULL || kind->memory.reshapes_always ||
        (kind->input != NULL && !kind->input->net_input)) {
      return CREMA_OK;
    }
    if (!layer->once && !kind->memory.runs_ops && kind->forward != cr_layer_noop_forward &&
        kind->forward != cr_layer_pair_forward) {
      return CREMA_OK;
    }
  }
  if (!net->plans || net->phase != CREMA_TEST || net->layers == 0) return CREMA_OK;
  CR_TRY(CR_NET_NEW(net, net->recording.shown, net->blobs));
  return cr_trace_create(&net->recording.trace);
}

/* Whether the net is as it was when its list was recorded. */
static bool is_same(const crema_net *net) {
  if (net->parts_moved || net->recording.shapes != net->shapes + 1) return false;
  for (int i = 0; i < net->recording.shown_count; ++i) {
    if (!cr_blob_is_as_seen(net->recording.shown[i].blob, &net->recording.shown[i].seen))
      return false;
  }
  return true;
}

crema_status cr_net_run_commands(crema_net *net, bool *ran) {
  int layer = -1;
  *ran = false;
  if (net->recording.trace == NULL || cr_views_exist() || !is_same(net)) return CREMA_OK;
  cr_signals_hold();
  crema_status status = cr_trace_run(net->recording.trace, net->context, ran, &layer);
  cr_signals_release();
  if (status != CREMA_OK && layer >= 0) {
    status = cr_net_fail_in_layer(net->layer[layer].layer->param, status);
  }
  return status;
}

void cr_net_begin_commands(crema_net *net) {
  if (net->recording.trace == NULL) return;
  if (net->recording.shapes != net->shapes + 1) cr_trace_clear(net->recording.trace);
  net->recording.shapes = net->shapes + 1;
  cr_trace_begin(net->recording.trace, net->context);
}

void cr_net_end_commands(crema_net *net, bool done) {
  if (net->recording.trace == NULL) return;
  cr_trace_end(net->recording.trace, net->context,
               done && net->recording.shapes == net->shapes + 1);
  /* The caller can reach kept blobs, inputs and outputs, and reshape them. */
  net->recording.shown_count = 0;
  for (int b = 0; b < net->blobs; ++b) {
    bool reachable = net->kept[b];
    for (int i = 0; i < net->inputs; ++i) reachable = reachable || net->input[i] == b;
    for (int i = 0; i < net->outputs; ++i) reachable = reachable || net->output[i] == b;
    if (!reachable) continue;
    net->recording.shown[net->recording.shown_count++] =
        (struct cr_net_shown){net->blob[b], cr_blob_look(net->blob[b])};
  }
}

void cr_net_forget_commands(crema_net *net) {
  if (net->recording.trace != NULL) cr_trace_clear(net->recording.trace);
}
