#include "net/epoch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "layers/common/input_class.h"
#include "net/lifetimes.h"

/* Whether a layer reads samples from somewhere, one after the other. */
static bool reads_samples(const cr_layer *layer) {
  const cr_input_class *input = layer->kind->input;
  return input != NULL && !input->net_input && input->save != NULL;
}

static crema_status count_samples(const cr_layer *layer, bool count, uint64_t *out) {
  const cr_input_class *input = layer->kind->input;
  *out = input->epoch == NULL ? 0 : input->epoch(layer);
  if (*out > 0 || !count || input->count_epoch == NULL) return CREMA_OK;
  return input->count_epoch(layer, out);
}

/* Notes why there is no epoch. */
static crema_status give_reason(cr_net_epoch *out, const cr_layer *layer, const char *text) {
  out->samples = 0;
  snprintf(out->reason, sizeof out->reason, "layer '%.100s' (%.40s) %s", layer->name,
           layer->kind->type, text);
  return CREMA_OK;
}

crema_status cr_net_find_epoch(const crema_net *net, bool count, cr_net_epoch *out) {
  *out = (cr_net_epoch){.reason = "no layer reads samples from files"};
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    uint64_t samples = 0;
    if (!reads_samples(layer)) continue;
    const crema_shape *shape = crema_blob_shape(net->layer[i].top[0]);
    const int64_t batch = shape->axes > 0 ? shape->dim[0] : 0;
    CR_TRY(count_samples(layer, count, &samples));
    if (samples == 0 || samples > INT64_MAX || batch < 1) {
      return give_reason(out, layer, "has no known end of its data");
    }
    if (!layer->kind->input->short_batches && samples % (uint64_t)batch != 0) {
      return give_reason(out, layer, "cannot give a shorter last batch");
    }
    if (out->samples > 0 && (out->samples != (int64_t)samples || out->batch != batch)) {
      return give_reason(out, layer, "has another number of samples than an earlier layer");
    }
    out->samples = (int64_t)samples;
    out->batch = batch;
  }
  if (out->samples > 0) out->batches = (out->samples - 1) / out->batch + 1;
  return CREMA_OK;
}

void cr_net_take_samples(crema_net *net, int64_t samples) {
  for (int i = 0; i < net->layers; ++i) net->layer[i].layer->take = samples;
}

int64_t cr_net_epoch_take(const cr_net_epoch *epoch, int64_t index) {
  const int64_t left = epoch->samples - index * epoch->batch;
  return left < epoch->batch ? left : epoch->batch;
}

/* Each position is its size as a number and its bytes. */
crema_status cr_net_save_inputs(const crema_net *net, cr_buffer *out) {
  for (int i = 0; i < net->layers; ++i) {
    cr_layer *layer = net->layer[i].layer;
    if (!reads_samples(layer)) continue;
    const size_t at = out->size;
    uint64_t size = 0;
    CR_TRY(cr_buffer_append(out, &size, sizeof size));
    CR_TRY(layer->kind->input->save(layer, out));
    size = out->size - at - sizeof size;
    memcpy(out->data + at, &size, sizeof size);
  }
  return CREMA_OK;
}

crema_status cr_net_restore_inputs(const crema_net *net, const cr_buffer *saved) {
  size_t at = 0;
  for (int i = 0; i < net->layers; ++i) {
    cr_layer *layer = net->layer[i].layer;
    uint64_t size = 0;
    if (!reads_samples(layer)) continue;
    memcpy(&size, saved->data + at, sizeof size);
    at += sizeof size;
    CR_TRY(layer->kind->input->restore(layer, saved->data + at, (size_t)size));
    at += (size_t)size;
  }
  return CREMA_OK;
}

bool cr_net_describe_test(const cr_net_epoch *epoch, int64_t batches, char *text, size_t size) {
  int64_t scored = 0;
  if (epoch->samples == 0 || __builtin_mul_overflow(batches, epoch->batch, &scored)) return false;
  if (scored % epoch->samples == 0) return false;
  if (scored < epoch->samples) {
    snprintf(text, size,
             "a test of %" PRId64 " batches scores %" PRId64 " of %" PRId64
             " samples and omits %" PRId64,
             batches, scored, epoch->samples, epoch->samples - scored);
  } else {
    snprintf(text, size,
             "a test of %" PRId64 " batches scores %" PRId64 " samples, but the data has %" PRId64
             ": some count more often than others",
             batches, scored, epoch->samples);
  }
  return true;
}

/* The layer that makes an output last, and which of its tops it is. */
static const cr_net_layer *maker_of(const crema_net *net, int blob, int *top) {
  for (int i = net->layers - 1; i >= 0; --i) {
    const cr_net_layer *layer = &net->layer[i];
    for (*top = 0; *top < layer->layer->tops; ++*top) {
      if (layer->top_id[*top] == blob) return layer;
    }
  }
  return NULL;
}

crema_status cr_net_means_begin(crema_net *net, cr_net_means *means) {
  CR_TRY(CR_NEW(means->first, net->outputs + 1, "scores"));
  for (int i = 0; i < net->outputs; ++i) {
    means->first[i] = means->count;
    means->count += crema_blob_count(crema_net_output(net, i));
    int top = 0;
    const cr_net_layer *maker = maker_of(net, net->output[i], &top);
    if (maker == NULL || maker->layer->kind->graph.weigh == NULL) continue;
    for (int j = 0; j < maker->layer->bottoms; ++j) cr_net_keep_blob(net, maker->bottom_id[j]);
  }
  means->first[net->outputs] = means->count;
  return CR_NEW(means->sum, 2 * (means->count + 1), "scores");
}

/* Sets the weights of `count` values of an output. */
static crema_status weigh(const crema_net *net, int output, int64_t samples, int64_t count,
                          double *weight) {
  int top = 0;
  const cr_net_layer *maker = maker_of(net, net->output[output], &top);
  for (int64_t k = 0; k < count; ++k) weight[k] = samples > 0 ? (double)samples : 1;
  if (maker == NULL || maker->layer->kind->graph.weigh == NULL || (samples == 0 && count == 1)) {
    return CREMA_OK;
  }
  return maker->layer->kind->graph.weigh(maker->layer, maker->bottom, top, weight);
}

crema_status cr_net_means_add(crema_net *net, double loss, int64_t samples, cr_net_means *means) {
  const int64_t all = means->count + 1;
  crema_status status = CREMA_OK;
  double *weight = NULL;
  CR_TRY(CR_NEW(weight, all, "scores"));
  for (int i = 0; i < net->outputs && status == CREMA_OK; ++i) {
    crema_blob *blob = crema_net_output(net, i);
    const int64_t room = means->first[i + 1] - means->first[i];
    const int64_t count = crema_blob_count(blob) < room ? crema_blob_count(blob) : room;
    const float *value = NULL;
    status = crema_blob_cpu_data(blob, &value);
    if (status == CREMA_OK) status = weigh(net, i, samples, count, weight);
    for (int64_t k = 0; k < count && status == CREMA_OK; ++k) {
      if (weight[k] == 0) continue;
      means->sum[means->first[i] + k] += weight[k] * (double)value[k];
      means->sum[all + means->first[i] + k] += weight[k];
    }
  }
  const double share = samples > 0 ? (double)samples : 1;
  means->sum[means->count] += share * loss;
  means->sum[all + means->count] += share;
  free(weight);
  return status;
}

int cr_net_means_size(const cr_net_means *means) {
  return means->sum == NULL ? 0 : (int)(2 * (means->count + 1));
}

double cr_net_means_value(const cr_net_means *means, int64_t index) {
  const double weight = means->sum[means->count + 1 + index];
  return weight > 0 ? means->sum[index] / weight : 0;
}

void cr_net_means_free(cr_net_means *means) {
  free(means->sum);
  free(means->first);
  *means = (cr_net_means){0};
}
