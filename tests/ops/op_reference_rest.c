/* Definitions of the ops that only some layers need. */
#include <math.h>

#include "op_reference.h"

static int64_t count_of(const cr_op_desc *d, int i) {
  return op_count(&d->arg[i].shape);
}

static int64_t dim_of(const cr_op_desc *d, int i, int axis) {
  return axis < d->arg[i].shape.axes ? d->arg[i].shape.dim[axis] : 1;
}

static void prelu(const cr_op_desc *d, double *const *in, double *y) {
  for (int64_t i = 0; i < count_of(d, 0); ++i) {
    const double slope = in[1][i / dim_of(d, 0, 2) % dim_of(d, 0, 1)];
    y[i] = in[0][i] > 0 ? in[0][i] : slope * in[0][i];
  }
}

static void sigmoid_loss(const cr_op_desc *d, double *const *in, double *const *out) {
  *out[2] = *out[3] = 0;
  for (int64_t i = 0; i < count_of(d, 0); ++i) {
    const double t = in[1][i], p = 1 / (1 + exp(-in[0][i]));
    if (d->u.nll.has_ignore && (int)t == d->u.nll.ignore) continue;
    *out[2] -= t * log(p) + (1 - t) * log(1 - p);
    *out[3] += 1;
  }
}

static double hinge(const cr_op_desc *d, double *const *in) {
  const int64_t classes = dim_of(d, 0, 1);
  double loss = 0;
  for (int64_t i = 0; i < count_of(d, 0); ++i) {
    const bool truth = (int64_t)in[1][i / classes] == i % classes;
    const double missing = fmax(0, 1 + (truth ? -in[0][i] : in[0][i]));
    loss += d->u.norm == 2 ? missing * missing : missing;
  }
  return loss;
}

static double contrastive(const cr_op_desc *d, double *const *in) {
  const int64_t width = dim_of(d, 0, 1);
  const double margin = (double)d->u.contrastive.margin;
  double loss = 0;
  for (int64_t n = 0; n < dim_of(d, 0, 0); ++n) {
    double square = 0;
    for (int64_t i = n * width; i < (n + 1) * width; ++i) square += pow(in[0][i] - in[1][i], 2);
    if (in[2][n] != 0) loss += square;
    else if (d->u.contrastive.legacy) loss += fmax(0, margin - square);
    else loss += pow(fmax(0, margin - sqrt(square)), 2);
  }
  return loss;
}

static void infogain(const cr_op_desc *d, double *const *in, double *const *out) {
  const int64_t classes = dim_of(d, 0, 1), inner = dim_of(d, 0, 2);
  *out[3] = *out[4] = 0;
  for (int64_t i = 0; i < count_of(d, 1); ++i) {
    const int64_t label = (int64_t)in[1][i];
    if (d->u.nll.has_ignore && label == d->u.nll.ignore) continue;
    *out[4] += 1;
    for (int64_t c = 0; c < classes; ++c) {
      const double gain = in[2] ? in[2][label * classes + c] : label == c;
      *out[3] -= gain * log(in[0][(i / inner * classes + c) * inner + i % inner]);
    }
  }
}

static void mvn(const cr_op_desc *d, double *const *in, double *const *out) {
  const int64_t width = dim_of(d, 0, 1);
  for (int64_t r = 0; r < dim_of(d, 0, 0); ++r) {
    const double *x = in[0] + r * width;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < width; ++i) mean += x[i] / (double)width;
    for (int64_t i = 0; i < width; ++i) variance += pow(x[i] - mean, 2) / (double)width;
    out[2][r] = d->u.mvn.variance ? sqrt(variance) + (double)d->u.mvn.eps : 1;
    for (int64_t i = 0; i < width; ++i) out[1][r * width + i] = (x[i] - mean) / out[2][r];
  }
}

static void row_reduce(const cr_op_desc *d, const double *x, double *y) {
  const int64_t width = dim_of(d, 0, 1);
  for (int64_t r = 0; r < dim_of(d, 0, 0); ++r) {
    y[r] = 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i) {
      double term = x[i];
      if (d->u.rows.reduction == CR_REDUCE_ASUM) term = fabs(x[i]);
      if (d->u.rows.reduction == CR_REDUCE_SUMSQ) term = x[i] * x[i];
      y[r] += (double)d->u.rows.coeff * term;
    }
  }
}

/* The rank of a value is the number of those that come before it. */
static void arg_max(const cr_op_desc *d, const double *x, double *indices, double *values) {
  const int64_t classes = dim_of(d, 0, 1), inner = dim_of(d, 0, 2), ranks = dim_of(d, 1, 1);
  for (int64_t i = 0; i < count_of(d, 0); ++i) {
    const int64_t n = i / inner / classes, c = i / inner % classes, p = i % inner;
    int64_t rank = 0;
    for (int64_t k = 0; k < classes; ++k) {
      const double other = x[(n * classes + k) * inner + p];
      rank += other > x[i] || (other == x[i] && k > c);
    }
    if (rank >= ranks) continue;
    indices[(n * ranks + rank) * inner + p] = (double)c;
    if (values) values[(n * ranks + rank) * inner + p] = x[i];
  }
}

/* Extents of shape `s` after axis `a`. */
static int64_t stride_of(const crema_shape *s, int a) {
  int64_t stride = 1;
  for (int b = a + 1; b < s->axes; ++b) stride *= s->dim[b];
  return stride;
}

static void crop_or_permute(const cr_op_desc *d, const double *x, double *y) {
  const crema_shape *from = &d->arg[0].shape, *to = &d->arg[1].shape;
  for (int64_t i = 0; i < op_count(to); ++i) {
    int64_t source = 0;
    for (int a = 0; a < to->axes; ++a) {
      const int64_t at = i / stride_of(to, a) % to->dim[a];
      if (d->kind == CR_OP_PERMUTE) source += at * stride_of(from, d->u.order[a]);
      else source += (at + d->u.offset[a]) * stride_of(from, a);
    }
    y[i] = x[source];
  }
}

static void gather_or_tile(const cr_op_desc *d, double *const *in, double *const *out) {
  const bool gather = d->kind == CR_OP_GATHER_FWD;
  const int64_t inner = dim_of(d, 0, 1), tiles = dim_of(d, 1, 1);
  double *y = out[gather ? 2 : 1];
  for (int64_t i = 0; i < count_of(d, gather ? 2 : 1); ++i) {
    const int64_t row = gather ? (int64_t)in[1][i / inner] : i / inner / tiles;
    y[i] = in[0][row * inner + i % inner];
  }
}

/* Every column value, by dividing its index into channel, window element and position. */
static void columns(const cr_op_desc *d, const double *x, double *y) {
  const cr_window *w = &d->u.window;
  const crema_shape *image = &d->arg[0].shape, *to = &d->arg[1].shape;
  int64_t window = 1;
  for (int a = 0; a < w->axes; ++a) window *= w->kernel[a];
  for (int64_t i = 0; i < op_count(to); ++i) {
    const int64_t row = i / stride_of(to, 1);
    int64_t inside = row % window, source = row / window;
    bool padding = false;
    int64_t tap[CR_MAX_SPATIAL];
    for (int a = w->axes - 1; a >= 0; --a) {
      tap[a] = inside % w->kernel[a];
      inside /= w->kernel[a];
    }
    for (int a = 0; a < w->axes; ++a) {
      const int64_t position = i / stride_of(to, a + 2) % to->dim[a + 2];
      const int64_t at = position * w->stride[a] - w->pad[a] + tap[a] * w->dilation[a];
      padding = padding || at < 0 || at >= image->dim[a + 2];
      source = source * image->dim[a + 2] + at;
    }
    y[i] = padding ? 0 : x[source];
  }
}

bool op_reference_rest(const cr_op_desc *d, double *const *in, double *const *out) {
  switch (d->kind) {
    case CR_OP_PRELU_FWD: prelu(d, in, out[2]); return true;
    case CR_OP_SIGMOID_LOSS_FWD: sigmoid_loss(d, in, out); return true;
    case CR_OP_HINGE_FWD: *out[2] = hinge(d, in); return true;
    case CR_OP_CONTRASTIVE_FWD: *out[3] = contrastive(d, in); return true;
    case CR_OP_INFOGAIN_FWD: infogain(d, in, out); return true;
    case CR_OP_MVN_FWD: mvn(d, in, out); return true;
    case CR_OP_ROW_REDUCE_FWD: row_reduce(d, in[0], out[1]); return true;
    case CR_OP_ARG_MAX: arg_max(d, in[0], out[1], out[2]); return true;
    case CR_OP_CROP_FWD:
    case CR_OP_PERMUTE: crop_or_permute(d, in[0], out[1]); return true;
    case CR_OP_TILE_FWD:
    case CR_OP_GATHER_FWD: gather_or_tile(d, in, out); return true;
    case CR_OP_IM2COL: columns(d, in[0], out[1]); return true;
    default: return false;
  }
}
