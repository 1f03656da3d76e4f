/* Nets: any text is refused with a message or gives a net that runs, or says why it does not.
 * To be run with ASAN_OPTIONS=allocator_may_return_null=1:max_allocation_size_mb=64, so that
 * shapes too large for any machine meet an allocator that refuses. */
#include "support/support.h"

static void run(crema_net *net) {
  double loss = 0.0;
  if (crema_net_forward(net, &loss) != CREMA_OK) {
    fuzz_require(crema_error_text()[0] != '\0');
    return;
  }
  if (crema_net_backward(net) != CREMA_OK) fuzz_require(crema_error_text()[0] != '\0');
  /* Its own weights fit it, unless two layers of one name took each other's. */
  Caffe__NetParameter *message = NULL;
  ProtobufCMessage *copy = NULL;
  if (cr_net_to_proto(net, true, &message) != CREMA_OK) return;
  if (cr_message_copy(&message->base, &copy) == CREMA_OK) {
    const cr_net_stored stored = {.net = {.param = (Caffe__NetParameter *)copy}};
    fuzz_require(cr_net_from_stored(net, &stored, NULL) == CREMA_OK);
  }
  cr_message_free(copy);
  cr_net_proto_free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  if (fuzz_names_files(data, size)) return 0;
  for (int phase = 0; phase < 2; ++phase) {
    crema_net_options options;
    crema_net_options_init(&options);
    options.phase = phase == 0 ? CREMA_TRAIN : CREMA_TEST;
    options.seed = 1;
    options.plan_memory = size % 2 == 1;
    options.recompute = size % 4 == 3;
    crema_net *net = NULL;
    if (crema_net_parse(text, size, "fuzz", &options, &net) != CREMA_OK) {
      fuzz_require(crema_error_text()[0] != '\0');
      continue;
    }
    if (fuzz_net_is_small(net)) run(net);
    crema_net_destroy(net);
  }
  return 0;
}
