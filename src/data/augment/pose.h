/* Records of people in images as CPMData reads them: parsing, augmentation and label maps. They are
 * described by Wei et al., "Convolutional Pose Machines", 2016. The maps of limbs are described by
 * Cao et al., "Realtime Multi-Person 2D Pose Estimation using Part Affinity Fields", 2017. */
#ifndef CR_DATA_POSE_H
#define CR_DATA_POSE_H

#include "data/image/image.h"
#include "proto/proto.h"

/* A part of a body. */
typedef struct cr_pose_joint {
  float x, y;
  /* 0: hidden, 1: visible, 2: outside the image, 3: not annotated in this data set */
  int seen;
} cr_pose_joint;

/* The parts that num_parts asks for. */
typedef struct cr_pose_layout {
  int outputs; /* num_parts */
  int parts;   /* joints of a person */
  int stored;  /* joints of a person in the records that these are made from */
  /* Joint i is the middle of the stored joints first[i] and second[i]. NULL: stored joint i. */
  const uint8_t *first, *second;
  const uint8_t (*swaps)[2]; /* right and left joints, exchanged in a mirrored image */
  int swap_count;
  const uint8_t (*limbs)[2]; /* pairs of joints with a part affinity field; NULL: no such maps */
  int limb_count;
} cr_pose_layout;

/* A parsed record. Zero-initialise ({0}); the next record reuses its memory. */
typedef struct cr_pose {
  cr_image image;
  cr_image mask; /* 0 where people are not annotated, else 255; only with limbs */
  cr_image spare;
  int people;         /* the first is the person the image is centred on */
  float x, y;         /* the centre of that person */
  float scale;        /* of that person: its height in the image as a share of a fixed length */
  cr_buffer joint;    /* cr_pose_joint: the layout's parts of each person */
  cr_buffer unmapped; /* likewise as stored */
} cr_pose;

/* One draw of the augmentation. */
typedef struct cr_pose_draw {
  float multiplier; /* of the scale */
  float degree;     /* of the rotation, counter-clockwise */
  int right, down;  /* shift of the centre */
  bool flip;
} cr_pose_draw;

/* The layout of transform_param. Errors: CREMA_E_RANGE. */
crema_status cr_pose_layout_of(const Caffe__TransformationParameter *param,
                               cr_pose_layout *out) CREMA_MUST_USE;

/* Checks the fields. Errors: CREMA_E_RANGE, CREMA_E_UNSUPPORTED (aug_way other than "rand",
 * do_clahe). */
crema_status cr_pose_check(const Caffe__TransformationParameter *param) CREMA_MUST_USE;

/* Parses a record. Errors: CREMA_E_CORRUPT, CREMA_E_UNSUPPORTED (an encoded image). */
crema_status cr_pose_load(cr_pose *pose, const uint8_t *bytes, size_t size,
                          const Caffe__TransformationParameter *param,
                          const cr_pose_layout *layout) CREMA_MUST_USE;

/* The draw of sample number `sample`. */
cr_pose_draw cr_pose_draw_of(const Caffe__TransformationParameter *param, uint64_t key,
                             uint64_t sample);

/* Scales, rotates, cuts crop_size_y x crop_size_x pixels out, and mirrors. Errors: CREMA_E_RANGE
 * (an image too large or too small), CREMA_E_NO_MEMORY. */
crema_status cr_pose_augment(cr_pose *pose, const Caffe__TransformationParameter *param,
                             const cr_pose_layout *layout, const cr_pose_draw *draw) CREMA_MUST_USE;

/* Adds exp(-d^2 / (2 sigma^2)), at least 1 %, to a map whose elements are `stride` pixels apart, d
 * from (x, y), and cuts the sums to 1. */
void cr_pose_put_gaussian(float *map, int height, int width, int stride, float x, float y,
                          float sigma);

/* The label maps of an image: 2 (num_parts + 1) maps of the image's extents / stride. Uses the
 * mask's memory. Errors: as cr_image_resize. */
crema_status cr_pose_put_label(cr_pose *pose, const Caffe__TransformationParameter *param,
                               const cr_pose_layout *layout, float *out) CREMA_MUST_USE;

/* Rotates `in` about its middle, counter-clockwise, into `out`, another image, which has its
 * bounding box. Interpolates by cubic splines between positions of 1/32 pixel; outside it is
 * `border`. A point p of `in` is at move * (x, y, 1) in `out`. As OpenCV's warpAffine. Errors: as
 * cr_image_reserve. */
crema_status cr_image_rotate(const cr_image *in, float degree, uint8_t border, cr_image *out,
                             double move[6]) CREMA_MUST_USE;

/* Frees the memory and zeroes the struct. */
void cr_pose_free(cr_pose *pose);

#endif
