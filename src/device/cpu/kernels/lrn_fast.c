/* Local response normalisation of floats, in tables whose loops are vectors.
 *
 * Gain over lrn.c on AMD EPYC (Zen 5), two threads: 10x in the row of bench/layers for windows
 * within a channel. It has 32 x 64 planes of 56 x 56. oneDNN has no kernel for such windows.
 *
 * The tensor is divided into tables of lines. Across channels, a table is a strip of an image's
 * positions, and a line has the values of one channel. Within a channel, a table is a plane, a line
 * is a row of it, and windows also extend along the line. All sums of a table are computed before
 * its first result is written. dst may therefore be src, and diff_src may be src or diff_dst. aux
 * is not used. */
#define CR_REF_F32

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/extent.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/lrn_power.h"
#include "device/cpu/kernels/plan_state.h"
#include "device/cpu/kernels/vector_math.h"

enum { STRIP = 512 /* positions */, BUFFERS = 4 /* powers, ratios and two for sums */ };

typedef struct lrn_plan {
  float k, factor, beta;
  bool within;
  int64_t before, after; /* elements of a window on either side of its centre */
  int64_t tables, strips, lines, width, step; /* step: from a line to the next in the tensor */
  int parts;                                  /* of the tables, each with its own buffers */
} lrn_plan;

static crema_status plan_lrn(cr_plan *plan) {
  CR_TRY(cr_check_lrn(plan));
  const cr_lrn_params *p = &plan->desc->u.lrn;
  const int64_t *dim = plan->desc->arg[0].shape.dim, plane = dim[2] * dim[3];
  const bool within = p->within_channel;
  const float elements = (float)p->size * (within ? (float)p->size : 1);
  lrn_plan l = {.k = p->k, .factor = p->alpha / elements, .beta = p->beta, .within = within};
  l.before = (p->size - 1) / 2, l.after = p->size - 1 - l.before;
  l.lines = dim[within ? 2 : 1], l.step = within ? dim[3] : plane;
  l.width = within ? dim[3] : cr_least(plane, STRIP);
  l.strips = within ? 1 : (plane + STRIP - 1) / STRIP;
  l.tables = dim[0] * (within ? dim[1] : l.strips);
  l.parts = (int)cr_least(plan->threads > 0 ? plan->threads : 1, l.tables);
  plan->workspace_bytes = (size_t)(l.parts * BUFFERS * l.lines * l.width) * sizeof(float);
  return cr_plan_keep(plan, &l, sizeof l);
}

CR_INLINE void add_values(int64_t count, const float *from, float *to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

/* sums = the sums over windows of lines x width values, which reach `before` and `after` elements.
 * `spare` is overwritten. */
CR_INLINE void sum_windows(const lrn_plan *p, int64_t width, int64_t before, int64_t after,
                           const float *values, float *spare, float *sums) {
  for (int64_t l = 0; l < p->lines && p->within; ++l) {
    const float *from = values + l * width;
    float *to = spare + l * width;
    memcpy(to, from, (size_t)width * sizeof *to);
    for (int64_t j = 1; j <= before && j < width; ++j) add_values(width - j, from, to + j);
    for (int64_t j = 1; j <= after && j < width; ++j) add_values(width - j, from + j, to);
  }
  if (p->within) values = spare;
  for (int64_t l = 0; l < p->lines; ++l, sums += width) {
    const int64_t first = l > before ? l - before : 0, end = cr_least(l + after + 1, p->lines);
    memcpy(sums, values + first * width, (size_t)width * sizeof *sums);
    for (int64_t j = first + 1; j < end; ++j) add_values(width, values + j * width, sums);
  }
}

/* power = s^-beta */
CR_INLINE void raise(float beta, int64_t count, const float *s, float *power) {
#pragma omp simd
  for (int64_t i = 0; i < (beta == 0.75f ? count : 0); ++i) power[i] = cr_power_of_minus_3_4(s[i]);
#pragma omp simd
  for (int64_t i = 0; i < (beta == 0.75f ? 0 : count); ++i)
    power[i] = cr_ref_exp(-beta * cr_ref_log(s[i]));
}

/* One table, whose lines have `width` values. dy NULL: to = y; else to = dx. */
CR_CLONES static void normalise(const lrn_plan *p, int64_t width, float *memory, const float *x,
                                const float *dy, float *to) {
  const int64_t count = p->lines * width, end = p->lines * p->step, step = p->step;
  const float k = p->k, factor = p->factor, beta = p->beta, slope = 2 * factor * beta;
  float *power = memory, *ratio = power + count, *spare = ratio + count, *sum = spare + count;
  for (int64_t at = 0, l = 0; at < end; at += step, l += width) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) ratio[l + i] = x[at + i] * x[at + i];
  }
  sum_windows(p, width, p->before, p->after, ratio, spare, sum);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sum[i] = k + factor * sum[i];
  raise(beta, count, sum, power);
  for (int64_t at = 0, l = 0; at < end; at += step, l += width) {
#pragma omp simd
    for (int64_t i = 0; i < (dy == NULL ? width : 0); ++i) to[at + i] = x[at + i] * power[l + i];
#pragma omp simd
    for (int64_t i = 0; i < (dy == NULL ? 0 : width); ++i) {
      ratio[l + i] = dy[at + i] * x[at + i] * (power[l + i] / sum[l + i]);
    }
  }
  if (dy == NULL) return;
  /* A window that sees an element begins `after` before it. */
  sum_windows(p, width, p->after, p->before, ratio, spare, sum);
  for (int64_t at = 0, l = 0; at < end; at += step, l += width) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      to[at + i] = dy[at + i] * power[l + i] - slope * x[at + i] * sum[l + i];
    }
  }
}

static crema_status run(const cr_call *call, const float *x, const float *dy, float *to) {
  const lrn_plan *p = call->plan->state;
#pragma omp parallel for schedule(static)
  for (int part = 0; part < p->parts; ++part) {
    float *memory = cr_f32(&call->workspace, 0) + part * BUFFERS * p->lines * p->width;
    for (int64_t t = p->tables * part / p->parts; t < p->tables * (part + 1) / p->parts; ++t) {
      const int64_t first = t % p->strips * p->width, width = cr_least(p->width, p->step - first);
      const int64_t at = t / p->strips * p->lines * p->step + first;
      normalise(p, width, memory, x + at, dy == NULL ? NULL : dy + at, to + at);
    }
  }
  return CREMA_OK;
}

/* src, dst, aux. */
static crema_status lrn_fwd(const cr_call *call) {
  return run(call, cr_f32(call->buffer, 0), NULL, cr_f32(call->buffer, 1));
}

/* src, dst, diff_dst, aux, diff_src; dst may have been overwritten by a layer in place. */
static crema_status lrn_bwd(const cr_call *call) {
  return run(call, cr_f32(call->buffer, 0), cr_f32(call->buffer, 2), cr_f32(call->buffer, 4));
}

CR_KERNEL(lrn_fwd_fast, LRN_FWD, .plan = plan_lrn, .run = lrn_fwd, .destroy = cr_plan_release);
CR_KERNEL(lrn_bwd_fast, LRN_BWD, .plan = plan_lrn, .run = lrn_bwd, .destroy = cr_plan_release);
