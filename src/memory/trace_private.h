/* The parts of a trace, and the records that tensors add. */
#ifndef CR_MEMORY_TRACE_PRIVATE_H
#define CR_MEMORY_TRACE_PRIVATE_H

#include "memory/tensor_private.h"
#include "memory/trace.h"

typedef struct cr_trace_conversion {
  int64_t count;
  cr_format to, from;
  crema_devptr dst, src;
} cr_trace_conversion;

/* An argument, or the source of a conversion (arg 0), whose memory each run requests. */
typedef struct cr_trace_rebind {
  cr_tensor *tensor;
  cr_format format;
  int arg;
  char access; /* 'R', 'W', 'U' as in device/backend/ops.inc */
} cr_trace_rebind;

/* Followed by `buffers` addresses and then `rebinds` arguments. */
typedef struct cr_trace_command {
  size_t bytes; /* with what follows */
  int layer;
  int buffers, rebinds;
  bool scratch;                             /* the call takes the context's workspace */
  crema_status (*run)(const cr_call *call); /* NULL: a conversion */
  const cr_backend *backend;
  union {
    cr_call call;
    cr_trace_conversion conversion;
  } u;
} cr_trace_command;

typedef struct cr_trace_bytes {
  char *data;
  size_t size, room;
} cr_trace_bytes;

struct cr_trace {
  cr_trace_bytes now;    /* of the pass that is being recorded, or was recorded last */
  cr_trace_bytes before; /* of the pass before that */
  bool recording, invalid, valid;
  int tries;
  int layer;
  size_t last;         /* in `now`: where the last command begins */
  cr_tensor *source;   /* see cr_trace_resolve */
  uint64_t heap;       /* see cr_heap_stamp: at the beginning and at the end of the pass */
  size_t workspace;    /* the most that a call takes */
  int threads;         /* see cr_scheduler_threads */
  const cr_plan *plan; /* the plan with the largest demands on the process: see cr_backend.ready */
};

static inline crema_devptr *cr_trace_buffers(cr_trace_command *c) {
  return (crema_devptr *)(void *)(c + 1);
}

/* What tensors add; without a trace that records, all are no-ops: */

/* `format` was created from zeros or from values of a source. */
void cr_trace_note_made(const crema_context *context, const values *v, cr_format format);

/* The values are about to be written, by an op or by other code. */
void cr_trace_note_written(const crema_context *context, const values *v);

void cr_trace_add_conversion(const crema_context *context, const values *v, cr_format to,
                             crema_devptr dst, cr_format from, crema_devptr src);

#endif
