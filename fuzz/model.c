/* Compiled models: any net that runs compiles, in either way to plan memory, and its sessions have
 * the net's inputs and outputs. */
#include "crema/model.h"

#include <string.h>

#include "support/support.h"

/* Runs the plain net; returns whether it could. */
static bool runs(crema_net *net) {
  double loss = 0.0;
  return crema_net_forward(net, &loss) == CREMA_OK;
}

static crema_net *parse(const char *text, size_t size) {
  crema_net_options options;
  crema_net_options_init(&options);
  options.phase = CREMA_TEST;
  options.seed = 1;
  crema_net *net = NULL;
  return crema_net_parse(text, size, "fuzz", &options, &net) == CREMA_OK ? net : NULL;
}

static bool same_shape(const crema_blob *a, const crema_blob *b) {
  const crema_shape *x = crema_blob_shape(a), *y = crema_blob_shape(b);
  return x->axes == y->axes && memcmp(x->dim, y->dim, (size_t)x->axes * sizeof x->dim[0]) == 0;
}

static void expect_alike(crema_net *net, crema_session *session) {
  const int inputs = crema_net_input_count(net), outputs = crema_net_output_count(net);
  fuzz_require(crema_session_input_count(session) == inputs);
  fuzz_require(crema_session_output_count(session) == outputs);
  for (int i = 0; i < outputs; ++i) {
    fuzz_require(strcmp(crema_session_output_name(session, i), crema_net_output_name(net, i)) == 0);
    fuzz_require(same_shape(crema_session_output(session, i), crema_net_output(net, i)));
  }
}

static void compile(const char *text, size_t size, crema_net *net) {
  crema_model_options options;
  crema_model_options_init(&options);
  options.seed = 1;
  options.allow_missing = true;
  options.precision = size % 2 == 0 ? CREMA_PRECISION_F32 : CREMA_PRECISION_BF16;
  crema_model *model = NULL;
  crema_session *session = NULL;
  fuzz_require_text(crema_model_load_memory(text, size, NULL, 0, &options, &model));
  if (model == NULL) return;
  if (crema_session_create(model, NULL, &session) == CREMA_OK) {
    const bool ran = crema_session_run(session) == CREMA_OK;
    fuzz_require(ran || crema_error_text()[0] != '\0');
    if (ran) expect_alike(net, session);
  }
  crema_session_destroy(session);
  crema_model_destroy(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  if (fuzz_names_files(data, size)) return 0;
  crema_net *net = parse(text, size);
  if (net == NULL) return 0;
  if (fuzz_net_is_small(net) && runs(net)) compile(text, size, net);
  crema_net_destroy(net);
  return 0;
}
