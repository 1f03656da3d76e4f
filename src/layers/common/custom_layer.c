#include "layers/common/custom_layer.h"

#define _XOPEN_SOURCE 700 /* realpath */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/module.h"

#define CR_STRING(name) CR_STRING_OF(name)
#define CR_STRING_OF(name) #name

/* A registered type. */
typedef struct custom_type {
  cr_layer_class base; /* the first member: a layer's class leads here */
  crema_layer_type type;
  char *name;
  struct custom_type *next;
} custom_type;

/* The state of a layer of such a type. */
struct crema_layer {
  cr_layer *layer;
  const custom_type *kind;
  /* The state of the current call. */
  crema_blob *const *bottom, *const *top;
  const bool *propagate_down;
  bool sets_up;
  bool was_set_up;
  void *state;
};

static struct {
  pthread_mutex_t lock;
  custom_type *first, *last;
  pthread_mutex_t starting;           /* held while the function below runs */
  crema_status (*start_python)(void); /* NULL: none */
} registered = {.lock = PTHREAD_MUTEX_INITIALIZER, .starting = PTHREAD_MUTEX_INITIALIZER};

static crema_status call(crema_layer *self, crema_layer_fn *function, crema_blob *const *bottom,
                         crema_blob *const *top) {
  if (function == NULL) return CREMA_OK;
  self->bottom = bottom;
  self->top = top;
  crema_status status = function(self);
  self->bottom = self->top = NULL;
  return cr_layer_in(self->layer, status);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  crema_layer *self = layer->state;
  self->layer = layer;
  self->kind = (const custom_type *)(const void *)layer->kind;
  self->sets_up = true;
  self->was_set_up = true;
  crema_status status = call(self, self->kind->type.setup, bottom, top);
  self->sets_up = false;
  return status;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  crema_layer *self = layer->state;
  return call(self, self->kind->type.reshape, bottom, top);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  crema_layer *self = layer->state;
  (void)context;
  CR_TRY(call(self, self->kind->type.reshape, bottom, top));
  return call(self, self->kind->type.forward, bottom, top);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  crema_layer *self = layer->state;
  (void)context;
  self->propagate_down = propagate_down;
  crema_status status = call(self, self->kind->type.backward, bottom, top);
  self->propagate_down = NULL;
  return status;
}

/* What its functions read is not known: everything. */
static cr_value_use uses_tops(const cr_layer *layer, bool in_place) {
  (void)layer, (void)in_place;
  return CR_VALUES_ALL;
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)layer, (void)bottom;
  return true;
}

static void destroy(cr_layer *layer) {
  crema_layer *self = layer->state;
  if (self->was_set_up && self->kind->type.destroy != NULL) self->kind->type.destroy(self);
}

static void make_class(custom_type *kind) {
  const crema_layer_type *type = &kind->type;
  kind->base = (cr_layer_class){
      .type = kind->name,
      .state_size = sizeof(crema_layer),
      .bottoms = {type->min_bottoms, type->max_bottoms},
      .tops = {type->min_tops, type->max_tops},
      .graph.auto_tops = type->loss,
      .in_place = true,
      .loss = type->loss,
      .memory.reshapes_always = true,
      .memory.keeps_state = true,
      .setup = setup,
      .reshape = reshape,
      .forward = forward,
      .backward = type->backward == NULL ? NULL : backward,
      .uses_tops = uses_tops,
      .uses_bottom = uses_bottom,
      .destroy = destroy,
  };
}

static const custom_type *find(const char *type) {
  pthread_mutex_lock(&registered.lock);
  const custom_type *kind = registered.first;
  while (kind != NULL && strcmp(kind->name, type) != 0) kind = kind->next;
  pthread_mutex_unlock(&registered.lock);
  return kind;
}

const cr_layer_class *cr_custom_layer_find(const char *type) {
  const custom_type *kind = find(type);
  return kind == NULL ? NULL : &kind->base;
}

void cr_custom_layer_on_python(crema_status (*start)(void)) {
  registered.start_python = start;
}

crema_status cr_custom_layer_find_python(const cr_layer_class **out) {
  crema_status status = CREMA_OK;
  pthread_mutex_lock(&registered.starting);
  *out = cr_custom_layer_find("Python");
  if (*out == NULL && registered.start_python != NULL) {
    status = registered.start_python();
    *out = cr_custom_layer_find("Python");
  }
  pthread_mutex_unlock(&registered.starting);
  return status;
}

bool cr_custom_layer_has_module(const char *module) {
  const custom_type *kind = find("Python");
  if (kind == NULL || registered.start_python != NULL) return false;
  return kind->type.has_module == NULL || kind->type.has_module(kind->type.user, module);
}

const char *cr_custom_layer_name(int index) {
  pthread_mutex_lock(&registered.lock);
  const custom_type *kind = registered.first;
  while (kind != NULL && index-- > 0) kind = kind->next;
  pthread_mutex_unlock(&registered.lock);
  return kind == NULL ? NULL : kind->name;
}

static crema_status check_count(const char *type, const char *what, int min, int max) {
  if (min >= 0 && (max == CREMA_ANY || max >= min)) return CREMA_OK;
  return cr_fail(CREMA_E_RANGE, "layer type '%.200s': from %d to %d %s", type, min, max, what);
}

crema_status cr_custom_layer_add(const crema_layer_type *type) {
  if (type->type == NULL || type->type[0] == '\0') {
    return cr_fail(CREMA_E_ARGUMENT, "a layer type without a name");
  }
  if (type->reshape == NULL || type->forward == NULL) {
    return cr_fail(CREMA_E_ARGUMENT, "layer type '%.200s' has no reshape or no forward",
                   type->type);
  }
  CR_TRY(check_count(type->type, "bottoms", type->min_bottoms, type->max_bottoms));
  CR_TRY(check_count(type->type, "tops", type->min_tops, type->max_tops));
  if (find(type->type) != NULL) {
    return cr_fail(CREMA_E_EXISTS, "layer type '%.200s' is registered already", type->type);
  }
  custom_type *kind = NULL;
  CR_TRY(CR_NEW(kind, 1, "a layer type"));
  kind->name = strdup(type->type);
  if (kind->name == NULL) {
    free(kind);
    return cr_fail_memory(strlen(type->type) + 1, "a layer type");
  }
  kind->type = *type;
  kind->type.type = kind->name;
  make_class(kind);
  pthread_mutex_lock(&registered.lock);
  if (registered.last == NULL) registered.first = kind;
  else registered.last->next = kind;
  registered.last = kind;
  pthread_mutex_unlock(&registered.lock);
  return CREMA_OK;
}

/* An object that is open. */
typedef struct plugin {
  char *path;
  const custom_type *before; /* the type that was registered last when it was opened; NULL: none */
  const custom_type *last;   /* its own last type; `before`: it has none */
  struct plugin *next;
} plugin;

static struct {
  pthread_mutex_t lock;
  plugin *first;
} plugins = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const custom_type *last_registered(void) {
  pthread_mutex_lock(&registered.lock);
  const custom_type *last = registered.last;
  pthread_mutex_unlock(&registered.lock);
  return last;
}

/* With the lock. */
static crema_status open_plugin(const char *path, plugin **out) {
  crema_status (*start)(void) = NULL;
  plugin *made = NULL;
  void *entry = NULL;
  CR_TRY(cr_module_open_file(path, CR_STRING(CREMA_PLUGIN), &entry));
  memcpy(&start, &entry, sizeof start);
  CR_TRY(CR_NEW(made, 1, "a shared object's types"));
  made->path = strdup(path);
  made->before = last_registered();
  crema_status status = made->path == NULL ? cr_fail_memory(strlen(path) + 1, "a path")
                                           : cr_fail_in(start(), "%s", path);
  if (status != CREMA_OK) {
    free(made->path);
    free(made);
    return status;
  }
  made->last = last_registered();
  made->next = plugins.first;
  plugins.first = made;
  *out = made;
  return CREMA_OK;
}

static crema_status find_plugin(const char *path, plugin **out) {
  pthread_mutex_lock(&plugins.lock);
  crema_status status = CREMA_OK;
  *out = plugins.first;
  while (*out != NULL && strcmp((*out)->path, path) != 0) *out = (*out)->next;
  if (*out == NULL) status = open_plugin(path, out);
  pthread_mutex_unlock(&plugins.lock);
  return status;
}

/* The type named `type` among the object's types, or its only type. */
static crema_status choose_type(const plugin *from, const char *type, const cr_layer_class **out) {
  const bool any = type == NULL || type[0] == '\0';
  const custom_type *kind = from->before == NULL ? registered.first : from->before->next;
  if (from->last == from->before) {
    return cr_fail(CREMA_E_UNSUPPORTED, "%s: registers no layer type", from->path);
  }
  if (any && kind != from->last) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "%s: has several layer types; say which: plugin_param { type: '%s' }",
                   from->path, kind->name);
  }
  while (!any && kind != from->last && strcmp(kind->name, type) != 0) kind = kind->next;
  if (!any && strcmp(kind->name, type) != 0) {
    return cr_fail(CREMA_E_UNKNOWN_NAME, "%s: has no layer type '%.200s'", from->path, type);
  }
  *out = &kind->base;
  return CREMA_OK;
}

crema_status cr_custom_layer_load(const char *path, const char *net_path, const char *type,
                                  const cr_layer_class **out) {
  char *resolved = NULL, *absolute = NULL;
  plugin *found = NULL;
  crema_status status = CREMA_OK;
  if (net_path != NULL) {
    CR_TRY(cr_file_resolve(net_path, path, &resolved));
    path = resolved;
  }
  absolute = realpath(path, NULL);
  if (absolute == NULL) {
    status = errno == ENOENT ? cr_fail(CREMA_E_NOT_FOUND, "%s: no such file", path)
                             : cr_fail_errno(errno, "%s", path);
    goto out;
  }
  CR_TRY_GOTO(find_plugin(absolute, &found), out);
  if (out != NULL) status = choose_type(found, type, out);
out:
  free(absolute);
  free(resolved);
  return status;
}

const char *crema_layer_name(const crema_layer *layer) {
  return layer == NULL ? NULL : layer->layer->name;
}

crema_phase crema_layer_phase(const crema_layer *layer) {
  return layer != NULL && layer->layer->phase == CAFFE__PHASE__TEST ? CREMA_TEST : CREMA_TRAIN;
}

void *crema_layer_user(const crema_layer *layer) {
  return layer == NULL ? NULL : layer->kind->type.user;
}

void *crema_layer_state(const crema_layer *layer) {
  return layer == NULL ? NULL : layer->state;
}

void *cr_custom_layer_state(const cr_layer *layer) {
  return layer->kind->setup == setup ? crema_layer_state(layer->state) : NULL;
}

void crema_layer_set_state(crema_layer *layer, void *state) {
  if (layer != NULL) layer->state = state;
}

int crema_layer_bottom_count(const crema_layer *layer) {
  return layer == NULL || layer->bottom == NULL ? 0 : layer->layer->bottoms;
}

crema_blob *crema_layer_bottom(crema_layer *layer, int index) {
  if (index < 0 || index >= crema_layer_bottom_count(layer)) return NULL;
  return layer->bottom[index];
}

int crema_layer_top_count(const crema_layer *layer) {
  return layer == NULL || layer->top == NULL ? 0 : layer->layer->tops;
}

crema_blob *crema_layer_top(crema_layer *layer, int index) {
  if (index < 0 || index >= crema_layer_top_count(layer)) return NULL;
  return layer->top[index];
}

bool crema_layer_propagate_down(const crema_layer *layer, int index) {
  if (index < 0 || index >= crema_layer_bottom_count(layer)) return false;
  return layer->propagate_down != NULL && layer->propagate_down[index];
}

int crema_layer_param_count(const crema_layer *layer) {
  return layer == NULL ? 0 : layer->layer->params;
}

crema_blob *crema_layer_param(crema_layer *layer, int index) {
  if (index < 0 || index >= crema_layer_param_count(layer)) return NULL;
  return layer->layer->blob[index];
}

bool crema_layer_param_learns(const crema_layer *layer, int index) {
  if (index < 0 || index >= crema_layer_param_count(layer)) return false;
  return layer->layer->param_propagate_down[index];
}

static crema_status fill_param(crema_layer *layer, const crema_shape *shape, const char *filler) {
  ProtobufCMessage *message = NULL;
  if (filler != NULL) {
    CR_TRY(cr_text_parse(&caffe__filler_parameter__descriptor, filler, strlen(filler), "filler",
                         CR_UNKNOWN_ERROR, &message));
  }
  crema_status status = cr_layer_add_param(layer->layer, layer->layer->params - 1, shape,
                                           (const Caffe__FillerParameter *)message);
  cr_message_free(message);
  return status;
}

crema_status crema_layer_add_param(crema_layer *layer, const crema_shape *shape, const char *filler,
                                   crema_blob **out) {
  CR_REQUIRE(layer);
  CR_REQUIRE(shape);
  if (!layer->sets_up) {
    return cr_layer_fail(layer->layer, CREMA_E_STATE, "parameters are added in setup only");
  }
  CR_TRY(cr_layer_append_param(layer->layer));
  crema_status status = fill_param(layer, shape, filler);
  if (status != CREMA_OK) {
    layer->layer->params -= 1; /* the entry is still NULL */
    return status;
  }
  if (out != NULL) *out = layer->layer->blob[layer->layer->params - 1];
  return CREMA_OK;
}

crema_status crema_layer_field(const crema_layer *layer, const char *path, char **out) {
  CR_REQUIRE(layer);
  CR_REQUIRE(path);
  CR_REQUIRE(out);
  cr_buffer text = {0};
  crema_status status = cr_text_print_field(&layer->layer->param->base, path, &text);
  if (status == CREMA_OK) *out = cr_buffer_take(&text);
  cr_buffer_free(&text);
  return cr_layer_in(layer->layer, status);
}

crema_status crema_layer_fail(const crema_layer *layer, crema_status code, const char *text) {
  CR_REQUIRE(layer);
  CR_REQUIRE(text);
  return cr_layer_fail(layer->layer, code, "%s", text);
}
