#include "device/cpu/onednn/compat.h"

#include <stdlib.h>
#include <string.h>

#if DNNL_VERSION_MAJOR >= 3

dnnl_status_t cr_md_create_tag(cr_md *out, int ndims, const dnnl_dim_t *dims, dnnl_data_type_t type,
                               dnnl_format_tag_t tag) {
  return dnnl_memory_desc_create_with_tag(out, ndims, dims, type, tag);
}

static dnnl_status_t create_strided(cr_md *out, int ndims, const dnnl_dim_t *dims,
                                    dnnl_data_type_t type, const dnnl_dim_t *strides) {
  return dnnl_memory_desc_create_with_strides(out, ndims, dims, type, strides);
}

dnnl_status_t cr_md_clone(cr_md *out, cr_const_md md) {
  return dnnl_memory_desc_clone(out, md);
}

void cr_md_destroy(cr_md md) {
  if (md != NULL) dnnl_memory_desc_destroy(md);
}

void cr_md_look(cr_const_md md, cr_md_view *out) {
  *out = (cr_md_view){0};
  dnnl_format_kind_t kind = dnnl_format_kind_undef;
  const dnnl_dims_t *dims = NULL, *padded = NULL, *strides = NULL;
  dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &out->ndims);
  dnnl_memory_desc_query(md, dnnl_query_data_type, &out->type);
  dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind);
  dnnl_memory_desc_query(md, dnnl_query_dims, &dims);
  dnnl_memory_desc_query(md, dnnl_query_padded_dims, &padded);
  if (dims != NULL) out->dims = *dims;
  if (padded != NULL) out->padded_dims = *padded;
  dnnl_memory_desc_query(md, dnnl_query_submemory_offset_s64, &out->offset);
  if (kind != dnnl_blocked) return;
  dnnl_memory_desc_query(md, dnnl_query_strides, &strides);
  dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &out->inner_blocks);
  if (strides != NULL) out->strides = *strides;
  const dnnl_dims_t *block = NULL, *block_axis = NULL;
  dnnl_memory_desc_query(md, dnnl_query_inner_blks, &block);
  dnnl_memory_desc_query(md, dnnl_query_inner_idxs, &block_axis);
  if (out->inner_blocks > 0 && block != NULL) out->block = *block;
  if (out->inner_blocks > 0 && block_axis != NULL) out->block_axis = *block_axis;
  out->blocked = out->dims != NULL && out->padded_dims != NULL && out->strides != NULL;
}

#else

static dnnl_status_t allocate(cr_md *out) {
  *out = calloc(1, sizeof **out);
  return *out == NULL ? dnnl_out_of_memory : dnnl_success;
}

/* Keeps *out on success, frees it otherwise. */
static dnnl_status_t keep(cr_md *out, dnnl_status_t status) {
  if (status == dnnl_success) return status;
  free(*out);
  *out = NULL;
  return status;
}

dnnl_status_t cr_md_create_tag(cr_md *out, int ndims, const dnnl_dim_t *dims, dnnl_data_type_t type,
                               dnnl_format_tag_t tag) {
  dnnl_status_t status = allocate(out);
  if (status != dnnl_success) return status;
  return keep(out, dnnl_memory_desc_init_by_tag(*out, ndims, dims, type, tag));
}

static dnnl_status_t create_strided(cr_md *out, int ndims, const dnnl_dim_t *dims,
                                    dnnl_data_type_t type, const dnnl_dim_t *strides) {
  dnnl_status_t status = allocate(out);
  if (status != dnnl_success) return status;
  return keep(out, dnnl_memory_desc_init_by_strides(*out, ndims, dims, type, strides));
}

dnnl_status_t cr_md_clone(cr_md *out, cr_const_md md) {
  dnnl_status_t status = allocate(out);
  if (status == dnnl_success) **out = *md;
  return status;
}

void cr_md_destroy(cr_md md) {
  free(md);
}

void cr_md_look(cr_const_md md, cr_md_view *out) {
  *out = (cr_md_view){.ndims = md->ndims,
                      .type = md->data_type,
                      .dims = md->dims,
                      .padded_dims = md->padded_dims,
                      .offset = md->offset0};
  if (md->format_kind != dnnl_blocked) return;
  out->blocked = true;
  out->strides = md->format_desc.blocking.strides;
  out->inner_blocks = md->format_desc.blocking.inner_nblks;
  out->block = md->format_desc.blocking.inner_blks;
  out->block_axis = md->format_desc.blocking.inner_idxs;
}

#endif

dnnl_status_t cr_md_create(cr_md *out, int ndims, const dnnl_dim_t *dims, dnnl_data_type_t type,
                           const dnnl_dim_t *strides) {
  dnnl_dims_t row_major = {0};
  if (strides == NULL) {
    if (ndims < 1 || ndims > DNNL_MAX_NDIMS) return dnnl_invalid_arguments;
    dnnl_dim_t step = 1;
    for (int i = ndims - 1; i >= 0; --i) {
      row_major[i] = step;
      step *= dims[i];
    }
    strides = row_major;
  }
  return create_strided(out, ndims, dims, type, strides);
}

/* MAKE_FORWARD and MAKE_BACKWARD make *out for `env` by version 3's constructor `now`, or by
 * version 2's initialiser `then` of an operation descriptor; the arguments after these two are
 * common. ONLY_3(x) is an argument that only version 3 takes. A function that uses them begins with
 * BEGIN. */
#if DNNL_VERSION_MAJOR >= 3

#define BEGIN
#define ONLY_3(argument) , argument
#define MAKE_FORWARD(now, then, ...) \
  dnnl_##now##_primitive_desc_create(out, env->engine, __VA_ARGS__, env->attr)
#define MAKE_BACKWARD(now, then, ...) \
  dnnl_##now##_primitive_desc_create(out, env->engine, __VA_ARGS__, env->hint, env->attr)

#else

typedef union op_desc {
  dnnl_convolution_desc_t convolution;
  dnnl_inner_product_desc_t inner_product;
  dnnl_matmul_desc_t matmul;
  dnnl_pooling_desc_t pooling;
  dnnl_lrn_desc_t lrn;
  dnnl_batch_normalization_desc_t batch_normalization;
  dnnl_softmax_v2_desc_t softmax;
  dnnl_eltwise_desc_t eltwise;
} op_desc;

static dnnl_status_t create(dnnl_primitive_desc_t *out, const cr_pd_env *env, const op_desc *op,
                            dnnl_status_t status) {
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(out, op, env->attr, env->engine, env->hint);
}

#define BEGIN op_desc op;
#define ONLY_3(argument)
#define MAKE_FORWARD(now, then, ...) \
  create(out, env, &op, dnnl_##then##_desc_init((void *)&op, __VA_ARGS__))
#define MAKE_BACKWARD MAKE_FORWARD

#endif

dnnl_status_t cr_pd_conv_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                             dnnl_prop_kind_t prop, dnnl_alg_kind_t alg, cr_const_md src,
                             cr_const_md weights, cr_const_md bias, cr_const_md dst,
                             const cr_pd_window *w) {
  BEGIN
  return MAKE_FORWARD(convolution_forward, dilated_convolution_forward, prop, alg, src, weights,
                      bias, dst, w->stride, w->dilate, w->pad_begin, w->pad_end);
}

dnnl_status_t cr_pd_conv_bwd_data(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                  cr_const_md diff_src, cr_const_md weights, cr_const_md diff_dst,
                                  const cr_pd_window *w) {
  BEGIN
  return MAKE_BACKWARD(convolution_backward_data, dilated_convolution_backward_data,
                       dnnl_convolution_direct, diff_src, weights, diff_dst, w->stride, w->dilate,
                       w->pad_begin, w->pad_end);
}

dnnl_status_t cr_pd_conv_bwd_weights(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                     cr_const_md src, cr_const_md diff_weights,
                                     cr_const_md diff_bias, cr_const_md diff_dst,
                                     const cr_pd_window *w) {
  BEGIN
  return MAKE_BACKWARD(convolution_backward_weights, dilated_convolution_backward_weights,
                       dnnl_convolution_direct, src, diff_weights, diff_bias, diff_dst, w->stride,
                       w->dilate, w->pad_begin, w->pad_end);
}

dnnl_status_t cr_pd_ip_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                           cr_const_md src, cr_const_md weights, cr_const_md bias,
                           cr_const_md dst) {
  BEGIN
  return MAKE_FORWARD(inner_product_forward, inner_product_forward, prop, src, weights, bias, dst);
}

dnnl_status_t cr_pd_matmul(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md src,
                           cr_const_md weights, cr_const_md bias, cr_const_md dst) {
  BEGIN
  return MAKE_FORWARD(matmul, matmul, src, weights, bias, dst);
}

dnnl_status_t cr_pd_ip_bwd_data(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                cr_const_md diff_src, cr_const_md weights, cr_const_md diff_dst) {
  BEGIN
  return MAKE_BACKWARD(inner_product_backward_data, inner_product_backward_data, diff_src, weights,
                       diff_dst);
}

dnnl_status_t cr_pd_ip_bwd_weights(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                   cr_const_md src, cr_const_md diff_weights, cr_const_md diff_bias,
                                   cr_const_md diff_dst) {
  BEGIN
  return MAKE_BACKWARD(inner_product_backward_weights, inner_product_backward_weights, src,
                       diff_weights, diff_bias, diff_dst);
}

dnnl_status_t cr_pd_pool_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                             dnnl_prop_kind_t prop, dnnl_alg_kind_t alg, cr_const_md src,
                             cr_const_md dst, const cr_pd_window *w) {
  BEGIN
  return MAKE_FORWARD(pooling_forward, pooling_forward, prop, alg, src, dst, w->stride,
                      w->kernel ONLY_3(w->dilate), w->pad_begin, w->pad_end);
}

dnnl_status_t cr_pd_pool_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_alg_kind_t alg,
                             cr_const_md diff_src, cr_const_md diff_dst, const cr_pd_window *w) {
  BEGIN
  return MAKE_BACKWARD(pooling_backward, pooling_backward, alg, diff_src, diff_dst, w->stride,
                       w->kernel ONLY_3(w->dilate), w->pad_begin, w->pad_end);
}

dnnl_status_t cr_pd_lrn_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                            cr_const_md data, const cr_pd_lrn *p) {
  BEGIN
  return MAKE_FORWARD(lrn_forward, lrn_forward, prop, p->alg, data ONLY_3(data), p->size, p->alpha,
                      p->beta, p->k);
}

dnnl_status_t cr_pd_lrn_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md diff,
                            cr_const_md data, const cr_pd_lrn *p) {
  BEGIN
  return MAKE_BACKWARD(lrn_backward, lrn_backward, p->alg, diff ONLY_3(diff), data, p->size,
                       p->alpha, p->beta, p->k);
}

dnnl_status_t cr_pd_bn_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                           cr_const_md data, float eps, unsigned flags) {
  BEGIN
  return MAKE_FORWARD(batch_normalization_forward, batch_normalization_forward, prop,
                      data ONLY_3(data), eps, flags);
}

dnnl_status_t cr_pd_bn_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                           cr_const_md diff, cr_const_md data, float eps, unsigned flags) {
  BEGIN
  return MAKE_BACKWARD(batch_normalization_backward, batch_normalization_backward, prop,
                       diff ONLY_3(diff), data, eps, flags);
}

dnnl_status_t cr_pd_softmax_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md data,
                                int axis) {
  BEGIN
  return MAKE_FORWARD(softmax_forward, softmax_v2_forward, dnnl_forward_training,
                      dnnl_softmax_accurate, data, data, axis);
}

dnnl_status_t cr_pd_softmax_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md diff,
                                cr_const_md data, int axis) {
  BEGIN
  return MAKE_BACKWARD(softmax_backward, softmax_v2_backward, dnnl_softmax_accurate, diff, diff,
                       data, axis);
}

dnnl_status_t cr_pd_eltwise_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                dnnl_alg_kind_t alg, cr_const_md data, float alpha, float beta) {
  BEGIN
  return MAKE_FORWARD(eltwise_forward, eltwise_forward, dnnl_forward_training, alg,
                      data ONLY_3(data), alpha, beta);
}

dnnl_status_t cr_pd_eltwise_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                dnnl_alg_kind_t alg, cr_const_md diff, cr_const_md data,
                                float alpha) {
  BEGIN
  return MAKE_BACKWARD(eltwise_backward, eltwise_backward, alg, diff ONLY_3(diff), data, alpha,
                       0.0f);
}

dnnl_status_t cr_post_ops_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha,
                                         float beta) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl_post_ops_append_eltwise(ops, alg, alpha, beta);
#else
  return dnnl_post_ops_append_eltwise(ops, 1.0f, alg, alpha, beta);
#endif
}

dnnl_status_t cr_post_ops_append_sum(dnnl_post_ops_t ops, float scale, dnnl_data_type_t type) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl_post_ops_append_sum(ops, scale, 0, type);
#else
  return dnnl_post_ops_append_sum_v2(ops, scale, type);
#endif
}

dnnl_status_t cr_attr_set_factors(dnnl_primitive_attr_t attr, dnnl_post_ops_t ops, int ndims,
                                  dnnl_dim_t channels, const float *factor) {
#if DNNL_VERSION_MAJOR >= 3
  (void)attr, (void)factor;
  dnnl_dims_t dims;
  cr_md md = NULL;
  for (int i = 0; i < ndims; ++i) dims[i] = i == 1 ? channels : 1;
  dnnl_status_t status = cr_md_create(&md, ndims, dims, dnnl_f32, NULL);
  if (status == dnnl_success) status = dnnl_post_ops_append_binary(ops, dnnl_binary_mul, md);
  cr_md_destroy(md);
  return status;
#else
  (void)ops, (void)ndims;
  return dnnl_primitive_attr_set_output_scales(attr, channels, 1 << 1, factor);
#endif
}

int cr_attr_factors_arg(void) {
#if DNNL_VERSION_MAJOR >= 3
  return DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
#else
  return 0;
#endif
}
