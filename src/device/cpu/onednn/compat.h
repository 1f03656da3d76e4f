/* The one file that knows how oneDNN 2.x and 3.x differ.
 *
 * Version 2 describes memory by a public struct and every primitive by an operation descriptor;
 * version 3 has opaque memory descriptors and makes primitive descriptors in one call. Here both
 * look like version 3: a cr_md is an owned handle, a cr_const_md a borrowed one.
 *
 * All functions return oneDNN's own status; cr_dnnl_check (onednn/layout.h) turns it into ours.
 * Primitive descriptors are owned by the caller (dnnl_primitive_desc_destroy). */
#ifndef CR_DEVICE_CPU_ONEDNN_COMPAT_H
#define CR_DEVICE_CPU_ONEDNN_COMPAT_H

#include <dnnl.h>
#include <dnnl_version.h>
#include <stdbool.h>
#include <stddef.h>

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t cr_md;
typedef const_dnnl_memory_desc_t cr_const_md;
#else
typedef dnnl_memory_desc_t *cr_md;
typedef const dnnl_memory_desc_t *cr_const_md;
#endif

/* Common arguments of all primitive descriptors. hint: the forward primitive's descriptor, for
 * backward primitives; attr and hint may be NULL. */
typedef struct cr_pd_env {
  dnnl_engine_t engine;
  const_dnnl_primitive_attr_t attr;
  const_dnnl_primitive_desc_t hint;
} cr_pd_env;

/* A window over the spatial axes; entry i belongs to spatial axis i. dilate: 0 is dense.
 * pad_end may be negative: the last elements are not reached. */
typedef struct cr_pd_window {
  dnnl_dims_t kernel, stride, dilate, pad_begin, pad_end;
} cr_pd_window;

/* Memory descriptors: */

/* strides NULL: row-major. */
dnnl_status_t cr_md_create(cr_md *out, int ndims, const dnnl_dim_t *dims, dnnl_data_type_t type,
                           const dnnl_dim_t *strides);
/* With a format tag; dnnl_format_tag_any leaves the choice to the primitive. */
dnnl_status_t cr_md_create_tag(cr_md *out, int ndims, const dnnl_dim_t *dims, dnnl_data_type_t type,
                               dnnl_format_tag_t tag);
dnnl_status_t cr_md_clone(cr_md *out, cr_const_md md);
/* Accepts NULL. */
void cr_md_destroy(cr_md md);

/* The parts of a descriptor; the pointers belong to it. Without `blocked`, strides and inner blocks
 * have no meaning. Inner block i, the outermost first, is block[i] elements of axis block_axis[i].
 */
typedef struct cr_md_view {
  int ndims;
  dnnl_data_type_t type;
  const dnnl_dim_t *dims, *padded_dims, *strides;
  dnnl_dim_t offset;
  bool blocked;
  int inner_blocks;
  const dnnl_dim_t *block, *block_axis; /* NULL without inner blocks */
} cr_md_view;
void cr_md_look(cr_const_md md, cr_md_view *out);

/* Primitive descriptors; bias may be NULL: */

dnnl_status_t cr_pd_conv_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                             dnnl_prop_kind_t prop, dnnl_alg_kind_t alg, cr_const_md src,
                             cr_const_md weights, cr_const_md bias, cr_const_md dst,
                             const cr_pd_window *window);
dnnl_status_t cr_pd_conv_bwd_data(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                  cr_const_md diff_src, cr_const_md weights, cr_const_md diff_dst,
                                  const cr_pd_window *window);
dnnl_status_t cr_pd_conv_bwd_weights(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                     cr_const_md src, cr_const_md diff_weights,
                                     cr_const_md diff_bias, cr_const_md diff_dst,
                                     const cr_pd_window *window);

dnnl_status_t cr_pd_ip_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                           cr_const_md src, cr_const_md weights, cr_const_md bias, cr_const_md dst);
/* dst (M,N) = src (M,K) weights (K,N) + bias (1,N). */
dnnl_status_t cr_pd_matmul(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md src,
                           cr_const_md weights, cr_const_md bias, cr_const_md dst);
dnnl_status_t cr_pd_ip_bwd_data(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                cr_const_md diff_src, cr_const_md weights, cr_const_md diff_dst);
dnnl_status_t cr_pd_ip_bwd_weights(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                   cr_const_md src, cr_const_md diff_weights, cr_const_md diff_bias,
                                   cr_const_md diff_dst);

dnnl_status_t cr_pd_pool_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                             dnnl_prop_kind_t prop, dnnl_alg_kind_t alg, cr_const_md src,
                             cr_const_md dst, const cr_pd_window *window);
dnnl_status_t cr_pd_pool_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_alg_kind_t alg,
                             cr_const_md diff_src, cr_const_md diff_dst,
                             const cr_pd_window *window);

/* dst = src * (k + alpha / n * sum of squares)^-beta over a window of `size`. */
typedef struct cr_pd_lrn {
  dnnl_alg_kind_t alg;
  dnnl_dim_t size;
  float alpha, beta, k;
} cr_pd_lrn;
dnnl_status_t cr_pd_lrn_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                            cr_const_md data, const cr_pd_lrn *lrn);
dnnl_status_t cr_pd_lrn_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md diff,
                            cr_const_md data, const cr_pd_lrn *lrn);

dnnl_status_t cr_pd_bn_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                           cr_const_md data, float eps, unsigned flags);
dnnl_status_t cr_pd_bn_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, dnnl_prop_kind_t prop,
                           cr_const_md diff, cr_const_md data, float eps, unsigned flags);

dnnl_status_t cr_pd_softmax_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md data,
                                int axis);
dnnl_status_t cr_pd_softmax_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env, cr_const_md diff,
                                cr_const_md data, int axis);

dnnl_status_t cr_pd_eltwise_fwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                dnnl_alg_kind_t alg, cr_const_md data, float alpha, float beta);
/* data: the forward source, or for the use_dst algorithms its destination. */
dnnl_status_t cr_pd_eltwise_bwd(dnnl_primitive_desc_t *out, const cr_pd_env *env,
                                dnnl_alg_kind_t alg, cr_const_md diff, cr_const_md data,
                                float alpha);

/* Post operations: */

dnnl_status_t cr_post_ops_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha,
                                         float beta);
/* Adds `scale` times the old content of the result's memory, which has `type`
 * (dnnl_data_type_undef: the result's type). */
dnnl_status_t cr_post_ops_append_sum(dnnl_post_ops_t ops, float scale, dnnl_data_type_t type);

/* Multiplies results (N,O,...) of `ndims` axes by a factor per output channel, after the bias and
 * before the other post operations; call it first. Version 2 keeps the factors in the attributes.
 * Version 3 takes them when the primitive runs, as argument cr_attr_factors_arg, which is 0 for
 * version 2. */
dnnl_status_t cr_attr_set_factors(dnnl_primitive_attr_t attr, dnnl_post_ops_t ops, int ndims,
                                  dnnl_dim_t channels, const float *factor);
int cr_attr_factors_arg(void);

#endif
