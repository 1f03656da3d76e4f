/* The loss of a pass: loss_weight * sum(top) over the tops that have a loss weight.
 *
 * Where the net runs on a device with memory of its own, the values are copied to the host behind
 * the layer that makes them, and nobody waits for them before they are read. */
#ifndef CR_NET_LOSS_H
#define CR_NET_LOSS_H

#include "net/net.h"

/* For a net whose graph stands; freed with cr_net_loss_free, while the net's context is still
 * there. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_net_loss_make(crema_net *net) CREMA_MUST_USE;
void cr_net_loss_free(crema_net *net);

/* Begins a pass: nothing is added yet. */
void cr_net_loss_begin(crema_net *net);

/* Adds the tops of a layer, as they are now. */
crema_status cr_net_loss_add(crema_net *net, const cr_net_layer *layer) CREMA_MUST_USE;

/* Ends the pass: what was added may be read. */
crema_status cr_net_loss_end(crema_net *net) CREMA_MUST_USE;

#endif
