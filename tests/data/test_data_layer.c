/* The Data layer inside a net: tops that share batches, faults, exact resume. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clock.h"
#include "data/pipeline/pipeline.h"
#include "fixture.h"
#include "layers/common/input_class.h"
#include "net/net.h"

static void assert_error_has(const char *part) {
  if (strstr(crema_error_text(), part) == NULL) {
    fail_msg("\"%s\" is not in \"%s\"", part, crema_error_text());
  }
}

/* A net of one Data layer; `rest` goes into its message. */
static crema_status make_net(const char *source, const char *rest, int64_t seed, crema_phase phase,
                             crema_net **out) {
  char text[2048];
  snprintf(text, sizeof text,
           "name: 'n' layer { name: 'in' type: 'Data' top: 'data' top: 'label' "
           "data_param { source: '%s' backend: LMDB %s",
           source, rest);
  crema_net_options options;
  crema_net_options_init(&options);
  options.seed = seed;
  options.phase = phase;
  return crema_net_parse(text, strlen(text), "test.prototxt", &options, out);
}

static crema_blob *blob(crema_net *net, const char *name) {
  crema_blob *found = NULL;
  assert_int_equal(crema_net_blob(net, name, &found), CREMA_OK);
  return found;
}

static const float *values(crema_net *net, const char *name) {
  const float *data = NULL;
  assert_int_equal(crema_blob_cpu_data(blob(net, name), &data), CREMA_OK);
  return data;
}

static void forward(crema_net *net) {
  assert_int_equal(crema_net_forward(net, NULL), CREMA_OK);
}

static void s2_18_shapes_and_order(void **state) {
  fixture f;
  crema_net *net = NULL;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 5, fixture_color);
  assert_int_equal(make_net(db, "batch_size: 3 } }", 1, CREMA_TEST, &net), CREMA_OK);
  const crema_shape *shape = crema_blob_shape(blob(net, "data"));
  assert_int_equal(shape->axes, 4);
  assert_true(shape->dim[0] == 3 && shape->dim[1] == 3 && shape->dim[2] == 6 && shape->dim[3] == 7);
  shape = crema_blob_shape(blob(net, "label"));
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
  fixture_remove(&f);
}

/* When no batches are taken, the reader deals out what fills the batches and its own queue, which
 * has room for prefetch x batch_size records, and then rests. */
static void s2_08_as_many_records_as_batches_hold(void **state) {
  enum { BATCH = 3, PREFETCH = 5 };
  fixture f;
  crema_net *net = NULL;
  cr_input_stats stats = {0};
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 11, fixture_gray);
  assert_int_equal(make_net(db, "batch_size: 3 prefetch: 5 threads: 1 } }", 1, CREMA_TEST, &net),
                   CREMA_OK);
  const cr_layer *layer = net->layer[0].layer;
  double start = cr_clock_seconds();
  while (stats.reader.records < 2 * BATCH * PREFETCH && cr_clock_seconds() < start + 10) {
    cr_clock_sleep(1e-4);
    layer->class->input->stats(layer, &stats);
  }
  cr_clock_sleep(0.02);
  layer->class->input->stats(layer, &stats);
  assert_int_equal(stats.reader.records, 2 * BATCH * PREFETCH);
  assert_int_equal(stats.pipeline.depth, PREFETCH);
  crema_net_destroy(net);
  fixture_remove(&f);
}

/* The top's memory is the batch's: it takes as many addresses as there are batches. */
static void s2_24_tops_adopt_the_batch(void **state) {
  fixture f;
  crema_net *net = NULL;
  const float *seen[3] = {0};
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 5, fixture_gray);
  assert_int_equal(make_net(db, "batch_size: 2 prefetch: 3 } }", 1, CREMA_TEST, &net), CREMA_OK);
  for (int k = 0; k < 9; ++k) {
    forward(net);
    const float *data = values(net, "data");
    if (k < 3) seen[k] = data;
    assert_ptr_equal(data, seen[k % 3]);
  }
  assert_ptr_not_equal(seen[0], seen[1]);
  crema_net_destroy(net);
  fixture_remove(&f);
}

/* Without a second top there are no labels. */
static void s2_17_labels_are_optional(void **state) {
  fixture f;
  crema_net *net = NULL;
  char text[1024];
  crema_blob *label = NULL;
  (void)state;
  fixture_make(&f);
  snprintf(text, sizeof text,
           "layer { name: 'in' type: 'Data' top: 'data' "
           "data_param { source: '%s' backend: LMDB batch_size: 2 } }",
           fixture_db(&f, "db", 5, fixture_gray));
  assert_int_equal(crema_net_parse(text, strlen(text), "test", NULL, &net), CREMA_OK);
  forward(net);
  assert_true(values(net, "data")[20] == 1);
  assert_int_equal(crema_net_blob(net, "label", &label), CREMA_E_UNKNOWN_NAME);
  crema_net_destroy(net);
  fixture_remove(&f);
}

/* Record i of one layer always meets record i of the other. */
static void s2_26_two_layers_keep_step(void **state) {
  fixture f;
  crema_net *net = NULL;
  char text[2048];
  (void)state;
  fixture_make(&f);
  const char *gray = fixture_db(&f, "gray", 11, fixture_gray);
  const char *color = fixture_db(&f, "color", 11, fixture_png);
  snprintf(text, sizeof text,
           "layer { name: 'a' type: 'Data' top: 'a' top: 'a_label' "
           "data_param { source: '%s' backend: LMDB batch_size: 3 prefetch: 1 } } "
           "layer { name: 'b' type: 'Data' top: 'b' top: 'b_label' "
           "data_param { source: '%s' backend: LMDB batch_size: 3 prefetch: 7 } }",
           gray, color);
  assert_int_equal(crema_net_parse(text, strlen(text), "test", NULL, &net), CREMA_OK);
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
  fixture_remove(&f);
}

static cr_layer *data_layer(crema_net *net) {
  return net->layer[0].layer;
}

static void save(crema_net *net, cr_buffer *out) {
  cr_buffer_clear(out);
  cr_layer *layer = data_layer(net);
  assert_int_equal(layer->class->input->save(layer, out), CREMA_OK);
}

static crema_status restore(crema_net *net, const char *bytes, size_t size) {
  cr_layer *layer = data_layer(net);
  return layer->class->input->restore(layer, bytes, size);
}

/* A net of another seed goes on with the same batches after restoring, at every position. */
static void s2_31_resume_is_exact(void **state) {
  enum { BATCHES = 9, VALUES = 4 * 3 * 4 * 4 };
  static const char rest[] =
      "batch_size: 4 rand_skip: 5 } transform_param { crop_size: 4 mirror: true } }";
  static float expected[BATCHES][VALUES], labels[BATCHES][4];
  fixture f;
  crema_net *net = NULL, *other = NULL;
  cr_buffer saved[BATCHES] = {{0}};
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 7, fixture_png);
  assert_int_equal(make_net(db, rest, 3, CREMA_TRAIN, &net), CREMA_OK);
  for (int k = 0; k < BATCHES; ++k) {
    save(net, &saved[k]);
    forward(net);
    memcpy(expected[k], values(net, "data"), sizeof expected[k]);
    memcpy(labels[k], values(net, "label"), sizeof labels[k]);
  }
  crema_net_destroy(net);
  assert_int_equal(make_net(db, rest, 1234, CREMA_TRAIN, &other), CREMA_OK);
  for (int from = BATCHES - 1; from >= 1; --from) {
    forward(other);
    assert_int_equal(restore(other, saved[from].data, saved[from].size), CREMA_OK);
    for (int k = from; k < BATCHES; ++k) {
      forward(other);
      assert_memory_equal(expected[k], values(other, "data"), sizeof expected[k]);
      assert_memory_equal(labels[k], values(other, "label"), sizeof labels[k]);
    }
  }
  crema_net_destroy(other);
  /* The very beginning, with the seed that drew how many records to pass over. */
  assert_int_equal(make_net(db, rest, 3, CREMA_TRAIN, &other), CREMA_OK);
  forward(other);
  assert_int_equal(restore(other, saved[0].data, saved[0].size), CREMA_OK);
  forward(other);
  assert_memory_equal(expected[0], values(other, "data"), sizeof expected[0]);
  crema_net_destroy(other);
  for (int k = 0; k < BATCHES; ++k) cr_buffer_free(&saved[k]);
  fixture_remove(&f);
}

/* The texts of snapshots: today's and the older one of a single solver. */
static void s2_31_texts_of_snapshots(void **state) {
  static const char *const text[] = {"draws 9a index 4 solvers 1 skip 0 sorted 0 key 8:00000003",
                                     "draws 9a index 4 key 8:00000003"};
  fixture f;
  crema_net *net = NULL;
  cr_buffer saved = {0};
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 5, fixture_gray);
  assert_int_equal(make_net(db, "batch_size: 2 } }", 1, CREMA_TRAIN, &net), CREMA_OK);
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(restore(net, text[i], strlen(text[i])), CREMA_OK);
    save(net, &saved);
    assert_string_equal(saved.data, text[0]);
    forward(net);
    assert_true(values(net, "label")[0] == 4 && values(net, "label")[1] == 0);
    save(net, &saved);
    assert_string_equal(saved.data, "draws 9a index 6 solvers 1 skip 0 sorted 0 key 8:00000000");
  }
  cr_buffer_free(&saved);
  crema_net_destroy(net);
  fixture_remove(&f);
}

static void test_bad_places_are_refused(void **state) {
  static const char *const bad[] = {"", "draws", "draws 1 index 2 key 9:00000001",
                                    "draws 1 index 2 key 8:0000000100",
                                    "draws x index 2 key 8:00000001"};
  fixture f;
  crema_net *net = NULL;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 5, fixture_gray);
  assert_int_equal(make_net(db, "batch_size: 2 } }", 1, CREMA_TRAIN, &net), CREMA_OK);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    assert_int_equal(restore(net, bad[i], strlen(bad[i])), CREMA_E_CORRUPT);
    assert_error_has("layer 'in'");
  }
  const char gone[] = "draws 1 index 2 key 8:00000077";
  assert_int_equal(restore(net, gone, sizeof gone - 1), CREMA_E_NOT_FOUND);
  assert_error_has("00000077");
  forward(net);
  crema_net_destroy(net);
  fixture_remove(&f);
}

static void test_mistakes_are_named(void **state) {
  fixture f;
  crema_net *net = NULL;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 5, fixture_gray);
  assert_int_equal(make_net(fixture_path(&f, "none"), "batch_size: 2 } }", 1, CREMA_TEST, &net),
                   CREMA_E_NOT_FOUND);
  assert_error_has("layer 'in' (Data)");
  assert_error_has("none");
  assert_int_equal(make_net(db, "} }", 1, CREMA_TEST, &net), CREMA_E_ARGUMENT);
  assert_error_has("batch_size");
  assert_int_equal(make_net(db, "batch_size: 2 prefetch: 1025 } }", 1, CREMA_TEST, &net),
                   CREMA_E_RANGE);
  assert_error_has("prefetch");
  assert_int_equal(make_net("", "batch_size: 2 } }", 1, CREMA_TEST, &net), CREMA_E_ARGUMENT);
  assert_error_has("source");
  assert_int_equal(
      make_net(db, "batch_size: 2 } transform_param { crop_size: 9 } }", 1, CREMA_TEST, &net),
      CREMA_E_SHAPE);
  assert_error_has("record '00000000'");
  assert_error_has("9 x 9");
  assert_null(net);
  fixture_remove(&f);
}

static void test_damage_reaches_forward(void **state) {
  fixture f;
  crema_net *net = NULL;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 6, fixture_png_damaged);
  assert_int_equal(make_net(db, "batch_size: 2 } }", 1, CREMA_TEST, &net), CREMA_OK);
  forward(net);
  for (int i = 0; i < 3; ++i) {
    assert_int_equal(crema_net_forward(net, NULL), CREMA_E_CORRUPT);
    assert_error_has("layer 'in' (Data)");
    assert_error_has("record '00000003'");
  }
  crema_net_destroy(net);
  assert_int_equal(make_net(db, "batch_size: 2 skip_corrupt: true } }", 1, CREMA_TEST, &net),
                   CREMA_OK);
  forward(net);
  forward(net);
  assert_true(values(net, "label")[0] == 2 && values(net, "label")[1] == 5);
  crema_net_destroy(net);
  fixture_remove(&f);
}

/* Sizes that change from batch to batch, of one item each. */
static void test_tops_change_shape(void **state) {
  fixture f;
  crema_net *net = NULL;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 6, fixture_mixed);
  assert_int_equal(make_net(db, "batch_size: 1 } }", 1, CREMA_TEST, &net), CREMA_OK);
  for (int k = 0; k < 12; ++k) {
    forward(net);
    int rows = k % 3 == 2 ? 5 : 4;
    assert_int_equal(crema_blob_shape(blob(net, "data"))->dim[2], rows);
    assert_true(values(net, "data")[rows * 5 - 1] == (float)(k % 6));
  }
  crema_net_destroy(net);
  fixture_remove(&f);
}

static void test_nets_come_and_go(void **state) {
  fixture f;
  (void)state;
  fixture_make(&f);
  const char *db = fixture_db(&f, "db", 6, fixture_gray);
  for (int i = 0; i < 200; ++i) {
    crema_net *net = NULL;
    assert_int_equal(make_net(db, "batch_size: 3 } }", i, CREMA_TRAIN, &net), CREMA_OK);
    for (int k = 0; k < i % 4; ++k) forward(net);
    crema_net_destroy(net);
  }
  fixture_remove(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(s2_18_shapes_and_order),
      cmocka_unit_test(s2_24_tops_adopt_the_batch),
      cmocka_unit_test(s2_08_as_many_records_as_batches_hold),
      cmocka_unit_test(s2_17_labels_are_optional),
      cmocka_unit_test(s2_26_two_layers_keep_step),
      cmocka_unit_test(s2_31_resume_is_exact),
      cmocka_unit_test(s2_31_texts_of_snapshots),
      cmocka_unit_test(test_bad_places_are_refused),
      cmocka_unit_test(test_mistakes_are_named),
      cmocka_unit_test(test_damage_reaches_forward),
      cmocka_unit_test(test_tops_change_shape),
      cmocka_unit_test(test_nets_come_and_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
