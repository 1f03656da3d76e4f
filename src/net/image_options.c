/* The preprocessing of images that a deploy net's Input layer describes in transform_param. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
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

/* Resolves the path and keeps it as long as the net. */
static crema_status keep_path(crema_net *net, const char *path, const char **out) {
  char *found = NULL, *kept = NULL;
  CR_TRY(cr_file_resolve_input(net->path, path, &found));
  const size_t size = strlen(found) + 1;
  const crema_status status = CR_NET_NEW(net, kept, size);
  if (status == CREMA_OK) *out = memcpy(kept, found, size);
  free(found);
  return status;
}

static crema_status read_param(crema_net *net, const Caffe__TransformationParameter *param,
                               crema_image_options *out) {
  if (param->resize_param != NULL) {
    out->resize_height = (int)param->resize_param->height;
    out->resize_width = (int)param->resize_param->width;
  }
  out->mean = param->mean_value;
  out->mean_count = (int)param->n_mean_value;
  out->scale = param->scale;
  out->rgb = param->bgr2rgb;
  if (param->mean_file == NULL || param->mean_file[0] == '\0') return CREMA_OK;
  return keep_path(net, param->mean_file, &out->mean_file);
}

crema_status crema_net_image_options(crema_net *net, int index, crema_image_options *options,
                                     bool *given) {
  CR_REQUIRE(net);
  CR_REQUIRE(options);
  crema_image_options_init(options);
  if (given != NULL) *given = false;
  const int maker = maker_of(net, index);
  if (maker < 0) {
    return cr_fail(CREMA_E_RANGE, "input %d of a net with %d inputs", index, net->inputs);
  }
  const Caffe__TransformationParameter *param = net->param->layer[maker]->transform_param;
  if (param == NULL) return CREMA_OK;
  if (given != NULL) *given = true;
  return cr_fail_in(read_param(net, param, options), "layer '%s': transform_param",
                    net->layer[maker].layer->name);
}
