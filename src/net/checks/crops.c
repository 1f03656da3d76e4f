/* Warns about Crop layers without an offset if the net suggests one. In BVLC Caffe 1.0, and here,
 * the window begins at 0. In older versions, for which the files of FCN of 2015 and of HED were
 * written, it shows the same pixels as bottom 1. That offset follows from the windows of the layers
 * between the two bottoms and their common source blob (caffe.coord_map computes the same). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "layers/common/layer_conv.h"
#include "net/checks/checks.h"
#include "net/common/fail.h"

enum { SPATIAL = 2 }; /* axes 2 and 3 */

/* Position z of one blob along a spatial axis corresponds to position scale z + shift of another.
 */
typedef struct mapping {
  bool known;
  double scale[SPATIAL], shift[SPATIAL];
} mapping;

/* The window of a layer with one for each spatial axis; NULL: it has none. */
static const cr_window *window_of(const cr_layer *layer, bool *transposed) {
  *transposed = false;
  if (layer->kind->fusion.product == CR_PRODUCT_CONV) {
    const cr_layer_conv *conv = layer->state;
    *transposed = conv->transposed;
    return conv->axis == 1 && conv->window.axes == SPATIAL ? &conv->window : NULL;
  }
  return layer->kind->graph.window == NULL ? NULL : layer->kind->graph.window(layer);
}

/* Maps positions of a layer's top to its bottom. A layer that keeps the extents keeps the
 * positions.
 */
static mapping place_of_layer(const cr_net_layer *layer, int top, int bottom) {
  const Caffe__CropParameter *crop = layer->layer->param->crop_param;
  mapping p = {.known = true, .scale = {1, 1}};
  bool transposed = false;
  const cr_window *window = window_of(layer->layer, &transposed);
  for (int i = 0; i < SPATIAL && window != NULL; ++i) {
    const double middle =
        (double)(window->dilation[i] * (window->kernel[i] - 1)) / 2 - (double)window->pad[i];
    const double stride = (double)window->stride[i];
    p.scale[i] = transposed ? 1 / stride : stride;
    p.shift[i] = transposed ? -middle / stride : middle;
  }
  if (window != NULL) return p;
  if (layer->layer->kind->graph.crops) {
    p.known = bottom == 0 && (crop == NULL || crop->axis == 2);
    for (int i = 0; i < SPATIAL && p.known && crop != NULL && crop->n_offset > 0; ++i) {
      p.shift[i] = (double)crop->offset[crop->n_offset > 1 ? i : 0];
    }
    return p;
  }
  const crema_shape *to = &layer->top[top]->shape, *from = &layer->bottom[bottom]->shape;
  p.known =
      to->axes == 4 && from->axes == 4 && to->dim[2] == from->dim[2] && to->dim[3] == from->dim[3];
  return p;
}

/* Maps positions of blob `from`, which layer `reader` reads, to each of its source blobs. `out` has
 * one entry per blob. */
static void trace(const crema_net *net, int reader, int from, mapping *out) {
  memset(out, 0, (size_t)net->blobs * sizeof *out);
  out[from] = (mapping){.known = true, .scale = {1, 1}};
  for (int l = reader - 1; l >= 0; --l) {
    const cr_net_layer *layer = &net->layer[l];
    for (int t = 0; t < layer->layer->tops; ++t) {
      const mapping *above = &out[layer->top_id[t]];
      for (int b = 0; above->known && b < layer->layer->bottoms; ++b) {
        mapping *below = &out[layer->bottom_id[b]];
        if (layer->layer->kind->graph.equal_bottoms_tops && b != t) continue;
        const mapping p = place_of_layer(layer, t, b);
        if (below->known || !p.known) continue;
        below->known = true;
        for (int i = 0; i < SPATIAL; ++i) {
          below->scale[i] = p.scale[i] * above->scale[i];
          below->shift[i] = p.scale[i] * above->shift[i] + p.shift[i];
        }
      }
    }
  }
}

/* The offset of each axis at which both bottoms show the same pixels. */
static bool find_offset(const crema_net *net, const mapping *from, const mapping *like,
                        int64_t out[SPATIAL]) {
  for (int blob = net->blobs - 1; blob >= 0; --blob) {
    if (!from[blob].known || !like[blob].known) continue;
    for (int i = 0; i < SPATIAL; ++i) {
      const double offset = (like[blob].shift[i] - from[blob].shift[i]) / from[blob].scale[i];
      if (from[blob].scale[i] != like[blob].scale[i] || !(offset >= 0 && offset < 1e6) ||
          offset != rint(offset)) {
        return false;
      }
      out[i] = (int64_t)offset;
    }
    return out[0] > 0 || out[1] > 0;
  }
  return false;
}

static void warn(const crema_net *net, int index, mapping *from, mapping *like) {
  const cr_net_layer *layer = &net->layer[index];
  const cr_layer *self = layer->layer;
  int64_t offset[SPATIAL];
  char line[CR_NET_LINE_TEXT], second[32] = "";
  trace(net, index, layer->bottom_id[0], from);
  trace(net, index, layer->bottom_id[1], like);
  if (!find_offset(net, from, like, offset)) return;
  if (offset[0] != offset[1]) {
    snprintf(second, sizeof second, " offset: %lld", (long long)offset[1]);
  }
  cr_log_warning(
      "layer '%s' (%s)%s: without an offset the window begins at 0, as in BVLC Caffe 1.0. In older "
      "files, such as HED's, it shows the same pixels as bottom 1, which "
      "crop_param { axis: 2 offset: %lld%s } does",
      self->name, self->kind->type, cr_net_line_text(net, (size_t)index, line),
      (long long)offset[0], second);
}

crema_status cr_net_warn_of_crops(const crema_net *net) {
  mapping *places = NULL;
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *self = net->layer[i].layer;
    const Caffe__CropParameter *param = self->param->crop_param;
    if (!self->kind->graph.crops || net->layer[i].top[0]->shape.axes != 4) continue;
    if (param != NULL && (param->n_offset > 0 || param->axis != 2)) continue;
    if (places == NULL) CR_TRY(CR_NEW(places, 2 * (size_t)net->blobs, "places of blobs"));
    warn(net, i, places, places + net->blobs);
  }
  free(places);
  return CREMA_OK;
}
