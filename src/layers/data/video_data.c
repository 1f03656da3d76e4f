/* VideoData: frames of a video or of a camera.
 *
 * Formula: none: frames are read in order; skip_frames frames are skipped between two. The program
 * ffmpeg decodes them in its own process. It must be on the PATH, or CREMA_FFMPEG names its file.
 * Shapes: no bottom -> data (batch, 3, height, width) and, optionally, label (batch), which is 0.
 * data_param has the batch size.
 * Fields: video_data_param, data_param, transform_param.
 * Caffe: as in Caffe-SSD, which decodes through OpenCV, and at the end of a video ends the program;
 * here the video begins anew.
 * Example:
 *   layer { name: "data" type: "VideoData" top: "data" top: "label"
 *     video_data_param { video_type: VIDEO video_file: "street.mp4" skip_frames: 1 }
 *     data_param { batch_size: 2 } transform_param { crop_size: 24 mean_value: 104 } } */
#include <inttypes.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "core/rng.h"
#include "data/augment/transformer.h"
#include "data/image/video_pipe.h"
#include "data/pipeline/load_pixels.h"
#include "layers/data/adapters/batch_loader.h"

enum { PREFETCH = 3 };

/* A frame of a batch. */
typedef struct video_item {
  cr_image image;
  uint64_t sample;
} video_item;

typedef struct video_state {
  cr_batch_input batches; /* must be the first member */
  cr_video_pipe pipe;
  uint64_t step; /* frames from one sample to the next */
  /* Solvers that share the layer take turns in the samples, but each takes a whole batch before the
   * next solver does. Frames that arrive too early wait here, sample k in waiting[k / stride %
   * wait_size]. */
  cr_image *waiting;
  uint64_t wait_size; /* as many as the sharers take in a step */
  uint64_t stride;    /* from one sample that is taken here to the next */
  uint64_t next;      /* the sample to be read next; UINT64_MAX: the first that is taken */
  cr_transformer *transformer;
  char *name; /* of the video, for messages */
} video_state;

static void stop(void *user) {
  video_state *s = user;
  cr_video_pipe_stop(&s->pipe);
  s->next = UINT64_MAX;
}

static cr_image *waiting_at(const video_state *s, uint64_t sample) {
  return &s->waiting[sample / s->stride % s->wait_size];
}

static crema_status take_frame(void *user, cr_batch *batch, int i) {
  video_state *s = user;
  video_item *item = cr_batch_item(batch, i);
  item->sample = batch->sample + (uint64_t)i * (uint64_t)batch->solvers;
  if (s->next == UINT64_MAX) s->next = item->sample;
  for (; s->next <= item->sample; s->next += s->stride) {
    CR_TRY(cr_video_pipe_read(&s->pipe, s->next * s->step, waiting_at(s, s->next)));
  }
  cr_image_swap(waiting_at(s, item->sample), &item->image);
  return CREMA_OK;
}

static crema_status load_frame(void *user, cr_load *load) {
  static const char advice[] = "frames of different sizes need crop_size or resize_param";
  const video_state *s = user;
  video_item *item = cr_batch_item(load->batch, load->item);
  cr_pixels pixels = cr_image_pixels(&item->image);
  CR_TRY(cr_transformer_augment(s->transformer, item->sample, &pixels, &item->image));
  CR_TRY(cr_load_pixels(load, s->transformer, &pixels, item->sample, advice));
  if (load->batch->tops > 1) load->batch->top[1].values[load->item] = 0;
  return CREMA_OK;
}

static void free_item(void *item) {
  cr_image_free(&((video_item *)item)->image);
}

static const cr_source video_source = {
    .stop = stop, .take = take_frame, .load = load_frame, .free_item = free_item};

static void use_key(void *state) {
  video_state *s = state;
  cr_transformer_set_key(s->transformer, cr_mix_key(s->batches.key, cr_hash_text("transform")));
}

static crema_status open_video(const cr_layer *layer, video_state *s) {
  const Caffe__VideoDataParameter *p = layer->param->video_data_param;
  if (p->video_type == CAFFE__VIDEO_DATA_PARAMETER__VIDEO_TYPE__WEBCAM) {
    return cr_video_pipe_open(NULL, p->device_id, &s->pipe);
  }
  CR_TRY(cr_file_resolve_input(layer->source_dir_file, p->video_file, &s->name));
  return cr_video_pipe_open(s->name, 0, &s->pipe);
}

/* Channels, height and width of the tops, from the first frame. */
static crema_status find_shape(video_state *s, int extent[3]) {
  cr_image image = {0};
  crema_status status = cr_video_pipe_read(&s->pipe, 0, &image);
  cr_pixels pixels = cr_image_pixels(&image);
  if (status == CREMA_OK) status = cr_transformer_augment(s->transformer, 0, &pixels, &image);
  if (status == CREMA_OK) {
    status =
        cr_transformer_shape(s->transformer, pixels.channels, pixels.height, pixels.width, extent);
  }
  cr_video_pipe_stop(&s->pipe);
  cr_image_free(&image);
  return status;
}

static crema_status open_loader(cr_layer *layer, video_state *s, crema_blob *const *top) {
  const int64_t items = layer->param->data_param->batch_size;
  int extent[3], threads = 0;
  CR_TRY(open_video(layer, s));
  CR_TRY(cr_transformer_create(layer->param->transform_param, layer->phase, 0,
                               layer->source_dir_file, &s->transformer));
  s->batches.key = layer->key;
  s->batches.key_restored = use_key;
  use_key(s);
  s->next = UINT64_MAX;
  s->stride = (uint64_t)(layer->solver.solvers / cr_layer_sharers(layer));
  s->wait_size = (uint64_t)items * (uint64_t)cr_layer_sharers(layer);
  CR_TRY(CR_NEW(s->waiting, s->wait_size, "frames"));
  CR_TRY(find_shape(s, extent));
  CR_TRY(cr_pipeline_threads(0, &threads));
  const crema_shape shape[2] = {cr_shape_4(items, extent[0], extent[1], extent[2]),
                                cr_shape_1(items)};
  cr_log_info("output data size: %" PRId64 ",%d,%d,%d", items, extent[0], extent[1], extent[2]);
  const cr_pipeline_options options = {.name = cr_video_pipe_name(&s->pipe),
                                       .source = &video_source,
                                       .user = s,
                                       .tops = layer->tops,
                                       .items = (int)items,
                                       .depth = PREFETCH,
                                       .threads = threads,
                                       .item_size = sizeof(video_item),
                                       .shape = shape};
  return cr_batch_loader_open(&s->batches.loader, layer, &options, top);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  video_state *s = layer->state;
  const Caffe__VideoDataParameter *p = layer->param->video_data_param;
  const Caffe__DataParameter *data = layer->param->data_param;
  (void)bottom;
  CR_TRY(cr_layer_check_batch(layer, "data_param", data != NULL ? data->batch_size : 0));
  if (p == NULL || (p->video_type == CAFFE__VIDEO_DATA_PARAMETER__VIDEO_TYPE__VIDEO &&
                    (p->video_file == NULL || p->video_file[0] == '\0'))) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "video_data_param with a video_file or, for a camera, video_type: WEBCAM "
                         "is required");
  }
  if (p->device_id < 0) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "device_id is %d, must be 0 or more", p->device_id);
  }
  s->step = (uint64_t)p->skip_frames + 1;
  return cr_layer_in(layer, open_loader(layer, s, top));
}

static void destroy(cr_layer *layer) {
  video_state *s = layer->state;
  cr_batch_loader_close(&s->batches.loader);
  cr_transformer_destroy(s->transformer);
  cr_video_pipe_close(&s->pipe);
  for (uint64_t i = 0; s->waiting != NULL && i < s->wait_size; ++i) cr_image_free(&s->waiting[i]);
  free(s->waiting);
  free(s->name);
}

const cr_layer_class cr_layer_video_data = {
    CR_LAYER_INPUT("VideoData", sizeof(video_state), 1, 2),
    .input = &cr_batch_input_class,
    .graph.shareable = true,
    .setup = setup,
    .forward = cr_batch_input_forward,
    .destroy = destroy,
};
