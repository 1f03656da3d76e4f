/* Times the bare chain of oneDNN primitives by itself: AlexNet, GoogLeNet and SqueezeNet at batch
 * 1 and 16 with one thread and with all. Usage: chain [NETWORK...] */
#include <stdio.h>
#include <string.h>

#include "chain/chain.h"
#include "chain/measure.h"

static void run_chain(void *state) {
  chain_run(state);
}

static void fill_input(chain *c) {
  size_t count;
  float *v = chain_input_values(c, &count);
  for (size_t i = 0; i < count; ++i) v[i] = (float)(i % 255) - 127.0f;
}

static bool is_wanted(const char *name, int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], name) == 0) return true;
  }
  return argc < 2;
}

int main(int argc, char **argv) {
  printf("%-12s %5s %7s %12s\n", "network", "batch", "threads", "ms");
  for (int n = 0; chain_networks[n] != NULL; ++n) {
    if (!is_wanted(chain_networks[n], argc, argv)) continue;
    for (int batch = 1; batch <= 16; batch += 15) {
      for (int all = 0; all < 2; ++all) {
        int threads = use_threads(all ? 0 : 1);
        chain *c = chain_network(chain_networks[n], batch);
        fill_input(c);
        contestant one = {"chain", run_chain, c, 0.0};
        measure(&one, 1, 2, 5, 200, 2.0, NULL);
        printf("%-12s %5d %7d %12.3f\n", chain_networks[n], batch, threads, one.seconds * 1e3);
        fflush(stdout);
        chain_destroy(c);
      }
    }
  }
  return 0;
}
