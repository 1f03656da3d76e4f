/* Names for the values of a net in the lines of CREMA_VERBOSE. */
#include "core/timeline.h"
#include "core/verbose.h"
#include "net/graph.h"

void cr_net_label_values(const crema_net *net) {
  if (!cr_verbose(CR_VERBOSE_RUNS) && !cr_timeline()) return;
  for (int i = 0; i < net->blobs; ++i) {
    cr_tensor_set_label(net->blob[i]->data, cr_verbose_label("%s", net->blob_name[i]));
    cr_tensor_set_label(net->blob[i]->diff, cr_verbose_label("%s.diff", net->blob_name[i]));
  }
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    for (int p = 0; p < layer->params; ++p) {
      cr_tensor_set_label(layer->blob[p]->data, cr_verbose_label("%s[%d]", layer->name, p));
      cr_tensor_set_label(layer->blob[p]->diff, cr_verbose_label("%s[%d].diff", layer->name, p));
    }
  }
}
