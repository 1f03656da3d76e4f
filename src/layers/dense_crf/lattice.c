#include "layers/dense_crf/lattice.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "core/float_bits.h"
#include "device/memory/host_memory.h"
#include "layers/common/layer_host.h"

enum { MOST_CORNERS = CR_LATTICE_MOST_AXES + 1, FIRST_ROOM = 1024 };

/* Above this, coordinates of lattice points would not fit their type. */
static const float most_feature = 1e6f;

enum { BLOCK = 16 /* points, side by side in vectors */ };

/* The simplices around points: the corner of remainder 0, the ranks of the distances from it, and
 * the shares of the corners. All coordinates are in the hyperplane of d + 1 axes whose sum is 0. */
typedef struct simplices {
  float at[MOST_CORNERS][BLOCK];
  int32_t corner[MOST_CORNERS][BLOCK], rank[MOST_CORNERS][BLOCK];
  float share[MOST_CORNERS][BLOCK];
  int32_t key[MOST_CORNERS][CR_LATTICE_MOST_AXES][BLOCK]; /* of each corner: its coordinates */
  uint32_t sum[MOST_CORNERS][BLOCK];                      /* the search key */
  int32_t again[MOST_CORNERS][BLOCK];                     /* the same corner as the point before */
} simplices;

/* Points of d features in the hyperplane. */
CR_INLINE void elevate(const float (*feature)[BLOCK], const double *unit, int d, simplices *out) {
  double sum[BLOCK] = {0};
  for (int k = d; k > 0; --k) {
#pragma omp simd
    for (int i = 0; i < BLOCK; ++i) {
      const double scaled = (double)feature[k - 1][i] * unit[k];
      out->at[k][i] = (float)(sum[i] - k * scaled);
      sum[i] += scaled;
    }
  }
  for (int i = 0; i < BLOCK; ++i) out->at[0][i] = (float)sum[i];
}

/* The nearest points of remainder 0 whose sum is 0. */
CR_INLINE void find_corners(int d, simplices *s) {
  const float shift = 0x1.8p23f; /* adding this rounds to an integer, in the lowest bits */
  int32_t sum[BLOCK] = {0};
  memset(s->rank, 0, sizeof s->rank);
  for (int k = 0; k <= d; ++k) {
#pragma omp simd
    for (int i = 0; i < BLOCK; ++i) {
      const float shifted = s->at[k][i] / (float)(d + 1) + shift;
      const int32_t multiple = (int32_t)(cr_f32_bits(shifted) - cr_f32_bits(shift));
      s->corner[k][i] = multiple * (d + 1);
      sum[i] += multiple;
    }
  }
  for (int j = 0; j < d; ++j) {
    for (int k = j + 1; k <= d; ++k) {
#pragma omp simd
      for (int i = 0; i < BLOCK; ++i) {
        const bool lower =
            s->at[j][i] - (float)s->corner[j][i] < s->at[k][i] - (float)s->corner[k][i];
        s->rank[j][i] += lower;
        s->rank[k][i] += !lower;
      }
    }
  }
  for (int k = 0; k <= d; ++k) {
#pragma omp simd
    for (int i = 0; i < BLOCK; ++i) {
      const int32_t rank = s->rank[k][i] + sum[i];
      const int32_t turn = rank < 0 ? d + 1 : rank > d ? -(d + 1) : 0;
      s->rank[k][i] = rank + turn;
      s->corner[k][i] += turn;
    }
  }
}

/* The share of the corner of remainder r is the distance of rank d - r minus the distance of the
 * next rank; the first corner has the rest of 1. */
CR_INLINE void find_shares(int d, simplices *s) {
  for (int r = 0; r <= d; ++r) {
    for (int i = 0; i < BLOCK; ++i) s->share[r][i] = r == 0;
    for (int k = 0; k <= d; ++k) {
#pragma omp simd
      for (int i = 0; i < BLOCK; ++i) {
        const float part = (s->at[k][i] - (float)s->corner[k][i]) / (float)(d + 1);
        const int32_t next = r == 0 ? 0 : d + 1 - r, rank = s->rank[k][i];
        s->share[r][i] += (rank == d - r ? part : 0) - (rank == next ? part : 0);
      }
    }
  }
}

/* Odd factors of coordinates, so that one sum distinguishes lattice points. */
static const uint32_t factors[CR_LATTICE_MOST_AXES] = {0x9E3779B1u, 0x85EBCA77u, 0xC2B2AE3Du,
                                                       0x27D4EB2Fu, 0x165667B1u};

/* The first d coordinates of the corners, which determine the last coordinate. Points that follow
 * each other often have corners in common. */
CR_INLINE void find_keys(int d, simplices *s) {
  for (int r = 0; r <= d; ++r) {
    memset(s->sum[r], 0, sizeof s->sum[r]);
    for (int k = 0; k < d; ++k) {
#pragma omp simd
      for (int i = 0; i < BLOCK; ++i) {
        const int32_t step = s->rank[k][i] <= d - r ? r : r - (d + 1);
        s->key[r][k][i] = s->corner[k][i] + step;
        s->sum[r][i] += (uint32_t)s->key[r][k][i] * factors[k];
      }
    }
    for (int i = 0; i < BLOCK; ++i) s->again[r][i] = i > 0;
    for (int k = 0; k < d; ++k) {
#pragma omp simd
      for (int i = 1; i < BLOCK; ++i) s->again[r][i] &= s->key[r][k][i] == s->key[r][k][i - 1];
    }
  }
}

CR_CLONES static void find_simplices(const float (*feature)[BLOCK], const double *unit, int d,
                                     simplices *out) {
  elevate(feature, unit, d, out);
  find_corners(d, out);
  find_shares(d, out);
  find_keys(d, out);
}

static uint32_t sum_of(const int32_t *key, int axes) {
  uint32_t sum = 0;
  for (int k = 0; k < axes; ++k) sum += (uint32_t)key[k] * factors[k];
  return sum;
}

/* The slot that has the key, or the empty slot for it. */
static cr_lattice_slot *slot_of(const cr_lattice_table *t, const int32_t *key, uint32_t sum,
                                int axes) {
  const size_t mask = 2 * (size_t)t->room - 1;
  const uint64_t mixed = sum * (uint64_t)0x9E3779B97F4A7C15u;
  for (size_t at = (size_t)(mixed >> 32) & mask;; at = (at + 1) & mask) {
    cr_lattice_slot *slot = &t->slot[at];
    if (slot->index < 0) return slot;
    if (slot->sum != sum) continue;
    const int32_t *own = t->key + (int64_t)slot->index * axes;
    int32_t other = 0;
    for (int k = 0; k < axes; ++k) other |= own[k] ^ key[k];
    if (other == 0) return slot;
  }
}

static void fill_table(cr_lattice_table *t, int axes) {
  for (int64_t i = 0; i < 2 * t->room; ++i) t->slot[i] = (cr_lattice_slot){-1, 0};
  for (int64_t i = 0; i < t->corners; ++i) {
    const int32_t *key = t->key + i * axes;
    const uint32_t sum = sum_of(key, axes);
    *slot_of(t, key, sum, axes) = (cr_lattice_slot){(int32_t)i, sum};
  }
}

/* Doubles the capacity for lattice points, in a table that is at most half full. */
static crema_status grow(cr_lattice_table *t, int axes) {
  const size_t room = t->room > 0 ? 2 * (size_t)t->room : FIRST_ROOM;
  const size_t bytes = room * CR_LATTICE_MOST_AXES * sizeof *t->key;
  int32_t *key = realloc(t->key, bytes);
  if (key != NULL) t->key = key;
  cr_lattice_slot *slot = malloc(2 * room * sizeof *slot);
  if (key == NULL || slot == NULL) {
    free(slot);
    return cr_fail_memory(2 * bytes, "a lattice");
  }
  free(t->slot);
  t->slot = slot;
  t->room = (int64_t)room;
  fill_table(t, axes);
  return CREMA_OK;
}

static crema_status clear(cr_lattice_table *t, int axes) {
  t->corners = 0;
  if (t->room == 0) return grow(t, axes);
  fill_table(t, axes);
  return CREMA_OK;
}

/* The index of a lattice point, which is added if it is new. */
static crema_status add_corner(cr_lattice_table *t, const int32_t *key, uint32_t sum, int axes,
                               int32_t *out) {
  cr_lattice_slot *slot = slot_of(t, key, sum, axes);
  if (slot->index < 0) {
    if (t->corners == t->room) {
      CR_TRY(grow(t, axes));
      slot = slot_of(t, key, sum, axes);
    }
    memcpy(t->key + t->corners * axes, key, (size_t)axes * sizeof *key);
    *slot = (cr_lattice_slot){(int32_t)t->corners++, sum};
  }
  *out = slot->index;
  return CREMA_OK;
}

static void free_table(cr_lattice_table *t) {
  free(t->slot);
  free(t->key);
}

/* Features of `count` points, at most BLOCK; the last one fills up the block. */
static crema_status read_features(const cr_lattice *l, int64_t first, int count,
                                  const float *feature, float (*out)[BLOCK]) {
  for (int i = 0; i < BLOCK; ++i) {
    const int64_t point = i < count ? i : count - 1;
    for (int k = 0; k < l->axes; ++k) {
      const float value = feature[point * l->axes + k];
      out[k][i] = value;
      if (fabsf(value) <= most_feature) continue;
      return cr_fail(CREMA_E_RANGE, "point %lld has feature %g, must be within %g",
                     (long long)(first + point), (double)value, (double)most_feature);
    }
  }
  return CREMA_OK;
}

/* The data of threads that make a lattice. */
typedef struct table_making {
  cr_lattice *lattice;
  const float *feature;
  double unit[MOST_CORNERS];
} table_making;

static crema_status add_points(const table_making *m, cr_lattice_table *t, int64_t first,
                               int count) {
  const cr_lattice *l = m->lattice;
  const int corners = l->axes + 1;
  float block[CR_LATTICE_MOST_AXES][BLOCK];
  simplices s;
  CR_TRY(read_features(l, first, count, m->feature + first * l->axes, block));
  find_simplices((const float(*)[BLOCK])block, m->unit, l->axes, &s);
  for (int i = 0; i < count; ++i) {
    int32_t *to = &l->corner[(first + i) * corners];
    for (int r = 0; r < corners; ++r) {
      int32_t key[CR_LATTICE_MOST_AXES];
      l->share[(first + i) * corners + r] = s.share[r][i];
      if (s.again[r][i]) {
        to[r] = to[r - corners];
        continue;
      }
      for (int k = 0; k < l->axes; ++k) key[k] = s.key[r][k][i];
      CR_TRY(add_corner(t, key, s.sum[r][i], l->axes, &to[r]));
    }
  }
  return CREMA_OK;
}

static crema_status make_band(void *state, int worker, int64_t index) {
  const table_making *m = state;
  const cr_lattice *l = m->lattice;
  cr_lattice_table *t = &l->band[index].table;
  const int64_t begin = index * l->per_band, left = l->points - begin;
  const int64_t end = begin + (left < l->per_band ? left : l->per_band);
  (void)worker;
  CR_TRY(clear(t, l->axes));
  for (int64_t i = begin; i < end; i += BLOCK) {
    const int count = end - i < BLOCK ? (int)(end - i) : BLOCK;
    CR_TRY(add_points(m, t, i, count));
  }
  return CREMA_OK;
}

/* Makes room for `count` numbers; old values are lost. */
static crema_status need(int32_t **array, size_t *room, size_t count) {
  if (count <= *room) return CREMA_OK;
  *room = 0;
  free(*array);
  *array = NULL;
  CR_TRY(CR_NEW(*array, count, "a lattice"));
  *room = count;
  return CREMA_OK;
}

/* Numbers lattice points in the order of their first use by the bands. */
static crema_status find_places(cr_lattice *l) {
  CR_TRY(clear(&l->all, l->axes));
  l->rows = 0;
  for (int64_t b = 0; b < l->bands; ++b) {
    cr_lattice_band *band = &l->band[b];
    band->row = l->rows;
    l->rows += band->table.corners;
    CR_TRY(need(&band->place, &band->places, (size_t)band->table.corners + 1));
    for (int64_t i = 0; i < band->table.corners; ++i) {
      const int32_t *key = band->table.key + i * l->axes;
      CR_TRY(add_corner(&l->all, key, sum_of(key, l->axes), l->axes, &band->place[i]));
    }
  }
  return CREMA_OK;
}

/* The rows of each lattice point, in the order of the bands. */
static crema_status find_rows(cr_lattice *l) {
  const int64_t corners = l->all.corners;
  CR_TRY(need(&l->begin, &l->begins, (size_t)corners + 2));
  CR_TRY(need(&l->row, &l->row_room, (size_t)l->rows + 1));
  memset(l->begin, 0, ((size_t)corners + 2) * sizeof *l->begin);
  for (int64_t b = 0; b < l->bands; ++b) {
    const cr_lattice_band *band = &l->band[b];
    for (int64_t i = 0; i < band->table.corners; ++i) ++l->begin[band->place[i] + 2];
  }
  for (int64_t i = 0; i < corners; ++i) l->begin[i + 2] += l->begin[i + 1];
  for (int64_t b = 0; b < l->bands; ++b) {
    const cr_lattice_band *band = &l->band[b];
    for (int64_t i = 0; i < band->table.corners; ++i) {
      l->row[l->begin[band->place[i] + 1]++] = (int32_t)(band->row + i);
    }
  }
  return CREMA_OK;
}

/* The number of lattice points whose neighbours a thread searches at a time. */
enum { NEIGHBOURS = 1024 };

/* The next and the previous lattice point of each, along each axis of the hyperplane. */
static crema_status find_neighbours(void *state, int worker, int64_t index) {
  const cr_lattice *l = ((const table_making *)state)->lattice;
  const cr_lattice_table *t = &l->all;
  const int64_t begin = index * NEIGHBOURS, left = t->corners - begin;
  const int64_t end = begin + (left < NEIGHBOURS ? left : NEIGHBOURS);
  (void)worker;
  for (int axis = 0; axis <= l->axes; ++axis) {
    int32_t *next = l->next + axis * t->corners * 2;
    for (int64_t i = begin; i < end; ++i) {
      int32_t key[MOST_CORNERS];
      for (int k = 0; k < l->axes; ++k)
        key[k] = t->key[i * l->axes + k] + (k == axis ? -l->axes : 1);
      const int32_t found = slot_of(t, key, sum_of(key, l->axes), l->axes)->index;
      if (found < 0) continue;
      next[2 * i + 1] = found;
      next[2 * (int64_t)found] = (int32_t)i;
    }
  }
  return CREMA_OK;
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

static crema_status reserve_bands(cr_lattice *l) {
  if (l->bands <= l->room) return CREMA_OK;
  cr_lattice_band *more = realloc(l->band, (size_t)l->bands * sizeof *more);
  if (more == NULL) return cr_fail_memory((size_t)l->bands * sizeof *more, "a lattice");
  for (int64_t b = l->room; b < l->bands; ++b) more[b] = (cr_lattice_band){0};
  l->band = more;
  l->room = l->bands;
  return CREMA_OK;
}

crema_status cr_lattice_make(cr_lattice *lattice, const float *feature, int64_t points, int axes,
                             int64_t per_band, int workers) {
  table_making m = {lattice, feature, {0}};
  if (points < 0 || points > INT32_MAX / (4 * MOST_CORNERS)) {
    return cr_fail(CREMA_E_RANGE, "a lattice of %lld points", (long long)points);
  }
  lattice->axes = axes;
  lattice->points = points;
  lattice->per_band = per_band > 0 ? per_band : points + 1;
  lattice->bands = (points + lattice->per_band - 1) / lattice->per_band;
  /* Factors of features, so that the blur has the features' deviation. */
  for (int k = 1; k <= axes; ++k) m.unit[k] = sqrt(2.0 / 3.0) * (axes + 1) / sqrt(k * (k + 1.0));
  CR_TRY(reserve_bands(lattice));
  CR_TRY(reserve_points(lattice, (size_t)points * (size_t)(axes + 1) + 1));
  CR_TRY(cr_host_spread(workers, lattice->bands, make_band, &m));
  CR_TRY(find_places(lattice));
  CR_TRY(find_rows(lattice));
  const int64_t corners = lattice->all.corners;
  const size_t nexts = (size_t)(axes + 1) * (size_t)corners * 2;
  CR_TRY(need(&lattice->next, &lattice->nexts, nexts + 1));
  for (size_t i = 0; i < nexts; ++i) lattice->next[i] = (int32_t)corners;
  return cr_host_spread(workers, (corners + NEIGHBOURS - 1) / NEIGHBOURS, find_neighbours, &m);
}

void cr_lattice_free(cr_lattice *lattice) {
  cr_host_free(lattice->wide);
  for (int i = 0; i < 2; ++i) {
    cr_host_free(lattice->own[i]);
    cr_host_free(lattice->value[i]);
  }
  for (int64_t b = 0; b < lattice->room; ++b) {
    free(lattice->band[b].place);
    free_table(&lattice->band[b].table);
  }
  free(lattice->band);
  free_table(&lattice->all);
  free(lattice->row);
  free(lattice->begin);
  free(lattice->next);
  free(lattice->share);
  free(lattice->corner);
  *lattice = (cr_lattice){0};
}
