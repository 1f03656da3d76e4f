/* Convolution over two axes in plain order: pointwise, or with windows of any stride and dilation.
 * In FLOAT, for processors for which oneDNN has only portable code.
 *
 * Gain over oneDNN 2.6 of Debian 12 on 64-bit Arm, where oneDNN unfolds the windows and multiplies
 * with portable code: 7.1x fewer instructions in SqueezeNet 1.0, counted in qemu.
 *
 * 12 neighbouring positions are one panel: the values of their windows, (kernel x channels, 12). A
 * tile of the result is 8 outputs at these positions (vector_tile.h). A thread gathers some panels,
 * which stay in its L2 cache, and takes all weights past them. A padded image is first copied with
 * its zeros, so that no window needs a check. */
#include <string.h>

#include "core/fail.h"
#include "device/cpu/kernels/extent.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/plan_state.h"
#include "device/cpu/kernels/vector_tile.h"
#include "device/cpu/kernels/window.h"
#include "device/cpu/onednn/conv.h"
#include "device/cpu/onednn/primitive.h"
#include "device/cpu/threads/threads.h"

enum {
  OUTPUTS = CR_TILE_ROWS,
  POSITIONS = CR_TILE_COLUMNS,
  FEW_OUTPUTS = 4,      /* of a group; with fewer, most of a tile is empty */
  PANELS_MOST = 8,      /* that are gathered together, */
  PANELS_VALUES = 65536 /* unless they have more values */
};

typedef struct windows_conv {
  cr_slide slide;
  int64_t batch, groups, channels, outputs; /* the last two: of one group */
  int64_t depth;                            /* values of a window */
  int64_t blocks;                           /* tiles along the outputs of a group */
  bool padded;                              /* the image is copied */
  int64_t height, width;                    /* of its planes, with their zeros */
  int64_t panels, together, gathers;        /* panels of an image; of a task; tasks for them */
  int64_t parts;                            /* tasks that share panels, with other outputs */
  int64_t image, slot;                      /* floats of the copy, and of a thread's panels */
  int64_t slots;                            /* threads */
  bool adds;                                /* the addend's value is added to the result, */
  float low, high;                          /* which is limited then */
} windows_conv;

/* Panels of one image and group. */
typedef struct panel_task {
  const float *image, *weights, *bias, *addend; /* of the group; the last two: NULL for none */
  float *result;
  int64_t first, end; /* panels */
  int64_t from, to;   /* blocks of outputs */
} panel_task;

static crema_status check_shape(const cr_plan *plan) {
  const cr_op_arg *arg = plan->desc->arg;
  const int64_t group = plan->desc->u.conv.group;
  CR_TRY(cr_slide_check_floats(plan->desc));
  if (arg[3].shape.dim[1] < FEW_OUTPUTS * group) {
    return cr_fail(CREMA_E_UNSUPPORTED, "few outputs");
  }
  return CREMA_OK;
}

/* (O/8, K, K, C, 8) for each group. */
static crema_status find_weights(const cr_plan *plan, const cr_layout **out) {
  const crema_shape *shape = &plan->desc->arg[1].shape;
  const int64_t group = plan->desc->u.conv.group;
  const dnnl_dims_t dims = {group, shape->dim[0] / group, shape->dim[1], shape->dim[2],
                            shape->dim[3]};
  const dnnl_dims_t alone = {shape->dim[0], shape->dim[1], shape->dim[2], shape->dim[3]};
  cr_md md = NULL;
  CR_TRY(cr_dnnl_check(group == 1 ? cr_md_create_tag(&md, 4, alone, dnnl_f32, dnnl_Ohwi8o)
                                  : cr_md_create_tag(&md, 5, dims, dnnl_f32, dnnl_gOhwi8o),
                       "memory"));
  crema_status status = cr_dnnl_layout(plan->context->device, md, out);
  cr_md_destroy(md);
  return status;
}

static crema_status fill_planes(windows_conv *w) {
  const cr_slide *s = &w->slide;
  int64_t extent[2];
  for (int a = 0; a < 2; ++a) {
    const int64_t reach = (s->out[a] - 1) * s->stride[a] + (s->kernel[a] - 1) * s->dilation[a] + 1;
    w->padded = w->padded || s->pad[a] > 0 || reach > s->in[a];
    extent[a] = cr_most(reach, s->in[a] + s->pad[a]);
  }
  w->height = w->padded ? extent[0] : s->in[0];
  w->width = w->padded ? extent[1] : s->in[1];
  CR_TRY(cr_slide_check_padded(s, w->height, w->width, 1));
  w->image = w->padded ? w->groups * w->channels * w->height * w->width : 0;
  return CREMA_OK;
}

static crema_status fill(const cr_plan *plan, windows_conv *w) {
  w->batch = plan->desc->arg[0].shape.dim[0];
  w->groups = plan->desc->u.conv.group;
  w->channels = plan->desc->arg[0].shape.dim[1] / w->groups;
  w->outputs = plan->desc->arg[3].shape.dim[1] / w->groups;
  w->depth = w->channels * w->slide.kernel_count;
  w->blocks = cr_pieces(w->outputs, OUTPUTS);
  CR_TRY(fill_planes(w));
  w->slots = plan->threads > 0 ? plan->threads : cr_cpu_threads_of(plan->context);
  w->panels = cr_pieces(w->slide.out_count, POSITIONS);
  w->together = cr_least(PANELS_MOST, cr_most(1, PANELS_VALUES / (w->depth * POSITIONS)));
  w->together = cr_most(1, cr_least(w->together, w->panels * w->groups / w->slots));
  w->gathers = cr_pieces(w->panels, w->together);
  w->parts = cr_least(w->blocks, cr_pieces(w->slots, w->gathers * w->groups));
  w->slot = w->together * w->depth * POSITIONS;
  return CREMA_OK;
}

static crema_status plan_windows(cr_plan *plan) {
  windows_conv w = {0};
  CR_TRY(check_shape(plan));
  CR_TRY(cr_slide_conv(plan->desc, 0, 1, 3, &w.slide));
  CR_TRY(cr_dnnl_conv_sum_limits(cr_op_posts(plan->desc), &w.adds, &w.low, &w.high));
  CR_TRY(find_weights(plan, &plan->format[1].layout));
  CR_TRY(fill(plan, &w));
  plan->workspace_bytes = (size_t)(w.image + w.slots * w.slot) * sizeof(float);
  return cr_plan_keep(plan, &w, sizeof w);
}

/* A plane with its zeros. */
static void pad_plane(const windows_conv *w, const float *plane, float *to) {
  const cr_slide *s = &w->slide;
  const int64_t before = s->pad[1], after = w->width - before - s->in[1];
  memset(to, 0, (size_t)(s->pad[0] * w->width) * sizeof *to);
  to += s->pad[0] * w->width;
  for (int64_t y = 0; y < s->in[0]; ++y, plane += s->in[1], to += w->width) {
    memset(to, 0, (size_t)before * sizeof *to);
    memcpy(to + before, plane, (size_t)s->in[1] * sizeof *to);
    memset(to + before + s->in[1], 0, (size_t)after * sizeof *to);
  }
  memset(to, 0, (size_t)((w->height - s->pad[0] - s->in[0]) * w->width) * sizeof *to);
}

/* Four positions of a panel: where their windows begin in a plane. */
typedef struct quad {
  int64_t at[CR_LANES];
  bool neighbours;
} quad;

static quad find_quad(const windows_conv *w, int64_t position) {
  const cr_slide *s = &w->slide;
  quad q = {.neighbours = true};
  for (int i = 0; i < CR_LANES; ++i) {
    /* The last panel repeats the last position. */
    const int64_t p = cr_least(position + i, s->out_count - 1);
    q.at[i] = p / s->out[1] * s->stride[0] * w->width + p % s->out[1] * s->stride[1];
    q.neighbours = q.neighbours && q.at[i] == q.at[0] + i;
  }
  return q;
}

/* One element of the windows, in all channels. */
CR_INLINE void gather_channels(const quad *q, const float *from, int64_t channels, int64_t plane,
                               float *to) {
  if (q->neighbours) {
    from += q->at[0];
#pragma GCC unroll 4
    for (int64_t c = 0; c < channels; ++c, from += plane, to += POSITIONS) {
      cr_lanes_store(to, cr_lanes_load(from));
    }
    return;
  }
  const float *const from0 = from + q->at[0], *const from1 = from + q->at[1],
                     *const from2 = from + q->at[2], *const from3 = from + q->at[3];
  for (int64_t c = 0, at = 0; c < channels; ++c, at += plane, to += POSITIONS) {
    cr_lanes_store(to, (cr_lanes){from0[at], from1[at], from2[at], from3[at]});
  }
}

static void gather_panel(const windows_conv *w, const float *image, int64_t position, float *to) {
  const cr_slide *s = &w->slide;
  for (int v = 0; v < CR_TILE_VECTORS; ++v) {
    const quad q = find_quad(w, position + (int64_t)v * CR_LANES);
    float *at = to + (int64_t)v * CR_LANES;
    for (int64_t y = 0; y < s->kernel[0]; ++y) {
      for (int64_t x = 0; x < s->kernel[1]; ++x, at += w->channels * POSITIONS) {
        const int64_t tap = y * s->dilation[0] * w->width + x * s->dilation[1];
        gather_channels(&q, image + tap, w->channels, w->height * w->width, at);
      }
    }
  }
}

/* Finishes `rows` outputs at `count` positions from offset `at` on. */
CR_INLINE void put_tile(const windows_conv *w, const panel_task *t,
                        cr_lanes sum[OUTPUTS][CR_TILE_VECTORS], int64_t at, int64_t rows,
                        int64_t count) {
  const cr_lanes low = cr_lanes_all(w->low), high = cr_lanes_all(w->high);
  const size_t bytes = (size_t)count * sizeof(float);
#pragma GCC unroll 8
  for (int i = 0; i < OUTPUTS; ++i) {
    if (i >= rows) return;
    const int64_t offset = at + i * w->slide.out_count;
    float value[POSITIONS] = {0}, *to = count == POSITIONS ? t->result + offset : value;
    if (t->addend != NULL) memcpy(value, t->addend + offset, bytes);
#pragma GCC unroll 3
    for (int v = 0; v < CR_TILE_VECTORS; ++v) {
      cr_lanes result = sum[i][v];
      if (t->addend != NULL) result += cr_lanes_load(value + v * CR_LANES);
      cr_lanes_store(to + v * CR_LANES, cr_lanes_limit(result, low, high));
    }
    if (to == value) memcpy(t->result + offset, value, bytes);
  }
}

CR_TILE_ALONE static void compute_tile(const windows_conv *w, const panel_task *t,
                                       const float *panel, int64_t position, int64_t block) {
  const int64_t first = block * OUTPUTS, rows = cr_least(OUTPUTS, w->outputs - first);
  const int64_t count = cr_least(POSITIONS, w->slide.out_count - position);
  cr_lanes sum[OUTPUTS][CR_TILE_VECTORS];
#pragma GCC unroll 8
  for (int i = 0; i < OUTPUTS; ++i) {
    const float bias = t->bias != NULL && i < rows ? t->bias[first + i] : 0;
    sum[i][0] = sum[i][1] = sum[i][2] = cr_lanes_all(bias);
  }
  cr_tile_add(sum, t->weights + block * w->depth * OUTPUTS, panel, w->depth);
  put_tile(w, t, sum, first * w->slide.out_count + position, rows, count);
}

static void run_task(const windows_conv *w, const panel_task *t, float *space) {
  const int64_t panel = w->depth * POSITIONS;
  for (int64_t i = t->first; i < t->end; ++i) {
    gather_panel(w, t->image, i * POSITIONS, space + (i - t->first) * panel);
  }
  for (int64_t block = t->from; block < t->to; ++block) {
    for (int64_t i = t->first; i < t->end; ++i) {
      compute_tile(w, t, space + (i - t->first) * panel, i * POSITIONS, block);
    }
  }
}

/* Task `number` of image n, whose planes are at `image`. */
static panel_task find_task(const cr_call *call, const float *image, int64_t n, int64_t number) {
  const windows_conv *w = call->plan->state;
  const int64_t part = number % w->parts, gather = number / w->parts % w->gathers;
  const int64_t group = number / w->parts / w->gathers;
  const int64_t first = group * w->outputs, plane = w->slide.out_count;
  const int64_t result = (n * w->groups * w->outputs + first) * plane;
  const float *bias = cr_f32(call->buffer, 2);
  return (panel_task){
      .image = image + group * w->channels * w->height * w->width,
      .weights = cr_f32(call->buffer, 1) + group * w->blocks * OUTPUTS * w->depth,
      .bias = bias == NULL ? NULL : bias + first,
      .addend = w->adds ? cr_f32(call->buffer, CR_ARG_ADDEND) + result : NULL,
      .result = cr_f32(call->buffer, 3) + result,
      .first = gather * w->together,
      .end = cr_least(w->panels, (gather + 1) * w->together),
      .from = w->blocks * part / w->parts,
      .to = w->blocks * (part + 1) / w->parts,
  };
}

static void run_image(const cr_call *call, int64_t n) {
  const windows_conv *w = call->plan->state;
  const int64_t planes = w->groups * w->channels, in = w->slide.in_count;
  const int64_t tasks = w->groups * w->gathers * w->parts;
  float *copy = cr_f32(&call->workspace, 0), *space = copy + w->image;
  const float *image = cr_f32(call->buffer, 0) + n * planes * in;
  if (w->padded) {
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < planes; ++c) {
      pad_plane(w, image + c * in, copy + c * w->height * w->width);
    }
    image = copy;
  }
#pragma omp parallel for schedule(static)
  for (int64_t slot = 0; slot < w->slots; ++slot) {
    for (int64_t i = tasks * slot / w->slots; i < tasks * (slot + 1) / w->slots; ++i) {
      const panel_task t = find_task(call, image, n, i);
      run_task(w, &t, space + slot * w->slot);
    }
  }
}

static crema_status run_windows(const cr_call *call) {
  const windows_conv *w = call->plan->state;
  for (int64_t n = 0; n < w->batch; ++n) run_image(call, n);
  return CREMA_OK;
}

CR_KERNEL(conv_fwd_windows, CONV_FWD, .plan = plan_windows, .run = run_windows,
          .destroy = cr_plan_release);
