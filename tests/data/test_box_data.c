/* BoxData: boxes go where the pixels go. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "fixture.h"
#include "net/net_values.h"

enum { HEIGHT = 48, WIDTH = 64, RECORDS = 4, LABEL = 150 };

static void put_floats(const float *value, size_t count, cr_buffer *out) {
  for (size_t i = 0; i < count; ++i) {
    ok(cr_buffer_append(out, "\x35", 1)); /* field 6, 32 bits */
    ok(cr_buffer_append(out, &value[i], sizeof value[i]));
  }
}

/* An image of 0 with a bright square around the centre of its object, and another object. */
static void put_record(int index, cr_buffer *value) {
  cr_image image = {0};
  const int x = 20 + 4 * index, y = 16 + 4 * index;
  ok(cr_image_reserve(&image, HEIGHT, WIDTH, 3));
  memset(image.pixels, 0, (size_t)HEIGHT * WIDTH * 3);
  for (int row = y - 6; row < y + 6; ++row) {
    memset(image.pixels + 3 * (row * WIDTH + x - 6), 200, (size_t)3 * 12);
  }
  fixture_encoded(&image, 0, 0, 0, value);
  const float objects[12] = {(float)index,
                             0,
                             (float)x / WIDTH,
                             (float)y / HEIGHT,
                             12.0f / WIDTH,
                             12.0f / HEIGHT,
                             7,
                             1,
                             0.5f,
                             0.5f,
                             1,
                             1};
  put_floats(objects, 12, value);
  cr_image_free(&image);
}

static crema_status make_net(const char *db, const char *rest, crema_phase phase, crema_net **out) {
  const crema_net_options options = net_options(phase, 3, NULL);
  return parse_net(
      &options, NULL, out,
      "layer { name: 'in' type: 'BoxData' top: 'data' top: 'label' data_param { backend: "
      "LMDB source: '%s' batch_size: 2 side: 13 } %s }",
      db, rest);
}

/* The bright pixels of an item have their middle and their extent where object 0 says. */
static void check_item(crema_net *net, int item, int height, int width) {
  const float *data = values(net, "data") + (size_t)item * 3 * (size_t)(height * width);
  const float *label = values(net, "label") + (size_t)item * LABEL;
  double sum = 0, x = 0, y = 0;
  for (int i = 0; i < height * width; ++i) {
    const double bright = (double)data[i] / 200;
    sum += bright;
    x += bright * (i % width + 0.5);
    y += bright * (i / width + 0.5);
  }
  const double area = (double)(label[3] * (float)width * label[4] * (float)height);
  assert_true(fabs(sum - area) < 0.08 * area);
  assert_true(fabs(x / sum - (double)label[1] * width) < 0.7);
  assert_true(fabs(y / sum - (double)label[2] * height) < 0.7);
}

FIXTURE_TEST(whole_images_in_test) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", RECORDS, put_record);
  ok(make_net(db, "", CREMA_TEST, &net));
  for (int k = 0; k < 6; ++k) {
    ok(crema_net_forward(net, NULL));
    for (int i = 0; i < 2; ++i) {
      const float *label = values(net, "label") + (size_t)i * LABEL;
      assert_true(label[0] == (float)((2 * k + i) % RECORDS) && label[5] == 7);
      assert_true(label[6] == 0.5f && label[8] == 1 && label[9] == 1);
      for (int n = 10; n < LABEL; ++n) assert_true(label[n] == 0);
      check_item(net, i, HEIGHT, WIDTH);
    }
  }
  crema_net_destroy(net);
}

FIXTURE_TEST(random_parts_in_training) {
  const fixture *f = *state;
  crema_net *net = NULL;
  double least = 1, most = 0;
  const char *db = fixture_db(f, "db", RECORDS, put_record);
  ok(make_net(db, "", CREMA_TRAIN, &net));
  for (int k = 0; k < 40; ++k) {
    ok(crema_net_forward(net, NULL));
    for (int i = 0; i < 2; ++i) {
      const float *label = values(net, "label") + (size_t)i * LABEL;
      if (label[0] == 7) continue; /* the first object is not in the part */
      least = fmin(least, (double)label[3]);
      most = fmax(most, (double)label[3]);
      const double half = (double)label[3] / 2;
      if ((double)label[1] > half && (double)label[1] < 1 - half && (double)label[2] > 0.13 &&
          (double)label[2] < 0.87) {
        check_item(net, i, HEIGHT, WIDTH);
      }
    }
  }
  assert_true(least < 0.2 && most > 0.24); /* 12 of 64 pixels are 0.1875 */
  crema_net_destroy(net);
}

FIXTURE_TEST(boxes_follow_crop_and_mirror) {
  const fixture *f = *state;
  crema_net *net = NULL;
  int mirrored = 0;
  const char *db = fixture_db(f, "db", RECORDS, put_record);
  ok(make_net(db, "transform_param { crop_h: 40 crop_w: 52 mirror: true }", CREMA_TEST, &net));
  for (int k = 0; k < 20; ++k) {
    ok(crema_net_forward(net, NULL));
    for (int i = 0; i < 2; ++i) {
      const float *label = values(net, "label") + (size_t)i * LABEL;
      check_item(net, i, 40, 52);
      mirrored += label[1] * 52 > 14.5f + 4 * label[0]; /* else at 14 + 4 index */
    }
  }
  assert_in_range(mirrored, 8, 32);
  crema_net_destroy(net);
}

static void put_odd(int index, cr_buffer *value) {
  static const float numbers[7] = {0};
  fixture_png(index, value);
  put_floats(numbers, 7, value);
}

static void put_negative(int index, cr_buffer *value) {
  static const float numbers[6] = {-1};
  fixture_png(index, value);
  put_floats(numbers, 6, value);
}

FIXTURE_TEST(records_without_boxes_are_refused) {
  static const struct {
    const char *name;
    fixture_record put;
    crema_status status;
    const char *text;
  } cases[] = {{"none", fixture_png, CREMA_E_CORRUPT, "0 numbers alongside the image"},
               {"odd", put_odd, CREMA_E_CORRUPT, "7 numbers alongside the image"},
               {"negative", put_negative, CREMA_E_CORRUPT, "an object of class -1"},
               {"raw", fixture_color, CREMA_E_UNSUPPORTED, "not encoded"}};
  const fixture *f = *state;
  crema_net *net = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    const char *db = fixture_db(f, cases[i].name, 2, cases[i].put);
    assert_fails(make_net(db, "", CREMA_TEST, &net), cases[i].status, cases[i].text);
  }
  const char *db = fixture_db(f, "db", RECORDS, put_record);
  assert_fails(make_net(db, "transform_param { expand_param { } }", CREMA_TEST, &net),
               CREMA_E_UNSUPPORTED, "expand_param");
}

/* What comes after a restored position is what came after it before. */
FIXTURE_TEST(positions_are_restored) {
  enum { COUNT = 2 * 3 * HEIGHT * WIDTH };
  static float data[COUNT], label[2 * LABEL];
  const fixture *f = *state;
  crema_net *net = NULL;
  cr_buffer position = {0};
  const char *db = fixture_db(f, "db", RECORDS, put_record);
  ok(make_net(db, "", CREMA_TRAIN, &net));
  for (int k = 0; k < 3; ++k) ok(crema_net_forward(net, NULL));
  cr_layer *layer = layer_of(net, "in");
  ok(layer->kind->input->save(layer, &position));
  ok(crema_net_forward(net, NULL));
  memcpy(data, values(net, "data"), sizeof data);
  memcpy(label, values(net, "label"), sizeof label);
  ok(crema_net_forward(net, NULL));
  ok(layer->kind->input->restore(layer, position.data, position.size));
  ok(crema_net_forward(net, NULL));
  assert_memory_equal(values(net, "data"), data, sizeof data);
  assert_memory_equal(values(net, "label"), label, sizeof label);
  assert_int_not_equal(layer->kind->input->restore(layer, "x", 1), CREMA_OK);
  cr_buffer_free(&position);
  crema_net_destroy(net);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
