/* Segments of a net that computes values again (crema_net_options.recompute): each but the last
 * drops, in a forward pass, what only its own layers use, and computes it again before its layers'
 * backward passes. */
#ifndef CR_NET_SEGMENTS_H
#define CR_NET_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "crema/status.h"

/* Data of blobs that share it. */
typedef struct cr_net_span {
  int64_t bytes;
  int first, last; /* layers that have it as a bottom or a top */
  int written;     /* the last layer that writes it */
} cr_net_span;

/* Chooses where segments begin: segment[i] is the first layer of the one that layer i is in. A
 * segment begins only where nothing that was made before is written any more. Of several numbers of
 * segments the one is taken with which what stays between segments and the largest segment take
 * least together. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_net_choose_segments(const cr_net_span *span, int spans, int layers,
                                    int *segment) CREMA_MUST_USE;

/* The first layer of the first segment behind the one that makes the data and in which it is still
 * used; -1: it is used in its own segment only. */
int cr_net_next_segment(const cr_net_span *span, const int *segment);

#endif
