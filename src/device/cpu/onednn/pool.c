/* Max and average pooling over 1 to 3 spatial axes, in the order in which the input is held. */
#include "core/fail.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/onednn/primitive.h"

typedef struct pool {
  cr_dnnl_operands o;
  dnnl_alg_kind_t alg;
} pool;

/* A stride beyond the kernel can leave windows outside the input, for which oneDNN has neither a
 * maximum nor a divisor. */
static crema_status check_window(const cr_plan *plan, int src, int dst) {
  const cr_window *w = &plan->desc->u.pool.window;
  const crema_shape *in = &plan->desc->arg[src].shape, *out = &plan->desc->arg[dst].shape;
  for (int i = 0; i < w->axes; ++i) {
    if (w->dilation[i] != 1) return cr_fail(CREMA_E_UNSUPPORTED, "dilated pooling");
    int64_t last = (out->dim[i + 2] - 1) * w->stride[i] - w->pad[i];
    if (w->pad[i] >= w->kernel[i] || last >= in->dim[i + 2]) {
      return cr_fail(CREMA_E_UNSUPPORTED, "windows outside the input");
    }
  }
  return CREMA_OK;
}

/* Caffe divides an average by the size of the window clipped to the padded input. oneDNN has two
 * divisors. One is the number of input elements in the window; it equals Caffe's without padding.
 * The second is the full window; it equals Caffe's if no window reaches past the padding. */
static crema_status choose_algorithm(const cr_plan *plan, const cr_pd_window *w,
                                     dnnl_alg_kind_t *out) {
  const cr_pool_params *p = &plan->desc->u.pool;
  if (p->method == CR_POOL_MAX) {
    *out = dnnl_pooling_max;
    return CREMA_OK;
  }
  if (p->method == CR_POOL_AVERAGE_INPUT) {
    *out = dnnl_pooling_avg_exclude_padding;
    return CREMA_OK;
  }
  bool padded = false, overhangs = false;
  for (int i = 0; i < p->window.axes; ++i) {
    if (w->pad_begin[i] > 0) padded = true;
    if (w->pad_end[i] > w->pad_begin[i]) overhangs = true;
  }
  if (padded && overhangs) {
    return cr_fail(CREMA_E_UNSUPPORTED, "average pooling past padding");
  }
  *out = padded ? dnnl_pooling_avg_include_padding : dnnl_pooling_avg_exclude_padding;
  return CREMA_OK;
}

/* src, dst: numbers of the arguments with these shapes; hinted: the argument whose order is kept.
 */
static crema_status pool_open(const cr_plan *plan, int src, int dst, int hinted, pool *p) {
  *p = (pool){0};
  const cr_window *w = &plan->desc->u.pool.window;
  crema_dtype type = CREMA_F32;
  CR_TRY(cr_dnnl_one_type(plan, &type));
  CR_TRY(cr_dnnl_window(plan, w, src, dst, &p->o.window));
  CR_TRY(check_window(plan, src, dst));
  CR_TRY(choose_algorithm(plan, &p->o.window, &p->alg));
  CR_TRY(cr_dnnl_env_open(&p->o.env, NULL));
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(cr_dnnl_md_follow(plan, src, hinted, &p->o.src), fail);
  CR_TRY_GOTO(cr_dnnl_md_follow(plan, dst, hinted, &p->o.dst), fail);
  return CREMA_OK;
fail:
  cr_dnnl_operands_close(&p->o);
  return status;
}

static crema_status plan_fwd(cr_plan *plan) {
  pool p;
  CR_TRY(pool_open(plan, 0, 1, 0, &p));
  bool train = p.alg == dnnl_pooling_max && !cr_dnnl_absent(plan, 2);
  dnnl_primitive_desc_t pd = NULL;
  crema_status status = cr_dnnl_check(
      cr_pd_pool_fwd(&pd, &p.o.env, train ? dnnl_forward_training : dnnl_forward_inference, p.alg,
                     p.o.src, p.o.dst, &p.o.window),
      "pooling");
  cr_dnnl_operands_close(&p.o);
  static const cr_dnnl_bind bind[] = {{0, DNNL_ARG_SRC, CR_DNNL_FORMAT},
                                      {1, DNNL_ARG_DST, CR_DNNL_FORMAT},
                                      {2, DNNL_ARG_WORKSPACE, CR_DNNL_FORMAT}};
  return status == CREMA_OK ? cr_dnnl_prim_create(plan, pd, bind, train ? 3 : 2) : status;
}

static crema_status plan_bwd(cr_plan *plan) {
  bool max = plan->desc->u.pool.method == CR_POOL_MAX;
  pool p;
  /* The order of the forward pass, in which the positions of the maxima are held. */
  CR_TRY(pool_open(plan, 2, 0, max ? 1 : 0, &p));
  dnnl_primitive_desc_t forward = NULL, pd = NULL;
  crema_status status = cr_dnnl_check(cr_pd_pool_fwd(&forward, &p.o.env, dnnl_forward_training,
                                                     p.alg, p.o.src, p.o.dst, &p.o.window),
                                      "pooling");
  if (status == CREMA_OK) {
    p.o.env.hint = forward;
    status = cr_dnnl_check(cr_pd_pool_bwd(&pd, &p.o.env, p.alg, p.o.src, p.o.dst, &p.o.window),
                           "pooling backward");
    dnnl_primitive_desc_destroy(forward);
  }
  cr_dnnl_operands_close(&p.o);
  static const cr_dnnl_bind bind[] = {{0, DNNL_ARG_DIFF_DST, CR_DNNL_FORMAT},
                                      {2, DNNL_ARG_DIFF_SRC, CR_DNNL_FORMAT},
                                      {1, DNNL_ARG_WORKSPACE, CR_DNNL_FORMAT}};
  return status == CREMA_OK ? cr_dnnl_prim_create(plan, pd, bind, max ? 3 : 2) : status;
}

CR_KERNEL(pool_fwd_dnnl, POOL_FWD, .types = CR_DNNL_TYPES, CR_DNNL_PRIM, .follows_hints = true,
          .plan = plan_fwd, .run = cr_dnnl_prim_run);

CR_KERNEL(pool_bwd_dnnl, POOL_BWD, .types = CR_DNNL_TYPES, CR_DNNL_PRIM, .follows_hints = true,
          .plan = plan_bwd, .run = cr_dnnl_prim_run);
