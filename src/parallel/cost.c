#include "parallel/cost.h"

double cr_cost_transfer(cr_speed link, double bytes) {
  return link.latency + (link.bandwidth > 0 ? bytes / link.bandwidth : 0);
}

cr_speed cr_cost_fit(double steps, double part, const double *bytes, const double *seconds) {
  const double slope = (seconds[1] - seconds[0]) / (bytes[1] - bytes[0]);
  cr_speed link = {.latency = (seconds[0] - slope * bytes[0]) / steps};
  /* Inexact times can give a slope or a latency below 0. */
  if (slope > 0) link.bandwidth = steps * part / slope;
  else link.latency = seconds[0] / steps;
  if (link.latency < 0) link.latency = 0;
  return link;
}

/* One ring of `ranks` ranks. */
static double ring(int ranks, cr_speed link, double bytes) {
  return 2.0 * (ranks - 1) * cr_cost_transfer(link, bytes / ranks);
}

double cr_cost_ring(const cr_cost_ranks *ranks, double bytes) {
  /* The rings between hosts share their link: together they carry all bytes. */
  return ring(ranks->each, ranks->within, bytes) + ring(ranks->hosts, ranks->between, bytes);
}

double cr_cost_tree(int ranks, cr_speed link, double bytes) {
  int levels = 0;
  while (1 << levels < ranks) ++levels;
  return 2.0 * levels * cr_cost_transfer(link, bytes);
}

double cr_cost_overlapped(const cr_cost_bucket *bucket, int buckets, const cr_cost_ranks *ranks) {
  double end = 0;
  for (int i = 0; i < buckets; ++i) {
    if (bucket[i].ready > end) end = bucket[i].ready;
    end += cr_cost_ring(ranks, bucket[i].bytes) + bucket[i].update;
  }
  return end;
}
