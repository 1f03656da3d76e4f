/* The rows of layer_rows.inc, and filling a layer as a row says. */
#ifndef CR_TESTS_LAYERS_LAYER_TABLE_H
#define CR_TESTS_LAYERS_LAYER_TABLE_H

#include "layers/layer_rig.h"

typedef struct layer_row {
  const char *type;
  Caffe__Phase phase;
  const char *body, *shapes, *values;
  int tops, differentiable;
  const char *flags;
} layer_row;

static const layer_row rows[] = {
#define LAYER_ROW(type, phase, body, shapes, values, tops, differentiable, flags) \
  {type, CAFFE__PHASE__##phase, body, shapes, values, tops, differentiable, flags},
#include "layers/layer_rows.inc"
#undef LAYER_ROW
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static inline bool has_flag(const layer_row *row, char flag) {
  return strchr(row->flags, flag) != NULL;
}

static inline void fill_bottoms(rig *r, const layer_row *row, uint32_t *random) {
  for (int i = 0; i < r->bottoms; ++i) {
    float *value = rig_data(r->bottom[i]);
    int64_t count = crema_blob_count(r->bottom[i]);
    bool positive = row->values[i] == 'p';
    if (row->values[i] == 'l') {
      for (int64_t k = 0; k < count; ++k) value[k] = (float)(rig_random(random) % 3);
    } else if (row->values[i] == 'w') {
      for (int64_t k = 0; k < count; ++k) value[k] = (float)(1 + rig_random(random) % 2);
    } else if (row->values[i] == 'b') {
      for (int64_t k = 0; k < count; ++k) value[k] = (float)(k % 2);
    } else if (row->values[i] == 'o') {
      for (int64_t k = 0; k < count; ++k) {
        const int64_t number = k / 5;
        const float one[5] = {0, (float)(number % 2), (float)(2 + number % 3),
                              (float)(4 + number % 2), 5};
        value[k] = one[k % 5];
      }
    } else {
      /* Shifted, so that no two bottoms hold the same value. */
      float shift = 0.021f * (float)i;
      rig_fill(value, count, shift + (positive ? 0.2f : -1.0f), shift + (positive ? 1.2f : 1.0f),
               random);
    }
  }
}

/* Gives every parameter values of its own and clears the gradients. */
static inline void fill_params(rig *r, uint32_t *random) {
  for (int p = 0; p < r->layer->params; ++p) {
    crema_blob *blob = r->layer->blob[p];
    rig_fill(rig_data(blob), crema_blob_count(blob), 0.2f, 1.2f, random);
    cr_tensor_set_zero(blob->diff);
  }
}

/* Makes, sets up and fills the layer of a row, all of it of `dtype`. */
static inline void make_of(rig *r, const layer_row *row, crema_dtype dtype, bool in_place,
                           uint32_t *random) {
  rig_make_of(r, dtype, row->type, row->body, row->phase, row->shapes, row->tops);
  if (in_place) rig_set_in_place(r);
  ok(rig_setup(r));
  fill_bottoms(r, row, random);
  fill_params(r, random);
}

static inline void make(rig *r, const layer_row *row, bool in_place, uint32_t *random) {
  make_of(r, row, CREMA_F32, in_place, random);
}

/* d objective / d top: the objective is the sum of the tops' values times these numbers. */
static inline float top_weight(int top, int64_t i) {
  return 0.3f + 0.17f * (float)((i * 7 + top * 3) % 11) - 0.6f * (float)(i % 2);
}

static inline void set_top_diffs(rig *r, const layer_row *row) {
  for (int t = 0; t < r->tops; ++t) {
    float *diff = rig_diff(r->top[t]);
    for (int64_t i = 0; i < crema_blob_count(r->top[t]); ++i) {
      diff[i] = t < row->differentiable ? top_weight(t, i) : 0;
    }
  }
}

#endif
