/* Crema's own matrix products and convolutions (product.cl). */
#ifndef CR_OPENCL_OPENCL_PRODUCT_H
#define CR_OPENCL_OPENCL_PRODUCT_H

#include "device/gpu/rows.h"
#include "device/opencl/opencl_private.h"

typedef enum cr_product_kind {
  CR_PRODUCT_PLAIN,
  CR_PRODUCT_FORWARD, /* m: output channels of a group, n: images times positions, k: the window */
  CR_PRODUCT_DATA,    /* m: input channels of a group, n: images times inputs */
  CR_PRODUCT_WEIGHTS  /* m: output channels of a group, n: the window, k: images times positions */
} cr_product_kind;

/* The same in product.cl. */
typedef struct cr_product {
  int64_t m, n, k;
  int32_t a_transposed, b_transposed, add, type;
  int32_t group_in, group_out, all_in, all_out;
  int32_t in[2], out[2], window[2], stride[2], pad[2], dilation[2];
  cr_divisor by_window, by_window_row, by_in, by_in_row, by_out, by_out_row, by_stride[2];
} cr_product;

/* Queues the product for each of `groups` groups. bias: address 0: none. Errors: CREMA_E_DEVICE. */
crema_status cr_opencl_product(crema_context *context, cr_product_kind kind,
                               const cr_product *product, int64_t groups, const void *a,
                               const void *b, const void *bias, void *c) CREMA_MUST_USE;

/* The options of the product's program, which has the number `function`. */
void cr_opencl_product_options(const cr_opencl_device *device, int function, char *text,
                               size_t size);

/* The rows of convolutions, best first within an op: */
#define CR_OPENCL_ROWS(X)     \
  X(conv_fwd_f32_opencl)      \
  X(conv_bwd_data_f32_opencl) \
  X(conv_bwd_weights_f32_opencl)

#define CR_OPENCL_DECLARE(name) extern const cr_gpu_row cr_##name;
CR_OPENCL_ROWS(CR_OPENCL_DECLARE)
#undef CR_OPENCL_DECLARE

#endif
