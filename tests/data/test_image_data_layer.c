/* ImageData: order, shuffling, sizes, faults, exact resume. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "core/clock.h"
#include "core/file.h"
#include "data/pipeline/image_list.h"
#include "data/pipeline/order.h"
#include "data/pipeline/pipeline.h"
#include "fixture.h"
#include "net/net_values.h"

/* A PNG of height x width pixels that all have the values b, b + 1, b + 2. */
static void make_image(const fixture *f, const char *name, int height, int width, int b) {
  cr_image image = {0};
  ok(cr_image_reserve(&image, height, width, 3));
  for (int i = 0; i < height * width * 3; ++i) image.pixels[i] = (uint8_t)(b + i % 3);
  fixture_write_png(f, name, &image);
  cr_image_free(&image);
}

enum { IMAGES = 7 };

/* Images 0.png to 6.png of 6 x 8 pixels of value 10 * i, label i, in "a folder"; list.txt. */
static void make_set(const fixture *f) {
  cr_buffer list = {0};
  char folder[600];
  snprintf(folder, sizeof folder, "mkdir '%s'", fixture_path(f, "a folder"));
  assert_int_equal(system(folder), 0);
  for (int i = 0; i < IMAGES; ++i) {
    char name[32];
    snprintf(name, sizeof name, "a folder/%d.png", i);
    make_image(f, name, 6, 8, 10 * i);
    ok(cr_buffer_print(&list, "%s %d\n", name, i));
  }
  fixture_text(f, "list.txt", list.data);
  cr_buffer_free(&list);
}

/* `param` goes into image_data_param, `rest` into the layer. */
static crema_status make_net(const fixture *f, const char *param, const char *rest, int64_t seed,
                             crema_net **out) {
  static const input_type type = {"ImageData", "image_data_param {", CREMA_TRAIN};
  return parse_input(&type, fixture_path(f, "list.txt"), param, rest, seed, out);
}

/* Data and label of an image belong together. */
static void assert_together(crema_net *net, int items, size_t item_size) {
  for (int i = 0; i < items; ++i) {
    int label = (int)values(net, "label")[i];
    assert_true(values(net, "data")[(size_t)i * item_size] == (float)(10 * label));
  }
}

FIXTURE_TEST(test_order_and_wrap) {
  const fixture *f = *state;
  crema_net *net = NULL;
  make_set(f);
  ok(make_net(f, "batch_size: 3", "", 1, &net));
  const crema_shape *shape = crema_blob_shape(blob_of(net, "data"));
  assert_true(shape->dim[0] == 3 && shape->dim[1] == 3 && shape->dim[2] == 6 && shape->dim[3] == 8);
  for (int k = 0; k < 8; ++k) {
    forward(net);
    for (int i = 0; i < 3; ++i) {
      assert_true(values(net, "label")[i] == (float)((3 * k + i) % IMAGES));
    }
    assert_together(net, 3, 3 * 6 * 8);
  }
  crema_net_destroy(net);
}

FIXTURE_TEST(test_sizes_and_colors) {
  static const struct {
    const char *param, *rest;
    int channels, height, width;
  } cases[] = {
      {"batch_size: 2 new_height: 5 new_width: 4", "", 3, 5, 4},
      {"batch_size: 2 is_color: false", "", 1, 6, 8},
      {"batch_size: 2 short_side: 3", "", 3, 3, 4},
      {"batch_size: 2 min_height: 5 min_width: 8", "", 3, 6, 8},
      {"batch_size: 2 min_height: 9 min_width: 8", "", 3, 9, 12},
      {"batch_size: 2 min_height: 8 min_width: 12", "", 3, 9, 12},
      {"batch_size: 2 min_height: 7 min_width: 10", "", 3, 8, 10},
      {"batch_size: 2 new_height: 9 new_width: 9", "transform_param { crop_size: 4 }", 3, 4, 4},
      {"batch_size: 2",
       "transform_param { resize_param { resize_mode: WARP height: 11 width: 7 } mirror: true }", 3,
       11, 7},
  };
  const fixture *f = *state;
  make_set(f);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    crema_net *net = NULL;
    ok(make_net(f, cases[i].param, cases[i].rest, 1, &net));
    forward(net);
    const crema_shape *shape = crema_blob_shape(blob_of(net, "data"));
    assert_int_equal(shape->dim[1], cases[i].channels);
    assert_int_equal(shape->dim[2], cases[i].height);
    assert_int_equal(shape->dim[3], cases[i].width);
    assert_true(values(net, "label")[1] == 1);
    crema_net_destroy(net);
  }
}

/* A JPEG of four times the size is averaged, or with exact_resize decoded whole. */
FIXTURE_TEST(large_jpegs_are_resized_exactly_on_demand) {
  const fixture *f = *state;
  cr_image image = {0}, whole = {0}, small = {0};
  cr_buffer file = {0};
  ok(cr_image_reserve(&image, 64, 64, 1));
  for (int i = 0; i < 64 * 64; ++i) image.pixels[i] = (uint8_t)(i * i % 251);
  ok(cr_image_encode(&image, "jpg", &file));
  ok(cr_file_write(fixture_path(f, "grain.jpg"), file.data, file.size));
  ok(cr_image_decode((const uint8_t *)file.data, file.size, CR_IMAGE_GRAY, &whole));
  ok(cr_image_resize(&whole, 16, 16, &small));
  fixture_text(f, "list.txt", "grain.jpg 1\n");
  for (int exact = 0; exact < 2; ++exact) {
    crema_net *net = NULL;
    int other = 0;
    ok(make_net(f,
                exact ? "new_height: 16 new_width: 16 is_color: false exact_resize: true"
                      : "new_height: 16 new_width: 16 is_color: false",
                "", 1, &net));
    forward(net);
    for (int i = 0; i < 256; ++i) other += values(net, "data")[i] != (float)small.pixels[i];
    assert_int_equal(other > 0, !exact);
    crema_net_destroy(net);
  }
  cr_buffer_free(&file);
  cr_image_free(&small);
  cr_image_free(&whole);
  cr_image_free(&image);
}

static void read_labels(crema_net *net, int batches, int items, int *out) {
  for (int k = 0; k < batches; ++k) {
    forward(net);
    assert_together(net, items, 3 * 6 * 8);
    for (int i = 0; i < items; ++i) *out++ = (int)values(net, "label")[i];
  }
}

/* Each epoch holds each image once, in an order of its own; the seed decides. */
FIXTURE_TEST(test_shuffle) {
  enum { EPOCHS = 20, ITEMS = 7, TOTAL = EPOCHS * ITEMS };
  const fixture *f = *state;
  crema_net *net = NULL;
  int first[TOTAL], again[TOTAL], other[TOTAL];
  make_set(f);
  ok(make_net(f, "batch_size: 5 shuffle: true", "", 3, &net));
  read_labels(net, TOTAL / 5, 5, first);
  crema_net_destroy(net);
  ok(make_net(f, "batch_size: 1 shuffle: true", "", 3, &net));
  read_labels(net, TOTAL, 1, again);
  crema_net_destroy(net);
  assert_memory_equal(first, again, sizeof first);
  ok(make_net(f, "batch_size: 5 shuffle: true", "", 4, &net));
  read_labels(net, TOTAL / 5, 5, other);
  crema_net_destroy(net);
  assert_memory_not_equal(first, other, sizeof first);
  int same = 0;
  for (int e = 0; e < EPOCHS; ++e) {
    unsigned seen = 0;
    for (int i = 0; i < ITEMS; ++i) seen |= 1u << first[e * ITEMS + i];
    assert_int_equal(seen, (1u << ITEMS) - 1);
    if (e > 0 && memcmp(first, first + e * ITEMS, ITEMS * sizeof *first) == 0) ++same;
  }
  assert_in_range(same, 0, 1);
}

/* Up to rand_skip images are left out at the start, as many as the seed says. */
FIXTURE_TEST(s2_28_threads_give_the_same_batches) {
  static const char *const rest =
      "transform_param { crop_size: 4 mirror: true distort_param { brightness_prob: 1 "
      "brightness_delta: 20 } }";
  enum { BATCHES = 20, ITEM = 3 * 4 * 4 };
  const fixture *f = *state;
  static float one[BATCHES][3 * ITEM + 3];
  make_set(f);
  for (int threads = 1; threads <= 8; threads = threads == 1 ? 2 : 4 * threads) {
    for (int size = 1; size <= 3; size += 2) {
      crema_net *net = NULL;
      char param[96];
      snprintf(param, sizeof param, "batch_size: %d shuffle: true threads: %d", size, threads);
      ok(make_net(f, param, rest, 3, &net));
      for (int k = 0; k < BATCHES; ++k) {
        forward(net);
        size_t count = (size_t)size * ITEM;
        /* One thread, three items: the measure of all. A batch of 1 is an item of it. */
        float *data = one[size == 1 ? k / 3 : k] + (size == 1 ? k % 3 * ITEM : 0);
        float *label = one[size == 1 ? k / 3 : k] + 3 * ITEM + (size == 1 ? k % 3 : 0);
        if (threads == 1 && size == 1) continue;
        if (threads == 1) {
          memcpy(data, values(net, "data"), count * sizeof(float));
          memcpy(label, values(net, "label"), (size_t)size * sizeof(float));
        }
        assert_memory_equal(data, values(net, "data"), count * sizeof(float));
        assert_memory_equal(label, values(net, "label"), (size_t)size * sizeof(float));
      }
      crema_net_destroy(net);
    }
  }
}

FIXTURE_TEST(test_threads_that_cannot_be) {
  const fixture *f = *state;
  crema_net *net = NULL;
  make_set(f);
  assert_fails(make_net(f, "threads: 65", "", 1, &net), CREMA_E_RANGE, "65 decoding threads");
  assert_error_has("'in'");
}

/* Labels with a second top only; the transformer's random numbers depend on the seed: the same seed
 * gives the same bytes, another one other crops. */
FIXTURE_TEST(s2_17_labels_are_optional_and_random_numbers_are_seeded) {
  enum { BATCHES = 6, COUNT = 3 * 3 * 4 * 4 };
  static float seen[3][BATCHES][COUNT];
  static const char *const rest = "transform_param { crop_size: 4 mirror: true }";
  const fixture *f = *state;
  crema_net *net = NULL;
  crema_blob *label = NULL;
  make_set(f);
  /* Pixels that tell where they are from. */
  cr_image image = {0};
  fixture_image(&image, 20, 24, 3);
  for (int i = 0; i < IMAGES; ++i) {
    char name[32];
    snprintf(name, sizeof name, "a folder/%d.png", i);
    fixture_write_png(f, name, &image);
  }
  cr_image_free(&image);
  static const int64_t seeds[] = {4, 4, 5};
  for (int k = 0; k < 3; ++k) {
    ok(make_net(f, "batch_size: 3", rest, seeds[k], &net));
    for (int b = 0; b < BATCHES; ++b) {
      forward(net);
      memcpy(seen[k][b], values(net, "data"), sizeof seen[k][b]);
    }
    crema_net_destroy(net);
  }
  assert_memory_equal(seen[0], seen[1], sizeof seen[0]);
  assert_memory_not_equal(seen[0], seen[2], sizeof seen[0]);
  ok(parse_net(NULL, NULL, &net,
               "layer { name: 'in' type: 'ImageData' top: 'data' image_data_param { source: '%s' "
               "batch_size: 2 } }",
               fixture_path(f, "list.txt")));
  forward(net);
  assert_int_equal(crema_net_blob(net, "label", &label), CREMA_E_UNKNOWN_NAME);
  crema_net_destroy(net);
}

/* Decoded, cropped (in TEST from the middle, in TRAIN anywhere), less the mean, times the scale,
 * mirrored in TRAIN: picture (y, x, c) = 20 y + 3 x + 60 c, 6 x 8 pixels. */
static crema_status make_transform(const fixture *f, const char *transform, crema_phase phase,
                                   crema_net **net) {
  const crema_net_options options = net_options(phase, 2, NULL);
  return parse_net(&options, NULL, net,
                   "layer { name: 'in' type: 'ImageData' top: 'data' transform_param { %s } "
                   "image_data_param { source: '%s' } }",
                   transform, fixture_path(f, "list.txt"));
}

/* Whether the values are those of the crop at (top, left) of `side` pixels. */
static bool is_crop(const float *data, int top, int left, int side, bool mirror, const float *mean,
                    float scale) {
  for (int i = 0; i < 3 * side * side; ++i) {
    int c = i / (side * side), y = top + i / side % side, x = i % side;
    x = left + (mirror ? side - 1 - x : x);
    if (data[i] != ((float)(20 * y + 3 * x + 60 * c) - mean[c]) * scale) return false;
  }
  return true;
}

static void write_pattern(const fixture *f) {
  cr_image image = {0};
  ok(cr_image_reserve(&image, 6, 8, 3));
  for (int i = 0; i < 6 * 8 * 3; ++i) {
    image.pixels[i] = (uint8_t)(20 * (i / 24) + 3 * (i / 3 % 8) + 60 * (i % 3));
  }
  fixture_write_png(f, "p.png", &image);
  fixture_text(f, "list.txt", "p.png 0\n");
  cr_image_free(&image);
}

FIXTURE_TEST(s2_22_options_in_their_order) {
  static const float none[3] = {0, 0, 0}, one[3] = {9, 9, 9}, three[3] = {1, 2, 3};
  static const struct {
    const char *transform;
    const float *mean;
    float scale;
  } cases[] = {
      {"crop_size: 4", none, 1},
      {"crop_size: 4 scale: 0.5", none, 0.5F},
      {"crop_size: 4 mean_value: 9", one, 1},
      {"crop_size: 4 mean_value: 1 mean_value: 2 mean_value: 3 scale: 0.25", three, 0.25F},
  };
  const fixture *f = *state;
  crema_net *net = NULL;
  write_pattern(f);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    ok(make_transform(f, cases[i].transform, CREMA_TEST, &net));
    forward(net);
    assert_true(is_crop(values(net, "data"), 1, 2, 4, false, cases[i].mean, cases[i].scale));
    crema_net_destroy(net);
  }
  /* Every position and both directions occur. */
  bool seen[3][5][2] = {{{false}}};
  ok(make_transform(f, "crop_size: 4 mirror: true mean_value: 9 scale: 2", CREMA_TRAIN, &net));
  for (int k = 0; k < 300; ++k) {
    int found = 0;
    forward(net);
    for (int i = 0; i < 30; ++i) {
      int top = i / 10, left = i / 2 % 5, mirror = i % 2;
      if (!is_crop(values(net, "data"), top, left, 4, mirror == 1, one, 2)) continue;
      seen[top][left][mirror] = true;
      ++found;
    }
    assert_int_equal(found, 1);
  }
  for (int i = 0; i < 30; ++i) assert_true(seen[i / 10][i / 2 % 5][i % 2]);
  crema_net_destroy(net);
  /* The other order of the channels comes before the means. */
  ok(make_transform(f, "crop_size: 4", CREMA_TEST, &net));
  forward(net);
  float bgr[3 * 4 * 4];
  memcpy(bgr, values(net, "data"), sizeof bgr);
  crema_net_destroy(net);
  ok(make_transform(f, "crop_size: 4 bgr2rgb: true mean_value: 1 mean_value: 2 mean_value: 3",
                    CREMA_TEST, &net));
  forward(net);
  for (int c = 0; c < 3; ++c) {
    for (int i = 0; i < 16; ++i) {
      assert_true(values(net, "data")[c * 16 + i] == bgr[(2 - c) * 16 + i] - (float)(c + 1));
    }
  }
  assert_true(bgr[0] != bgr[32]);
  crema_net_destroy(net);
  static const char *const bad[] = {"crop_size: 7", "mean_value: 1 mean_value: 2",
                                    "mean_value: 1 mean_file: 'none'"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    assert_int_not_equal(make_transform(f, bad[i], CREMA_TEST, &net), CREMA_OK);
    assert_error_has("'in'");
  }
}

/* Sharing (S2-24) replaces what S2-23 asks for, a copy to the top after which the batch is given
 * back at once: the tops' memory is the batch's own, nothing is copied; the pipeline, which runs
 * ahead meanwhile, leaves it alone until the next forward pass. */
FIXTURE_TEST(s2_23_s2_24_tops_share_the_batch_in_place_of_a_copy) {
  enum { COUNT = 2 * 3 * 6 * 8 };
  const fixture *f = *state;
  crema_net *net = NULL;
  const float *seen[16];
  int distinct = 0;
  make_set(f);
  ok(make_net(f, "batch_size: 2 threads: 3", "", 1, &net));
  for (int k = 0; k < 16; ++k) {
    static float copy[COUNT];
    forward(net);
    const float *data = values(net, "data"), *label = values(net, "label");
    memcpy(copy, data, sizeof copy);
    /* Time for the pipeline to fill all other batches. */
    if (k < 8) cr_clock_sleep(2e-3);
    assert_memory_equal(copy, data, sizeof copy);
    for (int i = 0; i < 2; ++i) {
      assert_true(label[i] == (float)((2 * k + i) % IMAGES));
      assert_true(data[i * COUNT / 2] == 10 * label[i]);
    }
    bool old = false;
    for (int j = 0; j < distinct; ++j) old = old || seen[j] == data;
    if (!old) seen[distinct++] = data;
  }
  /* As many addresses as there are batches: 3. */
  assert_int_equal(distinct, 3);
  crema_net_destroy(net);
}

static double seconds_of(crema_net *net, int steps, double computing) {
  double start = cr_clock_seconds();
  for (int k = 0; k < steps; ++k) {
    forward(net);
    cr_clock_sleep(computing);
  }
  return cr_clock_seconds() - start;
}

/* Loading overlaps computing: while the net computes for longer than a batch takes to load, it does
 * not wait. */
FIXTURE_TEST(s2_30_loading_overlaps_computing) {
  const fixture *f = *state;
  crema_net *net = NULL;
  make_set(f);
  ok(make_net(f, "batch_size: 7 threads: 2", "", 1, &net));
  forward(net);
  double loading = seconds_of(net, 10, 0) / 10;
  cr_input_stats stats = input_stats(net);
  /* On a busy machine a reader may be kept waiting for its processor now and then. */
  bool hidden = false;
  int tries = 0;
  for (; tries < 10 && !hidden; ++tries) {
    double waited = stats.pipeline.wait_seconds;
    /* Ten times what loading takes, and enough for a busy machine. */
    (void)seconds_of(net, 10, 10 * loading + 0.01);
    stats = input_stats(net);
    hidden = stats.pipeline.wait_seconds - waited < 10 * loading;
  }
  assert_true(hidden);
  assert_true(stats.pipeline.decode_seconds > 0 && stats.reader.busy_seconds > 0);
  assert_int_equal(stats.pipeline.batches, 11 + 10 * tries);
  assert_int_equal(stats.pipeline.fill.count, 10 + 10 * tries);
  crema_net_destroy(net);
}

FIXTURE_TEST(test_rand_skip) {
  const fixture *f = *state;
  unsigned seen = 0;
  make_set(f);
  for (int seed = 0; seed < 24; ++seed) {
    crema_net *net = NULL;
    ok(make_net(f, "batch_size: 2 rand_skip: 3", "", seed, &net));
    forward(net);
    int skipped = (int)values(net, "label")[0];
    assert_true(values(net, "label")[1] == (float)(skipped + 1));
    seen |= 1u << skipped;
    crema_net_destroy(net);
  }
  assert_int_equal(seen, 7);
}

/* The layer's saved text continues a run to the bit, also under another seed. */
FIXTURE_TEST(s2_31_resume) {
  static const char *const param = "batch_size: 3 shuffle: true rand_skip: 5";
  static const char *const rest = "transform_param { crop_size: 4 mirror: true }";
  enum { BATCH = 3 * 3 * 4 * 4 };
  const fixture *f = *state;
  crema_net *net = NULL, *resumed = NULL;
  make_set(f);
  ok(make_net(f, param, rest, 5, &net));
  for (int k = 0; k < 4; ++k) forward(net);
  ok(make_net(f, param, rest, 6, &resumed));
  forward(resumed);
  check_resumed(net, resumed, " batch 4.", 9);
}

static void refuse(const fixture *f, const char *list, const char *param, crema_status code,
                   const char *part) {
  crema_net *net = NULL;
  fixture_text(f, "list.txt", list);
  assert_int_equal(make_net(f, param, "", 1, &net), code);
  assert_null(net);
  assert_error_has(part);
  assert_error_has("'in'");
}

FIXTURE_TEST(test_bad_lists_and_parameters) {
  const fixture *f = *state;
  make_set(f);
  crema_net *net = NULL;
  fixture_text(f, "list.txt", "a folder/1.png  \t 1 \r\na folder/2.png\t\t2\n");
  ok(make_net(f, "batch_size: 2", "", 1, &net));
  forward(net);
  assert_true(values(net, "label")[0] == 1 && values(net, "label")[1] == 2);
  crema_net_destroy(net);
  refuse(f, "a.png one\n", "", CREMA_E_PARSE, "list.txt:1");
  refuse(f, "a folder/0.png 1\n\nalone\n", "", CREMA_E_PARSE, "list.txt:3");
  refuse(f, "a folder/0.png 99999999999\n", "", CREMA_E_PARSE, "list.txt:1");
  refuse(f, " \n\n", "", CREMA_E_PARSE, "empty");
  refuse(f, "a folder/0.png 1\n", "new_height: 4", CREMA_E_ARGUMENT, "new_width");
  refuse(f, "a folder/0.png 1\n", "batch_size: 0", CREMA_E_ARGUMENT, "batch_size");
  refuse(f, "nothing.png 1\n", "", CREMA_E_NOT_FOUND, "nothing.png");
  assert_int_equal(unlink(fixture_path(f, "list.txt")), 0);
  assert_fails(make_net(f, "", "", 1, &net), CREMA_E_NOT_FOUND, "list.txt");
}

/* A fault in the middle comes after the batches before it, and stays. */
FIXTURE_TEST(test_faults_in_the_middle) {
  static const struct {
    const char *list, *part;
    crema_status code;
  } cases[] = {
      {"a folder/0.png 0\na folder/1.png 1\ngone.png 2\n", "list.txt:3", CREMA_E_NOT_FOUND},
      {"a folder/0.png 0\na folder/1.png 1\ncut.png 2\n", "cut.png", CREMA_E_CORRUPT},
      {"a folder/0.png 0\na folder/1.png 1\na folder/1.png 1\nlarge.png 2\n", "large.png",
       CREMA_E_SHAPE},
      {"a folder/0.png 0\na folder/1.png 1\nlist.txt 2\n", "no image of a known format", CREMA_E_CORRUPT},
  };
  const fixture *f = *state;
  cr_buffer file = {0};
  make_set(f);
  make_image(f, "large.png", 9, 9, 1);
  ok(cr_file_read(fixture_path(f, "large.png"), &file));
  ok(cr_file_write(fixture_path(f, "cut.png"), file.data, file.size / 2));
  cr_buffer_free(&file);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    crema_net *net = NULL;
    fixture_text(f, "list.txt", cases[i].list);
    ok(make_net(f, "batch_size: 2", "", 1, &net));
    forward(net);
    assert_true(values(net, "label")[1] == 1);
    for (int again = 0; again < 2; ++again) {
      assert_fails(crema_net_forward(net, NULL), cases[i].code, cases[i].part);
      assert_error_has("'in'");
    }
    crema_net_destroy(net);
  }
}

/* Start, take none, some or many, stop. */
FIXTURE_TEST(test_stops_at_any_moment) {
  const fixture *f = *state;
  make_set(f);
  for (int i = 0; i < 60; ++i) {
    crema_net *net = NULL;
    ok(make_net(f, "batch_size: 2", "", 1, &net));
    for (int k = 0; k < i % 5; ++k) forward(net);
    crema_net_destroy(net);
  }
}

TEST(test_order_is_a_permutation) {
  cr_order order = {.key = 9, .count = 1000, .shuffle = true};
  char seen[1000] = "";
  size_t at = 0, again = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    ok(cr_order_at(&order, 5000 + i, &at));
    assert_true(at < 1000 && !seen[at]);
    seen[at] = 1;
  }
  /* Any index at any time. */
  ok(cr_order_at(&order, 5017, &at));
  ok(cr_order_at(&order, 1, &again));
  ok(cr_order_at(&order, 5017, &again));
  assert_int_equal(at, again);
  cr_order_free(&order);
  order.count = 0;
  assert_int_equal(cr_order_at(&order, 0, &at), CREMA_E_RANGE);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
