/* The rows of the CPU's kernel table (kernels.c) that are tried before the plain kernels
 * (plain_rows.h): crema's fast kernels and oneDNN's. */
#ifndef CR_DEVICE_CPU_KERNELS_FAST_ROWS_H
#define CR_DEVICE_CPU_KERNELS_FAST_ROWS_H

#include "device/backend/kernel.h"

/* One macro call for each row, op by op. The first row of an op that accepts runs, so a fast kernel
 * for few shapes comes before oneDNN's row. */
#define CR_FAST_ROWS(X)     \
  X(conv_fwd_f32_border)    \
  X(conv_bwd_weights_depth) \
  X(conv_fwd_cells)         \
  X(conv_bwd_data_cells)    \
  X(conv_bwd_weights_cells) \
  X(conv_fwd_planes)        \
  X(conv_fwd_points)        \
  X(conv_fwd_dnnl)          \
  X(conv_fwd_windows)       \
  X(conv_fwd_channels)      \
  X(conv_fwd_gemm)          \
  X(conv_bwd_data_dnnl)     \
  X(conv_bwd_data_gemm)     \
  X(conv_bwd_weights_dnnl)  \
  X(conv_bwd_weights_gemm)  \
  X(conv_int8_dnnl)         \
  X(ip_fwd_dnnl_matmul)     \
  X(ip_fwd_dnnl)            \
  X(ip_fwd_gemm)            \
  X(ip_bwd_data_dnnl)       \
  X(ip_bwd_data_gemm)       \
  X(ip_bwd_weights_dnnl)    \
  X(ip_bwd_weights_gemm)    \
  X(ip_int8_dnnl)           \
  X(pool_fwd_channels)      \
  X(pool_fwd_channels_u8)   \
  X(pool_fwd_channels_i8)   \
  X(pool_fwd_blocked)       \
  X(pool_fwd_rows)          \
  X(pool_fwd_average)       \
  X(pool_fwd_dnnl)          \
  X(pool_bwd_blocked)       \
  X(pool_bwd_rows)          \
  X(pool_bwd_average)       \
  X(pool_bwd_dnnl)          \
  X(average_int8_last)      \
  X(lrn_fwd_last)           \
  X(lrn_fwd_dnnl)           \
  X(lrn_bwd_dnnl)           \
  X(lrn_fwd_fast)           \
  X(lrn_bwd_fast)           \
  X(bn_fwd_train_dnnl)      \
  X(bn_fwd_global_dnnl)     \
  X(bn_bwd_dnnl)            \
  X(softmax_fwd_fast)       \
  X(softmax_bwd_dnnl)       \
  X(softmax_bwd_fast)       \
  X(unary_fwd_dnnl)         \
  X(unary_fwd_fast)         \
  X(unary_bwd_dnnl)         \
  X(unary_bwd_fast)         \
  X(concat_u8_fast)         \
  X(concat_i8_fast)         \
  X(sum_fast)               \
  X(axpby_fast)             \
  X(copy_fast)              \
  X(concat_fast)            \
  X(slice_fast)             \
  X(slice_u8_fast)          \
  X(slice_i8_fast)          \
  X(shuffle_fast)           \
  X(shuffle_u8_fast)        \
  X(shuffle_i8_fast)        \
  X(permute_fast)           \
  X(roi_pool_fwd_fast)      \
  X(roi_pool_bwd_fast)      \
  X(psroi_pool_fwd_fast)    \
  X(psroi_pool_bwd_fast)    \
  X(roi_align_fwd_fast)     \
  X(roi_align_bwd_fast)     \
  X(arg_max_fast)           \
  X(sigmoid_loss_fwd_fast)  \
  X(softmax_loss_fwd_fast)  \
  X(softmax_loss_bwd_fast)  \
  X(row_loss_fast)          \
  X(affine_fwd_fast)        \
  X(quantize_fast)          \
  X(affine_int8_fast)       \
  X(affine_bwd_data_fast)   \
  X(affine_bwd_scale_fast)  \
  X(affine_bwd_bias_fast)   \
  X(lstm_fwd_dnnl)          \
  X(lstm_bwd_dnnl)          \
  X(rnn_fwd_dnnl)           \
  X(rnn_bwd_dnnl)           \
  X(recurrent_bwd_weights_dnnl)

#define CR_FAST_DECLARE(name) extern const cr_kernel cr_##name;
CR_FAST_ROWS(CR_FAST_DECLARE)
#undef CR_FAST_DECLARE

#endif
