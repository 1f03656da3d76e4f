/* Messages to protobuf text format: one field per line, two spaces per level, numbers with the
 * fewest digits that read back as the same value. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/c_locale.h"
#include "core/fail.h"
#include "proto/field.h"

enum { NUMBER_SIZE = 40 };

/* The shorter of two precisions that reads back as the same value. */
static crema_status print_real(double value, bool is_float, cr_buffer *out) {
  char text[NUMBER_SIZE];
  if (isnan(value)) return cr_buffer_append(out, "nan", 3);
  if (isinf(value)) return cr_buffer_print(out, "%s", value > 0 ? "inf" : "-inf");
  snprintf(text, sizeof text, "%.*g", is_float ? 6 : 15, value);
  const bool same = is_float ? (double)strtof(text, NULL) == value : strtod(text, NULL) == value;
  if (!same) snprintf(text, sizeof text, "%.*g", is_float ? 9 : 17, value);
  return cr_buffer_append(out, text, strlen(text));
}

/* The escaped form of one byte; returns its length. */
static size_t escape_byte(unsigned char c, char out[5]) {
  static const char plain[] = "\n\r\t\"'\\";
  static const char named[] = "nrt\"'\\";
  const char *special = c == '\0' ? NULL : strchr(plain, c);
  if (special != NULL) {
    out[0] = '\\';
    out[1] = named[special - plain];
    return 2;
  }
  if (c >= 0x20 && c < 0x7F) {
    out[0] = (char)c;
    return 1;
  }
  return (size_t)snprintf(out, 5, "\\%03o", c);
}

static crema_status print_bytes(const void *data, size_t size, cr_buffer *out) {
  const unsigned char *bytes = data;
  CR_TRY(cr_buffer_append(out, "\"", 1));
  for (size_t i = 0; i < size; ++i) {
    char escaped[5];
    size_t length = escape_byte(bytes[i], escaped);
    CR_TRY(cr_buffer_append(out, escaped, length));
  }
  return cr_buffer_append(out, "\"", 1);
}

static crema_status print_scalar(const ProtobufCFieldDescriptor *field, const void *value,
                                 cr_buffer *out) {
  switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32: return cr_buffer_print(out, "%d", *(const int32_t *)value);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32: return cr_buffer_print(out, "%u", *(const uint32_t *)value);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
      return cr_buffer_print(out, "%lld", (long long)*(const int64_t *)value);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
      return cr_buffer_print(out, "%llu", (unsigned long long)*(const uint64_t *)value);
    case PROTOBUF_C_TYPE_FLOAT: return print_real((double)*(const float *)value, true, out);
    case PROTOBUF_C_TYPE_DOUBLE: return print_real(*(const double *)value, false, out);
    case PROTOBUF_C_TYPE_BOOL:
      return cr_buffer_print(out, "%s", *(const protobuf_c_boolean *)value ? "true" : "false");
    case PROTOBUF_C_TYPE_ENUM: {
      const int number = *(const int *)value;
      const ProtobufCEnumValue *known =
          protobuf_c_enum_descriptor_get_value(field->descriptor, number);
      if (known == NULL) return cr_buffer_print(out, "%d", number);
      return cr_buffer_append(out, known->name, strlen(known->name));
    }
    case PROTOBUF_C_TYPE_STRING: {
      const char *text = *(char *const *)value;
      return print_bytes(text, strlen(text), out);
    }
    case PROTOBUF_C_TYPE_BYTES: {
      const ProtobufCBinaryData *bytes = value;
      return print_bytes(bytes->data, bytes->len, out);
    }
    case PROTOBUF_C_TYPE_MESSAGE: break;
  }
  return cr_fail(CREMA_E_INTERNAL, "%s is not a scalar", field->name);
}

static crema_status print_fields(const ProtobufCMessage *message, int indent, cr_buffer *out) {
  const ProtobufCMessageDescriptor *type = message->descriptor;
  for (unsigned f = 0; f < type->n_fields; ++f) {
    const ProtobufCFieldDescriptor *field = &type->fields[f];
    size_t count = cr_field_count(message, field);
    int length = cr_field_name_length(field->name);
    for (size_t i = 0; i < count; ++i) {
      const void *value = cr_field_value(message, field, i);
      CR_TRY(cr_buffer_print(out, "%*s%.*s", indent, "", length, field->name));
      if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        CR_TRY(cr_buffer_append(out, " {\n", 3));
        CR_TRY(print_fields(*(ProtobufCMessage *const *)value, indent + 2, out));
        CR_TRY(cr_buffer_print(out, "%*s}\n", indent, ""));
      } else {
        CR_TRY(cr_buffer_append(out, ": ", 2));
        CR_TRY(print_scalar(field, value, out));
        CR_TRY(cr_buffer_append(out, "\n", 1));
      }
    }
  }
  return CREMA_OK;
}

crema_status cr_text_print(const ProtobufCMessage *message, cr_buffer *out) {
  cr_c_locale locale;
  CR_TRY(cr_c_locale_begin(&locale));
  crema_status status = print_fields(message, 0, out);
  /* An empty message is an empty text, not a missing one. */
  if (status == CREMA_OK) status = cr_buffer_append(out, "", 0);
  cr_c_locale_end(&locale);
  return status;
}

static crema_status print_value(const ProtobufCFieldDescriptor *field, const void *value,
                                cr_buffer *out) {
  if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
    return print_fields(*(ProtobufCMessage *const *)value, 0, out);
  }
  if (field->type != PROTOBUF_C_TYPE_STRING) return print_scalar(field, value, out);
  const char *text = *(char *const *)value;
  return text == NULL ? CREMA_OK : cr_buffer_append(out, text, strlen(text));
}

static crema_status print_field(const ProtobufCMessage *message,
                                const ProtobufCFieldDescriptor *field, cr_buffer *out) {
  const bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
  const bool is_message = field->type == PROTOBUF_C_TYPE_MESSAGE;
  const size_t given = cr_field_count(message, field);
  const size_t count = repeated || is_message ? given : 1;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) CR_TRY(cr_buffer_append(out, " ", 1));
    CR_TRY(print_value(field, cr_field_value(message, field, i), out));
  }
  return cr_buffer_append(out, "", 0);
}

/* The message in a field. If it is not set: a new empty message, also stored in *made. */
static crema_status enter_field(const ProtobufCMessage *message,
                                const ProtobufCFieldDescriptor *field, const ProtobufCMessage **out,
                                ProtobufCMessage **made) {
  if (cr_field_count(message, field) > 0) {
    *out = *(ProtobufCMessage *const *)cr_field_value(message, field, 0);
    return CREMA_OK;
  }
  CR_TRY(cr_message_new(field->descriptor, made));
  *out = *made;
  return CREMA_OK;
}

static crema_status print_path(const ProtobufCMessage *message, const char *path, cr_buffer *out) {
  const size_t size = strcspn(path, ".");
  const ProtobufCMessageDescriptor *type = message->descriptor;
  for (unsigned f = 0; f < type->n_fields; ++f) {
    const ProtobufCFieldDescriptor *field = &type->fields[f];
    const size_t length = (size_t)cr_field_name_length(field->name);
    if (length != size || memcmp(field->name, path, size) != 0) continue;
    if (path[size] == '\0') return print_field(message, field, out);
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) break;
    const ProtobufCMessage *inner = NULL;
    ProtobufCMessage *made = NULL;
    CR_TRY(enter_field(message, field, &inner, &made));
    crema_status status = print_path(inner, path + size + 1, out);
    cr_message_free(made);
    return status;
  }
  return cr_fail(CREMA_E_UNKNOWN_NAME, "%s has no field '%.200s'", type->short_name, path);
}

crema_status cr_text_print_field(const ProtobufCMessage *message, const char *path,
                                 cr_buffer *out) {
  cr_c_locale locale;
  CR_TRY(cr_c_locale_begin(&locale));
  crema_status status =
      path[0] == '\0' ? print_fields(message, 0, out) : print_path(message, path, out);
  if (status == CREMA_OK) status = cr_buffer_append(out, "", 0);
  cr_c_locale_end(&locale);
  return status;
}
