/* Copying and freeing messages. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "proto/field.h"

static crema_status copy_value(const ProtobufCFieldDescriptor *field, const void *from, void *to) {
  if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
    return cr_message_copy(*(ProtobufCMessage *const *)from, to);
  }
  if (field->type == PROTOBUF_C_TYPE_STRING) {
    char *text = cr_proto_strdup(*(char *const *)from);
    if (text == NULL) return cr_fail_memory(strlen(*(char *const *)from) + 1, field->name);
    *(char **)to = text;
    return CREMA_OK;
  }
  if (field->type == PROTOBUF_C_TYPE_BYTES) {
    const ProtobufCBinaryData *bytes = from;
    uint8_t *data = cr_proto_alloc(bytes->len);
    if (data == NULL) return cr_fail_memory(bytes->len, field->name);
    if (bytes->len > 0) memcpy(data, bytes->data, bytes->len);
    *(ProtobufCBinaryData *)to = (ProtobufCBinaryData){bytes->len, data};
    return CREMA_OK;
  }
  memcpy(to, from, cr_field_width(field));
  return CREMA_OK;
}

static crema_status copy_repeated(const ProtobufCMessage *from,
                                  const ProtobufCFieldDescriptor *field, ProtobufCMessage *to) {
  size_t count = cr_field_count(from, field);
  size_t width = cr_field_width(field);
  if (count == 0) return CREMA_OK;
  CR_TRY(cr_field_reserve(to, field, count));
  size_t *length = cr_field_length(to, field);
  char *array = *(char **)cr_field_slot(to, field);
  if (field->type != PROTOBUF_C_TYPE_MESSAGE && field->type != PROTOBUF_C_TYPE_STRING &&
      field->type != PROTOBUF_C_TYPE_BYTES) {
    memcpy(array, cr_field_value(from, field, 0), count * width);
    *length = count;
  }
  for (; *length < count; ++*length) {
    CR_TRY(copy_value(field, cr_field_value(from, field, *length), array + *length * width));
  }
  return CREMA_OK;
}

static crema_status copy_unknown(const ProtobufCMessage *from, ProtobufCMessage *to) {
  size_t count = from->n_unknown_fields;
  if (count == 0) return CREMA_OK;
  CR_TRY(CR_NEW(to->unknown_fields, count, "unknown fields"));
  for (; to->n_unknown_fields < count; ++to->n_unknown_fields) {
    const ProtobufCMessageUnknownField *source = &from->unknown_fields[to->n_unknown_fields];
    ProtobufCMessageUnknownField *target = &to->unknown_fields[to->n_unknown_fields];
    *target = *source;
    target->data = cr_proto_alloc(source->len);
    if (target->data == NULL) return cr_fail_memory(source->len, "an unknown field");
    memcpy(target->data, source->data, source->len);
  }
  return CREMA_OK;
}

static crema_status copy_fields(const ProtobufCMessage *from, ProtobufCMessage *to) {
  const ProtobufCMessageDescriptor *type = from->descriptor;
  for (unsigned i = 0; i < type->n_fields; ++i) {
    const ProtobufCFieldDescriptor *field = &type->fields[i];
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
      CR_TRY(copy_repeated(from, field, to));
    } else if (cr_field_count(from, field) > 0) {
      CR_TRY(copy_value(field, cr_field_slot(from, field), cr_field_slot(to, field)));
      cr_field_mark(to, field);
    }
  }
  return copy_unknown(from, to);
}

crema_status cr_message_new(const ProtobufCMessageDescriptor *type, void *out) {
  ProtobufCMessage *message = malloc(type->sizeof_message);
  memcpy(out, &message, sizeof message);
  if (message == NULL) return cr_fail_memory(type->sizeof_message, type->short_name);
  protobuf_c_message_init(type, message);
  return CREMA_OK;
}

crema_status cr_message_copy(const ProtobufCMessage *message, void *out) {
  ProtobufCMessage *copy = NULL;
  crema_status status = cr_message_new(message->descriptor, &copy);
  if (status == CREMA_OK) status = copy_fields(message, copy);
  if (status != CREMA_OK) {
    cr_message_free(copy);
    copy = NULL;
  }
  memcpy(out, &copy, sizeof copy);
  return status;
}

void cr_message_free(ProtobufCMessage *message) {
  if (message != NULL) protobuf_c_message_free_unpacked(message, NULL);
}

void *cr_proto_alloc(size_t size) {
  return malloc(size > 0 ? size : 1);
}

char *cr_proto_strdup(const char *text) {
  return strdup(text);
}
