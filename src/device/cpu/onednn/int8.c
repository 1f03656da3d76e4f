/* Convolutions and inner products of integers of 8 bits, on the processor's instructions for sums
 * of such products. Without these the library's code either saturates sums of pairs in 16 bits or
 * drops a bit of the weights: it would be wrong, and is not used. */
#include "core/fail.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/onednn/conv.h"
#include "device/cpu/onednn/primitive.h"

static bool has(unsigned wanted) {
  return ((unsigned)dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

bool cr_dnnl_has_int8(void) {
  return has(dnnl_cpu_isa_avx512_core_vnni) || has(dnnl_cpu_isa_avx2_vnni);
}

bool cr_dnnl_has_bf16(void) {
  return has(dnnl_cpu_isa_avx512_core_bf16);
}

static crema_status check(const cr_plan *plan) {
  const cr_op_desc *desc = plan->desc;
  if (!cr_dnnl_has_int8()) {
    return cr_fail(CREMA_E_UNSUPPORTED, "the processor does not implement sums of 8-bit products");
  }
  if (desc->arg[CR_ARG_RESULT].shape.axes < 2 ||
      desc->numbers != desc->arg[CR_ARG_RESULT].shape.dim[1]) {
    return cr_fail(CREMA_E_UNSUPPORTED, "%d numbers", desc->numbers);
  }
  return CREMA_OK;
}

static const cr_dnnl_bind binds[] = {{0, DNNL_ARG_SRC, CR_DNNL_FORMAT},
                                     {1, DNNL_ARG_WEIGHTS, CR_DNNL_FORMAT},
                                     {2, DNNL_ARG_BIAS, CR_DNNL_FORMAT},
                                     {3, DNNL_ARG_DST, CR_DNNL_FORMAT},
                                     {CR_DNNL_NUMBERS, 0, CR_DNNL_FORMAT}};

/* Takes `pd` over. */
static crema_status create(cr_plan *plan, dnnl_primitive_desc_t pd) {
  cr_dnnl_bind bind[sizeof binds / sizeof binds[0]];
  const int count = (int)(sizeof binds / sizeof binds[0]);
  for (int i = 0; i < count; ++i) bind[i] = binds[i];
  bind[count - 1].id = cr_attr_factors_arg();
  return cr_dnnl_prim_create_posts(plan, pd, bind, bind[count - 1].id == 0 ? count - 1 : count);
}

/* ---- convolution --------------------------------------------------------- */

static crema_status conv_open(const cr_plan *plan, cr_dnnl_conv *c) {
  const cr_op_arg *arg = plan->desc->arg;
  *c = (cr_dnnl_conv){0};
  crema_status status = CREMA_OK;
  CR_TRY(cr_dnnl_window(plan, &plan->desc->u.conv.window, 0, 3, &c->window));
  CR_TRY(cr_dnnl_env_open(&c->env, plan->desc));
  CR_TRY_GOTO(cr_dnnl_md_any(plan, 0, arg[0].type, &c->src), fail);
  CR_TRY_GOTO(cr_dnnl_conv_weights(plan, 1, arg[1].type, &c->weights), fail);
  CR_TRY_GOTO(cr_dnnl_md_plain(plan, 2, arg[2].type, &c->bias), fail);
  CR_TRY_GOTO(cr_dnnl_md_any(plan, 3, arg[3].type, &c->dst), fail);
  return CREMA_OK;
fail:
  cr_dnnl_conv_close(c);
  return status;
}

/* The library's matrix products give sums of what happens to lie in memory where each group has one
 * channel, several outputs and a window of one position (seen in 2.6.3). */
static crema_status check_groups(const cr_plan *plan, const_dnnl_primitive_desc_t pd) {
  const cr_conv_params *conv = &plan->desc->u.conv;
  const int64_t groups = conv->group;
  bool point = groups > 1 && plan->desc->arg[0].shape.dim[1] == groups &&
               plan->desc->arg[3].shape.dim[1] > groups;
  for (int i = 0; i < conv->window.axes; ++i) point = point && conv->window.kernel[i] == 1;
  if (!point || !cr_dnnl_pd_named(pd, "gemm")) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "groups of one channel and a window of one position");
}

static crema_status plan_conv(cr_plan *plan) {
  cr_dnnl_conv c;
  CR_TRY(check(plan));
  CR_TRY(conv_open(plan, &c));
  dnnl_primitive_desc_t pd = NULL;
  crema_status status =
      cr_dnnl_check(cr_pd_conv_fwd(&pd, &c.env, dnnl_forward_inference, dnnl_convolution_direct,
                                   c.src, c.weights, c.bias, c.dst, &c.window),
                    "convolution");
  cr_dnnl_conv_close(&c);
  CR_TRY(status);
  status = cr_dnnl_conv_check_blocks(plan, pd);
  if (status == CREMA_OK) status = check_groups(plan, pd);
  if (status == CREMA_OK) return create(plan, pd);
  dnnl_primitive_desc_destroy(pd);
  return status;
}

/* ---- inner product ------------------------------------------------------- */

typedef struct product {
  cr_pd_env env;
  cr_md src, weights, bias, dst;
} product;

static void product_close(product *p) {
  cr_md_destroy(p->dst);
  cr_md_destroy(p->bias);
  cr_md_destroy(p->weights);
  cr_md_destroy(p->src);
  cr_dnnl_env_close(&p->env);
}

/* The weights (N,K) with the source's extents in place of K, so that a source may lie in any order.
 */
static crema_status weights_md(const cr_plan *plan, cr_md *out) {
  const crema_shape *src = &plan->desc->arg[0].shape;
  dnnl_dims_t dims = {plan->desc->arg[3].shape.dim[1]};
  for (int i = 1; i < src->axes; ++i) dims[i] = src->dim[i];
  return cr_dnnl_check(cr_md_create_tag(out, src->axes, dims, dnnl_s8, dnnl_format_tag_any),
                       "weights");
}

static crema_status product_open(const cr_plan *plan, product *p) {
  const cr_op_arg *arg = plan->desc->arg;
  *p = (product){0};
  if (arg[0].shape.axes < 2 || arg[0].shape.axes > 5 || plan->desc->u.ip.transpose) {
    return cr_fail(CREMA_E_UNSUPPORTED, "a source of %d axes", arg[0].shape.axes);
  }
  crema_status status = CREMA_OK;
  CR_TRY(cr_dnnl_env_open(&p->env, plan->desc));
  CR_TRY_GOTO(cr_dnnl_md_any(plan, 0, arg[0].type, &p->src), fail);
  CR_TRY_GOTO(weights_md(plan, &p->weights), fail);
  CR_TRY_GOTO(cr_dnnl_md_plain(plan, 2, arg[2].type, &p->bias), fail);
  CR_TRY_GOTO(cr_dnnl_md_plain(plan, 3, arg[3].type, &p->dst), fail);
  return CREMA_OK;
fail:
  product_close(p);
  return status;
}

static crema_status plan_product(cr_plan *plan) {
  product p;
  CR_TRY(check(plan));
  CR_TRY(product_open(plan, &p));
  dnnl_primitive_desc_t pd = NULL;
  crema_status status = cr_dnnl_check(
      cr_pd_ip_fwd(&pd, &p.env, dnnl_forward_inference, p.src, p.weights, p.bias, p.dst),
      "inner product");
  product_close(&p);
  return status == CREMA_OK ? create(plan, pd) : status;
}

CR_KERNEL(conv_int8_dnnl, CONV_INT8, CR_DNNL_PRIM, .plan = plan_conv,
          .run = cr_dnnl_prim_run_posts);

CR_KERNEL(ip_int8_dnnl, IP_INT8, CR_DNNL_PRIM, .plan = plan_product, .run = cr_dnnl_prim_run_posts);
