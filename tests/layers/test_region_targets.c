/* What Faster R-CNN learns from: AnchorTarget and ProposalTarget against brute force, and the forms
 * that py-faster-rcnn's nets give these layers. */
#include "core/rng.h"
#include "layers/layer_rig.h"

enum { HEIGHT = 7, WIDTH = 9, STRIDE = 8, ANCHORS = 6, CELLS = HEIGHT * WIDTH, OBJECTS = 5 };

static const double image_height = 60, image_width = 70;

typedef struct box {
  double at[4];
} box;

static double side(box b, int axis) {
  return b.at[axis + 2] - b.at[axis] + 1;
}

static double overlap_of(box a, box b) {
  double shared = 1;
  for (int axis = 0; axis < 2; ++axis) {
    const double low = a.at[axis] > b.at[axis] ? a.at[axis] : b.at[axis];
    const double high = a.at[axis + 2] < b.at[axis + 2] ? a.at[axis + 2] : b.at[axis + 2];
    shared *= high - low + 1 > 0 ? high - low + 1 : 0;
  }
  return shared / (side(a, 0) * side(a, 1) + side(b, 0) * side(b, 1) - shared);
}

static void offset_of(box from, box to, double out[4]) {
  for (int axis = 0; axis < 2; ++axis) {
    const double centre = from.at[axis] + side(from, axis) / 2;
    out[axis] = (to.at[axis] + side(to, axis) / 2 - centre) / side(from, axis);
    out[2 + axis] = log(side(to, axis) / side(from, axis));
  }
}

/* Two ratios and three scales of a square of 8 pixels; heights and widths worked out by hand: of
 * ratio 0.5, round(sqrt(64 / 0.5)) = 11 and round(11 * 0.5) = 6; of ratio 2, 6 and 12. */
static const char anchors_text[] =
    "base_size: 8 feat_stride: 8 ratio: 0.5 ratio: 2 scale: 1 scale: 2 scale: 3.5";

static box anchor_of(int anchor, int cell) {
  static const double width[2] = {11, 6}, height[2] = {6, 12}, scale[3] = {1, 2, 3.5};
  const double w = width[anchor / 3] * scale[anchor % 3],
               h = height[anchor / 3] * scale[anchor % 3];
  const double x = 3.5 + STRIDE * (cell % WIDTH), y = 3.5 + STRIDE * (cell / WIDTH);
  return (box){{x - (w - 1) / 2, y - (h - 1) / 2, x + (w - 1) / 2, y + (h - 1) / 2}};
}

static double draw(uint32_t *random, double low, double high) {
  return low + (high - low) * (rig_random(random) % 10007) / 10007;
}

static void fill_objects(crema_blob *blob, uint32_t *random) {
  float *value = rig_data(blob);
  for (int g = 0; g < blob->shape.dim[0]; ++g) {
    const double x = draw(random, 0, 40), y = draw(random, 0, 30);
    const double row[5] = {x, y, x + draw(random, 5, 28), y + draw(random, 5, 28),
                           1 + rig_random(random) % 2};
    for (int k = 0; k < 5; ++k) value[5 * g + k] = (float)row[k];
  }
}

static box object_of(crema_blob *blob, int g) {
  const float *value = rig_data(blob) + 5 * g;
  return (box){{(double)value[0], (double)value[1], (double)value[2], (double)value[3]}};
}

/* ---- AnchorTarget ---- */

static void make_anchor_target(rig *r, const char *fields, int objects, uint32_t *random) {
  char body[400], shapes[100];
  snprintf(body, sizeof body, "anchor_target_param { %s %s }", anchors_text, fields);
  snprintf(shapes, sizeof shapes, "1 %d %d %d|%d 5|1 3", 2 * ANCHORS, HEIGHT, WIDTH, objects);
  rig_make_of(r, CREMA_F32, "AnchorTarget", body, CAFFE__PHASE__TRAIN, shapes, 4);
  ok(rig_setup(r));
  fill_objects(r->bottom[1], random);
  float *info = rig_data(r->bottom[2]);
  info[0] = (float)image_height;
  info[1] = (float)image_width;
  info[2] = 1;
}

/* What each anchor is before any are drawn: 1, 0 or -1; *best: its object, -1 outside. */
static int label_of(crema_blob *objects, double border, int anchor, int cell, int *best) {
  const box a = anchor_of(anchor, cell);
  double most = -1, of_object[OBJECTS] = {0};
  bool is_best = false;
  *best = -1;
  if (a.at[0] < -border || a.at[1] < -border || a.at[2] >= image_width + border ||
      a.at[3] >= image_height + border) {
    return -1;
  }
  for (int g = 0; g < OBJECTS; ++g) {
    const double overlap = overlap_of(a, object_of(objects, g));
    for (int i = 0; i < CELLS * ANCHORS; ++i) {
      const box b = anchor_of(i % ANCHORS, i / ANCHORS);
      if (b.at[0] < -border || b.at[1] < -border || b.at[2] >= image_width + border ||
          b.at[3] >= image_height + border) {
        continue;
      }
      of_object[g] = fmax(of_object[g], overlap_of(b, object_of(objects, g)));
    }
    is_best = is_best || (overlap > 0 && overlap == of_object[g]);
    if (overlap <= most) continue;
    most = overlap;
    *best = g;
  }
  return is_best || most >= (double)0.5f ? 1 : most < (double)0.25f ? 0 : -1;
}

static void assert_near(double found, double wanted, const char *what, int64_t at) {
  if (fabs(found - wanted) <= 1e-5 * (1 + fabs(wanted))) return;
  print_error("%s %lld: %.9g, by brute force %.9g\n", what, (long long)at, found, wanted);
  fail();
}

TEST(targets_of_anchors_by_brute_force) {
  uint32_t random = 77;
  for (int trial = 0; trial < 6; ++trial) {
    const double border = trial % 3 * 4;
    char fields[200];
    rig r;
    snprintf(
        fields, sizeof fields,
        "positive_overlap: 0.5 negative_overlap: 0.25 batch_size: 100000 allowed_border: %d %s",
        (int)border, trial == 5 ? "positive_weight: 0.3" : "");
    make_anchor_target(&r, fields, OBJECTS, &random);
    ok(rig_forward(&r));
    int label[CELLS * ANCHORS], best[CELLS * ANCHORS], counted[2] = {0};
    for (int i = 0; i < CELLS * ANCHORS; ++i) {
      label[i] = label_of(r.bottom[1], border, i % ANCHORS, i / ANCHORS, &best[i]);
      if (label[i] >= 0) ++counted[label[i]];
    }
    assert_true(counted[1] >= OBJECTS / 2 && counted[0] > 20);
    for (int i = 0; i < CELLS * ANCHORS; ++i) {
      const int anchor = i % ANCHORS, cell = i / ANCHORS;
      double offset[4] = {0};
      if (best[i] >= 0) offset_of(anchor_of(anchor, cell), object_of(r.bottom[1], best[i]), offset);
      assert_near((double)rig_data(r.top[0])[anchor * CELLS + cell], label[i], "label", i);
      for (int k = 0; k < 4; ++k) {
        const int at = (4 * anchor + k) * CELLS + cell;
        const double equal = 1.0 / (counted[0] + counted[1]);
        const double shares[2] = {trial == 5 ? 0.7 / counted[0] : equal,
                                  trial == 5 ? 0.3 / counted[1] : equal};
        assert_near((double)rig_data(r.top[1])[at], offset[k], "target", at);
        assert_near((double)rig_data(r.top[2])[at], label[i] == 1, "inside weight", at);
        assert_near((double)rig_data(r.top[3])[at], label[i] < 0 ? 0 : shares[label[i]],
                    "outside weight", at);
      }
    }
    rig_free(&r);
  }
}

/* Of all anchors that count, batch_size stay, half of them objects at most; which ones depends on
 * the seed and the pass alone. */
TEST(anchors_are_drawn_by_seed_and_pass) {
  static const char fields[] =
      "positive_overlap: 0.3 negative_overlap: 0.2 batch_size: 20 fg_fraction: 0.25 "
      "allowed_border: 8";
  float kept[4][CELLS * ANCHORS];
  float all[CELLS * ANCHORS];
  for (int run = 0; run < 5; ++run) {
    uint32_t random = 5;
    rig r;
    make_anchor_target(&r,
                       run < 4 ? fields
                               : "positive_overlap: 0.3 negative_overlap: 0.2 batch_size: 100000 "
                                 "fg_fraction: 1 allowed_border: 8",
                       OBJECTS, &random);
    if (run == 2) r.layer->pass = 1;
    if (run == 3) r.layer->key ^= 1;
    ok(rig_forward(&r));
    memcpy(run < 4 ? kept[run] : all, rig_data(r.top[0]), sizeof all);
    rig_free(&r);
  }
  assert_memory_equal(kept[0], kept[1], sizeof all);
  assert_memory_not_equal(kept[0], kept[2], sizeof all);
  assert_memory_not_equal(kept[0], kept[3], sizeof all);
  for (int run = 0; run < 4; ++run) {
    int counted[2] = {0};
    for (int i = 0; i < CELLS * ANCHORS; ++i) {
      if (kept[run][i] < 0) continue;
      assert_true(kept[run][i] == all[i]);
      ++counted[(int)kept[run][i]];
    }
    assert_int_equal(counted[1], 5);
    assert_int_equal(counted[0], 15);
  }
}

TEST(a_picture_without_objects_is_background) {
  uint32_t random = 9;
  int background = 0;
  rig r;
  make_anchor_target(&r, "batch_size: 12", 1, &random);
  const crema_shape none = cr_shape_2(0, 5);
  ok(crema_blob_reshape(r.bottom[1], &none));
  ok(rig_forward(&r));
  for (int i = 0; i < CELLS * ANCHORS; ++i) background += rig_data(r.top[0])[i] == 0;
  assert_int_equal(background, 12);
  for (int i = 0; i < 4 * CELLS * ANCHORS; ++i) assert_true(rig_data(r.top[1])[i] == 0);
  rig_free(&r);
}

/* ---- ProposalTarget ---- */

enum { REGIONS = 60, CLASSES = 3 };

static void make_proposal_target(rig *r, int classes, const char *fields, uint32_t *random) {
  char body[300], shapes[100];
  snprintf(body, sizeof body, "proposal_target_param { num_classes: %d %s }", classes, fields);
  snprintf(shapes, sizeof shapes, "%d 5|%d 5", REGIONS, OBJECTS);
  rig_make_of(r, CREMA_F32, "ProposalTarget", body, CAFFE__PHASE__TRAIN, shapes, 5);
  ok(rig_setup(r));
  fill_objects(r->bottom[1], random);
  float *roi = rig_data(r->bottom[0]);
  for (int i = 0; i < REGIONS; ++i) {
    const box near = object_of(r->bottom[1], i % OBJECTS);
    roi[5 * i] = 0;
    for (int k = 0; k < 4; ++k) {
      roi[5 * i + 1 + k] = (float)(near.at[k] + draw(random, 0, i % 3 * 4) + (i % 7 == 6 ? 90 : 0));
    }
  }
}

/* The region with these numbers among proposals and objects; its best object. */
static int find_region(const rig *r, const float *roi, double *overlap) {
  bool known = false;
  int best = 0;
  const box b = {{(double)roi[1], (double)roi[2], (double)roi[3], (double)roi[4]}};
  for (int i = 0; i < REGIONS; ++i) {
    known = known || memcmp(rig_data(r->bottom[0]) + 5 * i, roi, 5 * sizeof *roi) == 0;
  }
  *overlap = -1;
  for (int g = 0; g < OBJECTS; ++g) {
    const double now = overlap_of(b, object_of(r->bottom[1], g));
    known = known || memcmp(rig_data(r->bottom[1]) + 5 * g, roi + 1, 4 * sizeof *roi) == 0;
    if (now <= *overlap) continue;
    *overlap = now;
    best = g;
  }
  assert_true(known && roi[0] == 0);
  return best;
}

static void check_region(const rig *r, int64_t row, int wanted, const double std[4], double low) {
  double overlap = 0, offset[4];
  const float *roi = rig_data(r->top[0]) + 5 * row;
  const int best = find_region(r, roi, &overlap);
  const box b = {{(double)roi[1], (double)roi[2], (double)roi[3], (double)roi[4]}};
  const int label = (int)rig_data(r->top[1])[row];
  assert_int_equal(label, wanted ? (int)rig_data(r->bottom[1])[5 * best + 4] : 0);
  assert_true(wanted ? overlap >= 0.5 : overlap < 0.5 && overlap >= low);
  offset_of(b, object_of(r->bottom[1], best), offset);
  for (int k = 0; k < 4 * CLASSES; ++k) {
    const int64_t at = row * 4 * CLASSES + k;
    const bool counts = wanted && k / 4 == label;
    assert_near((double)rig_data(r->top[2])[at], counts ? offset[k % 4] / std[k % 4] : 0, "target",
                at);
    assert_near((double)rig_data(r->top[3])[at], counts, "inside weight", at);
    assert_near((double)rig_data(r->top[4])[at], counts, "outside weight", at);
  }
}

TEST(targets_of_regions_by_brute_force) {
  static const double usual[4] = {0.1, 0.1, 0.2, 0.2}, given[4] = {1, 2, 3, 4};
  uint32_t random = 31;
  for (int trial = 0; trial < 8; ++trial) {
    const bool own = trial % 2 != 0, all = trial < 4;
    char fields[200];
    int objects = OBJECTS, background = 0;
    rig r;
    snprintf(fields, sizeof fields, "batch_size: %d fg_fraction: %s bg_thresh_lo: %s %s",
             all ? 1000 : 14, all ? "1" : "0.25", own ? "0.125" : "0",
             own ? "bbox_std: 1 bbox_std: 2 bbox_std: 3 bbox_std: 4" : "");
    make_proposal_target(&r, CLASSES, fields, &random);
    for (int i = 0; i < REGIONS; ++i) {
      double overlap = 0;
      (void)find_region(&r, rig_data(r.bottom[0]) + 5 * i, &overlap);
      objects += overlap >= 0.5;
      background += overlap < 0.5 && overlap >= (own ? 0.125 : 0);
    }
    /* round(0.25 * 14) is 4, as rint has it. */
    if (!all && objects > 4) objects = 4;
    if (!all && background > 14 - objects) background = 14 - objects;
    ok(rig_forward(&r));
    assert_true(objects > 3 && background > 0);
    assert_int_equal(r.top[0]->shape.dim[0], objects + background);
    for (int64_t row = 0; row < objects + background; ++row) {
      check_region(&r, row, row < objects, own ? given : usual, own ? 0.125 : 0);
    }
    rig_free(&r);
  }
}

/* Class-agnostic boxes: a label of its own for each class, and the columns of class 1 for all. */
TEST(two_classes_stand_for_any) {
  static const float label[OBJECTS] = {1, 20, 3, 7, 20};
  float found[2][8 * 1000];
  int64_t rows[2];
  for (int way = 0; way < 2; ++way) {
    uint32_t random = 31;
    rig r;
    make_proposal_target(&r, 2, "batch_size: 1000 fg_fraction: 1", &random);
    for (int g = 0; g < OBJECTS; ++g) rig_data(r.bottom[1])[5 * g + 4] = way == 0 ? 1 : label[g];
    ok(rig_forward(&r));
    rows[way] = r.top[0]->shape.dim[0];
    assert_int_equal(crema_blob_count(r.top[2]), 8 * rows[way]);
    memcpy(found[way], rig_data(r.top[2]), (size_t)(8 * rows[way]) * sizeof(float));
    for (int64_t row = 0; row < rows[way]; ++row) {
      double overlap = 0;
      const int best = find_region(&r, rig_data(r.top[0]) + 5 * row, &overlap);
      const float wanted = overlap < 0.5 ? 0 : way == 0 ? 1 : label[best];
      assert_true(rig_data(r.top[1])[row] == wanted);
      for (int k = 0; k < 8; ++k) {
        assert_true(rig_data(r.top[3])[8 * row + k] == (k >= 4 && wanted > 0));
      }
    }
    rig_data(r.bottom[1])[4] = -1;
    assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
    rig_free(&r);
  }
  assert_true(rows[0] == rows[1] && rows[0] > 2 * OBJECTS);
  assert_memory_equal(found[0], found[1], (size_t)(8 * rows[0]) * sizeof(float));
}

TEST(objects_that_make_no_sense_are_refused) {
  uint32_t random = 3;
  rig r;
  make_proposal_target(&r, CLASSES, "", &random);
  rig_data(r.bottom[1])[4] = CLASSES;
  assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
  assert_error_has("object 0 has label 3, must be 0 to 2");
  rig_data(r.bottom[1])[4] = 1;
  rig_data(r.bottom[1])[2] = rig_data(r.bottom[1])[0] - 1;
  assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
  assert_error_has("object 0 is 0 x ");
  rig_data(r.bottom[1])[2] = NAN;
  assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
  fill_objects(r.bottom[1], &random);
  rig_data(r.bottom[0])[10] = 1;
  assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
  assert_error_has("region 2 is of image 1");
  rig_free(&r);
}

/* ---- as py-faster-rcnn has them ---- */

/* A layer of type Python does what crema's own does with the same fields. */
static void check_python(const char *type, const char *own, const char *module, const char *name,
                         const char *python, const char *shapes, int tops) {
  char body[400];
  rig r[2];
  snprintf(body, sizeof body, "python_param { module: '%s' layer: '%s' param_str: \"%s\" }", module,
           name, python);
  rig_make_of(&r[0], CREMA_F32, type, own, CAFFE__PHASE__TRAIN, shapes, tops);
  rig_make_of(&r[1], CREMA_F32, "Python", body, CAFFE__PHASE__TRAIN, shapes, tops);
  assert_ptr_equal(r[0].layer->kind, r[1].layer->kind);
  for (int i = 0; i < 2; ++i) {
    uint32_t random = 12;
    ok(rig_setup(&r[i]));
    for (int b = 0; b < r[i].bottoms; ++b) {
      rig_fill(rig_data(r[i].bottom[b]), crema_blob_count(r[i].bottom[b]), 0, 1, &random);
    }
    if (r[i].bottoms == 3) rig_data(r[i].bottom[2])[0] = rig_data(r[i].bottom[2])[1] = 200;
    if (r[i].bottoms == 3 && tops == 4) fill_objects(r[i].bottom[1], &random);
    if (r[i].bottoms == 2) fill_objects(r[i].bottom[1], &random);
    for (int n = 0; r[i].bottoms == 2 && n < 9; ++n) rig_data(r[i].bottom[0])[5 * n] = 0;
    ok(rig_forward(&r[i]));
  }
  for (int t = 0; t < tops; ++t) {
    const int64_t count = crema_blob_count(r[0].top[t]);
    assert_int_equal(crema_blob_count(r[1].top[t]), count);
    assert_true(count > 0);
    assert_memory_equal(rig_data(r[0].top[t]), rig_data(r[1].top[t]),
                        (size_t)count * sizeof(float));
  }
  rig_free(&r[0]);
  rig_free(&r[1]);
}

TEST(layers_of_py_faster_rcnn_are_our_own) {
  check_python("AnchorTarget", "anchor_target_param { feat_stride: 8 }", "rpn.anchor_target_layer",
               "AnchorTargetLayer", "'feat_stride': 8", "1 18 9 8|3 5|1 3", 4);
  check_python(
      "AnchorTarget",
      "anchor_target_param { scale: 1 scale: 2.5 ratio: 0.333 ratio: 1 ratio: 3 allowed_border: 3 "
      "feat_stride: 16 }",
      "rpn.anchor_target_layer", "AnchorTargetLayer",
      "{'feat_stride': 16, 'scales': [1, 2.5], 'ratios': [0.333, 1, 3], \\\"allowed_border\\\": 3}",
      "1 12 9 8|3 5|1 3", 4);
  check_python("AnchorTarget",
               "anchor_target_param { scale: 4 scale: 8 scale: 16 scale: 32 feat_stride: 16 }",
               "rpn.anchor_target_layer", "AnchorTargetLayer",
               "'feat_stride': 16 \\n'scales': !!python/tuple [4, 8, 16, 32]", "1 24 9 8|3 5|1 3",
               4);
  check_python(
      "Proposal", "proposal_param { pre_nms_topn: 12000 post_nms_topn: 2000 min_size: 16 }",
      "rpn.proposal_layer", "ProposalLayer", "'feat_stride': 16", "1 18 9 8|1 36 9 8|1 3", 1);
  check_python("Proposal",
               "proposal_param { ratio: 0.667 ratio: 1.5 scale: 2 pre_nms_topn: 12000 "
               "post_nms_topn: 2000 min_size: 16 }",
               "rpn.proposal_layer", "ProposalLayer",
               "{'feat_stride': 16, 'ratios': [0.667, 1.5], 'scales': [2]}", "1 4 9 8|1 8 9 8|1 3",
               1);
  check_python("ProposalTarget", "proposal_target_param { num_classes: 4 }",
               "rpn.proposal_target_layer", "ProposalTargetLayer", "'num_classes': 4", "9 5|3 5",
               5);
}

/* Fields that our layers do not know, and text that cannot be read. */
TEST(param_str_is_read_or_refused) {
  static const struct {
    const char *text;
    crema_status status;
    const char *says;
  } given[] = {
      {"'stride': 8", CREMA_E_UNKNOWN_NAME,
       "a field 'stride'; crema's own layer knows: feat_stride"},
      {"'feat_stride' 8", CREMA_E_PARSE, "expected fields like"},
      {"'feat_stride': ", CREMA_E_PARSE, "expected fields like"},
      {"'feat_stride': nan", CREMA_E_PARSE, "expected fields like"},
      {"{'feat_stride': 8", CREMA_E_PARSE, "expected fields like"},
      {"'feat_stride': 8}", CREMA_E_PARSE, "expected fields like"},
      {"'scales': [8", CREMA_E_PARSE, "expected fields like"},
      {"'scales': []", CREMA_E_PARSE, "expected fields like"},
      {"'scales': !!python/tuple 8", CREMA_E_PARSE, "expected fields like"},
      {"'scales': !!python/name [8]", CREMA_E_PARSE, "expected fields like"},
      {"'feat_stride: 8", CREMA_E_PARSE, "expected fields like"},
      {"'feat_stride': 0", CREMA_E_ARGUMENT, "feat_stride and base_size"},
  };
  for (size_t i = 0; i < sizeof given / sizeof *given; ++i) {
    char body[300];
    rig r;
    snprintf(
        body, sizeof body,
        "python_param { module: 'rpn.proposal_layer' layer: 'ProposalLayer' param_str: \"%s\" }",
        given[i].text);
    rig_make_of(&r, CREMA_F32, "Python", body, CAFFE__PHASE__TRAIN, "1 18 2 2|1 36 2 2|1 3", 1);
    assert_int_equal(rig_setup(&r), given[i].status);
    assert_error_has(given[i].says);
    rig_free(&r);
  }
}

/* Any other module is left to Python, and so is Fast R-CNN's data layer, which has six tops. */
TEST(other_layers_in_python_are_not) {
  static const char *const texts[] = {
      "name: 'p' type: 'Python' python_param { module: 'mine' layer: 'Mine' }",
      "name: 'p' type: 'Python' top: 'a' top: 'b' top: 'c' top: 'd' top: 'e' top: 'f' "
      "python_param { module: 'roi_data_layer.layer' layer: 'RoIDataLayer' }"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    ProtobufCMessage *message = NULL;
    const cr_layer_class *kind = NULL;
    ok(cr_text_parse(&caffe__layer_parameter__descriptor, texts[i], strlen(texts[i]), "test",
                     CR_UNKNOWN_ERROR, &message));
    assert_int_equal(cr_layer_class_of((Caffe__LayerParameter *)message, NULL, &kind),
                     CREMA_E_UNSUPPORTED);
    assert_error_has("import caffe");
    cr_message_free(message);
  }
}

/* ---- what is found ---- */

/* Regions of two pictures, in the boxes that their offsets make, each against its own picture. */
TEST(detections_of_regions) {
  static const float regions[15] = {0, 10, 20, 29, 39, 1, 10, 20, 29, 39, 1, 0, 0, 9, 9};
  static const float info[6] = {50, 100, 1, 100, 200, 2};
  rig r;
  rig_make_of(
      &r, CREMA_F32, "DetectionOutput",
      "detection_output_param { num_classes: 2 share_location: false code_type: CENTER_SIZE "
      "confidence_threshold: 0.5 nms_param { nms_threshold: 0.3 } }",
      CAFFE__PHASE__TEST, "3 8|3 2|3 5|2 3", 1);
  ok(rig_setup(&r));
  memcpy(rig_data(r.bottom[2]), regions, sizeof regions);
  memcpy(rig_data(r.bottom[3]), info, sizeof info);
  memset(rig_data(r.bottom[0]), 0, 24 * sizeof(float));
  rig_data(r.bottom[0])[4] = 5;                       /* half its width of 20 to the right */
  rig_data(r.bottom[0])[8 + 7] = (float)(5 * log(2)); /* twice as high */
  for (int i = 0; i < 6; ++i) rig_data(r.bottom[1])[i] = i % 2 ? 0.9f : 0.1f;
  rig_data(r.bottom[1])[5] = 0.4f;
  ok(rig_forward(&r));
  const float wanted[2][7] = {{0, 1, 0.9f, 0.2f, 0.4f, 0.4f, 0.8f},
                              {1, 1, 0.9f, 0.05f, 0.1f, 0.15f, 0.5f}};
  assert_int_equal(r.top[0]->shape.dim[2], 2);
  for (int i = 0; i < 14; ++i) {
    assert_near((double)rig_data(r.top[0])[i], (double)wanted[i / 7][i % 7], "detection", i);
  }
  rig_data(r.bottom[0])[4] = -20; /* out of the picture: what is left of it has no width */
  ok(rig_forward(&r));
  assert_true(rig_data(r.top[0])[3] == 0 && rig_data(r.top[0])[5] == 0);
  rig_free(&r);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
