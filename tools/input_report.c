#include "input_report.h"

#include <inttypes.h>
#include <stdio.h>

#include "data/prefetch.h"
#include "net/net.h"

static double rate(uint64_t samples, double seconds) {
  return seconds > 0 ? (double)samples / seconds : 0;
}

/* Rates of the stages when each is never kept waiting: that of one thread times the threads. */
typedef struct stage_rates {
  double reader, decoder, transformer;
} stage_rates;

static stage_rates rates_of(const cr_input_stats *stats) {
  const cr_prefetch_stats *p = &stats->prefetch;
  return (stage_rates){
      .reader = rate(stats->reader.records, stats->reader.busy_seconds),
      .decoder = rate(p->samples, p->decode_seconds) * p->threads,
      .transformer = rate(p->samples, p->transform_seconds) * p->threads,
  };
}

static void print_fill(const cr_series *fill, int depth) {
  printf("  batches ready (of %d): %.2f on average;", depth, cr_series_mean(fill));
  for (int i = 0; i < fill->points; ++i) printf(" %.1f", cr_series_point(fill, i));
  printf("\n");
}

/* The stage that takes most of a sample's time. Decoding and transforming share their threads. */
static void print_verdict(const stage_rates *rates, const cr_prefetch_stats *p, double share) {
  const char *slow = rates->decoder < rates->transformer ? "decoder" : "transformer";
  double work = rate(p->samples, p->decode_seconds + p->transform_seconds) * p->threads;
  if (rates->reader < work) slow = "reader";
  printf("  Training waited for data for %.1f %% of the time. The slow stage is the %s",
         100 * share, slow);
  if (slow[0] == 'r') printf(": the database or its disk cannot deliver faster.\n");
  else printf("; data_param { threads: %d } would give it more threads.\n", p->threads + 1);
}

static void report_layer(const char *name, const cr_input_stats *stats, double seconds) {
  enum { NOTABLE = 5 /* % */ };
  const cr_prefetch_stats *p = &stats->prefetch;
  stage_rates rates = rates_of(stats);
  double share = seconds > 0 ? p->wait_seconds / seconds : 0;
  printf("Input of layer %s: %" PRIu64 " samples in %" PRIu64 " batches, %d decoding thread%s\n",
         name, p->samples, p->batches, p->threads, p->threads > 1 ? "s" : "");
  printf("  could deliver, in samples/s: reader %.0f, decoder %.0f, transformer %.0f\n",
         rates.reader, rates.decoder, rates.transformer);
  printf("  training waited %.3f s of %.3f s (%.2f %%), the first batch not counted\n",
         p->wait_seconds, seconds, 100 * share);
  print_fill(&p->fill, p->depth);
  if (100 * share > NOTABLE) print_verdict(&rates, p, share);
}

void cli_input_report(crema_net *net, double seconds) {
  bool any = false;
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    cr_input_stats stats = {0};
    if (layer->class->input_stats == NULL) continue;
    layer->class->input_stats(layer, &stats);
    report_layer(layer->name, &stats, seconds);
    any = true;
  }
  if (!any) printf("Input: no layer of net %s reads ahead from a database\n", net->name);
  fflush(stdout);
}
