#include "infer/model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/rng.h"
#include "core/system.h"
#include "infer/passes.h"
#include "net/weights/weights.h"

void crema_model_options_init(crema_model_options *options) {
  if (options == NULL) return;
  *options = (crema_model_options){.seed = -1};
}

static crema_status read_stamp(const char *path, cr_model_stamp *out) {
  struct stat info;
  *out = (cr_model_stamp){0};
  if (stat(path, &info) != 0) return CREMA_OK; /* reading it says more */
  *out = (cr_model_stamp){info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
  return CREMA_OK;
}

static crema_status check_stamps(const crema_model *model) {
  for (size_t i = 0; i < model->weights.count; ++i) {
    cr_model_stamp now;
    const cr_model_stamp *then = &model->stamp[i];
    CR_TRY(read_stamp(model->weights.item[i], &now));
    if (now.size == then->size && now.seconds == then->seconds &&
        now.nanoseconds == then->nanoseconds) {
      continue;
    }
    return cr_fail(
        CREMA_E_STATE,
        "%s has changed since the model was loaded; blobs that are named in keep need no "
        "second reading",
        model->weights.item[i]);
  }
  return CREMA_OK;
}

/* The net as it is without passes, with its weights. */
static crema_status load_net(const crema_model *model, crema_net **out) {
  Caffe__NetParameter *param = NULL;
  crema_net *net = NULL;
  CR_TRY(cr_message_copy(&model->source->base, &param));
  const bool all_follow =
      !model->allow_missing && (model->bytes != NULL || model->weights.count > 0);
  const cr_net_build_options build = {.path = model->path, .awaits_params = all_follow};
  CR_TRY(cr_net_create(param, &model->options, &build, &net));
  crema_status status = CREMA_OK;
  const cr_net_missing missing = model->allow_missing ? CR_MISSING_WARNED : CR_MISSING_REFUSED;
  if (model->bytes != NULL) {
    status = cr_net_load_bytes(net, model->bytes, model->size, "the weights in memory", missing);
  } else if (model->weights.count > 0) {
    status = cr_net_load_files(net, (const char *const *)model->weights.item, model->weights.count,
                               missing, NULL);
  }
  if (status == CREMA_OK) *out = net;
  else crema_net_destroy(net);
  return status;
}

/* Images are optional, so a failure is kept for the program that asks for the preprocessing. */
static crema_status make_images(crema_model *model, const crema_net *net) {
  const int inputs = crema_net_input_count(net);
  CR_TRY(CR_NEW(model->images, inputs + 1, "a model's preprocessing"));
  model->inputs = inputs;
  for (int i = 0; i < inputs; ++i) {
    cr_model_images *images = &model->images[i];
    images->status = crema_preprocessing_create(net, i, &images->preprocessing);
    if (images->status == CREMA_E_NO_MEMORY) return images->status;
    if (images->status != CREMA_OK) images->error = cr_error_keep();
  }
  return CREMA_OK;
}

static crema_status compile(crema_model *model, const cr_list *keep, cr_buffer *text,
                            cr_program **out) {
  crema_net *net = NULL;
  cr_graph graph = {0};
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(load_net(model, &net), out);
  if (model->images == NULL) CR_TRY_GOTO(make_images(model, net), out);
  CR_TRY_GOTO(cr_graph_make(&graph, net, (const char *const *)keep->item, keep->count, text), out);
  graph.precision = model->precision;
  graph.scales = &model->scales;
  CR_TRY_GOTO(cr_passes_run(&graph, (const char *const *)model->without.item, model->without.count),
              out);
  CR_TRY_GOTO(cr_program_make(&graph, out), out);
  status = cr_buffer_print(text, "%d layers of the net became %zu\n", net->layers,
                           (*out)->param->n_layer);
out:
  cr_graph_free(&graph);
  crema_net_destroy(net);
  return status;
}

static crema_status copy_names(const char *const *name, size_t count, cr_list *out) {
  for (size_t i = 0; i < count; ++i) CR_TRY(cr_list_add(out, name[i], strlen(name[i])));
  return CREMA_OK;
}

static crema_status set_options(crema_model *model, const crema_model_options *options) {
  CR_TRY(copy_names(options->stages, options->stage_count, &model->stages));
  CR_TRY(copy_names(options->keep, options->keep_count, &model->keep));
  CR_TRY(copy_names(options->without, options->without_count, &model->without));
  model->precision = options->precision;
  if (options->precision == CREMA_PRECISION_INT8) {
    if (options->table != NULL && options->table[0] != '\0') {
      CR_TRY(cr_scales_read(options->table, &model->scales));
    }
  }
  model->allow_missing = options->allow_missing;
  crema_net_options_init(&model->options);
  model->options.level = options->level;
  model->options.stages = (const char *const *)model->stages.item;
  model->options.stage_count = model->stages.count;
  model->options.warn_unknown_fields = options->warn_unknown_fields;
  model->options.skip_corrupt = options->skip_corrupt;
  /* The same each time that it is compiled. */
  const uint64_t drawn = cr_random_seed();
  model->options.seed = options->seed < 0 ? (int64_t)(drawn >> 1) : options->seed;
  return CREMA_OK;
}

static crema_status set_weights(crema_model *model, const char *weights) {
  if (weights == NULL) return CREMA_OK;
  CR_TRY(cr_list_split(weights, &model->weights));
  CR_TRY(CR_NEW(model->stamp, model->weights.count + 1, "a model"));
  for (size_t i = 0; i < model->weights.count; ++i) {
    CR_TRY(read_stamp(model->weights.item[i], &model->stamp[i]));
  }
  return CREMA_OK;
}

/* `options` may be NULL. */
static crema_status create(const crema_model_options *options, crema_model **out) {
  enum { MOST_PLANS = 8192 }; /* a few sizes of batches of a net of a thousand ops */
  crema_model_options standard;
  crema_model *model = NULL;
  crema_model_options_init(&standard);
  CR_TRY(CR_NEW(model, 1, "a model"));
  crema_status status = cr_plan_cache_create(MOST_PLANS, &model->plans);
  if (status != CREMA_OK) {
    free(model);
    return status;
  }
  model->references = 1;
  pthread_mutex_init(&model->lock, NULL);
  status = set_options(model, options == NULL ? &standard : options);
  if (status == CREMA_OK) *out = model;
  else cr_model_release(model);
  return status;
}

/* Compiles the net after it was read with the status `read`. */
static crema_status finish(crema_model *model, crema_status read, crema_model **out) {
  crema_status status = read;
  if (status == CREMA_OK) status = compile(model, &model->keep, &model->text, &model->program);
  if (status == CREMA_OK) *out = model;
  else cr_model_release(model);
  return status;
}

crema_status crema_model_load(const char *net, const char *weights,
                              const crema_model_options *options, crema_model **out) {
  CR_REQUIRE(net);
  CR_REQUIRE(out);
  crema_model *model = NULL;
  CR_TRY(create(options, &model));
  crema_status status = set_weights(model, weights);
  if (status == CREMA_OK) {
    status = cr_net_param_load(net, model->options.warn_unknown_fields, &model->source);
  }
  if (status == CREMA_OK && (model->path = strdup(net)) == NULL) {
    status = cr_fail_memory(strlen(net) + 1, "a path");
  }
  return finish(model, status, out);
}

crema_status crema_model_load_memory(const char *net, size_t net_size, const void *weights,
                                     size_t weights_size, const crema_model_options *options,
                                     crema_model **out) {
  CR_REQUIRE(net);
  CR_REQUIRE(out);
  crema_model *model = NULL;
  CR_TRY(create(options, &model));
  model->bytes = weights;
  model->size = weights_size;
  crema_status status =
      cr_net_param_parse(net, net_size, "net", model->options.warn_unknown_fields, &model->source);
  return finish(model, status, out);
}

void crema_model_destroy(crema_model *model) {
  if (model != NULL) cr_model_release(model);
}

crema_status crema_model_preprocessing(crema_model *model, int index, crema_preprocessing **out) {
  CR_REQUIRE(model);
  CR_REQUIRE(out);
  if (index < 0 || index >= model->inputs) {
    return cr_fail(CREMA_E_RANGE, "input %d of a model with %d inputs", index, model->inputs);
  }
  const cr_model_images *images = &model->images[index];
  if (images->status != CREMA_OK) return cr_error_again(images->status, images->error);
  *out = images->preprocessing;
  return CREMA_OK;
}

const char *crema_model_explain(const crema_model *model) {
  return model == NULL ? NULL : model->text.data;
}

void cr_model_retain(crema_model *model) {
  pthread_mutex_lock(&model->lock);
  model->references += 1;
  pthread_mutex_unlock(&model->lock);
}

void cr_model_release(crema_model *model) {
  pthread_mutex_lock(&model->lock);
  const int left = --model->references;
  pthread_mutex_unlock(&model->lock);
  if (left > 0) return;
  if (model->plans != NULL) {
    const cr_plan_cache_counts counts = cr_plan_cache_count(model->plans);
    cr_log_debug("Plans of a compiled model: %llu made, %llu found",
                 (unsigned long long)counts.made, (unsigned long long)counts.found);
  }
  for (int i = 0; i < model->inputs; ++i) {
    crema_preprocessing_destroy(model->images[i].preprocessing);
    free(model->images[i].error);
  }
  free(model->images);
  cr_program_destroy(model->program);
  cr_plan_cache_destroy(model->plans);
  cr_buffer_free(&model->text);
  cr_scales_free(&model->scales);
  cr_list_free(&model->keep);
  cr_list_free(&model->without);
  cr_list_free(&model->stages);
  free(model->stamp);
  cr_list_free(&model->weights);
  free(model->path);
  if (model->source != NULL) cr_message_free(&model->source->base);
  pthread_mutex_destroy(&model->lock);
  free(model);
}

crema_status cr_model_use_device(crema_model *model, crema_device *device) {
  pthread_mutex_lock(&model->lock);
  if (model->device == NULL) model->device = device;
  const bool same = model->device == device;
  pthread_mutex_unlock(&model->lock);
  if (same) return CREMA_OK;
  return cr_fail(CREMA_E_STATE,
                 "the model's sessions run on another device; load a model for each device");
}

cr_program *cr_model_take_program(crema_model *model) {
  pthread_mutex_lock(&model->lock);
  cr_program *program = model->program;
  program->references += 1;
  pthread_mutex_unlock(&model->lock);
  return program;
}

/* With the lock, or without other users. */
static void drop_program(cr_program *program) {
  if (program != NULL && --program->references == 0) cr_program_destroy(program);
}

void cr_model_drop_program(crema_model *model, cr_program *program) {
  pthread_mutex_lock(&model->lock);
  drop_program(program);
  pthread_mutex_unlock(&model->lock);
}

/* With the lock. A blob that passes have kept so far may be dropped when another blob is kept. */
static crema_status keep_blob(crema_model *model, const char *blob) {
  cr_program *program = NULL;
  cr_buffer text = {0};
  if (cr_program_has(model->program, blob)) {
    for (size_t i = 0; i < model->keep.count; ++i) {
      if (strcmp(model->keep.item[i], blob) == 0) return CREMA_OK;
    }
    return cr_list_add(&model->keep, blob, strlen(blob));
  }
  CR_TRY(check_stamps(model));
  CR_TRY(cr_list_add(&model->keep, blob, strlen(blob)));
  crema_status status = compile(model, &model->keep, &text, &program);
  cr_buffer_free(&text);
  if (status != CREMA_OK) {
    free(model->keep.item[--model->keep.count]);
    return status;
  }
  drop_program(model->program);
  model->program = program;
  return CREMA_OK;
}

crema_status cr_model_keep(crema_model *model, const char *blob) {
  pthread_mutex_lock(&model->lock);
  crema_status status = keep_blob(model, blob);
  pthread_mutex_unlock(&model->lock);
  return status;
}

crema_status cr_model_build(crema_model *model, const cr_program *program, crema_context *context,
                            crema_net **out) {
  crema_net_options options = model->options;
  options.plan_memory = true;
  pthread_mutex_lock(&model->lock);
  crema_status status = cr_program_build(program, &options, model->path, context, out);
  pthread_mutex_unlock(&model->lock);
  return status;
}
