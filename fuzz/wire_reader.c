/* Wire format: whatever is accepted as a net is written, read and written again, and the bytes
 * stay; then it is upgraded. */
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

static void check_round_trip(const ProtobufCMessage *message) {
  cr_buffer wire = {0};
  cr_buffer again = {0};
  ProtobufCMessage *other;
  fuzz_require(cr_wire_print(message, &wire) == CREMA_OK);
  fuzz_require(cr_wire_parse(message->descriptor, (const uint8_t *)wire.data, wire.size, "wire",
                             &other) == CREMA_OK);
  fuzz_require(cr_wire_print(other, &again) == CREMA_OK);
  fuzz_require(wire.size == again.size);
  fuzz_require(wire.size == 0 || memcmp(wire.data, again.data, wire.size) == 0);
  cr_message_free(other);
  cr_buffer_free(&again);
  cr_buffer_free(&wire);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ProtobufCMessage *message;
  if (cr_wire_parse(&caffe__net_parameter__descriptor, data, size, "fuzz", &message)) return 0;
  check_round_trip(message);
  if (cr_net_param_upgrade((Caffe__NetParameter *)message, NULL, NULL) == CREMA_OK) {
    check_round_trip(message);
  }
  cr_message_free(message);
  return 0;
}
