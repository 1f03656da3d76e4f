/* Messages from and to files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/file_kind.h"
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

/* The kind of message that the bytes of a model, a solver state or a blob begin like; NULL: none. A
 * NetParameter begins with its name or a layer of either format, a SolverState with its iteration,
 * a BlobProto of a mean image with its four extents. */
static const ProtobufCMessageDescriptor *guess_message(const uint8_t *bytes, size_t size) {
  if (size < 2) return NULL;
  if (bytes[0] == 0x08) {
    size_t next = 1;
    while (next < size && bytes[next] >= 0x80) ++next;
    const bool blob = next + 1 < size && bytes[next + 1] == 0x10;
    return blob ? &caffe__blob_proto__descriptor : &caffe__solver_state__descriptor;
  }
  const bool net = bytes[0] == 0x0A || bytes[0] == 0x12 || (bytes[0] == 0xA2 && bytes[1] == 0x06);
  return net ? &caffe__net_parameter__descriptor : NULL;
}

static const char *name_of(const ProtobufCMessageDescriptor *type) {
  if (type == &caffe__net_parameter__descriptor) return "weights (.caffemodel)";
  if (type == &caffe__solver_state__descriptor) return "a solver state (.solverstate)";
  return type == &caffe__blob_proto__descriptor ? "a blob (.binaryproto)" : type->short_name;
}

/* Whether the first fields of such a message distinguish it from the other kinds. */
static bool is_distinct(const ProtobufCMessageDescriptor *type) {
  return type == &caffe__net_parameter__descriptor || type == &caffe__solver_state__descriptor ||
         type == &caffe__blob_proto__descriptor;
}

static bool is_text(const uint8_t *bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    const uint8_t c = bytes[i];
    if (c >= 0x7F || (c < 0x20 && c != '\n' && c != '\r' && c != '\t')) return false;
  }
  return true;
}

/* The likely format of a file that cannot be parsed; NULL for a damaged message. */
static const char *guess_format(const ProtobufCMessageDescriptor *type,
                                const cr_wire_input *input) {
  static const char hdf5[] = "\x89HDF\r\n\x1a\n";
  const size_t look = input->size < CR_FILE_KIND_BYTES ? input->size : CR_FILE_KIND_BYTES;
  if (input->load != NULL && input->load(input->user, 0, look) != CREMA_OK) return NULL;
  const char *kind = cr_file_kind(input->bytes, look);
  if (kind != NULL) return kind;
  if (look >= 8 && memcmp(input->bytes, hdf5, 8) == 0) return "HDF5";
  if (is_text(input->bytes, look < 64 ? look : 64)) return "text";
  const ProtobufCMessageDescriptor *guess = guess_message(input->bytes, look);
  if (guess == NULL || guess == type || !is_distinct(type)) return NULL;
  return name_of(guess);
}

/* Whether a message with unknown fields begins like one of another kind: the extents of a mean
 * image are sizes of inputs in a net. */
static bool is_another(const ProtobufCMessage *message, const cr_wire_input *input) {
  const size_t look = input->size < 16 ? input->size : 16;
  if (message->n_unknown_fields == 0 || !is_distinct(message->descriptor)) return false;
  if (input->load != NULL && input->load(input->user, 0, look) != CREMA_OK) return false;
  const ProtobufCMessageDescriptor *guess = guess_message(input->bytes, look);
  return guess != NULL && guess != message->descriptor;
}

static crema_status fail_empty(const ProtobufCMessageDescriptor *type, const char *path) {
  return cr_fail(CREMA_E_CORRUPT, "%s: the file is empty; expected %s", path, name_of(type));
}

/* Names the likely format of a file that cannot be parsed. */
static crema_status fail_parse(crema_status status, const ProtobufCMessageDescriptor *type,
                               const char *path, const cr_wire_input *input) {
  const char *guess = status == CREMA_E_CORRUPT ? guess_format(type, input) : NULL;
  if (guess == NULL) return status;
  return cr_fail(status, "%s: the file looks like %s; expected %s", path, guess, name_of(type));
}

crema_status cr_message_parse(const ProtobufCMessageDescriptor *type, const char *path,
                              const cr_wire_input *input, ProtobufCMessage **out) {
  *out = NULL;
  if (input->size == 0) return fail_empty(type, path);
  crema_status status = cr_wire_parse_input(type, input, path, out);
  if (status == CREMA_OK && (holds_only_unknown(*out) || is_another(*out, input))) {
    status = cr_fail(CREMA_E_CORRUPT, "%s: holds no field of a %s", path, type->short_name);
    cr_wire_free(input, *out);
    *out = NULL;
  }
  return fail_parse(status, type, path, input);
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
    status = fail_parse(status, type, path, &input);
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

/* Rejects files that are obviously not text in UTF-8. */
static crema_status check_text(const char *path, const uint8_t *bytes, size_t size) {
  const cr_where where = {.file = path};
  const size_t look = size < 64 ? size : 64;
  if (size >= 2 && bytes[0] + bytes[1] == 0xFE + 0xFF && (bytes[0] == 0xFE || bytes[1] == 0xFE)) {
    return cr_fail_at(CREMA_E_PARSE, &where, "the file is UTF-16; save it as UTF-8");
  }
  const char *kind = cr_file_kind(bytes, size < CR_FILE_KIND_BYTES ? size : CR_FILE_KIND_BYTES);
  if (kind != NULL) {
    return cr_fail_at(CREMA_E_PARSE, &where,
                      "the file looks like %s; expected a text file (.prototxt)", kind);
  }
  for (size_t i = 0; i < look; ++i) {
    if (bytes[i] >= 0x20 || (bytes[i] >= '\t' && bytes[i] <= '\r')) continue;
    const ProtobufCMessageDescriptor *guess = guess_message(bytes, size);
    return cr_fail_at(CREMA_E_PARSE, &where,
                      "the file is binary%s%s; expected a text file (.prototxt)",
                      guess == NULL ? "" : " and looks like ", guess == NULL ? "" : name_of(guess));
  }
  return CREMA_OK;
}

crema_status cr_message_read_text(const ProtobufCMessageDescriptor *type, const char *path,
                                  cr_unknown_fields unknown, ProtobufCMessage **out) {
  cr_buffer text = {0};
  *out = NULL;
  crema_status status = cr_file_read(path, &text);
  if (status == CREMA_OK) status = check_text(path, (const uint8_t *)text.data, text.size);
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

/* Returns a net whose upgrade ended with `status`; frees it after a failure. */
static crema_status finish_net(crema_status status, Caffe__NetParameter *net,
                               Caffe__NetParameter **out) {
  if (status == CREMA_OK) *out = net;
  else cr_message_free(&net->base);
  return status;
}

crema_status cr_net_param_read_text(const char *path, cr_unknown_fields unknown,
                                    Caffe__NetParameter **out) {
  ProtobufCMessage *message;
  *out = NULL;
  CR_TRY(cr_message_read_text(&caffe__net_parameter__descriptor, path, unknown, &message));
  Caffe__NetParameter *net = (Caffe__NetParameter *)message;
  return finish_net(cr_net_param_upgrade(net, path, NULL), net, out);
}

crema_status cr_net_param_read_binary(const char *path, Caffe__NetParameter **out) {
  ProtobufCMessage *message;
  *out = NULL;
  CR_TRY(cr_message_read_binary(&caffe__net_parameter__descriptor, path, &message));
  Caffe__NetParameter *net = (Caffe__NetParameter *)message;
  return finish_net(cr_weights_param_upgrade(net, path), net, out);
}
