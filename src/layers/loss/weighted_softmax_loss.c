/* WeightedSoftmaxWithLoss: SoftmaxWithLoss with a weight for each position, or for classes.
 *
 * Formula: loss = sum of -w * log(softmax(scores)[label]) over all positions whose label is not
 * ignored, divided as loss_param says (VALID: by their number, whatever their weights). The weight
 * w is the third bottom's or, without one, the label's. Classes have weights by pos_mult and
 * pos_cid, or by weighted_softmax_param: positions and weights, class_weight, or the file source.
 * Other classes have the weight 1.
 * Shapes: scores (outer, C, inner), labels (outer, inner), optionally weights (outer, inner) ->
 * loss (a scalar) and, optionally, the probabilities (as scores).
 * Fields: softmax_param, weighted_softmax_param, loss_param.
 * Caffe: as in the forks. A SoftmaxWithLoss with three bottoms or weighted_softmax_param is read as
 * this layer. Some forks divide by the sum of the weights, or balance two classes by their numbers
 * without a field. Several classes may have weights: pos_mult and pos_cid repeat.
 * Example, scores 2 3 4 4, label 2 4 4, weight 2 4 4:
 *   layer { name: "loss" type: "WeightedSoftmaxWithLoss" bottom: "scores" bottom: "label"
 *     bottom: "weight" top: "loss" } */
#include <ctype.h>
#include <stdlib.h>

#include "core/buffer.h"
#include "core/c_locale.h"
#include "core/fail.h"
#include "core/file.h"
#include "layers/common/layer_host.h"
#include "layers/loss/loss_ops.h"
#include "layers/loss/position_loss.h"

/* Finds the positions of a class: those between two thresholds. */
typedef struct class_weight {
  cr_layer_op from, to, subtract, add;
} class_weight;

typedef struct weighted_state {
  cr_position_loss base; /* has to be the first member */
  cr_tensor *above, *beyond;
  size_t classes;
  class_weight *of; /* `classes` of them */
  cr_layer_op ones, copy, weigh;
  cr_buffer table; /* double: the weight of each class, from weighted_softmax_param */
  bool complete;   /* the table has all classes */
} weighted_state;

static size_t table_size(const weighted_state *s) {
  return s->table.size / sizeof(double);
}

static double *table_of(const weighted_state *s) {
  return (double *)(void *)s->table.data;
}

static crema_status add_weight(weighted_state *s, double weight) {
  return cr_buffer_append(&s->table, &weight, sizeof weight);
}

static bool separates(char c) {
  return c == ',' || isspace((unsigned char)c);
}

/* The next number of a list; *found is false at its end. `what` names the list in messages. */
static crema_status next_number(const cr_layer *layer, const char *what, const char **text,
                                double *out, bool *found) {
  char *end = NULL;
  while (separates(**text)) ++*text;
  *found = **text != '\0';
  if (!*found) return CREMA_OK;
  *out = strtod(*text, &end);
  if (end == *text || !(separates(*end) || *end == '\0') || !(*out >= -1e30 && *out <= 1e30)) {
    return cr_layer_fail(layer, CREMA_E_PARSE, "%s: '%.40s' does not begin with a number", what,
                         *text);
  }
  *text = end;
  return CREMA_OK;
}

static crema_status read_positions(cr_layer *layer, const Caffe__WeightedSoftmaxParameter *param) {
  weighted_state *s = layer->state;
  const char *position = param->positions ? param->positions : "";
  const char *weight = param->weights ? param->weights : "";
  for (;;) {
    double class = 0, value = 0;
    bool more[2];
    CR_TRY(next_number(layer, "positions", &position, &class, &more[0]));
    CR_TRY(next_number(layer, "weights", &weight, &value, &more[1]));
    if (more[0] != more[1]) {
      return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                           "weighted_softmax_param has not as many weights as positions");
    }
    if (!more[0]) return CREMA_OK;
    if (!(class >= 0 && class < 1e6) || class != (double)(int64_t) class) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "positions: %g is not a class", class);
    }
    while (table_size(s) <= (size_t) class) CR_TRY(add_weight(s, 1));
    table_of(s)[(size_t) class] = value;
  }
}

static crema_status read_weights(cr_layer *layer, const char *what, const char *text) {
  for (;;) {
    double value = 0;
    bool more = false;
    CR_TRY(next_number(layer, what, &text, &value, &more));
    if (!more) return CREMA_OK;
    CR_TRY(add_weight(layer->state, value));
  }
}

static crema_status read_file(cr_layer *layer, const char *source) {
  char *path = NULL;
  cr_buffer text = {0};
  crema_status status;
  CR_TRY_GOTO(cr_file_resolve_input(layer->source_dir_file, source, &path), done);
  CR_TRY_GOTO(cr_file_read(path, &text), done);
  CR_TRY_GOTO(cr_buffer_make_text(&text, path), done);
  CR_TRY_GOTO(read_weights(layer, source, text.data != NULL ? text.data : ""), done);
done:
  cr_buffer_free(&text);
  free(path);
  return cr_layer_in(layer, status);
}

/* With the C locale. */
static crema_status read_texts(cr_layer *layer, const Caffe__WeightedSoftmaxParameter *param) {
  cr_c_locale locale;
  CR_TRY(cr_c_locale_begin(&locale));
  const crema_status status =
      param->source != NULL ? read_file(layer, param->source) : read_positions(layer, param);
  cr_c_locale_end(&locale);
  return status;
}

static crema_status read_table(cr_layer *layer, const Caffe__WeightedSoftmaxParameter *param) {
  weighted_state *s = layer->state;
  const bool listed = param->positions != NULL || param->weights != NULL;
  const Caffe__SoftmaxParameter *softmax = layer->param->softmax_param;
  if (listed + (param->n_class_weight > 0) + (param->source != NULL) != 1) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "weighted_softmax_param must have one of: positions and weights, "
                         "class_weight, source");
  }
  if (layer->bottoms > 2 || (softmax != NULL && softmax->n_pos_mult > 0)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "weights come from weighted_softmax_param, from pos_mult or from a third "
                         "bottom, not from two of them");
  }
  s->complete = !listed;
  if (param->n_class_weight == 0) return read_texts(layer, param);
  for (size_t i = 0; i < param->n_class_weight; ++i) {
    CR_TRY(add_weight(s, (double)param->class_weight[i]));
  }
  return CREMA_OK;
}

static crema_status check_table(const cr_layer *layer, int64_t classes) {
  const weighted_state *s = layer->state;
  const int64_t size = (int64_t)table_size(s);
  if (layer->param->weighted_softmax_param == NULL) return CREMA_OK;
  if (s->complete ? size == classes : size <= classes) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       s->complete ? "weighted_softmax_param has %lld weights for %lld classes"
                                   : "positions has class %lld of %lld classes, from 0 on",
                       (long long)(s->complete ? size : size - 1), (long long)classes);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  weighted_state *s = layer->state;
  const Caffe__SoftmaxParameter *param = layer->param->softmax_param;
  void *memory = NULL;
  CR_TRY(cr_position_loss_setup(layer, bottom, top));
  if (layer->param->weighted_softmax_param != NULL) {
    return read_table(layer, layer->param->weighted_softmax_param);
  }
  if (param == NULL || layer->bottoms > 2) return CREMA_OK;
  /* One number may be missing: both are 1 by default. */
  s->classes = param->n_pos_mult;
  if (param->n_pos_cid != s->classes && !(param->n_pos_cid == 0 && s->classes == 1)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "softmax_param has %zu pos_mult for %zu pos_cid",
                         param->n_pos_mult, param->n_pos_cid);
  }
  CR_TRY(cr_layer_memory(layer, (s->classes + 1) * sizeof *s->of, &memory));
  s->of = memory;
  return CREMA_OK;
}

static crema_status make_class(cr_layer *layer, size_t index) {
  weighted_state *s = layer->state;
  const Caffe__SoftmaxParameter *param = layer->param->softmax_param;
  const double class = param->n_pos_cid > 0 ? (double)param->pos_cid[index] : 1;
  const double bound[2][3] = {{class - 0.001}, {class + 0.999}};
  const crema_shape shape = cr_shape_1(s->base.positions);
  class_weight *w = &s->of[index];
  CR_TRY(cr_loss_make_function(layer, &w->from, CR_UNARY_THRESHOLD, bound[0], s->base.positions));
  CR_TRY(cr_loss_make_function(layer, &w->to, CR_UNARY_THRESHOLD, bound[1], s->base.positions));
  CR_TRY(cr_loss_make_sum(layer, &w->subtract, 1, -1, &shape));
  return cr_loss_make_sum(layer, &w->add, 1, param->pos_mult[index] - 1, &shape);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  weighted_state *s = layer->state;
  const Caffe__SoftmaxParameter *param = layer->param->softmax_param;
  const crema_dtype type = cr_layer_arithmetic(layer);
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, &bottom[0]->shape, param ? param->axis : 1, "softmax_param axis",
                       &axis));
  CR_TRY(check_table(layer, bottom[0]->shape.dim[axis]));
  CR_TRY(cr_position_loss_make(layer, bottom, top, axis));
  const crema_shape shape = cr_shape_1(s->base.positions);
  if (layer->bottoms > 2 && crema_blob_count(bottom[2]) != s->base.positions) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "%lld labels need as many weights, found %lld",
                         (long long)s->base.positions, (long long)crema_blob_count(bottom[2]));
  }
  CR_TRY(cr_layer_tensor(layer, &s->above, type, s->base.positions));
  CR_TRY(cr_layer_tensor(layer, &s->beyond, type, s->base.positions));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SET);
  desc.u.value = 1;
  CR_TRY(CR_LAYER_MAKE(layer, &s->ones, &desc, &shape));
  CR_TRY(cr_loss_make_scale(layer, &s->copy, &shape));
  CR_TRY(cr_loss_make_product(layer, &s->weigh, 2, &shape));
  for (size_t i = 0; i < s->classes; ++i) CR_TRY(make_class(layer, i));
  return CREMA_OK;
}

static crema_status look_up(const weighted_state *s, crema_blob *label) {
  cr_host_values from;
  cr_host_results to;
  CR_TRY(cr_host_read(label->data, &from));
  CR_TRY(cr_host_write(s->base.slope, &to));
  for (int64_t i = 0; i < s->base.positions; ++i) {
    const double class = cr_host_get(&from, i);
    const bool listed = class >= 0 && class < (double)table_size(s);
    cr_host_put(&to, i, listed ? table_of(s)[(size_t) class] : 1);
  }
  return CREMA_OK;
}

/* The weights of the positions are the slopes. */
static crema_status find_weights(cr_layer *layer, crema_context *context,
                                 crema_blob *const *bottom) {
  weighted_state *s = layer->state;
  cr_tensor *weight = s->base.slope;
  if (layer->bottoms > 2) {
    return cr_loss_run_scale(&s->copy, context, 1, bottom[2]->data, weight);
  }
  if (layer->param->weighted_softmax_param != NULL) return look_up(s, bottom[1]);
  CR_TRY(CR_LAYER_RUN(&s->ones, context, weight));
  for (size_t i = 0; i < s->classes; ++i) {
    class_weight *w = &s->of[i];
    CR_TRY(CR_LAYER_RUN(&w->from, context, bottom[1]->data, s->above));
    CR_TRY(CR_LAYER_RUN(&w->to, context, bottom[1]->data, s->beyond));
    CR_TRY(CR_LAYER_RUN(&w->subtract, context, s->above, s->beyond, s->above));
    CR_TRY(CR_LAYER_RUN(&w->add, context, weight, s->above, weight));
  }
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  weighted_state *s = layer->state;
  CR_TRY(cr_position_loss_find(layer, context, bottom, top));
  CR_TRY(find_weights(layer, context, bottom));
  CR_TRY(CR_LAYER_RUN(&s->weigh, context, s->base.each, s->base.slope, s->base.term));
  return cr_position_loss_finish(layer, context, top);
}

static void destroy(cr_layer *layer) {
  weighted_state *s = layer->state;
  cr_buffer_free(&s->table);
}

const cr_layer_class cr_layer_weighted_softmax_loss = {
    CR_LAYER_SOFTMAX_LOSS("WeightedSoftmaxWithLoss", 3, 2),
    .state_size = sizeof(weighted_state),
    .graph.takes_softmax = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = cr_position_loss_backward,
    .destroy = destroy,
};
