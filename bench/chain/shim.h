/* One interface to oneDNN 2.x and 3.x, for the bare chain. Nothing here or in this folder uses
 * crema: it is what crema is measured against. Any failure ends the program with a message. */
#ifndef BENCH_CHAIN_SHIM_H
#define BENCH_CHAIN_SHIM_H

#include <dnnl.h>
#include <dnnl_version.h>
#include <stdbool.h>

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t md_own;
typedef const_dnnl_memory_desc_t md_ref;
#else
typedef dnnl_memory_desc_t *md_own;
typedef const dnnl_memory_desc_t *md_ref;
#endif

#define CHECK(call) shim_check((call), __FILE__, __LINE__)
void shim_check(dnnl_status_t status, const char *file, int line);
void shim_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* f32 in the given format; free with md_free. */
md_own md_make(int axes, const dnnl_dim_t *dims, dnnl_format_tag_t tag);
void md_free(md_own md);
/* Row-major, any number of axes. */
md_own md_plain(int axes, const dnnl_dim_t *dims);

typedef struct product_mds {
  md_ref src, weights, bias, dst; /* bias may be NULL */
} product_mds;

typedef struct conv_window {
  dnnl_dims_t stride, pad_begin, pad_end;
} conv_window;

/* window NULL: an inner product. attr may be NULL. */
dnnl_primitive_desc_t pd_product_fwd(dnnl_engine_t engine, bool train, const product_mds *md,
                                     const conv_window *window, const_dnnl_primitive_attr_t attr);
dnnl_primitive_desc_t pd_product_bwd_data(dnnl_engine_t engine, const product_mds *md,
                                          const conv_window *window, dnnl_primitive_desc_t hint);
dnnl_primitive_desc_t pd_product_bwd_weights(dnnl_engine_t engine, const product_mds *md,
                                             const conv_window *window, dnnl_primitive_desc_t hint);

typedef struct pool_window {
  dnnl_dims_t kernel, stride, pad_begin, pad_end;
} pool_window;
dnnl_primitive_desc_t pd_pool(dnnl_engine_t engine, bool max, md_ref src, md_ref dst,
                              const pool_window *window);
dnnl_primitive_desc_t pd_lrn(dnnl_engine_t engine, md_ref data, dnnl_dim_t size, float alpha,
                             float beta);
dnnl_primitive_desc_t pd_softmax(dnnl_engine_t engine, md_ref data, int axis);
dnnl_primitive_desc_t pd_concat(dnnl_engine_t engine, int n, int axis, const md_ref *src);
dnnl_primitive_desc_t pd_reorder(dnnl_engine_t engine, md_ref dst, md_ref src);

/* Attributes with a ReLU after the primitive. Free with dnnl_primitive_attr_destroy. */
dnnl_primitive_attr_t attr_relu(void);

#endif
