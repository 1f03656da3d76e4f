/* ReLU, sigmoid, tanh and clipping in the layout in which the argument is held. */
#include "core/fail.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/onednn/primitive.h"

/* One axis of all the values for plain memory; else the layout of argument `arg` as it is. */
static crema_status values_md(const cr_plan *plan, int arg, cr_md *out) {
  const cr_layout *layout = plan->hint[arg].layout;
  crema_dtype type = CREMA_F32;
  CR_TRY(cr_dnnl_one_type(plan, &type));
  if (layout != NULL && layout->type == type && !cr_dnnl_layout_is_opaque(layout)) {
    return cr_dnnl_check(cr_md_clone(out, cr_dnnl_layout_md(layout)), "memory");
  }
  const crema_shape *shape = &plan->desc->arg[arg].shape;
  crema_shape flat = {.axes = 1, .dim = {crema_shape_count(shape, 0, shape->axes)}};
  return cr_dnnl_md_ordered(&flat, type, (cr_dnnl_order){CR_DNNL_PLAIN, 1}, out);
}

static crema_status plan_fwd(cr_plan *plan) {
  const cr_op_desc *desc = plan->desc;
  dnnl_alg_kind_t alg = dnnl_eltwise_relu;
  float alpha = 0.0f, beta = 0.0f;
  /* The library's tanh of floats looks coefficients up in tables: a third slower than crema's own
   * kernel with AVX-512, four times as slow with AVX2. */
  if (desc->u.unary.function == CR_UNARY_TANH && plan->hint[0].layout == NULL &&
      desc->arg[0].type == CREMA_F32 && desc->arg[1].type == CREMA_F32) {
    return cr_fail(CREMA_E_UNSUPPORTED, "tanh of floats in plain order");
  }
  switch (desc->u.unary.function) {
    case CR_UNARY_RELU: alpha = (float)desc->u.unary.alpha; break;
    case CR_UNARY_CLIP:
      alg = dnnl_eltwise_clip;
      alpha = (float)desc->u.unary.alpha;
      beta = (float)desc->u.unary.beta;
      break;
    case CR_UNARY_SIGMOID: alg = dnnl_eltwise_logistic; break;
    case CR_UNARY_TANH: alg = dnnl_eltwise_tanh; break;
    default: return cr_fail(CREMA_E_UNSUPPORTED, "function %d", (int)desc->u.unary.function);
  }
  cr_pd_env env;
  CR_TRY(cr_dnnl_env_open(&env, NULL));
  cr_md data = NULL;
  dnnl_primitive_desc_t pd = NULL;
  crema_status status = values_md(plan, 0, &data);
  if (status == CREMA_OK) {
    status = cr_dnnl_check(cr_pd_eltwise_fwd(&pd, &env, alg, data, alpha, beta),
                           "element-wise function");
  }
  cr_md_destroy(data);
  cr_dnnl_env_close(&env);
  static const cr_dnnl_bind bind[] = {{0, DNNL_ARG_SRC, CR_DNNL_FORMAT},
                                      {1, DNNL_ARG_DST, CR_DNNL_FORMAT}};
  return status == CREMA_OK ? cr_dnnl_prim_create(plan, pd, bind, 2) : status;
}

/* ReLU's derivative is computed from the source. Sigmoid's and tanh's are computed from the
 * destination: sigmoid' = y (1 - y), tanh' = 1 - y^2. */
static crema_status plan_bwd(cr_plan *plan) {
  const cr_op_desc *desc = plan->desc;
  dnnl_alg_kind_t alg = dnnl_eltwise_relu;
  float alpha = 0.0f;
  int data_arg = 1;
  switch (desc->u.unary.function) {
    case CR_UNARY_RELU:
      alpha = (float)desc->u.unary.alpha;
      data_arg = 0;
      break;
    case CR_UNARY_SIGMOID: alg = dnnl_eltwise_logistic_use_dst_for_bwd; break;
    case CR_UNARY_TANH: alg = dnnl_eltwise_tanh_use_dst_for_bwd; break;
    default: return cr_fail(CREMA_E_UNSUPPORTED, "function %d", (int)desc->u.unary.function);
  }
  cr_pd_env env;
  CR_TRY(cr_dnnl_env_open(&env, NULL));
  cr_md data = NULL;
  dnnl_primitive_desc_t forward = NULL, pd = NULL;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(values_md(plan, data_arg, &data), done);
  CR_TRY_GOTO(cr_dnnl_check(cr_pd_eltwise_fwd(&forward, &env, alg, data, alpha, 0.0f), "function"),
              done);
  env.hint = forward;
  CR_TRY_GOTO(cr_dnnl_check(cr_pd_eltwise_bwd(&pd, &env, alg, data, data, alpha),
                            "element-wise function backward"),
              done);
done:
  if (forward != NULL) dnnl_primitive_desc_destroy(forward);
  cr_md_destroy(data);
  cr_dnnl_env_close(&env);
  if (status != CREMA_OK) return status;
  const cr_dnnl_bind bind[] = {
      {data_arg, data_arg == 0 ? DNNL_ARG_SRC : DNNL_ARG_DST, CR_DNNL_FORMAT},
      {2, DNNL_ARG_DIFF_DST, CR_DNNL_FORMAT},
      {3, DNNL_ARG_DIFF_SRC, CR_DNNL_FORMAT}};
  return cr_dnnl_prim_create(plan, pd, bind, 3);
}

CR_KERNEL(unary_fwd_dnnl, UNARY_FWD, .types = CR_DNNL_TYPES, CR_DNNL_PRIM, .follows_hints = true,
          .plan = plan_fwd, .run = cr_dnnl_prim_run);

CR_KERNEL(unary_bwd_dnnl, UNARY_BWD, .types = CR_DNNL_TYPES, CR_DNNL_PRIM, .follows_hints = true,
          .plan = plan_bwd, .run = cr_dnnl_prim_run);
