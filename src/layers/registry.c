#include "layers/registry.h"

#include <stdio.h>
#include <string.h>

#include "core/did_you_mean.h"
#include "core/fail.h"
#include "layers/common/custom_layer.h"

static const cr_layer_class *const classes[] = {
#define CR_LAYER(name, type) &cr_layer_##name,
#include "layers/layers.inc"
#undef CR_LAYER
};

static const char *const class_names[] = {
#define CR_LAYER(name, type) type,
#include "layers/layers.inc"
#undef CR_LAYER
};

static const cr_fork_type fork_types[] = {
#define CR_FORK_TYPE(type, fork, nearest) {type, fork, nearest},
#include "layers/fork_types.inc"
#undef CR_FORK_TYPE
};

enum { CLASSES = sizeof class_names / sizeof class_names[0] };

const char *const *cr_layer_class_names(size_t *count) {
  *count = CLASSES;
  return class_names;
}

const cr_fork_type *cr_layer_fork_types(size_t *count) {
  *count = sizeof fork_types / sizeof fork_types[0];
  return fork_types;
}

static const cr_fork_type *fork_type_named(const char *type) {
  size_t count = 0;
  const cr_fork_type *known = cr_layer_fork_types(&count);
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(type, known[i].type) == 0) return &known[i];
  }
  return NULL;
}

/* A type that a fork of Caffe defines. */
static void describe_fork_type(const cr_fork_type *known, char text[CR_LAYER_TYPE_TEXT]) {
  static const char advice[] =
      "a layer of type 'Python' or 'Plugin', or crema_layer_register, can add it";
  if (known->nearest != NULL) {
    snprintf(text, CR_LAYER_TYPE_TEXT,
             "unknown layer type '%s', of %s; crema's nearest type is '%s', with other fields and "
             "weights; %s",
             known->type, known->fork, known->nearest, advice);
  } else {
    snprintf(text, CR_LAYER_TYPE_TEXT, "unknown layer type '%s', of %s; %s", known->type,
             known->fork, advice);
  }
}

void cr_layer_describe_unknown(const char *type, char text[CR_LAYER_TYPE_TEXT]) {
  size_t count = 0;
  const char *const *name = cr_layer_class_names(&count);
  const char *nearest = cr_did_you_mean(type, name, count);
  const cr_fork_type *known = fork_type_named(type);
  if (known != NULL) {
    describe_fork_type(known, text);
  } else if (nearest != NULL) {
    snprintf(text, CR_LAYER_TYPE_TEXT, "unknown layer type '%.200s'; did you mean '%s'?", type,
             nearest);
  } else {
    snprintf(text, CR_LAYER_TYPE_TEXT,
             "unknown layer type '%.200s'; known types: %s, %s, %s, ... (%zu; `crema layers` lists "
             "them)",
             type, name[0], name[1], name[2], count);
  }
}

static crema_status unknown_type(const char *type) {
  char text[CR_LAYER_TYPE_TEXT];
  if (strcmp(type, "Python") == 0) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "layers of type 'Python' run code in Python: the net must be loaded from there, "
                   "with `import caffe`");
  }
  if (type[0] == '\0') {
    return cr_fail(CREMA_E_UNKNOWN_NAME,
                   "the layer has no type; it needs one, such as type: \"ReLU\"");
  }
  cr_layer_describe_unknown(type, text);
  return cr_fail(CREMA_E_UNKNOWN_NAME, "%s", text);
}

static const cr_layer_class *class_named(const char *type) {
  for (size_t i = 0; i < CLASSES; ++i) {
    if (strcmp(type, class_names[i]) == 0) return classes[i];
  }
  return cr_custom_layer_find(type);
}

crema_status cr_layer_class_find(const char *type, const cr_layer_class **out) {
  if (strcmp(type, "Python") == 0) CR_TRY(cr_custom_layer_find_python(out));
  else *out = class_named(type);
  return *out != NULL ? CREMA_OK : unknown_type(type);
}

bool cr_layer_type_is_known(const char *type) {
  return strcmp(type, "Python") == 0 || strcmp(type, "Plugin") == 0 || class_named(type) != NULL;
}

/* The class for a Python layer of py-faster-rcnn (Ren et al., "Faster R-CNN", 2015) that crema also
 * has. NULL for all other layers, such as the RoIDataLayer of Fast R-CNN, which has more tops. */
static const cr_layer_class *class_of_python(const Caffe__LayerParameter *param) {
  static const struct {
    const char *module, *layer;
    const cr_layer_class *kind;
  } known[] = {
      {"rpn.anchor_target_layer", "AnchorTargetLayer", &cr_layer_anchor_target},
      {"rpn.proposal_layer", "ProposalLayer", &cr_layer_proposal},
      {"rpn.proposal_target_layer", "ProposalTargetLayer", &cr_layer_proposal_target},
      {"roi_data_layer.layer", "RoIDataLayer", &cr_layer_roi_data},
  };
  const Caffe__PythonParameter *python = param->python_param;
  if (python == NULL || python->module == NULL || python->layer == NULL) return NULL;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
    if (strcmp(python->module, known[i].module) != 0 || strcmp(python->layer, known[i].layer) != 0)
      continue;
    return param->n_top <= (size_t)known[i].kind->tops.max ? known[i].kind : NULL;
  }
  return NULL;
}

crema_status cr_layer_class_of(const Caffe__LayerParameter *param, const char *net_path,
                               const cr_layer_class **out) {
  const char *type = param->type ? param->type : "";
  const Caffe__PluginParameter *plugin = param->plugin_param;
  const cr_layer_class *own = strcmp(type, "Python") == 0 ? class_of_python(param) : NULL;
  if (own != NULL && !cr_custom_layer_has_module(param->python_param->module)) {
    *out = own;
    return CREMA_OK;
  }
  if (strcmp(type, "Plugin") != 0) return cr_layer_class_find(type, out);
  if (plugin == NULL || plugin->library == NULL || plugin->library[0] == '\0') {
    return cr_fail(CREMA_E_ARGUMENT,
                   "a layer of type 'Plugin' needs plugin_param { library: ... }");
  }
  return cr_custom_layer_load(plugin->library, net_path, plugin->type, out);
}

crema_status crema_layer_load(const char *path) {
  CR_REQUIRE(path);
  return cr_custom_layer_load(path, NULL, NULL, NULL);
}

crema_status crema_layer_register(const crema_layer_type *type) {
  CR_REQUIRE(type);
  for (size_t i = 0; type->type != NULL && i < CLASSES; ++i) {
    if (strcmp(type->type, class_names[i]) != 0) continue;
    return cr_fail(CREMA_E_EXISTS, "layer type '%s' is one of crema's own", type->type);
  }
  return cr_custom_layer_add(type);
}

int crema_layer_type_count(void) {
  int count = CLASSES;
  while (cr_custom_layer_name(count - CLASSES) != NULL) ++count;
  return count;
}

const char *crema_layer_type_name(int index) {
  if (index < 0) return NULL;
  return index < CLASSES ? class_names[index] : cr_custom_layer_name(index - CLASSES);
}

crema_status cr_layer_create(const Caffe__LayerParameter *param, Caffe__Phase phase,
                             crema_context *context, uint64_t seed, const char *net_path,
                             cr_layer **out) {
  const cr_layer_class *kind = NULL;
  *out = NULL;
  CR_TRY(cr_fail_where(cr_layer_class_of(param, net_path, &kind),
                       &(cr_where){.layer = cr_layer_name(param)}));
  return cr_layer_create_as(kind, param, phase, context, seed, net_path, out);
}
