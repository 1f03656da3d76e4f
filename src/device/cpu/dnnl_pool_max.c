/* Max pooling over two axes of tensors held in blocks of 8 or 16 channels.
 *
 * oneDNN 2.6 on AVX2 needs eight times as long for this when it must record the positions of the
 * maxima (100 x 32 x 32 x 32, window 3, stride 2: 11 ms and 12 ms back against 1.4 and 1.5 here).
 * The positions lie in the layout and element type of oneDNN's own workspace, so that either can
 * read the other's. */
#include <stdlib.h>
#include <string.h>

#include "core/clones.h"
#include "core/fail.h"
#include "device/cpu/dnnl_prim.h"
#include "device/cpu/dnnl_rows.h"

enum { LANES = 8, PARALLEL_MIN = 16384 /* values; below, one thread is faster */ };

/* Vectors of 8 channels; element-wise aligned. */
typedef float floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint8_t bytes __attribute__((vector_size(8), aligned(1), may_alias));

typedef struct pool_max {
  int64_t planes; /* blocks of channels over all samples */
  int block;
  int64_t in[2], out[2], kernel[2], stride[2], pad[2];
} pool_max;

/* A window that starts at `start` along axis a lies inside the input from its element
 * window_from up to, not including, window_to. */
static inline int64_t window_from(int64_t start) {
  return start < 0 ? -start : 0;
}

static inline int64_t window_to(const pool_max *p, int a, int64_t start) {
  int64_t left = p->in[a] - start;
  return left < p->kernel[a] ? left : p->kernel[a];
}

/* src (H,W,block), dst and positions (H',W',block); positions may be NULL. */
CR_CLONES static void forward_plane(const pool_max *p, const float *src, float *dst,
                                    uint8_t *indices) {
  const int64_t row = p->in[1] * p->block;
  for (int64_t y = 0; y < p->out[0]; ++y) {
    int64_t top = y * p->stride[0] - p->pad[0];
    int64_t y0 = window_from(top), y1 = window_to(p, 0, top);
    for (int64_t x = 0; x < p->out[1]; ++x) {
      int64_t left = x * p->stride[1] - p->pad[1];
      int64_t x0 = window_from(left), x1 = window_to(p, 1, left);
      for (int lane = 0; lane < p->block; lane += LANES) {
        const float *window = src + (top + y0) * row + (left + x0) * p->block + lane;
        floats best = *(const floats *)window;
        ints index = (ints){0} + (int32_t)(y0 * p->kernel[1] + x0);
        for (int64_t ky = y0; ky < y1; ++ky, window += row) {
          const float *at = window;
          for (int64_t kx = x0; kx < x1; ++kx, at += p->block) {
            floats value = *(const floats *)at;
            ints more = value > best;
            best = (floats)(((ints)value & more) | ((ints)best & ~more));
            index = ((int32_t)(ky * p->kernel[1] + kx) & more) | (index & ~more);
          }
        }
        int64_t to = (y * p->out[1] + x) * p->block + lane;
        *(floats *)(dst + to) = best;
        if (indices != NULL) *(bytes *)(indices + to) = __builtin_convertvector(index, bytes);
      }
    }
  }
}

CR_CLONES static void backward_plane(const pool_max *p, const float *diff_dst,
                                     const uint8_t *indices, float *diff_src) {
  const int64_t row = p->in[1] * p->block;
  memset(diff_src, 0, (size_t)(p->in[0] * row) * sizeof *diff_src);
  for (int64_t y = 0; y < p->out[0]; ++y) {
    int64_t top = y * p->stride[0] - p->pad[0];
    int64_t y0 = window_from(top), y1 = window_to(p, 0, top);
    for (int64_t x = 0; x < p->out[1]; ++x) {
      int64_t left = x * p->stride[1] - p->pad[1];
      int64_t x0 = window_from(left), x1 = window_to(p, 1, left);
      for (int lane = 0; lane < p->block; lane += LANES) {
        int64_t from = (y * p->out[1] + x) * p->block + lane;
        ints diff = *(const ints *)(diff_dst + from);
        ints index = __builtin_convertvector(*(const bytes *)(indices + from), ints);
        float *window = diff_src + (top + y0) * row + (left + x0) * p->block + lane;
        for (int64_t ky = y0; ky < y1; ++ky, window += row) {
          float *at = window;
          for (int64_t kx = x0; kx < x1; ++kx, at += p->block) {
            ints here = index == (ints){0} + (int32_t)(ky * p->kernel[1] + kx);
            *(floats *)at += (floats)(diff & here);
          }
        }
      }
    }
  }
}

/* ---- planning ------------------------------------------------------------ */

static crema_status set_format(cr_plan *plan, int arg, crema_dtype type, cr_dnnl_order order) {
  plan->format[arg].type = type;
  return cr_dnnl_layout_ordered(plan->context->device, &plan->desc->arg[arg].shape, type, order,
                                &plan->format[arg].layout);
}

static crema_status fill_window(const cr_plan *plan, int src, int dst, pool_max *p) {
  const cr_window *w = &plan->desc->u.pool.window;
  const crema_shape *in = &plan->desc->arg[src].shape, *out = &plan->desc->arg[dst].shape;
  if (w->axes != 2 || in->axes != 4 || out->axes != 4 || w->kernel[0] > UINT8_MAX ||
      w->kernel[1] > UINT8_MAX / w->kernel[0]) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not two axes, or a large window");
  }
  for (int a = 0; a < 2; ++a) {
    p->in[a] = in->dim[a + 2];
    p->out[a] = out->dim[a + 2];
    p->kernel[a] = w->kernel[a];
    p->stride[a] = w->stride[a];
    p->pad[a] = w->pad[a];
    bool empty = w->pad[a] >= w->kernel[a] ||
                 (p->out[a] - 1) * w->stride[a] - w->pad[a] >= p->in[a] || p->out[a] < 1;
    if (w->dilation[a] != 1 || empty) {
      return cr_fail(CREMA_E_UNSUPPORTED, "dilated or empty windows");
    }
  }
  return CREMA_OK;
}

/* `hinted`: the argument whose order all others take. */
static crema_status plan_max(cr_plan *plan, int src, int dst, int indices, int hinted) {
  const cr_op_desc *desc = plan->desc;
  const cr_layout *layout = plan->hint[hinted].layout;
  if (desc->u.pool.method != CR_POOL_MAX || layout == NULL) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not max pooling in a private layout");
  }
  cr_dnnl_order order = cr_dnnl_layout_order(layout);
  if (order.kind != CR_DNNL_BLOCKED || order.block % LANES != 0 ||
      !crema_shape_equal(&layout->shape, &desc->arg[hinted].shape)) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not held in blocks of channels");
  }
  pool_max p = {.block = order.block};
  CR_TRY(fill_window(plan, src, dst, &p));
  const crema_shape *shape = &desc->arg[src].shape;
  p.planes = shape->dim[0] * ((shape->dim[1] + order.block - 1) / order.block);
  CR_TRY(set_format(plan, src, CREMA_F32, order));
  CR_TRY(set_format(plan, dst, CREMA_F32, order));
  if (!cr_dnnl_absent(plan, indices)) CR_TRY(set_format(plan, indices, CREMA_U8, order));
  pool_max *kept = malloc(sizeof *kept);
  if (kept == NULL) return cr_fail_memory(sizeof *kept, "a plan");
  *kept = p;
  plan->state = kept;
  return CREMA_OK;
}

static crema_status plan_fwd(cr_plan *plan) {
  return plan_max(plan, 0, 1, 2, 0);
}

/* The positions are in the order of the forward pass; if that is plain, the gradient decides. */
static crema_status plan_bwd(cr_plan *plan) {
  if (cr_dnnl_absent(plan, 1)) return cr_fail(CREMA_E_UNSUPPORTED, "not max pooling");
  return plan_max(plan, 2, 0, 1, plan->hint[1].layout != NULL ? 1 : 0);
}

static crema_status run_fwd(const cr_call *call) {
  const pool_max *p = call->plan->state;
  const float *src = cr_f32(call->buffer, 0);
  float *dst = cr_f32(call->buffer, 1);
  uint8_t *indices = (uint8_t *)call->buffer[2].address;
  int64_t in = p->in[0] * p->in[1] * p->block, out = p->out[0] * p->out[1] * p->block;
#pragma omp parallel for schedule(static) if (p->planes * in >= PARALLEL_MIN)
  for (int64_t i = 0; i < p->planes; ++i) {
    forward_plane(p, src + i * in, dst + i * out, indices == NULL ? NULL : indices + i * out);
  }
  return CREMA_OK;
}

static crema_status run_bwd(const cr_call *call) {
  const pool_max *p = call->plan->state;
  const float *diff_dst = cr_f32(call->buffer, 0);
  const uint8_t *indices = (const uint8_t *)call->buffer[1].address;
  float *diff_src = cr_f32(call->buffer, 2);
  int64_t in = p->in[0] * p->in[1] * p->block, out = p->out[0] * p->out[1] * p->block;
#pragma omp parallel for schedule(static) if (p->planes * in >= PARALLEL_MIN)
  for (int64_t i = 0; i < p->planes; ++i) {
    backward_plane(p, diff_dst + i * out, indices + i * out, diff_src + i * in);
  }
  return CREMA_OK;
}

static void destroy(cr_plan *plan) {
  free(plan->state);
  plan->state = NULL;
}

CR_KERNEL(pool_fwd_blocked, POOL_FWD, .library = true, .follows_hints = true, .plan = plan_fwd,
          .run = run_fwd, .destroy = destroy);

CR_KERNEL(pool_bwd_blocked, POOL_BWD, .library = true, .follows_hints = true, .plan = plan_bwd,
          .run = run_bwd, .destroy = destroy);
