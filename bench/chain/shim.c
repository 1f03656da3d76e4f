#include "chain/shim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void shim_die(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  exit(1);
}

void shim_check(dnnl_status_t status, const char *file, int line) {
  if (status != dnnl_success) shim_die("%s:%d: oneDNN status %d", file, line, (int)status);
}

md_own md_plain(int axes, const dnnl_dim_t *dims) {
  static const dnnl_format_tag_t tags[] = {dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};
  return md_make(axes, dims, tags[axes - 1]);
}

dnnl_primitive_attr_t attr_relu(void) {
  dnnl_primitive_attr_t attr;
  dnnl_post_ops_t ops;
  CHECK(dnnl_primitive_attr_create(&attr));
  CHECK(dnnl_post_ops_create(&ops));
#if DNNL_VERSION_MAJOR >= 3
  CHECK(dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0.0f, 0.0f));
#else
  CHECK(dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f));
#endif
  CHECK(dnnl_primitive_attr_set_post_ops(attr, ops));
  CHECK(dnnl_post_ops_destroy(ops));
  return attr;
}

dnnl_primitive_desc_t pd_reorder(dnnl_engine_t engine, md_ref dst, md_ref src) {
  dnnl_primitive_desc_t pd;
  CHECK(dnnl_reorder_primitive_desc_create(&pd, src, engine, dst, engine, NULL));
  return pd;
}

#if DNNL_VERSION_MAJOR >= 3

md_own md_make(int axes, const dnnl_dim_t *dims, dnnl_format_tag_t tag) {
  md_own md;
  CHECK(dnnl_memory_desc_create_with_tag(&md, axes, dims, dnnl_f32, tag));
  return md;
}

void md_free(md_own md) {
  dnnl_memory_desc_destroy(md);
}

dnnl_primitive_desc_t pd_product_fwd(dnnl_engine_t engine, bool train, const product_mds *md,
                                     const conv_window *w, const_dnnl_primitive_attr_t attr) {
  dnnl_primitive_desc_t pd;
  dnnl_prop_kind_t prop = train ? dnnl_forward_training : dnnl_forward_inference;
  if (w == NULL) {
    CHECK(dnnl_inner_product_forward_primitive_desc_create(&pd, engine, prop, md->src, md->weights,
                                                           md->bias, md->dst, attr));
  } else {
    dnnl_dims_t dense = {0};
    CHECK(dnnl_convolution_forward_primitive_desc_create(
        &pd, engine, prop, dnnl_convolution_direct, md->src, md->weights, md->bias, md->dst,
        w->stride, dense, w->pad_begin, w->pad_end, attr));
  }
  return pd;
}

dnnl_primitive_desc_t pd_product_bwd_data(dnnl_engine_t engine, const product_mds *md,
                                          const conv_window *w, dnnl_primitive_desc_t hint) {
  dnnl_primitive_desc_t pd;
  if (w == NULL) {
    CHECK(dnnl_inner_product_backward_data_primitive_desc_create(&pd, engine, md->src, md->weights,
                                                                 md->dst, hint, NULL));
  } else {
    dnnl_dims_t dense = {0};
    CHECK(dnnl_convolution_backward_data_primitive_desc_create(
        &pd, engine, dnnl_convolution_direct, md->src, md->weights, md->dst, w->stride, dense,
        w->pad_begin, w->pad_end, hint, NULL));
  }
  return pd;
}

dnnl_primitive_desc_t pd_product_bwd_weights(dnnl_engine_t engine, const product_mds *md,
                                             const conv_window *w, dnnl_primitive_desc_t hint) {
  dnnl_primitive_desc_t pd;
  if (w == NULL) {
    CHECK(dnnl_inner_product_backward_weights_primitive_desc_create(
        &pd, engine, md->src, md->weights, md->bias, md->dst, hint, NULL));
  } else {
    dnnl_dims_t dense = {0};
    CHECK(dnnl_convolution_backward_weights_primitive_desc_create(
        &pd, engine, dnnl_convolution_direct, md->src, md->weights, md->bias, md->dst, w->stride,
        dense, w->pad_begin, w->pad_end, hint, NULL));
  }
  return pd;
}

dnnl_primitive_desc_t pd_pool(dnnl_engine_t engine, bool max, md_ref src, md_ref dst,
                              const pool_window *w) {
  dnnl_primitive_desc_t pd;
  dnnl_dims_t dense = {0};
  CHECK(dnnl_pooling_forward_primitive_desc_create(
      &pd, engine, dnnl_forward_inference,
      max ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding, src, dst, w->stride, w->kernel,
      dense, w->pad_begin, w->pad_end, NULL));
  return pd;
}

dnnl_primitive_desc_t pd_lrn(dnnl_engine_t engine, md_ref data, dnnl_dim_t size, float alpha,
                             float beta) {
  dnnl_primitive_desc_t pd;
  CHECK(dnnl_lrn_forward_primitive_desc_create(&pd, engine, dnnl_forward_inference,
                                               dnnl_lrn_across_channels, data, data, size, alpha,
                                               beta, 1.0f, NULL));
  return pd;
}

dnnl_primitive_desc_t pd_softmax(dnnl_engine_t engine, md_ref data, int axis) {
  dnnl_primitive_desc_t pd;
  CHECK(dnnl_softmax_forward_primitive_desc_create(&pd, engine, dnnl_forward_inference,
                                                   dnnl_softmax_accurate, data, data, axis, NULL));
  return pd;
}

dnnl_primitive_desc_t pd_concat(dnnl_engine_t engine, int n, int axis, const md_ref *src) {
  dnnl_primitive_desc_t pd;
  CHECK(dnnl_concat_primitive_desc_create(&pd, engine, NULL, n, axis, src, NULL));
  return pd;
}

#else

md_own md_make(int axes, const dnnl_dim_t *dims, dnnl_format_tag_t tag) {
  md_own md = calloc(1, sizeof *md);
  if (md == NULL) shim_die("out of memory");
  CHECK(dnnl_memory_desc_init_by_tag(md, axes, dims, dnnl_f32, tag));
  return md;
}

void md_free(md_own md) {
  free(md);
}

static dnnl_primitive_desc_t finish(const_dnnl_op_desc_t op, dnnl_engine_t engine,
                                    const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint) {
  dnnl_primitive_desc_t pd;
  CHECK(dnnl_primitive_desc_create(&pd, op, attr, engine, hint));
  return pd;
}

dnnl_primitive_desc_t pd_product_fwd(dnnl_engine_t engine, bool train, const product_mds *md,
                                     const conv_window *w, const_dnnl_primitive_attr_t attr) {
  dnnl_prop_kind_t prop = train ? dnnl_forward_training : dnnl_forward_inference;
  if (w == NULL) {
    dnnl_inner_product_desc_t op;
    CHECK(dnnl_inner_product_forward_desc_init(&op, prop, md->src, md->weights, md->bias, md->dst));
    return finish(&op, engine, attr, NULL);
  }
  dnnl_convolution_desc_t op;
  CHECK(dnnl_convolution_forward_desc_init(&op, prop, dnnl_convolution_direct, md->src, md->weights,
                                           md->bias, md->dst, w->stride, w->pad_begin, w->pad_end));
  return finish(&op, engine, attr, NULL);
}

dnnl_primitive_desc_t pd_product_bwd_data(dnnl_engine_t engine, const product_mds *md,
                                          const conv_window *w, dnnl_primitive_desc_t hint) {
  if (w == NULL) {
    dnnl_inner_product_desc_t op;
    CHECK(dnnl_inner_product_backward_data_desc_init(&op, md->src, md->weights, md->dst));
    return finish(&op, engine, NULL, hint);
  }
  dnnl_convolution_desc_t op;
  CHECK(dnnl_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, md->src, md->weights,
                                                 md->dst, w->stride, w->pad_begin, w->pad_end));
  return finish(&op, engine, NULL, hint);
}

dnnl_primitive_desc_t pd_product_bwd_weights(dnnl_engine_t engine, const product_mds *md,
                                             const conv_window *w, dnnl_primitive_desc_t hint) {
  if (w == NULL) {
    dnnl_inner_product_desc_t op;
    CHECK(dnnl_inner_product_backward_weights_desc_init(&op, md->src, md->weights, md->bias,
                                                        md->dst));
    return finish(&op, engine, NULL, hint);
  }
  dnnl_convolution_desc_t op;
  CHECK(dnnl_convolution_backward_weights_desc_init(&op, dnnl_convolution_direct, md->src,
                                                    md->weights, md->bias, md->dst, w->stride,
                                                    w->pad_begin, w->pad_end));
  return finish(&op, engine, NULL, hint);
}

dnnl_primitive_desc_t pd_pool(dnnl_engine_t engine, bool max, md_ref src, md_ref dst,
                              const pool_window *w) {
  dnnl_pooling_desc_t op;
  CHECK(dnnl_pooling_forward_desc_init(&op, dnnl_forward_inference,
                                       max ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding,
                                       src, dst, w->stride, w->kernel, w->pad_begin, w->pad_end));
  return finish(&op, engine, NULL, NULL);
}

dnnl_primitive_desc_t pd_lrn(dnnl_engine_t engine, md_ref data, dnnl_dim_t size, float alpha,
                             float beta) {
  dnnl_lrn_desc_t op;
  CHECK(dnnl_lrn_forward_desc_init(&op, dnnl_forward_inference, dnnl_lrn_across_channels, data,
                                   size, alpha, beta, 1.0f));
  return finish(&op, engine, NULL, NULL);
}

dnnl_primitive_desc_t pd_softmax(dnnl_engine_t engine, md_ref data, int axis) {
  dnnl_softmax_v2_desc_t op;
  CHECK(dnnl_softmax_v2_forward_desc_init(&op, dnnl_forward_inference, dnnl_softmax_accurate, data,
                                          data, axis));
  return finish(&op, engine, NULL, NULL);
}

dnnl_primitive_desc_t pd_concat(dnnl_engine_t engine, int n, int axis, const md_ref *src) {
  dnnl_memory_desc_t all[8];
  if (n > 8) shim_die("too many sources");
  for (int i = 0; i < n; ++i) all[i] = *src[i];
  dnnl_primitive_desc_t pd;
  CHECK(dnnl_concat_primitive_desc_create(&pd, NULL, n, axis, all, NULL, engine));
  return pd;
}

#endif
