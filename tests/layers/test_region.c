/* RegionLoss and EvalDetection against what their formulas say, written down another way. */
#include "core/file.h"
#include "crema/net.h"
#include "folder.h"
#include "layers/layer_rig.h"

enum { SIDE = 3, ANCHORS = 2, CLASSES = 3, SIZE = 5 + CLASSES, IMAGES = 2 };
enum { CELLS = SIDE * SIDE, COUNT = IMAGES * ANCHORS * SIZE * CELLS, OBJECTS = 5 };

static const double biases[2 * ANCHORS] = {0.8F, 1.1F, 2.5, 1.7F};

/* Image, label, instance, box, difficult: two objects of a cell, one on the border, one that covers
 * nearly everything, and none. */
static const double objects[OBJECTS][8] = {{0, 1, 0, 0.05, 0.1, 0.3, 0.45, 0},
                                           {0, 3, 0, 0.1, 0.12, 0.32, 0.5, 0},
                                           {1, 2, 0, 0.8, 0.9, 1.2, 1.1, 0},
                                           {-1, 9, 9, 9, 9, 9, 9, 9},
                                           {1, 3, 0, 0.02, 0.05, 0.96, 0.99, 1}};

static int at(int image, int cell, int anchor, int k) {
  return ((image * ANCHORS + anchor) * SIZE + k) * CELLS + cell;
}

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static double overlap(const double *a, const double *b) {
  const double w = fmin(a[2], b[2]) - fmax(a[0], b[0]), h = fmin(a[3], b[3]) - fmax(a[1], b[1]);
  if (w <= 0 || h <= 0) return 0;
  return w * h / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h);
}

/* Corners of the box at an anchor of a cell. */
static void box_of(const double *x, int image, int cell, int anchor, double out[4]) {
  const double cx = (cell % SIDE + sigmoid(x[at(image, cell, anchor, 0)])) / SIDE;
  const double cy = (cell / SIDE + sigmoid(x[at(image, cell, anchor, 1)])) / SIDE;
  const double w = exp(x[at(image, cell, anchor, 2)]) * biases[2 * anchor] / SIDE;
  const double h = exp(x[at(image, cell, anchor, 3)]) * biases[2 * anchor + 1] / SIDE;
  out[0] = cx - w / 2;
  out[1] = cy - h / 2;
  out[2] = cx + w / 2;
  out[3] = cy + h / 2;
}

static double smooth(double d) {
  return fabs(d) < 1 ? d * d / 2 : fabs(d) - 0.5;
}

typedef struct match {
  int object[IMAGES][CELLS][ANCHORS];  /* the last object that a box has, or -1 */
  bool counts[IMAGES][CELLS][ANCHORS]; /* as a box without an object */
} match;

static double intersect_sizes(double aw, double ah, double bw, double bh) {
  const double common = fmin(aw, bw) * fmin(ah, bh);
  return common / (aw * ah + bw * bh - common);
}

static void match_objects(const double *x, bool by_anchor, double thresh, match *m) {
  for (int i = 0; i < IMAGES; ++i) {
    for (int c = 0; c < CELLS; ++c) {
      for (int n = 0; n < ANCHORS; ++n) {
        double box[4], most = 0;
        box_of(x, i, c, n, box);
        for (int k = 0; k < OBJECTS; ++k) {
          if (objects[k][0] == i) most = fmax(most, overlap(box, &objects[k][3]));
        }
        m->object[i][c][n] = -1;
        m->counts[i][c][n] = most <= thresh;
      }
    }
  }
  for (int k = 0; k < OBJECTS; ++k) {
    const double *o = objects[k], w = o[5] - o[3], h = o[6] - o[4];
    if (o[0] < 0) continue;
    const int column = (int)fmin((o[3] + o[5]) / 2 * SIDE, SIDE - 1);
    const int cell = (int)fmin((o[4] + o[6]) / 2 * SIDE, SIDE - 1) * SIDE + column;
    int best = 0;
    double most = 0;
    for (int n = 0; n < ANCHORS; ++n) {
      double box[4];
      box_of(x, (int)o[0], cell, n, box);
      const double aw = by_anchor ? biases[2 * n] / SIDE : box[2] - box[0];
      const double ah = by_anchor ? biases[2 * n + 1] / SIDE : box[3] - box[1];
      const double shared = intersect_sizes(aw, ah, w, h);
      if (shared > most) best = n, most = shared;
    }
    m->object[(int)o[0]][cell][best] = k;
  }
}

/* The loss of one box; weights: object, no object, class, place. */
static double loss_of_box(const double *x, const match *m, const double weight[4], int i, int c,
                          int n) {
  const int k = m->object[i][c][n];
  const double o = sigmoid(x[at(i, c, n, 4)]);
  if (k < 0) return m->counts[i][c][n] ? weight[1] / 2 * o * o : 0;
  const double *t = objects[k];
  double sum = 0, loss = weight[0] / 2 * pow(1 - o, 4);
  loss += weight[3] * smooth((t[3] + t[5]) / 2 * SIDE - c % SIDE - sigmoid(x[at(i, c, n, 0)]));
  loss += weight[3] * smooth((t[4] + t[6]) / 2 * SIDE - c / SIDE - sigmoid(x[at(i, c, n, 1)]));
  loss += weight[3] * smooth(log((t[5] - t[3]) * SIDE / biases[2 * n]) - x[at(i, c, n, 2)]);
  loss += weight[3] * smooth(log((t[6] - t[4]) * SIDE / biases[2 * n + 1]) - x[at(i, c, n, 3)]);
  for (int l = 0; l < CLASSES; ++l) sum += exp(x[at(i, c, n, 5 + l)]);
  return loss + weight[2] * (log(sum) - x[at(i, c, n, 5 + (int)t[1] - 1)]);
}

static double loss_of(const double *x, const match *m, const double weight[4]) {
  double loss = 0;
  for (int i = 0; i < IMAGES; ++i) {
    for (int c = 0; c < CELLS; ++c) {
      for (int n = 0; n < ANCHORS; ++n) loss += loss_of_box(x, m, weight, i, c, n);
    }
  }
  return loss / IMAGES;
}

static void make_loss(rig *r, crema_dtype type, const char *body) {
  char text[700];
  snprintf(text, sizeof text,
           "region_loss_param { side: 3 num: 2 num_class: 3 biases: 0.8 biases: 1.1 biases: 2.5 "
           "biases: 1.7 %s }",
           body);
  rig_make_of(r, type, "RegionLoss", text, CAFFE__PHASE__TRAIN, "2 16 3 3|1 1 5 8", 1);
}

static void fill(rig *r, uint32_t random) {
  rig_values x = rig_data_of(r->bottom[0]), label = rig_data_of(r->bottom[1]);
  for (int i = 0; i < COUNT; ++i) {
    rig_set(x, i, (double)(float)(2.4 * ((double)(rig_random(&random) % 2000) / 1000 - 1)));
  }
  for (int i = 0; i < OBJECTS * 8; ++i) rig_set(label, i, objects[i / 8][i % 8]);
}

/* The loss, and its gradient against differences. */
static void check_loss(const char *body, bool by_anchor, double thresh, const double weight[4],
                       uint32_t random) {
  double x[COUNT];
  int moved = 0;
  match m;
  rig r;
  make_loss(&r, CREMA_F64, body);
  ok(rig_setup(&r));
  fill(&r, random);
  for (int i = 0; i < COUNT; ++i) x[i] = rig_get(rig_data_of(r.bottom[0]), i);
  match_objects(x, by_anchor, thresh, &m);
  ok(rig_forward(&r));
  rig_set(rig_diff_of(r.top[0]), 0, 1.5);
  ok(rig_backward(&r));
  for (int i = 0; i < COUNT; ++i) {
    const double kept = x[i], step = 1e-6, found = rig_get(rig_diff_of(r.bottom[0]), i);
    x[i] = kept + step;
    const double high = loss_of(x, &m, weight);
    x[i] = kept - step;
    const double low = loss_of(x, &m, weight), wanted = 1.5 * (high - low) / (2 * step);
    x[i] = kept;
    if (fabs(found - wanted) > 1e-6 * (1 + fabs(wanted))) {
      print_error("%s: element %d: %g, by differences %g\n", body, i, found, wanted);
      fail();
    }
    moved += found != 0;
  }
  const double top = rig_get(rig_data_of(r.top[0]), 0);
  assert_true(fabs(top - loss_of(x, &m, weight)) < 1e-12 * top);
  assert_true(moved >= 4 * (5 + CLASSES) - 1);
  rig_free(&r);
}

TEST(gradients_of_region_loss) {
  static const double usual[4] = {1, 0.5, 1, 5}, other[4] = {5, 1, 2, 0.25};
  check_loss("", true, 0.2F, usual, 7);
  check_loss("bias_match: 0", false, 0.2F, usual, 19);
  check_loss("thresh: 0.6 object_scale: 5 noobject_scale: 1 class_scale: 2 coord_scale: 0.25", true,
             0.6F, other, 23);
}

TEST(region_loss_is_the_same_in_float) {
  double value[2], diff[2][COUNT];
  for (int f = 0; f < 2; ++f) {
    rig r;
    make_loss(&r, f ? CREMA_F32 : CREMA_F64, "");
    ok(rig_setup(&r));
    fill(&r, 5);
    ok(rig_forward(&r));
    rig_set(rig_diff_of(r.top[0]), 0, 1);
    ok(rig_backward(&r));
    value[f] = rig_get(rig_data_of(r.top[0]), 0);
    for (int i = 0; i < COUNT; ++i) diff[f][i] = rig_get(rig_diff_of(r.bottom[0]), i);
    rig_free(&r);
  }
  assert_true(fabs(value[0] - value[1]) < 1e-5 * value[0]);
  for (int i = 0; i < COUNT; ++i) assert_true(fabs(diff[0][i] - diff[1][i]) < 1e-5);
}

/* Labels 1, 2 and 3 count as classes 2, 0 and 1: the same as if the objects had these labels. */
TEST(classes_can_be_mapped) {
  static const double mapped[4] = {0, 3, 1, 2};
  double value[2];
  for (int way = 0; way < 2; ++way) {
    char body[300];
    rig r;
    write_text("map", "2\n0\n1\n");
    snprintf(body, sizeof body, "class_map: '%s'", way == 0 ? path_of("map") : "");
    make_loss(&r, CREMA_F64, body);
    ok(rig_setup(&r));
    fill(&r, 3);
    for (int k = 0; way == 1 && k < OBJECTS; ++k) {
      if (objects[k][0] < 0) continue;
      rig_set(rig_data_of(r.bottom[1]), 8 * k + 1, mapped[(int)objects[k][1]]);
    }
    ok(rig_forward(&r));
    value[way] = rig_get(rig_data_of(r.top[0]), 0);
    rig_free(&r);
  }
  assert_true(value[0] == value[1]);
  static const char *const bad[] = {"3\n", "-1\n", "0\nx\n", ""};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    char body[300];
    rig r;
    write_text("map", bad[i]);
    snprintf(body, sizeof body, "class_map: '%s'", path_of("map"));
    make_loss(&r, CREMA_F32, body);
    assert_int_equal(rig_setup(&r), i < 2 ? CREMA_E_RANGE : CREMA_E_PARSE);
    rig_free(&r);
  }
  unlink(path_of("map"));
}

static void refuse(rig *r, int element, double value, const char *text) {
  const double kept = rig_get(rig_data_of(r->bottom[1]), element);
  rig_set(rig_data_of(r->bottom[1]), element, value);
  assert_int_equal(rig_forward(r), CREMA_E_RANGE);
  assert_error_has(text);
  rig_set(rig_data_of(r->bottom[1]), element, kept);
}

TEST(objects_that_make_no_sense_are_refused) {
  rig r;
  make_loss(&r, CREMA_F32, "");
  ok(rig_setup(&r));
  fill(&r, 3);
  refuse(&r, 0, 2, "object 0 is of image 2, of 2");
  refuse(&r, 0, NAN, "object 0 is of image");
  refuse(&r, 1, 0, "object 0 has label 0, must be a class of 4 and not the background, 0");
  refuse(&r, 1, 4, "object 0 has label 4");
  r.propagate_down[1] = true;
  ok(rig_forward(&r));
  assert_int_equal(rig_backward(&r), CREMA_E_UNSUPPORTED);
  rig_free(&r);
}

/* ---- EvalDetection ---- */

typedef struct found {
  double box[4], score;
  int label;
  bool dropped;
} found;

static int compare(const void *a, const void *b) {
  const double x = ((const found *)a)->score, y = ((const found *)b)->score;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* All boxes of an image, best first, those dropped that overlap a better one. */
static void find_all(const double *x, int image, int type, double nms, found *all) {
  for (int i = 0; i < CELLS * ANCHORS; ++i) {
    const int cell = i / ANCHORS, anchor = i % ANCHORS;
    double sum = 0;
    found *f = &all[i];
    box_of(x, image, cell, anchor, f->box);
    f->label = 0;
    f->dropped = false;
    for (int c = 0; c < CLASSES; ++c) {
      sum += exp(x[at(image, cell, anchor, 5 + c)]);
      if (x[at(image, cell, anchor, 5 + c)] > x[at(image, cell, anchor, 5 + f->label)])
        f->label = c;
    }
    const double chance = exp(x[at(image, cell, anchor, 5 + f->label)]) / sum;
    const double object = sigmoid(x[at(image, cell, anchor, 4)]);
    f->score = type == 0 ? object : type == 1 ? chance : object * chance;
  }
  qsort(all, CELLS * ANCHORS, sizeof *all, compare);
  for (int i = 0; i < CELLS * ANCHORS; ++i) {
    all[i].dropped = all[i].dropped || all[i].score < 0.005;
    for (int k = i + 1; k < CELLS * ANCHORS && !all[i].dropped && nms >= 0; ++k) {
      if (overlap(all[i].box, all[k].box) >= nms) all[k].dropped = true;
    }
  }
}

static void check_image(const double *x, int image, int type, double nms, double threshold,
                        const rig_values top) {
  enum { WIDTH = CLASSES + 4 * CELLS * ANCHORS };
  found all[CELLS * ANCHORS];
  bool taken[OBJECTS] = {false};
  int64_t row = image * WIDTH;
  int rights = 0;
  find_all(x, image, type, nms, all);
  for (int c = 0; c < CLASSES; ++c) {
    int count = 0;
    for (int k = 0; k < OBJECTS; ++k) count += objects[k][0] == image && objects[k][1] == c + 1;
    assert_true(rig_get(top, row++) == count);
  }
  for (int c = 0; c < CLASSES; ++c) {
    for (int i = 0; i < CELLS * ANCHORS; ++i) {
      if (all[i].dropped || all[i].label != c) continue;
      int best = -1;
      double most = -1;
      for (int k = 0; k < OBJECTS; ++k) {
        if (objects[k][0] != image || objects[k][1] != c + 1) continue;
        const double shared = overlap(all[i].box, &objects[k][3]);
        if (shared > most) best = k, most = shared;
      }
      const bool right = best >= 0 && most >= threshold && !taken[best];
      if (right) taken[best] = true;
      rights += right;
      assert_true(rig_get(top, row) == c);
      assert_true(fabs(rig_get(top, row + 1) - all[i].score) < 1e-6);
      assert_true(rig_get(top, row + 2) == right && rig_get(top, row + 3) == !right);
      row += 4;
    }
  }
  for (; row < (image + 1) * WIDTH; ++row) assert_true(rig_get(top, row) == 0);
  assert_in_range(rights, 1, 3);
}

TEST(evaluation_by_brute_force) {
  static const struct {
    const char *body;
    int type;
    double nms, threshold;
  } cases[] = {{"nms: 0.45 threshold: 0.25", 2, 0.45F, 0.25},
               {"score_type: OBJ nms: 0.2 threshold: 0.1", 0, 0.2F, 0.1F},
               {"score_type: PROB threshold: 0.25", 1, -1, 0.25}};
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; ++c) {
    double x[COUNT];
    char text[500];
    rig r;
    snprintf(text, sizeof text,
             "eval_detection_param { side: 3 num_object: 2 num_class: 3 biases: 0.8 biases: 1.1 "
             "biases: 2.5 biases: 1.7 %s }",
             cases[c].body);
    rig_make_of(&r, CREMA_F64, "EvalDetection", text, CAFFE__PHASE__TEST, "2 16 3 3|1 1 5 8", 1);
    ok(rig_setup(&r));
    fill(&r, 41);
    /* A box on each of two objects, which have a class of their own. */
    rig_values map = rig_data_of(r.bottom[0]);
    for (int k = 0; k < 4; ++k) rig_set(map, at(1, 4, 1, k), 0);
    rig_set(map, at(1, 4, 1, 5 + 2), 5);
    rig_set(map, at(0, 0, 0, 0), 0);
    rig_set(map, at(0, 0, 0, 1), 1);
    rig_set(map, at(0, 0, 0, 2), 0);
    rig_set(map, at(0, 0, 0, 3), 0);
    rig_set(map, at(0, 0, 0, 5), 5);
    rig_set(map, at(0, 0, 0, 4), 3);
    rig_set(map, at(1, 4, 1, 4), 3);
    for (int i = 0; i < COUNT; ++i) x[i] = rig_get(map, i);
    ok(rig_forward(&r));
    for (int i = 0; i < IMAGES; ++i) {
      check_image(x, i, cases[c].type, cases[c].nms, cases[c].threshold, rig_data_of(r.top[0]));
    }
    rig_free(&r);
  }
}

/* Intel Caffe's own nets give it the pictures, too. */
TEST(evaluation_takes_pictures_as_well) {
  static const char text[] =
      "layer { name: 'in' type: 'Input' top: 'map' top: 'label' top: 'data' input_param {"
      "  shape { dim: 2 dim: 14 dim: 3 dim: 3 } shape { dim: 1 dim: 1 dim: 4 dim: 8 }"
      "  shape { dim: 2 dim: 3 dim: 6 dim: 6 } } }"
      "layer { name: 'right' type: 'EvalDetection' bottom: 'map' bottom: 'label' bottom: 'data'"
      "  top: 'right' eval_detection_param { side: 3 num_class: 2 num_object: 2"
      "    biases: 1 biases: 1 biases: 2 biases: 2 } }";
  crema_net *net = NULL;
  crema_blob *right = NULL;
  ok(crema_net_parse(text, strlen(text), "text", NULL, &net));
  ok(crema_net_forward(net, NULL));
  ok(crema_net_blob(net, "right", &right));
  assert_int_equal(crema_blob_count(right), 2 * (2 + 4 * 18));
  crema_net_destroy(net);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
