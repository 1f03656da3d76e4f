#include "net/segments.h"

#include <stdlib.h>

#include "core/fail.h"

/* A layer while segments are chosen. */
typedef struct segment_layer {
  bool can_begin; /* a segment may begin with it */
  int64_t made;   /* bytes of data that the layer is the first to have */
} segment_layer;

/* Ends a segment when it has reached `enough` bytes. */
static void cut(const segment_layer *at, int layers, int64_t enough, int *segment) {
  int64_t made = 0;
  int begin = 0;
  for (int i = 0; i < layers; ++i) {
    if (made >= enough && at[i].can_begin) {
      begin = i;
      made = 0;
    }
    segment[i] = begin;
    made += at[i].made;
  }
}

int cr_net_next_segment(const cr_net_span *span, const int *segment) {
  for (int i = span->first + 1; i <= span->last; ++i) {
    if (segment[i] != segment[span->first]) return i;
  }
  return -1;
}

/* Bytes that stay between segments, plus the bytes of the largest segment. */
static int64_t highest(const cr_net_span *span, int spans, const segment_layer *at, int layers,
                       const int *segment) {
  int64_t staying = 0, inside = 0, most = 0;
  for (int n = 0; n < spans; ++n) {
    if (cr_net_next_segment(&span[n], segment) >= 0) staying += span[n].bytes;
  }
  for (int i = 0; i < layers; ++i) {
    inside = segment[i] == i ? at[i].made : inside + at[i].made;
    if (inside > most) most = inside;
  }
  return staying + most;
}

crema_status cr_net_choose_segments(const cr_net_span *span, int spans, int layers, int *segment) {
  segment_layer *at = NULL;
  int64_t total = 0, least = INT64_MAX, enough = 0;
  CR_TRY(CR_NEW(at, layers + 1, "the segments of a net"));
  for (int i = 0; i < layers; ++i) at[i].can_begin = true;
  for (int n = 0; n < spans; ++n) {
    total += span[n].bytes;
    at[span[n].first].made += span[n].bytes;
    for (int i = span[n].first + 1; i <= span[n].written; ++i) at[i].can_begin = false;
  }
  for (int parts = 1; parts <= layers && parts <= 64; ++parts) {
    cut(at, layers, total / parts + 1, segment);
    int64_t bytes = highest(span, spans, at, layers, segment);
    if (bytes >= least) continue;
    least = bytes;
    enough = total / parts + 1;
  }
  cut(at, layers, enough, segment);
  free(at);
  return CREMA_OK;
}
