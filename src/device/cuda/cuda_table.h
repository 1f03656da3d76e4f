/* The entries of the device table in cuda_stream.c and cuda_graph.c; device/backend/backend.h
 * describes each. */
#ifndef CR_CUDA_CUDA_TABLE_H
#define CR_CUDA_CUDA_TABLE_H

#include "device/backend/backend.h"

crema_status cr_cuda_context_open(crema_context *context);
void cr_cuda_context_close(crema_context *context);
crema_status cr_cuda_finish(crema_context *context);
crema_status cr_cuda_failure(crema_context *context);
crema_status cr_cuda_busy(crema_context *context, bool *out);
crema_status cr_cuda_copy(crema_context *context, cr_copy_kind kind, uintptr_t dst, uintptr_t src,
                          size_t bytes);
crema_status cr_cuda_zero(crema_context *context, crema_devptr memory, size_t bytes);
crema_status cr_cuda_event_create(crema_device *device, cr_native_event **out);
void cr_cuda_event_destroy(cr_native_event *event);
crema_status cr_cuda_event_record(crema_context *context, cr_native_event *event);
crema_status cr_cuda_event_wait(crema_context *context, cr_native_event *event);
crema_status cr_cuda_event_query(cr_native_event *event, bool *done);
crema_status cr_cuda_event_finish(cr_native_event *event);
crema_status cr_cuda_capture_begin(crema_context *context);
crema_status cr_cuda_capture_end(crema_context *context, cr_device_graph **out, const char **why);
crema_status cr_cuda_graph_run(cr_device_graph *graph, crema_context *context, uint64_t passes);
void cr_cuda_graph_destroy(cr_device_graph *graph);

#endif
