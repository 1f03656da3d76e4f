/* The parts of bodies that num_parts asks for, and the checks of the fields. */
#include <string.h>

#include "core/fail.h"
#include "data/augment/pose.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* Joints of MPII and LEEDS, from 0 on: right ankle, knee, hip, left hip, knee, ankle, pelvis,
 * thorax, neck, head, right wrist, elbow, shoulder, left shoulder, elbow, wrist.
 *
 * Joints of COCO: nose, then left and right eye, ear, shoulder, elbow, wrist, hip,
 * knee, ankle. */
enum { MPII = 16, COCO = 17, MOST_PARTS = 64 };

static const uint8_t body[14] = {9, 8, 12, 11, 10, 13, 14, 15, 2, 1, 0, 3, 4, 5};
static const uint8_t body_swaps[][2] = {{2, 5}, {3, 6}, {4, 7}, {8, 11}, {9, 12}, {10, 13}};

/* Fourteen joints, thorax and pelvis, and the middles of twelve limbs. */
static const uint8_t middles[2][28] = {
    {9, 8, 12, 11, 10, 13, 14, 15, 2, 1, 0, 3, 4, 5, 7, 6, 9, 8, 12, 11, 8, 13, 14, 2, 1, 3, 4, 6},
    {9, 8, 12, 11, 10, 13, 14, 15, 2,  1, 0, 3, 4, 5,
     7, 6, 8,  12, 11, 10, 13, 14, 15, 1, 0, 4, 5, 7}};
static const uint8_t middle_swaps[][2] = {{2, 5},   {3, 6},   {4, 7},   {8, 11},  {9, 12}, {10, 13},
                                          {17, 20}, {18, 21}, {19, 22}, {23, 25}, {24, 26}};

/* FLIC, as stored. */
static const uint8_t flic_swaps[][2] = {{0, 3}, {1, 4}, {2, 5}, {6, 7}};

/* Several people, MPII: with the middle of the trunk. */
static const uint8_t mpi[2][15] = {{9, 8, 12, 11, 10, 13, 14, 15, 2, 1, 0, 3, 4, 5, 7},
                                   {9, 8, 12, 11, 10, 13, 14, 15, 2, 1, 0, 3, 4, 5, 6}};
static const uint8_t mpi_limbs[][2] = {{0, 1},  {1, 2},   {2, 3},   {3, 4},  {1, 5},
                                       {5, 6},  {6, 7},   {1, 14},  {14, 8}, {8, 9},
                                       {9, 10}, {14, 11}, {11, 12}, {12, 13}};

/* Several people, COCO: with the neck between the shoulders. */
static const uint8_t coco[2][18] = {{0, 5, 6, 8, 10, 5, 7, 9, 12, 14, 16, 11, 13, 15, 2, 1, 4, 3},
                                    {0, 6, 6, 8, 10, 5, 7, 9, 12, 14, 16, 11, 13, 15, 2, 1, 4, 3}};
static const uint8_t coco_swaps[][2] = {{2, 5},  {3, 6},   {4, 7},   {8, 11},
                                        {9, 12}, {10, 13}, {14, 15}, {16, 17}};
static const uint8_t coco_limbs[][2] = {
    {1, 8}, {8, 9}, {9, 10}, {1, 11}, {11, 12}, {12, 13}, {1, 2},  {2, 3},   {3, 4},  {2, 16},
    {1, 5}, {5, 6}, {6, 7},  {5, 17}, {1, 0},   {0, 14},  {0, 15}, {14, 16}, {15, 17}};

static const cr_pose_layout layouts[] = {
    {9, 9, 9, NULL, NULL, flic_swaps, COUNT(flic_swaps), NULL, 0},
    {14, 14, MPII, body, body, body_swaps, COUNT(body_swaps), NULL, 0},
    {28, 28, MPII, middles[0], middles[1], middle_swaps, COUNT(middle_swaps), NULL, 0},
    {43, 15, MPII, mpi[0], mpi[1], body_swaps, COUNT(body_swaps), mpi_limbs, COUNT(mpi_limbs)},
    {56, 18, COCO, coco[0], coco[1], coco_swaps, COUNT(coco_swaps), coco_limbs, COUNT(coco_limbs)},
};

crema_status cr_pose_layout_of(const Caffe__TransformationParameter *param, cr_pose_layout *out) {
  const uint32_t outputs = param->num_parts;
  if (outputs < 1 || outputs > MOST_PARTS || param->np_in_lmdb > MOST_PARTS) {
    return cr_fail(CREMA_E_RANGE, "num_parts is %u and np_in_lmdb %u, must be 1 to %d", outputs,
                   param->np_in_lmdb, MOST_PARTS);
  }
  *out = (cr_pose_layout){(int)outputs, (int)outputs, (int)outputs, NULL, NULL, NULL, 0, NULL, 0};
  for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; ++i) {
    if (layouts[i].outputs == (int)outputs) *out = layouts[i];
  }
  if (!param->transform_body_joint) {
    out->stored = out->parts;
    out->first = out->second = NULL;
    out->swap_count = 0;
  }
  if ((int)param->np_in_lmdb >= out->stored) return CREMA_OK;
  return cr_fail(CREMA_E_RANGE, "np_in_lmdb is %u, must be %d or more for num_parts: %u",
                 param->np_in_lmdb, out->stored, outputs);
}

static crema_status check_positive(const char *field, float value) {
  if (value > 0 && value < 1e6f) return CREMA_OK;
  return cr_fail(CREMA_E_RANGE, "transform_param: %s is %g, must be positive", field,
                 (double)value);
}

static crema_status check_probability(const char *field, float value) {
  if (value >= 0 && value <= 1) return CREMA_OK;
  return cr_fail(CREMA_E_RANGE, "transform_param: %s is %g, must be in [0, 1]", field,
                 (double)value);
}

static crema_status check_extents(const Caffe__TransformationParameter *param) {
  const uint32_t most = CR_IMAGE_MAX_SIDE, stride = param->stride;
  if (stride > 0 && stride <= param->crop_size_x && stride <= param->crop_size_y &&
      param->crop_size_x <= most && param->crop_size_y <= most) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_RANGE,
                 "transform_param: crop_size_x is %u and crop_size_y %u, must be from the stride, "
                 "%u, to %u, and the stride 1 or more",
                 param->crop_size_x, param->crop_size_y, stride, most);
}

crema_status cr_pose_check(const Caffe__TransformationParameter *param) {
  CR_TRY(check_extents(param));
  CR_TRY(check_positive("sigma", param->sigma));
  CR_TRY(check_positive("sigma_center", param->sigma_center));
  CR_TRY(check_positive("target_dist", param->target_dist));
  CR_TRY(check_positive("scale_min", param->scale_min));
  CR_TRY(check_positive("scale_max", param->scale_max));
  CR_TRY(check_probability("scale_prob", param->scale_prob));
  CR_TRY(check_probability("flip_prob", param->flip_prob));
  if (!(param->max_rotate_degree >= 0 && param->max_rotate_degree <= 360)) {
    return cr_fail(CREMA_E_RANGE, "transform_param: max_rotate_degree is %g, must be in [0, 360]",
                   (double)param->max_rotate_degree);
  }
  if (!(param->center_perterb_max >= 0 && param->center_perterb_max <= CR_IMAGE_MAX_SIDE)) {
    return cr_fail(CREMA_E_RANGE, "transform_param: center_perterb_max is %g, must be in [0, %d]",
                   (double)param->center_perterb_max, CR_IMAGE_MAX_SIDE);
  }
  if (param->aug_way != NULL && strcmp(param->aug_way, "rand") != 0) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "transform_param: aug_way \"%.40s\" is not supported, use \"rand\"",
                   param->aug_way);
  }
  if (!param->do_clahe) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "transform_param: do_clahe is not supported");
}
