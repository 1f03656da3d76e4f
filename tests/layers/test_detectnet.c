/* DetectNetTransformation: labels against brute force, and pictures whose boxes stay around what is
 * in them, whatever is drawn. */
#include "layers/detection/detectnet.h"
#include "layers/layer_rig.h"

enum { HEIGHT = 40, WIDTH = 56, ROWS = 5, NUMBERS = 16, STRIDE = 4, FIXED = 8 };

static void make(rig *r, const char *grid, const char *vary, const char *more, int pictures,
                 Caffe__Phase phase, int height, int width) {
  char body[700], shapes[100];
  snprintf(body, sizeof body,
           "detectnet_groundtruth_param { stride: %d %s } detectnet_augmentation_param { %s } %s",
           STRIDE, grid, vary, more);
  snprintf(shapes, sizeof shapes, "%d 3 %d %d|%d 1 %d %d", pictures, height, width, pictures, ROWS,
           NUMBERS);
  rig_make_of(r, CREMA_F32, "DetectNetTransformation", body, phase, shapes, 2);
  ok(rig_setup(r));
  memset(rig_data(r->bottom[1]), 0, (size_t)crema_blob_count(r->bottom[1]) * sizeof(float));
}

static void put_object(rig *r, int picture, const float *numbers, int class) {
  float *rows = rig_data(r->bottom[1]) + picture * ROWS * NUMBERS;
  float *row = rows + NUMBERS * (int)++rows[0];
  rows[1] = NUMBERS;
  memcpy(row, numbers, 4 * sizeof *row);
  row[5] = (float)class;
}

static void assert_near(double found, double wanted, double tolerance, const char *what,
                        int64_t at) {
  if (fabs(found - wanted) <= tolerance * (1 + fabs(wanted))) return;
  print_error("%s %lld: %.9g, not %.9g\n", what, (long long)at, found, wanted);
  fail();
}

/* ---- labels ---- */

static double common(double a, double b, double c, double d) {
  const double low = a > c ? a : c, high = b < d ? b : d;
  return high > low ? high - low : 0;
}

/* What cell (y, x) learns: the last box whose middle part it shares an area with. */
static void learn(const float boxes[][5], int count, int y, int x, bool min, bool norm, bool crop,
                  double out[FIXED + 3]) {
  memset(out, 0, (FIXED + 3) * sizeof *out);
  for (int i = 0; i < count; ++i) {
    double l = (double)boxes[i][0], t = (double)boxes[i][1], r = l + (double)boxes[i][2],
           b = t + (double)boxes[i][3], w, h;
    const int class = boxes[i][4] == 7 ? 2 : boxes[i][4] == 3 ? 0 : -1;
    if (crop) {
      l = l < 0 ? 0 : l;
      t = t < 0 ? 0 : t;
      r = r > WIDTH ? WIDTH : r;
      b = b > HEIGHT ? HEIGHT : b;
    }
    if (class < 0 || r <= l || b <= t) continue;
    w = 0.5 * (r - l);
    h = 0.5 * (b - t);
    if (min) {
      w = w < 9 ? 9 : w;
      h = h < 9 ? 9 : h;
      w = w > r - l ? r - l : w;
      h = h > b - t ? b - t : h;
    } else {
      w = w > 9 ? 9 : w;
      h = h > 9 ? 9 : h;
    }
    const double cx = (l + r) / 2, cy = (t + b) / 2;
    const double area = common(cx - w / 2, cx + w / 2, STRIDE * x, STRIDE * (x + 1)) *
                        common(cy - h / 2, cy + h / 2, STRIDE * y, STRIDE * (y + 1));
    const double part = STRIDE * STRIDE / (w * h);
    if (area / (STRIDE * STRIDE) <= 1.2e-7) continue;
    memset(out, 0, (FIXED + 3) * sizeof *out);
    const double wanted[FIXED] = {1,
                                  l - STRIDE * x,
                                  t - STRIDE * y,
                                  r - STRIDE * x,
                                  b - STRIDE * y,
                                  1 / (r - l),
                                  1 / (b - t),
                                  norm       ? part
                                  : part > 1 ? part
                                             : 1};
    memcpy(out, wanted, sizeof wanted);
    out[FIXED + class] = 1;
  }
}

TEST(labels_by_brute_force) {
  static const float boxes[4][5] = {
      {3, 4, 20, 24, 3}, {-6, 20, 16, 40, 7}, {30.5f, 2.25f, 13, 7, 7}, {12, 8, 30, 30, 4}};
  int covered = 0;
  for (int trial = 0; trial < 8; ++trial) {
    const bool min = trial & 1, norm = trial & 2, crop = trial & 4;
    char grid[300];
    rig r;
    snprintf(
        grid, sizeof grid,
        "image_size_x: %d image_size_y: %d scale_cvg: 0.5 gridbox_type: %s max_cvg_len: 9 "
        "min_cvg_len: 9 obj_norm: %s crop_bboxes: %s object_class { src: 3 dst: 0 } object_class { "
        "src: 7 dst: 2 }",
        WIDTH, HEIGHT, min ? "GRIDBOX_MIN" : "GRIDBOX_MAX", norm ? "true" : "false",
        crop ? "true" : "false");
    make(&r, grid, "", "", 2, CAFFE__PHASE__TEST, HEIGHT, WIDTH);
    for (int i = 0; i < 4; ++i) put_object(&r, 1, boxes[i], (int)boxes[i][4]);
    ok(rig_forward(&r));
    const int rows = HEIGHT / STRIDE, columns = WIDTH / STRIDE, cells = rows * columns;
    assert_int_equal(crema_blob_count(r.top[1]), 2 * (FIXED + 3) * cells);
    const float *label = rig_data(r.top[1]);
    for (int i = 0; i < (FIXED + 3) * cells; ++i) assert_true(label[i] == 0); /* no objects */
    for (int i = 0; i < cells; ++i) {
      double wanted[FIXED + 3];
      learn(boxes, 4, i / columns, i % columns, min, norm, crop, wanted);
      covered += wanted[0] == 1;
      for (int k = 0; k < FIXED + 3; ++k) {
        assert_near((double)label[(FIXED + 3 + k) * cells + i], wanted[k], 1e-5, "label",
                    k * cells + i);
      }
    }
    rig_free(&r);
  }
  assert_true(covered > 100);
}

/* ---- pictures ---- */

/* In phase TEST a picture of the right size keeps its values, less the mean. */
TEST(test_pictures_lose_their_mean_alone) {
  uint32_t random = 4;
  rig r;
  make(&r, "image_size_x: 56 image_size_y: 40", "",
       "transform_param { mean_value: 10 mean_value: 20 mean_value: 30 }", 1, CAFFE__PHASE__TEST,
       HEIGHT, WIDTH);
  rig_fill(rig_data(r.bottom[0]), 3 * HEIGHT * WIDTH, 0, 255, &random);
  ok(rig_forward(&r));
  for (int i = 0; i < 3 * HEIGHT * WIDTH; ++i) {
    const double wanted = (double)rig_data(r.bottom[0])[i] - 10 * (1 + i / (HEIGHT * WIDTH));
    assert_near((double)rig_data(r.top[0])[i], wanted, 1e-4, "value", i);
  }
  rig_free(&r);
}

/* A bright rectangle on black, varied in all places; a box whose cells all learn (scale_cvg 1) is
 * around it afterwards. */
static void check_place(const char *vary, double tolerance, bool whole) {
  enum { PICTURES = 12 };
  static const float box[4] = {18, 12, 16, 14};
  int seen = 0, moved = 0;
  rig r;
  make(&r, "image_size_x: 64 image_size_y: 48 scale_cvg: 1 gridbox_type: GRIDBOX_MIN", vary, "",
       PICTURES, CAFFE__PHASE__TRAIN, HEIGHT, WIDTH);
  float *data = rig_data(r.bottom[0]);
  for (int i = 0; i < PICTURES * 3 * HEIGHT * WIDTH; ++i) {
    const int x = i % WIDTH, y = i / WIDTH % HEIGHT;
    data[i] = x >= 18 && x < 34 && y >= 12 && y < 26 ? 200 : 0;
  }
  for (int n = 0; n < PICTURES; ++n) put_object(&r, n, box, 1);
  ok(rig_forward(&r));
  const int columns = 64 / STRIDE, cells = 48 / STRIDE * columns;
  for (int n = 0; n < PICTURES; ++n) {
    const float *picture = rig_data(r.top[0]) + n * 3 * 64 * 48;
    const float *label = rig_data(r.top[1]) + n * (FIXED + 1) * cells;
    double at[4] = {64, 48, -1, -1}, found[4] = {0};
    for (int i = 0; i < 64 * 48; ++i) {
      if (picture[i] < 100) continue;
      at[0] = fmin(at[0], i % 64);
      at[1] = fmin(at[1], i / 64);
      at[2] = fmax(at[2], i % 64 + 1);
      at[3] = fmax(at[3], i / 64 + 1);
    }
    int cell = 0;
    while (cell < cells && label[cell] == 0) ++cell;
    if (cell == cells || (!whole && (at[0] == 0 || at[1] == 0 || at[2] == 64 || at[3] == 48)))
      continue;
    const int corner[2] = {STRIDE * (cell % columns), STRIDE * (cell / columns)};
    for (int k = 0; k < 4; ++k) {
      found[k] = (double)label[(1 + k) * cells + cell] + corner[k % 2];
      if (fabs(found[k] - at[k]) > tolerance) {
        print_error("%s: picture %d: edge %d is at %g, the box at %g\n", vary, n, k, at[k],
                    found[k]);
        fail();
      }
    }
    ++seen;
    moved += fabs(found[0] - 18) > 0.5 || fabs(found[2] - found[0] - 16) > 0.5;
  }
  assert_true(seen >= 4 && moved >= 2);
  rig_free(&r);
}

#define NONE "hue_rotation_prob: 0 desaturation_prob: 0 "
TEST(boxes_follow_what_they_are_around) {
  /* A mirrored box is one pixel off, as in NVIDIA's fork. */
  check_place(NONE "flip_prob: 0.5 scale_prob: 0 rotation_prob: 0 crop_prob: 0", 1.01, true);
  check_place(NONE "flip_prob: 0 scale_prob: 0 rotation_prob: 0 shift_x: 20 shift_y: 14", 0.01,
              true);
  check_place(NONE "flip_prob: 0 scale_prob: 1 scale_min: 0.8 scale_max: 1.5 rotation_prob: 0", 1.2,
              false);
  check_place(NONE "flip_prob: 0 scale_prob: 0 rotation_prob: 1 max_rotate_degree: 8", 3, false);
}

/* Quarter of a turn, and back by the same way as pixels go. */
TEST(a_turn_takes_the_picture_along) {
  cr_bgr_planes in = {0}, out = {0};
  ok(cr_bgr_planes_reserve(&in, 6, 10));
  for (int i = 0; i < 180; ++i) cr_bgr_planes_values(&in)[i] = (float)i;
  ok(cr_bgr_planes_rotate(&in, 90, &out));
  const cr_detectnet_turn turn = cr_detectnet_turn_of(6, 10, 90);
  assert_in_range(out.height, 10, 12);
  assert_in_range(out.width, 6, 8);
  int known = 0;
  for (int y = 0; y < 6; ++y) {
    for (int x = 0; x < 10; ++x) {
      const double dx = x - turn.middle[0], dy = y - turn.middle[1];
      const double to_x = turn.cosine * dx - turn.sine * dy + turn.shift[0];
      const double to_y = turn.sine * dx + turn.cosine * dy + turn.shift[1];
      const int column = (int)lrint(to_x), row = (int)lrint(to_y);
      assert_true(fabs(to_x - column) < 1e-9 && fabs(to_y - row) < 1e-9);
      if (x >= 9 || y >= 5) continue; /* the last ones have no neighbour */
      if (cr_bgr_planes_values(&out)[row * out.width + column] == 0) continue;
      assert_near((double)cr_bgr_planes_values(&out)[row * out.width + column], 10 * y + x, 1e-5,
                  "pixel", 10 * y + x);
      ++known;
    }
  }
  assert_true(known >= 30);
  cr_buffer_free(&in.memory);
  cr_buffer_free(&out.memory);
}

/* A hue of 120 degrees makes red green; without saturation there is gray as bright as the
 * brightest. */
TEST(colours_turn_and_fade) {
  static const float red[3] = {0.1f, 0.2f, 0.9f};
  cr_bgr_planes one = {0};
  ok(cr_bgr_planes_reserve(&one, 1, 1));
  float *value = cr_bgr_planes_values(&one);
  static const double hues[] = {0, 120, -120, 240, 360, -480};
  static const int first[] = {0, 1, 2, 2, 0, 2};
  for (int i = 0; i < 6; ++i) {
    memcpy(value, red, sizeof red);
    cr_bgr_planes_color(&one, hues[i], 1);
    for (int c = 0; c < 3; ++c) {
      assert_near((double)value[c], (double)red[(c + first[i]) % 3], 1e-5, "colour", 10 * i + c);
    }
  }
  memcpy(value, red, sizeof red);
  cr_bgr_planes_color(&one, 0, 0.5);
  for (int c = 0; c < 3; ++c) {
    assert_near((double)value[c], 0.9 - (0.9 - (double)red[c]) / 2, 1e-5, "faded", c);
  }
  cr_buffer_free(&one.memory);
}

/* What is drawn is the seed's, the pass's and the picture's. */
TEST(what_is_drawn_depends_on_seed_and_pass) {
  float found[4][2 * (FIXED + 1) * 12 * 16];
  for (int run = 0; run < 4; ++run) {
    static const float box[4] = {18, 12, 16, 14};
    rig r;
    make(&r, "image_size_x: 64 image_size_y: 48", "shift_x: 30 shift_y: 20 scale_prob: 1", "", 2,
         CAFFE__PHASE__TRAIN, HEIGHT, WIDTH);
    memset(rig_data(r.bottom[0]), 0, 2 * 3 * HEIGHT * WIDTH * sizeof(float));
    for (int n = 0; n < 2; ++n) put_object(&r, n, box, 1);
    if (run == 2) r.layer->pass = 1;
    if (run == 3) r.layer->key ^= 1;
    ok(rig_forward(&r));
    assert_int_equal(crema_blob_count(r.top[1]) * sizeof(float), sizeof found[0]);
    memcpy(found[run], rig_data(r.top[1]), sizeof found[run]);
    rig_free(&r);
  }
  assert_memory_equal(found[0], found[1], sizeof found[0]);
  assert_memory_not_equal(found[0], found[2], sizeof found[0]);
  assert_memory_not_equal(found[0], found[3], sizeof found[0]);
  assert_memory_not_equal(found[0], (char *)found[0] + sizeof found[0] / 2, sizeof found[0] / 2);
}

TEST(labels_that_make_no_sense_are_refused) {
  rig r;
  make(&r, "image_size_x: 64 image_size_y: 48", "", "", 1, CAFFE__PHASE__TEST, HEIGHT, WIDTH);
  memset(rig_data(r.bottom[0]), 0, 3 * HEIGHT * WIDTH * sizeof(float));
  rig_data(r.bottom[1])[0] = ROWS;
  assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
  assert_error_has("room for 4 of 16");
  rig_data(r.bottom[1])[0] = 1;
  rig_data(r.bottom[1])[1] = 15;
  assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
  rig_data(r.bottom[1])[0] = NAN;
  assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
  rig_data(r.bottom[1])[0] = 1;
  rig_data(r.bottom[1])[1] = NUMBERS;
  for (int k = 0; k < 4; ++k) rig_data(r.bottom[1])[NUMBERS + k] = k % 2 ? NAN : INFINITY;
  rig_data(r.bottom[1])[NUMBERS + 5] = 1;
  ok(rig_forward(&r));
  rig_free(&r);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
