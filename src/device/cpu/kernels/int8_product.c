/* Convolution and inner product of int8, summed exactly. */
#include <string.h>

#include "core/fail.h"
#include "device/cpu/kernels/int8.h"
#include "device/cpu/kernels/plain_rows.h"
#include "device/cpu/kernels/plan_state.h"
#include "device/cpu/kernels/ref.h"
#include "device/cpu/kernels/window.h"

typedef struct int8_conv {
  cr_slide slide;
  int64_t batch, group, in_channels, out_channels; /* the last two: of one group */
  size_t image_offset;                             /* in the workspace, after the sums */
} int8_conv;

static crema_status check_types(const cr_plan *plan, int64_t channels) {
  const cr_op_arg *arg = plan->desc->arg;
  const crema_dtype src = arg[0].type, dst = arg[3].type;
  const bool fits = (src == CREMA_U8 || src == CREMA_I8) && arg[1].type == CREMA_I8 &&
                    arg[2].type == CREMA_F32 &&
                    (dst == CREMA_U8 || dst == CREMA_I8 || dst == CREMA_F32);
  if (fits && plan->desc->numbers == channels) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "products of %s and %s to %s with %d numbers",
                 crema_dtype_name(src), crema_dtype_name(arg[1].type), crema_dtype_name(dst),
                 plan->desc->numbers);
}

static crema_status plan_conv(cr_plan *plan) {
  const crema_shape *in = &plan->desc->arg[0].shape, *out = &plan->desc->arg[3].shape;
  int8_conv s = {.group = plan->desc->u.conv.group, .batch = in->dim[0]};
  CR_TRY(check_types(plan, out->dim[1]));
  CR_TRY(cr_slide_conv(plan->desc, 0, 1, 3, &s.slide));
  s.in_channels = in->dim[1] / s.group;
  s.out_channels = out->dim[1] / s.group;
  s.image_offset = (size_t)(out->dim[1] * s.slide.out_count) * sizeof(int32_t);
  plan->workspace_bytes =
      s.image_offset + (size_t)(in->dim[1] * s.slide.in_count) * sizeof(int16_t);
  return cr_plan_keep(plan, &s, sizeof s);
}

/* sums += weight * the values of a plane that the window's element meets. */
static void add_tap(const cr_slide *s, int64_t element, int32_t weight, const int16_t *plane,
                    int32_t *sums) {
  const int64_t width = s->out[s->axes - 1], step = s->stride[s->axes - 1];
  cr_tap tap;
  cr_slide_tap(s, element, &tap);
  for (int64_t y = 0; y < s->out_count / width; ++y, sums += width) {
    const int64_t base = cr_tap_row(s, &tap, y);
    if (base < 0) continue;
    const int16_t *in = plane + base + tap.shift;
    for (int64_t x = tap.begin; x < tap.end; ++x) sums[x] += weight * in[x * step];
  }
}

/* One output channel of one image. */
static void make_plane(const cr_call *call, const int8_conv *s, int64_t channel,
                       const int16_t *image, int32_t *sums) {
  const int64_t taps = s->slide.kernel_count;
  const int8_t *weights = (const int8_t *)call->buffer[1].address + channel * s->in_channels * taps;
  const int16_t *group = image + channel / s->out_channels * s->in_channels * s->slide.in_count;
  memset(sums, 0, (size_t)s->slide.out_count * sizeof *sums);
  for (int64_t c = 0; c < s->in_channels; ++c) {
    for (int64_t k = 0; k < taps; ++k) {
      if (weights[c * taps + k] == 0) continue;
      add_tap(&s->slide, k, weights[c * taps + k], group + c * s->slide.in_count, sums);
    }
  }
}

/* src, weights, bias, dst, addend. */
static crema_status conv(const cr_call *call) {
  const int8_conv *s = call->plan->state;
  const int64_t channels = s->group * s->out_channels, places = s->slide.out_count;
  const int64_t image_size = s->group * s->in_channels * s->slide.in_count;
  int32_t *sums = (int32_t *)call->workspace.address;
  int16_t *image = (int16_t *)(call->workspace.address + s->image_offset);
  if (places == 0) return CREMA_OK;
  for (int64_t n = 0; n < s->batch; ++n) {
    cr_int8_widen(call->desc->arg[0].type, (const char *)call->buffer[0].address + n * image_size,
                  image_size, image);
#pragma omp parallel for schedule(static) if (channels * places >= CR_REF_PARALLEL_MIN)
    for (int64_t c = 0; c < channels; ++c) {
      make_plane(call, s, c, image, sums + c * places);
      cr_int8_finish(call, sums + c * places, places, c, 0, (n * channels + c) * places);
    }
  }
  return CREMA_OK;
}

/* m rows of k values in, of n values out. */
static cr_split sizes_of(const cr_op_desc *desc) {
  const cr_split in = cr_op_split(desc, 0, 0), out = cr_op_split(desc, 3, 0);
  return (cr_split){in.channels, out.inner, in.inner};
}

static crema_status plan_product(cr_plan *plan) {
  const cr_split s = sizes_of(plan->desc);
  CR_TRY(check_types(plan, s.channels));
  if (plan->desc->u.ip.transpose || cr_op_arg_count(plan->desc, 1) != s.channels * s.inner ||
      cr_op_arg_count(plan->desc, 3) != s.outer * s.channels) {
    return cr_fail(CREMA_E_SHAPE, "the weights of an inner product do not fit");
  }
  plan->workspace_bytes = (size_t)(s.outer * s.channels) * sizeof(int32_t) +
                          (size_t)(s.outer * s.inner) * sizeof(int16_t);
  return CREMA_OK;
}

static int32_t dot(const int16_t *a, const int8_t *b, int64_t count) {
  int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/* src, weights, bias, dst, addend. */
static crema_status product(const cr_call *call) {
  const cr_split s = sizes_of(call->desc);
  const int8_t *weights = (const int8_t *)call->buffer[1].address;
  int32_t *sums = (int32_t *)call->workspace.address;
  int16_t *rows = (int16_t *)(void *)(sums + s.outer * s.channels);
  cr_int8_widen(call->desc->arg[0].type, (const void *)call->buffer[0].address, s.outer * s.inner,
                rows);
#pragma omp parallel for schedule(static) if (s.channels * s.inner >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s.channels; ++c) {
    for (int64_t m = 0; m < s.outer; ++m) {
      sums[m * s.channels + c] = dot(rows + m * s.inner, weights + c * s.inner, s.inner);
    }
  }
  for (int64_t m = 0; m < s.outer; ++m) {
    cr_int8_finish(call, sums + m * s.channels, s.channels, 0, 1, m * s.channels);
  }
  return CREMA_OK;
}

CR_KERNEL(conv_int8_ref, CONV_INT8, .plan = plan_conv, .run = conv, .destroy = cr_plan_release);
CR_KERNEL(ip_int8_ref, IP_INT8, .plan = plan_product, .run = product);
