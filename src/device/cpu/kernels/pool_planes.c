#include "device/cpu/kernels/pool_planes.h"

#include "core/fail.h"

crema_status cr_pool_planes_make(const cr_plan *plan, int src, int dst, cr_pool_planes *out) {
  const cr_window *w = &plan->desc->u.pool.window;
  const crema_shape *from = &plan->desc->arg[src].shape, *to = &plan->desc->arg[dst].shape;
  if (w->axes != 2 || from->axes != 4 || to->axes != 4) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not two axes");
  }
  *out = (cr_pool_planes){.planes = from->dim[0] * from->dim[1], .block = 1};
  for (int a = 0; a < 2; ++a) {
    out->in[a] = from->dim[a + 2];
    out->out[a] = to->dim[a + 2];
    out->kernel[a] = w->kernel[a];
    out->stride[a] = w->stride[a];
    out->pad[a] = w->pad[a];
    const int64_t last = (out->out[a] - 1) * w->stride[a] - w->pad[a];
    if (w->dilation[a] != 1 || w->pad[a] >= w->kernel[a] || out->out[a] < 1 || last >= out->in[a]) {
      return cr_fail(CREMA_E_UNSUPPORTED, "dilated or empty windows");
    }
  }
  return CREMA_OK;
}

crema_status cr_pool_planes_fwd(const cr_call *call) {
  const cr_pool_planes *p = call->plan->state;
  const float *src = cr_f32(call->buffer, 0);
  float *dst = cr_f32(call->buffer, 1);
  uint8_t *indices = (uint8_t *)call->buffer[2].address;
  const int64_t in = p->in[0] * p->in[1] * p->block, out = p->out[0] * p->out[1] * p->block;
#pragma omp parallel for schedule(static) if (p->planes * in >= CR_POOL_PARALLEL_MIN)
  for (int64_t i = 0; i < p->planes; ++i) {
    p->forward(p, src + i * in, dst + i * out, indices == NULL ? NULL : indices + i * out);
  }
  return CREMA_OK;
}

crema_status cr_pool_planes_bwd(const cr_call *call) {
  const cr_pool_planes *p = call->plan->state;
  const float *diff_dst = cr_f32(call->buffer, 0);
  const uint8_t *indices = (const uint8_t *)call->buffer[1].address;
  float *diff_src = cr_f32(call->buffer, 2);
  const int64_t in = p->in[0] * p->in[1] * p->block, out = p->out[0] * p->out[1] * p->block;
#pragma omp parallel for schedule(static) if (p->planes * in >= CR_POOL_PARALLEL_MIN)
  for (int64_t i = 0; i < p->planes; ++i) {
    p->backward(p, diff_dst + i * out, indices == NULL ? NULL : indices + i * out,
                diff_src + i * in);
  }
  return CREMA_OK;
}
