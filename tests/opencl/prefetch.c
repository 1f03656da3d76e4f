/* Data layers of nets on an OpenCL device, over the loader of faulty_opencl.c: batches are copied
 * ahead on a queue that runs no kernels, while the net's queue computes. */
#include <stdio.h>

#include "data/device_input.h"
#include "data/fixture.h"
#include "device/memory/device_memory.h"
#include "faulty_opencl.h"

enum {
  SKIPPED = 77,
  RECORDS = 10,
  BATCH = 4,
  ITEM = 4 * 5,
  DATA_BYTES = BATCH * ITEM * 4,
  LABEL_BYTES = BATCH * 4,
  DEPTH = 3,
  MOST = 1 << 14
};

static crema_device *device;
static faulty_state *loader;
static seen command[MOST];

static crema_status make_net(const fixture *f, const char *rest, crema_net **out) {
  const crema_net_options options = net_options(CREMA_TRAIN, 1, device);
  const char *path = fixture_path(f, "db");
  if (access(path, F_OK) != 0) path = fixture_db(f, "db", RECORDS, fixture_gray);
  return parse_net(&options, NULL, out,
                   "layer { name: 'in' type: 'Data' top: 'data' top: 'label' data_param { "
                   "source: '%s' backend: LMDB batch_size: %d %s } } " KERNELS,
                   path, BATCH, rest);
}

static void expect_batch(crema_net *net, int k) {
  const float *twice = values(net, "twice"), *label = values(net, "label2");
  for (int i = 0; i < BATCH; ++i) {
    const int record = (k * BATCH + i) % RECORDS;
    assert_true(label[i] == (float)(2 * record));
    for (int v = 0; v < ITEM; ++v) assert_true(twice[i * ITEM + v] == (float)(2 * record));
  }
}

/* The commands so far; none is lost. */
static size_t look(void) {
  const size_t count = loader->look(command, MOST);
  assert_in_range(count, 0, MOST - 1);
  return count;
}

static void watch(bool on) {
  atomic_store(&loader->watch, on);
  loader->forget();
}

/* The queue on which batches are copied. */
static const void *copy_queue(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (command[i].call == SEEN_WRITE && command[i].bytes == DATA_BYTES) return command[i].queue;
  }
  fail_msg("no batch was copied");
  return NULL;
}

/* ---- S2-19 ---- */

FIXTURE_TEST(s2_19_no_buffer_is_made_after_the_start) {
  crema_net *net = NULL;
  ok(make_net(*state, "prefetch: 3", &net));
  forward(net);
  expect_batch(net, 0);
  const size_t made = atomic_load(&loader->made), held = atomic_load(&loader->device_buffers);
  const size_t host = atomic_load(&loader->host_buffers);
  for (int k = 1; k < 40; ++k) {
    forward(net);
    expect_batch(net, k);
  }
  assert_int_equal(atomic_load(&loader->made), made);
  assert_int_equal(atomic_load(&loader->device_buffers), held);
  assert_int_equal(atomic_load(&loader->host_buffers), host);
  crema_net_destroy(net);
}

/* ---- S2-20 ---- */

/* Data, label, wait, in a loop on one queue, on which no kernel runs; no other queue copies
 * batches. */
FIXTURE_TEST(s2_20_copy_then_wait_then_hand_over) {
  enum { PASSES = 12 };
  crema_net *net = NULL;
  int copies = 0, step = 0; /* 0: data is next, 1: label, 2: waiting */
  watch(true);
  ok(make_net(*state, "prefetch: 3", &net));
  for (int k = 0; k < PASSES; ++k) {
    forward(net);
    expect_batch(net, k);
  }
  crema_net_destroy(net);
  const size_t count = look();
  const void *queue = copy_queue(count);
  for (size_t i = 0; i < count; ++i) {
    const seen *c = &command[i];
    if (c->queue != queue) {
      assert_false(c->call == SEEN_WRITE && (c->bytes == DATA_BYTES || c->bytes == LABEL_BYTES));
      continue;
    }
    assert_true(c->call == SEEN_WRITE || c->call == SEEN_FINISH);
    if (c->call == SEEN_WRITE) {
      assert_in_range(step, 0, 1);
      assert_int_equal(c->bytes, step == 0 ? DATA_BYTES : LABEL_BYTES);
      copies += step++ == 0;
    } else if (step == 2) {
      step = 0;
    }
  }
  assert_in_range(copies, PASSES, PASSES + DEPTH);
  watch(false);
}

/* Both sides hold a batch when it arrives: reading either copies nothing. */
FIXTURE_TEST(s2_20_batches_arrive_synced) {
  crema_net *net = NULL;
  ok(make_net(*state, "prefetch: 2", &net));
  for (int k = 0; k < 8; ++k) {
    watch(true);
    forward(net);
    for (int i = 0; i < BATCH; ++i) {
      assert_true(values(net, "data")[i * ITEM] == (float)((k * BATCH + i) % RECORDS));
      assert_true(values(net, "label")[i] == (float)((k * BATCH + i) % RECORDS));
    }
    for (size_t i = 0, count = look(); i < count; ++i) {
      assert_int_not_equal(command[i].call, SEEN_READ);
    }
    assert_ptr_equal(cr_tensor_head_device(blob_of(net, "data")->data), device);
    watch(false);
    expect_batch(net, k);
  }
  crema_net_destroy(net);
}

/* The values of each pass are its batch's although the host is ahead of the device for most of the
 * time. */
FIXTURE_TEST(s2_20_the_host_runs_ahead) {
  for (int depth = 1; depth <= DEPTH; ++depth) {
    crema_net *net = NULL;
    char rest[32];
    snprintf(rest, sizeof rest, "prefetch: %d", depth);
    ok(make_net(*state, rest, &net));
    for (int k = 0; k < 100; ++k) {
      forward(net);
      if (k % 7 == 0) expect_batch(net, k);
    }
    crema_net_destroy(net);
  }
}

FIXTURE_TEST(s2_20_stops_in_the_middle) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 3);
  const size_t buffers = atomic_load(&loader->host_buffers);
  for (int i = 0; i < 30; ++i) {
    crema_net *net = NULL;
    ok(make_net(*state, i % 2 == 0 ? "prefetch: 2" : "", &net));
    use_and_destroy(net, &rng);
  }
  assert_true(becomes(&loader->host_buffers, buffers));
}

/* A copy that fails is reported with the layer's name, and so are later passes; no hang. */
FIXTURE_TEST(s2_20_a_failing_copy_is_reported) {
  crema_net *net = NULL;
  atomic_store(&loader->writes, 8); /* of the first four batches */
  ok(make_net(*state, "prefetch: 2", &net));
  for (int pass = 0; pass < 4; ++pass) forward(net);
  for (int pass = 4; pass < 6; ++pass) {
    assert_fails(crema_net_forward(net, NULL), CREMA_E_DEVICE, "layer 'in' (Data)");
  }
  crema_net_destroy(net);
  atomic_store(&loader->writes, -1);
}

/* ---- S2-20 and S2-30: work that waits for the test ---- */

/* Batches whose copies were queued, and whose copies are done. */
typedef struct copies {
  int queued, done;
} copies;

static copies count_copies(void) {
  copies data = {0}, label = {0};
  for (size_t i = 0, count = look(); i < count; ++i) {
    copies *of = command[i].bytes == DATA_BYTES ? &data : &label;
    if (command[i].call != SEEN_WRITE) continue;
    of->queued += 1;
    of->done += command[i].done;
  }
  return (copies){label.queued, label.done < data.done ? label.done : data.done};
}

/* A failure lets waiting work go on, so that the process ends. */
static void expect(bool condition, const char *what) {
  if (condition) return;
  loader->resume();
  loader->release();
  fail_msg("%s", what);
}

/* Waits until this number of batches are queued to be copied, or copied. */
static void await_copies(int queued, int done) {
  const double start = cr_clock_seconds();
  copies now = count_copies();
  while ((now.queued < queued || now.done < done) && cr_clock_seconds() < start + 60) {
    cr_clock_sleep(1e-4);
    now = count_copies();
  }
  char text[100];
  snprintf(text, sizeof text, "%d batches are queued, %d copied, instead of %d and %d", now.queued,
           now.done, queued, done);
  expect(now.queued == queued && now.done == done, text);
}

/* Waits until the copying thread is done with its last copy: a stopped queue would hold it there.
 * Returns the queue. */
static const void *await_idle_queue(void) {
  const double start = cr_clock_seconds();
  const void *queue = copy_queue(look());
  bool idle = false;
  while (!idle && cr_clock_seconds() < start + 60) {
    for (size_t i = 0, count = look(); i < count; ++i) {
      if (command[i].queue == queue) idle = command[i].call == SEEN_FINISH;
    }
    if (!idle) cr_clock_sleep(1e-4);
  }
  expect(idle, "the copying thread waits");
  return queue;
}

/* The pass is queued, and its first kernel has not begun. */
static void expect_waiting_kernel(size_t before) {
  const size_t count = look();
  size_t kernel = before;
  while (kernel < count && command[kernel].call != SEEN_KERNEL) ++kernel;
  expect(kernel < count, "no kernel is queued");
  expect(!command[kernel].begun, "the kernel has begun");
}

/* The memory of a batch that a waiting pass reads is not overwritten: the next batch is queued to
 * be copied to it, and copied after the pass. */
FIXTURE_TEST(s2_20_memory_is_not_reused_too_early) {
  crema_net *net = NULL;
  watch(true);
  ok(make_net(*state, "prefetch: 3", &net));
  forward(net);
  expect_batch(net, 0);
  for (int k = 1; k < 10; k += 2) {
    const int ahead = k + DEPTH;
    await_copies(ahead - 1, ahead - 1);
    atomic_store(&loader->hold, true);
    forward(net);
    await_copies(ahead, ahead);
    forward(net);
    await_copies(ahead + 1, ahead);
    cr_clock_sleep(0.02);
    await_copies(ahead + 1, ahead);
    loader->release();
    await_copies(ahead + 1, ahead + 1);
    expect_batch(net, k + 1);
  }
  crema_net_destroy(net);
  watch(false);
}

/* A pass is queued and cannot begin: its first kernel waits for the test. The copy of a later
 * batch, to the memory that the pass before gave back, begins and ends meanwhile. */
FIXTURE_TEST(s2_30_the_next_batch_is_copied_during_work) {
  crema_net *net = NULL;
  watch(true);
  ok(make_net(*state, "prefetch: 3", &net));
  forward(net);
  expect_batch(net, 0);
  for (int k = 1; k < 10; ++k) {
    const int ahead = k - 1 + DEPTH;
    await_copies(ahead, ahead);
    const void *queue = await_idle_queue();
    const size_t before = look();
    loader->stop(queue);
    atomic_store(&loader->hold, true);
    forward(net);
    await_copies(ahead + 1, ahead);
    expect_waiting_kernel(before);
    loader->resume();
    await_copies(ahead + 1, ahead + 1);
    expect_waiting_kernel(before);
    loader->release();
    expect_batch(net, k);
  }
  crema_net_destroy(net);
  watch(false);
}

int main(void) {
  if (crema_device_get(CREMA_DEVICE_OPENCL, 0, &device) != CREMA_OK) {
    printf("skipped: %s\n", crema_error_text());
    return SKIPPED;
  }
  loader = find_faulty_state(CREMA_FAULTY_OPENCL);
  if (loader == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  return run_all_tests(NULL, NULL);
}
