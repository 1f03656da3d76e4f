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

/* The second half of every version 2 constructor. */
static dnnl_status_t finish(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                            const_dnnl_op_desc_t op, dnnl_status_t status) {
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(out, op, env->attr, env->engine, env->hint);
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

/* ---- primitive descriptors ----------------------------------------------- */

#if DNNL_VERSION_MAJOR >= 3

dnnl_status_t cr_pd_conv_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                             dnnl_prop_kind_t prop, cr_const_md src, cr_const_md weights,
                             cr_const_md bias, cr_const_md dst, const cr_pd_window *w) {
  return dnnl_convolution_forward_primitive_desc_create(
      out, env->engine, prop, dnnl_convolution_direct, src, weights, bias, dst, w->stride,
      w->dilate, w->pad_begin, w->pad_end, env->attr);
}

dnnl_status_t cr_pd_conv_winograd(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md src,
                                  cr_const_md weights, cr_const_md bias, cr_const_md dst,
                                  const cr_pd_window *w) {
  return dnnl_convolution_forward_primitive_desc_create(
      out, env->engine, dnnl_forward_training, dnnl_convolution_winograd, src, weights, bias, dst,
      w->stride, w->dilate, w->pad_begin, w->pad_end, env->attr);
}

dnnl_status_t cr_pd_conv_bwd_data(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                  cr_const_md diff_src, cr_const_md weights, cr_const_md diff_dst,
                                  const cr_pd_window *w) {
  return dnnl_convolution_backward_data_primitive_desc_create(
      out, env->engine, dnnl_convolution_direct, diff_src, weights, diff_dst, w->stride, w->dilate,
      w->pad_begin, w->pad_end, env->hint, env->attr);
}

dnnl_status_t cr_pd_conv_bwd_weights(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                     cr_const_md src, cr_const_md diff_weights,
                                     cr_const_md diff_bias, cr_const_md diff_dst,
                                     const cr_pd_window *w) {
  return dnnl_convolution_backward_weights_primitive_desc_create(
      out, env->engine, dnnl_convolution_direct, src, diff_weights, diff_bias, diff_dst, w->stride,
      w->dilate, w->pad_begin, w->pad_end, env->hint, env->attr);
}

dnnl_status_t cr_pd_ip_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                           cr_const_md src, cr_const_md weights, cr_const_md bias,
                           cr_const_md dst) {
  return dnnl_inner_product_forward_primitive_desc_create(out, env->engine, prop, src, weights,
                                                          bias, dst, env->attr);
}

dnnl_status_t cr_pd_matmul(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md src,
                           cr_const_md weights, cr_const_md bias, cr_const_md dst) {
  return dnnl_matmul_primitive_desc_create(out, env->engine, src, weights, bias, dst, env->attr);
}

dnnl_status_t cr_pd_ip_bwd_data(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                cr_const_md diff_src, cr_const_md weights, cr_const_md diff_dst) {
  return dnnl_inner_product_backward_data_primitive_desc_create(out, env->engine, diff_src, weights,
                                                                diff_dst, env->hint, env->attr);
}

dnnl_status_t cr_pd_ip_bwd_weights(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                   cr_const_md src, cr_const_md diff_weights, cr_const_md diff_bias,
                                   cr_const_md diff_dst) {
  return dnnl_inner_product_backward_weights_primitive_desc_create(
      out, env->engine, src, diff_weights, diff_bias, diff_dst, env->hint, env->attr);
}

dnnl_status_t cr_pd_pool_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                             dnnl_prop_kind_t prop, dnnl_alg_kind_t alg, cr_const_md src,
                             cr_const_md dst, const cr_pd_window *w) {
  return dnnl_pooling_forward_primitive_desc_create(out, env->engine, prop, alg, src, dst,
                                                    w->stride, w->kernel, w->dilate, w->pad_begin,
                                                    w->pad_end, env->attr);
}

dnnl_status_t cr_pd_pool_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_alg_kind_t alg,
                             cr_const_md diff_src, cr_const_md diff_dst, const cr_pd_window *w) {
  return dnnl_pooling_backward_primitive_desc_create(out, env->engine, alg, diff_src, diff_dst,
                                                     w->stride, w->kernel, w->dilate, w->pad_begin,
                                                     w->pad_end, env->hint, env->attr);
}

dnnl_status_t cr_pd_lrn_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                            cr_const_md data, const cr_pd_lrn *p) {
  return dnnl_lrn_forward_primitive_desc_create(out, env->engine, prop, p->alg, data, data, p->size,
                                                p->alpha, p->beta, p->k, env->attr);
}

dnnl_status_t cr_pd_lrn_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md diff,
                            cr_const_md data, const cr_pd_lrn *p) {
  return dnnl_lrn_backward_primitive_desc_create(out, env->engine, p->alg, diff, diff, data,
                                                 p->size, p->alpha, p->beta, p->k, env->hint,
                                                 env->attr);
}

dnnl_status_t cr_pd_bn_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                           cr_const_md data, float eps, unsigned flags) {
  return dnnl_batch_normalization_forward_primitive_desc_create(out, env->engine, prop, data, data,
                                                                eps, flags, env->attr);
}

dnnl_status_t cr_pd_bn_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                           cr_const_md diff, cr_const_md data, float eps, unsigned flags) {
  return dnnl_batch_normalization_backward_primitive_desc_create(
      out, env->engine, prop, diff, diff, data, eps, flags, env->hint, env->attr);
}

dnnl_status_t cr_pd_softmax_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md data,
                                int axis) {
  return dnnl_softmax_forward_primitive_desc_create(
      out, env->engine, dnnl_forward_training, dnnl_softmax_accurate, data, data, axis, env->attr);
}

dnnl_status_t cr_pd_softmax_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md diff,
                                cr_const_md data, int axis) {
  return dnnl_softmax_backward_primitive_desc_create(out, env->engine, dnnl_softmax_accurate, diff,
                                                     diff, data, axis, env->hint, env->attr);
}

dnnl_status_t cr_pd_eltwise_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                dnnl_alg_kind_t alg, cr_const_md data, float alpha, float beta) {
  return dnnl_eltwise_forward_primitive_desc_create(out, env->engine, dnnl_forward_training, alg,
                                                    data, data, alpha, beta, env->attr);
}

dnnl_status_t cr_pd_eltwise_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                dnnl_alg_kind_t alg, cr_const_md diff, cr_const_md data,
                                float alpha) {
  return dnnl_eltwise_backward_primitive_desc_create(out, env->engine, alg, diff, diff, data, alpha,
                                                     0.0f, env->hint, env->attr);
}

dnnl_status_t cr_post_ops_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha,
                                         float beta) {
  return dnnl_post_ops_append_eltwise(ops, alg, alpha, beta);
}

dnnl_status_t cr_post_ops_append_sum(dnnl_post_ops_t ops, float scale, dnnl_data_type_t type) {
  return dnnl_post_ops_append_sum(ops, scale, 0, type);
}

dnnl_status_t cr_post_ops_append_numbers(dnnl_post_ops_t ops, int ndims, dnnl_dim_t channels) {
  dnnl_dims_t dims;
  cr_md md = NULL;
  for (int i = 0; i < ndims; ++i) dims[i] = i == 1 ? channels : 1;
  dnnl_status_t status = cr_md_create(&md, ndims, dims, dnnl_f32, NULL);
  if (status == dnnl_success) status = dnnl_post_ops_append_binary(ops, dnnl_binary_mul, md);
  cr_md_destroy(md);
  return status;
}

dnnl_status_t cr_attr_set_numbers(dnnl_primitive_attr_t attr, dnnl_dim_t channels,
                                  const float *number) {
  (void)attr, (void)channels, (void)number;
  return dnnl_success;
}

int cr_attr_numbers_arg(void) {
  return DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
}

#else

dnnl_status_t cr_pd_conv_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                             dnnl_prop_kind_t prop, cr_const_md src, cr_const_md weights,
                             cr_const_md bias, cr_const_md dst, const cr_pd_window *w) {
  dnnl_convolution_desc_t op;
  return finish(out, env, &op,
                dnnl_dilated_convolution_forward_desc_init(&op, prop, dnnl_convolution_direct, src,
                                                           weights, bias, dst, w->stride, w->dilate,
                                                           w->pad_begin, w->pad_end));
}

dnnl_status_t cr_pd_conv_winograd(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md src,
                                  cr_const_md weights, cr_const_md bias, cr_const_md dst,
                                  const cr_pd_window *w) {
  dnnl_convolution_desc_t op;
  return finish(out, env, &op,
                dnnl_dilated_convolution_forward_desc_init(
                    &op, dnnl_forward_training, dnnl_convolution_winograd, src, weights, bias, dst,
                    w->stride, w->dilate, w->pad_begin, w->pad_end));
}

dnnl_status_t cr_pd_conv_bwd_data(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                  cr_const_md diff_src, cr_const_md weights, cr_const_md diff_dst,
                                  const cr_pd_window *w) {
  dnnl_convolution_desc_t op;
  return finish(out, env, &op,
                dnnl_dilated_convolution_backward_data_desc_init(
                    &op, dnnl_convolution_direct, diff_src, weights, diff_dst, w->stride, w->dilate,
                    w->pad_begin, w->pad_end));
}

dnnl_status_t cr_pd_conv_bwd_weights(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                     cr_const_md src, cr_const_md diff_weights,
                                     cr_const_md diff_bias, cr_const_md diff_dst,
                                     const cr_pd_window *w) {
  dnnl_convolution_desc_t op;
  return finish(out, env, &op,
                dnnl_dilated_convolution_backward_weights_desc_init(
                    &op, dnnl_convolution_direct, src, diff_weights, diff_bias, diff_dst, w->stride,
                    w->dilate, w->pad_begin, w->pad_end));
}

dnnl_status_t cr_pd_ip_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                           cr_const_md src, cr_const_md weights, cr_const_md bias,
                           cr_const_md dst) {
  dnnl_inner_product_desc_t op;
  return finish(out, env, &op,
                dnnl_inner_product_forward_desc_init(&op, prop, src, weights, bias, dst));
}

dnnl_status_t cr_pd_matmul(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md src,
                           cr_const_md weights, cr_const_md bias, cr_const_md dst) {
  dnnl_matmul_desc_t op;
  return finish(out, env, &op, dnnl_matmul_desc_init(&op, src, weights, bias, dst));
}

dnnl_status_t cr_pd_ip_bwd_data(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                cr_const_md diff_src, cr_const_md weights, cr_const_md diff_dst) {
  dnnl_inner_product_desc_t op;
  return finish(out, env, &op,
                dnnl_inner_product_backward_data_desc_init(&op, diff_src, weights, diff_dst));
}

dnnl_status_t cr_pd_ip_bwd_weights(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                   cr_const_md src, cr_const_md diff_weights, cr_const_md diff_bias,
                                   cr_const_md diff_dst) {
  dnnl_inner_product_desc_t op;
  return finish(
      out, env, &op,
      dnnl_inner_product_backward_weights_desc_init(&op, src, diff_weights, diff_bias, diff_dst));
}

dnnl_status_t cr_pd_pool_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                             dnnl_prop_kind_t prop, dnnl_alg_kind_t alg, cr_const_md src,
                             cr_const_md dst, const cr_pd_window *w) {
  dnnl_pooling_desc_t op;
  return finish(out, env, &op,
                dnnl_pooling_forward_desc_init(&op, prop, alg, src, dst, w->stride, w->kernel,
                                               w->pad_begin, w->pad_end));
}

dnnl_status_t cr_pd_pool_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_alg_kind_t alg,
                             cr_const_md diff_src, cr_const_md diff_dst, const cr_pd_window *w) {
  dnnl_pooling_desc_t op;
  return finish(out, env, &op,
                dnnl_pooling_backward_desc_init(&op, alg, diff_src, diff_dst, w->stride, w->kernel,
                                                w->pad_begin, w->pad_end));
}

dnnl_status_t cr_pd_lrn_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                            cr_const_md data, const cr_pd_lrn *p) {
  dnnl_lrn_desc_t op;
  return finish(
      out, env, &op,
      dnnl_lrn_forward_desc_init(&op, prop, p->alg, data, p->size, p->alpha, p->beta, p->k));
}

dnnl_status_t cr_pd_lrn_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md diff,
                            cr_const_md data, const cr_pd_lrn *p) {
  dnnl_lrn_desc_t op;
  return finish(
      out, env, &op,
      dnnl_lrn_backward_desc_init(&op, p->alg, diff, data, p->size, p->alpha, p->beta, p->k));
}

dnnl_status_t cr_pd_bn_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                           cr_const_md data, float eps, unsigned flags) {
  dnnl_batch_normalization_desc_t op;
  return finish(out, env, &op,
                dnnl_batch_normalization_forward_desc_init(&op, prop, data, eps, flags));
}

dnnl_status_t cr_pd_bn_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                           cr_const_md diff, cr_const_md data, float eps, unsigned flags) {
  dnnl_batch_normalization_desc_t op;
  return finish(out, env, &op,
                dnnl_batch_normalization_backward_desc_init(&op, prop, diff, data, eps, flags));
}

dnnl_status_t cr_pd_softmax_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md data,
                                int axis) {
  dnnl_softmax_v2_desc_t op;
  return finish(out, env, &op,
                dnnl_softmax_v2_forward_desc_init(&op, dnnl_forward_training, dnnl_softmax_accurate,
                                                  data, data, axis));
}

dnnl_status_t cr_pd_softmax_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md diff,
                                cr_const_md data, int axis) {
  dnnl_softmax_v2_desc_t op;
  return finish(
      out, env, &op,
      dnnl_softmax_v2_backward_desc_init(&op, dnnl_softmax_accurate, diff, diff, data, axis));
}

dnnl_status_t cr_pd_eltwise_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                dnnl_alg_kind_t alg, cr_const_md data, float alpha, float beta) {
  dnnl_eltwise_desc_t op;
  return finish(out, env, &op,
                dnnl_eltwise_forward_desc_init(&op, dnnl_forward_training, alg, data, alpha, beta));
}

dnnl_status_t cr_pd_eltwise_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                dnnl_alg_kind_t alg, cr_const_md diff, cr_const_md data,
                                float alpha) {
  dnnl_eltwise_desc_t op;
  return finish(out, env, &op, dnnl_eltwise_backward_desc_init(&op, alg, diff, data, alpha, 0.0f));
}

dnnl_status_t cr_post_ops_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha,
                                         float beta) {
  return dnnl_post_ops_append_eltwise(ops, 1.0f, alg, alpha, beta);
}

dnnl_status_t cr_post_ops_append_sum(dnnl_post_ops_t ops, float scale, dnnl_data_type_t type) {
  return dnnl_post_ops_append_sum_v2(ops, scale, type);
}

dnnl_status_t cr_post_ops_append_numbers(dnnl_post_ops_t ops, int ndims, dnnl_dim_t channels) {
  (void)ops, (void)ndims, (void)channels;
  return dnnl_success;
}

dnnl_status_t cr_attr_set_numbers(dnnl_primitive_attr_t attr, dnnl_dim_t channels,
                                  const float *number) {
  return dnnl_primitive_attr_set_output_scales(attr, channels, 1 << 1, number);
}

int cr_attr_numbers_arg(void) {
  return 0;
}

#endif
