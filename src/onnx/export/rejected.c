/* Layers that ONNX cannot express, with the reasons. */
#include <string.h>

#include "onnx/export/layer.h"

static const struct {
  const char *type, *nearest, *reason;
} layers[] = {
    {"AnchorTarget", NULL, "it draws anchors for training"},
    {"BoxGroupOutput", "BoxOutput", "NonMaxSuppression does not count the last pixel of a box"},
    {"CTCGreedyDecoder", "ArgMax", "the lengths of decoded sequences depend on the data"},
    {"DeformablePSROIPooling", "PSROIPooling", "no operator shifts the parts of a region"},
    {"DenseCRF", NULL, "no operator filters over a lattice of positions and colours"},
    {"DetectNetTransformation", NULL, "it draws images and objects for training"},
    {"Filter", "BatchReindex", "the number of items that pass depends on the data"},
    {"MarginInnerProduct", "InnerProduct", "its scores depend on the label"},
    {"MultiStageMeanfield", NULL, "no operator filters over a lattice of positions and colours"},
    {"ProposalTarget", "Proposal", "it draws regions for training"},
};

void cr_onnx_export_rejected(cr_onnx_layer *l) {
  for (size_t i = 0; i < sizeof layers / sizeof *layers; ++i) {
    if (strcmp(layers[i].type, l->layer->kind->type) != 0) continue;
    cr_onnx_reject(l, layers[i].nearest, "%s", layers[i].reason);
    return;
  }
}
