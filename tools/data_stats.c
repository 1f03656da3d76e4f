/* crema data_stats: the content of a database. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core/fail.h"
#include "data/augment/annotated.h"
#include "data/augment/sample.h"
#include "data/db/db.h"
#include "db_writer.h"

enum { SHAPES = 16, MEAN_CHANNELS = 64, NAMED = 10 };

typedef struct shape_count {
  int channels, height, width;
  uint64_t count;
} shape_count;

typedef struct label_count {
  int label;
  uint64_t count;
} label_count;

typedef struct data_stats {
  const char *path;
  int64_t named; /* damaged records whose keys are printed */
  cr_sample sample;
  cr_annotated annotated;
  uint64_t with_boxes, boxes;
  uint64_t records, encoded, corrupt, bytes;
  shape_count shape[SHAPES];
  int shapes;
  uint64_t other_shapes; /* records of shapes beyond those */
  label_count *label;    /* in the order of the labels */
  size_t labels, label_capacity;
  double sum[MEAN_CHANNELS];
  uint64_t values[MEAN_CHANNELS];
} data_stats;

/* ---- one record ---------------------------------------------------------- */

static void count_shape(data_stats *s, const cr_pixels *pixels) {
  for (int i = 0; i < s->shapes; ++i) {
    shape_count *shape = &s->shape[i];
    if (shape->channels == pixels->channels && shape->height == pixels->height &&
        shape->width == pixels->width) {
      ++shape->count;
      return;
    }
  }
  if (s->shapes == SHAPES) {
    ++s->other_shapes;
    return;
  }
  s->shape[s->shapes++] = (shape_count){pixels->channels, pixels->height, pixels->width, 1};
}

/* The first label that is not below `label`, by binary search. */
static size_t find_label(const data_stats *s, int label) {
  size_t low = 0, high = s->labels;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (s->label[middle].label < label) low = middle + 1;
    else high = middle;
  }
  return low;
}

static crema_status count_label(data_stats *s, int label) {
  size_t at = find_label(s, label);
  if (at < s->labels && s->label[at].label == label) {
    ++s->label[at].count;
    return CREMA_OK;
  }
  if (s->labels == s->label_capacity) {
    size_t capacity = s->label_capacity == 0 ? 64 : 2 * s->label_capacity;
    label_count *more = realloc(s->label, capacity * sizeof *more);
    if (more == NULL) return cr_fail_memory(capacity * sizeof *more, "labels");
    s->label = more;
    s->label_capacity = capacity;
  }
  memmove(s->label + at + 1, s->label + at, (s->labels - at) * sizeof *s->label);
  s->label[at] = (label_count){label, 1};
  ++s->labels;
  return CREMA_OK;
}

static double sum_channel(const cr_pixels *pixels, int channel) {
  size_t plane = (size_t)pixels->height * (size_t)pixels->width;
  size_t stride = pixels->interleaved ? (size_t)pixels->channels : 1;
  size_t offset = pixels->interleaved ? (size_t)channel : (size_t)channel * plane;
  double real = 0;
  uint64_t whole = 0;
  if (pixels->type == CREMA_U8) {
    const uint8_t *in = (const uint8_t *)pixels->values + offset;
    for (size_t i = 0; i < plane; ++i) whole += in[i * stride];
    return (double)whole;
  }
  const float *in = (const float *)pixels->values + offset;
  for (size_t i = 0; i < plane; ++i) real += (double)in[i * stride];
  return real;
}

static void add_means(data_stats *s, const cr_pixels *pixels) {
  for (int c = 0; c < pixels->channels && c < MEAN_CHANNELS; ++c) {
    s->sum[c] += sum_channel(pixels, c);
    s->values[c] += (uint64_t)pixels->height * (uint64_t)pixels->width;
  }
}

static crema_status add_datum(data_stats *s, cr_db_bytes value) {
  const cr_pixels *pixels = &s->sample.pixels;
  CR_TRY(cr_sample_load(&s->sample, value.data, value.size, CR_IMAGE_NATIVE));
  if (pixels->interleaved) ++s->encoded;
  count_shape(s, pixels);
  add_means(s, pixels);
  return count_label(s, s->sample.label);
}

/* The classes of boxes count as labels. */
static crema_status add_annotated(data_stats *s, cr_db_bytes value) {
  cr_annotated *annotated = &s->annotated;
  const cr_image *image = &annotated->image;
  CR_TRY(cr_annotated_load(annotated, value.data, value.size, CR_IMAGE_NATIVE));
  const cr_pixels pixels = {.values = image->pixels,
                            .type = CREMA_U8,
                            .interleaved = true,
                            .channels = image->channels,
                            .height = image->height,
                            .width = image->width};
  size_t boxes = cr_annotated_count(annotated);
  if (annotated->encoded) ++s->encoded;
  count_shape(s, &pixels);
  add_means(s, &pixels);
  if (!annotated->has_boxes && boxes == 0) return count_label(s, annotated->label);
  ++s->with_boxes;
  s->boxes += boxes;
  for (size_t i = 0; i < boxes; ++i)
    CR_TRY(count_label(s, cr_annotated_object(annotated, i)->label));
  return CREMA_OK;
}

static crema_status add_record(data_stats *s, const cr_db_cursor *cursor) {
  const cr_db_bytes value = cursor->value;
  ++s->records;
  s->bytes += value.size;
  crema_status status =
      cr_annotated_is(value.data, value.size) ? add_annotated(s, value) : add_datum(s, value);
  if (status == CREMA_E_NO_MEMORY) return status;
  if (status != CREMA_OK) {
    char text[96];
    if (++s->corrupt <= (uint64_t)s->named) {
      printf("Damaged record '%s': %s\n", cr_db_key_text(cursor->key, text, sizeof text),
             crema_error_text());
    }
  }
  return CREMA_OK;
}

static crema_status add_all(data_stats *s, const char *backend) {
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(cr_db_open(backend, s->path, CR_DB_READ, &db), out);
  CR_TRY_GOTO(cr_db_cursor_open(db, &cursor), out);
  while (cursor->valid) {
    CR_TRY_GOTO(add_record(s, cursor), out);
    CR_TRY_GOTO(cr_db_cursor_next(cursor), out);
  }
out:
  cr_db_cursor_close(cursor);
  cr_db_close(db);
  return status;
}

/* ---- printing ------------------------------------------------------------ */

static void print_stats(const data_stats *s, const char *backend) {
  printf("%s (%s): %" PRIu64 " records, %" PRIu64 " bytes; %" PRIu64 " encoded, %" PRIu64
         " damaged\n",
         s->path, backend, s->records, s->bytes, s->encoded, s->corrupt);
  for (int i = 0; i < s->shapes; ++i) {
    const shape_count *shape = &s->shape[i];
    printf("Shape %d x %d x %d: %" PRIu64 "\n", shape->channels, shape->height, shape->width,
           shape->count);
  }
  if (s->other_shapes > 0) printf("Other shapes: %" PRIu64 "\n", s->other_shapes);
  for (int c = 0; c < MEAN_CHANNELS && s->values[c] > 0; ++c) {
    printf("Mean of channel %d: %.6g\n", c, s->sum[c] / (double)s->values[c]);
  }
  if (s->with_boxes > 0) {
    printf("Boxes: %" PRIu64 " in %" PRIu64 " records\n", s->boxes, s->with_boxes);
  }
  for (size_t i = 0; i < s->labels; ++i) {
    printf("Label %d: %" PRIu64 "\n", s->label[i].label, s->label[i].count);
  }
}

int crema_cmd_data_stats(int argc, char **argv) {
  const char *backend = "";
  data_stats s = {.named = NAMED};
  const cli_flag flags[] = {
      {"backend", CLI_WORD, &backend,
       "kind of database: lmdb, leveldb; the default follows from its files"},
      {"name_damaged", CLI_INT, &s.named, "how many damaged records to name"},
  };
  const cli_spec spec = {
      .command = "data_stats",
      .arguments = "DB",
      .min_arguments = 1,
      .max_arguments = 1,
      .help =
          "Reads and decodes all records of a database. Prints their number, their shapes "
          "(channels x\n"
          "height x width), the mean of each channel, the count of each label and the damaged\n"
          "records. Damaged records are an error. In records with boxes (AnnotatedDatum of\n"
          "Caffe-SSD) it counts the boxes, with their classes as labels.\n"
          "\n"
          "Example:\n"
          "  crema data_stats train_lmdb\n",
      .flags = flags,
      .flag_count = sizeof flags / sizeof *flags,
  };
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  s.path = argv[1];
  if (backend[0] != '\0' && !db_writer_check_kind("-backend", backend, false)) return 1;
  if (backend[0] == '\0') backend = cr_db_detect(s.path);
  if (backend == NULL) backend = "lmdb"; /* opening it then reports the fault */
  crema_status status = add_all(&s, backend);
  if (status == CREMA_OK) print_stats(&s, backend);
  cr_annotated_free(&s.annotated);
  cr_sample_free(&s.sample);
  free(s.label);
  if (status != CREMA_OK) return cli_fail();
  if (s.corrupt == 0) return 0;
  return cli_error("%s: %" PRIu64 " of %" PRIu64 " records are damaged", s.path, s.corrupt,
                   s.records);
}
