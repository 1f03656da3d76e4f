/* What the files of the fake cuDNN share. */
#ifndef CR_TESTS_CUDA_FAKE_CUDNN_H
#define CR_TESTS_CUDA_FAKE_CUDNN_H

#include <cudnn_graph.h>
#include <stdbool.h>

#include "device/gpu/kernels/values.h"

enum { FAKE_AXES = 5, FAKE_SPATIAL = 3 };

/* ---- convolving, in fake_cudnn_conv.c ---- */

typedef struct fake_tensor {
  int64_t uid, alignment;
  int axes;
  int dim[FAKE_AXES];
  bool plain, last; /* in row-major order; in channels-last order; maybe both */
  crema_dtype type;
  void *data; /* at run time */
} fake_tensor;

typedef enum fake_pass { FAKE_FORWARD, FAKE_DATA, FAKE_WEIGHTS } fake_pass;

/* x, w and y as a forward pass has them; the pass says which of them is computed. */
typedef struct fake_conv {
  fake_pass pass;
  fake_tensor x, w, y;
  int axes; /* spatial ones */
  int pad[FAKE_SPATIAL], stride[FAKE_SPATIAL], dilation[FAKE_SPATIAL];
  float alpha, beta;
} fake_conv;

bool fake_fits(const fake_conv *c);

/* False when the host has no memory. */
bool fake_convolve(const fake_conv *c);

/* ---- engines, in fake_cudnn_engines.c ---- */

/* The configurations of a list, one for each engine; their number. */
int fake_list(cudnnBackendHeurMode_t mode, int64_t *engine, int most);

/* The engine's notes for a convolution of this type; their number. */
int fake_numerical_notes(int64_t engine, crema_dtype type, cudnnBackendNumericalNote_t *notes);
int fake_behavior_notes(int64_t engine, cudnnBackendBehaviorNote_t *notes);

/* What becomes of a plan with this engine. */
cudnnStatus_t fake_plan_status(int64_t engine, const fake_conv *c);
int64_t fake_plan_bytes(int64_t engine);

/* What the heuristics answer, and cudnnCreate. */
cudnnStatus_t fake_list_status(const fake_conv *c);
cudnnStatus_t fake_create_status(void);

/* That the engine has run for this handle. */
void fake_note_run(int64_t engine, cudnnHandle_t handle);

struct cudnnContext {
  cudaStream_t stream;
};

#endif
