/* Export of nets: the written file, imported, gives the same numbers in each operator set; names,
 * batches, layers of training; and the nets that cannot be exported. */
#include "crema/layer.h"
#include "onnx/model_text.h"

#define IN(dims) "layer { name: 'data' type: 'Input' top: 'x' input_param { shape { " dims " } } } "
#define LAYER(type, fields) "layer { name: 'op' type: '" type "' bottom: 'x' top: 'y' " fields " } "
#define FILLER "weight_filler { type: 'gaussian' std: 0.5 } bias_filler { type: 'gaussian' std: 1 }"
#define IMAGE IN("dim: 2 dim: 4 dim: 7 dim: 6")

static crema_net *make_net(const char *text, crema_phase phase) {
  crema_net_options options;
  crema_net *net = NULL;
  crema_net_options_init(&options);
  options.seed = 1;
  options.phase = phase;
  ok(crema_net_parse(text, strlen(text), "net", &options, &net));
  return net;
}

static void export_to(crema_net *net, int opset, bool any_batch) {
  crema_onnx_options options;
  crema_onnx_options_init(&options);
  options.opset = opset;
  options.any_batch = any_batch;
  ok(crema_onnx_export(net, &options, path_of("m.onnx")));
}

TEST(same_numbers) {
  static const char *const nets[] = {
      IMAGE LAYER("Convolution",
                  "convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 "
                  "group: 2 dilation: 2 " FILLER " }"),
      IMAGE LAYER("Deconvolution",
                  "convolution_param { num_output: 3 kernel_size: 3 pad: 1 stride: 2 " FILLER " }"),
      IMAGE LAYER("Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }"),
      IMAGE LAYER("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }"),
      IMAGE LAYER("Pooling", "pooling_param { pool: AVE global_pooling: true }"),
      IMAGE LAYER("InnerProduct", "inner_product_param { num_output: 5 " FILLER " }"),
      IMAGE LAYER("InnerProduct",
                  "inner_product_param { num_output: 5 axis: 3 transpose: true " FILLER " }"),
      IMAGE LAYER("LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.6 }"),
      IMAGE LAYER("LRN", "lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }"),
      IMAGE LAYER("Scale",
                  "scale_param { bias_term: true filler { type: 'gaussian' std: 1 } "
                  "bias_filler { type: 'gaussian' std: 1 } }"),
      IMAGE LAYER("ReLU", "relu_param { negative_slope: 0.1 }"),
      IMAGE LAYER("Sigmoid", ""),
      IMAGE LAYER("TanH", ""),
      IMAGE LAYER("Power", "power_param { power: 2 scale: 0.5 shift: 1 }"),
      IMAGE LAYER("Softmax", "softmax_param { axis: 1 }"),
      IMAGE LAYER("Softmax", "softmax_param { axis: -1 }"),
      IMAGE LAYER("MVN", "mvn_param { across_channels: true }"),
      IMAGE LAYER("Flatten", "flatten_param { axis: 2 }"),
      IMAGE LAYER("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 3 } }"),
      IMAGE LAYER("Reduction", "reduction_param { operation: SUMSQ axis: 2 coeff: 0.5 }"),
      IMAGE
      "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'y' pooling_param { pool: MAX "
      "kernel_size: 3 stride: 1 pad: 1 } } layer { name: 's' type: 'Eltwise' bottom: 'x' "
      "bottom: 'y' top: 'z' eltwise_param { operation: SUM coeff: 2 coeff: -1 } } "
      "layer { name: 'c' type: 'Concat' bottom: 'z' bottom: 'x' top: 'out' }",
      IMAGE
      "layer { name: 'p' type: 'Slice' bottom: 'x' top: 'a' top: 'b' slice_param { axis: 1 "
      "slice_point: 1 } } layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' }",
  };
  for (size_t i = 0; i < sizeof nets / sizeof *nets; ++i) {
    crema_net *net = make_net(nets[i], CREMA_TEST);
    for (int opset = 11; opset <= 21; ++opset) {
      crema_onnx_comparison result = {0};
      export_to(net, opset, false);
      ok(crema_onnx_compare(net, path_of("m.onnx"), &result));
      if (result.difference > 1e-6) {
        fail_msg("%s: operator set %d: %g", nets[i], opset, result.difference);
      }
    }
    crema_net_destroy(net);
  }
}

/* Blobs keep their names; the last value of a blob that layers change in place has its name. */
TEST(names) {
  crema_net *net = make_net(IMAGE
                            "layer { name: 'one' type: 'ReLU' bottom: 'x' top: 'y' } "
                            "layer { name: 'two' type: 'Sigmoid' bottom: 'y' top: 'y' } "
                            "layer { name: 'three' type: 'TanH' bottom: 'y' top: 'y' }",
                            CREMA_TEST);
  export_to(net, 13, false);
  cr_onnx_model model;
  ok(cr_onnx_model_open(path_of("m.onnx"), &model));
  const Onnx__GraphProto *graph = model.proto->graph;
  assert_int_equal(graph->n_node, 3);
  assert_string_equal(graph->node[0]->input[0], "x");
  assert_string_equal(graph->node[0]->output[0], "one/y");
  assert_string_equal(graph->node[1]->output[0], "two/y");
  assert_string_equal(graph->node[2]->output[0], "y");
  assert_int_equal(graph->n_input, 1);
  assert_string_equal(graph->input[0]->name, "x");
  assert_int_equal(graph->n_output, 1);
  assert_string_equal(graph->output[0]->name, "y");
  assert_string_equal(model.proto->producer_name, "crema");
  assert_int_equal(cr_onnx_model_opset(model.proto), 13);
  cr_onnx_model_close(&model);
  crema_net_destroy(net);
}

/* A symbolic batch is one name in inputs and outputs, and 1 for an import. */
TEST(batches) {
  crema_net *net = make_net(IMAGE LAYER("Flatten", ""), CREMA_TEST), *read = NULL;
  cr_onnx_model model;
  export_to(net, 13, true);
  ok(cr_onnx_model_open(path_of("m.onnx"), &model));
  const Onnx__TensorShapeProto *shape = model.proto->graph->input[0]->type->tensor_type->shape;
  assert_string_equal(shape->dim[0]->dim_param, "batch");
  assert_int_equal(shape->dim[1]->dim_value, 4);
  cr_onnx_model_close(&model);
  ok(crema_net_load(path_of("m.onnx"), NULL, &read));
  assert_int_equal(crema_blob_shape(crema_net_output(read, 0))->dim[0], 1);
  const crema_shape wider = {.axes = 4, .dim = {3, 4, 7, 6}};
  ok(crema_blob_reshape(crema_net_input(read, 0), &wider));
  ok(crema_net_reshape(read));
  ok(crema_net_forward(read, NULL));
  assert_int_equal(crema_blob_shape(crema_net_output(read, 0))->dim[0], 3);
  crema_net_destroy(read);
  crema_net_destroy(net);
}

/* Losses become their inference form, and Accuracy disappears. */
TEST(layers_of_training) {
  crema_net *net = make_net(
      IN("dim: 2 dim: 3") "layer { name: 'l' type: 'Input' top: 'label' input_param { shape { "
                          "dim: 2 } } } layer { name: 'drop' type: 'Dropout' bottom: 'x' top: 'x' } "
                          "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' "
                          "inner_product_param { num_output: 4 " FILLER " } } "
                          "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' "
                          "top: 'loss' top: 'prob' } "
                          "layer { name: 'accuracy' type: 'Accuracy' bottom: 'y' bottom: 'label' "
                          "top: 'accuracy' }",
      CREMA_TEST);
  crema_onnx_comparison result;
  export_to(net, 13, false);
  ok(crema_onnx_compare(net, path_of("m.onnx"), &result));
  assert_true(result.difference < 1e-6);
  crema_net *read = NULL;
  ok(crema_net_load(path_of("m.onnx"), NULL, &read));
  assert_string_equal(crema_net_output_name(read, 0), "prob");
  crema_net_destroy(read);
  crema_net_destroy(net);
}

TEST(nothing_to_export) {
  crema_net *net =
      make_net(IN("dim: 2 dim: 3") "layer { name: 's' type: 'Silence' bottom: 'x' }", CREMA_TEST);
  assert_says(crema_onnx_export(net, NULL, path_of("none.onnx")), CREMA_E_UNSUPPORTED,
              "the net has only data and layers of training; ONNX has no operators for them");
  crema_net_destroy(net);
}

static crema_status no_forward(crema_layer *layer) {
  return crema_blob_reshape(crema_layer_top(layer, 0),
                            crema_blob_shape(crema_layer_bottom(layer, 0)));
}

/* One message lists all layers, with the nearest layer; an existing file stays. */
TEST(rejections) {
  const crema_layer_type type = {.type = "Custom",
                                 .min_bottoms = 1,
                                 .max_bottoms = 1,
                                 .min_tops = 1,
                                 .max_tops = 1,
                                 .reshape = no_forward,
                                 .forward = no_forward};
  ok(crema_layer_register(&type));
  crema_net *net =
      make_net(IMAGE
               "layer { name: 'own' type: 'Custom' bottom: 'x' top: 'a' } "
               "layer { name: 'pool' type: 'Pooling' bottom: 'a' top: 'b' "
               "pooling_param { pool: STOCHASTIC kernel_size: 2 } } "
               "layer { name: 'in' type: 'Input' top: 'keep' input_param { shape { dim: 2 } } } "
               "layer { name: 'filter' type: 'Filter' bottom: 'b' bottom: 'keep' top: 'c' }",
               CREMA_TEST);
  write_text("m.onnx", "kept");
  assert_says(crema_onnx_export(net, NULL, path_of("m.onnx")), CREMA_E_UNSUPPORTED,
              "ONNX cannot express 3 layers of the net:"
              "\n  layer 'own' (Custom): no operator of ONNX computes it"
              "\n  layer 'pool' (Pooling): ONNX has no stochastic pooling; nearest: Pooling with "
              "pool: AVE"
              "\n  layer 'filter' (Filter): the number of items that pass depends on the data; "
              "nearest: BatchReindex");
  cr_buffer kept = {0};
  ok(cr_file_read(path_of("m.onnx"), &kept));
  assert_int_equal(kept.size, 4);
  cr_buffer_free(&kept);
  crema_net_destroy(net);
  net = make_net(IMAGE LAYER("ReLU", ""), CREMA_TRAIN);
  assert_says(crema_onnx_export(net, NULL, path_of("m.onnx")), CREMA_E_STATE,
              "only a net of phase TEST can be exported to ONNX");
  crema_net_destroy(net);
  net = make_net(IMAGE LAYER("ReLU", ""), CREMA_TEST);
  for (int opset = 10; opset <= 22; opset += 12) {
    char text[100];
    snprintf(text, sizeof text, "ONNX operator set %d; sets 11 to 21 are supported", opset);
    const crema_onnx_options options = {.opset = opset};
    assert_says(crema_onnx_export(net, &options, path_of("m.onnx")), CREMA_E_RANGE, text);
  }
  assert_fails(crema_onnx_export(net, NULL, path_of("none/m.onnx")), CREMA_E_IO, "none/m.onnx");
  crema_net_destroy(net);
}

/* A comparison names the output that differs, and needs outputs and inputs in common. */
TEST(comparisons) {
  static const char net_text[] =
      IMAGE LAYER("InnerProduct", "inner_product_param { num_output: 5 " FILLER " }");
  crema_net *net = make_net(net_text, CREMA_TEST), *other = NULL;
  crema_onnx_comparison result;
  float *values;
  export_to(net, 13, false);
  ok(crema_blob_mutable_cpu_data(crema_net_layer_param(net, 1, 0), &values));
  values[0] += 1;
  ok(crema_onnx_compare(net, path_of("m.onnx"), &result));
  assert_true(result.difference > 1e-3);
  assert_string_equal(result.output, "y");
  other = make_net(IMAGE "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'z' }", CREMA_TEST);
  assert_fails(crema_onnx_compare(other, path_of("m.onnx"), &result), CREMA_E_UNKNOWN_NAME,
               "no output in common");
  crema_net_destroy(other);
  other = make_net(
      "layer { name: 'd' type: 'Input' top: 'w' input_param { shape { dim: 2 dim: 5 } } } "
      "layer { name: 'r' type: 'ReLU' bottom: 'w' top: 'y' }",
      CREMA_TEST);
  assert_fails(crema_onnx_compare(other, path_of("m.onnx"), &result), CREMA_E_UNKNOWN_NAME, "'x'");
  crema_net_destroy(other);
  crema_net_destroy(net);
}

int main(void) {
  return run_all_tests(make_folder, remove_model);
}
