/* Times that kinds of work take. Spans of several threads and streams that lie at the same time
 * count once. */
#ifndef CREMA_TOOLS_TIMELINE_SHARES_H
#define CREMA_TOOLS_TIMELINE_SHARES_H

#include "spans.h"

/* A part of the timeline: all iterations after the first one, which plans. Microseconds. */
typedef struct work_shares {
  int iterations;
  double begin, end;
  double busy[SPAN_KINDS];             /* in which a kind of work is done */
  double both[SPAN_KINDS][SPAN_KINDS]; /* in which both kinds are done */
} work_shares;

/* Errors: CREMA_E_RANGE if the timeline has fewer than two iterations, CREMA_E_NO_MEMORY. */
crema_status shares_find(const span_list *list, work_shares *out) CREMA_MUST_USE;

/* A layer, kernel or blob with the sum of its spans. */
typedef struct costly {
  const char *name;
  double time, bytes;
  size_t spans;
} costly;

enum { COSTLY = 5 };

/* The five layers whose spans take most time, of the kernels if streams compute; the five blobs
 * whose copies and conversions do. Return how many there are. */
size_t shares_layers(const span_list *list, const work_shares *part, costly out[COSTLY]);
size_t shares_blobs(const span_list *list, const work_shares *part, costly out[COSTLY]);

#endif
