/* Protobuf wire format to messages, driven by the descriptors.
 *
 * protobuf-c's own reader is limited to fields of 2 GiB, which one layer of a large model exceeds.
 * It also keeps a record for each unpacked float. This reader has no such limit. Each message is
 * walked twice: once to count the values of its repeated fields and to learn its dialect, then to
 * read them into arrays of the right size. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "proto/field.h"
#include "proto/wire_format.h"

typedef struct message_reader {
  const uint8_t *start;
  const uint8_t *end;
  const char *source;
  const cr_wire_input *input;
  size_t *used; /* of the budget */
} message_reader;

/* The unread rest of one message. */
typedef struct wire_cursor {
  const uint8_t *at;
  const uint8_t *end;
} wire_cursor;

/* One record: a tag and its payload. */
typedef struct wire_record {
  uint32_t number;
  cr_wire_type wire;
  const uint8_t *body;    /* everything after the tag */
  const uint8_t *payload; /* after the length, for CR_WIRE_BYTES; else the same as body */
  const uint8_t *end;
  uint64_t varint; /* the value, for CR_WIRE_VARINT */
} wire_record;

/* The result of the first walk over a message. */
typedef struct wire_survey {
  size_t counts[CR_FIELDS_MAX]; /* values of each field, packed or not */
  /* The position of all values of the field if they stay in the input; else NULL. */
  const uint8_t *in_place[CR_FIELDS_MAX];
  size_t unknown;
  bool fork;
} wire_survey;

static crema_status fail_at(const message_reader *r, const uint8_t *at, const char *what,
                            const ProtobufCMessageDescriptor *type) {
  return cr_fail(CREMA_E_CORRUPT, "%s: byte %zu: %s in %s", r->source, (size_t)(at - r->start),
                 what, type->short_name);
}

/* Before `count` items of `width` bytes are allocated. */
static crema_status charge(const message_reader *r, size_t count, size_t width) {
  enum { OVERHEAD = 16 }; /* of the allocator */
  const size_t budget = r->input->budget;
  if (budget == 0) return CREMA_OK;
  const size_t left = budget - *r->used;
  if (count < left / width && count * width + OVERHEAD <= left) {
    *r->used += count * width + OVERHEAD;
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_CORRUPT, "%s: its messages need more than %zu bytes of memory", r->source,
                 budget);
}

/* Before the bytes from `at` to `end` are looked at. */
static crema_status need(const message_reader *r, const uint8_t *at, const uint8_t *end) {
  if (r->input->load == NULL || at >= end) return CREMA_OK;
  return r->input->load(r->input->user, (size_t)(at - r->start), (size_t)(end - r->start));
}

/* Whether a field of `size` bytes stays in the input. */
static bool stays(const message_reader *r, const ProtobufCMessageDescriptor *type, size_t size) {
  const ProtobufCMessageDescriptor *run_type = r->input->run_type;
  if (run_type == NULL) run_type = &caffe__blob_proto__descriptor;
  return r->input->run > 0 && size >= r->input->run && type == run_type;
}

/* Whether `memory` is part of the input and none that was allocated. */
static bool is_input(const message_reader *r, const void *memory) {
  uintptr_t at = (uintptr_t)memory;
  return at >= (uintptr_t)r->start && at < (uintptr_t)r->end;
}

/* NULL when no varint ends within 10 bytes and before `end`. */
static const uint8_t *read_varint(const uint8_t *at, const uint8_t *end, uint64_t *out) {
  uint64_t value = 0;
  for (unsigned i = 0; i < CR_WIRE_VARINT_MAX && at < end; ++i) {
    uint8_t byte = *at++;
    value |= (uint64_t)(byte & 0x7F) << (7 * i);
    if ((byte & 0x80) == 0) {
      *out = value;
      return at;
    }
  }
  return NULL;
}

static bool read_tag(wire_cursor *c, uint32_t *number, cr_wire_type *wire) {
  uint64_t tag;
  const uint8_t *after = read_varint(c->at, c->end, &tag);
  if (after == NULL || (tag >> 3) == 0 || (tag >> 3) > CR_WIRE_NUMBER_MAX || (tag & 7) > 5) {
    return false;
  }
  *number = (uint32_t)(tag >> 3);
  *wire = (cr_wire_type)(tag & 7);
  c->at = after;
  return true;
}

/* Moves over a payload that is not a group. False when it is cut off. */
static bool skip_payload(wire_cursor *c, cr_wire_type wire) {
  uint64_t size = wire == CR_WIRE_FIXED32 ? 4 : 8;
  if (wire == CR_WIRE_VARINT || wire == CR_WIRE_BYTES) {
    const uint8_t *after = read_varint(c->at, c->end, &size);
    if (after == NULL) return false;
    c->at = after;
    if (wire == CR_WIRE_VARINT) return true;
  }
  if (size > (uint64_t)(c->end - c->at)) return false;
  c->at += size;
  return true;
}

/* Skips to the end of a group whose start tag was just read. No field of the schema is a group;
 * other dialects may have some. */
static bool skip_group(wire_cursor *c, uint32_t number) {
  uint32_t open[CR_WIRE_DEPTH_MAX];
  size_t depth = 0;
  open[depth++] = number;
  while (depth > 0) {
    cr_wire_type wire;
    if (!read_tag(c, &number, &wire)) return false;
    if (wire == CR_WIRE_GROUP_START) {
      if (depth == CR_WIRE_DEPTH_MAX) return false;
      open[depth++] = number;
    } else if (wire == CR_WIRE_GROUP_END) {
      if (number != open[--depth]) return false;
    } else if (!skip_payload(c, wire)) {
      return false;
    }
  }
  return true;
}

/* Fails because the payload of the record that starts at `start` goes beyond `end`. */
static crema_status fail_cut(const message_reader *r, const ProtobufCMessageDescriptor *type,
                             const uint8_t *start, const uint8_t *end, const wire_record *record) {
  const ProtobufCFieldDescriptor *field =
      protobuf_c_message_descriptor_get_field(type, record->number);
  uint64_t size = 0;
  const uint8_t *payload =
      record->wire == CR_WIRE_BYTES ? read_varint(record->body, end, &size) : NULL;
  cr_buffer need = {0};
  if (payload != NULL) {
    CR_TRY(cr_buffer_print(&need, " needs %llu bytes, but only %zu are left",
                           (unsigned long long)size, (size_t)(end - payload)));
  }
  crema_status status =
      cr_fail(CREMA_E_CORRUPT, "%s: byte %zu: field %u (%.*s) of %s%s; the data is %s", r->source,
              (size_t)(start - r->start), record->number,
              field != NULL ? cr_field_name_length(field->name) : 7,
              field != NULL ? field->name : "unknown", type->short_name,
              payload != NULL ? need.data : " is unfinished",
              end == r->end ? "truncated or damaged" : "damaged");
  cr_buffer_free(&need);
  return status;
}

static crema_status next_record(const message_reader *r, const ProtobufCMessageDescriptor *type,
                                wire_cursor *c, wire_record *record) {
  enum { HEAD = 2 * CR_WIRE_VARINT_MAX }; /* a tag and a length or a number */
  const uint8_t *start = c->at;
  CR_TRY(need(r, start, c->end - start > HEAD ? start + HEAD : c->end));
  if (!read_tag(c, &record->number, &record->wire) || record->wire == CR_WIRE_GROUP_END) {
    return fail_at(r, start, "neither a field nor the end", type);
  }
  record->body = c->at;
  record->payload = c->at;
  record->varint = 0;
  if (record->wire == CR_WIRE_GROUP_START) {
    CR_TRY(need(r, start, c->end));
    if (!skip_group(c, record->number)) return fail_at(r, start, "unfinished group", type);
  } else {
    if (!skip_payload(c, record->wire)) return fail_cut(r, type, start, c->end, record);
    if (record->wire == CR_WIRE_VARINT || record->wire == CR_WIRE_BYTES) {
      record->payload = read_varint(record->body, c->end, &record->varint);
    }
  }
  record->end = c->at;
  return CREMA_OK;
}

static bool is_enum_value(const ProtobufCEnumDescriptor *type, uint64_t number) {
  return protobuf_c_enum_descriptor_get_value(type, (int)(uint32_t)number) != NULL;
}

/* Number of values in a packed record; false when it is damaged. A run with a value that its enum
 * does not have counts as unknown: SIZE_MAX. */
static bool count_packed(const ProtobufCFieldDescriptor *field, const wire_record *record,
                         size_t *count) {
  size_t size = (size_t)(record->end - record->payload);
  cr_wire_type wire = cr_wire_type_of(field->type);
  *count = 0;
  if (wire != CR_WIRE_VARINT) {
    size_t width = wire == CR_WIRE_FIXED32 ? 4 : 8;
    *count = size / width;
    return size % width == 0;
  }
  const uint8_t *at = record->payload;
  bool known = true;
  while (at < record->end) {
    uint64_t value;
    at = read_varint(at, record->end, &value);
    if (at == NULL) return false;
    if (field->type == PROTOBUF_C_TYPE_ENUM)
      known = known && is_enum_value(field->descriptor, value);
    ++*count;
  }
  if (!known) *count = SIZE_MAX;
  return true;
}

/* The field of a record and the number of its values. NULL for a record that is kept as unknown:
 * the schema lacks its number or its enum value, or gives the field another wire type. */
static crema_status find_field(const message_reader *r, const ProtobufCMessageDescriptor *type,
                               const wire_record *record, bool fork,
                               const ProtobufCFieldDescriptor **out, size_t *count) {
  uint32_t number = cr_dialect_to_schema(type, record->number, record->wire, fork);
  const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(type, number);
  *out = NULL;
  *count = 1;
  if (field == NULL) return CREMA_OK;
  if (record->wire == cr_wire_type_of(field->type)) {
    bool known =
        field->type != PROTOBUF_C_TYPE_ENUM || is_enum_value(field->descriptor, record->varint);
    if (known) *out = field;
    return CREMA_OK;
  }
  if (record->wire != CR_WIRE_BYTES || field->label != PROTOBUF_C_LABEL_REPEATED ||
      !cr_wire_packable(field->type)) {
    return CREMA_OK;
  }
  if (cr_wire_type_of(field->type) == CR_WIRE_VARINT) CR_TRY(need(r, record->body, record->end));
  if (!count_packed(field, record, count)) {
    return cr_fail(CREMA_E_CORRUPT, "%s: byte %zu: the values of %s.%s do not fill their record",
                   r->source, (size_t)(record->body - r->start), type->short_name, field->name);
  }
  if (*count != SIZE_MAX) *out = field;
  return CREMA_OK;
}

static crema_status learn_dialect(const message_reader *r, const ProtobufCMessageDescriptor *type,
                                  wire_cursor c, bool *fork) {
  *fork = false;
  if (!cr_dialect_concerns(type)) return CREMA_OK;
  while (c.at < c.end) {
    wire_record record;
    CR_TRY(next_record(r, type, &c, &record));
    *fork = *fork || cr_dialect_shows_fork(type, record.number, record.wire);
  }
  return CREMA_OK;
}

/* Records that `count` values of field number `index` are in the record. */
static void count_values(const message_reader *r, const ProtobufCMessageDescriptor *type,
                         const wire_record *record, size_t index, size_t count, wire_survey *out) {
  const ProtobufCFieldDescriptor *field = &type->fields[index];
  size_t size = (size_t)(record->end - record->payload);
  bool numbers = record->wire == CR_WIRE_BYTES && cr_wire_packable(field->type) &&
                 cr_wire_type_of(field->type) != CR_WIRE_VARINT;
  bool first = out->counts[index] == 0 && numbers && stays(r, type, size);
  out->in_place[index] = first ? record->payload : NULL;
  out->counts[index] += count;
}

static crema_status survey(const message_reader *r, const ProtobufCMessageDescriptor *type,
                           wire_cursor c, wire_survey *out) {
  memset(out, 0, sizeof *out);
  CR_TRY(learn_dialect(r, type, c, &out->fork));
  while (c.at < c.end) {
    wire_record record;
    const ProtobufCFieldDescriptor *field;
    size_t count;
    CR_TRY(next_record(r, type, &c, &record));
    CR_TRY(find_field(r, type, &record, out->fork, &field, &count));
    if (field == NULL) ++out->unknown;
    else count_values(r, type, &record, (size_t)(field - type->fields), count, out);
  }
  return CREMA_OK;
}

static crema_status read_message(const message_reader *r, ProtobufCMessage *message, wire_cursor c,
                                 bool fresh);

/* Stores the value of a varint. */
static void store_number(ProtobufCType type, uint64_t bits, void *slot) {
  uint32_t low = (uint32_t)bits;
  switch (type) {
    case PROTOBUF_C_TYPE_BOOL: *(protobuf_c_boolean *)slot = bits != 0; return;
    case PROTOBUF_C_TYPE_SINT32: low = (low >> 1) ^ (0U - (low & 1)); break;
    case PROTOBUF_C_TYPE_SINT64: bits = (bits >> 1) ^ (UINT64_C(0) - (bits & 1)); break;
    default: break;
  }
  const ProtobufCFieldDescriptor probe = {.type = type};
  if (cr_field_width(&probe) == 4) memcpy(slot, &low, 4);
  else memcpy(slot, &bits, 8);
}

static crema_status store_string(const message_reader *r, const ProtobufCFieldDescriptor *field,
                                 const wire_record *record, char **slot) {
  size_t size = (size_t)(record->end - record->payload);
  if (memchr(record->payload, '\0', size) != NULL) {
    return cr_fail(CREMA_E_CORRUPT, "%s: byte %zu: a NUL byte in the string %s", r->source,
                   (size_t)(record->payload - r->start), field->name);
  }
  CR_TRY(charge(r, size + 1, 1));
  char *text = malloc(size + 1);
  if (text == NULL) return cr_fail_memory(size + 1, field->name);
  memcpy(text, record->payload, size);
  text[size] = '\0';
  if (*slot != NULL && *slot != field->default_value) free(*slot);
  *slot = text;
  return CREMA_OK;
}

static crema_status store_bytes(const message_reader *r, const ProtobufCFieldDescriptor *field,
                                const wire_record *record, ProtobufCBinaryData *slot) {
  const ProtobufCBinaryData *fallback = field->default_value;
  size_t size = (size_t)(record->end - record->payload);
  CR_TRY(charge(r, size, 1));
  uint8_t *data = malloc(size > 0 ? size : 1);
  if (data == NULL) return cr_fail_memory(size, field->name);
  memcpy(data, record->payload, size);
  bool own = fallback == NULL || fallback->data != slot->data;
  if (own && !is_input(r, slot->data)) free(slot->data);
  *slot = (ProtobufCBinaryData){size, data};
  return CREMA_OK;
}

static crema_status store_value(const message_reader *r, const ProtobufCFieldDescriptor *field,
                                const wire_record *record, void *slot) {
  switch (field->type) {
    case PROTOBUF_C_TYPE_STRING: return store_string(r, field, record, slot);
    case PROTOBUF_C_TYPE_BYTES: return store_bytes(r, field, record, slot);
    case PROTOBUF_C_TYPE_MESSAGE: {
      ProtobufCMessage **message = slot;
      const bool fresh = *message == NULL;
      const ProtobufCMessageDescriptor *type = field->descriptor;
      if (fresh) CR_TRY(charge(r, 1, type->sizeof_message));
      if (fresh) CR_TRY(cr_message_new(type, message));
      return read_message(r, *message, (wire_cursor){record->payload, record->end}, fresh);
    }
    default: break;
  }
  if (record->wire == CR_WIRE_VARINT) store_number(field->type, record->varint, slot);
  else memcpy(slot, record->body, record->wire == CR_WIRE_FIXED32 ? 4 : 8);
  return CREMA_OK;
}

static void store_packed(const ProtobufCFieldDescriptor *field, const wire_record *record,
                         char *slot) {
  size_t width = cr_field_width(field);
  const uint8_t *at = record->payload;
  if (cr_wire_type_of(field->type) != CR_WIRE_VARINT) {
    memcpy(slot, at, (size_t)(record->end - at));
    return;
  }
  for (; at < record->end; slot += width) {
    uint64_t bits = 0;
    at = read_varint(at, record->end, &bits);
    store_number(field->type, bits, slot);
  }
}

static crema_status read_repeated(const message_reader *r, ProtobufCMessage *message,
                                  const ProtobufCFieldDescriptor *field, const wire_record *record,
                                  size_t count) {
  if (count == 0) return CREMA_OK;
  size_t *length = cr_field_length(message, field);
  size_t width = cr_field_width(field);
  char *slot = *(char **)cr_field_slot(message, field) + *length * width;
  if (record->wire != cr_wire_type_of(field->type)) {
    store_packed(field, record, slot);
    *length += count;
    return CREMA_OK;
  }
  memset(slot, 0, width);
  crema_status status = store_value(r, field, record, slot);
  /* A message that failed half way is already in the array and is freed with it. */
  if (status == CREMA_OK || field->type == PROTOBUF_C_TYPE_MESSAGE) {
    if (status == CREMA_OK || *(void **)slot != NULL) ++*length;
  }
  return status;
}

/* The array must have room for one more. */
static crema_status keep_unknown(const message_reader *r, ProtobufCMessage *message,
                                 const wire_record *record) {
  size_t size = (size_t)(record->end - record->body);
  CR_TRY(charge(r, size, 1));
  uint8_t *data = malloc(size > 0 ? size : 1);
  if (data == NULL) return cr_fail_memory(size, "an unknown field");
  memcpy(data, record->body, size);
  message->unknown_fields[message->n_unknown_fields++] =
      (ProtobufCMessageUnknownField){record->number, (ProtobufCWireType)record->wire, size, data};
  return CREMA_OK;
}

static crema_status reserve(const message_reader *r, ProtobufCMessage *message,
                            const wire_survey *found) {
  const ProtobufCMessageDescriptor *type = message->descriptor;
  for (unsigned i = 0; i < type->n_fields; ++i) {
    if (type->fields[i].label != PROTOBUF_C_LABEL_REPEATED) continue;
    if (found->in_place[i] != NULL || found->counts[i] == 0) continue;
    CR_TRY(charge(r, found->counts[i], cr_field_width(&type->fields[i])));
    CR_TRY(cr_field_reserve(message, &type->fields[i], found->counts[i]));
  }
  if (found->unknown == 0) return CREMA_OK;
  CR_TRY(charge(r, found->unknown, sizeof(ProtobufCMessageUnknownField)));
  size_t size = (message->n_unknown_fields + found->unknown) * sizeof(ProtobufCMessageUnknownField);
  void *grown = realloc(message->unknown_fields, size);
  if (grown == NULL) return cr_fail_memory(size, "unknown fields");
  message->unknown_fields = grown;
  return CREMA_OK;
}

static crema_status check_required(const message_reader *r, const ProtobufCMessageDescriptor *type,
                                   const wire_survey *found, const uint8_t *at) {
  for (unsigned i = 0; i < type->n_fields; ++i) {
    if (type->fields[i].label == PROTOBUF_C_LABEL_REQUIRED && found->counts[i] == 0) {
      return cr_fail(CREMA_E_CORRUPT, "%s: byte %zu: %s lacks its required field \"%s\"", r->source,
                     (size_t)(at - r->start), type->short_name, type->fields[i].name);
    }
  }
  return CREMA_OK;
}

/* Leaves the field's values in the input if they should stay there. */
static bool keep_in_place(const message_reader *r, ProtobufCMessage *message,
                          const ProtobufCFieldDescriptor *field, const wire_record *record,
                          const wire_survey *found, size_t count) {
  if (field->type == PROTOBUF_C_TYPE_BYTES && field->label != PROTOBUF_C_LABEL_REPEATED) {
    size_t size = (size_t)(record->end - record->payload);
    ProtobufCBinaryData *slot = cr_field_slot(message, field);
    if (slot->data != NULL || !stays(r, message->descriptor, size)) return false;
    *slot = (ProtobufCBinaryData){size, (uint8_t *)(uintptr_t)record->payload};
    cr_field_mark(message, field);
    return true;
  }
  const uint8_t *values = found->in_place[field - message->descriptor->fields];
  if (values == NULL || record->payload != values) return false;
  *(void **)cr_field_slot(message, field) = (void *)(uintptr_t)values;
  *cr_field_length(message, field) = count;
  return true;
}

/* Adds the fields in `c` to a message. `fresh`: the message was empty, so that `c` has all of its
 * required fields. */
static crema_status read_message(const message_reader *r, ProtobufCMessage *message, wire_cursor c,
                                 bool fresh) {
  const ProtobufCMessageDescriptor *type = message->descriptor;
  wire_survey found;
  if (type->n_fields > CR_FIELDS_MAX)
    return cr_fail(CREMA_E_INTERNAL, "%s is too wide", type->name);
  CR_TRY(survey(r, type, c, &found));
  if (fresh) CR_TRY(check_required(r, type, &found, c.at));
  CR_TRY(reserve(r, message, &found));
  while (c.at < c.end) {
    wire_record record;
    const ProtobufCFieldDescriptor *field;
    size_t count;
    CR_TRY(next_record(r, type, &c, &record));
    CR_TRY(find_field(r, type, &record, found.fork, &field, &count));
    if (field != NULL && keep_in_place(r, message, field, &record, &found, count)) continue;
    if (field == NULL || field->type != PROTOBUF_C_TYPE_MESSAGE) {
      CR_TRY(need(r, record.body, record.end));
    }
    if (field == NULL) {
      CR_TRY(keep_unknown(r, message, &record));
    } else if (field->label == PROTOBUF_C_LABEL_REPEATED) {
      CR_TRY(read_repeated(r, message, field, &record, count));
    } else {
      CR_TRY(store_value(r, field, &record, cr_field_slot(message, field)));
      cr_field_mark(message, field);
    }
  }
  return CREMA_OK;
}

/* Removes values that are stored in the input from a message, so that the rest can be freed. */
static void forget(const message_reader *r, ProtobufCMessage *message) {
  const ProtobufCMessageDescriptor *type = message->descriptor;
  for (unsigned i = 0; i < type->n_fields; ++i) {
    const ProtobufCFieldDescriptor *field = &type->fields[i];
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    void *slot = cr_field_slot(message, field);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
      size_t count = repeated ? *cr_field_length(message, field) : *(void **)slot != NULL;
      ProtobufCMessage **part = repeated ? *(ProtobufCMessage ***)slot : slot;
      for (size_t p = 0; p < count; ++p) forget(r, part[p]);
    } else if (repeated && is_input(r, *(void **)slot)) {
      *(void **)slot = NULL;
      *cr_field_length(message, field) = 0;
    } else if (!repeated && field->type == PROTOBUF_C_TYPE_BYTES &&
               is_input(r, ((ProtobufCBinaryData *)slot)->data)) {
      *(ProtobufCBinaryData *)slot = (ProtobufCBinaryData){0};
    }
  }
}

void cr_wire_free(const cr_wire_input *input, ProtobufCMessage *message) {
  if (message == NULL) return;
  if (input->run > 0 && input->size > 0) { /* else there may be no bytes */
    const message_reader r = {.start = input->bytes, .end = input->bytes + input->size};
    forget(&r, message);
  }
  cr_message_free(message);
}

crema_status cr_wire_parse_input(const ProtobufCMessageDescriptor *type, const cr_wire_input *input,
                                 const char *source, ProtobufCMessage **out) {
  static const uint8_t nothing[1];
  const uint8_t *start = input->size > 0 ? input->bytes : nothing;
  size_t used = 0;
  message_reader r = {start, start + input->size, source, input, &used};
  ProtobufCMessage *message;
  *out = NULL;
  CR_TRY(cr_message_new(type, &message));
  crema_status status = read_message(&r, message, (wire_cursor){r.start, r.end}, true);
  if (status != CREMA_OK) {
    cr_wire_free(input, message);
    return status;
  }
  *out = message;
  return CREMA_OK;
}

crema_status cr_wire_parse(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                           size_t size, const char *source, ProtobufCMessage **out) {
  return cr_wire_parse_input(type, &(cr_wire_input){.bytes = bytes, .size = size}, source, out);
}

crema_status cr_wire_walk(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size,
                          const char *source, cr_wire_visit *visit, void *user) {
  const cr_wire_input input = {.bytes = bytes, .size = size};
  message_reader r = {bytes, bytes + size, source, &input, NULL};
  wire_cursor c = {bytes, bytes + size};
  while (c.at < c.end) {
    wire_record record;
    const uint8_t *start = c.at;
    CR_TRY(next_record(&r, type, &c, &record));
    cr_wire_part part = {record.number, record.wire == CR_WIRE_BYTES, start, record.payload,
                         record.end};
    CR_TRY(visit(user, &part));
  }
  return CREMA_OK;
}
