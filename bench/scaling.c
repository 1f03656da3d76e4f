/* Predicted times of a step with many devices, from the model of src/parallel/cost.h; nothing is
 * measured here. The net is that of `parallel steps`: 100 ms of computing, a third of it forward,
 * 244 MB of gradients in 16 equal buckets that the backward pass completes at even intervals.
 *
 * Prints lines of: links, devices, hosts, milliseconds of the exchange, of a step, and how many
 * times as long as computing alone that is. scripts/scaling.py makes the plot of docs/dev/scaling.md
 * from it. */
#include <stdio.h>

#include "parallel/cost.h"

enum { BUCKETS = 16, FORWARD = 8, OF_A_HOST = 8 };

static const double COMPUTING = 0.100, GRADIENTS = 244e6;

/* A host's link to the others, and the links between its devices. */
static const struct {
  const char *name;
  cr_speed within, between;
} links[] = {{"300 GB/s, hosts 50 GB/s", {3e-6, 300e9}, {10e-6, 50e9}},
             {"50 GB/s, hosts 12 GB/s", {5e-6, 50e9}, {10e-6, 12e9}},
             {"12 GB/s, hosts 3 GB/s", {10e-6, 12e9}, {20e-6, 3e9}}};

static double step(const cr_cost_ranks *ranks) {
  cr_cost_bucket bucket[BUCKETS];
  for (int b = 0; b < BUCKETS; ++b) {
    bucket[b] = (cr_cost_bucket){.ready = COMPUTING * (FORWARD + b + 1) / (FORWARD + BUCKETS),
                                 .bytes = GRADIENTS / BUCKETS};
  }
  return cr_cost_overlapped(bucket, BUCKETS, ranks);
}

static void predict(const char *name, cr_cost_ranks ranks) {
  const double exchange = BUCKETS * cr_cost_ring(&ranks, GRADIENTS / BUCKETS);
  printf("%-26s %7d %5d %12.2f %9.2f %8.3f\n", name, ranks.hosts * ranks.each, ranks.hosts,
         exchange * 1e3, step(&ranks) * 1e3, step(&ranks) / COMPUTING);
}

/* The devices of one host, as many as there are simulated ones: what is measured lies on it. */
static void predict_one_host(double bandwidth) {
  char name[64];
  snprintf(name, sizeof name, "%.0f GB/s, one host", bandwidth * 1e-9);
  for (int n = 1; n <= 16; n *= 2) {
    predict(name, (cr_cost_ranks){.hosts = 1, .each = n, .within = {0, bandwidth}});
  }
}

int main(void) {
  printf("%-26s %7s %5s %12s %9s %8s\n", "links", "devices", "hosts", "exchange ms", "step ms",
         "times");
  for (size_t i = 0; i < sizeof links / sizeof links[0]; ++i) {
    for (int n = 1; n <= 1024; n *= 2) {
      const int hosts = n > OF_A_HOST ? n / OF_A_HOST : 1;
      predict(links[i].name, (cr_cost_ranks){.hosts = hosts,
                                             .each = n / hosts,
                                             .within = links[i].within,
                                             .between = links[i].between});
    }
  }
  predict_one_host(12e9);
  predict_one_host(50e9);
  predict_one_host(300e9);
  return 0;
}
