/* Two nets that share weights run forward in two threads at once, as do their tensors: other
 * formats of the weights and copies on a device, which are made at the first use, are made for
 * both. */
#include "net_case.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/thread.h"
#include "device/backend/convert.h"
#include "memory/sim_fixture.h"
#include "memory/tensor.h"
#include "memory/tensor_help.h"

enum { NETS = 2, ROUNDS = 12, PASSES = 3 };

/* Convolutions whose weights the CPU's library wants in formats of its own, and an inner product.
 * The two nets have different batches. */
#define CONV(name, bottom, outputs)                                                 \
  "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' top: '" name   \
  "' convolution_param { num_output: " outputs                                      \
  " kernel_size: 3 pad: 1"                                                          \
  " weight_filler { type: 'xavier' } bias_filler { type: 'uniform' min: -1 } } }\n" \
  "layer { name: 'relu_" name "' type: 'ReLU' bottom: '" name "' top: '" name "' }\n"
#define REST                                                                                \
  CONV("conv1", "data", "32")                                                               \
  CONV("conv2", "conv1", "32")                                                              \
  CONV("conv3", "conv2", "16")                                                              \
  "layer { name: 'fc' type: 'InnerProduct' bottom: 'conv3' top: 'fc' inner_product_param {" \
  " num_output: 10 weight_filler { type: 'xavier' } } }\n"                                  \
  "layer { name: 'prob' type: 'Softmax' bottom: 'fc' top: 'prob' }\n"
static const char *const text_of[NETS] = {INPUT("data", DIM4(2, 3, 12, 12)) REST,
                                          INPUT("data", DIM4(5, 3, 12, 12)) REST};

typedef struct runner {
  crema_net *net;
  float *out[PASSES]; /* what each pass of a round gave */
  int64_t count;
  pthread_barrier_t *meet; /* NULL: a single thread */
  int rounds;
} runner;

static crema_status run_round(runner *r) {
  for (int pass = 0; pass < PASSES; ++pass) {
    fill(blob_of(r->net, "data"), -1.0f + 0.25f * (float)pass, 0.001f);
    crema_status status = crema_net_forward(r->net, NULL);
    if (status != CREMA_OK) return status;
    memcpy(r->out[pass], data_of(blob_of(r->net, "prob")), (size_t)r->count * sizeof(float));
  }
  return CREMA_OK;
}

static crema_status run_rounds(void *arg) {
  runner *r = arg;
  crema_status status = CREMA_OK;
  for (int round = 0; round < r->rounds; ++round) {
    /* Between the two barriers of a round the weights are changed and the results looked at. */
    pthread_barrier_wait(r->meet);
    if (status == CREMA_OK) status = run_round(r);
    pthread_barrier_wait(r->meet);
  }
  return status;
}

/* Other weights for the round: all formats but one are stale, or everything but the host's side. */
static void change_weights(crema_net *net, int round) {
  for (int i = 0; i < net->learnables; ++i) {
    float *data = NULL;
    ok(crema_blob_mutable_cpu_data(net->learnable[i], &data));
    for (int64_t k = 0; k < crema_blob_count(net->learnable[i]); ++k) {
      data[k] = data[k] * 0.75f + 0.01f * (float)((k + round) % 7 - 3);
    }
  }
}

static runner new_runner(const char *text, crema_device *device) {
  crema_net_options options = phase_options(CREMA_TEST);
  options.device = device;
  runner r = {.net = build_with(text, &options), .rounds = ROUNDS};
  r.count = crema_blob_count(blob_of(r.net, "prob"));
  for (int i = 0; i < PASSES; ++i) assert_non_null(r.out[i] = malloc((size_t)r.count * 4));
  return r;
}

static void end_runner(runner *r) {
  crema_net_destroy(r->net);
  for (int i = 0; i < PASSES; ++i) free(r->out[i]);
}

/* Two nets that have run before, with weights of their own, so that their kernels are chosen, and
 * then get those of a third net, of which nothing but plain values is there. */
static void begin_pair(crema_device *device, runner *pair, runner *donor) {
  *donor = new_runner(text_of[0], device);
  for (int n = 0; n < NETS; ++n) {
    pair[n] = new_runner(text_of[n], device);
    ok(run_round(&pair[n]));
    ok(cr_net_share_params(pair[n].net, donor->net));
  }
}

static void run_two_at_once(crema_device *device) {
  runner shared[NETS], alone[NETS], donor[2];
  cr_thread *thread[NETS] = {NULL};
  pthread_barrier_t meet;
  assert_int_equal(pthread_barrier_init(&meet, NULL, NETS + 1), 0);
  begin_pair(device, shared, &donor[0]);
  begin_pair(device, alone, &donor[1]);
  for (int n = 0; n < NETS; ++n) shared[n].meet = &meet;
  for (int n = 0; n < NETS; ++n) ok(cr_thread_start(&thread[n], "runner", run_rounds, &shared[n]));
  for (int round = 0; round < ROUNDS; ++round) {
    change_weights(donor[0].net, round);
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    change_weights(donor[1].net, round);
    for (int n = 0; n < NETS; ++n) {
      ok(run_round(&alone[n]));
      for (int pass = 0; pass < PASSES; ++pass) {
        assert_memory_equal(shared[n].out[pass], alone[n].out[pass], (size_t)alone[n].count * 4);
      }
    }
  }
  for (int n = 0; n < NETS; ++n) ok(cr_thread_join(&thread[n]));
  for (int n = 0; n < NETS; ++n) {
    end_runner(&shared[n]);
    end_runner(&alone[n]);
    end_runner(&donor[n]);
  }
  pthread_barrier_destroy(&meet);
}

TEST(nets_on_the_cpu) {
  run_two_at_once(NULL);
}

TEST(nets_on_one_device) {
  cr_sim_options options = sim_test_options(1);
  options.memory = 1 << 26;
  sim_begin(&options);
  run_two_at_once(sim_test_device(0));
  cr_thread_contexts_release();
  sim_end();
}

/* ---- tensors ---- */

enum { COUNT = 5000, READERS = 4, TIMES = 60 };

static const crema_dtype types[] = {CREMA_F64, CREMA_F32, CREMA_F16, CREMA_BF16,
                                    CREMA_I32, CREMA_U32, CREMA_I8,  CREMA_U8};
enum { TYPES = sizeof types / sizeof types[0] };

typedef struct reader {
  cr_tensor *tensor;
  pthread_barrier_t *meet;
  int number, value, wrong;
} reader;

static bool holds(const void *data, crema_dtype type, int value) {
  double wide[COUNT];
  if (cr_convert_plain(COUNT, CREMA_F64, wide, type, data) != CREMA_OK) return false;
  for (int i = 0; i < COUNT; ++i) {
    if (wide[i] != value) return false;
  }
  return true;
}

/* Each starts with another type. What it was given first stays where it is while the others make
 * more formats than a tensor keeps otherwise. */
static crema_status read_all(void *arg) {
  reader *r = arg;
  for (int time = 0; time < TIMES; ++time) {
    pthread_barrier_wait(r->meet);
    crema_devptr out[TYPES] = {{0}};
    for (int t = 0; t < TYPES; ++t) {
      int at = (t + 2 * r->number) % TYPES;
      cr_format format = {types[at], NULL};
      crema_status status = cr_tensor_read(r->tensor, cr_host_context(), format, &out[at]);
      if (status != CREMA_OK) ++r->wrong;
    }
    for (int t = 0; t < TYPES && r->wrong == 0; ++t) {
      if (!holds((const void *)out[t].address, types[t], r->value)) ++r->wrong;
    }
    pthread_barrier_wait(r->meet);
  }
  return CREMA_OK;
}

static void set_all(cr_tensor *tensor, int value) {
  void *data = NULL;
  if (value == 0) {
    cr_tensor_set_zero(tensor);
    return;
  }
  ok(cr_tensor_host_write(tensor, &data));
  for (int i = 0; i < COUNT; ++i) ((float *)data)[i] = (float)value;
}

TEST(tensors_in_all_types) {
  cr_tensor *donor = NULL;
  reader r[READERS];
  cr_thread *thread[READERS] = {NULL};
  pthread_barrier_t meet;
  assert_int_equal(pthread_barrier_init(&meet, NULL, READERS + 1), 0);
  ok(cr_tensor_create(CREMA_F32, COUNT, &donor));
  for (int n = 0; n < READERS; ++n) {
    r[n] = (reader){.meet = &meet, .number = n};
    ok(cr_tensor_create(CREMA_F32, COUNT, &r[n].tensor));
    ok(cr_tensor_share(r[n].tensor, donor));
    ok(cr_thread_start(&thread[n], "reader", read_all, &r[n]));
  }
  for (int time = 0; time < TIMES; ++time) {
    set_all(donor, time % 5);
    for (int n = 0; n < READERS; ++n) r[n].value = time % 5;
    pthread_barrier_wait(&meet);
    (void)bytes_of_tensor(donor);
    pthread_barrier_wait(&meet);
    for (int n = 0; n < READERS; ++n) assert_int_equal(r[n].wrong, 0);
  }
  size_t bytes = bytes_of_tensor(donor);
  set_all(donor, 1);
  /* The surplus formats have been freed. */
  assert_true(bytes_of_tensor(donor) < bytes);
  for (int n = 0; n < READERS; ++n) {
    ok(cr_thread_join(&thread[n]));
    cr_tensor_destroy(r[n].tensor);
  }
  cr_tensor_destroy(donor);
  pthread_barrier_destroy(&meet);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
