/* Pooling.
 *
 * Caffe rounds the number of windows up and cuts windows at the end of the padded input. ONNX
 * rounds down here, and the pads at the end say how far windows reach. ceil_mode is not used:
 * runtimes disagree on it. */
#include "layers/common/layer_window.h"
#include "onnx/export/layer.h"

enum {
  MAX = CAFFE__POOLING_PARAMETER__POOL_METHOD__MAX,
  STOCHASTIC = CAFFE__POOLING_PARAMETER__POOL_METHOD__STOCHASTIC
};

/* How far the last window along spatial axis i reaches from the end of the input that starts with
 * `pad`; 0 if it ends earlier. */
static int64_t pad_at_end(const cr_onnx_layer *l, const cr_window *w, int i, int64_t size,
                          int64_t pad) {
  const int64_t last = (cr_onnx_top_shape(l, 0)->dim[i + 2] - 1) * w->stride[i];
  const int64_t end = last + w->kernel[i] - size - pad;
  return end > 0 ? end : 0;
}

/* A window outside the input has a value that ONNX does not define. */
static bool has_empty_window(const cr_onnx_layer *l, const cr_window *w) {
  for (int i = 0; i < w->axes; ++i) {
    const int64_t last = (cr_onnx_top_shape(l, 0)->dim[i + 2] - 1) * w->stride[i];
    if (last - w->pad[i] >= cr_onnx_bottom_shape(l, 0)->dim[i + 2]) return true;
  }
  return false;
}

/* Windows over the input without its padding. */
static void write_plain(cr_onnx_layer *l, const cr_window *w, const char *op, const char *out) {
  int64_t pads[2 * CR_MAX_SPATIAL];
  for (int i = 0; i < w->axes; ++i) {
    pads[i] = w->pad[i];
    pads[w->axes + i] = pad_at_end(l, w, i, cr_onnx_bottom_shape(l, 0)->dim[i + 2], w->pad[i]);
  }
  CR_ONNX_NODE(l->g, op, out, l->in[0]);
  cr_onnx_window(l->g, w, w->axes, pads, false);
}

/* The second top: positions in the plane. ONNX counts from the start of the blob. */
static void write_max(cr_onnx_layer *l, const cr_window *w) {
  const crema_shape *from = cr_onnx_bottom_shape(l, 0);
  const int64_t plane = crema_shape_count(from, 2, from->axes);
  write_plain(l, w, "MaxPool", l->out[0]);
  if (l->tops < 2) return;
  l->kept = true;
  const char *index = cr_onnx_name(l->g, "index"), *place = cr_onnx_name(l->g, "place");
  cr_onnx_output(l->g, index);
  CR_ONNX_NODE(l->g, "Mod", place, index, cr_onnx_integers(l->g, "plane", &plane, 1));
  CR_ONNX_NODE(l->g, "Cast", l->out[1], place);
  cr_onnx_int(l->g, "to", CR_ONNX_FLOAT);
}

/* The divisor counts padding: the padding becomes part of the input. */
static void write_average(cr_onnx_layer *l, const cr_window *w) {
  int64_t all[2 * CREMA_MAX_AXES] = {0}, pads[2 * CR_MAX_SPATIAL] = {0};
  const int axes = w->axes;
  const char *in = l->in[0];
  bool padded = false;
  for (int i = 0; i < axes; ++i) {
    const int64_t size = cr_onnx_bottom_shape(l, 0)->dim[i + 2] + 2 * w->pad[i];
    all[2 + i] = all[2 + axes + 2 + i] = w->pad[i];
    pads[axes + i] = pad_at_end(l, w, i, size, 0);
    padded = padded || w->pad[i] > 0;
  }
  if (padded) {
    in = cr_onnx_name(l->g, "padded");
    cr_onnx_pad(l->g, in, l->in[0], all, 2 * (size_t)(axes + 2), 0);
  }
  CR_ONNX_NODE(l->g, "AveragePool", l->out[0], in);
  cr_onnx_window(l->g, w, axes, pads, false);
}

void cr_onnx_export_pooling(cr_onnx_layer *l) {
  const Caffe__PoolingParameter *param = l->param->pooling_param;
  const bool max = (int)param->pool == MAX;
  cr_window window;
  if ((int)param->pool == STOCHASTIC) {
    cr_onnx_reject(l, "Pooling with pool: AVE", "ONNX has no stochastic pooling");
    return;
  }
  if (param->global_pooling && l->tops == 1) {
    CR_ONNX_NODE(l->g, max ? "GlobalMaxPool" : "GlobalAveragePool", l->out[0], l->in[0]);
    return;
  }
  const crema_shape *from = cr_onnx_bottom_shape(l, 0);
  l->g->status = cr_layer_read_pool_window(l->layer, param, from->axes - 2, &window);
  if (l->g->status != CREMA_OK) return;
  for (int i = 0; i < window.axes && param->global_pooling; ++i) {
    window.kernel[i] = from->dim[i + 2];
  }
  if (has_empty_window(l, &window)) {
    cr_onnx_reject(l, "Pooling with round_mode: FLOOR", "a window is outside the input");
  } else if (max) {
    write_max(l, &window);
  } else if (param->avg_include_pad) {
    write_average(l, &window);
  } else {
    write_plain(l, &window, "AveragePool", l->out[0]);
  }
}
