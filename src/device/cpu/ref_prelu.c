/* ReLU with a learned slope per channel (He et al., "Delving deep into rectifiers", 2015): y = x
 * for x > 0, slope[c] * x otherwise; x and y are (outer, C, inner). */
#include "device/cpu/ref.h"
#include "device/cpu/ref_rows.h"

/* src, slope, dst. */
static crema_status forward(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const float *x = cr_f32(call->buffer, 0), *slope = cr_f32(call->buffer, 1);
  float *y = cr_f32(call->buffer, 2);
  const int64_t rows = s.outer * s.channels;
#pragma omp parallel for schedule(static) if (rows * s.inner >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < rows; ++r) {
    const float factor = slope[r % s.channels];
    for (int64_t i = r * s.inner; i < (r + 1) * s.inner; ++i) {
      y[i] = x[i] > 0 ? x[i] : factor * x[i];
    }
  }
  return CREMA_OK;
}

/* src, slope, diff_dst, diff_src. */
static crema_status backward_data(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const float *x = cr_f32(call->buffer, 0), *slope = cr_f32(call->buffer, 1),
              *dy = cr_f32(call->buffer, 2);
  float *dx = cr_f32(call->buffer, 3);
  const int64_t rows = s.outer * s.channels;
#pragma omp parallel for schedule(static) if (rows * s.inner >= CR_REF_PARALLEL_MIN)
  for (int64_t r = 0; r < rows; ++r) {
    const float factor = slope[r % s.channels];
    for (int64_t i = r * s.inner; i < (r + 1) * s.inner; ++i) {
      dx[i] = x[i] > 0 ? dy[i] : factor * dy[i];
    }
  }
  return CREMA_OK;
}

/* src, diff_dst, diff_slope: the sum of dy x over the channel's elements with x <= 0. */
static crema_status backward_slope(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const float *x = cr_f32(call->buffer, 0), *dy = cr_f32(call->buffer, 1);
  float *d_slope = cr_f32(call->buffer, 2);
  const bool add = call->accumulate[2];
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s.channels; ++c) {
    double sum = 0;
    for (int64_t n = 0; n < s.outer; ++n) {
      const int64_t at = (n * s.channels + c) * s.inner;
      for (int64_t i = at; i < at + s.inner; ++i) {
        if (!(x[i] > 0)) sum += (double)dy[i] * (double)x[i];
      }
    }
    d_slope[c] = (float)(sum + (add ? (double)d_slope[c] : 0));
  }
  return CREMA_OK;
}

CR_KERNEL(prelu_fwd_f32_ref, PRELU_FWD, .run = forward);
CR_KERNEL(prelu_bwd_data_f32_ref, PRELU_BWD_DATA, .run = backward_data);
CR_KERNEL(prelu_bwd_slope_f32_ref, PRELU_BWD_SLOPE, .can_accumulate = true, .run = backward_slope);
