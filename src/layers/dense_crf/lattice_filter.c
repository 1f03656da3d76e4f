/* Filtering with a lattice: values are added to the bands' rows, summed for each lattice point,
 * blurred, and given back to the rows. */
#include <string.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "device/memory/host_memory.h"
#include "layers/common/layer_host.h"
#include "layers/dense_crf/lattice.h"

static crema_status reserve_values(float **array, size_t *room, size_t values) {
  if (values <= *room) return CREMA_OK;
  *room = 0;
  for (int i = 0; i < 2; ++i) {
    cr_host_free(array[i]);
    array[i] = NULL;
    CR_TRY(cr_host_alloc(values * sizeof *array[i], (void **)&array[i]));
  }
  *room = values;
  return CREMA_OK;
}

/* Values of a lattice point. */
static float *value_of(const cr_lattice *l, int which, int64_t corner) {
  return l->value[which] + corner * l->width;
}

/* The rows of a band that are read, and the rows that are added to. */
enum { READ, ADDED };

crema_status cr_lattice_begin(cr_lattice *l, int width) {
  const size_t bytes = (size_t)width * sizeof(float);
  CR_TRY(reserve_values(l->value, &l->values, ((size_t)l->all.corners + 1) * (size_t)width));
  CR_TRY(reserve_values(l->own, &l->owns, ((size_t)l->rows + 1) * (size_t)width));
  l->width = width;
  for (int i = 0; i < 2; ++i) memset(value_of(l, i, l->all.corners), 0, bytes);
  memset(l->own[ADDED], 0, (size_t)l->rows * bytes);
  return CREMA_OK;
}

/* A part of a row whose width is a multiple of LANES. */
enum { LANES = 8, MOST_PARTS = 4 };
typedef float part __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

/* Points, their corners and their shares; `rows`: of their band. */
typedef struct point_span {
  float *rows;
  const int32_t *corner;
  const float *share;
  int64_t count;
  int corners, width;
} point_span;

static point_span span_of(const cr_lattice *l, int which, int64_t first, int64_t count) {
  const int corners = l->axes + 1;
  return (point_span){l->own[which] + l->band[first / l->per_band].row * l->width,
                      l->corner + first * corners,
                      l->share + first * corners,
                      count,
                      corners,
                      l->width};
}

static void add_rows(const point_span *s, const float *in) {
  const int width = s->width;
  for (int64_t i = 0; i < s->count; ++i, in += width) {
    for (int64_t r = i * s->corners; r < (i + 1) * s->corners; ++r) {
      float *to = s->rows + (int64_t)s->corner[r] * width;
      for (int k = 0; k < width; ++k) to[k] += s->share[r] * in[k];
    }
  }
}

/* A row of `parts` parts, a constant. */
CR_INLINE part *row_of(float *rows, int32_t row, int parts) {
  return (part *)(void *)(rows + (int64_t)row * (parts * LANES));
}

CR_INLINE void add_parts(const point_span *s, int corners, int parts, const float *in) {
  const int32_t *corner = s->corner;
  const float *share = s->share;
  const part *from = (const part *)(const void *)in;
  float *rows = s->rows;
  for (int64_t i = s->count; i > 0; --i, from += parts, corner += corners, share += corners) {
    part own[MOST_PARTS];
    for (int k = 0; k < parts; ++k) own[k] = from[k];
    for (int r = 0; r < corners; ++r) {
      part *to = row_of(rows, corner[r], parts);
      const float one = share[r];
      for (int k = 0; k < parts; ++k) to[k] += one * own[k];
    }
  }
}

/* Also compiled with DenseCRF's numbers of corners as constants. */
CR_INLINE void add_to(const point_span *s, int parts, const float *in) {
  if (s->corners == 6) add_parts(s, 6, parts, in);
  else if (s->corners == 3) add_parts(s, 3, parts, in);
  else add_parts(s, s->corners, parts, in);
}

static void read_rows(const point_span *s, const float *weight, const float *in, float *out) {
  const int width = s->width;
  for (int64_t i = 0; i < s->count; ++i, in += width, out += width) {
    for (int k = 0; k < width; ++k) {
      float sum = 0;
      for (int64_t r = i * s->corners; r < (i + 1) * s->corners; ++r) {
        sum += s->share[r] * s->rows[(int64_t)s->corner[r] * width + k];
      }
      out[k] = in[k] + weight[i] * sum;
    }
  }
}

CR_INLINE void read_parts(const point_span *s, int corners, int parts, const float *weight,
                          const float *in, float *out) {
  const int32_t *corner = s->corner;
  const float *share = s->share;
  const part *from = (const part *)(const void *)in;
  float *rows = s->rows;
  part *to = (part *)(void *)out;
  for (int64_t i = s->count; i > 0; --i, from += parts, to += parts, ++weight) {
    part sum[MOST_PARTS] = {0};
    const float by = *weight;
    for (int r = 0; r < corners; ++r) {
      const part *row = row_of(rows, corner[r], parts);
      const float one = share[r];
      for (int k = 0; k < parts; ++k) sum[k] += one * row[k];
    }
    for (int k = 0; k < parts; ++k) to[k] = from[k] + by * sum[k];
    corner += corners;
    share += corners;
  }
}

CR_INLINE void read_from(const point_span *s, int parts, const float *weight, const float *in,
                         float *out) {
  if (s->corners == 6) read_parts(s, 6, parts, weight, in, out);
  else if (s->corners == 3) read_parts(s, 3, parts, weight, in, out);
  else read_parts(s, s->corners, parts, weight, in, out);
}

/* The number of parts of a row; 0: rows have no parts. */
static int parts_of(const cr_lattice *l) {
  return l->width % LANES == 0 && l->width <= MOST_PARTS * LANES ? l->width / LANES : 0;
}

CR_CLONES static void add_some(const point_span *s, int parts, const float *in) {
  switch (parts) {
    case 1: add_to(s, 1, in); break;
    case 2: add_to(s, 2, in); break;
    case 3: add_to(s, 3, in); break;
    case 4: add_to(s, 4, in); break;
    default: add_rows(s, in); break;
  }
}

CR_CLONES static void read_some(const point_span *s, int parts, const float *weight,
                                const float *in, float *out) {
  switch (parts) {
    case 1: read_from(s, 1, weight, in, out); break;
    case 2: read_from(s, 2, weight, in, out); break;
    case 3: read_from(s, 3, weight, in, out); break;
    case 4: read_from(s, 4, weight, in, out); break;
    default: read_rows(s, weight, in, out); break;
  }
}

void cr_lattice_add(cr_lattice *lattice, int64_t first, int64_t count, const float *in) {
  const point_span s = span_of(lattice, ADDED, first, count);
  add_some(&s, parts_of(lattice), in);
}

void cr_lattice_read(const cr_lattice *lattice, int64_t first, int64_t count, const float *weight,
                     const float *in, float *out) {
  const point_span s = span_of(lattice, READ, first, count);
  read_some(&s, parts_of(lattice), weight, in, out);
}

/* The number of lattice points that a thread processes at a time. */
enum { PIECE = 1024 };

typedef struct blur {
  const cr_lattice *lattice;
  int axis;
} blur;

/* The sums of the bands' rows, in their order. */
static void sum_rows(const cr_lattice *l, int64_t begin, int64_t end) {
  const int width = l->width;
  for (int64_t i = begin; i < end; ++i) {
    float *to = value_of(l, 0, i);
    memset(to, 0, (size_t)width * sizeof *to);
    for (int32_t r = l->begin[i]; r < l->begin[i + 1]; ++r) {
      const float *more = l->own[ADDED] + (int64_t)l->row[r] * width;
      for (int k = 0; k < width; ++k) to[k] += more[k];
    }
  }
}

CR_INLINE void sum_parts(const cr_lattice *l, int64_t begin, int64_t end, int parts) {
  const part *added = (const part *)(const void *)l->own[ADDED];
  part *to = (part *)(void *)l->value[0] + begin * parts;
  for (int64_t i = begin; i < end; ++i, to += parts) {
    part sum[MOST_PARTS] = {0};
    for (int32_t r = l->begin[i]; r < l->begin[i + 1]; ++r) {
      const part *more = added + (int64_t)l->row[r] * parts;
      for (int k = 0; k < parts; ++k) sum[k] += more[k];
    }
    for (int k = 0; k < parts; ++k) to[k] = sum[k];
  }
}

CR_CLONES static void sum_some(const cr_lattice *l, int64_t begin, int64_t end) {
  switch (parts_of(l)) {
    case 1: sum_parts(l, begin, end, 1); break;
    case 2: sum_parts(l, begin, end, 2); break;
    case 3: sum_parts(l, begin, end, 3); break;
    case 4: sum_parts(l, begin, end, 4); break;
    default: sum_rows(l, begin, end); break;
  }
}

/* value[1] = value[0] blurred with 1/2, 1, 1/2 along an axis. */
static void blur_rows(const cr_lattice *l, int axis, int64_t begin, int64_t end) {
  const int32_t *next = l->next + axis * l->all.corners * 2;
  const int width = l->width;
  for (int64_t i = begin; i < end; ++i) {
    const float *before = value_of(l, 0, next[2 * i]), *behind = value_of(l, 0, next[2 * i + 1]);
    const float *own = value_of(l, 0, i);
    float *to = value_of(l, 1, i);
    for (int k = 0; k < width; ++k) to[k] = own[k] + 0.5f * (before[k] + behind[k]);
  }
}

CR_INLINE void blur_parts(const cr_lattice *l, int axis, int64_t begin, int64_t end, int parts) {
  const int32_t *next = l->next + axis * l->all.corners * 2;
  const part *value = (const part *)(const void *)l->value[0];
  for (int64_t i = begin; i < end; ++i) {
    const part *before = value + (int64_t)next[2 * i] * parts;
    const part *behind = value + (int64_t)next[2 * i + 1] * parts, *own = value + i * parts;
    part *to = (part *)(void *)l->value[1] + i * parts;
    for (int k = 0; k < parts; ++k) to[k] = own[k] + 0.5f * (before[k] + behind[k]);
  }
}

CR_CLONES static void blur_some(const cr_lattice *l, int axis, int64_t begin, int64_t end) {
  switch (parts_of(l)) {
    case 1: blur_parts(l, axis, begin, end, 1); break;
    case 2: blur_parts(l, axis, begin, end, 2); break;
    case 3: blur_parts(l, axis, begin, end, 3); break;
    case 4: blur_parts(l, axis, begin, end, 4); break;
    default: blur_rows(l, axis, begin, end); break;
  }
}

static int64_t end_of(const cr_lattice *l, int64_t piece) {
  return (piece + 1) * PIECE < l->all.corners ? (piece + 1) * PIECE : l->all.corners;
}

static crema_status sum_piece(void *state, int worker, int64_t index) {
  const blur *of = state;
  (void)worker;
  sum_some(of->lattice, index * PIECE, end_of(of->lattice, index));
  return CREMA_OK;
}

static crema_status blur_piece(void *state, int worker, int64_t index) {
  const blur *of = state;
  (void)worker;
  blur_some(of->lattice, of->axis, index * PIECE, end_of(of->lattice, index));
  return CREMA_OK;
}

CR_INLINE void give_parts(const cr_lattice *l, const cr_lattice_band *band, int parts) {
  const part *value = (const part *)(const void *)l->value[0];
  part *to = (part *)(void *)l->own[READ] + band->row * parts;
  part *added = (part *)(void *)l->own[ADDED] + band->row * parts;
  for (int64_t i = 0; i < band->table.corners; ++i, to += parts, added += parts) {
    const part *from = value + (int64_t)band->place[i] * parts;
    for (int k = 0; k < parts; ++k) to[k] = from[k], added[k] = (part){0};
  }
}

static void give_rows(const cr_lattice *l, const cr_lattice_band *band) {
  const size_t bytes = (size_t)l->width * sizeof(float);
  float *to = l->own[READ] + band->row * l->width;
  for (int64_t i = 0; i < band->table.corners; ++i) {
    memcpy(to + i * l->width, value_of(l, 0, band->place[i]), bytes);
  }
  memset(l->own[ADDED] + band->row * l->width, 0, (size_t)band->table.corners * bytes);
}

/* Sets a band's rows to the values of their lattice points, without adding. */
CR_CLONES static void give_some(const cr_lattice *l, const cr_lattice_band *band) {
  switch (parts_of(l)) {
    case 1: give_parts(l, band, 1); break;
    case 2: give_parts(l, band, 2); break;
    case 3: give_parts(l, band, 3); break;
    case 4: give_parts(l, band, 4); break;
    default: give_rows(l, band); break;
  }
}

static crema_status give_band(void *state, int worker, int64_t index) {
  const cr_lattice *l = ((const blur *)state)->lattice;
  (void)worker;
  give_some(l, &l->band[index]);
  return CREMA_OK;
}

crema_status cr_lattice_blur(cr_lattice *l, int workers, bool reverse) {
  const int64_t pieces = (l->all.corners + PIECE - 1) / PIECE;
  blur of = {l, 0};
  CR_TRY(cr_host_spread(workers, pieces, sum_piece, &of));
  for (int i = 0; i <= l->axes; ++i) {
    float *held = l->value[0];
    of.axis = reverse ? l->axes - i : i;
    CR_TRY(cr_host_spread(workers, pieces, blur_piece, &of));
    l->value[0] = l->value[1];
    l->value[1] = held;
  }
  return cr_host_spread(workers, l->bands, give_band, &of);
}

typedef struct filtering {
  cr_lattice *lattice;
  const float *in;
  float *out; /* NULL while values are added */
} filtering;

enum { TOGETHER = 64 /* points that are read at a time */ };

static crema_status filter_band(void *state, int worker, int64_t index) {
  const filtering *f = state;
  cr_lattice *l = f->lattice;
  const int64_t first = index * l->per_band, left = l->points - first;
  const int64_t count = left < l->per_band ? left : l->per_band;
  float one[TOGETHER];
  (void)worker;
  if (f->out == NULL) {
    cr_lattice_add(l, first, count, f->in + first * l->width);
    return CREMA_OK;
  }
  float *out = f->out + first * l->width;
  memset(out, 0, (size_t)count * (size_t)l->width * sizeof *out);
  for (int i = 0; i < TOGETHER; ++i) one[i] = 1;
  for (int64_t i = 0; i < count; i += TOGETHER, out += TOGETHER * l->width) {
    cr_lattice_read(l, first + i, count - i < TOGETHER ? count - i : TOGETHER, one, out, out);
  }
  return CREMA_OK;
}

crema_status cr_lattice_filter(cr_lattice *lattice, const float *in, int width, int workers,
                               bool reverse, float *out) {
  filtering f = {lattice, in, NULL};
  CR_TRY(cr_lattice_begin(lattice, width));
  CR_TRY(cr_host_spread(workers, lattice->bands, filter_band, &f));
  CR_TRY(cr_lattice_blur(lattice, workers, reverse));
  f.out = out;
  return cr_host_spread(workers, lattice->bands, filter_band, &f);
}
