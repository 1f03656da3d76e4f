/* Shared by the fast kernels of max and average pooling over two axes: planes of floats, each one
 * channel of a sample or a block of channels. */
#ifndef CR_DEVICE_CPU_KERNELS_POOL_PLANES_H
#define CR_DEVICE_CPU_KERNELS_POOL_PLANES_H

#include "core/cpu_dispatch.h"
#include "device/backend/kernel.h"

enum {
  CR_POOL_LANES = 8,           /* of a vector */
  CR_POOL_PARALLEL_MIN = 16384 /* values; below, one thread is faster */
};

/* Element-wise aligned. */
typedef float cr_floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t cr_ints __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint8_t cr_bytes __attribute__((vector_size(8), aligned(1), may_alias));

/* Computes one plane with the plan's state; `indices` may be NULL. */
typedef void cr_pool_plane_fwd(const void *state, const float *src, float *dst, uint8_t *indices);
typedef void cr_pool_plane_bwd(const void *state, const float *diff_dst, const uint8_t *indices,
                               float *diff_src);

/* The state of a plan begins with this. */
typedef struct cr_pool_planes {
  cr_pool_plane_fwd *forward;  /* for cr_pool_planes_fwd */
  cr_pool_plane_bwd *backward; /* for cr_pool_planes_bwd */
  int64_t planes;              /* over all samples */
  int64_t block;               /* channels of a plane */
  int64_t in[2], out[2], kernel[2], stride[2], pad[2];
} cr_pool_planes;

/* A window along one axis: it begins at `start`, which may be negative, and has the elements
 * start + from ... start + to - 1 of the input. */
typedef struct cr_pool_reach {
  int64_t start, from, to;
} cr_pool_reach;

CR_INLINE cr_pool_reach cr_pool_reach_of(const cr_pool_planes *p, int axis, int64_t index) {
  cr_pool_reach r = {.start = index * p->stride[axis] - p->pad[axis]};
  const int64_t left = p->in[axis] - r.start;
  r.from = r.start < 0 ? -r.start : 0;
  r.to = left < p->kernel[axis] ? left : p->kernel[axis];
  return r;
}

/* The windows of u.pool over planes of one channel; src, dst: numbers of the arguments with the
 * shapes of input and output. Errors: CREMA_E_UNSUPPORTED unless there are two axes and each window
 * is dense and has an element of the input. */
crema_status cr_pool_planes_make(const cr_plan *plan, int src, int dst,
                                 cr_pool_planes *out) CREMA_MUST_USE;

/* kernel.run: all planes of a call whose arguments are src, dst and positions of maxima. */
crema_status cr_pool_planes_fwd(const cr_call *call);
/* The same for arguments diff_dst, positions of maxima and diff_src. */
crema_status cr_pool_planes_bwd(const cr_call *call);

#endif
