/* Steps of a pass of a net; private to this folder. */
#ifndef CR_NET_RUN_H
#define CR_NET_RUN_H

#include "net/net.h"

/* debug_info lines of one layer, in Caffe's wording. */
crema_status cr_net_debug_forward(crema_net *net, int index) CREMA_MUST_USE;
crema_status cr_net_debug_backward(crema_net *net, int index) CREMA_MUST_USE;
crema_status cr_net_debug_all_params(crema_net *net) CREMA_MUST_USE;

/* For a net of a compiled model: makes its list of commands if the net's layers run only ops. */
crema_status cr_net_make_commands(crema_net *net) CREMA_MUST_USE;

/* Runs a whole forward pass without loss, hooks and logging from the list. If *ran is false, the
 * caller runs it layer by layer, between cr_net_begin_commands and cr_net_end_commands, which
 * record it. */
crema_status cr_net_run_commands(crema_net *net, bool *ran) CREMA_MUST_USE;
void cr_net_begin_commands(crema_net *net);
void cr_net_end_commands(crema_net *net, bool done);

/* To be called before other passes, which may change ops and tensors. */
void cr_net_forget_commands(crema_net *net);

/* Places the bottoms of Concat layers that allow it (cr_net_frozen_layer.parts_in_place) in the
 * memory of the top, and the tops of Slice layers in the memory of the bottom. Call it between
 * passes; it does nothing unless net->parts_moved. */
crema_status cr_net_place_parts(crema_net *net) CREMA_MUST_USE;

/* Remembers the shapes with which a layer was last reshaped. */
void cr_net_note_shapes(cr_net_layer *layer);

/* Reshapes a layer if a bottom or a top has another shape than at its last reshape. In a pass the
 * values that a top has can only change if the layer shares them; then plans lifetimes again. */
crema_status cr_net_follow_in_pass(crema_net *net, cr_net_layer *layer) CREMA_MUST_USE;

/* Lets layers follow the shapes of the net's inputs, up to layer `last`. To be called before the
 * pass: blobs that share values are reshaped one after the other, and only share again after the
 * last. */
crema_status cr_net_follow_inputs(crema_net *net, int last) CREMA_MUST_USE;

/* Shares gradients of sums and plans lifetimes again if shapes have changed. */
crema_status cr_net_plan_again(crema_net *net) CREMA_MUST_USE;

/* Whether the layer's passes are counted. In tests only layers that draw are, such as Dropout with
 * sample_weights_test. */
bool cr_net_counts_passes(const cr_layer *layer);

/* Recomputes a layer's tops, as in the last forward pass, from bottoms that exist. Releases
 * nothing. A no-op for layers without bottoms or tops, which bring samples in and out. */
crema_status cr_net_replay_layer(const crema_net *net, int index) CREMA_MUST_USE;

/* Before the backward pass of layer `index`: computes its segment again unless that is done. */
crema_status cr_net_replay_segment(crema_net *net, int index) CREMA_MUST_USE;

#endif
