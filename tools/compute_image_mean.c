/* crema compute_image_mean: the mean image of a database. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "data/augment/mean.h"
#include "data/augment/sample.h"
#include "data/db/db.h"
#include "db_writer.h"

typedef struct mean_job {
  const char *path;
  cr_sample sample;
  int channels, height, width;
  double *sum; /* channel-major; exact for bytes */
  uint64_t count, skipped;
  bool skip_corrupt;
} mean_job;

static size_t values_of(const mean_job *job) {
  return (size_t)job->channels * (size_t)job->height * (size_t)job->width;
}

static crema_status begin(mean_job *job, const cr_pixels *pixels) {
  job->channels = pixels->channels;
  job->height = pixels->height;
  job->width = pixels->width;
  job->sum = calloc(values_of(job), sizeof *job->sum);
  return job->sum == NULL ? cr_fail_memory(values_of(job) * sizeof *job->sum, "sums") : CREMA_OK;
}

static void add_pixels(mean_job *job, const cr_pixels *pixels) {
  size_t plane = (size_t)job->height * (size_t)job->width;
  size_t stride = pixels->interleaved ? (size_t)job->channels : 1;
  for (size_t c = 0; c < (size_t)job->channels; ++c) {
    size_t offset = pixels->interleaved ? c : c * plane;
    double *sum = job->sum + c * plane;
    if (pixels->type == CREMA_U8) {
      const uint8_t *in = (const uint8_t *)pixels->values + offset;
      for (size_t i = 0; i < plane; ++i) sum[i] += in[i * stride];
    } else {
      const float *in = (const float *)pixels->values + offset;
      for (size_t i = 0; i < plane; ++i) sum[i] += (double)in[i * stride];
    }
  }
}

static crema_status add_record(mean_job *job, const cr_db_cursor *cursor) {
  const cr_pixels *pixels = &job->sample.pixels;
  crema_status status =
      cr_sample_load(&job->sample, cursor->value.data, cursor->value.size, CR_IMAGE_NATIVE);
  if (job->skip_corrupt && (status == CREMA_E_CORRUPT || status == CREMA_E_UNSUPPORTED)) {
    char text[96];
    ++job->skipped;
    cr_log_warning("%s: record '%s': %s; skipped", job->path,
                   cr_db_key_text(cursor->key, text, sizeof text), crema_error_text());
    return CREMA_OK;
  }
  if (status != CREMA_OK) return status;
  if (job->sum == NULL) CR_TRY(begin(job, pixels));
  if (pixels->channels != job->channels || pixels->height != job->height ||
      pixels->width != job->width) {
    return cr_fail(CREMA_E_SHAPE, "%d x %d x %d values, the first record has %d x %d x %d",
                   pixels->channels, pixels->height, pixels->width, job->channels, job->height,
                   job->width);
  }
  add_pixels(job, pixels);
  ++job->count;
  if (job->count % 10000 == 0) cr_log_info("Processed %" PRIu64 " files.", job->count);
  return CREMA_OK;
}

static crema_status add_all(mean_job *job, const char *backend) {
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(cr_db_open(backend, job->path, CR_DB_READ, &db), out);
  CR_TRY_GOTO(cr_db_cursor_open(db, &cursor), out);
  while (cursor->valid) {
    status = add_record(job, cursor);
    if (status != CREMA_OK) {
      char text[96];
      status = cr_fail_in(status, "%s: record '%s'", job->path,
                          cr_db_key_text(cursor->key, text, sizeof text));
      goto out;
    }
    CR_TRY_GOTO(cr_db_cursor_next(cursor), out);
  }
  if (job->count == 0) {
    status = cr_fail(CREMA_E_CORRUPT, "%s: no %srecords", job->path,
                     job->skipped > 0 ? "undamaged " : "");
  } else if (job->skipped > 0) {
    cr_log_warning("%s: %" PRIu64 " damaged records are not in the mean", job->path, job->skipped);
  }
out:
  cr_db_cursor_close(cursor);
  cr_db_close(db);
  return status;
}

/* The division is done in float, as Caffe does it, so that the files are equal bit for bit. */
static crema_status finish(const mean_job *job, const char *out) {
  size_t count = values_of(job), plane = (size_t)job->height * (size_t)job->width;
  float *values = malloc(count * sizeof *values);
  if (values == NULL) return cr_fail_memory(count * sizeof *values, "a mean image");
  for (size_t i = 0; i < count; ++i) values[i] = (float)job->sum[i] / (float)job->count;
  cr_log_info("Processed %" PRIu64 " files.", job->count);
  cr_log_info("Number of channels: %d", job->channels);
  for (int c = 0; c < job->channels; ++c) {
    double sum = 0;
    for (size_t i = 0; i < plane; ++i) sum += (double)values[(size_t)c * plane + i];
    cr_log_info("mean_value channel [%d]: %g", c, sum / (double)plane);
  }
  const cr_mean mean = {job->channels, job->height, job->width, values};
  crema_status status = CREMA_OK;
  if (out != NULL) {
    cr_log_info("Write to %s", out);
    status = cr_mean_write(out, &mean);
  }
  free(values);
  return status;
}

int crema_cmd_compute_image_mean(int argc, char **argv) {
  const char *backend = "";
  mean_job job = {0};
  const cli_flag flags[] = {
      {"backend", CLI_WORD, &backend,
       "kind of database: lmdb, leveldb; the default follows from its files"},
      {"skip_corrupt", CLI_BOOL, &job.skip_corrupt,
       "skip records that cannot be decoded, with a warning"},
  };
  const cli_spec spec = {
      .command = "compute_image_mean",
      .arguments = "DB [MEAN_FILE]",
      .min_arguments = 1,
      .max_arguments = 2,
      .help =
          "Averages all records of a database, which must have one size. Logs the mean of each\n"
          "channel and writes the mean image to MEAN_FILE, for mean_file in transform_param. A\n"
          "record that is damaged stops the command, or is skipped with -skip_corrupt.\n"
          "\n"
          "Example:\n"
          "  crema compute_image_mean train_lmdb mean.binaryproto\n",
      .flags = flags,
      .flag_count = sizeof flags / sizeof *flags,
  };
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  job.path = argv[1];
  if (backend[0] != '\0' && !db_writer_check_kind("-backend", backend, false)) return 1;
  if (backend[0] == '\0') backend = cr_db_detect(job.path);
  if (backend == NULL) backend = "lmdb"; /* opening it then reports the fault */
  const char *out = argc > 2 ? argv[2] : NULL;
  /* Checked before the work rather than after it. */
  crema_status status = out == NULL ? CREMA_OK : cr_file_draft_check(out);
  if (status == CREMA_OK) status = add_all(&job, backend);
  if (status == CREMA_OK) status = finish(&job, out);
  cr_sample_free(&job.sample);
  free(job.sum);
  return status == CREMA_OK ? 0 : cli_fail();
}
