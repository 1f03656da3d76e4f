/* VideoClips, which VideoData with a list becomes, as C3D, video-caffe and TSN have it. */
#include <stdlib.h>
#include <sys/stat.h>

#include "check.h"
#include "data/augment/clip_transform.h"
#include "data/augment/mean.h"
#include "data/pipeline/clip_list.h"
#include "fixture.h"
#include "net/net_values.h"

enum { HEIGHT = 4, WIDTH = 6, PLANE = HEIGHT * WIDTH, FRAMES = 12 };

/* A frame: channel c of pixel i is 10 number + 5 c + i % 5, or `add` more. */
static void write_frame(const fixture *f, const char *name, int channels, int number, int add) {
  cr_image image = {0};
  ok(cr_image_reserve(&image, HEIGHT, WIDTH, channels));
  for (int i = 0; i < PLANE * channels; ++i) {
    image.pixels[i] = (uint8_t)(10 * number + 5 * (i % channels) + i / channels % 5 + add);
  }
  fixture_write_png(f, name, &image);
  cr_image_free(&image);
}

/* Folder `folder` with the frames 1 to 12, named as `pattern` says. */
static void make_folder(const fixture *f, const char *folder, const char *pattern, int channels,
                        int add) {
  assert_int_equal(mkdir(fixture_path(f, folder), 0755), 0);
  for (int k = 1; k <= FRAMES; ++k) {
    for (int axis = 0; axis < (channels == 1 ? 2 : 1); ++axis) {
      cr_buffer name = {0};
      ok(cr_buffer_print(&name, "%s/", folder));
      ok(cr_clip_frame_name(pattern, "xy"[axis], k, &name));
      write_frame(f, name.data, channels, k, add + 3 * axis);
      cr_buffer_free(&name);
    }
  }
}

static crema_status make_net(const fixture *f, crema_phase phase, const char *list,
                             const char *rest, crema_net **out) {
  const crema_net_options options = net_options(phase, 3, NULL);
  fixture_text(f, "list.txt", list);
  return parse_net(&options, NULL, out,
                   "layer { name: 'in' type: 'VideoData' top: 'data' top: 'label' "
                   "video_data_param { source: '%s' %s",
                   fixture_path(f, "list.txt"), rest);
}

static void assert_shape(crema_net *net, int axes, const int *dim) {
  const crema_shape *shape = crema_blob_shape(blob_of(net, "data"));
  assert_string_equal(net->layer[0].layer->kind->type, "VideoClips");
  assert_int_equal(shape->axes, axes);
  for (int i = 0; i < axes; ++i) assert_int_equal(shape->dim[i], dim[i]);
}

/* The first pixel of a plane of an item. */
static int first_of(crema_net *net, int planes, int item, int plane, int size) {
  return (int)values(net, "data")[(item * planes + plane) * size];
}

/* Channel by channel, in each channel frame by frame. */
FIXTURE_TEST(clips_of_video_caffe) {
  const fixture *f = *state;
  crema_net *net = NULL;
  make_folder(f, "a clip", "image_%04d.jpg", 3, 0);
  ok(make_net(f, CREMA_TEST, "a clip 3 7\na clip 1 2\n",
              "batch_size: 2 new_length: 4 sampling_rate: 2 } transform_param { mean_value: 1 "
              "mean_value: 2 mean_value: 3 } }",
              &net));
  assert_shape(net, 5, (const int[]){2, 3, 4, HEIGHT, WIDTH});
  ok(crema_net_forward(net, NULL));
  for (int item = 0; item < 2; ++item) {
    assert_true(values(net, "label")[item] == (item == 0 ? 7 : 2));
    for (int c = 0; c < 3; ++c) {
      for (int k = 0; k < 4; ++k) {
        const int number = (item == 0 ? 3 : 1) + 2 * k;
        assert_int_equal(first_of(net, 12, item, c * 4 + k, PLANE), 10 * number + 5 * c - 1 - c);
      }
    }
  }
  crema_net_destroy(net);
}

/* All frames of a clip get the same crop and mirroring. */
FIXTURE_TEST(frames_of_a_clip_are_transformed_alike) {
  const fixture *f = *state;
  crema_net *net = NULL;
  make_folder(f, "clip", "%06d.jpg", 3, 0);
  ok(make_net(f, CREMA_TRAIN, "clip 1 0\n",
              "batch_size: 8 new_length: 3 use_image: true crop_size: 3 mirror: true } }", &net));
  assert_shape(net, 5, (const int[]){8, 3, 3, 3, 3});
  ok(crema_net_forward(net, NULL));
  int other = 0;
  for (int item = 0; item < 8; ++item) {
    const float *data = values(net, "data") + item * 81;
    for (int plane = 0; plane < 9; ++plane) {
      for (int i = 0; i < 9; ++i) {
        const float shift = (float)(10 * (plane % 3) + 5 * (plane / 3));
        assert_true(data[plane * 9 + i] == data[i] + shift);
      }
    }
    for (int i = 0; i < 9; ++i) other += data[i] != values(net, "data")[i];
  }
  assert_true(other > 0);
  crema_net_destroy(net);
}

/* The start and the step are random in TRAIN. */
FIXTURE_TEST(clips_of_c3d_start_anywhere) {
  static const char param[] =
      "batch_size: 40 new_length: 3 use_image: true use_temporal_jitter: true "
      "use_sampling_rate_jitter: true max_sampling_rate: 3 } }";
  const fixture *f = *state;
  crema_net *net = NULL;
  bool started[FRAMES + 1] = {false}, stepped[4] = {false};
  make_folder(f, "clip", "%06d.jpg", 3, 0);
  ok(make_net(f, CREMA_TRAIN, "clip 12 0\n", param, &net));
  ok(crema_net_forward(net, NULL));
  for (int item = 0; item < 40; ++item) {
    const int first = first_of(net, 9, item, 0, PLANE) / 10;
    const int step = first_of(net, 9, item, 1, PLANE) / 10 - first;
    assert_true(first >= 1 && step >= 1 && step <= 3 && first + 3 * step - 1 <= FRAMES);
    started[first] = stepped[step] = true;
  }
  assert_true(started[1] && started[2] && started[3] && started[4]);
  assert_true(stepped[1] && stepped[2] && stepped[3]);
  crema_net_destroy(net);
  ok(make_net(f, CREMA_TEST, "clip 12 0\n",
              "batch_size: 1 new_length: 3 use_image: true use_temporal_jitter: true } }", &net));
  ok(crema_net_forward(net, NULL));
  assert_int_equal(first_of(net, 9, 0, 0, PLANE), 10);
  crema_net_destroy(net);
}

/* The second format has all fields in image_data_param. */
FIXTURE_TEST(the_second_format_of_c3d) {
  const fixture *f = *state;
  const crema_net_options options = net_options(CREMA_TEST, 3, NULL);
  cr_mean mean = {6, HEIGHT, WIDTH, NULL};
  float of_mean[6 * PLANE];
  crema_net *net = NULL;
  make_folder(f, "clip", "%06d.jpg", 3, 0);
  for (int i = 0; i < 6 * PLANE; ++i) of_mean[i] = (float)(i / PLANE);
  mean.values = of_mean;
  ok(cr_mean_write(fixture_path(f, "mean"), &mean));
  fixture_text(f, "list.txt", "clip 2 5\n");
  ok(parse_net(&options, NULL, &net,
               "layers { name: 'in' type: VIDEO_DATA top: 'data' top: 'label' image_data_param { "
               "source: '%s' use_image: true mean_file: '%s' batch_size: 1 crop_size: 4 "
               "new_length: 2 show_data: 0 } }",
               fixture_path(f, "list.txt"), fixture_path(f, "mean")));
  assert_shape(net, 5, (const int[]){1, 3, 2, 4, 4});
  ok(crema_net_forward(net, NULL));
  for (int plane = 0; plane < 6; ++plane) {
    assert_int_equal(first_of(net, 6, 0, plane, 16),
                     10 * (2 + plane % 2) + 5 * (plane / 2) + 1 - plane);
  }
  crema_net_destroy(net);
}

/* Frames of each part of the video are channels. */
FIXTURE_TEST(segments_of_tsn) {
  const fixture *f = *state;
  crema_net *net = NULL;
  make_folder(f, "video", "img_%05d.jpg", 3, 0);
  ok(make_net(f, CREMA_TEST, "video 12 1\n",
              "batch_size: 1 new_length: 2 num_segments: 3 modality: RGB name_pattern: "
              "'img_%05d.jpg' } transform_param { mean_value: [1, 2, 3] } }",
              &net));
  assert_shape(net, 4, (const int[]){1, 18, HEIGHT, WIDTH});
  ok(crema_net_forward(net, NULL));
  /* Parts of 4 frames: with 2 frames of each, the middle is frame 2. */
  for (int k = 0; k < 6; ++k) {
    for (int c = 0; c < 3; ++c) {
      const int number = 4 * (k / 2) + 2 + k % 2;
      assert_int_equal(first_of(net, 18, 0, 3 * k + c, PLANE), 10 * number + 5 * c - 1 - c);
    }
  }
  crema_net_destroy(net);
}

/* Mirrored horizontal flow is negated. */
FIXTURE_TEST(flow_of_tsn) {
  const fixture *f = *state;
  crema_net *net = NULL;
  int mirrored = 0;
  make_folder(f, "video", "flow_%c_%04d.jpg", 1, 0);
  ok(make_net(
      f, CREMA_TRAIN, "video 12 1\n",
      "batch_size: 16 new_length: 3 modality: FLOW } transform_param { mirror: true is_flow: "
      "true crop_size: 4 fix_crop: true multi_scale: true scale_ratios: 1 } }",
      &net));
  assert_shape(net, 4, (const int[]){16, 6, 4, 4});
  ok(crema_net_forward(net, NULL));
  for (int item = 0; item < 16; ++item) {
    const float *x = values(net, "data") + item * 96, *y = x + 16;
    for (int i = 0; i < 16; ++i) {
      assert_true(x[i] + 3 == y[i] || 255 - x[i] + 3 == y[i]);
    }
    mirrored += x[0] + 3 != y[0];
  }
  assert_true(mirrored > 0 && mirrored < 16);
  crema_net_destroy(net);
}

/* Twelve frames of a video, whose red is 16 + number. */
FIXTURE_TEST(clips_of_a_video) {
  static const char script[] =
      "#!/bin/sh\n"
      "for i in 0 1 2 3 4 5; do\n"
      "  printf 'P6\\n2 1\\n255\\n'\n"
      "  for k in 1 2; do printf \"\\\\02$i\\\\040\\\\060\"; done\n"
      "done\n";
  static const char param[] = "batch_size: 1 new_length: 2 sampling_rate: 2 } }";
  const fixture *f = *state;
  crema_net *net = NULL;
  fixture_text(f, "ffmpeg", script);
  fixture_text(f, "street.mp4", "a video");
  assert_int_equal(chmod(fixture_path(f, "ffmpeg"), 0755), 0);
  assert_int_equal(setenv("CREMA_FFMPEG", fixture_path(f, "ffmpeg"), 1), 0);
  ok(make_net(f, CREMA_TEST, "street.mp4 3 4\n", param, &net));
  assert_shape(net, 5, (const int[]){1, 3, 2, 1, 2});
  ok(crema_net_forward(net, NULL));
  assert_int_equal(first_of(net, 6, 0, 4, 2), 18);
  assert_int_equal(first_of(net, 6, 0, 5, 2), 20);
  crema_net_destroy(net);
  /* C3D counts from 0. */
  ok(make_net(
      f, CREMA_TEST, "street.mp4 3 4\n",
      "use_image: false is_color: false batch_size: 1 new_length: 1 new_height: 2 new_width: "
      "2 } }",
      &net));
  assert_shape(net, 5, (const int[]){1, 1, 1, 2, 2});
  ok(crema_net_forward(net, NULL));
  assert_int_equal(first_of(net, 1, 0, 0, 4), (19 * 4899 + 32 * 9617 + 48 * 1868 + 8192) >> 14);
  crema_net_destroy(net);
  assert_fails(make_net(f, CREMA_TEST, "street.mp4 5 4\n", param, &net), CREMA_E_IO,
               "no further frame");
}

FIXTURE_TEST(refused_clips) {
  static const struct {
    const char *list, *param;
    crema_status status;
    const char *message;
  } cases[] = {
      {"clip 1\n", "batch_size: 1 } }", CREMA_E_PARSE, "list.txt:1: expected a folder or video"},
      {"clip 11 0\n", "batch_size: 1 new_length: 3 } }", CREMA_E_NOT_FOUND, "image_0013.jpg"},
      {"clip 1 0\n", "batch_size: 1 new_length: 0 } }", CREMA_E_RANGE, "new_length 0"},
      {"clip 1 0\n", "batch_size: 1 use_multiple_label: true } }", CREMA_E_UNSUPPORTED,
       "use_multiple_label"},
      {"clip 1 0\n", "batch_size: 1 use_temporal_jitter: true } }", CREMA_E_UNSUPPORTED,
       "use_image: true"},
      {"clip 2 0\n", "batch_size: 1 new_length: 3 use_image: true use_temporal_jitter: true } }",
       CREMA_E_SHAPE, "needs 3 frames, the list has 2"},
      {"clip 1 0\n", "batch_size: 1 name_pattern: '%s.jpg' } }", CREMA_E_ARGUMENT, "name_pattern"},
      {"clip 1 0\n", "batch_size: 1 } transform_param { crop_size: 5 } }", CREMA_E_SHAPE, "a crop"},
      {"clip 1 0\n", "batch_size: 1 } transform_param { original_image: true } }",
       CREMA_E_UNSUPPORTED, "original_image"},
      {"clip 1 0\n", "batch_size: 1 } transform_param { fix_crop: true } }", CREMA_E_ARGUMENT,
       "need a crop_size"},
      {"clip 1 0\n", "batch_size: 1 } image_data_param {} }", CREMA_E_PARSE, "image_data_param"},
  };
  const fixture *f = *state;
  crema_net *net = NULL;
  make_folder(f, "clip", "image_%04d.jpg", 3, 0);
  for (int64_t i = 0; i < (int64_t)(sizeof cases / sizeof *cases); ++i) {
    assert_fails(make_net(f, CREMA_TRAIN, cases[i].list, cases[i].param, &net), cases[i].status,
                 cases[i].message);
  }
}

/* Sides are ratios of the shorter side; positions are the corners and the middle. */
TEST(crops_of_several_sizes) {
  Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
  bool seen[4][4] = {{false}};
  param.crop_size = 224;
  param.fix_crop = param.multi_scale = 1;
  for (uint64_t sample = 0; sample < 2000; ++sample) {
    static const int sides[] = {256, 224, 192, 168};
    cr_image_part part;
    int h = 0, w = 0;
    ok(cr_fixed_crop_choose(&param, 5, sample, 256, 340, &part));
    while (h < 4 && sides[h] != part.height) ++h;
    while (w < 4 && sides[w] != part.width) ++w;
    assert_true(h < 4 && w < 4 && abs(h - w) <= 1);
    const int rows = (256 - part.height) / 4, columns = (340 - part.width) / 4;
    assert_true(part.top == 0 || part.top == 4 * rows || part.top == 2 * rows);
    assert_true(part.left == 0 || part.left == 4 * columns || part.left == 2 * columns);
    assert_true((part.top == 2 * rows) == (part.left == 2 * columns) || rows == 0);
    seen[h][w] = true;
  }
  for (int h = 0; h < 4; ++h) {
    for (int w = 0; w < 4; ++w) assert_true(seen[h][w] == (abs(h - w) <= 1));
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
