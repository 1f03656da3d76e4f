/* Data layers that the solvers of one training share.
 *
 * Such a layer exists once, in the net of rank 0; the layers of that name in the other solvers'
 * nets work on the same state. Forward passes of a shared layer happen one at a time, backward
 * passes do not wait for each other. The number of a solver's step decides which samples it gets:
 * step t of solver r of N gets batch t N + r. The state lives until the last of the nets is freed,
 * in any order. */
#ifndef CR_LAYERS_LAYER_SHARE_H
#define CR_LAYERS_LAYER_SHARE_H

#include "layers/common/layer.h"

/* Lets other solvers join the layer of rank 0. A no-op unless several solvers of a process exist
 * (there is a group) and the class can be shared. Before setup. Errors: CREMA_E_ARGUMENT for such a
 * layer of another rank, if its class has state: it would take samples that are not its own. */
crema_status cr_layer_share_open(cr_layer *layer) CREMA_MUST_USE;

/* Lets `layer`, of another rank and before its setup, work on the state of `root`, whose setup is
 * done; both are of the same group. Errors: CREMA_E_UNSUPPORTED (a class that cannot be shared),
 * CREMA_E_STATE (`root` is not shared), CREMA_E_ARGUMENT (layers that differ in type, tops or
 * number of solvers). */
crema_status cr_layer_share_join(cr_layer *layer, const cr_layer *root) CREMA_MUST_USE;

/* Ends this layer's use; ending the last use destroys the state. A no-op for a layer that is not
 * shared. */
void cr_layer_share_close(cr_layer *layer);

/* Notes the shapes of the root's tops, or gives them to the tops of a layer that joined. */
crema_status cr_layer_share_shape(cr_layer *layer, crema_blob *const *top) CREMA_MUST_USE;

/* To be called around a forward pass. */
void cr_layer_share_lock(cr_layer *layer);
void cr_layer_share_unlock(cr_layer *layer);

/* The position in the data belongs to the shared layer. Rank 0 restores it first; the saved
 * positions of other ranks must be the same. *done: the class has nothing to restore for this
 * layer. Errors: CREMA_E_STATE when the positions differ. */
crema_status cr_layer_share_restore(cr_layer *layer, const char *bytes, size_t size,
                                    bool *done) CREMA_MUST_USE;

/* For layer files: */

/* How many solvers work on the layer's state (1 unless it is shared), and the index of this layer's
 * among them. */
int cr_layer_sharers(const cr_layer *layer);
int cr_layer_sharer(const cr_layer *layer);

#endif
