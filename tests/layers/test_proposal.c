/* Proposal against what py-faster-rcnn's steps make, one after the other, of all anchors in double.
 */
#include "layers/layer_rig.h"

enum { IMAGES = 2, ANCHORS = 4, HEIGHT = 5, WIDTH = 7, CELLS = HEIGHT * WIDTH, STRIDE = 8 };
enum { ALL = CELLS * ANCHORS };

static const char fields[] = "feat_stride: 8 base_size: 8 ratio: 0.5 ratio: 2 scale: 1 scale: 2.5";

typedef struct proposed {
  double at[4], score; /* the corners are pixels of the box */
} proposed;

/* Of ratio 0.5, round(sqrt(64 / 0.5)) = 11 and round(11 * 0.5) = 6; of ratio 2, 6 and 12. */
static void move_anchor(const rig *r, int image, int cell, int anchor, proposed *out) {
  static const double width[2] = {11, 6}, height[2] = {6, 12}, scale[2] = {1, 2.5};
  const float *offset = rig_data(r->bottom[1]) + (image * ANCHORS + anchor) * 4 * CELLS + cell;
  const double size[2] = {width[anchor / 2] * scale[anchor % 2],
                          height[anchor / 2] * scale[anchor % 2]};
  const double middle[2] = {STRIDE * (cell % WIDTH) + 4, STRIDE * (cell / WIDTH) + 4};
  const double *limit = (const double[]){(double)rig_data(r->bottom[2])[3 * image + 1] - 1,
                                         (double)rig_data(r->bottom[2])[3 * image] - 1};
  for (int axis = 0; axis < 2; ++axis) {
    const double centre = middle[axis] + (double)offset[axis * CELLS] * size[axis];
    const double half = exp((double)offset[(2 + axis) * CELLS]) * size[axis] / 2;
    out->at[axis] = fmin(fmax(centre - half, 0), limit[axis]);
    out->at[2 + axis] = fmin(fmax(centre + half, 0), limit[axis]);
  }
  out->score =
      (double)rig_data(r->bottom[0])[(image * 2 * ANCHORS + ANCHORS + anchor) * CELLS + cell];
}

static double overlap_of(const proposed *a, const proposed *b) {
  double shared = 1, of_a = 1, of_b = 1;
  for (int axis = 0; axis < 2; ++axis) {
    shared *= fmax(0, fmin(a->at[axis + 2], b->at[axis + 2]) - fmax(a->at[axis], b->at[axis]) + 1);
    of_a *= a->at[axis + 2] - a->at[axis] + 1;
    of_b *= b->at[axis + 2] - b->at[axis] + 1;
  }
  return shared / (of_a + of_b - shared);
}

static int by_score(const void *a, const void *b) {
  const double x = ((const proposed *)a)->score, y = ((const proposed *)b)->score;
  return x < y ? 1 : x > y ? -1 : 0;
}

typedef struct limits {
  int before, after;
  double overlap, side;
} limits;

/* The regions of an image, best first; returns how many. */
static int propose(const rig *r, int image, const limits *most, proposed *kept) {
  proposed all[ALL];
  int count = 0, left = 0;
  const double least = most->side * (double)rig_data(r->bottom[2])[3 * image + 2];
  for (int i = 0; i < ALL; ++i) {
    move_anchor(r, image, i / ANCHORS, i % ANCHORS, &all[count]);
    const double *at = all[count].at;
    count += at[2] - at[0] + 1 >= least && at[3] - at[1] + 1 >= least;
  }
  qsort(all, (size_t)count, sizeof *all, by_score);
  for (int i = 0; i < count && i < most->before && left < most->after; ++i) {
    bool keep = true;
    for (int k = 0; k < left && keep; ++k) keep = overlap_of(&all[i], &kept[k]) <= most->overlap;
    if (keep) kept[left++] = all[i];
  }
  return left;
}

static void fill(rig *r, uint32_t random) {
  static const float info[2 * 3] = {40, 56, 1, 37, 50, 2};
  for (int b = 0; b < 2; ++b) {
    rig_fill(rig_data(r->bottom[b]), crema_blob_count(r->bottom[b]), -1, 1, &random);
  }
  memcpy(rig_data(r->bottom[2]), info, sizeof info);
}

static void check(const limits *most, uint32_t random) {
  char body[400];
  int64_t row = 0;
  rig r;
  snprintf(body, sizeof body,
           "proposal_param { %s pre_nms_topn: %d post_nms_topn: %d nms_thresh: %g min_size: %g }",
           fields, most->before, most->after, most->overlap, most->side);
  rig_make(&r, "Proposal", body, CAFFE__PHASE__TEST, "2 8 5 7|2 16 5 7|2 3", 2);
  ok(rig_setup(&r));
  fill(&r, random);
  ok(rig_forward(&r));
  for (int image = 0; image < IMAGES; ++image) {
    proposed kept[ALL];
    const int count = propose(&r, image, most, kept);
    assert_true(count > 2 && count < ALL);
    for (int i = 0; i < count; ++i, ++row) {
      const float *found = rig_data(r.top[0]) + 5 * row;
      assert_true(row < r.top[0]->shape.dim[0]);
      assert_true(found[0] == (float)image);
      assert_true(rig_data(r.top[1])[row] == (float)kept[i].score);
      for (int k = 0; k < 4; ++k) assert_true(fabs((double)found[1 + k] - kept[i].at[k]) < 1e-4);
    }
  }
  assert_int_equal(row, r.top[0]->shape.dim[0]);
  rig_free(&r);
}

TEST(regions_by_brute_force) {
  static const limits all[] = {
      {6000, 300, 0.7, 0}, {6000, 300, 0.25, 7}, {40, 300, 0.5, 4}, {6000, 11, 0.5, 4}};
  for (uint32_t trial = 0; trial < 12; ++trial) check(&all[trial % 4], 101 + trial);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
