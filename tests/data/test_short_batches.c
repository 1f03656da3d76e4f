/* An epoch in batches of any size has the samples of an epoch in batches of one, for every layer
 * that reads samples: the last batch is short. Layers without a known end are refused with a
 * reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"
#include "core/fail.h"
#include "crema/memory_data.h"
#include "data/pipeline/hdf5_set.h"
#include "fixture.h"
#include "layers/registry.h"
#include "net/epoch.h"
#include "net/net_values.h"
#include "pose_record.h"

enum { SAMPLES = 7, SIDE = 8, MOST = 1 << 16 };

static float memory[SAMPLES], labels[SAMPLES];

/* ---- samples whose pixels show their number ---- */

/* An image of one colour with one object, as BoxData has it. */
static void put_boxed(int index, cr_buffer *value) {
  const float object[] = {(float)index, 0, 0.5F, 0.5F, 0.25F, 0.25F};
  cr_image image = {0};
  ok(cr_image_reserve(&image, SIDE, SIDE, 3));
  memset(image.pixels, 10 + index, (size_t)SIDE * SIDE * 3);
  fixture_encoded(&image, index, 0, 0, value);
  for (int i = 0; i < 6; ++i) {
    ok(cr_buffer_append(value, "\x35", 1)); /* field 6, 32 bits */
    ok(cr_buffer_append(value, &object[i], sizeof object[i]));
  }
  cr_image_free(&image);
}

/* The same as an AnnotatedDatum, with 1 or 2 objects. */
static void put_annotated(int index, cr_buffer *value) {
  static const char object[] =
      "annotation_group { group_label: 1 annotation { bbox { xmin: 0.25 ymin: 0.25 xmax: 0.5 ymax: "
      "0.75 } } }";
  ProtobufCMessage *message = NULL;
  cr_buffer text = {0};
  ok(cr_buffer_print(&text, "datum { channels: 3 height: %d width: %d data: \"", SIDE, SIDE));
  for (int i = 0; i < 3 * SIDE * SIDE; ++i) ok(cr_buffer_print(&text, "\\%03o", 10 + index));
  ok(cr_buffer_print(&text, "\" } type: BBOX %s %s", object, index % 2 == 0 ? object : ""));
  ok(cr_text_parse(&caffe__annotated_datum__descriptor, text.data, text.size, "test",
                   CR_UNKNOWN_ERROR, &message));
  ok(cr_wire_print(message, value));
  cr_message_free(message);
  cr_buffer_free(&text);
}

/* A person per record, one pixel further to the right in each. */
static void put_posed(int index, cr_buffer *value) {
  const pose_record record = {.channels = 4,
                              .height = 24,
                              .width = 80,
                              .joints = 17,
                              .scale = 1,
                              .x = 40 + (float)index,
                              .y = 12};
  pose_write(&record, value);
}

/* Images, label maps, and clips of one frame. */
static void make_images(const fixture *f) {
  cr_image image = {0};
  cr_buffer list = {0}, maps = {0}, clips = {0};
  char name[32];
  for (int i = 0; i < SAMPLES; ++i) {
    ok(cr_image_reserve(&image, SIDE, SIDE, 3));
    memset(image.pixels, 10 + i, (size_t)SIDE * SIDE * 3);
    snprintf(name, sizeof name, "%d.png", i);
    fixture_write_png(f, name, &image);
    snprintf(name, sizeof name, "clip%d", i);
    assert_int_equal(mkdir(fixture_path(f, name), 0755), 0);
    snprintf(name, sizeof name, "clip%d/000001.jpg", i);
    fixture_write_png(f, name, &image);
    ok(cr_image_reserve(&image, SIDE, SIDE, 1));
    memset(image.pixels, i, (size_t)SIDE * SIDE);
    snprintf(name, sizeof name, "map%d.png", i);
    fixture_write_png(f, name, &image);
    ok(cr_buffer_print(&list, "%d.png %d\n", i, i));
    ok(cr_buffer_print(&maps, "%d.png map%d.png\n", i, i));
    ok(cr_buffer_print(&clips, "clip%d 1 %d\n", i, i));
  }
  fixture_text(f, "list.txt", list.data);
  fixture_text(f, "maps.txt", maps.data);
  fixture_text(f, "clips.txt", clips.data);
  cr_buffer_free(&list);
  cr_buffer_free(&maps);
  cr_buffer_free(&clips);
  cr_image_free(&image);
}

static void make_hdf5(const fixture *f) {
  cr_hdf5_writer *writer = NULL;
  const crema_shape shape = cr_shape_4(SAMPLES, 1, 1, 1);
  ok(cr_hdf5_writer_open(fixture_path(f, "h.h5"), &writer));
  ok(cr_hdf5_writer_reserve(writer, sizeof memory + sizeof labels));
  ok(cr_hdf5_writer_append(writer, "data", &shape, CREMA_F32, memory));
  ok(cr_hdf5_writer_append(writer, "label", &shape, CREMA_F32, labels));
  cr_hdf5_writer_close(writer);
  fixture_text(f, "h5.txt", "h.h5\n");
}

static void make_all(const fixture *f) {
  for (int i = 0; i < SAMPLES; ++i) {
    memory[i] = (float)(10 + i);
    labels[i] = (float)i;
  }
  make_images(f);
  make_hdf5(f);
  (void)fixture_db(f, "boxed", SAMPLES, put_boxed);
  (void)fixture_db(f, "annotated", SAMPLES, put_annotated);
  (void)fixture_db(f, "posed", SAMPLES, put_posed);
}

/* ---- the layers ---- */

/* %d: the batch size. */
static const struct input_row {
  const char *type, *param;
  int most;        /* the largest batch that the layer allows; 0: any */
  bool whole_only; /* no short last batch */
} rows[] = {
    {"AnnotatedData",
     "data_param { source: 'annotated' backend: LMDB batch_size: %d } annotated_data_param { }", 0,
     false},
    {"BoxData", "data_param { source: 'boxed' backend: LMDB batch_size: %d }", 0, false},
    {"CPMData",
     "data_param { source: 'posed' backend: LMDB batch_size: %d } transform_param { np_in_lmdb: 17 "
     "crop_size_x: 32 crop_size_y: 16 stride: 8 }",
     0, false},
    {"Data", "data_param { source: 'boxed' backend: LMDB batch_size: %d }", 0, false},
    {"Data", "data_param { source: 'boxed' backend: LMDB batch_size: %d cache: true }", 0, false},
    {"DenseImageData", "dense_image_data_param { source: 'maps.txt' batch_size: %d }", 0, false},
    {"HDF5Data", "hdf5_data_param { source: 'h5.txt' batch_size: %d }", 0, false},
    {"ImageData", "image_data_param { source: 'list.txt' batch_size: %d }", 0, false},
    {"ImageLabelmapData", "image_data_param { source: 'maps.txt' batch_size: %d }", 0, false},
    {"ImageSegData", "image_data_param { source: 'maps.txt' batch_size: %d label_type: PIXEL }", 0,
     false},
    {"MemoryData", "memory_data_param { batch_size: %d channels: 1 height: 1 width: 1 }", 0, true},
    {"RoIData",
     "data_param { source: 'annotated' backend: LMDB batch_size: %d } roi_data_param { short_side: "
     "8 }",
     1, false},
    {"VideoData",
     "video_data_param { source: 'clips.txt' batch_size: %d new_length: 1 "
     "use_image: true }",
     0, false},
};

enum { ROWS = sizeof rows / sizeof *rows };

static crema_status make_net(const fixture *f, const struct input_row *row, int batch,
                             crema_net **out) {
  const crema_net_options options = net_options(CREMA_TEST, 3, NULL);
  const bool roi = strcmp(row->type, "RoIData") == 0;
  char param[256], text[1024];
  snprintf(param, sizeof param, row->param, batch);
  const int size =
      snprintf(text, sizeof text, "layer { name: 'in' type: '%s' top: 'data' top: 'label' %s %s }",
               row->type, roi ? "top: 'objects'" : "", param);
  CR_TRY(crema_net_parse(text, (size_t)size, fixture_path(f, "net.prototxt"), &options, out));
  if (strcmp(row->type, "MemoryData") != 0) return CREMA_OK;
  return crema_memory_data_set(*out, "in", memory, labels, SAMPLES);
}

/* Appends the values of a top: `count` of them in all. The first number of an object's row is the
 * image's index in the batch, which depends on the batch's size. */
static void append(crema_net *net, const char *name, bool boxes, int64_t first, float *out,
                   int *count) {
  crema_blob *blob = blob_of(net, name);
  const float *value = data_of(blob);
  const int size = (int)crema_blob_count(blob);
  assert_in_range(*count + size, 1, MOST);
  for (int i = 0; i < size; ++i) {
    const bool index = boxes && i % 8 == 0;
    out[(*count)++] = value[i] + (index ? (float)first : 0);
  }
}

/* Runs two epochs, each from the same position, and returns the values of the second. */
static int read_epoch(const fixture *f, const struct input_row *row, int batch, float *out) {
  const bool boxes = strcmp(row->type, "AnnotatedData") == 0;
  crema_net *net = NULL;
  cr_net_epoch epoch;
  cr_buffer start = {0};
  int count = 0;
  ok(make_net(f, row, batch, &net));
  ok(cr_net_find_epoch(net, true, &epoch));
  if (epoch.samples != SAMPLES) fail_msg("%s: %s", row->type, epoch.reason);
  assert_int_equal(epoch.batches, (SAMPLES + batch - 1) / batch);
  ok(cr_net_save_inputs(net, &start));
  for (int round = 0; round < 2; ++round) {
    count = 0;
    for (int64_t i = 0; i < epoch.batches; ++i) {
      const int64_t take = cr_net_epoch_take(&epoch, i);
      cr_net_take_samples(net, take < batch ? take : 0);
      ok(crema_net_forward(net, NULL));
      assert_int_equal(crema_blob_shape(blob_of(net, "data"))->dim[0], take);
      append(net, "data", false, 0, out, &count);
      append(net, "label", boxes, i * batch, out, &count);
    }
    cr_net_take_samples(net, 0);
    ok(cr_net_restore_inputs(net, &start));
  }
  cr_buffer_free(&start);
  crema_net_destroy(net);
  return count;
}

static int by_value(const void *a, const void *b) {
  const float *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Tops alternate in what is read, so the values are compared in ascending order. */
FIXTURE_TEST(epochs_have_each_sample_once) {
  const fixture *f = *state;
  static float one[MOST], several[MOST];
  make_all(f);
  for (int r = 0; r < ROWS; ++r) {
    const int values = read_epoch(f, &rows[r], 1, one);
    qsort(one, (size_t)values, sizeof *one, by_value);
    for (int batch = 2; batch <= SAMPLES + 1; ++batch) {
      if (rows[r].most > 0 && batch > rows[r].most) continue;
      if (rows[r].whole_only && SAMPLES % batch != 0) continue;
      assert_int_equal(read_epoch(f, &rows[r], batch, several), values);
      qsort(several, (size_t)values, sizeof *several, by_value);
      for (int i = 0; i < values; ++i) {
        if (one[i] == several[i]) continue;
        fail_msg("%s, batch %d: value %d is %g, not %g", rows[r].type, batch, i, (double)several[i],
                 (double)one[i]);
      }
    }
  }
}

/* A program that sets other numbers of samples gets an error, as in Caffe. */
FIXTURE_TEST(memory_has_whole_batches_only) {
  const fixture *f = *state;
  for (int r = 0; r < ROWS; ++r) {
    crema_net *net = NULL;
    if (!rows[r].whole_only) continue;
    assert_fails(make_net(f, &rows[r], 2, &net), CREMA_E_ARGUMENT,
                 "7 samples given; must be a multiple of batch_size (2)");
    crema_net_destroy(net);
  }
}

/* Every class that reads samples is in the table, unless it draws its samples without an end or the
 * upgrade of a name in the table makes it. */
TEST(every_input_is_tested) {
  static const char *const endless[] = {"VideoData", "WindowData"};
  static const char *const upgraded[] = {"VideoClips"};
  size_t count = 0;
  const char *const *names = cr_layer_class_names(&count);
  for (size_t i = 0; i < count; ++i) {
    const cr_layer_class *kind = NULL;
    bool known = strcmp(names[i], upgraded[0]) == 0;
    ok(cr_layer_class_find(names[i], &kind));
    const cr_input_class *input = kind->input;
    if (input == NULL || input->net_input || input->save == NULL) continue;
    for (int k = 0; k < 2 && !known; ++k) {
      known = strcmp(names[i], endless[k]) == 0;
      if (known) assert_true(input->epoch == NULL && !input->short_batches);
    }
    for (int r = 0; r < ROWS && !known; ++r) known = strcmp(names[i], rows[r].type) == 0;
    if (!known) fail_msg("%s reads samples but has no row here", names[i]);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
