/* How many kernels and library calls a training step starts, for three nets of models/ with two
 * constant images. The fake libraries check each call and compute nothing (FAKE_CUDA_NO_WORK). The
 * argument is the folder of the models. */
#include "crema/solver.h"
#include "device/device.h"
#include "model_net.h"

static const char *models;
static crema_device *device;

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
    write_model_net(models, name, types[t], side);
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
  check_step("resnet50", 224, 461, 463);
}

static int begin(void **state) {
  ok(crema_device_get(CREMA_DEVICE_CUDA, 0, &device));
  return make_solver_folder(state, "", model_solver_text);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  models = argv[1];
  arguments_read = 1;
  return run_all_tests(begin, remove_solver_folder);
}
