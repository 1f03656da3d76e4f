/* Initial values of parameters and dummy data. */
#include <math.h>
#include <string.h>

#include "core/did_you_mean.h"
#include "core/fail.h"
#include "device/memory/host_memory.h"
#include "layers/common/filler_gabor.h"
#include "layers/common/layer.h"

/* Values, their shape and the generator to draw from. Values of other types than these two are
 * filled as floats. The draws are the same for both, so that a net of doubles starts near the net
 * of floats of the same seed. */
typedef struct fill_target {
  const Caffe__FillerParameter *filler;
  cr_mt19937 *rng;
  const crema_shape *shape;
  int64_t count;
  float *value;
  double *wide; /* NULL: floats */
} fill_target;

static void set(const fill_target *target, int64_t i, double value) {
  if (target->wide != NULL) target->wide[i] = value;
  else target->value[i] = (float)value;
}

static double get(const fill_target *target, int64_t i) {
  return target->wide != NULL ? target->wide[i] : (double)target->value[i];
}

static void draw_uniform(const fill_target *target, double low, double high) {
  const float from = (float)low, span = (float)high - from;
  for (int64_t i = 0; i < target->count; ++i) {
    if (target->wide == NULL) target->value[i] = from + span * cr_mt19937_uniform(target->rng);
    else target->wide[i] = low + (high - low) * cr_mt19937_uniform_wide(target->rng);
  }
}

static void draw_gaussian(const fill_target *target, double mean, double deviation) {
  const float m = (float)mean, d = (float)deviation;
  for (int64_t i = 0; i < target->count; ++i) {
    if (target->wide == NULL) target->value[i] = m + d * cr_mt19937_normal(target->rng);
    else target->wide[i] = mean + deviation * cr_mt19937_normal_wide(target->rng);
  }
}

static crema_status fill_constant(const fill_target *target) {
  for (int64_t i = 0; i < target->count; ++i) set(target, i, (double)target->filler->value);
  return CREMA_OK;
}

static crema_status check_uniform(const fill_target *target) {
  const Caffe__FillerParameter *filler = target->filler;
  if (filler->min <= filler->max) return CREMA_OK;
  return cr_fail(CREMA_E_RANGE, "filler 'uniform': min %g is above max %g", (double)filler->min,
                 (double)filler->max);
}

static crema_status fill_uniform(const fill_target *target) {
  draw_uniform(target, (double)target->filler->min, (double)target->filler->max);
  return CREMA_OK;
}

/* With sparse = s, the probability s / dim 0 that a value is kept. */
static float sparse_share(const fill_target *target) {
  return (float)target->filler->sparse / (float)target->shape->dim[0];
}

static crema_status check_gaussian(const fill_target *target) {
  const Caffe__FillerParameter *filler = target->filler;
  const int sparse = filler->sparse;
  if (!(filler->std >= 0)) {
    return cr_fail(CREMA_E_RANGE, "filler 'gaussian': std is %g, must not be negative",
                   (double)filler->std);
  }
  if (sparse < -1) {
    return cr_fail(CREMA_E_RANGE, "filler 'gaussian': sparse is %d, must be -1 (dense) or more",
                   sparse);
  }
  if (sparse >= 0 && target->shape->axes < 1) {
    return cr_fail(CREMA_E_SHAPE, "filler 'gaussian': sparse needs a blob with axes");
  }
  if (sparse < 0 || target->shape->dim[0] == 0 || sparse_share(target) <= 1) return CREMA_OK;
  return cr_fail(CREMA_E_RANGE, "filler 'gaussian': sparse %d is above the %lld outputs", sparse,
                 (long long)target->shape->dim[0]);
}

/* With `sparse`, values that are not kept are set to zero, so that an output has that many non-zero
 * inputs on average. */
static crema_status fill_gaussian(const fill_target *target) {
  draw_gaussian(target, (double)target->filler->mean, (double)target->filler->std);
  if (target->filler->sparse < 0 || target->shape->dim[0] == 0) return CREMA_OK;
  const float keep = sparse_share(target);
  for (int64_t i = 0; i < target->count; ++i) {
    if (cr_mt19937_uniform(target->rng) >= keep) set(target, i, 0);
  }
  return CREMA_OK;
}

/* Uniform values, each row (all but axis 0) scaled to a sum of 1. */
static crema_status fill_positive_unitball(const fill_target *target) {
  int64_t rows = target->shape->axes > 0 ? target->shape->dim[0] : 1;
  draw_uniform(target, 0, 1);
  if (rows == 0) return CREMA_OK;
  int64_t width = target->count / rows;
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i) sum += get(target, i);
    for (int64_t i = r * width; i < (r + 1) * width && sum > 0; ++i) {
      set(target, i, get(target, i) / sum);
    }
  }
  return CREMA_OK;
}

/* The fan that variance_norm selects; at least 1, to avoid a division by 0 for empty blobs. */
static double fan(const fill_target *target) {
  const crema_shape *shape = target->shape;
  double count = (double)target->count;
  double in = shape->axes > 0 && shape->dim[0] > 0 ? count / (double)shape->dim[0] : count;
  double out = shape->axes > 1 && shape->dim[1] > 0 ? count / (double)shape->dim[1] : count;
  double n = in;
  if (target->filler->variance_norm == CAFFE__FILLER_PARAMETER__VARIANCE_NORM__AVERAGE) {
    n = (in + out) / 2;
  } else if (target->filler->variance_norm == CAFFE__FILLER_PARAMETER__VARIANCE_NORM__FAN_OUT) {
    n = out;
  }
  return n > 0 ? n : 1;
}

/* Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
 * networks", 2010: uniform with variance 1/fan. */
static crema_status fill_xavier(const fill_target *target) {
  double bound = sqrt(3.0 / fan(target));
  draw_uniform(target, -bound, bound);
  return CREMA_OK;
}

/* He, Zhang, Ren and Sun, "Delving deep into rectifiers", 2015, equation 15: normal with variance
 * 2 / ((1 + alpha^2) fan); the deviation times scale. */
static crema_status fill_msra(const fill_target *target) {
  const double alpha = (double)target->filler->alpha;
  draw_gaussian(target, 0,
                (double)target->filler->scale * sqrt(2.0 / (1 + alpha * alpha) / fan(target)));
  return CREMA_OK;
}

/* One axis of a kernel of bilinear interpolation. */
static float tent(int64_t side, int64_t at) {
  float factor = (float)((side + 1) / 2);
  return 1 - fabsf((float)at / factor - (float)(side - 1) / (2 * factor));
}

static double tent_wide(int64_t side, int64_t at) {
  double factor = (double)((side + 1) / 2);
  return 1 - fabs((double)at / factor - (double)(side - 1) / (2 * factor));
}

static crema_status check_bilinear(const fill_target *target) {
  const crema_shape *shape = target->shape;
  char text[128];
  if (shape->axes == 4 && shape->dim[2] == shape->dim[3]) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE,
                 "filler 'bilinear' needs four axes, the last two equal; found shape %s",
                 crema_shape_text(shape, text, sizeof text));
}

/* The kernel of bilinear interpolation in every plane, for upsampling by Deconvolution. */
static crema_status fill_bilinear(const fill_target *target) {
  const int64_t side = target->shape->dim[3];
  for (int64_t i = 0; i < target->count; ++i) {
    int64_t row = i / side % side, column = i % side;
    if (target->wide == NULL) target->value[i] = tent(side, column) * tent(side, row);
    else target->wide[i] = tent_wide(side, column) * tent_wide(side, row);
  }
  return CREMA_OK;
}

static crema_status check_gabor(const fill_target *target) {
  char text[128];
  if (cr_gabor_has(target->shape)) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE,
                 "filler 'gabor' is for filters of shape 32 x 3 x 5 x 5, 64 x 3 x 7 x 7, "
                 "64 x 3 x 3 x 3 or 96 x 3 x 11 x 11; found shape %s",
                 crema_shape_text(target->shape, text, sizeof text));
}

static crema_status fill_gabor(const fill_target *target) {
  for (int64_t i = 0; i < target->count; ++i) set(target, i, cr_gabor_value(target->shape, i));
  return CREMA_OK;
}

typedef struct fill_kind {
  const char *name;
  crema_status (*fill)(const fill_target *target);
  crema_status (*check)(const fill_target *target); /* NULL: any values of its fields are valid */
  bool sparse;                    /* takes the `sparse` field */
} fill_kind;

static const fill_kind kinds[] = {
    {"bilinear", fill_bilinear, check_bilinear, false},
    {"constant", fill_constant, NULL, false},
    {"gabor", fill_gabor, check_gabor, false},
    {"gaussian", fill_gaussian, check_gaussian, true},
    {"msra", fill_msra, NULL, false},
    {"positive_unitball", fill_positive_unitball, NULL, false},
    {"uniform", fill_uniform, check_uniform, false},
    {"xavier", fill_xavier, NULL, false},
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

static crema_status find_kind(const char *name, const fill_kind **out) {
  const char *names[KINDS];
  for (size_t i = 0; i < KINDS; ++i) {
    names[i] = kinds[i].name;
    if (strcmp(name, kinds[i].name) == 0) {
      *out = &kinds[i];
      return CREMA_OK;
    }
  }
  const char *nearest = cr_did_you_mean(name, names, KINDS);
  return cr_fail(
      CREMA_E_UNKNOWN_NAME,
      "unknown filler type '%s'%s%s%s; known types: bilinear, constant, gabor, gaussian, "
      "msra, positive_unitball, uniform, xavier",
      name, nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "");
}

/* Checks the filler's type and fields, and describes the values to fill. */
static crema_status open_target(const Caffe__FillerParameter *filler, crema_context *context,
                                const crema_blob *blob, const fill_kind **kind, fill_target *out) {
  CR_TRY(find_kind(filler->type ? filler->type : "constant", kind));
  if (filler->sparse != -1 && !(*kind)->sparse) {
    return cr_fail(CREMA_E_ARGUMENT, "filler '%s' does not take sparse", (*kind)->name);
  }
  *out = (fill_target){.filler = filler,
                       .rng = &context->rng,
                       .shape = &blob->shape,
                       .count = crema_blob_count(blob)};
  return (*kind)->check == NULL ? CREMA_OK : (*kind)->check(out);
}

/* Zeros need no memory before their first use. */
static crema_status mark_zero(crema_blob *blob) {
  CR_TRY(
      cr_host_check((size_t)crema_blob_count(blob) * crema_dtype_size(cr_tensor_type(blob->data))));
  cr_tensor_set_zero(blob->data);
  return CREMA_OK;
}

crema_status cr_fill_later(const Caffe__FillerParameter *filler, crema_context *context,
                           crema_blob *blob) {
  const fill_kind *kind = NULL;
  fill_target target;
  CR_TRY(open_target(filler, context, blob, &kind, &target));
  return mark_zero(blob);
}

crema_status cr_fill(const Caffe__FillerParameter *filler, crema_context *context,
                     crema_blob *blob) {
  const fill_kind *kind = NULL;
  fill_target target;
  CR_TRY(open_target(filler, context, blob, &kind, &target));
  if (kind->fill == fill_constant && filler->value == 0.0F && !signbit(filler->value)) {
    return mark_zero(blob);
  }
  if (cr_tensor_type(blob->data) == CREMA_F64) {
    void *values = NULL;
    CR_TRY(cr_tensor_host_write(blob->data, &values));
    target.wide = values;
  } else {
    CR_TRY(cr_tensor_host_write_floats(blob->data, &target.value));
  }
  return kind->fill(&target);
}
