/* A host that opens the library at run time, lets several threads use it one after the other, and
 * closes it each time before the thread ends: what the library left with the thread and with the
 * process must still find its code. The host keeps the library's symbols to itself, but a shared
 * object with layers finds them. */
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

static bool run_net(const calls *crema, const char *text) {
  crema_net *net = NULL;
  crema_status status = crema->parse(text, strlen(text), "net", NULL, &net);
  if (status == CREMA_OK) status = crema->forward(net, NULL);
  if (status != CREMA_OK) fprintf(stderr, "%s\n", crema->error_text());
  crema->destroy(net);
  return status == CREMA_OK;
}

static bool use_library_for(const char *path, const char *text) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return false;
  }
  void *symbol[] = {find(library, "crema_net_parse"), find(library, "crema_net_forward"),
                    find(library, "crema_net_destroy"), find(library, "crema_error_text")};
  calls crema;
  _Static_assert(sizeof crema == sizeof symbol, "a symbol for each call");
  memcpy(&crema, symbol, sizeof crema);
  bool found = symbol[0] != NULL && symbol[1] != NULL && symbol[2] != NULL && symbol[3] != NULL;
  bool done = found && run_net(&crema, text);
  dlclose(library);
  return done;
}

/* Returns its argument when all went well. */
static void *use_library(void *path) {
  return use_library_for(path, net_text) ? path : NULL;
}

/* A shared object with layers finds the library's symbols, which the host keeps to itself. It keeps
 * the library open, so this comes last. */
static bool use_plugin(const char *path, const char *plugin) {
  char text[4096];
  snprintf(text, sizeof text,
           "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 4 } } }"
           "layer { name: 'p' type: 'Plugin' bottom: 'data' top: 'p'"
           "        plugin_param { library: '%s' param_str: '1' } }",
           plugin);
  return use_library_for(path, text);
}

int main(int argc, char **argv) {
  enum { ROUNDS = 3 };
  if (argc != 3) return 2;
  for (int i = 0; i < ROUNDS; ++i) {
    pthread_t thread;
    void *done = NULL;
    if (pthread_create(&thread, NULL, use_library, argv[1]) != 0) return 2;
    if (pthread_join(thread, &done) != 0 || done == NULL) return 1;
  }
  return use_plugin(argv[1], argv[2]) ? 0 : 1;
}
