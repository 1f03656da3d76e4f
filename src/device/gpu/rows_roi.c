/* Rows of regions of interest: their largest values, means of their parts, aligned means. */
#include "core/fail.h"
#include "device/gpu/kernels/device_functions.h"
#include "device/gpu/rows.h"

/* The next array of the scratchpad; *at gets its end. The host never follows these pointers, which
 * are counted from 0 in a plan. */
static void *array_at(size_t *at, int64_t count, size_t size) {
  void *array = (void *)*at; /* NOLINT */
  *at += (size_t)count * size;
  return array;
}

static cr_roi_kind kind_of(cr_op_kind op) {
  switch (op) {
    case CR_OP_ROI_POOL_FWD:
    case CR_OP_ROI_POOL_BWD: return CR_ROI_LARGEST;
    case CR_OP_PSROI_POOL_FWD:
    case CR_OP_PSROI_POOL_BWD: return CR_ROI_MEANS;
    default: return CR_ROI_ALIGN;
  }
}

/* For map and result, the arguments with these numbers. */
static cr_roi_args extents_of(const cr_op_desc *desc, int map, int result) {
  const int64_t *m = desc->arg[map].shape.dim, *to = desc->arg[result].shape.dim;
  return (cr_roi_args){.scale = (double)desc->u.roi.scale,
                       .kind = (int32_t)kind_of(desc->kind),
                       .ratio = desc->u.roi.ratio,
                       .regions = to[0],
                       .results = to[1],
                       .images = (int32_t)m[0],
                       .channels = (int32_t)m[1],
                       .height = (int32_t)m[2],
                       .width = (int32_t)m[3],
                       .rows = (int32_t)to[2],
                       .columns = (int32_t)to[3],
                       .by_plane = cr_divisor_of(m[2] * m[3]),
                       .by_width = cr_divisor_of(m[3]),
                       .by_cells = cr_divisor_of(to[2] * to[3]),
                       .by_columns = cr_divisor_of(to[3]),
                       .by_results = cr_divisor_of(to[1]),
                       .by_channels = cr_divisor_of(m[1]),
                       .by_blocks = cr_divisor_of((m[1] + CR_ROI_CHANNELS - 1) / CR_ROI_CHANNELS),
                       .by_sides = cr_divisor_of(1 + to[2] + to[3]),
                       .by_positions = cr_divisor_of(1 + m[2] + m[3]),
                       .region_step = to[2] + to[3],
                       .side_step = 1};
}

/* The tables that the op needs, from *at on. */
static void place_tables(cr_roi_args *a, bool forward, size_t *at) {
  const int64_t sides = a->by_sides.by - 1, positions = a->by_positions.by - 1;
  if (a->kind != CR_ROI_ALIGN || forward) a->image = array_at(at, a->regions, sizeof *a->image);
  if (a->kind != CR_ROI_ALIGN) a->side = array_at(at, a->regions * sides, sizeof *a->side);
  if (a->kind == CR_ROI_MEANS && !forward) {
    /* All threads of a plane go through the same side of all regions. */
    a->region_step = 1;
    a->side_step = a->regions;
  }
  if (a->kind == CR_ROI_ALIGN && forward) {
    const int64_t extent = a->height > a->width ? a->height : a->width;
    const int64_t most = a->ratio > 0 ? 2 * (int64_t)a->ratio : extent;
    a->taps_most = (int32_t)(most < extent ? most : extent);
    a->taps = array_at(at, a->regions * sides, sizeof *a->taps);
    a->tap = array_at(at, a->regions * sides * a->taps_most, sizeof *a->tap);
  }
  if (a->kind == CR_ROI_MEANS || forward) return;
  a->box = array_at(at, a->regions, sizeof *a->box);
  a->owner = array_at(at, a->regions * positions, sizeof *a->owner);
  if (a->kind == CR_ROI_LARGEST) {
    a->index = array_at(at, a->regions * a->results * a->by_cells.by, sizeof *a->index);
  } else {
    const int64_t weights = (int64_t)a->rows * a->height + (int64_t)a->columns * a->width;
    a->weight = array_at(at, a->regions * weights, sizeof *a->weight);
  }
}

static bool fits(int64_t a, int64_t b) {
  return a <= INT32_MAX / 2 && b <= INT32_MAX / 2 && a * b <= INT32_MAX;
}

/* The arguments that have the shapes of the map and of the result. */
static bool is_forward(cr_op_kind op) {
  return op == CR_OP_ROI_POOL_FWD || op == CR_OP_PSROI_POOL_FWD || op == CR_OP_ROI_ALIGN_FWD;
}
static int map_of(const cr_op_desc *desc) {
  return is_forward(desc->kind) ? 0 : desc->kind == CR_OP_ROI_POOL_BWD ? 3 : 2;
}
static int result_of(const cr_op_desc *desc) {
  return is_forward(desc->kind) ? 2 : 0;
}

static crema_status roi_plan(cr_plan *plan) {
  const cr_op_desc *desc = plan->desc;
  const int map = map_of(desc), result = result_of(desc);
  const crema_shape *m = &desc->arg[map].shape, *rois = &desc->arg[1].shape,
                    *to = &desc->arg[result].shape;
  const bool parts = kind_of(desc->kind) == CR_ROI_MEANS;
  if (m->axes != 4 || rois->axes != 2 || to->axes != 4 || rois->dim[1] != 5 ||
      to->dim[0] != rois->dim[0] ||
      m->dim[1] != (parts ? to->dim[1] * to->dim[2] * to->dim[3] : to->dim[1])) {
    return cr_fail(CREMA_E_SHAPE, "%s: shapes of map, regions and result do not fit",
                   cr_op_kind_name(desc->kind));
  }
  if (desc->kind == CR_OP_ROI_POOL_BWD && cr_op_arg_count(desc, 2) != cr_op_arg_count(desc, map)) {
    return cr_fail(CREMA_E_SHAPE, "%s: a map and its gradient do not fit",
                   cr_op_kind_name(desc->kind));
  }
  if (desc->u.roi.pad != 0) return cr_fail(CREMA_E_UNSUPPORTED, "regions with pad_ratio");
  if (!fits(m->dim[2], m->dim[3]) || !fits(to->dim[2], to->dim[3]) || !fits(m->dim[0], m->dim[2]) ||
      !fits(to->dim[0], 1) || !fits(m->dim[1], 1) || !fits(to->dim[1], 1) ||
      !fits(to->dim[2], m->dim[2]) || !fits(to->dim[3], m->dim[3])) {
    return cr_fail(CREMA_E_UNSUPPORTED, "regions of interest beyond 32 bits");
  }
  cr_roi_args args = extents_of(desc, map, result);
  size_t bytes = 0;
  place_tables(&args, is_forward(desc->kind), &bytes);
  plan->workspace_bytes = bytes;
  return CREMA_OK;
}

static cr_roi_args args_of(const cr_call *call) {
  cr_roi_args args = extents_of(call->desc, map_of(call->desc), result_of(call->desc));
  size_t at = (size_t)call->workspace.address;
  place_tables(&args, is_forward(call->desc->kind), &at);
  args.rois = cr_gpu_f32(call, 1);
  args.fault = cr_gpu_fault_of(call->context);
  return args;
}

/* src, rois, dst. */
static crema_status forward(const cr_call *call) {
  static const cr_device_function functions[] = {[CR_ROI_LARGEST] = CR_DEVICE_FUNCTION_roi_pool_fwd,
                                                 [CR_ROI_MEANS] = CR_DEVICE_FUNCTION_psroi_pool_fwd,
                                                 [CR_ROI_ALIGN] = CR_DEVICE_FUNCTION_roi_align_fwd};
  cr_roi_args args = args_of(call);
  args.src = cr_gpu_values(call, 0);
  args.out = cr_gpu_values(call, 2);
  const bool taps = args.kind == CR_ROI_ALIGN;
  CR_TRY(cr_gpu_each_in(call, taps ? CR_DEVICE_FUNCTION_roi_taps : CR_DEVICE_FUNCTION_roi_sides,
                        &args, args.regions * args.by_sides.by));
  return cr_gpu_each_of(call, 2, functions[args.kind], &args);
}

/* Blocks of channels at each position of the map. */
static int64_t spots(const cr_roi_args *a) {
  return a->images * a->by_blocks.by * a->by_plane.by;
}

/* diff_dst, rois, src, diff_src. */
static crema_status roi_pool_bwd(const cr_call *call) {
  cr_roi_args args = args_of(call);
  args.dy = cr_gpu_values(call, 0);
  args.src = cr_gpu_values(call, 2);
  args.out = cr_gpu_values(call, 3);
  CR_TRY(
      cr_gpu_each_in(call, CR_DEVICE_FUNCTION_roi_sides, &args, args.regions * args.by_sides.by));
  CR_TRY(cr_gpu_each_in(call, CR_DEVICE_FUNCTION_roi_owners, &args,
                        args.regions * args.by_positions.by));
  CR_TRY(cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_roi_pool_index, &args));
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_roi_pool_bwd, &args, spots(&args));
}

/* diff_dst, rois, diff_src. */
static cr_roi_args bwd_args(const cr_call *call) {
  cr_roi_args args = args_of(call);
  args.dy = cr_gpu_values(call, 0);
  args.out = cr_gpu_values(call, 2);
  return args;
}

static crema_status psroi_pool_bwd(const cr_call *call) {
  const cr_roi_args args = bwd_args(call);
  CR_TRY(
      cr_gpu_each_in(call, CR_DEVICE_FUNCTION_roi_sides, &args, args.regions * args.by_sides.by));
  return cr_gpu_each_of(call, 2, CR_DEVICE_FUNCTION_psroi_pool_bwd, &args);
}

static crema_status roi_align_bwd(const cr_call *call) {
  const cr_roi_args args = bwd_args(call);
  CR_TRY(cr_gpu_each_in(call, CR_DEVICE_FUNCTION_roi_weights, &args,
                        args.regions * args.by_positions.by));
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_roi_align_bwd, &args, spots(&args));
}

CR_GPU_ROW(roi_pool_fwd, ROI_POOL_FWD, forward, .plan = roi_plan);
CR_GPU_ROW(roi_pool_bwd, ROI_POOL_BWD, roi_pool_bwd, .plan = roi_plan);
CR_GPU_ROW(psroi_pool_fwd, PSROI_POOL_FWD, forward, .plan = roi_plan);
CR_GPU_ROW(psroi_pool_bwd, PSROI_POOL_BWD, psroi_pool_bwd, .plan = roi_plan);
CR_GPU_ROW(roi_align_fwd, ROI_ALIGN_FWD, forward, .plan = roi_plan);
CR_GPU_ROW(roi_align_bwd, ROI_ALIGN_BWD, roi_align_bwd, .plan = roi_plan);
