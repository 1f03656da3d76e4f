/* Watches the runs on a context, for CREMA_VERBOSE and `crema time -ops`.
 *
 * A context has at most one watcher. Ops and conversions report each run to it. The context is
 * finished before and after the run, so that times include the work of the device. Without a
 * watcher the cost is one branch. */
#ifndef CR_DEVICE_WATCH_H
#define CR_DEVICE_WATCH_H

#include "device/backend/op_desc.h"
#include "device/device.h"

/* One run of an op, or of a conversion. */
typedef struct cr_watch_event {
  const crema_context *context; /* context->watch names the layer and the pass */
  const char *op;               /* as in ops.inc; "convert" */
  const char *kernel;           /* "" for a conversion */
  const cr_op_desc *desc;       /* the arguments of the kernel; NULL for a conversion */
  const cr_format *format;      /* one per argument; for a conversion from [0] to [1] */
  const char *blob;             /* of a conversion: the name of the values; NULL: they have none */
  int64_t count;                /* of a conversion: the number of values */
  int conversions;              /* of an op: how many its arguments took */
  int threads;                  /* of an op: 0 if no threads of the host compute */
  int64_t launches;             /* of an op: kernels and library calls that the device computes */
  double prepare;               /* seconds for conversions, copies and memory of the arguments */
  double queue;                 /* of an op: seconds until the host had queued the kernel */
  double run;                   /* seconds of the kernel, or of the conversion */
} cr_watch_event;

struct cr_watcher {
  void (*ran)(void *user, const cr_watch_event *event);
  void *user;
};

/* Gives a new context the watcher that prints lines, if CREMA_VERBOSE requests it. */
void cr_watch_open(crema_context *context);

/* What runs next belongs to that layer; NULL: to none. `name` must live until the next call. */
static inline void cr_watch_layer(crema_context *context, const char *name, bool backward) {
  context->watch.layer = name;
  context->watch.backward = backward;
}

/* The time when all work of the context is done. Errors: failures of that work. */
crema_status cr_watch_clock(crema_context *context, double *seconds) CREMA_MUST_USE;

/* Converts `count` values of the name `blob` (may be NULL): the back end's function, watched. */
crema_status cr_watch_convert(crema_context *context, const char *blob, int64_t count, cr_format to,
                              crema_devptr dst, cr_format from, crema_devptr src) CREMA_MUST_USE;

/* cr_backend.convert_many. With a watcher the arrays are converted and reported one by one; blob[i]
 * is the name of array i, or NULL. */
crema_status cr_watch_convert_many(crema_context *context, const char *const *blob,
                                   const cr_conversion *conversion, int count) CREMA_MUST_USE;

/* A readable name of a format: "f32", "bf16/aBcd8b", or "f32/private" if the back end has no name
 * for it. */
typedef struct cr_watch_format {
  char text[64];
} cr_watch_format;
cr_watch_format cr_watch_format_text(cr_format format);

/* "forward", "backward", or "-" if no layer runs. */
const char *cr_watch_pass(const crema_context *context);

#endif
