/* Graphs: work that is recorded once and started often.
 *
 * Work is recorded on a stream that nothing else uses. Meanwhile other threads may mark the end of
 * the context's own stream, or wait for it. The thread that records cannot wait for the device,
 * allocate or copy from the host. Before such a call the recording ends, and the recorded work
 * starts at once (cr_cuda_interrupt). Recording therefore only defers work. */
#include <stdlib.h>

#include "core/fail.h"
#include "device/cuda/cuda_private.h"
#include "device/cuda/cuda_table.h"

struct cr_device_graph {
  cudaGraphExec_t exec;
  const crema_device *device;
  bool counts; /* a kernel reads cr_gpu_passes */
};

/* The context whose work the thread records; NULL: none. */
static _Thread_local crema_context *recording;

/* The context's later work goes to `stream`. */
static crema_status use_stream(cuda_context *state, cudaStream_t stream) {
  state->stream = stream;
#ifdef CREMA_CUDNN
  return cr_cuda_dnn_use_stream(state);
#else
  return CREMA_OK;
#endif
}

static cudaError_t begin(cuda_context *state) {
  cudaError_t error = cudaSuccess;
  if (state->recorder == NULL) {
    error = cudaStreamCreateWithFlags(&state->recorder, cudaStreamNonBlocking);
  }
  if (error != cudaSuccess) return error;
  return cudaStreamBeginCapture(state->recorder, cudaStreamCaptureModeThreadLocal);
}

/* A graph that was interrupted may still run. */
static void drop_interrupted(cuda_context *state) {
  if (state->interrupted == NULL) return;
  (void)cudaStreamSynchronize(state->queue);
  cr_cuda_graph_destroy(state->interrupted);
  state->interrupted = NULL;
}

crema_status cr_cuda_capture_begin(crema_context *context) {
  cuda_context *state = cr_cuda_context(context);
  int before = -1;
  CR_TRY(cr_cuda_interrupt("another recording begins"));
  CR_TRY(cr_gpu_enter(context->device, &before));
  drop_interrupted(state);
  crema_status status = cr_cuda_check(begin(state), "recording a graph");
  state->counts = false;
  state->why = NULL;
  if (status == CREMA_OK) {
    recording = context;
    status = use_stream(state, state->recorder);
  }
  cr_gpu_leave(before);
  return status;
}

static cudaError_t instantiate(cuda_context *state, cr_device_graph *graph) {
  cudaGraph_t recorded = NULL;
  cudaError_t error = cudaStreamEndCapture(state->recorder, &recorded);
  if (error == cudaSuccess) error = cudaGraphInstantiateWithFlags(&graph->exec, recorded, 0);
  if (recorded != NULL) (void)cudaGraphDestroy(recorded);
  return error;
}

/* Ends the thread's recording. */
static crema_status end(cr_device_graph **out) {
  crema_context *context = recording;
  cuda_context *state = cr_cuda_context(context);
  int before = -1;
  recording = NULL;
  cr_device_graph *graph = calloc(1, sizeof *graph);
  if (graph == NULL) return cr_fail_memory(sizeof *graph, "a graph");
  crema_status status;
  CR_TRY_GOTO(cr_gpu_enter(context->device, &before), fail);
  *graph = (cr_device_graph){.device = context->device, .counts = state->counts};
  status = cr_cuda_check(instantiate(state, graph), "making a graph");
  const crema_status back = use_stream(state, state->queue);
  cr_gpu_leave(before);
  if (status == CREMA_OK) status = back;
  if (status != CREMA_OK) goto fail;
  *out = graph;
  return CREMA_OK;
fail:
  cr_cuda_graph_destroy(graph);
  return status;
}

crema_status cr_cuda_interrupt(const char *why) {
  crema_context *context = recording;
  if (context == NULL) return CREMA_OK;
  cuda_context *state = cr_cuda_context(context);
  state->why = why;
  CR_TRY(end(&state->interrupted));
  return cr_cuda_graph_run(state->interrupted, context, 0);
}

crema_status cr_cuda_capture_end(crema_context *context, cr_device_graph **out, const char **why) {
  *out = NULL;
  *why = cr_cuda_context(context)->why;
  return recording == context ? end(out) : CREMA_OK;
}

crema_status cr_cuda_graph_run(cr_device_graph *graph, crema_context *context, uint64_t passes) {
  const cuda_context *state = cr_cuda_context(context);
  int before = -1;
  CR_TRY(cr_gpu_enter(context->device, &before));
  cudaError_t error = cudaSuccess;
  if (graph->counts) {
    error = cudaMemcpyAsync(state->passes, &passes, sizeof passes, cudaMemcpyHostToDevice,
                            state->queue);
  }
  if (error == cudaSuccess) error = cudaGraphLaunch(graph->exec, state->queue);
  cr_gpu_leave(before);
  cr_gpu_count_launch(context);
  return cr_cuda_check(error, "starting a graph");
}

void cr_cuda_graph_destroy(cr_device_graph *graph) {
  int before = -1;
  if (graph == NULL) return;
  if (graph->exec != NULL && cr_gpu_enter(graph->device, &before) == CREMA_OK) {
    if (cudaGraphExecDestroy(graph->exec) != cudaSuccess) (void)cudaGetLastError();
    cr_gpu_leave(before);
  }
  free(graph);
}

void cr_cuda_graph_close(cuda_context *state) {
  drop_interrupted(state);
  if (state->recorder != NULL) (void)cudaStreamDestroy(state->recorder);
}

const uint64_t *cr_gpu_passes(crema_context *context) {
  cuda_context *state = cr_cuda_context(context);
  if (recording != context) return NULL;
  state->counts = true;
  return state->passes;
}
