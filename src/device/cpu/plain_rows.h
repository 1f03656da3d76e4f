/* The plain kernels: at least one row an op, the last that the CPU's table offers. */
#ifndef CR_DEVICE_CPU_PLAIN_ROWS_H
#define CR_DEVICE_CPU_PLAIN_ROWS_H

#include "device/kernel.h"

#define CR_PLAIN_ROWS(X)            \
  X(conv_fwd_f32_plain)             \
  X(conv_bwd_data_f32_plain)        \
  X(conv_bwd_weights_f32_plain)     \
  X(ip_fwd_f32_plain)               \
  X(ip_bwd_data_f32_plain)          \
  X(ip_bwd_weights_f32_plain)       \
  X(pool_fwd_f32_plain)             \
  X(pool_bwd_f32_plain)             \
  X(pool_mask_f32_plain)            \
  X(stochastic_pool_fwd_f32_plain)  \
  X(stochastic_pool_test_f32_plain) \
  X(stochastic_pool_bwd_f32_plain)  \
  X(lrn_fwd_f32_plain)              \
  X(lrn_bwd_f32_plain)              \
  X(bn_fwd_train_f32_plain)         \
  X(bn_fwd_global_f32_plain)        \
  X(bn_bwd_f32_plain)               \
  X(softmax_fwd_f32_plain)          \
  X(softmax_bwd_f32_plain)          \
  X(unary_fwd_f32_plain)            \
  X(unary_bwd_f32_plain)            \
  X(sum_f32_plain)                  \
  X(prod_f32_plain)                 \
  X(prod_bwd_f32_plain)             \
  X(max_f32_plain)                  \
  X(max_bwd_f32_plain)              \
  X(axpby_f32_plain)                \
  X(set_f32_plain)                  \
  X(copy_f32_plain)                 \
  X(copy_f64_plain)                 \
  X(copy_i32_plain)                 \
  X(copy_u8_plain)                  \
  X(concat_f32_plain)               \
  X(slice_f32_plain)                \
  X(affine_fwd_f32_plain)           \
  X(affine_bwd_data_f32_plain)      \
  X(affine_bwd_scale_f32_plain)     \
  X(affine_bwd_bias_f32_plain)      \
  X(dropout_fwd_f32_plain)          \
  X(dropout_bwd_f32_plain)          \
  X(nll_fwd_f32_plain)              \
  X(nll_bwd_f32_plain)              \
  X(accuracy_f32_plain)             \
  X(function_fwd_f32_plain)         \
  X(function_bwd_f32_plain)         \
  X(prelu_fwd_f32_plain)            \
  X(prelu_bwd_data_f32_plain)       \
  X(prelu_bwd_slope_f32_plain)      \
  X(sigmoid_loss_fwd_f32_plain)     \
  X(sigmoid_loss_bwd_f32_plain)     \
  X(hinge_fwd_f32_plain)            \
  X(hinge_bwd_f32_plain)            \
  X(contrastive_fwd_f32_plain)      \
  X(contrastive_bwd_f32_plain)      \
  X(infogain_fwd_f32_plain)         \
  X(infogain_bwd_f32_plain)         \
  X(mvn_fwd_f32_plain)              \
  X(mvn_bwd_f32_plain)              \
  X(row_reduce_fwd_f32_plain)       \
  X(row_reduce_bwd_f32_plain)       \
  X(arg_max_f32_plain)              \
  X(crop_fwd_f32_plain)             \
  X(crop_bwd_f32_plain)             \
  X(permute_f32_plain)              \
  X(tile_fwd_f32_plain)             \
  X(tile_bwd_f32_plain)             \
  X(gather_fwd_f32_plain)           \
  X(gather_bwd_f32_plain)           \
  X(im2col_f32_plain)               \
  X(col2im_f32_plain)               \
  X(reduce_f32_plain)               \
  X(update_f32_plain)               \
  X(update_keep_f32_plain)

#define CR_PLAIN_ROW(name) extern const cr_kernel cr_##name;
CR_PLAIN_ROWS(CR_PLAIN_ROW)
#undef CR_PLAIN_ROW

#endif
