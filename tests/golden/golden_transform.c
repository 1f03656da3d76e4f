/* transform/<case>: records through the transformer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/augment/sample.h"
#include "data/augment/transformer.h"
#include "golden.h"
#include "golden_h5.h"

enum { MAX_OUTCOMES = 64, DRAWS_PER_OUTCOME = 64 };

typedef struct transform_case {
  hid_t file;
  cr_transformer *transformer;
  int outcomes;
  golden_array expected[MAX_OUTCOMES];
  bool seen[MAX_OUTCOMES];
  double tolerance;
  float *out; /* one whole result */
  char *why;
  size_t why_size;
} transform_case;

static bool fail_status(transform_case *c, const char *what) {
  snprintf(c->why, c->why_size, "%s: %s", what, crema_error_text());
  return false;
}

/* Bytes that the file holds as an array of small integers. */
static uint8_t *to_bytes(const golden_array *array) {
  uint8_t *bytes = malloc(array->count + 1);
  for (size_t i = 0; bytes != NULL && i < array->count; ++i) bytes[i] = (uint8_t)array->value[i];
  return bytes;
}

/* Transforms the pixels as item `item` of the batch. */
static bool run_pixels(transform_case *c, const cr_pixels *pixels, int item, uint64_t sample) {
  int shape[3];
  const crema_shape *wanted = &c->expected[0].shape;
  if (cr_transformer_shape(c->transformer, pixels->channels, pixels->height, pixels->width,
                           shape) != CREMA_OK) {
    return fail_status(c, "shape");
  }
  if (wanted->axes != 4 || item >= wanted->dim[0] || shape[0] != wanted->dim[1] ||
      shape[1] != wanted->dim[2] || shape[2] != wanted->dim[3]) {
    snprintf(c->why, c->why_size, "item %d: shape %d x %d x %d is not the expected one", item,
             shape[0], shape[1], shape[2]);
    return false;
  }
  size_t size = (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2];
  float *out = c->out + (size_t)item * size;
  return cr_transformer_run(c->transformer, pixels, sample, out) == CREMA_OK ||
         fail_status(c, "transform");
}

static bool run_record(transform_case *c, const uint8_t *bytes, size_t size, int item,
                       uint64_t draw) {
  cr_sample sample = {0};
  crema_status status = cr_sample_load(&sample, bytes, size, cr_transformer_color(c->transformer));
  bool ok =
      status == CREMA_OK ? run_pixels(c, &sample.pixels, item, draw) : fail_status(c, "record");
  cr_sample_free(&sample);
  return ok;
}

/* Compares c->out with every outcome. */
static bool match(transform_case *c, double tolerance, const char *what) {
  double best = 1e30;
  for (int i = 0; i < c->outcomes; ++i) {
    double error = golden_error(c->expected[i].value, c->out, c->expected[i].count);
    if (error <= tolerance) {
      c->seen[i] = true;
      return true;
    }
    if (error < best) best = error;
  }
  snprintf(c->why, c->why_size, "%s: error %g, allowed %g", what, best, tolerance);
  return false;
}

/* All records of the batch, from their Datum. */
static bool run_batch(transform_case *c, uint64_t draw) {
  int items = (int)c->expected[0].shape.dim[0];
  for (int i = 0; i < items; ++i) {
    char path[64];
    golden_array record;
    snprintf(path, sizeof path, "/datum_proto/%d", i);
    if (!golden_h5_read(c->file, path, &record)) {
      snprintf(c->why, c->why_size, "%s: cannot read", path);
      return false;
    }
    uint8_t *bytes = to_bytes(&record);
    bool ok = bytes != NULL && run_record(c, bytes, record.count, i, draw);
    free(bytes);
    golden_array_free(&record);
    if (!ok) return false;
  }
  return true;
}

/* From the pixels that the reference decoded, where the case has them. */
static bool run_decoded(transform_case *c) {
  golden_array decoded;
  if (!golden_h5_read(c->file, "/decoded_hwc/0", &decoded)) return true;
  uint8_t *bytes = to_bytes(&decoded);
  const crema_shape *shape = &decoded.shape;
  const cr_pixels pixels = {.values = bytes,
                            .type = CREMA_U8,
                            .interleaved = true,
                            .channels = shape->axes < 3 ? 1 : (int)shape->dim[2],
                            .height = (int)shape->dim[0],
                            .width = (int)shape->dim[1]};
  bool ok =
      bytes != NULL && run_pixels(c, &pixels, 0, 0) && match(c, 1e-5, "from the decoded pixels");
  free(bytes);
  golden_array_free(&decoded);
  return ok;
}

static bool run_draws(transform_case *c) {
  uint64_t draws = c->outcomes > 1 ? (uint64_t)c->outcomes * DRAWS_PER_OUTCOME : 1;
  for (uint64_t draw = 0; draw < draws; ++draw) {
    if (!run_batch(c, draw) || !match(c, c->tolerance, "from the records")) return false;
  }
  for (int i = 0; i < c->outcomes; ++i) {
    if (c->seen[i]) continue;
    snprintf(c->why, c->why_size, "outcome %d of %d never turned up", i, c->outcomes);
    return false;
  }
  return true;
}

static bool read_expected(transform_case *c) {
  c->outcomes = (int)golden_h5_number(c->file, "num_outcomes", 1);
  c->tolerance = golden_h5_number(c->file, "tol_out", 1e-5);
  if (c->outcomes < 1 || c->outcomes > MAX_OUTCOMES) return false;
  for (int i = 0; i < c->outcomes; ++i) {
    char path[64];
    snprintf(path, sizeof path, "/expected/%d", i);
    if (!golden_h5_read(c->file, path, &c->expected[i])) return false;
  }
  c->out = malloc(c->expected[0].count * sizeof *c->out);
  return c->out != NULL;
}

static bool make_transformer(transform_case *c, const char *dir) {
  char path[4096], phase[16];
  ProtobufCMessage *param = NULL;
  snprintf(path, sizeof path, "%s/transform_param.prototxt", dir);
  golden_h5_text(c->file, "phase", phase, sizeof phase);
  crema_status status = cr_message_read_text(&caffe__transformation_parameter__descriptor, path,
                                             CR_UNKNOWN_ERROR, &param);
  if (status == CREMA_OK) {
    Caffe__Phase p = strcmp(phase, "TRAIN") == 0 ? CAFFE__PHASE__TRAIN : CAFFE__PHASE__TEST;
    status = cr_transformer_create((const Caffe__TransformationParameter *)param, p, 1234, path,
                                   &c->transformer);
  }
  cr_message_free(param);
  return status == CREMA_OK || fail_status(c, "transform_param");
}

int golden_run_transform_case(const char *dir, char *why, size_t why_size) {
  transform_case c = {.why = why, .why_size = why_size};
  c.file = golden_h5_open(dir, "case.h5");
  if (c.file < 0) {
    snprintf(why, why_size, "case.h5: cannot open");
    return GOLDEN_FAIL;
  }
  snprintf(why, why_size, "case.h5: cannot read /expected");
  bool ok = read_expected(&c) && make_transformer(&c, dir) && run_draws(&c) && run_decoded(&c);
  cr_transformer_destroy(c.transformer);
  for (int i = 0; i < c.outcomes && i < MAX_OUTCOMES; ++i) golden_array_free(&c.expected[i]);
  free(c.out);
  H5Fclose(c.file);
  return ok ? GOLDEN_PASS : GOLDEN_FAIL;
}
