/* The Data layer inside a net: tops that share batches, faults, exact resume. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/clock.h"
#include "data/pipeline/pipeline.h"
#include "fixture.h"
#include "net/net_values.h"

/* A net of one Data layer; `rest` goes into its message. */
static crema_status make_net(const char *source, const char *rest, int64_t seed, crema_phase phase,
                             crema_net **out) {
  const crema_net_options options = net_options(phase, seed, NULL);
  return parse_net(&options, NULL, out,
                   "name: 'n' layer { name: 'in' type: 'Data' top: 'data' top: 'label' "
                   "data_param { source: '%s' backend: LMDB %s",
                   source, rest);
}

FIXTURE_TEST(s2_18_shapes_and_order) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", 5, fixture_color);
  ok(make_net(db, "batch_size: 3 } }", 1, CREMA_TEST, &net));
  const crema_shape *shape = crema_blob_shape(blob_of(net, "data"));
  assert_int_equal(shape->axes, 4);
  assert_true(shape->dim[0] == 3 && shape->dim[1] == 3 && shape->dim[2] == 6 && shape->dim[3] == 7);
  shape = crema_blob_shape(blob_of(net, "label"));
  assert_true(shape->axes == 1 && shape->dim[0] == 3);
  for (int k = 0; k < 7; ++k) {
    forward(net);
    for (int i = 0; i < 3; ++i) {
      int record = (3 * k + i) % 5;
      assert_true(values(net, "label")[i] == (float)record);
      assert_true(values(net, "data")[i * 126 + 125] == (float)(160 + 50 + 6 + record));
    }
  }
  crema_net_destroy(net);
}

/* When no batches are taken, the reader deals out what fills the batches and its own queue, which
 * has room for prefetch x batch_size records, and then rests. */
FIXTURE_TEST(s2_08_as_many_records_as_batches_hold) {
  enum { BATCH = 3, PREFETCH = 5 };
  const fixture *f = *state;
  crema_net *net = NULL;
  cr_input_stats stats = {0};
  const char *db = fixture_db(f, "db", 11, fixture_gray);
  ok(make_net(db, "batch_size: 3 prefetch: 5 threads: 1 } }", 1, CREMA_TEST, &net));
  double start = cr_clock_seconds();
  while (stats.reader.records < 2 * BATCH * PREFETCH && cr_clock_seconds() < start + 10) {
    cr_clock_sleep(1e-4);
    stats = input_stats(net);
  }
  cr_clock_sleep(0.02);
  stats = input_stats(net);
  assert_int_equal(stats.reader.records, 2 * BATCH * PREFETCH);
  assert_int_equal(stats.pipeline.depth, PREFETCH);
  crema_net_destroy(net);
}

/* The top's memory is the batch's: it takes as many addresses as there are batches. */
FIXTURE_TEST(s2_24_tops_adopt_the_batch) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const float *seen[3] = {0};
  const char *db = fixture_db(f, "db", 5, fixture_gray);
  ok(make_net(db, "batch_size: 2 prefetch: 3 } }", 1, CREMA_TEST, &net));
  for (int k = 0; k < 9; ++k) {
    forward(net);
    const float *data = values(net, "data");
    if (k < 3) seen[k] = data;
    assert_ptr_equal(data, seen[k % 3]);
  }
  assert_ptr_not_equal(seen[0], seen[1]);
  crema_net_destroy(net);
}

/* Without a second top there are no labels. */
FIXTURE_TEST(s2_17_labels_are_optional) {
  const fixture *f = *state;
  crema_net *net = NULL;
  crema_blob *label = NULL;
  ok(parse_net(NULL, NULL, &net,
               "layer { name: 'in' type: 'Data' top: 'data' "
               "data_param { source: '%s' backend: LMDB batch_size: 2 } }",
               fixture_db(f, "db", 5, fixture_gray)));
  forward(net);
  assert_true(values(net, "data")[20] == 1);
  assert_int_equal(crema_net_blob(net, "label", &label), CREMA_E_UNKNOWN_NAME);
  crema_net_destroy(net);
}

/* Record i of one layer always meets record i of the other. */
FIXTURE_TEST(s2_26_two_layers_keep_step) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *gray = fixture_db(f, "gray", 11, fixture_gray);
  const char *color = fixture_db(f, "color", 11, fixture_png);
  ok(parse_net(NULL, NULL, &net,
               "layer { name: 'a' type: 'Data' top: 'a' top: 'a_label' "
               "data_param { source: '%s' backend: LMDB batch_size: 3 prefetch: 1 } } "
               "layer { name: 'b' type: 'Data' top: 'b' top: 'b_label' "
               "data_param { source: '%s' backend: LMDB batch_size: 3 prefetch: 7 } }",
               gray, color));
  for (int k = 0; k < 200; ++k) {
    if (k % 50 == 0) cr_clock_sleep(0.002);
    forward(net);
    for (int i = 0; i < 3; ++i) {
      assert_true(values(net, "a_label")[i] == (float)((3 * k + i) % 11));
      assert_true(values(net, "b_label")[i] == values(net, "a_label")[i]);
      assert_true(values(net, "a")[20 * i] == values(net, "b")[126 * i]);
    }
  }
  crema_net_destroy(net);
}

/* A record that one of them skips would put them out of step for good. */
FIXTURE_TEST(s2_26_layers_that_keep_step_skip_nothing) {
  const fixture *f = *state;
  static const char *const others[] = {
      "layer { name: 'b' type: 'Data' top: 'b' data_param { source: '%s' backend: LMDB } }",
      "layer { name: 'b' type: 'MemoryData' top: 'b' top: 'c' memory_data_param { batch_size: 1 "
      "channels: 1 height: 1 width: 1 } }"};
  const char *db = fixture_db(f, "db", 5, fixture_gray);
  crema_net *net = NULL;
  char text[1024], other[512];
  for (int i = 0; i < 2; ++i) {
    snprintf(other, sizeof other, others[i], db);
    snprintf(text, sizeof text,
             "\nlayer { name: 'a' type: 'Data' top: 'a' data_param { source: '%s' backend: LMDB "
             "skip_corrupt: true } }\n%s",
             db, other);
    assert_fails(parse_net(NULL, NULL, &net, "%s", text), CREMA_E_UNSUPPORTED, "'a' (Data)");
    assert_error_has("skip_corrupt: layer 'b' brings samples");
    assert_int_equal(crema_error_line(), 2);
  }
  /* Not those of another phase, and not the same numbers in each pass. */
  ok(parse_net(
      NULL, NULL, &net,
      "layer { name: 'a' type: 'Data' top: 'a' include { phase: TRAIN } data_param { "
      "source: '%s' backend: LMDB batch_size: 1 skip_corrupt: true } } "
      "layer { name: 'a' type: 'Data' top: 'a' include { phase: TEST } data_param { "
      "source: '%s' backend: LMDB batch_size: 1 skip_corrupt: true } } "
      "layer { name: 'c' type: 'DummyData' top: 'c' dummy_data_param { shape { dim: 1 } } }",
      db, db));
  crema_net_destroy(net);
}

/* A net of another seed goes on with the same batches after restoring, at every position. */
FIXTURE_TEST(s2_31_resume_is_exact) {
  enum { BATCHES = 9, VALUES = 4 * 3 * 4 * 4 };
  static const char rest[] =
      "batch_size: 4 rand_skip: 5 } transform_param { crop_size: 4 mirror: true } }";
  static float expected[BATCHES][VALUES], labels[BATCHES][4];
  const fixture *f = *state;
  crema_net *net = NULL, *other = NULL;
  cr_buffer saved[BATCHES] = {{0}};
  const char *db = fixture_db(f, "db", 7, fixture_png);
  ok(make_net(db, rest, 3, CREMA_TRAIN, &net));
  for (int k = 0; k < BATCHES; ++k) {
    save_input(net, &saved[k]);
    forward(net);
    memcpy(expected[k], values(net, "data"), sizeof expected[k]);
    memcpy(labels[k], values(net, "label"), sizeof labels[k]);
  }
  crema_net_destroy(net);
  ok(make_net(db, rest, 1234, CREMA_TRAIN, &other));
  for (int from = BATCHES - 1; from >= 1; --from) {
    forward(other);
    ok(restore_input(other, saved[from].data, saved[from].size));
    for (int k = from; k < BATCHES; ++k) {
      forward(other);
      assert_memory_equal(expected[k], values(other, "data"), sizeof expected[k]);
      assert_memory_equal(labels[k], values(other, "label"), sizeof labels[k]);
    }
  }
  crema_net_destroy(other);
  /* The very beginning, with the seed that drew how many records to pass over. */
  ok(make_net(db, rest, 3, CREMA_TRAIN, &other));
  forward(other);
  ok(restore_input(other, saved[0].data, saved[0].size));
  forward(other);
  assert_memory_equal(expected[0], values(other, "data"), sizeof expected[0]);
  crema_net_destroy(other);
  for (int k = 0; k < BATCHES; ++k) cr_buffer_free(&saved[k]);
}

/* The texts of snapshots: today's and the older one of a single solver. */
FIXTURE_TEST(s2_31_texts_of_snapshots) {
  static const char *const text[] = {"draws 9a index 4 solvers 1 skip 0 sorted 0 key 8:00000003",
                                     "draws 9a index 4 key 8:00000003"};
  const fixture *f = *state;
  crema_net *net = NULL;
  cr_buffer saved = {0};
  const char *db = fixture_db(f, "db", 5, fixture_gray);
  ok(make_net(db, "batch_size: 2 } }", 1, CREMA_TRAIN, &net));
  for (int i = 0; i < 2; ++i) {
    ok(restore_input(net, text[i], strlen(text[i])));
    save_input(net, &saved);
    assert_string_equal(saved.data, text[0]);
    forward(net);
    assert_true(values(net, "label")[0] == 4 && values(net, "label")[1] == 0);
    save_input(net, &saved);
    assert_string_equal(saved.data, "draws 9a index 6 solvers 1 skip 0 sorted 0 key 8:00000000");
  }
  cr_buffer_free(&saved);
  crema_net_destroy(net);
}

FIXTURE_TEST(test_bad_positions_are_refused) {
  static const char *const bad[] = {"", "draws", "draws 1 index 2 key 9:00000001",
                                    "draws 1 index 2 key 8:0000000100",
                                    "draws x index 2 key 8:00000001"};
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", 5, fixture_gray);
  ok(make_net(db, "batch_size: 2 } }", 1, CREMA_TRAIN, &net));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    assert_fails(restore_input(net, bad[i], strlen(bad[i])), CREMA_E_CORRUPT, "layer 'in'");
  }
  const char gone[] = "draws 1 index 2 key 8:00000077";
  assert_fails(restore_input(net, gone, sizeof gone - 1), CREMA_E_NOT_FOUND, "00000077");
  forward(net);
  crema_net_destroy(net);
}

FIXTURE_TEST(test_mistakes_are_named) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", 5, fixture_gray);
  assert_fails(make_net(fixture_path(f, "none"), "batch_size: 2 } }", 1, CREMA_TEST, &net),
               CREMA_E_NOT_FOUND, "layer 'in' (Data)");
  assert_error_has("none");
  assert_fails(make_net(db, "} }", 1, CREMA_TEST, &net), CREMA_E_ARGUMENT, "batch_size");
  assert_fails(make_net(db, "batch_size: 2 prefetch: 1025 } }", 1, CREMA_TEST, &net), CREMA_E_RANGE,
               "prefetch");
  assert_fails(make_net("", "batch_size: 2 } }", 1, CREMA_TEST, &net), CREMA_E_ARGUMENT, "source");
  assert_fails(
      make_net(db, "batch_size: 2 } transform_param { crop_size: 9 } }", 1, CREMA_TEST, &net),
      CREMA_E_SHAPE, "record '00000000'");
  assert_error_has("9 x 9");
  assert_null(net);
}

FIXTURE_TEST(test_damage_reaches_forward) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", 6, fixture_png_damaged);
  ok(make_net(db, "batch_size: 2 } }", 1, CREMA_TEST, &net));
  forward(net);
  for (int i = 0; i < 3; ++i) {
    assert_fails(crema_net_forward(net, NULL), CREMA_E_CORRUPT, "layer 'in' (Data)");
    assert_error_has("record '00000003'");
  }
  crema_net_destroy(net);
  ok(make_net(db, "batch_size: 2 skip_corrupt: true } }", 1, CREMA_TEST, &net));
  forward(net);
  forward(net);
  assert_true(values(net, "label")[0] == 2 && values(net, "label")[1] == 5);
  crema_net_destroy(net);
}

/* Sizes that change from batch to batch, of one item each. */
FIXTURE_TEST(test_tops_change_shape) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *db = fixture_db(f, "db", 6, fixture_mixed);
  ok(make_net(db, "batch_size: 1 } }", 1, CREMA_TEST, &net));
  for (int k = 0; k < 12; ++k) {
    forward(net);
    int rows = k % 3 == 2 ? 5 : 4;
    assert_int_equal(crema_blob_shape(blob_of(net, "data"))->dim[2], rows);
    assert_true(values(net, "data")[rows * 5 - 1] == (float)(k % 6));
  }
  crema_net_destroy(net);
}

FIXTURE_TEST(test_nets_come_and_go) {
  const fixture *f = *state;
  const char *db = fixture_db(f, "db", 6, fixture_gray);
  for (int i = 0; i < 200; ++i) {
    crema_net *net = NULL;
    ok(make_net(db, "batch_size: 3 } }", i, CREMA_TRAIN, &net));
    for (int k = 0; k < i % 4; ++k) forward(net);
    crema_net_destroy(net);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
