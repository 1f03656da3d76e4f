/* Batch loaders of nets on a device: batches of ImageData, WindowData and AnnotatedData are copied
 * there ahead of the net, by a thread and a stream of their own, and arrive on both sides. */
#include <stdlib.h>

#include "core/file.h"
#include "device_input.h"
#include "fixture.h"
#include "proto/proto.h"

enum {
  IMAGES = 7,
  BATCH = 4,
  HEIGHT = 4,
  WIDTH = 5,
  ITEM = 3 * HEIGHT * WIDTH,
  DATA_BYTES = BATCH * ITEM * 4,
  LABEL_BYTES = BATCH * 4,
  DEPTH = 3
};

/* ---- what is read -------------------------------------------------------- */

static void write_file(const fixture *f, const char *name, const void *bytes, size_t size) {
  ok(cr_file_write(fixture_path(f, name), bytes, size));
}

/* A PNG whose pixels are all `value`. */
static void encode(int value, cr_buffer *out) {
  cr_image image = {0};
  ok(cr_image_reserve(&image, HEIGHT, WIDTH, 3));
  memset(image.pixels, value, ITEM);
  ok(cr_image_encode(&image, "png", out));
  cr_image_free(&image);
}

/* Records with 0 to 4 boxes. */
static void put_boxed(int index, cr_buffer *value) {
  Caffe__AnnotatedDatum record = CAFFE__ANNOTATED_DATUM__INIT;
  Caffe__Datum datum = CAFFE__DATUM__INIT;
  Caffe__AnnotationGroup group = CAFFE__ANNOTATION_GROUP__INIT, *groups[] = {&group};
  Caffe__Annotation annotation[4], *annotations[4];
  Caffe__NormalizedBBox box[4];
  uint8_t pixels[ITEM];
  memset(pixels, 10 * index, sizeof pixels);
  datum.has_channels = datum.has_height = datum.has_width = datum.has_data = true;
  datum.channels = 3;
  datum.height = HEIGHT;
  datum.width = WIDTH;
  datum.data = (ProtobufCBinaryData){sizeof pixels, pixels};
  for (int i = 0; i < 4; ++i) {
    box[i] = (Caffe__NormalizedBBox)CAFFE__NORMALIZED_BBOX__INIT;
    box[i].has_xmin = box[i].has_ymin = box[i].has_xmax = box[i].has_ymax = true;
    box[i].xmin = 0.1F * (float)i;
    box[i].ymin = 0.2F;
    box[i].xmax = 0.1F * (float)i + 0.4F;
    box[i].ymax = 0.9F;
    annotation[i] = (Caffe__Annotation)CAFFE__ANNOTATION__INIT;
    annotation[i].bbox = &box[i];
    annotations[i] = &annotation[i];
  }
  group.has_group_label = true;
  group.group_label = index + 1;
  group.n_annotation = (size_t)(index % 5);
  group.annotation = annotations;
  record.datum = &datum;
  record.has_type = true;
  record.type = CAFFE__ANNOTATED_DATUM__ANNOTATION_TYPE__BBOX;
  record.n_annotation_group = 1;
  record.annotation_group = groups;
  ok(cr_wire_print(&record.base, value));
}

/* Image i has pixels of value 10 i and the label i. */
static void make_set(const fixture *f) {
  cr_buffer file = {0}, list = {0}, windows = {0};
  for (int i = 0; i < IMAGES; ++i) {
    char name[32];
    snprintf(name, sizeof name, "%d.png", i);
    cr_buffer_clear(&file);
    encode(10 * i, &file);
    write_file(f, name, file.data, file.size);
    ok(cr_buffer_print(&list, "%s %d\n", name, i));
    ok(cr_buffer_print(&windows, "# %d\n%s\n3\n%d\n%d\n2\n%d 0.9 0 0 2 2\n1 0.1 1 1 3 3\n", i, name,
                       HEIGHT, WIDTH, i + 1));
  }
  write_file(f, "list.txt", list.data, list.size);
  write_file(f, "windows.txt", windows.data, windows.size);
  fixture_db(f, "boxed", IMAGES, put_boxed);
  cr_buffer_free(&windows);
  cr_buffer_free(&list);
  cr_buffer_free(&file);
}

/* A test whose folder holds the set. */
#define SET_TEST(name) TEST_BETWEEN(name, set_up, fixture_teardown)
static int set_up(void **state) {
  fixture_setup(state);
  make_set(*state);
  return 0;
}

/* ---- nets ---------------------------------------------------------------- */

typedef enum kind { IMAGE, WINDOW, ANNOTATED, KINDS } kind;

static const char *text_of(const fixture *f, kind k) {
  static char text[1024];
  if (k == IMAGE) {
    snprintf(text, sizeof text,
             "type: 'ImageData' image_data_param { source: '%s' batch_size: %d }",
             fixture_path(f, "list.txt"), BATCH);
  } else if (k == WINDOW) {
    snprintf(text, sizeof text,
             "type: 'WindowData' transform_param { crop_size: 4 mirror: true } window_data_param { "
             "source: '%s' batch_size: %d bg_threshold: 0.3 }",
             fixture_path(f, "windows.txt"), BATCH);
  } else {
    snprintf(text, sizeof text,
             "type: 'AnnotatedData' transform_param { mirror: true } data_param { source: '%s' "
             "backend: LMDB batch_size: %d }",
             fixture_path(f, "boxed"), BATCH);
  }
  return text;
}

static crema_status make_net(const fixture *f, kind k, crema_device *device,
                             const cr_solver_rank *solver, crema_net **out) {
  const crema_net_options options = net_options(CREMA_TRAIN, 1, device);
  return parse_net(&options, solver, out,
                   "layer { name: 'in' top: 'data' top: 'label' %s } " KERNELS, text_of(f, k));
}

static crema_net *net_of(const fixture *f, kind k, crema_device *device) {
  crema_net *net = NULL;
  ok(make_net(f, k, device, NULL, &net));
  return net;
}

/* Batch k of ImageData, as the kernels saw it. */
static void expect_images(crema_net *net, int k) {
  const float *twice = values(net, "twice"), *label = values(net, "label2");
  for (int i = 0; i < BATCH; ++i) {
    int image = (k * BATCH + i) % IMAGES;
    assert_true(label[i] == (float)(2 * image));
    for (int v = 0; v < ITEM; ++v) assert_true(twice[i * ITEM + v] == (float)(20 * image));
  }
}

/* ---- S2-19 --------------------------------------------------------------- */

/* Memory on both sides is there before the first pass; after it nothing is made any more. */
SET_TEST(s2_19_loaders_allocate_nothing_after_the_start) {
  const fixture *f = *state;
  for (kind k = IMAGE; k <= WINDOW; ++k) {
    crema_device *device = begin(sim_test_options(1));
    const resources before = count_resources();
    crema_net *net = net_of(f, k, device);
    assert_int_equal(count_resources().host - before.host, DEPTH * 2);
    assert_true(count_resources().device > before.device);
    forward(net);
    values(net, "twice");
    values(net, "label2");
    assert_true(cr_sim_is_pinned(values(net, "data")) && cr_sim_is_pinned(values(net, "label")));
    const resources made = count_resources();
    for (int i = 1; i < 40; ++i) {
      forward(net);
      if (k == IMAGE) expect_images(net, i);
    }
    expect_no_more_than(&made);
    crema_net_destroy(net);
    sim_end();
  }
}

/* ---- S2-20 --------------------------------------------------------------- */

/* A stream for the batches beside the net's on a device; nothing of the kind on the host. */
SET_TEST(s2_20_loaders_copy_to_devices_only) {
  const fixture *f = *state;
  for (kind k = IMAGE; k < KINDS; ++k) {
    crema_device *device = begin(sim_test_options(1));
    crema_net *net = net_of(f, k, cr_cpu_device());
    forward(net);
    forward(net);
    assert_false(cr_sim_is_pinned(values(net, "data")));
    assert_int_equal(cr_sim_count(CR_SIM_STREAM_OPEN, 0), 0);
    assert_int_equal(cr_sim_count(CR_SIM_H2D, 0), 0);
    crema_net_destroy(net);
    net = net_of(f, k, device);
    forward(net);
    assert_int_equal(cr_sim_count(CR_SIM_STREAM_OPEN, 0), 2);
    crema_net_destroy(net);
    sim_end();
  }
}

/* Data, label, wait, again and again on one stream, on which no kernel runs. */
SET_TEST(s2_20_loaders_copy_then_wait_then_hand_over) {
  enum { PASSES = 12 };
  const fixture *f = *state;
  crema_net *net = net_of(f, IMAGE, begin(sim_test_options(1)));
  for (int k = 0; k < PASSES; ++k) {
    forward(net);
    expect_images(net, k);
  }
  crema_net_destroy(net);
  expect_copies(DATA_BYTES, LABEL_BYTES, PASSES, PASSES + DEPTH);
  sim_end();
}

/* Both sides hold a batch when it arrives: reading either costs no copy. */
SET_TEST(s2_20_batches_of_loaders_arrive_synced) {
  static const char *const tops[] = {"data", "label"};
  const cr_format plain = {CREMA_F32, NULL};
  const fixture *f = *state;
  for (kind k = IMAGE; k < KINDS; ++k) {
    crema_device *device = begin(sim_test_options(1));
    crema_net *net = net_of(f, k, device);
    for (int i = 0; i < 8; ++i) {
      forward(net);
      uint64_t back = cr_sim_count(CR_SIM_D2H, 0);
      for (int t = 0; t < 2; ++t) {
        crema_devptr on_device = {0};
        cr_tensor *tensor = blob_of(net, tops[t])->data;
        const void *host = values(net, tops[t]);
        assert_true(cr_sim_is_pinned(host));
        ok(cr_tensor_read(tensor, net->context, plain, &on_device));
        assert_ptr_equal(cr_tensor_head_device(tensor), device);
        /* The bytes on the device, as they are there. */
        float there[BATCH * ITEM];
        size_t bytes = (size_t)crema_blob_count(blob_of(net, tops[t])) * sizeof(float);
        assert_true(bytes <= sizeof there);
        assert_true(cr_sim_peek(on_device, there, bytes));
        assert_memory_equal(there, host, bytes);
      }
      assert_int_equal(cr_sim_count(CR_SIM_D2H, 0), back);
    }
    crema_net_destroy(net);
    sim_end();
  }
}

/* What the kernels saw is what they see on the host, also where batches differ in size. */
SET_TEST(s2_20_copied_batches_equal_the_hosts) {
  static const char *const names[] = {"data", "label", "twice", "label2"};
  const fixture *f = *state;
  for (kind k = IMAGE; k < KINDS; ++k) {
    crema_device *device = begin(sim_test_options(1));
    crema_net *net = net_of(f, k, device), *host = net_of(f, k, cr_cpu_device());
    int64_t least = INT64_MAX, most = 0;
    for (int i = 0; i < 30; ++i) {
      forward(net);
      forward(host);
      for (int n = 0; n < 4; ++n) expect_same(net, host, names[n]);
      int64_t labels = crema_blob_count(blob_of(net, "label"));
      least = labels < least ? labels : least;
      most = labels > most ? labels : most;
    }
    assert_true((least < most) == (k == ANNOTATED));
    crema_net_destroy(host);
    crema_net_destroy(net);
    sim_end();
  }
}

/* A batch's device memory is not overwritten before the kernels that were queued on it are done:
 * the checker of the simulation sees every other order. */
SET_TEST(s2_20_memory_of_loaders_is_not_reused_too_early) {
  const fixture *f = *state;
  for (kind k = IMAGE; k < KINDS; ++k) {
    crema_net *net = net_of(f, k, begin(without_log()));
    for (int i = 0; i < 200; ++i) {
      forward(net);
      if (k == IMAGE && i % 7 == 0) expect_images(net, i);
    }
    crema_net_destroy(net);
    sim_end();
  }
}

/* Nor when the position in the data is restored while kernels are queued on a batch. Streams run
 * step by step here, so that they are queued still when the threads start again. */
SET_TEST(s2_20_restored_loaders_wait_for_queued_work) {
  const fixture *f = *state;
  for (kind k = IMAGE; k < KINDS; ++k) {
    crema_device *device = begin(sim_stepped_options());
    crema_net *net = net_of(f, k, device), *host = net_of(f, k, cr_cpu_device());
    for (int i = 0; i < 3; ++i) {
      forward(net);
      forward(host);
      assert_true(cr_sim_pending(net->context) > 0);
      resume_input(net, net);
      /* Time for the batches to come; only a copy that waits for the kernels has them run. */
      cr_clock_sleep(5e-3);
      expect_same(net, host, "twice");
      expect_same(net, host, "label2");
    }
    crema_net_destroy(host);
    crema_net_destroy(net);
    sim_end();
  }
}

/* Nets that end while batches are read, copied, waited for: nothing is left behind. */
SET_TEST(s2_20_loaders_stop_in_the_middle) {
  const fixture *f = *state;
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 3);
  cr_sim_options options = without_log();
  options.latency = 1e-5;
  crema_device *device = begin(options);
  int cycles = fixture_cycles(120);
  for (int i = 0; i < cycles; ++i) {
    use_and_destroy(net_of(f, (kind)(i % KINDS), device), &rng);
  }
  sim_end();
}

/* A device that fails is told with the layer's name; no hang. */
SET_TEST(s2_20_a_failing_copy_of_a_loader_is_told) {
  const fixture *f = *state;
  crema_net *net = NULL;
  crema_device *device = begin(sim_test_options(1));
  cr_sim_set_foreign_bytes(0, SIM_TEST_MEMORY - 64);
  assert_fails(make_net(f, IMAGE, device, NULL, &net), CREMA_E_NO_MEMORY, "layer 'in' (ImageData)");
  assert_null(net);
  cr_sim_set_foreign_bytes(0, 0);
  cr_sim_fail(CR_SIM_H2D, 9, CREMA_E_DEVICE, false);
  expect_failed_copy(net_of(f, IMAGE, device), "layer 'in' (ImageData)");
}

/* While the work on a batch is queued and has not even begun, the next one is copied. */
SET_TEST(s2_30_the_next_batch_of_a_loader_is_copied_during_work) {
  const fixture *f = *state;
  crema_net *net = net_of(f, IMAGE, begin(sim_stepped_options()));
  for (int k = 0; k < 10; ++k) {
    expect_copy_during_work(net, k);
    expect_images(net, k);
  }
  crema_net_destroy(net);
  sim_end();
}

/* Solvers on two devices that share a layer: each has its batches, copied at their first use. */
SET_TEST(s2_20_batches_of_shared_layers_are_not_copied_ahead) {
  enum { SOLVERS = 2 };
  const fixture *f = *state;
  crema_net *net[SOLVERS];
  cr_input_group *group = NULL;
  begin(sim_test_options(SOLVERS));
  ok(cr_input_group_create(&group));
  for (int r = 0; r < SOLVERS; ++r) {
    const cr_solver_rank solver = {
        .rank = r, .solvers = SOLVERS, .group = group, .root = r == 0 ? NULL : net[0]};
    ok(make_net(f, IMAGE, sim_test_device(r), &solver, &net[r]));
  }
  cr_input_group_release(group);
  for (int k = 0; k < 10; ++k) {
    for (int r = 0; r < SOLVERS; ++r) {
      forward(net[r]);
      if (k == 0) assert_int_equal(cr_sim_count(CR_SIM_STREAM_OPEN, r), 1);
      const float *label = values(net[r], "label2"), *twice = values(net[r], "twice");
      for (int i = 0; i < BATCH; ++i) {
        int image = ((k * BATCH + i) * SOLVERS + r) % IMAGES;
        assert_true(label[i] == (float)(2 * image) && twice[i * ITEM] == (float)(20 * image));
      }
    }
  }
  for (int r = 0; r < SOLVERS; ++r) crema_net_destroy(net[r]);
  sim_end();
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
