#include "data/pipeline/series.h"

void cr_series_add(cr_series *series, double value) {
  if (series->stretch == 0) series->stretch = 1;
  series->total += value;
  ++series->count;
  series->sum += value;
  if (++series->pending < series->stretch) return;
  series->point[series->points++] = series->sum;
  series->sum = 0;
  series->pending = 0;
  if (series->points < CR_SERIES_POINTS) return;
  series->points /= 2;
  series->stretch *= 2;
  for (int i = 0; i < series->points; ++i) {
    series->point[i] = series->point[2 * i] + series->point[2 * i + 1];
  }
}

double cr_series_point(const cr_series *series, int point) {
  return series->point[point] / (double)series->stretch;
}

double cr_series_mean(const cr_series *series) {
  return series->count > 0 ? series->total / (double)series->count : 0.0;
}
