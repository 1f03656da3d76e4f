/* AnchorTarget: the targets of a region proposal network for an image (Ren et al., "Faster R-CNN",
 * 2015).
 *
 * Formula: an anchor in the image is an object (label 1) if it overlaps an object by
 * positive_overlap or more, or as much as the best anchor of that object. An anchor that overlaps
 * all objects by less than negative_overlap is background (0). Of these anchors, batch_size are
 * drawn, with at most the fraction fg_fraction of objects. All other anchors have label -1. Targets
 * are the offsets ((X - x) / w, (Y - y) / h, log(W / w), log(H / h)) of centre and sides from the
 * anchor to the object that it overlaps most.
 * Shapes: scores (1, 2 anchors, H, W), objects (G, 5), image (1, 3), optionally the image's values
 * -> labels (1, 1, anchors H, W), targets, inside and outside weights (1, 4 anchors, H, W). The
 * values of scores are not read. A row of objects is left, top, right, bottom, class. Image has
 * height, width, scale.
 * Fields: anchor_target_param, python_param.
 * Caffe: as py-faster-rcnn's Python layer. A layer of type Python with module
 * rpn.anchor_target_layer is this layer if no Python program runs the net. The draws depend only on
 * the seed. An object that overlaps no anchor gets none; in py-faster-rcnn all anchors that overlap
 * no object become positive then. An image without objects is all background.
 * Example, scores 1 6 6 6, objects 2 5, info 1 3:
 *   layer { name: "target" type: "AnchorTarget" bottom: "scores" bottom: "objects" bottom: "info"
 *     top: "labels" top: "targets" top: "inside" top: "outside"
 *     anchor_target_param { ratio: 0.5 ratio: 1 ratio: 2 scale: 1 } } */
#include <string.h>

#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_op.h"
#include "layers/detection/geometry/anchors.h"

enum { IGNORED = -1, BACKGROUND, OBJECT };

/* An anchor in the image. */
typedef struct candidate {
  int32_t index; /* cell * anchors + anchor */
  int32_t label; /* IGNORED and so on */
} candidate;

typedef struct anchor_target_state {
  const Caffe__AnchorTargetParameter *param;
  cr_anchors anchors;
  double border;
  double inside[4]; /* weights of a box */
  int64_t height, width;
  cr_truths truths;
  cr_buffer candidate; /* candidate */
  cr_matches matches;  /* of the candidates */
  cr_buffer drawn;     /* indices of candidates */
} anchor_target_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__AnchorTargetParameter defaults = CAFFE__ANCHOR_TARGET_PARAMETER__INIT;
  anchor_target_state *s = layer->state;
  const Caffe__AnchorTargetParameter *p =
      layer->param->anchor_target_param ? layer->param->anchor_target_param : &defaults;
  const cr_anchor_fields fields = {p->feat_stride, p->base_size, p->ratio,
                                   p->scale,       p->n_ratio,   p->n_scale};
  (void)bottom, (void)top;
  s->param = p;
  s->border = p->allowed_border;
  CR_TRY(cr_four_numbers(layer, "bbox_inside_weight", p->bbox_inside_weight,
                         p->n_bbox_inside_weight, (const double[]){1, 1, 1, 1}, s->inside));
  if (!(p->fg_fraction >= 0 && p->fg_fraction <= 1 && p->positive_weight < 1) ||
      p->batch_size == 0 || p->batch_size > INT32_MAX) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "batch_size must be 1 or more, fg_fraction in [0, 1] and positive_weight "
                         "below 1");
  }
  return cr_anchors_make(layer, &fields, &s->border, &s->anchors);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  anchor_target_state *s = layer->state;
  const crema_shape *scores = &bottom[0]->shape;
  const int64_t count = s->anchors.count;
  char text[128];
  if (scores->axes != 4 || scores->dim[0] != 1 || scores->dim[1] != 2 * count ||
      crema_blob_count(bottom[0]) > INT32_MAX / 4) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "scores %s do not fit one image with %lld anchors at each cell",
                         crema_shape_text(scores, text, sizeof text), (long long)count);
  }
  if (crema_blob_count(bottom[2]) < 3) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "bottom 2 must have height, width and scale of the image, found %s",
                         crema_shape_text(&bottom[2]->shape, text, sizeof text));
  }
  s->height = scores->dim[2];
  s->width = scores->dim[3];
  const crema_shape labels = cr_shape_4(1, 1, count * s->height, s->width);
  const crema_shape boxes = cr_shape_4(1, 4 * count, s->height, s->width);
  CR_TRY(crema_blob_reshape(top[0], &labels));
  for (int t = 1; t < 4; ++t) CR_TRY(crema_blob_reshape(top[t], &boxes));
  return CREMA_OK;
}

static candidate *candidates(const anchor_target_state *s) {
  return (candidate *)(void *)s->candidate.data;
}

/* The anchors that do not reach out of the image by more than the border, and their objects. */
static crema_status find_candidates(anchor_target_state *s, double height, double width) {
  const int64_t count = s->anchors.count, anchors = s->height * s->width * count;
  cr_buffer_clear(&s->candidate);
  CR_TRY(cr_matches_begin(&s->matches, (size_t)anchors));
  for (int64_t i = 0; i < anchors; ++i) {
    const cr_box box = cr_anchor_at(&s->anchors, i % count, i / count, s->width);
    if (!((double)box.xmin >= -s->border && (double)box.ymin >= -s->border &&
          (double)box.xmax - 1 < width + s->border && (double)box.ymax - 1 < height + s->border)) {
      continue;
    }
    const candidate one = {.index = (int32_t)i, .label = IGNORED};
    CR_TRY(cr_buffer_append(&s->candidate, &one, sizeof one));
    cr_box_columns_add(&s->matches.box, box);
  }
  cr_matches_find(&s->matches, &s->truths);
  return CREMA_OK;
}

static void label_candidates(anchor_target_state *s) {
  const float positive = s->param->positive_overlap, negative = s->param->negative_overlap;
  for (size_t i = 0; i < s->matches.box.count; ++i) {
    candidate *one = &candidates(s)[i];
    const bool object = s->matches.overlap[i] >= positive || s->matches.is_best[i];
    const bool background = s->matches.overlap[i] < negative;
    if (background && (!object || s->param->clobber_positives)) one->label = BACKGROUND;
    else if (object) one->label = OBJECT;
  }
}

/* Ignores all but `most` random candidates with a label. *left: the number that keep it. */
static crema_status draw_label(cr_layer *layer, int32_t label, size_t most, size_t *left) {
  anchor_target_state *s = layer->state;
  cr_buffer_clear(&s->drawn);
  for (size_t i = 0; i < s->matches.box.count; ++i) {
    const int32_t index = (int32_t)i;
    if (candidates(s)[i].label != label) continue;
    CR_TRY(cr_buffer_append(&s->drawn, &index, sizeof index));
  }
  int32_t *index = (int32_t *)(void *)s->drawn.data;
  const size_t count = s->drawn.size / sizeof *index;
  *left = count < most ? count : most;
  if (count <= most) return CREMA_OK;
  cr_draw_some(cr_mix_key(layer->key, (uint64_t)label), layer->pass, index, count, most);
  for (size_t i = most; i < count; ++i) candidates(s)[index[i]].label = IGNORED;
  return CREMA_OK;
}

static void put_candidate(const anchor_target_state *s, size_t index, const double weight[2],
                          const cr_host_results to[4]) {
  const candidate *one = &candidates(s)[index];
  const int64_t cells = s->height * s->width;
  const int64_t anchor = one->index % s->anchors.count, cell = one->index / s->anchors.count;
  double offset[4] = {0};
  if (s->truths.count > 0) {
    cr_box_offset(cr_box_columns_at(&s->matches.box, index),
                  s->truths.at[s->matches.truth[index]].box, offset);
  }
  cr_host_put(&to[0], anchor * cells + cell, one->label);
  for (int64_t k = 0; k < 4; ++k) {
    const int64_t at = (4 * anchor + k) * cells + cell;
    cr_host_put(&to[1], at, offset[k]);
    if (one->label == OBJECT) cr_host_put(&to[2], at, s->inside[k]);
    if (one->label != IGNORED) cr_host_put(&to[3], at, weight[one->label]);
  }
}

static crema_status put_all(anchor_target_state *s, crema_blob *const *top, size_t objects,
                            size_t background) {
  const double share = (double)s->param->positive_weight;
  const double all = (double)(objects + background);
  const double weight[2] = {[BACKGROUND] = share < 0 ? 1 / all : (1 - share) / (double)background,
                            [OBJECT] = share < 0 ? 1 / all : share / (double)objects};
  cr_host_results to[4];
  for (int t = 0; t < 4; ++t) {
    CR_TRY(cr_host_write(top[t]->data, &to[t]));
    const int64_t count = crema_blob_count(top[t]);
    for (int64_t i = 0; i < count; ++i) cr_host_put(&to[t], i, t ? 0 : IGNORED);
  }
  for (size_t i = 0; i < s->matches.box.count; ++i) put_candidate(s, i, weight, to);
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  anchor_target_state *s = layer->state;
  const double most = (double)s->param->fg_fraction * (double)s->param->batch_size;
  cr_host_values info;
  size_t objects = 0, background = 0;
  (void)context;
  CR_TRY(cr_truths_read_pixels(layer, bottom[1], 0, &s->truths));
  CR_TRY(cr_host_read(bottom[2]->data, &info));
  CR_TRY(find_candidates(s, cr_host_get(&info, 0), cr_host_get(&info, 1)));
  label_candidates(s);
  CR_TRY(draw_label(layer, OBJECT, (size_t)most, &objects));
  CR_TRY(draw_label(layer, BACKGROUND, (size_t)s->param->batch_size - objects, &background));
  return put_all(s, top, objects, background);
}

static void destroy(cr_layer *layer) {
  anchor_target_state *s = layer->state;
  cr_buffer_free(&s->truths.memory);
  cr_buffer_free(&s->candidate);
  cr_matches_free(&s->matches);
  cr_buffer_free(&s->drawn);
}

const cr_layer_class cr_layer_anchor_target = {
    CR_LAYER_HOST("AnchorTarget", sizeof(anchor_target_state), setup, reshape, forward, destroy),
    .bottoms = {3, 4},
    .tops = {4, 4},
    .graph.ends_gradient = true,
};
