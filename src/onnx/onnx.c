/* The public functions. */
#include "crema/onnx.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/fail.h"
#include "core/rng.h"
#include "net/net.h"
#include "onnx/export/export.h"
#include "onnx/import/import.h"
#include "proto/field.h"

void crema_onnx_options_init(crema_onnx_options *options) {
  if (options != NULL) *options = (crema_onnx_options){.opset = CR_ONNX_OPSET};
}

crema_status crema_onnx_export(crema_net *net, const crema_onnx_options *options,
                               const char *path) {
  CR_REQUIRE(net);
  CR_REQUIRE(path);
  crema_onnx_options standard;
  crema_onnx_options_init(&standard);
  if (options == NULL) options = &standard;
  return cr_onnx_export(net, options->opset, options->any_batch, path);
}

crema_status crema_onnx_import(const char *path, const char *net_path, const char *weights_path) {
  CR_REQUIRE(path);
  CR_REQUIRE(net_path);
  CR_REQUIRE(weights_path);
  Caffe__NetParameter *net = NULL;
  CR_TRY(cr_onnx_import(path, &net));
  crema_status status = cr_message_write_binary(&net->base, weights_path);
  for (size_t i = 0; i < net->n_layer; ++i) cr_message_clear(&net->layer[i]->base, "blobs");
  if (status == CREMA_OK) status = cr_message_write_text(&net->base, net_path);
  cr_message_free(&net->base);
  return status;
}

/* ---- comparing ----------------------------------------------------------------- */

/* Gives an input of both nets the same numbers between -1 and 1. */
static crema_status fill_input(crema_net *net, crema_net *other, int index) {
  const char *name = crema_net_input_name(other, index);
  crema_blob *to = crema_net_input(other, index), *from = NULL;
  float *a, *b;
  CR_TRY(crema_net_blob(net, name, &from));
  CR_TRY(crema_blob_reshape(to, crema_blob_shape(from)));
  CR_TRY(crema_blob_mutable_cpu_data(from, &a));
  CR_TRY(crema_blob_mutable_cpu_data(to, &b));
  const int64_t count = crema_blob_count(from);
  const uint64_t key = cr_hash_text(name);
  for (int64_t i = 0; i < count; ++i) {
    uint32_t word[4];
    cr_philox(key, 0, (uint64_t)i, word);
    a[i] = b[i] = (float)((double)word[0] / 2147483648.0 - 1);
  }
  return CREMA_OK;
}

/* The largest difference of two blobs over the largest value of the first. */
static crema_status compare_blobs(crema_blob *a, crema_blob *b, double *out) {
  const float *x, *y;
  double difference = 0, largest = 0;
  if (!crema_shape_equal(crema_blob_shape(a), crema_blob_shape(b))) {
    return cr_fail(CREMA_E_SHAPE, "an output has another shape in the ONNX file");
  }
  CR_TRY(crema_blob_cpu_data(a, &x));
  CR_TRY(crema_blob_cpu_data(b, &y));
  const int64_t count = crema_blob_count(a);
  for (int64_t i = 0; i < count; ++i) {
    if (isnan(x[i]) && isnan(y[i])) continue;
    if (isnan(x[i]) || isnan(y[i])) difference = INFINITY;
    difference = fmax(difference, fabs((double)x[i] - (double)y[i]));
    largest = fmax(largest, fabs((double)x[i]));
  }
  *out = largest > 0 ? difference / largest : difference;
  return CREMA_OK;
}

static crema_status compare_outputs(crema_net *net, crema_net *other, crema_onnx_comparison *out) {
  int common = 0;
  for (int i = 0; i < crema_net_output_count(other); ++i) {
    const char *name = crema_net_output_name(other, i);
    crema_blob *blob;
    double difference = 0;
    if (crema_net_blob(net, name, &blob) != CREMA_OK) continue;
    crema_status status = compare_blobs(blob, crema_net_output(other, i), &difference);
    CR_TRY(cr_fail_in(status, "output '%s'", name));
    ++common;
    if (difference <= out->difference) continue;
    out->difference = difference;
    snprintf(out->output, sizeof out->output, "%s", name);
  }
  if (common > 0) return CREMA_OK;
  return cr_fail(CREMA_E_UNKNOWN_NAME, "the net and the ONNX file have no output in common");
}

static crema_status read_file(const char *path, Caffe__NetParameter **param,
                              crema_onnx_comparison *out) {
  cr_buffer restored = {0};
  crema_status status = cr_onnx_import_listing(path, param, &restored);
  if (restored.size >= sizeof out->restored) {
    snprintf(out->restored, sizeof out->restored, "%.*s...", (int)sizeof out->restored - 4,
             restored.data);
  } else if (restored.size > 0) {
    snprintf(out->restored, sizeof out->restored, "%s", restored.data);
  }
  cr_buffer_free(&restored);
  return status;
}

crema_status crema_onnx_compare(crema_net *net, const char *path, crema_onnx_comparison *out) {
  CR_REQUIRE(net);
  CR_REQUIRE(path);
  CR_REQUIRE(out);
  crema_net *other = NULL;
  crema_net_options options;
  Caffe__NetParameter *param = NULL;
  *out = (crema_onnx_comparison){0};
  crema_net_options_init(&options);
  CR_TRY(read_file(path, &param, out));
  crema_status status =
      cr_net_create(param, &options, &(cr_net_build_options){.path = path}, &other);
  for (int i = 0; i < crema_net_input_count(other) && status == CREMA_OK; ++i) {
    status = fill_input(net, other, i);
  }
  if (status == CREMA_OK) status = crema_net_forward(net, NULL);
  if (status == CREMA_OK) status = crema_net_forward(other, NULL);
  if (status == CREMA_OK) status = compare_outputs(net, other, out);
  crema_net_destroy(other);
  return status;
}
