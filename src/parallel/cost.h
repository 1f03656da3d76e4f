/* A model of an exchange's time, from the speeds of links and the bytes.
 *
 * A link takes a latency and then carries its bandwidth in bytes a second. Additions count nothing,
 * because devices add many times as fast as links transfer. bench/parallel measures the accuracy of
 * the model. */
#ifndef CR_PARALLEL_COST_H
#define CR_PARALLEL_COST_H

/* Of one link in one direction. */
typedef struct cr_speed {
  double latency;   /* seconds before the first byte arrives */
  double bandwidth; /* bytes per second; 0: no limit */
} cr_speed;

/* Seconds of one transfer. */
double cr_cost_transfer(cr_speed link, double bytes);

/* The speed of a link from the seconds of two operations on bytes[0] < bytes[1] bytes. Each takes
 * `steps` transfers in sequence, of the fraction `part` of the bytes: 1 and 1 for transfers, 2 (N -
 * 1) and 1 / N for sums around a ring. */
cr_speed cr_cost_fit(double steps, double part, const double *bytes, const double *seconds);

/* Ranks that sum gradients around rings: `each` ranks in each of `hosts` hosts. With several hosts,
 * each rank sums a share within its host, then with the ranks of the same share on other hosts.
 * Then the complete shares circulate within the host. */
typedef struct cr_cost_ranks {
  int hosts, each;
  cr_speed within;  /* from a rank of a host to the next; each has such a link */
  cr_speed between; /* from a host to another, for all its ranks together */
} cr_cost_ranks;

/* Seconds until all ranks have the sum of `bytes` bytes. */
double cr_cost_ring(const cr_cost_ranks *ranks, double bytes);

/* Seconds until gradients are summed up a tree of `ranks` devices and weights copied down it:
 * 2 ceil(log2 ranks) transfers. */
double cr_cost_tree(int ranks, cr_speed link, double bytes);

/* A bucket of gradients, in the order of their exchange. */
typedef struct cr_cost_bucket {
  double ready; /* seconds from the beginning of the step until its gradients are computed */
  double bytes;
  double update; /* seconds of the update of its parameters, if that follows at once */
} cr_cost_bucket;

/* Seconds from the beginning of a step to the end of its last bucket. Buckets are summed around
 * rings in sequence, each after it is ready. */
double cr_cost_overlapped(const cr_cost_bucket *bucket, int buckets, const cr_cost_ranks *ranks);

#endif
