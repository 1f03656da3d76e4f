/* Training on a device whose memory the host cannot follow: every step must go through the
 * tensors, and the numbers must be those of the CPU. */
#include <math.h>

#include "crema/device.h"
#include "device/memory/pool.h"
#include "solver_case.h"

static const char *const texts[] = {
    "lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.01 iter_size: 2 clip_gradients: 0.4",
    "lr_policy: 'inv' gamma: 0.1 power: 0.75 type: 'Adam' momentum: 0.9 test_iter: 1 "
    "test_interval: 2",
};

/* A device converts 16-bit weights and gradients for many parameters at once. */
static const char *const types[] = {"FLOAT", "BFLOAT16"};

enum { TEXTS = sizeof texts / sizeof *texts, TYPES = sizeof types / sizeof *types };

/* Ten iterations in the element type, the last five after a resume on `second`. */
static void train(const char *type, const char *text, crema_device *first, crema_device *second,
                  float weights[6]) {
  solver_case c;
  char path[256], net[2048];
  snprintf(net, sizeof net, "default_forward_type: %s default_backward_type: %s\n%s", type, type,
           small_net);
  case_begin(&c);
  c.options.feed = case_feed;
  c.options.device = first;
  case_load(&c, net, text);
  case_train_and_save(&c, 5);
  c.options.device = second;
  case_load(&c, net, text);
  crema_status status = crema_solver_restore(c.solver, case_path(&c, "s_iter_5.solverstate", path));
  if (status == CREMA_OK) status = crema_solver_step(c.solver, 5);
  if (status != CREMA_OK) fail_msg("%s", crema_error_text());
  case_weights(&c, weights);
  case_end(&c);
}

TEST(simulated_devices_give_the_same_numbers) {
  crema_device *cpu, *sim;
  ok(crema_device_get(CREMA_DEVICE_CPU, 0, &cpu));
  ok(crema_device_get(CREMA_DEVICE_SIM, 1, &sim));
  for (size_t i = 0; i < TEXTS * TYPES; ++i) {
    const char *text = texts[i % TEXTS], *type = types[i / TEXTS];
    float on_cpu[6], on_sim[6], moved[6];
    train(type, text, cpu, cpu, on_cpu);
    train(type, text, sim, sim, on_sim);
    train(type, text, sim, cpu, moved);
    assert_memory_equal(on_cpu, on_sim, sizeof on_cpu);
    assert_memory_equal(on_cpu, moved, sizeof on_cpu);
  }
}

/* A gradient that the host has read is not the step that takes its place on the device. */
TEST(steps_take_the_place_of_gradients) {
  solver_case c;
  float before[6], after[6], *diff;
  const float *step;
  case_begin(&c);
  ok(crema_device_get(CREMA_DEVICE_SIM, 1, &c.options.device));
  case_load(&c, small_net, "lr_policy: 'fixed' momentum: 0.9 snapshot_diff: true");
  crema_blob *weights = crema_solver_net(c.solver)->learnable[0];
  case_weights(&c, before);
  ok(crema_blob_mutable_cpu_diff(weights, &diff));
  for (int i = 0; i < 6; ++i) diff[i] = (float)(i + 1);
  ok(cr_updater_run(c.solver->updater, 0.1, 0));
  case_weights(&c, after);
  ok(crema_blob_cpu_diff(weights, &step));
  for (int i = 0; i < 6; ++i) {
    assert_true(fabs((double)step[i] - 0.1 * (i + 1)) < 1e-6);
    assert_true(fabs((double)before[i] - (double)after[i] - (double)step[i]) < 1e-6);
  }
  case_end(&c);
}

/* Blobs of 8 MiB, which the device's pool does not keep. */
static const char *const large_net =
    "layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' dummy_data_param {"
    "  shape { dim: 64 dim: 32768 } shape { dim: 64 dim: 1 } } }"
    "layer { name: 'a' type: 'Sigmoid' bottom: 'x' top: 'a' }"
    "layer { name: 'b' type: 'TanH' bottom: 'a' top: 'b' }"
    "layer { name: 'w' type: 'InnerProduct' bottom: 'b' top: 'w'"
    "  inner_product_param { num_output: 1 weight_filler { type: 'constant' value: 1e-5 } } }"
    "layer { name: 'l' type: 'EuclideanLoss' bottom: 'w' bottom: 'y' top: 'l' }";

TEST(steps_after_the_first_ones_take_no_memory_from_the_driver) {
  solver_case c;
  case_begin(&c);
  ok(crema_device_get(CREMA_DEVICE_SIM, 1, &c.options.device));
  case_load(&c, large_net, "lr_policy: 'fixed'");
  ok(crema_solver_step(c.solver, 3));
  const cr_pool_info before = cr_pool_describe(c.options.device->pool);
  ok(crema_solver_step(c.solver, 4));
  const cr_pool_info after = cr_pool_describe(c.options.device->pool);
  assert_int_equal(after.driver_allocs, before.driver_allocs);
  assert_int_equal(after.live_bytes, before.live_bytes);
  case_end(&c);
}

int main(void) {
  if (setenv("CREMA_SIM", "devices=2,memory=256M", 1) != 0) return 1;
  return run_all_tests(NULL, NULL);
}
