/* HDF5Data and HDF5Output: what one writes the other reads; order, shuffling, faults, resume. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"
#include "fixture.h"
#include "hdf5_probe.h"
#include "net/net_values.h"

/* Samples `first` to `first + samples - 1`: data (2 x 3 values sample * 10 + i), label (sample). */
static void make_file(const fixture *f, const char *name, int first, int samples) {
  cr_hdf5_writer *writer = NULL;
  float data[64 * 6], label[64];
  for (int s = 0; s < samples; ++s) {
    label[s] = (float)(first + s);
    for (int i = 0; i < 6; ++i) data[s * 6 + i] = (float)((first + s) * 10 + i);
  }
  const crema_shape shape = {.axes = 3, .dim = {samples, 2, 3}};
  const crema_shape flat = {.axes = 1, .dim = {samples}};
  ok(cr_hdf5_writer_open(fixture_path(f, name), &writer));
  ok(cr_hdf5_writer_append(writer, "data", &shape, CREMA_F32, data));
  ok(cr_hdf5_writer_append(writer, "label", &flat, CREMA_F32, label));
  ok(cr_hdf5_writer_flush(writer));
  cr_hdf5_writer_close(writer);
}

/* a.h5 has samples 0 to 3, b.h5 4 to 8, c.h5 9 and 10. */
static void make_set(const fixture *f) {
  make_file(f, "a.h5", 0, 4);
  make_file(f, "b.h5", 4, 5);
  make_file(f, "c.h5", 9, 2);
  fixture_text(f, "list.txt", "a.h5\nb.h5\n\nc.h5\n");
}

enum { TOTAL = 11 };

static crema_status make_net(const fixture *f, const char *param, const char *rest, int64_t seed,
                             crema_net **out) {
  static const input_type type = {"HDF5Data", "hdf5_data_param {", CREMA_TEST};
  return parse_input(&type, fixture_path(f, "list.txt"), param, rest, seed, out);
}

static void read_labels(crema_net *net, int batches, int items, int *out) {
  for (int k = 0; k < batches; ++k) {
    forward(net);
    for (int i = 0; i < items; ++i) {
      int label = (int)values(net, "label")[i];
      assert_true(values(net, "data")[i * 6 + 5] == (float)(label * 10 + 5));
      *out++ = label;
    }
  }
}

FIXTURE_TEST(test_order_and_wrap) {
  const fixture *f = *state;
  crema_net *net = NULL;
  int label[12 * 5];
  make_set(f);
  ok(make_net(f, "batch_size: 5", "", 1, &net));
  read_labels(net, 12, 5, label);
  for (int i = 0; i < 60; ++i) assert_int_equal(label[i], i % TOTAL);
  crema_net_destroy(net);
  /* A batch larger than all files together. */
  ok(make_net(f, "batch_size: 30", "", 1, &net));
  read_labels(net, 2, 30, label);
  for (int i = 0; i < 60; ++i) assert_int_equal(label[i], i % TOTAL);
  crema_net_destroy(net);
}

/* Files and the samples in them come in another order in each epoch; files stay together. */
FIXTURE_TEST(test_shuffle) {
  enum { EPOCHS = 30 };
  static const int file_of[TOTAL] = {0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2};
  const fixture *f = *state;
  crema_net *net = NULL;
  int label[EPOCHS * TOTAL], again[EPOCHS * TOTAL];
  unsigned first_files = 0, orders_of_b = 0;
  make_set(f);
  ok(make_net(f, "batch_size: 3 shuffle: true", "", 8, &net));
  read_labels(net, EPOCHS * TOTAL / 3, 3, label);
  crema_net_destroy(net);
  ok(make_net(f, "batch_size: 1 shuffle: true", "", 8, &net));
  read_labels(net, EPOCHS * TOTAL, 1, again);
  crema_net_destroy(net);
  assert_memory_equal(label, again, sizeof label);
  for (int e = 0; e < EPOCHS; ++e) {
    const int *l = label + e * TOTAL;
    unsigned seen = 0;
    int changes = 0;
    for (int i = 0; i < TOTAL; ++i) {
      seen |= 1u << l[i];
      if (i > 0 && file_of[l[i]] != file_of[l[i - 1]]) ++changes;
      if (file_of[l[i]] == 1 && (i == 0 || file_of[l[i - 1]] != 1)) orders_of_b |= 1u << l[i];
    }
    assert_int_equal(seen, (1u << TOTAL) - 1);
    assert_int_equal(changes, 2);
    first_files |= 1u << file_of[l[0]];
  }
  assert_int_equal(first_files, 7);
  assert_int_equal(orders_of_b, 31u << 4);
}

FIXTURE_TEST(s2_31_resume) {
  const fixture *f = *state;
  crema_net *net = NULL, *resumed = NULL;
  make_set(f);
  ok(make_net(f, "batch_size: 4 shuffle: true", "", 5, &net));
  for (int k = 0; k < 5; ++k) forward(net);
  ok(make_net(f, "batch_size: 4 shuffle: true", "", 6, &resumed));
  forward(resumed);
  check_resumed(net, resumed, " sample 20.", 12);
}

static void refuse(const fixture *f, const char *list, const char *param, const char *rest,
                   crema_status code, const char *part) {
  crema_net *net = NULL;
  fixture_text(f, "list.txt", list);
  assert_int_equal(make_net(f, param, rest, 1, &net), code);
  assert_null(net);
  assert_error_has(part);
  assert_error_has("'in'");
}

FIXTURE_TEST(test_bad_files) {
  const fixture *f = *state;
  cr_hdf5_writer *writer = NULL;
  cr_buffer file = {0};
  const float some[12] = {0};
  const crema_shape two = {.axes = 2, .dim = {2, 6}}, three = {.axes = 1, .dim = {3}};
  make_set(f);
  refuse(f, "\n", "batch_size: 2", "", CREMA_E_PARSE, "empty");
  refuse(f, "a.h5\ngone.h5\n", "batch_size: 2", "", CREMA_E_NOT_FOUND, "gone.h5");
  refuse(f, "a.h5\nlist.txt\n", "batch_size: 2", "", CREMA_E_CORRUPT, "list.txt");
  refuse(f, "a.h5\n", "", "", CREMA_E_ARGUMENT, "batch_size");
  refuse(f, "a.h5\n", "batch_size: 1", "transform_param { scale: 2 }", CREMA_E_ARGUMENT,
         "transform_param");
  ok(cr_hdf5_writer_open(fixture_path(f, "odd.h5"), &writer));
  ok(cr_hdf5_writer_append(writer, "data", &two, CREMA_F32, some));
  cr_hdf5_writer_close(writer);
  refuse(f, "odd.h5\n", "batch_size: 1", "", CREMA_E_NOT_FOUND, "'label'");
  refuse(f, "a.h5\nodd.h5\n", "batch_size: 1", "", CREMA_E_SHAPE, "2 6 (12)");
  ok(cr_hdf5_writer_open(fixture_path(f, "odd.h5"), &writer));
  ok(cr_hdf5_writer_append(writer, "data", &two, CREMA_F32, some));
  ok(cr_hdf5_writer_append(writer, "label", &three, CREMA_F32, some));
  assert_fails(cr_hdf5_writer_append(writer, "label", &two, CREMA_F32, some), CREMA_E_SHAPE,
               "odd.h5");
  cr_hdf5_writer_close(writer);
  refuse(f, "odd.h5\n", "batch_size: 1", "", CREMA_E_SHAPE, "3 samples");
  crema_net *net = NULL;
  make_file(f, "list.txt", 0, 2);
  assert_fails(make_net(f, "batch_size: 1", "", 1, &net), CREMA_E_PARSE,
               "an HDF5 file; source must be a text file");
  /* Cut off anywhere: refused, when opened or when read. */
  ok(cr_file_read(fixture_path(f, "a.h5"), &file));
  fixture_text(f, "list.txt", "cut.h5\n");
  for (size_t size = 0; size < file.size; size += file.size / 13) {
    ok(cr_file_write(fixture_path(f, "cut.h5"), file.data, size));
    assert_fails(make_net(f, "batch_size: 1", "", 1, &net), CREMA_E_CORRUPT, "cut.h5");
  }
  cr_buffer_free(&file);
}

/* Each pass adds its samples; what was written is read again, value for value. */
FIXTURE_TEST(test_output_is_read_again) {
  const fixture *f = *state;
  crema_net *net = NULL, *reader = NULL;
  make_set(f);
  ok(parse_net(NULL, NULL, &net,
               "layer { name: 'in' type: 'HDF5Data' top: 'data' top: 'label' "
               "hdf5_data_param { source: '%s' batch_size: 4 } } "
               "layer { name: 'out' type: 'HDF5Output' bottom: 'data' bottom: 'label' "
               "hdf5_output_param { file_name: '%s' } }",
               fixture_path(f, "list.txt"), fixture_path(f, "out.h5")));
  for (int k = 0; k < 5; ++k) forward(net);
  crema_net_destroy(net);
  crema_shape shape;
  ok(probe(fixture_path(f, "out.h5"), "data", &shape));
  assert_true(shape.axes == 4 && shape.dim[0] == 20 && shape.dim[1] == 2 && shape.dim[2] == 3 &&
              shape.dim[3] == 1);
  ok(probe(fixture_path(f, "out.h5"), "label", &shape));
  assert_true(shape.axes == 4 && shape.dim[0] == 20 && shape.dim[1] == 1);
  fixture_text(f, "list.txt", "out.h5\n");
  int label[20];
  ok(make_net(f, "batch_size: 20", "", 1, &reader));
  read_labels(reader, 1, 20, label);
  for (int i = 0; i < 20; ++i) assert_int_equal(label[i], i % TOTAL);
  crema_net_destroy(reader);
}

static crema_status make_output(const char *bottoms, const char *path, crema_net **out) {
  char text[2048];
  snprintf(text, sizeof text,
           "layer { name: 'a' type: 'Input' top: 'a' input_param { shape { %s } } } "
           "layer { name: 'b' type: 'Input' top: 'b' input_param { shape { dim: 3 } } } "
           "layer { name: 'out' type: 'HDF5Output' bottom: 'a' bottom: 'b' "
           "hdf5_output_param { file_name: '%s' } }",
           bottoms, path);
  return crema_net_parse(text, strlen(text), "test", NULL, out);
}

FIXTURE_TEST(test_output_faults) {
  const fixture *f = *state;
  crema_net *net = NULL;
  const char *path = fixture_path(f, "out.h5");
  assert_fails(make_output("dim: 4", path, &net), CREMA_E_SHAPE, "'out'");
  assert_int_equal(make_output("dim: 3", "", &net), CREMA_E_ARGUMENT);
  assert_fails(make_output("dim: 3", fixture_path(f, "no/such/folder.h5"), &net), CREMA_E_IO,
               "no/such/folder.h5");
  /* Room for the first passes only: later ones fail, and what was written stays readable. */
  struct rlimit before, small = {.rlim_cur = 8 << 20, .rlim_max = RLIM_INFINITY};
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small.rlim_max = before.rlim_max;
  ok(make_output("dim: 3 dim: 100000", path, &net));
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  crema_status status = CREMA_OK;
  int passes = 0;
  while (status == CREMA_OK && passes < 20) {
    status = crema_net_forward(net, NULL);
    passes += status == CREMA_OK;
  }
  assert_int_equal(status, CREMA_E_IO);
  assert_error_has("out.h5");
  assert_in_range(passes, 1, 10);
  crema_net_destroy(net);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  crema_shape shape;
  ok(probe(path, "data", &shape));
  assert_int_equal(shape.dim[0], 3 * passes);
}

static crema_net *net_of_doubles(const char *text) {
  const crema_net_options options = net_options(CREMA_TEST, 3, NULL);
  crema_net *net = NULL;
  ok(parse_net(&options, NULL, &net,
               "default_forward_type: DOUBLE default_backward_type: DOUBLE %s", text));
  return net;
}

/* A net of doubles writes and reads them without a way through floats. */
FIXTURE_TEST(test_doubles) {
  enum { VALUES = 4 * 3 };
  const fixture *f = *state;
  char text[2048];
  double written[2][VALUES];
  static const char *const tops[] = {"data", "label"};
  snprintf(text, sizeof text,
           "layer { name: 'd' type: 'DummyData' top: 'data' top: 'label' dummy_data_param {"
           "  shape { dim: 4 dim: 3 dim: 1 dim: 1 } shape { dim: 4 dim: 1 dim: 1 dim: 1 }"
           "  data_filler { type: 'gaussian' std: 1 } data_filler { type: 'uniform' max: 1 } } }"
           "layer { name: 'out' type: 'HDF5Output' bottom: 'data' bottom: 'label'"
           "  hdf5_output_param { file_name: '%s' } }",
           fixture_path(f, "doubles.h5"));
  crema_net *net = net_of_doubles(text);
  forward(net);
  for (int t = 0; t < 2; ++t) {
    const void *values = NULL;
    ok(crema_blob_data_as(blob_of(net, tops[t]), CREMA_F64, &values));
    memcpy(written[t], values, (t == 0 ? VALUES : 4) * sizeof(double));
    assert_true((double)(float)written[t][1] != written[t][1]);
  }
  crema_net_destroy(net);
  fixture_text(f, "doubles.txt", "doubles.h5\n");
  snprintf(text, sizeof text,
           "layer { name: 'in' type: 'HDF5Data' top: 'data' top: 'label'"
           "  hdf5_data_param { source: '%s' batch_size: 4 } }",
           fixture_path(f, "doubles.txt"));
  net = net_of_doubles(text);
  forward(net);
  for (int t = 0; t < 2; ++t) {
    const void *values = NULL;
    crema_blob *top = blob_of(net, tops[t]);
    assert_int_equal(crema_blob_data_type(top), CREMA_F64);
    ok(crema_blob_data_as(top, CREMA_F64, &values));
    assert_memory_equal(values, written[t], (t == 0 ? VALUES : 4) * sizeof(double));
    assert_int_equal(crema_blob_conversions(top), 0);
  }
  crema_net_destroy(net);
}

/* Labels that no float holds; what lies between two integers is rounded. */
FIXTURE_TEST(test_integers) {
  static const double label[] = {16777217, 2.5, -3, 3.5};
  static const crema_shape shape = {.axes = 1, .dim = {4}};
  const fixture *f = *state;
  const crema_net_options options = net_options(CREMA_TEST, 3, NULL);
  cr_hdf5_writer *writer = NULL;
  crema_net *net = NULL;
  const void *found = NULL;
  ok(cr_hdf5_writer_open(fixture_path(f, "integers.h5"), &writer));
  ok(cr_hdf5_writer_append(writer, "label", &shape, CREMA_F64, label));
  cr_hdf5_writer_close(writer);
  fixture_text(f, "integers.txt", "integers.h5\n");
  ok(parse_net(&options, NULL, &net,
               "layer { name: 'in' type: 'HDF5Data' top: 'label' forward_type: INT"
               "  hdf5_data_param { source: '%s' batch_size: 4 } }",
               fixture_path(f, "integers.txt")));
  forward(net);
  crema_blob_set_typed(blob_of(net, "label"), true);
  ok(crema_blob_data_as(blob_of(net, "label"), CREMA_I32, &found));
  assert_memory_equal(found, ((const int32_t[]){16777217, 2, -3, 4}), 16);
  crema_net_destroy(net);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
