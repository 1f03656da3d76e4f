/* Layers of detectors on boxes that make sense, which layer_rows.inc does not have. */
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

/* The gradients of places and scores against finite differences; some boxes are matched. */
static void check_multibox(const char *body, bool shared) {
  char text[600], shapes[200];
  uint32_t random = 2463534242u;
  rig r;
  snprintf(text, sizeof text, "multibox_loss_param { num_classes: %d %s }", CLASSES, body);
  snprintf(shapes, sizeof shapes, "%d %d|%d %d|1 2 %d|1 1 4 8", IMAGES,
           PRIORS * 4 * (shared ? 1 : CLASSES), IMAGES, PRIORS * CLASSES, PRIORS * 4);
  rig_make_of(&r, CREMA_F64, "MultiBoxLoss", text, CAFFE__PHASE__TRAIN, shapes, 1);
  ok(rig_setup(&r));
  fill_random(r.bottom[0], 0.7, &random);
  fill_random(r.bottom[1], 2, &random);
  fill_priors(r.bottom[2]);
  fill_objects(r.bottom[3]);
  (void)loss_of(&r);
  rig_set(rig_diff_of(r.top[0]), 0, 1.5);
  ok(rig_backward(&r));
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
  ok(rig_setup(&r));
  fill_random(r.bottom[0], 0.7, &random);
  fill_random(r.bottom[1], 2, &random);
  fill_priors(r.bottom[2]);
  fill_objects(r.bottom[3]);
  (void)loss_of(&r);
  rig_set(rig_diff_of(r.top[0]), 0, 1);
  ok(rig_backward(&r));
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

int main(void) {
  return run_all_tests(NULL, NULL);
}
