/* ONNX files: any bytes are rejected with a message or give a net that runs, or says why not; the
 * net can be exported, or says why not. */
#include "crema/onnx.h"

#include <stdio.h>

#include "support/support.h"

static void export_net(crema_net *net, size_t size) {
  char path[256];
  crema_onnx_options options;
  crema_onnx_options_init(&options);
  options.opset = 11 + (int)(size % 11);
  options.any_batch = size % 2 == 1;
  snprintf(path, sizeof path, "%s", fuzz_path("exported.onnx"));
  fuzz_require_text(crema_onnx_export(net, &options, path));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  crema_net_options options;
  crema_net *net = NULL;
  crema_net_options_init(&options);
  options.seed = 1;
  const crema_status status = crema_net_load(fuzz_file("model.onnx", data, size), &options, &net);
  fuzz_require_text(status);
  if (status != CREMA_OK) return 0;
  if (fuzz_net_is_small(net)) {
    fuzz_require_text(crema_net_forward(net, NULL));
    export_net(net, size);
  }
  crema_net_destroy(net);
  return 0;
}
