#include "layers/common/lattice.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/clones.h"
#include "core/fail.h"
#include "core/float_bits.h"
#include "device/memory/host_memory.h"

enum { MOST_CORNERS = CR_LATTICE_MOST_AXES + 1, FIRST_ROOM = 1024 };

/* Above this, coordinates of lattice points would not fit their type. */
static const float most_feature = 1e6f;

/* ---- points to simplices ------------------------------------------------- */

enum { BLOCK = 16 /* points, side by side in vectors */ };

/* The simplices around points: the corner of remainder 0, the ranks of the distances from it, and
 * the shares of the corners. All coordinates are in the hyperplane of d + 1 axes whose sum is 0. */
typedef struct simplices {
  float at[MOST_CORNERS][BLOCK];
  int32_t corner[MOST_CORNERS][BLOCK], rank[MOST_CORNERS][BLOCK];
  float share[MOST_CORNERS][BLOCK];
} simplices;

/* What features are multiplied by on their way to the hyperplane, where the deviation of the blur
 * is that of the features. */
static void make_units(int d, double *unit) {
  for (int k = 1; k <= d; ++k) unit[k] = sqrt(2.0 / 3.0) * (d + 1) / sqrt((double)k * (k + 1));
}

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

/* The share of the corner of remainder r is the distance of rank d - r less that of the next rank;
 * the first corner has what is left of 1. */
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

CR_CLONES static void find_simplices(const float (*feature)[BLOCK], const double *unit, int d,
                                     simplices *out) {
  elevate(feature, unit, d, out);
  find_corners(d, out);
  find_shares(d, out);
}

/* The first d coordinates of the corner of remainder r; the last follows from them. */
static void corner_key(const simplices *s, int i, int d, int r, int32_t *key) {
  for (int k = 0; k < d; ++k) {
    key[k] = s->corner[k][i] + (s->rank[k][i] <= d - r ? r : r - (d + 1));
  }
}

/* ---- lattice points ------------------------------------------------------ */

static size_t hash(const int32_t *key, int d) {
  /* Odd numbers, whose products do not wait for each other. */
  static const uint64_t factor[CR_LATTICE_MOST_AXES] = {0x9E3779B97F4A7C15u, 0xF39CC0605CEDC835u,
                                                        0x6BA0DE4B87C25A43u, 0xC2B2AE3D27D4EB4Fu,
                                                        0xFF51AFD7ED558CCDu};
  uint64_t sum = 0;
  for (int k = 0; k < d; ++k) sum += (uint32_t)key[k] * factor[k];
  return (size_t)(sum >> 29);
}

static bool has_key(const cr_lattice *l, int64_t corner, const int32_t *key) {
  const int32_t *own = l->key + corner * l->axes;
  int32_t other = 0;
  for (int k = 0; k < l->axes; ++k) other |= own[k] ^ key[k];
  return other == 0;
}

/* The slot that has the key, or the empty one where it belongs. */
static size_t slot_of(const cr_lattice *l, const int32_t *key) {
  const size_t mask = 2 * (size_t)l->room - 1;
  size_t at = hash(key, l->axes) & mask;
  while (l->slot[at] >= 0 && !has_key(l, l->slot[at], key)) at = (at + 1) & mask;
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

/* The index of a lattice point, which is added where it is new. `near` may be it. */
static crema_status add_corner(cr_lattice *l, const int32_t *key, int32_t near, int32_t *out) {
  if (near < l->corners && has_key(l, near, key)) {
    *out = near;
    return CREMA_OK;
  }
  if (l->corners == l->room) CR_TRY(grow(l));
  const size_t at = slot_of(l, key);
  if (l->slot[at] < 0) {
    memcpy(l->key + l->corners * l->axes, key, (size_t)l->axes * sizeof *key);
    l->slot[at] = (int32_t)l->corners++;
  }
  *out = l->slot[at];
  return CREMA_OK;
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

/* Points that follow each other often have corners in common. */
static crema_status add_points(cr_lattice *l, int64_t first, int count, const double *unit,
                               const float *feature) {
  const int corners = l->axes + 1;
  float block[CR_LATTICE_MOST_AXES][BLOCK];
  simplices s;
  CR_TRY(read_features(l, first, count, feature, block));
  find_simplices((const float(*)[BLOCK])block, unit, l->axes, &s);
  for (int i = 0; i < count; ++i) {
    for (int r = 0; r < corners; ++r) {
      int32_t key[MOST_CORNERS], *to = &l->corner[(first + i) * corners + r];
      corner_key(&s, i, l->axes, r, key);
      CR_TRY(add_corner(l, key, first + i > 0 ? to[-corners] : 0, to));
      l->share[(first + i) * corners + r] = s.share[r][i];
    }
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
        const int32_t found = l->slot[slot_of(l, key)];
        to[side] = found >= 0 ? found : (int32_t)l->corners;
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
  double unit[MOST_CORNERS];
  if (points < 0 || points > INT32_MAX / (4 * MOST_CORNERS)) {
    return cr_fail(CREMA_E_RANGE, "a lattice of %lld points", (long long)points);
  }
  lattice->axes = axes;
  lattice->points = points;
  lattice->corners = 0;
  CR_TRY(reserve_points(lattice, (size_t)points * (size_t)(axes + 1) + 1));
  if (lattice->room == 0) CR_TRY(grow(lattice));
  fill_table(lattice);
  make_units(axes, unit);
  for (int64_t i = 0; i < points; i += BLOCK) {
    const int count = points - i < BLOCK ? (int)(points - i) : BLOCK;
    CR_TRY(add_points(lattice, i, count, unit, feature + i * axes));
  }
  find_neighbours(lattice);
  return CREMA_OK;
}

void cr_lattice_free(cr_lattice *lattice) {
  cr_host_free(lattice->value[1]);
  cr_host_free(lattice->value[0]);
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
    cr_host_free(l->value[i]);
    l->value[i] = NULL;
    CR_TRY(cr_host_alloc(values * sizeof *l->value[i], (void **)&l->value[i]));
  }
  l->values = values;
  return CREMA_OK;
}

/* Values of a lattice point. */
static float *row_of(const cr_lattice *l, int which, int64_t corner) {
  return l->value[which] + corner * l->width;
}

crema_status cr_lattice_begin(cr_lattice *l, int width) {
  CR_TRY(reserve_values(l, ((size_t)l->corners + 1) * (size_t)width));
  l->width = width;
  memset(row_of(l, 0, l->corners), 0, (size_t)width * sizeof(float));
  memset(l->value[1], 0, ((size_t)l->corners + 1) * (size_t)width * sizeof(float));
  return CREMA_OK;
}

/* A part of a row whose width is a multiple of LANES. */
enum { LANES = 8, MOST_PARTS = 4 };
typedef float part __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

static void add_rows(const cr_lattice *l, int64_t first, int64_t count, const float *in) {
  const int corners = l->axes + 1, width = l->width;
  for (int64_t i = first * corners; i < (first + count) * corners; ++i) {
    const float *from = in + (i / corners - first) * width;
    float *to = l->value[1] + (int64_t)l->corner[i] * width;
    for (int k = 0; k < width; ++k) to[k] += l->share[i] * from[k];
  }
}

/* Rows of `parts` parts, a constant: they stay in registers. */
CR_INLINE void add_parts(const cr_lattice *l, int64_t first, int64_t count, int parts,
                         const float *in) {
  const int corners = l->axes + 1;
  const int32_t *corner = l->corner + first * corners;
  const float *share = l->share + first * corners;
  const part *from = (const part *)(const void *)in;
  part *value = (part *)(void *)l->value[1];
  for (int64_t i = 0; i < count; ++i, from += parts, corner += corners, share += corners) {
    part own[MOST_PARTS];
    for (int k = 0; k < parts; ++k) own[k] = from[k];
    for (int r = 0; r < corners; ++r) {
      part *to = value + (int64_t)corner[r] * parts;
      const float one = share[r];
      for (int k = 0; k < parts; ++k) to[k] += one * own[k];
    }
  }
}

/* value[1] = value[0] blurred with 1/2, 1, 1/2 along an axis. */
static void blur_rows(const cr_lattice *l, int axis) {
  const int32_t *next = l->next + axis * l->corners * 2;
  const int width = l->width;
  for (int64_t i = 0; i < l->corners; ++i, next += 2) {
    const float *before = l->value[0] + (int64_t)next[0] * width;
    const float *behind = l->value[0] + (int64_t)next[1] * width;
    for (int64_t k = 0; k < width; ++k) {
      l->value[1][i * width + k] = l->value[0][i * width + k] + 0.5f * (before[k] + behind[k]);
    }
  }
}

CR_INLINE void blur_parts(const cr_lattice *l, int axis, int parts) {
  const int32_t *next = l->next + axis * l->corners * 2;
  const part *value = (const part *)(const void *)l->value[0], *own = value;
  part *to = (part *)(void *)l->value[1];
  for (int64_t i = 0; i < l->corners; ++i, next += 2, own += parts, to += parts) {
    const part *before = value + (int64_t)next[0] * parts;
    const part *behind = value + (int64_t)next[1] * parts;
    for (int k = 0; k < parts; ++k) to[k] = own[k] + 0.5f * (before[k] + behind[k]);
  }
}

static void read_rows(const cr_lattice *l, int64_t first, int64_t count, const float *weight,
                      const float *in, float *out) {
  const int corners = l->axes + 1, width = l->width;
  for (int64_t i = first; i < first + count; ++i, ++weight, in += width, out += width) {
    for (int k = 0; k < width; ++k) {
      float sum = 0;
      for (int64_t r = i * corners; r < (i + 1) * corners; ++r) {
        sum += l->share[r] * l->value[0][(int64_t)l->corner[r] * width + k];
      }
      out[k] = in[k] + *weight * sum;
    }
  }
}

CR_INLINE void read_parts(const cr_lattice *l, int64_t first, int64_t count, int parts,
                          const float *weight, const float *in, float *out) {
  const int corners = l->axes + 1;
  const part *value = (const part *)(const void *)l->value[0],
             *from = (const part *)(const void *)in;
  part *to = (part *)(void *)out;
  for (int64_t i = first; i < first + count; ++i, ++weight, from += parts, to += parts) {
    part sum[MOST_PARTS] = {0};
    for (int64_t r = i * corners; r < (i + 1) * corners; ++r) {
      const part *row = value + (int64_t)l->corner[r] * parts;
      for (int k = 0; k < parts; ++k) sum[k] += l->share[r] * row[k];
    }
    for (int k = 0; k < parts; ++k) to[k] = from[k] + *weight * sum[k];
  }
}

/* How many parts rows have; 0: they are not made of parts. */
static int parts_of(const cr_lattice *l) {
  return l->width % LANES == 0 && l->width <= MOST_PARTS * LANES ? l->width / LANES : 0;
}

CR_CLONES static void add_some(const cr_lattice *l, int64_t first, int64_t count, const float *in) {
  switch (parts_of(l)) {
    case 1: add_parts(l, first, count, 1, in); break;
    case 2: add_parts(l, first, count, 2, in); break;
    case 3: add_parts(l, first, count, 3, in); break;
    case 4: add_parts(l, first, count, 4, in); break;
    default: add_rows(l, first, count, in); break;
  }
}

CR_CLONES static void blur_some(const cr_lattice *l, int axis) {
  switch (parts_of(l)) {
    case 1: blur_parts(l, axis, 1); break;
    case 2: blur_parts(l, axis, 2); break;
    case 3: blur_parts(l, axis, 3); break;
    case 4: blur_parts(l, axis, 4); break;
    default: blur_rows(l, axis); break;
  }
}

CR_CLONES static void read_some(const cr_lattice *l, int64_t first, int64_t count,
                                const float *weight, const float *in, float *out) {
  switch (parts_of(l)) {
    case 1: read_parts(l, first, count, 1, weight, in, out); break;
    case 2: read_parts(l, first, count, 2, weight, in, out); break;
    case 3: read_parts(l, first, count, 3, weight, in, out); break;
    case 4: read_parts(l, first, count, 4, weight, in, out); break;
    default: read_rows(l, first, count, weight, in, out); break;
  }
}

static void swap_values(cr_lattice *l) {
  float *held = l->value[0];
  l->value[0] = l->value[1];
  l->value[1] = held;
}

void cr_lattice_add(cr_lattice *lattice, int64_t first, int64_t count, const float *in) {
  add_some(lattice, first, count, in);
}

void cr_lattice_blur(cr_lattice *l) {
  swap_values(l);
  for (int axis = 0; axis <= l->axes; ++axis) {
    blur_some(l, axis);
    swap_values(l);
  }
  memset(l->value[1], 0, (size_t)l->corners * (size_t)l->width * sizeof(float));
}

void cr_lattice_read(const cr_lattice *lattice, int64_t first, int64_t count, const float *weight,
                     const float *in, float *out) {
  read_some(lattice, first, count, weight, in, out);
}

crema_status cr_lattice_filter(cr_lattice *lattice, const float *in, int width, float *out) {
  const float one = 1;
  CR_TRY(cr_lattice_begin(lattice, width));
  cr_lattice_add(lattice, 0, lattice->points, in);
  cr_lattice_blur(lattice);
  memset(out, 0, (size_t)lattice->points * (size_t)width * sizeof *out);
  for (int64_t i = 0; i < lattice->points; ++i) {
    cr_lattice_read(lattice, i, 1, &one, out + i * width, out + i * width);
  }
  return CREMA_OK;
}
