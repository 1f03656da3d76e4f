/* Messages to protobuf wire format, driven by the descriptors. */
#include "proto/wire_writer.h"

#include <string.h>

#include "core/fail.h"
#include "proto/field.h"
#include "proto/wire_format.h"

typedef struct wire_writer {
  cr_wire_sink sink;
  void *user;
} wire_writer;

static size_t varint_size(uint64_t value) {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

static size_t tag_size(uint32_t number) {
  return varint_size((uint64_t)number << 3);
}

/* The value of a varint: zigzag for sint, sign-extended to 64 bits for int32 and enums. */
static uint64_t number_bits(ProtobufCType type, const void *value) {
  int32_t small;
  int64_t large;
  switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM: memcpy(&small, value, 4); return (uint64_t)(int64_t)small;
    case PROTOBUF_C_TYPE_SINT32:
      memcpy(&small, value, 4);
      return ((uint32_t)small << 1) ^ (small < 0 ? UINT32_MAX : 0);
    case PROTOBUF_C_TYPE_SINT64:
      memcpy(&large, value, 8);
      return ((uint64_t)large << 1) ^ (large < 0 ? UINT64_MAX : 0);
    case PROTOBUF_C_TYPE_BOOL: return *(const protobuf_c_boolean *)value != 0;
    case PROTOBUF_C_TYPE_UINT32: memcpy(&small, value, 4); return (uint32_t)small;
    default: memcpy(&large, value, 8); return (uint64_t)large;
  }
}

/* Size of a value without its tag; of a string, bytes or message without its length too. */
static size_t content_size(const ProtobufCFieldDescriptor *field, const void *value) {
  switch (field->type) {
    case PROTOBUF_C_TYPE_STRING: return strlen(*(char *const *)value);
    case PROTOBUF_C_TYPE_BYTES: return ((const ProtobufCBinaryData *)value)->len;
    case PROTOBUF_C_TYPE_MESSAGE: return cr_wire_size(*(ProtobufCMessage *const *)value);
    default: break;
  }
  switch (cr_wire_type_of(field->type)) {
    case CR_WIRE_FIXED32: return 4;
    case CR_WIRE_FIXED64: return 8;
    default: return varint_size(number_bits(field->type, value));
  }
}

static bool is_packed(const ProtobufCFieldDescriptor *field) {
  return (field->flags & PROTOBUF_C_FIELD_FLAG_PACKED) != 0;
}

/* Size of all values of a packed field together. */
static size_t packed_size(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                          size_t count) {
  cr_wire_type wire = cr_wire_type_of(field->type);
  if (wire == CR_WIRE_FIXED32) return 4 * count;
  if (wire == CR_WIRE_FIXED64) return 8 * count;
  size_t size = 0;
  for (size_t i = 0; i < count; ++i) {
    size += varint_size(number_bits(field->type, cr_field_value(message, field, i)));
  }
  return size;
}

/* True when the message has a field that only a fork with other numbers has. */
static bool shows_fork(const ProtobufCMessage *message) {
  const ProtobufCMessageDescriptor *type = message->descriptor;
  if (!cr_dialect_concerns(type)) return false;
  for (unsigned i = 0; i < type->n_fields; ++i) {
    const ProtobufCFieldDescriptor *field = &type->fields[i];
    if (cr_field_count(message, field) > 0 &&
        cr_dialect_shows_fork(type, field->id, cr_wire_type_of(field->type))) {
      return true;
    }
  }
  for (size_t i = 0; i < message->n_unknown_fields; ++i) {
    const ProtobufCMessageUnknownField *unknown = &message->unknown_fields[i];
    if (cr_dialect_shows_fork(type, unknown->tag, (cr_wire_type)unknown->wire_type)) return true;
  }
  return false;
}

static uint32_t wire_number(const ProtobufCMessageDescriptor *type,
                            const ProtobufCFieldDescriptor *field, bool fork) {
  if (!cr_dialect_concerns(type)) return field->id;
  return cr_dialect_to_wire(type, field->id, fork);
}

static bool is_note(const ProtobufCMessageUnknownField *unknown) {
  return (int)unknown->wire_type == CR_WIRE_NOTE;
}

size_t cr_wire_size(const ProtobufCMessage *message) {
  const ProtobufCMessageDescriptor *type = message->descriptor;
  bool fork = shows_fork(message);
  size_t size = 0;
  for (unsigned f = 0; f < type->n_fields; ++f) {
    const ProtobufCFieldDescriptor *field = &type->fields[f];
    size_t count = cr_field_count(message, field);
    if (count == 0) continue;
    size_t tag = tag_size(wire_number(type, field, fork));
    if (is_packed(field)) {
      size_t bytes = packed_size(message, field, count);
      size += tag + varint_size(bytes) + bytes;
      continue;
    }
    bool prefixed = cr_wire_type_of(field->type) == CR_WIRE_BYTES;
    for (size_t i = 0; i < count; ++i) {
      size_t bytes = content_size(field, cr_field_value(message, field, i));
      size += tag + bytes + (prefixed ? varint_size(bytes) : 0);
    }
  }
  for (size_t i = 0; i < message->n_unknown_fields; ++i) {
    const ProtobufCMessageUnknownField *unknown = &message->unknown_fields[i];
    if (is_note(unknown)) continue;
    size += tag_size(unknown->tag) + unknown->len;
  }
  return size;
}

static crema_status put(wire_writer *w, const void *bytes, size_t size) {
  return size > 0 ? w->sink(w->user, bytes, size) : CREMA_OK;
}

static crema_status put_varint(wire_writer *w, uint64_t value) {
  uint8_t bytes[CR_WIRE_VARINT_MAX];
  size_t size = 0;
  for (; value >= 0x80; value >>= 7) bytes[size++] = (uint8_t)(value | 0x80);
  bytes[size++] = (uint8_t)value;
  return put(w, bytes, size);
}

static crema_status put_tag(wire_writer *w, uint32_t number, cr_wire_type wire) {
  return put_varint(w, ((uint64_t)number << 3) | wire);
}

static crema_status put_message(wire_writer *w, const ProtobufCMessage *message);

/* A value with its length, if it has one, without its tag. */
static crema_status put_value(wire_writer *w, const ProtobufCFieldDescriptor *field,
                              const void *value) {
  cr_wire_type wire = cr_wire_type_of(field->type);
  if (wire == CR_WIRE_VARINT) return put_varint(w, number_bits(field->type, value));
  if (wire == CR_WIRE_FIXED32) return put(w, value, 4);
  if (wire == CR_WIRE_FIXED64) return put(w, value, 8);
  size_t size = content_size(field, value);
  CR_TRY(put_varint(w, size));
  if (field->type == PROTOBUF_C_TYPE_STRING) return put(w, *(char *const *)value, size);
  if (field->type == PROTOBUF_C_TYPE_BYTES) {
    return put(w, ((const ProtobufCBinaryData *)value)->data, size);
  }
  return put_message(w, *(ProtobufCMessage *const *)value);
}

static crema_status put_packed(wire_writer *w, const ProtobufCMessage *message,
                               const ProtobufCFieldDescriptor *field, size_t count) {
  size_t size = packed_size(message, field, count);
  CR_TRY(put_varint(w, size));
  if (cr_wire_type_of(field->type) != CR_WIRE_VARINT) {
    return put(w, cr_field_value(message, field, 0), size);
  }
  for (size_t i = 0; i < count; ++i) {
    CR_TRY(put_value(w, field, cr_field_value(message, field, i)));
  }
  return CREMA_OK;
}

static crema_status put_field(wire_writer *w, const ProtobufCMessage *message,
                              const ProtobufCFieldDescriptor *field, uint32_t number) {
  size_t count = cr_field_count(message, field);
  if (count > 0 && is_packed(field)) {
    CR_TRY(put_tag(w, number, CR_WIRE_BYTES));
    return put_packed(w, message, field, count);
  }
  for (size_t i = 0; i < count; ++i) {
    CR_TRY(put_tag(w, number, cr_wire_type_of(field->type)));
    CR_TRY(put_value(w, field, cr_field_value(message, field, i)));
  }
  return CREMA_OK;
}

/* The fields of a message in the order of the numbers they are written under. */
typedef struct field_order {
  const ProtobufCFieldDescriptor *field[CR_FIELDS_MAX];
  uint32_t number[CR_FIELDS_MAX];
  unsigned count;
} field_order;

static void sort_fields(const ProtobufCMessage *message, field_order *order) {
  const ProtobufCMessageDescriptor *type = message->descriptor;
  bool fork = shows_fork(message);
  order->count = 0;
  for (unsigned f = 0; f < type->n_fields; ++f) {
    const ProtobufCFieldDescriptor *field = &type->fields[f];
    uint32_t number = wire_number(type, field, fork);
    unsigned at = order->count++;
    for (; at > 0 && order->number[at - 1] > number; --at) {
      order->number[at] = order->number[at - 1];
      order->field[at] = order->field[at - 1];
    }
    order->number[at] = number;
    order->field[at] = field;
  }
}

static crema_status put_message(wire_writer *w, const ProtobufCMessage *message) {
  field_order order;
  if (message->descriptor->n_fields > CR_FIELDS_MAX) {
    return cr_fail(CREMA_E_INTERNAL, "%s is too wide", message->descriptor->name);
  }
  sort_fields(message, &order);
  for (unsigned i = 0; i < order.count; ++i) {
    CR_TRY(put_field(w, message, order.field[i], order.number[i]));
  }
  for (size_t i = 0; i < message->n_unknown_fields; ++i) {
    const ProtobufCMessageUnknownField *unknown = &message->unknown_fields[i];
    if (is_note(unknown)) continue;
    CR_TRY(put_tag(w, unknown->tag, (cr_wire_type)unknown->wire_type));
    CR_TRY(put(w, unknown->data, unknown->len));
  }
  return CREMA_OK;
}

crema_status cr_wire_send(const ProtobufCMessage *message, cr_wire_sink sink, void *user) {
  wire_writer w = {sink, user};
  return put_message(&w, message);
}

static crema_status append_to_buffer(void *user, const void *bytes, size_t size) {
  return cr_buffer_append(user, bytes, size);
}

crema_status cr_wire_print(const ProtobufCMessage *message, cr_buffer *out) {
  CR_TRY(cr_buffer_reserve(out, out->size + cr_wire_size(message)));
  return cr_wire_send(message, append_to_buffer, out);
}

crema_status cr_wire_print_head(cr_buffer *out, uint32_t number, size_t size) {
  wire_writer w = {append_to_buffer, out};
  CR_TRY(put_tag(&w, number, CR_WIRE_BYTES));
  return put_varint(&w, size);
}
