/* Every allocation fails once while a net with splits is built and given weights: a status and a
 * text each time, and all that was allocated before is given back. */
#include "each_allocation.h"

#include <unistd.h>

#include "net_case.h"

typedef struct attempt {
  crema_net *net;   /* to load into; NULL: a net is built */
  crema_net *donor; /* to share the parameters of, instead */
  bool saves;       /* `net`, instead */
  const char *text, *path;
  crema_phase phase;
} attempt;

static crema_status try_it(void *user) {
  const attempt *a = user;
  crema_net_options options = phase_options(a->phase);
  crema_net *net = NULL;
  if (a->donor != NULL) return cr_net_share_params(a->net, a->donor);
  if (a->saves) return cr_net_save(a->net, a->path, true);
  if (a->net != NULL) return crema_net_load_weights(a->net, a->path);
  crema_status status = crema_net_parse(a->text, strlen(a->text), "net", &options, &net);
  crema_net_destroy(net);
  return status;
}

static void every_allocation_fails(attempt *a, crema_status expected) {
  each_allocation_fails("a net", try_it, a, expected, a->donor != NULL ? 3 : 21);
}

/* No layer of these runs an op: the libraries behind them keep memory of their own. */
#define SPLITS                                                                                     \
  INPUT("x", DIM2(1, 2))                                                                           \
  "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 3 } } loss_weight:" \
  " 1 }\n"                                                                                         \
  "layer { name: 'a' type: 'Silence' bottom: 'x' bottom: 'p' }\n"                                  \
  "layer { name: 'b' type: 'Silence' bottom: 'x' bottom: 'p' }\n"                                  \
  "layer { name: 'c' type: 'Silence' bottom: 'x' bottom: 'p' }\n"

TEST(building) {
  every_allocation_fails(&(attempt){.text = SPLITS, .phase = CREMA_TRAIN}, CREMA_OK);
  every_allocation_fails(
      &(attempt){.text = SPLITS "layer { name: 'd' type: 'Silence' bottom: 'y' }",
                 .phase = CREMA_TEST},
      CREMA_E_UNKNOWN_NAME);
  every_allocation_fails(
      &(attempt){.text = SPLITS "layer { name: 'd' type: 'Input' top: 'a' top: 'a' }",
                 .phase = CREMA_TEST},
      CREMA_E_EXISTS);
}

#define TWO(first, second)                                                \
  "layer { name: '" first                                                 \
  "' type: 'Parameter' top: 'p' parameter_param { shape { dim: 3 } } }\n" \
  "layer { name: '" second "' type: 'Parameter' top: 'q' parameter_param { shape { dim: 2 } } }\n"

TEST(loading_weights) {
  char path[] = "/tmp/crema-no-memory-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  crema_net *net = build(TWO("one", "two"), CREMA_TEST);
  ok(crema_net_save_weights(net, path));
  every_allocation_fails(&(attempt){.net = net, .path = path}, CREMA_OK);
  crema_net_destroy(net);
  net = build(TWO("one", "other"), CREMA_TRAIN);
  every_allocation_fails(&(attempt){.net = net, .path = path}, CREMA_OK);
  crema_net_destroy(net);
  net = build(TWO("one", "other"), CREMA_TEST);
  every_allocation_fails(&(attempt){.net = net, .path = path}, CREMA_E_NOT_FOUND);
  crema_net_destroy(net);
  close(file);
  unlink(path);
}

TEST(sharing_and_saving) {
  char path[] = "/tmp/crema-no-memory-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  crema_net *net = build(TWO("one", "other"), CREMA_TEST);
  crema_net *donor = build(TWO("one", "two"), CREMA_TRAIN);
  every_allocation_fails(&(attempt){.net = net, .donor = donor}, CREMA_OK);
  every_allocation_fails(&(attempt){.net = net, .saves = true, .path = path}, CREMA_OK);
  crema_net_destroy(net);
  crema_net_destroy(donor);
  close(file);
  unlink(path);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
