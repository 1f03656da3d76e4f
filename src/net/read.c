/* The message of a net, from a file or from memory. */
#include <stdio.h>

#include "core/fail.h"
#include "layers/registry.h"
#include "net/net.h"
#include "onnx/import/import.h"

static cr_unknown_fields policy(bool warn_unknown) {
  return warn_unknown ? CR_UNKNOWN_WARN : CR_UNKNOWN_ERROR;
}

crema_status cr_net_blame_type(crema_status code) {
  char type[CR_LAYER_TYPE_TEXT], text[CR_LAYER_TYPE_TEXT];
  snprintf(type, sizeof type, "%s", cr_error_type());
  if (code != CREMA_E_PARSE || type[0] == '\0' || cr_layer_type_is_known(type) ||
      cr_net_param_upgrades_type(type)) {
    return code;
  }
  cr_layer_describe_unknown(type, text);
  return cr_fail_instead(CREMA_E_UNKNOWN_NAME, text);
}

crema_status cr_net_param_load(const char *path, bool warn_unknown, Caffe__NetParameter **out) {
  if (cr_onnx_is_path(path)) return cr_onnx_import(path, out);
  return cr_net_blame_type(cr_net_param_read_text(path, policy(warn_unknown), out));
}

crema_status cr_net_param_parse(const char *text, size_t size, const char *source,
                                bool warn_unknown, Caffe__NetParameter **out) {
  ProtobufCMessage *message = NULL;
  *out = NULL;
  crema_status status =
      cr_text_parse(&caffe__net_parameter__descriptor, text, size, source == NULL ? "net" : source,
                    policy(warn_unknown), &message);
  CR_TRY(cr_net_blame_type(status));
  status = cr_net_param_upgrade((Caffe__NetParameter *)message, source, NULL);
  if (status == CREMA_OK) *out = (Caffe__NetParameter *)message;
  else cr_message_free(message);
  return status;
}
