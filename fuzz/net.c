/* Nets: any text is refused with a message or gives a net that runs, or says why it does not.
 * To be run with ASAN_OPTIONS=allocator_may_return_null=1:max_allocation_size_mb=64, so that
 * shapes too large for any machine meet an allocator that refuses. */
#define _GNU_SOURCE /* memmem */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "net/net.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) __builtin_trap();
}

/* Layers that open files are for tests with files. */
static bool reads_files(const char *text, size_t size) {
  static const char *const word[] = {"Data\"", "Data'", "source", "mean_file", "DATA"};
  for (size_t i = 0; i < sizeof word / sizeof word[0]; ++i) {
    if (memmem(text, size, word[i], strlen(word[i])) != NULL) return true;
  }
  return false;
}

/* Small enough to run in a moment. */
static bool is_small(const crema_net *net) {
  int64_t total = 0;
  for (int i = 0; i < net->blobs; ++i) {
    int64_t count = crema_blob_count(net->blob[i]);
    if (count > 10000) return false;
    total += count;
  }
  for (int i = 0; i < net->params; ++i) {
    const cr_net_param *param = &net->net_param[i];
    total += crema_blob_count(net->layer[param->layer].layer->blob[param->index]);
  }
  return total < 20000 && net->layers < 200;
}

static void run(crema_net *net) {
  double loss = 0.0;
  if (crema_net_forward(net, &loss) != CREMA_OK) {
    require(crema_error_text()[0] != '\0');
    return;
  }
  if (crema_net_backward(net) != CREMA_OK) require(crema_error_text()[0] != '\0');
  /* Its own weights fit it, unless two layers of one name took each other's. */
  Caffe__NetParameter *message = NULL;
  if (cr_net_to_proto(net, true, &message) != CREMA_OK) return;
  require(cr_net_from_proto(net, message, NULL) == CREMA_OK);
  cr_message_free(&message->base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  if (reads_files(text, size)) return 0;
  for (int phase = 0; phase < 2; ++phase) {
    crema_net_options options;
    crema_net_options_init(&options);
    options.phase = phase == 0 ? CREMA_TRAIN : CREMA_TEST;
    options.seed = 1;
    crema_net *net = NULL;
    if (crema_net_parse(text, size, "fuzz", &options, &net) != CREMA_OK) {
      require(crema_error_text()[0] != '\0');
      continue;
    }
    if (is_small(net)) run(net);
    crema_net_destroy(net);
  }
  return 0;
}
