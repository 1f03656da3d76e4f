/* Label maps of people: Gaussians at joints and part affinity fields along limbs.
 *
 * Without limbs there are maps of the num_parts joints of the first person, their background, and
 * the same of all people. A background is 1 less the largest of its maps.
 *
 * With limbs there are num_parts + 1 maps of the mask, which weight the maps that follow. These are
 * two maps of each limb and one of each joint, of all people, and the background of the joints. */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "data/augment/augment.h"
#include "data/augment/pose.h"

/* The maps of a label. */
typedef struct label_maps {
  const cr_pose *pose;
  const cr_pose_layout *layout;
  int stride, height, width; /* of a map */
  float sigma;
  float *map;
} label_maps;

static float *map_at(const label_maps *m, int index) {
  return m->map + (size_t)index * (size_t)m->height * (size_t)m->width;
}

static const cr_pose_joint *joints_of(const label_maps *m, int person) {
  return (const cr_pose_joint *)(const void *)m->pose->joint.data + person * m->layout->parts;
}

void cr_pose_put_gaussian(float *map, int height, int width, int stride, float x, float y,
                          float sigma) {
  const double largest = 4.6052; /* at which the Gaussian is 1 % */
  const float start = (float)stride / 2 - 0.5f;
  for (int row = 0; row < height; ++row) {
    const float down = start + (float)(row * stride) - y;
    for (int column = 0; column < width; ++column, ++map) {
      const float across = start + (float)(column * stride) - x;
      const double exponent =
          (double)(across * across + down * down) / 2 / (double)sigma / (double)sigma;
      if (!(exponent <= largest)) continue;
      *map = fminf(*map + (float)exp(-exponent), 1);
    }
  }
}

/* Joint `joint` of people `from` to `to` - 1. */
static void put_joint(const label_maps *m, int from, int to, int joint, int index) {
  for (int p = from; p < to; ++p) {
    const cr_pose_joint *at = &joints_of(m, p)[joint];
    if (at->seen > 1) continue;
    cr_pose_put_gaussian(map_at(m, index), m->height, m->width, m->stride, at->x, at->y, m->sigma);
  }
}

/* Map `first` + count: 1 less the largest of maps `first` to first + count - 1. */
static void put_background(const label_maps *m, int first, int count) {
  const size_t plane = (size_t)m->height * (size_t)m->width;
  for (size_t i = 0; i < plane; ++i) {
    float largest = 0;
    for (int k = 0; k < count; ++k) largest = fmaxf(largest, map_at(m, first + k)[i]);
    map_at(m, first + count)[i] = fmaxf(1 - largest, 0);
  }
}

static int bounded(float value, int limit) {
  return value <= 0 ? 0 : value >= (float)limit ? limit : (int)value;
}

/* The unit vector from joint a to joint b, in the elements next to the line between them. */
static void put_limb(const label_maps *m, const cr_pose_joint *a, const cr_pose_joint *b,
                     float *along_x, float *along_y) {
  const float reach = 1, shrink = 1 / (float)m->stride;
  const float ax = a->x * shrink, ay = a->y * shrink, bx = b->x * shrink, by = b->y * shrink;
  const float length = sqrtf((bx - ax) * (bx - ax) + (by - ay) * (by - ay));
  const float x = (bx - ax) / length, y = (by - ay) / length;
  if (!(length > 0) || a->seen > 1 || b->seen > 1) return;
  const int left = bounded(roundf(fminf(ax, bx) - reach), m->width);
  const int right = bounded(roundf(fmaxf(ax, bx) + reach), m->width);
  const int top = bounded(roundf(fminf(ay, by) - reach), m->height);
  const int bottom = bounded(roundf(fmaxf(ay, by) + reach), m->height);
  for (int row = top; row < bottom; ++row) {
    for (int column = left; column < right; ++column) {
      const float across = ((float)column - ax) * y - ((float)row - ay) * x;
      if (fabsf(across) > reach) continue;
      along_x[row * m->width + column] = x;
      along_y[row * m->width + column] = y;
    }
  }
}

/* Where two people's limbs overlap, the later one counts. */
static void put_limbs(const label_maps *m, int first) {
  for (int limb = 0; limb < m->layout->limb_count; ++limb) {
    const uint8_t *ends = m->layout->limbs[limb];
    for (int p = 0; p < m->pose->people; ++p) {
      const cr_pose_joint *joint = joints_of(m, p);
      put_limb(m, &joint[ends[0]], &joint[ends[1]], map_at(m, first + 2 * limb),
               map_at(m, first + 2 * limb + 1));
    }
  }
}

/* The mask, except in the maps of the joints that are not annotated. */
static crema_status put_weights(const label_maps *m, cr_pose *pose) {
  const int outputs = m->layout->outputs;
  CR_TRY(cr_image_scale_cubic(&pose->mask, 1.0 / m->stride, &pose->spare));
  for (int k = 0; k <= outputs; ++k) {
    float *map = map_at(m, k);
    if (k < m->layout->parts && joints_of(m, 0)[k].seen == 3) continue;
    for (int y = 0; y < m->height; ++y) {
      for (int x = 0; x < m->width; ++x) {
        *map++ = (float)pose->spare.pixels[y * pose->spare.width + x] / 255;
      }
    }
  }
  return CREMA_OK;
}

crema_status cr_pose_put_label(cr_pose *pose, const Caffe__TransformationParameter *param,
                               const cr_pose_layout *layout, float *out) {
  const int stride = (int)param->stride, outputs = layout->outputs;
  const label_maps m = {
      pose,         layout, stride, pose->image.height / stride, pose->image.width / stride,
      param->sigma, out};
  const size_t plane = (size_t)m.height * (size_t)m.width;
  memset(out, 0, (size_t)(2 * (outputs + 1)) * plane * sizeof *out);
  if (layout->limbs == NULL) {
    for (int i = 0; i < outputs; ++i) put_joint(&m, 0, 1, i, i);
    for (int i = 0; i < outputs; ++i) put_joint(&m, 0, pose->people, i, outputs + 1 + i);
    put_background(&m, 0, outputs);
    put_background(&m, outputs + 1, outputs);
    return CREMA_OK;
  }
  const int first = outputs + 1 + 2 * layout->limb_count;
  CR_TRY(put_weights(&m, pose));
  put_limbs(&m, outputs + 1);
  for (int i = 0; i < layout->parts; ++i) put_joint(&m, 0, pose->people, i, first + i);
  put_background(&m, first, layout->parts);
  return CREMA_OK;
}
