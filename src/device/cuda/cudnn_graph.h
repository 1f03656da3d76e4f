/* Convolutions as operation graphs of cuDNN, the engines that may compute them, and their execution
 * plans. */
#ifndef CR_CUDA_CUDNN_GRAPH_H
#define CR_CUDA_CUDNN_GRAPH_H

#include "device/cuda/cudnn_library.h"

enum { CR_CUDNN_SPATIAL = 3, CR_CUDNN_AXES = CR_CUDNN_SPATIAL + 2 };

typedef enum cr_cudnn_pass {
  CR_CUDNN_FORWARD,
  CR_CUDNN_DATA,   /* the gradient of the source */
  CR_CUDNN_WEIGHTS /* the gradient of the weights */
} cr_cudnn_pass;

/* Whatever the pass computes, x is (N, C, S...), w (O, C / group, K...), y (N, O, S'...), all in
 * one order and of one type; sums are in f32. */
typedef struct cr_cudnn_conv {
  cr_cudnn_pass pass;
  crema_dtype type; /* F32, F16 or BF16 */
  bool fast;        /* see crema_math: TF32 and a varying order of sums are allowed */
  bool last;        /* channels-last order, else row-major */
  int axes;         /* of x, w and y: 4 or 5 */
  int64_t x[CR_CUDNN_AXES], w[CR_CUDNN_AXES], y[CR_CUDNN_AXES];
  int64_t pad[CR_CUDNN_SPATIAL], stride[CR_CUDNN_SPATIAL], dilation[CR_CUDNN_SPATIAL];
} cr_cudnn_conv;

/* An execution plan, with the engine configuration that it was made from. */
typedef struct cr_cudnn_plan {
  cudnnBackendDescriptor_t plan, config; /* NULL: there is none */
  int64_t engine;                        /* its number in cuDNN */
  size_t bytes;                          /* of scratchpad */
} cr_cudnn_plan;

/* The kind of plan to search for. */
typedef struct cr_cudnn_wish {
  int64_t alignment; /* of all addresses, in bytes */
  size_t limit;      /* no more bytes of scratchpad */
  int enough;        /* this number of plans suffices if one has at most `little` bytes */
  size_t little;
} cr_cudnn_wish;

enum { CR_CUDNN_PLANS = 8 };

typedef struct cr_cudnn_plans {
  cr_cudnn_plan list[CR_CUDNN_PLANS]; /* in cuDNN's order, fastest first by its estimate */
  int count;
} cr_cudnn_plans;

/* Plans of engines that need no compiler and, unless conv->fast, are deterministic and exact. The
 * context's device must be current. There may be none. Errors: as cr_cudnn_check; *out is empty
 * then. */
crema_status cr_cudnn_find_plans(const cr_cudnn *dnn, cudnnHandle_t handle,
                                 const cr_cudnn_conv *conv, const cr_cudnn_wish *wish,
                                 cr_cudnn_plans *out) CREMA_MUST_USE;

/* Destroys all plans but the one of index `kept`, which then belongs to the caller; -1: all. */
void cr_cudnn_drop_plans(const cr_cudnn *dnn, cr_cudnn_plans *plans, int kept);

/* Accepts a plan that is not there. */
void cr_cudnn_destroy_plan(const cr_cudnn *dnn, cr_cudnn_plan *plan);

/* Queues the work of a plan on the handle's stream. `workspace`: plan->bytes. One thread at a time
 * may run a plan. */
cudnnStatus_t cr_cudnn_run_plan(const cr_cudnn *dnn, cudnnHandle_t handle,
                                const cr_cudnn_plan *plan, const void *x, const void *w,
                                const void *y, void *workspace);

#endif
