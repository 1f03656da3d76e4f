/* Batch loaders of nets on a device: batches of ImageData, WindowData and AnnotatedData are copied
 * there ahead of the net, by a thread and a stream of their own, and arrive on both sides. */
#include "layers/common/input_class.h"
#include "memory/sim_fixture.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/rng.h"
#include "fixture.h"
#include "net/net.h"
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
  assert_int_equal(cr_file_write(fixture_path(f, name), bytes, size), CREMA_OK);
}

/* A PNG whose pixels are all `value`. */
static void encode(int value, cr_buffer *out) {
  cr_image image = {0};
  assert_int_equal(cr_image_reserve(&image, HEIGHT, WIDTH, 3), CREMA_OK);
  memset(image.pixels, value, ITEM);
  assert_int_equal(cr_image_encode(&image, "png", out), CREMA_OK);
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
  assert_int_equal(cr_wire_print(&record.base, value), CREMA_OK);
}

/* Image i has pixels of value 10 i and the label i. */
static void make_set(fixture *f) {
  cr_buffer file = {0}, list = {0}, windows = {0};
  fixture_make(f);
  for (int i = 0; i < IMAGES; ++i) {
    char name[32];
    snprintf(name, sizeof name, "%d.png", i);
    cr_buffer_clear(&file);
    encode(10 * i, &file);
    write_file(f, name, file.data, file.size);
    assert_int_equal(cr_buffer_print(&list, "%s %d\n", name, i), CREMA_OK);
    assert_int_equal(
        cr_buffer_print(&windows, "# %d\n%s\n3\n%d\n%d\n2\n%d 0.9 0 0 2 2\n1 0.1 1 1 3 3\n", i,
                        name, HEIGHT, WIDTH, i + 1),
        CREMA_OK);
  }
  write_file(f, "list.txt", list.data, list.size);
  write_file(f, "windows.txt", windows.data, windows.size);
  fixture_db(f, "boxed", IMAGES, put_boxed);
  cr_buffer_free(&windows);
  cr_buffer_free(&list);
  cr_buffer_free(&file);
}

/* ---- nets ---------------------------------------------------------------- */

typedef enum kind { IMAGE, WINDOW, ANNOTATED, KINDS } kind;

static const char *layer_of(const fixture *f, kind k) {
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

/* Kernels read both tops, so that their results show which batch they worked on. */
static crema_status make_net(const fixture *f, kind k, crema_device *device,
                             const cr_solver_rank *solver, crema_net **out) {
  cr_buffer text = {0};
  ProtobufCMessage *message = NULL;
  assert_int_equal(
      cr_buffer_print(&text,
                      "layer { name: 'in' top: 'data' top: 'label' %s } "
                      "layer { name: 'twice' type: 'Power' bottom: 'data' top: 'twice' "
                      "power_param { scale: 2 } } "
                      "layer { name: 'label2' type: 'Power' bottom: 'label' top: 'label2' "
                      "power_param { scale: 2 } }",
                      layer_of(f, k)),
      CREMA_OK);
  assert_int_equal(cr_text_parse(&caffe__net_parameter__descriptor, text.data, text.size, "test",
                                 CR_UNKNOWN_ERROR, &message),
                   CREMA_OK);
  cr_buffer_free(&text);
  crema_net_options options;
  crema_net_options_init(&options);
  options.phase = CREMA_TRAIN;
  options.seed = 1;
  options.device = device;
  return cr_net_create_for((Caffe__NetParameter *)message, &options, solver, NULL, NULL, out);
}

static crema_net *net_of(const fixture *f, kind k, crema_device *device) {
  crema_net *net = NULL;
  if (make_net(f, k, device, NULL, &net) != CREMA_OK) fail_msg("%s", crema_error_text());
  return net;
}

static void forward(crema_net *net) {
  if (crema_net_forward(net, NULL) != CREMA_OK) fail_msg("%s", crema_error_text());
}

static crema_blob *blob(crema_net *net, const char *name) {
  crema_blob *found = NULL;
  assert_int_equal(crema_net_blob(net, name, &found), CREMA_OK);
  return found;
}

static const float *values(crema_net *net, const char *name) {
  const float *data = NULL;
  assert_int_equal(crema_blob_cpu_data(blob(net, name), &data), CREMA_OK);
  return data;
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

static void expect_same(crema_net *a, crema_net *b, const char *name) {
  const crema_shape *shape = crema_blob_shape(blob(a, name));
  assert_true(crema_shape_equal(shape, crema_blob_shape(blob(b, name))));
  size_t bytes = (size_t)crema_blob_count(blob(a, name)) * sizeof(float);
  assert_memory_equal(values(a, name), values(b, name), bytes);
}

static crema_device *begin(cr_sim_options options) {
  sim_begin(&options);
  return sim_test_device(0);
}

/* ---- S2-19 --------------------------------------------------------------- */

/* Memory on both sides is there before the first pass; after it nothing is made any more. */
static void s2_19_loaders_allocate_nothing_after_the_start(void **state) {
  fixture f;
  (void)state;
  make_set(&f);
  for (kind k = IMAGE; k <= WINDOW; ++k) {
    crema_device *device = begin(sim_test_options(1));
    uint64_t before = cr_sim_count(CR_SIM_ALLOC, 0), host = cr_sim_count(CR_SIM_HOST_ALLOC, 0);
    crema_net *net = net_of(&f, k, device);
    assert_int_equal(cr_sim_count(CR_SIM_HOST_ALLOC, 0) - host, DEPTH * 2);
    assert_true(cr_sim_count(CR_SIM_ALLOC, 0) > before);
    forward(net);
    values(net, "twice");
    values(net, "label2");
    assert_true(cr_sim_is_pinned(values(net, "data")) && cr_sim_is_pinned(values(net, "label")));
    uint64_t allocs = cr_sim_count(CR_SIM_ALLOC, 0), hosts = cr_sim_count(CR_SIM_HOST_ALLOC, 0);
    uint64_t frees = cr_sim_count(CR_SIM_FREE, 0), streams = cr_sim_count(CR_SIM_STREAM_OPEN, 0);
    for (int i = 1; i < 40; ++i) {
      forward(net);
      if (k == IMAGE) expect_images(net, i);
    }
    assert_int_equal(cr_sim_count(CR_SIM_ALLOC, 0), allocs);
    assert_int_equal(cr_sim_count(CR_SIM_HOST_ALLOC, 0), hosts);
    assert_int_equal(cr_sim_count(CR_SIM_FREE, 0), frees);
    assert_int_equal(cr_sim_count(CR_SIM_STREAM_OPEN, 0), streams);
    crema_net_destroy(net);
    sim_end();
  }
  fixture_remove(&f);
}

/* ---- S2-20 --------------------------------------------------------------- */

/* A stream for the batches beside the net's on a device; nothing of the kind on the host. */
static void s2_20_loaders_copy_to_devices_only(void **state) {
  fixture f;
  (void)state;
  make_set(&f);
  for (kind k = IMAGE; k < KINDS; ++k) {
    crema_device *device = begin(sim_test_options(1));
    crema_net *net = net_of(&f, k, cr_cpu_device());
    forward(net);
    forward(net);
    assert_false(cr_sim_is_pinned(values(net, "data")));
    assert_int_equal(cr_sim_count(CR_SIM_STREAM_OPEN, 0), 0);
    assert_int_equal(cr_sim_count(CR_SIM_H2D, 0), 0);
    crema_net_destroy(net);
    net = net_of(&f, k, device);
    forward(net);
    assert_int_equal(cr_sim_count(CR_SIM_STREAM_OPEN, 0), 2);
    crema_net_destroy(net);
    sim_end();
  }
  fixture_remove(&f);
}

/* Data, label, wait, again and again on one stream, on which no kernel runs. */
static void s2_20_loaders_copy_then_wait_then_hand_over(void **state) {
  enum { PASSES = 12 };
  const cr_sim_record *log = NULL;
  fixture f;
  uint64_t stream = 0;
  int copies = 0, step = 0; /* 0: data is next, 1: label, 2: waiting */
  (void)state;
  make_set(&f);
  crema_net *net = net_of(&f, IMAGE, begin(sim_test_options(1)));
  for (int k = 0; k < PASSES; ++k) {
    forward(net);
    expect_images(net, k);
  }
  crema_net_destroy(net);
  size_t count = cr_sim_log(&log);
  for (size_t i = 0; i < count && stream == 0; ++i) {
    if (log[i].op == CR_SIM_H2D && log[i].bytes == DATA_BYTES) stream = log[i].stream;
  }
  assert_true(stream != 0);
  for (size_t i = 0; i < count; ++i) {
    bool batch = log[i].bytes == DATA_BYTES || log[i].bytes == LABEL_BYTES;
    if (log[i].stream != stream) {
      assert_false(log[i].op == CR_SIM_H2D && batch);
      continue;
    }
    assert_true(log[i].op != CR_SIM_KERNEL && log[i].op != CR_SIM_D2H);
    if (log[i].op == CR_SIM_H2D) {
      assert_true(step < 2);
      assert_int_equal(log[i].bytes, step == 0 ? DATA_BYTES : LABEL_BYTES);
      copies += step++ == 0;
    } else if (log[i].op == CR_SIM_FINISH && step == 2) {
      step = 0;
    }
  }
  assert_in_range(copies, PASSES, PASSES + DEPTH);
  sim_end();
  fixture_remove(&f);
}

/* Both sides hold a batch when it arrives: reading either costs no copy. */
static void s2_20_batches_of_loaders_arrive_synced(void **state) {
  static const char *const tops[] = {"data", "label"};
  const cr_format plain = {CREMA_F32, NULL};
  fixture f;
  (void)state;
  make_set(&f);
  for (kind k = IMAGE; k < KINDS; ++k) {
    crema_device *device = begin(sim_test_options(1));
    crema_net *net = net_of(&f, k, device);
    for (int i = 0; i < 8; ++i) {
      forward(net);
      uint64_t back = cr_sim_count(CR_SIM_D2H, 0);
      for (int t = 0; t < 2; ++t) {
        crema_devptr on_device = {0};
        cr_tensor *tensor = blob(net, tops[t])->data;
        const void *host = values(net, tops[t]);
        assert_true(cr_sim_is_pinned(host));
        assert_int_equal(cr_tensor_read(tensor, net->context, plain, &on_device), CREMA_OK);
        assert_ptr_equal(cr_tensor_head_device(tensor), device);
        /* The bytes on the device, as they are there. */
        float there[BATCH * ITEM];
        size_t bytes = (size_t)crema_blob_count(blob(net, tops[t])) * sizeof(float);
        assert_true(bytes <= sizeof there);
        assert_true(cr_sim_peek(on_device, there, bytes));
        assert_memory_equal(there, host, bytes);
      }
      assert_int_equal(cr_sim_count(CR_SIM_D2H, 0), back);
    }
    crema_net_destroy(net);
    sim_end();
  }
  fixture_remove(&f);
}

/* What the kernels saw is what they see on the host, also where batches differ in size. */
static void s2_20_copied_batches_equal_the_hosts(void **state) {
  static const char *const names[] = {"data", "label", "twice", "label2"};
  fixture f;
  (void)state;
  make_set(&f);
  for (kind k = IMAGE; k < KINDS; ++k) {
    crema_device *device = begin(sim_test_options(1));
    crema_net *net = net_of(&f, k, device), *host = net_of(&f, k, cr_cpu_device());
    int64_t least = INT64_MAX, most = 0;
    for (int i = 0; i < 30; ++i) {
      forward(net);
      forward(host);
      for (int n = 0; n < 4; ++n) expect_same(net, host, names[n]);
      int64_t labels = crema_blob_count(blob(net, "label"));
      least = labels < least ? labels : least;
      most = labels > most ? labels : most;
    }
    assert_true((least < most) == (k == ANNOTATED));
    crema_net_destroy(host);
    crema_net_destroy(net);
    sim_end();
  }
  fixture_remove(&f);
}

/* A batch's device memory is not overwritten before the kernels that were queued on it are done:
 * the checker of the simulation sees every other order. */
static void s2_20_memory_of_loaders_is_not_reused_too_early(void **state) {
  fixture f;
  (void)state;
  make_set(&f);
  for (kind k = IMAGE; k < KINDS; ++k) {
    cr_sim_options options = sim_test_options(1);
    options.keep_log = false;
    crema_net *net = net_of(&f, k, begin(options));
    for (int i = 0; i < 200; ++i) {
      forward(net);
      if (k == IMAGE && i % 7 == 0) expect_images(net, i);
    }
    crema_net_destroy(net);
    sim_end();
  }
  fixture_remove(&f);
}

/* Nor when the position in the data is restored while kernels are queued on a batch. Streams run
 * step by step here, so that they are queued still when the threads start again. */
static void s2_20_restored_loaders_wait_for_queued_work(void **state) {
  fixture f;
  (void)state;
  make_set(&f);
  for (kind k = IMAGE; k < KINDS; ++k) {
    cr_sim_options options = sim_test_options(1);
    options.stepped = true;
    crema_device *device = begin(options);
    crema_net *net = net_of(&f, k, device), *host = net_of(&f, k, cr_cpu_device());
    cr_layer *layer = net->layer[0].layer;
    for (int i = 0; i < 3; ++i) {
      cr_buffer saved = {0};
      forward(net);
      forward(host);
      assert_true(cr_sim_pending(net->context) > 0);
      assert_int_equal(layer->class->input->save(layer, &saved), CREMA_OK);
      assert_int_equal(layer->class->input->restore(layer, saved.data, saved.size), CREMA_OK);
      cr_buffer_free(&saved);
      /* Time for the batches to come; only a copy that waits for the kernels has them run. */
      cr_clock_sleep(5e-3);
      expect_same(net, host, "twice");
      expect_same(net, host, "label2");
    }
    crema_net_destroy(host);
    crema_net_destroy(net);
    sim_end();
  }
  fixture_remove(&f);
}

/* Nets that end while batches are read, copied, waited for: nothing is left behind. */
static void s2_20_loaders_stop_in_the_middle(void **state) {
  fixture f;
  cr_mt19937 rng;
  (void)state;
  make_set(&f);
  cr_mt19937_seed(&rng, 3);
  cr_sim_options options = sim_test_options(1);
  options.keep_log = false;
  options.latency = 1e-5;
  crema_device *device = begin(options);
  int cycles = fixture_cycles(120);
  for (int i = 0; i < cycles; ++i) {
    crema_net *net = net_of(&f, (kind)(i % KINDS), device);
    uint32_t passes = cr_mt19937_below(&rng, 4);
    for (uint32_t k = 0; k < passes; ++k) forward(net);
    if (cr_mt19937_below(&rng, 3) == 0) cr_clock_sleep(2e-5);
    crema_net_destroy(net);
  }
  sim_end();
  fixture_remove(&f);
}

/* A device that fails is told with the layer's name; no hang. */
static void s2_20_a_failing_copy_of_a_loader_is_told(void **state) {
  fixture f;
  crema_net *net = NULL;
  crema_status status = CREMA_OK;
  int passes = 0;
  (void)state;
  make_set(&f);
  crema_device *device = begin(sim_test_options(1));
  cr_sim_set_foreign_bytes(0, SIM_TEST_MEMORY - 64);
  assert_int_equal(make_net(&f, IMAGE, device, NULL, &net), CREMA_E_NO_MEMORY);
  assert_non_null(strstr(crema_error_text(), "layer 'in' (ImageData)"));
  assert_null(net);
  cr_sim_set_foreign_bytes(0, 0);
  cr_sim_fail(CR_SIM_H2D, 9, CREMA_E_DEVICE, false);
  net = net_of(&f, IMAGE, device);
  while (status == CREMA_OK && passes < 20) {
    status = crema_net_forward(net, NULL);
    passes += status == CREMA_OK;
  }
  assert_int_equal(status, CREMA_E_DEVICE);
  assert_int_equal(passes, 4);
  assert_non_null(strstr(crema_error_text(), "layer 'in' (ImageData)"));
  assert_int_equal(crema_net_forward(net, NULL), CREMA_E_DEVICE);
  crema_net_destroy(net);
  cr_sim_clear_faults();
  sim_end();
  fixture_remove(&f);
}

/* While the work on a batch is queued and has not even begun, the next one is copied. */
static void s2_30_the_next_batch_of_a_loader_is_copied_during_work(void **state) {
  fixture f;
  int overlaps = 0;
  (void)state;
  make_set(&f);
  cr_sim_options options = sim_test_options(1);
  options.stepped = true;
  crema_net *net = net_of(&f, IMAGE, begin(options));
  for (int k = 0; k < 10; ++k) {
    forward(net);
    size_t pending = cr_sim_pending(net->context);
    uint64_t wanted = 2 * ((uint64_t)k + 2); /* data and label, up to the next batch */
    double start = cr_clock_seconds();
    while (cr_sim_count(CR_SIM_H2D, 0) < wanted && cr_clock_seconds() < start + 10) {
      cr_clock_sleep(1e-5);
    }
    assert_true(cr_sim_count(CR_SIM_H2D, 0) >= wanted);
    overlaps += pending > 0 && cr_sim_pending(net->context) == pending;
    expect_images(net, k);
  }
  assert_int_equal(overlaps, 10);
  crema_net_destroy(net);
  sim_end();
  fixture_remove(&f);
}

/* Solvers on two devices that share a layer: each has its batches, copied at their first use. */
static void s2_20_batches_of_shared_layers_are_not_copied_ahead(void **state) {
  enum { SOLVERS = 2 };
  fixture f;
  crema_net *net[SOLVERS];
  cr_input_group *group = NULL;
  (void)state;
  make_set(&f);
  begin(sim_test_options(SOLVERS));
  assert_int_equal(cr_input_group_create(&group), CREMA_OK);
  for (int r = 0; r < SOLVERS; ++r) {
    const cr_solver_rank solver = {
        .rank = r, .solvers = SOLVERS, .group = group, .root = r == 0 ? NULL : net[0]};
    assert_int_equal(make_net(&f, IMAGE, sim_test_device(r), &solver, &net[r]), CREMA_OK);
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
  fixture_remove(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(s2_19_loaders_allocate_nothing_after_the_start),
      cmocka_unit_test(s2_20_loaders_copy_to_devices_only),
      cmocka_unit_test(s2_20_loaders_copy_then_wait_then_hand_over),
      cmocka_unit_test(s2_20_batches_of_loaders_arrive_synced),
      cmocka_unit_test(s2_20_copied_batches_equal_the_hosts),
      cmocka_unit_test(s2_20_memory_of_loaders_is_not_reused_too_early),
      cmocka_unit_test(s2_20_restored_loaders_wait_for_queued_work),
      cmocka_unit_test(s2_20_loaders_stop_in_the_middle),
      cmocka_unit_test(s2_20_a_failing_copy_of_a_loader_is_told),
      cmocka_unit_test(s2_30_the_next_batch_of_a_loader_is_copied_during_work),
      cmocka_unit_test(s2_20_batches_of_shared_layers_are_not_copied_ahead),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
