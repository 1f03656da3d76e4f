/* Filtering of doubles with a lattice, in plain loops: each number of the rows by itself. */
#include <string.h>

#include "core/fail.h"
#include "device/memory/host_memory.h"
#include "layers/common/layer_host.h"
#include "layers/dense_crf/lattice.h"

/* The data of threads that filter. */
typedef struct wide_filtering {
  const cr_lattice *lattice;
  const double *in;
  double *out;
  int width;
  bool reverse;
} wide_filtering;

static crema_status reserve_values(cr_lattice *l, size_t values) {
  if (values <= l->wides) return CREMA_OK;
  l->wides = 0;
  cr_host_free(l->wide);
  l->wide = NULL;
  CR_TRY(cr_host_alloc(values * sizeof *l->wide, (void **)&l->wide));
  l->wides = values;
  return CREMA_OK;
}

/* The corners of a point, as indices of the lattice points of the point's band. */
static const int32_t *corners_of(const cr_lattice *l, int64_t point, const int32_t **place) {
  *place = l->band[point / l->per_band].place;
  return l->corner + point * (l->axes + 1);
}

/* value = the shares of number `k` of all points in each lattice point. */
static void add_points(const wide_filtering *f, int64_t k, double *value) {
  const cr_lattice *l = f->lattice;
  const int32_t *place = NULL;
  memset(value, 0, ((size_t)l->all.corners + 1) * sizeof *value);
  for (int64_t i = 0; i < l->points; ++i) {
    const int32_t *corner = corners_of(l, i, &place);
    for (int r = 0; r <= l->axes; ++r) {
      value[place[corner[r]]] += (double)l->share[i * (l->axes + 1) + r] * f->in[i * f->width + k];
    }
  }
}

/* to = from blurred with 1/2, 1, 1/2 along an axis. */
static void blur_axis(const cr_lattice *l, int axis, const double *from, double *to) {
  const int32_t *next = l->next + axis * l->all.corners * 2;
  for (int64_t i = 0; i < l->all.corners; ++i) {
    to[i] = from[i] + 0.5 * (from[next[2 * i]] + from[next[2 * i + 1]]);
  }
  to[l->all.corners] = 0;
}

static void read_points(const wide_filtering *f, int64_t k, const double *value) {
  const cr_lattice *l = f->lattice;
  const int32_t *place = NULL;
  for (int64_t i = 0; i < l->points; ++i) {
    const int32_t *corner = corners_of(l, i, &place);
    double sum = 0;
    for (int r = 0; r <= l->axes; ++r) {
      sum += (double)l->share[i * (l->axes + 1) + r] * value[place[corner[r]]];
    }
    f->out[i * f->width + k] = sum;
  }
}

static crema_status filter_number(void *state, int worker, int64_t k) {
  const wide_filtering *f = state;
  const cr_lattice *l = f->lattice;
  const int64_t corners = l->all.corners + 1;
  double *value = l->wide + 2 * corners * worker, *other = value + corners;
  add_points(f, k, value);
  for (int i = 0; i <= l->axes; ++i) {
    double *held = value;
    blur_axis(l, f->reverse ? l->axes - i : i, value, other);
    value = other;
    other = held;
  }
  read_points(f, k, value);
  return CREMA_OK;
}

crema_status cr_lattice_filter_wide(cr_lattice *lattice, const double *in, int width, int workers,
                                    bool reverse, double *out) {
  wide_filtering f = {lattice, in, out, width, reverse};
  const size_t values = 2 * ((size_t)lattice->all.corners + 1);
  CR_TRY(reserve_values(lattice, values * (size_t)workers));
  return cr_host_spread(workers, width, filter_number, &f);
}
