/* MatWrite: names of files, their bytes, faults. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/file.h"
#include "fixture.h"
#include "net/net_values.h"

/* A net that writes `a` (2 x 3 x 1 x 2, values 0 to 11) and `b` (3, all 7). */
static crema_status make_net(const fixture *f, const char *param, crema_net **out) {
  const crema_net_options options = net_options(CREMA_TEST, 3, NULL);
  return parse_net(&options, NULL, out,
                   "layer { name: 'a' type: 'Input' top: 'a' "
                   "  input_param { shape { dim: 2 dim: 3 dim: 1 dim: 2 } } } "
                   "layer { name: 'b' type: 'DummyData' top: 'b' dummy_data_param { "
                   "  shape { dim: 3 } data_filler { value: 7 } } } "
                   "layer { name: 'out' type: 'MatWrite' bottom: 'a' bottom: 'b' "
                   "  mat_write_param { prefix: '%s/' %s } }",
                   f->path, param);
}

static void run(crema_net *net) {
  float *a = NULL;
  ok(crema_blob_mutable_cpu_data(blob_of(net, "a"), &a));
  for (int i = 0; i < 12; ++i) a[i] = (float)i;
  forward(net);
}

static bool is_there(const fixture *f, const char *name) {
  return cr_file_exists(fixture_path(f, name));
}

static uint32_t word(const cr_buffer *file, size_t at) {
  uint32_t value = 0;
  assert_true(at + 4 <= file->size);
  memcpy(&value, file->data + at, 4);
  return value;
}

/* The file has an array "data" of single precision with these axes and values, all 4 bytes wide. */
static void check_file(const fixture *f, const char *name, const uint32_t *dim, const float *value,
                       int count) {
  cr_buffer file = {0};
  uint16_t version[2];
  ok(cr_file_read(fixture_path(f, name), &file));
  assert_true(file.size >= 128 && memcmp(file.data, "MATLAB 5.0 MAT-file", 19) == 0);
  memcpy(version, file.data + 124, sizeof version);
  assert_true(version[0] == 0x0100 && version[1] == 0x4d49);
  const uint32_t bytes = (uint32_t)count * 4, padded = (bytes + 7) / 8 * 8;
  const uint32_t expected[] = {
      14, 16 + 24 + 16 + 8 + padded, 6, 8, 7, 0, 5, 16, dim[0], dim[1], dim[2], dim[3], 1, 4};
  const size_t words = sizeof expected / sizeof *expected;
  for (size_t i = 0; i < words; ++i) assert_int_equal(word(&file, 128 + 4 * i), expected[i]);
  size_t at = 128 + 4 * words;
  assert_memory_equal(file.data + at, "data\0\0\0\0", 8);
  assert_true(word(&file, at + 8) == 7 && word(&file, at + 12) == bytes);
  assert_int_equal(file.size, at + 16 + padded);
  assert_memory_equal(file.data + at + 16, value, bytes);
  cr_buffer_free(&file);
}

FIXTURE_TEST(files_hold_the_axes_in_reverse_order) {
  static const uint32_t a[] = {2, 1, 3, 2}, b[] = {1, 1, 1, 3};
  const fixture *f = *state;
  const float sevens[] = {7, 7, 7};
  float count[12];
  crema_net *net = NULL;
  for (int i = 0; i < 12; ++i) count[i] = (float)i;
  ok(make_net(f, "", &net));
  run(net);
  crema_net_destroy(net);
  check_file(f, "iter_0_blob_0.mat", a, count, 12);
  check_file(f, "iter_0_blob_1.mat", b, sevens, 3);
}

FIXTURE_TEST(names_come_from_the_list) {
  const fixture *f = *state;
  crema_net *net = NULL;
  char param[400];
  fixture_text(f, "list.txt", "one.jpg 1\n\n two.jpg\nthree.jpg\n");
  snprintf(param, sizeof param, "source: '%s' strip: 4 period: 2", fixture_path(f, "list.txt"));
  ok(make_net(f, param, &net));
  for (int k = 0; k < 4; ++k) run(net);
  assert_true(is_there(f, "one_blob_0.mat") && is_there(f, "one_blob_1.mat"));
  assert_false(is_there(f, "two_blob_0.mat"));
  assert_true(is_there(f, "three_blob_0.mat"));
  assert_fails(crema_net_forward(net, NULL), CREMA_E_RANGE, "list.txt has 3 names");
  crema_net_destroy(net);
}

FIXTURE_TEST(faults_name_the_layer) {
  const fixture *f = *state;
  crema_net *net = NULL;
  char param[400];
  assert_fails(make_net(f, "period: 0", &net), CREMA_E_RANGE, "period is 0");
  assert_fails(make_net(f, "strip: -1", &net), CREMA_E_RANGE, "strip is -1");
  assert_fails(make_net(f, "source: '/no/list'", &net), CREMA_E_NOT_FOUND, "layer 'out'");
  fixture_text(f, "list.txt", "long.jpg\nabcd\n");
  snprintf(param, sizeof param, "source: '%s' strip: 4", fixture_path(f, "list.txt"));
  assert_fails(make_net(f, param, &net), CREMA_E_PARSE, "list.txt:2: strip: 4 leaves nothing");
  fixture_text(f, "list.txt", "\n");
  assert_fails(make_net(f, param, &net), CREMA_E_PARSE, "has no names");
  fixture_text(f, "gone", "");
  snprintf(param, sizeof param, "source: '%s'", fixture_path(f, "names.txt"));
  fixture_text(f, "names.txt", "gone/x\n");
  ok(make_net(f, param, &net));
  assert_fails(crema_net_forward(net, NULL), CREMA_E_IO, "gone/x_blob_0.mat");
  crema_net_destroy(net);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
