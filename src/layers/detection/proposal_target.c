/* ProposalTarget: the proposed regions that a detector learns from (Ren et al., "Faster R-CNN",
 * 2015; Girshick, "Fast R-CNN", 2015).
 *
 * Formula: the objects themselves join the proposals. A region that overlaps an object by fg_thresh
 * or more has its class; one whose best overlap is in [bg_thresh_lo, bg_thresh_hi) is background.
 * The layer draws batch_size regions. At most the fraction fg_fraction are objects, which come
 * first. Targets are (t - bbox_mean) / bbox_std with t = ((X - x) / w, (Y - y) / h, log(W / w),
 * log(H / h)), from the region's centre and sides to the object's. They are in the four columns of
 * the object's class. With two classes, objects of any class share the columns of class 1
 * (class-agnostic boxes).
 * Shapes: regions (R, 5), objects (G, 5) -> regions (S, 5), labels (S), targets, inside and outside
 * weights (S, 4 num_classes). A row of regions is image, left, top, right, bottom. A row of objects
 * is left, top, right, bottom, class.
 * Fields: proposal_target_param, python_param.
 * Caffe: as py-faster-rcnn's Python layer with its settings for training end to end (BG_THRESH_LO
 * 0, normalized targets). A layer of type Python with module rpn.proposal_target_layer is this
 * layer if no Python program runs the net. The draws depend only on the seed. bbox_std is not
 * multiplied into the weights at the end: DetectionOutput has it as variance. R-FCN's AGNOSTIC
 * needs no setting.
 * Example, regions 6 5, objects 2 5:
 *   layer { name: "target" type: "ProposalTarget" bottom: "regions" bottom: "objects" top: "rois"
 *     top: "labels" top: "targets" top: "inside" top: "outside"
 *     proposal_target_param { num_classes: 3 batch_size: 4 } } */
#include <math.h>

#include "core/fail.h"
#include "core/rng.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_op.h"
#include "layers/common/python_fields.h"
#include "layers/detection/geometry/anchors.h"

enum { CLASSES_MOST = 1000000 };

typedef struct proposal_target_state {
  const Caffe__ProposalTargetParameter *param;
  int64_t classes; /* that have columns */
  double mean[4], std[4], inside[4];
  cr_truths truths;
  cr_matches region;            /* of the regions, then of the objects */
  cr_buffer object, background; /* indices of regions */
} proposal_target_state;

static crema_status check_fields(const cr_layer *layer, const proposal_target_state *s) {
  const Caffe__ProposalTargetParameter *p = s->param;
  if (s->classes < 1 || s->classes > CLASSES_MOST) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "num_classes must be 1 to %d, found %lld",
                         CLASSES_MOST, (long long)s->classes);
  }
  for (int k = 0; k < 4; ++k) {
    if (s->std[k] > 0) continue;
    return cr_layer_fail(layer, CREMA_E_RANGE, "bbox_std %g must be above 0", s->std[k]);
  }
  if (p->fg_fraction >= 0 && p->fg_fraction <= 1 && p->batch_size > 0 &&
      p->batch_size <= INT32_MAX && p->fg_thresh > 0 && p->bg_thresh_lo <= p->bg_thresh_hi) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_RANGE,
                       "batch_size must be 1 or more, fg_fraction in [0, 1], fg_thresh above 0 and "
                       "bg_thresh_lo not above bg_thresh_hi");
}

/* With a background and one class, boxes do not depend on the class; objects may have any class. */
static bool is_agnostic(const proposal_target_state *s) {
  return s->classes == 2;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__ProposalTargetParameter defaults = CAFFE__PROPOSAL_TARGET_PARAMETER__INIT;
  proposal_target_state *s = layer->state;
  const Caffe__ProposalTargetParameter *p =
      layer->param->proposal_target_param ? layer->param->proposal_target_param : &defaults;
  float classes = 0;
  cr_python_field python = {"num_classes", &classes, 1, 0};
  (void)bottom, (void)top;
  s->param = p;
  CR_TRY(cr_python_fields(layer, &python, 1));
  s->classes = python.count == 0 ? (int64_t)p->num_classes : classes < 1e7f ? (int64_t)classes : 0;
  CR_TRY(cr_four_numbers(layer, "bbox_mean", p->bbox_mean, p->n_bbox_mean,
                         (const double[]){0, 0, 0, 0}, s->mean));
  CR_TRY(cr_four_numbers(layer, "bbox_std", p->bbox_std, p->n_bbox_std,
                         (const double[]){0.1, 0.1, 0.2, 0.2}, s->std));
  CR_TRY(cr_four_numbers(layer, "bbox_inside_weight", p->bbox_inside_weight,
                         p->n_bbox_inside_weight, (const double[]){1, 1, 1, 1}, s->inside));
  return check_fields(layer, s);
}

static crema_status shape_tops(const proposal_target_state *s, crema_blob *const *top,
                               int64_t regions) {
  const crema_shape rois = cr_shape_2(regions, 5), labels = cr_shape_1(regions);
  const crema_shape boxes = cr_shape_2(regions, 4 * s->classes);
  CR_TRY(crema_blob_reshape(top[0], &rois));
  CR_TRY(crema_blob_reshape(top[1], &labels));
  for (int t = 2; t < 5; ++t) CR_TRY(crema_blob_reshape(top[t], &boxes));
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const proposal_target_state *s = layer->state;
  const crema_shape *shape = &bottom[0]->shape;
  char text[128];
  if (shape->axes < 2 || crema_shape_count(shape, 1, shape->axes) != 5 ||
      shape->dim[0] > INT32_MAX) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "regions must have 5 numbers each, found shape %s",
                         crema_shape_text(shape, text, sizeof text));
  }
  return shape_tops(s, top, 1);
}

/* Reads the objects, and the regions with the objects among them. */
static crema_status read_regions(cr_layer *layer, crema_blob *const *bottom) {
  proposal_target_state *s = layer->state;
  const int64_t regions = bottom[0]->shape.dim[0];
  cr_host_values rois;
  CR_TRY(cr_truths_read_pixels(layer, bottom[1], is_agnostic(s) ? CLASSES_MOST : s->classes,
                               &s->truths));
  CR_TRY(cr_matches_begin(&s->region, (size_t)regions + s->truths.count));
  if (regions > 0) CR_TRY(cr_host_read(bottom[0]->data, &rois));
  for (int64_t i = 0; i < regions; ++i) {
    if (!(cr_host_get(&rois, 5 * i) == 0)) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "region %lld is of image %g, must be 0",
                           (long long)i, cr_host_get(&rois, 5 * i));
    }
    cr_box_columns_add(&s->region.box, cr_box_of_pixels(&rois, 5 * i + 1));
  }
  for (size_t g = 0; g < s->truths.count; ++g) {
    cr_box_columns_add(&s->region.box, s->truths.at[g].box);
  }
  cr_matches_find(&s->region, &s->truths);
  return CREMA_OK;
}

static size_t indices(const cr_buffer *buffer) {
  return buffer->size / sizeof(int32_t);
}

/* Draws at most `most` of a list; they are its first afterwards, and all that is left. */
static void draw(const cr_layer *layer, cr_buffer *list, const char *name, size_t most) {
  if (indices(list) <= most) return;
  cr_draw_some(cr_mix_key(layer->key, cr_hash_text(name)), layer->pass,
               (int32_t *)(void *)list->data, indices(list), most);
  list->size = most * sizeof(int32_t);
}

static crema_status choose(cr_layer *layer) {
  proposal_target_state *s = layer->state;
  const Caffe__ProposalTargetParameter *p = s->param;
  const size_t objects = (size_t)rint((double)p->fg_fraction * (double)p->batch_size);
  cr_buffer_clear(&s->object);
  cr_buffer_clear(&s->background);
  for (size_t i = 0; i < s->region.box.count; ++i) {
    const float overlap = s->region.overlap[i];
    const int32_t index = (int32_t)i;
    if (overlap >= p->fg_thresh) {
      CR_TRY(cr_buffer_append(&s->object, &index, sizeof index));
    } else if (overlap < p->bg_thresh_hi && overlap >= p->bg_thresh_lo) {
      CR_TRY(cr_buffer_append(&s->background, &index, sizeof index));
    }
  }
  draw(layer, &s->object, "object", objects);
  draw(layer, &s->background, "background", p->batch_size - indices(&s->object));
  return CREMA_OK;
}

/* `from`: the regions and the objects, whose coordinates go to top 0 as they are. */
static void put_region(const proposal_target_state *s, const cr_host_values from[2], int64_t one,
                       bool object, int64_t row, const cr_host_results to[5]) {
  const int64_t regions = (int64_t)(s->region.box.count - s->truths.count);
  const cr_truth *truth = object ? &s->truths.at[s->region.truth[one]] : NULL;
  const int32_t label = object ? truth->label : 0;
  double offset[4];
  cr_host_put(&to[0], 5 * row, 0);
  for (int64_t k = 0; k < 4; ++k) {
    const double value = one < regions ? cr_host_get(&from[0], 5 * one + 1 + k)
                                       : cr_host_get(&from[1], 5 * (one - regions) + k);
    cr_host_put(&to[0], 5 * row + 1 + k, value);
  }
  cr_host_put(&to[1], row, (double)label);
  for (int64_t k = 0; k < 4 * s->classes; ++k) {
    for (int t = 2; t < 5; ++t) cr_host_put(&to[t], 4 * s->classes * row + k, 0);
  }
  if (label == 0) return;
  cr_box_offset(cr_box_columns_at(&s->region.box, (size_t)one), truth->box, offset);
  for (int64_t k = 0; k < 4; ++k) {
    const int64_t at = 4 * (s->classes * row + (is_agnostic(s) ? 1 : label)) + k;
    cr_host_put(&to[2], at, (offset[k] - s->mean[k]) / s->std[k]);
    cr_host_put(&to[3], at, s->inside[k]);
    cr_host_put(&to[4], at, s->inside[k] > 0);
  }
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  proposal_target_state *s = layer->state;
  cr_host_values from[2] = {{0}};
  cr_host_results to[5];
  (void)context;
  CR_TRY(read_regions(layer, bottom));
  CR_TRY(choose(layer));
  const int64_t objects = (int64_t)indices(&s->object);
  const int64_t rows = objects + (int64_t)indices(&s->background);
  CR_TRY(shape_tops(s, top, rows));
  for (int b = 0; b < 2; ++b) {
    if (bottom[b]->shape.dim[0] > 0) CR_TRY(cr_host_read(bottom[b]->data, &from[b]));
  }
  for (int t = 0; t < 5; ++t) CR_TRY(cr_host_write(top[t]->data, &to[t]));
  for (int64_t row = 0; row < rows; ++row) {
    const cr_buffer *list = row < objects ? &s->object : &s->background;
    const int32_t *index = (const int32_t *)(const void *)list->data;
    const int32_t one = index[row < objects ? row : row - objects];
    put_region(s, from, one, row < objects, row, to);
  }
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  proposal_target_state *s = layer->state;
  cr_buffer_free(&s->truths.memory);
  cr_matches_free(&s->region);
  cr_buffer_free(&s->object);
  cr_buffer_free(&s->background);
}

const cr_layer_class cr_layer_proposal_target = {
    CR_LAYER_HOST("ProposalTarget", sizeof(proposal_target_state), setup, reshape, forward,
                  destroy),
    .bottoms = {2, 2},
    .tops = {5, 5},
    .graph.ends_gradient = true,
};
