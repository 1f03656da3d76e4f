/* Messages from and to files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "proto/field.h"
#include "proto/wire_format.h"
#include "proto/wire_writer.h"

/* Almost any bytes can be parsed as unknown fields: a file that has only such fields is of another
 * kind. */
static bool holds_only_unknown(const ProtobufCMessage *message) {
  const ProtobufCMessageDescriptor *type = message->descriptor;
  if (message->n_unknown_fields == 0) return false;
  for (unsigned i = 0; i < type->n_fields; ++i) {
    if (cr_field_count(message, &type->fields[i]) > 0) return false;
  }
  return true;
}

/* The likely format of a file that cannot be parsed; NULL for a damaged message. */
static const char *guess_format(const cr_wire_input *input) {
  static const char hdf5[] = "\x89HDF\r\n\x1a\n";
  size_t look = input->size < 64 ? input->size : 64;
  if (input->load != NULL && input->load(input->user, 0, look) != CREMA_OK) return NULL;
  if (look >= 8 && memcmp(input->bytes, hdf5, 8) == 0) return "HDF5";
  for (size_t i = 0; i < look; ++i) {
    uint8_t c = input->bytes[i];
    if (c >= 0x7F || (c < 0x20 && c != '\n' && c != '\r' && c != '\t')) return NULL;
  }
  return "text";
}

static crema_status fail_empty(const ProtobufCMessageDescriptor *type, const char *path) {
  return cr_fail(CREMA_E_CORRUPT, "%s: the file is empty; expected a %s", path, type->short_name);
}

/* Adds the likely format of the file to a failure to parse. */
static crema_status fail_parse(crema_status status, const ProtobufCMessageDescriptor *type,
                               const cr_wire_input *input) {
  const char *guess = status == CREMA_E_CORRUPT ? guess_format(input) : NULL;
  if (guess == NULL) return status;
  return cr_fail(status, "%s (it looks like %s, not like a binary %s)", crema_error_text(), guess,
                 type->short_name);
}

crema_status cr_message_parse(const ProtobufCMessageDescriptor *type, const char *path,
                              const cr_wire_input *input, ProtobufCMessage **out) {
  *out = NULL;
  if (input->size == 0) return fail_empty(type, path);
  crema_status status = cr_wire_parse_input(type, input, path, out);
  if (status == CREMA_OK && holds_only_unknown(*out)) {
    status = cr_fail(CREMA_E_CORRUPT, "%s: holds no field of a %s", path, type->short_name);
    cr_wire_free(input, *out);
    *out = NULL;
  }
  return fail_parse(status, type, input);
}

static cr_wire_input input_of(const cr_buffer *bytes) {
  return (cr_wire_input){.bytes = (const uint8_t *)bytes->data, .size = bytes->size};
}

/* The file is read, not mapped: truncating a mapped file would end the process. */
crema_status cr_message_read_binary(const ProtobufCMessageDescriptor *type, const char *path,
                                    ProtobufCMessage **out) {
  cr_buffer bytes = {0};
  *out = NULL;
  crema_status status = cr_file_read_up_to(path, CR_FILE_MODEL, &bytes);
  const cr_wire_input input = input_of(&bytes);
  if (status == CREMA_OK) status = cr_message_parse(type, path, &input, out);
  cr_buffer_free(&bytes);
  return status;
}

crema_status cr_message_walk_binary(const ProtobufCMessageDescriptor *type, const char *path,
                                    cr_wire_visit *visit, void *user) {
  cr_buffer bytes = {0};
  crema_status status = cr_file_read_up_to(path, CR_FILE_MODEL, &bytes);
  if (status == CREMA_OK && bytes.size == 0) status = fail_empty(type, path);
  if (status == CREMA_OK) {
    status = cr_wire_walk(type, (const uint8_t *)bytes.data, bytes.size, path, visit, user);
    const cr_wire_input input = input_of(&bytes);
    status = fail_parse(status, type, &input);
  }
  cr_buffer_free(&bytes);
  return status;
}

static crema_status write_to_draft(void *user, const void *bytes, size_t size) {
  return cr_file_draft_write(user, bytes, size);
}

crema_status cr_message_write(const ProtobufCMessage *message, cr_file_draft *draft) {
  size_t size = cr_wire_size(message);
  if (size > INT32_MAX) {
    cr_log_warning(
        "%s: %zu bytes; programs that use protobuf's own library, as Caffe does, cannot read more "
        "than 2 GiB of a message (an HDF5 file has no such limit)",
        draft->path, size);
  }
  return cr_wire_send(message, write_to_draft, draft);
}

crema_status cr_message_write_binary(const ProtobufCMessage *message, const char *path) {
  cr_file_draft draft;
  CR_TRY(cr_file_draft_begin(path, &draft));
  return cr_file_draft_end(&draft, cr_message_write(message, &draft));
}

crema_status cr_message_read_text(const ProtobufCMessageDescriptor *type, const char *path,
                                  cr_unknown_fields unknown, ProtobufCMessage **out) {
  cr_buffer text = {0};
  *out = NULL;
  crema_status status = cr_file_read(path, &text);
  if (status == CREMA_OK) status = cr_text_parse(type, text.data, text.size, path, unknown, out);
  cr_buffer_free(&text);
  return status;
}

crema_status cr_message_write_text(const ProtobufCMessage *message, const char *path) {
  cr_buffer text = {0};
  crema_status status = cr_text_print(message, &text);
  if (status == CREMA_OK) status = cr_file_write(path, text.data, text.size);
  cr_buffer_free(&text);
  return status;
}

/* Upgrades a net that was just read; on failure frees it. */
static crema_status finish_net(crema_status status, const char *source, ProtobufCMessage *message,
                               Caffe__NetParameter **out) {
  *out = NULL;
  if (status != CREMA_OK) return status;
  Caffe__NetParameter *net = (Caffe__NetParameter *)message;
  status = cr_net_param_upgrade(net, source, NULL);
  if (status != CREMA_OK) {
    cr_message_free(message);
    return status;
  }
  *out = net;
  return CREMA_OK;
}

crema_status cr_net_param_read_text(const char *path, cr_unknown_fields unknown,
                                    Caffe__NetParameter **out) {
  ProtobufCMessage *message;
  crema_status status =
      cr_message_read_text(&caffe__net_parameter__descriptor, path, unknown, &message);
  return finish_net(status, path, message, out);
}

crema_status cr_net_param_read_binary(const char *path, Caffe__NetParameter **out) {
  ProtobufCMessage *message;
  crema_status status = cr_message_read_binary(&caffe__net_parameter__descriptor, path, &message);
  return finish_net(status, path, message, out);
}
