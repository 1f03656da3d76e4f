/* BoxAnnotatorOHEM: leaves the regions with the highest losses to learn from (Shrivastava et al.,
 * "Training region-based object detectors with online hard example mining", 2016).
 *
 * Formula: of the regions of each image, the roi_per_img with the highest losses keep their labels
 * and weights; all other regions get ignore_label and 0.
 * Shapes: regions (R, 5, ...), losses (R, 1, ...), labels (as losses), weights (R, C, ...) ->
 * labels (as labels), weights (as weights).
 * Fields: box_annotator_ohem_param.
 * Caffe: as in R-FCN's fork and Intel Caffe; of equal losses the first region comes first.
 * Example, rois 6 5, loss 6, label 6, weight 6 8:
 *   layer { name: "hard" type: "BoxAnnotatorOHEM" bottom: "rois" bottom: "loss" bottom: "label"
 *     bottom: "weight" top: "label_hard" top: "weight_hard"
 *     box_annotator_ohem_param { roi_per_img: 2 } } */
#include <string.h>

#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_op.h"
#include "layers/detection/geometry/boxes.h"

typedef struct annotator_state {
  int64_t inner;  /* positions of each region */
  cr_buffer rank; /* cr_ranked: the regions by loss, followed by the regions by image */
  cr_buffer kept;
} annotator_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__BoxAnnotatorOHEMParameter *p = layer->param->box_annotator_ohem_param;
  (void)bottom, (void)top;
  if (p != NULL && p->roi_per_img > 0) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                       "box_annotator_ohem_param needs a roi_per_img of 1 or more");
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  annotator_state *s = layer->state;
  const crema_shape *rois = &bottom[0]->shape;
  const int64_t regions = rois->axes > 1 ? rois->dim[0] : 0;
  s->inner = rois->axes > 1 ? crema_shape_count(rois, 2, rois->axes) : 0;
  const int64_t count = regions * s->inner;
  if (rois->axes < 2 || rois->dim[1] != 5 || count > INT32_MAX) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must have regions of 5 numbers");
  }
  if (crema_blob_count(bottom[1]) != count || crema_blob_count(bottom[2]) != count ||
      bottom[3]->shape.axes < 2 || bottom[3]->shape.dim[0] != regions ||
      crema_shape_count(&bottom[3]->shape, 2, bottom[3]->shape.axes) != s->inner) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "losses, labels and weights must have %lld regions",
                         (long long)count);
  }
  CR_TRY(crema_blob_reshape(top[0], &bottom[2]->shape));
  return crema_blob_reshape(top[1], &bottom[3]->shape);
}

/* s->kept of the regions in s->rank: `most` of each image. They are sorted by loss, then by image;
 * regions of one image keep their order. */
static void keep_hardest(annotator_state *s, size_t count, int64_t most) {
  cr_ranked *rank = (cr_ranked *)(void *)s->rank.data, *order = rank + count;
  int64_t before = 0;
  if (count == 0) return;
  cr_rank(rank, count);
  for (size_t i = 0; i < count; ++i)
    order[i] = (cr_ranked){-(float)rank[i].label, rank[i].label, (int32_t)i};
  cr_rank(order, count);
  for (size_t i = 0; i < count; ++i) {
    before = i > 0 && order[i].label == order[i - 1].label ? before + 1 : 0;
    s->kept.data[rank[order[i].index].index] = before < most;
  }
}

/* s->kept: a byte for each region, whether it is one of the hardest of its image. Bottom 0 has each
 * region's image, a number. */
static crema_status choose(cr_layer *layer, const cr_host_values *rois, const cr_host_values *loss,
                           int64_t count) {
  annotator_state *s = layer->state;
  CR_TRY(cr_buffer_reserve(&s->rank, 2 * (size_t)(count + 1) * sizeof(cr_ranked)));
  CR_TRY(cr_buffer_reserve(&s->kept, (size_t)count + 1));
  cr_ranked *rank = (cr_ranked *)(void *)s->rank.data;
  for (int64_t i = 0; i < count; ++i) {
    const double image = cr_host_get(rois, i / s->inner * 5 * s->inner + i % s->inner);
    if (!(image >= 0 && image < 1e9)) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "region %lld is of image %g", (long long)i, image);
    }
    rank[i] = (cr_ranked){(float)cr_host_get(loss, i), (int32_t)image, (int32_t)i};
  }
  keep_hardest(s, (size_t)count, layer->param->box_annotator_ohem_param->roi_per_img);
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  annotator_state *s = layer->state;
  const int64_t count = crema_blob_count(bottom[2]), weights = crema_blob_count(bottom[3]);
  const double ignored = (double)layer->param->box_annotator_ohem_param->ignore_label;
  cr_host_values rois, loss, label, weight;
  cr_host_results to[2];
  (void)context;
  CR_TRY(cr_host_read(bottom[0]->data, &rois));
  CR_TRY(cr_host_read(bottom[1]->data, &loss));
  CR_TRY(cr_host_read(bottom[2]->data, &label));
  CR_TRY(cr_host_read(bottom[3]->data, &weight));
  CR_TRY(choose(layer, &rois, &loss, count));
  CR_TRY(cr_host_write(top[0]->data, &to[0]));
  CR_TRY(cr_host_write(top[1]->data, &to[1]));
  for (int64_t i = 0; i < count; ++i) {
    cr_host_put(&to[0], i, s->kept.data[i] ? cr_host_get(&label, i) : ignored);
  }
  const int64_t per_region = count > 0 ? weights / (count / s->inner) : 1;
  for (int64_t i = 0; i < weights; ++i) {
    const int64_t region = i / per_region * s->inner + i % s->inner;
    cr_host_put(&to[1], i, s->kept.data[region] ? cr_host_get(&weight, i) : 0);
  }
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  annotator_state *s = layer->state;
  cr_buffer_free(&s->rank);
  cr_buffer_free(&s->kept);
}

const cr_layer_class cr_layer_box_annotator_ohem = {
    CR_LAYER_HOST("BoxAnnotatorOHEM", sizeof(annotator_state), setup, reshape, forward, destroy),
    .bottoms = {4, 4},
    .tops = {2, 2},
};
