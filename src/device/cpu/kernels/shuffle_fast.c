/* Interleaves the channels of different groups (ShuffleChannel): exchanges two axes that together
 * are the channels of a channels-last tensor. Each position keeps its place. The source may be a
 * view whose values are between values of other channels.
 *
 * Gain over the plain kernel, which converts the net to plain order and back. The compiled
 * ShuffleNet v2 takes 1.3x the time without this kernel and views of slices
 * (docs/dev/performance-notes.md). */
#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/plan_state.h"
#include "device/cpu/onednn/primitive.h"

enum { PARALLEL_MIN = 16384 /* values; below, one thread is faster */ };

typedef struct shuffle {
  size_t size; /* of a value, in bytes */
  int64_t positions, step, groups, width;
} shuffle;

/* Whether the channels of `layout` are the second and the third axis of the op's source. */
static bool has_channels(const cr_layout *layout, const crema_shape *source) {
  const crema_shape *held = &layout->shape;
  return held->axes >= 3 && held->dim[0] == source->dim[0] &&
         held->dim[1] == source->dim[1] * source->dim[2] &&
         crema_shape_count(held, 2, held->axes) == source->dim[3];
}

static bool exchanges_channels(const cr_op_desc *desc) {
  const int *order = desc->u.order;
  return desc->arg[0].shape.axes == 4 && order[0] == 0 && order[1] == 2 && order[2] == 1 &&
         order[3] == 3;
}

static crema_status plan(cr_plan *plan) {
  const crema_shape *source = &plan->desc->arg[0].shape;
  const cr_layout *held = plan->hint[0].layout;
  crema_dtype type = CREMA_F32;
  CR_TRY(cr_check_permute(plan));
  CR_TRY(cr_dnnl_one_type(plan, &type));
  const cr_layout *packed = held != NULL && held->gaps ? held->packed : held;
  if (!exchanges_channels(plan->desc) || packed == NULL || packed->type != type ||
      cr_dnnl_layout_order(packed).kind != CR_DNNL_LAST || !has_channels(packed, source)) {
    return cr_fail(CREMA_E_UNSUPPORTED, "other than channels held channels-last");
  }
  const int64_t step = cr_dnnl_layout_step(held), channels = packed->shape.dim[1];
  const shuffle s = {.size = crema_dtype_size(type),
                     .positions = source->dim[0] * source->dim[3],
                     .step = step > 0 ? step : channels,
                     .groups = source->dim[1],
                     .width = source->dim[2]};
  plan->format[0] = (cr_format){type, step > 0 ? held : packed};
  plan->format[1] = (cr_format){type, packed};
  return cr_plan_keep(plan, &s, sizeof s);
}

/* The values of one position, of 32, 16 and 8 bits. Two groups are a common case. */
#define DEFINE_MIX(name, value)                                                         \
  CR_CLONES static void name(int64_t groups, int64_t width, const value *restrict from, \
                             value *restrict to) {                                      \
    if (groups == 2) {                                                                  \
      for (int64_t c = 0; c < width; ++c) {                                             \
        to[2 * c] = from[c];                                                            \
        to[2 * c + 1] = from[width + c];                                                \
      }                                                                                 \
      return;                                                                           \
    }                                                                                   \
    for (int64_t g = 0; g < groups; ++g) {                                              \
      for (int64_t c = 0; c < width; ++c) to[c * groups + g] = from[g * width + c];     \
    }                                                                                   \
  }
DEFINE_MIX(mix_words, uint32_t)
DEFINE_MIX(mix_halves, uint16_t)
DEFINE_MIX(mix_bytes, uint8_t)

static crema_status run(const cr_call *call) {
  const shuffle *s = call->plan->state;
  const int64_t channels = s->groups * s->width;
  const void *from = (const void *)call->buffer[0].address;
  void *to = (void *)call->buffer[1].address;
#pragma omp parallel for schedule(static) if (s->positions * channels >= PARALLEL_MIN)
  for (int64_t i = 0; i < s->positions; ++i) {
    if (s->size == sizeof(uint32_t)) {
      mix_words(s->groups, s->width, (const uint32_t *)from + i * s->step,
                (uint32_t *)to + i * channels);
    } else if (s->size == sizeof(uint8_t)) {
      mix_bytes(s->groups, s->width, (const uint8_t *)from + i * s->step,
                (uint8_t *)to + i * channels);
    } else {
      mix_halves(s->groups, s->width, (const uint16_t *)from + i * s->step,
                 (uint16_t *)to + i * channels);
    }
  }
  return CREMA_OK;
}

CR_KERNEL(shuffle_fast, PERMUTE, .types = CR_DNNL_TYPES, .library = true, .views = true,
          .follows_hints = true, .plan = plan, .run = run, .destroy = cr_plan_release);

#define SHUFFLE_INTEGERS(row, of)                    \
  const cr_kernel cr_##row = {.name = #row,          \
                              .op = CR_OP_PERMUTE,   \
                              .type = CREMA_##of,    \
                              .library = true,       \
                              .views = true,         \
                              .follows_hints = true, \
                              .plan = plan,          \
                              .run = run,            \
                              .destroy = cr_plan_release}

SHUFFLE_INTEGERS(shuffle_u8_fast, U8);
SHUFFLE_INTEGERS(shuffle_i8_fast, I8);
