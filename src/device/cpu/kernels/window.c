#include "device/cpu/kernels/window.h"

#include <string.h>

#include "core/fail.h"
#include "device/cpu/kernels/extent.h"

/* Splits a row-major index over `axes` extents into coordinates. */
static void decode(int axes, const int64_t *extent, int64_t index, int64_t *at) {
  for (int a = axes - 1; a >= 0; --a) {
    at[a] = index % extent[a];
    index /= extent[a];
  }
}

crema_status cr_slide_make(const cr_window *window, const crema_shape *in, const crema_shape *out,
                           cr_slide *s) {
  memset(s, 0, sizeof *s);
  const int axes = window->axes;
  if (axes < 0 || axes > CR_MAX_SPATIAL || in->axes != axes + 2 || out->axes != axes + 2) {
    return cr_fail(CREMA_E_SHAPE, "a window over %d axes does not fit blobs of %d and %d axes",
                   axes, in->axes, out->axes);
  }
  s->axes = axes > 0 ? axes : 1;
  s->in_count = s->out_count = s->kernel_count = 1;
  /* Without spatial axes the window is a single element over a single element. */
  s->in[0] = s->out[0] = s->kernel[0] = s->stride[0] = s->dilation[0] = 1;
  for (int a = 0; a < axes; ++a) {
    s->in[a] = in->dim[a + 2], s->out[a] = out->dim[a + 2];
    s->kernel[a] = window->kernel[a], s->stride[a] = window->stride[a];
    s->pad[a] = window->pad[a], s->dilation[a] = window->dilation[a];
    if (s->kernel[a] < 1 || s->stride[a] < 1 || s->dilation[a] < 1 || s->pad[a] < 0) {
      return cr_fail(CREMA_E_SHAPE,
                     "window axis %d: kernel %lld, stride %lld, pad %lld, dilation %lld", a,
                     (long long)s->kernel[a], (long long)s->stride[a], (long long)s->pad[a],
                     (long long)s->dilation[a]);
    }
    if (s->kernel_count > INT32_MAX / s->kernel[a]) {
      return cr_fail(CREMA_E_UNSUPPORTED, "a window of more than %d elements", INT32_MAX);
    }
    s->in_count *= s->in[a];
    s->out_count *= s->out[a];
    s->kernel_count *= s->kernel[a];
  }
  return CREMA_OK;
}

crema_status cr_slide_conv(const cr_op_desc *desc, int image, int weights, int map,
                           cr_slide *slide) {
  const crema_shape *in = &desc->arg[image].shape, *out = &desc->arg[map].shape;
  const int64_t group = desc->u.conv.group;
  CR_TRY(cr_slide_make(&desc->u.conv.window, in, out, slide));
  if (group < 1 || in->dim[1] % group != 0 || out->dim[1] % group != 0) {
    return cr_fail(CREMA_E_SHAPE, "%lld groups do not divide %lld input and %lld output channels",
                   (long long)group, (long long)in->dim[1], (long long)out->dim[1]);
  }
  if (out->dim[0] == in->dim[0] &&
      cr_op_arg_count(desc, weights) == out->dim[1] * (in->dim[1] / group) * slide->kernel_count) {
    return CREMA_OK;
  }
  char text[3][128];
  return cr_fail(CREMA_E_SHAPE, "convolution of %s with weights %s to %s",
                 crema_shape_text(in, text[0], sizeof text[0]),
                 crema_shape_text(&desc->arg[weights].shape, text[1], sizeof text[1]),
                 crema_shape_text(out, text[2], sizeof text[2]));
}

crema_status cr_slide_check_floats(const cr_op_desc *desc) {
  const cr_op_arg *arg = desc->arg;
  const cr_conv_params *conv = &desc->u.conv;
  if (conv->window.axes != 2 || arg[0].shape.axes != 4) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not over two axes");
  }
  for (int i = 0; i < desc->args; ++i) {
    if (arg[i].type != CREMA_F32) return cr_fail(CREMA_E_UNSUPPORTED, "other values than floats");
  }
  for (int a = 0; a < 4; ++a) {
    if (arg[0].shape.dim[a] < 1 || arg[3].shape.dim[a] < 1) {
      return cr_fail(CREMA_E_UNSUPPORTED, "an empty shape");
    }
  }
  return CREMA_OK;
}

crema_status cr_slide_check_padded(const cr_slide *slide, int64_t rows, int64_t parts,
                                   int64_t columns) {
  enum { COPIES = 16, SPARE = 1 << 16 };
  const double most = COPIES * (double)cr_most(slide->in_count, slide->out_count) + SPARE;
  /* In doubles: the product can exceed 64 bits. */
  if ((double)rows * (double)parts * (double)columns <= most) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "a padded plane far larger than the input");
}

crema_status cr_slide_dense_conv(const cr_op_desc *desc, int image, int weights, int map,
                                 cr_slide *slide) {
  const crema_shape *in = &desc->arg[image].shape, *out = &desc->arg[map].shape;
  const cr_window *w = &desc->u.conv.window;
  CR_TRY(cr_slide_conv(desc, image, weights, map, slide));
  if (w->axes != 2 || w->dilation[0] != 1 || w->dilation[1] != 1) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not a dense window over two axes");
  }
  if (crema_shape_count(in, 0, in->axes) == 0 || crema_shape_count(out, 0, out->axes) == 0) {
    return cr_fail(CREMA_E_UNSUPPORTED, "an empty shape");
  }
  return CREMA_OK;
}

void cr_slide_span(const cr_slide *s, int64_t index, cr_span *span) {
  int64_t at[CR_MAX_SPATIAL];
  decode(s->axes, s->out, index, at);
  span->padded_count = 1;
  span->empty = false;
  for (int a = 0; a < s->axes; ++a) {
    const int64_t first = at[a] * s->stride[a] - s->pad[a];
    span->first[a] = first;
    span->begin[a] = cr_most(first, 0);
    span->end[a] = cr_least(first + s->kernel[a], s->in[a]);
    span->padded_count *= cr_least(first + s->kernel[a], s->in[a] + s->pad[a]) - first;
    if (span->begin[a] >= span->end[a]) span->empty = true;
  }
}

bool cr_span_next(const cr_slide *s, const cr_span *span, int64_t *at) {
  for (int a = s->axes - 2; a >= 0; --a) {
    if (++at[a] < span->end[a]) return true;
    at[a] = span->begin[a];
  }
  return false;
}

int32_t cr_span_index(const cr_slide *s, const cr_span *span, const int64_t *at) {
  int64_t index = 0;
  for (int a = 0; a < s->axes; ++a) index = index * s->kernel[a] + at[a] - span->first[a];
  return (int32_t)index;
}

int64_t cr_slide_in_index(const cr_slide *s, const int64_t *at) {
  int64_t index = 0;
  for (int a = 0; a < s->axes; ++a) index = index * s->in[a] + at[a];
  return index;
}

int64_t cr_slide_locate(const cr_slide *s, int64_t index, int64_t inside) {
  if (inside < 0 || inside >= s->kernel_count) return -1;
  int64_t at[CR_MAX_SPATIAL], offset[CR_MAX_SPATIAL];
  decode(s->axes, s->out, index, at);
  decode(s->axes, s->kernel, inside, offset);
  for (int a = 0; a < s->axes; ++a) {
    at[a] = at[a] * s->stride[a] - s->pad[a] + offset[a];
    if (at[a] < 0 || at[a] >= s->in[a]) return -1;
  }
  return cr_slide_in_index(s, at);
}

void cr_slide_tap(const cr_slide *s, int64_t inside, cr_tap *tap) {
  decode(s->axes, s->kernel, inside, tap->offset);
  const int a = s->axes - 1;
  const int64_t step = s->stride[a];
  tap->shift = tap->offset[a] * s->dilation[a] - s->pad[a];
  tap->begin = tap->shift >= 0 ? 0 : (-tap->shift + step - 1) / step;
  const int64_t room = s->in[a] - tap->shift;
  tap->end = room <= 0 ? 0 : cr_least(s->out[a], (room + step - 1) / step);
  if (tap->begin > tap->end) tap->begin = tap->end;
}

int64_t cr_tap_row(const cr_slide *s, const cr_tap *tap, int64_t row) {
  int64_t at[CR_MAX_SPATIAL];
  decode(s->axes - 1, s->out, row, at);
  int64_t base = 0;
  for (int a = 0; a < s->axes - 1; ++a) {
    const int64_t position = at[a] * s->stride[a] - s->pad[a] + tap->offset[a] * s->dilation[a];
    if (position < 0 || position >= s->in[a]) return -1;
    base = base * s->in[a] + position;
  }
  return base * s->in[s->axes - 1];
}
