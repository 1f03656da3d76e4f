/* The spans of a timeline that crema train -trace wrote. */
#ifndef CREMA_TOOLS_TIMELINE_SPANS_H
#define CREMA_TOOLS_TIMELINE_SPANS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/arena.h"
#include "crema/status.h"

/* Kinds of work, from the categories of spans. */
typedef enum span_kind {
  SPAN_COMPUTE, /* ops, kernels, updates */
  SPAN_WAIT,    /* for data */
  SPAN_COPY,
  SPAN_CONVERT,
  SPAN_EXCHANGE,
  SPAN_DATA, /* reading, decoding, transforming */
  SPAN_KINDS,
  SPAN_LAYER, /* contains other spans */
  SPAN_ITERATION,
  SPAN_OTHER
} span_kind;

/* Texts are "" if the span has none. Times are microseconds. */
typedef struct trace_span {
  span_kind kind;
  double begin, end;
  const char *name, *layer, *blob;
  double bytes;
} trace_span;

typedef struct span_list {
  trace_span *span;
  size_t count, room;
} span_list;

/* Reads the file `path`. All memory is the arena's. Accepts a list without its end. Errors name the
 * path: CREMA_E_NOT_FOUND, CREMA_E_IO, CREMA_E_PARSE for a file that is no timeline. */
crema_status spans_read(const char *path, cr_arena *arena, span_list *out) CREMA_MUST_USE;

#endif
