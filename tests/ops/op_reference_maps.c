/* Definitions of the ops that move, sample, compare and perturb maps. */
#include <math.h>

#include "core/rng.h"
#include "op_reference.h"

static int64_t dim_of(const cr_op_desc *d, int i, int axis) {
  return d->arg[i].shape.dim[axis];
}

/* The value of a plane at (y, x); 0 outside. */
static double at(const cr_op_desc *d, const double *plane, int64_t y, int64_t x) {
  const int64_t height = dim_of(d, 0, 2), width = dim_of(d, 0, 3);
  return y < 0 || x < 0 || y >= height || x >= width ? 0 : plane[y * width + x];
}

static void flip(const cr_op_desc *d, const double *x, double *y) {
  const crema_shape *shape = &d->arg[0].shape;
  for (int64_t i = 0; i < op_count(shape); ++i) {
    int64_t step = 1, from = 0;
    for (int a = shape->axes - 1; a >= 0; --a) {
      const int64_t index = i / step % shape->dim[a];
      from += step * (d->u.flipped & 1u << a ? shape->dim[a] - 1 - index : index);
      step *= shape->dim[a];
    }
    y[i] = x[from];
  }
}

/* Every pixel of the map is weighted by its distances. */
static double sample(const cr_op_desc *d, const double *plane, double y, double x) {
  const int64_t height = dim_of(d, 0, 2), width = dim_of(d, 0, 3);
  double sum = 0;
  if (d->u.sample.clamped) {
    if (y < 0 || x < 0 || y >= (double)height || x >= (double)width) {
      return (double)d->u.sample.fill;
    }
    y = fmin(y, (double)(height - 1));
    x = fmin(x, (double)(width - 1));
  }
  for (int64_t i = 0; i < height * width; ++i) {
    const double far_y = fabs(y - (double)(i / width)), far_x = fabs(x - (double)(i % width));
    sum += fmax(0, 1 - far_y) * fmax(0, 1 - far_x) * plane[i];
  }
  return sum;
}

static void samples(const cr_op_desc *d, double *const *in, double *y) {
  const int64_t channels = dim_of(d, 0, 1), points = dim_of(d, 2, 2) * dim_of(d, 2, 3);
  for (int64_t i = 0; i < op_count(&d->arg[2].shape); ++i) {
    const double *place = in[1] + i / points / channels * 2 * points + i % points;
    const double first = place[0], second = place[points];
    y[i] = sample(d, in[0] + i / points * dim_of(d, 0, 2) * dim_of(d, 0, 3),
                  d->u.sample.rows_first ? first : second, d->u.sample.rows_first ? second : first);
  }
}

/* The triangle and Keys' spline with a = -1/2. */
static double filter(const cr_op_desc *d, double x) {
  const double t = fabs(x);
  if (d->u.resample.method == CR_RESAMPLE_LINEAR) return fmax(0, 1 - t);
  if (t < 1) return 1.5 * t * t * t - 2.5 * t * t + 1;
  return t < 2 ? -0.5 * t * t * t + 2.5 * t * t - 4 * t + 2 : 0;
}

static void resample(const cr_op_desc *d, const double *x, double *y) {
  const int64_t in[2] = {dim_of(d, 0, 2), dim_of(d, 0, 3)};
  const int64_t to[2] = {dim_of(d, 1, 2), dim_of(d, 1, 3)};
  const double ratio[2] = {(double)in[0] / (double)to[0], (double)in[1] / (double)to[1]};
  const bool smooth = d->u.resample.antialias && fmax(ratio[0], ratio[1]) > 1;
  for (int64_t i = 0; i < op_count(&d->arg[1].shape); ++i) {
    const double *plane = x + i / to[0] / to[1] * in[0] * in[1];
    const double v = (double)(i / to[1] % to[0]) * ratio[0] + ratio[1] / 2 - 0.5;
    const double u = (double)(i % to[1]) * ratio[1] + ratio[0] / 2 - 0.5;
    double sum = 0, weights = 0;
    for (int64_t k = 0; k < in[0] * in[1]; ++k) {
      const double far_y = v - (double)(k / in[1]), far_x = u - (double)(k % in[1]);
      const double w = filter(d, smooth ? far_y / ratio[0] : far_y) *
                       filter(d, smooth ? far_x / ratio[1] : far_x);
      sum += w * plane[k];
      weights += w;
    }
    y[i] = weights == 0 ? 0 : sum / weights;
    if (d->u.resample.method == CR_RESAMPLE_NEAREST) {
      const double row = fmin(fmax(round(v), 0), (double)(in[0] - 1));
      const double column = fmin(fmax(round(u), 0), (double)(in[1] - 1));
      y[i] = plane[(int64_t)row * in[1] + (int64_t)column];
    }
  }
}

/* Displacement `shift` along an axis (0: down, 1: right). */
static int64_t displacement_of(const cr_op_desc *d, int64_t shift, int axis) {
  const int64_t step = d->u.correlation.step, radius = d->u.correlation.displacement / step;
  if (d->u.correlation.in_rows && axis == 0) return 0;
  if (d->u.correlation.direction > 0) return shift * step;
  if (d->u.correlation.direction < 0) return (shift - radius - 1) * step;
  const int64_t side = 2 * radius + 1;
  return ((axis == 0 ? shift / side : shift % side) - radius) * step;
}

static void correlation(const cr_op_desc *d, double *const *in, double *y) {
  const int64_t kernel = d->u.correlation.kernel, stride = d->u.correlation.stride;
  const int64_t origin = d->u.correlation.displacement - d->u.correlation.pad;
  const int64_t rows = dim_of(d, 2, 2), columns = dim_of(d, 2, 3), channels = dim_of(d, 0, 1);
  const int64_t shifts = dim_of(d, 2, 1), plane = dim_of(d, 0, 2) * dim_of(d, 0, 3);
  for (int64_t i = 0; i < op_count(&d->arg[2].shape); ++i) {
    const int64_t n = i / columns / rows / shifts, shift = i / columns / rows % shifts;
    const int64_t down = displacement_of(d, shift, 0), right = displacement_of(d, shift, 1);
    double sum = 0;
    for (int64_t k = 0; k < channels * kernel * kernel; ++k) {
      const int64_t map = (n * channels + k / kernel / kernel) * plane;
      const int64_t v = i / columns % rows * stride + k / kernel % kernel +
                        (d->u.correlation.in_rows ? 0 : origin);
      const int64_t u = i % columns * stride + origin + k % kernel;
      const double a = at(d, in[0] + map, v, u), b = at(d, in[1] + map, v + down, u + right);
      sum += d->u.correlation.subtract ? fabs(a - b) : a * b;
    }
    y[i] = sum / (double)(channels * kernel * kernel);
  }
}

static void local(const cr_op_desc *d, double *const *in, double *y) {
  const int64_t inner = dim_of(d, 0, 1), positions = dim_of(d, 0, 2), outputs = dim_of(d, 1, 0);
  for (int64_t i = 0; i < op_count(&d->arg[3].shape); ++i) {
    const int64_t n = i / positions / outputs, o = i / positions % outputs, p = i % positions;
    y[i] = in[2] ? in[2][o * positions + p] : 0;
    for (int64_t k = 0; k < inner; ++k) {
      y[i] += in[1][(o * inner + k) * positions + p] * in[0][(n * inner + k) * positions + p];
    }
  }
}

static void noise(const cr_op_desc *d, const cr_op_scalars *s, const double *x, double *y) {
  const int64_t count = op_count(&d->arg[0].shape);
  double square = 0;
  for (int64_t i = 0; i < count; ++i) square += x[i] * x[i] / (double)count;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t word[4];
    cr_philox(s->seed, s->counter, (uint64_t)i / 4, word);
    const double even = ldexp((double)word[i % 4 / 2 * 2], -32);
    const double odd = ldexp((double)word[i % 4 / 2 * 2 + 1], -32);
    const double angle = 2 * acos(-1.0) * odd;
    const double normal = sqrt(-2 * log1p(-even)) * (i % 2 == 0 ? cos(angle) : sin(angle));
    const double uniform = 2 * (i % 2 == 0 ? even : odd) - 1;
    y[i] = x[i] + d->u.noise.mean +
           d->u.noise.spread * (d->u.noise.uniform ? uniform : sqrt(square) * normal);
  }
}

bool op_reference_maps(const cr_op_desc *d, const cr_op_scalars *s, double *const *in,
                       double *const *out) {
  switch (d->kind) {
    case CR_OP_FLIP: flip(d, in[0], out[1]); return true;
    case CR_OP_SAMPLE_FWD: samples(d, in, out[2]); return true;
    case CR_OP_RESAMPLE: resample(d, in[0], out[1]); return true;
    case CR_OP_CORRELATION_FWD: correlation(d, in, out[2]); return true;
    case CR_OP_LOCAL_FWD: local(d, in, out[3]); return true;
    case CR_OP_NOISE: noise(d, s, in[0], out[1]); return true;
    default: return false;
  }
}
