/* Convolution and pooling with windows drawn at random: odd extents, strides beyond the kernel,
 * kernels beyond the input, dilation, groups of one channel, one to three axes. Every row against
 * the double-precision reference, gradients against finite differences. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "op_check.h"
#include "op_run.h"

static uint32_t seed;

/* A case and the text that it points to. */
typedef struct drawn_case {
  op_case test;
  char shapes[256], label[256];
} drawn_case;

static int64_t below(cr_mt19937 *rng, int64_t bound) {
  return (int64_t)cr_mt19937_below(rng, (uint32_t)bound);
}

static void append(char *text, const char *first, int64_t a, int64_t b, int axes,
                   const int64_t *rest, const char *last) {
  size_t used = strlen(text);
  used +=
      (size_t)snprintf(text + used, 256 - used, "%s%lld %lld", first, (long long)a, (long long)b);
  for (int i = 0; i < axes; ++i) {
    used += (size_t)snprintf(text + used, 256 - used, " %lld", (long long)rest[i]);
  }
  snprintf(text + used, 256 - used, "%s", last);
}

/* The window and the extents of its input and output. False: the kernel does not fit. */
static bool draw_window(cr_mt19937 *rng, bool pooling, cr_window *w, int64_t *in, int64_t *out) {
  w->axes = pooling ? 2 : 1 + (int)below(rng, 3);
  const int64_t most = w->axes == 3 ? 4 : 7;
  for (int a = 0; a < w->axes; ++a) {
    in[a] = 1 + below(rng, most);
    w->kernel[a] = 1 + below(rng, w->axes == 3 ? 3 : 5);
    w->stride[a] = 1 + below(rng, 4);
    w->pad[a] = below(rng, pooling ? w->kernel[a] : 4);
    w->dilation[a] = pooling || below(rng, 2) ? 1 : 1 + below(rng, 3);
    const int64_t room = in[a] + 2 * w->pad[a] - w->dilation[a] * (w->kernel[a] - 1) - 1;
    if (room < 0) return false;
    /* Pooling rounds up, but no window may begin behind the input. */
    out[a] = (pooling ? room + w->stride[a] - 1 : room) / w->stride[a] + 1;
    while (pooling && (out[a] - 1) * w->stride[a] - w->pad[a] >= in[a]) --out[a];
  }
  return true;
}

static void label(drawn_case *c, const char *what, const cr_window *w) {
  size_t used = (size_t)snprintf(c->label, sizeof c->label, "%s", what);
  for (int a = 0; a < w->axes; ++a) {
    used +=
        (size_t)snprintf(c->label + used, sizeof c->label - used, ", k %d s %d p %d d %d",
                         (int)w->kernel[a], (int)w->stride[a], (int)w->pad[a], (int)w->dilation[a]);
  }
  snprintf(c->label + used, sizeof c->label - used, " on %s", c->shapes);
  c->test.label = c->label;
  c->test.shapes = c->shapes;
}

static bool draw_convolution(cr_mt19937 *rng, drawn_case *c) {
  static const int64_t channels[] = {1, 2, 4, 6, 8, 16};
  int64_t in[CR_MAX_SPATIAL], out[CR_MAX_SPATIAL];
  *c = (drawn_case){.test.desc.kind = CR_OP_CONV_FWD};
  cr_conv_params *p = &c->test.desc.u.conv;
  if (!draw_window(rng, false, &p->window, in, out)) return false;
  const int axes = p->window.axes;
  const int64_t from = channels[below(rng, axes == 3 ? 3 : 6)], n = 1 + below(rng, 2);
  p->group = below(rng, 2) ? 1 : below(rng, 2) && from % 2 == 0 ? 2 : from;
  const int64_t to = p->group * (1 + below(rng, 3));
  const cr_post relu = {CR_POST_UNARY, CR_UNARY_RELU, below(rng, 2) ? 0.25 : 0, 0, 0};
  if (below(rng, 3) == 0) p->posts.post[0] = relu;
  append(c->shapes, "", n, from, axes, in, ";");
  append(c->shapes, " ", to, from / p->group, axes, p->window.kernel, ";");
  if (below(rng, 4) == 0) strcat(c->shapes, " -;");
  else snprintf(c->shapes + strlen(c->shapes), 20, " %d;", (int)to);
  append(c->shapes, " ", n, to, axes, out, "");
  label(c, "convolution", &p->window);
  return true;
}

/* Strides from 8 on and kernels that reach into the next cells of stride x stride elements. */
static bool draw_cells(cr_mt19937 *rng, drawn_case *c) {
  int64_t in[2], out[2];
  *c = (drawn_case){.test.desc.kind = CR_OP_CONV_FWD};
  cr_conv_params *p = &c->test.desc.u.conv;
  cr_window *w = &p->window;
  w->axes = 2;
  for (int a = 0; a < 2; ++a) {
    w->stride[a] = 8 + below(rng, 4);
    w->kernel[a] = w->stride[a] + below(rng, w->stride[a]);
    w->pad[a] = below(rng, w->kernel[a]);
    w->dilation[a] = 1;
    in[a] = 1 + below(rng, 30);
    const int64_t room = in[a] + 2 * w->pad[a] - w->kernel[a];
    if (room < 0) return false;
    out[a] = room / w->stride[a] + 1;
  }
  p->group = below(rng, 2) ? 1 : 1 + below(rng, 3);
  const int64_t n = 1 + below(rng, 2), from = p->group * (1 + below(rng, 2));
  const int64_t to = p->group * (1 + below(rng, 2));
  append(c->shapes, "", n, from, 2, in, ";");
  append(c->shapes, " ", to, from / p->group, 2, w->kernel, "; -;");
  append(c->shapes, " ", n, to, 2, out, "");
  label(c, "cells", w);
  return true;
}

/* A window for each channel: maps of less and more than a vector, short and long strides, padding
 * beyond the kernel, rows and columns that no window meets. */
static bool draw_depthwise(cr_mt19937 *rng, drawn_case *c) {
  static const int64_t strides[] = {1, 1, 2, 2, 2, 3, 4, 8}, widths[] = {0, 18, 30, 46, 94};
  int64_t in[2], out[2];
  *c = (drawn_case){.test.desc.kind = CR_OP_CONV_FWD};
  cr_conv_params *p = &c->test.desc.u.conv;
  cr_window *w = &p->window;
  w->axes = 2;
  for (int a = 0; a < 2; ++a) {
    w->stride[a] = a == 0 ? 1 + below(rng, 2) : strides[below(rng, 8)];
    w->kernel[a] = 1 + below(rng, a == 0 ? 4 : 2 * w->stride[a] + 2);
    w->pad[a] = below(rng, w->kernel[a] + 2);
    w->dilation[a] = 1;
    out[a] = 1 + below(rng, 3) + (a == 1 ? widths[below(rng, 5)] : 0);
    in[a] = (out[a] - 1) * w->stride[a] + w->kernel[a] - 2 * w->pad[a] + below(rng, w->stride[a]);
    if (in[a] < 1) return false;
  }
  p->group = 1 + below(rng, 2);
  const int64_t n = 1 + (w->stride[1] < 4 ? below(rng, 2) : 0), group = p->group;
  append(c->shapes, "", n, group, 2, in, ";");
  append(c->shapes, " ", group, 1, 2, w->kernel, ";");
  if (below(rng, 2)) strcat(c->shapes, " -;");
  else snprintf(c->shapes + strlen(c->shapes), 20, " %d;", (int)group);
  append(c->shapes, " ", n, group, 2, out, "");
  label(c, "depthwise", w);
  return true;
}

static bool draw_pooling(cr_mt19937 *rng, drawn_case *c) {
  static const int64_t channels[] = {1, 3, 8, 16, 20};
  int64_t in[CR_MAX_SPATIAL], out[CR_MAX_SPATIAL];
  *c = (drawn_case){.test.desc.kind = CR_OP_POOL_FWD};
  cr_pool_params *p = &c->test.desc.u.pool;
  if (!draw_window(rng, true, &p->window, in, out)) return false;
  const int64_t n = 1 + below(rng, 2), planes = channels[below(rng, 5)];
  p->method = below(rng, 2) ? CR_POOL_MAX : below(rng, 2) ? CR_POOL_AVERAGE : CR_POOL_AVERAGE_INPUT;
  for (int a = 0; a < p->window.axes; ++a) p->src[a] = in[a];
  append(c->shapes, "", n, planes, p->window.axes, in, ";");
  append(c->shapes, " ", n, planes, p->window.axes, out, ";");
  if (p->method != CR_POOL_MAX || below(rng, 4) == 0) strcat(c->shapes, " -");
  else append(c->shapes, " ", n, planes, p->window.axes, out, " i32");
  label(c, p->method == CR_POOL_MAX ? "max" : "average", &p->window);
  return true;
}

/* Checks `wanted` cases, each forward and through its gradients. */
static void check(int wanted, bool (*draw)(cr_mt19937 *rng, drawn_case *c), const cr_op_kind *kinds,
                  int count) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed);
  for (int made = 0; made < wanted;) {
    drawn_case c;
    if (!draw(&rng, &c)) continue;
    op_record records[OP_ROWS_MAX] = {{0}};
    for (int k = 0; k < count * OP_TYPES; ++k) {
      op_check_case(&c.test, kinds[k / OP_TYPES], op_types[k % OP_TYPES], &rng, records);
    }
    ++made;
  }
}

TEST(test_convolution) {
  static const cr_op_kind kinds[] = {CR_OP_CONV_FWD, CR_OP_CONV_BWD_DATA, CR_OP_CONV_BWD_WEIGHTS};
  check(20, draw_convolution, kinds, 3);
  check(6, draw_cells, kinds, 3);
  check(30, draw_depthwise, kinds, 3);
}

TEST(test_pooling) {
  static const cr_op_kind kinds[] = {CR_OP_POOL_FWD, CR_OP_POOL_BWD};
  check(60, draw_pooling, kinds, 2);
}

int main(void) {
  /* These programs test the rows of a GPU, too, which most machines do not have. */
  if (!op_tests_start(&seed)) return OP_TESTS_SKIPPED;
  return run_all_tests(NULL, NULL);
}
