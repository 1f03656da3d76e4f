/* crema trace: the summary of a timeline. */
#include <stdio.h>

#include "cli.h"
#include "core/fail.h"
#include "timeline/shares.h"

static const char help_text[] =
    "Summarises a timeline that crema train -trace wrote: the share of a step that each kind of\n"
    "work takes, how much of it runs at the same time as other work, and the most expensive "
    "layers\n"
    "and blobs. The first iteration does not count. To see the timeline, open the file in "
    "Perfetto\n"
    "(https://ui.perfetto.dev) or in Chrome under about:tracing.\n"
    "\n"
    "Example:\n"
    "  crema train solver.prototxt -trace run.json && crema trace run.json\n";

static const char *const kinds[SPAN_KINDS] = {"computing",  "waiting for data", "copying",
                                              "converting", "exchanging",       "reading data"};

static double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

static void print_shares(const work_shares *s) {
  const double all = s->end - s->begin;
  printf("%d iterations, %.3f ms each\n\n", s->iterations, all / s->iterations / 1e3);
  printf("%-18s %12s %9s\n", "work", "ms per step", "of step");
  for (int k = 0; k < SPAN_KINDS; ++k) {
    printf("%-18s %12.3f %8.1f%%\n", kinds[k], s->busy[k] / s->iterations / 1e3,
           percent(s->busy[k], all));
  }
}

static void print_overlaps(const work_shares *s) {
  printf("\noverlap            of the shorter of both\n");
  for (int a = 0; a < SPAN_KINDS; ++a) {
    for (int b = a + 1; b < SPAN_KINDS; ++b) {
      const double least = s->busy[a] < s->busy[b] ? s->busy[a] : s->busy[b];
      if (least <= 0) continue;
      printf("%s and %s: %.1f%%\n", kinds[a], kinds[b], percent(s->both[a][b], least));
    }
  }
}

static void print_costly(const char *title, const costly *list, size_t count,
                         const work_shares *s) {
  if (count == 0) return;
  printf("\n%-32s %12s %9s %12s\n", title, "ms per step", "per step", "MB per step");
  for (size_t i = 0; i < count; ++i) {
    printf("%-32.32s %12.3f %9.1f %12.3f\n", list[i].name, list[i].time / s->iterations / 1e3,
           (double)list[i].spans / s->iterations, list[i].bytes / s->iterations / 1e6);
  }
}

/* The time of a kind of work in which nothing computes. */
static double exposed(const work_shares *s, span_kind kind) {
  return s->busy[kind] - s->both[kind][SPAN_COMPUTE];
}

static void print_advice(const work_shares *s, const costly *layer, size_t layers,
                         const costly *blob, size_t blobs) {
  enum { NOTABLE = 10 /* % of the step */ };
  const double all = s->end - s->begin;
  printf("\n");
  if (percent(exposed(s, SPAN_WAIT), all) > NOTABLE) {
    printf("Advice: training waits for data; crema train -input_report names the slow stage.\n");
  } else if (percent(exposed(s, SPAN_EXCHANGE), all) > NOTABLE) {
    printf(
        "Advice: the exchange is not hidden behind computing; compare methods with crema train "
        "-plan.\n");
  } else if (percent(exposed(s, SPAN_COPY), all) > NOTABLE) {
    printf(
        "Advice: copies are not hidden behind computing%s%s; a layer without a kernel for the "
        "device runs on the CPU.\n",
        blobs > 0 ? ", most of all of " : "", blobs > 0 ? blob[0].name : "");
  } else if (percent(s->busy[SPAN_CONVERT], all) > NOTABLE) {
    printf(
        "Advice: conversions of type or layout take time%s%s; use one type for neighbouring "
        "layers.\n",
        blobs > 0 ? ", most of all of " : "", blobs > 0 ? blob[0].name : "");
  } else if (layers > 0) {
    printf("Advice: computing dominates; '%s' takes most of it (%.1f%% of the step).\n",
           layer[0].name, percent(layer[0].time, all));
  }
}

static crema_status summarise(const char *path) {
  cr_arena arena = {0};
  span_list list;
  work_shares part;
  costly layer[COSTLY], blob[COSTLY];
  crema_status status = spans_read(path, &arena, &list);
  if (status == CREMA_OK) status = cr_fail_in(shares_find(&list, &part), "%s", path);
  if (status == CREMA_OK) {
    const size_t layers = shares_layers(&list, &part, layer);
    const size_t blobs = shares_blobs(&list, &part, blob);
    print_shares(&part);
    print_overlaps(&part);
    print_costly("most expensive layers or kernels", layer, layers, &part);
    print_costly("most moved blobs", blob, blobs, &part);
    print_advice(&part, layer, layers, blob, blobs);
  }
  cr_arena_free(&arena);
  return status;
}

int crema_cmd_trace(int argc, char **argv) {
  const cli_spec spec = {.command = "trace",
                         .arguments = "FILE",
                         .min_arguments = 1,
                         .max_arguments = 1,
                         .help = help_text};
  int code;
  if (!cli_parse(&spec, &argc, argv, &code)) return code;
  return summarise(argv[1]) == CREMA_OK ? 0 : cli_fail();
}
