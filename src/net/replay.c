/* Computing values again that a forward pass has dropped. */
#include "core/clock.h"
#include "core/fail.h"
#include "device/watch.h"
#include "net/common/fail.h"
#include "net/lifetimes.h"
#include "net/run.h"

bool cr_net_counts_passes(const cr_layer *layer) {
  if (layer->phase == CAFFE__PHASE__TRAIN) return true;
  return layer->kind->fusion.noop_in_test != NULL &&
         !layer->kind->fusion.noop_in_test(layer->param);
}

crema_status cr_net_replay_layer(const crema_net *net, int index) {
  cr_net_layer *layer = &net->layer[index];
  cr_layer *self = layer->layer;
  if (layer->fused || self->bottoms == 0 || self->tops == 0) return CREMA_OK;
  /* The values of a program's own layers are kept; its functions may count passes. */
  if (self->kind->memory.reshapes_always) return CREMA_OK;
  const uint64_t pass = self->pass;
  if (pass > 0 && cr_net_counts_passes(self)) self->pass = pass - 1;
  self->replays = true;
  cr_watch_layer(net->context, self->name, false);
  crema_status status = cr_layer_forward(self, net->context, layer->bottom, layer->top);
  self->replays = false;
  self->pass = pass;
  return status == CREMA_OK ? cr_net_settle_forward(net, index) : status;
}

crema_status cr_net_replay_segment(crema_net *net, int index) {
  crema_status status = CREMA_OK;
  bool learns = false;
  if (!cr_net_is_replayed(net, index) || net->replay.last == net->replay.segment[index])
    return CREMA_OK;
  net->replay.last = net->replay.segment[index];
  for (int i = net->replay.last; net->replay.segment[i] == net->replay.last; ++i) {
    learns = learns || cr_net_runs_backward(&net->layer[i]);
  }
  if (!learns) return CREMA_OK;
  const double start = cr_clock_seconds();
  net->replay.runs = true;
  for (int i = net->replay.last; status == CREMA_OK && net->replay.segment[i] == net->replay.last;
       ++i) {
    status = cr_net_replay_layer(net, i);
    if (status != CREMA_OK) status = cr_net_fail_in_layer(net->layer[i].layer->param, status);
    else cr_net_release_after_forward(net, i);
  }
  net->replay.runs = false;
  net->replay_time += cr_clock_seconds() - start;
  return status;
}
