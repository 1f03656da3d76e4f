/* Liveness of a net's values in a pass, and releasing them.
 *
 * Blobs whose values are shared (in place, Split, Flatten, ...) have one storage. The first and the
 * last layer that have it as a bottom or top are known for every net. A net that plans its memory
 * (crema_net_options.plan_memory) also has a list of storages to release after each layer:
 *   - in a forward pass, data that no later layer reads and no backward pass needs
 *   - in a backward pass, data and gradients that no earlier layer needs
 *   - values that a layer has kept from its forward pass for its backward pass. It never releases
 * inputs, outputs, tops of data layers, losses, or blobs that the caller requested. */
#ifndef CR_NET_LIFETIMES_H
#define CR_NET_LIFETIMES_H

#include "net/net.h"

/* Finds the live range of each storage and, if the net plans its memory, makes the release lists.
 * Call it when the graph is complete, and after layers share different values. */
crema_status cr_net_plan_lifetimes(crema_net *net) CREMA_MUST_USE;

/* Call it after each layer's forward or backward pass, even if the layer did nothing. */
void cr_net_release_after_forward(const crema_net *net, int index);
void cr_net_release_after_backward(const crema_net *net, int index);

/* For CR_ASSERT, between passes: no layer uses a storage after the release lists have released it.
 */
bool cr_net_check(const crema_net *net);

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
