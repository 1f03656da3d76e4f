#include "proto/field.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

size_t cr_field_width(const ProtobufCFieldDescriptor *field) {
  switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return 4;
    case PROTOBUF_C_TYPE_ENUM: return sizeof(int);
    case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    case PROTOBUF_C_TYPE_STRING: return sizeof(char *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(ProtobufCMessage *);
  }
  return 0;
}

void *cr_field_slot(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
  return (char *)message + field->offset;
}

size_t *cr_field_length(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
  return (size_t *)((char *)message + field->quantifier_offset);
}

static bool is_pointer(const ProtobufCFieldDescriptor *field) {
  return field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE;
}

size_t cr_field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
  if (field->label == PROTOBUF_C_LABEL_REPEATED) {
    return *(const size_t *)((const char *)message + field->quantifier_offset);
  }
  if (is_pointer(field)) {
    const void *value = *(void *const *)cr_field_slot(message, field);
    return value != NULL && value != field->default_value;
  }
  if (field->label == PROTOBUF_C_LABEL_REQUIRED) return 1;
  return *(const protobuf_c_boolean *)((const char *)message + field->quantifier_offset) != 0;
}

const void *cr_field_value(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                           size_t index) {
  const void *slot = cr_field_slot(message, field);
  if (field->label != PROTOBUF_C_LABEL_REPEATED) return slot;
  return *(const char *const *)slot + index * cr_field_width(field);
}

void cr_field_mark(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
  if (field->label != PROTOBUF_C_LABEL_OPTIONAL || is_pointer(field)) return;
  *(protobuf_c_boolean *)((char *)message + field->quantifier_offset) = 1;
}

crema_status cr_field_reserve(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                              size_t extra) {
  size_t count = *cr_field_length(message, field);
  size_t width = cr_field_width(field);
  if (extra == 0) return CREMA_OK;
  if (extra > SIZE_MAX / width - count) return cr_fail_memory(SIZE_MAX, field->name);
  void **slot = cr_field_slot(message, field);
  void *grown = realloc(*slot, (count + extra) * width);
  if (grown == NULL) return cr_fail_memory((count + extra) * width, field->name);
  *slot = grown;
  return CREMA_OK;
}

static void free_value(const ProtobufCFieldDescriptor *field, void *slot) {
  if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
    cr_message_free(*(ProtobufCMessage **)slot);
  } else if (field->type == PROTOBUF_C_TYPE_STRING) {
    if (*(void **)slot != field->default_value) free(*(void **)slot);
  } else if (field->type == PROTOBUF_C_TYPE_BYTES) {
    const ProtobufCBinaryData *fallback = field->default_value;
    ProtobufCBinaryData *bytes = slot;
    if (fallback == NULL || bytes->data != fallback->data) free(bytes->data);
  }
}

/* Sets the state of a field without a value; frees nothing. */
static void forget(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
  void *slot = cr_field_slot(message, field);
  if (field->label == PROTOBUF_C_LABEL_REPEATED) {
    *(void **)slot = NULL;
    *cr_field_length(message, field) = 0;
    return;
  }
  if (field->label == PROTOBUF_C_LABEL_OPTIONAL && !is_pointer(field)) {
    *(protobuf_c_boolean *)((char *)message + field->quantifier_offset) = 0;
  }
  if (field->type == PROTOBUF_C_TYPE_STRING) *(const void **)slot = field->default_value;
  else if (field->default_value != NULL) memcpy(slot, field->default_value, cr_field_width(field));
  else memset(slot, 0, cr_field_width(field));
}

void cr_field_clear(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
  char *slot = cr_field_slot(message, field);
  if (field->label == PROTOBUF_C_LABEL_REPEATED) {
    char *array = *(char **)slot;
    size_t count = *cr_field_length(message, field);
    for (size_t i = 0; i < count; ++i) free_value(field, array + i * cr_field_width(field));
    free(array);
  } else {
    free_value(field, slot);
  }
  forget(message, field);
}

crema_status cr_field_move(ProtobufCMessage *from, const ProtobufCFieldDescriptor *from_field,
                           ProtobufCMessage *to, const ProtobufCFieldDescriptor *to_field) {
  bool repeated = to_field->label == PROTOBUF_C_LABEL_REPEATED;
  if (repeated && from_field->label != PROTOBUF_C_LABEL_REPEATED) {
    CR_TRY(cr_field_reserve(to, to_field, 1));
    size_t width = cr_field_width(to_field);
    char *array = *(char **)cr_field_slot(to, to_field);
    size_t *length = cr_field_length(to, to_field);
    memcpy(array + (*length)++ * width, cr_field_slot(from, from_field), width);
  } else {
    cr_field_clear(to, to_field);
    size_t width = repeated ? sizeof(void *) : cr_field_width(to_field);
    memcpy(cr_field_slot(to, to_field), cr_field_slot(from, from_field), width);
    if (repeated) *cr_field_length(to, to_field) = *cr_field_length(from, from_field);
    else cr_field_mark(to, to_field);
  }
  forget(from, from_field);
  return CREMA_OK;
}

crema_status cr_field_message(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                              ProtobufCMessage **out) {
  ProtobufCMessage **slot = cr_field_slot(message, field);
  if (*slot == NULL) CR_TRY(cr_message_new(field->descriptor, slot));
  *out = *slot;
  return CREMA_OK;
}

int cr_field_name_length(const char *name) {
  size_t length = strlen(name);
  if (length > 0 && name[length - 1] == '_') --length;
  return (int)length;
}

const ProtobufCFieldDescriptor *cr_message_field(const ProtobufCMessage *message,
                                                 const char *name) {
  return protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
}

void cr_message_clear(ProtobufCMessage *message, const char *name) {
  cr_field_clear(message, cr_message_field(message, name));
}

crema_status cr_message_reserve(ProtobufCMessage *message, const char *name, size_t extra) {
  return cr_field_reserve(message, cr_message_field(message, name), extra);
}

crema_status cr_message_inner(ProtobufCMessage *message, const char *name, void *out) {
  ProtobufCMessage *inner = NULL;
  CR_TRY(cr_field_message(message, cr_message_field(message, name), &inner));
  memcpy(out, &inner, sizeof inner);
  return CREMA_OK;
}

crema_status cr_message_move(ProtobufCMessage *from, const char *name, ProtobufCMessage *to,
                             const char *new_name) {
  const ProtobufCFieldDescriptor *field = cr_message_field(from, name);
  if (cr_field_count(from, field) == 0) return CREMA_OK;
  return cr_field_move(from, field, to, cr_message_field(to, new_name));
}
