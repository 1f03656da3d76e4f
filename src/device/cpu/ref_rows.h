/* The reference kernels: at least one per op, the last that the CPU's table offers. */
#ifndef CR_DEVICE_CPU_REF_ROWS_H
#define CR_DEVICE_CPU_REF_ROWS_H

#include "device/backend/kernel.h"

#define CR_REF_ROWS(X)            \
  X(conv_fwd_f32_ref)             \
  X(conv_bwd_data_f32_ref)        \
  X(conv_bwd_weights_f32_ref)     \
  X(ip_fwd_f32_ref)               \
  X(ip_bwd_data_f32_ref)          \
  X(ip_bwd_weights_f32_ref)       \
  X(pool_fwd_f32_ref)             \
  X(pool_bwd_f32_ref)             \
  X(pool_mask_f32_ref)            \
  X(stochastic_pool_fwd_f32_ref)  \
  X(stochastic_pool_test_f32_ref) \
  X(stochastic_pool_bwd_f32_ref)  \
  X(lrn_fwd_f32_ref)              \
  X(lrn_bwd_f32_ref)              \
  X(bn_fwd_train_f32_ref)         \
  X(bn_fwd_global_f32_ref)        \
  X(bn_bwd_f32_ref)               \
  X(softmax_fwd_f32_ref)          \
  X(softmax_bwd_f32_ref)          \
  X(unary_fwd_f32_ref)            \
  X(unary_bwd_f32_ref)            \
  X(sum_f32_ref)                  \
  X(prod_f32_ref)                 \
  X(prod_bwd_f32_ref)             \
  X(max_f32_ref)                  \
  X(max_bwd_f32_ref)              \
  X(axpby_f32_ref)                \
  X(set_f32_ref)                  \
  X(copy_f32_ref)                 \
  X(copy_f64_ref)                 \
  X(copy_i32_ref)                 \
  X(copy_u8_ref)                  \
  X(concat_f32_ref)               \
  X(slice_f32_ref)                \
  X(affine_fwd_f32_ref)           \
  X(affine_bwd_data_f32_ref)      \
  X(affine_bwd_scale_f32_ref)     \
  X(affine_bwd_bias_f32_ref)      \
  X(dropout_fwd_f32_ref)          \
  X(dropout_bwd_f32_ref)          \
  X(nll_fwd_f32_ref)              \
  X(nll_bwd_f32_ref)              \
  X(accuracy_f32_ref)             \
  X(prelu_fwd_f32_ref)            \
  X(prelu_bwd_data_f32_ref)       \
  X(prelu_bwd_slope_f32_ref)      \
  X(sigmoid_loss_fwd_f32_ref)     \
  X(sigmoid_loss_bwd_f32_ref)     \
  X(hinge_fwd_f32_ref)            \
  X(hinge_bwd_f32_ref)            \
  X(contrastive_fwd_f32_ref)      \
  X(contrastive_bwd_f32_ref)      \
  X(infogain_fwd_f32_ref)         \
  X(infogain_bwd_f32_ref)         \
  X(mvn_fwd_f32_ref)              \
  X(mvn_bwd_f32_ref)              \
  X(row_reduce_fwd_f32_ref)       \
  X(row_reduce_bwd_f32_ref)       \
  X(arg_max_f32_ref)              \
  X(crop_fwd_f32_ref)             \
  X(crop_bwd_f32_ref)             \
  X(permute_f32_ref)              \
  X(tile_fwd_f32_ref)             \
  X(tile_bwd_f32_ref)             \
  X(gather_fwd_f32_ref)           \
  X(gather_bwd_f32_ref)           \
  X(im2col_f32_ref)               \
  X(col2im_f32_ref)               \
  X(reduce_f32_ref)               \
  X(update_f32_ref)               \
  X(update_keep_f32_ref)

#define CR_REF_ROW(name) extern const cr_kernel cr_##name;
CR_REF_ROWS(CR_REF_ROW)
#undef CR_REF_ROW

#endif
