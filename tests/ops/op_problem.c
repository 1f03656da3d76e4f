#include "op_problem.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/backend/convert.h"
#include "op_reference.h"
#include "op_run.h"
#include "ops/op.h"

/* Step of the central differences: what they leave out, and the rounding, 1e-16 / step, are far
 * below the tolerance. */
static const double fd_step = 2e-4;

static double *array(int64_t count) {
  return calloc((size_t)(count > 0 ? count : 1), sizeof(double));
}

void op_problem_free(op_problem *p) {
  for (int i = 0; i < OP_MAX_ARGS; ++i) {
    free(p->in[i]);
    free(p->out[i]);
    p->in[i] = p->out[i] = NULL;
  }
  free(p->desc);
  p->desc = NULL;
}

/* ---- inputs -------------------------------------------------------------- */

/* Uniform in [-1, 1], at least 0.05 away from 0, where some functions have a kink. A double has
 * digits that a float does not have. */
static double draw(crema_dtype type, cr_mt19937 *rng) {
  double size = (double)(0.05f + 0.95f * cr_mt19937_uniform(rng));
  if (type == CREMA_F64) size *= 1 - 0x1p-25 * (double)cr_mt19937_uniform(rng);
  return cr_mt19937_below(rng, 2) ? size : -size;
}

/* The nearest values that the argument can hold. */
static bool round_to_type(const cr_op_arg *arg, double *values) {
  const int64_t count = op_count(&arg->shape);
  double *held = array(count);
  const bool ok = held && cr_convert_plain(count, arg->type, held, CREMA_F64, values) == CREMA_OK &&
                  cr_convert_plain(count, CREMA_F64, values, arg->type, held) == CREMA_OK;
  free(held);
  return ok;
}

/* Values that the position of a maximum can have: inside the window and on the input. */
static void fill_positions(const cr_op_desc *d, cr_mt19937 *rng, double *to) {
  const cr_window *w = &d->u.pool.window;
  const crema_shape *out = &d->arg[0].shape;
  for (int64_t i = 0; i < op_count(out); ++i) {
    int64_t rest = i, at[CR_MAX_SPATIAL], position = 0;
    for (int a = w->axes - 1; a >= 0; --a) {
      at[a] = rest % out->dim[a + 2];
      rest /= out->dim[a + 2];
    }
    for (int a = 0; a < w->axes; ++a) {
      int64_t k;
      do {
        k = cr_mt19937_below(rng, (uint32_t)w->kernel[a]);
        rest = at[a] * w->stride[a] - w->pad[a] + k;
      } while (rest < 0 || rest >= d->u.pool.src[a]);
      position = position * w->kernel[a] + k;
    }
    to[i] = (double)position;
  }
}

/* Turns scores (outer, C, inner) into probabilities along `axis`. */
static void to_probabilities(const crema_shape *shape, int axis, double *x) {
  int64_t outer = 1, inner = 1;
  for (int a = 0; a < axis; ++a) outer *= shape->dim[a];
  for (int a = axis + 1; a < shape->axes; ++a) inner *= shape->dim[a];
  const int64_t classes = shape->dim[axis];
  for (int64_t i = 0; i < outer * inner; ++i) {
    double *at = x + i / inner * classes * inner + i % inner, sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += exp(at[c * inner]);
    for (int64_t c = 0; c < classes; ++c) at[c * inner] = exp(at[c * inner]) / sum;
  }
}

static bool holds_labels(cr_op_kind kind, int i) {
  switch (kind) {
    case CR_OP_SOFTMAX_LOSS_FWD:
    case CR_OP_ACCURACY:
    case CR_OP_HINGE_FWD:
    case CR_OP_ROW_LOSS:
    case CR_OP_MULTINOMIAL_FWD: return i == 1;
    default: return false;
  }
}

/* How many whole numbers from 0 on argument i takes its values from; 0: not whole numbers. */
static uint32_t whole_numbers(const cr_op_desc *d, int i) {
  if (holds_labels(d->kind, i)) return (uint32_t)d->arg[0].shape.dim[1];
  if (d->kind == CR_OP_GATHER_FWD && i == 1) return (uint32_t)d->arg[0].shape.dim[0];
  if (d->kind == CR_OP_ROI_POOL_FWD && i == 0) return 16;
  const bool flag =
      (d->kind == CR_OP_CONTRASTIVE_FWD && i == 2) || (d->kind == CR_OP_SIGMOID_LOSS_FWD && i == 1);
  return flag ? 2 : 0;
}

/* Variances and accumulated squares are positive, and so are gains, whose sum would cancel else. */
static bool is_positive(const cr_op_desc *d, int i) {
  if (d->kind == CR_OP_SOFTMAX_LOSS_FWD) return i == 5;
  if (d->kind == CR_OP_BN_FWD_GLOBAL) return i == 3;
  if (d->kind != CR_OP_UPDATE && d->kind != CR_OP_UPDATE_KEEP) return false;
  switch (d->u.update.rule) {
    case CR_UPDATE_ADAGRAD:
    case CR_UPDATE_RMSPROP:
    case CR_UPDATE_ADADELTA: return i >= 2;
    case CR_UPDATE_ADAM:
    case CR_UPDATE_DIRECTION: return i == 3;
    default: return false;
  }
}

/* Regions of the images of argument 0, some of them beyond the border, of one point or upside down;
 * so far off the grid that no sample lies just on a border, where roundings would decide. */
static void fill_regions(const cr_op_desc *d, cr_mt19937 *rng, double *to) {
  const crema_shape *map = &d->arg[0].shape;
  for (int64_t r = 0; r < d->arg[1].shape.dim[0]; ++r) {
    const double scale = (double)d->u.roi.scale;
    const uint32_t extent[2] = {(uint32_t)((double)map->dim[3] / scale),
                                (uint32_t)((double)map->dim[2] / scale)};
    to[5 * r] = cr_mt19937_below(rng, (uint32_t)map->dim[0]);
    for (int i = 0; i < 2; ++i) {
      to[5 * r + 1 + i] = cr_mt19937_below(rng, extent[i]) - 1.234375;
      to[5 * r + 3 + i] = to[5 * r + 1 + i] + cr_mt19937_below(rng, extent[i]);
      if (cr_mt19937_below(rng, 8) == 0) to[5 * r + 3 + i] = to[5 * r + 1 + i];
      if (cr_mt19937_below(rng, 8) == 0) to[5 * r + 3 + i] = to[5 * r + 1 + i] - extent[i];
    }
  }
}

/* Objects of the maps of argument 0, and sizes of anchors. */
static void fill_objects(const op_problem *p, int i, cr_mt19937 *rng, double *to) {
  const crema_shape *shape = &p->desc->arg[i].shape;
  const uint32_t images = (uint32_t)p->desc->arg[0].shape.dim[0];
  for (int64_t k = 0; k < op_count(shape); ++k) {
    to[k] = 0.1 + cr_mt19937_below(rng, 800) / 1000.0;
    if (i == 2 && k % 5 == 0) to[k] = cr_mt19937_below(rng, images);
  }
}

static bool holds_regions(cr_op_kind kind, int i) {
  return i == 1 && (kind == CR_OP_ROI_POOL_FWD || kind == CR_OP_PSROI_POOL_FWD ||
                    kind == CR_OP_ROI_ALIGN_FWD);
}

/* Different positions for the values of a plane: the gradients of those that another one overwrites
 * are no differences. */
static void fill_mask(const cr_op_desc *d, cr_mt19937 *rng, double *to) {
  const int64_t *small = d->arg[1].shape.dim, *large = d->arg[2].shape.dim;
  const int64_t values = small[2] * small[3], positions = large[2] * large[3];
  for (int64_t plane = 0; plane < small[0] * small[1]; ++plane) {
    const int64_t first = cr_mt19937_below(rng, (uint32_t)positions);
    for (int64_t k = 0; k < values; ++k) *to++ = (double)((first + 5 * k) % positions);
  }
}

/* Positions inside and around a map, between its pixels: on a pixel the slope changes. */
static void fill_grid(const cr_op_desc *d, cr_mt19937 *rng, double *to) {
  const int64_t points = d->arg[1].shape.dim[2] * d->arg[1].shape.dim[3];
  for (int64_t k = 0; k < op_count(&d->arg[1].shape); ++k) {
    const bool row = (k / points % 2 == 0) == d->u.sample.rows_first;
    const uint32_t extent = (uint32_t)d->arg[0].shape.dim[row ? 2 : 3];
    to[k] = cr_mt19937_below(rng, extent + 3) - 2 + (1 + cr_mt19937_below(rng, 14)) / 16.0;
  }
}

/* Both maps differ by 1/32 at least, and neither has a 0: an absolute value bends there. */
static void keep_apart(int i, int64_t count, double *to) {
  for (int64_t k = 0; k < count; ++k) to[k] = round(8 * to[k]) / 8 + (i == 0 ? 1 : 0.5) / 16;
}

static void fill(const op_problem *p, int i, cr_mt19937 *rng) {
  const cr_op_desc *d = p->desc;
  double *to = p->in[i];
  const int64_t count = op_count(&d->arg[i].shape);
  const bool stochastic =
      d->kind == CR_OP_STOCHASTIC_POOL_FWD || d->kind == CR_OP_STOCHASTIC_POOL_TEST;
  const bool is_recurrent = d->kind == CR_OP_RNN_FWD || d->kind == CR_OP_LSTM_FWD;
  if (d->kind == CR_OP_POOL_MASK) {
    fill_positions(d, rng, to);
    return;
  }
  if (d->kind == CR_OP_UNPOOL_FWD && i == 1 && !p->test->ties) {
    fill_mask(d, rng, to);
    return;
  }
  if (d->kind == CR_OP_SAMPLE_FWD && i == 1) {
    fill_grid(d, rng, to);
    return;
  }
  if (holds_regions(d->kind, i)) {
    fill_regions(d, rng, to);
    return;
  }
  if (d->kind == CR_OP_REGION && i > 0) {
    fill_objects(p, i, rng, to);
    return;
  }
  for (int64_t k = 0; k < count; ++k) {
    to[k] = draw(d->arg[i].type, rng);
    if (is_positive(d, i)) to[k] = fabs(to[k]);
    /* With smaller weights from step to step, rounding errors shrink; larger ones double them. */
    if (is_recurrent && i == 2) to[k] /= (double)d->arg[2].shape.dim[1];
    /* Scores on both sides of the hinge, none near it. */
    if (d->kind == CR_OP_HINGE_FWD && i == 0) to[k] *= fabs(to[k]) > 0.5 ? 2.5 : 1.5;
    if (stochastic) to[k] = fmax(to[k], 0);
    const uint32_t whole = p->test->ties ? 3 : whole_numbers(d, i);
    if (whole > 0) to[k] = cr_mt19937_below(rng, whole);
    /* Some rows have no class. */
    if (d->kind == CR_OP_ROW_LOSS && i == 1 && cr_mt19937_below(rng, 4) == 0) to[k] = -1;
    if (d->arg[i].type == CREMA_I32 || d->arg[i].type == CREMA_U8) {
      to[k] = cr_mt19937_below(rng, 256);
    }
  }
  if (d->kind == CR_OP_CORRELATION_FWD && d->u.correlation.subtract) keep_apart(i, count, to);
  if (d->kind == CR_OP_MULTINOMIAL_FWD && i == 0) to_probabilities(&d->arg[0].shape, 1, to);
}

/* ---- problems ------------------------------------------------------------ */

/* Arrays for what is read and what is written. */
static bool make_arrays(op_problem *p) {
  op_access(p->desc, p->access);
  for (int i = 0; i < p->desc->args; ++i) {
    const crema_shape *shape = &p->desc->arg[i].shape;
    if (shape->axes < 0) continue;
    if (p->access[i] != 'W' && !(p->in[i] = array(op_count(shape)))) return false;
    if (p->access[i] != 'R' && !(p->out[i] = array(op_count(shape)))) return false;
  }
  return true;
}

/* Differences of a smooth L1 are wrong across its bend, where the parabola ends. */
static bool keep_off_bend(const op_problem *p) {
  const double square = (double)p->desc->u.smooth.sigma2;
  for (int64_t k = 0; k < op_count(&p->desc->arg[0].shape); ++k) {
    double x = fabs(p->in[0][k] - p->in[1][k]);
    if (p->in[2]) x *= fabs(p->in[2][k]);
    if (fabs(isinf(square) ? x : x * square - 1) < 0.01) p->in[0][k] += 0.125;
  }
  return round_to_type(&p->desc->arg[0], p->in[0]);
}

bool op_problem_make(const op_case *test, crema_dtype type, cr_mt19937 *rng, op_problem *p) {
  *p = (op_problem){.test = test, .opaque = -1, .desc = op_desc_new()};
  if (!op_case_args(test, type, p->desc)) return false;
  if (!make_arrays(p)) return false;
  if (p->desc->kind == CR_OP_LRN_FWD) p->opaque = 2;
  for (int i = 0; i < p->desc->args; ++i) {
    if (!p->in[i]) continue;
    fill(p, i, rng);
    if (!round_to_type(&p->desc->arg[i], p->in[i])) return false;
  }
  if (p->desc->kind == CR_OP_SMOOTH_L1_FWD && !keep_off_bend(p)) return false;
  return test->large || op_reference(p->desc, &test->scalars, p->in, p->out, false);
}

/* ---- gradients ----------------------------------------------------------- */

/* One argument of a backward op: what it is, and of which forward argument. */
typedef struct role {
  char what; /* v, g, d or s */
  int of;
} role;

static int sources_of(const cr_op_desc *d) {
  return d->args - (d->kind == CR_OP_MAX ? 2 : 1);
}

/* Reads the words of gradient->args; the number of roles. */
static int read_roles(const op_problem *f, const op_gradient *gradient, int index, role *roles) {
  const int sources = sources_of(f->desc);
  int n = 0;
  for (const char *p = gradient->args; *p; ++p) {
    if (*p == ' ') continue;
    const char what = *p++;
    int of = *p - '0', last = of;
    if (*p == 'n') of = last = sources;
    if (*p == 'm') of = last = sources + 1;
    if (*p == 'k') of = last = index;
    if (*p == '*') of = 0, last = sources - 1;
    for (; of <= last && n < OP_MAX_ARGS; ++of) roles[n++] = (role){what, of};
  }
  return n;
}

/* The arguments of BN_BWD that belong to a forward op with a scale and a shift, or without, and
 * rectified or not. */
static int bn_gradient_args(const cr_op_desc *forward) {
  int numbers = 0;
  if (forward->u.bn.rectify) return 9;
  for (int i = 4; i < 6 && i < forward->args; ++i) numbers += forward->arg[i].shape.axes >= 0;
  return numbers == 0 ? 5 : 6 + numbers;
}

int op_problem_gradients(const op_problem *f, const op_gradient *gradient) {
  role roles[OP_MAX_ARGS];
  const int n = read_roles(f, gradient, 0, roles);
  for (int i = 0; i < n; ++i) {
    const bool absent = f->desc->arg[roles[i].of].shape.axes < 0;
    const bool optional = cr_op_kind_use(gradient->backward, n, i).optional;
    if (absent && !optional) return 0;
    if (absent && gradient->backward == CR_OP_POOL_BWD && f->desc->u.pool.method == CR_POOL_MAX) {
      return 0;
    }
  }
  /* With a scale or without, and with a shift: each has a gradient of its own. */
  if (gradient->backward == CR_OP_BN_BWD && n != bn_gradient_args(f->desc)) return 0;
  const bool in_place = roles[0].of == roles[1].of;
  if (gradient->backward == CR_OP_UNARY_BWD && in_place &&
      !cr_unary_by_value(f->desc->u.unary.function)) {
    return 0;
  }
  if (gradient->backward == CR_OP_SOFTMAX_LOSS_BWD &&
      f->desc->u.nll.of_scores != (roles[0].of == 0)) {
    return 0;
  }
  if (gradient->backward == CR_OP_UNPOOL_BWD && f->test->ties) return 0;
  return strchr(gradient->args, 'k') ? sources_of(f->desc) : 1;
}

/* sum of given gradients times results, for inputs `in`; `scratchpad` holds the frozen choices. */
static double objective(const cr_op_desc *d, const op_problem *f, const op_problem *b,
                        const role *roles, double *const *in, double *const *scratchpad) {
  op_reference(d, &f->test->scalars, in, scratchpad, true);
  double sum = 0;
  for (int i = 0; i < b->desc->args; ++i) {
    if (roles[i].what != 'g') continue;
    const double *y = scratchpad[roles[i].of];
    for (int64_t k = 0; k < op_count(&b->desc->arg[i].shape); ++k) sum += b->in[i][k] * y[k];
  }
  return sum;
}

/* Where the given gradient of a loss is the scalar alpha. */
static double scaled_loss(const op_problem *f, double *const *in, double *const *scratchpad) {
  op_reference(f->desc, &f->test->scalars, in, scratchpad, true);
  return *scratchpad[3] * (double)f->test->scalars.alpha;
}

/* The gradient of results from all terms of argument `of`, where the reference can hand them back.
 */
static bool hand_back(const op_problem *f, const op_problem *b, const role *roles, int of,
                      double *gradient) {
  for (int i = 0; i < b->desc->args; ++i) {
    if (roles[i].what == 'g') return op_reference_back(f->desc, f->in, of, b->in[i], gradient);
  }
  return false;
}

/* Central differences for every element of forward argument `of`, exact to the second power of the
 * step, in F64 to the fourth. Products, and pooling with its choices frozen, are linear in each
 * argument: their two points may be far apart. A gradient that was handed back is only confirmed,
 * by differences for some elements. */
static bool differences(const op_problem *f, op_problem *b, const role *roles, int of,
                        double *gradient) {
  const bool loss = b->desc->kind == CR_OP_SOFTMAX_LOSS_BWD;
  const bool linear = f->desc->kind == CR_OP_CONV_FWD || f->desc->kind == CR_OP_IP_FWD ||
                      f->desc->kind == CR_OP_POOL_FWD;
  const int points = linear || f->desc->type != CREMA_F64 ? 2 : 4;
  const int64_t count = op_count(&f->desc->arg[of].shape);
  /* Post operations are not part of the gradient. */
  cr_op_desc *desc = op_desc_new();
  memcpy(desc, f->desc, cr_op_desc_bytes(OP_MAX_ARGS));
  cr_op_keep_posts(desc, 0);
  double *in[OP_MAX_ARGS], *scratchpad[OP_MAX_ARGS] = {NULL};
  bool ok = true;
  memcpy(in, f->in, sizeof in);
  in[of] = array(count);
  ok = in[of] != NULL;
  for (int i = 0; i < f->desc->args && ok; ++i) {
    if (!f->out[i]) continue;
    const int64_t size = op_count(&f->desc->arg[i].shape);
    scratchpad[i] = array(size);
    ok = scratchpad[i] != NULL;
    if (ok) memcpy(scratchpad[i], f->out[i], (size_t)size * sizeof(double));
  }
  if (ok) memcpy(in[of], f->in[of], (size_t)count * sizeof *in[of]);
  enum { CONFIRMED = 5 };
  const bool known = ok && hand_back(f, b, roles, of, gradient);
  for (int64_t k = 0; k < count && ok; k += known && count > CONFIRMED ? count / CONFIRMED : 1) {
    const double value = in[of][k], step = linear ? 0.5 : fd_step;
    double change[2] = {0, 0}; /* over two steps and over four */
    for (int s = 0; s < points; ++s) {
      in[of][k] = value + (s % 2 ? -step : step) * (s < 2 ? 1 : 2);
      const double at =
          loss ? scaled_loss(f, in, scratchpad) : objective(desc, f, b, roles, in, scratchpad);
      change[s / 2] += s % 2 ? -at : at;
      b->noise = fmax(b->noise, 4 * DBL_EPSILON * fmax(1, fabs(at)) / step);
    }
    in[of][k] = value;
    const double found =
        points == 2 ? change[0] / (2 * step) : (8 * change[0] - change[1]) / (12 * step);
    if (!known) gradient[k] = found;
    else ok = fabs(found - gradient[k]) <= 1e-9 * fmax(1, fabs(found)) + b->noise;
  }
  free(desc);
  free(in[of]);
  for (int i = 0; i < OP_MAX_ARGS; ++i) free(scratchpad[i]);
  return ok;
}

bool op_problem_gradient(const op_problem *f, const op_gradient *gradient, int index,
                         cr_mt19937 *rng, op_problem *b) {
  role roles[OP_MAX_ARGS];
  *b = (op_problem){.test = f->test, .opaque = -1, .desc = op_desc_new()};
  memcpy(b->desc, f->desc, sizeof *f->desc);
  cr_op_keep_posts(b->desc, 0);
  b->desc->kind = gradient->backward;
  b->desc->args = read_roles(f, gradient, index, roles);
  if (strchr(gradient->args, 'k')) b->desc->u.index = index;
  for (int i = 0; i < b->desc->args; ++i) {
    b->desc->arg[i] = f->desc->arg[roles[i].of];
    if (roles[i].what == 's' && b->desc->arg[i].shape.axes > 0) b->desc->arg[i].shape.axes = 1;
  }
  if (!make_arrays(b)) return false;
  for (int i = 0; i < b->desc->args; ++i) {
    const int of = roles[i].of;
    if (roles[i].what == 'v' && of == f->opaque) b->opaque = i;
    if (b->desc->arg[i].shape.axes < 0) continue;
    const int64_t count = op_count(&b->desc->arg[i].shape);
    if (roles[i].what == 'v') {
      const double *from = f->out[of] ? f->out[of] : f->in[of];
      memcpy(b->in[i], from, (size_t)count * sizeof *from);
    } else if (roles[i].what == 's') {
      const int64_t width = f->desc->arg[of].shape.dim[1];
      memset(b->in[i], 0, (size_t)count * sizeof(double));
      for (int64_t k = 0; k < count * width; ++k) b->in[i][k / width] += f->in[of][k];
    } else if (roles[i].what == 'g' || b->in[i]) {
      for (int64_t k = 0; k < count; ++k) b->in[i][k] = draw(b->desc->arg[i].type, rng);
    }
    if (b->in[i] && !round_to_type(&b->desc->arg[i], b->in[i])) return false;
  }
  for (int i = 0; i < b->desc->args && !f->test->large; ++i) {
    if (roles[i].what != 'd' || !b->out[i]) continue;
    if (!differences(f, b, roles, roles[i].of, b->out[i])) return false;
  }
  return true;
}
