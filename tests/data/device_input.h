/* What is asked of every input of a net on a simulated device: batches are copied ahead, on a
 * stream of their own. */
#ifndef CR_TESTS_DATA_DEVICE_INPUT_H
#define CR_TESTS_DATA_DEVICE_INPUT_H

#include "core/clock.h"
#include "core/rng.h"
#include "memory/sim_fixture.h"
#include "net/net_values.h"

/* Kernels read both tops, so that their results, in "twice" and "label2", show which batch they
 * worked on. */
#define KERNELS                                                         \
  "layer { name: 'twice' type: 'Power' bottom: 'data' top: 'twice' "    \
  "power_param { scale: 2 } } "                                         \
  "layer { name: 'label2' type: 'Power' bottom: 'label' top: 'label2' " \
  "power_param { scale: 2 } }"

static inline crema_device *begin(cr_sim_options options) {
  sim_begin(&options);
  return sim_test_device(0);
}

/* Options of long runs, which do not keep what was done. */
static inline cr_sim_options without_log(void) {
  cr_sim_options options = sim_test_options(1);
  options.keep_log = false;
  return options;
}

/* How often memory was taken and freed, and streams were opened, on the device so far. */
typedef struct resources {
  uint64_t device, host, frees, streams;
} resources;

static inline resources count_resources(void) {
  return (resources){cr_sim_count(CR_SIM_ALLOC, 0), cr_sim_count(CR_SIM_HOST_ALLOC, 0),
                     cr_sim_count(CR_SIM_FREE, 0), cr_sim_count(CR_SIM_STREAM_OPEN, 0)};
}

static inline void expect_no_more_than(const resources *before) {
  const resources now = count_resources();
  assert_memory_equal(&now, before, sizeof now);
}

/* What was logged: data, label, wait, again and again on one stream, on which no kernel runs;
 * batches are copied on no other. At least `least` and at most `most` batches. */
static inline void expect_copies(size_t data_bytes, size_t label_bytes, int least, int most) {
  const cr_sim_record *log = NULL;
  size_t count = cr_sim_log(&log);
  uint64_t stream = 0;
  int copies = 0, step = 0; /* 0: data is next, 1: label, 2: waiting */
  for (size_t i = 0; i < count && stream == 0; ++i) {
    if (log[i].op == CR_SIM_H2D && log[i].bytes == data_bytes) stream = log[i].stream;
  }
  assert_true(stream != 0);
  for (size_t i = 0; i < count; ++i) {
    bool batch = log[i].bytes == data_bytes || log[i].bytes == label_bytes;
    if (log[i].stream != stream) {
      assert_false(log[i].op == CR_SIM_H2D && batch);
      continue;
    }
    assert_true(log[i].op != CR_SIM_KERNEL && log[i].op != CR_SIM_D2H);
    if (log[i].op == CR_SIM_H2D) {
      assert_true(step < 2);
      assert_int_equal(log[i].bytes, step == 0 ? data_bytes : label_bytes);
      copies += step++ == 0;
    } else if (log[i].op == CR_SIM_FINISH && step == 2) {
      step = 0;
    }
  }
  assert_in_range(copies, least, most);
}

/* Up to three passes, some time, and the end. */
static inline void use_and_destroy(crema_net *net, cr_mt19937 *rng) {
  uint32_t passes = cr_mt19937_below(rng, 4);
  for (uint32_t k = 0; k < passes; ++k) forward(net);
  if (cr_mt19937_below(rng, 3) == 0) cr_clock_sleep(2e-5);
  crema_net_destroy(net);
}

/* The ninth copy to the device, which is of the fifth batch, fails: that pass and those after it
 * fail with the name of the layer; no hang. Ends the net and the simulation. */
static inline void expect_failed_copy(crema_net *net, const char *layer) {
  for (int pass = 0; pass < 4; ++pass) forward(net);
  for (int again = 0; again < 2; ++again) {
    assert_fails(crema_net_forward(net, NULL), CREMA_E_DEVICE, layer);
  }
  crema_net_destroy(net);
  cr_sim_clear_faults();
  sim_end();
}

/* Pass number k: the batch after it is copied although the pass itself has not even begun. */
static inline void expect_copy_during_work(crema_net *net, int k) {
  const uint64_t wanted = 2 * ((uint64_t)k + 2); /* data and label, up to the next batch */
  forward(net);
  size_t pending = cr_sim_pending(net->context);
  double start = cr_clock_seconds();
  while (cr_sim_count(CR_SIM_H2D, 0) < wanted && cr_clock_seconds() < start + 10) {
    cr_clock_sleep(1e-5);
  }
  assert_true(cr_sim_count(CR_SIM_H2D, 0) >= wanted);
  assert_true(pending > 0 && cr_sim_pending(net->context) == pending);
}

#endif
