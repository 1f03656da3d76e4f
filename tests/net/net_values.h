/* Nets from text in tests: what their blobs hold, and where their input is. */
#ifndef CR_TESTS_NET_NET_VALUES_H
#define CR_TESTS_NET_NET_VALUES_H

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "core/buffer.h"
#include "data/pipeline/pipeline.h"
#include "layers/common/input_class.h"
#include "net/net.h"
#include "net/weights/weights.h"

static inline crema_net_options net_options(crema_phase phase, int64_t seed, crema_device *device) {
  crema_net_options options;
  crema_net_options_init(&options);
  options.phase = phase;
  options.seed = seed;
  options.device = device;
  return options;
}

/* Makes the net of a printf-like text. `solver`: NULL, or for which of several solvers. */
__attribute__((format(printf, 4, 5))) static inline crema_status parse_net(
    const crema_net_options *options, const cr_solver_rank *solver, crema_net **out,
    const char *format, ...) {
  char text[4096];
  ProtobufCMessage *message = NULL;
  va_list list;
  va_start(list, format);
  int size = vsnprintf(text, sizeof text, format, list);
  va_end(list);
  assert_in_range(size, 1, sizeof text - 1);
  if (solver == NULL) return crema_net_parse(text, (size_t)size, "test.prototxt", options, out);
  ok(cr_text_parse(&caffe__net_parameter__descriptor, text, (size_t)size, "test.prototxt",
                   CR_UNKNOWN_ERROR, &message));
  return cr_net_create((Caffe__NetParameter *)message, options,
                       &(cr_net_build_options){.solver = solver}, out);
}

static inline cr_layer *layer_of(crema_net *net, const char *name) {
  int index = cr_net_find_layer(net, name);
  assert_true(index >= 0);
  return net->layer[index].layer;
}

static inline crema_blob *blob_of(crema_net *net, const char *name) {
  crema_blob *blob = NULL;
  ok(crema_net_blob(net, name, &blob));
  return blob;
}

static inline const float *data_of(crema_blob *blob) {
  const float *data = NULL;
  ok(crema_blob_cpu_data(blob, &data));
  return data;
}

static inline const float *values(crema_net *net, const char *name) {
  return data_of(blob_of(net, name));
}

static inline void forward(crema_net *net) {
  ok(crema_net_forward(net, NULL));
}

/* The blob has the same shape and the same values in both nets. */
static inline void expect_same(crema_net *a, crema_net *b, const char *name) {
  assert_true(
      crema_shape_equal(crema_blob_shape(blob_of(a, name)), crema_blob_shape(blob_of(b, name))));
  assert_memory_equal(values(a, name), values(b, name),
                      (size_t)crema_blob_count(blob_of(a, name)) * sizeof(float));
}

/* ---- nets whose first layer reads data ---- */

/* A type of layer that reads a source into "data" and "label"; the text of its parameters begins
 * with `begin`. */
typedef struct input_type {
  const char *name, *begin;
  crema_phase phase;
} input_type;

/* Makes a net of one such layer. `param` goes into the parameters, `rest` into the layer. */
static inline crema_status parse_input(const input_type *type, const char *source,
                                       const char *param, const char *rest, int64_t seed,
                                       crema_net **out) {
  const crema_net_options options = net_options(type->phase, seed, NULL);
  return parse_net(&options, NULL, out,
                   "name: 'n' layer { name: 'in' type: '%s' top: 'data' top: 'label' %s "
                   "%s source: '%s' %s } }",
                   type->name, rest, type->begin, source, param);
}

/* The same data and labels come from both nets, `batches` times. */
static inline void expect_same_batches(crema_net *a, crema_net *b, int batches) {
  for (int k = 0; k < batches; ++k) {
    forward(a);
    forward(b);
    expect_same(a, b, "data");
    expect_same(a, b, "label");
  }
}

/* The position of the input, in place of what `out` held. */
static inline void save_input(crema_net *net, cr_buffer *out) {
  cr_layer *layer = net->layer[0].layer;
  cr_buffer_clear(out);
  ok(layer->kind->input->save(layer, out));
}

static inline crema_status restore_input(crema_net *net, const char *bytes, size_t size) {
  cr_layer *layer = net->layer[0].layer;
  return layer->kind->input->restore(layer, bytes, size);
}

/* `to` goes on where `from` is. */
static inline void resume_input(crema_net *from, crema_net *to) {
  cr_buffer saved = {0};
  save_input(from, &saved);
  ok(restore_input(to, saved.data, saved.size));
  cr_buffer_free(&saved);
}

/* `to` refuses a damaged position, then goes on where `from` is: its text has `part`, and `batches`
 * of the same follow. Destroys both. */
static inline void check_resumed(crema_net *from, crema_net *to, const char *part, int batches) {
  cr_buffer saved = {0};
  save_input(from, &saved);
  assert_non_null(strstr(saved.data, part));
  assert_int_equal(restore_input(to, "nonsense", 8), CREMA_E_CORRUPT);
  assert_int_equal(restore_input(to, "draws 1", 7), CREMA_E_CORRUPT);
  ok(restore_input(to, saved.data, saved.size));
  expect_same_batches(from, to, batches);
  cr_buffer_free(&saved);
  crema_net_destroy(to);
  crema_net_destroy(from);
}

static inline cr_input_stats input_stats(const crema_net *net) {
  cr_input_stats stats = {0};
  const cr_layer *layer = net->layer[0].layer;
  layer->kind->input->stats(layer, &stats);
  return stats;
}

#endif
