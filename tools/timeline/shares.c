#include "shares.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

/* A begin or an end of a span. */
typedef struct span_edge {
  double at;
  int kind, step; /* +1: begin, -1: end */
} span_edge;

static int by_time(const void *a, const void *b) {
  const span_edge *x = a, *y = b;
  return (x->at > y->at) - (x->at < y->at);
}

/* Between two neighbouring edges nothing begins or ends. */
static void add_times(const span_edge *list, size_t count, work_shares *out) {
  int open[SPAN_KINDS] = {0};
  for (size_t i = 0; i + 1 < count; ++i) {
    open[list[i].kind] += list[i].step;
    const double time = list[i + 1].at - list[i].at;
    for (int a = 0; a < SPAN_KINDS; ++a) {
      if (open[a] == 0) continue;
      out->busy[a] += time;
      for (int b = 0; b < SPAN_KINDS; ++b) {
        if (open[b] > 0) out->both[a][b] += time;
      }
    }
  }
}

static void find_part(const span_list *list, work_shares *out) {
  *out = (work_shares){.begin = INFINITY, .end = -INFINITY};
  double first = INFINITY;
  for (size_t i = 0; i < list->count; ++i) {
    if (list->span[i].kind == SPAN_ITERATION) first = fmin(first, list->span[i].begin);
  }
  for (size_t i = 0; i < list->count; ++i) {
    const trace_span *s = &list->span[i];
    if (s->kind != SPAN_ITERATION || s->begin == first) continue;
    out->iterations += 1;
    out->begin = fmin(out->begin, s->begin);
    out->end = fmax(out->end, s->end);
  }
}

crema_status shares_find(const span_list *list, work_shares *out) {
  span_edge *edges = NULL;
  size_t count = 0;
  find_part(list, out);
  if (out->iterations == 0) {
    return cr_fail(CREMA_E_RANGE, "the timeline has fewer than two iterations");
  }
  CR_TRY(CR_NEW(edges, 2 * list->count, "a timeline"));
  for (size_t i = 0; i < list->count; ++i) {
    const trace_span *s = &list->span[i];
    const double begin = fmax(s->begin, out->begin), end = fmin(s->end, out->end);
    if (s->kind >= SPAN_KINDS || begin >= end) continue;
    edges[count++] = (span_edge){begin, (int)s->kind, 1};
    edges[count++] = (span_edge){end, (int)s->kind, -1};
  }
  qsort(edges, count, sizeof *edges, by_time);
  add_times(edges, count, out);
  free(edges);
  return CREMA_OK;
}

/* ---- the most expensive -------------------------------------------------------- */

/* Adds a span to the entry of its name; entries with less time than the first COSTLY are kept, too,
 * as they may grow. */
static size_t add_cost(costly *list, size_t count, const char *name, const trace_span *s) {
  size_t i = 0;
  while (i < count && strcmp(list[i].name, name) != 0) ++i;
  if (i == count) list[count++] = (costly){.name = name};
  list[i].time += s->end - s->begin;
  list[i].bytes += s->bytes;
  list[i].spans += 1;
  return count;
}

static int by_cost(const void *a, const void *b) {
  const costly *x = a, *y = b;
  return (x->time < y->time) - (x->time > y->time);
}

/* The name under which a span counts; NULL: it does not. */
typedef const char *name_fn(const trace_span *s);

static size_t find_costly(const span_list *list, const work_shares *part, name_fn *name_of,
                          costly out[COSTLY]) {
  costly *all = calloc(list->count + 1, sizeof *all);
  size_t count = 0;
  if (all == NULL) return 0;
  for (size_t i = 0; i < list->count; ++i) {
    const trace_span *s = &list->span[i];
    const char *name = name_of(s);
    if (name == NULL || s->begin < part->begin || s->begin > part->end) continue;
    count = add_cost(all, count, name, s);
  }
  qsort(all, count, sizeof *all, by_cost);
  if (count > COSTLY) count = COSTLY;
  memcpy(out, all, count * sizeof *all);
  free(all);
  return count;
}

/* Ops of the host have their layer; kernels of streams have their own name. */
static const char *layer_of(const trace_span *s) {
  if (s->kind != SPAN_COMPUTE) return NULL;
  return s->layer[0] != '\0' ? s->layer : s->name;
}

static const char *blob_of(const trace_span *s) {
  if (s->kind != SPAN_COPY && s->kind != SPAN_CONVERT) return NULL;
  return s->blob[0] != '\0' ? s->blob : NULL;
}

size_t shares_layers(const span_list *list, const work_shares *part, costly out[COSTLY]) {
  return find_costly(list, part, layer_of, out);
}

size_t shares_blobs(const span_list *list, const work_shares *part, costly out[COSTLY]) {
  return find_costly(list, part, blob_of, out);
}
