/* A record of CPMData: a Datum of bytes with at least four channels. The first three are the image,
 * in the order blue, green, red. The rows of the fourth have, in little-endian floats unless said
 * otherwise:
 *
 * - 0: the name of the data set.
 * - 1: height and width of the image before it was padded.
 * - 2: bytes: validation, number n of other people, index of the person; then three floats.
 * - 3: x and y of the person's centre.
 * - 4: the person's scale.
 * - 5, 6, 7: x, y and visibility of the joints.
 * - From 8 on: x and y of the other people's centres, a row for each.
 * - 8 + n: their scales.
 * - From 9 + n on: three rows for each of them, as rows 5 to 7.
 *
 * Positions count from 1. The fifth channel, if maps of limbs are made, is the mask of people. */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "data/augment/augment_private.h"
#include "data/augment/pose.h"
#include "data/db/datum.h"

enum {
  FLOAT = 4,
  IMAGE = 3,
  INFO = 3,
  MASK = 4,
  ROW_SIZE = 1,
  ROW_COUNTS = 2,
  ROW_CENTRE = 3,
  ROW_SCALE = 4,
  ROW_JOINTS = 5,
  ROW_OTHERS = 8,
  COUNT_BYTES = 15
};

/* The fourth channel. */
typedef struct info_rows {
  const uint8_t *bytes;
  int height, width;
} info_rows;

static float float_at(const info_rows *info, int row, int index) {
  const uint8_t *at = info->bytes + (size_t)row * (size_t)info->width + (size_t)index * FLOAT;
  const uint32_t bits =
      (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static int others_of(const info_rows *info) {
  return info->bytes[(size_t)ROW_COUNTS * (size_t)info->width + 1];
}

static crema_status check_room(const info_rows *info, int stored) {
  const int wide = stored * FLOAT > COUNT_BYTES ? stored * FLOAT : COUNT_BYTES;
  int others = 0;
  if (info->height >= ROW_OTHERS && info->width >= wide) {
    others = others_of(info);
    if (others == 0) return CREMA_OK;
    if (info->height >= ROW_OTHERS + 1 + 4 * others && info->width >= others * FLOAT)
      return CREMA_OK;
  }
  return cr_fail(CREMA_E_CORRUPT,
                 "a channel of %d x %d bytes has no room for %d joints of each of %d people",
                 info->height, info->width, stored, others + 1);
}

static bool is_position(float value) {
  return value > -1e6f && value < 1e6f;
}

/* `limbs`: 3 means not annotated, for the first person. */
static crema_status read_joints(const info_rows *info, int row, int stored, bool limbs,
                                cr_pose_joint *out) {
  const float height = float_at(info, ROW_SIZE, 0), width = float_at(info, ROW_SIZE, 1);
  for (int i = 0; i < stored; ++i) {
    const float seen = float_at(info, row + 2, i);
    cr_pose_joint *joint = &out[i];
    joint->x = float_at(info, row, i) - 1;
    joint->y = float_at(info, row + 1, i) - 1;
    if (!is_position(joint->x) || !is_position(joint->y)) {
      return cr_fail(CREMA_E_CORRUPT, "joint %d in row %d is at (%g, %g)", i, row, (double)joint->x,
                     (double)joint->y);
    }
    joint->seen = seen != 0;
    if (limbs && row == ROW_JOINTS && seen == 3) joint->seen = 3;
    else if (joint->x < 0 || joint->y < 0 || joint->x >= width || joint->y >= height)
      joint->seen = 2;
  }
  return CREMA_OK;
}

static int seen_of(int a, int b) {
  if (a == 2 || b == 2) return 2;
  if (a == 3 || b == 3) return 3;
  return a != 0 && b != 0;
}

/* From stored joints to the layout's. */
static void map_joints(const cr_pose_layout *layout, const cr_pose_joint *from, cr_pose_joint *to) {
  for (int i = 0; i < layout->parts; ++i) {
    const cr_pose_joint *a = &from[layout->first == NULL ? i : layout->first[i]];
    const cr_pose_joint *b = &from[layout->second == NULL ? i : layout->second[i]];
    to[i] = (cr_pose_joint){(a->x + b->x) * 0.5f, (a->y + b->y) * 0.5f, seen_of(a->seen, b->seen)};
  }
}

static crema_status read_people(cr_pose *pose, const info_rows *info, int stored,
                                const cr_pose_layout *layout) {
  const int others = others_of(info);
  const size_t size = sizeof(cr_pose_joint);
  pose->people = others + 1;
  CR_TRY(cr_buffer_reserve(&pose->unmapped, (size_t)stored * size));
  CR_TRY(cr_buffer_reserve(&pose->joint, (size_t)(pose->people * layout->parts) * size));
  cr_pose_joint *read = (cr_pose_joint *)(void *)pose->unmapped.data;
  cr_pose_joint *joint = (cr_pose_joint *)(void *)pose->joint.data;
  for (int p = 0; p < pose->people; ++p) {
    const int row = p == 0 ? ROW_JOINTS : ROW_OTHERS + 1 + others + 3 * (p - 1);
    CR_TRY(read_joints(info, row, stored, layout->limbs != NULL, read));
    map_joints(layout, read, joint + p * layout->parts);
  }
  pose->x = float_at(info, ROW_CENTRE, 0) - 1;
  pose->y = float_at(info, ROW_CENTRE, 1) - 1;
  pose->scale = float_at(info, ROW_SCALE, 0);
  if (is_position(pose->x) && is_position(pose->y) && pose->scale > 0 && pose->scale < 1e6f)
    return CREMA_OK;
  return cr_fail(CREMA_E_CORRUPT, "a person of scale %g at (%g, %g)", (double)pose->scale,
                 (double)pose->x, (double)pose->y);
}

/* As OpenCV: weights of 14 bits. */
static void make_gray(cr_image *image) {
  uint8_t *end = image->pixels + IMAGE * cr_pixel_count(image);
  for (uint8_t *p = image->pixels; p < end; p += IMAGE) {
    p[0] = p[1] = p[2] = (uint8_t)((1868 * p[0] + 9617 * p[1] + 4899 * p[2] + (1 << 13)) >> 14);
  }
}

static crema_status check_channels(const cr_datum *datum, const cr_pose_layout *layout) {
  const int needed = layout->limbs != NULL ? MASK + 1 : INFO + 1;
  CR_TRY(cr_datum_check_raw(datum));
  if (datum->size > 0 && datum->channels >= needed) return CREMA_OK;
  return cr_fail(CREMA_E_CORRUPT, "%d channels of %s; expected %d or more channels of bytes",
                 datum->channels, datum->size > 0 ? "bytes" : "floats", needed);
}

crema_status cr_pose_load(cr_pose *pose, const uint8_t *bytes, size_t size,
                          const Caffe__TransformationParameter *param,
                          const cr_pose_layout *layout) {
  cr_datum datum;
  CR_TRY(cr_datum_parse(bytes, size, &datum));
  if (datum.encoded) {
    return cr_fail(CREMA_E_UNSUPPORTED, "the image is encoded; expected channels of bytes");
  }
  CR_TRY(check_channels(&datum, layout));
  const size_t plane = (size_t)datum.height * (size_t)datum.width;
  const info_rows info = {datum.data + INFO * plane, datum.height, datum.width};
  CR_TRY(check_room(&info, (int)param->np_in_lmdb));
  CR_TRY(read_people(pose, &info, (int)param->np_in_lmdb, layout));
  CR_TRY(cr_image_reserve(&pose->image, datum.height, datum.width, IMAGE));
  cr_image_interleave(datum.data, &pose->image);
  if (param->gray == 1) make_gray(&pose->image);
  if (layout->limbs == NULL) return CREMA_OK;
  CR_TRY(cr_image_reserve(&pose->mask, datum.height, datum.width, 1));
  memcpy(pose->mask.pixels, datum.data + MASK * plane, plane);
  return CREMA_OK;
}

void cr_pose_free(cr_pose *pose) {
  cr_image_free(&pose->image);
  cr_image_free(&pose->mask);
  cr_image_free(&pose->spare);
  cr_buffer_free(&pose->joint);
  cr_buffer_free(&pose->unmapped);
  *pose = (cr_pose){0};
}
