/* Which values of a net's blobs are needed from when to when in a pass, and letting go of them
 * afterwards.
 *
 * Blobs whose values are shared (in place, Split, Flatten, ...) have one storage. The first and the
 * last layer that have it as a bottom or top are known for every net; a net that plans its memory
 * (crema_net_options.plan_memory) also lets go, after each layer,
 *   - in a forward pass, of the data that no later layer reads and no backward pass needs;
 *   - in a backward pass, of the data and the gradients that no earlier layer needs,
 *   - of what a layer has kept from its own forward pass for its backward pass,
 * but never of inputs, outputs, what data layers bring, losses, and blobs that were asked for. */
#ifndef CR_NET_LIFETIMES_H
#define CR_NET_LIFETIMES_H

#include "net/net.h"

/* Finds out when each storage is used and, where the net plans its memory, which are let go of
 * after which layer. To be called when the graph stands, and when layers share other values than
 * before. */
crema_status cr_net_plan_lifetimes(crema_net *net) CREMA_MUST_USE;

/* Finds the layers in place whose input the layer before them can make again (cr_layer.maker): a
 * Scale behind a BatchNorm. To be called when it is known which layers run backward. */
crema_status cr_net_find_makers(crema_net *net) CREMA_MUST_USE;

/* To be called after a layer's forward or backward pass, whether or not it had anything to do. */
void cr_net_let_go_forward(const crema_net *net, int index);
void cr_net_let_go_backward(const crema_net *net, int index);

/* From now on the net keeps the blob's data and gradients. */
void cr_net_keep_blob(crema_net *net, int blob);

/* Computes a layer's tops again, as the last forward pass did, from bottoms that are there. Nothing
 * is let go. A no-op for layers without bottoms or tops, which bring samples in and out. */
crema_status cr_net_replay_layer(const crema_net *net, int index) CREMA_MUST_USE;

/* Before the backward pass of layer `index`: computes its segment again if that is still to be
 * done. */
crema_status cr_net_replay_segment(crema_net *net, int index) CREMA_MUST_USE;

/* Whether the layer's backward pass has anything to compute. */
bool cr_net_has_gradient(const cr_net_layer *layer);

#endif
