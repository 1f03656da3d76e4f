/* The preprocessing of images that a deploy net's Input layer describes. */
#include "data/augment/preprocessing.h"

#include <stdlib.h>

#include "core/fail.h"
#include "net/common/fail.h"
#include "net/net.h"

/* The layer that makes a net's input; -1: there is no such input. */
static int maker_of(const crema_net *net, int input) {
  if (input < 0 || input >= net->inputs) return -1;
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    for (int t = 0; t < layer->layer->tops; ++t) {
      if (layer->top_id[t] == net->input[input]) return i;
    }
  }
  return -1;
}

/* Adds the layer, the net's file and the layer's line to a failure. */
static crema_status fail_in(const crema_net *net, int layer, crema_status code) {
  cr_error *error = cr_error_keep();
  const cr_where where = {.file = net->path, .line = cr_net_layer_line(net, (size_t)layer)};
  (void)cr_error_again(code, error);
  free(error);
  (void)cr_net_fail_in_layer(net->param->layer[layer], code);
  return cr_fail_where(code, &where);
}

crema_status crema_preprocessing_create(const crema_net *net, int index,
                                        crema_preprocessing **out) {
  CR_REQUIRE(net);
  CR_REQUIRE(out);
  const int maker = maker_of(net, index);
  if (maker < 0) {
    return cr_fail(CREMA_E_RANGE, "input %d of a net with %d inputs", index, net->inputs);
  }
  const cr_preprocessed_input input = {.param = net->param->layer[maker]->transform_param,
                                       .image = net->param->layer[maker]->image_data_param,
                                       .layer = net->layer[maker].layer->name,
                                       .type = net->layer[maker].layer->kind->type,
                                       .net_path = net->path,
                                       .shape = *crema_blob_shape(net->blob[net->input[index]])};
  const crema_status status = cr_preprocessing_make(&input, out);
  return status == CREMA_OK ? status : fail_in(net, maker, status);
}
