/* Layers of RefineDet, TextBoxes++, MS-CNN, Cascade R-CNN and YOLO v3, and soft NMS, against their
 * formulas written another way. */
#include "layers/layer_rig.h"

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

/* Overlap of left, top, right, bottom. */
static double overlap(const double *a, const double *b) {
  const double w = fmin(a[2], b[2]) - fmax(a[0], b[0]), h = fmin(a[3], b[3]) - fmax(a[1], b[1]);
  if (w <= 0 || h <= 0) return 0;
  return w * h / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h);
}

static void fill(crema_blob *blob, double low, double high, uint32_t *random) {
  rig_values v = rig_data_of(blob);
  for (int64_t i = 0; i < v.count; ++i) {
    rig_set(v, i, low + (high - low) * (double)(rig_random(random) % 100000) / 100000);
  }
}

static void compare(const char *what, int64_t at, double found, double wanted) {
  if (fabs(found - wanted) <= 1e-5 * (1 + fabs(wanted))) return;
  print_error("%s: number %lld is %g, not %g\n", what, (long long)at, found, wanted);
  fail();
}

/* Boxes and variances of 0.1 for each of `count` priors. */
static void fill_boxes(crema_blob *blob, int count, uint32_t *random) {
  rig_values v = rig_data_of(blob);
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < 2; ++k) {
      const double low = (double)(rig_random(random) % 600) / 1000;
      rig_set(v, 4 * i + k, low);
      rig_set(v, 4 * i + 2 + k, low + 0.1 + (double)(rig_random(random) % 300) / 1000);
    }
    for (int k = 0; k < 4; ++k) rig_set(v, 4 * (count + i) + k, 0.1);
  }
}

/* ---- soft NMS ------------------------------------------------------------- */

enum { SOFT = 30 };

/* Scores and boxes in the order in which they are found; returns their number. */
static int soften(const double box[SOFT][4], double *score, bool linear, double row[SOFT][5]) {
  int found = 0;
  for (;;) {
    int best = -1;
    for (int i = 0; i < SOFT; ++i) {
      if (score[i] > 0.2 && (best < 0 || score[i] > score[best])) best = i;
    }
    if (best < 0) return found;
    row[found][0] = score[best];
    memcpy(&row[found++][1], box[best], sizeof box[best]);
    score[best] = 0;
    for (int i = 0; i < SOFT; ++i) {
      const double o = overlap(box[best], box[i]);
      if (linear) score[i] *= o > 0.3 ? 1 - o : 1;
      else score[i] *= exp(-o * o / 0.4);
    }
  }
}

static void check_soft(bool linear) {
  char body[300];
  uint32_t random = 314159;
  double box[SOFT][4], score[SOFT], row[SOFT][5];
  rig r;
  snprintf(body, sizeof body,
           "detection_output_param { num_classes: 2 confidence_threshold: 0.2 nms_param { "
           "nms_threshold: 0.3 soft_nms: %s sigma: 0.4 } }",
           linear ? "LINEAR" : "GAUSSIAN");
  rig_make(&r, "DetectionOutput", body, CAFFE__PHASE__TEST, "1 120|1 60|1 2 120", 1);
  ok(rig_setup(&r));
  fill(r.bottom[0], 0, 0, &random);
  fill(r.bottom[1], 0, 1, &random);
  fill_boxes(r.bottom[2], SOFT, &random);
  for (int i = 0; i < SOFT; ++i) {
    score[i] = (double)rig_data(r.bottom[1])[2 * i + 1];
    for (int k = 0; k < 4; ++k) box[i][k] = (double)rig_data(r.bottom[2])[4 * i + k];
  }
  ok(rig_forward(&r));
  const int found = soften(box, score, linear, row);
  assert_in_range(found, 5, SOFT);
  assert_int_equal(r.top[0]->shape.dim[2], found);
  for (int i = 0; i < found; ++i) {
    for (int k = 0; k < 5; ++k) {
      compare(body, 5 * i + k, (double)rig_data(r.top[0])[7 * i + 2 + k], row[i][k]);
    }
  }
  rig_free(&r);
}

TEST(soft_suppression_by_brute_force) {
  check_soft(true);
  check_soft(false);
}

/* ---- TextBoxes++ ---------------------------------------------------------- */

TEST(denser_prior_boxes_have_a_second_row) {
  rig plain, dense;
  const char *const body =
      "prior_box_param { min_size: 4 max_size: 6 aspect_ratio: 2 variance: 0.1 %s }";
  char text[200];
  snprintf(text, sizeof text, body, "");
  rig_make(&plain, "PriorBox", text, CAFFE__PHASE__TEST, "1 1 2 3|1 1 20 30", 1);
  snprintf(text, sizeof text, body, "denser_prior_boxes: true");
  rig_make(&dense, "PriorBox", text, CAFFE__PHASE__TEST, "1 1 2 3|1 1 20 30", 1);
  ok(rig_setup(&plain));
  ok(rig_setup(&dense));
  ok(rig_forward(&plain));
  ok(rig_forward(&dense));
  const int64_t boxes = plain.top[0]->shape.dim[2] / 4;
  assert_int_equal(dense.top[0]->shape.dim[2], 8 * boxes);
  for (int64_t i = 0; i < boxes; ++i) {
    for (int k = 0; k < 4; ++k) {
      const double one = (double)rig_data(plain.top[0])[4 * i + k];
      compare("first", i, (double)rig_data(dense.top[0])[8 * i + k], one);
      /* Half a cell of 10 pixels lower. */
      compare("second", i, (double)rig_data(dense.top[0])[8 * i + 4 + k], one + (k % 2 ? 0.25 : 0));
    }
  }
  rig_free(&plain);
  rig_free(&dense);
}

/* ---- RefineDet ------------------------------------------------------------ */

enum { PRIORS = 12 };

/* Copies bottom 0, 1 and 2 (with priors moved by `loc`, code CORNER) of a layer with a first stage.
 */
static void copy_refined(rig *to, rig *from, crema_blob *loc) {
  for (int b = 0; b < 2; ++b) {
    rig_values a = rig_data_of(from->bottom[b]), c = rig_data_of(to->bottom[b]);
    for (int64_t i = 0; i < a.count; ++i) rig_set(c, i, rig_get(a, i));
  }
  rig_values a = rig_data_of(from->bottom[2]), c = rig_data_of(to->bottom[2]), l = rig_data_of(loc);
  for (int64_t i = 0; i < 8 * PRIORS; ++i) {
    rig_set(c, i, rig_get(a, i) + (i < 4 * PRIORS ? 0.1 * rig_get(l, i) : 0));
  }
}

TEST(a_first_stage_moves_and_hides_prior_boxes) {
  const char *const body =
      "detection_output_param { num_classes: 3 code_type: CORNER confidence_threshold: 0.1 "
      "objectness_score: 0.4 }";
  uint32_t random = 271828;
  rig plain, refined;
  rig_make(&plain, "DetectionOutput", body, CAFFE__PHASE__TEST, "1 48|1 36|1 2 48", 1);
  rig_make(&refined, "DetectionOutput", body, CAFFE__PHASE__TEST, "1 48|1 36|1 2 48|1 24|1 48", 1);
  ok(rig_setup(&plain));
  ok(rig_setup(&refined));
  fill(refined.bottom[0], -0.3, 0.3, &random);
  fill(refined.bottom[1], 0, 1, &random);
  fill_boxes(refined.bottom[2], PRIORS, &random);
  fill(refined.bottom[3], 0, 1, &random);
  fill(refined.bottom[4], -0.5, 0.5, &random);
  copy_refined(&plain, &refined, refined.bottom[4]);
  int hidden = 0;
  for (int i = 0; i < PRIORS; ++i) {
    if (rig_data(refined.bottom[3])[2 * i + 1] >= 0.4f) continue;
    for (int c = 0; c < 3; ++c) rig_data(plain.bottom[1])[3 * i + c] = 0;
    ++hidden;
  }
  assert_in_range(hidden, 2, 10);
  ok(rig_forward(&plain));
  ok(rig_forward(&refined));
  assert_int_equal(plain.top[0]->shape.dim[2], refined.top[0]->shape.dim[2]);
  for (int64_t i = 0; i < crema_blob_count(plain.top[0]); ++i) {
    compare("row", i, (double)rig_data(refined.top[0])[i], (double)rig_data(plain.top[0])[i]);
  }
  rig_free(&plain);
  rig_free(&refined);
}

static void fill_objects(crema_blob *blob) {
  static const double rows[2][8] = {{0, 1, 0, 0.1, 0.1, 0.5, 0.5, 0},
                                    {0, 2, 0, 0.4, 0.5, 0.8, 0.9, 0}};
  rig_values v = rig_data_of(blob);
  for (int i = 0; i < 16; ++i) rig_set(v, i, rows[i / 8][i % 8]);
}

/* The loss after a first stage is the loss of moved prior boxes; boxes that look like background to
 * the first stage are not mined. */
TEST(a_first_stage_moves_the_boxes_of_a_loss) {
  const char *const body =
      "multibox_loss_param { num_classes: 3 code_type: CORNER overlap_threshold: 0.2 "
      "neg_pos_ratio: 9 "
      "objectness_score: 0.5 }";
  uint32_t random = 1618;
  rig plain, refined;
  rig_make_of(&plain, CREMA_F64, "MultiBoxLoss", body, CAFFE__PHASE__TRAIN,
              "1 48|1 36|1 2 48|1 1 2 8", 1);
  rig_make_of(&refined, CREMA_F64, "MultiBoxLoss", body, CAFFE__PHASE__TRAIN,
              "1 48|1 36|1 2 48|1 1 2 8|1 24|1 48", 1);
  ok(rig_setup(&plain));
  ok(rig_setup(&refined));
  fill(refined.bottom[0], -0.7, 0.7, &random);
  fill(refined.bottom[1], -2, 2, &random);
  fill_boxes(refined.bottom[2], PRIORS, &random);
  fill(refined.bottom[5], -0.5, 0.5, &random);
  fill(refined.bottom[4], 0.6, 1, &random); /* none is hidden */
  fill_objects(refined.bottom[3]);
  fill_objects(plain.bottom[3]);
  copy_refined(&plain, &refined, refined.bottom[5]);
  for (int hidden = 0; hidden < 2; ++hidden) {
    rig *both[2] = {&plain, &refined};
    for (int i = 0; i < 2; ++i) {
      ok(rig_forward(both[i]));
      rig_set(rig_diff_of(both[i]->top[0]), 0, 1);
      ok(rig_backward(both[i]));
    }
    rig_values a = rig_diff_of(plain.bottom[1]), b = rig_diff_of(refined.bottom[1]);
    int removed = 0;
    for (int64_t i = 0; i < a.count; ++i) {
      if (hidden && rig_get(b, i) == 0) removed += rig_get(a, i) != 0;
      else if (!hidden) compare("gradient", i, rig_get(b, i), rig_get(a, i));
    }
    if (!hidden)
      compare("loss", 0, rig_get(rig_data_of(refined.top[0]), 0),
              rig_get(rig_data_of(plain.top[0]), 0));
    else assert_true(removed > 0 && removed % 3 == 0);
    for (int i = 0; i < PRIORS; i += 2) rig_set(rig_data_of(refined.bottom[4]), 2 * i + 1, 0.1);
  }
  rig_free(&plain);
  rig_free(&refined);
}

/* With two classes, all objects are of class 1. */
TEST(objects_of_a_first_stage_have_one_class) {
  uint32_t random = 5;
  double loss[2];
  rig r;
  rig_make(&r, "MultiBoxLoss", "multibox_loss_param { num_classes: 2 overlap_threshold: 0.2 }",
           CAFFE__PHASE__TRAIN, "1 48|1 24|1 2 48|1 1 2 8", 1);
  ok(rig_setup(&r));
  fill(r.bottom[0], -1, 1, &random);
  fill(r.bottom[1], -1, 1, &random);
  fill_boxes(r.bottom[2], PRIORS, &random);
  fill_objects(r.bottom[3]);
  for (int i = 0; i < 2; ++i) {
    ok(rig_forward(&r));
    loss[i] = (double)rig_data(r.top[0])[0];
    rig_data(r.bottom[3])[9] = 1;
  }
  compare("loss", 0, loss[0], loss[1]);
  rig_free(&r);
}

/* ---- MS-CNN and Cascade R-CNN --------------------------------------------- */

enum { ROWS = 3, COLUMNS = 4, CELLS = ROWS * COLUMNS };

typedef struct pixel_box {
  double image, side[4], score; /* right and bottom outside of the box */
} pixel_box;

static double clamp(double x, double most) {
  return fmin(fmax(x, -most), most);
}

/* Sorts by score and drops boxes that overlap better ones; returns the number of kept boxes. */
static int keep_best(pixel_box *box, int count, double most) {
  int kept = 0;
  for (int i = 0; i < count; ++i) {
    int best = i;
    for (int k = i + 1; k < count; ++k) best = box[k].score > box[best].score ? k : best;
    const pixel_box held = box[best];
    box[best] = box[i];
    box[i] = held;
  }
  for (int i = 0; i < count; ++i) {
    bool drop = false;
    for (int k = 0; k < kept; ++k) drop = drop || overlap(box[k].side, box[i].side) > most;
    if (!drop) box[kept++] = box[i];
  }
  return kept;
}

static void compare_boxes(rig *r, const pixel_box *box, int count, double last) {
  assert_int_equal(r->top[0]->shape.dim[0], count);
  assert_int_equal(r->top[1]->shape.dim[0], count);
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < 6; ++k) {
      const double wanted = k == 0   ? box[i].image
                            : k == 5 ? box[i].score
                                     : box[i].side[k - 1] - (k > 2 ? last : 0);
      if (k < 5) compare("region", 5 * i + k, rig_get(rig_data_of(r->top[0]), 5 * i + k), wanted);
      compare("row", 6 * i + k, rig_get(rig_data_of(r->top[1]), 6 * i + k), wanted);
    }
  }
}

/* Left, top, right and bottom in exclusive pixels of the box that four offsets give. */
static void place(const double d[4], int cell, double width, double height, double rate,
                  bool inclusive, double out[4]) {
  const double size[2] = {width * exp(clamp(d[2], log(2))), height * exp(clamp(d[3], log(2)))};
  const double field[2] = {width, height}, end[2] = {COLUMNS * rate, ROWS * rate};
  const int place[2] = {cell % COLUMNS, cell / COLUMNS};
  for (int k = 0; k < 2; ++k) {
    const double low = clamp(d[k], 0.5) * field[k] + (place[k] + 0.5) * rate - size[k] / 2;
    out[k] = fmax(low, 0);
    out[k + 2] = inclusive ? fmin(low + size[k] - 1, end[k]) + 1 : fmin(out[k] + size[k], end[k]);
  }
}

TEST(boxes_of_maps_by_brute_force) {
  uint32_t random = 99;
  pixel_box box[CELLS];
  rig r;
  rig_make_of(&r, CREMA_F64, "BoxOutput",
              "box_output_param { field_w: 16 field_h: 12 downsample_rate: 8 fg_thr: -0.5 iou_thr: "
              "0.4 min_size: 7 } "
              "bbox_reg_param { bbox_mean: 0.1 bbox_mean: 0 bbox_mean: 0 bbox_mean: -0.2 bbox_std: "
              "1 bbox_std: 0.5 "
              "bbox_std: 1 bbox_std: 2 }",
              CAFFE__PHASE__TEST, "2 7 3 4", 2);
  ok(rig_setup(&r));
  fill(r.bottom[0], -1, 1, &random);
  ok(rig_forward(&r));
  pixel_box all[2 * CELLS];
  int sum = 0;
  for (int i = 0; i < 2; ++i) {
    int count = 0;
    for (int c = 0; c < CELLS; ++c) {
      static const double mean[4] = {0.1F, 0, 0, -0.2F}, deviation[4] = {1, 0.5, 1, 2};
      double v[7], d[4];
      for (int k = 0; k < 7; ++k) v[k] = rig_get(rig_data_of(r.bottom[0]), (i * 7 + k) * CELLS + c);
      for (int k = 0; k < 4; ++k) d[k] = v[3 + k] * deviation[k] + mean[k];
      pixel_box one = {.image = i, .score = fmax(v[1], v[2]) - v[0]};
      place(d, c, 16, 12, 8, false, one.side);
      const bool large = one.side[2] - one.side[0] >= 7 && one.side[3] - one.side[1] >= 7;
      if (one.score >= -0.5 && large) box[count++] = one;
    }
    count = keep_best(box, count, 0.4F);
    memcpy(all + sum, box, (size_t)count * sizeof *box);
    sum += count;
  }
  assert_in_range(sum, 4, 2 * CELLS);
  compare_boxes(&r, all, sum, 0);
  rig_free(&r);
}

TEST(boxes_of_groups_by_brute_force) {
  static const double field[2][2] = {{16, 12}, {10, 20}};
  uint32_t random = 7;
  pixel_box box[2 * CELLS];
  int count = 0;
  rig r;
  rig_make_of(&r, CREMA_F64, "BoxGroupOutput",
              "box_group_output_param { fg_thr: 0.3 iou_thr: 0.5 min_size: 8 max_post_nms_num: 6 "
              "box_group_param { "
              "field_w: 16 field_h: 12 field_w: 10 field_h: 20 stride: 8 } }",
              CAFFE__PHASE__TEST, "2 2 3 4|2 4 3 4", 2);
  ok(rig_setup(&r));
  fill(r.bottom[0], 0, 1, &random);
  fill(r.bottom[1], -1, 1, &random);
  ok(rig_forward(&r));
  for (int i = 0; i < 2 * CELLS; ++i) {
    const int k = i / CELLS, c = i % CELLS;
    double d[4];
    for (int n = 0; n < 4; ++n) d[n] = rig_get(rig_data_of(r.bottom[1]), (k * 4 + n) * CELLS + c);
    pixel_box one = {.score = 1 - rig_get(rig_data_of(r.bottom[0]), k * 2 * CELLS + c)};
    place(d, c, field[k][0], field[k][1], 8, true, one.side);
    const bool large = one.side[2] - one.side[0] >= 8 && one.side[3] - one.side[1] >= 8;
    if (one.score >= 0.3F && large) box[count++] = one;
  }
  count = keep_best(box, count, 0.5);
  assert_true(count >= 6);
  compare_boxes(&r, box, 6, 1);
  rig_free(&r);
}

/* Without a box there is one region, of ten pixels. */
TEST(maps_without_a_box_give_a_region) {
  uint32_t random = 1;
  static const float region[5] = {0, 1, 1, 10, 10};
  rig r;
  rig_make(&r, "BoxOutput",
           "box_output_param { field_w: 9 field_h: 9 downsample_rate: 8 fg_thr: 9 }",
           CAFFE__PHASE__TEST, "2 6 2 2", 2);
  ok(rig_setup(&r));
  fill(r.bottom[0], -1, 1, &random);
  ok(rig_forward(&r));
  assert_int_equal(r.top[0]->shape.dim[0], 1);
  assert_memory_equal(rig_data(r.top[0]), region, sizeof region);
  for (int k = 0; k < 6; ++k) assert_true(rig_data(r.top[1])[k] == 0);
  rig_free(&r);
}

/* ---- YOLO v3 -------------------------------------------------------------- */

enum { IMAGES = 2, ANCHORS = 2, CLASSES = 3, SIZE = 5 + CLASSES, OBJECTS = 3 };

/* All anchors. The map has anchors 2 and 0. */
static const double biases[3][2] = {{10, 13}, {60, 60}, {16, 30}};
static const int mask[ANCHORS] = {2, 0};
static const char yolo_body[] =
    "yolov3_param { num_class: 3 num: 2 mask: 2 mask: 0 anchors_scale: 8 thresh: 0.3 coord_scale: "
    "1.5 object_scale: 2 "
    "class_scale: 0.7 iou_thresh: 0.6 biases: 10 biases: 13 biases: 60 biases: 60 biases: 16 "
    "biases: 30 %s }";

/* Class, centre and size in an image of 32 x 24 pixels; the second object of image 0 has the box of
 * the first. */
static const double objects[IMAGES][OBJECTS][5] = {
    {{1, 0.3, 0.4, 0.45, 1}, {2, 0.32, 0.42, 0.5, 0.9}, {0, 0.8, 0.1, 0.3, 0.5}},
    {{0, 0.6, 0.7, 0.35, 0.6}}};

static int64_t index_of(int image, int anchor, int k, int cell) {
  return ((image * ANCHORS + anchor) * SIZE + k) * CELLS + cell;
}

static void yolo_box(rig *r, int map, int image, int anchor, int cell, double out[4]) {
  double t[4];
  for (int k = 0; k < 4; ++k)
    t[k] = rig_get(rig_data_of(r->bottom[map]), index_of(image, anchor, k, cell));
  const double x = (cell % COLUMNS + sigmoid(t[0])) / COLUMNS,
               y = (cell / COLUMNS + sigmoid(t[1])) / ROWS;
  const double w = exp(t[2]) * biases[mask[anchor]][0] / 32,
               h = exp(t[3]) * biases[mask[anchor]][1] / 24;
  const double box[4] = {x - w / 2, y - h / 2, x + w / 2, y + h / 2};
  memcpy(out, box, sizeof box);
}

/* How similar an object is to an anchor. */
static double similarity(const double *o, int anchor) {
  const double a[4] = {0, 0, o[3], o[4]},
               b[4] = {0, 0, biases[anchor][0] / 32, biases[anchor][1] / 24};
  return overlap(a, b);
}

/* Whether the object belongs to the box. */
static bool owns(const double *o, int anchor, int cell) {
  int best = 0;
  if ((int)(o[1] * COLUMNS) != cell % COLUMNS || (int)(o[2] * ROWS) != cell / COLUMNS || o[3] == 0)
    return false;
  for (int n = 1; n < 3; ++n) best = similarity(o, n) > similarity(o, best) ? n : best;
  return best == mask[anchor] || similarity(o, mask[anchor]) > 0.6;
}

static double entropy(double t, double y, bool logic) {
  const double p = sigmoid(t);
  return logic ? (p - y) * (p - y) / 2 : -y * log(p) - (1 - y) * log(1 - p);
}

static double yolo_loss(rig *r, bool logic, double eps) {
  double sum = 0;
  for (int at = 0; at < IMAGES * ANCHORS * CELLS; ++at) {
    const int i = at / (ANCHORS * CELLS), n = at / CELLS % ANCHORS, c = at % CELLS;
    double t[SIZE], box[4], most = 0, target[CLASSES];
    const double *own = NULL;
    for (int k = 0; k < SIZE; ++k) t[k] = rig_get(rig_data_of(r->bottom[0]), index_of(i, n, k, c));
    for (int k = 0; k < CLASSES; ++k) target[k] = eps / 2;
    yolo_box(r, 0, i, n, c, box);
    for (int k = 0; k < OBJECTS && objects[i][k][3] > 0; ++k) {
      const double *o = objects[i][k];
      const double b[4] = {o[1] - o[3] / 2, o[2] - o[4] / 2, o[1] + o[3] / 2, o[2] + o[4] / 2};
      most = fmax(most, overlap(box, b));
      if (!owns(o, n, c)) continue;
      own = o;
      target[(int)o[0]] = 1 - eps / 2;
    }
    if (own == NULL) {
      sum += most > 0.3 ? 0 : entropy(t[4], 0, logic);
      continue;
    }
    const double w = log(own[3] * 32 / biases[mask[n]][0]),
                 h = log(own[4] * 24 / biases[mask[n]][1]);
    sum += 1.5 * (2 - own[3] * own[4]) *
           (entropy(t[0], own[1] * COLUMNS - c % COLUMNS, logic) +
            entropy(t[1], own[2] * ROWS - c / COLUMNS, logic) + (t[2] - w) * (t[2] - w) / 2 +
            (t[3] - h) * (t[3] - h) / 2);
    sum += (logic ? 2 : 1) * entropy(t[4], 1, logic);
    for (int k = 0; k < CLASSES; ++k) sum += 0.7F * entropy(t[5 + k], target[k], logic);
  }
  return sum / IMAGES;
}

static double run_yolo(rig *r) {
  ok(rig_forward(r));
  return rig_get(rig_data_of(r->top[0]), 0);
}

/* `annotated`: objects as AnnotatedData gives them. */
static void check_yolo(bool logic, double eps, bool annotated) {
  char body[400], fields[100];
  uint32_t random = 4711;
  rig r;
  snprintf(fields, sizeof fields, "use_logic_gradient: %s label_smooth_eps: %g",
           logic ? "true" : "false", eps);
  snprintf(body, sizeof body, yolo_body, fields);
  rig_make_of(&r, CREMA_F64, "Yolov3", body, CAFFE__PHASE__TRAIN,
              annotated ? "2 16 3 4|1 1 6 8" : "2 16 3 4|2 1 3 5", 1);
  ok(rig_setup(&r));
  fill(r.bottom[0], -2, 2, &random);
  for (int i = 0; i < IMAGES * OBJECTS; ++i) {
    const double *o = objects[i / OBJECTS][i % OBJECTS];
    const double row[8] = {i / OBJECTS,     o[0] + 1,        0, o[1] - o[3] / 2, o[2] - o[4] / 2,
                           o[1] + o[3] / 2, o[2] + o[4] / 2, 0};
    for (int k = 0; annotated && k < 8; ++k) rig_set(rig_data_of(r.bottom[1]), 8 * i + k, row[k]);
    for (int k = 0; !annotated && k < 5; ++k) rig_set(rig_data_of(r.bottom[1]), 5 * i + k, o[k]);
  }
  const double loss = run_yolo(&r), wanted = yolo_loss(&r, logic, eps);
  compare(body, 0, loss, wanted);
  rig_set(rig_diff_of(r.top[0]), 0, 1.5);
  ok(rig_backward(&r));
  for (int64_t i = 0; i < crema_blob_count(r.bottom[0]); ++i) {
    const double kept = rig_get(rig_data_of(r.bottom[0]), i), step = 1e-5;
    rig_set(rig_data_of(r.bottom[0]), i, kept + step);
    const double high = run_yolo(&r);
    rig_set(rig_data_of(r.bottom[0]), i, kept - step);
    const double low = run_yolo(&r);
    rig_set(rig_data_of(r.bottom[0]), i, kept);
    compare("gradient", i, rig_get(rig_diff_of(r.bottom[0]), i), 1.5 * (high - low) / (2 * step));
  }
  rig_free(&r);
}

TEST(loss_and_gradients_of_yolov3) {
  check_yolo(false, 0, false);
  check_yolo(false, 0.125, false);
  check_yolo(true, 0.125, false);
  check_yolo(false, 0.125, true);
}

TEST(yolov3_refuses_unknown_classes) {
  char body[400];
  rig r;
  snprintf(body, sizeof body, yolo_body, "");
  rig_make(&r, "Yolov3", body, CAFFE__PHASE__TRAIN, "1 16 3 4|1 1 1 5", 1);
  ok(rig_setup(&r));
  memset(rig_data(r.bottom[0]), 0, 16 * CELLS * sizeof(float));
  const float row[5] = {3, 0.5f, 0.5f, 0.2f, 0.2f};
  memcpy(rig_data(r.bottom[1]), row, sizeof row);
  assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
  assert_error_has("class 3, of 3");
  rig_free(&r);
}

TEST(boxes_of_yolov3_by_brute_force) {
  enum { MOST = IMAGES * ANCHORS * CELLS * CLASSES };
  uint32_t random = 20260;
  pixel_box box[MOST], all[MOST];
  int sum = 0;
  rig r;
  rig_make_of(
      &r, CREMA_F64, "Yolov3DetectionOutput",
      "yolov3_detection_output_param { num_classes: 3 num_box: 2 mask_group_num: 1 mask: 2 mask: 0 "
      "anchors_scale: 8 confidence_threshold: 0.3 nms_threshold: 0.4 biases: 10 biases: 13 biases: "
      "60 "
      "biases: 60 biases: 16 biases: 30 }",
      CAFFE__PHASE__TEST, "2 16 3 4", 1);
  ok(rig_setup(&r));
  fill(r.bottom[0], -2, 2, &random);
  ok(rig_forward(&r));
  for (int i = 0; i < IMAGES; ++i) {
    int count = 0;
    for (int at = 0; at < ANCHORS * CELLS * CLASSES; ++at) {
      const int n = at / (CELLS * CLASSES), c = at / CLASSES % CELLS, class = at % CLASSES;
      rig_values map = rig_data_of(r.bottom[0]);
      /* The class is kept in `image`. */
      pixel_box one = {.image = class + 1};
      one.score = sigmoid(rig_get(map, index_of(i, n, 4, c))) *
                  sigmoid(rig_get(map, index_of(i, n, 5 + class, c)));
      yolo_box(&r, 0, i, n, c, one.side);
      if (one.score > 0.3F) box[count++] = one;
    }
    count = keep_best(box, count, 0.4);
    for (int k = 0; k < count; ++k, ++sum) {
      all[sum] = box[k];
      assert_true(rig_get(rig_data_of(r.top[0]), 7 * sum) == i);
    }
  }
  assert_in_range(sum, 4, MOST);
  assert_int_equal(r.top[0]->shape.dim[2], sum);
  for (int i = 0; i < sum; ++i) {
    const double row[6] = {all[i].image,   all[i].score,   all[i].side[0],
                           all[i].side[1], all[i].side[2], all[i].side[3]};
    for (int k = 0; k < 6; ++k)
      compare("row", k, rig_get(rig_data_of(r.top[0]), 7 * i + 1 + k), row[k]);
  }
  rig_free(&r);
}

/* Regions of 11 x 21 pixels around (15, 30), moved and scaled; in TRAIN, the second overlaps with
 * an object. */
TEST(boxes_of_a_stage_are_decoded) {
  static const double offsets[2][8] = {{9, 9, 9, 9, 1, -2, 0.5, -0.25}, {9, 9, 9, 9, 0, 0, 0, 0}};
  static const double regions[2][5] = {{1, 10, 20, 20, 40}, {0, 10, 20, 20, 40}};
  static const double overlap[2] = {0.5, 0.95};
  const double width = 11 * exp(0.5 * 0.2), height = 21 * exp(-0.25 * 0.2 + 0.5);
  const double x = 15 + 0.1 * 11, y = 30 - 2 * 0.1 * 21;
  for (int train = 0; train < 2; ++train) {
    rig r;
    rig_make_of(&r, CREMA_F64, "DecodeBBox",
                "bbox_reg_param { bbox_mean: [0, 0, 0, 0.5] bbox_std: [0.1, 0.1, 0.2, 0.2] }",
                train ? CAFFE__PHASE__TRAIN : CAFFE__PHASE__TEST, train ? "2 8|2 5|2 6" : "2 8|2 5",
                1);
    ok(rig_setup(&r));
    for (int i = 0; i < 16; ++i) rig_set(rig_data_of(r.bottom[0]), i, offsets[i / 8][i % 8]);
    for (int i = 0; i < 10; ++i) rig_set(rig_data_of(r.bottom[1]), i, regions[i / 5][i % 5]);
    for (int i = 0; train && i < 2; ++i) rig_set(rig_data_of(r.bottom[2]), 6 * i + 5, overlap[i]);
    ok(rig_forward(&r));
    const double wanted[5] = {1, x - (width - 1) / 2, y - (height - 1) / 2, x + (width - 1) / 2,
                              y + (height - 1) / 2};
    assert_int_equal(crema_blob_shape(r.top[0])->dim[0], train ? 1 : 2);
    for (int k = 0; k < 5; ++k) {
      assert_true(fabs(rig_get(rig_data_of(r.top[0]), k) - wanted[k]) < 1e-5);
    }
    for (int i = 0; train && i < 2; ++i) rig_set(rig_data_of(r.bottom[2]), 6 * i + 5, 1);
    if (train) assert_fails(rig_forward(&r), CREMA_E_RANGE, "none of 2 boxes is kept");
    rig_free(&r);
  }
  rig r;
  rig_make(&r, "DecodeBBox", "", CAFFE__PHASE__TEST, "2 8|2 5|2 6", 1);
  assert_fails(rig_setup(&r), CREMA_E_ARGUMENT, "for TRAIN only");
  rig_free(&r);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
