/* Rows over the segments of a block of parameters: a solver's update, scalar products. */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/gpu/kernels/device_functions.h"
#include "device/gpu/rows.h"

static int fewer(int a, int b) {
  return a < b ? a : b;
}

static cr_update_args update_args(const cr_call *call) {
  const cr_op_scalars *s = call->scalars;
  const bool two = cr_update_needs_two(call->desc->u.update.rule);
  return (cr_update_args){.w = cr_gpu_f32(call, 0),
                          .g = cr_gpu_f32(call, 1),
                          .h0 = cr_gpu_f32(call, 2),
                          .h1 = two ? cr_gpu_f32(call, 3) : NULL,
                          .rule = (int)call->desc->u.update.rule,
                          .keep = call->desc->kind == CR_OP_UPDATE_KEEP,
                          .l1 = call->desc->u.update.l1,
                          .apart = call->desc->u.update.decoupled,
                          .scale = (float)s->grad_scale,
                          .momentum = (float)s->momentum,
                          .momentum2 = (float)s->momentum2,
                          .rms_decay = (float)s->rms_decay,
                          .delta = (float)s->delta};
}

/* One launch for up to CR_GPU_SEGMENTS segments. */
static crema_status update_segments(const cr_call *call, cr_update_args *args,
                                    const cr_update_segment *segment, int segments) {
  args->pieces = segments;
  for (int i = 0; i < segments; ++i) {
    const int64_t end = segment[i].begin + segment[i].count;
    args->piece[i] =
        (cr_update_piece){segment[i].begin, end, (float)segment[i].rate, (float)segment[i].decay};
  }
  const int64_t begin = args->piece[0].begin;
  return cr_gpu_each_packed(call, CR_DEVICE_FUNCTION_update, args,
                            args->piece[segments - 1].end - begin,
                            begin * (int64_t)sizeof(float) % CR_PACK_BYTES == 0);
}

/* weight, gradient, history 0, history 1. */
static crema_status update(const cr_call *call) {
  const cr_op_scalars *s = call->scalars;
  const cr_update_segment whole = {0, cr_op_arg_count(call->desc, 0), s->rate, s->decay};
  const cr_update_segment *segment = s->segment != NULL ? s->segment : &whole;
  const int segments = s->segment != NULL ? s->segments : 1;
  cr_update_args args = update_args(call);
  for (int i = 0; i < segments; i += CR_GPU_SEGMENTS) {
    CR_TRY(update_segments(call, &args, segment + i, fewer(segments - i, CR_GPU_SEGMENTS)));
  }
  return CREMA_OK;
}

enum { MOST_PARTS = 256 };

static crema_status dots_plan(cr_plan *plan) {
  const int64_t segments = cr_op_arg_count(plan->desc, 2);
  CR_TRY(cr_check_dots(plan));
  plan->workspace_bytes = sizeof(double) * MOST_PARTS *
                          (size_t)(segments < CR_GPU_SEGMENTS ? segments : CR_GPU_SEGMENTS);
  return CREMA_OK;
}

static crema_status dots_of_segments(const cr_call *call, int first, int segments) {
  const cr_update_segment *segment = call->scalars->segment + first;
  cr_dots_args args = {.a = cr_gpu_values(call, 0),
                       .b = cr_gpu_values(call, 1),
                       .part = cr_gpu_scratchpad(call, 0),
                       .out = (double *)call->buffer[2].address + first}; /* NOLINT */
  int64_t longest = 0;
  for (int i = 0; i < segments; ++i) {
    args.begin[i] = segment[i].begin;
    args.count[i] = segment[i].count;
    if (segment[i].count > longest) longest = segment[i].count;
  }
  args.parts = cr_gpu_parts(longest, MOST_PARTS);
  CR_TRY(cr_gpu_blocks_in(call, CR_DEVICE_FUNCTION_dots_parts, &args, segments * args.parts,
                          longest / args.parts));
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_dots_total, &args, segments);
}

/* a, b, result (F64). */
static crema_status segment_dots(const cr_call *call) {
  CR_TRY(cr_check_dots_segments(call));
  const int segments = call->scalars->segments;
  for (int i = 0; i < segments; i += CR_GPU_SEGMENTS) {
    CR_TRY(dots_of_segments(call, i, fewer(segments - i, CR_GPU_SEGMENTS)));
  }
  return CREMA_OK;
}

CR_GPU_ROW_OF(update_f32_gpu, UPDATE, F32, update, true, .plan = cr_check_update);
CR_GPU_ROW_OF(update_keep_f32_gpu, UPDATE_KEEP, F32, update, true, .plan = cr_check_update);
CR_GPU_SCALARS_ROW(segment_dots, SEGMENT_DOTS, segment_dots, .plan = dots_plan);
