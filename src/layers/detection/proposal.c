/* Proposal: the regions that a region proposal network proposes (Ren et al., "Faster R-CNN", 2015).
 *
 * Formula: each cell has an anchor of each ratio and scale. Its offsets move and scale it (dx w, dy
 * h, w exp(dw), h exp(dh)). The box is clipped to the image. Boxes with a side below min_size times
 * the image's scale are dropped. Among the best pre_nms_topn boxes, a box that overlaps a better
 * box by more than nms_thresh is dropped. The best post_nms_topn boxes are kept.
 * Shapes: scores (N, 2 anchors, H, W), offsets (N, 4 anchors, H, W), images (N, 3 or more) ->
 * regions (R, 5), optionally their scores (R, 1). The scores of the background come before the
 * scores of objects. Images have height, width, scale. A row of regions is image, left, top, right,
 * bottom.
 * Fields: proposal_param, python_param.
 * Caffe: as the Python layer of the same name, which takes a single image. A layer of type Python
 * with module rpn.proposal_layer is this layer if no Python program runs the net, with pre_nms_topn
 * 12000 and post_nms_topn 2000 in TRAIN.
 * Example, scores 1 6 3 3, offsets 1 12 3 3, info 1 3:
 *   layer { name: "propose" type: "Proposal" bottom: "scores" bottom: "offsets" bottom: "info"
 *     top: "rois" proposal_param { ratio: 0.5 ratio: 1 ratio: 2 scale: 8 } } */
#include <math.h>

#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_op.h"
#include "layers/common/python_fields.h"
#include "layers/detection/geometry/anchors.h"
#include "layers/detection/geometry/boxes.h"

typedef struct proposal_state {
  cr_anchors anchors;
  double min_size;
  size_t looked_at, proposed; /* boxes; 0: all */
  float overlap;
  int64_t height, width;
  cr_buffer box; /* cr_box of each candidate */
  cr_buffer rank;
  cr_buffer kept; /* boxes that overlap no better one */
  cr_buffer row;  /* 6 floats of each region of the batch: the top's 5, and the score */
} proposal_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__ProposalParameter defaults = CAFFE__PROPOSAL_PARAMETER__INIT;
  proposal_state *s = layer->state;
  const Caffe__ProposalParameter *p =
      layer->param->proposal_param ? layer->param->proposal_param : &defaults;
  const cr_anchor_fields fields = {p->feat_stride, p->base_size, p->ratio,
                                   p->scale,       p->n_ratio,   p->n_scale};
  (void)bottom, (void)top;
  s->min_size = (double)p->min_size;
  s->looked_at = p->pre_nms_topn;
  s->proposed = p->post_nms_topn;
  s->overlap = p->nms_thresh;
  if (cr_is_python(layer) && layer->param->proposal_param == NULL) {
    /* py-faster-rcnn has these in its configuration, not in the net's file. */
    const bool trains = layer->phase == CAFFE__PHASE__TRAIN;
    s->looked_at = trains ? 12000 : 6000;
    s->proposed = trains ? 2000 : 300;
  }
  return cr_anchors_make(layer, &fields, NULL, &s->anchors);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  proposal_state *s = layer->state;
  const crema_shape *scores = &bottom[0]->shape, *offsets = &bottom[1]->shape;
  const crema_shape *info = &bottom[2]->shape;
  const crema_shape regions = cr_shape_2(1, 5), values = cr_shape_2(1, 1);
  char text[2][128];
  if (scores->axes != 4 || offsets->axes != 4 || scores->dim[1] != 2 * s->anchors.count ||
      offsets->dim[1] != 4 * s->anchors.count || scores->dim[0] != offsets->dim[0] ||
      scores->dim[2] != offsets->dim[2] || scores->dim[3] != offsets->dim[3] ||
      crema_blob_count(bottom[0]) > INT32_MAX) {
    return cr_layer_fail(
        layer, CREMA_E_SHAPE, "scores %s and offsets %s do not fit %lld anchors at each cell",
        crema_shape_text(scores, text[0], sizeof text[0]),
        crema_shape_text(offsets, text[1], sizeof text[1]), (long long)s->anchors.count);
  }
  if (info->axes < 1 || info->dim[0] != scores->dim[0] ||
      crema_shape_count(info, 1, info->axes) < 3) {
    return cr_layer_fail(
        layer, CREMA_E_SHAPE, "bottom 2 must have height, width and scale of %lld images, found %s",
        (long long)scores->dim[0], crema_shape_text(info, text[0], sizeof text[0]));
  }
  s->height = scores->dim[2];
  s->width = scores->dim[3];
  CR_TRY(crema_blob_reshape(top[0], &regions));
  return layer->tops > 1 ? crema_blob_reshape(top[1], &values) : CREMA_OK;
}

/* One image: its maps, and its extents. */
typedef struct proposal_maps {
  const float *scores, *offsets, *info;
} proposal_maps;

static float cut(double x, double most) {
  return x > 0 ? (float)fmin(x, most) : 0;
}

/* Applies the offsets at `cell` to an anchor. */
static cr_box move(const proposal_state *s, const proposal_maps *of, int64_t anchor, int64_t cell) {
  const int64_t cells = s->height * s->width;
  const double right = (double)of->info[1] - 1, lower = (double)of->info[0] - 1;
  const cr_box a = s->anchors.box[anchor];
  const double stride = (double)s->anchors.stride;
  double d[4];
  for (int k = 0; k < 4; ++k) d[k] = (double)of->offsets[(4 * anchor + k) * cells + cell];
  const double width = (double)(a.xmax - a.xmin), height = (double)(a.ymax - a.ymin);
  const double x = (double)a.xmin + (double)(cell % s->width) * stride + width / 2 + d[0] * width;
  const double y = (double)a.ymin + (double)(cell / s->width) * stride + height / 2 + d[1] * height;
  const double half_w = exp(d[2]) * width / 2, half_h = exp(d[3]) * height / 2;
  return (cr_box){cut(x - half_w, right), cut(y - half_h, lower), cut(x + half_w, right) + 1,
                  cut(y + half_h, lower) + 1};
}

static crema_status find_boxes(proposal_state *s, const proposal_maps *of, double least) {
  const int64_t cells = s->height * s->width;
  cr_buffer_clear(&s->box);
  cr_buffer_clear(&s->rank);
  CR_TRY(cr_buffer_reserve(&s->box, (size_t)(cells * s->anchors.count) * sizeof(cr_box)));
  CR_TRY(cr_buffer_reserve(&s->rank, (size_t)(cells * s->anchors.count) * sizeof(cr_ranked)));
  for (int64_t i = 0; i < cells * s->anchors.count; ++i) {
    const int64_t anchor = i % s->anchors.count, cell = i / s->anchors.count;
    const cr_box box = move(s, of, anchor, cell);
    const cr_ranked one = {of->scores[(s->anchors.count + anchor) * cells + cell], 0,
                           (int32_t)(s->box.size / sizeof box)};
    if (!((double)(box.xmax - box.xmin) >= least && (double)(box.ymax - box.ymin) >= least))
      continue;
    CR_TRY(cr_buffer_append(&s->box, &box, sizeof box));
    CR_TRY(cr_buffer_append(&s->rank, &one, sizeof one));
  }
  return CREMA_OK;
}

static crema_status propose(cr_layer *layer, const proposal_maps *of, int64_t image) {
  proposal_state *s = layer->state;
  CR_TRY(find_boxes(s, of, s->min_size * (double)of->info[2]));
  cr_ranked *all = (cr_ranked *)(void *)s->rank.data;
  const cr_box *box = (const cr_box *)(const void *)s->box.data;
  size_t count = s->rank.size / sizeof *all;
  if (count == 0) return CREMA_OK;
  count = cr_rank_best(all, count, s->looked_at > 0 ? s->looked_at : count);
  CR_TRY(cr_suppress(box, all, &count, s->overlap, 1, s->proposed > 0 ? (int64_t)s->proposed : -1,
                     &s->kept));
  for (size_t i = 0; i < count; ++i) {
    const cr_box b = box[all[i].index];
    const float row[6] = {(float)image, b.xmin, b.ymin, b.xmax - 1, b.ymax - 1, all[i].score};
    CR_TRY(cr_buffer_append(&s->row, row, sizeof row));
  }
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  proposal_state *s = layer->state;
  const int64_t images = bottom[0]->shape.dim[0];
  const float *scores = NULL, *offsets = NULL, *info = NULL;
  cr_host_results to;
  (void)context;
  CR_TRY(cr_tensor_host_read_floats(bottom[0]->data, &scores));
  CR_TRY(cr_tensor_host_read_floats(bottom[1]->data, &offsets));
  CR_TRY(cr_tensor_host_read_floats(bottom[2]->data, &info));
  cr_buffer_clear(&s->row);
  for (int64_t i = 0; i < images; ++i) {
    const int64_t cells = s->anchors.count * s->height * s->width;
    const proposal_maps of = {scores + i * 2 * cells, offsets + i * 4 * cells,
                              info + i * (crema_blob_count(bottom[2]) / images)};
    CR_TRY(propose(layer, &of, i));
  }
  const float *row = (const float *)(const void *)s->row.data;
  const int64_t rows = (int64_t)(s->row.size / (6 * sizeof *row));
  const crema_shape regions = cr_shape_2(rows, 5), values = cr_shape_2(rows, 1);
  CR_TRY(crema_blob_reshape(top[0], &regions));
  CR_TRY(cr_host_write(top[0]->data, &to));
  for (int64_t i = 0; i < rows * 5; ++i) cr_host_put(&to, i, (double)row[i / 5 * 6 + i % 5]);
  if (layer->tops < 2) return CREMA_OK;
  CR_TRY(crema_blob_reshape(top[1], &values));
  CR_TRY(cr_host_write(top[1]->data, &to));
  for (int64_t i = 0; i < rows; ++i) cr_host_put(&to, i, (double)row[i * 6 + 5]);
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  proposal_state *s = layer->state;
  cr_buffer_free(&s->box);
  cr_buffer_free(&s->rank);
  cr_buffer_free(&s->kept);
  cr_buffer_free(&s->row);
}

const cr_layer_class cr_layer_proposal = {
    CR_LAYER_HOST("Proposal", sizeof(proposal_state), setup, reshape, forward, destroy),
    .bottoms = {3, 3},
    .tops = {1, 2},
    .graph.ends_gradient = true,
};
