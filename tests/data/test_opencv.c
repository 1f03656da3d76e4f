/* Data layers against OpenCV and others, for layers and fields of which Caffe has no reference
 * results: opencv.inc has what they are given and what they have to make of it. */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"
#include "crema/memory_data.h"
#include "data/augment/pose.h"
#include "fixture.h"
#include "net/net_values.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

/* A file, a record of the database "db", or an "image" for MemoryData. */
typedef struct given_file {
  const char *name;
  const uint8_t *bytes;
  int64_t size;
} given_file;

/* What the tops of one batch may be: their values one behind the other, 0 behind those given. */
typedef struct outcome {
  int batch, height, width; /* of the first top */
  int64_t count, given;
  const float *values;
} outcome;

/* Where a batch has several outcomes, the layer draws at random, and each has to come. */
typedef struct layer_case {
  const char *type, *origin, *fields;
  crema_phase phase;
  const given_file *given;
  int64_t files;
  const outcome *outcome;
  int64_t outcomes;
  double tolerance[2]; /* of the first top and of the others */
} layer_case;

#include "data/opencv.inc"

/* An image that is turned about its middle: its first channels, and the result. */
typedef struct turn {
  float degree;
  int border, channels, height, width;
  double move[6];
  const uint8_t *pixels;
} turn;

#include "data/pose.inc"

enum { MOST_IMAGES = 8, MOST_OUTCOMES = 64, PASSES = 40 };

/* ---- what a layer is given ---- */

static const layer_case *current;

static void put_record(int index, cr_buffer *value) {
  const given_file *file = &current->given[index];
  ok(cr_buffer_append(value, file->bytes, (size_t)file->size));
}

static void put_files(const fixture *f, const layer_case *c) {
  current = c;
  assert_int_equal(chdir(f->path), 0);
  if (strcmp(c->given[0].name, "db") == 0) {
    (void)fixture_db(f, "db", (int)c->files, put_record);
    return;
  }
  for (int64_t i = 0; i < c->files; ++i) {
    ok(cr_file_write(fixture_path(f, c->given[i].name), c->given[i].bytes,
                     (size_t)c->given[i].size));
  }
}

/* A script that stands for ffmpeg gives the frames as OpenCV has decoded them. */
static void put_ffmpeg(const fixture *f) {
  fixture_text(f, "ffmpeg", "#!/bin/sh\nexec cat frames.ppm\n");
  assert_int_equal(chmod(fixture_path(f, "ffmpeg"), 0755), 0);
  assert_int_equal(setenv("CREMA_FFMPEG", fixture_path(f, "ffmpeg"), 1), 0);
}

static void give_images(crema_net *net, const layer_case *c) {
  crema_labeled_image image[MOST_IMAGES];
  cr_image decoded[MOST_IMAGES] = {{0}};
  assert_in_range(c->files, 1, MOST_IMAGES);
  for (int i = 0; i < c->files; ++i) {
    ok(cr_image_decode(c->given[i].bytes, (size_t)c->given[i].size, CR_IMAGE_COLOR, &decoded[i]));
    image[i] =
        (crema_labeled_image){decoded[i].pixels, 3, decoded[i].height, decoded[i].width, (float)i};
  }
  ok(crema_memory_data_set_images(net, "in", image, c->files));
  for (int i = 0; i < c->files; ++i) cr_image_free(&decoded[i]);
}

/* ---- what it makes of it ---- */

/* How many values in front are as the outcome has them; all of them: *same. */
static int64_t matching(crema_net *net, const layer_case *c, const outcome *wanted, bool *same) {
  int64_t at = 0;
  *same = false;
  for (int t = 0; t < net->layer[0].layer->tops; ++t) {
    crema_blob *top = net->layer[0].top[t];
    const crema_shape *shape = crema_blob_shape(top);
    const float *found = data_of(top);
    if (t == 0 && (shape->dim[2] != wanted->height || shape->dim[3] != wanted->width)) return 0;
    for (int64_t i = 0; i < crema_blob_count(top); ++i, ++at) {
      const float value = at < wanted->given ? wanted->values[at] : 0;
      if (at == wanted->count || fabs((double)(found[i] - value)) > c->tolerance[t > 0]) return at;
    }
  }
  *same = at == wanted->count;
  return at;
}

/* The outcome that a batch has. */
static int64_t outcome_of(crema_net *net, const layer_case *c, int batch) {
  int64_t most = -1;
  for (int64_t i = 0; i < c->outcomes; ++i) {
    bool same = false;
    if (c->outcome[i].batch != batch) continue;
    const int64_t values = matching(net, c, &c->outcome[i], &same);
    if (same) return i;
    most = values > most ? values : most;
  }
  fail_msg("%s %s: batch %d is not what %s makes of it, from value %lld on at the latest", c->type,
           c->fields, batch, c->origin, (long long)most);
  return -1;
}

/* Makes the net of a case and goes through its batches. */
static void check(const layer_case *c) {
  const crema_net_options options = net_options(c->phase, 3, NULL);
  const int batches = c->outcome[c->outcomes - 1].batch + 1;
  const int passes = c->outcomes > batches ? PASSES * (int)c->outcomes : 2 * batches + 1;
  bool seen[MOST_OUTCOMES] = {false};
  crema_net *net = NULL;
  assert_in_range(c->outcomes, 1, MOST_OUTCOMES);
  ok(parse_net(&options, NULL, &net, "layer { name: 'in' type: '%s' %s }", c->type, c->fields));
  if (strcmp(c->type, "MemoryData") == 0) give_images(net, c);
  for (int pass = 0; pass < passes; ++pass) {
    forward(net);
    seen[outcome_of(net, c, pass % batches)] = true;
  }
  for (int64_t i = 0; i < c->outcomes; ++i) {
    if (!seen[i]) fail_msg("%s %s: outcome %lld never came", c->type, c->fields, (long long)i);
  }
  crema_net_destroy(net);
}

static bool reads_video(const layer_case *c) {
  return strcmp(c->type, "VideoData") == 0;
}

static void check_all(fixture *f, const layer_case *all, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    put_files(f, &all[i]);
    if (reads_video(&all[i])) put_ffmpeg(f);
    check(&all[i]);
    assert_int_equal(chdir("/"), 0);
    fixture_remove(f);
    assert_int_equal(mkdir(f->path, 0700), 0);
  }
}

FIXTURE_TEST(layers_make_what_others_make) {
  check_all(*state, cases, COUNT(cases));
}

FIXTURE_TEST(people_are_where_opencv_moves_them) {
  check_all(*state, pose_cases, COUNT(pose_cases));
}

/* OpenCV rounds weights to 15 bits; a pixel may be rounded the other way. */
TEST(images_turn_as_with_opencv) {
  enum { HEIGHT = 9, WIDTH = 14 };
  for (int64_t t = 0; t < COUNT(turns); ++t) {
    const turn *want = &turns[t];
    cr_image from = {0}, to = {0};
    double move[6];
    ok(cr_image_reserve(&from, HEIGHT, WIDTH, want->channels));
    for (int i = 0; i < HEIGHT * WIDTH * want->channels; ++i) {
      from.pixels[i] = turned_from[i / want->channels * 3 + i % want->channels];
    }
    ok(cr_image_rotate(&from, want->degree, (uint8_t)want->border, &to, move));
    assert_int_equal(to.height, want->height);
    assert_int_equal(to.width, want->width);
    for (int i = 0; i < 6; ++i) assert_true(fabs(move[i] - want->move[i]) < 1e-6);
    for (int i = 0; i < to.height * to.width * to.channels; ++i) {
      assert_true(abs(to.pixels[i] - want->pixels[i]) <= 1);
    }
    cr_image_free(&from);
    cr_image_free(&to);
  }
}

/* The film itself, where there is a program that decodes it. */
FIXTURE_TEST(ffmpeg_decodes_what_opencv_decodes) {
  const fixture *f = *state;
  if (system("ffmpeg -version > /dev/null 2>&1") != 0) skip();
  assert_int_equal(unsetenv("CREMA_FFMPEG"), 0);
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    if (!reads_video(&cases[i])) continue;
    put_files(f, &cases[i]);
    check(&cases[i]);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
