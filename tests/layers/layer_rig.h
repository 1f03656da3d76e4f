/* What the tests of layers share: a layer made from text, with bottoms and tops, run by hand. */
#ifndef CR_TESTS_LAYERS_LAYER_RIG_H
#define CR_TESTS_LAYERS_LAYER_RIG_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/fail.h"
#include "layers/registry.h"

enum { RIG_MAX = 8 };

typedef struct rig {
  Caffe__LayerParameter *param;
  crema_context *context;
  cr_layer *layer;
  crema_blob *bottom[RIG_MAX], *top[RIG_MAX];
  int bottoms, tops;
  bool in_place; /* top 0 is bottom 0 */
  bool propagate_down[RIG_MAX];
} rig;

/* "2 3 4" to a shape; stops at '|' or the end; returns what follows. "-" is a scalar. */
static inline const char *rig_read_shape(const char *text, crema_shape *shape) {
  memset(shape, 0, sizeof *shape);
  while (*text != '\0' && *text != '|') {
    if (*text == ' ' || *text == '-') {
      ++text;
      continue;
    }
    char *end = NULL;
    shape->dim[shape->axes++] = strtoll(text, &end, 10);
    text = end;
  }
  return *text == '|' ? text + 1 : text;
}

/* Parses `type` and the body of a layer message with `bottoms` and `tops`, makes the layer and its
 * blobs, all of `dtype`. `shapes` holds one shape per bottom, separated by '|'; NULL: no bottoms.
 */
static inline void rig_make_of(rig *r, crema_dtype dtype, const char *type, const char *body,
                               Caffe__Phase phase, const char *shapes, int tops) {
  char text[2048];
  ProtobufCMessage *message = NULL;
  crema_device *device = cr_cpu_device();
  memset(r, 0, sizeof *r);
  while (shapes != NULL && *shapes != '\0') {
    crema_shape shape;
    shapes = rig_read_shape(shapes, &shape);
    ok(crema_blob_create_typed(&shape, dtype, dtype, &r->bottom[r->bottoms++]));
  }
  int used = snprintf(text, sizeof text, "name: \"op\" type: \"%s\" %s", type, body);
  for (int i = 0; i < r->bottoms; ++i) {
    used += snprintf(text + used, sizeof text - (size_t)used, " bottom: \"b%d\"", i);
  }
  for (int i = 0; i < tops; ++i) {
    used += snprintf(text + used, sizeof text - (size_t)used, " top: \"t%d\"", i);
    const crema_shape none = {0};
    ok(crema_blob_create_typed(&none, dtype, dtype, &r->top[i]));
  }
  r->tops = tops;
  ok(cr_text_parse(&caffe__layer_parameter__descriptor, text, strlen(text), type, CR_UNKNOWN_ERROR,
                   &message));
  r->param = (Caffe__LayerParameter *)message;
  ok(crema_context_create(device, 1701, &r->context));
  ok(cr_layer_create(r->param, phase, r->context, 7, NULL, &r->layer));
  r->layer->types = (cr_layer_types){dtype, dtype, dtype, dtype};
  for (int i = 0; i < RIG_MAX; ++i) {
    r->propagate_down[i] = i < 32 && !(r->layer->kind->no_gradient_bottoms >> i & 1u);
  }
}

static inline void rig_make(rig *r, const char *type, const char *body, Caffe__Phase phase,
                            const char *shapes, int tops) {
  rig_make_of(r, CREMA_F32, type, body, phase, shapes, tops);
}

/* Makes bottom 0 the first top as well. */
static inline void rig_set_in_place(rig *r) {
  crema_blob_destroy(r->top[0]);
  r->top[0] = r->bottom[0];
  r->in_place = true;
}

static inline crema_status rig_setup(rig *r) {
  CR_TRY(cr_layer_check_in_place(r->layer, r->bottom, r->top));
  CR_TRY(r->layer->kind->setup(r->layer, r->bottom, r->top));
  return r->layer->kind->reshape(r->layer, r->bottom, r->top);
}

static inline crema_status rig_forward(rig *r) {
  return r->layer->kind->forward(r->layer, r->context, r->bottom, r->top);
}

static inline crema_status rig_backward(rig *r) {
  return r->layer->kind->backward(r->layer, r->context, r->top, r->propagate_down, r->bottom);
}

static inline void rig_free(rig *r) {
  cr_layer_destroy(r->layer);
  for (int i = r->in_place ? 1 : 0; i < r->tops; ++i) crema_blob_destroy(r->top[i]);
  for (int i = 0; i < r->bottoms; ++i) crema_blob_destroy(r->bottom[i]);
  crema_context_destroy(r->context);
  cr_message_free((ProtobufCMessage *)r->param);
}

static inline float *rig_data(crema_blob *blob) {
  float *out = NULL;
  ok(crema_blob_mutable_cpu_data(blob, &out));
  return out;
}

static inline float *rig_diff(crema_blob *blob) {
  float *out = NULL;
  ok(crema_blob_mutable_cpu_diff(blob, &out));
  return out;
}

/* Values of float32 or double on the host. */
typedef struct rig_values {
  crema_dtype type;
  void *at;
  int64_t count;
} rig_values;

static inline rig_values rig_data_of(crema_blob *blob) {
  rig_values v = {crema_blob_data_type(blob), NULL, crema_blob_count(blob)};
  ok(crema_blob_mutable_data_as(blob, v.type, &v.at));
  return v;
}

static inline rig_values rig_diff_of(crema_blob *blob) {
  rig_values v = {crema_blob_diff_type(blob), NULL, crema_blob_count(blob)};
  ok(crema_blob_mutable_diff_as(blob, v.type, &v.at));
  return v;
}

static inline double rig_get(rig_values v, int64_t i) {
  return v.type == CREMA_F64 ? ((const double *)v.at)[i] : (double)((const float *)v.at)[i];
}

static inline void rig_set(rig_values v, int64_t i, double value) {
  if (v.type == CREMA_F64) ((double *)v.at)[i] = value;
  else ((float *)v.at)[i] = (float)value;
}

/* A small generator of its own, so that test data do not depend on what is tested. */
static inline uint32_t rig_random(uint32_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

/* Distinct values in random order, evenly spaced in (low, high): no ties, no value at 0 when the
 * range is symmetric. */
static inline void rig_fill(float *value, int64_t count, float low, float high, uint32_t *state) {
  for (int64_t i = 0; i < count; ++i) {
    value[i] = low + (high - low) * ((float)i + 0.5f) / (float)count;
  }
  for (int64_t i = count - 1; i > 0; --i) {
    int64_t k = (int64_t)(rig_random(state) % (uint32_t)(i + 1));
    float held = value[i];
    value[i] = value[k];
    value[k] = held;
  }
}

#endif
