/* CPMData: damaged records, fields out of range, draws, and sharing of the input engine. The values
 * are compared with OpenCV's in test_opencv.c. */
#include <math.h>
#include <stdlib.h>

#include "data/augment/pose.h"
#include "fixture.h"
#include "net/net_values.h"
#include "pose_record.h"

static pose_record current;

static const pose_record good = {.channels = 6,
                                 .height = 24,
                                 .width = 80,
                                 .joints = 17,
                                 .others = 2,
                                 .scale = 1,
                                 .x = 40,
                                 .y = 12};

static void put_current(int index, cr_buffer *value) {
  pose_record record = current;
  record.x += (float)index;
  pose_write(&record, value);
}

static crema_status make_net(const fixture *f, crema_phase phase, const char *transform,
                             crema_net **out) {
  const crema_net_options options = net_options(phase, 3, NULL);
  return parse_net(&options, NULL, out,
                   "layer { name: 'in' type: 'CPMData' top: 'data' top: 'label' data_param { "
                   "backend: LMDB source: '%s' batch_size: 2 } transform_param { np_in_lmdb: 17 "
                   "crop_size_x: 32 crop_size_y: 16 stride: 8 %s } }",
                   fixture_path(f, "db"), transform);
}

FIXTURE_TEST(damaged_records_are_errors) {
  fixture *f = *state;
  static const struct {
    pose_record record;
    const char *transform, *message;
  } bad[] = {
      {{3, 24, 80, 17, 0, 1, 40, 12}, "", "3 channels of bytes; expected 4 or more"},
      {{4, 24, 80, 17, 0, 1, 40, 12}, "num_parts: 56", "4 channels of bytes; expected 5 or more"},
      {{4, 24, 60, 17, 0, 1, 40, 12}, "", "24 x 60 bytes has no room for 17 joints of each of 1"},
      {{4, 7, 80, 17, 0, 1, 40, 12}, "", "7 x 80 bytes has no room"},
      {{4, 12, 80, 17, 1, 1, 40, 12}, "", "no room for 17 joints of each of 2 people"},
      {{4, 24, 80, 17, 200, 1, 40, 12}, "", "no room for 17 joints of each of 201 people"},
      {{4, 24, 80, 17, 0, 0, 40, 12}, "", "a person of scale 0 at (39, 11)"},
      {{4, 24, 80, 17, 0, NAN, 40, 12}, "", "a person of scale nan"},
      {{4, 24, 80, 17, 0, 1, NAN, 12}, "", "joint 0 in row 5 is at (nan, 11)"},
      {{4, 24, 80, 17, 0, 1, 3e9f, 12}, "", "joint 0 in row 5"},
      {{4, 24, 80, 17, 0, 1e-6f, 40, 12}, "", "scaling 24 x 80 pixels by"},
      {{4, 24, 80, 17, 0, 900, 40, 12}, "", "gives 0 x 0 pixels"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    crema_net *net = NULL;
    current = bad[i].record;
    (void)fixture_db(f, "db", 2, put_current);
    const crema_status status = make_net(f, CREMA_TRAIN, bad[i].transform, &net);
    assert_true(status == CREMA_E_CORRUPT || status == CREMA_E_RANGE);
    assert_error_has(bad[i].message);
    assert_error_has("layer 'in'");
    crema_net_destroy(net);
    fixture_remove(f);
    fixture_make(f);
  }
}

FIXTURE_TEST(fields_out_of_range_are_errors) {
  const fixture *f = *state;
  static const struct {
    const char *transform;
    crema_status code;
    const char *message;
  } bad[] = {
      {"num_parts: 0", CREMA_E_RANGE, "num_parts is 0"},
      {"num_parts: 65", CREMA_E_RANGE, "num_parts is 65"},
      {"num_parts: 18", CREMA_E_RANGE, "np_in_lmdb is 17, must be 18 or more for num_parts: 18"},
      {"num_parts: 56 transform_body_joint: false", CREMA_E_RANGE, "np_in_lmdb is 17, must be 18"},
      {"sigma: 0", CREMA_E_RANGE, "sigma is 0"},
      {"sigma_center: -1", CREMA_E_RANGE, "sigma_center is -1"},
      {"target_dist: nan", CREMA_E_RANGE, "target_dist is nan"},
      {"scale_min: 0", CREMA_E_RANGE, "scale_min is 0"},
      {"scale_max: 1e9", CREMA_E_RANGE, "scale_max is 1e+09"},
      {"scale_prob: 1.5", CREMA_E_RANGE, "scale_prob is 1.5"},
      {"flip_prob: -0.5", CREMA_E_RANGE, "flip_prob is -0.5"},
      {"max_rotate_degree: 400", CREMA_E_RANGE, "max_rotate_degree is 400"},
      {"center_perterb_max: -2", CREMA_E_RANGE, "center_perterb_max is -2"},
      {"aug_way: 'table'", CREMA_E_UNSUPPORTED, "aug_way \"table\" is not supported"},
      {"do_clahe: true", CREMA_E_UNSUPPORTED, "do_clahe is not supported"},
  };
  current = good;
  (void)fixture_db(f, "db", 2, put_current);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    crema_net *net = NULL;
    assert_fails(make_net(f, CREMA_TRAIN, bad[i].transform, &net), bad[i].code, bad[i].message);
    assert_error_has("layer 'in'");
  }
}

FIXTURE_TEST(images_smaller_than_the_stride_are_errors_in_test) {
  const fixture *f = *state;
  crema_net *net = NULL;
  current = good;
  current.others = 0;
  current.height = 8;
  (void)fixture_db(f, "db", 2, put_current);
  ok(make_net(f, CREMA_TEST, "", &net));
  forward(net);
  assert_int_equal(crema_blob_shape(blob_of(net, "label"))->dim[2], 1);
  crema_net_destroy(net);
  assert_fails(
      parse_net(&(crema_net_options){.phase = CREMA_TEST}, NULL, &net,
                "layer { name: 'in' type: 'CPMData' top: 'data' data_param { backend: LMDB "
                "source: '%s' batch_size: 1 } transform_param { np_in_lmdb: 17 stride: 16 } }",
                fixture_path(f, "db")),
      CREMA_E_SHAPE, "8 x 80 pixels is smaller than the stride, 16");
}

/* Parameters of draws, and how often the draws may be as expected by chance. */
TEST(draws_are_in_their_ranges) {
  enum { DRAWS = 4000 };
  Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
  param.max_rotate_degree = 30;
  param.center_perterb_max = 2.5f;
  param.scale_prob = 0.25f;
  param.flip_prob = 0.75f;
  int scaled = 0, flipped = 0, shifts[5] = {0};
  double turned = 0;
  for (uint64_t i = 0; i < DRAWS; ++i) {
    const cr_pose_draw draw = cr_pose_draw_of(&param, 11, i);
    assert_true(draw.multiplier == 1 || (draw.multiplier >= 0.9f && draw.multiplier < 1.1f));
    assert_true(draw.degree >= -30 && draw.degree < 30);
    assert_in_range(draw.right + 2, 0, 4);
    assert_in_range(draw.down + 2, 0, 4);
    scaled += draw.multiplier != 1;
    flipped += draw.flip;
    turned += (double)draw.degree / DRAWS;
    ++shifts[draw.right + 2];
  }
  /* Five standard deviations of a share of DRAWS are at most 4 %. */
  assert_true(fabs((double)scaled / DRAWS - 0.25) < 0.04);
  assert_true(fabs((double)flipped / DRAWS - 0.75) < 0.04);
  assert_true(fabs(turned) < 1.5);
  /* Shifts are cut towards 0: it has twice the share. */
  for (int i = 0; i < 5; ++i) {
    assert_true(fabs((double)shifts[i] / DRAWS - (i == 2 ? 0.4 : i % 4 == 0 ? 0.1 : 0.2)) < 0.04);
  }
}

/* Random numbers belong to samples, whatever thread loads them. */
FIXTURE_TEST(batches_do_not_depend_on_threads) {
  const fixture *f = *state;
  crema_net *net[2] = {NULL};
  current = good;
  (void)fixture_db(f, "db", 5, put_current);
  for (int i = 0; i < 2; ++i) {
    const crema_net_options options = net_options(CREMA_TRAIN, 3, NULL);
    ok(parse_net(
        &options, NULL, &net[i],
        "layer { name: 'in' type: 'CPMData' top: 'data' top: 'label' data_param { backend: "
        "LMDB source: '%s' batch_size: 4 threads: %d } transform_param { num_parts: 56 "
        "np_in_lmdb: 17 crop_size_x: 32 crop_size_y: 16 stride: 8 max_rotate_degree: 40 } }",
        fixture_path(f, "db"), i == 0 ? 1 : 4));
  }
  for (int pass = 0; pass < 4; ++pass) {
    for (int i = 0; i < 2; ++i) forward(net[i]);
    for (int top = 0; top < 2; ++top) {
      const char *name = top == 0 ? "data" : "label";
      const int64_t count = crema_blob_count(blob_of(net[0], name));
      assert_memory_equal(values(net[0], name), values(net[1], name),
                          (size_t)count * sizeof(float));
    }
  }
  for (int i = 0; i < 2; ++i) crema_net_destroy(net[i]);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
