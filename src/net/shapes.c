/* Following the shapes of blobs: layers whose bottoms or tops have other shapes than before are
 * reshaped. */
#include "core/fail.h"
#include "layers/common/input_class.h"
#include "net/common/fail.h"
#include "net/graph.h"
#include "net/lifetimes.h"
#include "net/run.h"

void cr_net_note_shapes(cr_net_layer *layer) {
  for (int j = 0; j < layer->layer->bottoms + layer->layer->tops; ++j) {
    layer->seen[j] = cr_blob_look(cr_net_layer_blob(layer, j));
  }
}

/* Reshapes a layer if a bottom or a top has another shape than at its last reshape. Sources are
 * skipped: their forward pass shapes their tops. */
static crema_status follow_shapes(crema_net *net, cr_net_layer *layer) {
  cr_layer *self = layer->layer;
  const int blobs = self->bottoms == 0 ? 0 : self->bottoms + self->tops;
  int j = 0;
  while (j < blobs && cr_blob_is_as_seen(cr_net_layer_blob(layer, j), &layer->seen[j])) ++j;
  if (j == blobs) return CREMA_OK;
  if (self->kind->reshape != NULL) {
    crema_status status = self->kind->reshape(self, layer->bottom, layer->top);
    if (status != CREMA_OK) return cr_net_show_bottoms(net, (int)(layer - net->layer), status);
  }
  cr_net_note_shapes(layer);
  net->parts_moved = true;
  net->shapes += 1;
  layer->loss_seeded = false;
  return CREMA_OK;
}

crema_status cr_net_plan_again(crema_net *net) {
  if (net->planned == net->shapes) return CREMA_OK;
  CR_TRY(cr_net_share_sums(net));
  return cr_net_plan_lifetimes(net);
}

crema_status cr_net_follow_in_pass(crema_net *net, cr_net_layer *layer) {
  const cr_layer_class *kind = layer->layer->kind;
  const uint64_t before = net->shapes;
  CR_TRY(follow_shapes(net, layer));
  const bool shares = kind->memory.shares != CR_SHARES_NOTHING || kind->loss;
  return shares && net->shapes != before ? cr_net_plan_again(net) : CREMA_OK;
}

static crema_status reshape_up_to(crema_net *net, int last) {
  for (int i = 0; i <= last; ++i) {
    crema_status status = follow_shapes(net, &net->layer[i]);
    if (status != CREMA_OK) return cr_net_fail_in_pass(net, i, status);
  }
  CR_TRY(cr_net_plan_again(net));
  return cr_net_place_parts(net);
}

crema_status crema_net_reshape(crema_net *net) {
  CR_REQUIRE(net);
  return reshape_up_to(net, net->layers - 1);
}

crema_status cr_net_follow_inputs(crema_net *net, int last) {
  bool new = false;
  for (int i = 0; i <= last; ++i) {
    cr_net_layer *layer = &net->layer[i];
    const cr_input_class *input = layer->layer->kind->input;
    if (input == NULL || !input->net_input) continue;
    for (int j = 0; j < layer->layer->tops; ++j) {
      new = new || !cr_blob_is_as_seen(layer->top[j], &layer->seen[j]);
    }
    if (new) cr_net_note_shapes(layer);
  }
  return new ? reshape_up_to(net, last) : CREMA_OK;
}
