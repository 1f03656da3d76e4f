/* Parses only the messages of blobs in a model file. The messages around them are walked field by
 * field and written again with new lengths; see proto.h. */
#include "net/weights/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "device/backend/convert.h"
#include "proto/field.h"
#include "proto/wire_format.h"
#include "proto/wire_writer.h"

typedef struct conversion {
  const char *path;
  crema_dtype type;
  bool old_format;
  cr_convert_report *report;
  const uint8_t *start; /* of the file's bytes; NULL until the first field */
  cr_file_draft *draft;
  uint64_t layers;
} conversion;

static void compare(double before, double after, cr_convert_report *report) {
  if (!isfinite(before) || before == 0) return;
  if (!isfinite(after)) {
    ++report->infinite;
  } else if (after == 0) {
    ++report->zero;
  } else {
    double error = fabs(after - before) / fabs(before);
    if (error > report->worst) report->worst = error;
  }
}

static crema_status compare_all(const cr_blob_values *before, const cr_blob_values *after,
                                cr_convert_report *report) {
  enum { BLOCK = 1024 };
  double old[BLOCK], now[BLOCK];
  for (size_t at = 0; at < before->count; at += BLOCK) {
    size_t count = before->count - at < BLOCK ? before->count - at : BLOCK;
    cr_blob_values part[2] = {*before, *after};
    for (int i = 0; i < 2; ++i) {
      part[i].at = (const char *)part[i].at + at * crema_dtype_size(part[i].type);
      part[i].count = count;
      CR_TRY(cr_blob_values_copy(&part[i], CREMA_F64, i == 0 ? old : now));
    }
    for (size_t i = 0; i < count; ++i) compare(old[i], now[i], report);
  }
  return CREMA_OK;
}

/* The values as elements of `type`, in memory that a message can own. */
static crema_status copy_as(const cr_blob_values *values, crema_dtype type, void **out) {
  size_t bytes = values->count * crema_dtype_size(type);
  *out = cr_proto_alloc(bytes + 1);
  if (*out == NULL) return cr_fail_memory(bytes, "the values of a blob");
  crema_status status = cr_blob_values_copy(values, type, *out);
  if (status != CREMA_OK) free(*out);
  return status;
}

/* Rounds values to the requested type and returns them in the type of `field`. */
static crema_status round_values(const conversion *c, const cr_blob_values *values,
                                 cr_blob_field field, void **out) {
  void *rounded = NULL, *widened = NULL;
  CR_TRY(copy_as(values, c->type, &rounded));
  cr_blob_values after = {rounded, c->type, values->count};
  crema_status status = compare_all(values, &after, c->report);
  if (status == CREMA_OK && field.type != c->type) status = copy_as(&after, field.type, &widened);
  if (status != CREMA_OK || widened != NULL) free(rounded);
  *out = widened != NULL ? widened : rounded;
  return status;
}

static void clear_values(Caffe__BlobProto *blob, bool diff) {
  static const char *const fields[2][4] = {{"data", "double_data", "raw_data", "raw_data_type"},
                                           {"diff", "double_diff", "raw_diff", "raw_diff_type"}};
  for (int i = 0; i < 4; ++i) cr_message_clear(&blob->base, fields[diff][i]);
}

static crema_status convert_values(const conversion *c, Caffe__BlobProto *blob, bool diff,
                                   const cr_blob_values *values) {
  cr_blob_field field;
  void *made = NULL;
  if (values->count == 0) return CREMA_OK;
  CR_TRY(cr_blob_field_for(c->type, c->old_format, &field));
  CR_TRY(round_values(c, values, field, &made));
  size_t count = values->count;
  clear_values(blob, diff);
  cr_blob_field_set(blob, diff, field, made, count);
  c->report->values += count;
  return CREMA_OK;
}

static crema_status convert_blob(const conversion *c, Caffe__BlobProto *blob) {
  crema_shape shape;
  cr_blob_values data, diff;
  CR_TRY(cr_blob_values_find(blob, &shape, &data, &diff));
  if (data.count > 0 && (data.type == CREMA_I32 || data.type == CREMA_U32)) {
    ++c->report->kept;
    return CREMA_OK;
  }
  ++c->report->blobs;
  CR_TRY(convert_values(c, blob, false, &data));
  return convert_values(c, blob, true, &diff);
}

/* A message that blobs are in, directly or in messages inside. */
typedef struct holder {
  const ProtobufCMessageDescriptor *type;
  uint32_t blobs, inside; /* numbers of the fields; 0: none */
  const struct holder *of_inside;
} holder;

static const holder v0_layer = {&caffe__v0_layer_parameter__descriptor, 50, 0, NULL};
static const holder v1_layer = {&caffe__v1_layer_parameter__descriptor, 6, 1, &v0_layer};
static const holder layer = {&caffe__layer_parameter__descriptor, 7, 0, NULL};

/* One message while it is written again. */
typedef struct rewriting {
  const conversion *c;
  const holder *holder;
  cr_buffer *out;
} rewriting;

static crema_status rewrite_blob(const conversion *c, const cr_wire_part *part, cr_buffer *out) {
  ProtobufCMessage *message = NULL;
  cr_buffer source = {0};
  CR_TRY(cr_buffer_print(&source, "%s: the blob at byte %zu", c->path,
                         (size_t)(part->start - c->start)));
  crema_status status = cr_wire_parse(&caffe__blob_proto__descriptor, part->payload,
                                      (size_t)(part->end - part->payload), source.data, &message);
  if (status == CREMA_OK) {
    status = cr_fail_in(convert_blob(c, (Caffe__BlobProto *)message), "%s", source.data);
  }
  if (status == CREMA_OK) status = cr_wire_print_head(out, part->number, cr_wire_size(message));
  if (status == CREMA_OK) status = cr_wire_print(message, out);
  cr_message_free(message);
  cr_buffer_free(&source);
  return status;
}

static crema_status rewrite_field(void *user, const cr_wire_part *part);

static crema_status rewrite_message(const conversion *c, const holder *outer,
                                    const cr_wire_part *part, cr_buffer *out) {
  rewriting inside = {c, outer, out};
  return cr_wire_walk(outer->type, part->payload, (size_t)(part->end - part->payload), c->path,
                      rewrite_field, &inside);
}

static crema_status rewrite_field(void *user, const cr_wire_part *part) {
  const rewriting *r = user;
  if (part->has_payload && part->number == r->holder->blobs) {
    return rewrite_blob(r->c, part, r->out);
  }
  if (!part->has_payload || r->holder->inside == 0 || part->number != r->holder->inside) {
    return cr_buffer_append(r->out, part->start, (size_t)(part->end - part->start));
  }
  cr_buffer inside = {0};
  crema_status status = rewrite_message(r->c, r->holder->of_inside, part, &inside);
  if (status == CREMA_OK) status = cr_wire_print_head(r->out, part->number, inside.size);
  if (status == CREMA_OK) status = cr_buffer_append(r->out, inside.data, inside.size);
  cr_buffer_free(&inside);
  return status;
}

/* A field of the net: layers have number 100, layers of V1 and V0 number 2. */
static crema_status convert_field(void *user, const cr_wire_part *part) {
  enum { LAYER = 100, V1_LAYERS = 2 };
  conversion *c = user;
  if (c->start == NULL) c->start = part->start;
  if (!part->has_payload || (part->number != LAYER && part->number != V1_LAYERS)) {
    return cr_file_draft_write(c->draft, part->start, (size_t)(part->end - part->start));
  }
  cr_buffer head = {0}, body = {0};
  crema_status status = CREMA_OK;
  ++c->layers;
  CR_TRY_GOTO(rewrite_message(c, part->number == LAYER ? &layer : &v1_layer, part, &body), out);
  CR_TRY_GOTO(cr_wire_print_head(&head, part->number, body.size), out);
  CR_TRY_GOTO(cr_file_draft_write(c->draft, head.data, head.size), out);
  if (body.size > 0) status = cr_file_draft_write(c->draft, body.data, body.size);
out:
  cr_buffer_free(&body);
  cr_buffer_free(&head);
  return status;
}

crema_status cr_model_convert(const char *in, const char *out, crema_dtype type, bool old_format,
                              cr_convert_report *report) {
  cr_file_draft draft;
  *report = (cr_convert_report){0};
  CR_TRY(cr_file_draft_begin(out, &draft));
  conversion c = {
      .path = in, .type = type, .old_format = old_format, .report = report, .draft = &draft};
  crema_status status =
      cr_message_walk_binary(&caffe__net_parameter__descriptor, in, convert_field, &c);
  if (status == CREMA_OK && c.layers == 0) {
    status = cr_fail(CREMA_E_CORRUPT, "%s: holds no layers", in);
  } else if (status == CREMA_OK && report->blobs + report->kept == 0) {
    status = cr_fail(CREMA_E_NOT_FOUND, "%s: holds no parameters", in);
  }
  return cr_file_draft_end(&draft, status);
}
