/* Graphs of the fake runtime: a stream records the work that comes on it. Calls that CUDA forbids
 * to a thread that records fail, and spoil the recording. */
#include <stdatomic.h>
#include <stdbool.h>

#include "fake_driver.h"
#include "fake_runtime.h"

/* How many graphs were started, and how many exist. */
static atomic_int started, living;

__attribute__((visibility("default"))) int fake_graphs_started(void);
__attribute__((visibility("default"))) int fake_graphs_living(void);

int fake_graphs_started(void) {
  return atomic_load(&started);
}

int fake_graphs_living(void) {
  return atomic_load(&living);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  if (stream->device != fake_device()) return fake_fail(cudaErrorInvalidResourceHandle);
  if (mode != cudaStreamCaptureModeThreadLocal) return fake_fail(cudaErrorInvalidValue);
  return fake_begin_recording(stream) ? cudaSuccess : fake_fail(cudaErrorIllegalState);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out) {
  fake_graph *graph = NULL;
  (void)fake_device();
  if (!fake_end_recording(stream, &graph)) return fake_fail(cudaErrorStreamCaptureUnmatched);
  *out = (cudaGraph_t)graph;
  return graph != NULL ? cudaSuccess : fake_fail(cudaErrorStreamCaptureInvalidated);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                          unsigned long long flags) {
  (void)fake_device();
  if (graph == NULL || flags != 0) return fake_fail(cudaErrorInvalidValue);
  fake_keep_graph((fake_graph *)graph);
  *out = (cudaGraphExec_t)graph;
  atomic_fetch_add(&living, 1);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  fake_release_graph((fake_graph *)graph);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  (void)fake_device();
  fake_release_graph((fake_graph *)exec);
  atomic_fetch_sub(&living, 1);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (stream->device != fake_device()) return fake_fail(cudaErrorInvalidResourceHandle);
  if (fake_spoil()) return fake_fail(cudaErrorStreamCaptureUnsupported);
  atomic_fetch_add(&started, 1);
  fake_run_graph((const fake_graph *)exec);
  return cudaSuccess;
}
