#include "layer_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/hdf5_reader.h"
#include "net/net.h"

/* ---- shapes -------------------------------------------------------------- */

/* Reads "8x3x32x32" or "8,3,32,32", up to a ';' or the end; *text is moved behind it. */
static crema_status read_shape(const char **text, crema_shape *out) {
  const char *at = *text;
  *out = (crema_shape){.axes = 0};
  for (;; ++at) {
    char *end;
    const long long value = strtoll(at, &end, 10);
    if (end == at || value < 1 || out->axes == CREMA_MAX_AXES ||
        (*end != '\0' && strchr("x,;", *end) == NULL)) {
      return cr_fail(CREMA_E_ARGUMENT, "-input: expected shapes such as 8x3x32x32;8, found \"%s\"",
                     *text);
    }
    out->dim[out->axes++] = value;
    at = end;
    if (*end == ';' || *end == '\0') break;
  }
  *text = *at == ';' ? at + 1 : at;
  return CREMA_OK;
}

/* The shape of a bottom in a file of -dump_blobs. */
static crema_status look_up(cr_hdf5_reader *file, const char *bottom, crema_shape *out) {
  char path[1024];
  cr_hdf5_info set;
  snprintf(path, sizeof path, "/blobs/%s/data", bottom);
  CR_TRY(cr_hdf5_look(file, path, &set));
  if (set.kind != CR_HDF5_SET) return cr_fail(CREMA_E_NOT_FOUND, "there is no data set %s", path);
  return cr_hdf5_shape(&set, out);
}

static crema_status shapes_of_file(const char *input, char *const *bottom, size_t bottoms,
                                   crema_shape *out) {
  cr_hdf5_reader *file;
  crema_status status = CREMA_OK;
  CR_TRY(cr_hdf5_reader_open(input, &file));
  for (size_t i = 0; i < bottoms && status == CREMA_OK; ++i) {
    status = cr_fail_in(look_up(file, bottom[i], &out[i]), "%s", input);
  }
  cr_hdf5_reader_close(file);
  return status;
}

bool cli_is_dump(const char *input) {
  const size_t length = strlen(input);
  return length > 3 && strcmp(input + length - 3, ".h5") == 0;
}

static crema_status shapes_of_text(const char *input, const Caffe__LayerParameter *layer,
                                   size_t bottoms, crema_shape *out) {
  const char *at = input;
  size_t given = 0;
  while (*at != '\0') {
    crema_shape shape;
    CR_TRY(read_shape(&at, &shape));
    if (given < bottoms) out[given] = shape;
    ++given;
  }
  if (given == bottoms) return CREMA_OK;
  return cr_fail(CREMA_E_ARGUMENT,
                 "-input must give one shape for each bottom of layer '%s' (%s), %zu in all, with "
                 "';' between them; found %zu",
                 layer->name, layer->type, bottoms, given);
}

/* ---- the Input layer ----------------------------------------------------- */

static crema_status make_shape(const crema_shape *shape, Caffe__BlobShape **out) {
  Caffe__BlobShape *made = cr_proto_alloc(sizeof *made);
  if (made == NULL) return cr_fail_memory(sizeof *made, "a shape");
  caffe__blob_shape__init(made);
  *out = made;
  made->dim = cr_proto_alloc((size_t)shape->axes * sizeof *made->dim);
  if (made->dim == NULL) return cr_fail_memory(sizeof *made, "a shape");
  for (int i = 0; i < shape->axes; ++i) made->dim[made->n_dim++] = shape->dim[i];
  return CREMA_OK;
}

/* Fills an Input layer whose tops are those bottoms. */
static crema_status fill_input(Caffe__LayerParameter *input, char *const *bottom, size_t bottoms,
                               const crema_shape *shape) {
  Caffe__InputParameter *param = cr_proto_alloc(sizeof *param);
  if (param == NULL) return cr_fail_memory(sizeof *param, "an input");
  caffe__input_parameter__init(param);
  input->input_param = param;
  input->name = cr_proto_strdup("input");
  input->type = cr_proto_strdup("Input");
  input->top = cr_proto_alloc(bottoms * sizeof *input->top);
  param->shape = cr_proto_alloc(bottoms * sizeof *param->shape);
  if (input->name == NULL || input->type == NULL || input->top == NULL || param->shape == NULL) {
    return cr_fail_memory(bottoms * sizeof *input->top, "an input");
  }
  for (size_t i = 0; i < bottoms; ++i) {
    input->top[i] = cr_proto_strdup(bottom[i]);
    if (input->top[i] == NULL) return cr_fail_memory(strlen(bottom[i]), "an input");
    input->n_top = i + 1;
    param->shape[i] = NULL;
    const crema_status status = make_shape(&shape[i], &param->shape[i]);
    if (param->shape[i] != NULL) param->n_shape = i + 1;
    CR_TRY(status);
  }
  return CREMA_OK;
}

/* Puts a layer in front of the only one. */
static crema_status add_input(Caffe__NetParameter *param, char *const *bottom, size_t bottoms,
                              const crema_shape *shape) {
  Caffe__LayerParameter **list = cr_proto_alloc(2 * sizeof *list);
  Caffe__LayerParameter *input = cr_proto_alloc(sizeof *input);
  if (list == NULL || input == NULL) {
    free(list);
    free(input);
    return cr_fail_memory(sizeof *input, "an input");
  }
  caffe__layer_parameter__init(input);
  list[0] = input;
  list[1] = param->layer[0];
  free(param->layer);
  param->layer = list;
  param->n_layer = 2;
  return fill_input(input, bottom, bottoms, shape);
}

/* ---- the net ------------------------------------------------------------- */

/* The bottoms of the layer, each name once. */
static size_t list_bottoms(const Caffe__LayerParameter *layer, char **out) {
  size_t count = 0;
  for (size_t i = 0; i < layer->n_bottom; ++i) {
    size_t k = 0;
    while (k < count && strcmp(out[k], layer->bottom[i]) != 0) ++k;
    if (k == count) out[count++] = layer->bottom[i];
  }
  return count;
}

static crema_status fail_of_count(const char *path, const Caffe__NetParameter *param) {
  const size_t line = param->n_layer > 1 ? cr_layer_line(&param->layer[1]->base) : 0;
  return cr_fail_at(CREMA_E_ARGUMENT, &(cr_where){.file = path, .line = line},
                    "expected a file with one layer, found %zu", param->n_layer);
}

/* In double precision, and no top has the name of a bottom. */
static crema_status make_oracle(Caffe__NetParameter *param) {
  Caffe__LayerParameter *layer = param->layer[param->n_layer - 1];
  param->has_default_forward_type = param->has_default_backward_type = 1;
  param->default_forward_type = param->default_backward_type = CAFFE__TYPE__DOUBLE;
  param->has_default_forward_math = param->has_default_backward_math = 1;
  param->default_forward_math = param->default_backward_math = CAFFE__TYPE__DOUBLE;
  for (size_t i = 0; i < layer->n_top; ++i) {
    char name[64];
    snprintf(name, sizeof name, "oracle's top %zu", i);
    char *copy = cr_proto_strdup(name);
    if (copy == NULL) return cr_fail_memory(sizeof name, "a name");
    free(layer->top[i]);
    layer->top[i] = copy;
  }
  return CREMA_OK;
}

static crema_status add_inputs(const cli_layer_net *what, Caffe__NetParameter *param) {
  if (param->n_layer != 1) return fail_of_count(what->path, param);
  const Caffe__LayerParameter *layer = param->layer[0];
  char **bottom = NULL;
  crema_shape *shape = NULL;
  crema_status status = CR_NEW(bottom, layer->n_bottom + 1, "bottoms");
  if (status == CREMA_OK) status = CR_NEW(shape, layer->n_bottom + 1, "shapes");
  if (status == CREMA_OK) {
    const size_t bottoms = list_bottoms(layer, bottom);
    status = cli_is_dump(what->input) ? shapes_of_file(what->input, bottom, bottoms, shape)
                                      : shapes_of_text(what->input, layer, bottoms, shape);
    if (status == CREMA_OK && bottoms > 0) status = add_input(param, bottom, bottoms, shape);
  }
  free(bottom);
  free(shape);
  if (status == CREMA_OK && what->oracle) status = make_oracle(param);
  return status;
}

crema_status cli_layer_net_create(const cli_layer_net *what, const crema_net_options *options,
                                  crema_net **out) {
  Caffe__NetParameter *param = NULL;
  CR_TRY(cr_net_param_load(what->path, what->warn_unknown_fields, &param));
  crema_status status = add_inputs(what, param);
  if (status != CREMA_OK) {
    cr_message_free(&param->base);
    return status;
  }
  return cr_net_create(param, options, &(cr_net_build_options){.path = what->path}, out);
}
