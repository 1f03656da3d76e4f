#include "data/augment/augment_box.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "data/augment/augment_private.h"

float cr_box_size(cr_box box) {
  if (box.xmax < box.xmin || box.ymax < box.ymin) return 0;
  return (box.xmax - box.xmin) * (box.ymax - box.ymin);
}

/* The area of the intersection. */
static float common(cr_box a, cr_box b) {
  const cr_box both = {fmaxf(a.xmin, b.xmin), fmaxf(a.ymin, b.ymin), fminf(a.xmax, b.xmax),
                       fminf(a.ymax, b.ymax)};
  return cr_box_size(both);
}

float cr_box_overlap(cr_box a, cr_box b) {
  float shared = common(a, b);
  return shared > 0 ? shared / (cr_box_size(a) + cr_box_size(b) - shared) : 0;
}

float cr_box_coverage(cr_box a, cr_box b) {
  float shared = common(a, b);
  return shared > 0 ? shared / cr_box_size(a) : 0;
}

static float clip(float value) {
  return value > 0 ? fminf(value, 1) : 0;
}

cr_box cr_box_clip(cr_box box) {
  return (cr_box){clip(box.xmin), clip(box.ymin), clip(box.xmax), clip(box.ymax)};
}

enum { MAX_TRIALS = 1000000 };

crema_status cr_batch_sampler_check(const Caffe__BatchSampler *sampler) {
  const Caffe__Sampler *s = sampler->sampler;
  if (sampler->max_trials > MAX_TRIALS) {
    return cr_fail(CREMA_E_RANGE, "batch_sampler: max_trials: %u (at most %d)", sampler->max_trials,
                   MAX_TRIALS);
  }
  if (s == NULL) return CREMA_OK;
  if (!(s->min_scale > 0 && s->min_scale <= s->max_scale && s->max_scale <= 1)) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "batch_sampler: min_scale: %g and max_scale: %g (0 < min <= max <= 1)",
                   (double)s->min_scale, (double)s->max_scale);
  }
  if (!(s->min_aspect_ratio > 0 && s->min_aspect_ratio <= s->max_aspect_ratio &&
        s->max_aspect_ratio < FLT_MAX)) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "batch_sampler: min_aspect_ratio: %g and max_aspect_ratio: %g (0 < min <= max)",
                   (double)s->min_aspect_ratio, (double)s->max_aspect_ratio);
  }
  return CREMA_OK;
}

/* Four random words per patch: scale, aspect ratio, left, top. */
static cr_box draw_patch(const Caffe__Sampler *sampler, cr_random *random) {
  static const Caffe__Sampler whole = CAFFE__SAMPLER__INIT;
  const Caffe__Sampler *s = sampler != NULL ? sampler : &whole;
  float scale = cr_random_uniform(random, s->min_scale, s->max_scale);
  float ratio = cr_random_uniform(random, s->min_aspect_ratio, s->max_aspect_ratio);
  ratio = fminf(fmaxf(ratio, scale * scale), 1 / (scale * scale));
  float width = fminf(scale * sqrtf(ratio), 1), height = fminf(scale / sqrtf(ratio), 1);
  float left = cr_random_uniform(random, 0, 1 - width);
  float top = cr_random_uniform(random, 0, 1 - height);
  return (cr_box){left, top, left + width, top + height};
}

/* Whether `value` is within the given bounds. */
static bool holds(float value, bool has_min, float min, bool has_max, float max) {
  return !(has_min && value < min) && !(has_max && value > max);
}

static bool meets(const Caffe__SampleConstraint *c, cr_box patch, cr_box object) {
  return holds(cr_box_overlap(patch, object), c->has_min_jaccard_overlap, c->min_jaccard_overlap,
               c->has_max_jaccard_overlap, c->max_jaccard_overlap) &&
         holds(cr_box_coverage(patch, object), c->has_min_sample_coverage, c->min_sample_coverage,
               c->has_max_sample_coverage, c->max_sample_coverage) &&
         holds(cr_box_coverage(object, patch), c->has_min_object_coverage, c->min_object_coverage,
               c->has_max_object_coverage, c->max_object_coverage);
}

static bool accepted(const Caffe__SampleConstraint *c, cr_box patch, const cr_box *box,
                     size_t boxes) {
  if (c == NULL ||
      !(c->has_min_jaccard_overlap || c->has_max_jaccard_overlap || c->has_min_sample_coverage ||
        c->has_max_sample_coverage || c->has_min_object_coverage || c->has_max_object_coverage)) {
    return true;
  }
  for (size_t i = 0; i < boxes; ++i) {
    if (meets(c, patch, box[i])) return true;
  }
  return false;
}

/* The n-th kept patch replaces the chosen one with probability 1 / n. The choice has its own random
 * stream, so that a trial's patch does not depend on the number of kept patches. */
bool cr_sample_patch(const Caffe__BatchSampler *const *sampler, size_t count, const cr_box *box,
                     size_t boxes, uint64_t key, uint64_t sample, cr_box *out) {
  cr_random random = cr_random_begin(key, sample, CR_STAGE_PATCH);
  cr_random choice = cr_random_begin(key, sample, CR_STAGE_CHOICE);
  int kept = 0;
  *out = (cr_box){0, 0, 1, 1};
  for (size_t s = 0; s < count; ++s) {
    const Caffe__BatchSampler *batch = sampler[s];
    uint32_t found = 0;
    if (!batch->use_original_image) continue;
    for (uint32_t trial = 0; trial < batch->max_trials; ++trial) {
      if (batch->has_max_sample && found >= batch->max_sample) break;
      cr_box patch = draw_patch(batch->sampler, &random);
      if (!accepted(batch->sample_constraint, patch, box, boxes)) continue;
      ++found;
      if (cr_random_below(&choice, ++kept) == 0) *out = patch;
    }
  }
  return kept > 0;
}

void cr_image_crop(cr_image *image, cr_box patch) {
  cr_box within = cr_box_clip(patch);
  int left = (int)(within.xmin * (float)image->width);
  int top = (int)(within.ymin * (float)image->height);
  int width = (int)((within.xmax - within.xmin) * (float)image->width);
  int height = (int)((within.ymax - within.ymin) * (float)image->height);
  if (left > image->width - 1) left = image->width - 1;
  if (top > image->height - 1) top = image->height - 1;
  width = width < 1 ? 1 : width > image->width - left ? image->width - left : width;
  height = height < 1 ? 1 : height > image->height - top ? image->height - top : height;
  /* Rows move towards the start, so in place. */
  size_t pixel = (size_t)image->channels, stride = (size_t)image->width * pixel;
  const uint8_t *from = image->pixels + (size_t)top * stride + (size_t)left * pixel;
  size_t row = (size_t)width * pixel;
  for (int y = 0; y < height; ++y) {
    memmove(image->pixels + (size_t)y * row, from + (size_t)y * stride, row);
  }
  image->width = width;
  image->height = height;
}

bool cr_box_project(cr_box window, cr_box *box) {
  if (box->xmin >= window.xmax || box->xmax <= window.xmin || box->ymin >= window.ymax ||
      box->ymax <= window.ymin) {
    return false;
  }
  float width = window.xmax - window.xmin, height = window.ymax - window.ymin;
  const cr_box inside = {(box->xmin - window.xmin) / width, (box->ymin - window.ymin) / height,
                         (box->xmax - window.xmin) / width, (box->ymax - window.ymin) / height};
  *box = cr_box_clip(inside);
  return cr_box_size(*box) > 0;
}

bool cr_box_emits(const Caffe__EmitConstraint *constraint, cr_box window, cr_box box) {
  if (constraint == NULL) return true;
  if (constraint->emit_type == CAFFE__EMIT_CONSTRAINT__EMIT_TYPE__MIN_OVERLAP) {
    return cr_box_coverage(box, window) > constraint->emit_overlap;
  }
  float x = (box.xmin + box.xmax) / 2, y = (box.ymin + box.ymax) / 2;
  return x >= window.xmin && x <= window.xmax && y >= window.ymin && y <= window.ymax;
}

/* Only padding changes fractions: an image that fills the share s of a side begins at (1 - s) / 2.
 */
cr_box cr_box_resize(const Caffe__ResizeParameter *resize, int height, int width, cr_box box) {
  box = cr_box_clip(box);
  if (resize == NULL ||
      resize->resize_mode != CAFFE__RESIZE_PARAMETER__RESIZE_MODE__FIT_LARGE_SIZE_AND_PAD) {
    return box;
  }
  float aspect = (float)width / (float)height;
  float wanted = (float)resize->width / (float)resize->height;
  float share_x = aspect > wanted ? 1 : aspect / wanted;
  float share_y = aspect > wanted ? wanted / aspect : 1;
  float pad_x = (1 - share_x) / 2, pad_y = (1 - share_y) / 2;
  return (cr_box){pad_x + box.xmin * share_x, pad_y + box.ymin * share_y,
                  pad_x + box.xmax * share_x, pad_y + box.ymax * share_y};
}

cr_box cr_box_mirror(cr_box box) {
  return (cr_box){1 - box.xmax, box.ymin, 1 - box.xmin, box.ymax};
}
