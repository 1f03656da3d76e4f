#include "net/common/fail.h"

#include <stdio.h>
#include <string.h>

#include "core/fail.h"

const char *cr_net_text(const char *text) {
  return text == NULL ? "" : text;
}

static cr_where where_of(const Caffe__LayerParameter *param) {
  return (cr_where){.layer = cr_net_text(param->name), .type = cr_net_text(param->type)};
}

crema_status cr_net_fail_layer(const Caffe__LayerParameter *param, crema_status code,
                               const char *fmt, ...) {
  const cr_where where = where_of(param);
  va_list args;
  va_start(args, fmt);
  cr_fail_at_list(code, &where, fmt, args);
  va_end(args);
  return code;
}

crema_status cr_net_fail_blob(const Caffe__LayerParameter *param, const char *blob,
                              crema_status code, const char *fmt, ...) {
  cr_where where = where_of(param);
  va_list args;
  where.blob = blob;
  va_start(args, fmt);
  cr_fail_at_list(code, &where, fmt, args);
  va_end(args);
  return code;
}

crema_status cr_net_fail_in_layer(const Caffe__LayerParameter *param, crema_status code) {
  const cr_where where = where_of(param);
  return cr_fail_where(code, &where);
}

crema_status cr_net_blame_layer(const cr_layer *layer, crema_status code) {
  const cr_where where = {.layer = layer->name, .type = layer->kind->type, .told = true};
  return cr_fail_where(code, &where);
}

/* Whether the net has inserted the layer: the names of its tops begin with the bottom's name. */
static bool is_inserted(const Caffe__LayerParameter *param) {
  if (param->n_bottom != 1 || param->n_top == 0) return false;
  const size_t size = strlen(param->bottom[0]);
  return strncmp(param->top[0], param->bottom[0], size) == 0 &&
         strstr(param->top[0] + size, "_split_") != NULL;
}

/* The name in the net's text of a layer's bottom, which may be the top of a split. */
static const char *bottom_name(const crema_net *net, int index, int bottom) {
  const char *name = net->layer[index].layer->param->bottom[bottom];
  for (int i = index - 1; i >= 0; --i) {
    const Caffe__LayerParameter *param = net->param->layer[i];
    for (size_t j = 0; is_inserted(param) && j < param->n_top; ++j) {
      if (strcmp(param->top[j], name) == 0) return param->bottom[0];
    }
  }
  return name;
}

crema_status cr_net_show_bottoms(const crema_net *net, int index, crema_status code) {
  const cr_net_layer *layer = &net->layer[index];
  const int bottoms = (int)layer->layer->param->n_bottom;
  if (code != CREMA_E_SHAPE || bottoms < 2) return code;
  for (int j = 0; j < bottoms && j < layer->layer->bottoms; ++j) {
    char text[256];
    (void)cr_fail_more(code, "%s '%.100s' of shape %s", j == 0 ? "; the bottoms are" : ",",
                       bottom_name(net, index, j),
                       crema_shape_text(&layer->bottom[j]->shape, text, sizeof text));
  }
  return code;
}

crema_status cr_net_allocate(cr_arena *arena, void *out, size_t count, size_t width) {
  void *memory = NULL;
  CR_TRY(cr_fail_in(cr_arena_alloc(arena, count * width, &memory), "the net's graph"));
  memcpy(out, &memory, sizeof memory);
  return CREMA_OK;
}

size_t cr_net_layer_line(const crema_net *net, size_t index) {
  if (index >= net->param->n_layer || net->path == NULL) return 0;
  return cr_layer_line(&net->param->layer[index]->base);
}

const char *cr_net_line_text(const crema_net *net, size_t index, char text[CR_NET_LINE_TEXT]) {
  size_t line = cr_net_layer_line(net, index);
  text[0] = '\0';
  if (line > 0) snprintf(text, CR_NET_LINE_TEXT, " (line %zu)", line);
  return text;
}

/* Adds to a failure the file and, for a failure in a layer, the line on which the layer begins. */
crema_status cr_net_fail_in_file(const crema_net *net, crema_status code) {
  cr_where where = {.file = net->path};
  if (cr_error_in_layer()) where.line = cr_net_layer_line(net, net->at);
  return cr_fail_where(code, &where);
}

crema_status cr_net_fail_in_pass(const crema_net *net, int index, crema_status code) {
  cr_where where = {.file = net->path, .told = true};
  (void)cr_net_fail_in_layer(net->layer[index].layer->param, code);
  if (crema_error_file()[0] != '\0') return code;
  where.line = cr_net_layer_line(net, (size_t)index);
  return where.line == 0 ? code : cr_fail_where(code, &where);
}
