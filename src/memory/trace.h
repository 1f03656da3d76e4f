/* The trace of a pass: the calls of kernels and conversions, with their memory, as a list that can
 * run instead of the pass.
 *
 * While a trace records, ops and tensors add to it everything that they run on the context. Work
 * that a list cannot repeat invalidates the trace. A trace counts once two passes have recorded the
 * same bytes, and it runs as long as the context's heap is as it was. A run looks nothing up: the
 * data of ops, plans and tensors, otherwise scattered in memory, is contiguous.
 *
 * The trace records the address of transient tensors, to which the context's heap gives the same
 * memory in each pass, and of constant ones. All other tensors, such as a net's inputs and outputs,
 * are rebound. Each run requests their memory and leaves them in the state that the pass would. */
#ifndef CR_MEMORY_TRACE_H
#define CR_MEMORY_TRACE_H

#include "device/backend/kernel.h"
#include "memory/tensor.h"

/* Errors: CREMA_E_NO_MEMORY. */
crema_status cr_trace_create(cr_trace **out) CREMA_MUST_USE;
void cr_trace_destroy(cr_trace *trace); /* accepts NULL */

/* Records the work of the context until cr_trace_end; `done` false: the pass has failed. A no-op
 * for a trace that has become invalid several times since cr_trace_clear. */
void cr_trace_begin(cr_trace *trace, crema_context *context);
void cr_trace_end(cr_trace *trace, crema_context *context, bool done);

/* The next records belong to layer number `layer`. */
void cr_trace_set_layer(const crema_context *context, int layer);

/* Empties the trace, after a change of ops or shapes. */
void cr_trace_clear(cr_trace *trace);

/* Runs the trace, unless it must be recorded first (*ran false). After a failure *layer is the
 * number of the layer that has failed. Errors: errors of kernels. */
crema_status cr_trace_run(cr_trace *trace, crema_context *context, bool *ran,
                          int *layer) CREMA_MUST_USE;

/* While a trace records; otherwise no-ops: */

/* The trace cannot run instead of this pass. */
void cr_trace_invalidate(const crema_context *context);

/* An op is about to request the memory of that tensor; NULL: it has the memory of all tensors. */
void cr_trace_resolve(const crema_context *context, cr_tensor *tensor);

/* A call with `args` buffers. cr_trace_add_argument follows for each of its arguments, first for
 * those that are read. */
void cr_trace_add_call(const cr_call *call, const cr_backend *backend, int args);
void cr_trace_add_argument(const crema_context *context, int arg, char access, cr_tensor *tensor,
                           cr_format format);

#endif
