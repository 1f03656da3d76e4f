/* Random walks of readers and pipelines against a plain model of what they should deliver: back
 * ends, batch sizes, epochs in any order, damaged records, threads, several consumers; stopped at
 * any batch, resumed in the same reader or in a new one. The seed is printed; CREMA_TEST_SEED sets
 * it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "core/rng.h"
#include "data/pipeline/order.h"
#include "data/pipeline/pipeline.h"
#include "fixture.h"

enum { MAX_RECORDS = 40, MAX_CONSUMERS = 3 };

typedef struct walk {
  cr_mt19937 *rng;
  fixture f;
  const char *backend, *path;
  int records, consumers, batch_size, depth, threads;
  bool cache, shuffle, skip_corrupt;
  uint64_t skip, order_key;
  cr_order order;
  /* The pipeline. */
  cr_reader *reader;
  cr_transformer *transformer;
  cr_datum_source *source[MAX_CONSUMERS];
  cr_pipeline *pipeline[MAX_CONSUMERS];
  /* The model: the number of the next record of each consumer. */
  uint64_t next[MAX_CONSUMERS];
  /* The cursor of each consumer, after the last batch that it took. */
  cr_reader_cursor cursor[MAX_CONSUMERS];
  char key[MAX_CONSUMERS][16];
} walk;

static bool damaged[MAX_RECORDS];

static void put_record(int index, cr_buffer *value) {
  if (damaged[index]) ok(cr_buffer_append(value, "\x0f\x0f", 2));
  else fixture_gray(index, value);
}

static int draw(walk *w, int below) {
  return (int)cr_mt19937_below(w->rng, (uint32_t)below);
}

/* ---- the model ----------------------------------------------------------- */

/* Which record of the database has number `index`. */
static int record_at(walk *w, uint64_t index) {
  uint64_t position = w->skip % (uint64_t)w->records + index;
  size_t at = (size_t)(position % (uint64_t)w->records);
  if (w->shuffle && position >= (uint64_t)w->records) {
    ok(cr_order_at(&w->order, position, &at));
  }
  return (int)at;
}

/* The next record that is not passed over. */
static int next_record(walk *w, int consumer) {
  for (;;) {
    int record = record_at(w, w->next[consumer]);
    w->next[consumer] += (uint64_t)w->consumers;
    if (!damaged[record]) return record;
  }
}

/* ---- the pipeline -------------------------------------------------------- */

static void open_pipeline(walk *w, uint64_t skip, uint64_t order_key) {
  const cr_reader_options options = {.backend = w->backend,
                                     .source = w->path,
                                     .consumers = w->consumers,
                                     .depth = w->batch_size * w->depth,
                                     .skip = skip,
                                     .cache = w->cache,
                                     .shuffle = w->shuffle,
                                     .order_key = order_key};
  ok(cr_reader_open(&options, &w->reader));
  for (int c = 0; c < w->consumers; ++c) {
    const cr_datum_source_options source = {
        .records = {.reader = w->reader, .consumer = c, .skip_corrupt = w->skip_corrupt},
        .transformer = w->transformer,
        .items = w->batch_size,
        .tops = 2,
        .threads = w->threads};
    if (fixture_pipeline(&source, w->depth, &w->source[c], &w->pipeline[c]) != CREMA_OK) {
      fail_msg("%s", crema_error_text());
    }
  }
}

static void close_pipeline(walk *w) {
  for (int c = 0; c < w->consumers; ++c) {
    cr_pipeline_destroy(w->pipeline[c]);
    cr_datum_source_destroy(w->source[c]);
    w->pipeline[c] = NULL;
    w->source[c] = NULL;
  }
  cr_reader_close(w->reader);
  w->reader = NULL;
}

static void stop(walk *w) {
  for (int c = 0; c < w->consumers; ++c) cr_pipeline_stop(w->pipeline[c]);
}

/* Begins at the cursors; the consumers come in any order. */
static void start(walk *w) {
  int first = draw(w, w->consumers);
  for (int i = 0; i < w->consumers; ++i) {
    int c = (first + i) % w->consumers;
    if (w->cursor[c].index > 0 && cr_reader_resume(w->reader, c, &w->cursor[c]) != CREMA_OK) {
      fail_msg("%s", crema_error_text());
    }
  }
  for (int c = 0; c < w->consumers; ++c) {
    ok(cr_pipeline_start(w->pipeline[c], 0));
  }
}

static void take_batch(walk *w, int c) {
  cr_batch *batch = NULL;
  cr_db_bytes key;
  ok(fixture_take(w->pipeline[c], &batch));
  assert_int_equal(batch->items, w->batch_size);
  int record = -1;
  for (int i = 0; i < w->batch_size; ++i) {
    record = next_record(w, c);
    assert_true(batch->top[1].values[i] == (float)record);
    for (int v = 0; v < 20; ++v) assert_true(batch->top[0].values[i * 20 + v] == (float)record);
  }
  uint64_t index = cr_record_source_cursor(batch, &key);
  assert_int_equal(index, w->next[c] - (uint64_t)w->consumers + 1);
  assert_int_equal(key.size, 8);
  memcpy(w->key[c], key.data, 8);
  assert_int_equal(atoi(w->key[c]), record);
  cr_reader_note_cursor(w->reader, &w->cursor[c]);
  w->cursor[c].index = index;
  w->cursor[c].key = (cr_db_bytes){(const uint8_t *)w->key[c], 8};
  ok(fixture_return(w->pipeline[c], batch));
}

/* ---- walking ------------------------------------------------------------- */

static void choose(walk *w) {
  static const char *const backends[] = {"lmdb", "leveldb"};
  w->backend = backends[draw(w, 2)];
  w->records = 1 + draw(w, MAX_RECORDS);
  w->consumers = 1 + draw(w, MAX_CONSUMERS);
  w->batch_size = 1 + draw(w, 9);
  w->depth = 1 + draw(w, 4);
  w->threads = 1 + draw(w, 3);
  w->shuffle = draw(w, 2) == 0;
  w->cache = w->shuffle || draw(w, 2) == 0;
  w->skip = draw(w, 3) == 0 ? (uint64_t)draw(w, 100) : 0;
  w->order_key = (uint64_t)draw(w, 1000);
  w->order = (cr_order){.key = w->order_key, .count = (size_t)w->records, .shuffle = true};
  /* Consumers that pass over different numbers of records get ahead of each other: one only. */
  w->skip_corrupt = w->consumers == 1 && draw(w, 2) == 0;
  memset(damaged, 0, sizeof damaged);
  for (int i = 0; w->skip_corrupt && i + 1 < w->records; ++i) damaged[i] = draw(w, 3) == 0;
  for (int c = 0; c < w->consumers; ++c) w->next[c] = (uint64_t)c;
}

static void walk_once(cr_mt19937 *rng) {
  enum { STEPS = 60 };
  walk w = {.rng = rng};
  fixture_make(&w.f);
  choose(&w);
  w.path = fixture_db_of(&w.f, w.backend, "db", w.records, put_record);
  ok(cr_transformer_create(NULL, CAFFE__PHASE__TRAIN, 9, NULL, &w.transformer));
  open_pipeline(&w, w.skip, w.order_key);
  start(&w);
  for (int step = 0; step < STEPS; ++step) {
    int what = draw(&w, 16);
    for (int c = 0; what >= 2 && c < w.consumers; ++c) take_batch(&w, c);
    if (what >= 2) continue;
    stop(&w);
    if (what == 1) {
      /* Another process, with settings of its own; those of the cursors count. */
      bool begun = w.cursor[0].index > 0;
      close_pipeline(&w);
      w.depth = 1 + draw(&w, 4);
      w.threads = 1 + draw(&w, 3);
      open_pipeline(&w, begun ? (uint64_t)draw(&w, 50) : w.skip,
                    begun ? (uint64_t)draw(&w, 1000) : w.order_key);
    }
    start(&w);
  }
  close_pipeline(&w);
  cr_transformer_destroy(w.transformer);
  cr_order_free(&w.order);
  fixture_remove(&w.f);
}

TEST(batches_are_those_of_the_model) {
  const char *given = getenv("CREMA_TEST_SEED");
  uint32_t seed = given != NULL ? (uint32_t)atoi(given) : (uint32_t)time(NULL);
  int walks = fixture_cycles(10);
  for (int i = 0; i < walks; ++i) {
    cr_mt19937 rng;
    print_message("seed %u, walk %d\n", seed, i);
    cr_mt19937_seed(&rng, seed + (uint32_t)i * 7919);
    alarm(120); /* ends a walk that hangs */
    walk_once(&rng);
    alarm(0);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
