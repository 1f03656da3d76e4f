/* Times the bare chain of oneDNN primitives by itself: AlexNet, GoogLeNet and SqueezeNet at batch
 * 1 and 16 with one thread and with all. Usage: chain [-t THREADS] [NETWORK...] */
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

int main(int argc, char **argv) {
  int threads[2], counts = wanted_threads(argc, argv, threads);
  printf("%-12s %5s %7s %12s\n", "network", "batch", "threads", "ms");
  for (int n = 0; chain_networks[n] != NULL; ++n) {
    if (!is_wanted(chain_networks[n], argc, argv)) continue;
    for (int batch = 1; batch <= 16; batch += 15) {
      for (int t = 0; t < counts; ++t) {
        int used = use_threads(threads[t]);
        chain *c = chain_network(chain_networks[n], batch);
        fill_input(c);
        contestant one = {"chain", run_chain, c, 0.0};
        measure(&one, 1, 2, 5, 200, 2.0, NULL);
        printf("%-12s %5d %7d %12.3f\n", chain_networks[n], batch, used, one.seconds * 1e3);
        fflush(stdout);
        chain_destroy(c);
      }
    }
  }
  return 0;
}
