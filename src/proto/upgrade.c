/* Old nets and solvers to today's form. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "proto/upgrade.h"

/* ---- messages ------------------------------------------------------------------ */

const ProtobufCFieldDescriptor *cr_upgrade_field(const ProtobufCMessage *message,
                                                 const char *name) {
  return protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
}

void cr_upgrade_clear(ProtobufCMessage *message, const char *name) {
  cr_field_clear(message, cr_upgrade_field(message, name));
}

crema_status cr_upgrade_text(char **slot, const char *text, const char *suffix) {
  const size_t length = strlen(text), size = length + strlen(suffix) + 1;
  char *made = cr_proto_alloc(size);
  if (made == NULL) return cr_fail_memory(size, "a layer's text");
  memcpy(made, text, length);
  memcpy(made + length, suffix, size - length);
  *slot = made;
  return CREMA_OK;
}

bool cr_upgrade_is_of(const Caffe__LayerParameter *layer, const char *type) {
  return layer->type != NULL && strcmp(layer->type, type) == 0;
}

crema_status cr_upgrade_set_type(Caffe__LayerParameter *layer, const char *type) {
  cr_upgrade_clear(&layer->base, "type");
  return cr_upgrade_text(&layer->type, type, "");
}

/* ---- inputs -------------------------------------------------------------------- */

static crema_status check_inputs(const Caffe__NetParameter *net) {
  if (net->n_input_shape > 0) {
    if (net->n_input_shape >= net->n_input) return CREMA_OK;
    return cr_fail(CREMA_E_SHAPE, "the net has %zu \"input\" but %zu \"input_shape\"", net->n_input,
                   net->n_input_shape);
  }
  if (net->n_input_dim / 4 >= net->n_input) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE,
                 "the net has %zu \"input\" but %zu \"input_dim\"; 4 each are needed", net->n_input,
                 net->n_input_dim);
}

static crema_status copy_shape(const Caffe__NetParameter *net, size_t index,
                               ProtobufCMessage **out) {
  if (net->n_input_shape > 0) return cr_message_copy(&net->input_shape[index]->base, out);
  CR_TRY(cr_message_new(&caffe__blob_shape__descriptor, out));
  Caffe__BlobShape *shape = (Caffe__BlobShape *)*out;
  CR_TRY(cr_field_reserve(*out, &shape->base.descriptor->fields[0], 4));
  for (; shape->n_dim < 4; ++shape->n_dim) {
    shape->dim[shape->n_dim] = net->input_dim[4 * index + shape->n_dim];
  }
  return CREMA_OK;
}

/* Fills an Input layer with the names and shapes of the net's inputs. */
static crema_status fill_input_layer(Caffe__NetParameter *net, Caffe__LayerParameter *layer) {
  const ProtobufCMessageDescriptor *type = layer->base.descriptor;
  const ProtobufCFieldDescriptor *target =
      protobuf_c_message_descriptor_get_field_by_name(type, "input_param");
  ProtobufCMessage *param;
  layer->name = cr_proto_strdup("input");
  layer->type = cr_proto_strdup("Input");
  if (layer->name == NULL || layer->type == NULL) return cr_fail_memory(6, "an Input layer");
  CR_TRY(cr_field_message(&layer->base, target, &param));
  CR_TRY(cr_field_reserve(param, &param->descriptor->fields[0], net->n_input));
  Caffe__InputParameter *input = (Caffe__InputParameter *)param;
  for (size_t i = 0; i < net->n_input; ++i) {
    ProtobufCMessage *shape = NULL;
    crema_status status = copy_shape(net, i, &shape);
    if (shape != NULL) input->shape[input->n_shape++] = (Caffe__BlobShape *)shape;
    if (status != CREMA_OK) return status;
  }
  return cr_field_move(
      &net->base, protobuf_c_message_descriptor_get_field_by_name(net->base.descriptor, "input"),
      &layer->base, protobuf_c_message_descriptor_get_field_by_name(type, "top"));
}

static crema_status upgrade_inputs(Caffe__NetParameter *net, const char *source) {
  const ProtobufCMessageDescriptor *type = net->base.descriptor;
  if (net->n_input_shape > 0 || net->n_input_dim > 0) {
    ProtobufCMessage *layer;
    CR_TRY(check_inputs(net));
    CR_TRY(cr_field_reserve(&net->base,
                            protobuf_c_message_descriptor_get_field_by_name(type, "layer"), 1));
    CR_TRY(cr_message_new(&caffe__layer_parameter__descriptor, &layer));
    memmove(net->layer + 1, net->layer, net->n_layer * sizeof *net->layer);
    net->layer[0] = (Caffe__LayerParameter *)layer;
    ++net->n_layer;
    CR_TRY(fill_input_layer(net, net->layer[0]));
  } else {
    /* Models that early versions wrote are so; a net that is to run needs the shape. */
    for (size_t i = 0; i < net->n_input; ++i) {
      cr_log_warning("%s: input \"%s\" is left out, as it has neither input_shape nor input_dim",
                     source, net->input[i]);
    }
  }
  static const char *const old[] = {"input", "input_shape", "input_dim"};
  for (size_t i = 0; i < sizeof old / sizeof old[0]; ++i) {
    cr_field_clear(&net->base, protobuf_c_message_descriptor_get_field_by_name(type, old[i]));
  }
  return CREMA_OK;
}

/* ---- batch normalization --------------------------------------------------------- */

/* The three blobs of BatchNorm are statistics, not to be trained. In old nets the layer has to say
 * so; multipliers other than 0 mean that this was forgotten. */
static bool trains_statistics(const Caffe__LayerParameter *layer) {
  if (layer->type == NULL || strcmp(layer->type, "BatchNorm") != 0 || layer->n_param != 3) {
    return false;
  }
  for (size_t i = 0; i < layer->n_param; ++i) {
    if (layer->param[i]->lr_mult != 0.0F || layer->param[i]->decay_mult != 0.0F) return true;
  }
  return false;
}

static bool batch_norm_needed(const Caffe__NetParameter *net) {
  for (size_t i = 0; i < net->n_layer; ++i) {
    if (trains_statistics(net->layer[i])) return true;
  }
  return false;
}

static void upgrade_batch_norm(Caffe__NetParameter *net) {
  for (size_t i = 0; i < net->n_layer; ++i) {
    if (!trains_statistics(net->layer[i])) continue;
    for (size_t j = 0; j < net->layer[i]->n_param; ++j) {
      Caffe__ParamSpec *param = net->layer[i]->param[j];
      param->has_lr_mult = 1;
      param->lr_mult = 0.0F;
      param->has_decay_mult = 1;
      param->decay_mult = 0.0F;
    }
  }
}

/* ---- pooling --------------------------------------------------------------------- */

static bool ceil_mode_needed(const Caffe__NetParameter *net) {
  for (size_t i = 0; i < net->n_layer; ++i) {
    const Caffe__PoolingParameter *pooling = net->layer[i]->pooling_param;
    if (pooling != NULL && pooling->has_ceil_mode) return true;
  }
  return false;
}

static crema_status upgrade_ceil_mode(Caffe__NetParameter *net) {
  for (size_t i = 0; i < net->n_layer; ++i) {
    Caffe__PoolingParameter *pooling = net->layer[i]->pooling_param;
    if (pooling == NULL || !pooling->has_ceil_mode) continue;
    if (pooling->has_round_mode) {
      return cr_fail(CREMA_E_PARSE,
                     "layer \"%.200s\": both \"ceil_mode\" and \"round_mode\" are given; use "
                     "\"round_mode\"",
                     net->layer[i]->name != NULL ? net->layer[i]->name : "");
    }
    pooling->has_round_mode = 1;
    pooling->round_mode = pooling->ceil_mode ? CAFFE__POOLING_PARAMETER__ROUND_MODE__CEIL
                                             : CAFFE__POOLING_PARAMETER__ROUND_MODE__FLOOR;
    pooling->has_ceil_mode = 0;
    pooling->ceil_mode = 1;
  }
  return CREMA_OK;
}

/* ---- nets ------------------------------------------------------------------------ */

bool cr_net_param_needs_upgrade(const Caffe__NetParameter *net) {
  return cr_upgrade_v0_needed(net) || cr_upgrade_v1_needed(net) || net->n_input > 0 ||
         cr_upgrade_segnet_needed(net) || cr_upgrade_norm_needed(net) ||
         cr_upgrade_fused_needed(net) || batch_norm_needed(net) || ceil_mode_needed(net) ||
         cr_upgrade_names_needed(net);
}

/* All steps that the net needs, in their order; *fine becomes false when fields were dropped. */
static crema_status upgrade_net(Caffe__NetParameter *net, const char *source, bool *fine) {
  if (cr_upgrade_v0_needed(net)) {
    cr_log_info("%s: upgrading layers of the first format (V0LayerParameter)", source);
    CR_TRY(cr_upgrade_v0(net, fine));
  }
  if (cr_upgrade_transform_needed(net)) {
    cr_log_info("%s: upgrading transformation fields of data layers to transform_param", source);
    CR_TRY(cr_upgrade_transform(net));
  }
  if (cr_upgrade_v1_needed(net)) {
    cr_log_info("%s: upgrading layers of the second format (V1LayerParameter)", source);
    CR_TRY(cr_upgrade_v1(net, fine));
  }
  if (net->n_input > 0) {
    cr_log_info("%s: upgrading \"input\" fields to an Input layer", source);
    CR_TRY(upgrade_inputs(net, source));
  }
  if (cr_upgrade_names_needed(net)) {
    cr_log_info("%s: upgrading names of other forks", source);
    CR_TRY(cr_upgrade_names(net));
  }
  if (cr_upgrade_fused_needed(net)) {
    cr_log_info("%s: upgrading relu and scale_train of layers to layers of their own", source);
    CR_TRY(cr_upgrade_fused(net));
  }
  if (cr_upgrade_segnet_needed(net)) {
    cr_log_info("%s: upgrading layers of SegNet to BatchNorm, Scale, ImageSegData, InfogainLoss",
                source);
    CR_TRY(cr_upgrade_segnet(net));
  }
  if (cr_upgrade_norm_needed(net)) {
    cr_log_info("%s: upgrading BatchNorm layers that scale to BatchNorm and Scale layers", source);
    CR_TRY(cr_upgrade_norm(net));
  }
  if (batch_norm_needed(net)) {
    cr_log_info("%s: upgrading BatchNorm layers: their statistics are not trained", source);
    upgrade_batch_norm(net);
  }
  if (ceil_mode_needed(net)) {
    cr_log_info("%s: upgrading ceil_mode of Pooling layers to round_mode", source);
    CR_TRY(upgrade_ceil_mode(net));
  }
  return CREMA_OK;
}

crema_status cr_net_param_upgrade(Caffe__NetParameter *net, const char *source, bool *compatible) {
  bool fine = true;
  crema_status status = upgrade_net(net, source == NULL ? "net" : source, &fine);
  if (compatible != NULL) *compatible = fine && status == CREMA_OK;
  return source == NULL ? status : cr_fail_in(status, "%s", source);
}

/* ---- solvers ---------------------------------------------------------------------- */

static const char *solver_name(Caffe__SolverParameter__SolverType type) {
  switch (type) {
    case CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__SGD: return "SGD";
    case CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__NESTEROV: return "Nesterov";
    case CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__ADAGRAD: return "AdaGrad";
    case CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__RMSPROP: return "RMSProp";
    case CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__ADADELTA: return "AdaDelta";
    case CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__ADAM: return "Adam";
    case CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__SAG: return "SAG";
    default: return NULL;
  }
}

static crema_status upgrade_solver_type(Caffe__SolverParameter *solver, const char *source) {
  const ProtobufCFieldDescriptor *field =
      protobuf_c_message_descriptor_get_field_by_name(solver->base.descriptor, "type");
  if (cr_field_count(&solver->base, field) > 0) {
    return cr_fail(CREMA_E_PARSE, "both \"type\" and \"solver_type\" are given; use \"type\"");
  }
  const char *name = solver_name(solver->solver_type);
  if (name == NULL) {
    return cr_fail(CREMA_E_UNKNOWN_NAME, "unknown solver_type %d", (int)solver->solver_type);
  }
  char *type = cr_proto_strdup(name);
  if (type == NULL) return cr_fail_memory(strlen(name) + 1, "the solver's type");
  cr_log_info("%s: upgrading solver_type to type: \"%s\"", source, name);
  solver->type = type;
  solver->has_solver_type = 0;
  solver->solver_type = CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__SGD;
  return CREMA_OK;
}

/* Nets inside the solver file are named "<source>: <field>". */
static crema_status upgrade_inner(Caffe__NetParameter *net, const char *source, const char *field) {
  cr_buffer name = {0};
  if (net == NULL) return CREMA_OK;
  crema_status status = cr_buffer_print(&name, "%s: %s", source, field);
  bool fine = true;
  if (status == CREMA_OK) status = cr_fail_in(upgrade_net(net, name.data, &fine), "%s", field);
  cr_buffer_free(&name);
  return status;
}

static crema_status upgrade_solver(Caffe__SolverParameter *solver, const char *source) {
  if (solver->has_solver_type) CR_TRY(upgrade_solver_type(solver, source));
  CR_TRY(upgrade_inner(solver->net_param, source, "net_param"));
  CR_TRY(upgrade_inner(solver->train_net_param, source, "train_net_param"));
  for (size_t i = 0; i < solver->n_test_net_param; ++i) {
    char field[64];
    snprintf(field, sizeof field, "test_net_param %zu", i);
    CR_TRY(upgrade_inner(solver->test_net_param[i], source, field));
  }
  return CREMA_OK;
}

crema_status cr_solver_param_upgrade(Caffe__SolverParameter *solver, const char *source) {
  crema_status status = upgrade_solver(solver, source == NULL ? "solver" : source);
  return source == NULL ? status : cr_fail_in(status, "%s", source);
}
