/* Data layers that resize pictures, against OpenCV: opencv.inc has what it makes of them. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "data/opencv.inc"
#include "fixture.h"
#include "net/net_values.h"

enum { HEIGHT = 6, WIDTH = 8 };

static void write_picture(const fixture *f, const char *name, int channels, int step, int limit) {
  cr_image image = {0};
  ok(cr_image_reserve(&image, HEIGHT, WIDTH, channels));
  for (int i = 0; i < HEIGHT * WIDTH * channels; ++i) {
    image.pixels[i] = (uint8_t)(i * step % limit);
  }
  fixture_write_png(f, name, &image);
  cr_image_free(&image);
}

/* Pixels may be off by one: OpenCV rounds the weights of pixels to 11 bits. */
static void compare(crema_net *net, const char *blob, const uint8_t *wanted, int64_t count,
                    float most) {
  assert_int_equal(crema_blob_count(blob_of(net, blob)), count);
  for (int64_t i = 0; i < count; ++i) {
    const float found = values(net, blob)[i];
    if (fabsf(found - (float)wanted[i]) <= most) continue;
    fail_msg("%s, value %lld is %g, OpenCV's %d", blob, (long long)i, (double)found, wanted[i]);
  }
}

#define COUNT(array) ((int64_t)sizeof(array))

static crema_net *make_pairs(const fixture *f, int height, int width) {
  const crema_net_options options = net_options(CREMA_TEST, 1, NULL);
  crema_net *net = NULL;
  ok(parse_net(&options, NULL, &net,
               "layer { name: 'in' type: 'ImageSegData' top: 'data' top: 'label' "
               "image_data_param { source: '%s' batch_size: 1 new_height: %d new_width: %d } }",
               fixture_path(f, "pairs.txt"), height, width));
  ok(crema_net_forward(net, NULL));
  return net;
}

FIXTURE_TEST(pairs_are_resized_as_opencv_does) {
  const fixture *f = *state;
  write_picture(f, "picture.png", 3, 37, 251);
  write_picture(f, "labels.png", 1, 7, 9);
  fixture_text(f, "pairs.txt", "picture.png labels.png\n");
  crema_net *net = make_pairs(f, 9, 13);
  compare(net, "data", cv_larger, COUNT(cv_larger), 1);
  compare(net, "label", cv_larger_labels, COUNT(cv_larger_labels), 0);
  crema_net_destroy(net);
  net = make_pairs(f, 4, 5);
  compare(net, "data", cv_smaller, COUNT(cv_smaller), 1);
  compare(net, "label", cv_smaller_labels, COUNT(cv_smaller_labels), 0);
  crema_net_destroy(net);
}

FIXTURE_TEST(windows_are_warped_as_opencv_does) {
  const fixture *f = *state;
  const crema_net_options options = net_options(CREMA_TRAIN, 1, NULL);
  crema_net *net = NULL;
  write_picture(f, "picture.png", 3, 37, 251);
  fixture_text(f, "windows.txt", "# 0\npicture.png\n3 6 8\n1\n5 0.9 2 1 6 3\n");
  ok(parse_net(&options, NULL, &net,
               "layer { name: 'in' type: 'WindowData' top: 'data' top: 'label' transform_param { "
               "crop_size: 7 } window_data_param { source: '%s' batch_size: 1 fg_fraction: 1 } }",
               fixture_path(f, "windows.txt")));
  ok(crema_net_forward(net, NULL));
  compare(net, "data", cv_window, COUNT(cv_window), 1);
  assert_true(values(net, "label")[0] == 5);
  crema_net_destroy(net);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
