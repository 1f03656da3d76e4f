/* Scale, rotation, crop and mirroring of people in images. */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "data/augment/augment.h"
#include "data/augment/augment_private.h"
#include "data/augment/pose.h"

enum { PIXEL_BORDER = 128, MASK_BORDER = 255 };

cr_pose_draw cr_pose_draw_of(const Caffe__TransformationParameter *param, uint64_t key,
                             uint64_t sample) {
  cr_random random = cr_random_begin(key, sample, CR_STAGE_POSE);
  cr_pose_draw draw = {.multiplier = 1};
  const bool scales = cr_random_uniform(&random, 0, 1) < param->scale_prob;
  const float multiplier = cr_random_uniform(&random, param->scale_min, param->scale_max);
  if (scales) draw.multiplier = multiplier;
  draw.degree = cr_random_uniform(&random, -param->max_rotate_degree, param->max_rotate_degree);
  draw.right =
      (int)cr_random_uniform(&random, -param->center_perterb_max, param->center_perterb_max);
  draw.down =
      (int)cr_random_uniform(&random, -param->center_perterb_max, param->center_perterb_max);
  draw.flip = cr_random_uniform(&random, 0, 1) < param->flip_prob;
  return draw;
}

/* Moves the centre and all joints: (x, y, 1) to move * (x, y, 1). */
static void move_points(cr_pose *pose, int parts, const double move[6]) {
  cr_pose_joint *joint = (cr_pose_joint *)(void *)pose->joint.data;
  const float x = pose->x, y = pose->y;
  pose->x = (float)(move[0] * x + move[1] * y + move[2]);
  pose->y = (float)(move[3] * x + move[4] * y + move[5]);
  for (int i = 0; i < pose->people * parts; ++i) {
    const double from[2] = {joint[i].x, joint[i].y};
    joint[i].x = (float)(move[0] * from[0] + move[1] * from[1] + move[2]);
    joint[i].y = (float)(move[3] * from[0] + move[4] * from[1] + move[5]);
  }
}

static crema_status scale(cr_pose *pose, bool masked, double factor) {
  CR_TRY(cr_image_scale_cubic(&pose->image, factor, &pose->spare));
  cr_image_swap(&pose->image, &pose->spare);
  if (!masked) return CREMA_OK;
  CR_TRY(cr_image_scale_cubic(&pose->mask, factor, &pose->spare));
  cr_image_swap(&pose->mask, &pose->spare);
  return CREMA_OK;
}

static crema_status rotate(cr_pose *pose, bool masked, float degree, double move[6]) {
  CR_TRY(cr_image_rotate(&pose->image, degree, PIXEL_BORDER, &pose->spare, move));
  cr_image_swap(&pose->image, &pose->spare);
  if (!masked) return CREMA_OK;
  CR_TRY(cr_image_rotate(&pose->mask, degree, MASK_BORDER, &pose->spare, move));
  cr_image_swap(&pose->mask, &pose->spare);
  return CREMA_OK;
}

/* Cuts height x width pixels out, from (left, top) on, perhaps mirrored. */
static crema_status cut(cr_image *image, const cr_image_part *part, uint8_t border, bool flip,
                        cr_image *spare) {
  const size_t channels = (size_t)image->channels;
  CR_TRY(cr_image_reserve(spare, part->height, part->width, image->channels));
  memset(spare->pixels, border, cr_pixel_count(spare) * channels);
  for (int y = 0; y < part->height; ++y) {
    const int64_t row = (int64_t)part->top + y;
    if (row < 0 || row >= image->height) continue;
    for (int x = 0; x < part->width; ++x) {
      const int64_t column = (int64_t)part->left + x;
      if (column < 0 || column >= image->width) continue;
      const size_t to = (size_t)y * (size_t)part->width + (size_t)(flip ? part->width - 1 - x : x);
      memcpy(spare->pixels + to * channels,
             image->pixels + (size_t)(row * image->width + column) * channels, channels);
    }
  }
  cr_image_swap(image, spare);
  return CREMA_OK;
}

static void exchange_sides(cr_pose *pose, const cr_pose_layout *layout) {
  cr_pose_joint *joint = (cr_pose_joint *)(void *)pose->joint.data;
  for (int p = 0; p < pose->people; ++p, joint += layout->parts) {
    for (int i = 0; i < layout->swap_count; ++i) {
      const uint8_t *pair = layout->swaps[i];
      const cr_pose_joint held = joint[pair[0]];
      joint[pair[0]] = joint[pair[1]];
      joint[pair[1]] = held;
    }
  }
}

/* The pixel at which a crop of `extent` pixels around `middle` begins. */
static int start_of(float middle, int extent) {
  const float most = 1e8f;
  return (int)lrintf(fminf(fmaxf(middle, -most), most)) - extent / 2;
}

static crema_status crop(cr_pose *pose, const Caffe__TransformationParameter *param,
                         const cr_pose_layout *layout, const cr_pose_draw *draw) {
  const int width = (int)param->crop_size_x, height = (int)param->crop_size_y;
  const cr_image_part part = {start_of(pose->y + (float)draw->down, height),
                              start_of(pose->x + (float)draw->right, width), height, width};
  CR_TRY(cut(&pose->image, &part, PIXEL_BORDER, draw->flip, &pose->spare));
  if (layout->limbs != NULL) CR_TRY(cut(&pose->mask, &part, MASK_BORDER, draw->flip, &pose->spare));
  const double left = part.left, top = part.top;
  move_points(pose, layout->parts,
              draw->flip ? (const double[6]){-1, 0, width - 1 + left, 0, 1, -top}
                         : (const double[6]){1, 0, -left, 0, 1, -top});
  if (draw->flip) exchange_sides(pose, layout);
  return CREMA_OK;
}

crema_status cr_pose_augment(cr_pose *pose, const Caffe__TransformationParameter *param,
                             const cr_pose_layout *layout, const cr_pose_draw *draw) {
  const float factor = param->target_dist / pose->scale * draw->multiplier;
  const bool masked = layout->limbs != NULL;
  double move[6];
  CR_TRY(scale(pose, masked, (double)factor));
  move_points(pose, layout->parts, (const double[6]){(double)factor, 0, 0, 0, (double)factor, 0});
  CR_TRY(rotate(pose, masked, draw->degree, move));
  move_points(pose, layout->parts, move);
  return crop(pose, param, layout, draw);
}
