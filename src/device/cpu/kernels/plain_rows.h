/* The plain kernels: one per op, the last that the CPU's table offers. Those that depend on the
 * element type have a row for F32 and one for F64: unary_fwd_f32_ref, unary_fwd_f64_ref. Tensors
 * convert 16-bit floats to F32 for them. */
#ifndef CR_DEVICE_CPU_KERNELS_PLAIN_ROWS_H
#define CR_DEVICE_CPU_KERNELS_PLAIN_ROWS_H

#include "device/backend/kernel.h"

/* Rows of one element type. */
#define CR_REF_ROWS_OF(X, T)         \
  X(roi_pool_fwd_##T##_ref)          \
  X(roi_pool_bwd_##T##_ref)          \
  X(psroi_pool_fwd_##T##_ref)        \
  X(psroi_pool_bwd_##T##_ref)        \
  X(roi_align_fwd_##T##_ref)         \
  X(roi_align_bwd_##T##_ref)         \
  X(interp_fwd_##T##_ref)            \
  X(interp_bwd_##T##_ref)            \
  X(unpool_fwd_##T##_ref)            \
  X(unpool_bwd_##T##_ref)            \
  X(flip_##T##_ref)                  \
  X(noise_##T##_ref)                 \
  X(sample_fwd_##T##_ref)            \
  X(sample_bwd_data_##T##_ref)       \
  X(sample_bwd_grid_##T##_ref)       \
  X(resample_##T##_ref)              \
  X(correlation_fwd_##T##_ref)       \
  X(correlation_bwd_a_##T##_ref)     \
  X(correlation_bwd_b_##T##_ref)     \
  X(local_fwd_##T##_ref)             \
  X(local_bwd_data_##T##_ref)        \
  X(local_bwd_weights_##T##_ref)     \
  X(conv_fwd_##T##_ref)              \
  X(conv_bwd_data_##T##_ref)         \
  X(conv_bwd_weights_##T##_ref)      \
  X(ip_fwd_##T##_ref)                \
  X(ip_bwd_data_##T##_ref)           \
  X(ip_bwd_weights_##T##_ref)        \
  X(pool_fwd_##T##_ref)              \
  X(pool_bwd_##T##_ref)              \
  X(pool_mask_##T##_ref)             \
  X(lstm_fwd_##T##_ref)              \
  X(lstm_bwd_##T##_ref)              \
  X(lstm_unit_fwd_##T##_ref)         \
  X(lstm_unit_bwd_##T##_ref)         \
  X(rnn_fwd_##T##_ref)               \
  X(rnn_bwd_##T##_ref)               \
  X(recurrent_bwd_weights_##T##_ref) \
  X(update_##T##_ref)                \
  X(update_keep_##T##_ref)           \
  X(lrn_fwd_##T##_ref)               \
  X(lrn_bwd_##T##_ref)               \
  X(normalize_fwd_##T##_ref)         \
  X(normalize_bwd_##T##_ref)         \
  X(smooth_l1_fwd_##T##_ref)         \
  X(smooth_l1_bwd_##T##_ref)         \
  X(stochastic_pool_fwd_##T##_ref)   \
  X(stochastic_pool_test_##T##_ref)  \
  X(stochastic_pool_bwd_##T##_ref)   \
  X(bn_fwd_train_##T##_ref)          \
  X(bn_fwd_global_##T##_ref)         \
  X(bn_bwd_##T##_ref)                \
  X(softmax_fwd_##T##_ref)           \
  X(softmax_bwd_##T##_ref)           \
  X(unary_fwd_##T##_ref)             \
  X(unary_bwd_##T##_ref)             \
  X(sum_##T##_ref)                   \
  X(prod_##T##_ref)                  \
  X(prod_bwd_##T##_ref)              \
  X(max_##T##_ref)                   \
  X(max_bwd_##T##_ref)               \
  X(axpby_##T##_ref)                 \
  X(set_##T##_ref)                   \
  X(concat_##T##_ref)                \
  X(slice_##T##_ref)                 \
  X(affine_fwd_##T##_ref)            \
  X(affine_bwd_data_##T##_ref)       \
  X(affine_bwd_scale_##T##_ref)      \
  X(affine_bwd_bias_##T##_ref)       \
  X(relu_bwd_bias_##T##_ref)         \
  X(dropout_fwd_##T##_ref)           \
  X(dropout_bwd_##T##_ref)           \
  X(softmax_loss_fwd_##T##_ref)      \
  X(softmax_loss_bwd_##T##_ref)      \
  X(row_loss_##T##_ref)              \
  X(row_loss_bwd_##T##_ref)          \
  X(region_##T##_ref)                \
  X(accuracy_##T##_ref)              \
  X(prelu_fwd_##T##_ref)             \
  X(prelu_bwd_data_##T##_ref)        \
  X(prelu_bwd_slope_##T##_ref)       \
  X(sigmoid_loss_fwd_##T##_ref)      \
  X(sigmoid_loss_bwd_##T##_ref)      \
  X(hinge_fwd_##T##_ref)             \
  X(hinge_bwd_##T##_ref)             \
  X(contrastive_fwd_##T##_ref)       \
  X(contrastive_bwd_##T##_ref)       \
  X(multinomial_fwd_##T##_ref)       \
  X(multinomial_bwd_##T##_ref)       \
  X(mvn_fwd_##T##_ref)               \
  X(mvn_bwd_##T##_ref)               \
  X(row_reduce_fwd_##T##_ref)        \
  X(row_reduce_bwd_##T##_ref)        \
  X(arg_max_##T##_ref)               \
  X(crop_fwd_##T##_ref)              \
  X(crop_bwd_##T##_ref)              \
  X(permute_##T##_ref)               \
  X(tile_fwd_##T##_ref)              \
  X(tile_bwd_##T##_ref)              \
  X(gather_fwd_##T##_ref)            \
  X(gather_bwd_##T##_ref)            \
  X(im2col_##T##_ref)                \
  X(col2im_##T##_ref)                \
  X(reduce_##T##_ref)                \
  X(segment_dots_##T##_ref)

#define CR_REF_ROWS(X)   \
  CR_REF_ROWS_OF(X, f32) \
  CR_REF_ROWS_OF(X, f64) \
  X(copy_f32_ref)        \
  X(copy_f64_ref)        \
  X(copy_i32_ref)        \
  X(copy_u8_ref)         \
  X(conv_int8_ref)       \
  X(ip_int8_ref)         \
  X(quantize_ref)        \
  X(affine_int8_ref)     \
  X(average_int8_ref)    \
  X(lrn_quantize_ref)    \
  X(pool_fwd_u8_ref)     \
  X(pool_fwd_i8_ref)     \
  X(slice_u8_ref)        \
  X(slice_i8_ref)        \
  X(permute_u8_ref)      \
  X(permute_i8_ref)      \
  X(concat_u8_ref)       \
  X(concat_i8_ref)

#define CR_REF_ROW(name) extern const cr_kernel cr_##name;
CR_REF_ROWS(CR_REF_ROW)
#undef CR_REF_ROW

#endif
