/* What upgrades make of the text of a net. */
#ifndef CR_TESTS_PROTO_UPGRADE_CASE_H
#define CR_TESTS_PROTO_UPGRADE_CASE_H

#include "proto_test.h"

static inline void net_becomes(const char *text, const char *expected, bool compatible) {
  ProtobufCMessage *message = must_parse(NET, text);
  Caffe__NetParameter *net = (Caffe__NetParameter *)message;
  bool fine = !compatible;
  assert_true(cr_net_param_needs_upgrade(net));
  ok(cr_net_param_upgrade(net, NULL, &fine));
  assert_int_equal(fine, compatible);
  assert_false(cr_net_param_needs_upgrade(net));
  must_print(message, expected);
  /* A second time changes nothing. */
  ok(cr_net_param_upgrade(net, NULL, NULL));
  must_print(message, expected);
  cr_message_free(message);
}

static inline void net_fails(const char *text, crema_status expected, const char *why) {
  ProtobufCMessage *message = must_parse(NET, text);
  assert_int_equal(cr_net_param_upgrade((Caffe__NetParameter *)message, NULL, NULL), expected);
  assert_string_equal(crema_error_text(), why);
  cr_message_free(message);
}

#endif
