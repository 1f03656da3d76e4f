/* A file is a series of records: a length, its checksum, an Event message, its checksum. */
#define _GNU_SOURCE
#include "record/event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/arena.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/io.h"
#include "core/log.h"
#include "events.pb-c.h"
#include "proto/proto.h"
#include "record/filters.h"
#include "solver/solver.h"

enum { BINS = 32 };

struct cr_event_file {
  int file;
  char *path;
  crema_solver *solver;
  bool failed;
  int64_t samples; /* at the last event of training */
  double seconds;
};

/* ---- records ------------------------------------------------------------------- */

/* CRC-32C (Castagnoli), rotated and offset as the format of records requires. */
static uint32_t checksum(const void *bytes, size_t size) {
  const uint8_t *at = bytes;
  uint32_t crc = 0xFFFFFFFFU;
  for (size_t i = 0; i < size; ++i) {
    crc ^= at[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82F63B78U & (0U - (crc & 1)));
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

static crema_status write_record(const cr_event_file *file, const Events__Event *event) {
  cr_buffer record = {0};
  const uint8_t head[12] = {0};
  crema_status status = cr_buffer_append(&record, head, sizeof head); /* filled below */
  if (status == CREMA_OK) status = cr_wire_print(&event->base, &record);
  if (status == CREMA_OK) {
    const uint64_t size = record.size - sizeof head;
    const uint32_t size_sum = checksum(&size, sizeof size);
    memcpy(record.data, &size, sizeof size);
    memcpy(record.data + sizeof size, &size_sum, sizeof size_sum);
    const uint32_t sum = checksum(record.data + sizeof head, size);
    status = cr_buffer_append(&record, &sum, sizeof sum);
  }
  if (status == CREMA_OK && !cr_io_write(file->file, record.data, record.size)) {
    status = cr_fail_errno(errno, "%s: cannot write", file->path);
  }
  cr_buffer_free(&record);
  return status;
}

/* ---- summaries ------------------------------------------------------------------ */

/* The values of one event. After the first failure, later calls do nothing. */
typedef struct summary {
  cr_arena arena;
  crema_status status;
  Events__Summary message;
  size_t room;
} summary;

static void *take_memory(summary *s, size_t size) {
  void *memory = NULL;
  if (s->status == CREMA_OK) s->status = cr_arena_alloc(&s->arena, size, &memory);
  return memory;
}

/* A new value tagged "<group>/<name>", or "<name>" if `group` is NULL; NULL after a failure. */
static Events__Value *add_value(summary *s, const char *group, const char *name) {
  Events__Value *value = take_memory(s, sizeof *value);
  const size_t size = strlen(name) + (group == NULL ? 0 : strlen(group) + 1) + 1;
  char *tag = take_memory(s, size);
  if (s->message.n_value == s->room) {
    Events__Value **grown = take_memory(s, (2 * s->room + 16) * sizeof *grown);
    if (grown == NULL) return NULL;
    if (s->room > 0) memcpy(grown, s->message.value, s->room * sizeof *grown);
    s->message.value = grown;
    s->room = 2 * s->room + 16;
  }
  if (tag == NULL) return NULL;
  snprintf(tag, size, "%s%s%s", group == NULL ? "" : group, group == NULL ? "" : "/", name);
  events__value__init(value);
  value->tag = tag;
  s->message.value[s->message.n_value++] = value;
  return value;
}

static void add_scalar(summary *s, const char *group, const char *name, double number) {
  Events__Value *value = add_value(s, group, name);
  if (value == NULL) return;
  value->has_simple_value = 1;
  value->simple_value = (float)number;
}

/* Outputs with several values have a scalar for each. */
static void add_outputs(summary *s, const char *group, const crema_solver_event *event) {
  for (int i = 0, number = 0; i < event->values; ++i) {
    const char *name = event->value[i].name;
    const bool follows = i > 0 && event->value[i - 1].name == name;
    const bool precedes = i + 1 < event->values && event->value[i + 1].name == name;
    char text[256];
    number = follows ? number + 1 : 0;
    if (follows || precedes) snprintf(text, sizeof text, "%s_%d", name, number);
    else snprintf(text, sizeof text, "%s", name);
    add_scalar(s, group, text, event->value[i].value);
  }
}

/* ---- histograms ------------------------------------------------------------------- */

static void count_values(const float *values, int64_t count, Events__Histogram *out) {
  const double step = (out->max - out->min) / BINS;
  for (int64_t i = 0; i < count; ++i) {
    const double value = (double)values[i];
    if (!isfinite(value)) continue;
    int bin = step > 0 ? (int)((value - out->min) / step) : 0;
    if (bin >= BINS) bin = BINS - 1;
    out->bucket[bin] += 1;
  }
  for (int i = 0; i < BINS; ++i) out->bucket_limit[i] = out->min + step * (i + 1);
}

/* NaN and infinite values are not counted. */
static void add_histogram(summary *s, const char *group, const char *name, const float *values,
                          int64_t count) {
  Events__Value *value = add_value(s, group, name);
  Events__Histogram *histogram = take_memory(s, sizeof *histogram);
  double *numbers = take_memory(s, 2 * BINS * sizeof *numbers);
  if (value == NULL || numbers == NULL) return;
  events__histogram__init(histogram);
  value->histo = histogram;
  histogram->bucket_limit = numbers;
  histogram->bucket = numbers + BINS;
  histogram->n_bucket = histogram->n_bucket_limit = BINS;
  histogram->has_min = histogram->has_max = histogram->has_num = 1;
  histogram->has_sum = histogram->has_sum_squares = 1;
  histogram->min = INFINITY;
  histogram->max = -INFINITY;
  for (int64_t i = 0; i < count; ++i) {
    const double number = (double)values[i];
    if (!isfinite(number)) continue;
    histogram->min = fmin(histogram->min, number);
    histogram->max = fmax(histogram->max, number);
    histogram->num += 1;
    histogram->sum += number;
    histogram->sum_squares += number * number;
  }
  if (histogram->num == 0) histogram->min = histogram->max = 0;
  count_values(values, count, histogram);
}

static crema_status add_layer(summary *s, const cr_layer *layer) {
  static const char *const names[] = {"weights", "bias"};
  for (int p = 0; p < layer->params; ++p) {
    char name[64], gradient[80];
    const float *values;
    crema_blob *blob = layer->blob[p];
    if (p < 2) snprintf(name, sizeof name, "%s", names[p]);
    else snprintf(name, sizeof name, "parameter_%d", p);
    CR_TRY(crema_blob_cpu_data(blob, &values));
    add_histogram(s, layer->name, name, values, crema_blob_count(blob));
    if (!layer->param_propagate_down[p]) continue;
    snprintf(gradient, sizeof gradient, "%s_gradient", name);
    CR_TRY(crema_blob_cpu_diff(blob, &values));
    add_histogram(s, layer->name, gradient, values, crema_blob_count(blob));
  }
  return s->status;
}

/* The filters of the first layer that has some. */
static crema_status add_filters(summary *s, const crema_net *net, cr_buffer *png) {
  const cr_layer *layer = NULL;
  cr_image image = {0};
  for (int i = 0; i < net->layers && layer == NULL; ++i) {
    if (cr_filters_can_draw(net->layer[i].layer)) layer = net->layer[i].layer;
  }
  if (layer == NULL) return CREMA_OK;
  crema_status status = cr_filters_draw(layer, &image);
  if (status == CREMA_OK) status = cr_image_encode(&image, "png", png);
  Events__Value *value = status == CREMA_OK ? add_value(s, layer->name, "filters") : NULL;
  Events__Image *message = value == NULL ? NULL : take_memory(s, sizeof *message);
  if (message != NULL) {
    events__image__init(message);
    message->has_height = message->has_width = message->has_colorspace = 1;
    message->height = image.height;
    message->width = image.width;
    message->colorspace = image.channels;
    message->has_encoded_image_string = 1;
    message->encoded_image_string = (ProtobufCBinaryData){png->size, (uint8_t *)png->data};
    value->image = message;
  }
  cr_image_free(&image);
  return status;
}

/* ---- events ------------------------------------------------------------------------- */

static crema_status add_training(cr_event_file *file, const crema_solver_event *event, summary *s,
                                 cr_buffer *png) {
  const crema_net *net = file->solver->net;
  const double seconds = event->seconds - file->seconds;
  add_scalar(s, NULL, "learning_rate", event->rate);
  add_scalar(s, "train", "mean_loss", event->loss);
  if (seconds > 0) {
    add_scalar(s, NULL, "samples_per_second", (double)(event->samples - file->samples) / seconds);
  }
  add_outputs(s, "train", event);
  file->seconds = event->seconds;
  file->samples = event->samples;
  for (int i = 0; i < net->layers; ++i) CR_TRY(add_layer(s, net->layer[i].layer));
  return add_filters(s, net, png);
}

static crema_status write_event(cr_event_file *file, const crema_solver_event *event) {
  summary s = {0};
  cr_buffer png = {0};
  Events__Event message = EVENTS__EVENT__INIT;
  crema_status status = CREMA_OK;
  events__summary__init(&s.message);
  if (event->kind == CREMA_SOLVER_TRAINED) {
    status = add_training(file, event, &s, &png);
  } else {
    char group[32] = "test";
    if (event->test_net > 0) snprintf(group, sizeof group, "test_%d", event->test_net);
    add_outputs(&s, group, event);
  }
  if (status == CREMA_OK) status = s.status;
  message.has_wall_time = message.has_step = 1;
  message.wall_time = cr_clock_date();
  message.step = event->iteration;
  message.summary = &s.message;
  if (status == CREMA_OK) status = write_record(file, &message);
  cr_buffer_free(&png);
  cr_arena_free(&s.arena);
  return status;
}

void cr_event_file_add(cr_event_file *file, const crema_solver_event *event) {
  if (file->failed || event->kind == CREMA_SOLVER_SAVED) return;
  if (write_event(file, event) == CREMA_OK) return;
  file->failed = true;
  cr_log_warning("%s; training continues without TensorBoard's file", crema_error_text());
}

/* ---- opening -------------------------------------------------------------------------- */

static crema_status open_file(cr_event_file *file, const char *folder, cr_buffer *path) {
  Events__Event first = EVENTS__EVENT__INIT;
  char host[256] = "host";
  if (!cr_io_make_folder(folder, 0777) && errno != EEXIST) {
    return cr_fail_errno(errno, "%s: cannot make the folder", folder);
  }
  (void)!gethostname(host, sizeof host - 1);
  CR_TRY(cr_buffer_print(path, "%s/events.out.tfevents.%lld.%s.%d.0", folder,
                         (long long)cr_clock_date(), host, (int)getpid()));
  file->path = strdup(path->data);
  if (file->path == NULL) return cr_fail_memory(path->size, "a path");
  file->file = cr_io_open(file->path, O_WRONLY | O_APPEND | O_CREAT, 0666);
  if (file->file < 0) return cr_fail_errno(errno, "%s: cannot create", file->path);
  first.has_wall_time = 1;
  first.wall_time = cr_clock_date();
  first.file_version = (char *)"brain.Event:2";
  return write_record(file, &first);
}

crema_status cr_event_file_open(const char *path, crema_solver *solver, cr_event_file **out) {
  cr_event_file *file = NULL;
  cr_buffer name = {0};
  *out = NULL;
  CR_TRY(CR_NEW(file, 1, "an event file"));
  file->file = -1;
  file->solver = solver;
  crema_status status = open_file(file, path, &name);
  cr_buffer_free(&name);
  if (status == CREMA_OK) *out = file;
  else cr_event_file_close(file);
  return status;
}

void cr_event_file_close(cr_event_file *file) {
  if (file == NULL) return;
  if (file->file >= 0) (void)cr_io_close(file->file);
  free(file->path);
  free(file);
}
