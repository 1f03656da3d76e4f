/* CPMData: images of people with label maps of their joints and limbs (Wei et al., "Convolutional
 * Pose Machines", 2016; Cao et al., "Realtime Multi-Person 2D Pose Estimation using Part Affinity
 * Fields", 2017).
 *
 * Formula: a record is an image whose fourth channel has a person's centre and scale and the joints
 * of all people. In TRAIN the image and all positions are scaled by target_dist / scale and, with
 * probability scale_prob, by a factor from scale_min to scale_max. They are rotated by up to
 * max_rotate_degree, cut out around the centre, with a shift of up to center_perterb_max pixels,
 * and mirrored with probability flip_prob. Outside the image are pixels of 128. In TEST nothing
 * moves. data = (pixel - 128) / 256.
 * The map of a joint is the sum over people of exp(-d^2 / (2 sigma^2)), where it is at least 1 %,
 * and at most 1; d is the distance from the joint. The background is 1 less the largest of these
 * maps. A limb has two maps with the unit vector from one joint to the next, in elements up to one
 * element from the line between them. Joints outside the image have no maps.
 * Shapes: no bottom -> data (batch, D, height, width) and, optionally, label (batch, 2 num_parts +
 * 2, height / stride, width / stride). With num_parts 9 (FLIC), 14 or 28 (MPII and LEEDS), or
 * another number for joints as stored, D = 4, with the Gaussian of the centre. D = 3 without
 * put_gaussian. The label has the joints of the first person and their background, then the same of
 * all people. With num_parts 56 (COCO) and 43 (MPII) label has num_parts + 1 maps of weights, the
 * mask in the record's channel 4, then limbs, joints and background of all people. D is 6; the last
 * three channels are 0.
 * Fields: data_param, transform_param.
 * Caffe: as in the forks for Convolutional Pose Machines and OpenPose (caffe_train), also with
 * cpmdata_param and cpm_transform_param. Their weights of interpolation have 11 to 15 bits, here
 * they are floats: pixels differ by up to 1. In TEST the first fork needs images of the crop's
 * size. Weights of a joint that is not annotated in its data set (visibility 3) are 0; OpenPose
 * keeps an earlier batch's. OpenPose's limbs assume a stride of 8. Where limbs of two people
 * overlap, the later person counts, as there.
 * Example:
 *   layer { name: "data" type: "CPMData" top: "data" top: "label"
 *     data_param { source: "pose_lmdb" batch_size: 2 backend: LMDB }
 *     transform_param { crop_size_x: 64 crop_size_y: 48 stride: 8 target_dist: 1.171 } } */
#include <string.h>

#include "core/fail.h"
#include "core/rng.h"
#include "data/augment/pose.h"
#include "layers/data/adapters/boxed_input.h"

enum { COLORS = 3, CENTRED = 4, MASKED = 6 };

typedef struct cpm_state {
  cr_boxed_input input; /* must be the first member */
  const Caffe__TransformationParameter *param;
  cr_pose_layout layout;
  bool train;
} cpm_state;

static crema_status read_image(const cr_boxed_input *layer, void *worker, cr_db_bytes value,
                               uint64_t sample, const cr_image **out) {
  const cpm_state *s = (const cpm_state *)layer;
  cr_pose *pose = worker;
  *out = &pose->image;
  CR_TRY(cr_pose_load(pose, value.data, value.size, s->param, &s->layout));
  if (s->train) {
    const uint64_t key = cr_mix_key(layer->records.stream, cr_hash_text("pose"));
    const cr_pose_draw draw = cr_pose_draw_of(s->param, key, sample);
    return cr_pose_augment(pose, s->param, &s->layout, &draw);
  }
  if ((int)s->param->stride <= pose->image.height && (int)s->param->stride <= pose->image.width)
    return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "an image of %d x %d pixels is smaller than the stride, %u",
                 pose->image.height, pose->image.width, s->param->stride);
}

static int channels_of(const cpm_state *s) {
  if (s->layout.limbs != NULL) return MASKED;
  return s->param->put_gaussian ? CENTRED : COLORS;
}

static void find_extent(const cr_boxed_input *layer, const cr_image *image, int extent[3]) {
  extent[0] = channels_of((const cpm_state *)layer);
  extent[1] = image->height;
  extent[2] = image->width;
}

static void find_shape(const cr_boxed_input *layer, const int extent[3], int items,
                       crema_shape *shape) {
  const cpm_state *s = (const cpm_state *)layer;
  const int stride = (int)s->param->stride;
  shape[1] = cr_shape_4(items, 2 * ((int64_t)s->layout.outputs + 1), extent[1] / stride,
                        extent[2] / stride);
}

static void place_image(const cr_boxed_input *layer, void *worker, const cr_image *image,
                        float *out) {
  const cpm_state *s = (const cpm_state *)layer;
  const cr_pose *pose = worker;
  const size_t plane = (size_t)image->height * (size_t)image->width;
  const size_t rest = (size_t)channels_of(s) - COLORS;
  for (size_t i = 0; i < plane; ++i) {
    for (size_t c = 0; c < COLORS; ++c) {
      out[c * plane + i] = (float)(image->pixels[COLORS * i + c] - 128) / 256;
    }
  }
  memset(out + COLORS * plane, 0, rest * plane * sizeof *out);
  if (rest == 1) {
    cr_pose_put_gaussian(out + COLORS * plane, image->height, image->width, 1, pose->x, pose->y,
                         s->param->sigma_center);
  }
}

static crema_status put_label(const cr_boxed_input *layer, void *worker, const cr_image *image,
                              const cr_boxed_move *move, cr_load *load) {
  const cpm_state *s = (const cpm_state *)layer;
  const int extent[3] = {channels_of(s), image->height, image->width};
  cr_batch *batch = load->batch;
  crema_shape shape[2];
  (void)move;
  if (batch->tops < 2) return CREMA_OK;
  find_shape(layer, extent, batch->items, shape);
  if (load->item == 0) CR_TRY(cr_batch_reserve(batch, 1, &shape[1], NULL));
  return cr_pose_put_label(worker, s->param, &s->layout,
                           batch->top[1].values + load->item * crema_shape_count(&shape[1], 1, 4));
}

static void free_worker(void *worker) {
  cr_pose_free(worker);
}

static const cr_boxed_class class = {
    .worker_size = sizeof(cr_pose),
    .advice = "in TEST, images of different sizes need batch_size: 1",
    .read = read_image,
    .extent = find_extent,
    .place = place_image,
    .shape = find_shape,
    .fill = put_label,
    .free_worker = free_worker,
};

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__TransformationParameter defaults = CAFFE__TRANSFORMATION_PARAMETER__INIT;
  cpm_state *s = layer->state;
  (void)bottom;
  CR_TRY(cr_record_input_check(layer));
  s->param = layer->param->transform_param ? layer->param->transform_param : &defaults;
  s->train = layer->phase == CAFFE__PHASE__TRAIN;
  CR_TRY(cr_layer_in(layer, cr_pose_check(s->param)));
  CR_TRY(cr_layer_in(layer, cr_pose_layout_of(s->param, &s->layout)));
  const int items = (int)layer->param->data_param->batch_size;
  crema_shape shape[2];
  return cr_layer_in(layer, cr_boxed_input_open(layer, &class, items, shape, top));
}

const cr_layer_class cr_layer_cpm_data = {
    CR_LAYER_INPUT("CPMData", sizeof(cpm_state), 1, 2),
    .input = &cr_record_input_class,
    .setup = setup,
    .forward = cr_record_input_forward,
    .destroy = cr_boxed_input_destroy,
};
