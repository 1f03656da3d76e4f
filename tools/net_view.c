#include "net_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/list.h"
#include "device_flag.h"

const char cli_view_input_help[] =
    "The net is built, so that layers that read data need theirs, unless -input gives the shapes\n"
    "of their tops: -input data=8x3x227x227,label=8. It gives the layer Input other shapes, too.\n";

void cli_view_flags_list(cli_view_flags *flags, cli_flag out[CLI_VIEW_FLAGS]) {
  *flags = (cli_view_flags){.model = "", .phase = "", .stage = "", .input = "", .plugin = ""};
  const cli_flag list[CLI_VIEW_FLAGS] = {
      {"model", CLI_FILE, &flags->model, "the net (text)"},
      {"phase", CLI_WORD, &flags->phase, "TRAIN, or TEST, the default"},
      {"level", CLI_INT, &flags->level, "level of the net's state"},
      {"stage", CLI_NAMES, &flags->stage, "stages of the net's state, separated by commas"},
      {"input", CLI_SHAPES, &flags->input, "shapes of the net's inputs: NAME=NxCxHxW,..."},
      {"plugin", CLI_FILES, &flags->plugin, CLI_PLUGIN_HELP},
      {"warn_unknown_fields", CLI_BOOL, &flags->warn_unknown_fields, CLI_UNKNOWN_FIELDS_HELP},
  };
  memcpy(out, list, sizeof list);
}

/* ---- inputs of given shapes ---------------------------------------------- */

/* The shape of the blob `name` in a list of NAME=SHAPE; NULL: not there. */
static const char *shape_of(const cr_list *inputs, const char *name) {
  const size_t length = strlen(name);
  for (size_t i = 0; i < inputs->count; ++i) {
    const char *item = inputs->item[i];
    if (strncmp(item, name, length) == 0 && item[length] == '=') return item + length + 1;
  }
  return NULL;
}

static crema_status read_shape(const char *name, const char *text, Caffe__BlobShape **out) {
  Caffe__BlobShape *shape = cr_proto_alloc(sizeof *shape);
  if (shape == NULL) return cr_fail_memory(sizeof *shape, "a shape");
  caffe__blob_shape__init(shape);
  *out = shape;
  shape->dim = cr_proto_alloc(CREMA_MAX_AXES * sizeof *shape->dim);
  if (shape->dim == NULL) return cr_fail_memory(CREMA_MAX_AXES * sizeof *shape->dim, "a shape");
  for (const char *at = text;; ++at) {
    char *end;
    const long long value = strtoll(at, &end, 10);
    if (end == at || value < 1 || (*end != '\0' && *end != 'x') || shape->n_dim == CREMA_MAX_AXES) {
      return cr_fail(CREMA_E_ARGUMENT, "-input %s=%s: expected a shape such as 8x3x227x227", name,
                     text);
    }
    shape->dim[shape->n_dim++] = value;
    if (*end == '\0') return CREMA_OK;
    at = end;
  }
}

static crema_status read_shapes(const Caffe__LayerParameter *layer, const cr_list *inputs,
                                Caffe__InputParameter *input) {
  input->shape = cr_proto_alloc(layer->n_top * sizeof *input->shape);
  if (input->shape == NULL) return cr_fail_memory(layer->n_top * sizeof *input->shape, "shapes");
  for (size_t i = 0; i < layer->n_top; ++i) {
    const char *text = shape_of(inputs, layer->top[i]);
    if (text == NULL) {
      return cr_fail(CREMA_E_ARGUMENT, "-input: layer '%s' makes '%s', too; give its shape",
                     layer->name, layer->top[i]);
    }
    input->shape[i] = NULL;
    crema_status status = read_shape(layer->top[i], text, &input->shape[i]);
    if (input->shape[i] != NULL) input->n_shape = i + 1;
    CR_TRY(status);
  }
  return CREMA_OK;
}

/* Makes a layer without bottoms one that is an input of the given shapes. */
static crema_status make_input(Caffe__LayerParameter *layer, const cr_list *inputs) {
  Caffe__InputParameter *input = cr_proto_alloc(sizeof *input);
  char *type = cr_proto_strdup("Input");
  if (input == NULL || type == NULL) {
    free(input);
    free(type);
    return cr_fail_memory(sizeof *input, "an input");
  }
  caffe__input_parameter__init(input);
  if (layer->input_param != NULL) cr_message_free(&layer->input_param->base);
  layer->input_param = input;
  free(layer->type);
  layer->type = type;
  return read_shapes(layer, inputs, input);
}

static bool is_named(const Caffe__LayerParameter *layer, const cr_list *inputs) {
  for (size_t i = 0; i < layer->n_top; ++i) {
    if (shape_of(inputs, layer->top[i]) != NULL) return true;
  }
  return false;
}

static bool is_used(const Caffe__NetParameter *param, const char *item) {
  for (size_t i = 0; i < param->n_layer; ++i) {
    const Caffe__LayerParameter *layer = param->layer[i];
    for (size_t j = 0; j < layer->n_top && layer->n_bottom == 0; ++j) {
      const size_t length = strlen(layer->top[j]);
      if (strncmp(item, layer->top[j], length) == 0 && item[length] == '=') return true;
    }
  }
  return false;
}

static crema_status set_inputs(Caffe__NetParameter *param, const char *text) {
  cr_list inputs = {0};
  crema_status status = cr_list_split(text, &inputs);
  for (size_t i = 0; i < inputs.count && status == CREMA_OK; ++i) {
    if (is_used(param, inputs.item[i])) continue;
    status = cr_fail(CREMA_E_UNKNOWN_NAME, "-input %s: no layer without bottoms makes that blob",
                     inputs.item[i]);
  }
  for (size_t i = 0; i < param->n_layer && status == CREMA_OK; ++i) {
    Caffe__LayerParameter *layer = param->layer[i];
    if (layer->n_bottom == 0 && is_named(layer, &inputs)) status = make_input(layer, &inputs);
  }
  cr_list_free(&inputs);
  return status;
}

/* ---- the net ------------------------------------------------------------- */

/* The names of the layers without bottoms. */
static crema_status list_sources(const Caffe__NetParameter *param, cr_list *out) {
  for (size_t i = 0; i < param->n_layer; ++i) {
    const Caffe__LayerParameter *layer = param->layer[i];
    if (layer->n_bottom > 0 || layer->name == NULL) continue;
    CR_TRY(cr_list_add(out, layer->name, strlen(layer->name)));
  }
  return CREMA_OK;
}

/* *sources gets the names of the layers that may be given as -input; the caller frees it. */
static crema_status open_net(const cli_view_flags *flags, crema_net_options *options,
                             cr_list *sources, crema_net **out) {
  Caffe__NetParameter *param = NULL;
  cr_list stages = {0};
  crema_status status = cr_list_split(flags->stage, &stages);
  options->stages = (const char *const *)stages.item;
  options->stage_count = stages.count;
  if (status == CREMA_OK) {
    status = cr_net_param_load(flags->model, flags->warn_unknown_fields, &param);
  }
  if (status == CREMA_OK) {
    status = set_inputs(param, flags->input);
    if (status == CREMA_OK) status = list_sources(param, sources);
    if (status != CREMA_OK) cr_message_free(&param->base);
  }
  if (status == CREMA_OK) {
    const cr_net_build_options build = {.path = flags->model, .awaits_params = true};
    status = cr_net_create(param, options, &build, out);
  }
  cr_list_free(&stages);
  return status;
}

/* Whether a layer failed that -input can replace. */
static bool lacks_data(crema_status status, const cr_list *sources) {
  for (size_t i = 0; i < sources->count && status == CREMA_E_NOT_FOUND; ++i) {
    if (strcmp(sources->item[i], crema_error_layer()) == 0) return true;
  }
  return false;
}

bool cli_view_open(const cli_view_flags *flags, crema_net **out) {
  crema_net_options options;
  crema_net_options_init(&options);
  *out = NULL;
  if (!cli_check_level(flags->level) || !cli_load_plugins(flags->plugin) ||
      !cli_choose_phase(flags->phase, &options.phase)) {
    return false;
  }
  options.level = (int)flags->level;
  cr_list sources = {0};
  const crema_status status = open_net(flags, &options, &sources, out);
  /* A layer finds its data no more than the command needs it. */
  if (lacks_data(status, &sources)) {
    cli_error("%s; -input NAME=SHAPE,... gives the shapes of data that is not there",
              crema_error_text());
  } else if (status != CREMA_OK) {
    cli_fail();
  }
  cr_list_free(&sources);
  return status == CREMA_OK;
}

bool cli_view_is_split(const crema_net *net, int layer) {
  return strcmp(crema_net_layer_type(net, layer), "Split") == 0;
}

const char *cli_view_blob_name(const crema_net *net, int blob) {
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    for (int t = 0; t < layer->layer->tops && cli_view_is_split(net, i); ++t) {
      if (layer->top_id[t] == blob) return cli_view_blob_name(net, layer->bottom_id[0]);
    }
  }
  return crema_net_blob_name(net, blob);
}

void cli_view_shape_text(const crema_blob *blob, char *out, size_t size) {
  const crema_shape *shape = crema_blob_shape(blob);
  size_t used = (size_t)snprintf(out, size, "%s", shape->axes == 0 ? "scalar" : "");
  for (int i = 0; i < shape->axes && used < size; ++i) {
    used +=
        (size_t)snprintf(out + used, size - used, "%s%" PRId64, i > 0 ? "x" : "", shape->dim[i]);
  }
}
