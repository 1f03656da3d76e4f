/* Whole nets on a simulated device: the same kernels on the same values in the same order give the
 * same weights, bit for bit, as on the CPU. */
#include "folder.h"
#include "memory/sim_fixture.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/rng.h"
#include "crema/net.h"
#include "crema/solver.h"
#include "device/memory/pool.h"
#include "device/memory/scratchpad.h"
#include "net/net.h"

enum { BATCH = 16, CLASSES = 10, SIDE = 28 };

/* LeNet with every kind of layer that moves data between layouts and phases. */
static const char net_text[] =
    "name: 'net'\n"
    "layer { name: 'data' type: 'Input' top: 'data' top: 'label' input_param {"
    " shape { dim: 16 dim: 1 dim: 28 dim: 28 } shape { dim: 16 } } }\n"
    "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param {"
    " num_output: 20 kernel_size: 5 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1' pooling_param {"
    " pool: MAX kernel_size: 2 stride: 2 } }\n"
    "layer { name: 'norm1' type: 'LRN' bottom: 'pool1' top: 'norm1' }\n"
    "layer { name: 'conv2' type: 'Convolution' bottom: 'norm1' top: 'conv2' convolution_param {"
    " num_output: 50 kernel_size: 5 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'bn2' type: 'BatchNorm' bottom: 'conv2' top: 'bn2' }\n"
    "layer { name: 'scale2' type: 'Scale' bottom: 'bn2' top: 'bn2' scale_param {"
    " bias_term: true } }\n"
    "layer { name: 'pool2' type: 'Pooling' bottom: 'bn2' top: 'pool2' pooling_param {"
    " pool: MAX kernel_size: 2 stride: 2 } }\n"
    "layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool2' top: 'ip1' inner_product_param {"
    " num_output: 100 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'relu1' type: 'ReLU' bottom: 'ip1' top: 'ip1' }\n"
    "layer { name: 'drop1' type: 'Dropout' bottom: 'ip1' top: 'drop1' }\n"
    "layer { name: 'ip2' type: 'InnerProduct' bottom: 'drop1' top: 'ip2' inner_product_param {"
    " num_output: 10 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n"
    "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip2' bottom: 'label' top: 'accuracy'"
    " include { phase: TEST } }\n";

static const char solver_text[] =
    "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'inv' gamma: 0.0001 power: 0.75 momentum: 0.9 "
    "weight_decay: 0.0005 max_iter: 1000 random_seed: 7 test_iter: 1 test_interval: 4 display: 3 "
    "snapshot_after_train: false\n";

/* Samples that depend on the pass and the index alone, whoever asks. */
static crema_status feed(void *user, crema_net *net, int64_t pass) {
  (void)user;
  float *data = NULL, *label = NULL;
  CR_TRY(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  CR_TRY(crema_blob_mutable_cpu_data(crema_net_input(net, 1), &label));
  for (int n = 0; n < BATCH; ++n) {
    uint32_t draw[4];
    cr_philox(1, (uint64_t)pass, (uint64_t)n, draw);
    int class = (int)(draw[0] % CLASSES);
    label[n] = (float)class;
    for (int i = 0; i < SIDE * SIDE; ++i) {
      cr_philox(2, (uint64_t)(pass * BATCH + n), (uint64_t)i, draw);
      data[n * SIDE * SIDE + i] = (float)(draw[0] >> 8) * 0x1p-24f + (i / 28 == class ? 1.0f : 0);
    }
  }
  return CREMA_OK;
}

typedef struct weights {
  float *value;
  size_t count;
} weights;

static weights copy_weights(crema_net *net) {
  weights w = {0};
  for (int pass = 0; pass < 2; ++pass) {
    size_t at = 0;
    for (int l = 0; l < crema_net_layer_count(net); ++l) {
      for (int p = 0; p < crema_net_layer_param_count(net, l); ++p) {
        crema_blob *blob = crema_net_layer_param(net, l, p);
        size_t count = (size_t)crema_blob_count(blob);
        const float *value = NULL;
        ok(crema_blob_cpu_data(blob, &value));
        if (pass == 1) memcpy(w.value + at, value, count * sizeof *value);
        at += count;
      }
    }
    if (pass == 0) w.value = malloc(at * sizeof *w.value);
    assert_non_null(w.value);
    w.count = at;
  }
  return w;
}

/* Loads the solver for a device. */
static crema_status load(crema_device *device, crema_solver **out) {
  crema_solver_options options;
  crema_solver_options_init(&options);
  options.device = device;
  options.feed = feed;
  return crema_solver_load(path_of("solver.prototxt"), &options, out);
}

static weights train(crema_device *device, int iterations) {
  crema_solver *solver = NULL;
  ok(load(device, &solver));
  ok(crema_solver_step(solver, iterations));
  weights w = copy_weights(crema_solver_net(solver));
  crema_solver_destroy(solver);
  return w;
}

static int begin(void **state) {
  return make_solver_folder(state, net_text, solver_text);
}

TEST(training_gives_the_same_bits_as_on_the_cpu) {
  enum { ITERATIONS = 10 };
  weights cpu = train(cr_cpu_device(), ITERATIONS);
  for (int stepped = 0; stepped < 2; ++stepped) {
    cr_sim_options options = sim_test_options(1);
    options.memory = (size_t)1 << 30;
    options.stepped = stepped == 1;
    options.keep_log = false;
    sim_begin(&options);
    weights sim = train(sim_test_device(0), ITERATIONS);
    assert_int_equal(sim.count, cpu.count);
    assert_memory_equal(sim.value, cpu.value, cpu.count * sizeof(float));
    assert_true(cr_sim_count(CR_SIM_KERNEL, 0) > 100);
    free(sim.value);
    sim_end();
  }
  free(cpu.value);
}

TEST(memory_that_runs_out_is_a_status) {
  /* Every amount from too little for the first layer to almost enough. */
  for (size_t kilobytes = 64; kilobytes < 4096; kilobytes *= 2) {
    cr_sim_options options = sim_test_options(1);
    options.memory = kilobytes << 10;
    options.keep_log = false;
    sim_begin(&options);
    crema_solver *solver = NULL;
    crema_status status = load(sim_test_device(0), &solver);
    if (status == CREMA_OK) status = crema_solver_step(solver, 1);
    assert_int_equal(status, CREMA_E_NO_MEMORY);
    assert_error_has("sim:0");
    crema_solver_destroy(solver);
    sim_end();
  }
}

TEST(a_lost_device_is_a_status) {
  cr_sim_options options = sim_test_options(1);
  options.memory = (size_t)1 << 30;
  options.keep_log = false;
  for (int nth = 1; nth < 60; nth += 23) {
    for (int late = 0; late < 2; ++late) {
      sim_begin(&options);
      crema_solver *solver = NULL;
      ok(load(sim_test_device(0), &solver));
      cr_sim_fail(CR_SIM_KERNEL, nth, CREMA_E_DEVICE, late == 1);
      assert_int_equal(crema_solver_step(solver, 2), CREMA_E_DEVICE);
      crema_solver_destroy(solver);
      sim_end();
    }
  }
}

/* Scratch memory after a pass of a net for training and of one for testing, either of which may be
 * left out. */
static size_t scratchpad_of(crema_phase first, int nets) {
  cr_sim_options options = sim_test_options(1);
  options.memory = (size_t)1 << 30;
  options.keep_log = false;
  sim_begin(&options);
  crema_device *device = sim_test_device(0);
  crema_net *net[2] = {NULL};
  for (int i = 0; i < nets; ++i) {
    crema_net_options net_options;
    crema_net_options_init(&net_options);
    net_options.device = device;
    net_options.seed = 1;
    net_options.phase = i == 0 ? first : CREMA_TEST;
    ok(crema_net_parse(net_text, strlen(net_text), "net", &net_options, &net[i]));
  }
  /* In turns, as when training is interrupted by tests. */
  for (int pass = 0; pass < 3; ++pass) {
    for (int i = 0; i < nets; ++i) {
      double loss = 0;
      ok(feed(NULL, net[i], pass));
      ok(crema_net_forward(net[i], &loss));
      if (net[i]->phase == CREMA_TRAIN) ok(crema_net_backward(net[i]));
    }
  }
  size_t bytes = cr_device_scratchpad_bytes(device);
  for (int i = 0; i < nets; ++i) crema_net_destroy(net[i]);
  assert_int_equal(cr_device_scratchpad_bytes(device), 0);
  sim_end();
  return bytes;
}

TEST(s4_22_nets_for_training_and_testing_share_scratchpad_memory) {
  size_t train = scratchpad_of(CREMA_TRAIN, 1), test = scratchpad_of(CREMA_TEST, 1);
  size_t both = scratchpad_of(CREMA_TRAIN, 2);
  assert_true(train > 0);
  assert_int_equal(both, train > test ? train : test);
}

/* A net whose layers have no memory of their own, with a view, a layer in place, a split, and a
 * parameter of two layers. */
static const char bare_net[] =
    "name: 'bare' force_backward: true eltwise_mem_sharing: true\n"
    "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: 16 dim: 1 } "
    "} "
    "}\n"
    "layer { name: 'flat' type: 'Flatten' bottom: 'data' top: 'flat' }\n"
    "layer { name: 'a' type: 'InnerProduct' bottom: 'flat' top: 'a' param { name: 'w' }"
    " inner_product_param { num_output: 16 bias_term: false weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'relu' type: 'ReLU' bottom: 'a' top: 'a' }\n"
    "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' param { name: 'w' }"
    " inner_product_param { num_output: 16 bias_term: false weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'sum' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'sum' loss_weight: 1 }\n";

/* Bytes of 32 floats (the blobs) or 256 (the weights): sizes that the pool hands out as they are.
 */
TEST(s4_31_memory_of_tops_bottoms_and_parameters) {
  enum { BLOB = 32 * sizeof(float), WEIGHTS = 256 * sizeof(float) };
  double loss = 0;
  float *data = NULL;
  sim_begin_devices(1);
  crema_device *device = sim_test_device(0);
  crema_net *net = NULL;
  crema_net_options options;
  crema_net_options_init(&options);
  options.device = device;
  options.phase = CREMA_TRAIN;
  ok(crema_net_parse(bare_net, strlen(bare_net), "net", &options, &net));
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  for (int i = 0; i < 32; ++i) data[i] = 1;
  ok(crema_net_forward(net, &loss));
  cr_net_memory found = {0};
  crema_device_memory used = {0};
  ok(cr_net_memory_read(net, &found));
  ok(crema_device_memory_read(device, &used));
  assert_int_equal(found.tops.diff_device + found.params.diff_device, 0);
  assert_int_equal(found.tops.data_device + found.params.data_device,
                   used.current - cr_device_scratchpad_bytes(device));
  ok(crema_net_backward(net));
  ok(cr_net_memory_read(net, &found));
  /* data, a, b, sum; once more flat, a in place, a's two copies. Of the gradients, b and the copy
   * that is summed have those of the sum. */
  assert_int_equal(found.tops.data_device, 4 * BLOB);
  assert_int_equal(found.shared_tops.data_device, 4 * BLOB);
  assert_int_equal(found.bottoms.data_device, 3 * BLOB);
  assert_int_equal(found.tops.diff_device, 4 * BLOB);
  assert_int_equal(found.shared_tops.diff_device, 4 * BLOB);
  assert_int_equal(found.bottoms.diff_device, 4 * BLOB);
  /* What was fed; the loss is copied to memory that is no blob's. */
  assert_int_equal(found.tops.data_host, BLOB);
  assert_int_equal(found.params.data_device, WEIGHTS);
  assert_int_equal(found.params.diff_device, WEIGHTS);
  assert_int_equal(found.shared_params.data_device, WEIGHTS);
  assert_int_equal(found.shared_params.diff_device, WEIGHTS);
  crema_net_destroy(net);
  sim_end();
}

/* The net for training on a device; NULL: the CPU. */
static crema_net *train_net(crema_device *device) {
  crema_net *net = NULL;
  crema_net_options options;
  crema_net_options_init(&options);
  options.device = device;
  options.seed = 1;
  options.phase = CREMA_TRAIN;
  ok(crema_net_parse(net_text, strlen(net_text), "net", &options, &net));
  return net;
}

/* A pass of the net whose loss is read late, on a device whose streams run only when the host waits
 * for them: neither submitting waits, nor does reading wait for backward. */
TEST(the_loss_is_read_while_backward_is_under_way) {
  enum { PASSES = 4 };
  cr_sim_options options = sim_test_options(1);
  options.memory = (size_t)1 << 30;
  options.stepped = true;
  options.keep_log = false;
  sim_begin(&options);
  crema_net *sim = train_net(sim_test_device(0)), *cpu = train_net(NULL);
  for (int pass = 0; pass < PASSES; ++pass) {
    double loss = 0, wanted = 0;
    ok(feed(NULL, sim, pass));
    ok(feed(NULL, cpu, pass));
    ok(crema_net_forward(cpu, &wanted));
    ok(crema_net_backward(cpu));
    uint64_t waits = cr_sim_count(CR_SIM_FINISH, 0);
    ok(cr_net_forward_submit(sim));
    /* What the host gives a net is waited for: the label, when the loss asks for it. */
    const uint64_t inputs = cr_sim_count(CR_SIM_FINISH, 0) - waits;
    if (pass > 0) assert_true(inputs <= 2);
    const size_t forward = cr_sim_pending(sim->context);
    ok(crema_net_backward(sim));
    const size_t all = cr_sim_pending(sim->context);
    if (pass > 0) assert_int_equal(cr_sim_count(CR_SIM_FINISH, 0) - waits, inputs);
    if (pass > 0) assert_true(forward > 2 && all > forward + 5);
    waits = cr_sim_count(CR_SIM_FINISH, 0);
    ok(cr_net_loss_read(sim, &loss));
    assert_true(loss == wanted);
    assert_int_equal(cr_sim_count(CR_SIM_FINISH, 0), waits);
    if (pass > 0) assert_int_equal(cr_sim_pending(sim->context), all - forward);
  }
  crema_net_destroy(cpu);
  crema_net_destroy(sim);
  sim_end();
}

/* Whatever the host asks for first: copies from pageable memory would keep it waiting. */
TEST(the_host_memory_of_a_net_is_page_locked) {
  cr_sim_options options = sim_test_options(1);
  options.memory = (size_t)1 << 30;
  sim_begin(&options);
  crema_net *net = train_net(sim_test_device(0));
  for (int i = 0; i < net->blobs; ++i) {
    float *data = NULL, *diff = NULL;
    ok(crema_blob_mutable_cpu_data(net->blob[i], &data));
    ok(crema_blob_mutable_cpu_diff(net->blob[i], &diff));
    if (!cr_sim_is_pinned(data) || !cr_sim_is_pinned(diff)) fail_msg("%s", net->blob_name[i]);
  }
  for (int i = 0; i < net->learnables; ++i) {
    const float *data = NULL;
    ok(crema_blob_cpu_data(net->learnable[i], &data));
    assert_true(cr_sim_is_pinned(data));
  }
  crema_net_destroy(net);
  sim_end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(training_gives_the_same_bits_as_on_the_cpu),
      cmocka_unit_test(memory_that_runs_out_is_a_status),
      cmocka_unit_test(a_lost_device_is_a_status),
      cmocka_unit_test(s4_31_memory_of_tops_bottoms_and_parameters),
      cmocka_unit_test(the_host_memory_of_a_net_is_page_locked),
      cmocka_unit_test(the_loss_is_read_while_backward_is_under_way),
      cmocka_unit_test(s4_22_nets_for_training_and_testing_share_scratchpad_memory),
  };
  return run_each_of(tests, begin, remove_solver_folder);
}
