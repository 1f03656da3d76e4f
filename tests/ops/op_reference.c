#include "op_reference.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/rng.h"

int64_t op_count(const crema_shape *shape) {
  int64_t count = shape->axes < 0 ? 0 : 1;
  for (int a = 0; a < shape->axes; ++a) count *= shape->dim[a];
  return count;
}

/* The shape of argument i, and its extents as (before, axis, after). */
static const crema_shape *shape_of(const cr_op_desc *d, int i) {
  return &d->arg[i].shape;
}
static int64_t count_of(const cr_op_desc *d, int i) {
  return op_count(shape_of(d, i));
}

typedef struct extents {
  int64_t outer, mid, inner;
} extents;

static extents extents_of(const cr_op_desc *d, int i, int axis) {
  const crema_shape *s = shape_of(d, i);
  extents e = {1, 1, 1};
  for (int a = 0; a < s->axes; ++a) {
    const int64_t dim = s->dim[a];
    if (a < axis) e.outer *= dim;
    else if (a > axis) e.inner *= dim;
    else e.mid = dim;
  }
  return e;
}

/* Counts `at` up like an odometer over the extents; false after the last position. */
static bool step(int axes, const int64_t *extent, int64_t *at) {
  for (int a = axes - 1; a >= 0; --a) {
    if (++at[a] < extent[a]) return true;
    at[a] = 0;
  }
  return false;
}

static int64_t flat(int axes, const int64_t *extent, const int64_t *at) {
  int64_t index = 0;
  for (int a = 0; a < axes; ++a) index = index * extent[a] + at[a];
  return index;
}

/* Input coordinates seen by output `o` through window element `k`; false in the padding. */
static bool seen(const cr_window *w, const int64_t *in, const int64_t *o, const int64_t *k,
                 int64_t *at) {
  for (int a = 0; a < w->axes; ++a) {
    at[a] = o[a] * w->stride[a] - w->pad[a] + k[a] * (w->dilation[a] ? w->dilation[a] : 1);
    if (at[a] < 0 || at[a] >= in[a]) return false;
  }
  return true;
}

static double unary(const cr_op_desc *d, double x);

/* Result `at` with the post operations. */
static double finish(const cr_op_desc *d, double *const *in, int64_t at, double y) {
  const cr_posts *posts = cr_op_posts(d);
  for (int k = 0; k < CR_POSTS; ++k) {
    const cr_post *post = &posts->post[k];
    if (post->kind == CR_POST_ADD) y += in[CR_ARG_ADDEND][at];
    if (post->kind != CR_POST_UNARY) continue;
    cr_op_desc one = {.kind = CR_OP_UNARY_FWD};
    one.u.unary.function = post->function;
    one.u.unary.alpha = post->alpha;
    one.u.unary.beta = post->beta;
    one.u.unary.gamma = post->gamma;
    y = unary(&one, y);
  }
  return y;
}

/* What is done with one term of the sums of products: data `x` times weight `w` belongs to `y`. */
typedef struct products {
  double *const *in;
  const double *given; /* gradient of the sums; NULL: the sums are computed */
  double *to;          /* sums, or the gradient of argument `of` */
  int of;
} products;

static void add_term(const products *p, int64_t y, int64_t x, int64_t w) {
  if (p->given == NULL) p->to[y] += p->in[0][x] * p->in[1][w];
  else if (p->of == 0) p->to[x] += p->given[y] * p->in[1][w];
  else if (p->of == 1) p->to[w] += p->given[y] * p->in[0][x];
}

static void conv(const cr_op_desc *d, const products *t) {
  const cr_window *w = &d->u.conv.window;
  const crema_shape *x = shape_of(d, 0), *y = shape_of(d, 3);
  const int64_t *xs = x->dim + 2, *ys = y->dim + 2;
  const int64_t xp = extents_of(d, 0, 1).inner, yp = extents_of(d, 3, 1).inner;
  const int64_t cg = x->dim[1] / d->u.conv.group, og = y->dim[1] / d->u.conv.group;
  int64_t kp = 1;
  for (int a = 0; a < w->axes; ++a) kp *= w->kernel[a];
  for (int64_t n = 0; n < x->dim[0]; ++n) {
    for (int64_t o = 0; o < y->dim[1]; ++o) {
      int64_t p[CR_MAX_SPATIAL] = {0};
      do {
        const int64_t to = (n * y->dim[1] + o) * yp + flat(w->axes, ys, p);
        for (int64_t c = 0; c < cg; ++c) {
          int64_t k[CR_MAX_SPATIAL] = {0}, at[CR_MAX_SPATIAL];
          const int64_t channel = n * x->dim[1] + o / og * cg + c;
          do {
            if (!seen(w, xs, p, k, at)) continue;
            add_term(t, to, channel * xp + flat(w->axes, xs, at),
                     (o * cg + c) * kp + flat(w->axes, w->kernel, k));
          } while (step(w->axes, w->kernel, k));
        }
      } while (step(w->axes, ys, p));
    }
  }
}

static void inner_product(const cr_op_desc *d, const products *t) {
  const int64_t m = shape_of(d, 3)->dim[0];
  const int64_t n = extents_of(d, 3, 0).inner, k = extents_of(d, 0, 0).inner;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = 0; p < k; ++p) {
        add_term(t, i * n + j, i * k + p, d->u.ip.transpose ? p * n + j : j * k + p);
      }
    }
  }
}

/* The element of the bias that belongs to result `y`. */
static int64_t bias_of(const cr_op_desc *d, int64_t y) {
  if (d->kind == CR_OP_IP_FWD) return y % extents_of(d, 3, 0).inner;
  const extents e = extents_of(d, 3, 1);
  return y / e.inner % e.mid;
}

static void add_products(const cr_op_desc *d, const products *t) {
  if (d->kind == CR_OP_CONV_FWD) conv(d, t);
  else inner_product(d, t);
}

static void sums_of_products(const cr_op_desc *d, double *const *in, double *dst) {
  const products sums = {.in = in, .to = dst};
  for (int64_t y = 0; y < count_of(d, 3); ++y) dst[y] = in[2] ? in[2][bias_of(d, y)] : 0;
  add_products(d, &sums);
  for (int64_t y = 0; y < count_of(d, 3); ++y) dst[y] = finish(d, in, y, dst[y]);
}

static void row_reduce_back(const cr_op_desc *d, const double *x, const double *given,
                            double *gradient) {
  const int64_t width = shape_of(d, 0)->dim[1];
  for (int64_t i = 0; i < count_of(d, 0); ++i) {
    double slope = 1;
    if (d->u.rows.reduction == CR_REDUCE_ASUM) slope = x[i] < 0 ? -1 : 1;
    if (d->u.rows.reduction == CR_REDUCE_SUMSQ) slope = 2 * x[i];
    gradient[i] = (double)d->u.rows.coeff * slope * given[i / width];
  }
}

bool op_reference_back(const cr_op_desc *d, double *const *in, int of, const double *given,
                       double *gradient) {
  if (d->kind == CR_OP_ROW_REDUCE_FWD) {
    row_reduce_back(d, in[0], given, gradient);
    return true;
  }
  if (d->kind != CR_OP_CONV_FWD && d->kind != CR_OP_IP_FWD) return false;
  memset(gradient, 0, (size_t)count_of(d, of) * sizeof *gradient);
  if (of < 2) add_products(d, &(products){.in = in, .given = given, .to = gradient, .of = of});
  for (int64_t y = 0; of == 2 && y < count_of(d, 3); ++y) gradient[bias_of(d, y)] += given[y];
  return true;
}

/* What pooling makes of one window. */
typedef struct window_view {
  int64_t first_index, best_index;   /* in the input plane */
  int64_t first_inside, best_inside; /* in the window */
  double best, sum, squares;
  int64_t padded; /* elements inside the padded input */
  int64_t given;  /* those inside the input */
  bool any;
} window_view;

static window_view view(const cr_window *w, const int64_t *in, const int64_t *o, const double *x) {
  window_view v = {.best = -DBL_MAX};
  int64_t k[CR_MAX_SPATIAL] = {0}, at[CR_MAX_SPATIAL];
  do {
    bool padded = true;
    for (int a = 0; a < w->axes; ++a) {
      padded = padded && o[a] * w->stride[a] - w->pad[a] + k[a] < in[a] + w->pad[a];
    }
    v.padded += padded;
    if (!seen(w, in, o, k, at)) continue;
    const int64_t index = flat(w->axes, in, at), inside = flat(w->axes, w->kernel, k);
    if (!v.any) v.first_index = index, v.first_inside = inside;
    v.any = true;
    ++v.given;
    if (x[index] > v.best) v.best = x[index], v.best_index = index, v.best_inside = inside;
    v.sum += x[index];
    v.squares += x[index] * x[index];
  } while (step(w->axes, w->kernel, k));
  return v;
}

/* The value of the window element `inside`. */
static double value_at(const cr_window *w, const int64_t *in, const int64_t *o, int64_t inside,
                       const double *x) {
  int64_t k[CR_MAX_SPATIAL] = {0}, at[CR_MAX_SPATIAL];
  do {
    if (flat(w->axes, w->kernel, k) == inside) break;
  } while (step(w->axes, w->kernel, k));
  return seen(w, in, o, k, at) ? x[flat(w->axes, in, at)] : 0;
}

/* The element that stochastic pooling draws. */
static int64_t drawn(const cr_window *w, const int64_t *in, const int64_t *o, const double *x,
                     double share) {
  const window_view v = view(w, in, o, x);
  int64_t k[CR_MAX_SPATIAL] = {0}, at[CR_MAX_SPATIAL], chosen = v.first_inside;
  double sum = 0;
  do {
    if (!seen(w, in, o, k, at)) continue;
    const double value = x[flat(w->axes, in, at)];
    if (value <= 0) continue;
    sum += value;
    chosen = flat(w->axes, w->kernel, k);
    if (sum > share * v.sum) break;
  } while (step(w->axes, w->kernel, k));
  return chosen;
}

static void pool(const cr_op_desc *d, const cr_op_scalars *s, double *const *in, double *const *out,
                 bool frozen) {
  const cr_window *w = &d->u.pool.window;
  const int64_t *xs = shape_of(d, 0)->dim + 2, *ys = shape_of(d, 1)->dim + 2;
  const int64_t xp = extents_of(d, 0, 1).inner, yp = extents_of(d, 1, 1).inner;
  const bool max = d->kind == CR_OP_POOL_FWD && d->u.pool.method == CR_POOL_MAX;
  for (int64_t c = 0; c < shape_of(d, 0)->dim[0] * shape_of(d, 0)->dim[1]; ++c) {
    int64_t o[CR_MAX_SPATIAL] = {0};
    do {
      const double *x = in[0] + c * xp;
      const int64_t to = c * yp + flat(w->axes, ys, o);
      const window_view v = view(w, xs, o, x);
      if (d->kind == CR_OP_STOCHASTIC_POOL_TEST) {
        out[1][to] = v.sum > 0 ? v.squares / v.sum : 0;
      } else if (!max && d->kind == CR_OP_POOL_FWD) {
        const bool inside = d->u.pool.method == CR_POOL_AVERAGE_INPUT;
        out[1][to] = v.any ? v.sum / (double)(inside ? v.given : v.padded) : 0;
      } else {
        uint32_t word[4] = {0};
        if (!max) cr_philox(s->seed, s->counter, (uint64_t)to / 4, word);
        int64_t place =
            max ? v.best_inside : drawn(w, xs, o, x, (double)word[to % 4] / 4294967296.0);
        if (frozen) place = (int64_t)out[2][to];
        if (out[2]) out[2][to] = (double)place;
        out[1][to] = value_at(w, xs, o, place, x);
      }
    } while (step(w->axes, ys, o));
  }
}

static void pool_mask(const cr_op_desc *d, double *const *in, double *mask) {
  const cr_window *w = &d->u.pool.window;
  const int64_t *xs = d->u.pool.src, *ys = shape_of(d, 0)->dim + 2;
  const int64_t yp = extents_of(d, 0, 1).inner;
  for (int64_t c = 0; c < shape_of(d, 0)->dim[0] * shape_of(d, 0)->dim[1]; ++c) {
    int64_t o[CR_MAX_SPATIAL] = {0};
    do {
      const int64_t to = c * yp + flat(w->axes, ys, o);
      int64_t k[CR_MAX_SPATIAL] = {0}, at[CR_MAX_SPATIAL];
      do {
        if ((double)flat(w->axes, w->kernel, k) != in[0][to]) continue;
        mask[to] = seen(w, xs, o, k, at) ? (double)flat(w->axes, xs, at) : -1;
      } while (step(w->axes, w->kernel, k));
    } while (step(w->axes, ys, o));
  }
}

static void lrn(const cr_op_desc *d, const double *x, double *y) {
  const int64_t *e = shape_of(d, 0)->dim;
  const cr_lrn_params *p = &d->u.lrn;
  const int64_t reach = (p->size - 1) / 2;
  const double size = (double)(p->within_channel ? p->size * p->size : p->size);
  int64_t at[4] = {0};
  do {
    /* The window's extents, around `at`. */
    int64_t window[4] = {1, p->size, 1, 1}, q[4], k[4] = {0};
    if (p->within_channel) window[1] = 1, window[2] = window[3] = p->size;
    double sum = 0;
    do {
      bool inside = true;
      for (int a = 0; a < 4; ++a) {
        q[a] = at[a] + k[a] - (window[a] > 1 ? reach : 0);
        inside = inside && q[a] >= 0 && q[a] < e[a];
      }
      if (inside) sum += x[flat(4, e, q)] * x[flat(4, e, q)];
    } while (step(4, window, k));
    const double scale = (double)p->k + (double)p->alpha / size * sum;
    y[flat(4, e, at)] = x[flat(4, e, at)] * pow(scale, -(double)p->beta);
  } while (step(4, e, at));
}

/* Frozen, each value stays on its side of the bend of a ReLU: the line goes on. */
static double rectified(double y, bool frozen, double before) {
  return (frozen ? before != 0 : y > 0) ? y : 0;
}

static void batch_norm(const cr_op_desc *d, double *const *in, double *const *out, bool frozen) {
  const extents e = extents_of(d, 0, 1);
  const double count = (double)(e.outer * e.inner);
  for (int64_t c = 0; c < e.mid; ++c) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < e.outer * e.inner; ++i) {
      mean += in[0][(i / e.inner * e.mid + c) * e.inner + i % e.inner] / count;
    }
    for (int64_t i = 0; i < e.outer * e.inner; ++i) {
      const double x = in[0][(i / e.inner * e.mid + c) * e.inner + i % e.inner];
      variance += (x - mean) * (x - mean) / count;
    }
    if (d->kind == CR_OP_BN_FWD_GLOBAL) {
      mean = in[2][c], variance = in[3][c];
    } else {
      out[2][c] = mean, out[3][c] = variance;
    }
    if (d->args > 8) {
      const double fraction = (double)d->u.bn.fraction;
      out[6][c] = mean + fraction * in[6][c];
      out[7][c] = variance * (count > 1 ? count / (count - 1) : 1) + fraction * in[7][c];
      out[8][0] = 1 + fraction * in[8][0];
    }
    for (int64_t i = 0; i < e.outer * e.inner; ++i) {
      const int64_t at = (i / e.inner * e.mid + c) * e.inner + i % e.inner;
      double y = (in[0][at] - mean) / sqrt(variance + (double)d->u.bn.eps);
      if (d->args > 4 && in[4] != NULL) y *= in[4][c];
      if (d->args > 5 && in[5] != NULL) y += in[5][c];
      out[1][at] = d->u.bn.rectify ? rectified(y, frozen, out[1][at]) : y;
    }
  }
}

static void softmax(const cr_op_desc *d, const double *x, double *y) {
  const extents e = extents_of(d, 0, d->u.axis);
  for (int64_t i = 0; i < e.outer * e.inner; ++i) {
    const int64_t at = i / e.inner * e.mid * e.inner + i % e.inner;
    double top = x[at], sum = 0;
    for (int64_t c = 0; c < e.mid; ++c) top = fmax(top, x[at + c * e.inner]);
    for (int64_t c = 0; c < e.mid; ++c) sum += exp(x[at + c * e.inner] - top);
    for (int64_t c = 0; c < e.mid; ++c) y[at + c * e.inner] = exp(x[at + c * e.inner] - top) / sum;
  }
}

static double unary(const cr_op_desc *d, double x) {
  const double a = (double)d->u.unary.alpha, b = (double)d->u.unary.beta;
  const double c = (double)d->u.unary.gamma;
  switch (d->u.unary.function) {
    case CR_UNARY_RELU: return x > 0 ? x : a * x;
    case CR_UNARY_SIGMOID: return 1 / (1 + exp(-x));
    case CR_UNARY_TANH: return tanh(x);
    case CR_UNARY_POWER: return pow(b * x + c, a);
    case CR_UNARY_EXP: return exp(a * (b * x + c));
    case CR_UNARY_LOG: return a * log(b * x + c);
    case CR_UNARY_ABS: return fabs(x);
    case CR_UNARY_ELU: return b * (x > 0 ? x : a * (exp(x) - 1));
    case CR_UNARY_BNLL: return log(1 + exp(x));
    case CR_UNARY_THRESHOLD: return x > a;
    case CR_UNARY_CLIP: return fmin(fmax(x, a), b);
    case CR_UNARY_SWISH: return x / (1 + exp(-a * x));
    case CR_UNARY_GELU: return x / 2 * (1 + erf(x / sqrt(2)));
    case CR_UNARY_GELU_TANH:
      return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    default: return NAN;
  }
}

/* Sum, product and maximum of the sources. */
static void eltwise(const cr_op_desc *d, double *const *in, double *const *out, bool frozen) {
  const int sources = d->kind == CR_OP_MAX ? d->args - 2 : d->args - 1;
  for (int64_t i = 0; i < count_of(d, 0); ++i) {
    double sum = 0, product = 1;
    int best = 0;
    for (int k = 0; k < sources; ++k) {
      sum += in[k][i] * (double)d->arg[k].scale;
      product *= in[k][i];
      if (k > 0 && (in[k][i] > in[best][i] || (k == 1 && in[1][i] == in[0][i]))) best = k;
    }
    if (d->kind == CR_OP_SUM) out[sources][i] = d->u.sum.rectify ? fmax(0, sum) : sum;
    if (d->kind == CR_OP_PROD) out[sources][i] = product;
    if (d->kind == CR_OP_MAX) {
      if (!frozen) out[sources + 1][i] = best;
      out[sources][i] = in[(int)out[sources + 1][i]][i];
    }
  }
}

/* Concat when `concat`, else slice: walks over the whole, part by part. */
static void concat_or_slice(const cr_op_desc *d, double *const *in, double *const *out,
                            bool concat) {
  const int whole = concat ? d->args - 1 : 0, first = concat ? 0 : 1;
  const extents all = extents_of(d, whole, d->u.axis);
  int64_t begin = 0;
  for (int k = first; k < first + d->args - 1; ++k) {
    const extents part = extents_of(d, k, d->u.axis);
    for (int64_t i = 0; i < count_of(d, k); ++i) {
      const int64_t c = i / part.inner % part.mid, n = i / part.inner / part.mid;
      const int64_t at = (n * all.mid + begin + c) * all.inner + i % part.inner;
      if (concat) out[whole][at] = in[k][i];
      else out[k][i] = in[0][at];
    }
    begin += part.mid;
  }
}

static void affine(const cr_op_desc *d, double *const *in, double *y) {
  const extents e = extents_of(d, 0, 1);
  for (int64_t i = 0; i < count_of(d, 0); ++i) {
    const int64_t c = i / e.inner % e.mid;
    y[i] = in[0][i] * (in[1] ? in[1][c] : 1) + (in[2] ? in[2][c] : 0);
  }
}

static void dropout(const cr_op_desc *d, const cr_op_scalars *s, const double *x,
                    double *const *out, bool frozen) {
  const double ratio = (double)d->u.dropout.ratio;
  for (int64_t i = 0; i < count_of(d, 0); ++i) {
    uint32_t word[4];
    cr_philox(s->seed, s->counter, (uint64_t)i / 4, word);
    if (!frozen) out[2][i] = (double)word[i % 4] / 4294967296.0 >= ratio;
    const bool kept = out[2][i] != 0;
    if (d->u.dropout.line) {
      out[1][i] = kept ? d->u.dropout.gain * x[i] + d->u.dropout.shift : d->u.dropout.dropped;
    } else {
      out[1][i] = kept ? x[i] / (1 - ratio) : 0;
    }
  }
}

static void softmax_loss(const cr_op_desc *d, double *const *in, double *const *out) {
  const extents e = extents_of(d, 0, 1);
  const double *gain = d->args > 5 ? in[5] : NULL;
  *out[3] = *out[4] = 0;
  for (int64_t i = 0; i < e.outer * e.inner; ++i) {
    const int64_t label = (int64_t)in[1][i], at = i / e.inner * e.mid * e.inner + i % e.inner;
    const bool ignored = d->u.nll.has_ignore && label == d->u.nll.ignore;
    double sum = 0, loss = 0;
    for (int64_t c = 0; c < e.mid; ++c) sum += exp(in[0][at + c * e.inner]);
    for (int64_t c = 0; c < e.mid; ++c) {
      const double weight = gain ? gain[label * e.mid + c] : c == label;
      const double prob = exp(in[0][at + c * e.inner]) / sum;
      if (out[2]) out[2][at + c * e.inner] = prob;
      loss -= weight * log(prob);
    }
    *out[3] += ignored ? 0 : loss;
    *out[4] += ignored ? 0 : 1;
    if (d->args > 6 && out[6]) out[6][i] = ignored ? 0 : loss;
  }
}

static void accuracy(const cr_op_desc *d, double *const *in, double *const *out) {
  const extents e = extents_of(d, 0, 1);
  double seen_all = 0, right_all = 0;
  for (int64_t which = 0; which < e.mid; ++which) {
    double seen_here = 0, right = 0;
    for (int64_t i = 0; i < e.outer * e.inner; ++i) {
      const int64_t label = (int64_t)in[1][i];
      if (label != which || (d->u.accuracy.has_ignore && label == d->u.accuracy.ignore)) continue;
      const double *score = in[0] + i / e.inner * e.mid * e.inner + i % e.inner;
      int others = 0;
      for (int64_t c = 0; c < e.mid; ++c) {
        if (c != label && score[c * e.inner] >= score[label * e.inner]) ++others;
      }
      seen_here += 1;
      right += others < d->u.accuracy.top_k;
    }
    if (out[3]) out[3][which] = seen_here > 0 ? right / seen_here : 0;
    seen_all += seen_here;
    right_all += right;
  }
  *out[2] = seen_all > 0 ? right_all / seen_all : 0;
}

static double reduce(const cr_op_desc *d, const double *x) {
  double sum = 0;
  for (int64_t i = 0; i < count_of(d, 0); ++i) {
    if (d->u.reduce == CR_REDUCE_SUM) sum += x[i];
    if (d->u.reduce == CR_REDUCE_ASUM) sum += fabs(x[i]);
    if (d->u.reduce == CR_REDUCE_SUMSQ) sum += x[i] * x[i];
  }
  return sum;
}

/* One weight's step as Caffe's solvers take it: normalise, regularise, then the rule. */
static double solver_step(const cr_op_desc *d, const cr_op_scalars *s, double w, double g,
                          double *h0, double *h1) {
  const double rate = (double)s->rate, momentum = (double)s->momentum, delta = (double)s->delta;
  const double momentum2 = (double)s->momentum2, rms = (double)s->rms_decay, old = *h0;
  g *= (double)s->grad_scale;
  if (!d->u.update.decoupled) {
    g += (double)s->decay * (d->u.update.l1 ? (double)((w > 0) - (w < 0)) : w);
  }
  switch (d->u.update.rule) {
    case CR_UPDATE_SGD: *h0 = momentum * old + rate * g; return *h0;
    case CR_UPDATE_NESTEROV:
      *h0 = momentum * old + rate * g;
      return (1 + momentum) * *h0 - momentum * old;
    case CR_UPDATE_ADAGRAD: *h0 = old + g * g; return rate * g / (sqrt(*h0) + delta);
    case CR_UPDATE_RMSPROP:
      *h0 = rms * old + (1 - rms) * g * g;
      return rate * g / (sqrt(*h0) + delta);
    case CR_UPDATE_ADADELTA: {
      *h0 = momentum * old + (1 - momentum) * g * g;
      const double u = g * sqrt((delta + *h1) / (delta + *h0));
      *h1 = momentum * *h1 + (1 - momentum) * u * u;
      return rate * u;
    }
    case CR_UPDATE_DESCENT: return rate * g;
    case CR_UPDATE_DIRECTION:
    case CR_UPDATE_ADAM:
      *h0 = momentum * old + (1 - momentum) * g;
      *h1 = momentum2 * *h1 + (1 - momentum2) * g * g;
      return rate * *h0 / (sqrt(*h1) + delta);
  }
  return NAN;
}

/* What holds for element i; false: it is in no segment. */
static bool scalars_of(const cr_op_scalars *s, int64_t i, cr_op_scalars *out) {
  *out = *s;
  if (s->segment == NULL) return true;
  for (int k = 0; k < s->segments; ++k) {
    const cr_update_segment *segment = &s->segment[k];
    if (i < segment->begin || i >= segment->begin + segment->count) continue;
    out->rate = segment->rate;
    out->decay = segment->decay;
    return true;
  }
  return false;
}

static void update(const cr_op_desc *d, const cr_op_scalars *all, double *const *in,
                   double *const *out) {
  for (int64_t i = 0; i < count_of(d, 0); ++i) {
    cr_op_scalars own;
    double h0 = in[2][i], h1 = in[3] ? in[3][i] : 0, change = 0;
    const cr_op_scalars *s = &own;
    if (!scalars_of(all, i, &own)) {
      for (int arg = 0; arg < 4; ++arg) {
        if (out[arg]) out[arg][i] = in[arg][i];
      }
      continue;
    }
    change = solver_step(d, s, in[0][i], in[1][i], &h0, &h1);
    if (d->u.update.decoupled) change += (double)s->decay * in[0][i];
    out[0][i] = d->u.update.rule == CR_UPDATE_DIRECTION ? in[0][i] : in[0][i] - change;
    out[2][i] = h0;
    if (out[3]) out[3][i] = h1;
    if (d->kind == CR_OP_UPDATE_KEEP) out[1][i] = change;
  }
}

static void segment_dots(const cr_op_scalars *s, double *const *in, double *result) {
  for (int k = 0; k < s->segments; ++k) {
    const int64_t begin = s->segment[k].begin;
    result[k] = 0;
    for (int64_t i = 0; i < s->segment[k].count; ++i) {
      result[k] += in[0][begin + i] * in[1][begin + i];
    }
  }
}

static void axpby(const cr_op_desc *d, const cr_op_scalars *s, double *const *in, double *y) {
  for (int64_t i = 0; i < count_of(d, 0); ++i) {
    const double alpha = (double)s->alpha, beta = (double)s->beta;
    y[i] = alpha * in[0][i] + (beta == 0 ? 0 : beta * in[1][i]);
  }
}

static void relu_bwd_bias(const cr_op_desc *d, double *const *in, double *const *out) {
  const extents e = extents_of(d, 0, 1);
  for (int64_t c = 0; c < e.mid; ++c) out[3][c] = 0;
  for (int64_t i = 0; i < count_of(d, 0); ++i) {
    out[2][i] = in[1][i] > 0 ? in[0][i] : d->u.unary.alpha * in[0][i];
    out[3][i / e.inner % e.mid] += out[2][i];
  }
}

bool op_reference(const cr_op_desc *d, const cr_op_scalars *s, double *const *in,
                  double *const *out, bool frozen) {
  switch (d->kind) {
    case CR_OP_CONV_FWD:
    case CR_OP_IP_FWD: sums_of_products(d, in, out[3]); return true;
    case CR_OP_POOL_FWD:
    case CR_OP_STOCHASTIC_POOL_FWD:
    case CR_OP_STOCHASTIC_POOL_TEST: pool(d, s, in, out, frozen); return true;
    case CR_OP_POOL_MASK: pool_mask(d, in, out[1]); return true;
    case CR_OP_LRN_FWD: lrn(d, in[0], out[1]); return true;
    case CR_OP_BN_FWD_TRAIN:
    case CR_OP_BN_FWD_GLOBAL: batch_norm(d, in, out, frozen); return true;
    case CR_OP_SOFTMAX_FWD: softmax(d, in[0], out[1]); return true;
    case CR_OP_UNARY_FWD:
      for (int64_t i = 0; i < count_of(d, 0); ++i) out[1][i] = unary(d, in[0][i]);
      return true;
    case CR_OP_SUM:
    case CR_OP_PROD:
    case CR_OP_MAX: eltwise(d, in, out, frozen); return true;
    case CR_OP_AXPBY: axpby(d, s, in, out[1]); return true;
    case CR_OP_SET:
      for (int64_t i = 0; i < count_of(d, 0); ++i) out[0][i] = (double)d->u.value;
      return true;
    case CR_OP_COPY: memcpy(out[1], in[0], (size_t)count_of(d, 0) * sizeof(double)); return true;
    case CR_OP_CONCAT: concat_or_slice(d, in, out, true); return true;
    case CR_OP_SLICE: concat_or_slice(d, in, out, false); return true;
    case CR_OP_AFFINE_FWD: affine(d, in, out[3]); return true;
    case CR_OP_RELU_BWD_BIAS: relu_bwd_bias(d, in, out); return true;
    case CR_OP_DROPOUT_FWD: dropout(d, s, in[0], out, frozen); return true;
    case CR_OP_SOFTMAX_LOSS_FWD: softmax_loss(d, in, out); return true;
    case CR_OP_ACCURACY: accuracy(d, in, out); return true;
    case CR_OP_REDUCE: *out[1] = reduce(d, in[0]); return true;
    case CR_OP_SEGMENT_DOTS: segment_dots(s, in, out[2]); return true;
    case CR_OP_UPDATE:
    case CR_OP_UPDATE_KEEP: update(d, s, in, out); return true;
    default: return op_reference_maps(d, s, in, out) || op_reference_rest(d, in, out, frozen);
  }
}
