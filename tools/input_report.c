#include "input_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/pipeline/pipeline.h"
#include "layers/common/input_class.h"
#include "net/net.h"

static double rate(uint64_t samples, double seconds) {
  return seconds > 0 ? (double)samples / seconds : 0;
}

/* The rate of each stage if it never had to wait: the rate of one thread times the number of
 * threads. */
typedef struct stage_rates {
  double reader, decoder, transformer;
} stage_rates;

static stage_rates rates_of(const cr_input_stats *stats) {
  const cr_pipeline_stats *p = &stats->pipeline;
  return (stage_rates){
      .reader = rate(stats->reader.records, stats->reader.busy_seconds),
      .decoder = rate(p->samples, p->decode_seconds) * p->threads,
      .transformer = rate(p->samples, p->transform_seconds) * p->threads,
  };
}

/* What differs between the layers that read. */
typedef struct source_kind {
  const char *type;
  const char *threads; /* the field that sets the number of threads; NULL: there is none */
  bool database;       /* one thread reads records; else the decoding threads read files */
} source_kind;

static const source_kind *kind_of(const char *type) {
  static const source_kind kinds[] = {{"Data", "data_param", true},
                                      {"AnnotatedData", "data_param", true},
                                      {"ImageData", "image_data_param", false},
                                      {"WindowData", NULL, false},
                                      {"HDF5Data", NULL, false}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    if (strcmp(type, kinds[i].type) == 0) return &kinds[i];
  }
  static const source_kind other = {"", NULL, false};
  return &other;
}

/* The stage that takes most of a sample's time. Decoding and transforming share their threads. */
static const char *slow_stage(const stage_rates *rates, const cr_pipeline_stats *p) {
  if (p->decode_seconds + p->transform_seconds <= 0) return "reader";
  double work = rate(p->samples, p->decode_seconds + p->transform_seconds) * p->threads;
  if (rates->reader > 0 && rates->reader < work) return "reader";
  return rates->decoder < rates->transformer ? "decoder" : "transformer";
}

static void print_verdict(const source_kind *kind, const stage_rates *rates,
                          const cr_pipeline_stats *p, double share) {
  const char *slow = slow_stage(rates, p);
  printf("  Training waited for data for %.1f %% of the time. The slow stage is the %s",
         100 * share, slow);
  if (slow[0] == 'r' && kind->database) {
    printf(": the database or its disk cannot deliver faster.\n");
  } else if (kind->threads != NULL && p->threads >= cr_pipeline_processors()) {
    printf("; it has as many threads as there are processors.\n");
  } else if (kind->threads != NULL) {
    printf("; %s { threads: %d } would give it more threads.\n", kind->threads, p->threads + 1);
  } else if (p->depth == 0) {
    printf(": its files are read when they are needed, not ahead.\n");
  } else {
    printf(".\n");
  }
}

static void print_layer(const cr_layer *layer, const cr_input_stats *stats, double seconds) {
  enum { NOTABLE = 5 /* % */ };
  const source_kind *kind = kind_of(layer->kind->type);
  const cr_pipeline_stats *p = &stats->pipeline;
  stage_rates rates = rates_of(stats);
  double share = seconds > 0 ? p->wait_seconds / seconds : 0;
  printf("Input of layer %s: %" PRIu64 " samples in %" PRIu64 " batches, ", layer->name, p->samples,
         p->batches);
  if (p->threads == 0) printf("nothing read ahead\n");
  else printf("%d decoding thread%s\n", p->threads, p->threads > 1 ? "s" : "");
  printf("  could deliver, in samples/s: reader %.0f", rates.reader);
  if (p->threads > 0) printf(", decoder %.0f, transformer %.0f", rates.decoder, rates.transformer);
  printf("\n  training waited %.3f s of %.3f s (%.2f %%), the first batch not counted\n",
         p->wait_seconds, seconds, 100 * share);
  if (p->depth > 0) {
    printf("  the input waited %.3f s (%" PRIu64 " times), with all its batches full or in use\n",
           p->idle.seconds, p->idle.count);
    printf("  batches ready (of %d): %.2f on average;", p->depth, cr_series_mean(&p->fill));
    for (int i = 0; i < p->fill.points; ++i) printf(" %.1f", cr_series_point(&p->fill, i));
    printf("\n");
  }
  if (100 * share > NOTABLE) print_verdict(kind, &rates, p, share);
}

void cli_input_report(crema_net *net, double seconds) {
  bool any = false;
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    cr_input_stats stats = {0};
    const cr_input_class *input = layer->kind->input;
    if (input == NULL || input->stats == NULL) continue;
    input->stats(layer, &stats);
    print_layer(layer, &stats, seconds);
    any = true;
  }
  if (!any) printf("Input: no layer of net %s reads samples from files\n", net->name);
  fflush(stdout);
}
