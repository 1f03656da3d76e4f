/* ImageSegData: an image and its label map are cropped and mirrored alike. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "fixture.h"
#include "net/net_values.h"

enum { PAIRS = 3, HEIGHT = 6, WIDTH = 8 };

static void write_picture(const fixture *f, const char *name, int height, int width, int channels,
                          int add) {
  cr_image image = {0};
  ok(cr_image_reserve(&image, height, width, channels));
  for (int i = 0; i < height * width * channels; ++i) {
    image.pixels[i] = (uint8_t)(add + i / channels);
  }
  fixture_write_png(f, name, &image);
  cr_image_free(&image);
}

/* Pictures whose three channels are their label maps, and a list of them. */
static void make_set(const fixture *f) {
  cr_buffer list = {0};
  for (int i = 0; i < PAIRS; ++i) {
    char image[32], map[32];
    snprintf(image, sizeof image, "an image %d.png", i);
    snprintf(map, sizeof map, "map_%d.png", i);
    write_picture(f, image, HEIGHT, WIDTH, 3, 60 * i + 1);
    write_picture(f, map, HEIGHT, WIDTH, 1, 60 * i + 1);
    ok(cr_buffer_print(&list, "%s\t%s \n\n", image, map));
  }
  fixture_text(f, "list.txt", list.data);
  cr_buffer_free(&list);
}

static crema_status make_net(const fixture *f, const char *param, const char *rest,
                             crema_phase phase, crema_net **out) {
  const crema_net_options options = net_options(phase, 3, NULL);
  return parse_net(&options, NULL, out,
                   "layer { name: 'in' type: 'ImageSegData' top: 'data' top: 'label' top: 'size' "
                   "image_data_param { source: '%s' %s } %s }",
                   fixture_path(f, "list.txt"), param, rest);
}

/* Every channel of the data is the label map; returns how many pixels are ignored. */
static int compare(crema_net *net, int items, int height, int width, float mean, float ignored) {
  int count = 0;
  const crema_shape *shape = crema_blob_shape(blob_of(net, "label"));
  assert_true(shape->axes == 4 && shape->dim[0] == items && shape->dim[1] == 1);
  assert_true(shape->dim[2] == height && shape->dim[3] == width);
  for (int i = 0; i < items; ++i) {
    for (int k = 0; k < height * width; ++k) {
      const float label = values(net, "label")[i * height * width + k];
      for (int c = 0; c < 3; ++c) {
        const float pixel = values(net, "data")[(i * 3 + c) * height * width + k];
        assert_true(pixel == (label == ignored ? 0 : label - mean));
      }
      count += label == ignored;
    }
  }
  return count;
}

FIXTURE_TEST(labels_follow_crop_and_mirror) {
  const fixture *f = *state;
  crema_net *net = NULL;
  float first[40][2];
  int mirrored = 0, moved = 0;
  make_set(f);
  ok(make_net(f, "batch_size: 2 shuffle: true",
              "transform_param { crop_h: 4 crop_w: 5 mirror: true mean_value: 7 }", CREMA_TRAIN,
              &net));
  for (int pass = 0; pass < 40; ++pass) {
    ok(crema_net_forward(net, NULL));
    assert_int_equal(compare(net, 2, 4, 5, 7, 255), 0);
    const float *label = values(net, "label");
    first[pass][0] = label[0];
    mirrored += label[1] < label[0];
    for (int before = 0; before < pass; ++before) moved += first[before][0] != first[pass][0];
    assert_true(values(net, "size")[0] == 4 && values(net, "size")[3] == 5);
  }
  assert_in_range(mirrored, 8, 32);
  assert_true(moved > 300);
  crema_net_destroy(net);
}

/* Behind the border of an image are its mean and ignore_label. */
FIXTURE_TEST(small_images_are_continued) {
  const fixture *f = *state;
  crema_net *net = NULL;
  make_set(f);
  ok(make_net(f, "batch_size: 3 ignore_label: 254",
              "transform_param { crop_h: 9 crop_w: 7 mean_value: 7.25 }", CREMA_TEST, &net));
  ok(crema_net_forward(net, NULL));
  assert_int_equal(compare(net, 3, 9, 7, 7.25f, 254), 3 * 3 * 7);
  assert_true(values(net, "size")[0] == 6 && values(net, "size")[1] == 7);
  assert_true(values(net, "label")[6 * 7] == 254 && values(net, "label")[5 * 7] != 254);
  crema_net_destroy(net);
  ok(make_net(f, "batch_size: 3 ignore_label: 254",
              "transform_param { crop_h: 7 crop_w: 11 mean_value: 7.25 mirror: true }", CREMA_TRAIN,
              &net));
  for (int pass = 0; pass < 8; ++pass) {
    ok(crema_net_forward(net, NULL));
    assert_int_equal(compare(net, 3, 7, 11, 7.25f, 254), 3 * (7 * 11 - HEIGHT * WIDTH));
  }
  crema_net_destroy(net);
}

/* Sizes that are twice as large repeat each label. */
FIXTURE_TEST(labels_are_not_mixed) {
  const fixture *f = *state;
  crema_net *net = NULL;
  make_set(f);
  ok(make_net(f, "batch_size: 1 new_height: 12 new_width: 16", "", CREMA_TEST, &net));
  ok(crema_net_forward(net, NULL));
  for (int y = 0; y < 12; ++y) {
    for (int x = 0; x < 16; ++x) {
      assert_true(values(net, "label")[16 * y + x] == (float)(1 + y / 2 * WIDTH + x / 2));
    }
  }
  crema_net_destroy(net);
}

/* The maps of HED have values from 0 to 255; RCF's labels are fractions. */
FIXTURE_TEST(labels_of_edges_are_scaled) {
  const fixture *f = *state;
  static const char *const params[] = {"label_scale: 0.00392156863",
                                       "label_scale: 0.00392156863 round_labels: true"};
  cr_image image = {0};
  ok(cr_image_reserve(&image, 1, 4, 3));
  for (int i = 0; i < 12; ++i)
    image.pixels[i] = (uint8_t)(i / 3 == 1 ? 127 : i / 3 == 2 ? 128 : i / 3 * 85);
  fixture_write_png(f, "edges.png", &image);
  cr_image_free(&image);
  fixture_text(f, "list.txt", "edges.png edges.png\n");
  for (int rounded = 0; rounded < 2; ++rounded) {
    static const float wanted[2][4] = {{0, 127.0F / 255, 128.0F / 255, 1}, {0, 0, 1, 1}};
    crema_net *net = NULL;
    ok(make_net(f, params[rounded], "", CREMA_TEST, &net));
    ok(crema_net_forward(net, NULL));
    for (int x = 0; x < 4; ++x) {
      assert_true(fabsf(values(net, "label")[x] - wanted[rounded][x]) < 1e-6F);
    }
    crema_net_destroy(net);
  }
}

/* Pictures of one colour each, which resizing leaves as it is: the factors are drawn alike often,
 * and labels keep to their picture. */
FIXTURE_TEST(pairs_are_resized_by_a_factor) {
  const fixture *f = *state;
  static const int sides[3] = {3, 6, 9};
  crema_net *net = NULL;
  int seen[3] = {0};
  cr_image image = {0};
  ok(cr_image_reserve(&image, 6, 6, 3));
  memset(image.pixels, 40, 6 * 6 * 3);
  fixture_write_png(f, "image.png", &image);
  ok(cr_image_reserve(&image, 6, 6, 1));
  for (int i = 0; i < 36; ++i) image.pixels[i] = (uint8_t)(i / 6 >= 4 ? 2 : 1);
  fixture_write_png(f, "map.png", &image);
  cr_image_free(&image);
  fixture_text(f, "list.txt", "image.png map.png\n");
  ok(make_net(f, "batch_size: 1",
              "transform_param { crop_size: 12 mean_value: 30 scale_factors: [0.5, 1, 1.6] }",
              CREMA_TEST, &net));
  for (int pass = 0; pass < 90; ++pass) {
    ok(crema_net_forward(net, NULL));
    const float *label = values(net, "label"), *data = values(net, "data");
    const int side = (int)values(net, "size")[0];
    int which = 0;
    while (which < 2 && sides[which] != side) ++which;
    assert_int_equal(side, sides[which]);
    ++seen[which];
    for (int i = 0; i < 144; ++i) {
      const int row = i / 12, inside = row < side && i % 12 < side;
      assert_true(label[i] == (inside ? (float)(6 * row / side >= 4 ? 2 : 1) : 255));
      assert_true(data[i] == (float)(inside ? 10 : 0));
    }
  }
  for (int i = 0; i < 3; ++i) assert_in_range(seen[i], 12, 60);
  crema_net_destroy(net);
}

/* 0.7F is less than 0.7, but its product with 10, as a float, is 7. */
FIXTURE_TEST(factors_are_floats) {
  const fixture *f = *state;
  crema_net *net = NULL;
  write_picture(f, "image.png", 10, 20, 3, 0);
  write_picture(f, "map.png", 10, 20, 1, 0);
  fixture_text(f, "list.txt", "image.png map.png\n");
  ok(make_net(f, "batch_size: 1", "transform_param { scale_factors: 0.7 }", CREMA_TEST, &net));
  ok(crema_net_forward(net, NULL));
  const crema_shape *shape = crema_blob_shape(blob_of(net, "label"));
  assert_int_equal(shape->dim[2], 7);
  assert_int_equal(shape->dim[3], 14);
  crema_net_destroy(net);
}

FIXTURE_TEST(label_maps_are_resized_as_by_opencv) {
  const fixture *f = *state;
  crema_net *net = NULL;
  write_picture(f, "image.png", 1, 6, 3, 0);
  write_picture(f, "map.png", 1, 6, 1, 0);
  fixture_text(f, "list.txt", "image.png map.png\n");
  ok(make_net(f, "batch_size: 1 new_height: 1 new_width: 34", "", CREMA_TEST, &net));
  ok(crema_net_forward(net, NULL));
  assert_true(values(net, "label")[17] == 2 && values(net, "label")[18] == 3);
  crema_net_destroy(net);
}

FIXTURE_TEST(one_label_or_none_for_an_image) {
  const fixture *f = *state;
  crema_net *net = NULL;
  make_set(f);
  fixture_text(f, "list.txt", "an image 1.png 17\nan image 2.png -3\n");
  /* Each pixel has the label of its image; what is behind the border is ignored. */
  ok(make_net(f, "batch_size: 2 label_type: IMAGE ignore_label: 254",
              "transform_param { crop_h: 9 crop_w: 7 mean_value: 7 }", CREMA_TEST, &net));
  ok(crema_net_forward(net, NULL));
  assert_int_equal(crema_blob_count(blob_of(net, "label")), 2 * 9 * 7);
  for (int i = 0; i < 2 * 9 * 7; ++i) {
    const float wanted = i % 63 / 7 >= HEIGHT ? 254 : i < 63 ? 17 : -3;
    assert_true(values(net, "label")[i] == wanted);
  }
  crema_net_destroy(net);
  fixture_text(f, "list.txt", "an image 1.png\n");
  ok(make_net(f, "batch_size: 1 label_type: NONE", "", CREMA_TEST, &net));
  ok(crema_net_forward(net, NULL));
  assert_int_equal(crema_blob_count(blob_of(net, "label")), HEIGHT * WIDTH);
  for (int i = 0; i < HEIGHT * WIDTH; ++i) assert_true(values(net, "label")[i] == 255);
  assert_true(values(net, "data")[0] == 61);
  crema_net_destroy(net);
}

static void refuse(const fixture *f, const char *list, const char *param, const char *rest,
                   crema_status wanted, const char *text) {
  crema_net *net = NULL;
  fixture_text(f, "list.txt", list);
  assert_fails(make_net(f, param, rest, CREMA_TRAIN, &net), wanted, text);
}

FIXTURE_TEST(damage_is_reported) {
  const fixture *f = *state;
  static const char pair[] = "an image 0.png map_0.png\n";
  make_set(f);
  write_picture(f, "large.png", HEIGHT + 1, WIDTH, 1, 0);
  refuse(f, "one_word\n", "batch_size: 1", "", CREMA_E_PARSE, "list.txt:1: expected an image");
  refuse(f, "a.png 1x\n", "batch_size: 1 label_type: IMAGE", "", CREMA_E_PARSE, "integer label");
  refuse(f, "\n \n", "batch_size: 1", "", CREMA_E_PARSE, "the list is empty");
  refuse(f, "an image 0.png gone.png\n", "batch_size: 1", "", CREMA_E_NOT_FOUND, "gone.png");
  refuse(f, "an image 0.png large.png\n", "batch_size: 1", "", CREMA_E_SHAPE,
         "6 x 8 pixels with a label map of 7 x 8");
  refuse(f, "an image 0.png an image 1.png\n", "batch_size: 1", "", CREMA_E_NOT_FOUND, "an image");
  fixture_text(f, "list.txt", pair);
  refuse(f, pair, "batch_size: 0", "", CREMA_E_ARGUMENT, "batch_size");
  refuse(f, pair, "batch_size: 1 new_height: 3", "", CREMA_E_ARGUMENT, "new_width 0");
  refuse(f, pair, "batch_size: 1 short_side: 3", "", CREMA_E_UNSUPPORTED, "short_side");
  refuse(f, pair, "batch_size: 1", "transform_param { resize_param { height: 4 width: 4 } }",
         CREMA_E_UNSUPPORTED, "resize_param");
  refuse(f, pair, "batch_size: 1", "transform_param { scale_factors: [1, 0] }", CREMA_E_RANGE,
         "scale_factors has 0");
  refuse(f, pair, "batch_size: 1", "transform_param { scale_factors: 0.1 }", CREMA_E_RANGE,
         "6 x 8 pixels, resized by 0.1");
}

FIXTURE_TEST(label_maps_are_gray) {
  const fixture *f = *state;
  make_set(f);
  write_picture(f, "colours.png", HEIGHT, WIDTH, 3, 9);
  refuse(f, "map_0.png colours.png\n", "batch_size: 1", "", CREMA_E_UNSUPPORTED,
         "colours.png is in colours");
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
