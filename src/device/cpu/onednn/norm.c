/* Local response and batch normalisation in the private layout of the source, and the gradient of
 * softmax. */
#include "core/fail.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/onednn/primitive.h"

/* oneDNN's code for plain memory is several times slower than crema's kernels. */
static crema_status check_held(const cr_plan *plan) {
  CR_TRY(cr_dnnl_check_sample(plan, 0));
  if (plan->hint[0].layout != NULL) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "held in plain memory");
}

/* Creates the forward descriptor and, with `backward`, the descriptor of the gradient. The source
 * is argument 0 in both directions. */
static crema_status lrn_descriptors(const cr_plan *plan, dnnl_prop_kind_t prop,
                                    dnnl_primitive_desc_t *forward,
                                    dnnl_primitive_desc_t *backward) {
  const cr_lrn_params *p = &plan->desc->u.lrn;
  const cr_pd_lrn lrn = {
      .alg = p->within_channel ? dnnl_lrn_within_channel : dnnl_lrn_across_channels,
      .size = p->size,
      .alpha = p->alpha,
      .beta = p->beta,
      .k = p->k};
  cr_pd_env env;
  cr_md data = NULL;
  crema_dtype type = CREMA_F32;
  *forward = NULL;
  /* oneDNN 2.6 crashes while it makes the gradient of this for AVX-512 in blocked layouts. */
  if (p->size == 1 && !p->within_channel) {
    return cr_fail(CREMA_E_UNSUPPORTED, "LRN over one channel");
  }
  CR_TRY(cr_dnnl_one_type(plan, &type));
  CR_TRY(check_held(plan));
  CR_TRY(cr_dnnl_env_open(&env, NULL));
  crema_status status = cr_dnnl_md_follow(plan, 0, 0, &data);
  if (status == CREMA_OK) {
    status = cr_dnnl_check(cr_pd_lrn_fwd(forward, &env, prop, data, &lrn), "LRN");
  }
  if (status == CREMA_OK && backward != NULL) {
    env.hint = *forward;
    status = cr_dnnl_check(cr_pd_lrn_bwd(backward, &env, data, data, &lrn), "LRN backward");
  }
  cr_md_destroy(data);
  cr_dnnl_env_close(&env);
  return status;
}

static crema_status plan_lrn_fwd(cr_plan *plan) {
  bool train = !cr_dnnl_absent(plan, 2);
  dnnl_primitive_desc_t pd = NULL;
  CR_TRY(lrn_descriptors(plan, train ? dnnl_forward_training : dnnl_forward_inference, &pd, NULL));
  static const cr_dnnl_bind bind[] = {{0, DNNL_ARG_SRC, CR_DNNL_FORMAT},
                                      {1, DNNL_ARG_DST, CR_DNNL_FORMAT},
                                      {2, DNNL_ARG_WORKSPACE, CR_DNNL_NOTES}};
  return cr_dnnl_prim_create(plan, pd, bind, train ? 3 : 2);
}

/* Needs the workspace of a forward pass by the same implementation in the same layout. */
static crema_status plan_lrn_bwd(cr_plan *plan) {
  dnnl_primitive_desc_t forward = NULL, pd = NULL;
  crema_status status = lrn_descriptors(plan, dnnl_forward_training, &forward, &pd);
  if (forward != NULL) dnnl_primitive_desc_destroy(forward);
  CR_TRY(status);
  cr_const_md md = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, DNNL_ARG_WORKSPACE);
  const bool reads_workspace = md != NULL && dnnl_memory_desc_get_size(md) > 0;
  if (cr_dnnl_absent(plan, 3) && reads_workspace) {
    dnnl_primitive_desc_destroy(pd);
    return cr_fail(CREMA_E_UNSUPPORTED, "the forward pass left no data");
  }
  static const cr_dnnl_bind bind[] = {{0, DNNL_ARG_SRC, CR_DNNL_FORMAT},
                                      {2, DNNL_ARG_DIFF_DST, CR_DNNL_FORMAT},
                                      {4, DNNL_ARG_DIFF_SRC, CR_DNNL_FORMAT},
                                      {3, DNNL_ARG_WORKSPACE, CR_DNNL_NOTES}};
  CR_TRY(cr_dnnl_prim_create(plan, pd, bind, 4));
  if (cr_dnnl_absent(plan, 3) || plan->format[3].layout == plan->hint[3].layout) return CREMA_OK;
  cr_dnnl_prim_destroy(plan);
  return cr_fail(CREMA_E_UNSUPPORTED, "the forward pass ran in another way");
}

/* Whether the optional argument `arg` is given. */
static bool is_given(const cr_plan *plan, int arg) {
  return arg < plan->desc->args && !cr_dnnl_absent(plan, arg);
}

/* The library's flags. `scale` and `shift` are optional arguments. The library requires per-channel
 * numbers in F32. */
static crema_status bn_flags(const cr_plan *plan, int scale, int shift, unsigned *out) {
  crema_dtype type = CREMA_F32;
  CR_TRY(cr_dnnl_one_type(plan, &type));
  CR_TRY(check_held(plan));
  /* oneDNN rectifies only with a mask from the forward pass. */
  if (plan->desc->u.bn.rectify) return cr_fail(CREMA_E_UNSUPPORTED, "rectified results");
  const bool given = plan->desc->kind == CR_OP_BN_FWD_GLOBAL || plan->desc->u.bn.global;
  *out = given ? dnnl_use_global_stats : dnnl_normalization_flags_none;
  if (is_given(plan, scale)) *out |= dnnl_use_scale;
  if (is_given(plan, shift)) *out |= dnnl_use_shift;
  if (type == CREMA_F32 || !is_given(plan, scale)) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "scales in %s", crema_dtype_name(type));
}

static crema_status plan_bn_fwd(cr_plan *plan) {
  const bool global = plan->desc->kind == CR_OP_BN_FWD_GLOBAL;
  unsigned flags = 0;
  cr_pd_env env;
  cr_md data = NULL;
  dnnl_primitive_desc_t pd = NULL;
  CR_TRY(bn_flags(plan, 4, 5, &flags));
  CR_TRY(cr_dnnl_env_open(&env, NULL));
  crema_status status = cr_dnnl_md_follow(plan, 0, 0, &data);
  if (status == CREMA_OK) {
    status = cr_dnnl_check(
        cr_pd_bn_fwd(&pd, &env, global ? dnnl_forward_inference : dnnl_forward_training, data,
                     plan->desc->u.bn.eps, flags),
        "batch normalisation");
  }
  cr_md_destroy(data);
  cr_dnnl_env_close(&env);
  static const cr_dnnl_bind bind[] = {
      {0, DNNL_ARG_SRC, CR_DNNL_FORMAT},  {1, DNNL_ARG_DST, CR_DNNL_FORMAT},
      {2, DNNL_ARG_MEAN, CR_DNNL_AS_IS},  {3, DNNL_ARG_VARIANCE, CR_DNNL_AS_IS},
      {4, DNNL_ARG_SCALE, CR_DNNL_AS_IS}, {5, DNNL_ARG_SHIFT, CR_DNNL_AS_IS}};
  const int binds = 4 + is_given(plan, 4) + is_given(plan, 5);
  return status == CREMA_OK ? cr_dnnl_prim_create(plan, pd, bind, binds) : status;
}

/* A number of each channel, which is held in plain memory. */
static float *numbers_of(const cr_call *call, int arg) {
  return (float *)call->buffer[arg].address; /* NOLINT: device addresses are host addresses here */
}

/* oneDNN has no moving sums. */
static crema_status run_bn_fwd_train(const cr_call *call) {
  CR_TRY(cr_dnnl_prim_run(call));
  if (!is_given(call->plan, 8)) return CREMA_OK;
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const double count = (double)(s.outer * s.inner);
  const float unbiased = (float)(count > 1 ? count / (count - 1) : 1);
  const float fraction = call->desc->u.bn.fraction;
  const float *mean = numbers_of(call, 2), *variance = numbers_of(call, 3);
  float *means = numbers_of(call, 6), *variances = numbers_of(call, 7),
        *weight = numbers_of(call, 8);
  for (int64_t c = 0; c < s.channels; ++c) {
    means[c] = mean[c] + fraction * means[c];
    variances[c] = unbiased * variance[c] + fraction * variances[c];
  }
  *weight = 1 + fraction * *weight;
  return CREMA_OK;
}

static crema_status plan_bn_bwd(cr_plan *plan) {
  const float eps = plan->desc->u.bn.eps;
  unsigned flags = 0;
  cr_pd_env env;
  cr_md data = NULL;
  dnnl_primitive_desc_t forward = NULL, pd = NULL;
  crema_status status = CREMA_OK;
  CR_TRY(bn_flags(plan, 5, 7, &flags));
  const dnnl_prop_kind_t prop = is_given(plan, 5) ? dnnl_backward : dnnl_backward_data;
  CR_TRY(cr_dnnl_env_open(&env, NULL));
  CR_TRY_GOTO(cr_dnnl_md_follow(plan, 0, 0, &data), done);
  CR_TRY_GOTO(cr_dnnl_check(cr_pd_bn_fwd(&forward, &env, dnnl_forward_training, data, eps, flags),
                            "batch normalisation"),
              done);
  env.hint = forward;
  CR_TRY_GOTO(cr_dnnl_check(cr_pd_bn_bwd(&pd, &env, prop, data, data, eps, flags),
                            "batch normalisation backward"),
              done);
done:
  if (forward != NULL) dnnl_primitive_desc_destroy(forward);
  cr_md_destroy(data);
  cr_dnnl_env_close(&env);
  static const cr_dnnl_bind bind[] = {{0, DNNL_ARG_SRC, CR_DNNL_FORMAT},
                                      {1, DNNL_ARG_DIFF_DST, CR_DNNL_FORMAT},
                                      {2, DNNL_ARG_MEAN, CR_DNNL_AS_IS},
                                      {3, DNNL_ARG_VARIANCE, CR_DNNL_AS_IS},
                                      {4, DNNL_ARG_DIFF_SRC, CR_DNNL_FORMAT},
                                      {5, DNNL_ARG_SCALE, CR_DNNL_AS_IS},
                                      {6, DNNL_ARG_DIFF_SCALE, CR_DNNL_AS_IS},
                                      {7, DNNL_ARG_DIFF_SHIFT, CR_DNNL_AS_IS},
                                      /* Release 2 also requires it but does not read it. */
                                      {5, DNNL_ARG_SHIFT, CR_DNNL_AS_IS}};
  const int binds = is_given(plan, 7) ? 9 : is_given(plan, 5) ? 7 : 5;
  return status == CREMA_OK ? cr_dnnl_prim_create(plan, pd, bind, binds) : status;
}

/* The matrix (outer, C) of argument `arg`; oneDNN is fast only if the axis is the last. */
static crema_status softmax_md(const cr_plan *plan, int arg, cr_md *out) {
  const crema_shape *shape = &plan->desc->arg[arg].shape;
  crema_dtype type = CREMA_F32;
  CR_TRY(cr_dnnl_one_type(plan, &type));
  int axis = plan->desc->u.axis;
  if (axis < 0 || axis >= shape->axes || crema_shape_count(shape, axis + 1, shape->axes) != 1) {
    return cr_fail(CREMA_E_UNSUPPORTED, "softmax over an inner axis");
  }
  crema_shape matrix = {.axes = 2, .dim = {crema_shape_count(shape, 0, axis), shape->dim[axis]}};
  return cr_dnnl_md_ordered(&matrix, type, (cr_dnnl_order){CR_DNNL_PLAIN, 1}, out);
}

static crema_status plan_softmax_bwd(cr_plan *plan) {
  cr_pd_env env;
  cr_md data = NULL;
  dnnl_primitive_desc_t forward = NULL, pd = NULL;
  CR_TRY(cr_dnnl_env_open(&env, NULL));
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(softmax_md(plan, 0, &data), done);
  CR_TRY_GOTO(cr_dnnl_check(cr_pd_softmax_fwd(&forward, &env, data, 1), "softmax"), done);
  env.hint = forward;
  CR_TRY_GOTO(cr_dnnl_check(cr_pd_softmax_bwd(&pd, &env, data, data, 1), "softmax backward"), done);
done:
  if (forward != NULL) dnnl_primitive_desc_destroy(forward);
  cr_md_destroy(data);
  cr_dnnl_env_close(&env);
  static const cr_dnnl_bind bind[] = {{0, DNNL_ARG_DST, CR_DNNL_AS_IS},
                                      {1, DNNL_ARG_DIFF_DST, CR_DNNL_AS_IS},
                                      {2, DNNL_ARG_DIFF_SRC, CR_DNNL_AS_IS}};
  return status == CREMA_OK ? cr_dnnl_prim_create(plan, pd, bind, 3) : status;
}

CR_KERNEL(lrn_fwd_dnnl, LRN_FWD, .types = CR_DNNL_TYPES, CR_DNNL_PRIM, .follows_hints = true,
          .plan = plan_lrn_fwd, .run = cr_dnnl_prim_run);

CR_KERNEL(lrn_bwd_dnnl, LRN_BWD, .types = CR_DNNL_TYPES, CR_DNNL_PRIM, .follows_hints = true,
          .plan = plan_lrn_bwd, .run = cr_dnnl_prim_run);

CR_KERNEL(bn_fwd_train_dnnl, BN_FWD_TRAIN, .types = CR_DNNL_TYPES, CR_DNNL_PRIM,
          .follows_hints = true, .plan = plan_bn_fwd, .run = run_bn_fwd_train);

CR_KERNEL(bn_fwd_global_dnnl, BN_FWD_GLOBAL, .types = CR_DNNL_TYPES, CR_DNNL_PRIM,
          .follows_hints = true, .plan = plan_bn_fwd, .run = cr_dnnl_prim_run);

CR_KERNEL(bn_bwd_dnnl, BN_BWD, .types = CR_DNNL_TYPES, CR_DNNL_PRIM, .follows_hints = true,
          .plan = plan_bn_bwd, .run = cr_dnnl_prim_run);

CR_KERNEL(softmax_bwd_dnnl, SOFTMAX_BWD, .types = CR_DNNL_TYPES, CR_DNNL_PRIM,
          .plan = plan_softmax_bwd, .run = cr_dnnl_prim_run);
