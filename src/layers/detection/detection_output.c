/* DetectionOutput: the boxes that a detector has found (Liu et al., "SSD", 2016).
 *
 * Formula: for each image and class except the background, take the best top_k boxes with a score
 * above confidence_threshold. Drop a box that overlaps a better box by more than nms_threshold. Of
 * all classes keep the best keep_top_k boxes. With soft_nms a better box lowers the scores of the
 * boxes that it overlaps instead (Bodla et al., "Soft-NMS", 2017). LINEAR multiplies them by 1 -
 * overlap if the overlap is above nms_threshold, GAUSSIAN by exp(-overlap^2 / sigma). Boxes are
 * dropped once their score is not above confidence_threshold.
 * Shapes: locations (N, 4 priors), scores (N, classes priors), prior boxes (1, 2, 4 priors),
 * optionally images, which are not read -> y (1, 1, boxes, 7). With share_location: false,
 * locations are (N, 4 classes priors). A row of y is image, class, score, xmin, ymin, xmax, ymax.
 * Without any box there is one row for each image, with -1 after its number. After the prior boxes,
 * scores (N, 2 priors) and locations (N, 4 priors) of RefineDet's first stage may follow. Its
 * locations refine the prior boxes, and a box with a score of an object below objectness_score has
 * the score 0 in all classes. The layer also accepts
 * regions: locations (R, 4) or (R, 4 classes), scores (R, classes), regions (R, 5), images (N, 3 or
 * more) -> y. A row of regions is image, left, top, right, bottom in pixels; images have height and
 * width. Boxes are then clipped to the image.
 * Fields: detection_output_param.
 * Caffe: as in Caffe-SSD and RefineDet, which have only prior boxes; results are not drawn,
 * polygons of TextBoxes++ are refused, and soft_nms is crema's. Result files (save_output_param)
 * are written after all images of the test set. The next image starts new files.
 * Example, loc 1 8, conf 1 6, prior 1 2 8:
 *   layer { name: "found" type: "DetectionOutput" bottom: "loc" bottom: "conf" bottom: "prior"
 *     top: "y" detection_output_param { num_classes: 3 confidence_threshold: 0.01
 *       nms_param { nms_threshold: 0.45 top_k: 400 } keep_top_k: 200 } } */
#include <float.h>
#include <math.h>

#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_op.h"
#include "layers/detection/geometry/boxes.h"
#include "layers/detection/result_files.h"

typedef struct output_state {
  int64_t classes, loc_classes; /* classes with their own locations: 1 or `classes` */
  int64_t images, priors;
  bool regions;       /* instead of prior boxes, `priors` of them */
  int refined;        /* bottoms of RefineDet's first stage: 0, 1 (scores), 2 (and locations) */
  double variance[4]; /* of regions */
  float threshold, overlap, eta;
  int64_t top_k, keep; /* below 0: all */
  cr_buffer box;       /* cr_box of each prior, for the current class */
  cr_buffer candidate; /* cr_ranked of one class */
  cr_buffer kept;      /* boxes of one class that overlap no better one */
  cr_buffer found;     /* cr_ranked of an image, by class */
  cr_buffer row;       /* 7 floats of each box of the batch */
  cr_result_files files;
} output_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  output_state *s = layer->state;
  const Caffe__DetectionOutputParameter *p = layer->param->detection_output_param;
  const Caffe__NonMaximumSuppressionParameter *nms = p ? p->nms_param : NULL;
  (void)bottom, (void)top;
  if (p == NULL || p->num_classes == 0 || p->num_classes > 1000000) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "detection_output_param needs num_classes of 1 or more");
  }
  if (p->visualize || (p->save_file != NULL && *p->save_file != '\0')) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "visualize and save_file are not supported");
  }
  if (p->use_polygon) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "use_polygon: the polygons of TextBoxes++ are not supported");
  }
  if (nms != NULL && nms->soft_nms != CAFFE__NON_MAXIMUM_SUPPRESSION_PARAMETER__SOFT_NMS__NONE &&
      (!(nms->sigma > 0) || nms->eta != 1)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "soft_nms needs a sigma above 0 and an eta of 1");
  }
  s->classes = p->num_classes;
  s->loc_classes = p->share_location ? 1 : s->classes;
  s->threshold = p->has_confidence_threshold ? p->confidence_threshold : -FLT_MAX;
  s->overlap = nms ? nms->nms_threshold : 0.3f;
  s->eta = nms ? nms->eta : 1;
  s->top_k = nms && nms->has_top_k ? nms->top_k : -1;
  s->keep = p->keep_top_k;
  if (!(s->overlap >= 0 && s->eta > 0 && s->eta <= 1)) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "nms_threshold is %g, must be 0 or more, and eta %g, must be in (0, 1]",
                         (double)s->overlap, (double)s->eta);
  }
  CR_TRY(cr_four_numbers(layer, "variance", p->variance, p->n_variance,
                         (const double[]){0.1, 0.1, 0.2, 0.2}, s->variance));
  return cr_result_files_open(layer, p->save_output_param, s->classes, p->background_label_id,
                              &s->files);
}

/* Checks regions and images. */
static crema_status check_regions(cr_layer *layer, crema_blob *const *bottom) {
  output_state *s = layer->state;
  const crema_shape *region = &bottom[2]->shape, *info = &bottom[3]->shape;
  char text[4][128];
  s->images = info->axes > 0 ? info->dim[0] : 0;
  s->priors = region->axes > 0 ? region->dim[0] : 0;
  if (region->axes < 2 || crema_shape_count(region, 1, region->axes) != 5 || info->axes < 2 ||
      crema_shape_count(info, 1, info->axes) < 3 || s->priors > INT32_MAX ||
      crema_blob_count(bottom[0]) != s->priors * s->loc_classes * 4 ||
      crema_blob_count(bottom[1]) != s->priors * s->classes) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "locations %s, scores %s, regions %s and images %s do not fit each "
                         "other and %lld classes",
                         crema_shape_text(&bottom[0]->shape, text[0], sizeof text[0]),
                         crema_shape_text(&bottom[1]->shape, text[1], sizeof text[1]),
                         crema_shape_text(region, text[2], sizeof text[2]),
                         crema_shape_text(info, text[3], sizeof text[3]), (long long)s->classes);
  }
  return CREMA_OK;
}

/* Finds which of bottoms 3 and 4 are of RefineDet's first stage. In Caffe-SSD bottom 3 is images to
 * draw on, which are not read. */
static crema_status check_refined(cr_layer *layer, crema_blob *const *bottom) {
  output_state *s = layer->state;
  const int64_t boxes = s->images * s->priors;
  char text[2][128];
  s->refined = 0;
  if (layer->bottoms == 4 && bottom[3]->shape.axes == 2) {
    s->refined = crema_blob_count(bottom[3]) == 2 * boxes;
  }
  if (layer->bottoms < 5) return CREMA_OK;
  s->refined = 2;
  if (s->loc_classes == 1 && crema_blob_count(bottom[3]) == 2 * boxes &&
      crema_blob_count(bottom[4]) == 4 * boxes) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       "the first stage's scores %s and locations %s must have 2 and 4 numbers for "
                       "each of %lld boxes, with share_location",
                       crema_shape_text(&bottom[3]->shape, text[0], sizeof text[0]),
                       crema_shape_text(&bottom[4]->shape, text[1], sizeof text[1]),
                       (long long)boxes);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  output_state *s = layer->state;
  const crema_shape to = cr_shape_4(1, 1, 1, 7);
  const crema_shape *prior = &bottom[2]->shape;
  s->regions = layer->bottoms == 4 && (prior->axes != 3 || prior->dim[1] != 2);
  if (s->regions) {
    CR_TRY(check_regions(layer, bottom));
  } else {
    CR_TRY(cr_priors_check(layer, bottom, s->classes, s->loc_classes, &s->images, &s->priors));
    CR_TRY(check_refined(layer, bottom));
  }
  return crema_blob_reshape(top[0], &to);
}

/* The values of an image. */
typedef struct image_values {
  int64_t index;
  const float *loc, *conf;
  const float *prior;                  /* boxes and variances, or regions of all images */
  const float *info;                   /* of regions: height, width */
  const float *first_conf, *first_loc; /* of RefineDet's first stage; NULL: none */
} image_values;

static cr_prior prior_at(const output_state *s, const image_values *of, int64_t k) {
  if (!s->regions) return cr_prior_at(of->prior, s->priors, k);
  const float *region = of->prior + 5 * k, height = of->info[0], width = of->info[1];
  cr_prior at = {
      {region[1] / width, region[2] / height, (region[3] + 1) / width, (region[4] + 1) / height},
      {0}};
  for (int i = 0; i < 4; ++i) at.variance[i] = (float)s->variance[i];
  return at;
}

/* The box that the net makes of prior box or region k for class `c`. */
static cr_box box_at(const cr_layer *layer, const image_values *of, int64_t k, int64_t c) {
  const output_state *s = layer->state;
  const Caffe__DetectionOutputParameter *p = layer->param->detection_output_param;
  cr_prior at = prior_at(s, of, k);
  if (of->first_loc != NULL) {
    at.box = cr_box_decode(p->code_type, p->variance_encoded_in_target, &at, of->first_loc + 4 * k);
  }
  const int64_t loc_class = s->loc_classes == 1 ? 0 : c;
  const cr_box box = cr_box_decode(p->code_type, p->variance_encoded_in_target, &at,
                                   of->loc + 4 * (k * s->loc_classes + loc_class));
  return s->regions ? cr_box_clip(box) : box;
}

/* Lowers the scores of boxes that overlap better ones, drops boxes whose score is not above the
 * threshold, and sorts the other boxes by their scores. */
static void suppress_softly(const output_state *s, const Caffe__NonMaximumSuppressionParameter *p,
                            cr_ranked *all, size_t *count) {
  const cr_box *box = (const cr_box *)(const void *)s->box.data;
  const bool linear = p->soft_nms == CAFFE__NON_MAXIMUM_SUPPRESSION_PARAMETER__SOFT_NMS__LINEAR;
  size_t kept = 0;
  for (; kept < *count; ++kept) {
    size_t best = kept;
    for (size_t i = kept + 1; i < *count; ++i) best = all[i].score > all[best].score ? i : best;
    const cr_ranked held = all[best];
    if (!(held.score > s->threshold)) break;
    all[best] = all[kept];
    all[kept] = held;
    for (size_t i = kept + 1; i < *count; ++i) {
      const float overlap = cr_box_overlap(box[held.index], box[all[i].index]);
      if (!linear) all[i].score *= expf(-overlap * overlap / p->sigma);
      else if (overlap > s->overlap) all[i].score *= 1 - overlap;
    }
  }
  *count = kept;
}

/* Appends the kept boxes of class `c`. */
static crema_status find_class(const cr_layer *layer, const image_values *of, int64_t c) {
  output_state *s = layer->state;
  const Caffe__DetectionOutputParameter *p = layer->param->detection_output_param;
  CR_TRY(cr_buffer_reserve(&s->candidate, ((size_t)s->priors + 1) * sizeof(cr_ranked)));
  cr_ranked *all = (cr_ranked *)(void *)s->candidate.data;
  size_t count = 0;
  for (int64_t k = 0; k < s->priors; ++k) {
    const bool hidden = of->first_conf != NULL && of->first_conf[2 * k + 1] < p->objectness_score;
    const float score = hidden ? 0 : of->conf[k * s->classes + c];
    all[count] = (cr_ranked){score, (int32_t)c, (int32_t)k};
    const bool own = !s->regions || of->prior[5 * k] == (float)of->index;
    count += score > s->threshold && own;
  }
  if (count == 0) return CREMA_OK;
  count = cr_rank_best(all, count, s->top_k >= 0 ? (size_t)s->top_k : count);
  if (p->nms_param != NULL &&
      p->nms_param->soft_nms != CAFFE__NON_MAXIMUM_SUPPRESSION_PARAMETER__SOFT_NMS__NONE) {
    suppress_softly(s, p->nms_param, all, &count);
  } else {
    CR_TRY(cr_suppress((const cr_box *)(const void *)s->box.data, all, &count, s->overlap, s->eta,
                       -1, &s->kept));
  }
  return cr_buffer_append(&s->found, all, count * sizeof *all);
}

static crema_status find_image(cr_layer *layer, const image_values *of) {
  output_state *s = layer->state;
  const int64_t background = layer->param->detection_output_param->background_label_id;
  cr_buffer_clear(&s->found);
  CR_TRY(cr_buffer_reserve(&s->box, (size_t)s->priors * sizeof(cr_box)));
  cr_box *box = (cr_box *)(void *)s->box.data;
  for (int64_t c = 0; c < s->classes; ++c) {
    for (int64_t k = 0; k < s->priors && (c == 0 || s->loc_classes > 1); ++k) {
      box[k] = box_at(layer, of, k, c);
    }
    if (c != background) CR_TRY(find_class(layer, of, c));
  }
  cr_ranked *all = (cr_ranked *)(void *)s->found.data;
  size_t count = s->found.size / sizeof *all;
  if (s->keep >= 0 && count > (size_t)s->keep) {
    count = cr_rank_best(all, count, (size_t)s->keep);
    for (size_t i = 1; i < count; ++i) { /* by class, and within it by score */
      const cr_ranked held = all[i];
      size_t k = i;
      for (; k > 0 && all[k - 1].label > held.label; --k) all[k] = all[k - 1];
      all[k] = held;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const int64_t k = all[i].index;
    const cr_box b = s->loc_classes > 1 ? box_at(layer, of, k, all[i].label) : box[k];
    const float row[7] = {
        (float)of->index, (float)all[i].label, all[i].score, b.xmin, b.ymin, b.xmax, b.ymax};
    CR_TRY(cr_buffer_append(&s->row, row, sizeof row));
  }
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  output_state *s = layer->state;
  image_values of = {0};
  (void)context;
  CR_TRY(cr_tensor_host_read_floats(bottom[0]->data, &of.loc));
  CR_TRY(cr_tensor_host_read_floats(bottom[1]->data, &of.conf));
  CR_TRY(cr_tensor_host_read_floats(bottom[2]->data, &of.prior));
  if (s->regions) CR_TRY(cr_tensor_host_read_floats(bottom[3]->data, &of.info));
  if (s->refined > 0) CR_TRY(cr_tensor_host_read_floats(bottom[3]->data, &of.first_conf));
  if (s->refined > 1) CR_TRY(cr_tensor_host_read_floats(bottom[4]->data, &of.first_loc));
  cr_buffer_clear(&s->row);
  for (int64_t i = 0; i < s->images; ++i) {
    of.index = i;
    CR_TRY(find_image(layer, &of));
    if (s->regions) {
      of.info += crema_blob_count(bottom[3]) / s->images;
    } else {
      of.loc += s->priors * s->loc_classes * 4;
      of.conf += s->priors * s->classes;
      if (of.first_conf != NULL) of.first_conf += 2 * s->priors;
      if (of.first_loc != NULL) of.first_loc += 4 * s->priors;
    }
  }
  CR_TRY(cr_write_detections(&s->row, s->images, top[0]));
  const float *values = (const float *)(const void *)s->row.data;
  const int64_t rows = top[0]->shape.dim[2];
  return cr_layer_in(layer, cr_result_files_add(&s->files, values, rows, s->images));
}

static void destroy(cr_layer *layer) {
  output_state *s = layer->state;
  cr_result_files_free(&s->files);
  cr_buffer_free(&s->box);
  cr_buffer_free(&s->candidate);
  cr_buffer_free(&s->kept);
  cr_buffer_free(&s->found);
  cr_buffer_free(&s->row);
}

const cr_layer_class cr_layer_detection_output = {
    CR_LAYER_HOST("DetectionOutput", sizeof(output_state), setup, reshape, forward, destroy),
    .bottoms = {3, 5},
    .tops = {1, 1},
};
