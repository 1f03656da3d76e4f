/* Data layers that several solvers share: one state, one forward pass at a time, batches by step.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/rng.h"
#include "core/thread.h"
#include "crema/memory_data.h"
#include "data/pipeline/hdf5_set.h"
#include "fixture.h"
#include "layers/common/input_class.h"
#include "layers/common/layer_share.h"
#include "layers/registry.h"
#include "net/net_values.h"

enum { SAMPLES = 23, SOLVERS = 4 };

/* ---- what is read -------------------------------------------------------- */

/* SAMPLES pictures of one colour, 2 i, with the label i, as files (list.txt), in a database (db)
 * and in an HDF5 file (h5.txt). Sizes are such that reading takes different times. */
static void write_images(const fixture *f) {
  cr_image image = {0};
  cr_buffer list = {0};
  for (int i = 0; i < SAMPLES; ++i) {
    char name[32];
    int side = i % 5 == 0 ? 96 : 8;
    ok(cr_image_reserve(&image, side, side, 3));
    memset(image.pixels, 2 * i, (size_t)side * (size_t)side * 3);
    snprintf(name, sizeof name, "%d.png", i);
    fixture_write_png(f, name, &image);
    ok(cr_buffer_print(&list, "%s %d\n", name, i));
  }
  ok(cr_file_write(fixture_path(f, "list.txt"), list.data, list.size));
  cr_buffer_free(&list);
  cr_image_free(&image);
}

static void write_hdf5(const fixture *f) {
  cr_hdf5_writer *writer = NULL;
  float data[SAMPLES], label[SAMPLES];
  const crema_shape shape = cr_shape_4(SAMPLES, 1, 1, 1);
  for (int i = 0; i < SAMPLES; ++i) {
    data[i] = (float)(2 * i);
    label[i] = (float)i;
  }
  ok(cr_hdf5_writer_open(fixture_path(f, "h.h5"), &writer));
  ok(cr_hdf5_writer_reserve(writer, sizeof data + sizeof label));
  ok(cr_hdf5_writer_append(writer, "h", &shape, CREMA_F32, data));
  ok(cr_hdf5_writer_append(writer, "h_label", &shape, CREMA_F32, label));
  cr_hdf5_writer_close(writer);
  ok(cr_file_write(fixture_path(f, "h5.txt"), "h.h5\n", 5));
}

static void make_set(const fixture *f) {
  write_images(f);
  write_hdf5(f);
  fixture_db(f, "db", SAMPLES, fixture_gray);
}

/* A test whose folder holds the set. */
#define SET_TEST(name) TEST_BETWEEN(name, set_up, fixture_teardown)
static int set_up(void **state) {
  fixture_setup(state);
  make_set(*state);
  return 0;
}

/* ---- nets ---------------------------------------------------------------- */

/* One layer of each kind; tops x and x_label. */
static void add_image_data(const fixture *f, const char *name, const char *rest, cr_buffer *out) {
  ok(cr_buffer_print(out,
                     "layer { name: '%s' type: 'ImageData' top: '%s' top: '%s_label' "
                     "image_data_param { source: '%s' new_height: 4 new_width: 4 %s } } ",
                     name, name, name, fixture_path(f, "list.txt"), rest));
}

static void add_hdf5_data(const fixture *f, const char *rest, cr_buffer *out) {
  ok(cr_buffer_print(out,
                     "layer { name: 'h' type: 'HDF5Data' top: 'h' top: 'h_label' "
                     "hdf5_data_param { source: '%s' %s } } ",
                     fixture_path(f, "h5.txt"), rest));
}

static void add_data(const fixture *f, const char *rest, cr_buffer *out) {
  ok(cr_buffer_print(out,
                     "layer { name: 'd' type: 'Data' top: 'd' top: 'd_label' "
                     "data_param { source: '%s' backend: LMDB %s } } ",
                     fixture_path(f, "db"), rest));
}

static crema_status make_net(const char *text, const cr_solver_rank *solver, crema_net **out) {
  const crema_net_options options = net_options(CREMA_TRAIN, 3, NULL);
  return parse_net(&options, solver, out, "%s", text);
}

/* The nets of all solvers; the group is theirs alone. */
static void make_nets(const char *text, int solvers, crema_net **net) {
  cr_input_group *group = NULL;
  ok(cr_input_group_create(&group));
  for (int i = 0; i < solvers; ++i) {
    const cr_solver_rank solver = {
        .rank = i, .solvers = solvers, .group = group, .root = i == 0 ? NULL : net[0]};
    ok(make_net(text, &solver, &net[i]));
  }
  cr_input_group_release(group);
}

static void destroy_nets(crema_net **net, int solvers) {
  for (int i = 0; i < solvers; ++i) crema_net_destroy(net[i]);
}

/* ---- solvers ------------------------------------------------------------- */

/* A thread that runs one net. */
typedef struct trainee {
  crema_net *net;
  int rank, solvers, steps, items;
  int first;            /* step that it begins with */
  const char *blobs[4]; /* data tops whose labels have to be those of the step; NULL ends them */
  int wrong;
} trainee;

static void dawdle(int step) {
  uint32_t draw[4];
  cr_philox((uint64_t)(cr_clock_seconds() * 1e9), 0, (uint64_t)step, draw);
  if (draw[0] % 2 == 0) cr_clock_sleep(1e-6 * (draw[1] % 500));
}

/* Sample n of the stream is number n mod SAMPLES; its picture has the colour of its label. */
static int count_wrong(const trainee *s, int step) {
  int wrong = 0;
  for (int b = 0; b < 4 && s->blobs[b] != NULL; ++b) {
    char name[32];
    snprintf(name, sizeof name, "%s_label", s->blobs[b]);
    const float *data = values(s->net, s->blobs[b]), *label = values(s->net, name);
    crema_blob *blob = NULL;
    if (crema_net_blob(s->net, s->blobs[b], &blob) != CREMA_OK) return 1;
    int64_t size = crema_blob_count(blob) / s->items;
    for (int i = 0; i < s->items; ++i) {
      int sample = ((step * s->items + i) * s->solvers + s->rank) % SAMPLES;
      int scale = strcmp(s->blobs[b], "d") == 0 ? 1 : 2;
      wrong += label[i] != (float)sample || data[size * i] != (float)(scale * sample) ||
               data[size * i + size - 1] != (float)(scale * sample);
    }
  }
  return wrong;
}

static crema_status train(void *arg) {
  trainee *s = arg;
  for (int k = 0; k < s->steps; ++k) {
    dawdle(k);
    CR_TRY(crema_net_forward(s->net, NULL));
    dawdle(k + 1000);
    s->wrong += count_wrong(s, s->first + k);
  }
  return CREMA_OK;
}

/* Lets all solvers take `steps` steps at a time, each in a thread. */
static void train_all(crema_net **net, int solvers, int items, const char *const blobs[4],
                      int first, int steps) {
  trainee s[8];
  cr_thread *thread[8] = {NULL};
  for (int i = 0; i < solvers; ++i) {
    s[i] = (trainee){.net = net[i],
                     .rank = i,
                     .solvers = solvers,
                     .items = items,
                     .first = first,
                     .steps = steps};
    memcpy(s[i].blobs, blobs, sizeof s[i].blobs);
    ok(cr_thread_start(&thread[i], "solver", train, &s[i]));
  }
  for (int i = 0; i < solvers; ++i) {
    crema_status status = cr_thread_join(&thread[i]);
    if (status != CREMA_OK) fail_msg("solver %d: %s", i, crema_error_text());
    assert_int_equal(s[i].wrong, 0);
  }
}

/* ---- which layers -------------------------------------------------------- */

TEST(s2_25_layers_that_can_be_shared) {
  static const char *const wanted[] = {"DummyData", "HDF5Data",     "HDF5Output", "ImageData",
                                       "Input",     "ImageSegData", "MatWrite",   "MemoryData",
                                       "VideoClips", "VideoData",   "WindowData"};
  size_t count = 0, shareable = 0;
  const char *const *name = cr_layer_class_names(&count);
  for (size_t i = 0; i < count; ++i) {
    const cr_layer_class *kind = NULL;
    bool found = false;
    ok(cr_layer_class_find(name[i], &kind));
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; ++k) {
      found = found || strcmp(name[i], wanted[k]) == 0;
    }
    if (found != kind->graph.shareable) fail_msg("%s", name[i]);
    shareable += kind->graph.shareable;
  }
  assert_int_equal(shareable, sizeof wanted / sizeof *wanted);
}

/* Workers have the root's state and the root's shapes; layers that cannot be shared have their own
 * state. */
SET_TEST(s2_25_workers_use_the_roots_state) {
  const fixture *f = *state;
  cr_buffer text = {0};
  crema_net *net[2] = {NULL, NULL};
  crema_blob *blob[2];
  add_image_data(f, "a", "batch_size: 3", &text);
  add_hdf5_data(f, "batch_size: 3", &text);
  add_data(f, "batch_size: 3", &text);
  ok(cr_buffer_print(&text,
                     "layer { name: 'in' type: 'Input' top: 'in' } "
                     "layer { name: 'dummy' type: 'DummyData' top: 'dummy' dummy_data_param { "
                     "shape { dim: 2 dim: 5 } data_filler { value: 7 } } } "));
  cr_input_group *group = NULL;
  ok(cr_input_group_create(&group));
  const cr_solver_rank root = {.rank = 0, .solvers = 2, .group = group};
  ok(make_net(text.data, &root, &net[0]));
  /* A shape that the program gave the root's input. */
  const crema_shape shape = cr_shape_2(6, 9);
  ok(crema_net_blob(net[0], "in", &blob[0]));
  ok(crema_blob_reshape(blob[0], &shape));
  const cr_solver_rank worker = {.rank = 1, .solvers = 2, .group = group, .root = net[0]};
  ok(make_net(text.data, &worker, &net[1]));
  assert_ptr_equal(layer_of(net[0], "a")->state, layer_of(net[1], "a")->state);
  assert_ptr_equal(layer_of(net[0], "h")->state, layer_of(net[1], "h")->state);
  assert_ptr_not_equal(layer_of(net[0], "d")->state, layer_of(net[1], "d")->state);
  static const char *const names[] = {"a", "a_label", "h", "h_label", "dummy"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    for (int k = 0; k < 2; ++k) {
      ok(crema_net_blob(net[k], names[i], &blob[k]));
    }
    assert_true(crema_shape_equal(crema_blob_shape(blob[0]), crema_blob_shape(blob[1])));
  }
  for (int i = 0; i < 10; ++i) assert_true(values(net[1], "dummy")[i] == 7);
  destroy_nets(net, 2);
  cr_input_group_release(group);
  cr_buffer_free(&text);
}

SET_TEST(s2_25_refusals) {
  const fixture *f = *state;
  cr_buffer text = {0}, other = {0};
  crema_net *net[2] = {NULL, NULL}, *none = NULL;
  cr_input_group *group = NULL;
  add_image_data(f, "a", "batch_size: 3", &text);
  add_data(f, "batch_size: 3", &text);
  ok(cr_input_group_create(&group));
  cr_solver_rank solver = {.rank = 0, .solvers = 2, .group = group};
  ok(make_net(text.data, &solver, &net[0]));
  /* A worker without a root would take samples twice. */
  solver.rank = 1;
  assert_fails(make_net(text.data, &solver, &none), CREMA_E_ARGUMENT, "'a'");
  assert_error_has("without the net of solver 0");
  /* The root has no layer of that name, or another number of solvers. */
  solver.root = net[0];
  add_image_data(f, "b", "batch_size: 3", &other);
  assert_fails(make_net(other.data, &solver, &none), CREMA_E_ARGUMENT, "'b'");
  solver.solvers = 3;
  cr_buffer_clear(&other);
  add_image_data(f, "a", "batch_size: 3", &other);
  assert_fails(make_net(other.data, &solver, &none), CREMA_E_ARGUMENT, "cannot join");
  solver.solvers = 2;
  ok(make_net(text.data, &solver, &net[1]));
  /* By hand: a class that refuses, a layer that is not shared. */
  assert_fails(cr_layer_share_join(layer_of(net[1], "d"), layer_of(net[0], "d")),
               CREMA_E_UNSUPPORTED, "'d' (Data)");
  crema_net *alone = NULL;
  ok(make_net(other.data, NULL, &alone));
  assert_int_equal(cr_layer_share_join(layer_of(net[1], "a"), layer_of(alone, "a")), CREMA_E_STATE);
  crema_net_destroy(alone);
  destroy_nets(net, 2);
  cr_input_group_release(group);
  cr_buffer_free(&other);
  cr_buffer_free(&text);
}

/* ---- one at a time ------------------------------------------------------- */

/* A layer that looks who else is in it. */
typedef struct watcher {
  atomic_int inside, most, passes, back, back_most;
} watcher;

static void note_most(atomic_int *most, int inside) {
  for (int m = *most; inside > m && !atomic_compare_exchange_weak(most, &m, inside);) {
  }
}

static crema_status watch_setup(cr_layer *layer, crema_blob *const *bottom,
                                crema_blob *const *top) {
  (void)layer, (void)bottom, (void)top;
  return CREMA_OK;
}

static crema_status watch_forward(cr_layer *layer, crema_context *context,
                                  crema_blob *const *bottom, crema_blob *const *top) {
  watcher *w = layer->state;
  (void)context, (void)bottom, (void)top;
  note_most(&w->most, atomic_fetch_add(&w->inside, 1) + 1);
  cr_clock_sleep(2e-4);
  atomic_fetch_add(&w->passes, 1);
  atomic_fetch_sub(&w->inside, 1);
  return CREMA_OK;
}

/* Waits until all are in here, which a lock would never let happen. */
static crema_status watch_backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                                   const bool *propagate_down, crema_blob *const *bottom) {
  watcher *w = layer->state;
  (void)context, (void)bottom, (void)top, (void)propagate_down;
  note_most(&w->back_most, atomic_fetch_add(&w->back, 1) + 1);
  for (int i = 0; i < 5000 && w->back_most < SOLVERS; ++i) cr_clock_sleep(1e-3);
  return CREMA_OK;
}

static const cr_layer_class watch_class = {.type = "Watch",
                                           .state_size = sizeof(watcher),
                                           .graph.shareable = true,
                                           .setup = watch_setup,
                                           .forward = watch_forward,
                                           .backward = watch_backward};

static crema_status run_watcher(void *arg) {
  cr_layer *layer = arg;
  for (int k = 0; k < 25; ++k) CR_TRY(cr_layer_forward(layer, NULL, NULL, NULL));
  return layer->kind->backward(layer, NULL, NULL, NULL, NULL);
}

TEST(s2_25_forward_passes_are_serialised_and_backward_passes_are_not) {
  Caffe__LayerParameter param = CAFFE__LAYER_PARAMETER__INIT;
  cr_input_group *group = NULL;
  cr_layer *layer[SOLVERS];
  cr_thread *thread[SOLVERS] = {NULL};
  ok(cr_input_group_create(&group));
  for (int shared = 0; shared < 2; ++shared) {
    for (int i = 0; i < SOLVERS; ++i) {
      layer[i] = calloc(1, sizeof *layer[i]);
      layer[i]->kind = &watch_class;
      layer[i]->param = &param;
      layer[i]->name = "w";
      layer[i]->state = i == 0 || shared ? calloc(1, sizeof(watcher)) : layer[0]->state;
      const cr_solver_rank solver = {.rank = i, .solvers = SOLVERS, .group = shared ? group : NULL};
      cr_layer_set_solver(layer[i], &solver);
      ok(cr_layer_setup(layer[i], i > 0 && shared ? layer[0] : NULL, NULL, NULL));
      assert_ptr_equal(layer[i]->state, layer[0]->state);
    }
    for (int i = 0; i < SOLVERS; ++i) {
      ok(cr_thread_start(&thread[i], "solver", run_watcher, layer[i]));
    }
    for (int i = 0; i < SOLVERS; ++i) ok(cr_thread_join(&thread[i]));
    const watcher *w = layer[0]->state;
    assert_int_equal(w->passes, 25 * SOLVERS);
    assert_int_equal(w->back_most, SOLVERS);
    if (shared) assert_int_equal(w->most, 1);
    else assert_true(w->most > 1);
    for (int i = 0; i < SOLVERS; ++i) {
      /* Without sharing the test itself let all work on one state. */
      if (!shared && i > 0) layer[i]->state = NULL;
      cr_layer_destroy(layer[i]);
    }
  }
  cr_input_group_release(group);
}

/* Four threads use one layer of each kind: their batches are those that one solver gets, dealt out
 * by step. */
SET_TEST(s2_25_concurrent_passes_get_distinct_batches) {
  static const char *const blobs[4] = {"a", "h"};
  const fixture *f = *state;
  cr_buffer text = {0};
  crema_net *net[SOLVERS];
  add_image_data(f, "a", "batch_size: 3 threads: 3", &text);
  add_hdf5_data(f, "batch_size: 3", &text);
  make_nets(text.data, SOLVERS, net);
  train_all(net, SOLVERS, 3, blobs, 0, 30);
  destroy_nets(net, SOLVERS);
  cr_buffer_free(&text);
}

TEST(s2_25_samples_in_memory_are_shared) {
  static const char *const blobs[4] = {"m"};
  enum { ITEMS = 1 };
  static float data[SAMPLES], label[SAMPLES];
  crema_net *net[SOLVERS];
  for (int i = 0; i < SAMPLES; ++i) {
    data[i] = (float)(2 * i);
    label[i] = (float)i;
  }
  make_nets(
      "layer { name: 'm' type: 'MemoryData' top: 'm' top: 'm_label' memory_data_param { "
      "batch_size: 1 channels: 1 height: 1 width: 1 } }",
      SOLVERS, net);
  /* Whichever net is given them. */
  ok(crema_memory_data_set(net[2], "m", data, label, SAMPLES));
  train_all(net, SOLVERS, ITEMS, blobs, 0, 50);
  destroy_nets(net, SOLVERS);
}

/* One solver is far ahead of the others: it waits for nobody but the source, and the others find
 * their batches. */
SET_TEST(s2_25_a_solver_that_waits_keeps_nobody_out) {
  static const char *const blobs[4] = {"a"};
  const fixture *f = *state;
  cr_buffer text = {0};
  crema_net *net[2];
  add_image_data(f, "a", "batch_size: 3", &text);
  for (int round = 0; round < 5; ++round) {
    trainee fast = {.rank = 1, .solvers = 2, .items = 3, .steps = 12, .blobs = {"a"}};
    cr_thread *thread = NULL;
    make_nets(text.data, 2, net);
    fast.net = net[1];
    ok(cr_thread_start(&thread, "solver", train, &fast));
    /* Until it has taken all there is. */
    cr_clock_sleep(0.02);
    for (int k = 0; k < 12; ++k) {
      trainee slow = {.net = net[0], .solvers = 2, .items = 3, .first = k, .steps = 1};
      memcpy(slow.blobs, blobs, sizeof slow.blobs);
      ok(train(&slow));
      assert_int_equal(slow.wrong, 0);
    }
    ok(cr_thread_join(&thread));
    assert_int_equal(fast.wrong, 0);
    destroy_nets(net, 2);
  }
  cr_buffer_free(&text);
}

/* The state outlives the net of rank 0. */
SET_TEST(s2_25_the_root_may_go_first) {
  const fixture *f = *state;
  cr_buffer text = {0};
  crema_net *net[3];
  add_image_data(f, "a", "batch_size: 3", &text);
  add_hdf5_data(f, "batch_size: 3", &text);
  for (int round = 0; round < 3; ++round) {
    make_nets(text.data, 3, net);
    crema_net_destroy(net[round]);
    net[round] = NULL;
    for (int i = 0; i < 3; ++i) {
      trainee s = {
          .net = net[i], .rank = i, .solvers = 3, .items = 3, .steps = 2, .blobs = {"a", "h"}};
      if (net[i] == NULL) continue;
      ok(train(&s));
      assert_int_equal(s.wrong, 0);
    }
    destroy_nets(net, 3);
  }
  cr_buffer_free(&text);
}

/* ---- several layers in a net --------------------------------------------- */

/* Four layers of three kinds, two of them over the same pictures with other numbers of threads: in
 * every step of every solver all show the samples of that step. */
SET_TEST(s2_26_layers_of_several_solvers_keep_step) {
  static const char *const blobs[4] = {"a", "b", "h", "d"};
  static const int solvers[] = {1, 3, 4};
  const fixture *f = *state;
  cr_buffer text = {0};
  crema_net *net[4];
  add_image_data(f, "a", "batch_size: 2 threads: 1", &text);
  add_image_data(f, "b", "batch_size: 2 threads: 4", &text);
  add_hdf5_data(f, "batch_size: 2", &text);
  add_data(f, "batch_size: 2 threads: 2", &text);
  for (size_t i = 0; i < sizeof solvers / sizeof *solvers; ++i) {
    make_nets(text.data, solvers[i], net);
    train_all(net, solvers[i], 2, blobs, 0, 60);
    destroy_nets(net, solvers[i]);
  }
  cr_buffer_free(&text);
}

/* Solvers that cannot share, in other processes: the same batches. */
SET_TEST(s2_27_solvers_out_of_reach_take_their_own_share) {
  const fixture *f = *state;
  cr_buffer text = {0};
  add_image_data(f, "a", "batch_size: 2", &text);
  add_hdf5_data(f, "batch_size: 2", &text);
  for (int i = 0; i < 8; ++i) {
    const cr_solver_rank rank = {.rank = i, .solvers = 8};
    trainee s = {.rank = i, .solvers = 8, .items = 2, .steps = 10, .blobs = {"a", "h"}};
    ok(make_net(text.data, &rank, &s.net));
    ok(train(&s));
    assert_int_equal(s.wrong, 0);
    crema_net_destroy(s.net);
  }
  cr_buffer_free(&text);
}

/* ---- resuming ------------------------------------------------------------ */

static void save(crema_net *net, const char *name, cr_buffer *out) {
  cr_layer *layer = layer_of(net, name);
  cr_buffer_clear(out);
  ok(layer->kind->input->save(layer, out));
}

static crema_status restore(crema_net *net, const char *name, const cr_buffer *saved) {
  cr_layer *layer = layer_of(net, name);
  return layer->kind->input->restore(layer, saved->data, saved->size);
}

/* In the middle of an epoch: all solvers go on where they were; they share one position. */
SET_TEST(s2_31_shared_layers_resume) {
  static const char *const blobs[4] = {"a", "h"};
  const fixture *f = *state;
  cr_buffer text = {0}, saved[2] = {{0}, {0}}, other = {0};
  crema_net *net[3];
  add_image_data(f, "a", "batch_size: 2 threads: 2", &text);
  add_hdf5_data(f, "batch_size: 2", &text);
  for (int solvers = 1; solvers <= 3; solvers += 2) {
    for (int before = 0; before <= 5; before += 5) {
      make_nets(text.data, solvers, net);
      train_all(net, solvers, 2, blobs, 0, before);
      for (int b = 0; b < 2; ++b) {
        save(net[0], blobs[b], &saved[b]);
        for (int i = 1; i < solvers; ++i) {
          save(net[i], blobs[b], &other);
          assert_string_equal(other.data, saved[b].data);
        }
      }
      destroy_nets(net, solvers);
      make_nets(text.data, solvers, net);
      train_all(net, solvers, 2, blobs, 0, 3);
      for (int i = 0; i < solvers; ++i) {
        for (int b = 0; b < 2; ++b) {
          ok(restore(net[i], blobs[b], &saved[b]));
        }
      }
      train_all(net, solvers, 2, blobs, before, 20);
      if (solvers > 1) {
        assert_fails(restore(net[1], "a", &saved[1]), CREMA_E_STATE, "solver 1");
      }
      destroy_nets(net, solvers);
    }
  }
  cr_buffer_free(&other);
  cr_buffer_free(&saved[1]);
  cr_buffer_free(&saved[0]);
  cr_buffer_free(&text);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
