/* Lets convolutions with 3x3 windows use Winograd's method, which needs less than half of the
 * multiplications and rounds a little more. Kernels use it if there are enough positions to pay for
 * transforming the weights in each run. */
#include "core/fail.h"
#include "infer/passes.h"
#include "layers/common/layer_conv.h"
#include "layers/registry.h"

static bool is_suitable(const cr_graph *graph, int layer) {
  /* Channels that kernels work on at a time. With one input block, the transform costs the time
   * that the products save, and megabytes of memory. */
  enum { BLOCK = 16 };
  const cr_graph_layer *l = &graph->layer[layer];
  if (!cr_graph_is(graph, layer, &cr_layer_convolution) || l->rewritten || l->frozen.int8 != NULL) {
    return false;
  }
  if (!cr_graph_has_floats(graph, layer)) return false;
  /* A pass may have changed the stride, so the state of the built layer does not count. */
  const Caffe__ConvolutionParameter *p = l->param->convolution_param;
  if ((p->has_stride_h && p->stride_h != 1) || (p->has_stride_w && p->stride_w != 1)) return false;
  for (size_t i = 0; i < p->n_stride; ++i) {
    if (p->stride[i] != 1) return false;
  }
  const cr_layer_conv *conv = l->built->state;
  const cr_window *w = &conv->window;
  for (int a = 0; a < w->axes; ++a) {
    if (w->kernel[a] != 3 || w->dilation[a] != 1 || w->pad[a] > 1) return false;
  }
  return w->axes == 2 && conv->axis == 1 && conv->group == 1 && conv->channels > BLOCK &&
         conv->channels % BLOCK == 0 && conv->outputs % BLOCK == 0;
}

crema_status cr_pass_winograd(cr_graph *graph) {
  if (graph->precision != CREMA_PRECISION_F32) return CREMA_OK;
  for (int i = 0; i < graph->layers; ++i) {
    if (!is_suitable(graph, i)) continue;
    graph->layer[i].frozen.winograd = true;
    CR_TRY(cr_graph_tell_layer(graph, "winograd", i, ""));
  }
  return CREMA_OK;
}
