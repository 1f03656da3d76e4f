/* Attributes of primitives, post operations among them. */
#include <string.h>

#include "core/fail.h"
#include "device/cpu/onednn/primitive.h"

/* scale x + shift; no post operation if that is x. */
static dnnl_status_t append_linear(dnnl_post_ops_t ops, double scale, double shift) {
  if (scale == 1 && shift == 0) return dnnl_success;
  return cr_post_ops_append_eltwise(ops, dnnl_eltwise_linear, (float)scale, (float)shift);
}

static dnnl_status_t append(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, double alpha, double beta) {
  return cr_post_ops_append_eltwise(ops, alg, (float)alpha, (float)beta);
}

/* See cr_unary for the formulae. */
static dnnl_status_t append_unary(dnnl_post_ops_t ops, const cr_post *p) {
  dnnl_status_t status = dnnl_success;
  switch (p->function) {
    case CR_UNARY_RELU: return append(ops, dnnl_eltwise_relu, p->alpha, 0);
    case CR_UNARY_SIGMOID: return append(ops, dnnl_eltwise_logistic, 0, 0);
    case CR_UNARY_TANH: return append(ops, dnnl_eltwise_tanh, 0, 0);
    case CR_UNARY_POWER:
      status = append_linear(ops, p->beta, p->gamma);
      if (status != dnnl_success || p->alpha == 1) return status;
      return append(ops, dnnl_eltwise_pow, 1, p->alpha);
    case CR_UNARY_EXP:
      status = append_linear(ops, p->alpha * p->beta, p->alpha * p->gamma);
      return status == dnnl_success ? append(ops, dnnl_eltwise_exp, 0, 0) : status;
    case CR_UNARY_ABS: return append(ops, dnnl_eltwise_abs, 0, 0);
    case CR_UNARY_ELU:
      status = append(ops, dnnl_eltwise_elu, p->alpha, 0);
      return status == dnnl_success ? append_linear(ops, p->beta, 0) : status;
    case CR_UNARY_BNLL: return append(ops, dnnl_eltwise_soft_relu, 1, 0);
    case CR_UNARY_CLIP: return append(ops, dnnl_eltwise_clip, p->alpha, p->beta);
    case CR_UNARY_SWISH: return append(ops, dnnl_eltwise_swish, p->alpha, 0);
    case CR_UNARY_GELU: return append(ops, dnnl_eltwise_gelu_erf, 0, 0);
    case CR_UNARY_GELU_TANH: return append(ops, dnnl_eltwise_gelu_tanh, 0, 0);
    case CR_UNARY_LOG: /* 2.6 computes something else among other functions */
    case CR_UNARY_THRESHOLD:
    case CR_UNARY_FUNCTIONS: break;
  }
  return dnnl_unimplemented;
}

/* True if a function occurs twice with different parameters, which 2.6 confuses: [ReLU of slope
 * 0.25, sum, ReLU] gets the first slope in both places. */
static bool repeats_function(const cr_posts *posts, int count) {
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < i; ++j) {
      const cr_post *a = &posts->post[j], *b = &posts->post[i];
      if (a->kind != CR_POST_UNARY || b->kind != CR_POST_UNARY || a->function != b->function)
        continue;
      if (a->alpha != b->alpha || a->beta != b->beta || a->gamma != b->gamma) return true;
    }
  }
  return false;
}

static dnnl_status_t append_posts(dnnl_primitive_attr_t attr, dnnl_post_ops_t ops,
                                  const cr_op_desc *desc) {
  dnnl_status_t status = dnnl_success;
  const cr_posts *posts = cr_op_posts(desc);
  const int count = cr_posts_count(posts);
  if (repeats_function(posts, count)) return dnnl_unimplemented;
  if (desc->numbers > 0) {
    status = cr_attr_set_factors(attr, ops, desc->arg[CR_ARG_RESULT].shape.axes, desc->numbers,
                                 cr_op_numbers(desc));
  }
  for (int i = 0; i < count && status == dnnl_success; ++i) {
    if (posts->post[i].kind != CR_POST_ADD) {
      status = append_unary(ops, &posts->post[i]);
      continue;
    }
    /* An addend of integers has its own scale and type. */
    const cr_op_arg *addend = &desc->arg[CR_ARG_ADDEND];
    dnnl_data_type_t type = dnnl_data_type_undef;
    if (desc->numbers > 0 && cr_dnnl_type(addend->type, &type) != CREMA_OK) {
      return dnnl_unimplemented;
    }
    status = cr_post_ops_append_sum(ops, desc->numbers > 0 ? addend->scale : 1.0f, type);
  }
  return status;
}

static dnnl_status_t set_posts(dnnl_primitive_attr_t attr, const cr_op_desc *desc) {
  dnnl_post_ops_t ops = NULL;
  if (desc == NULL || (desc->numbers == 0 && cr_posts_count(cr_op_posts(desc)) == 0)) {
    return dnnl_success;
  }
  dnnl_status_t status = dnnl_post_ops_create(&ops);
  if (status != dnnl_success) return status;
  status = append_posts(attr, ops, desc);
  if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attr, ops);
  dnnl_post_ops_destroy(ops);
  return status;
}

crema_status cr_dnnl_env_open(cr_pd_env *env, const cr_op_desc *desc) {
  *env = (cr_pd_env){0};
  dnnl_primitive_attr_t attr = NULL;
  CR_TRY(cr_dnnl_engine(&env->engine));
  CR_TRY(cr_dnnl_check(dnnl_primitive_attr_create(&attr), "attributes"));
  dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
  if (status == dnnl_success) status = set_posts(attr, desc);
  if (status != dnnl_success) {
    dnnl_primitive_attr_destroy(attr);
    return cr_dnnl_check(status, "attributes");
  }
  env->attr = attr;
  return CREMA_OK;
}

void cr_dnnl_env_close(cr_pd_env *env) {
  if (env->attr != NULL) dnnl_primitive_attr_destroy((dnnl_primitive_attr_t)env->attr);
  *env = (cr_pd_env){0};
}

crema_status cr_dnnl_prim_create_posts(cr_plan *plan, dnnl_primitive_desc_t pd,
                                       const cr_dnnl_bind *bind, int binds) {
  CR_TRY(cr_dnnl_prim_create(plan, pd, bind, binds));
  if (!cr_posts_add(cr_op_posts(plan->desc))) return CREMA_OK;
  cr_format *addend = &plan->format[CR_ARG_ADDEND];
  const cr_format result = plan->format[CR_ARG_RESULT];
  *addend = result;
  if (plan->desc->numbers == 0 || plan->desc->arg[CR_ARG_ADDEND].type == result.type) {
    return CREMA_OK;
  }
  addend->type = plan->desc->arg[CR_ARG_ADDEND].type;
  addend->layout = cr_layout_in(result.layout, addend->type);
  if (result.layout == NULL || addend->layout != NULL) return CREMA_OK;
  cr_dnnl_prim_destroy(plan);
  return cr_fail(CREMA_E_UNSUPPORTED, "an addend that cannot lie as the result does");
}

static void copy_addend(const cr_call *call) {
  enum { PIECE = 1 << 16 };
  const cr_format format = call->plan->format[CR_ARG_RESULT];
  const int64_t count = cr_op_arg_count(call->desc, CR_ARG_RESULT);
  const int64_t bytes = format.layout != NULL ? (int64_t)format.layout->bytes
                                              : count * (int64_t)crema_dtype_size(format.type);
  const char *from = (const char *)call->buffer[CR_ARG_ADDEND].address;
  char *to = (char *)call->buffer[CR_ARG_RESULT].address;
#pragma omp parallel for schedule(static) if (bytes > PIECE)
  for (int64_t at = 0; at < bytes; at += PIECE) {
    memcpy(to + at, from + at, (size_t)(bytes - at < PIECE ? bytes - at : PIECE));
  }
}

crema_status cr_dnnl_prim_run_posts(const cr_call *call) {
  if (cr_posts_add(cr_op_posts(call->desc)) &&
      call->buffer[CR_ARG_ADDEND].address != call->buffer[CR_ARG_RESULT].address) {
    copy_addend(call);
  }
  return cr_dnnl_prim_run(call);
}
