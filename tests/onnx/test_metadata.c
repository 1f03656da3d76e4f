/* Layers of several nodes come back from the metadata of an exported file, if their nodes are in
 * the file unchanged. */
#include "check.h"
#include "folder.h"
#include "net/net.h"
#include "onnx/export/export.h"
#include "onnx/format/group.h"
#include "onnx/import/import.h"
#include "proto/field.h"

#define WARPED "the_map_moved_along_the_flow"

static const char warp_net[] =
    "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 4 dim: 5 } "
    "} }"
    "layer { name: 'f' type: 'Input' top: 'f' input_param { shape { dim: 2 dim: 2 dim: 4 dim: 5 } "
    "} }"
    "layer { name: 'w' type: 'FlowWarp' bottom: 'x' bottom: 'f' top: '" WARPED
    "' }"
    "layer { name: 'r' type: 'ReLU' bottom: '" WARPED "' top: 'y' }";

/* Its constants fill several pages of the file. */
static const char large_net[] =
    "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 1 dim: 64 dim: 64 "
    "} "
    "} }"
    "layer { name: 'f' type: 'Input' top: 'f' input_param { shape { dim: 1 dim: 2 dim: 64 dim: 64 "
    "} "
    "} }"
    "layer { name: 'w' type: 'FlowWarp' bottom: 'x' bottom: 'f' top: 'y' }";

static const char lstm_net[] =
    "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 3 dim: 2 dim: 4 } } }"
    "layer { name: 'c' type: 'Input' top: 'c' input_param { shape { dim: 3 dim: 2 } } }"
    "layer { name: 'l' type: 'LSTM' bottom: 'x' bottom: 'c' top: 'y' recurrent_param { num_output: "
    "2 "
    "weight_filler { type: 'xavier' } } }";

static void export_net(const char *text, bool any_batch) {
  crema_net *net = NULL;
  write_text("n.prototxt", text);
  ok(crema_net_load(path_of("n.prototxt"), NULL, &net));
  ok(cr_onnx_export(net, CR_ONNX_OPSET, any_batch, path_of("m.onnx")));
  crema_net_destroy(net);
}

/* The names of the layers that an import of the file takes from its metadata. */
static void check_restored(const char *names) {
  Caffe__NetParameter *net = NULL;
  cr_buffer restored = {0};
  const crema_status status = cr_onnx_import_listing(path_of("m.onnx"), &net, &restored);
  assert_true(status == CREMA_OK || status == CREMA_E_UNSUPPORTED);
  assert_string_equal(restored.size == 0 ? "" : restored.data, names);
  cr_buffer_free(&restored);
  if (net != NULL) cr_message_free(&net->base);
}

/* Changes the exported file. */
typedef void change(Onnx__ModelProto *model);

static void change_file(change *apply) {
  cr_onnx_model model;
  ok(cr_onnx_model_open(path_of("m.onnx"), &model));
  apply(model.proto);
  ok(cr_message_write_binary(&model.proto->base, path_of("m.onnx")));
  cr_onnx_model_close(&model);
}

static Onnx__NodeProto *node_of(Onnx__ModelProto *model, const char *op) {
  for (size_t i = 0; i < model->graph->n_node; ++i) {
    if (strcmp(model->graph->node[i]->op_type, op) == 0) return model->graph->node[i];
  }
  fail_msg("no node %s", op);
  return NULL;
}

/* Overwrites a part of the entry with a text of the same length. */
static void edit_entry(Onnx__ModelProto *model, const char *from, const char *to) {
  char *at = strstr(model->metadata_props[0]->value, from);
  assert_non_null(at);
  assert_int_equal(strlen(from), strlen(to));
  memcpy(at, to, strlen(to));
}

TEST(test_restored) {
  export_net(warp_net, false);
  check_restored("w");
  export_net(warp_net, true);
  check_restored("w");
  export_net(large_net, false);
  check_restored("w");
  export_net(lstm_net, false);
  check_restored("l");
}

static void change_operator(Onnx__ModelProto *model) {
  memcpy(node_of(model, "Floor")->op_type, "Round", 5);
}

static void change_attribute(Onnx__ModelProto *model) {
  node_of(model, "Cast")->attribute[0]->i += 1;
}

static void change_value(Onnx__ModelProto *model) {
  node_of(model, "Sub")->input[0][0] ^= 1;
}

static void change_constant(Onnx__ModelProto *model) {
  Onnx__TensorProto *tensor = model->graph->initializer[0];
  tensor->raw_data.data[0] ^= 1;
}

static void change_count(Onnx__ModelProto *model) {
  char *digit = model->metadata_props[0]->value + strlen("nodes ");
  *digit = *digit == '1' ? '2' : '1';
}

static void change_hash(Onnx__ModelProto *model) {
  char *digit = strchr(model->metadata_props[0]->value + strlen("nodes "), ' ') + 1;
  *digit = *digit == '0' ? '1' : '0';
}

static void change_type(Onnx__ModelProto *model) {
  edit_entry(model, "\"FlowWarp\"", "\"HDF5Data\"");
}

static void change_field(Onnx__ModelProto *model) {
  edit_entry(model, "bottom", "battam");
}

static void change_shape(Onnx__ModelProto *model) {
  edit_entry(model, "input 2 3 4 5", "input 2 3 5 4");
}

static void change_top(Onnx__ModelProto *model) {
  edit_entry(model, "top: \"the", "top: \"THE");
}

static void change_line(Onnx__ModelProto *model) {
  edit_entry(model, "output", "autput");
}

static void cut_entry(Onnx__ModelProto *model) {
  model->metadata_props[0]->value[3] = '\0';
}
/* A node outside the group reads a value between the nodes of the group. */
static void use_inner_value(Onnx__ModelProto *model) {
  Onnx__NodeProto *relu = node_of(model, "Relu");
  const char *inner = node_of(model, "Floor")->output[0];
  assert_true(strlen(inner) < strlen(relu->input[0]));
  memcpy(relu->input[0], inner, strlen(inner) + 1);
}

TEST(test_tampered) {
  static change *const changes[] = {
      change_operator, change_attribute, change_value,   change_constant, change_count,
      change_hash,     change_type,      change_field,   change_shape,    change_top,
      change_line,     cut_entry,        use_inner_value};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; ++i) {
    export_net(warp_net, false);
    change_file(changes[i]);
    Caffe__NetParameter *net = NULL;
    cr_buffer restored = {0};
    assert_int_not_equal(cr_onnx_import_listing(path_of("m.onnx"), &net, &restored),
                         CREMA_E_INTERNAL);
    if (restored.size > 0) fail_msg("change %zu goes unnoticed", i);
    cr_buffer_free(&restored);
    if (net != NULL) cr_message_free(&net->base);
  }
}

static void change_weights(Onnx__ModelProto *model) {
  for (size_t i = 0; i < model->graph->n_initializer; ++i) {
    Onnx__TensorProto *tensor = model->graph->initializer[i];
    const float value = 0.25f;
    if (strcmp(tensor->name, "l/bias") == 0) memcpy(tensor->raw_data.data, &value, sizeof value);
  }
}

/* Parameters are the file's: they take no part in the hash. */
TEST(test_parameters) {
  Caffe__NetParameter *net = NULL;
  export_net(lstm_net, false);
  change_file(change_weights);
  ok(cr_onnx_import(path_of("m.onnx"), &net));
  const Caffe__LayerParameter *layer = net->layer[net->n_layer - 1];
  assert_string_equal(layer->type, "LSTM");
  assert_int_equal(layer->n_blobs, 3);
  assert_float_equal(layer->blobs[1]->data[0], 0.25f, 0);
  assert_int_equal(layer->blobs[1]->shape->n_dim, 1);
  cr_message_free(&net->base);
}

static const char found_net[] =
    "layer { name: 'l' type: 'Input' top: 'l' input_param { shape { dim: 1 dim: 8 } } }"
    "layer { name: 'c' type: 'Input' top: 'c' input_param { shape { dim: 1 dim: 6 } } }"
    "layer { name: 'p' type: 'Input' top: 'p' input_param { shape { dim: 1 dim: 2 dim: 8 } } }"
    "layer { name: 'd' type: 'DetectionOutput' bottom: 'l' bottom: 'c' bottom: 'p' top: 'y' "
    "detection_output_param { num_classes: 3 confidence_threshold: 0.5 } }";

static void add_files(Onnx__ModelProto *model) {
  edit_entry(model, "confidence_threshold: 0.5", "save_output_param {     }");
}

/* A file cannot make the net write files. */
TEST(test_no_files) {
  Caffe__NetParameter *net = NULL;
  export_net(found_net, false);
  change_file(add_files);
  ok(cr_onnx_import(path_of("m.onnx"), &net));
  const Caffe__LayerParameter *layer = net->layer[net->n_layer - 1];
  assert_string_equal(layer->type, "DetectionOutput");
  assert_null(layer->detection_output_param->save_output_param);
  cr_message_free(&net->base);
}

static int remove_all(void **state) {
  unlink(path_of("m.onnx"));
  unlink(path_of("n.prototxt"));
  return remove_folder(state);
}

int main(void) {
  return run_all_tests(make_folder, remove_all);
}
