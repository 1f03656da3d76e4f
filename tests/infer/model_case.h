/* What the tests of compiled models share: a net with weights, and its comparison with a model. */
#ifndef CR_TESTS_MODEL_CASE_H
#define CR_TESTS_MODEL_CASE_H

#include <math.h>
#include <unistd.h>

#include "crema/model.h"
#include "folder.h"
#include "net/net_case.h"

/* Between -1 and 1. */
static inline float draw_value(uint64_t *random) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return (float)((int64_t)(*random >> 33) % 2001 - 1000) / 1000;
}

static inline void draw_values(crema_blob *blob, uint64_t *random) {
  float *data = NULL;
  ok(crema_blob_mutable_cpu_data(blob, &data));
  for (int64_t i = 0; i < crema_blob_count(blob); ++i) data[i] = draw_value(random);
}

/* Running statistics, of no weight at times, and values of Parameter layers. Where eps is small, no
 * weight means a factor of hundreds, and activations that cut off make much of roundings. */
static inline void draw_statistics(crema_net *net, uint64_t *random) {
  for (int i = 0; i < net->layers; ++i) {
    cr_layer *layer = net->layer[i].layer;
    if (strcmp(layer->kind->type, "Parameter") == 0) draw_values(layer->blob[0], random);
    if (strcmp(layer->kind->type, "BatchNorm") != 0) continue;
    float *mean = NULL, *variance = NULL, *weight = NULL;
    ok(crema_blob_mutable_cpu_data(layer->blob[0], &mean));
    ok(crema_blob_mutable_cpu_data(layer->blob[1], &variance));
    ok(crema_blob_mutable_cpu_data(layer->blob[2], &weight));
    const Caffe__BatchNormParameter *param = layer->param->batch_norm_param;
    const bool none = draw_value(random) > 0.8f && param != NULL && param->eps > 0.01f;
    weight[0] = none ? 0 : 1.5f + draw_value(random);
    for (int64_t c = 0; c < crema_blob_count(layer->blob[0]); ++c) {
      mean[c] = 0.4f * weight[0] * draw_value(random);
      variance[c] = weight[0] * (0.7f + 0.5f * draw_value(random));
    }
  }
}

/* All other parameters, so that values keep their size from layer to layer. */
static inline void draw_weights(crema_net *net, uint64_t *random) {
  for (int p = 0; p < net->learnables; ++p) {
    crema_blob *blob = net->learnable[p];
    const crema_shape *shape = crema_blob_shape(blob);
    const int64_t count = crema_blob_count(blob);
    const int64_t fan = shape->axes > 1 && shape->dim[0] > 0 ? count / shape->dim[0] : 4;
    float *data = NULL;
    draw_values(blob, random);
    ok(crema_blob_mutable_cpu_data(blob, &data));
    for (int64_t i = 0; i < count; ++i) data[i] *= sqrtf(3.0f / (float)fan);
  }
}

static inline void draw_inputs(crema_net *net, uint64_t *random) {
  for (int i = 0; i < crema_net_input_count(net); ++i) draw_values(crema_net_input(net, i), random);
}

/* The largest difference, relative to the largest value; infinite where the shapes differ. */
static inline double difference(crema_blob *a, crema_blob *b) {
  const float *x = NULL, *y = NULL;
  double largest = 1e-30, worst = 0;
  if (!crema_shape_equal(crema_blob_shape(a), crema_blob_shape(b))) return INFINITY;
  ok(crema_blob_cpu_data(a, &x));
  ok(crema_blob_cpu_data(b, &y));
  for (int64_t i = 0; i < crema_blob_count(a); ++i) {
    const double error = fabs((double)x[i] - (double)y[i]);
    if (isfinite(x[i]) && fabs((double)x[i]) > largest) largest = fabs((double)x[i]);
    if (x[i] == y[i] || (isnan(x[i]) && isnan(y[i]))) continue;
    if (!isfinite(error)) return INFINITY;
    if (error > worst) worst = error;
  }
  return worst / largest;
}

/* The inputs of `net`, in shape and values. */
static inline void copy_inputs(crema_net *net, crema_session *session) {
  assert_int_equal(crema_session_input_count(session), crema_net_input_count(net));
  for (int i = 0; i < crema_net_input_count(net); ++i) {
    crema_blob *from = crema_net_input(net, i), *to = crema_session_input(session, i);
    assert_string_equal(crema_session_input_name(session, i), crema_net_input_name(net, i));
    ok(crema_blob_reshape(to, crema_blob_shape(from)));
    ok(crema_blob_copy_data(to, from));
  }
}

/* The largest difference of an output after a run with the net's inputs, which has run. */
static inline double output_difference(crema_net *net, crema_session *session) {
  double worst = 0;
  copy_inputs(net, session);
  ok(crema_session_run(session));
  assert_int_equal(crema_session_output_count(session), crema_net_output_count(net));
  for (int i = 0; i < crema_net_output_count(net); ++i) {
    assert_string_equal(crema_session_output_name(session, i), crema_net_output_name(net, i));
    worst = fmax(worst, difference(crema_net_output(net, i), crema_session_output(session, i)));
  }
  return worst;
}

#endif
