/* The loss of a pass: loss_weight * sum(top) over the tops that have a loss weight.
 *
 * On a device with its own memory, the values are copied to the host after the layer that makes
 * them. Only reading the loss waits for the copies. */
#ifndef CR_NET_LOSS_H
#define CR_NET_LOSS_H

#include "net/net.h"

/* For a net whose graph is complete. Free it with cr_net_loss_free, before the net's context.
 * Errors: CREMA_E_NO_MEMORY. */
crema_status cr_net_loss_make(crema_net *net) CREMA_MUST_USE;
void cr_net_loss_free(crema_net *net);

/* Begins a pass with an empty sum. */
void cr_net_loss_begin(crema_net *net);

/* Adds the tops of a layer, as they are now. */
crema_status cr_net_loss_add(crema_net *net, const cr_net_layer *layer) CREMA_MUST_USE;

/* Ends the pass: the loss may be read. */
crema_status cr_net_loss_end(crema_net *net) CREMA_MUST_USE;

#endif
