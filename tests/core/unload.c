/* A host that opens the library at run time, lets several threads use it one after the other, and
 * closes it each time before the thread ends: what the library left with the thread and with the
 * process must still find its code. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "crema/net.h"

static const char net_text[] =
    "layer { name: 'data' type: 'Input' top: 'data'"
    "        input_param { shape { dim: 4 dim: 16 dim: 32 dim: 32 } } }"
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'"
    "        convolution_param { num_output: 32 kernel_size: 3 } }";

typedef struct calls {
  __typeof__(&crema_net_parse) parse;
  __typeof__(&crema_net_forward) forward;
  __typeof__(&crema_net_destroy) destroy;
  __typeof__(&crema_error_text) error_text;
} calls;

static void *find(void *library, const char *name) {
  void *symbol = dlsym(library, name);
  if (symbol == NULL) fprintf(stderr, "%s\n", dlerror());
  return symbol;
}

static bool run_net(const calls *crema) {
  crema_net *net = NULL;
  crema_status status = crema->parse(net_text, sizeof net_text - 1, "net", NULL, &net);
  if (status == CREMA_OK) status = crema->forward(net, NULL);
  if (status != CREMA_OK) fprintf(stderr, "%s\n", crema->error_text());
  crema->destroy(net);
  return status == CREMA_OK;
}

/* Returns its argument when all went well. */
static void *use_library(void *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return NULL;
  }
  void *symbol[] = {find(library, "crema_net_parse"), find(library, "crema_net_forward"),
                    find(library, "crema_net_destroy"), find(library, "crema_error_text")};
  calls crema;
  _Static_assert(sizeof crema == sizeof symbol, "a symbol for each call");
  memcpy(&crema, symbol, sizeof crema);
  bool found = symbol[0] != NULL && symbol[1] != NULL && symbol[2] != NULL && symbol[3] != NULL;
  bool done = found && run_net(&crema);
  dlclose(library);
  return done ? path : NULL;
}

int main(int argc, char **argv) {
  enum { ROUNDS = 3 };
  if (argc != 2) return 2;
  for (int i = 0; i < ROUNDS; ++i) {
    pthread_t thread;
    void *done = NULL;
    if (pthread_create(&thread, NULL, use_library, argv[1]) != 0) return 2;
    if (pthread_join(thread, &done) != 0 || done == NULL) return 1;
  }
  return 0;
}
