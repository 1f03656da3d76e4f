/* Layers of detectors against an independent implementation: torchvision.inc has what it computes.
 */
#include "layers/detection/geometry/boxes.h"
#include "layers/layer_rig.h"
#include "layers/torchvision.inc"

static void fill(crema_blob *blob) {
  rig_values v = rig_data_of(blob);
  for (int64_t i = 0; i < v.count; ++i) rig_set(v, i, (double)(i * 37 % 101 - 50) / 32);
}

static void compare(const char *type, const char *body, const char *shapes, const double *regions,
                    const double *wanted, int64_t count) {
  rig r;
  rig_make_of(&r, CREMA_F64, type, body, CAFFE__PHASE__TEST, shapes, 1);
  ok(rig_setup(&r));
  fill(r.bottom[0]);
  for (int i = 0; i < 20; ++i) rig_set(rig_data_of(r.bottom[1]), i, regions[i]);
  ok(rig_forward(&r));
  assert_int_equal(crema_blob_count(r.top[0]), count);
  for (int64_t i = 0; i < count; ++i) {
    const double found = rig_get(rig_data_of(r.top[0]), i);
    if (fabs(found - wanted[i]) <= 1e-8) continue;
    print_error("%s %s: element %lld: %.12g, torchvision %.12g\n", type, body, (long long)i, found,
                wanted[i]);
    fail();
  }
  rig_free(&r);
}

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

TEST(regions_are_pooled_as_torchvision_does) {
  static const char *const map = "2 3 8 9|4 5";
  compare("ROIPooling", "roi_pooling_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.75 }", map,
          tv_regions, tv_roi_pool, COUNT(tv_roi_pool));
  compare("ROIAlign", "roi_align_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.75 }", map,
          tv_regions, tv_roi_align_0, COUNT(tv_roi_align_0));
  compare("ROIAlign",
          "roi_align_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.75 sampling_ratio: 2 }", map,
          tv_regions, tv_roi_align_2, COUNT(tv_roi_align_2));
  compare("PSROIPooling", "psroi_pooling_param { output_dim: 2 group_size: 2 spatial_scale: 1 }",
          "2 8 8 9|4 5", tv_inner_regions, tv_ps_roi_pool, COUNT(tv_ps_roi_pool));
}

static void compare_kept(float threshold, const double *wanted, int64_t kept) {
  enum { BOXES = 40 };
  cr_box box[BOXES];
  cr_ranked all[BOXES];
  cr_buffer memory = {0};
  size_t count = BOXES;
  for (int i = 0; i < BOXES; ++i) {
    const double *at = tv_boxes + 4 * i;
    box[i] = (cr_box){(float)at[0], (float)at[1], (float)at[2], (float)at[3]};
    all[i] = (cr_ranked){(float)tv_scores[i], 0, i};
  }
  cr_rank(all, BOXES);
  ok(cr_suppress(box, all, &count, threshold, 1, -1, &memory));
  assert_int_equal(count, kept);
  for (int64_t i = 0; i < kept; ++i) assert_true(all[i].index == (int32_t)wanted[i]);
  cr_buffer_free(&memory);
}

TEST(boxes_are_suppressed_as_torchvision_does) {
  compare_kept(0.25f, tv_nms_25, COUNT(tv_nms_25));
  compare_kept(0.5f, tv_nms_50, COUNT(tv_nms_50));
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
