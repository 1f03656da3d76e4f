#include "layers/common/lattice.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

enum { MOST_CORNERS = CR_LATTICE_MOST_AXES + 1, FIRST_ROOM = 1024 };

/* Above this, coordinates of lattice points would not fit their type. */
static const float most_feature = 1e6f;

/* ---- points to simplices ------------------------------------------------- */

/* The simplex around a point: its corner of remainder 0, the ranks of the distances from it, and
 * the shares of the corners. All coordinates are in the hyperplane of d + 1 axes whose sum is 0. */
typedef struct simplex {
  int32_t corner[MOST_CORNERS];
  int rank[MOST_CORNERS];
  float share[MOST_CORNERS + 1];
} simplex;

/* A point of d features in the hyperplane; the deviation of the blur is then that of the features.
 */
static void elevate(const float *feature, int d, float *out) {
  const double unit = sqrt(2.0 / 3.0) * (d + 1);
  double sum = 0;
  for (int k = d; k > 0; --k) {
    const double scaled = (double)feature[k - 1] * unit / sqrt((double)k * (k + 1));
    out[k] = (float)(sum - k * scaled);
    sum += scaled;
  }
  out[0] = (float)sum;
}

/* The nearest point of remainder 0 whose sum is 0. */
static void find_corner(const float *at, int d, simplex *out) {
  int sum = 0;
  memset(out->rank, 0, sizeof out->rank);
  for (int k = 0; k <= d; ++k) {
    const int32_t multiple = (int32_t)lrintf(at[k] / (float)(d + 1));
    out->corner[k] = multiple * (d + 1);
    sum += multiple;
  }
  for (int i = 0; i < d; ++i) {
    for (int k = i + 1; k <= d; ++k) {
      const bool lower = at[i] - (float)out->corner[i] < at[k] - (float)out->corner[k];
      ++out->rank[lower ? i : k];
    }
  }
  for (int k = 0; k <= d; ++k) {
    out->rank[k] += sum;
    const int turn = out->rank[k] < 0 ? d + 1 : out->rank[k] > d ? -(d + 1) : 0;
    out->rank[k] += turn;
    out->corner[k] += turn;
  }
}

static void find_shares(const float *at, int d, simplex *out) {
  memset(out->share, 0, sizeof out->share);
  for (int k = 0; k <= d; ++k) {
    const float part = (at[k] - (float)out->corner[k]) / (float)(d + 1);
    out->share[d - out->rank[k]] += part;
    out->share[d + 1 - out->rank[k]] -= part;
  }
  out->share[0] += 1 + out->share[d + 1];
}

/* The first d coordinates of the corner of remainder r; the last follows from them. */
static void corner_key(const simplex *s, int d, int r, int32_t *key) {
  for (int k = 0; k < d; ++k) {
    key[k] = s->corner[k] + (s->rank[k] <= d - r ? r : r - (d + 1));
  }
}

/* ---- lattice points ------------------------------------------------------ */

static size_t hash(const int32_t *key, int d) {
  uint64_t sum = 0;
  for (int k = 0; k < d; ++k) sum = (sum + (uint32_t)key[k]) * 0x9E3779B97F4A7C15u;
  return (size_t)(sum >> 29);
}

/* The slot that has the key, or the empty one where it belongs. */
static size_t slot_of(const cr_lattice *l, const int32_t *key) {
  const size_t mask = 2 * (size_t)l->room - 1;
  size_t at = hash(key, l->axes) & mask;
  while (l->slot[at] >= 0 &&
         memcmp(l->key + (int64_t)l->slot[at] * l->axes, key, (size_t)l->axes * sizeof *key) != 0) {
    at = (at + 1) & mask;
  }
  return at;
}

static void fill_table(cr_lattice *l) {
  for (int64_t i = 0; i < 2 * l->room; ++i) l->slot[i] = -1;
  for (int64_t i = 0; i < l->corners; ++i) l->slot[slot_of(l, l->key + i * l->axes)] = (int32_t)i;
}

/* Room for twice as many lattice points, in a table that is at most half full. */
static crema_status grow(cr_lattice *l) {
  const size_t room = l->room > 0 ? 2 * (size_t)l->room : FIRST_ROOM;
  const size_t bytes = room * MOST_CORNERS * sizeof *l->key;
  int32_t *key = realloc(l->key, bytes);
  if (key != NULL) l->key = key;
  int32_t *next = malloc(2 * bytes), *slot = malloc(2 * room * sizeof *slot);
  if (key == NULL || next == NULL || slot == NULL) {
    free(slot);
    free(next);
    return cr_fail_memory(4 * bytes, "a lattice");
  }
  free(l->next);
  free(l->slot);
  l->next = next;
  l->slot = slot;
  l->room = (int64_t)room;
  fill_table(l);
  return CREMA_OK;
}

/* The index of a lattice point, which is added where it is new. */
static crema_status add_corner(cr_lattice *l, const int32_t *key, int32_t *out) {
  if (l->corners == l->room) CR_TRY(grow(l));
  const size_t at = slot_of(l, key);
  if (l->slot[at] < 0) {
    memcpy(l->key + l->corners * l->axes, key, (size_t)l->axes * sizeof *key);
    l->slot[at] = (int32_t)l->corners++;
  }
  *out = l->slot[at];
  return CREMA_OK;
}

static crema_status add_point(cr_lattice *l, int64_t point, const float *feature) {
  float at[MOST_CORNERS];
  simplex s;
  for (int k = 0; k < l->axes; ++k) {
    if (fabsf(feature[k]) <= most_feature) continue;
    return cr_fail(CREMA_E_RANGE, "point %lld has feature %g, must be within %g", (long long)point,
                   (double)feature[k], (double)most_feature);
  }
  elevate(feature, l->axes, at);
  find_corner(at, l->axes, &s);
  find_shares(at, l->axes, &s);
  for (int r = 0; r <= l->axes; ++r) {
    int32_t key[MOST_CORNERS];
    corner_key(&s, l->axes, r, key);
    CR_TRY(add_corner(l, key, &l->corner[point * (l->axes + 1) + r]));
    l->share[point * (l->axes + 1) + r] = s.share[r];
  }
  return CREMA_OK;
}

/* The lattice points before and behind each, along each axis of the hyperplane. */
static void find_neighbours(cr_lattice *l) {
  for (int axis = 0; axis <= l->axes; ++axis) {
    for (int64_t i = 0; i < l->corners; ++i) {
      int32_t *to = l->next + (axis * l->corners + i) * 2;
      for (int side = 0; side < 2; ++side) {
        int32_t key[MOST_CORNERS];
        const int32_t step = side == 0 ? -1 : 1;
        for (int k = 0; k < l->axes; ++k) {
          key[k] = l->key[i * l->axes + k] + (k == axis ? -step * l->axes : step);
        }
        to[side] = l->slot[slot_of(l, key)];
      }
    }
  }
}

static crema_status reserve_points(cr_lattice *l, size_t shares) {
  if (shares <= l->shares) return CREMA_OK;
  l->shares = 0;
  free(l->corner);
  free(l->share);
  l->share = NULL;
  CR_TRY(CR_NEW(l->corner, shares, "a lattice"));
  CR_TRY(CR_NEW(l->share, shares, "a lattice"));
  l->shares = shares;
  return CREMA_OK;
}

crema_status cr_lattice_make(cr_lattice *lattice, const float *feature, int64_t points, int axes) {
  if (points < 0 || points > INT32_MAX / (4 * MOST_CORNERS)) {
    return cr_fail(CREMA_E_RANGE, "a lattice of %lld points", (long long)points);
  }
  lattice->axes = axes;
  lattice->points = points;
  lattice->corners = 0;
  CR_TRY(reserve_points(lattice, (size_t)points * (size_t)(axes + 1) + 1));
  if (lattice->room == 0) CR_TRY(grow(lattice));
  fill_table(lattice);
  for (int64_t i = 0; i < points; ++i) CR_TRY(add_point(lattice, i, feature + i * axes));
  find_neighbours(lattice);
  return CREMA_OK;
}

void cr_lattice_free(cr_lattice *lattice) {
  free(lattice->value[1]);
  free(lattice->value[0]);
  free(lattice->slot);
  free(lattice->key);
  free(lattice->next);
  free(lattice->share);
  free(lattice->corner);
  *lattice = (cr_lattice){0};
}

/* ---- filtering ----------------------------------------------------------- */

static crema_status reserve_values(cr_lattice *l, size_t values) {
  if (values <= l->values) return CREMA_OK;
  l->values = 0;
  for (int i = 0; i < 2; ++i) {
    free(l->value[i]);
    l->value[i] = NULL;
    CR_TRY(CR_NEW(l->value[i], values, "a lattice"));
  }
  l->values = values;
  return CREMA_OK;
}

static void splat(const cr_lattice *l, const float *in, int width) {
  const int corners = l->axes + 1;
  memset(l->value[0], 0, (size_t)l->corners * (size_t)width * sizeof(float));
  for (int64_t i = 0; i < l->points * corners; ++i) {
    const float *from = in + i / corners * width, share = l->share[i];
    float *to = l->value[0] + (int64_t)l->corner[i] * width;
    for (int k = 0; k < width; ++k) to[k] += share * from[k];
  }
}

/* value[1] = value[0] blurred with 1/2, 1, 1/2 along an axis. */
static void blur(const cr_lattice *l, int axis, int width) {
  for (int64_t i = 0; i < l->corners; ++i) {
    const int32_t *next = l->next + (axis * l->corners + i) * 2;
    const float *own = l->value[0] + i * width;
    float *to = l->value[1] + i * width;
    memcpy(to, own, (size_t)width * sizeof *to);
    for (int side = 0; side < 2; ++side) {
      if (next[side] < 0) continue;
      const float *from = l->value[0] + (int64_t)next[side] * width;
      for (int k = 0; k < width; ++k) to[k] += 0.5f * from[k];
    }
  }
}

static void slice(const cr_lattice *l, int width, float *out) {
  const int corners = l->axes + 1;
  memset(out, 0, (size_t)l->points * (size_t)width * sizeof *out);
  for (int64_t i = 0; i < l->points * corners; ++i) {
    const float *from = l->value[0] + (int64_t)l->corner[i] * width, share = l->share[i];
    float *to = out + i / corners * width;
    for (int k = 0; k < width; ++k) to[k] += share * from[k];
  }
}

crema_status cr_lattice_filter(cr_lattice *lattice, const float *in, int width, float *out) {
  CR_TRY(reserve_values(lattice, (size_t)lattice->corners * (size_t)width + 1));
  splat(lattice, in, width);
  for (int axis = 0; axis <= lattice->axes; ++axis) {
    blur(lattice, axis, width);
    float *blurred = lattice->value[1];
    lattice->value[1] = lattice->value[0];
    lattice->value[0] = blurred;
  }
  slice(lattice, width, out);
  return CREMA_OK;
}
