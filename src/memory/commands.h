/* What a pass of a net computes, as a list that can be run again: calls of kernels and conversions,
 * with the memory that they had.
 *
 * While a list records, ops and tensors add to it whatever they run on the context. What cannot be
 * run again from a list alone spoils it. A list counts once two passes have recorded the same; it
 * is run in place of a pass as long as the context's heap is as it was. Then nothing is looked up:
 * what a pass finds in ops, plans and tensors, all over memory and mostly not in the caches, lies
 * side by side.
 *
 * Tensors that are let go of within the pass (cr_tensor_set_passing) have their memory from the
 * context's heap, which gives each pass the same, and constant ones never change: of both the
 * address is recorded. All others, such as a net's inputs and outputs, are asked for their memory
 * whenever the list runs, and are left as the pass would have left them. */
#ifndef CR_MEMORY_COMMANDS_H
#define CR_MEMORY_COMMANDS_H

#include "device/backend/kernel.h"
#include "memory/tensor.h"

/* Errors: CREMA_E_NO_MEMORY. */
crema_status cr_commands_create(cr_commands **out) CREMA_MUST_USE;
void cr_commands_destroy(cr_commands *commands); /* accepts NULL */

/* From here on to cr_commands_end what runs on the context is recorded; `done` false: the pass has
 * failed. A no-op for a list that was spoiled several times since cr_commands_forget. */
void cr_commands_begin(cr_commands *commands, crema_context *context);
void cr_commands_end(cr_commands *commands, crema_context *context, bool done);

/* What is recorded next belongs to layer number `layer`. */
void cr_commands_set_layer(const crema_context *context, int layer);

/* The list is of no use any more: ops or shapes have changed. */
void cr_commands_forget(cr_commands *commands);

/* Runs the list, unless it has to be recorded first (*ran false). After a failure *layer is the
 * number of the layer that has failed. Errors: those of kernels. */
crema_status cr_commands_run(cr_commands *commands, crema_context *context, bool *ran,
                             int *layer) CREMA_MUST_USE;

/* ---- for what is recorded; without a list that records, all are no-ops ---- */

/* The list cannot be run in place of this pass. */
void cr_commands_spoil(const crema_context *context);

/* An op is about to ask for the memory of that tensor; NULL: it has all. */
void cr_commands_resolve(const crema_context *context, cr_tensor *tensor);

/* A call whose arguments cr_commands_add_argument names one after the other, those that are read
 * first, and with `args` buffers. */
void cr_commands_add_call(const cr_call *call, const cr_backend *backend, int args);
void cr_commands_add_argument(const crema_context *context, int arg, char access, cr_tensor *tensor,
                              cr_format format);

#endif
