/* The input pipeline against the machine's own limits, in one run: medians over interleaved rounds
 * of the ratio of neighbours.
 *
 *   JPEGs of 256 x 256 in an LMDB, cropped to 227, mirrored, mean subtracted, in batches of 64,
 *   against libjpeg-turbo alone, which decodes the same files with as many threads, its handle and
 *   its buffer used again for every picture; raw records of the same pictures against memcpy on
 *   one thread, with the number of threads that crema chooses by itself and with others; a step
 * that computes for 10 ms while a batch that takes 8 ms to make is made and copied to a simulated
 * device. Usage: input [ROUNDS] */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>
#include <unistd.h>

#include "../tests/image_file.h"
#include "core/clock.h"
#include "core/rng.h"
#include "core/thread.h"
#include "data/pipeline/datum_source.h"
#include "device/memory/device_memory.h"
#include "device/sim/sim.h"
#include "memory/syncedmem.h"

enum { IMAGES = 512, SIDE = 256, BATCH = 64, ROUNDS_MAX = 101, THREADS_MAX = 16 };

static void check(crema_status status, const char *what) {
  if (status == CREMA_OK) return;
  fprintf(stderr, "%s: %s\n", what, crema_error_text());
  exit(1);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *value, int count) {
  qsort(value, (size_t)count, sizeof *value, compare);
  return value[count / 2];
}

/* ---- databases ----------------------------------------------------------- */

typedef struct picture_set {
  char folder[64];
  char encoded[96], raw[96]; /* paths of the databases */
  cr_buffer file[IMAGES];    /* the JPEGs */
} picture_set;

/* A window of the photograph resized to SIDE x SIDE, with a little noise like a sensor's. */
static void make_picture(const cr_image *photo, cr_mt19937 *rng, cr_image *out) {
  cr_image window = {0};
  int side = 200 + (int)cr_mt19937_below(rng, 100);
  check(cr_image_reserve(&window, side, side, 3), "window");
  int top = (int)cr_mt19937_below(rng, (uint32_t)(photo->height - side + 1));
  int left = (int)cr_mt19937_below(rng, (uint32_t)(photo->width - side + 1));
  for (int y = 0; y < side; ++y) {
    memcpy(window.pixels + (size_t)y * (size_t)side * 3,
           photo->pixels + (size_t)((top + y) * photo->width + left) * 3, (size_t)side * 3);
  }
  check(cr_image_resize(&window, SIDE, SIDE, out), "resize");
  for (int i = 0; i < SIDE * SIDE * 3; ++i) {
    int value = out->pixels[i] + (int)cr_mt19937_below(rng, 9) - 4;
    out->pixels[i] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
  }
  cr_image_free(&window);
}

static void put(cr_db_txn *txn, int index, const cr_datum *datum) {
  cr_buffer value = {0};
  char key[16];
  int length = snprintf(key, sizeof key, "%08d", index);
  check(cr_datum_append(datum, &value), "datum");
  check(cr_db_put(txn, (cr_db_bytes){(const uint8_t *)key, (size_t)length},
                  (cr_db_bytes){(const uint8_t *)value.data, value.size}),
        "put");
  cr_buffer_free(&value);
}

static void put_raw(cr_db_txn *txn, int index, const cr_image *image) {
  static uint8_t planes[3 * SIDE * SIDE];
  for (int i = 0; i < SIDE * SIDE * 3; ++i) planes[i % 3 * SIDE * SIDE + i / 3] = image->pixels[i];
  const cr_datum datum = {
      .channels = 3, .height = SIDE, .width = SIDE, .data = planes, .size = sizeof planes};
  put(txn, index, &datum);
}

static void make_set(picture_set *set) {
  cr_image photo = {0}, image = {0};
  cr_db *encoded = NULL, *raw = NULL;
  cr_db_txn *encoded_txn = NULL, *raw_txn = NULL;
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 3);
  snprintf(set->folder, sizeof set->folder, "/tmp/crema-bench-XXXXXX");
  if (mkdtemp(set->folder) == NULL) exit(1);
  snprintf(set->encoded, sizeof set->encoded, "%s/encoded", set->folder);
  snprintf(set->raw, sizeof set->raw, "%s/raw", set->folder);
  check(read_image(CREMA_SOURCE_DIR "/examples/images/cat.jpg", CR_IMAGE_COLOR, &photo), "cat");
  check(cr_db_open("lmdb", set->encoded, CR_DB_NEW, &encoded), "database");
  check(cr_db_open("lmdb", set->raw, CR_DB_NEW, &raw), "database");
  check(cr_db_txn_begin(encoded, &encoded_txn), "begin");
  check(cr_db_txn_begin(raw, &raw_txn), "begin");
  for (int i = 0; i < IMAGES; ++i) {
    make_picture(&photo, &rng, &image);
    check(cr_image_encode(&image, "jpg", &set->file[i]), "encode");
    const cr_datum datum = {.data = (const uint8_t *)set->file[i].data,
                            .size = set->file[i].size,
                            .label = i,
                            .encoded = true,
                            .has_encoded = true};
    put(encoded_txn, i, &datum);
    put_raw(raw_txn, i, &image);
  }
  check(cr_db_commit(encoded_txn), "commit");
  check(cr_db_commit(raw_txn), "commit");
  check(cr_db_finish(encoded, CREMA_OK), "finish");
  check(cr_db_finish(raw, CREMA_OK), "finish");
  cr_image_free(&image);
  cr_image_free(&photo);
}

static void remove_folder(const char *path) {
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0 || !cr_file_empty_folder(folder) || rmdir(path) != 0) exit(1);
  close(folder);
}

static void free_set(picture_set *set) {
  for (int i = 0; i < IMAGES; ++i) cr_buffer_free(&set->file[i]);
  remove_folder(set->encoded);
  remove_folder(set->raw);
  rmdir(set->folder);
}

/* ---- the pipeline -------------------------------------------------------- */

typedef struct pipeline {
  cr_reader *reader;
  cr_transformer *transformer;
  cr_datum_source *source;
  cr_pipeline *pipeline;
} pipeline;

static void open_pipeline(pipeline *p, const char *source, int threads, int batch_size) {
  enum { DEPTH = 4 };
  Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
  float mean[3] = {104, 117, 123};
  param.crop_size = 227;
  param.mirror = true;
  param.mean_value = mean;
  param.n_mean_value = 3;
  const cr_reader_options options = {
      .backend = "lmdb", .source = source, .consumers = 1, .depth = DEPTH * batch_size};
  check(cr_reader_open(&options, &p->reader), "reader");
  check(cr_transformer_create(&param, CAFFE__PHASE__TRAIN, 1, NULL, &p->transformer),
        "transformer");
  const cr_datum_source_options wanted = {.records = {.reader = p->reader},
                                          .transformer = p->transformer,
                                          .items = batch_size,
                                          .tops = 2,
                                          .threads = threads};
  check(cr_datum_source_create(&wanted, &p->source), "source");
  cr_pipeline_options made = cr_datum_source_pipeline(p->source);
  made.depth = DEPTH;
  check(cr_pipeline_create(&made, &p->pipeline), "pipeline");
}

static void close_pipeline(pipeline *p) {
  cr_pipeline_destroy(p->pipeline);
  cr_datum_source_destroy(p->source);
  cr_transformer_destroy(p->transformer);
  cr_reader_close(p->reader);
}

/* Seconds from the first thread's start to the last batch. */
static double run_pipeline(pipeline *p, int batches) {
  double start = cr_clock_seconds();
  check(cr_pipeline_start(p->pipeline, 0), "start");
  for (int i = 0; i < batches; ++i) {
    cr_batch *batch = NULL;
    check(cr_pipeline_take(p->pipeline, 0, NULL, &batch), "take");
    check(cr_pipeline_give_back(p->pipeline, 0, NULL, batch), "give back");
  }
  double seconds = cr_clock_seconds() - start;
  cr_pipeline_stop(p->pipeline);
  return seconds;
}

/* ---- JPEG ---------------------------------------------------------------- */

typedef struct decoder {
  const picture_set *set;
  int first, step, count;
  cr_thread *thread;
} decoder;

static crema_status decode_files(void *arg) {
  const decoder *d = arg;
  uint8_t *pixels = malloc(SIDE * SIDE * 3);
  tjhandle jpeg = tjInitDecompress();
  for (int i = d->first; i < d->count; i += d->step) {
    const cr_buffer *file = &d->set->file[i % IMAGES];
    if (tjDecompress2(jpeg, (const uint8_t *)file->data, file->size, pixels, SIDE, 0, SIDE,
                      TJPF_BGR, 0) != 0) {
      exit(1);
    }
  }
  tjDestroy(jpeg);
  free(pixels);
  return CREMA_OK;
}

static double run_decoder(const picture_set *set, int threads, int count) {
  decoder d[THREADS_MAX];
  double start = cr_clock_seconds();
  for (int i = 0; i < threads; ++i) {
    d[i] = (decoder){.set = set, .first = i, .step = threads, .count = count};
    check(cr_thread_start(&d[i].thread, "decode", decode_files, &d[i]), "thread");
  }
  for (int i = 0; i < threads; ++i) check(cr_thread_join(&d[i].thread), "join");
  return cr_clock_seconds() - start;
}

/* Prints "automatic, 3 threads" for 0, and how long a thread works on a picture. */
static void print_threads(const char *what, int asked, const pipeline *p) {
  cr_input_stats input;
  cr_pipeline_get_stats(p->pipeline, 0, &input);
  const cr_pipeline_stats *stats = &input.pipeline;
  double picture = 1e6 / (double)stats->samples;
  printf("%s, %s%d thread%s (%.0f us decoding, %.0f us transforming a picture): ", what,
         asked == 0 ? "automatic, " : "", stats->threads, stats->threads == 1 ? "" : "s",
         picture * stats->decode_seconds, picture * stats->transform_seconds);
}

static int threads_of(const pipeline *p) {
  cr_input_stats stats;
  cr_pipeline_get_stats(p->pipeline, 0, &stats);
  return stats.pipeline.threads;
}

static void bench_jpeg(const picture_set *set, int rounds) {
  static const int threads[] = {1, 2, 4, 0};
  enum { BATCHES = 24 };
  for (int t = 0; t < 4; ++t) {
    pipeline p;
    double ratio[ROUNDS_MAX], ours[ROUNDS_MAX];
    open_pipeline(&p, set->encoded, threads[t], BATCH);
    run_pipeline(&p, 4);
    for (int r = 0; r < rounds; ++r) {
      double alone = run_decoder(set, threads_of(&p), BATCHES * BATCH);
      ours[r] = run_pipeline(&p, BATCHES);
      ratio[r] = alone / ours[r];
    }
    print_threads("JPEG", threads[t], &p);
    printf("%.0f images/s, %.1f %% of libjpeg-turbo alone (target: 90)\n",
           BATCHES * BATCH / median(ours, rounds), 100 * median(ratio, rounds));
    close_pipeline(&p);
  }
}

/* ---- raw records --------------------------------------------------------- */

static void bench_raw(const picture_set *set, int rounds) {
  static const int threads[] = {0, 1, 2, 3};
  enum { BATCHES = 24 };
  size_t bytes = (size_t)IMAGES * SIDE * SIDE * 3;
  uint8_t *from = malloc(bytes), *to = malloc(bytes);
  if (from == NULL || to == NULL) exit(1);
  memset(from, 1, bytes);
  memset(to, 2, bytes);
  for (int t = 0; t < 4; ++t) {
    pipeline p;
    double ratio[ROUNDS_MAX], ours[ROUNDS_MAX];
    open_pipeline(&p, set->raw, threads[t], BATCH);
    run_pipeline(&p, 8);
    for (int r = 0; r < rounds; ++r) {
      double start = cr_clock_seconds();
      memcpy(to, from, bytes);
      double copied = (double)bytes / (cr_clock_seconds() - start);
      ours[r] = (double)BATCHES * BATCH * SIDE * SIDE * 3 / run_pipeline(&p, BATCHES);
      ratio[r] = ours[r] / copied;
    }
    print_threads("raw", threads[t], &p);
    printf("%.2f GB/s of records, %.1f %% of memcpy%s\n", 1e-9 * median(ours, rounds),
           100 * median(ratio, rounds), threads[t] == 0 ? " (target: 60)" : "");
    close_pipeline(&p);
  }
  printf("  (each byte of a record becomes %.2f bytes of the batch; memcpy counts bytes copied)\n",
         4.0 * 227 * 227 / (SIDE * SIDE));
  free(to);
  free(from);
}

/* ---- overlap ------------------------------------------------------------- */

static double time_batch(pipeline *p) {
  enum { COUNT = 40 };
  return run_pipeline(p, COUNT) / COUNT;
}

/* A batch size whose batches take 8 ms on one thread. */
static int find_batch_size(const picture_set *set, double *seconds) {
  pipeline p;
  int size = 8;
  for (int tries = 0; tries < 3; ++tries) {
    open_pipeline(&p, set->encoded, 1, size);
    *seconds = time_batch(&p);
    close_pipeline(&p);
    int better = (int)(size * 0.008 / *seconds + 0.5);
    if (better == size || better < 1) break;
    size = better;
  }
  return size;
}

static void bench_step(const picture_set *set, int rounds) {
  enum { STEPS = 50 };
  crema_context *context = NULL;
  crema_device *device = NULL;
  crema_devptr memory = {0};
  cr_sim_options options = cr_sim_defaults();
  double step[ROUNDS_MAX], load = 0;
  check(cr_sim_start(&options), "simulation");
  check(crema_device_get(CREMA_DEVICE_SIM, 0, &device), "device");
  check(crema_context_create(device, 0, &context), "context");
  int size = find_batch_size(set, &load);
  size_t bytes = (size_t)size * 3 * 227 * 227 * sizeof(float);
  check(cr_device_alloc(device, bytes, &memory), "memory");
  pipeline p;
  open_pipeline(&p, set->encoded, 1, size);
  for (int r = 0; r < rounds; ++r) {
    cr_batch *held = NULL;
    double start = 0;
    check(cr_pipeline_start(p.pipeline, 0), "start");
    for (int i = -4; i < STEPS; ++i) {
      if (i == 0) start = cr_clock_seconds();
      cr_batch *batch = NULL;
      check(cr_pipeline_take(p.pipeline, 0, NULL, &batch), "take");
      double end = cr_clock_seconds() + 0.010;
      /* The copy overlaps the computing; the batch before it has been used. */
      check(device->backend->copy(context, CR_COPY_HOST_TO_DEVICE, memory.address,
                                  (uintptr_t)batch->top[0].values, bytes),
            "copy");
      if (held != NULL) check(cr_pipeline_give_back(p.pipeline, 0, NULL, held), "give back");
      held = batch;
      cr_clock_sleep(end - cr_clock_seconds());
      check(crema_context_finish(context), "finish");
    }
    step[r] = (cr_clock_seconds() - start) / STEPS;
    cr_pipeline_stop(p.pipeline);
  }
  printf("a step that loads %d images in %.2f ms and computes for 10 ms: %.2f ms (target: 10.5)\n",
         size, 1e3 * load, 1e3 * median(step, rounds));
  close_pipeline(&p);
  cr_device_free(device, memory);
  crema_context_destroy(context);
  cr_sim_stop(NULL);
}

int main(int argc, char **argv) {
  static picture_set set;
  int rounds = argc > 1 ? atoi(argv[1]) : 9;
  if (rounds < 1 || rounds > ROUNDS_MAX) rounds = 9;
  make_set(&set);
  size_t bytes = 0;
  for (int i = 0; i < IMAGES; ++i) bytes += set.file[i].size;
  printf("%d JPEGs of %zu bytes on average, medians of %d rounds\n", IMAGES, bytes / IMAGES,
         rounds);
  bench_jpeg(&set, rounds);
  bench_raw(&set, rounds);
  bench_step(&set, rounds < 5 ? rounds : 5);
  free_set(&set);
  return 0;
}
