/* Segments of a net that computes values again (crema_net_options.recompute). In a forward pass
 * each segment except the last drops values that only its own layers use. It computes them again
 * before its layers' backward passes. */
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

/* Chooses where segments begin: segment[i] is the first layer of the segment of layer i. No layer
 * of a segment writes values that an earlier segment made. Chooses the number of segments that
 * minimises the bytes of the values between segments plus the largest segment. Errors:
 * CREMA_E_NO_MEMORY. */
crema_status cr_net_choose_segments(const cr_net_span *span, int spans, int layers,
                                    int *segment) CREMA_MUST_USE;

/* The first layer that uses the data outside of the segment that makes it; -1: there is none. */
int cr_net_next_segment(const cr_net_span *span, const int *segment);

#endif
