/* Making and freeing nets, and access to them. */
#include <math.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/rng.h"
#include "device/backend/current.h"
#include "device/device.h"
#include "memory/tensor_source.h"
#include "memory/trace.h"
#include "net/graph.h"
#include "net/graphs.h"
#include "net/lifetimes.h"
#include "net/loss.h"
#include "net/run.h"

void crema_net_options_init(crema_net_options *options) {
  if (options == NULL) return;
  *options = (crema_net_options){.phase = CREMA_TEST, .seed = -1};
}

void crema_net_destroy(crema_net *net) {
  if (net == NULL) return;
  cr_trace_destroy(net->recording.trace);
  cr_net_graphs_free(net);
  cr_net_loss_free(net);
  free(net->decay_mult);
  free(net->lr_mult);
  free(net->learnable);
  free(net->net_param);
  for (int i = 0; net->layer != NULL && i < net->layers; ++i) cr_layer_destroy(net->layer[i].layer);
  for (int i = 0; i < net->blobs; ++i) crema_blob_destroy(net->blob[i]);
  cr_name_map_free(&net->layer_index);
  cr_name_map_free(&net->blob_index);
  cr_tensor_scratch_release(net->per_use);
  if (net->owns_context) crema_context_destroy(net->context);
  if (net->param != NULL) cr_message_free(&net->param->base);
  cr_arena_free(&net->arena);
  free(net);
}

/* Sets everything but the graph. */
static crema_status start_net(crema_net *net, const crema_net_options *options,
                              const cr_net_build_options *build) {
  const Caffe__NetParameter *param = net->param;
  net->phase = options->phase;
  net->seed = options->seed < 0 ? cr_random_seed() : (uint64_t)options->seed;
  net->recomputes = options->recompute && options->phase == CREMA_TRAIN;
  net->plans = options->plan_memory || net->recomputes;
  net->debug_info = param->debug_info;
  net->grad_scale = (double)param->global_grad_scale;
  if (!(net->grad_scale > 0 && isfinite(net->grad_scale))) {
    return cr_fail(CREMA_E_RANGE, "global_grad_scale must be above 0, found %g", net->grad_scale);
  }
  /* A net of Intel Caffe may require several machines for a layer. */
  for (size_t i = 0; param->multinode != NULL && i < param->multinode->n_model_parallel; ++i) {
    const Caffe__MnModelParallelParameter *part = param->multinode->model_parallel[i];
    if (part->num_nodes <= 1) continue;
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "multinode: num_nodes is %u: layers from \"%.200s\" on that are divided between "
                   "machines are not supported",
                   part->num_nodes, part->layer_from);
  }
  CR_TRY(cr_arena_text(&net->arena, cr_net_text(param->name), &net->name));
  if (build->path != NULL) CR_TRY(cr_arena_text(&net->arena, build->path, &net->path));
  net->context = build->context;
  if (net->context != NULL) return CREMA_OK;
  crema_device *device = options->device == NULL ? cr_cpu_device() : options->device;
  CR_TRY(crema_context_create(device, net->seed, &net->context));
  net->owns_context = true;
  cr_context_set_math(net->context, options->math);
  return CREMA_OK;
}

/* Filters, splits and builds the layers. */
static crema_status build_net(crema_net *net, const crema_net_options *options,
                              const cr_net_build_options *build, cr_net_left_out *left_out) {
  Caffe__NetParameter *param = net->param;
  const size_t given = param->n_layer;
  const cr_net_state state = {.phase = options->phase,
                              .level = options->level,
                              .stages = options->stages,
                              .stage_count = options->stage_count,
                              .own = param->state};
  for (size_t i = 0; options->skip_corrupt && i < given; ++i) {
    Caffe__DataParameter *data = param->layer[i]->data_param;
    if (data != NULL) data->has_skip_corrupt = data->skip_corrupt = 1;
  }
  CR_TRY(start_net(net, options, build));
  CR_TRY(cr_net_filter(net, &state, left_out));
  CR_TRY(cr_net_insert_splits(net, left_out));
  if (build->frozen != NULL && param->n_layer != given) {
    return cr_fail(CREMA_E_INTERNAL, "a compiled net of %zu layers became one of %zu", given,
                   param->n_layer);
  }
  /* The device is the thread's current device during building, so that the tensors belong to it and
   * their host memory is page-locked. */
  cr_device_guard guard;
  CR_TRY(cr_device_enter(net->context->device, &guard));
  const bool force_backward = options->force_backward || param->force_backward;
  crema_status status = cr_net_build_graph(net, build, force_backward);
  cr_device_leave(guard);
  if (status == CREMA_OK) status = cr_net_loss_make(net);
  if (status == CREMA_OK) cr_net_label_values(net);
  if (status == CREMA_OK && build->frozen != NULL) status = cr_net_make_commands(net);
  if (status == CREMA_OK && options->graphs) status = cr_net_graphs_make(net);
  return status;
}

crema_status cr_net_create(Caffe__NetParameter *param, const crema_net_options *options,
                           const cr_net_build_options *given, crema_net **out) {
  cr_net_build_options build = *given;
  cr_net_left_out left_out = {0};
  crema_net *net = calloc(1, sizeof *net);
  if (net == NULL) {
    cr_message_free(&param->base);
    return cr_fail_memory(sizeof *net, "a net");
  }
  net->param = param;
  if (options->phase == CREMA_TEST && build.solver != NULL && !build.solver->tests) {
    build.solver = NULL;
  }
  const cr_solver_rank *solver = build.solver;
  crema_status status = CREMA_OK;
  if (solver != NULL && (solver->rank < 0 || solver->rank >= solver->solvers)) {
    status = cr_fail(CREMA_E_RANGE, "a net for solver %d of %d", solver->rank, solver->solvers);
  }
  if (status == CREMA_OK) status = build_net(net, options, &build, &left_out);
  cr_net_left_out_free(&left_out);
  if (status != CREMA_OK) {
    if (net->path != NULL) status = cr_net_fail_in_file(net, status);
    crema_net_destroy(net);
    return status;
  }
  cr_log_debug("Network initialization done.");
  *out = net;
  return CREMA_OK;
}

/* `given`, or else the standard options. */
static const crema_net_options *options_of(const crema_net_options *given,
                                           crema_net_options *standard) {
  crema_net_options_init(standard);
  return given == NULL ? standard : given;
}

crema_status crema_net_load(const char *path, const crema_net_options *options, crema_net **out) {
  CR_REQUIRE(path);
  CR_REQUIRE(out);
  crema_net_options standard;
  options = options_of(options, &standard);
  Caffe__NetParameter *param = NULL;
  CR_TRY(cr_net_param_load(path, options->warn_unknown_fields, &param));
  return cr_net_create(param, options, &(cr_net_build_options){.path = path}, out);
}

crema_status crema_net_parse(const char *text, size_t size, const char *source,
                             const crema_net_options *options, crema_net **out) {
  CR_REQUIRE(text);
  CR_REQUIRE(out);
  crema_net_options standard;
  options = options_of(options, &standard);
  Caffe__NetParameter *param = NULL;
  CR_TRY(cr_net_param_parse(text, size, source, options->warn_unknown_fields, &param));
  return cr_net_create(param, options, &(cr_net_build_options){.path = source}, out);
}

int crema_net_input_count(const crema_net *net) {
  return net == NULL ? 0 : net->inputs;
}

static int input_at(const crema_net *net, int index) {
  return net == NULL || index < 0 || index >= net->inputs ? -1 : net->input[index];
}

crema_blob *crema_net_input(crema_net *net, int index) {
  const int blob = input_at(net, index);
  return blob < 0 ? NULL : net->blob[blob];
}

const char *crema_net_input_name(const crema_net *net, int index) {
  const int blob = input_at(net, index);
  return blob < 0 ? NULL : net->blob_name[blob];
}

int crema_net_output_count(const crema_net *net) {
  return net == NULL ? 0 : net->outputs;
}

static int output_at(const crema_net *net, int index) {
  return net == NULL || index < 0 || index >= net->outputs ? -1 : net->output[index];
}

crema_blob *crema_net_output(crema_net *net, int index) {
  const int blob = output_at(net, index);
  return blob < 0 ? NULL : net->blob[blob];
}

const char *crema_net_output_name(const crema_net *net, int index) {
  const int blob = output_at(net, index);
  return blob < 0 ? NULL : net->blob_name[blob];
}

crema_status crema_net_blob(crema_net *net, const char *name, crema_blob **out) {
  CR_REQUIRE(net);
  CR_REQUIRE(name);
  CR_REQUIRE(out);
  int index = cr_name_map_get(&net->blob_index, name);
  if (index >= 0) {
    cr_net_keep_blob(net, index);
    *out = net->blob[index];
    return CREMA_OK;
  }
  const char *nearest = cr_name_map_nearest(&net->blob_index, name);
  return cr_fail(CREMA_E_UNKNOWN_NAME, "net '%s' has no blob '%s'%s%s%s", net->name, name,
                 nearest == NULL ? "" : "; did you mean '", nearest == NULL ? "" : nearest,
                 nearest == NULL ? "" : "'?");
}

int crema_net_blob_count(const crema_net *net) {
  return net == NULL ? 0 : net->blobs;
}

const char *crema_net_blob_name(const crema_net *net, int index) {
  return net == NULL || index < 0 || index >= net->blobs ? NULL : net->blob_name[index];
}

const char *crema_net_name(const crema_net *net) {
  return net == NULL ? NULL : net->name;
}

int crema_net_layer_count(const crema_net *net) {
  return net == NULL ? 0 : net->layers;
}

static const cr_layer *layer_at(const crema_net *net, int layer) {
  return net == NULL || layer < 0 || layer >= net->layers ? NULL : net->layer[layer].layer;
}

const char *crema_net_layer_name(const crema_net *net, int layer) {
  const cr_layer *found = layer_at(net, layer);
  return found == NULL ? NULL : found->name;
}

const char *crema_net_layer_type(const crema_net *net, int layer) {
  const cr_layer *found = layer_at(net, layer);
  return found == NULL ? NULL : found->kind->type;
}

int crema_net_layer_param_count(const crema_net *net, int layer) {
  const cr_layer *found = layer_at(net, layer);
  return found == NULL ? 0 : found->params;
}

crema_blob *crema_net_layer_param(crema_net *net, int layer, int index) {
  if (index < 0 || index >= crema_net_layer_param_count(net, layer)) return NULL;
  return net->layer[layer].layer->blob[index];
}
