/* Text format: whatever is accepted as a net or a solver is upgraded, printed and read again, and
 * comes out the same; so it does on the way through wire format. */
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

static void print(const ProtobufCMessage *message, cr_buffer *out) {
  cr_buffer_clear(out);
  fuzz_require(cr_text_print(message, out) == CREMA_OK);
}

static void check_round_trips(const ProtobufCMessage *message) {
  const ProtobufCMessageDescriptor *type = message->descriptor;
  cr_buffer text = {0};
  cr_buffer again = {0};
  cr_buffer wire = {0};
  ProtobufCMessage *other;
  print(message, &text);
  fuzz_require(cr_text_parse(type, text.data, text.size, "text", CR_UNKNOWN_ERROR, &other) ==
               CREMA_OK);
  print(other, &again);
  fuzz_require(text.size == again.size && memcmp(text.data, again.data, text.size) == 0);
  cr_message_free(other);
  fuzz_require(cr_wire_print(message, &wire) == CREMA_OK);
  fuzz_require(cr_wire_parse(type, (const uint8_t *)wire.data, wire.size, "wire", &other) ==
               CREMA_OK);
  print(other, &again);
  fuzz_require(text.size == again.size && memcmp(text.data, again.data, text.size) == 0);
  cr_message_free(other);
  fuzz_require(cr_message_copy(message, &other) == CREMA_OK);
  print(other, &again);
  fuzz_require(text.size == again.size && memcmp(text.data, again.data, text.size) == 0);
  cr_message_free(other);
  cr_buffer_free(&wire);
  cr_buffer_free(&again);
  cr_buffer_free(&text);
}

static void check_type(const ProtobufCMessageDescriptor *type, const char *text, size_t size) {
  bool solver = type == &caffe__solver_parameter__descriptor;
  ProtobufCMessage *message;
  if (cr_text_parse(type, text, size, "fuzz", CR_UNKNOWN_WARN, &message) != CREMA_OK) {
    fuzz_require(cr_text_parse(type, text, size, "fuzz", CR_UNKNOWN_ERROR, &message) != CREMA_OK);
    return;
  }
  check_round_trips(message);
  crema_status status = solver ? cr_solver_param_upgrade((Caffe__SolverParameter *)message, NULL)
                               : cr_net_param_upgrade((Caffe__NetParameter *)message, NULL, NULL);
  if (status == CREMA_OK) {
    fuzz_require(solver || !cr_net_param_needs_upgrade((Caffe__NetParameter *)message));
    check_round_trips(message);
  }
  cr_message_free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  check_type(&caffe__net_parameter__descriptor, (const char *)data, size);
  check_type(&caffe__solver_parameter__descriptor, (const char *)data, size);
  return 0;
}
