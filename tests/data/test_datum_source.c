/* Batches of Datum records: what is in them, faults with the key's name, stopping at any moment. */
#define _GNU_SOURCE /* sched_setaffinity */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/rng.h"
#include "data/pipeline/pipeline_private.h"
#include "device/device.h"
#include "device/memory/host_memory.h"
#include "fixture.h"
#include "transform_text.h"

/* All of an input. */
typedef struct pipeline {
  fixture f;
  cr_reader *reader;
  cr_transformer *transformer;
  cr_datum_source *source;
  cr_pipeline *pipeline;
} pipeline;

typedef struct pipeline_options {
  fixture_record record;
  int records, batch_size, depth, threads;
  bool skip_corrupt;
  const char *transform;
  const char *backend; /* NULL: lmdb */
} pipeline_options;

static crema_status pipeline_make(pipeline *p, const pipeline_options *o) {
  const char *text = o->transform == NULL ? "" : o->transform;
  const char *backend = o->backend == NULL ? "lmdb" : o->backend;
  *p = (pipeline){0};
  fixture_make(&p->f);
  const cr_reader_options reader = {
      .backend = backend,
      .source = fixture_db_of(&p->f, backend, "db", o->records, o->record),
      .consumers = 1,
      .depth = o->batch_size * o->depth};
  ok(cr_reader_open(&reader, &p->reader));
  ok(make_transformer(text, CAFFE__PHASE__TRAIN, &p->transformer));
  const cr_datum_source_options source = {
      .records = {.reader = p->reader, .skip_corrupt = o->skip_corrupt},
      .transformer = p->transformer,
      .items = o->batch_size,
      .tops = 2,
      .threads = o->threads};
  return fixture_pipeline(&source, o->depth, &p->source, &p->pipeline);
}

static void pipeline_start(pipeline *p) {
  ok(cr_pipeline_start(p->pipeline, 0));
}

static void pipeline_stop(pipeline *p) {
  cr_pipeline_stop(p->pipeline);
}

static void pipeline_free(pipeline *p) {
  cr_pipeline_destroy(p->pipeline);
  cr_datum_source_destroy(p->source);
  cr_reader_close(p->reader);
  cr_transformer_destroy(p->transformer);
  fixture_remove(&p->f);
}

TEST(s2_21_batches_hold_the_records) {
  pipeline p;
  const pipeline_options o = {.record = fixture_gray, .records = 10, .batch_size = 4, .depth = 3};
  ok(pipeline_make(&p, &o));
  const crema_shape *shape = cr_datum_source_pipeline(p.source).shape;
  assert_true(shape[0].dim[0] == 4 && shape[1].dim[0] == 4);
  assert_true(shape[0].dim[1] == 1 && shape[0].dim[2] == 4 && shape[0].dim[3] == 5);
  pipeline_start(&p);
  assert_int_equal(cr_pipeline_start(p.pipeline, 0), CREMA_E_STATE);
  for (int k = 0; k < 20; ++k) {
    cr_batch *batch = NULL;
    ok(fixture_take(p.pipeline, &batch));
    assert_int_equal(batch->items, 4);
    assert_int_equal((uintptr_t)batch->top[0].values % 64, 0);
    for (int i = 0; i < 4; ++i) {
      float wanted = (float)((4 * k + i) % 10);
      assert_true(batch->top[1].values[i] == wanted);
      for (int v = 0; v < 20; ++v) assert_true(batch->top[0].values[20 * i + v] == wanted);
    }
    cr_db_bytes key;
    assert_int_equal(cr_record_source_cursor(batch, &key), 4 * k + 4);
    assert_int_equal(key.data[7] - '0', (4 * k + 3) % 10);
    ok(fixture_return(p.pipeline, batch));
  }
  pipeline_free(&p);
}

/* A batch keeps its content while it is held, however far the others go. */
TEST(s2_24_a_held_batch_is_left_alone) {
  pipeline p;
  cr_batch *held = NULL;
  const pipeline_options o = {.record = fixture_gray, .records = 50, .batch_size = 2, .depth = 2};
  ok(pipeline_make(&p, &o));
  pipeline_start(&p);
  ok(fixture_take(p.pipeline, &held));
  for (int k = 1; k < 30; ++k) {
    cr_batch *batch = NULL;
    ok(fixture_take(p.pipeline, &batch));
    assert_true(batch->top[0].values[0] == (float)(2 * k % 50));
    ok(fixture_return(p.pipeline, batch));
    assert_true(held->top[0].values[0] == 0 && held->top[0].values[20] == 1 &&
                held->top[1].values[1] == 1);
  }
  pipeline_free(&p);
}

/* One batch is enough to go on, without any overlap. */
TEST(s2_07_one_batch) {
  pipeline p;
  const pipeline_options o = {.record = fixture_gray, .records = 3, .batch_size = 1, .depth = 1};
  ok(pipeline_make(&p, &o));
  pipeline_start(&p);
  for (int k = 0; k < 2000; ++k) {
    cr_batch *batch = NULL;
    ok(fixture_take(p.pipeline, &batch));
    assert_true(batch->top[1].values[0] == (float)(k % 3));
    ok(fixture_return(p.pipeline, batch));
  }
  pipeline_free(&p);
}

/* The same records and random numbers in two runs, one of them with a slow consumer. */
TEST(test_runs_repeat) {
  enum { BATCHES = 12, VALUES = 5 * 3 * 4 * 4 };
  static float first[BATCHES][VALUES];
  for (int run = 0; run < 2; ++run) {
    pipeline p;
    const pipeline_options o = {.record = fixture_png,
                                .records = 13,
                                .batch_size = 5,
                                .depth = run == 0 ? 4 : 1,
                                .transform = "crop_size: 4 mirror: true"};
    ok(pipeline_make(&p, &o));
    pipeline_start(&p);
    for (int k = 0; k < BATCHES; ++k) {
      cr_batch *batch = NULL;
      ok(fixture_take(p.pipeline, &batch));
      if (run == 0) memcpy(first[k], batch->top[0].values, sizeof first[k]);
      else assert_memory_equal(first[k], batch->top[0].values, sizeof first[k]);
      ok(fixture_return(p.pipeline, batch));
    }
    pipeline_free(&p);
  }
}

/* One run's batches: values, labels, cursor. */
typedef struct trace {
  cr_buffer bytes;
} trace;

static void trace_run(const pipeline_options *o, int batches, trace *out) {
  pipeline p;
  ok(pipeline_make(&p, o));
  pipeline_start(&p);
  for (int k = 0; k < batches; ++k) {
    cr_batch *batch = NULL;
    ok(fixture_take(p.pipeline, &batch));
    for (int top = 0; top < 2; ++top) {
      size_t values = (size_t)crema_shape_count(&batch->top[top].shape, 0, 4 - 3 * top);
      ok(cr_buffer_append(&out->bytes, batch->top[top].values, values * 4));
    }
    ok(cr_buffer_append(&out->bytes, batch->cursor.data, batch->cursor.size));
    ok(fixture_return(p.pipeline, batch));
  }
  pipeline_free(&p);
}

/* Any number of threads, batches and depths gives the bytes of one thread; so it is with records
 * that are passed over, the first one of a batch or its last one among them. */
TEST(s2_28_threads_do_not_change_the_batches) {
  static const int threads[] = {2, 3, 8}, sizes[] = {1, 2, 3, 4, 5, 16}, depths[] = {1, 2, 4};
  static const fixture_record records[] = {fixture_png, fixture_png_damaged, fixture_damaged_mixed};
  for (int r = 0; r < 3; ++r) {
    for (int b = 0; b < 6; ++b) {
      pipeline_options o = {.record = records[r],
                            .records = 13,
                            .batch_size = sizes[b],
                            .depth = 3,
                            .threads = 1,
                            .skip_corrupt = true,
                            .transform = "crop_size: 4 mirror: true"};
      trace wanted = {0};
      trace_run(&o, 40, &wanted);
      for (int t = 0; t < 3; ++t) {
        trace found = {0};
        o.threads = threads[t];
        o.depth = depths[(b + t) % 3];
        trace_run(&o, 40, &found);
        assert_int_equal(found.bytes.size, wanted.bytes.size);
        assert_memory_equal(found.bytes.data, wanted.bytes.data, wanted.bytes.size);
        cr_buffer_free(&found.bytes);
      }
      cr_buffer_free(&wanted.bytes);
    }
  }
}

/* What was done is counted. */
TEST(s2_30_statistics) {
  pipeline p;
  cr_input_stats input;
  const cr_pipeline_stats *stats = &input.pipeline;
  const pipeline_options o = {
      .record = fixture_png, .records = 9, .batch_size = 3, .depth = 2, .threads = 2};
  ok(pipeline_make(&p, &o));
  pipeline_start(&p);
  for (int k = 0; k < 10; ++k) {
    cr_batch *batch = NULL;
    ok(fixture_take(p.pipeline, &batch));
    cr_batch *other = NULL;
    ok(fixture_take(p.pipeline, &other));
    ok(fixture_return(p.pipeline, batch));
    ok(fixture_return(p.pipeline, other));
  }
  cr_pipeline_get_stats(p.pipeline, 0, &input);
  assert_true(stats->threads == 2 && stats->depth == 2);
  assert_int_equal(stats->batches, 20);
  assert_int_equal(stats->fill.count, 19);
  assert_true(stats->samples >= 60 && stats->samples <= 66);
  assert_true(stats->decode_seconds > 0 && stats->transform_seconds > 0);
  assert_true(stats->wait_seconds > 0);
  assert_true(cr_reader_get_stats(p.reader).records >= 60);
  pipeline_free(&p);
}

/* Batches before the damaged record arrive; after it every call names source and key. */
TEST(test_damaged_record_is_named) {
  pipeline p;
  cr_batch *batch = NULL;
  const pipeline_options o = {
      .record = fixture_png_damaged, .records = 8, .batch_size = 2, .depth = 4};
  ok(pipeline_make(&p, &o));
  pipeline_start(&p);
  ok(fixture_take(p.pipeline, &batch));
  assert_true(batch->top[1].values[1] == 1);
  for (int i = 0; i < 2; ++i) {
    assert_fails(fixture_take(p.pipeline, &batch), CREMA_E_CORRUPT, cr_reader_source(p.reader));
    assert_error_has("record '00000003'");
    assert_error_has("PNG");
  }
  pipeline_free(&p);
}

TEST(test_damaged_records_are_skipped_on_wish) {
  static const int labels[] = {0, 1, 2, 5, 6, 7};
  pipeline p;
  const pipeline_options o = {.record = fixture_png_damaged,
                              .records = 8,
                              .batch_size = 2,
                              .depth = 2,
                              .skip_corrupt = true};
  ok(pipeline_make(&p, &o));
  pipeline_start(&p);
  for (int k = 0; k < 12; ++k) {
    cr_batch *batch = NULL;
    ok(fixture_take(p.pipeline, &batch));
    for (int i = 0; i < 2; ++i)
      assert_true(batch->top[1].values[i] == (float)labels[(2 * k + i) % 6]);
    ok(fixture_return(p.pipeline, batch));
  }
  pipeline_free(&p);
}

static void put_garbage(int index, cr_buffer *value) {
  (void)index;
  ok(cr_buffer_append(value, "\x0f\x0f", 2));
}

/* Skipping ends when there is nothing but damage, also when the number of records is not known. */
TEST(test_nothing_but_damage) {
  static const char *const backends[] = {"lmdb", "leveldb"};
  for (int i = 0; i < 2; ++i) {
    pipeline p;
    const pipeline_options o = {.record = put_garbage,
                                .records = 5,
                                .batch_size = 2,
                                .depth = 2,
                                .skip_corrupt = true,
                                .backend = backends[i]};
    assert_fails(pipeline_make(&p, &o), CREMA_E_CORRUPT, "not a Datum");
    pipeline_free(&p);
  }
}

/* Pictures whose shape can be told, and whose pixels are damaged. */
static void put_damaged_pixels(int index, cr_buffer *value) {
  cr_image image = {0};
  fixture_image(&image, 20, 20, 3);
  fixture_encoded(&image, index, 0, 20, value); /* near the end of the pixels */
  cr_image_free(&image);
}

/* As put_damaged_pixels, but the first record is whole. */
static void put_damaged_after_first(int index, cr_buffer *value) {
  if (index > 0) put_damaged_pixels(index, value);
  else fixture_png(index, value);
}

/* The same when the damage shows only while batches are made: skipping does not go on for ever. */
TEST(test_nothing_but_damage_after_the_start) {
  static const char *const backends[] = {"lmdb", "leveldb"};
  for (int n = 0; n < 8; ++n) {
    pipeline p;
    cr_batch *batch = NULL;
    const pipeline_options o = {.record = n < 4 ? put_damaged_pixels : put_damaged_after_first,
                                .records = 5,
                                .batch_size = n < 4 ? 2 : 1,
                                .depth = 2,
                                .threads = 1 + n / 2 % 2 * 2,
                                .skip_corrupt = true,
                                .backend = backends[n % 2]};
    ok(pipeline_make(&p, &o));
    pipeline_start(&p);
    alarm(60); /* ends the test where skipping goes on for ever */
    if (n < 4) {
      assert_fails(fixture_take(p.pipeline, &batch), CREMA_E_CORRUPT, cr_reader_source(p.reader));
    } else {
      /* One good record in each epoch is enough. */
      for (int k = 0; k < 5; ++k) {
        ok(fixture_take(p.pipeline, &batch));
        assert_true(batch->top[1].values[0] == 0);
        ok(fixture_return(p.pipeline, batch));
      }
    }
    alarm(0);
    pipeline_free(&p);
  }
}

static void put_one_good(int index, cr_buffer *value) {
  if (index == 2) fixture_png(index, value);
  else put_garbage(index, value);
}

/* One good record of three is enough in any order of the epochs, also where it comes first in one
 * and last in the next. */
FIXTURE_TEST(test_one_good_record_is_enough) {
  const fixture *f = *state;
  cr_transformer *transformer = NULL;
  const char *path = fixture_db(f, "db", 3, put_one_good);
  ok(cr_transformer_create(NULL, CAFFE__PHASE__TRAIN, 9, NULL, &transformer));
  for (uint64_t key = 0; key < 4; ++key) {
    cr_reader *reader = NULL;
    cr_datum_source *source = NULL;
    cr_pipeline *made = NULL;
    const cr_reader_options read = {.backend = "lmdb",
                                    .source = path,
                                    .consumers = 1,
                                    .depth = 2,
                                    .shuffle = true,
                                    .order_key = key};
    ok(cr_reader_open(&read, &reader));
    const cr_datum_source_options options = {.records = {.reader = reader, .skip_corrupt = true},
                                             .transformer = transformer,
                                             .items = 1,
                                             .tops = 2,
                                             .threads = 1};
    ok(fixture_pipeline(&options, 2, &source, &made));
    ok(cr_pipeline_start(made, 0));
    for (int k = 0; k < 50; ++k) {
      cr_batch *batch = NULL;
      ok(fixture_take(made, &batch));
      assert_true(batch->top[1].values[0] == 2);
      ok(fixture_return(made, batch));
    }
    cr_pipeline_destroy(made);
    cr_datum_source_destroy(source);
    cr_reader_close(reader);
  }
  cr_transformer_destroy(transformer);
}

/* Batches that are taken apart for records that are passed over are used again: with as many
 * threads as make it likely, long after each of them was. */
TEST(test_passing_over_loses_no_batch) {
  enum { BATCH = 2, DEPTH = 4, BATCHES = 300, LAST = 100 };
  static const int labels[] = {0, 2, 3, 5, 6, 7, 11};
  pipeline p;
  bool seen[DEPTH] = {false};
  const pipeline_options o = {.record = fixture_damaged_mixed,
                              .records = 13,
                              .batch_size = BATCH,
                              .depth = DEPTH,
                              .threads = 3,
                              .skip_corrupt = true};
  ok(pipeline_make(&p, &o));
  pipeline_start(&p);
  for (int k = 0; k < BATCHES; ++k) {
    cr_batch *batch = NULL;
    ok(fixture_take(p.pipeline, &batch));
    for (int i = 0; i < BATCH; ++i) {
      assert_true(batch->top[1].values[i] == (float)labels[(BATCH * k + i) % 7]);
    }
    if (k >= BATCHES - LAST) seen[batch - p.pipeline->batch] = true;
    ok(fixture_return(p.pipeline, batch));
  }
  for (int i = 0; i < DEPTH; ++i) assert_true(seen[i]);
  pipeline_free(&p);
}

static void put_damaged_first(int index, cr_buffer *value) {
  if (index == 0) put_garbage(index, value);
  else fixture_png(index, value);
}

static int threads_of(fixture_record record, bool skip_corrupt) {
  pipeline p;
  cr_input_stats stats;
  const pipeline_options o = {
      .record = record, .records = 5, .batch_size = 2, .depth = 2, .skip_corrupt = skip_corrupt};
  ok(pipeline_make(&p, &o));
  cr_pipeline_get_stats(p.pipeline, 0, &stats);
  pipeline_free(&p);
  return stats.pipeline.threads;
}

/* By default the number depends on the processors that the process may use. */
TEST(test_threads_by_themselves) {
  cpu_set_t all, some;
  int processors = 0;
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&some);
  for (int i = 0; i < CPU_SETSIZE && processors < 4; ++i) {
    if (!CPU_ISSET(i, &all)) continue;
    CPU_SET(i, &some);
    assert_int_equal(sched_setaffinity(0, sizeof some, &some), 0);
    int wanted = ++processors < 3 ? 1 : processors - 1;
    assert_int_equal(threads_of(fixture_png, false), wanted);
    assert_int_equal(threads_of(put_damaged_first, true), wanted);
    assert_int_equal(threads_of(fixture_color, false), 1);
  }
  assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

TEST(s2_21_sizes_may_differ_in_batches_of_one_only) {
  pipeline p;
  cr_batch *batch = NULL;
  pipeline_options o = {.record = fixture_mixed, .records = 6, .batch_size = 1, .depth = 2};
  ok(pipeline_make(&p, &o));
  pipeline_start(&p);
  for (int k = 0; k < 12; ++k) {
    ok(fixture_take(p.pipeline, &batch));
    assert_int_equal((int)batch->top[0].shape.dim[2], k % 3 == 2 ? 5 : 4);
    assert_true(batch->top[0].values[(int)batch->top[0].shape.dim[2] * 5 - 1] == (float)(k % 6));
    ok(fixture_return(p.pipeline, batch));
  }
  pipeline_free(&p);
  o.batch_size = 6;
  ok(pipeline_make(&p, &o));
  pipeline_start(&p);
  assert_fails(fixture_take(p.pipeline, &batch), CREMA_E_SHAPE, "record '00000002'");
  assert_error_has("1 x 5 x 5");
  assert_error_has("1 x 4 x 5");
  pipeline_free(&p);
  /* A crop makes them equal. */
  o.transform = "crop_size: 3";
  ok(pipeline_make(&p, &o));
  pipeline_start(&p);
  ok(fixture_take(p.pipeline, &batch));
  pipeline_free(&p);
}

/* Raw, 2 x 4 x 5 values; record 3 has one channel, row or column less, or one more. */
static int odd_one;

static void put_odd_one(int index, cr_buffer *value) {
  static const int sizes[][3] = {{1, 4, 5}, {2, 3, 5}, {2, 4, 4}, {3, 4, 5}, {2, 5, 5}, {2, 4, 6}};
  static uint8_t pixels[3 * 5 * 6];
  const int usual[3] = {2, 4, 5}, *size = index == 3 ? sizes[odd_one] : usual;
  const cr_datum datum = {.channels = size[0],
                          .height = size[1],
                          .width = size[2],
                          .data = pixels,
                          .size = (size_t)(size[0] * size[1] * size[2])};
  ok(cr_datum_append(&datum, value));
}

TEST(s2_21_one_size_in_a_batch) {
  for (odd_one = 0; odd_one < 6; ++odd_one) {
    pipeline p;
    cr_batch *batch = NULL;
    const pipeline_options o = {.record = put_odd_one,
                                .records = 6,
                                .batch_size = 2,
                                .depth = 2,
                                .threads = 1 + odd_one % 2};
    ok(pipeline_make(&p, &o));
    pipeline_start(&p);
    ok(fixture_take(p.pipeline, &batch));
    assert_fails(fixture_take(p.pipeline, &batch), CREMA_E_SHAPE, "record '00000003'");
    assert_error_has("2 x 4 x 5");
    pipeline_free(&p);
  }
}

/* ---- memory -------------------------------------------------------------- */

enum { MAPS = 16 };
static struct {
  void *memory;
  size_t bytes;
} map[MAPS];
static int maps_made, maps_freed;

/* Pages that nobody has touched yet. */
static void *map_alloc(void *user, size_t bytes, size_t alignment) {
  (void)user;
  assert_true(alignment <= 4096 && maps_made < MAPS);
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  map[maps_made].memory = memory;
  map[maps_made++].bytes = bytes;
  return memory;
}

static void map_free(void *user, void *memory) {
  (void)user;
  for (int i = 0; i < maps_made; ++i) {
    if (map[i].memory != memory) continue;
    assert_int_equal(munmap(memory, map[i].bytes), 0);
    map[i].memory = NULL;
    ++maps_freed;
    return;
  }
  fail_msg("%p was not allocated", memory);
}

static const crema_host_allocator mapping = {map_alloc, map_free, NULL};

/* All pages of all batches are there before the threads start. */
TEST(s2_19_batches_are_touched_before_the_start) {
  enum { BATCH = 2048, PAGES = 64 };
  pipeline p;
  maps_made = maps_freed = 0;
  const pipeline_options o = {
      .record = fixture_gray, .records = 5, .batch_size = BATCH, .depth = 3, .threads = 1};
  cr_host_set_allocator(&mapping);
  ok(pipeline_make(&p, &o));
  assert_int_equal(maps_made, 3 * 2); /* data and label */
  for (int i = 0; i < maps_made; ++i) {
    unsigned char resident[PAGES];
    size_t pages = (map[i].bytes + 4095) / 4096;
    assert_in_range(pages, BATCH * sizeof(float) / 4096, PAGES);
    assert_int_equal(mincore(map[i].memory, map[i].bytes, resident), 0);
    for (size_t k = 0; k < pages; ++k) assert_true(resident[k] & 1);
  }
  pipeline_free(&p);
  cr_host_set_allocator(NULL);
  assert_int_equal(maps_freed, maps_made);
}

/* Batches that grow with their records give the smaller memory back. */
TEST(s2_21_a_batch_that_grows_leaks_nothing) {
  pipeline p;
  maps_made = maps_freed = 0;
  const pipeline_options o = {
      .record = fixture_mixed, .records = 6, .batch_size = 1, .depth = 2, .threads = 1};
  cr_host_set_allocator(&mapping);
  ok(pipeline_make(&p, &o));
  int made = maps_made;
  pipeline_start(&p);
  for (int k = 0; k < 12; ++k) {
    cr_batch *batch = NULL;
    ok(fixture_take(p.pipeline, &batch));
    ok(fixture_return(p.pipeline, batch));
  }
  pipeline_free(&p);
  cr_host_set_allocator(NULL);
  assert_int_equal(maps_made, made + 2);
  assert_int_equal(maps_freed, maps_made);
}

FIXTURE_TEST(test_batches_that_cannot_be) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  cr_transformer *transformer = NULL;
  cr_datum_source *source = NULL;
  const cr_reader_options read = {.backend = "lmdb",
                                  .source = fixture_db(f, "db", 3, fixture_gray),
                                  .consumers = 1,
                                  .depth = 3};
  ok(cr_reader_open(&read, &reader));
  ok(cr_transformer_create(NULL, CAFFE__PHASE__TRAIN, 9, NULL, &transformer));
  cr_datum_source_options options = {.records = {.reader = reader},
                                     .transformer = transformer,
                                     .items = 4,
                                     .tops = 1,
                                     .threads = 1};
  /* The pipeline holds all records of a batch at once. */
  assert_fails(cr_datum_source_create(&options, &source), CREMA_E_ARGUMENT, read.source);
  assert_null(source);
  options.items = 0;
  assert_int_equal(cr_datum_source_create(&options, &source), CREMA_E_ARGUMENT);
  options.items = 3;
  ok(cr_datum_source_create(&options, &source));
  cr_datum_source_destroy(source);
  cr_transformer_destroy(transformer);
  cr_reader_close(reader);
}

static void stop_often(int threads) {
  pipeline p;
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 11);
  const pipeline_options o = {
      .record = fixture_gray, .records = 9, .batch_size = 2, .depth = 2, .threads = threads};
  int cycles = fixture_cycles(300);
  ok(pipeline_make(&p, &o));
  for (int i = 0; i < cycles; ++i) {
    pipeline_start(&p);
    uint32_t batches = cr_mt19937_below(&rng, 4);
    for (uint32_t k = 0; k < batches; ++k) {
      cr_batch *batch = NULL;
      ok(fixture_take(p.pipeline, &batch));
      assert_true(batch->top[1].values[0] == (float)(2 * k));
      /* The last one is still held when everything stops. */
      if (k + 1 < batches) ok(fixture_return(p.pipeline, batch));
    }
    if (cr_mt19937_below(&rng, 4) == 0) cr_clock_sleep(1e-5);
    pipeline_stop(&p);
  }
  pipeline_free(&p);
}

TEST(s2_05_stops_at_any_moment) {
  stop_often(1);
  stop_often(3);
}

/* A failure leaves threads that stop as usual. */
TEST(test_stops_after_a_failure) {
  pipeline p;
  cr_batch *batch = NULL;
  const pipeline_options o = {
      .record = fixture_png_damaged, .records = 5, .batch_size = 3, .depth = 1};
  ok(pipeline_make(&p, &o));
  pipeline_start(&p);
  ok(fixture_take(p.pipeline, &batch));
  ok(fixture_return(p.pipeline, batch));
  assert_int_equal(fixture_take(p.pipeline, &batch), CREMA_E_CORRUPT);
  pipeline_stop(&p);
  pipeline_free(&p);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
