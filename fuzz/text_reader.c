/* Text format: whatever is accepted is upgraded, printed and read again, and comes out the same;
 * so it does on the way through wire format. The first byte picks the message type and what to do
 * with unknown fields. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) __builtin_trap();
}

static void print(const ProtobufCMessage *message, cr_buffer *out) {
  cr_buffer_clear(out);
  require(cr_text_print(message, out) == CREMA_OK);
}

static void check_round_trips(const ProtobufCMessage *message) {
  const ProtobufCMessageDescriptor *type = message->descriptor;
  cr_buffer text = {0};
  cr_buffer again = {0};
  cr_buffer wire = {0};
  ProtobufCMessage *other;
  print(message, &text);
  require(cr_text_parse(type, text.data, text.size, "text", CR_UNKNOWN_ERROR, &other) == CREMA_OK);
  print(other, &again);
  require(text.size == again.size && memcmp(text.data, again.data, text.size) == 0);
  cr_message_free(other);
  require(cr_wire_print(message, &wire) == CREMA_OK);
  require(cr_wire_parse(type, (const uint8_t *)wire.data, wire.size, "wire", &other) == CREMA_OK);
  print(other, &again);
  require(text.size == again.size && memcmp(text.data, again.data, text.size) == 0);
  cr_message_free(other);
  require(cr_message_copy(message, &other) == CREMA_OK);
  print(other, &again);
  require(text.size == again.size && memcmp(text.data, again.data, text.size) == 0);
  cr_message_free(other);
  cr_buffer_free(&wire);
  cr_buffer_free(&again);
  cr_buffer_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  bool solver = (data[0] & 1) != 0;
  cr_unknown_fields unknown = (data[0] & 2) != 0 ? CR_UNKNOWN_WARN : CR_UNKNOWN_ERROR;
  const ProtobufCMessageDescriptor *type =
      solver ? &caffe__solver_parameter__descriptor : &caffe__net_parameter__descriptor;
  ProtobufCMessage *message;
  if (cr_text_parse(type, (const char *)data + 1, size - 1, "fuzz", unknown, &message)) return 0;
  check_round_trips(message);
  crema_status status = solver ? cr_solver_param_upgrade((Caffe__SolverParameter *)message)
                               : cr_net_param_upgrade((Caffe__NetParameter *)message, NULL);
  if (status == CREMA_OK) {
    require(solver || !cr_net_param_needs_upgrade((Caffe__NetParameter *)message));
    check_round_trips(message);
  }
  cr_message_free(message);
  return 0;
}
