/* The public face of MemoryData layers: finds the layer in its net. */
#include "crema/memory_data.h"

#include "core/fail.h"
#include "layers/common/input_class.h"
#include "net/net.h"

static crema_status find(crema_net *net, const char *name, cr_layer **out) {
  int index = cr_net_find_layer(net, name);
  if (index < 0) return cr_fail(CREMA_E_UNKNOWN_NAME, "the net has no layer '%s'", name);
  cr_layer *layer = net->layer[index].layer;
  if (layer->kind->input == NULL || layer->kind->input->set_samples == NULL) {
    return cr_layer_fail(layer, CREMA_E_TYPE, "takes no samples; only MemoryData layers do");
  }
  *out = layer;
  return CREMA_OK;
}

crema_status crema_memory_data_set(crema_net *net, const char *layer, float *data, float *labels,
                                   int64_t samples) {
  CR_REQUIRE(net);
  CR_REQUIRE(layer);
  CR_REQUIRE(data);
  CR_REQUIRE(labels);
  cr_layer *found = NULL;
  CR_TRY(find(net, layer, &found));
  return found->kind->input->set_samples(found, data, labels, samples);
}

crema_status crema_memory_data_set_images(crema_net *net, const char *layer,
                                          const crema_labeled_image *images, int64_t count) {
  CR_REQUIRE(net);
  CR_REQUIRE(layer);
  CR_REQUIRE(images);
  cr_layer *found = NULL;
  CR_TRY(find(net, layer, &found));
  return found->kind->input->set_images(found, images, count);
}

crema_status crema_memory_data_set_batch_size(crema_net *net, const char *layer,
                                              int64_t batch_size) {
  CR_REQUIRE(net);
  CR_REQUIRE(layer);
  cr_layer *found = NULL;
  CR_TRY(find(net, layer, &found));
  return found->kind->input->set_batch_size(found, batch_size);
}
