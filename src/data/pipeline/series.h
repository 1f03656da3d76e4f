/* A series of numbers of any length, reduced to the means of at most 32 equal stretches. */
#ifndef CR_DATA_SERIES_H
#define CR_DATA_SERIES_H

#include <stdint.h>

enum { CR_SERIES_POINTS = 32 };

/* Zero-initialise. point[0..points-1] are sums over `stretch` numbers each; `sum` is the sum of the
 * `pending` numbers after them. */
typedef struct cr_series {
  int points;
  double point[CR_SERIES_POINTS];
  uint64_t stretch, pending;
  double sum, total;
  uint64_t count;
} cr_series;

/* Appends a number; when all points are in use, merges pairs of neighbours. */
void cr_series_add(cr_series *series, double value);

/* The mean of stretch `point`; the mean of all numbers, or 0. */
double cr_series_point(const cr_series *series, int point);
double cr_series_mean(const cr_series *series);

#endif
