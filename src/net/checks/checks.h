/* Checks of a net whose graph is complete: warnings about prototxt files with an unexpected
 * meaning. None of them changes the net. */
#ifndef CR_NET_CHECKS_CHECKS_H
#define CR_NET_CHECKS_CHECKS_H

#include "net/common/net_struct.h"

/* Warns if an in-place layer overwrites values that a later layer reads under another name, or that
 * a gradient needs. To be called when it is known which layers run backward. */
crema_status cr_net_warn_of_overwriting(const crema_net *net) CREMA_MUST_USE;

/* Finds the blobs whose values a layer in place overwrites before another layer reads them under
 * another name, so that the order of the layers matters. Sets found[i] for each blob. */
crema_status cr_net_find_overwritten(const crema_net *net, bool *found) CREMA_MUST_USE;

/* Warns about losses without a gradient because another layer reads their blob. To be called before
 * cr_net_prune_backward. */
crema_status cr_net_warn_of_lost_losses(const crema_net *net) CREMA_MUST_USE;

/* Warns about fields of loss_param that a loss does not read, and about a loss that takes a softmax
 * of probabilities. */
void cr_net_warn_of_losses(const crema_net *net);

/* Warns about Crop layers without an offset if another offset shows the same pixels as bottom 1,
 * and names that offset. */
crema_status cr_net_warn_of_crops(const crema_net *net) CREMA_MUST_USE;

/* Warns about transformations in data_param, image_data_param and window_data_param. */
void cr_net_warn_of_transforms(const crema_net *net);

#endif
