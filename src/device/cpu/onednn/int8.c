/* Convolutions and inner products of int8, on processors with instructions for sums of such
 * products. Without these instructions the library's code is wrong: it saturates sums of pairs in
 * 16 bits or drops a bit of the weights. */
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

/* Takes ownership of `pd`. */
static crema_status create(cr_plan *plan, dnnl_primitive_desc_t pd) {
  const int factors = cr_attr_factors_arg();
  const cr_dnnl_bind bind[] = {{0, DNNL_ARG_SRC, CR_DNNL_FORMAT},
                               {1, DNNL_ARG_WEIGHTS, CR_DNNL_FORMAT},
                               {2, DNNL_ARG_BIAS, CR_DNNL_FORMAT},
                               {3, DNNL_ARG_DST, CR_DNNL_FORMAT},
                               {CR_DNNL_NUMBERS, factors, CR_DNNL_FORMAT}};
  return cr_dnnl_prim_create_posts(plan, pd, bind, factors == 0 ? 4 : 5);
}

static crema_status plan_conv(cr_plan *plan) {
  dnnl_primitive_desc_t pd = NULL;
  CR_TRY(check(plan));
  CR_TRY(cr_dnnl_conv_fwd(plan, &pd));
  return create(plan, pd);
}

/* The weights (N,K) have the source's axes for K, so that the source may have any order. */
static crema_status product_open(const cr_plan *plan, cr_dnnl_operands *p) {
  const cr_op_arg *arg = plan->desc->arg;
  const crema_shape *src = &arg[0].shape;
  dnnl_dims_t dims = {arg[3].shape.dim[1]};
  *p = (cr_dnnl_operands){0};
  if (src->axes < 2 || src->axes > 5 || plan->desc->u.ip.transpose) {
    return cr_fail(CREMA_E_UNSUPPORTED, "a source of %d axes", src->axes);
  }
  for (int i = 1; i < src->axes; ++i) dims[i] = src->dim[i];
  crema_status status = CREMA_OK;
  CR_TRY(cr_dnnl_env_open(&p->env, plan->desc));
  CR_TRY_GOTO(cr_dnnl_md_any(plan, 0, arg[0].type, &p->src), fail);
  CR_TRY_GOTO(
      cr_dnnl_check(cr_md_create_tag(&p->weights, src->axes, dims, dnnl_s8, dnnl_format_tag_any),
                    "weights"),
      fail);
  CR_TRY_GOTO(cr_dnnl_md_plain(plan, 2, arg[2].type, &p->bias), fail);
  CR_TRY_GOTO(cr_dnnl_md_plain(plan, 3, arg[3].type, &p->dst), fail);
  return CREMA_OK;
fail:
  cr_dnnl_operands_close(p);
  return status;
}

static crema_status plan_product(cr_plan *plan) {
  cr_dnnl_operands p;
  CR_TRY(check(plan));
  CR_TRY(product_open(plan, &p));
  dnnl_primitive_desc_t pd = NULL;
  crema_status status = cr_dnnl_check(
      cr_pd_ip_fwd(&pd, &p.env, dnnl_forward_inference, p.src, p.weights, p.bias, p.dst),
      "inner product");
  cr_dnnl_operands_close(&p);
  return status == CREMA_OK ? create(plan, pd) : status;
}

CR_KERNEL(conv_int8_dnnl, CONV_INT8, CR_DNNL_PRIM, .plan = plan_conv,
          .run = cr_dnnl_prim_run_posts);

CR_KERNEL(ip_int8_dnnl, IP_INT8, CR_DNNL_PRIM, .plan = plan_product, .run = cr_dnnl_prim_run_posts);
