/* The two terms of MultiBoxLoss as ops: locations and classes. */
#include "layers/detection/multibox.h"

#include "core/fail.h"

static crema_status make_loc(cr_layer *layer, const crema_blob *bottom) {
  cr_multibox_state *s = layer->state;
  cr_multibox_loc *p = &s->loc;
  const crema_dtype type = cr_layer_arithmetic(layer);
  const crema_shape x = cr_shape_2(crema_blob_count(bottom) / 4, 4), rows = cr_shape_2(p->rows, 4);
  const crema_shape y = cr_shape_1(p->rows * 4), row = cr_shape_2(1, p->rows * 4);
  const crema_shape one = cr_shape_1(1), index = cr_shape_1(p->rows);
  if (p->made == p->rows) return CREMA_OK;
  cr_tensor **const four[] = {&p->row, &p->value, &p->diff, &p->scale, &p->target};
  for (int i = 0; i < 5; ++i) CR_TRY(cr_layer_tensor(layer, four[i], type, p->rows * 4));
  CR_TRY(cr_layer_tensor(layer, &p->index, type, p->rows));
  CR_TRY(cr_layer_tensor(layer, &p->sum, type, 1));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_GATHER_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &p->gather, &desc, &x, &index, &rows));
  desc.kind = CR_OP_GATHER_BWD;
  CR_TRY(CR_LAYER_MAKE(layer, &p->scatter, &desc, &rows, &index, &x));
  desc = cr_layer_op_desc(CR_OP_PROD);
  CR_TRY(CR_LAYER_MAKE(layer, &p->multiply, &desc, &y, &y, &y));
  if ((int)cr_multibox_param(layer)->loc_loss_type != CR_MULTIBOX_L2) {
    desc = cr_layer_op_desc(CR_OP_SMOOTH_L1_FWD);
    desc.u.smooth.sigma2 = 1;
    CR_TRY(CR_LAYER_MAKE(layer, &p->loss, &desc, &y, &y, NULL, NULL, &one));
    desc.kind = CR_OP_SMOOTH_L1_BWD;
    CR_TRY(CR_LAYER_MAKE(layer, &p->back, &desc, &y, &y, NULL, NULL, &one, &y));
    p->made = p->rows;
    return CREMA_OK;
  }
  desc.kind = CR_OP_SUM;
  CR_TRY(cr_layer_op_make_scaled(layer, &p->first, &desc, 3, (const crema_shape *[]){&y, &y, &y},
                                 (const float[]){1, -1, 1}));
  desc.kind = CR_OP_AXPBY;
  CR_TRY(CR_LAYER_MAKE(layer, &p->back, &desc, &y, &y));
  desc.kind = CR_OP_ROW_REDUCE_FWD;
  desc.u.rows.reduction = CR_REDUCE_SUMSQ;
  desc.u.rows.coeff = 0.5;
  CR_TRY(CR_LAYER_MAKE(layer, &p->loss, &desc, &row, &one));
  p->made = p->rows;
  return CREMA_OK;
}

crema_status cr_multibox_loc_run(cr_multibox_pass *pass, crema_context *context,
                                 crema_blob *bottom) {
  cr_layer *layer = pass->layer;
  cr_multibox_state *s = layer->state;
  cr_multibox_loc *p = &s->loc;
  const bool learned = cr_multibox_param(layer)->encode_variance_in_target;
  CR_TRY(make_loc(layer, bottom));
  CR_TRY(cr_host_write(p->index, &pass->index));
  CR_TRY(cr_host_write(p->target, &pass->target));
  if (learned) CR_TRY(cr_host_write(p->scale, &pass->scale));
  CR_TRY(cr_multibox_put_locations(pass));
  CR_TRY(CR_LAYER_RUN(&p->gather, context, bottom->data, p->index, p->row));
  if (learned) {
    CR_TRY(CR_LAYER_RUN(&p->multiply, context, p->row, p->scale, p->row));
  }
  if ((int)cr_multibox_param(layer)->loc_loss_type != CR_MULTIBOX_L2) {
    return CR_LAYER_RUN(&p->loss, context, p->row, p->target, NULL, NULL, p->sum);
  }
  CR_TRY(CR_LAYER_RUN(&p->first, context, p->row, p->target, p->value));
  return CR_LAYER_RUN(&p->loss, context, p->value, p->sum);
}

crema_status cr_multibox_loc_back(cr_layer *layer, crema_context *context, crema_blob *top,
                                  crema_blob *bottom) {
  cr_multibox_state *s = layer->state;
  cr_multibox_loc *p = &s->loc;
  cr_op_scalars scalars = {.alpha = (double)cr_multibox_param(layer)->loc_weight / s->divisor};
  double weight = 0;
  if ((int)cr_multibox_param(layer)->loc_loss_type == CR_MULTIBOX_L2) {
    CR_TRY(cr_tensor_host_value(top->diff, &weight));
    scalars.alpha *= weight;
    CR_TRY(cr_layer_op_run(&p->back, context, (cr_tensor *[]){p->value, p->diff}, &scalars));
  } else {
    CR_TRY(cr_layer_op_run(&p->back, context,
                           (cr_tensor *[]){p->row, p->target, NULL, NULL, top->diff, p->diff},
                           &scalars));
  }
  return CR_LAYER_RUN(&p->scatter, context, p->diff, p->index, bottom->diff);
}

crema_status cr_multibox_conf_make(cr_layer *layer) {
  cr_multibox_state *s = layer->state;
  cr_multibox_conf *p = &s->conf;
  const int64_t boxes = s->images * s->priors;
  const crema_shape scores = cr_shape_2(boxes, s->classes), each = cr_shape_1(boxes);
  const crema_shape one = cr_shape_1(1);
  const crema_dtype type = cr_layer_arithmetic(layer);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SIGMOID_LOSS_FWD);
  CR_TRY(cr_layer_tensor(layer, &p->sum, type, 1));
  if (cr_multibox_has_targets(layer)) {
    CR_TRY(cr_layer_tensor(layer, &p->one, type, 1));
    CR_TRY(cr_layer_pass_tensor(layer, &p->target, type, boxes * s->classes));
    CR_TRY(CR_LAYER_MAKE(layer, &p->forward, &desc, &scores, &scores, &one, &one));
    desc.kind = CR_OP_SIGMOID_LOSS_BWD;
    return CR_LAYER_MAKE(layer, &p->back, &desc, &scores, &scores, &one, &scores);
  }
  CR_TRY(cr_layer_pass_tensor(layer, &p->label, type, boxes));
  CR_TRY(cr_layer_pass_tensor(layer, &p->loss, type, boxes));
  CR_TRY(cr_layer_pass_tensor(layer, &p->counts, type, boxes));
  desc = cr_layer_op_desc(CR_OP_ROW_LOSS);
  desc.u.logistic = (int)cr_multibox_param(layer)->conf_loss_type == CR_MULTIBOX_LOGISTIC;
  CR_TRY(CR_LAYER_MAKE(layer, &p->forward, &desc, &scores, &each, &each));
  desc.kind = CR_OP_ROW_LOSS_BWD;
  return CR_LAYER_MAKE(layer, &p->back, &desc, &scores, &each, &each, &scores);
}

crema_status cr_multibox_conf_run(cr_layer *layer, crema_context *context, crema_blob *bottom) {
  cr_multibox_state *s = layer->state;
  cr_multibox_conf *p = &s->conf;
  cr_host_results to;
  double sum = 0;
  if (cr_multibox_has_targets(layer)) {
    return CR_LAYER_RUN(&p->forward, context, bottom->data, p->target, p->sum, p->one);
  }
  for (int64_t i = 0; i < s->images; ++i) sum += cr_multibox_image_at(s, i)->loss;
  CR_TRY(cr_host_write(p->sum, &to));
  cr_host_put(&to, 0, sum);
  return CREMA_OK;
}

crema_status cr_multibox_conf_back(cr_layer *layer, crema_context *context, crema_blob *top,
                                   crema_blob *bottom) {
  cr_multibox_state *s = layer->state;
  cr_multibox_conf *p = &s->conf;
  cr_op_scalars scalars = {.alpha = 1 / s->divisor};
  double weight = 0;
  if (cr_multibox_has_targets(layer)) {
    return cr_layer_op_run(&p->back, context,
                           (cr_tensor *[]){bottom->data, p->target, top->diff, bottom->diff},
                           &scalars);
  }
  CR_TRY(cr_tensor_host_value(top->diff, &weight));
  scalars.alpha *= weight;
  return cr_layer_op_run(&p->back, context,
                         (cr_tensor *[]){bottom->data, p->label, p->counts, bottom->diff},
                         &scalars);
}
