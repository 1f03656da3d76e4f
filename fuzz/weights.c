/* Weights: any bytes are refused with a message or change a net's values and nothing else; as a
 * file, they are converted to another type or refused. */
#include <string.h>

#include "net/weights/weights.h"
#include "support/support.h"

static const char model[] =
    "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: 4"
    " dim: 4 } } }"
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'"
    " convolution_param { num_output: 4 kernel_size: 3 } }"
    "layer { name: 'bn' type: 'BatchNorm' bottom: 'conv' top: 'bn' }"
    "layer { name: 'fc' type: 'InnerProduct' bottom: 'bn' top: 'out' param { name: 'w' }"
    " inner_product_param { num_output: 3 } }"
    "layer { name: 'fc2' type: 'InnerProduct' bottom: 'bn' top: 'out2' param { name: 'w' }"
    " inner_product_param { num_output: 3 } }";

static void convert(const uint8_t *data, size_t size) {
  static const crema_dtype types[] = {CREMA_F64, CREMA_F32, CREMA_F16, CREMA_BF16};
  cr_convert_report report;
  crema_dtype type = types[size % 4];
  crema_status status =
      cr_model_convert(fuzz_file("model", data, size), "/dev/null", type, size % 8 < 4, &report);
  if (status != CREMA_OK) fuzz_require(crema_error_text()[0] != '\0');
  else fuzz_require(report.blobs + report.kept > 0);
}

/* Blobs that stay in the file, or in the input, for as long as they can. */
static void load_late(crema_net *net, const uint8_t *data, size_t size) {
  for (int i = 0; i < 2; ++i) {
    cr_net_stored stored = {0};
    crema_status status = i == 0 ? cr_net_stored_open(fuzz_file("model", data, size), 1, &stored)
                                 : cr_stored_net_of(data, size, 1, "fuzz", &stored.net);
    if (status == CREMA_OK) status = cr_net_from_stored(net, &stored, NULL);
    if (status != CREMA_OK) fuzz_require(crema_error_text()[0] != '\0');
    cr_net_stored_close(&stored);
    fuzz_require(crema_net_forward(net, NULL) == CREMA_OK);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static crema_net *net; /* built once; a fuzz target may keep state */
  if (net == NULL)
    fuzz_require(crema_net_parse(model, strlen(model), "model", NULL, &net) == CREMA_OK);
  convert(data, size);
  load_late(net, data, size);
  ProtobufCMessage *message = NULL;
  if (cr_wire_parse(&caffe__net_parameter__descriptor, data, size, "fuzz", &message) != CREMA_OK) {
    return 0;
  }
  Caffe__NetParameter *weights = (Caffe__NetParameter *)message;
  if (cr_net_param_upgrade(weights, NULL, NULL) == CREMA_OK) {
    const cr_net_stored whole = {.net = {.param = weights}};
    if (cr_net_from_stored(net, &whole, NULL) != CREMA_OK)
      fuzz_require(crema_error_text()[0] != '\0');
    for (size_t i = 0; i < weights->n_layer; ++i) {
      for (size_t j = 0; j < weights->layer[i]->n_blobs; ++j) {
        crema_shape shape = {0}, own = {0};
        crema_blob *blob = NULL;
        const Caffe__BlobProto *proto = weights->layer[i]->blobs[j];
        if (cr_blob_proto_check(proto, &shape) != CREMA_OK) continue;
        fuzz_require(crema_blob_create(&own, &blob) == CREMA_OK);
        if (cr_blob_from_proto(blob, proto, true) == CREMA_OK) {
          fuzz_require(crema_shape_equal(crema_blob_shape(blob), &shape));
        }
        crema_blob_destroy(blob);
      }
    }
  }
  cr_message_free(message);
  return 0;
}
