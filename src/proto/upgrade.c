/* Brings old nets and solvers to today's form. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "proto/upgrade.h"

/* Entries of input_dim for one input: 4, or 5 in nets of C3D. */
static size_t dims_of_input(const Caffe__NetParameter *net) {
  return net->n_input_dim == 5 * net->n_input ? 5 : 4;
}

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
  const size_t dims = dims_of_input(net);
  CR_TRY(cr_field_reserve(*out, &shape->base.descriptor->fields[0], dims));
  for (; shape->n_dim < dims; ++shape->n_dim) {
    shape->dim[shape->n_dim] = net->input_dim[dims * index + shape->n_dim];
  }
  return CREMA_OK;
}

/* Fills an Input layer with the names and shapes of the net's inputs. */
static crema_status fill_input_layer(Caffe__NetParameter *net, Caffe__LayerParameter *layer) {
  Caffe__InputParameter *input = NULL;
  CR_TRY(cr_upgrade_text(&layer->name, "input", ""));
  CR_TRY(cr_upgrade_text(&layer->type, "Input", ""));
  CR_TRY(cr_message_inner(&layer->base, "input_param", &input));
  CR_TRY(cr_message_reserve(&input->base, "shape", net->n_input));
  for (size_t i = 0; i < net->n_input; ++i) {
    ProtobufCMessage *shape = NULL;
    crema_status status = copy_shape(net, i, &shape);
    if (shape != NULL) input->shape[input->n_shape++] = (Caffe__BlobShape *)shape;
    if (status != CREMA_OK) return status;
  }
  return cr_message_move(&net->base, "input", &layer->base, "top");
}

static bool has_inputs(const Caffe__NetParameter *net) {
  return net->n_input > 0;
}

static crema_status upgrade_inputs(cr_upgrade *upgrade) {
  static const char *const old[] = {"input", "input_shape", "input_dim"};
  Caffe__NetParameter *net = upgrade->net;
  if (net->n_input_shape > 0 || net->n_input_dim > 0) {
    ProtobufCMessage *layer;
    CR_TRY(check_inputs(net));
    CR_TRY(cr_message_reserve(&net->base, "layer", 1));
    CR_TRY(cr_message_new(&caffe__layer_parameter__descriptor, &layer));
    memmove(net->layer + 1, net->layer, net->n_layer * sizeof *net->layer);
    net->layer[0] = (Caffe__LayerParameter *)layer;
    ++net->n_layer;
    CR_TRY(fill_input_layer(net, net->layer[0]));
  } else {
    /* Models of early versions have this form; a net to run needs the shape. */
    for (size_t i = 0; i < net->n_input; ++i) {
      cr_log_warning("%s: input \"%s\" is omitted, as it has neither input_shape nor input_dim",
                     upgrade->source, net->input[i]);
    }
  }
  for (int i = 0; i < 3; ++i) cr_message_clear(&net->base, old[i]);
  return CREMA_OK;
}

/* The three blobs of BatchNorm are statistics, not to be trained. Multipliers other than 0 in an
 * old net mean that its author forgot to say so. */
static bool trains_statistics(const Caffe__LayerParameter *layer) {
  if (!cr_upgrade_is_of(layer, "BatchNorm") || layer->n_param != 3) return false;
  for (size_t i = 0; i < layer->n_param; ++i) {
    if (layer->param[i]->lr_mult != 0.0F || layer->param[i]->decay_mult != 0.0F) return true;
  }
  return false;
}

static crema_status upgrade_batch_norm(cr_upgrade *upgrade) {
  for (size_t i = 0; i < upgrade->net->n_layer; ++i) {
    const Caffe__LayerParameter *layer = upgrade->net->layer[i];
    if (!trains_statistics(layer)) continue;
    for (size_t j = 0; j < layer->n_param; ++j) {
      layer->param[j]->has_lr_mult = layer->param[j]->has_decay_mult = 1;
      layer->param[j]->lr_mult = layer->param[j]->decay_mult = 0.0F;
    }
  }
  return CREMA_OK;
}

static bool has_ceil_mode(const Caffe__LayerParameter *layer) {
  return layer->pooling_param != NULL && layer->pooling_param->has_ceil_mode;
}

static crema_status upgrade_ceil_mode(cr_upgrade *upgrade) {
  for (size_t i = 0; i < upgrade->net->n_layer; ++i) {
    const Caffe__LayerParameter *layer = upgrade->net->layer[i];
    Caffe__PoolingParameter *pooling = layer->pooling_param;
    if (!has_ceil_mode(layer)) continue;
    if (pooling->has_round_mode) {
      return cr_upgrade_in_layer(upgrade, &layer->base,
                                 cr_upgrade_twice("ceil_mode", "round_mode"));
    }
    pooling->has_round_mode = 1;
    pooling->round_mode = pooling->ceil_mode ? CAFFE__POOLING_PARAMETER__ROUND_MODE__CEIL
                                             : CAFFE__POOLING_PARAMETER__ROUND_MODE__FLOOR;
    pooling->has_ceil_mode = 0;
    pooling->ceil_mode = 1;
  }
  return CREMA_OK;
}

typedef struct upgrade_step {
  bool (*net_needs)(const Caffe__NetParameter *net); /* NULL: a layer decides */
  bool (*layer_needs)(const Caffe__LayerParameter *layer);
  crema_status (*run)(cr_upgrade *upgrade);
  const char *what; /* the step upgrades, for the log */
} upgrade_step;

/* The steps, in their order. */
static const upgrade_step steps[] = {
    {cr_upgrade_v0_needed, NULL, cr_upgrade_v0, "layers of the first format (V0LayerParameter)"},
    {cr_upgrade_c3d_needed, NULL, cr_upgrade_c3d, "types of layers by C3D's numbers"},
    {cr_upgrade_transform_needed, NULL, cr_upgrade_transform,
     "transformation fields of data layers to transform_param"},
    {cr_upgrade_v1_needed, NULL, cr_upgrade_v1, "layers of the second format (V1LayerParameter)"},
    {has_inputs, NULL, upgrade_inputs, "\"input\" fields to an Input layer"},
    {NULL, cr_upgrade_names_needed, cr_upgrade_names, "names of other forks"},
    {NULL, cr_upgrade_clips_needed, cr_upgrade_clips, "VideoData with a list to VideoClips"},
    {NULL, cr_upgrade_volumes_needed, cr_upgrade_volumes,
     "layers over three axes of C3D and video-caffe to Convolution, Deconvolution and Pooling"},
    {cr_upgrade_fused_needed, NULL, cr_upgrade_fused,
     "relu and scale_train of layers to separate layers"},
    {NULL, cr_upgrade_segnet_needed, cr_upgrade_segnet,
     "layers of SegNet to BatchNorm, Scale, ImageSegData, InfogainLoss"},
    {NULL, cr_upgrade_norm_needed, cr_upgrade_norm,
     "BatchNorm layers that scale to BatchNorm and Scale layers"},
    {NULL, trains_statistics, upgrade_batch_norm,
     "BatchNorm layers: their statistics are not trained"},
    {NULL, has_ceil_mode, upgrade_ceil_mode, "ceil_mode of Pooling layers to round_mode"},
};

enum { STEPS = sizeof steps / sizeof steps[0] };

static bool is_needed(int step, const Caffe__NetParameter *net) {
  if (steps[step].net_needs != NULL) return steps[step].net_needs(net);
  return cr_upgrade_any(net, steps[step].layer_needs);
}

bool cr_net_param_needs_upgrade(const Caffe__NetParameter *net) {
  int step = 0;
  while (step < STEPS && !is_needed(step, net)) ++step;
  return step < STEPS;
}

bool cr_net_param_upgrades_type(const char *type) {
  Caffe__LayerParameter layer = CAFFE__LAYER_PARAMETER__INIT;
  char name[64], *top = name;
  int step = 0;
  snprintf(name, sizeof name, "%s", type);
  layer.type = name;
  layer.top = &top;
  layer.n_top = 1;
  while (step < STEPS && (steps[step].layer_needs == NULL || !steps[step].layer_needs(&layer))) {
    ++step;
  }
  return step < STEPS;
}

/* Adds a file, if it is known, and a line to a failure. */
static crema_status in_file(crema_status status, const char *file, size_t line) {
  return cr_fail_where(status, &(cr_where){.file = file, .line = line});
}

/* All steps that the net needs. */
static crema_status upgrade_net(cr_upgrade *upgrade) {
  crema_status status = CREMA_OK;
  for (int i = 0; i < STEPS && status == CREMA_OK; ++i) {
    if (!is_needed(i, upgrade->net)) continue;
    cr_log_info("%s: upgrading %s", upgrade->source, steps[i].what);
    status = steps[i].run(upgrade);
  }
  return status;
}

/* The inputs of a net that only carries weights have no use. */
crema_status cr_weights_param_upgrade(Caffe__NetParameter *net, const char *source) {
  cr_upgrade upgrade = {.net = net, .source = source, .fine = true};
  crema_status status = CREMA_OK;
  for (int i = 0; i < STEPS && status == CREMA_OK; ++i) {
    if (steps[i].run == upgrade_inputs || !is_needed(i, net)) continue;
    cr_log_debug("%s: upgrading %s", source, steps[i].what);
    status = steps[i].run(&upgrade);
  }
  return in_file(status, source, 0);
}

crema_status cr_net_param_upgrade(Caffe__NetParameter *net, const char *source, bool *compatible) {
  cr_upgrade upgrade = {.net = net, .source = source == NULL ? "net" : source, .fine = true};
  crema_status status = upgrade_net(&upgrade);
  status = in_file(status, source, upgrade.line);
  if (compatible != NULL) *compatible = upgrade.fine && status == CREMA_OK;
  return status;
}

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
  if (cr_field_count(&solver->base, cr_message_field(&solver->base, "type")) > 0) {
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

/* Nets inside the solver file are named "<source>: <field>" in the log. */
static crema_status upgrade_inner(Caffe__NetParameter *net, const char *source, const char *field) {
  cr_buffer name = {0};
  if (net == NULL) return CREMA_OK;
  CR_TRY(cr_buffer_print(&name, "%s: %s", source == NULL ? "solver" : source, field));
  cr_upgrade upgrade = {.net = net, .source = name.data, .fine = true};
  crema_status status = cr_fail_in(upgrade_net(&upgrade), "%s", field);
  cr_buffer_free(&name);
  return in_file(status, source, upgrade.line);
}

crema_status cr_solver_param_upgrade(Caffe__SolverParameter *solver, const char *source) {
  if (solver->has_solver_type) {
    crema_status status = upgrade_solver_type(solver, source == NULL ? "solver" : source);
    if (status != CREMA_OK) return in_file(status, source, 0);
  }
  CR_TRY(upgrade_inner(solver->net_param, source, "net_param"));
  CR_TRY(upgrade_inner(solver->train_net_param, source, "train_net_param"));
  for (size_t i = 0; i < solver->n_test_net_param; ++i) {
    char field[64];
    snprintf(field, sizeof field, "test_net_param %zu", i);
    CR_TRY(upgrade_inner(solver->test_net_param[i], source, field));
  }
  return CREMA_OK;
}
