/* proto/<case>: text and wire encoding, legacy formats, texts to refuse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/file.h"
#include "golden.h"
#include "proto/proto.h"

static const ProtobufCMessageDescriptor *const message_types[] = {
    &caffe__net_parameter__descriptor, &caffe__solver_parameter__descriptor,
    &caffe__blob_proto__descriptor,    &caffe__blob_proto_vector__descriptor,
    &caffe__datum__descriptor,         &caffe__solver_state__descriptor,
};

static const ProtobufCMessageDescriptor *find_type(const char *name) {
  for (size_t i = 0; i < sizeof message_types / sizeof message_types[0]; ++i) {
    if (strcmp(message_types[i]->short_name, name) == 0) return message_types[i];
  }
  return NULL;
}

static bool read_file(const char *dir, const char *file, cr_buffer *out) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", dir, file);
  return cr_file_read(path, out) == CREMA_OK;
}

static bool equal(const cr_buffer *a, const cr_buffer *b) {
  return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

static bool check_wire(const ProtobufCMessage *message, const cr_buffer *want, const char *what,
                       char *why, size_t size) {
  cr_buffer got = {0};
  bool ok = cr_wire_print(message, &got) == CREMA_OK;
  if (!ok) snprintf(why, size, "%s: %s", what, crema_error_text());
  if (ok && !equal(&got, want)) {
    snprintf(why, size, "%s: wire form differs (%zu bytes, should be %zu)", what, got.size,
             want->size);
    ok = false;
  }
  cr_buffer_free(&got);
  return ok;
}

static bool check_text(const ProtobufCMessage *message, const cr_buffer *want, const char *what,
                       char *why, size_t size) {
  cr_buffer got = {0};
  bool ok = cr_text_print(message, &got) == CREMA_OK;
  if (!ok) snprintf(why, size, "%s: %s", what, crema_error_text());
  if (ok && !equal(&got, want)) {
    size_t at = 0;
    while (at < got.size && at < want->size && got.data[at] == want->data[at]) ++at;
    snprintf(why, size, "%s: canonical text differs at byte %zu: \"%.40s\"", what, at,
             got.data + at);
    ok = false;
  }
  cr_buffer_free(&got);
  return ok;
}

/* text -> wire and canonical text; wire -> canonical text. */
static int run_message(const ProtobufCMessageDescriptor *type, const char *dir, char *why,
                       size_t size) {
  cr_buffer text = {0}, bin = {0}, normal = {0};
  ProtobufCMessage *a = NULL, *b = NULL;
  bool ok = read_file(dir, "message.prototxt", &text) && read_file(dir, "message.bin", &bin) &&
            read_file(dir, "normalized.prototxt", &normal);
  if (!ok) snprintf(why, size, "cannot read the case's files");
  if (ok && cr_text_parse(type, text.data, text.size, "message.prototxt", CR_UNKNOWN_ERROR, &a)) {
    snprintf(why, size, "text: %s", crema_error_text());
    ok = false;
  }
  if (ok && cr_wire_parse(type, (const uint8_t *)bin.data, bin.size, "message.bin", &b)) {
    snprintf(why, size, "wire: %s", crema_error_text());
    ok = false;
  }
  ok = ok && check_wire(a, &bin, "text to wire", why, size) &&
       check_text(a, &normal, "text to text", why, size) &&
       check_text(b, &normal, "wire to text", why, size) &&
       check_wire(b, &bin, "wire to wire", why, size);
  cr_message_free(a);
  cr_message_free(b);
  cr_buffer_free(&text);
  cr_buffer_free(&bin);
  cr_buffer_free(&normal);
  return ok ? GOLDEN_PASS : GOLDEN_FAIL;
}

static int run_reject(const ProtobufCMessageDescriptor *type, const char *dir, char *why,
                      size_t size) {
  cr_buffer text = {0};
  ProtobufCMessage *message = NULL;
  bool ok = read_file(dir, "message.prototxt", &text);
  if (!ok) snprintf(why, size, "cannot read message.prototxt");
  if (ok && cr_text_parse(type, text.data, text.size, "message.prototxt", CR_UNKNOWN_ERROR,
                          &message) == CREMA_OK) {
    snprintf(why, size, "accepted a text that must be refused");
    ok = false;
  }
  if (ok && strncmp(crema_error_text(), "message.prototxt:", 17) != 0) {
    snprintf(why, size, "message names no place: %s", crema_error_text());
    ok = false;
  }
  cr_message_free(message);
  cr_buffer_free(&text);
  return ok ? GOLDEN_PASS : GOLDEN_FAIL;
}

static bool upgrade_and_check(ProtobufCMessage *message, bool solver, bool want_compatible,
                              const cr_buffer *want, const char *what, char *why, size_t size) {
  bool compatible = true;
  crema_status status =
      solver ? cr_solver_param_upgrade((Caffe__SolverParameter *)message, NULL)
             : cr_net_param_upgrade((Caffe__NetParameter *)message, NULL, &compatible);
  if (status != CREMA_OK) {
    snprintf(why, size, "%s: upgrade: %s", what, crema_error_text());
    return false;
  }
  if (compatible != want_compatible) {
    snprintf(why, size, "%s: compatible is %d, should be %d", what, compatible, want_compatible);
    return false;
  }
  return check_wire(message, want, what, why, size);
}

static int run_legacy(bool solver, const char *dir, char *why, size_t size) {
  const ProtobufCMessageDescriptor *type =
      solver ? &caffe__solver_parameter__descriptor : &caffe__net_parameter__descriptor;
  cr_buffer text = {0}, bin = {0}, want = {0}, flag = {0};
  ProtobufCMessage *a = NULL, *b = NULL;
  bool ok = read_file(dir, "input.prototxt", &text) && read_file(dir, "input.bin", &bin) &&
            read_file(dir, "upgraded.bin", &want) && read_file(dir, "status.txt", &flag);
  if (!ok) snprintf(why, size, "cannot read the case's files");
  if (ok && cr_text_parse(type, text.data, text.size, "input.prototxt", CR_UNKNOWN_ERROR, &a)) {
    snprintf(why, size, "text: %s", crema_error_text());
    ok = false;
  }
  if (ok && cr_wire_parse(type, (const uint8_t *)bin.data, bin.size, "input.bin", &b)) {
    snprintf(why, size, "wire: %s", crema_error_text());
    ok = false;
  }
  bool compatible = ok && strncmp(flag.data, "incompatible", 12) != 0;
  ok = ok && upgrade_and_check(a, solver, compatible, &want, "from text", why, size) &&
       upgrade_and_check(b, solver, compatible, &want, "from wire", why, size);
  cr_message_free(a);
  cr_message_free(b);
  cr_buffer_free(&text);
  cr_buffer_free(&bin);
  cr_buffer_free(&want);
  cr_buffer_free(&flag);
  return ok ? GOLDEN_PASS : GOLDEN_FAIL;
}

int golden_run_proto_case(const char *dir, char *why, size_t why_size) {
  const char *slash = strrchr(dir, '/');
  const char *name = slash == NULL ? dir : slash + 1;
  if (strncmp(name, "weights_", 8) == 0) return golden_run_weights_case(dir, why, why_size);
  if (strncmp(name, "legacy_", 7) == 0) {
    return run_legacy(strncmp(name, "legacy_solver_", 14) == 0, dir, why, why_size);
  }
  cr_buffer word = {0};
  const ProtobufCMessageDescriptor *type = NULL;
  if (read_file(dir, "type.txt", &word)) {
    word.data[strcspn(word.data, " \r\n")] = '\0';
    type = find_type(word.data);
  }
  cr_buffer_free(&word);
  if (type == NULL) {
    snprintf(why, why_size, "type.txt names no known message type");
    return GOLDEN_FAIL;
  }
  return strncmp(name, "reject_", 7) == 0 ? run_reject(type, dir, why, why_size)
                                          : run_message(type, dir, why, why_size);
}
