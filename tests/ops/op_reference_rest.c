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

static double multinomial(const cr_op_desc *d, double *const *in) {
  double loss = 0;
  for (int64_t n = 0; n < dim_of(d, 0, 0); ++n) {
    loss -= log(in[0][n * dim_of(d, 0, 1) + (int64_t)in[1][n]]);
  }
  return loss;
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
    if (gather && d->args > 3 && in[3]) y[i] += in[3][i % inner];
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

/* What the step at `t` takes over of unit d of sequence n: cont times its state before. */
static double taken(const cr_op_desc *d, int state, const double *cont, const double *first,
                    const double *all, int64_t t, int64_t n, int64_t unit) {
  const int64_t batch = dim_of(d, state, 1), units = dim_of(d, state, 2);
  if (first == NULL) return 0;
  return cont[t * batch + n] *
         (t == 0 ? first[n * units + unit] : all[((t - 1) * batch + n) * units + unit]);
}

/* sums[row] + weights[row] times what is taken over of all units. */
static double summed(const cr_op_desc *d, int state, double *const *in, const double *h, int64_t t,
                     int64_t n, int64_t row) {
  const int64_t units = dim_of(d, state, 2), rows = dim_of(d, 0, 2);
  double sum = in[0][(t * dim_of(d, state, 1) + n) * rows + row];
  for (int64_t u = 0; u < units && in[2]; ++u) {
    sum += in[2][row * units + u] * taken(d, state, in[1], in[3], h, t, n, u);
  }
  return sum;
}

static void lstm(const cr_op_desc *d, double *const *in, double *const *out) {
  const int64_t batch = dim_of(d, 5, 1), units = dim_of(d, 5, 2);
  for (int64_t i = 0; i < count_of(d, 5); ++i) {
    const int64_t t = i / units / batch, n = i / units % batch, u = i % units;
    double gate[4];
    for (int k = 0; k < 4; ++k) {
      const double x = summed(d, 5, in, out[5], t, n, k * units + u);
      gate[k] = k == 3 ? tanh(x) : 1 / (1 + exp(-x));
      out[7][(t * batch + n) * 4 * units + k * units + u] = gate[k];
    }
    out[6][i] = gate[1] * taken(d, 5, in[1], in[4], out[6], t, n, u) + gate[0] * gate[3];
    out[5][i] = gate[2] * tanh(out[6][i]);
  }
}

static void lstm_unit(const cr_op_desc *d, double *const *in, double *const *out) {
  const int64_t units = dim_of(d, 2, 2);
  for (int64_t i = 0; i < count_of(d, 2); ++i) {
    const double *x = in[0] + i / units * 4 * units + i % units;
    double gate[4];
    for (int k = 0; k < 4; ++k) {
      gate[k] = k == 3 ? tanh(x[k * units]) : 1 / (1 + exp(-x[k * units]));
    }
    out[3][i] = gate[1] * in[1][i / units] * in[2][i] + gate[0] * gate[3];
    out[4][i] = gate[2] * tanh(out[3][i]);
  }
}

static void rnn(const cr_op_desc *d, double *const *in, double *h) {
  const int64_t batch = dim_of(d, 4, 1), units = dim_of(d, 4, 2);
  for (int64_t i = 0; i < count_of(d, 4); ++i) {
    h[i] = tanh(summed(d, 4, in, h, i / units / batch, i / units % batch, i % units));
  }
}

static void recurrent_weights(const cr_op_desc *d, double *const *in, double *weights) {
  const int64_t batch = dim_of(d, 0, 1), units = dim_of(d, 0, 2), rows = dim_of(d, 3, 2);
  for (int64_t i = 0; i < rows * units; ++i) {
    weights[i] = 0;
    for (int64_t p = 0; p < dim_of(d, 0, 0) * batch; ++p) {
      weights[i] += in[3][p * rows + i / units] *
                    taken(d, 0, in[2], in[1], in[0], p / batch, p % batch, i % units);
    }
  }
}

static void normalize(const cr_op_desc *d, double *const *in, double *const *out) {
  const int64_t channels = dim_of(d, 0, 1), inner = dim_of(d, 0, 2);
  for (int64_t i = 0; i < count_of(d, 0); ++i) {
    const int64_t n = i / inner / channels, p = i % inner;
    double sum = (double)d->u.normalize.eps;
    for (int64_t k = 0; k < channels * inner; ++k) {
      if (!d->u.normalize.across && k % inner != p) continue;
      sum += pow(in[0][n * channels * inner + k], 2);
    }
    const double scale = in[1][count_of(d, 1) == 1 ? 0 : i / inner % channels];
    out[2][i] = scale * in[0][i] / sqrt(sum);
    out[3][d->u.normalize.across ? n : n * inner + p] = sqrt(sum);
  }
}

static double smooth_l1(const cr_op_desc *d, double *const *in) {
  const double square = (double)d->u.smooth.sigma2;
  double loss = 0;
  for (int64_t i = 0; i < count_of(d, 0); ++i) {
    const double x = fabs((in[2] ? in[2][i] : 1) * (in[0][i] - in[1][i]));
    const double f = x * square < 1 ? square * x * x / 2 : x - 1 / (2 * square);
    loss += (in[3] ? in[3][i] : 1) * f;
  }
  return loss;
}

/* The value of pixel (y, x) of a channel; 0 outside. */
static double pixel(const cr_op_desc *d, const double *map, int64_t plane, int64_t y, int64_t x) {
  const int64_t height = dim_of(d, 0, 2), width = dim_of(d, 0, 3);
  return y < 0 || x < 0 || y >= height || x >= width ? 0 : map[(plane * height + y) * width + x];
}

/* Each pixel of the map is asked whether it belongs to the part. The largest values are those of
 * whole numbers: `frozen`: which of equal ones is the first does not depend on a small difference.
 */
static void region_pool(const cr_op_desc *d, double *const *in, double *const *out, bool frozen) {
  const int64_t rows = dim_of(d, 2, 2), columns = dim_of(d, 2, 3), channels = dim_of(d, 0, 1);
  const double scale = (double)d->u.roi.scale;
  const bool parts = d->kind == CR_OP_PSROI_POOL_FWD;
  for (int64_t i = 0; i < count_of(d, 2); ++i) {
    const double *roi = in[1] + 5 * (i / columns / rows / dim_of(d, 2, 1));
    const int64_t c = i / columns / rows % dim_of(d, 2, 1),
                  at[2] = {i % columns, i / columns % rows};
    const int64_t parts_of[2] = {columns, rows};
    const int64_t plane =
        (int64_t)roi[0] * channels + (parts ? (c * rows + at[1]) * columns + at[0] : c);
    double low[2], high[2], sum = 0, area = 0, largest = 0, best = -INFINITY;
    for (int k = 0; k < 2; ++k) {
      const double pad = (double)d->u.roi.pad * (roi[3 + k] - roi[1 + k] + 1);
      const double first = roi[1 + k] - pad, last = roi[3 + k] + pad;
      const double begin = parts ? round(first) * scale : round(first * scale);
      const double end = parts ? (round(last) + 1) * scale : round(last * scale) + 1;
      const double size = fmax(end - begin, parts ? 0.1 : 1) / (double)parts_of[k];
      low[k] = floor(begin + (double)at[k] * size);
      high[k] = ceil(begin + (double)(at[k] + 1) * size);
    }
    for (int64_t p = 0; p < dim_of(d, 0, 2) * dim_of(d, 0, 3); ++p) {
      const int64_t x = p % dim_of(d, 0, 3), y = p / dim_of(d, 0, 3);
      if ((double)x < low[0] || (double)x >= high[0] || (double)y < low[1] || (double)y >= high[1])
        continue;
      const double value = pixel(d, in[0], plane, y, x);
      sum += value;
      area += 1;
      /* Differences move values by 4e-4 at most: of equal ones the first stays largest. */
      const double rank = value - (frozen ? 1e-3 * (double)p : 0);
      if (rank > best) largest = value, best = rank;
    }
    out[2][i] = !parts ? largest : area > 0 ? sum / area : 0;
  }
}

/* Bilinear at (y, x) cut to the map. */
static double between(const cr_op_desc *d, const double *map, int64_t plane, double y, double x) {
  y = fmin(fmax(y, 0), (double)(dim_of(d, 0, 2) - 1));
  x = fmin(fmax(x, 0), (double)(dim_of(d, 0, 3) - 1));
  const int64_t i = (int64_t)floor(y), j = (int64_t)floor(x);
  const double a = y - (double)i, b = x - (double)j;
  return (1 - a) * ((1 - b) * pixel(d, map, plane, i, j) + b * pixel(d, map, plane, i, j + 1)) +
         a * ((1 - b) * pixel(d, map, plane, i + 1, j) + b * pixel(d, map, plane, i + 1, j + 1));
}

static void region_align(const cr_op_desc *d, double *const *in, double *y) {
  const int64_t rows = dim_of(d, 2, 2), columns = dim_of(d, 2, 3), channels = dim_of(d, 0, 1);
  for (int64_t i = 0; i < count_of(d, 2); ++i) {
    const double *roi = in[1] + 5 * (i / columns / rows / channels);
    const int64_t plane = (int64_t)roi[0] * channels + i / columns / rows % channels;
    double begin[2], size[2], sum = 0;
    int64_t count[2];
    for (int k = 0; k < 2; ++k) {
      begin[k] = roi[1 + k] * (double)d->u.roi.scale;
      const double length = fmax(1, roi[3 + k] * (double)d->u.roi.scale - begin[k]);
      size[k] = length / (double)(k == 0 ? columns : rows);
      count[k] = d->u.roi.ratio > 0 ? d->u.roi.ratio : (int64_t)ceil(size[k]);
      begin[k] += size[k] * (double)(k == 0 ? i % columns : i / columns % rows);
    }
    for (int64_t s = 0; s < count[0] * count[1]; ++s) {
      const double px = begin[0] + size[0] * ((double)(s % count[0]) + 0.5) / (double)count[0];
      const double py = begin[1] + size[1] * ((double)(s / count[0]) + 0.5) / (double)count[1];
      const bool inside =
          px >= -1 && py >= -1 && px <= (double)dim_of(d, 0, 3) && py <= (double)dim_of(d, 0, 2);
      if (inside) sum += between(d, in[0], plane, py, px);
    }
    y[i] = sum / (double)(count[0] * count[1]);
  }
}

static void interp(const cr_op_desc *d, const double *x, double *y) {
  const int64_t rows = dim_of(d, 1, 2), columns = dim_of(d, 1, 3);
  const double step_y = rows > 1 ? (double)(dim_of(d, 0, 2) - 1) / (double)(rows - 1) : 0;
  const double step_x = columns > 1 ? (double)(dim_of(d, 0, 3) - 1) / (double)(columns - 1) : 0;
  for (int64_t i = 0; i < count_of(d, 1); ++i) {
    y[i] = between(d, x, i / columns / rows, (double)(i / columns % rows) * step_y,
                   (double)(i % columns) * step_x);
  }
}

static void unpool(const cr_op_desc *d, double *const *in, double *y) {
  const int64_t to = dim_of(d, 2, 2) * dim_of(d, 2, 3), from = dim_of(d, 0, 2) * dim_of(d, 0, 3);
  for (int64_t i = 0; i < count_of(d, 2); ++i) y[i] = 0;
  for (int64_t i = 0; i < count_of(d, 0); ++i) y[i / from * to + (int64_t)in[1][i]] = in[0][i];
}

/* Of both boxes x, y, width, height, `step` numbers apart. */
static double shared_area(const double *a, int64_t step, const double *b) {
  double area = 1;
  for (int k = 0; k < 2; ++k) {
    const double low = fmax(a[k * step] - a[(k + 2) * step] / 2, b[k] - b[k + 2] / 2);
    const double high = fmin(a[k * step] + a[(k + 2) * step] / 2, b[k] + b[k + 2] / 2);
    area *= fmax(high - low, 0);
  }
  return area;
}

static double best_overlap(const cr_op_desc *d, const double *box, int64_t step, int64_t image,
                           const double *object) {
  double best = 0;
  for (int64_t t = 0; t < dim_of(d, 2, 0); ++t, object += 5) {
    const double area = shared_area(box, step, object + 1);
    const double both = box[2 * step] * box[3 * step] + object[3] * object[4] - area;
    if ((int64_t)object[0] == image) best = fmax(best, area / both);
  }
  return best;
}

static void region(const cr_op_desc *d, double *const *in, double *const *out) {
  const int64_t columns = dim_of(d, 0, 3), cells = dim_of(d, 0, 2) * columns;
  const int64_t anchors = dim_of(d, 1, 0), classes = dim_of(d, 0, 1) / anchors - 5;
  for (int64_t i = 0; i < dim_of(d, 0, 0) * anchors * cells; ++i) {
    const int64_t plane = i / cells, cell = i % cells;
    const double *x = in[0] + plane * (5 + classes) * cells + cell;
    double *box = out[3] + plane * 5 * cells + cell, sum = 0;
    int64_t best = 0;
    box[0] = ((double)(cell % columns) + 1 / (1 + exp(-x[0]))) / (double)columns;
    box[cells] = ((double)(cell / columns) + 1 / (1 + exp(-x[cells]))) / (double)dim_of(d, 0, 2);
    box[2 * cells] = exp(x[2 * cells]) * in[1][plane % anchors * 2] / (double)columns;
    box[3 * cells] = exp(x[3 * cells]) * in[1][plane % anchors * 2 + 1] / (double)dim_of(d, 0, 2);
    box[4 * cells] = 1 / (1 + exp(-x[4 * cells]));
    if (out[4]) out[4][i] = best_overlap(d, box, cells, plane / anchors, in[2]);
    if (!out[5]) continue;
    for (int64_t c = 1; c < classes; ++c) {
      if (x[(5 + c) * cells] > x[(5 + best) * cells]) best = c;
    }
    for (int64_t c = 0; c < classes; ++c) sum += exp(x[(5 + c) * cells] - x[(5 + best) * cells]);
    out[5][plane * 2 * cells + cell] = (double)best;
    out[5][(plane * 2 + 1) * cells + cell] = 1 / sum;
  }
}

static void row_loss(const cr_op_desc *d, double *const *in, double *loss) {
  const int64_t classes = dim_of(d, 0, 1);
  for (int64_t i = 0; i < dim_of(d, 0, 0); ++i) {
    const int64_t truth = (int64_t)in[1][i]; /* -1: none */
    const double *score = in[0] + i * classes, own = truth < 0 ? 0 : score[truth];
    double softmax = 0, sigmoid = 0;
    for (int64_t c = 0; c < classes; ++c) {
      softmax += exp(score[c] - own);
      sigmoid += log1p(exp(score[c]));
    }
    loss[i] = d->u.logistic ? sigmoid - own : truth < 0 ? 0 : log(softmax);
  }
}

bool op_reference_rest(const cr_op_desc *d, double *const *in, double *const *out, bool frozen) {
  switch (d->kind) {
    case CR_OP_PRELU_FWD: prelu(d, in, out[2]); return true;
    case CR_OP_SIGMOID_LOSS_FWD: sigmoid_loss(d, in, out); return true;
    case CR_OP_HINGE_FWD: *out[2] = hinge(d, in); return true;
    case CR_OP_CONTRASTIVE_FWD: *out[3] = contrastive(d, in); return true;
    case CR_OP_MULTINOMIAL_FWD: *out[2] = multinomial(d, in); return true;
    case CR_OP_REGION: region(d, in, out); return true;
    case CR_OP_ROW_LOSS: row_loss(d, in, out[2]); return true;
    case CR_OP_MVN_FWD: mvn(d, in, out); return true;
    case CR_OP_ROW_REDUCE_FWD: row_reduce(d, in[0], out[1]); return true;
    case CR_OP_ARG_MAX: arg_max(d, in[0], out[1], out[2]); return true;
    case CR_OP_CROP_FWD:
    case CR_OP_PERMUTE: crop_or_permute(d, in[0], out[1]); return true;
    case CR_OP_TILE_FWD:
    case CR_OP_GATHER_FWD: gather_or_tile(d, in, out); return true;
    case CR_OP_IM2COL: columns(d, in[0], out[1]); return true;
    case CR_OP_NORMALIZE_FWD: normalize(d, in, out); return true;
    case CR_OP_SMOOTH_L1_FWD: *out[4] = smooth_l1(d, in); return true;
    case CR_OP_ROI_POOL_FWD:
    case CR_OP_PSROI_POOL_FWD: region_pool(d, in, out, frozen); return true;
    case CR_OP_ROI_ALIGN_FWD: region_align(d, in, out[2]); return true;
    case CR_OP_INTERP_FWD: interp(d, in[0], out[1]); return true;
    case CR_OP_UNPOOL_FWD: unpool(d, in, out[2]); return true;
    case CR_OP_LSTM_FWD: lstm(d, in, out); return true;
    case CR_OP_LSTM_UNIT_FWD: lstm_unit(d, in, out); return true;
    case CR_OP_RNN_FWD: rnn(d, in, out[4]); return true;
    case CR_OP_RECURRENT_BWD_WEIGHTS: recurrent_weights(d, in, out[4]); return true;
    default: return false;
  }
}
