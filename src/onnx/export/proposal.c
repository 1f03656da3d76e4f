/* Regions that a net proposes. */
#include <float.h>

#include "layers/common/python_fields.h"
#include "layers/detection/geometry/anchors.h"
#include "onnx/export/boxes.h"

/* ---- Proposal ---------------------------------------------------------------------- */

typedef struct proposer {
  Caffe__ProposalParameter param;
  cr_anchors anchors;
  int64_t images, rows, columns, boxes;
  const char *scores, *offsets, *info; /* (N, boxes), (N, boxes, 4), (N, 3 or more) */
  const char *centre, *size;           /* of the anchors (boxes, 2) */
} proposer;

/* A layer of type Python has its fields in param_str; py-faster-rcnn has the numbers of boxes
 * elsewhere. The metadata describe it as a layer of type Proposal. */
static void read_python_fields(cr_onnx_layer *l, Caffe__ProposalParameter *param) {
  cr_onnx_graph *g = l->g;
  float stride = 16, *list = cr_onnx_memory(g, 2 * CR_ANCHORS_MOST * sizeof *list);
  cr_buffer text = {0};
  char *copy = NULL;
  if (list == NULL) return;
  cr_python_field field[] = {{"feat_stride", &stride, 1, 0},
                             {"scales", list, CR_ANCHORS_MOST, 0},
                             {"ratios", list + CR_ANCHORS_MOST, CR_ANCHORS_MOST, 0}};
  g->status = cr_python_fields(l->layer, field, 3);
  param->has_feat_stride = param->has_pre_nms_topn = param->has_post_nms_topn = true;
  param->feat_stride = (uint32_t)stride;
  param->pre_nms_topn = 6000;
  param->post_nms_topn = 300;
  param->scale = list;
  param->n_scale = field[1].count;
  param->ratio = list + CR_ANCHORS_MOST;
  param->n_ratio = field[2].count;
  if (g->status == CREMA_OK) g->status = cr_buffer_print(&text, "proposal_param {\n");
  if (g->status == CREMA_OK) g->status = cr_text_print(&param->base, &text);
  if (g->status == CREMA_OK) g->status = cr_buffer_print(&text, "}");
  if (g->status == CREMA_OK) g->status = cr_arena_text(&g->arena, text.data, &copy);
  l->text = copy;
  cr_buffer_free(&text);
}

/* Centres and sizes of the anchors, in the order of cells, then anchors. */
static void place_anchors(cr_onnx_graph *g, proposer *p) {
  const crema_shape shape = {.axes = 2, .dim = {p->boxes, 2}};
  float *centre, *size;
  p->centre = cr_onnx_new_floats(g, "centre", &shape, &centre);
  p->size = cr_onnx_new_floats(g, "size", &shape, &size);
  for (int64_t i = 0; size != NULL && centre != NULL && i < p->boxes; ++i) {
    const cr_box a = p->anchors.box[i % p->anchors.count];
    const int64_t cell = i / p->anchors.count;
    const double stride = (double)p->anchors.stride;
    size[2 * i] = a.xmax - a.xmin;
    size[2 * i + 1] = a.ymax - a.ymin;
    centre[2 * i] =
        (float)((double)a.xmin + (double)(cell % p->columns) * stride + (double)size[2 * i] / 2);
    centre[2 * i + 1] = (float)((double)a.ymin + (double)(cell / p->columns) * stride +
                                (double)size[2 * i + 1] / 2);
  }
}

/* The maps in the order of cells, then anchors. */
static void order_maps(cr_onnx_layer *l, proposer *p) {
  const int64_t n = p->anchors.count, h = p->rows, w = p->columns;
  static const int64_t four[] = {0, 2, 3, 1}, five[] = {0, 3, 4, 1, 2};
  cr_onnx_graph *g = l->g;
  const char *objects = cr_onnx_sliced(g, l->in[0], 1, n, 2 * n);
  objects = cr_onnx_transposed(g, objects, four, 4);
  p->scores = cr_onnx_reshaped(g, objects, (const int64_t[]){0, p->boxes}, 2);
  const char *offsets = cr_onnx_reshaped(g, l->in[1], (const int64_t[]){0, n, 4, h, w}, 5);
  offsets = cr_onnx_transposed(g, offsets, five, 5);
  p->offsets = cr_onnx_reshaped(g, offsets, (const int64_t[]){0, p->boxes, 4}, 3);
  p->info = cr_onnx_reshaped(g, l->in[2], (const int64_t[]){0, -1}, 2);
}

/* Both corners (boxes, 2) of the boxes of an image, the second one outside, and its scale (1, 1).
 */
static const char *image_boxes(cr_onnx_graph *g, const proposer *p, int64_t image,
                               const char *corner[2]) {
  const int64_t flat[] = {p->boxes, 4};
  const char *info = cr_onnx_sliced(g, p->info, 0, image, image + 1);
  const char *sides =
      cr_onnx_gathered(g, info, cr_onnx_integers(g, "sides", (const int64_t[]){1, 0}, 2), 1);
  const char *last = cr_onnx_with(g, "Sub", sides, 1);
  const char *d = cr_onnx_reshaped(g, cr_onnx_sliced(g, p->offsets, 0, image, image + 1), flat, 2);
  const char *moved = CR_ONNX_VALUE(g, "Mul", cr_onnx_sliced(g, d, 1, 0, 2), p->size);
  const char *centre = CR_ONNX_VALUE(g, "Add", p->centre, moved);
  const char *half = CR_ONNX_VALUE(g, "Exp", cr_onnx_sliced(g, d, 1, 2, 4));
  half = cr_onnx_with(g, "Mul", CR_ONNX_VALUE(g, "Mul", half, p->size), 0.5f);
  for (int i = 0; i < 2; ++i) {
    const char *at = CR_ONNX_VALUE(g, i == 0 ? "Sub" : "Add", centre, half);
    corner[i] = CR_ONNX_VALUE(g, "Min", cr_onnx_with(g, "Max", at, 0), last);
  }
  corner[1] = cr_onnx_with(g, "Add", corner[1], 1);
  return cr_onnx_sliced(g, info, 1, 2, 3);
}

/* The rows (M, 5) of an image, and the scores (M, 1). */
static void propose(cr_onnx_graph *g, const proposer *p, int64_t image, const char **rows,
                    const char **scores) {
  const int64_t boxes_of[] = {1, p->boxes, 4}, scores_of[] = {1, 1, p->boxes}, column[] = {-1, 1};
  const char *corner[2], *least = cr_onnx_name(g, "least"), *image_column;
  const char *scale = image_boxes(g, p, image, corner);
  const char *side = CR_ONNX_VALUE(g, "Sub", corner[1], corner[0]);
  cr_onnx_reduce(g, "ReduceMin", least, side, (const int64_t[]){1}, 1, true);
  const char *small =
      CR_ONNX_VALUE(g, "Less", least, cr_onnx_with(g, "Mul", scale, (float)p->param.min_size));
  const char *score = cr_onnx_sliced(g, p->scores, 0, image, image + 1);
  score = cr_onnx_reshaped(g, score, scores_of, 3);
  const char *boxes = cr_onnx_joined(g, corner[0], corner[1], 1);
  const cr_onnx_suppression of = {
      .boxes = cr_onnx_reshaped(g, boxes, boxes_of, 3),
      .scores = cr_onnx_hide(g, cr_onnx_reshaped(g, small, scores_of, 3), score),
      .boxes_count = p->boxes,
      .top_k = p->param.pre_nms_topn > 0 ? (int64_t)p->param.pre_nms_topn : -1,
      .most = p->param.post_nms_topn > 0 ? (int64_t)p->param.post_nms_topn : -1,
      .overlap = p->param.nms_thresh,
      .threshold = -FLT_MAX};
  const char *kept = cr_onnx_suppress(g, &of);
  *scores = cr_onnx_reshaped(g, CR_ONNX_VALUE(g, "GatherND", score, kept), column, 2);
  image_column = cr_onnx_constant_column(g, *scores, (float)image);
  const char *last = cr_onnx_joined(g, corner[0], cr_onnx_with(g, "Sub", corner[1], 1), 1);
  last = cr_onnx_gathered(g, last, cr_onnx_column(g, kept, 2), 0);
  *rows = cr_onnx_joined(g, image_column, last, 1);
}

void cr_onnx_export_proposal(cr_onnx_layer *l) {
  const int64_t *map = cr_onnx_bottom_shape(l, 0)->dim;
  proposer p = {.param = CAFFE__PROPOSAL_PARAMETER__INIT,
                .images = map[0],
                .rows = map[2],
                .columns = map[3]};
  cr_onnx_graph *g = l->g;
  if (cr_onnx_rejects_any_batch(l) || g->status != CREMA_OK) return;
  if (l->param->proposal_param != NULL) p.param = *l->param->proposal_param;
  else if (cr_is_python(l->layer)) read_python_fields(l, &p.param);
  const cr_anchor_fields fields = {p.param.feat_stride, p.param.base_size, p.param.ratio,
                                   p.param.scale,       p.param.n_ratio,   p.param.n_scale};
  g->status = cr_anchors_make(l->layer, &fields, NULL, &p.anchors);
  p.boxes = p.rows * p.columns * p.anchors.count;
  if (g->status != CREMA_OK || p.boxes * p.images == 0) {
    cr_onnx_reject(l, NULL, "the map has no cells");
    return;
  }
  place_anchors(g, &p);
  order_maps(l, &p);
  const char **rows = cr_onnx_memory(g, 2 * ((size_t)p.images + 1) * sizeof *rows);
  if (rows == NULL) return;
  const char **scores = rows + p.images + 1;
  for (int64_t i = 0; i < p.images; ++i) propose(g, &p, i, &rows[i], &scores[i]);
  for (int t = 0; t < l->tops; ++t) {
    cr_onnx_node(g, "Concat", l->out[t], t == 0 ? rows : scores);
    cr_onnx_int(g, "axis", 0);
  }
  l->open_axis = 1;
}
