/* Functions of one value at a time. */
#include <math.h>

#include "onnx/export/layer.h"

void cr_onnx_export_relu(cr_onnx_layer *l) {
  const Caffe__ReLUParameter *param = l->param->relu_param;
  const float slope = param == NULL ? 0 : param->negative_slope;
  if (slope == 0) {
    CR_ONNX_NODE(l->g, "Relu", l->out[0], l->in[0]);
  } else {
    CR_ONNX_NODE(l->g, "LeakyRelu", l->out[0], l->in[0]);
    cr_onnx_float(l->g, "alpha", slope);
  }
}

void cr_onnx_export_relu6(cr_onnx_layer *l) {
  cr_onnx_clip(l->g, l->out[0], l->in[0], 0, 6);
}

void cr_onnx_export_clip(cr_onnx_layer *l) {
  const Caffe__ClipParameter *param = l->param->clip_param;
  cr_onnx_clip(l->g, l->out[0], l->in[0], param->min, param->max);
}

void cr_onnx_export_prelu(cr_onnx_layer *l) {
  const char *slope =
      cr_onnx_span_parameter(l->g, "slope", l->layer->blob[0], 1, cr_onnx_bottom_shape(l, 0)->axes);
  CR_ONNX_NODE(l->g, "PRelu", l->out[0], l->in[0], slope);
}

static void write_selu(cr_onnx_layer *l, float alpha, float lambda) {
  CR_ONNX_NODE(l->g, "Selu", l->out[0], l->in[0]);
  cr_onnx_float(l->g, "alpha", alpha);
  cr_onnx_float(l->g, "gamma", lambda);
}

void cr_onnx_export_elu(cr_onnx_layer *l) {
  const Caffe__ELUParameter *param = l->param->elu_param;
  if (param != NULL && param->lambda != 1) {
    write_selu(l, param->alpha, param->lambda);
    return;
  }
  CR_ONNX_NODE(l->g, "Elu", l->out[0], l->in[0]);
  cr_onnx_float(l->g, "alpha", param == NULL ? 1 : param->alpha);
}

void cr_onnx_export_selu(cr_onnx_layer *l) {
  write_selu(l, 1.6732632423543773f, 1.0507009873554805f);
}

void cr_onnx_export_sigmoid(cr_onnx_layer *l) {
  CR_ONNX_NODE(l->g, "Sigmoid", l->out[0], l->in[0]);
}

void cr_onnx_export_tanh(cr_onnx_layer *l) {
  CR_ONNX_NODE(l->g, "Tanh", l->out[0], l->in[0]);
}

void cr_onnx_export_abs_val(cr_onnx_layer *l) {
  CR_ONNX_NODE(l->g, "Abs", l->out[0], l->in[0]);
}

void cr_onnx_export_bnll(cr_onnx_layer *l) {
  CR_ONNX_NODE(l->g, "Softplus", l->out[0], l->in[0]);
}

void cr_onnx_export_swish(cr_onnx_layer *l) {
  const Caffe__SwishParameter *param = l->param->swish_param;
  const char *in = l->in[0], *gate = cr_onnx_name(l->g, "gate");
  if (param != NULL && param->beta != 1) {
    in = cr_onnx_name(l->g, "scaled");
    CR_ONNX_NODE(l->g, "Mul", in, l->in[0], cr_onnx_scalar(l->g, "beta", param->beta));
  }
  CR_ONNX_NODE(l->g, "Sigmoid", gate, in);
  CR_ONNX_NODE(l->g, "Mul", l->out[0], l->in[0], gate);
}

void cr_onnx_export_threshold(cr_onnx_layer *l) {
  const Caffe__ThresholdParameter *param = l->param->threshold_param;
  const char *above = cr_onnx_name(l->g, "above");
  const char *limit = cr_onnx_scalar(l->g, "limit", param == NULL ? 0 : param->threshold);
  CR_ONNX_NODE(l->g, "Greater", above, l->in[0], limit);
  CR_ONNX_NODE(l->g, "Cast", l->out[0], above);
  cr_onnx_int(l->g, "to", CR_ONNX_FLOAT);
}

/* ---- powers -------------------------------------------------------------------------- */

/* out = scale * in + shift */
static void write_line(cr_onnx_graph *g, const char *out, const char *in, float scale,
                       float shift) {
  const char *scaled = in;
  if (scale == 1 && shift == 0) {
    CR_ONNX_NODE(g, "Identity", out, in);
    return;
  }
  if (scale != 1) {
    scaled = shift == 0 ? out : cr_onnx_name(g, "scaled");
    CR_ONNX_NODE(g, "Mul", scaled, in, cr_onnx_scalar(g, "scale", scale));
  }
  if (shift != 0) CR_ONNX_NODE(g, "Add", out, scaled, cr_onnx_scalar(g, "shift", shift));
}

/* The name of scale * in + shift. */
static const char *line_of(cr_onnx_graph *g, const char *in, float scale, float shift) {
  if (scale == 1 && shift == 0) return in;
  const char *line = cr_onnx_name(g, "line");
  write_line(g, line, in, scale, shift);
  return line;
}

void cr_onnx_export_power(cr_onnx_layer *l) {
  static const Caffe__PowerParameter defaults = CAFFE__POWER_PARAMETER__INIT;
  const Caffe__PowerParameter *p = l->param->power_param ? l->param->power_param : &defaults;
  if (p->power == 1) {
    write_line(l->g, l->out[0], l->in[0], p->scale, p->shift);
    return;
  }
  const char *line = line_of(l->g, l->in[0], p->scale, p->shift);
  CR_ONNX_NODE(l->g, "Pow", l->out[0], line, cr_onnx_scalar(l->g, "power", p->power));
}

static float log_of_base(float base) {
  return base == -1 ? 1 : logf(base);
}

void cr_onnx_export_exp(cr_onnx_layer *l) {
  static const Caffe__ExpParameter defaults = CAFFE__EXP_PARAMETER__INIT;
  const Caffe__ExpParameter *p = l->param->exp_param ? l->param->exp_param : &defaults;
  const float base = log_of_base(p->base_);
  CR_ONNX_NODE(l->g, "Exp", l->out[0], line_of(l->g, l->in[0], base * p->scale, base * p->shift));
}

void cr_onnx_export_log(cr_onnx_layer *l) {
  static const Caffe__LogParameter defaults = CAFFE__LOG_PARAMETER__INIT;
  const Caffe__LogParameter *p = l->param->log_param ? l->param->log_param : &defaults;
  const char *line = line_of(l->g, l->in[0], p->scale, p->shift);
  if (p->base_ == -1) {
    CR_ONNX_NODE(l->g, "Log", l->out[0], line);
    return;
  }
  const char *natural = cr_onnx_name(l->g, "natural");
  CR_ONNX_NODE(l->g, "Log", natural, line);
  CR_ONNX_NODE(l->g, "Mul", l->out[0], natural,
               cr_onnx_scalar(l->g, "factor", 1 / log_of_base(p->base_)));
}

/* Only reached by a layer that drops values in TEST; one that does not is an alias. */
void cr_onnx_export_dropout(cr_onnx_layer *l) {
  cr_onnx_reject(l, "Dropout without sample_weights_test", "it draws random numbers in phase TEST");
}
