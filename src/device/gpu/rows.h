/* The rows of the GPU table and their common functions. */
#ifndef CR_GPU_ROWS_H
#define CR_GPU_ROWS_H

#include "device/gpu/kernels/channel.h"
#include "device/gpu/kernels/window.h"
#include "device/gpu/launch.h"

typedef struct cr_gpu_row {
  cr_kernel kernel; /* first: a plan's kernel is the row */
  crema_status (*run)(const cr_call *call);
  bool needs_scalars;
} cr_gpu_row;

/* The run function of every row's kernel: makes the device current around cr_gpu_row.run. */
crema_status cr_gpu_run(const cr_call *call);

/* The element types of rows whose device functions work on cr_hd_values. */
#define CR_GPU_FLOATS (CR_TYPE(F32) | CR_TYPE(F16) | CR_TYPE(BF16))

/* Defines the row cr_<row>, which calls `function`; further fields of cr_kernel follow. */
#define CR_GPU_ROW_OF(row, OP, TYPE, function, scalars, ...)    \
  const cr_gpu_row cr_##row = {.kernel = {.name = #row,         \
                                          .op = CR_OP_##OP,     \
                                          .type = CREMA_##TYPE, \
                                          .run = cr_gpu_run,    \
                                          __VA_ARGS__},         \
                               .run = function,                 \
                               .needs_scalars = scalars}

/* Defines the row cr_<op>_f32_gpu of an op on CR_GPU_FLOATS; without and with scalars. */
#define CR_GPU_ROW(op, OP, function, ...) \
  CR_GPU_ROW_OF(op##_f32_gpu, OP, F32, function, false, .types = CR_GPU_FLOATS, __VA_ARGS__)
/* Of rows that call cr_gpu_follow. */
#define CR_GPU_FOLLOWING_ROW(op, OP, function, ...) \
  CR_GPU_ROW(op, OP, function, .follows_hints = true, __VA_ARGS__)
#define CR_GPU_SCALARS_ROW(op, OP, function, ...) \
  CR_GPU_ROW_OF(op##_f32_gpu, OP, F32, function, true, .types = CR_GPU_FLOATS, __VA_ARGS__)

/* Argument i on the device; NULL when it is absent. The host never follows these pointers. */
static inline float *cr_gpu_f32(const cr_call *call, int i) {
  return (float *)call->buffer[i].address; /* NOLINT */
}
/* The same in the element type that the op's tensor has, of CR_GPU_FLOATS. */
static inline cr_hd_values cr_gpu_values(const cr_call *call, int i) {
  return (cr_hd_values){.at = (void *)call->buffer[i].address, /* NOLINT */
                        .type = (int32_t)call->desc->arg[i].type};
}
static inline int32_t *cr_gpu_i32(const cr_call *call, int i) {
  return (int32_t *)call->buffer[i].address; /* NOLINT */
}
static inline void *cr_gpu_scratchpad(const cr_call *call, size_t offset) {
  return (void *)(call->workspace.address + offset); /* NOLINT */
}
/* Parts of a scratchpad begin at multiples of a memory block. */
static inline size_t cr_gpu_rounded(size_t bytes) {
  return (bytes + 255) / 256 * 256;
}
static inline size_t cr_gpu_bytes(const cr_call *call, int i) {
  return (size_t)cr_op_arg_count(call->desc, i) * crema_dtype_size(call->desc->arg[i].type);
}
/* Queues a copy of `bytes` bytes on the device; zeros in argument i, if it is present. */
static inline crema_status cr_gpu_copy_bytes(const cr_call *call, uintptr_t dst, uintptr_t src,
                                             size_t bytes) {
  crema_context *context = call->context;
  return context->device->backend->copy(context, CR_COPY_SAME_DEVICE, dst, src, bytes);
}
static inline crema_status cr_gpu_clear(const cr_call *call, int i) {
  const size_t bytes = cr_gpu_bytes(call, i);
  if (bytes == 0 || call->buffer[i].address == 0) return CREMA_OK;
  return call->context->device->backend->zero(call->context, call->buffer[i], bytes);
}
/* A device function in the form for the call's arguments and number of steps. `packed`: packs may
 * be used if the arguments are aligned for them. */
int cr_gpu_for(const cr_call *call, cr_device_function function, int64_t steps, bool packed);
/* cr_gpu_each for `count` elements, and for each element of argument i. */
static inline crema_status cr_gpu_each_packed(const cr_call *call, cr_device_function function,
                                              const void *args, int64_t count, bool packed) {
  return cr_gpu_each(call->context, cr_gpu_for(call, function, count, packed), args, count);
}
static inline crema_status cr_gpu_each_in(const cr_call *call, cr_device_function function,
                                          const void *args, int64_t count) {
  return cr_gpu_each_packed(call, function, args, count, true);
}
static inline crema_status cr_gpu_each_of(const cr_call *call, int i, cr_device_function function,
                                          const void *args) {
  return cr_gpu_each_in(call, function, args, cr_op_arg_count(call->desc, i));
}
static inline crema_status cr_gpu_blocks_in(const cr_call *call, cr_device_function function,
                                            const void *args, int64_t segments, int64_t length) {
  return cr_gpu_thread_blocks(call->context, cr_gpu_for(call, function, segments, false), args,
                              segments, length);
}

/* Post operations of a convolution or an inner product. A plan adds cr_gpu_posts_bytes to its
 * scratchpad. A run calls cr_gpu_posts_begin with this part of it before the result is written,
 * which saves an addend in the result's memory. Then cr_gpu_posts adds the bias (argument 2),
 * unless `biased`, to the result of `channels` times `inner` values a sample, and applies the post
 * operations. */
size_t cr_gpu_posts_bytes(const cr_op_desc *desc);
crema_status cr_gpu_posts_begin(const cr_call *call, size_t offset) CREMA_MUST_USE;
crema_status cr_gpu_posts(const cr_call *call, size_t offset, bool biased, int64_t channels,
                          int64_t inner) CREMA_MUST_USE;

/* y = softmax(x) over the channels of `s`. */
crema_status cr_gpu_softmax(const cr_call *call, cr_split s, cr_hd_values x,
                            cr_hd_values y) CREMA_MUST_USE;

/* The number of parts, at most `most`, to divide a long sum of `count` terms into so that the
 * device is busy. */
int64_t cr_gpu_parts(int64_t count, int64_t most);

/* Slides a window over the spatial axes of `in` (N, C, S...), which gives `out` (N, C, S'...).
 * `dense`: dilation does not apply. Errors: CREMA_E_SHAPE when they do not fit; CREMA_E_UNSUPPORTED
 * beyond 32 bits. */
crema_status cr_gpu_slide(const cr_window *window, const crema_shape *in, const crema_shape *out,
                          bool dense, cr_hd_slide *slide) CREMA_MUST_USE;

static inline cr_channel_planes cr_gpu_planes(cr_split split) {
  return (cr_channel_planes){.outer = split.outer,
                             .channels = cr_divisor_of(split.channels),
                             .inner = cr_divisor_of(split.inner)};
}

/* Channels-last arguments (layout.h): */

/* A bit for each argument that a row reads and writes in one order of its values. */
#define CR_ARG(i) (1u << (i))

/* Makes channels-last the order of all arguments in `args`, if one of them is held in it and all
 * have as many samples, and three axes or more. Else they stay row-major. For plans of rows that
 * follow hints. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_gpu_follow(cr_plan *plan, unsigned args) CREMA_MUST_USE;

/* Whether one of the arguments in `args` is channels-last. */
bool cr_gpu_is_last(const cr_plan *plan, unsigned args);

/* cr_op_split at axis 1, of the argument as it is in memory: channels-last values are folded to
 * (N S, C, 1). */
cr_split cr_gpu_split(const cr_plan *plan, int arg);

/* The element type of all arguments that are values, for products. Errors: CREMA_E_UNSUPPORTED when
 * there are several. */
crema_status cr_gpu_one_type(const cr_op_desc *desc, crema_dtype *out) CREMA_MUST_USE;

/* Frees plan->state: for rows whose state is one block. */
void cr_gpu_free_state(cr_plan *plan);

/* The number of parts of a channel's sums, for one number in each part. */
int64_t cr_gpu_channel_parts(cr_split split);
/* The steps of one lane of the thread block that sums such a part. */
int64_t cr_gpu_part_length(cr_split split);

/* out[c] (+)= sum over outer and inner of the term; see cr_channel_sum_args. With `dx`, the terms
 * are the gradient of a ReLU, which is also written to dx. `scratchpad` holds
 * cr_gpu_channel_scratchpad(split) bytes. */
typedef struct cr_gpu_channel_sum {
  cr_split split;
  cr_hd_values dy, x;
  int term; /* a cr_channel_term */
  bool add;
  cr_hd_values out;
  cr_hd_values dx;
  float alpha; /* the ReLU's slope below 0 */
  double *scratchpad;
} cr_gpu_channel_sum;
size_t cr_gpu_channel_scratchpad(cr_split split);
crema_status cr_gpu_channel_sums(const cr_call *call, const cr_gpu_channel_sum *sum) CREMA_MUST_USE;

/* Best first within an op. A plug-in puts the rows of its libraries before them. */
#define CR_GPU_ROWS(X)             \
  X(conv_fwd_f32_gpu)              \
  X(conv_bwd_data_f32_gpu)         \
  X(conv_bwd_weights_f32_gpu)      \
  X(ip_fwd_f32_gpu)                \
  X(ip_bwd_data_f32_gpu)           \
  X(ip_bwd_weights_f32_gpu)        \
  X(pool_fwd_f32_gpu)              \
  X(pool_bwd_f32_gpu)              \
  X(pool_mask_f32_gpu)             \
  X(stochastic_pool_fwd_f32_gpu)   \
  X(stochastic_pool_test_f32_gpu)  \
  X(stochastic_pool_bwd_f32_gpu)   \
  X(roi_pool_fwd_f32_gpu)          \
  X(roi_pool_bwd_f32_gpu)          \
  X(psroi_pool_fwd_f32_gpu)        \
  X(psroi_pool_bwd_f32_gpu)        \
  X(roi_align_fwd_f32_gpu)         \
  X(roi_align_bwd_f32_gpu)         \
  X(lrn_fwd_f32_gpu)               \
  X(lrn_bwd_f32_gpu)               \
  X(bn_fwd_train_f32_gpu)          \
  X(bn_fwd_global_f32_gpu)         \
  X(bn_bwd_f32_gpu)                \
  X(softmax_fwd_f32_gpu)           \
  X(softmax_bwd_f32_gpu)           \
  X(unary_fwd_f32_gpu)             \
  X(unary_bwd_f32_gpu)             \
  X(prelu_fwd_f32_gpu)             \
  X(prelu_bwd_data_f32_gpu)        \
  X(prelu_bwd_slope_f32_gpu)       \
  X(sum_f32_gpu)                   \
  X(prod_f32_gpu)                  \
  X(prod_bwd_f32_gpu)              \
  X(max_f32_gpu)                   \
  X(max_bwd_f32_gpu)               \
  X(axpby_f32_gpu)                 \
  X(set_f32_gpu)                   \
  X(copy_f32_gpu)                  \
  X(copy_f64_gpu)                  \
  X(copy_i32_gpu)                  \
  X(copy_u8_gpu)                   \
  X(concat_f32_gpu)                \
  X(slice_f32_gpu)                 \
  X(affine_fwd_f32_gpu)            \
  X(affine_bwd_data_f32_gpu)       \
  X(affine_bwd_scale_f32_gpu)      \
  X(affine_bwd_bias_f32_gpu)       \
  X(relu_bwd_bias_f32_gpu)         \
  X(dropout_fwd_f32_gpu)           \
  X(dropout_bwd_f32_gpu)           \
  X(softmax_loss_fwd_f32_gpu)      \
  X(softmax_loss_bwd_f32_gpu)      \
  X(accuracy_f32_gpu)              \
  X(sigmoid_loss_fwd_f32_gpu)      \
  X(sigmoid_loss_bwd_f32_gpu)      \
  X(hinge_fwd_f32_gpu)             \
  X(hinge_bwd_f32_gpu)             \
  X(contrastive_fwd_f32_gpu)       \
  X(contrastive_bwd_f32_gpu)       \
  X(multinomial_fwd_f32_gpu)       \
  X(multinomial_bwd_f32_gpu)       \
  X(row_loss_f32_gpu)              \
  X(row_loss_bwd_f32_gpu)          \
  X(smooth_l1_fwd_f32_gpu)         \
  X(smooth_l1_bwd_f32_gpu)         \
  X(normalize_fwd_f32_gpu)         \
  X(normalize_bwd_f32_gpu)         \
  X(interp_fwd_f32_gpu)            \
  X(interp_bwd_f32_gpu)            \
  X(unpool_fwd_f32_gpu)            \
  X(unpool_bwd_f32_gpu)            \
  X(mvn_fwd_f32_gpu)               \
  X(mvn_bwd_f32_gpu)               \
  X(row_reduce_fwd_f32_gpu)        \
  X(row_reduce_bwd_f32_gpu)        \
  X(arg_max_f32_gpu)               \
  X(crop_fwd_f32_gpu)              \
  X(crop_bwd_f32_gpu)              \
  X(permute_f32_gpu)               \
  X(tile_fwd_f32_gpu)              \
  X(tile_bwd_f32_gpu)              \
  X(gather_fwd_f32_gpu)            \
  X(gather_bwd_f32_gpu)            \
  X(im2col_f32_gpu)                \
  X(col2im_f32_gpu)                \
  X(lstm_unit_fwd_f32_gpu)         \
  X(lstm_unit_bwd_f32_gpu)         \
  X(lstm_fwd_f32_gpu)              \
  X(lstm_bwd_f32_gpu)              \
  X(rnn_fwd_f32_gpu)               \
  X(rnn_bwd_f32_gpu)               \
  X(recurrent_bwd_weights_f32_gpu) \
  X(reduce_f32_gpu)                \
  X(update_f32_gpu)                \
  X(update_keep_f32_gpu)           \
  X(segment_dots_f32_gpu)

#define CR_GPU_DECLARE(name) extern const cr_gpu_row cr_##name;
CR_GPU_ROWS(CR_GPU_DECLARE)
#undef CR_GPU_DECLARE

#endif
