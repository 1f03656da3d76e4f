/* The preprocessing of deploy files: fields, labels, guesses, and the same values from a file, from
 * its bytes and from its pixels. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"
#include "crema/model.h"
#include "crema/preprocessing.h"
#include "data/augment/mean.h"
#include "data/image/image.h"
#include "folder.h"
#include "image_file.h"
#include "log_lines.h"

#define CAT CREMA_SOURCE_DIR "/examples/images/cat.jpg"

/* A net with an input of 1 x `channels` x 8 x 10 and three classes. */
static crema_net *make_net(int channels, const char *transform) {
  char text[2048];
  crema_net *net = NULL;
  snprintf(text, sizeof text,
           "layer { name: 'in' type: 'Input' top: 'x' %s\n"
           "  input_param { shape { dim: 1 dim: %d dim: 8 dim: 10 } } }\n"
           "layer { name: 'fc' type: 'InnerProduct' bottom: 'x' top: 'fc' inner_product_param {\n"
           "  num_output: 3 weight_filler { type: 'xavier' } } }\n",
           transform, channels);
  write_text("deploy.prototxt", text);
  ok(crema_net_load(path_of("deploy.prototxt"), NULL, &net));
  return net;
}

static crema_preprocessing *make(int channels, const char *transform) {
  crema_preprocessing *p = NULL;
  crema_net *net = make_net(channels, transform);
  ok(crema_preprocessing_create(net, 0, &p));
  crema_net_destroy(net);
  return p;
}

/* The text of the failure names the net's file, the line, the layer and `part`. */
static void refuse(int channels, const char *fields, crema_status code, const char *part) {
  char transform[512], place[PATH_SIZE + 64];
  crema_preprocessing *p = NULL;
  snprintf(transform, sizeof transform, "transform_param { %s }", fields);
  crema_net *net = make_net(channels, transform);
  assert_fails(crema_preprocessing_create(net, 0, &p), code, part);
  snprintf(place, sizeof place,
           "%s:1: layer 'in' (Input): transform_param: ", path_of("deploy.prototxt"));
  assert_error_has(place);
  assert_string_equal(crema_error_layer(), "in");
  assert_string_equal(crema_error_file(), path_of("deploy.prototxt"));
  assert_int_equal(crema_error_line(), 1);
  crema_net_destroy(net);
}

TEST(fields_of_the_input_layer) {
  crema_preprocessing *p =
      make(3,
           "transform_param { scale: 0.5 mean_value: 1 mean_value: 2 mean_value: 3 bgr2rgb: true"
           " crop_h: 8 crop_w: 10 force_color: true"
           " resize_param { height: 12 width: 16 resize_mode: FIT_SMALL_SIZE } }");
  const crema_image_options *options = crema_preprocessing_options(p);
  assert_null(crema_preprocessing_guess(p));
  assert_true(options->rgb && options->scale == 0.5F && options->keep_aspect);
  assert_int_equal(options->mean_count, 3);
  assert_true(options->mean[0] == 1 && options->mean[2] == 3);
  assert_int_equal(options->resize_height, 12);
  assert_int_equal(options->resize_width, 16);
  crema_preprocessing_destroy(p);
}

/* Fields of every Caffe's schema. */
TEST(sizes_of_image_data) {
  crema_preprocessing *p =
      make(3, "transform_param { crop_size: 0 } image_data_param { new_height: 12 new_width: 16 }");
  assert_int_equal(crema_preprocessing_options(p)->resize_height, 12);
  assert_int_equal(crema_preprocessing_options(p)->resize_width, 16);
  assert_false(crema_preprocessing_options(p)->keep_aspect);
  crema_preprocessing_destroy(p);
  p = make(3, "transform_param { } image_data_param { short_side: 12 }");
  assert_int_equal(crema_preprocessing_options(p)->resize_height, 12);
  assert_int_equal(crema_preprocessing_options(p)->resize_width, 12);
  assert_true(crema_preprocessing_options(p)->keep_aspect);
  crema_preprocessing_destroy(p);
}

TEST(guesses_are_told) {
  crema_preprocessing *p = make(3, "");
  const char *guess = crema_preprocessing_guess(p);
  assert_non_null(guess);
  assert_non_null(strstr(guess, "'in' has no transform_param, so the values are a guess"));
  assert_non_null(strstr(guess, "blue, green, red"));
  crema_image_options options = *crema_preprocessing_options(p);
  assert_true(options.scale == 1 && options.mean_count == 0 && options.mean_file == NULL);
  ok(crema_preprocessing_set_options(p, &options));
  assert_null(crema_preprocessing_guess(p));
  crema_preprocessing_destroy(p);
  p = make(1, "");
  assert_null(strstr(crema_preprocessing_guess(p), "blue"));
  crema_preprocessing_destroy(p);
}

TEST(fields_that_do_not_fit) {
  crema_net *net = make_net(3, "");
  crema_preprocessing *p = NULL;
  assert_fails(crema_preprocessing_create(net, 1, &p), CREMA_E_RANGE, "input 1 of a net with 1");
  assert_fails(crema_preprocessing_create(net, -1, &p), CREMA_E_RANGE, "input -1");
  crema_net_destroy(net);
  refuse(3, "crop_size: 9", CREMA_E_SHAPE, "a crop of 9 x 9 for an input of shape 1 3 8 10");
  refuse(3, "force_gray: true", CREMA_E_SHAPE, "force_gray for an input of 3 channels");
  refuse(1, "force_color: true", CREMA_E_SHAPE, "force_color for an input of 1 channels");
  refuse(3, "force_color: true force_gray: true", CREMA_E_ARGUMENT, "exclude each other");
  refuse(1, "mean_value: 1 mean_value: 2 mean_value: 3", CREMA_E_SHAPE,
         "3 mean values for an input of 1 channels");
  refuse(3, "mean_value: 1 mean_file: 'm'", CREMA_E_ARGUMENT, "exclude each other");
  refuse(3, "resize_param { height: 9 width: 11 } } image_data_param { new_height: 9 new_width: 9",
         CREMA_E_ARGUMENT, "exclude each other");
  refuse(3, "} image_data_param { new_height: 9 short_side: 8", CREMA_E_ARGUMENT,
         "exclude each other");
  refuse(3, "} image_data_param { new_height: 9", CREMA_E_RANGE, "a size of 9 x 0 pixels");
  refuse(3, "resize_param { height: 9 }", CREMA_E_ARGUMENT, "resize_param: height: 9");
  refuse(3, "resize_param { height: 9 width: 70000 }", CREMA_E_RANGE, "70000");
  refuse(3, "resize_param { height: 9 width: 9 resize_mode: FIT_LARGE_SIZE_AND_PAD }",
         CREMA_E_UNSUPPORTED, "FIT_LARGE_SIZE_AND_PAD");
  refuse(3, "resize_param { height: 9 width: 9 interp_mode: CUBIC }", CREMA_E_UNSUPPORTED,
         "interp_mode LINEAR");
}

TEST(fields_without_effect_are_named) {
  log_lines lines;
  listen_to(&lines, CREMA_LOG_WARNING);
  crema_preprocessing_destroy(
      make(3,
           "transform_param { mirror: true scale: 2 distort_param { brightness_prob: 1 }"
           " resize_param { height: 9 width: 11 prob: 0.5 } }"));
  assert_int_equal(count_lines(&lines,
                               "layer 'in' (Input): these fields of transform_param have no "
                               "effect: mirror, distort_param, resize_param.prob"),
                   1);
  stop_listening();
}

static cr_image read_cat(void) {
  cr_image image = {0};
  ok(read_image(CAT, CR_IMAGE_COLOR, &image));
  return image;
}

static crema_blob *make_blob(int channels) {
  const crema_shape shape = {.axes = 4, .dim = {2, channels, 8, 10}};
  crema_blob *blob = NULL;
  ok(crema_blob_create(&shape, &blob));
  return blob;
}

static void assert_same(crema_blob *a, crema_blob *b) {
  const float *x = NULL, *y = NULL;
  ok(crema_blob_cpu_data(a, &x));
  ok(crema_blob_cpu_data(b, &y));
  assert_int_equal(crema_blob_count(a), crema_blob_count(b));
  assert_memory_equal(x, y, (size_t)crema_blob_count(a) * sizeof *x);
}

#define OPTIONS                                                                     \
  "transform_param { mean_value: 104 mean_value: 117 mean_value: 123 scale: 0.017 " \
  "resize_param { height: 20 width: 24 } }"

/* The path, the bytes, the pixels and crema_image_load agree bit for bit. */
TEST(sources_agree) {
  crema_preprocessing *p = make(3, OPTIONS);
  crema_blob *wanted = make_blob(3), *found = make_blob(3);
  cr_buffer file = {0};
  crema_image_options options = *crema_preprocessing_options(p);
  options.exact_resize = true; /* as pixels are resized */
  ok(crema_preprocessing_set_options(p, &options));
  ok(crema_image_load(CAT, crema_preprocessing_options(p), wanted, 1));
  ok(crema_preprocessing_load(p, CAT, found, 1));
  assert_same(found, wanted);
  ok(cr_file_read(CAT, &file));
  ok(crema_preprocessing_decode(p, file.data, file.size, found, 0));
  ok(crema_image_load(CAT, crema_preprocessing_options(p), wanted, 0));
  assert_same(found, wanted);
  cr_image cat = read_cat();
  crema_pixels pixels = {
      .values = cat.pixels, .height = cat.height, .width = cat.width, .channels = 3};
  ok(crema_preprocessing_convert(p, &pixels, found, 1));
  assert_same(found, wanted);
  for (size_t i = 0; i < (size_t)cat.height * (size_t)cat.width; ++i) {
    const uint8_t blue = cat.pixels[3 * i];
    cat.pixels[3 * i] = cat.pixels[3 * i + 2];
    cat.pixels[3 * i + 2] = blue;
  }
  pixels.rgb = true;
  ok(crema_preprocessing_convert(p, &pixels, found, 0));
  assert_same(found, wanted);
  cr_image_free(&cat);
  cr_buffer_free(&file);
  crema_blob_destroy(found);
  crema_blob_destroy(wanted);
  crema_preprocessing_destroy(p);
}

/* Grey and alpha, for inputs of one and of three channels. */
TEST(channels_of_pixels) {
  static const uint8_t gray[4] = {10, 20, 30, 40}, pair[8] = {10, 1, 20, 2, 30, 3, 40, 4};
  uint8_t color[12], alpha[16];
  for (int i = 0; i < 4; ++i) {
    memset(color + 3 * i, gray[i], 3);
    memset(alpha + 4 * i, gray[i], 3);
    alpha[4 * i + 3] = (uint8_t)i;
  }
  const uint8_t *const values[] = {gray, pair, color, alpha};
  for (int channels = 1; channels <= 3; channels += 2) {
    crema_preprocessing *p = make(channels, "transform_param { }");
    crema_blob *wanted = make_blob(channels), *found = make_blob(channels);
    for (int c = 1; c <= 4; ++c) {
      const crema_pixels pixels = {.values = values[c - 1], .height = 2, .width = 2, .channels = c};
      ok(crema_preprocessing_convert(p, &pixels, c == 1 ? wanted : found, 0));
      if (c > 1) assert_same(found, wanted);
    }
    crema_pixels pixels = {.values = gray, .height = 2, .width = 2, .channels = 5};
    assert_fails(crema_preprocessing_convert(p, &pixels, found, 0), CREMA_E_SHAPE,
                 "pixels of 5 channels: 1 (grey), 2 (grey and alpha), 3 (colours) or 4");
    pixels = (crema_pixels){.values = gray, .height = 0, .width = 2, .channels = 1};
    assert_fails(crema_preprocessing_convert(p, &pixels, found, 0), CREMA_E_SHAPE, "0 x 2 pixels");
    crema_blob_destroy(found);
    crema_blob_destroy(wanted);
    crema_preprocessing_destroy(p);
  }
}

/* The resized image just covers the size: of 2 x 4 pixels, 8 x 16, and the crop is its middle. */
TEST(aspect_is_kept) {
  static const uint8_t stripes[8] = {0, 100, 100, 200, 0, 100, 100, 200};
  const crema_pixels pixels = {.values = stripes, .height = 2, .width = 4, .channels = 1};
  const float *value = NULL;
  crema_preprocessing *p = make(1,
                                "transform_param { resize_param { height: 8 width: 10"
                                " resize_mode: FIT_SMALL_SIZE } }");
  crema_blob *blob = make_blob(1);
  ok(crema_preprocessing_convert(p, &pixels, blob, 0));
  ok(crema_blob_cpu_data(blob, &value));
  for (int x = 0; x < 10; ++x) {
    const bool middle = x + 3 >= 6 && x + 3 < 10; /* between the centres of the equal columns */
    assert_int_equal(value[x] == 100, middle);
    assert_true(x == 0 || value[x] >= value[x - 1]);
  }
  crema_blob_destroy(blob);
  crema_preprocessing_destroy(p);
}

/* A mean image is looked for beside the net and read for the first image only. */
TEST(mean_files) {
  float mean_values[3 * 80];
  crema_blob *blob = make_blob(3), *plain = make_blob(3);
  const float *with = NULL, *without = NULL;
  for (int i = 0; i < 240; ++i) mean_values[i] = (float)i;
  ok(cr_mean_write(path_of("mean"), &(cr_mean){3, 8, 10, mean_values}));
  crema_preprocessing *p = make(3, "transform_param { mean_file: 'mean' }");
  assert_string_equal(crema_preprocessing_options(p)->mean_file, path_of("mean"));
  ok(crema_preprocessing_load(p, CAT, blob, 0));
  assert_int_equal(unlink(path_of("mean")), 0);
  ok(crema_preprocessing_load(p, CAT, blob, 0));
  ok(crema_image_load(CAT, NULL, plain, 0));
  ok(crema_blob_cpu_data(blob, &with));
  ok(crema_blob_cpu_data(plain, &without));
  for (int i = 0; i < 240; ++i) assert_true(with[i] == without[i] - (float)i);
  crema_preprocessing_destroy(p);
  p = make(3, "transform_param { mean_file: 'mean' }");
  assert_fails(crema_preprocessing_load(p, CAT, blob, 0), CREMA_E_NOT_FOUND, "layer 'in' (Input)");
  assert_error_has("deploy.prototxt");
  assert_error_has("transform_param: mean_file");
  assert_error_has("mean");
  assert_string_equal(crema_error_layer(), "in");
  crema_preprocessing_destroy(p);
  write_text("mean", "text");
  p = make(3, "transform_param { mean_file: 'mean' }");
  assert_fails(crema_preprocessing_load(p, CAT, blob, 0), CREMA_E_CORRUPT, "layer 'in' (Input)");
  assert_error_has("transform_param: mean_file");
  assert_error_has(path_of("mean"));
  ok(cr_mean_write(path_of("mean"), &(cr_mean){1, 8, 10, mean_values}));
  assert_fails(crema_preprocessing_load(p, CAT, blob, 0), CREMA_E_SHAPE, "the mean image of");
  assert_error_has(path_of("mean"));
  assert_error_has("is 1 x 8 x 10, the pixels are 3 x 8 x 10");
  crema_preprocessing_destroy(p);
  unlink(path_of("mean"));
  crema_blob_destroy(plain);
  crema_blob_destroy(blob);
}

TEST(labels) {
  const char *const *name = NULL;
  size_t count = 9;
  crema_preprocessing *p = make(3, "");
  ok(crema_preprocessing_labels(p, 3, &name, &count));
  assert_int_equal(count, 0);
  crema_preprocessing_destroy(p);
  write_text("labels.txt",
             "\xEF\xBB\xBF"
             "cat\r\ndog\ntree");
  p = make(3, "");
  ok(crema_preprocessing_labels(p, 3, &name, &count));
  assert_int_equal(count, 3);
  assert_string_equal(name[0], "cat");
  assert_string_equal(name[2], "tree");
  assert_fails(crema_preprocessing_labels(p, 4, &name, &count), CREMA_E_SHAPE,
               path_of("labels.txt"));
  assert_error_has("names 3 classes, but the net has 4");
  ok(crema_preprocessing_set_labels(p, path_of("none")));
  assert_fails(crema_preprocessing_labels(p, 0, &name, &count), CREMA_E_NOT_FOUND, "labels");
  assert_error_has(path_of("none"));
  ok(crema_preprocessing_set_labels(p, folder));
  assert_int_not_equal(crema_preprocessing_labels(p, 0, &name, &count), CREMA_OK);
  assert_non_null(strstr(crema_error_text(), folder));
  ok(cr_file_write(path_of("zero"), "a\nb\0c\n", 6));
  ok(crema_preprocessing_set_labels(p, path_of("zero")));
  assert_fails(crema_preprocessing_labels(p, 0, &name, &count), CREMA_E_PARSE, "labels");
  ok(crema_preprocessing_set_labels(p, NULL));
  ok(crema_preprocessing_labels(p, 3, &name, &count));
  assert_int_equal(count, 0);
  unlink(path_of("zero"));
  unlink(path_of("labels.txt"));
  crema_preprocessing_destroy(p);
}

/* A net without a file has no folder to look in. */
TEST(nets_in_memory_have_no_labels) {
  static const char text[] = "layer { name: 'in' type: 'Input' top: 'x' }";
  const char *const *name = NULL;
  size_t count = 9;
  crema_net *net = NULL;
  crema_preprocessing *p = NULL;
  char here[4096];
  assert_non_null(getcwd(here, sizeof here));
  write_text("labels.txt", "cat\n");
  assert_int_equal(chdir(folder), 0);
  ok(crema_net_parse(text, sizeof text - 1, "net", NULL, &net));
  ok(crema_preprocessing_create(net, 0, &p));
  ok(crema_preprocessing_labels(p, 0, &name, &count));
  assert_int_equal(count, 0);
  assert_int_equal(chdir(here), 0);
  crema_preprocessing_destroy(p);
  crema_net_destroy(net);
  unlink(path_of("labels.txt"));
}

/* A compiled model has the preprocessing of the plain net, and keeps its failure until it is used.
 */
TEST(compiled_models) {
  crema_model *model = NULL;
  crema_session *session = NULL;
  crema_preprocessing *of_model = NULL, *of_net = NULL;
  const char *const *name = NULL;
  size_t count = 0;
  write_text("labels.txt", "cat\ndog\ntree\n");
  crema_net *net = make_net(3, OPTIONS);
  ok(crema_preprocessing_create(net, 0, &of_net));
  ok(crema_model_load(path_of("deploy.prototxt"), NULL, NULL, &model));
  ok(crema_session_create(model, NULL, &session));
  ok(crema_model_preprocessing(model, 0, &of_model));
  ok(crema_preprocessing_load(of_net, CAT, crema_net_input(net, 0), 0));
  ok(crema_preprocessing_load(of_model, CAT, crema_session_input(session, 0), 0));
  assert_same(crema_session_input(session, 0), crema_net_input(net, 0));
  ok(crema_preprocessing_labels(of_model, 3, &name, &count));
  assert_string_equal(name[1], "dog");
  assert_fails(crema_model_preprocessing(model, 1, &of_model), CREMA_E_RANGE, "input 1 of a model");
  crema_session_destroy(session);
  crema_model_destroy(model);
  crema_preprocessing_destroy(of_net);
  crema_net_destroy(net);
  crema_net_destroy(make_net(3, "transform_param { crop_size: 9 }"));
  ok(crema_model_load(path_of("deploy.prototxt"), NULL, NULL, &model));
  for (int i = 0; i < 2; ++i) {
    assert_fails(crema_model_preprocessing(model, 0, &of_model), CREMA_E_SHAPE,
                 "a crop of 9 x 9 for an input");
  }
  crema_model_destroy(model);
  unlink(path_of("labels.txt"));
}

static int remove_files(void **state) {
  unlink(path_of("deploy.prototxt"));
  return remove_folder(state);
}

int main(void) {
  return run_all_tests(make_folder, remove_files);
}
