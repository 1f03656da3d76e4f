#include "layers/data/adapters/listed_input.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "core/rng.h"

enum { PREFETCH = 3 };

crema_status cr_listed_input_begin(cr_layer *layer) {
  cr_listed_input *s = layer->state;
  const Caffe__ImageDataParameter *param = layer->param->image_data_param;
  if (param == NULL || param->source == NULL || param->source[0] == '\0') {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "image_data_param with a source is required");
  }
  CR_TRY(cr_layer_check_batch(layer, "image_data_param", param->batch_size));
  if ((param->new_height > 0) != (param->new_width > 0) || param->new_height > CR_IMAGE_MAX_SIDE ||
      param->new_width > CR_IMAGE_MAX_SIDE) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "image_data_param: new_height %u and new_width %u: give both, at most %d, "
                         "or neither",
                         param->new_height, param->new_width, CR_IMAGE_MAX_SIDE);
  }
  s->param = param;
  return cr_layer_in(layer, cr_file_resolve_input(layer->source_dir_file, param->source, &s->path));
}

static void use_key(void *state) {
  cr_listed_input *s = state;
  const uint64_t key = s->batches.key;
  uint32_t draw[4];
  s->order.key = cr_mix_key(key, cr_hash_text("shuffle"));
  s->order.drawn = false;
  cr_transformer_set_key(s->transformer, cr_mix_key(key, cr_hash_text("transform")));
  cr_philox(cr_mix_key(key, cr_hash_text("rand_skip")), 0, 0, draw);
  s->skip = ((uint64_t)draw[0] * s->param->rand_skip) >> 32;
}

crema_status cr_listed_input_open(cr_layer *layer, size_t lines,
                                  const Caffe__TransformationParameter *transform) {
  cr_listed_input *s = layer->state;
  s->order.count = s->batches.epoch = lines;
  s->order.shuffle = s->param->shuffle;
  CR_TRY(cr_layer_root_folder(layer, s->param->root_folder, &s->root));
  CR_TRY(
      cr_transformer_create(transform, layer->phase, 0, layer->source_dir_file, &s->transformer));
  s->batches.key = layer->key;
  s->batches.key_restored = use_key;
  use_key(s);
  cr_log_info("A total of %zu images.", lines);
  if (s->skip > 0) cr_log_info("Skipping first %" PRIu64 " data points.", s->skip);
  return cr_pipeline_threads(s->param->has_threads ? s->param->threads : 0, &s->threads);
}

crema_status cr_listed_input_start(cr_layer *layer, const cr_source *source,
                                   const crema_shape *shape, crema_blob *const *top) {
  cr_listed_input *s = layer->state;
  cr_buffer size = {0};
  for (int i = 0; i < shape[0].axes; ++i) {
    CR_TRY(cr_buffer_print(&size, "%s%" PRId64, i > 0 ? "," : "", shape[0].dim[i]));
  }
  cr_log_info("output data size: %s", size.data);
  cr_buffer_free(&size);
  const cr_pipeline_options options = {.name = s->path,
                                       .source = source,
                                       .user = s,
                                       .tops = layer->tops,
                                       .items = (int)s->param->batch_size,
                                       .depth = PREFETCH,
                                       .threads = s->threads,
                                       .item_size = sizeof(cr_listed_item),
                                       .shape = shape};
  return cr_batch_loader_open(&s->batches.loader, layer, &options, top);
}

void cr_listed_input_free(cr_listed_input *s) {
  cr_transformer_destroy(s->transformer);
  cr_order_free(&s->order);
  free(s->root);
  free(s->path);
}

crema_status cr_listed_input_at(cr_listed_input *s, uint64_t sample, cr_listed_item *out) {
  out->sample = sample;
  return cr_order_at(&s->order, sample + s->skip, &out->line);
}

crema_status cr_listed_input_take(void *user, cr_batch *batch, int item) {
  const uint64_t sample = batch->sample + (uint64_t)item * (uint64_t)batch->solvers;
  return cr_listed_input_at(user, sample, cr_batch_item(batch, item));
}

cr_image_color cr_listed_input_color(const cr_listed_input *s) {
  const cr_image_color wanted = cr_transformer_color(s->transformer);
  if (wanted != CR_IMAGE_NATIVE) return wanted;
  return s->param->is_color ? CR_IMAGE_COLOR : CR_IMAGE_GRAY;
}

crema_status cr_listed_file_read(const char *list, const char *root, const char *name,
                                 cr_buffer *path, cr_buffer *file) {
  char *found = NULL;
  cr_buffer_clear(path);
  cr_buffer_clear(file);
  CR_TRY(cr_buffer_print(path, "%s%s", root, name));
  CR_TRY(cr_file_resolve(list, path->data, &found));
  cr_buffer_clear(path);
  crema_status status = cr_buffer_print(path, "%s", found);
  free(found);
  return status == CREMA_OK ? cr_file_read(path->data, file) : status;
}
