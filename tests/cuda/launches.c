/* How many kernels and library calls a training step starts, for three nets of models/ with two
 * constant images. The fake libraries check each call and compute nothing (FAKE_CUDA_NO_WORK). The
 * argument is the folder of the models. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "crema/solver.h"
#include "device/device.h"
#include "folder.h"

static const char input_text[] =
    "default_forward_type: %s default_backward_type: %s\n"
    "layer { name: 'data' type: 'DummyData' top: 'data' top: 'label' dummy_data_param {"
    " shape { dim: 2 dim: 3 dim: %d dim: %d } shape { dim: 2 } } }\n";

static const char solver_text[] =
    "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.0005 "
    "max_iter: 1000 random_seed: 7 snapshot_after_train: false\n";

static const char *models;
static crema_device *device;

/* The net's text from its first convolution on, after `input_text`. */
static void write_net(const char *name, const char *type, int side) {
  char path[PATH_SIZE], head[sizeof input_text + 64];
  cr_buffer text = {0};
  snprintf(path, sizeof path, "%s/%s/train_val.prototxt", models, name);
  ok(cr_file_read(path, &text));
  const char *first = strstr(text.data, "name: \"conv1");
  assert_non_null(first);
  while (first > text.data && strncmp(first, "layer {", 7) != 0) --first;
  snprintf(head, sizeof head, input_text, type, type, side, side);
  FILE *file = fopen(path_of("net.prototxt"), "w");
  assert_non_null(file);
  fprintf(file, "%s%s", head, first);
  assert_int_equal(fclose(file), 0);
  cr_buffer_free(&text);
}

/* Of the third step: the first plans, and the second uses memory for the first time. */
static uint64_t launches_of_step(void) {
  crema_solver_options options;
  crema_solver *solver = NULL;
  crema_solver_options_init(&options);
  options.device = device;
  ok(crema_solver_load(path_of("solver.prototxt"), &options, &solver));
  ok(crema_solver_step(solver, 2));
  const uint64_t before = cr_device_launches(device), fallbacks = cr_device_fallbacks(device);
  ok(crema_solver_step(solver, 1));
  const uint64_t count = cr_device_launches(device) - before;
  assert_int_equal(cr_device_fallbacks(device), fallbacks);
  crema_solver_destroy(solver);
  return count;
}

static void check_step(const char *name, int side, uint64_t in_floats, uint64_t in_halves) {
  static const char *const types[] = {"FLOAT", "BFLOAT16", "FLOAT16"};
  const uint64_t limit[] = {in_floats, in_halves, in_halves};
  bool good = true;
  for (int t = 0; t < 3; ++t) {
    write_net(name, types[t], side);
    const uint64_t count = launches_of_step();
    print_message("%s in %s: %llu launches a step, at most %llu\n", name, types[t],
                  (unsigned long long)count, (unsigned long long)limit[t]);
    if (count > limit[t] || count == 0) good = false;
  }
  assert_true(good);
}

TEST(alexnet) {
  check_step("alexnet", 227, 63, 65);
}

TEST(googlenet) {
  check_step("googlenet", 224, 408, 410);
}

TEST(resnet50) {
  check_step("resnet50", 224, 563, 565);
}

static int begin(void **state) {
  ok(crema_device_get(CREMA_DEVICE_CUDA, 0, &device));
  return make_solver_folder(state, "", solver_text);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  models = argv[1];
  arguments_read = 1;
  return run_all_tests(begin, remove_solver_folder);
}
