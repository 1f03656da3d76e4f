/* Messages from and to files. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/io.h"
#include "core/log.h"
#include "proto/field.h"
#include "proto/wire_writer.h"

/* The bytes of a file: mapped where that works, which spares a copy of a large model, read
 * otherwise (pipes). */
typedef struct file_bytes {
  const uint8_t *data;
  size_t size;
  void *mapped; /* NULL when `read` holds the bytes */
  cr_buffer read;
} file_bytes;

/* NULL where mapping does not work, or should not be. A pipe is not even opened: its writer would
 * take the second opening for another reader. */
static void *map_file(const char *path, uint64_t limit, size_t *size) {
  struct stat info;
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return NULL;
  int fd = cr_io_open(path, O_RDONLY | O_NONBLOCK, 0);
  if (fd < 0) return NULL;
  void *mapped = MAP_FAILED;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
      (uint64_t)info.st_size <= limit) {
    *size = (size_t)info.st_size;
    mapped = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
  }
  cr_io_close(fd);
  if (mapped == MAP_FAILED) return NULL;
  (void)posix_madvise(mapped, *size, POSIX_MADV_SEQUENTIAL);
  return mapped;
}

static crema_status file_bytes_open(const char *path, file_bytes *out) {
  uint64_t limit = 0;
  *out = (file_bytes){0};
  CR_TRY(cr_file_limit(CR_FILE_MODEL, &limit));
  out->mapped = map_file(path, limit, &out->size);
  out->data = out->mapped;
  if (out->mapped != NULL) return CREMA_OK;
  crema_status status = cr_file_read_up_to(path, CR_FILE_MODEL, &out->read);
  if (status != CREMA_OK) {
    cr_buffer_free(&out->read);
    return status;
  }
  out->data = (const uint8_t *)out->read.data;
  out->size = out->read.size;
  return CREMA_OK;
}

static void file_bytes_close(file_bytes *bytes) {
  if (bytes->mapped != NULL) munmap(bytes->mapped, bytes->size);
  cr_buffer_free(&bytes->read);
}

/* ---- binary ------------------------------------------------------------------ */

/* Almost any bytes can be read as fields that nobody knows: a file of such fields alone is not
 * what it was taken for. */
static bool holds_only_unknown(const ProtobufCMessage *message) {
  const ProtobufCMessageDescriptor *type = message->descriptor;
  if (message->n_unknown_fields == 0) return false;
  for (unsigned i = 0; i < type->n_fields; ++i) {
    if (cr_field_count(message, &type->fields[i]) > 0) return false;
  }
  return true;
}

/* What a file that cannot be parsed might be instead; NULL when it may well be a damaged message.
 */
static const char *guess_format(const file_bytes *bytes) {
  static const char hdf5[] = "\x89HDF\r\n\x1a\n";
  if (bytes->size >= 8 && memcmp(bytes->data, hdf5, 8) == 0) return "HDF5";
  size_t look = bytes->size < 64 ? bytes->size : 64;
  for (size_t i = 0; i < look; ++i) {
    uint8_t c = bytes->data[i];
    if (c >= 0x7F || (c < 0x20 && c != '\n' && c != '\r' && c != '\t')) return NULL;
  }
  return "text";
}

static crema_status parse_binary(const ProtobufCMessageDescriptor *type, const char *path,
                                 const file_bytes *bytes, ProtobufCMessage **out) {
  if (bytes->size == 0) {
    return cr_fail(CREMA_E_CORRUPT, "%s: the file is empty; expected a %s", path, type->short_name);
  }
  crema_status status = cr_wire_parse(type, bytes->data, bytes->size, path, out);
  if (status == CREMA_OK && holds_only_unknown(*out)) {
    status = cr_fail(CREMA_E_CORRUPT, "%s: holds no field of a %s", path, type->short_name);
    cr_message_free(*out);
    *out = NULL;
  }
  const char *guess = status == CREMA_E_CORRUPT ? guess_format(bytes) : NULL;
  if (guess != NULL) {
    status = cr_fail(status, "%s (it looks like %s, not like a binary %s)", crema_error_text(),
                     guess, type->short_name);
  }
  return status;
}

crema_status cr_message_read_binary(const ProtobufCMessageDescriptor *type, const char *path,
                                    ProtobufCMessage **out) {
  file_bytes bytes;
  *out = NULL;
  CR_TRY(file_bytes_open(path, &bytes));
  crema_status status = parse_binary(type, path, &bytes, out);
  file_bytes_close(&bytes);
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

/* ---- text ---------------------------------------------------------------------- */

crema_status cr_message_read_text_with(const ProtobufCMessageDescriptor *type, const char *path,
                                       cr_unknown_fields unknown, ProtobufCMessage **out) {
  cr_buffer text = {0};
  *out = NULL;
  crema_status status = cr_file_read(path, &text);
  if (status == CREMA_OK) status = cr_text_parse(type, text.data, text.size, path, unknown, out);
  cr_buffer_free(&text);
  return status;
}

crema_status cr_message_read_text(const ProtobufCMessageDescriptor *type, const char *path,
                                  ProtobufCMessage **out) {
  return cr_message_read_text_with(type, path, CR_UNKNOWN_ERROR, out);
}

crema_status cr_message_write_text(const ProtobufCMessage *message, const char *path) {
  cr_buffer text = {0};
  crema_status status = cr_text_print(message, &text);
  if (status == CREMA_OK) status = cr_file_write(path, text.data, text.size);
  cr_buffer_free(&text);
  return status;
}

/* ---- nets and solvers ------------------------------------------------------------ */

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

crema_status cr_net_param_read_text_with(const char *path, cr_unknown_fields unknown,
                                         Caffe__NetParameter **out) {
  ProtobufCMessage *message;
  crema_status status =
      cr_message_read_text_with(&caffe__net_parameter__descriptor, path, unknown, &message);
  return finish_net(status, path, message, out);
}

crema_status cr_net_param_read_text(const char *path, Caffe__NetParameter **out) {
  return cr_net_param_read_text_with(path, CR_UNKNOWN_ERROR, out);
}

crema_status cr_net_param_parse_text(const char *text, size_t size, const char *source,
                                     Caffe__NetParameter **out) {
  ProtobufCMessage *message;
  crema_status status = cr_text_parse(&caffe__net_parameter__descriptor, text, size, source,
                                      CR_UNKNOWN_ERROR, &message);
  return finish_net(status, source, message, out);
}

crema_status cr_net_param_read_binary(const char *path, Caffe__NetParameter **out) {
  ProtobufCMessage *message;
  crema_status status = cr_message_read_binary(&caffe__net_parameter__descriptor, path, &message);
  return finish_net(status, path, message, out);
}

crema_status cr_solver_param_read_text(const char *path, Caffe__SolverParameter **out) {
  ProtobufCMessage *message;
  *out = NULL;
  CR_TRY(cr_message_read_text(&caffe__solver_parameter__descriptor, path, &message));
  Caffe__SolverParameter *solver = (Caffe__SolverParameter *)message;
  crema_status status = cr_solver_param_upgrade(solver, path);
  if (status != CREMA_OK) {
    cr_message_free(message);
    return status;
  }
  *out = solver;
  return CREMA_OK;
}
