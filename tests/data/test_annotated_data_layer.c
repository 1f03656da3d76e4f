/* AnnotatedData: boxes go where the pixels go; labels, faults, exact resume. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/clock.h"
#include "core/rng.h"
#include "data/pipeline/pipeline.h"
#include "fixture.h"
#include "net/net_values.h"
#include "proto/proto.h"

enum { SIDE = 20, RECORDS = 5 };

/* Appends the wire form of a record: SIDE x SIDE pixels of value 0 with one rectangle of value
 * 200 in columns x1..x2-1 and rows y1..y2-1, `rest` in the message. */
static void put_record(int x1, int y1, int x2, int y2, const char *rest, cr_buffer *value) {
  cr_buffer text = {0};
  ProtobufCMessage *message = NULL;
  ok(cr_buffer_print(&text, "datum { channels: 3 height: %d width: %d label: 4 data: \"", SIDE,
                     SIDE));
  for (int i = 0; i < 3 * SIDE * SIDE; ++i) {
    int y = i / SIDE % SIDE, x = i % SIDE;
    bool inside = x >= x1 && x < x2 && y >= y1 && y < y2;
    ok(cr_buffer_print(&text, inside ? "\\310" : "\\000"));
  }
  ok(cr_buffer_print(&text, "\" } %s", rest));
  ok(cr_text_parse(&caffe__annotated_datum__descriptor, text.data, text.size, "test",
                   CR_UNKNOWN_ERROR, &message));
  ok(cr_wire_print(message, value));
  cr_message_free(message);
  cr_buffer_free(&text);
}

/* Record i shows a rectangle and says so: class i + 1, instance 3; record 3 has no objects. */
static void put_boxed(int index, cr_buffer *value) {
  char rest[512];
  int x1 = 4 + index, y1 = 6, x2 = 12 + index, y2 = 16;
  snprintf(rest, sizeof rest,
           "type: BBOX annotation_group { group_label: %d annotation { instance_id: 3 bbox { "
           "xmin: %f ymin: %f xmax: %f ymax: %f difficult: true } } }",
           index + 1, x1 / 20.0, y1 / 20.0, x2 / 20.0, y2 / 20.0);
  put_record(x1, y1, x2, y2, index == 3 ? "type: BBOX" : rest, value);
}

static void put_plain(int index, cr_buffer *value) {
  (void)index;
  put_record(0, 0, 1, 1, "", value);
}

static void put_damaged(int index, cr_buffer *value) {
  put_boxed(index, value);
  if (index == 2) value->size -= 700;
}

static crema_status make_net(const char *db, const char *param, const char *rest, int64_t seed,
                             crema_net **out) {
  static const input_type type = {"AnnotatedData", "data_param { backend: LMDB", CREMA_TRAIN};
  return parse_input(&type, db, param, rest, seed, out);
}

static int64_t rows(crema_net *net) {
  const crema_shape *shape = crema_blob_shape(blob_of(net, "label"));
  assert_true(shape->axes == 4 && shape->dim[0] == 1 && shape->dim[1] == 1 && shape->dim[3] == 8);
  return shape->dim[2];
}

FIXTURE_TEST(test_rows_of_the_label) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", RECORDS, put_boxed);
  ok(make_net(db, "batch_size: 3", "", 1, &net));
  for (int k = 0; k < 7; ++k) {
    forward(net);
    int row = 0;
    for (int i = 0; i < 3; ++i) {
      int record = (3 * k + i) % RECORDS;
      if (record == 3) continue;
      const float *r = values(net, "label") + 8 * row++;
      assert_true(r[0] == (float)i && r[1] == (float)(record + 1) && r[2] == 3 && r[7] == 1);
      assert_true(fabsf(r[3] - (float)(4 + record) / 20) < 1e-6F && fabsf(r[4] - 0.3F) < 1e-6F);
      assert_true(fabsf(r[5] - (float)(12 + record) / 20) < 1e-6F && fabsf(r[6] - 0.8F) < 1e-6F);
    }
    assert_int_equal(rows(net), row);
  }
  crema_net_destroy(net);
  /* No boxes at all: one row of -1. */
  ok(make_net(db, "batch_size: 1", "", 1, &net));
  for (int k = 0; k < 4; ++k) forward(net);
  assert_int_equal(rows(net), 1);
  for (int i = 0; i < 8; ++i) assert_true(values(net, "label")[i] == -1);
  crema_net_destroy(net);
}

/* Whatever is done to the picture, the box is around the bright rectangle afterwards. */
static void assert_box_fits(crema_net *net, int height, int width, int *checked) {
  const float *r = values(net, "label");
  const float *data = values(net, "data");
  int x1 = width, x2 = 0, y1 = height, y2 = 0;
  if (r[0] < 0) return;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      if (data[y * width + x] < 100) continue;
      x1 = x < x1 ? x : x1;
      x2 = x >= x2 ? x + 1 : x2;
      y1 = y < y1 ? y : y1;
      y2 = y >= y2 ? y + 1 : y2;
    }
  }
  /* A pixel for rounding to whole pixels, one for the blur of scaling. */
  float dx = 2.5F / (float)width * (float)(width > SIDE ? width / SIDE + 1 : 1);
  float dy = 2.5F / (float)height * (float)(height > SIDE ? height / SIDE + 1 : 1);
  assert_true(fabsf(r[3] - (float)x1 / (float)width) < dx);
  assert_true(fabsf(r[5] - (float)x2 / (float)width) < dx);
  assert_true(fabsf(r[4] - (float)y1 / (float)height) < dy);
  assert_true(fabsf(r[6] - (float)y2 / (float)height) < dy);
  ++*checked;
}

#define SAMPLER                                                                             \
  "annotated_data_param { batch_sampler { sampler { min_scale: 0.6 max_scale: 0.9 "         \
  "min_aspect_ratio: 0.7 max_aspect_ratio: 1.4 } sample_constraint { min_object_coverage: " \
  "0.9 } max_sample: 1 max_trials: 50 } } "
#define EMIT "emit_constraint { emit_type: CENTER } "

FIXTURE_TEST(test_boxes_follow_the_pixels) {
  static const struct {
    const char *rest;
    int height, width;
  } cases[] = {
      {"transform_param { mirror: true }", 20, 20},
      {"transform_param { crop_size: 16 mirror: true }", 16, 16},
      {"transform_param { resize_param { resize_mode: WARP height: 30 width: 40 } }", 30, 40},
      {"transform_param { resize_param { resize_mode: FIT_LARGE_SIZE_AND_PAD height: 30 width: 60 "
       "pad_mode: CONSTANT pad_value: 0 } }",
       30, 60},
      {"transform_param { expand_param { prob: 1 max_expand_ratio: 3 } "
       "resize_param { resize_mode: WARP height: 60 width: 60 } }",
       60, 60},
      {SAMPLER "transform_param { " EMIT
               "resize_param { resize_mode: WARP height: 40 width: 40 } }",
       40, 40},
      {SAMPLER "transform_param { " EMIT
               "expand_param { prob: 0.5 max_expand_ratio: 2 } crop_size: 36 "
               "mirror: true resize_param { resize_mode: WARP height: 40 width: 40 } }",
       36, 36},
  };
  const fixture *f = *state;
  const char *db = fixture_db(f, "db", RECORDS, put_boxed);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    crema_net *net = NULL;
    int checked = 0;
    ok(make_net(db, "batch_size: 1", cases[i].rest, 7, &net));
    for (int k = 0; k < 40; ++k) {
      forward(net);
      const crema_shape *shape = crema_blob_shape(blob_of(net, "data"));
      assert_true(shape->dim[2] == cases[i].height && shape->dim[3] == cases[i].width);
      assert_box_fits(net, cases[i].height, cases[i].width, &checked);
    }
    assert_in_range(checked, 25, 40);
    crema_net_destroy(net);
  }
}

/* resize_param with a probability: when the image is not resized, the boxes stay where they are. A
 * crop makes one size of both. */
FIXTURE_TEST(test_boxes_stay_when_the_size_does) {
  static const char *const rest =
      "transform_param { resize_param { prob: 0.5 resize_mode: FIT_LARGE_SIZE_AND_PAD height: 20 "
      "width: 60 pad_mode: CONSTANT pad_value: 0 } }";
  const fixture *f = *state;
  crema_net *net = NULL;
  int resized = 0, checked = 0;
  const char *db = fixture_db(f, "db", RECORDS, put_boxed);
  ok(make_net(db, "batch_size: 1", rest, 7, &net));
  for (int k = 0; k < 60; ++k) {
    forward(net);
    int width = (int)crema_blob_shape(blob_of(net, "data"))->dim[3];
    assert_true(width == 20 || width == 60);
    resized += width == 60;
    assert_box_fits(net, 20, width, &checked);
  }
  assert_in_range(resized, 15, 45);
  assert_int_equal(checked, 48);
  crema_net_destroy(net);
}

enum { MANY = 40 };

/* Records 0, 3, 10, 14, 17, ... are damaged: first ones of a batch, last ones, several in a row. */
static bool is_damaged(int index) {
  return index == 0 || index % 7 == 3 || (index > 30 && index < 36);
}

static void put_some_damaged(int index, cr_buffer *value) {
  put_boxed(index % 6, value);
  if (is_damaged(index)) value->size -= 700;
}

/* Everything that the first batches hold, appended to `out`. */
static void collect(const char *db, const char *param, int batches, cr_buffer *out) {
  crema_net *net = NULL;
  static const char *const rest = SAMPLER
      "transform_param { mirror: true crop_size: 24 "
      "resize_param { resize_mode: WARP height: 30 width: 30 } }";
  ok(make_net(db, param, rest, 5, &net));
  cr_buffer_clear(out);
  for (int k = 0; k < batches; ++k) {
    forward(net);
    size_t size = (size_t)crema_blob_count(blob_of(net, "data")) * sizeof(float);
    ok(cr_buffer_append(out, values(net, "data"), size));
    size = (size_t)rows(net) * 8 * sizeof(float);
    ok(cr_buffer_append(out, values(net, "label"), size));
  }
  crema_net_destroy(net);
}

FIXTURE_TEST(s2_28_threads_give_the_same_batches) {
  static const struct {
    fixture_record record;
    const char *param;
  } cases[] = {
      {put_boxed, "batch_size: 3"},
      {put_boxed, "batch_size: 1 prefetch: 2"},
      {put_some_damaged, "batch_size: 4 skip_corrupt: true"},
      {put_some_damaged, "batch_size: 1 skip_corrupt: true"},
  };
  const fixture *f = *state;
  cr_buffer one = {0}, many = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char name[16], param[128];
    snprintf(name, sizeof name, "db%zu", i);
    const char *db = fixture_db(f, name, i < 2 ? RECORDS : MANY, cases[i].record);
    snprintf(param, sizeof param, "%s threads: 1", cases[i].param);
    collect(db, param, 30, &one);
    for (int threads = 2; threads <= 8; threads += 6) {
      snprintf(param, sizeof param, "%s threads: %d", cases[i].param, threads);
      collect(db, param, 30, &many);
      assert_int_equal(one.size, many.size);
      assert_memory_equal(one.data, many.data, one.size);
    }
  }
  cr_buffer_free(&many);
  cr_buffer_free(&one);
}

/* Whole records come in their order, each picture with its own box; the position in the data counts
 * skipped records, too. */
FIXTURE_TEST(test_skip_corrupt) {
  const fixture *f = *state;
  crema_net *net = NULL, *resumed = NULL;
  cr_buffer saved = {0};
  const char *db = fixture_db(f, "db", MANY, put_some_damaged);
  static const char *const param = "batch_size: 4 skip_corrupt: true threads: 3";
  ok(make_net(db, param, "", 5, &net));
  ok(make_net(db, param, "", 6, &resumed));
  int record = 0;
  for (int k = 0; k < 25; ++k) {
    forward(net);
    const float *row = values(net, "label");
    const float *last = row + 8 * rows(net);
    for (int i = 0; i < 4; ++i, ++record) {
      while (is_damaged(record % MANY)) ++record;
      int kind = record % MANY % 6;
      if (kind == 3) continue;
      assert_true(row < last && row[0] == (float)i && row[1] == (float)(kind + 1));
      /* The rectangle's corner. */
      const float *data = values(net, "data") + (size_t)i * 3 * SIDE * SIDE;
      assert_true(data[6 * SIDE + 4 + kind] == 200 && data[6 * SIDE + 3 + kind] == 0);
      row += 8;
    }
    assert_true(row == last || row[0] == -1);
  }
  resume_input(net, resumed);
  expect_same_batches(net, resumed, 12);
  crema_net_destroy(resumed);
  crema_net_destroy(net);
  cr_buffer_free(&saved);
}

static void put_only_damaged(int index, cr_buffer *value) {
  put_boxed(0, value);
  if (index > 0) value->size -= 700;
}

static void put_all_damaged(int index, cr_buffer *value) {
  put_boxed(index, value);
  value->size -= 700;
}

/* One whole record among nothing but damaged ones still makes batches; none makes an error. */
FIXTURE_TEST(test_skip_corrupt_gives_up) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", 4, put_only_damaged);
  ok(make_net(db, "batch_size: 2 skip_corrupt: true", "", 5, &net));
  for (int k = 0; k < 5; ++k) forward(net);
  assert_int_equal(rows(net), 2);
  crema_net_destroy(net);
  db = fixture_db(f, "none", 3, put_all_damaged);
  assert_fails(make_net(db, "batch_size: 2 skip_corrupt: true", "", 5, &net), CREMA_E_CORRUPT,
               "00000002");
  db = fixture_db_of(f, "leveldb", "level", 3, put_all_damaged);
  assert_fails(make_net(db, "batch_size: 2 skip_corrupt: true", "", 5, &net), CREMA_E_CORRUPT,
               "truncated or damaged");
}

FIXTURE_TEST(test_records_without_annotations) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", 3, put_plain);
  ok(make_net(db, "batch_size: 2", "", 1, &net));
  forward(net);
  assert_int_equal(crema_blob_shape(blob_of(net, "label"))->axes, 1);
  assert_true(values(net, "label")[1] == 4);
  crema_net_destroy(net);
  /* anno_type says that labels are boxes all the same. */
  ok(make_net(db, "batch_size: 2", "annotated_data_param { anno_type: BBOX }", 1, &net));
  forward(net);
  assert_int_equal(rows(net), 1);
  crema_net_destroy(net);
}

FIXTURE_TEST(s2_31_resume) {
  static const char *const rest = SAMPLER
      "transform_param { mirror: true crop_size: 24 "
      "resize_param { resize_mode: WARP height: 30 width: 30 } }";
  const fixture *f = *state;
  crema_net *net = NULL, *resumed = NULL;
  cr_buffer saved = {0};
  const char *db = fixture_db(f, "db", RECORDS, put_boxed);
  for (int before = 0; before < 8; before += 4) {
    ok(make_net(db, "batch_size: 3 rand_skip: 4", rest, 5, &net));
    ok(make_net(db, "batch_size: 3 rand_skip: 4", rest, 6, &resumed));
    for (int k = 0; k < before; ++k) forward(net);
    forward(resumed);
    save_input(net, &saved);
    assert_int_equal(restore_input(resumed, saved.data, saved.size - 1), CREMA_E_CORRUPT);
    ok(restore_input(resumed, saved.data, saved.size));
    expect_same_batches(net, resumed, 9);
    crema_net_destroy(resumed);
    crema_net_destroy(net);
  }
  cr_buffer_free(&saved);
}

static crema_net *solver_net(const char *db, const cr_solver_rank *solver) {
  crema_net *net = NULL;
  const crema_net_options options = net_options(CREMA_TRAIN, 6, NULL);
  ok(parse_net(&options, solver, &net,
               "layer { name: 'in' type: 'AnnotatedData' top: 'data' top: 'label' "
               "transform_param { mirror: true } data_param { source: '%s' backend: LMDB "
               "batch_size: 2 threads: 2 } }",
               db));
  return net;
}

/* Item i of solver r of N in step t is record (2 t + i) N + r, with its box. */
static void check_step(crema_net *net, int rank, int solvers, int step) {
  forward(net);
  const float *row = values(net, "label");
  for (int i = 0; i < 2; ++i) {
    int record = (2 * step + i) * solvers + rank;
    if (record % RECORDS == 3) continue;
    assert_true(row[0] == (float)i && row[1] == (float)(record % RECORDS + 1));
    row += 8;
  }
}

/* One reader for all of them; or one each, when they are in different processes. */
FIXTURE_TEST(s2_11_s2_27_records_are_dealt_to_the_solvers) {
  enum { SOLVERS = 3, STEPS = 12 };
  const fixture *f = *state;
  crema_net *net[SOLVERS];
  cr_buffer saved = {0};
  const char *db = fixture_db(f, "db", RECORDS, put_boxed);
  for (int shared = 0; shared < 2; ++shared) {
    cr_input_group *group = NULL;
    if (shared) ok(cr_input_group_create(&group));
    for (int r = 0; r < SOLVERS; ++r) {
      const cr_solver_rank solver = {.rank = r, .solvers = SOLVERS, .group = group};
      net[r] = solver_net(db, &solver);
    }
    assert_int_equal(group == NULL ? 1 : cr_input_group_readers(group), 1);
    for (int t = 0; t < STEPS; ++t) {
      for (int r = 0; r < SOLVERS; ++r) check_step(net[r], r, SOLVERS, t);
    }
    /* Back to where they are, in the middle of an epoch. */
    for (int r = 0; r < SOLVERS; ++r) resume_input(net[r], net[r]);
    for (int t = STEPS; t < 2 * STEPS; ++t) {
      for (int r = 0; r < SOLVERS; ++r) check_step(net[r], r, SOLVERS, t);
    }
    for (int r = 0; r < SOLVERS; ++r) crema_net_destroy(net[r]);
    cr_input_group_release(group);
  }
  cr_buffer_free(&saved);
}

/* Reader, pipeline and decoding threads stop and start again wherever they are. */
FIXTURE_TEST(s2_05_stops_at_any_moment) {
  const fixture *f = *state;
  crema_net *net = NULL;
  cr_mt19937 rng;
  int cycles = fixture_cycles(100);
  cr_mt19937_seed(&rng, 3);
  const char *db = fixture_db(f, "db", RECORDS, put_boxed);
  for (int skips = 0; skips < 2; ++skips) {
    cr_buffer saved = {0};
    const char *param = skips ? "batch_size: 2 threads: 3 skip_corrupt: true"
                              : "batch_size: 2 threads: 2 prefetch: 1";
    ok(make_net(db, param, "", 1, &net));
    forward(net);
    save_input(net, &saved);
    for (int i = 0; i < cycles; ++i) {
      for (uint32_t k = cr_mt19937_below(&rng, 3); k > 0; --k) forward(net);
      if (cr_mt19937_below(&rng, 4) == 0) cr_clock_sleep(1e-4);
      ok(restore_input(net, saved.data, saved.size));
    }
    forward(net);
    assert_true(values(net, "label")[1] == 3);
    crema_net_destroy(net);
    cr_buffer_free(&saved);
  }
}

/* A position that the database does not have: an error, as is every pass after it. */
FIXTURE_TEST(test_positions_that_do_not_exist) {
  const fixture *f = *state;
  crema_net *net = NULL;
  cr_buffer saved = {0};
  const char *db = fixture_db(f, "db", RECORDS, put_boxed);
  ok(make_net(db, "batch_size: 2", "", 1, &net));
  forward(net);
  save_input(net, &saved);
  assert_non_null(strstr(saved.data, " batch 1.index 2 solvers 1 skip 0 sorted 0 key 8:00000001"));
  ok(restore_input(net, saved.data, saved.size));
  forward(net);
  saved.data[saved.size - 1] = 'x';
  assert_fails(restore_input(net, saved.data, saved.size), CREMA_E_NOT_FOUND, "'in'");
  for (int k = 0; k < 2; ++k) assert_int_equal(crema_net_forward(net, NULL), CREMA_E_STATE);
  saved.data[saved.size - 1] = '1';
  ok(restore_input(net, saved.data, saved.size));
  forward(net);
  assert_true(values(net, "label")[1] == 3);
  crema_net_destroy(net);
  cr_buffer_free(&saved);
}

FIXTURE_TEST(test_faults) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", RECORDS, put_damaged);
  ok(make_net(db, "batch_size: 2", "", 1, &net));
  forward(net);
  for (int again = 0; again < 2; ++again) {
    assert_fails(crema_net_forward(net, NULL), CREMA_E_CORRUPT, "00000002");
    assert_error_has("'in'");
  }
  crema_net_destroy(net);
  assert_int_equal(make_net(db, "batch_size: 0", "", 1, &net), CREMA_E_ARGUMENT);
  assert_int_equal(make_net(fixture_path(f, "none"), "batch_size: 1", "", 1, &net),
                   CREMA_E_NOT_FOUND);
  assert_int_equal(make_net(db, "batch_size: 1", "transform_param { crop_size: 21 }", 1, &net),
                   CREMA_E_SHAPE);
  assert_int_not_equal(
      make_net(db, "batch_size: 1",
               "annotated_data_param { batch_sampler { sampler { min_scale: 2 max_scale: 1 } } }",
               1, &net),
      CREMA_OK);
  assert_error_has("'in'");
}

/* As in Data: prefetch 0 is automatic, precache means cache. */
FIXTURE_TEST(test_fields_of_data_param) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", RECORDS, put_boxed);
  assert_int_equal(make_net(db, "batch_size: 2 prefetch: 1025", "", 1, &net), CREMA_E_RANGE);
  ok(make_net(db, "batch_size: 2 prefetch: 0 precache: true", "", 1, &net));
  for (int k = 0; k < 5 * RECORDS; ++k) forward(net);
  const cr_input_stats stats = input_stats(net);
  assert_int_equal(stats.pipeline.depth, CR_PIPELINE_USUAL_DEPTH);
  assert_int_equal(stats.reader.reads, RECORDS);
  crema_net_destroy(net);
}

/* The output of a command and its exit code. */
static int run_command(const char *command, cr_buffer *out) {
  char text[256];
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  while (fgets(text, sizeof text, pipe) != NULL) {
    ok(cr_buffer_print(out, "%s", text));
  }
  return pclose(pipe);
}

/* The tools know these records from those of Data. */
FIXTURE_TEST(test_tools) {
  static const char *const lines[] = {"5 records",
                                      "0 encoded, 1 damaged",
                                      "Damaged record '00000002'",
                                      "Shape 3 x 20 x 20: 4",
                                      "Boxes: 3 in 4 records",
                                      "Label 1: 1\nLabel 2: 1\nLabel 5: 1\n"};
  const fixture *f = *state;
  cr_buffer out = {0};
  char command[1024];
  const char *db = fixture_db(f, "db", RECORDS, put_damaged);
  snprintf(command, sizeof command, "'%s/bin/crema' data_stats '%s' 2>&1", CREMA_BINARY_DIR, db);
  assert_int_not_equal(run_command(command, &out), 0);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; ++i) {
    if (strstr(out.data, lines[i]) == NULL) fail_msg("\"%s\" is not in %s", lines[i], out.data);
  }
  cr_buffer_clear(&out);
  snprintf(command, sizeof command, "'%s/bin/crema' compute_image_mean '%s' 2>&1", CREMA_BINARY_DIR,
           db);
  assert_int_not_equal(run_command(command, &out), 0);
  assert_non_null(strstr(out.data, "an AnnotatedDatum (an image with boxes)"));
  cr_buffer_free(&out);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
