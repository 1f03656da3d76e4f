/* WindowData: the window file, where windows are cut, what a batch holds, resume. */
#define _GNU_SOURCE /* sched_setaffinity */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "comma_locale.h"
#include "core/file.h"
#include "data/pipeline/pipeline.h"
#include "data/pipeline/window_crop.h"
#include "fixture.h"
#include "net/net_values.h"

/* An image of 10 x 12 pixels, (y, x, c) = base + 10 * y + x in all channels. */
static void make_image(const fixture *f, const char *name, int base) {
  cr_image image = {0};
  ok(cr_image_reserve(&image, 10, 12, 3));
  for (int i = 0; i < 10 * 12 * 3; ++i) {
    image.pixels[i] = (uint8_t)(base + 10 * (i / 36) + i / 3 % 12);
  }
  fixture_write_png(f, name, &image);
  cr_image_free(&image);
}

/* Two foreground windows of 4 x 4 pixels, two of the background, one between the thresholds. */
static void make_set(const fixture *f) {
  make_image(f, "a.png", 0);
  make_image(f, "b.png", 100);
  fixture_text(f, "windows.txt",
               "# 0\na.png\n3\n10\n12\n3\n7 0.9 2 3 5 6\n1 0.1 0 0 3 3\n5 0.4 1 1 4 4\n"
               "# 1\nb.png\n3 10 12\n2\n8 0.6 8 6 11 9\n2 0.0 4 4 7 7\n");
}

static crema_status make_net(const fixture *f, const char *param, const char *transform,
                             int64_t seed, crema_net **out) {
  const crema_net_options options = net_options(CREMA_TRAIN, seed, NULL);
  return parse_net(
      &options, NULL, out,
      "name: 'n' layer { name: 'in' type: 'WindowData' top: 'data' top: 'label' "
      "transform_param { %s } window_data_param { source: '%s' bg_threshold: 0.3 %s } }",
      transform, fixture_path(f, "windows.txt"), param);
}

/* The window at (y, x) of an image, 4 x 4 pixels, as it is or mirrored. */
static bool shows(const float *item, int base, int y, int x, bool mirror) {
  for (int c = 0; c < 3; ++c) {
    for (int i = 0; i < 16; ++i) {
      int column = mirror ? 3 - i % 4 : i % 4;
      if (item[c * 16 + i] != (float)(base + 10 * (y + i / 4) + x + column)) return false;
    }
  }
  return true;
}

/* Lets this thread run on no more than `count` of the processors in `all`, which sets the number of
 * a new layer's threads: WindowData has no field for it. Returns how many they are. */
static int use_processors(const cpu_set_t *all, int count) {
  cpu_set_t some;
  int found = 0;
  CPU_ZERO(&some);
  for (int i = 0; i < CPU_SETSIZE && found < count; ++i) {
    if (!CPU_ISSET(i, all)) continue;
    CPU_SET(i, &some);
    ++found;
  }
  assert_int_equal(sched_setaffinity(0, sizeof some, &some), 0);
  return found;
}

/* Background first, then the share of the foreground; each with its label, each sometimes. */
FIXTURE_TEST(test_what_a_batch_holds) {
  const fixture *f = *state;
  crema_net *net = NULL;
  int seen[4] = {0}, mirrored = 0;
  make_set(f);
  ok(make_net(f, "batch_size: 5 fg_fraction: 0.5", "crop_size: 4 mirror: true", 1, &net));
  for (int k = 0; k < 20; ++k) {
    forward(net);
    for (int i = 0; i < 5; ++i) {
      static const int position[4][4] = {
          {0, 3, 2, 7}, {100, 6, 8, 8}, {0, 0, 0, 0}, {100, 4, 4, 0}};
      const float *item = values(net, "data") + i * 48;
      int found = -1;
      for (int w = i < 3 ? 2 : 0; w < (i < 3 ? 4 : 2); ++w) {
        const int *p = position[w];
        bool plain = shows(item, p[0], p[1], p[2], false);
        bool mirror = shows(item, p[0], p[1], p[2], true);
        if (plain || mirror) found = w;
        mirrored += mirror;
      }
      assert_in_range(found, 0, 3);
      assert_true(values(net, "label")[i] == (float)position[found][3]);
      ++seen[found];
    }
  }
  for (int w = 0; w < 4; ++w) assert_in_range(seen[w], 5, 60);
  assert_in_range(mirrored, 25, 75);
  crema_net_destroy(net);
}

FIXTURE_TEST(test_mean_and_scale) {
  const fixture *f = *state;
  crema_net *net = NULL;
  make_set(f);
  const char *transform = "crop_size: 4 scale: 0.5 mean_value: 1 mean_value: 2 mean_value: 3";
  ok(make_net(f, "batch_size: 1 fg_fraction: 1 cache_images: true", transform, 1, &net));
  for (int k = 0; k < 6; ++k) {
    forward(net);
    float corner = values(net, "label")[0] == 7 ? 32 : 168;
    for (int c = 0; c < 3; ++c) {
      assert_true(values(net, "data")[c * 16] == 0.5f * (corner - (float)(c + 1)));
    }
  }
  crema_net_destroy(net);
}

/* Overlaps have a point, whatever the program's locale. */
FIXTURE_TEST(test_locale) {
  const fixture *f = *state;
  cr_window_list list;
  if (!comma_locale_begin()) skip();
  fixture_text(f, "windows.txt", "# 0\na.png\n3 10 12\n1\n1 0.75 0 0 3 3\n");
  crema_status status = cr_window_list_read(fixture_path(f, "windows.txt"), &list);
  setlocale(LC_ALL, "C");
  ok(status);
  assert_true(cr_window_list_window(&list, 0)->overlap == 0.75f);
  cr_window_list_free(&list);
}

/* Worked by hand: a window at the left upper corner, 1 pixel of context in a square of 6. The
 * window of 4 pixels is grown by 6 / 4 to -1..5, 7 pixels of which the first is outside. */
TEST(test_context) {
  const cr_listed_window corner = {.x1 = 0, .y1 = 0, .x2 = 3, .y2 = 3};
  const cr_window_crop_options options = {.crop_size = 6, .context_pad = 1};
  cr_window_crop crop;
  ok(cr_window_crop_plan(&corner, 10, 12, &options, false, &crop));
  assert_true(crop.x == 0 && crop.y == 0 && crop.width == 6 && crop.height == 6);
  assert_true(crop.pad_x == 1 && crop.pad_y == 1);
  assert_true(crop.out_width == 5 && crop.out_height == 5);
  ok(cr_window_crop_plan(&corner, 10, 12, &options, true, &crop));
  assert_true(crop.pad_x == 0 && crop.pad_y == 1 && crop.out_width == 5);
  /* A window of 2 x 6 as a square: 6 x 6 about the same centre (3, 4). */
  const cr_listed_window tall = {.x1 = 2, .y1 = 1, .x2 = 3, .y2 = 6};
  const cr_window_crop_options square = {.crop_size = 6, .square = true};
  ok(cr_window_crop_plan(&tall, 10, 12, &square, false, &crop));
  assert_true(crop.x == 0 && crop.y == 1 && crop.width == 7 && crop.height == 7);
  assert_true(crop.out_width == 6 && crop.out_height == 6 && crop.pad_x == 0 && crop.pad_y == 0);
}

/* Far outside, with the most context there can be: nothing of the image is left. */
TEST(test_far_windows) {
  enum { FAR = (1 << 24) - 1 };
  static const cr_listed_window windows[] = {{.x1 = -FAR, .y1 = -FAR, .x2 = FAR, .y2 = FAR},
                                             {.x1 = 0, .y1 = 0, .x2 = FAR, .y2 = FAR},
                                             {.x1 = -FAR, .y1 = 3, .x2 = 3, .y2 = 4}};
  const cr_window_crop_options options = {.crop_size = 65499, .context_pad = 32749};
  for (size_t i = 0; i < sizeof windows / sizeof *windows; ++i) {
    cr_window_crop c;
    ok(cr_window_crop_plan(&windows[i], 10, 12, &options, false, &c));
    assert_true(c.out_height == 0 || c.out_width == 0);
  }
}

/* Whatever the window, the parts fit into the square and into the image. */
TEST(test_every_plan_fits) {
  for (int i = 0; i < 20000; ++i) {
    unsigned r = (unsigned)i * 2654435761u;
    const cr_listed_window window = {.x1 = (int)(r % 23) - 6,
                                     .y1 = (int)(r / 23 % 19) - 5,
                                     .x2 = (int)(r / 437 % 23) - 3,
                                     .y2 = (int)(r / 10051 % 19) - 3};
    const cr_window_crop_options options = {
        .crop_size = 1 + i % 9, .context_pad = i % 9 / 3, .square = i % 2 == 0};
    cr_window_crop c;
    if (cr_window_crop_plan(&window, 10, 12, &options, i % 5 == 0, &c) != CREMA_OK) continue;
    assert_true(c.out_height >= 0 && c.pad_y >= 0 && c.pad_y + c.out_height <= options.crop_size);
    assert_true(c.out_width >= 0 && c.pad_x >= 0 && c.pad_x + c.out_width <= options.crop_size);
    if (c.out_height == 0 || c.out_width == 0) continue;
    assert_true(c.x >= 0 && c.width >= 1 && c.x + c.width <= 12);
    assert_true(c.y >= 0 && c.height >= 1 && c.y + c.height <= 10);
  }
}

FIXTURE_TEST(s2_28_threads_give_the_same_batches) {
  enum { BATCHES = 30, COUNT = 5 * 3 * 6 * 6 };
  static float data[BATCHES][COUNT], label[BATCHES][5];
  static const char *const params[] = {"batch_size: 5 fg_fraction: 0.4",
                                       "batch_size: 5 fg_fraction: 0.4 cache_images: true",
                                       "batch_size: 5 fg_fraction: 0.4 crop_mode: 'square'"};
  const fixture *f = *state;
  cpu_set_t all;
  make_set(f);
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  for (size_t i = 0; i < sizeof params / sizeof *params; ++i) {
    /* One thread, two, three, where there are processors enough. */
    for (int wanted = 1; wanted <= 4; wanted = wanted == 1 ? 3 : wanted + 1) {
      int processors = use_processors(&all, wanted);
      crema_net *net = NULL;
      ok(make_net(f, params[i], "crop_size: 6 mirror: true mean_value: 3 scale: 0.5", 8, &net));
      for (int k = 0; k < BATCHES; ++k) {
        forward(net);
        /* The first two ways give the same, so only the first one and the last are noted. */
        if (wanted == 1 && i != 1) {
          memcpy(data[k], values(net, "data"), sizeof data[k]);
          memcpy(label[k], values(net, "label"), sizeof label[k]);
        }
        assert_memory_equal(values(net, "data"), data[k], sizeof data[k]);
        assert_memory_equal(values(net, "label"), label[k], sizeof label[k]);
      }
      const cr_input_stats stats = input_stats(net);
      assert_int_equal(stats.pipeline.threads, processors <= 2 ? 1 : processors - 1);
      assert_int_equal(stats.pipeline.batches, BATCHES);
      assert_true(stats.pipeline.decode_seconds > 0 && stats.pipeline.transform_seconds > 0);
      crema_net_destroy(net);
    }
  }
  assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

FIXTURE_TEST(s2_31_resume) {
  static const char *const transform = "crop_size: 6 mirror: true";
  static const char *const param = "batch_size: 3 context_pad: 1 crop_mode: 'square'";
  const fixture *f = *state;
  crema_net *net = NULL, *resumed = NULL;
  make_set(f);
  ok(make_net(f, param, transform, 5, &net));
  ok(make_net(f, param, transform, 6, &resumed));
  for (int k = 0; k < 4; ++k) forward(net);
  resume_input(net, resumed);
  expect_same_batches(net, resumed, 9);
  crema_net_destroy(resumed);
  crema_net_destroy(net);
}

FIXTURE_TEST(test_faults) {
  static const struct {
    const char *file, *param, *transform, *part;
    crema_status code;
  } cases[] = {
      {"", "batch_size: 1", "crop_size: 4", "empty", CREMA_E_PARSE},
      {"# 0\na.png 3 10 12 0\n", "batch_size: 1", "crop_size: 4", "no windows", CREMA_E_PARSE},
      {"a.png\n", "batch_size: 1", "crop_size: 4", "windows.txt:1", CREMA_E_PARSE},
      {"# 0\na.png\n3\nten\n", "batch_size: 1", "crop_size: 4", "windows.txt:4", CREMA_E_PARSE},
      {"# 0\na.png\n3 10 12\n1\n1 x 0 0 1 1\n", "batch_size: 1", "crop_size: 4", "overlap",
       CREMA_E_PARSE},
      {"# 0\na.png\n3 10 12\n2\n1 1 0 0 1 1\n", "batch_size: 1", "crop_size: 4", "end of the file",
       CREMA_E_PARSE},
      {"# 0\na.png\n3 10 12\n1\n0 1 0 0 1 1\n", "batch_size: 1", "crop_size: 4", "class 0",
       CREMA_E_RANGE},
      {"# 0\na.png\n3 10 12\n1\n1 1 0 0 1 1\n", "batch_size: 2", "crop_size: 4", "background",
       CREMA_E_RANGE},
      {"# 0\na.png\n2 10 12\n1\n1 1 0 0 1 1\n", "batch_size: 1", "crop_size: 4", "channels",
       CREMA_E_SHAPE},
      {NULL, "batch_size: 1", "", "crop_size", CREMA_E_ARGUMENT},
      {NULL, "", "crop_size: 4", "batch_size", CREMA_E_ARGUMENT},
      {NULL, "batch_size: 1 crop_mode: 'round'", "crop_size: 4", "square", CREMA_E_UNKNOWN_NAME},
      {NULL, "batch_size: 1 context_pad: 2", "crop_size: 4", "context_pad", CREMA_E_RANGE},
      {NULL, "batch_size: 1 fg_fraction: 2", "crop_size: 4", "fg_fraction", CREMA_E_RANGE},
      {NULL, "batch_size: 1", "crop_size: 4 noise_param { inverse: true }", "noise_param",
       CREMA_E_UNSUPPORTED},
      {NULL, "batch_size: 1", "crop_size: 4 mean_value: 1 mean_value: 2", "mean", CREMA_E_SHAPE},
  };
  const fixture *f = *state;
  crema_net *net = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    make_set(f);
    if (cases[i].file != NULL) fixture_text(f, "windows.txt", cases[i].file);
    assert_fails(make_net(f, cases[i].param, cases[i].transform, 1, &net), cases[i].code,
                 cases[i].part);
    assert_error_has("'in'");
  }
  /* Seen only when the window is cut. */
  fixture_text(f, "windows.txt", "# 0\na.png\n3 10 12\n1\n1 1 9 9 12 12\n");
  ok(make_net(f, "batch_size: 1 fg_fraction: 1", "crop_size: 4", 1, &net));
  assert_fails(crema_net_forward(net, NULL), CREMA_E_RANGE,
               "windows.txt:5: a.png: window 9 9 12 12");
  crema_net_destroy(net);
  fixture_text(f, "windows.txt", "# 0\ngone.png\n3 10 12\n1\n1 1 0 0 1 1\n");
  ok(make_net(f, "batch_size: 1 fg_fraction: 1", "crop_size: 4", 1, &net));
  assert_fails(crema_net_forward(net, NULL), CREMA_E_NOT_FOUND, "gone.png");
  crema_net_destroy(net);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
