/* nets/<case>: the graph that is built from a net in each state, and nets to refuse. */
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "golden_json.h"
#include "net/net.h"

typedef struct net_case {
  const char *file; /* name of the expectation */
  crema_net *net;
  char *why;
  size_t why_size;
} net_case;

/* Sets the reason and returns false. */
static bool differ(net_case *c, const char *fmt, ...) CREMA_PRINTF(2, 3);
static bool differ(net_case *c, const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  snprintf(c->why, c->why_size, "%s: %s", c->file, text);
  return false;
}

static bool same_text(net_case *c, const char *what, const char *got, const golden_json *want) {
  if (want->type == GOLDEN_JSON_TEXT && strcmp(got, want->text) == 0) return true;
  return differ(c, "%s is '%s', should be '%s'", what, got,
                want->text == NULL ? "(missing)" : want->text);
}

static bool same_number(net_case *c, const char *what, double got, const golden_json *want) {
  bool known = want->type == GOLDEN_JSON_NUMBER || want->type == GOLDEN_JSON_BOOL;
  if (known && (float)got == (float)want->number) return true;
  return differ(c, "%s is %g, should be %g", what, got, want->number);
}

static bool same_count(net_case *c, const char *what, int got, const golden_json *want) {
  if (want->type == GOLDEN_JSON_LIST && (size_t)got == want->count) return true;
  return differ(c, "%s: %d entries, should be %zu", what, got, want->count);
}

static bool same_shape(net_case *c, const char *what, const crema_shape *got,
                       const golden_json *want) {
  bool same = want->type == GOLDEN_JSON_LIST && want->count == (size_t)got->axes;
  for (int i = 0; same && i < got->axes; ++i) same = (double)got->dim[i] == want->item[i].number;
  char text[256];
  return same || differ(c, "shape of %s is %s", what, crema_shape_text(got, text, sizeof text));
}

static bool same_names(net_case *c, const char *what, int count, const int *blob,
                       const golden_json *want) {
  if (!same_count(c, what, count, want)) return false;
  for (int i = 0; i < count; ++i) {
    if (!same_text(c, what, c->net->blob_name[blob[i]], &want->item[i])) return false;
  }
  return true;
}

static bool same_layer(net_case *c, const cr_net_layer *got, const golden_json *want) {
  const cr_layer *layer = got->layer;
  const golden_json *propagate = golden_json_get(want, "bottom_need_backward");
  const golden_json *weights = golden_json_get(want, "loss_weights");
  const golden_json *shapes = golden_json_get(want, "param_shapes");
  const char *phase = layer->phase == CAFFE__PHASE__TRAIN ? "TRAIN" : "TEST";
  if (!same_text(c, "layer name", layer->name, golden_json_get(want, "name"))) return false;
  if (!same_text(c, layer->name, layer->kind->type, golden_json_get(want, "type")) ||
      !same_text(c, layer->name, phase, golden_json_get(want, "phase")) ||
      !same_names(c, layer->name, layer->bottoms, got->bottom_id,
                  golden_json_get(want, "bottoms")) ||
      !same_names(c, layer->name, layer->tops, got->top_id, golden_json_get(want, "tops")) ||
      !same_number(c, layer->name, got->need_backward,
                   golden_json_get(want, "layer_need_backward")) ||
      !same_count(c, layer->name, layer->bottoms, propagate) ||
      !same_count(c, layer->name, layer->tops, weights) ||
      !same_count(c, layer->name, layer->params, shapes)) {
    return false;
  }
  for (int i = 0; i < layer->bottoms; ++i) {
    if (!same_number(c, layer->name, got->propagate_down[i], &propagate->item[i])) return false;
  }
  for (int i = 0; i < layer->tops; ++i) {
    if (!same_number(c, layer->name, layer->loss_weight[i], &weights->item[i])) return false;
  }
  for (int i = 0; i < layer->params; ++i) {
    if (!same_shape(c, layer->name, &layer->blob[i]->shape, &shapes->item[i])) return false;
  }
  return true;
}

static bool same_param(net_case *c, const cr_net_param *got, const golden_json *want) {
  const cr_layer *layer = c->net->layer[got->layer].layer;
  char index[16];
  snprintf(index, sizeof index, "%d", got->index);
  return same_text(c, "parameter's layer", layer->name, golden_json_get(want, "layer")) &&
         same_text(c, "parameter's name", got->name[0] == '\0' ? index : got->name,
                   golden_json_get(want, "name")) &&
         same_number(c, "parameter's index", got->index, golden_json_get(want, "index")) &&
         same_number(c, "parameter's owner", got->owner, golden_json_get(want, "owner")) &&
         same_number(c, "parameter's learnable id", got->learnable,
                     golden_json_get(want, "learnable_id")) &&
         same_shape(c, "parameter", &layer->blob[got->index]->shape,
                    golden_json_get(want, "shape"));
}

static bool same_params(net_case *c, const golden_json *want) {
  const crema_net *net = c->net;
  const golden_json *params = golden_json_get(want, "params");
  const golden_json *learnables = golden_json_get(want, "learnable_params");
  if (!same_count(c, "params", net->params, params)) return false;
  if (!same_count(c, "learnable params", net->learnables, learnables)) return false;
  for (int i = 0; i < net->params; ++i) {
    if (!same_param(c, &net->net_param[i], &params->item[i])) return false;
  }
  for (int i = 0; i < net->learnables; ++i) {
    const golden_json *item = &learnables->item[i];
    if (!same_number(c, "lr_mult", net->lr_mult[i], golden_json_get(item, "lr_mult")) ||
        !same_number(c, "decay_mult", net->decay_mult[i], golden_json_get(item, "decay_mult")) ||
        !same_shape(c, "learnable", &net->learnable[i]->shape, golden_json_get(item, "shape"))) {
      return false;
    }
  }
  return true;
}

static bool same_net(net_case *c, const golden_json *want) {
  const crema_net *net = c->net;
  const golden_json *layers = golden_json_get(want, "layers");
  const golden_json *blobs = golden_json_get(want, "blobs");
  if (!same_text(c, "name", net->name, golden_json_get(want, "name"))) return false;
  if (!same_count(c, "layers", net->layers, layers)) return false;
  for (int i = 0; i < net->layers; ++i) {
    if (!same_layer(c, &net->layer[i], &layers->item[i])) return false;
  }
  if (!same_count(c, "blobs", net->blobs, blobs)) return false;
  for (int i = 0; i < net->blobs; ++i) {
    const golden_json *item = &blobs->item[i];
    if (!same_text(c, "blob", net->blob_name[i], golden_json_get(item, "name")) ||
        !same_shape(c, net->blob_name[i], &net->blob[i]->shape, golden_json_get(item, "shape"))) {
      return false;
    }
  }
  return same_names(c, "inputs", net->inputs, net->input, golden_json_get(want, "inputs")) &&
         same_names(c, "outputs", net->outputs, net->output, golden_json_get(want, "outputs")) &&
         same_params(c, want);
}

static int run_expectation(net_case *c, const char *dir, const golden_json *want) {
  enum { STAGES_MAX = 16 };
  const char *stage[STAGES_MAX];
  char path[4096];
  crema_net_options options;
  crema_net_options_init(&options);
  const golden_json *phase = golden_json_get(want, "phase");
  const golden_json *stages = golden_json_get(want, "stages");
  if (phase->text == NULL || stages->count > STAGES_MAX) return differ(c, "no state");
  options.phase = strcmp(phase->text, "TRAIN") == 0 ? CREMA_TRAIN : CREMA_TEST;
  options.level = (int)golden_json_get(want, "level")->number;
  for (size_t i = 0; i < stages->count; ++i) stage[i] = stages->item[i].text;
  options.stages = stage;
  options.stage_count = stages->count;
  snprintf(path, sizeof path, "%s/net.prototxt", dir);
  crema_status status = crema_net_load(path, &options, &c->net);
  if (status != CREMA_OK) return golden_from_status(status, c->file, c->why, c->why_size);
  int result = same_net(c, want) ? GOLDEN_PASS : GOLDEN_FAIL;
  crema_net_destroy(c->net);
  return result;
}

/* A net that must not build, in no phase; the text has to name a layer or a place. */
static int run_refusal(const char *dir, const char *name, char *why, size_t why_size) {
  for (int phase = 0; phase < 2; ++phase) {
    char path[4096];
    crema_net *net = NULL;
    crema_net_options options;
    crema_net_options_init(&options);
    options.phase = phase == 0 ? CREMA_TRAIN : CREMA_TEST;
    snprintf(path, sizeof path, "%s/net.prototxt", dir);
    crema_status status = crema_net_load(path, &options, &net);
    crema_net_destroy(net);
    if (status == CREMA_OK) {
      snprintf(why, why_size, "builds, but should be refused");
      return GOLDEN_FAIL;
    }
    if (strcmp(name, "reject_unknown_layer_type") != 0) {
      int result = golden_from_status(status, name, why, why_size);
      if (result == GOLDEN_PENDING) return result;
    }
    if (strstr(crema_error_text(), "net.prototxt:") == NULL) {
      snprintf(why, why_size, "the text names no file: %s", crema_error_text());
      return GOLDEN_FAIL;
    }
  }
  return GOLDEN_PASS;
}

static int is_expectation(const struct dirent *entry) {
  return strncmp(entry->d_name, "expected_", 9) == 0;
}

int golden_run_net_case(const char *dir, char *why, size_t why_size) {
  const char *slash = strrchr(dir, '/');
  const char *name = slash == NULL ? dir : slash + 1;
  if (strncmp(name, "reject_", 7) == 0) return run_refusal(dir, name, why, why_size);
  struct dirent **entry = NULL;
  int entries = scandir(dir, &entry, is_expectation, alphasort);
  int result = entries > 0 ? GOLDEN_PASS : GOLDEN_FAIL;
  if (entries <= 0) snprintf(why, why_size, "holds no expectation");
  for (int i = 0; i < entries; ++i) {
    char path[4096];
    golden_json want;
    net_case c = {.file = entry[i]->d_name, .why = why, .why_size = why_size};
    snprintf(path, sizeof path, "%s/%s", dir, entry[i]->d_name);
    if (result == GOLDEN_PASS && !golden_json_read(path, &want)) {
      snprintf(why, why_size, "%s: not JSON", entry[i]->d_name);
      result = GOLDEN_FAIL;
    } else if (result == GOLDEN_PASS) {
      result = run_expectation(&c, dir, &want);
      golden_json_free(&want);
    }
    free(entry[i]);
  }
  free(entry);
  return result;
}
