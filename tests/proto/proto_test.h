/* Helpers that the tests of the formats share. */
#ifndef CREMA_TESTS_PROTO_TEST_H
#define CREMA_TESTS_PROTO_TEST_H

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "proto/proto.h"

#define NET (&caffe__net_parameter__descriptor)
#define SOLVER (&caffe__solver_parameter__descriptor)

/* Parses text that must be accepted. */
static inline ProtobufCMessage *must_parse(const ProtobufCMessageDescriptor *type,
                                           const char *text) {
  ProtobufCMessage *message = NULL;
  crema_status status = cr_text_parse(type, text, strlen(text), "t", CR_UNKNOWN_ERROR, &message);
  if (status != CREMA_OK) fail_msg("refused: %s\n%s", text, crema_error_text());
  return message;
}

/* The message must print as `expected`. */
static inline void must_print(const ProtobufCMessage *message, const char *expected) {
  cr_buffer out = {0};
  ok(cr_text_print(message, &out));
  assert_string_equal(out.data, expected);
  cr_buffer_free(&out);
}

/* `text` must be accepted and print as `expected`. */
static inline void must_become(const ProtobufCMessageDescriptor *type, const char *text,
                               const char *expected) {
  ProtobufCMessage *message = must_parse(type, text);
  must_print(message, expected);
  cr_message_free(message);
}

#endif
