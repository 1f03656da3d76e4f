/* Inner product on oneDNN's matrix multiplication.
 *
 * All arguments stay plain, because a solver updates the weights in plain order every iteration.
 * Reordering AlexNet's 38 million weights of fc6, and their gradient, costs more than the
 * multiplication gains. The source is a few thousand times smaller and is reordered if it is in
 * blocks. */
#include "core/fail.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/onednn/primitive.h"

/* A matrix (rows, columns); transposed: held as (columns, rows). */
static crema_status matrix_md(crema_dtype type, int64_t rows, int64_t columns, bool transposed,
                              cr_md *out) {
  dnnl_data_type_t element = dnnl_f32;
  CR_TRY(cr_dnnl_type(type, &element));
  if (rows < 1 || columns < 1) return cr_fail(CREMA_E_UNSUPPORTED, "an empty shape");
  dnnl_dims_t dims = {rows, columns};
  dnnl_dims_t strides = {transposed ? 1 : columns, transposed ? rows : 1};
  return cr_dnnl_check(cr_md_create(out, 2, dims, element, strides), "matrix");
}

/* src, weights, bias, dst: the numbers of the arguments shaped (M,K...), (N,K) or, when transposed,
 * (K,N), (N) and (M,N); bias < 0: the op has none. */
static crema_status ip_open(const cr_plan *plan, int src, int weights, int bias, int dst,
                            cr_dnnl_operands *p) {
  *p = (cr_dnnl_operands){0};
  const crema_shape *shape = &plan->desc->arg[src].shape;
  if (shape->axes < 1) return cr_fail(CREMA_E_UNSUPPORTED, "a source without a batch axis");
  int64_t m = shape->dim[0];
  int64_t k = crema_shape_count(shape, 1, shape->axes);
  const crema_shape *out = &plan->desc->arg[dst].shape;
  int64_t n = crema_shape_count(out, 1, out->axes);
  crema_dtype product = CREMA_F32;
  CR_TRY(cr_dnnl_product_type(plan, src, dst, &product));
  CR_TRY(cr_dnnl_env_open(&p->env, plan->desc));
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(matrix_md(cr_dnnl_operand_type(plan, src, product), m, k, false, &p->src), fail);
  CR_TRY_GOTO(matrix_md(cr_dnnl_operand_type(plan, weights, product), n, k,
                        plan->desc->u.ip.transpose, &p->weights),
              fail);
  if (bias >= 0 && !cr_dnnl_absent(plan, bias)) {
    CR_TRY_GOTO(cr_dnnl_md_plain(plan, bias, cr_dnnl_sum_type(plan, bias, product), &p->bias),
                fail);
  }
  CR_TRY_GOTO(matrix_md(cr_dnnl_operand_type(plan, dst, product), m, n, false, &p->dst), fail);
  return CREMA_OK;
fail:
  cr_dnnl_operands_close(p);
  return status;
}

/* With at least this number of rows, the library's matrix products by batches (brgemm, for AVX-512)
 * are faster than its inner product over plain weights. The inner product packs the weights in each
 * run, and threads wait for each packed part. Gain on Granite Rapids: 1.1x to 1.2x with one thread
 * (bench/layers), 5x with two threads, 16 rows and 1000 columns (the last layers of GoogLeNet and
 * ResNet-50). */
enum { PRODUCT_ROWS = 4 };

/* The arguments of the product: weights (K,N), bias (1,N). */
static crema_status see_as_product(const cr_plan *plan, cr_dnnl_operands *p) {
  const cr_op_desc *desc = plan->desc;
  const int64_t rows = desc->arg[0].shape.dim[0];
  const int64_t k = rows > 0 ? cr_op_arg_count(desc, 0) / rows : 0;
  const int64_t n = rows > 0 ? cr_op_arg_count(desc, 3) / rows : 0;
  crema_dtype product = CREMA_F32;
  CR_TRY(cr_dnnl_product_type(plan, 0, 3, &product));
  cr_md_destroy(p->weights);
  p->weights = NULL;
  CR_TRY(
      matrix_md(cr_dnnl_operand_type(plan, 1, product), k, n, !desc->u.ip.transpose, &p->weights));
  if (p->bias == NULL) return CREMA_OK;
  cr_md_destroy(p->bias);
  p->bias = NULL;
  return matrix_md(cr_dnnl_sum_type(plan, 2, product), 1, n, false, &p->bias);
}

static crema_status plan_product(cr_plan *plan) {
  cr_dnnl_operands p;
  const crema_shape *shape = &plan->desc->arg[0].shape;
  if (shape->axes < 1 || shape->dim[0] < PRODUCT_ROWS) {
    return cr_fail(CREMA_E_UNSUPPORTED, "a product of few rows");
  }
  CR_TRY(ip_open(plan, 0, 1, 2, 3, &p));
  dnnl_primitive_desc_t pd = NULL;
  crema_status status = see_as_product(plan, &p);
  if (status == CREMA_OK) {
    status = cr_dnnl_check(cr_pd_matmul(&pd, &p.env, p.src, p.weights, p.bias, p.dst), "product");
  }
  cr_dnnl_operands_close(&p);
  CR_TRY(status);
  static const cr_dnnl_bind bind[] = {{0, DNNL_ARG_SRC, CR_DNNL_AS_IS},
                                      {1, DNNL_ARG_WEIGHTS, CR_DNNL_AS_IS},
                                      {2, DNNL_ARG_BIAS, CR_DNNL_AS_IS},
                                      {3, DNNL_ARG_DST, CR_DNNL_AS_IS}};
  if (cr_dnnl_pd_named(pd, "brg")) return cr_dnnl_prim_create_posts(plan, pd, bind, 4);
  dnnl_primitive_desc_destroy(pd);
  return cr_fail(CREMA_E_UNSUPPORTED, "oneDNN implements the product otherwise");
}

static crema_status plan_fwd(cr_plan *plan) {
  cr_dnnl_operands p;
  CR_TRY(ip_open(plan, 0, 1, 2, 3, &p));
  dnnl_primitive_desc_t pd = NULL;
  crema_status status = cr_dnnl_check(
      cr_pd_ip_fwd(&pd, &p.env, dnnl_forward_training, p.src, p.weights, p.bias, p.dst),
      "inner product");
  cr_dnnl_operands_close(&p);
  static const cr_dnnl_bind bind[] = {{0, DNNL_ARG_SRC, CR_DNNL_AS_IS},
                                      {1, DNNL_ARG_WEIGHTS, CR_DNNL_AS_IS},
                                      {2, DNNL_ARG_BIAS, CR_DNNL_AS_IS},
                                      {3, DNNL_ARG_DST, CR_DNNL_AS_IS}};
  CR_TRY(status);
  CR_TRY(cr_dnnl_pd_check_product(pd));
  return cr_dnnl_prim_create_posts(plan, pd, bind, 4);
}

static crema_status plan_bwd_data(cr_plan *plan) {
  cr_dnnl_operands p;
  CR_TRY(ip_open(plan, 2, 1, -1, 0, &p));
  dnnl_primitive_desc_t pd = NULL;
  crema_status status = cr_dnnl_check(cr_pd_ip_bwd_data(&pd, &p.env, p.src, p.weights, p.dst),
                                      "inner product backward");
  cr_dnnl_operands_close(&p);
  static const cr_dnnl_bind bind[] = {{0, DNNL_ARG_DIFF_DST, CR_DNNL_AS_IS},
                                      {1, DNNL_ARG_WEIGHTS, CR_DNNL_AS_IS},
                                      {2, DNNL_ARG_DIFF_SRC, CR_DNNL_AS_IS}};
  CR_TRY(status);
  CR_TRY(cr_dnnl_pd_check_product(pd));
  return cr_dnnl_prim_create(plan, pd, bind, 3);
}

static crema_status plan_bwd_weights(cr_plan *plan) {
  cr_dnnl_operands p;
  CR_TRY(ip_open(plan, 0, 2, 3, 1, &p));
  dnnl_primitive_desc_t pd = NULL;
  crema_status status = cr_dnnl_check(
      cr_pd_ip_bwd_weights(&pd, &p.env, p.src, p.weights, p.bias, p.dst), "inner product backward");
  cr_dnnl_operands_close(&p);
  static const cr_dnnl_bind bind[] = {{0, DNNL_ARG_SRC, CR_DNNL_AS_IS},
                                      {1, DNNL_ARG_DIFF_DST, CR_DNNL_AS_IS},
                                      {2, DNNL_ARG_DIFF_WEIGHTS, CR_DNNL_AS_IS},
                                      {3, DNNL_ARG_DIFF_BIAS, CR_DNNL_AS_IS}};
  CR_TRY(status);
  CR_TRY(cr_dnnl_pd_check_product(pd));
  return cr_dnnl_prim_create(plan, pd, bind, 4);
}

CR_KERNEL(ip_fwd_dnnl_matmul, IP_FWD, .types = CR_DNNL_TYPES, CR_DNNL_PRIM, .plan = plan_product,
          .run = cr_dnnl_prim_run_posts);

CR_KERNEL(ip_fwd_dnnl, IP_FWD, .types = CR_DNNL_TYPES, CR_DNNL_PRIM, .plan = plan_fwd,
          .run = cr_dnnl_prim_run_posts);

CR_KERNEL(ip_bwd_data_dnnl, IP_BWD_DATA, .types = CR_DNNL_TYPES, CR_DNNL_PRIM,
          .plan = plan_bwd_data, .run = cr_dnnl_prim_run);

CR_KERNEL(ip_bwd_weights_dnnl, IP_BWD_WEIGHTS, .types = CR_DNNL_TYPES, CR_DNNL_PRIM,
          .plan = plan_bwd_weights, .run = cr_dnnl_prim_run);
