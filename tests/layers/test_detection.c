/* Layers of detectors on boxes that make sense, which layer_rows.inc does not have. */
#include "layers/detection/geometry/boxes.h"
#include "layers/layer_rig.h"

enum { PRIORS = 12, CLASSES = 3, IMAGES = 2 };

/* Prior boxes in rows of three, a quarter of the image wide, with variances of 0.1 and 0.2. */
static void fill_priors(crema_blob *blob) {
  rig_values v = rig_data_of(blob);
  for (int i = 0; i < PRIORS; ++i) {
    const double x = 0.2 + 0.3 * (i % 3), y = 0.14 + 0.24 * (i / 3), half = 0.1 + 0.02 * (i % 2);
    const double box[4] = {x - half, y - half, x + half, y + half};
    for (int k = 0; k < 4; ++k) {
      rig_set(v, 4 * i + k, box[k]);
      rig_set(v, 4 * (PRIORS + i) + k, k < 2 ? 0.1 : 0.2);
    }
  }
}

/* Three objects in image 0, one of them difficult, and none in image 1. */
static void fill_objects(crema_blob *blob) {
  static const double rows[4][8] = {{0, 1, 0, 0.12, 0.02, 0.33, 0.25, 0},
                                    {0, 2, 0, 0.38, 0.3, 0.61, 0.52, 0},
                                    {0, 1, 1, 0.7, 0.77, 0.93, 0.99, 1},
                                    {-1, -1, -1, -1, -1, -1, -1, -1}};
  rig_values v = rig_data_of(blob);
  for (int i = 0; i < 32; ++i) rig_set(v, i, rows[i / 8][i % 8]);
}

static void fill_random(crema_blob *blob, double size, uint32_t *random) {
  rig_values v = rig_data_of(blob);
  for (int64_t i = 0; i < v.count; ++i) {
    rig_set(v, i, size * ((double)(rig_random(random) % 2000) / 1000 - 1));
  }
}

static double loss_of(rig *r) {
  ok(rig_forward(r));
  return rig_get(rig_data_of(r->top[0]), 0);
}

/* Both passes of a MultiBoxLoss with that loss weight. */
static void run_multibox(rig *r, double weight, uint32_t *random) {
  ok(rig_setup(r));
  fill_random(r->bottom[0], 0.7, random);
  fill_random(r->bottom[1], 2, random);
  fill_priors(r->bottom[2]);
  fill_objects(r->bottom[3]);
  (void)loss_of(r);
  rig_set(rig_diff_of(r->top[0]), 0, weight);
  ok(rig_backward(r));
}

/* The gradients of places and scores against finite differences; some boxes are matched. */
static void check_multibox(const char *body, bool shared) {
  char text[600], shapes[200];
  uint32_t random = 2463534242u;
  rig r;
  snprintf(text, sizeof text, "multibox_loss_param { num_classes: %d %s }", CLASSES, body);
  snprintf(shapes, sizeof shapes, "%d %d|%d %d|1 2 %d|1 1 4 8", IMAGES,
           PRIORS * 4 * (shared ? 1 : CLASSES), IMAGES, PRIORS * CLASSES, PRIORS * 4);
  rig_make_of(&r, CREMA_F64, "MultiBoxLoss", text, CAFFE__PHASE__TRAIN, shapes, 1);
  run_multibox(&r, 1.5, &random);
  for (int b = 0; b < 2; ++b) {
    int64_t moved = 0;
    for (int64_t i = 0; i < crema_blob_count(r.bottom[b]); ++i) {
      const double kept = rig_get(rig_data_of(r.bottom[b]), i), step = 1e-5;
      rig_set(rig_data_of(r.bottom[b]), i, kept + step);
      const double high = loss_of(&r);
      rig_set(rig_data_of(r.bottom[b]), i, kept - step);
      const double low = loss_of(&r);
      rig_set(rig_data_of(r.bottom[b]), i, kept);
      const double wanted = 1.5 * (high - low) / (2 * step);
      const double found = rig_get(rig_diff_of(r.bottom[b]), i);
      if (fabs(wanted - found) > 1e-6 * (1 + fabs(wanted))) {
        print_error("%s: bottom %d, element %lld: %g, by differences %g\n", body, b, (long long)i,
                    found, wanted);
        fail();
      }
      moved += found != 0;
    }
    assert_true(moved >= (b == 0 ? 4 : 3 * CLASSES));
  }
  rig_free(&r);
}

TEST(gradients_of_multibox_loss) {
  check_multibox("", true);
  check_multibox("code_type: CENTER_SIZE match_type: BIPARTITE use_difficult_gt: false", true);
  check_multibox("code_type: CORNER_SIZE loc_loss_type: L2 loc_weight: 0.5 neg_pos_ratio: 1", true);
  check_multibox("mining_type: NONE conf_loss_type: LOGISTIC overlap_threshold: 0.2", true);
  check_multibox("mining_type: NONE share_location: false", false);
  check_multibox("mining_type: HARD_EXAMPLE sample_size: 7 nms_param { nms_threshold: 0.9 }", true);
  check_multibox("mining_type: HARD_EXAMPLE sample_size: 5 loc_loss_type: L2", true);
}

/* HARD_EXAMPLE counts just sample_size boxes of an image with objects. */
TEST(hard_examples_are_as_many_as_asked_for) {
  uint32_t random = 1701;
  int64_t counted = 0;
  rig r;
  rig_make_of(&r, CREMA_F32, "MultiBoxLoss",
              "multibox_loss_param { num_classes: 3 mining_type: HARD_EXAMPLE sample_size: 4 }",
              CAFFE__PHASE__TRAIN, "2 48|2 36|1 2 48|1 1 4 8", 1);
  run_multibox(&r, 1, &random);
  rig_values diff = rig_diff_of(r.bottom[1]);
  for (int64_t i = 0; i < diff.count; i += CLASSES) counted += rig_get(diff, i) != 0;
  assert_int_equal(counted, 4);
  rig_free(&r);
}

TEST(objects_of_no_class_are_refused) {
  rig r;
  rig_make(&r, "MultiBoxLoss", "multibox_loss_param { num_classes: 3 }", CAFFE__PHASE__TRAIN,
           "1 48|1 36|1 2 48|1 1 4 8", 1);
  ok(rig_setup(&r));
  fill_priors(r.bottom[2]);
  fill_objects(r.bottom[3]);
  rig_data(r.bottom[3])[1] = 3;
  assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
  assert_error_has("object 0 has label 3");
  rig_data(r.bottom[3])[1] = 0;
  assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
  rig_data(r.bottom[3])[1] = NAN;
  assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
  rig_free(&r);
}

static double area(const float *b) {
  return b[2] < b[0] || b[3] < b[1] ? 0
                                    : ((double)b[2] - (double)b[0]) * ((double)b[3] - (double)b[1]);
}

static double overlap(const float *a, const float *b) {
  const float both[4] = {fmaxf(a[0], b[0]), fmaxf(a[1], b[1]), fminf(a[2], b[2]),
                         fminf(a[3], b[3])};
  const double shared = area(both);
  return shared > 0 ? shared / (area(a) + area(b) - shared) : 0;
}

/* Of a class, no two boxes that are kept overlap too much, each that is dropped overlaps a better
 * one that is kept, and all is sorted. Found by trying all pairs. */
TEST(detections_by_brute_force) {
  uint32_t random = 88172645u;
  rig r;
  rig_make(&r, "DetectionOutput",
           "detection_output_param { num_classes: 3 code_type: CORNER nms_param { "
           "nms_threshold: 0.3 } confidence_threshold: 0.2 }",
           CAFFE__PHASE__TEST, "1 160|1 120|1 2 160", 1);
  ok(rig_setup(&r));
  fill_random(r.bottom[0], 0, &random);
  float *conf = rig_data(r.bottom[1]), *box = rig_data(r.bottom[2]);
  rig_fill(conf, 120, 0, 1, &random);
  for (int i = 0; i < 40; ++i) {
    for (int k = 0; k < 2; ++k) {
      box[4 * i + k] = (float)(rig_random(&random) % 600) / 1000;
      box[4 * i + 2 + k] = box[4 * i + k] + 0.1f + (float)(rig_random(&random) % 300) / 1000;
    }
  }
  ok(rig_forward(&r));
  const float *row = rig_data(r.top[0]);
  const int64_t rows = r.top[0]->shape.dim[2];
  int64_t expected = 0;
  for (int c = 1; c < 3; ++c) {
    bool dropped[40] = {false}, seen[40] = {false};
    for (int n = 0; n < 40; ++n) {
      int best = -1;
      for (int i = 0; i < 40; ++i) {
        if (!seen[i] && conf[3 * i + c] > 0.2f &&
            (best < 0 || conf[3 * i + c] > conf[3 * best + c])) {
          best = i;
        }
      }
      if (best < 0) break;
      seen[best] = true;
      if (dropped[best]) continue;
      assert_true(expected < rows);
      assert_true(row[7 * expected] == 0 && row[7 * expected + 1] == (float)c);
      assert_true(row[7 * expected + 2] == conf[3 * best + c]);
      assert_memory_equal(&row[7 * expected + 3], &box[4 * best], 4 * sizeof(float));
      ++expected;
      for (int i = 0; i < 40; ++i) {
        if (overlap(&box[4 * i], &box[4 * best]) > 0.3) dropped[i] = true;
      }
    }
  }
  assert_int_equal(rows, expected);
  assert_in_range(expected, 5, 60);
  rig_free(&r);
}

/* Caffe-SSD names them for visualize, and reads them only then. */
TEST(pictures_to_draw_on_change_no_detections) {
  static const char *const shapes[] = {"1 8|1 6|1 2 8", "1 8|1 6|1 2 8|1 3 5 5"};
  const char *body =
      "detection_output_param { num_classes: 3 code_type: CORNER nms_param { nms_threshold: 0.4 } "
      "}";
  float row[2][14];
  for (int k = 0; k < 2; ++k) {
    static const float prior[8] = {0.1f, 0.1f, 0.4f, 0.4f, 0.5f, 0.5f, 0.9f, 0.8f};
    uint32_t random = 5;
    rig r;
    rig_make(&r, "DetectionOutput", body, CAFFE__PHASE__TEST, shapes[k], 1);
    ok(rig_setup(&r));
    fill_random(r.bottom[0], 0, &random);
    rig_fill(rig_data(r.bottom[1]), 6, 0, 1, &random);
    memcpy(rig_data(r.bottom[2]), prior, sizeof prior);
    ok(rig_forward(&r));
    assert_true(r.top[0]->shape.dim[2] >= 2);
    memcpy(row[k], rig_data(r.top[0]), sizeof row[k]);
    rig_free(&r);
  }
  assert_memory_equal(row[0], row[1], sizeof row[0]);
}

/* The candidate with the highest score first, of equal ones that with the lower label, then the
 * lower index; nan last. */
static bool is_before(const cr_ranked *a, const cr_ranked *b) {
  if (isnan(a->score) != isnan(b->score)) return isnan(b->score);
  if (!isnan(a->score) && a->score != b->score) return a->score > b->score;
  return a->label < b->label || (a->label == b->label && a->index < b->index);
}

/* Only the best are sorted, also of scores that are equal, infinite or nan. */
TEST(the_best_come_first) {
  enum { COUNT = 3000 };
  static const size_t best[] = {0, 1, 7, 400, 2999, 3000, 5000};
  static cr_ranked all[COUNT], some[COUNT];
  uint32_t random = 11;
  for (int kind = 0; kind < 5; ++kind) {
    for (size_t b = 0; b < sizeof best / sizeof best[0]; ++b) {
      for (int i = 0; i < COUNT; ++i) {
        const uint32_t draw = rig_random(&random);
        float score = (float)(draw % 100003) / 100003;
        if (kind == 1) score = (float)(draw % 3);
        if (kind == 2) score = 1;
        if (kind == 3 && draw % 5 == 0) score = NAN;
        if (kind == 4 && draw % 7 == 0) score = draw % 2 ? INFINITY : -INFINITY;
        all[i] = some[i] = (cr_ranked){score, (int32_t)(draw % 2), i};
      }
      cr_rank(all, COUNT);
      for (int i = 1; i < COUNT; ++i) assert_true(is_before(&all[i - 1], &all[i]));
      const size_t count = cr_rank_best(some, COUNT, best[b]);
      assert_int_equal(count, best[b] < COUNT ? best[b] : COUNT);
      for (size_t i = 0; i < count; ++i) assert_int_equal(some[i].index, all[i].index);
    }
  }
}

/* Against pairs of boxes, one after the other. Some thresholds are what a pair shares, or the
 * number below or above, and some boxes are so small that their areas are subnormal. */
TEST(suppression_by_brute_force) {
  enum { COUNT = 500 };
  static cr_box box[COUNT];
  static cr_ranked all[COUNT];
  uint32_t random = 17;
  cr_buffer memory = {0};
  for (int trial = 0; trial < 60; ++trial) {
    const float eta = trial % 2 ? 0.9f : 1, unit = trial % 4 == 3 ? 3e-22f : 1;
    const int64_t most = trial % 3 == 0 ? -1 : 20 * (trial % 12);
    float threshold = 0.1f * (float)(trial % 9);
    size_t kept[COUNT], wanted = 0, count = COUNT;
    for (int i = 0; i < COUNT; ++i) {
      float at[4];
      for (int k = 0; k < 4; ++k) at[k] = (float)(rig_random(&random) % 50) / 50;
      /* Also boxes without an area, and turned ones. */
      box[i] = (cr_box){unit * at[0], unit * at[1], unit * (at[2] + 0.3f), unit * (at[3] + 0.3f)};
      all[i] = (cr_ranked){1, 0, i};
    }
    if (trial >= 12) {
      const float shared = cr_box_overlap(box[0], box[trial]);
      threshold = nextafterf(shared, trial % 5 < 2 ? shared : trial % 5 < 4 ? 0 : 1);
    }
    ok(cr_suppress(box, all, &count, threshold, eta, most, &memory));
    for (size_t i = 0; i < COUNT && (most < 0 || (int64_t)wanted < most); ++i) {
      bool keep = true;
      for (size_t k = 0; k < wanted && keep; ++k) {
        keep = cr_box_overlap(box[i], box[kept[k]]) <= threshold;
      }
      if (!keep) continue;
      kept[wanted++] = i;
      if (eta < 1 && threshold > 0.5f) threshold *= eta;
    }
    assert_int_equal(count, wanted);
    for (size_t i = 0; i < wanted; ++i) assert_int_equal(all[i].index, kept[i]);
  }
  cr_buffer_free(&memory);
}

static void set_all(crema_blob *blob, const float *values) {
  memcpy(rig_data(blob), values, (size_t)crema_blob_count(blob) * sizeof *values);
}

/* Of image 0 regions 1 and 3, of image 1 region 4 have the highest losses. */
TEST(the_hardest_regions_of_each_image_stay) {
  static const float rois[25] = {0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0,
                                 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1};
  static const float loss[5] = {0.1f, 0.5f, 0.2f, 0.5f, 0.05f}, label[5] = {1, 2, 3, 4, 5};
  static const float weight[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  static const float labels[5] = {-1, 2, -1, 4, 5}, weights[10] = {0, 0, 3, 4, 0, 0, 7, 8, 9, 10};
  rig r;
  rig_make(&r, "BoxAnnotatorOHEM", "box_annotator_ohem_param { roi_per_img: 2 }",
           CAFFE__PHASE__TRAIN, "5 5|5|5|5 2", 2);
  ok(rig_setup(&r));
  set_all(r.bottom[0], rois);
  set_all(r.bottom[1], loss);
  set_all(r.bottom[2], label);
  set_all(r.bottom[3], weight);
  ok(rig_forward(&r));
  assert_memory_equal(rig_data(r.top[0]), labels, sizeof labels);
  assert_memory_equal(rig_data(r.top[1]), weights, sizeof weights);
  rig_data(r.bottom[0])[5] = NAN;
  assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
  rig_free(&r);
}

/* Whether fewer than `most` regions of the same image come before this one. */
static bool is_hard(const float *image, const float *loss, int count, int i, int most) {
  int before = 0;
  for (int k = 0; k < count; ++k) {
    before += image[k] == image[i] && (loss[k] > loss[i] || (loss[k] == loss[i] && k < i));
  }
  return before < most;
}

TEST(hard_regions_by_brute_force) {
  enum { REGIONS = 29, INNER = 3, COUNT = REGIONS * INNER, COLUMNS = 4 };
  uint32_t random = 12;
  for (int most = 1; most < 12; most += 3) {
    float image[COUNT], loss[COUNT];
    char body[100];
    int kept = 0;
    rig r;
    snprintf(body, sizeof body, "box_annotator_ohem_param { roi_per_img: %d ignore_label: 77 }",
             most);
    rig_make(&r, "BoxAnnotatorOHEM", body, CAFFE__PHASE__TRAIN, "29 5 3|29 1 3|29 1 3|29 4 3", 2);
    ok(rig_setup(&r));
    for (int b = 0; b < 4; ++b) fill_random(r.bottom[b], 2, &random);
    for (int i = 0; i < COUNT; ++i) {
      const int region = i / INNER, inner = i % INNER;
      image[i] = rig_data(r.bottom[0])[5 * region * INNER + inner] =
          (float)(rig_random(&random) % 3);
      loss[i] = rig_data(r.bottom[1])[i] = (float)(rig_random(&random) % 8) / 4;
    }
    ok(rig_forward(&r));
    for (int i = 0; i < COUNT; ++i) {
      const bool hard = is_hard(image, loss, COUNT, i, most);
      kept += hard;
      assert_true(rig_data(r.top[0])[i] == (hard ? rig_data(r.bottom[2])[i] : 77));
      for (int k = 0; k < COLUMNS; ++k) {
        const int at = (i / INNER * COLUMNS + k) * INNER + i % INNER;
        assert_true(rig_data(r.top[1])[at] == (hard ? rig_data(r.bottom[3])[at] : 0));
      }
    }
    assert_int_equal(kept, 3 * most);
    rig_free(&r);
  }
}

/* The losses of single items add up to the loss, and each is that of its item alone. */
TEST(losses_of_items_add_up) {
  static const char *const types[] = {"SmoothL1LossOHEM", "SoftmaxWithLossOHEM"};
  for (int t = 0; t < 2; ++t) {
    uint32_t random = 99;
    double sum = 0;
    rig r;
    rig_make_of(&r, CREMA_F64, types[t], "loss_param { normalization: NONE }", CAFFE__PHASE__TRAIN,
                t == 0 ? "4 3 2|4 3 2" : "4 3 2|4 1 2", 2 + t);
    ok(rig_setup(&r));
    fill_random(r.bottom[0], 2, &random);
    if (t == 0) fill_random(r.bottom[1], 2, &random);
    for (int i = 0; i < 8 && t == 1; ++i) rig_set(rig_data_of(r.bottom[1]), i, i % 3);
    ok(rig_forward(&r));
    rig_values each = rig_data_of(r.top[1 + t]);
    assert_int_equal(each.count, 8);
    for (int i = 0; i < 8; ++i) sum += rig_get(each, i);
    assert_true(fabs(sum - rig_get(rig_data_of(r.top[0]), 0)) < 1e-10);
    const double *x = r.bottom[0] ? (const double *)rig_data_of(r.bottom[0]).at : NULL;
    double first = 0; /* item 0, position 1 */
    for (int c = 0; c < 3; ++c) {
      const double d =
          fabs(x[2 * c + 1] - rig_get(rig_data_of(r.bottom[1]), t == 0 ? 2 * c + 1 : 0));
      first += t == 0 ? (d < 1 ? d * d / 2 : d - 0.5) : exp(x[2 * c + 1]);
    }
    if (t == 1) first = log(first) - x[3]; /* its label is 1 */
    assert_true(fabs(rig_get(each, 1) - first) < 1e-10);
    rig_free(&r);
  }
}

/* Without loss_param all dialects divide by the number of items; R-FCN's takes it from there. */
TEST(what_a_smooth_l1_loss_is_divided_by) {
  static const struct {
    const char *type, *body;
    double divisor;
  } cases[] = {
      {"SmoothL1Loss", "", 4},
      {"SmoothL1Loss", "loss_param { }", 4},
      {"SmoothL1Loss", "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 256 }", 256},
      {"SmoothL1Loss", "loss_param { normalization: NONE }", 1},
      {"SmoothL1Loss", "loss_param { normalization: VALID }", 8},
      {"SmoothL1Loss", "loss_param { normalize: true }", 8},
      {"SmoothL1Loss", "loss_param { normalize: false }", 4},
      {"SmoothL1LossOHEM", "", 8},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    rig r;
    rig_make(&r, cases[i].type, cases[i].body, CAFFE__PHASE__TRAIN, "4 3 2|4 3 2|4 3 2", 1);
    ok(rig_setup(&r));
    for (int k = 0; k < 24; ++k) rig_data(r.bottom[0])[k] = rig_data(r.bottom[2])[k] = 2;
    assert_float_equal(loss_of(&r), 24 * 3.5 / cases[i].divisor, 1e-5); /* 2 * 2 - 0.5 */
    rig_diff(r.top[0])[0] = 1;
    ok(rig_backward(&r));
    assert_float_equal(rig_diff(r.bottom[0])[5], 2 / cases[i].divisor, 1e-6);
    rig_free(&r);
  }
}

/* R-FCN: scores and offsets of regions have two axes of extent 1 more than labels and targets. The
 * losses of regions then have one shape, so that an Eltwise adds them. */
TEST(losses_of_regions_with_bare_targets) {
  static const char *const types[] = {"SmoothL1LossOHEM", "SoftmaxWithLossOHEM"};
  static const char *const shapes[2][2] = {{"4 3 1 1|4 3", "4 3 1 1|4 3 1 1"},
                                           {"4 3 1 1|4", "4 3 1 1|4 1 1 1"}};
  const crema_shape wanted = cr_shape_4(4, 1, 1, 1);
  for (int t = 0; t < 2; ++t) {
    rig r[2];
    for (int k = 0; k < 2; ++k) {
      uint32_t random = 7;
      rig_make(&r[k], types[t], "", CAFFE__PHASE__TRAIN, shapes[t][k], 2 + t);
      ok(rig_setup(&r[k]));
      fill_random(r[k].bottom[0], 2, &random);
      if (t == 0) fill_random(r[k].bottom[1], 2, &random);
      for (int i = 0; i < 4 && t == 1; ++i) rig_data(r[k].bottom[1])[i] = (float)(i % 3);
      ok(rig_forward(&r[k]));
      assert_true(crema_shape_equal(crema_blob_shape(r[k].top[1 + t]), &wanted));
    }
    assert_true(rig_data(r[0].top[0])[0] == rig_data(r[1].top[0])[0]);
    assert_memory_equal(rig_data(r[0].top[1 + t]), rig_data(r[1].top[1 + t]), 4 * sizeof(float));
    for (int k = 0; k < 2; ++k) rig_free(&r[k]);
  }
  rig r;
  rig_make(&r, "SmoothL1Loss", "", CAFFE__PHASE__TRAIN, "4 3 1 1|4 3 2", 1);
  assert_int_equal(rig_setup(&r), CREMA_E_SHAPE);
  assert_error_has("bottom 1 must have shape 4 3 1 1");
  rig_free(&r);
}

/* Whatever was done to them after the last pass: by a layer in place, or by a program. */
TEST(prior_boxes_are_made_in_each_pass) {
  rig r;
  rig_make(&r, "PriorBox", "prior_box_param { min_size: 8 variance: 0.5 }", CAFFE__PHASE__TEST,
           "1 2 1 1|1 3 16 32", 1);
  ok(rig_setup(&r));
  for (int pass = 0; pass < 3; ++pass) {
    static const float expected[8] = {0.375, 0.25, 0.625, 0.75, 0.5, 0.5, 0.5, 0.5};
    ok(rig_forward(&r));
    float *boxes = rig_data(r.top[0]);
    assert_memory_equal(boxes, expected, sizeof expected);
    for (int i = 0; i < 8; ++i) boxes[i] *= 20;
  }
  rig_free(&r);
}

/* One anchor of 16 x 16 at each of 2 x 2 cells, 16 pixels apart, in a picture of 32 x 40. */
TEST(proposals_are_moved_cut_and_suppressed) {
  static const float info[3] = {32, 40, 1};
  rig r;
  rig_make(&r, "Proposal", "proposal_param { ratio: 1 scale: 1 min_size: 8 nms_thresh: 0.5 }",
           CAFFE__PHASE__TEST, "1 2 2 2|1 4 2 2|1 3", 2);
  ok(rig_setup(&r));
  set_all(r.bottom[2], info);
  const float scores[8] = {0, 0, 0, 0, 0.1f, 0.9f, 0.8f, 0.7f};
  set_all(r.bottom[0], scores);
  /* Cell 1 moves 12 pixels to the right, cell 2 up onto cell 0, cell 3 shrinks to nothing. */
  const float offsets[16] = {0, 0.75f, 0, 0, 0, 0, -1, 0, 0, 0, 0, -9, 0, 0, 0, -9};
  set_all(r.bottom[1], offsets);
  ok(rig_forward(&r));
  /* From 16 + 12 to the border; and cell 2, which is better than cell 0 in the same place. The box
   * of an anchor from 0 to 15 whose offsets are 0 ends at 16, as it does in the paper's code. */
  static const float wanted[10] = {0, 28, 0, 39, 16, 0, 0, 0, 16, 16};
  assert_int_equal(r.top[0]->shape.dim[0], 2);
  for (int i = 0; i < 10; ++i) assert_true(fabsf(rig_data(r.top[0])[i] - wanted[i]) < 1e-4f);
  assert_true(rig_data(r.top[1])[0] == 0.9f && rig_data(r.top[1])[1] == 0.8f);
  rig_data(r.bottom[2])[2] = 100; /* nothing is so large */
  ok(rig_forward(&r));
  assert_int_equal(r.top[0]->shape.dim[0], 0);
  rig_free(&r);
}

/* Labels 0 0 1 1 and an ignored one; guesses 0 1 1 1 and one that does not count. */
TEST(segmentations_are_measured) {
  static const float scores[15] = {1, 0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0};
  static const float labels[5] = {0, 0, 1, 1, 255};
  const double wanted[3] = {0.75, 0.75, (0.5 + 2.0 / 3 + 1) / 3};
  rig r;
  rig_make(&r, "SegAccuracy", "seg_accuracy_param { reset: false ignore_label: 255 }",
           CAFFE__PHASE__TEST, "1 3 1 5|1 1 1 5", 1);
  ok(rig_setup(&r));
  set_all(r.bottom[0], scores);
  set_all(r.bottom[1], labels);
  for (int pass = 0; pass < 2; ++pass) {
    ok(rig_forward(&r));
    for (int i = 0; i < 3; ++i) {
      assert_true(fabs((double)rig_data(r.top[0])[i] - wanted[i]) < 1e-6);
    }
  }
  rig_data(r.bottom[1])[1] = 1; /* all labels of this pass are right, of three passes 10 of 12 */
  ok(rig_forward(&r));
  assert_true(fabs((double)rig_data(r.top[0])[0] - 10.0 / 12) < 1e-6);
  rig_free(&r);
}

/* Counts the pixels of each class anew for each of the three measures. */
static void measure(const int *label, const int *guess, int count, int classes, double out[3]) {
  double right = 0, pixels = 0, labels = 0;
  out[1] = out[2] = 0;
  for (int i = 0; i < count; ++i) {
    pixels += label[i] >= 0;
    right += label[i] >= 0 && label[i] == guess[i];
  }
  for (int c = 0; c < classes; ++c) {
    double both = 0, of_label = 0, either = 0;
    for (int i = 0; i < count; ++i) {
      if (label[i] < 0) continue;
      both += label[i] == c && guess[i] == c;
      of_label += label[i] == c;
      either += label[i] == c || guess[i] == c;
    }
    if (of_label > 0) out[1] += both / of_label, ++labels;
    out[2] += either > 0 ? both / either : 1;
  }
  out[0] = right / pixels;
  out[1] /= labels;
  out[2] /= classes;
}

TEST(segmentations_by_brute_force) {
  enum { SAMPLES = 2, KINDS = 6, PLANE = 35, PIXELS = SAMPLES * PLANE };
  uint32_t random = 8;
  for (int trial = 0; trial < 5; ++trial) {
    int label[PIXELS], guess[PIXELS];
    double wanted[3];
    rig r;
    rig_make_of(&r, CREMA_F64, "SegAccuracy",
                "seg_accuracy_param { ignore_label: 255 ignore_label: 4 }", CAFFE__PHASE__TEST,
                "2 6 5 7|2 1 5 7", 1);
    ok(rig_setup(&r));
    fill_random(r.bottom[0], 2, &random);
    const rig_values x = rig_data_of(r.bottom[0]);
    /* With equal scores; with classes that do not occur. */
    for (int64_t i = 0; i < x.count; ++i) {
      if (trial == 3) rig_set(x, i, rint(2 * rig_get(x, i)));
      if (trial == 4 && i / PLANE % KINDS > 2) rig_set(x, i, -9);
    }
    for (int i = 0; i < PIXELS; ++i) {
      const int drawn = (int)(rig_random(&random) % 5);
      const int given = drawn == 3 ? 255 : drawn;
      const int64_t first = i / PLANE * KINDS * PLANE + i % PLANE;
      guess[i] = 0;
      for (int c = 1; c < KINDS; ++c) {
        if (rig_get(x, first + c * PLANE) >= rig_get(x, first + guess[i] * PLANE)) guess[i] = c;
      }
      label[i] = given == 255 || given == 4 ? -1 : given;
      rig_set(rig_data_of(r.bottom[1]), i, given);
    }
    measure(label, guess, PIXELS, KINDS, wanted);
    ok(rig_forward(&r));
    for (int i = 0; i < 3; ++i) {
      assert_true(fabs(rig_get(rig_data_of(r.top[0]), i) - wanted[i]) < 1e-12);
    }
    assert_true(wanted[0] > 0.02 && wanted[0] < 0.5 && (wanted[2] > 0.5) == (trial == 4));
    rig_set(rig_data_of(r.bottom[1]), 37, KINDS);
    assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
    assert_error_has("pixel 37 has label 6, must be 0 to 5 or an ignore_label");
    rig_free(&r);
  }
}

/* More pixels than a strip holds and a thread looks at at once; the best score of every third pixel
 * stands twice, and the last of these counts. */
TEST(many_pixels_are_measured) {
  enum { SAMPLES = 2, OF_PIXEL = 5, PIXELS = 9001 };
  rig r;
  int hits = 0;
  rig_make(&r, "SegAccuracy", "", CAFFE__PHASE__TEST, "2 5 1 9001|2 1 1 9001", 1);
  ok(rig_setup(&r));
  for (int i = 0; i < SAMPLES * PIXELS; ++i) {
    const int best = i * 7 % 11 % OF_PIXEL, label = i % OF_PIXEL;
    float *score = rig_data(r.bottom[0]) + i / PIXELS * OF_PIXEL * PIXELS + i % PIXELS;
    for (int c = 0; c < OF_PIXEL; ++c) score[c * PIXELS] = (float)(c % 3);
    score[best * PIXELS] = 3;
    if (i % 3 == 0) score[(OF_PIXEL - 1) * PIXELS] = 3;
    rig_data(r.bottom[1])[i] = (float)label;
    hits += (i % 3 == 0 ? OF_PIXEL - 1 : best) == label;
  }
  ok(rig_forward(&r));
  assert_true(hits > 0);
  assert_true(fabs((double)rig_data(r.top[0])[0] - (double)hits / (SAMPLES * PIXELS)) < 1e-6);
  rig_free(&r);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
