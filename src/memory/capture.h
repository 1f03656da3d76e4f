/* Work of a pass that a device has captured in graphs, and the tensors that it uses.
 *
 * A graph is work on fixed addresses. It can run instead of a pass if the pass's tensors are as they
 * were before it was captured. Each must be in the same memory, with the newest values in the same
 * place. Afterwards they are brought to the state that the pass would leave. There are several
 * graphs if tensors alternate between places, as the inputs of a net do.
 *
 * Memory of the context's heap may be taken and freed in the pass. A graph then requires that the
 * heap is at the same position (cr_heap_position), and the heap repeats the calls of the pass.
 *
 * First a pass is only listed: its tensors are noted. Before each later pass cr_capture_prepare
 * moves the values that the pass reads to the device, so that a graph needs no copies. */
#ifndef CR_MEMORY_CAPTURE_H
#define CR_MEMORY_CAPTURE_H

#include "device/device.h"
#include "memory/tensor.h"

/* For work on `context`, which must outlive it. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_capture_create(crema_context *context, cr_capture **out) CREMA_MUST_USE;
/* Waits for the context, in case a graph is running. Accepts NULL. */
void cr_capture_destroy(cr_capture *capture);

/* Around a pass that is listed, which replaces the list and drops all graphs. The result of the
 * second: why no graph can hold the pass (static text), or NULL. Errors: failures of the context's
 * work. */
crema_status cr_capture_begin_list(cr_capture *capture) CREMA_MUST_USE;
const char *cr_capture_end_list(cr_capture *capture);

/* Brings the values that the listed pass reads to the device, and reserves its scratch memory. */
crema_status cr_capture_prepare(cr_capture *capture) CREMA_MUST_USE;

/* After cr_capture_prepare: runs the graph that fits the tensors, if any (*ran). `number` counts
 * passes, from any start; the counters of the pass's random numbers must follow it. */
crema_status cr_capture_run(cr_capture *capture, uint64_t number, bool *ran) CREMA_MUST_USE;

/* Around a pass after cr_capture_prepare, which is captured; its work starts at the end. `done`
 * false: the pass has failed. *why: there is no graph, for the reason in this static text; else
 * NULL. Errors: as the device's. */
crema_status cr_capture_begin(cr_capture *capture, uint64_t number) CREMA_MUST_USE;
crema_status cr_capture_end(cr_capture *capture, bool done, const char **why) CREMA_MUST_USE;

/* Called by tensors: work is about to read ('R'), write ('W') or update ('U') the tensor in
 * `format`, or its values are released ('F'). */
void cr_capture_note(cr_capture *capture, cr_tensor *tensor, char access, cr_format format);

#endif
