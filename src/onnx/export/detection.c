/* Prior boxes and detections of SSD and RefineDet. */
#include <float.h>

#include "layers/detection/geometry/boxes.h"
#include "onnx/export/boxes.h"

enum { ROW = 7 };

/* ---- PriorBox ---------------------------------------------------------------------- */

/* The prior boxes depend on shapes only: a forward pass of the layer changes its top only. */
void cr_onnx_export_prior_box(cr_onnx_layer *l) {
  cr_layer *layer = (cr_layer *)(uintptr_t)l->layer;
  const float *values = NULL;
  cr_onnx_graph *g = l->g;
  if (g->status == CREMA_OK) g->status = cr_layer_forward(layer, layer->context, l->bottom, l->top);
  if (g->status == CREMA_OK) g->status = crema_blob_cpu_data(l->top[0], &values);
  if (g->status != CREMA_OK) return;
  l->fixed = true;
  CR_ONNX_NODE(g, "Identity", l->out[0],
               cr_onnx_floats(g, "boxes", cr_onnx_top_shape(l, 0), values));
}

/* ---- decoding ---------------------------------------------------------------------- */

/* The two halves of the last of 4 axes: left and top, right and bottom. */
static void halve(cr_onnx_graph *g, const char *in, const char *half[2]) {
  for (int i = 0; i < 2; ++i) half[i] = cr_onnx_sliced(g, in, 3, 2 * i, 2 * i + 2);
}

/* Boxes (N, P, L, 4) from priors (N or 1, P, 1, 4) and offsets (N, P, L, 4) that include the
 * variances. */
static const char *decode(cr_onnx_graph *g, cr_box_code code, const char *prior,
                          const char *offset) {
  const char *p[2], *d[2], *out[2];
  halve(g, prior, p);
  halve(g, offset, d);
  const char *size = CR_ONNX_VALUE(g, "Sub", p[1], p[0]);
  if (code == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CENTER_SIZE) {
    const char *centre = cr_onnx_with(g, "Mul", CR_ONNX_VALUE(g, "Add", p[0], p[1]), 0.5f);
    centre = CR_ONNX_VALUE(g, "Add", CR_ONNX_VALUE(g, "Mul", d[0], size), centre);
    const char *half = CR_ONNX_VALUE(g, "Mul", CR_ONNX_VALUE(g, "Exp", d[1]), size);
    half = cr_onnx_with(g, "Mul", half, 0.5f);
    out[0] = CR_ONNX_VALUE(g, "Sub", centre, half);
    out[1] = CR_ONNX_VALUE(g, "Add", centre, half);
  }
  for (int i = 0; i < 2 && code != CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CENTER_SIZE; ++i) {
    const bool scaled = code == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CORNER_SIZE;
    const char *moved = scaled ? CR_ONNX_VALUE(g, "Mul", d[i], size) : d[i];
    out[i] = CR_ONNX_VALUE(g, "Add", p[i], moved);
  }
  return cr_onnx_joined(g, out[0], out[1], 3);
}

/* ---- DetectionOutput --------------------------------------------------------------- */

/* The data of all images. */
typedef struct detector {
  const Caffe__DetectionOutputParameter *param;
  int64_t images, priors, loc_classes, classes; /* classes without the background */
  const char *labels;                           /* of these classes */
  const char *boxes;                            /* (N, 1 or classes, P, 4) */
  const char *scores;                           /* (N, classes, P) */
} detector;

static const char *reject_reason(const cr_onnx_layer *l) {
  const Caffe__DetectionOutputParameter *p = l->param->detection_output_param;
  const Caffe__NonMaximumSuppressionParameter *nms = p->nms_param;
  const crema_shape *prior = cr_onnx_bottom_shape(l, 2);
  if (l->bottoms == 4 && (prior->axes != 3 || prior->dim[1] != 2)) {
    return "regions, which are read here for prior boxes, depend on the data";
  }
  if (nms != NULL && nms->soft_nms != CAFFE__NON_MAXIMUM_SUPPRESSION_PARAMETER__SOFT_NMS__NONE) {
    return "NonMaxSuppression drops boxes and lowers no scores (soft_nms)";
  }
  if (nms != NULL && nms->eta < 1 && nms->nms_threshold > 0.5f) {
    return "NonMaxSuppression has a fixed threshold (eta)";
  }
  if (p->keep_top_k == 0 || (nms != NULL && nms->has_top_k && nms->top_k == 0)) {
    return "it keeps no boxes (keep_top_k or top_k is 0)";
  }
  if (p->num_classes == 1 && p->background_label_id == 0) return "it has no class of objects";
  if (prior->dim[2] == 0 || cr_onnx_bottom_shape(l, 0)->dim[0] == 0) return "it has no prior boxes";
  return NULL;
}

static const char *list_labels(cr_onnx_graph *g, const Caffe__DetectionOutputParameter *p,
                               int64_t *count) {
  int64_t *label = cr_onnx_memory(g, (size_t)p->num_classes * sizeof *label);
  *count = 0;
  for (int64_t c = 0; label != NULL && c < (int64_t)p->num_classes; ++c) {
    if (c != p->background_label_id) label[(*count)++] = c;
  }
  return label == NULL ? "" : cr_onnx_integers(g, "labels", label, (size_t)*count);
}

static const char *find_boxes(cr_onnx_layer *l, const detector *d) {
  const int64_t pairs[] = {2, d->priors, 1, 4}, each[] = {0, d->priors, d->loc_classes, 4};
  const int64_t one[] = {0, d->priors, 1, 4};
  static const int64_t order[] = {0, 2, 1, 3};
  cr_onnx_graph *g = l->g;
  const char *all = cr_onnx_reshaped(g, l->in[2], pairs, 4);
  const char *prior = cr_onnx_sliced(g, all, 0, 0, 1), *variance = cr_onnx_sliced(g, all, 0, 1, 2);
  for (int stage = l->bottoms > 4 ? 0 : 1; stage < 2; ++stage) {
    const char *offset = cr_onnx_reshaped(g, l->in[stage == 0 ? 4 : 0], stage == 0 ? one : each, 4);
    if (!d->param->variance_encoded_in_target) {
      offset = CR_ONNX_VALUE(g, "Mul", variance, offset);
    }
    prior = decode(g, d->param->code_type, prior, offset);
  }
  const char *boxes = cr_onnx_transposed(g, prior, order, 4);
  return d->loc_classes == 1 ? boxes : cr_onnx_gathered(g, boxes, d->labels, 1);
}

static const char *find_scores(cr_onnx_layer *l, const detector *d) {
  const int64_t each[] = {0, d->priors, d->param->num_classes}, two[] = {0, d->priors, 2};
  static const int64_t order[] = {0, 2, 1};
  cr_onnx_graph *g = l->g;
  const char *scores = cr_onnx_reshaped(g, l->in[1], each, 3);
  if (l->bottoms > 3) {
    const char *object = cr_onnx_sliced(g, cr_onnx_reshaped(g, l->in[3], two, 3), 2, 1, 2);
    const char *hidden = cr_onnx_with(g, "Less", object, d->param->objectness_score);
    scores = CR_ONNX_VALUE(g, "Where", hidden, cr_onnx_scalar(g, "zero", 0), scores);
  }
  return cr_onnx_gathered(g, cr_onnx_transposed(g, scores, order, 3), d->labels, 1);
}

/* Of the kept boxes of all classes the best `keep`, in their order. */
static void keep_best(cr_onnx_graph *g, int64_t keep, const char **kept, const char **scores) {
  const char *number = cr_onnx_extent(g, *kept, 0), *limit = cr_onnx_integer(g, keep);
  const char *fewer = CR_ONNX_VALUE(g, "Less", number, limit);
  const char *count = CR_ONNX_VALUE(g, "Where", fewer, number, limit);
  const char *index = cr_onnx_name(g, "index");
  (void)CR_ONNX_VALUE(g, "TopK", *scores, count);
  cr_onnx_output(g, index);
  const char *ordered = CR_ONNX_VALUE(g, "TopK", index, count);
  cr_onnx_output(g, cr_onnx_name(g, "order"));
  cr_onnx_int(g, "largest", 0);
  *kept = cr_onnx_gathered(g, *kept, ordered, 0);
  *scores = cr_onnx_gathered(g, *scores, ordered, 0);
}

/* The rows (M, 7) of an image. If classes have their own boxes, each is a sample of the suppression
 * with one class. */
static const char *image_rows(cr_onnx_graph *g, const detector *d, int64_t image) {
  const Caffe__NonMaximumSuppressionParameter *nms = d->param->nms_param;
  const bool shared = d->loc_classes == 1;
  const int64_t samples = shared ? 1 : d->classes, classes = shared ? d->classes : 1;
  const int64_t boxes_of[] = {samples, d->priors, 4}, scores_of[] = {samples, classes, d->priors};
  const int64_t column[] = {-1, 1};
  const char *boxes =
      cr_onnx_reshaped(g, cr_onnx_sliced(g, d->boxes, 0, image, image + 1), boxes_of, 3);
  const char *all =
      cr_onnx_reshaped(g, cr_onnx_sliced(g, d->scores, 0, image, image + 1), scores_of, 3);
  const bool centres = d->param->code_type == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CENTER_SIZE;
  const char *low = cr_onnx_sliced(g, boxes, 2, 0, 2), *high = cr_onnx_sliced(g, boxes, 2, 2, 4);
  /* NonMaxSuppression exchanges sides in a wrong order. Here such a box has no area and, like any
   * box without an area, overlaps no other box. */
  const char *compared = cr_onnx_joined(g, low, CR_ONNX_VALUE(g, "Max", low, high), 2);
  const cr_onnx_suppression of = {
      .boxes = centres ? boxes : compared,
      .scores = all,
      .boxes_count = d->priors,
      .top_k = nms != NULL && nms->has_top_k ? nms->top_k : -1,
      .most = -1,
      .overlap = nms != NULL ? nms->nms_threshold : 0.3f,
      .threshold = d->param->has_confidence_threshold ? d->param->confidence_threshold : -FLT_MAX};
  const char *kept = cr_onnx_suppress(g, &of);
  const char *scores = CR_ONNX_VALUE(g, "GatherND", all, kept);
  if (d->param->keep_top_k > 0) keep_best(g, d->param->keep_top_k, &kept, &scores);
  const char *label = cr_onnx_gathered(g, d->labels, cr_onnx_column(g, kept, shared ? 1 : 0), 0);
  label = cr_onnx_reshaped(g, cr_onnx_cast(g, label, CR_ONNX_FLOAT), column, 2);
  const char *place =
      cr_onnx_gathered(g, kept, cr_onnx_integers(g, "box", (const int64_t[]){0, 2}, 2), 1);
  const char *out = CR_ONNX_VALUE(g, "Concat", cr_onnx_constant_column(g, label, (float)image),
                                  label, cr_onnx_reshaped(g, scores, column, 2),
                                  CR_ONNX_VALUE(g, "GatherND", boxes, place));
  cr_onnx_int(g, "axis", 1);
  return out;
}

/* One row for each image, with -1 after its number. */
static const char *empty_rows(cr_onnx_graph *g, int64_t images) {
  const crema_shape shape = {.axes = 2, .dim = {images, ROW}};
  float *value;
  const char *name = cr_onnx_new_floats(g, "empty", &shape, &value);
  for (int64_t i = 0; value != NULL && i < images * ROW; ++i) {
    value[i] = i % ROW == 0 ? (float)(i / ROW) : -1;
  }
  return name;
}

void cr_onnx_write_detections(cr_onnx_layer *l, const char *const *rows, int64_t images) {
  static const int64_t to[] = {1, 1, -1, ROW};
  const char *all = cr_onnx_rows_or(l->g, rows, empty_rows(l->g, images), images);
  cr_onnx_reshape(l->g, l->out[0], all, to, 4);
  l->open_axis = 3;
}

void cr_onnx_export_detection_output(cr_onnx_layer *l) {
  const Caffe__DetectionOutputParameter *p = l->param->detection_output_param;
  const char *reason = reject_reason(l);
  if (reason != NULL) {
    cr_onnx_reject(l, "prior boxes, with nms_param of nms_threshold and top_k", "%s", reason);
    return;
  }
  if (cr_onnx_rejects_any_batch(l)) return;
  detector d = {.param = p,
                .images = cr_onnx_bottom_shape(l, 0)->dim[0],
                .priors = cr_onnx_bottom_shape(l, 2)->dim[2] / 4,
                .loc_classes = p->share_location ? 1 : p->num_classes};
  d.labels = list_labels(l->g, p, &d.classes);
  d.boxes = find_boxes(l, &d);
  d.scores = find_scores(l, &d);
  const char **rows = cr_onnx_memory(l->g, ((size_t)d.images + 1) * sizeof *rows);
  for (int64_t i = 0; rows != NULL && i < d.images; ++i) rows[i] = image_rows(l->g, &d, i);
  if (rows != NULL) cr_onnx_write_detections(l, rows, d.images);
}
