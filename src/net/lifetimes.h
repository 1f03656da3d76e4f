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

/* Whether a forward pass drops values of the layer's segment, which the backward pass computes
 * again. The last segment's backward pass follows its forward pass at once. */
bool cr_net_is_replayed(const crema_net *net, int index);

/* Whether the layer takes part in a backward pass. */
bool cr_net_runs_backward(const cr_net_layer *layer);

/* Whether the layer's backward pass has anything to compute. */
bool cr_net_has_gradient(const cr_net_layer *layer);

#endif
