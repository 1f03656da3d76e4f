/* VideoClips: batches of clips, each some frames of a video.
 *
 * Formula: none: each line of the list `source` names a folder of frames or a video, a number, and
 * the label. The number is the clip's first frame, from 1 on. With use_temporal_jitter (C3D) or
 * num_segments or modality (TSN) it is the number of frames. All frames of a clip are cropped and
 * mirrored alike. Frame k is the file image_%04d.jpg of the folder, with use_image %06d.jpg, or as
 * name_pattern says. A video is decoded by ffmpeg (VideoData); with use_image: false its first
 * frame has the number 0.
 * Shapes: no bottom -> data (batch, channels, new_length, height, width) and, optionally, label
 * (batch). TSN: data (batch, num_segments * new_length * channels, height, width).
 * Fields: image_data_param, video_data_param, transform_param.
 * Caffe: VideoData of C3D, of video-caffe and of TSN becomes this layer. In TRAIN, C3D skips clips
 * that cannot be read, and TSN repeats a clip for them; here they are an error. For TEST, C3D's
 * use_temporal_jitter starts at frame 0, here at the first. A mean clip must have as many frames as
 * the clips. video-caffe starts a clip of a video one frame early.
 * Example:
 *   layer { name: "data" type: "VideoClips" top: "data" top: "label"
 *     image_data_param { source: "clips.txt" batch_size: 2 new_height: 32 new_width: 40 }
 *     video_data_param { new_length: 4 } transform_param { crop_size: 24 mean_value: 104 } } */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/rng.h"
#include "data/augment/clip_transform.h"
#include "data/image/image_scaled.h"
#include "data/image/video_pipe.h"
#include "data/pipeline/clip_list.h"
#include "layers/data/adapters/listed_input.h"

enum { FRAMES_MAX = 4096 };

/* The memory of one thread. */
typedef struct clip_worker {
  cr_buffer name, path, file;
  cr_image raw, resized, cut;
  uint8_t *planes; /* of the clip, channel by channel */
  size_t capacity; /* bytes at planes */
} clip_worker;

typedef struct clips_state {
  cr_listed_input input; /* must be the first member */
  cr_clip_list list;
  const Caffe__VideoDataParameter *video;
  const Caffe__TransformationParameter *transform;
  bool stacked, flow, train;
  int length, segments, channels; /* channels of a frame */
  clip_worker *worker;
} clips_state;

/* The clip that is being read. */
typedef struct clip_job {
  const clips_state *s;
  clip_worker *w;
  const cr_listed_item *item;
  int64_t first, rate; /* number of the first frame, and from one frame to the next */
  int height, width;   /* of the planes; 0 before the first frame */
  bool mirror;
} clip_job;

static int frames_of(const clips_state *s) {
  return s->length * s->segments;
}

/* A random number of the clip, 0 to count - 1. */
static int64_t draw(const clip_job *job, const char *use, uint64_t index, int64_t count) {
  const uint64_t key = cr_mix_key(job->s->input.batches.key, cr_hash_text(use));
  uint32_t word[4];
  cr_philox(key, index, job->item->sample, word);
  return (int64_t)(((uint64_t)word[0] * (uint64_t)count) >> 32);
}

/* TSN: frame k of a clip, which has `length` frames of each part of the video: from a random place
 * of the part in TRAIN, from its middle in TEST. */
static int64_t number_in_part(const clip_job *job, int k) {
  const clips_state *s = job->s;
  const int64_t part = s->list.number[job->item->line] / s->segments, spare = part - s->length;
  const int index = k / s->length;
  if (spare < 0) return k % s->length + 1;
  const int64_t place =
      s->train ? draw(job, "segment", (uint64_t)index, spare + 1) : (spare + 1) / 2;
  return index * part + place + k % s->length + 1;
}

/* C3D and video-caffe: the first frame and the step. */
static crema_status start_clip(clip_job *job) {
  const clips_state *s = job->s;
  const int64_t number = s->list.number[job->item->line];
  job->first = number;
  job->rate = s->video->sampling_rate;
  if (s->video->use_sampling_rate_jitter) {
    job->rate = draw(job, "rate", 0, s->video->max_sampling_rate) + 1;
  }
  if (!s->video->use_temporal_jitter) return CREMA_OK;
  const int64_t spare = number - s->length * job->rate;
  if (spare < 0) {
    return cr_fail(CREMA_E_SHAPE, "the clip needs %lld frames, the list has %lld of them",
                   (long long)(s->length * job->rate), (long long)number);
  }
  job->first = s->train ? draw(job, "start", 0, spare + 1) + 1 : 1;
  return CREMA_OK;
}

static void choose_size(const void *user, int height, int width, int *out_height, int *out_width) {
  const Caffe__ImageDataParameter *param = user;
  *out_height = param->new_height > 0 ? (int)param->new_height : height;
  *out_width = param->new_width > 0 ? (int)param->new_width : width;
}

/* Reads the file of a frame; axis: x or y, for flow. */
static crema_status read_file(clip_job *job, char axis, int64_t number, cr_image **out) {
  const clips_state *s = job->s;
  clip_worker *w = job->w;
  const Caffe__VideoDataParameter *video = s->video;
  const char *usual = s->flow            ? "flow_%c_%04d.jpg"
                      : video->use_image ? "%06d.jpg"
                                         : "image_%04d.jpg";
  const cr_image_sizer sizer = {choose_size, s->input.param, s->input.param->exact_resize};
  cr_buffer_clear(&w->name);
  CR_TRY(cr_buffer_print(&w->name, "%s/", s->list.lines.entry[job->item->line].name));
  CR_TRY(cr_clip_frame_name(video->name_pattern != NULL ? video->name_pattern : usual, axis, number,
                            &w->name));
  CR_TRY(cr_listed_file_read(s->list.lines.path, s->input.root, w->name.data, &w->path, &w->file));
  return cr_fail_in(cr_image_decode_to((const uint8_t *)w->file.data, w->file.size,
                                       s->flow ? CR_IMAGE_GRAY : cr_listed_input_color(&s->input),
                                       &sizer, &w->raw, &w->resized, out),
                    "%s", w->path.data);
}

/* The luma of a coloured image, in place. */
static void make_gray(cr_image *image) {
  const size_t count = (size_t)image->height * (size_t)image->width;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t *p = image->pixels + 3 * i;
    image->pixels[i] = (uint8_t)((1868 * p[0] + 9617 * p[1] + 4899 * p[2] + (1 << 13)) >> 14);
  }
  image->channels = 1;
}

/* Reads a frame of a video. */
static crema_status read_video(clip_job *job, cr_video_pipe *pipe, int64_t number, cr_image **out) {
  const Caffe__ImageDataParameter *param = job->s->input.param;
  clip_worker *w = job->w;
  CR_TRY(cr_video_pipe_read(pipe, (uint64_t)number, &w->raw));
  if (cr_listed_input_color(&job->s->input) == CR_IMAGE_GRAY) make_gray(&w->raw);
  *out = &w->raw;
  if (param->new_height == 0) return CREMA_OK;
  CR_TRY(cr_image_resize(&w->raw, (int)param->new_height, (int)param->new_width, &w->resized));
  *out = &w->resized;
  return CREMA_OK;
}

/* Cuts and resizes a frame as the fields of TSN say. *image becomes the result. */
static crema_status crop_frame(clip_job *job, cr_image **image) {
  const clips_state *s = job->s;
  const int side = (int)s->transform->crop_size;
  const uint64_t key = cr_mix_key(s->input.batches.key, cr_hash_text("crop"));
  cr_image *from = *image, *to = from == &job->w->raw ? &job->w->resized : &job->w->raw;
  cr_image_part part;
  if (!s->train || !cr_fixed_crop_is_set(s->transform)) return CREMA_OK;
  CR_TRY(
      cr_fixed_crop_choose(s->transform, key, job->item->sample, from->height, from->width, &part));
  CR_TRY(cr_image_reserve(&job->w->cut, part.height, part.width, from->channels));
  const size_t row = (size_t)part.width * (size_t)from->channels;
  for (int y = 0; y < part.height; ++y) {
    const size_t at = (size_t)(part.top + y) * (size_t)from->width + (size_t)part.left;
    memcpy(job->w->cut.pixels + (size_t)y * row, from->pixels + at * (size_t)from->channels, row);
  }
  *image = &job->w->cut;
  if (part.height == side && part.width == side) return CREMA_OK;
  CR_TRY(cr_image_resize(&job->w->cut, side, side, to));
  *image = to;
  return CREMA_OK;
}

/* Makes room for the clip when its first frame is known. */
static crema_status begin_planes(clip_job *job, int height, int width) {
  const clips_state *s = job->s;
  const size_t bytes = (size_t)frames_of(s) * (size_t)s->channels * (size_t)height * (size_t)width;
  cr_image_part part;
  if (job->height > 0 && job->height == height && job->width == width) return CREMA_OK;
  if (job->height > 0) {
    return cr_fail(CREMA_E_SHAPE,
                   "frames of %d x %d and %d x %d in one clip need new_height and new_width",
                   job->height, job->width, height, width);
  }
  job->height = height;
  job->width = width;
  CR_TRY(cr_transformer_crop(s->input.transformer, job->item->sample, height, width, &part,
                             &job->mirror));
  if (bytes <= job->w->capacity) return CREMA_OK;
  uint8_t *more = realloc(job->w->planes, bytes);
  if (more == NULL) return cr_fail_memory(bytes, "the frames of a clip");
  job->w->planes = more;
  job->w->capacity = bytes;
  return CREMA_OK;
}

/* Stores image `part` (of flow: 0 for x, 1 for y) of frame k as planes. */
static crema_status store(clip_job *job, cr_image *image, int k, int part) {
  const clips_state *s = job->s;
  cr_pixels pixels;
  CR_TRY(crop_frame(job, &image));
  pixels = cr_image_pixels(image);
  CR_TRY(cr_transformer_augment(s->input.transformer, job->item->sample, &pixels, image));
  CR_TRY(begin_planes(job, pixels.height, pixels.width));
  const size_t count = (size_t)pixels.height * (size_t)pixels.width;
  const uint8_t invert = s->transform->is_flow && job->mirror && part == 0 && s->flow ? 255 : 0;
  for (int c = 0; c < image->channels; ++c) {
    const int color = s->transform->bgr2rgb && image->channels == 3 ? 2 - c : c;
    const int channel = s->flow ? part : color;
    const int plane = s->stacked ? k * s->channels + channel : channel * frames_of(s) + k;
    const uint8_t *from = (const uint8_t *)pixels.values + c;
    uint8_t *to = job->w->planes + (size_t)plane * count;
    for (size_t i = 0; i < count; ++i) to[i] = from[i * (size_t)image->channels] ^ invert;
  }
  return CREMA_OK;
}

static crema_status read_folder(clip_job *job) {
  const clips_state *s = job->s;
  for (int k = 0; k < frames_of(s); ++k) {
    const int64_t number = s->stacked ? number_in_part(job, k) : job->first + k * job->rate;
    for (int part = 0; part < (s->flow ? 2 : 1); ++part) {
      cr_image *image = NULL;
      CR_TRY(read_file(job, "xy"[part], number, &image));
      CR_TRY(store(job, image, k, part));
    }
  }
  return CREMA_OK;
}

/* C3D counts the frames of a video from 0 on, video-caffe from 1 on. */
static crema_status read_frames(clip_job *job, cr_video_pipe *pipe) {
  const int64_t first = job->first - (job->s->video->has_use_image || job->first == 0 ? 0 : 1);
  for (int k = 0; k < frames_of(job->s); ++k) {
    cr_image *image = NULL;
    CR_TRY(read_video(job, pipe, first + k * job->rate, &image));
    CR_TRY(store(job, image, k, 0));
  }
  return CREMA_OK;
}

/* Whether a line names a folder, and the path of the folder or video. */
static crema_status find_folder(clip_job *job, char **path, bool *out) {
  const clips_state *s = job->s;
  struct stat info;
  cr_buffer_clear(&job->w->name);
  CR_TRY(cr_buffer_print(&job->w->name, "%s%s", s->input.root,
                         s->list.lines.entry[job->item->line].name));
  CR_TRY(cr_file_resolve(s->list.lines.path, job->w->name.data, path));
  *out = s->stacked || s->video->use_image ||
         (!s->video->has_use_image && (stat(*path, &info) != 0 || S_ISDIR(info.st_mode)));
  return CREMA_OK;
}

static crema_status read_clip(clip_job *job) {
  cr_video_pipe pipe = {0};
  char *path = NULL;
  bool folder = false;
  if (!job->s->stacked) CR_TRY(start_clip(job));
  crema_status status = find_folder(job, &path, &folder);
  if (status == CREMA_OK && folder) status = read_folder(job);
  if (status == CREMA_OK && !folder) {
    status = cr_video_pipe_open(path, 0, &pipe);
    pipe.once = true;
    if (status == CREMA_OK) status = read_frames(job, &pipe);
    cr_video_pipe_close(&pipe);
  }
  free(path);
  return status;
}

static cr_pixels planes_of(const clip_job *job) {
  const clips_state *s = job->s;
  return (cr_pixels){.values = job->w->planes,
                     .type = CREMA_U8,
                     .channels = frames_of(s) * s->channels,
                     .height = job->height,
                     .width = job->width};
}

/* The shape of a batch of clips of these extents, all channels counted. */
static crema_shape shape_of(const clips_state *s, const int extent[3]) {
  const int64_t items = s->input.param->batch_size;
  const int64_t dim[] = {items, s->channels, frames_of(s), extent[1], extent[2]};
  return s->stacked ? cr_shape_4(items, extent[0], extent[1], extent[2]) : cr_shape(5, dim);
}

/* Transforms the clip into its place in the batch. */
static crema_status place(clip_job *job, cr_load *load) {
  const clips_state *s = job->s;
  const cr_pixels pixels = planes_of(job);
  cr_batch_top *top = &load->batch->top[0];
  int extent[3];
  CR_TRY(cr_transformer_shape(s->input.transformer, pixels.channels, pixels.height, pixels.width,
                              extent));
  const crema_shape shape = shape_of(s, extent);
  if (load->item == 0) CR_TRY(cr_batch_reserve(load->batch, 0, &shape, NULL));
  if (!crema_shape_equal(&top->shape, &shape)) {
    return cr_fail(CREMA_E_SHAPE,
                   "clips of different sizes need new_height and new_width, or crop_size");
  }
  float *out = top->values + load->item * crema_shape_count(&shape, 1, shape.axes);
  return cr_transformer_run(s->input.transformer, &pixels, job->item->sample, out);
}

static crema_status load_item(void *user, cr_load *load) {
  const clips_state *s = user;
  const cr_listed_item *item = cr_batch_item(load->batch, load->item);
  const cr_list_entry *entry = &s->list.lines.entry[item->line];
  clip_job job = {.s = s, .w = &s->worker[load->worker], .item = item};
  const double start = cr_clock_seconds();
  crema_status status = read_clip(&job);
  const double read = cr_clock_seconds();
  if (status == CREMA_OK) status = place(&job, load);
  CR_TRY(cr_fail_in(status, "%s:%zu: %s", s->list.lines.path, entry->line, entry->name));
  load->decode_seconds = read - start;
  load->transform_seconds = cr_clock_seconds() - read;
  if (load->batch->tops > 1) load->batch->top[1].values[load->item] = (float)entry->label;
  return CREMA_OK;
}

static const cr_source clip_source = {.take = cr_listed_input_take, .load = load_item};

static crema_status check_param(const cr_layer *layer, const Caffe__VideoDataParameter *p) {
  const int64_t frames = (int64_t)p->new_length * p->num_segments;
  if (p->use_multiple_label || p->num_of_labels > 1) {
    return cr_layer_fail(
        layer, CREMA_E_UNSUPPORTED,
        "video_data_param: use_multiple_label and num_of_labels are not supported");
  }
  if (p->use_temporal_jitter && !p->use_image) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "video_data_param: use_temporal_jitter needs use_image: true");
  }
  if (p->new_length < 1 || p->num_segments < 1 || frames > FRAMES_MAX || p->sampling_rate < 1 ||
      p->sampling_rate > INT32_MAX || p->max_sampling_rate < 1 ||
      p->max_sampling_rate > INT32_MAX) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "video_data_param: new_length %u, num_segments %u, sampling_rate %u and "
                         "max_sampling_rate %u must be 1 or more, and a clip has at most %d frames",
                         p->new_length, p->num_segments, p->sampling_rate, p->max_sampling_rate,
                         FRAMES_MAX);
  }
  return CREMA_OK;
}

/* Reads the list, and its first clip for the shape of a batch. */
static crema_status open_list(cr_layer *layer, clips_state *s, crema_blob *const *top) {
  Caffe__TransformationParameter *transform = NULL;
  cr_listed_item first;
  int extent[3];
  CR_TRY(cr_clip_list_read(s->input.path, &s->list));
  crema_status status =
      cr_clip_transform(s->transform, s->channels, frames_of(s), s->stacked, &transform);
  if (status == CREMA_OK) status = cr_listed_input_open(layer, s->list.lines.count, transform);
  if (transform != NULL) cr_message_free(&transform->base);
  CR_TRY(status);
  CR_TRY(CR_NEW(s->worker, s->input.threads, "decoding threads"));
  CR_TRY(cr_listed_input_at(&s->input, 0, &first));
  clip_job job = {.s = s, .w = &s->worker[0], .item = &first};
  status = read_clip(&job);
  if (status == CREMA_OK) {
    status = cr_transformer_shape(s->input.transformer, frames_of(s) * s->channels, job.height,
                                  job.width, extent);
  }
  const cr_list_entry *entry = &s->list.lines.entry[first.line];
  CR_TRY(cr_fail_in(status, "%s:%zu: %s", s->list.lines.path, entry->line, entry->name));
  const crema_shape shape[2] = {shape_of(s, extent), cr_shape_1(s->input.param->batch_size)};
  return cr_listed_input_start(layer, &clip_source, shape, top);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__VideoDataParameter video = CAFFE__VIDEO_DATA_PARAMETER__INIT;
  static const Caffe__TransformationParameter none = CAFFE__TRANSFORMATION_PARAMETER__INIT;
  clips_state *s = layer->state;
  (void)bottom;
  s->video = layer->param->video_data_param != NULL ? layer->param->video_data_param : &video;
  s->transform = layer->param->transform_param != NULL ? layer->param->transform_param : &none;
  CR_TRY(cr_listed_input_begin(layer));
  CR_TRY(check_param(layer, s->video));
  s->stacked = s->video->has_num_segments || s->video->has_modality;
  s->flow = s->stacked && s->video->modality == CAFFE__VIDEO_DATA_PARAMETER__MODALITY__FLOW;
  s->train = layer->phase == CAFFE__PHASE__TRAIN;
  s->length = (int)s->video->new_length;
  s->segments = s->stacked ? (int)s->video->num_segments : 1;
  const bool gray = s->transform->force_gray ||
                    (!s->transform->force_color && !layer->param->image_data_param->is_color);
  s->channels = s->flow ? 2 : gray ? 1 : 3;
  return cr_layer_in(layer, open_list(layer, s, top));
}

static void destroy(cr_layer *layer) {
  clips_state *s = layer->state;
  cr_batch_loader_close(&s->input.batches.loader);
  for (int i = 0; s->worker != NULL && i < s->input.threads; ++i) {
    clip_worker *w = &s->worker[i];
    cr_image_free(&w->raw);
    cr_image_free(&w->resized);
    cr_image_free(&w->cut);
    cr_buffer_free(&w->name);
    cr_buffer_free(&w->path);
    cr_buffer_free(&w->file);
    free(w->planes);
  }
  free(s->worker);
  cr_listed_input_free(&s->input);
  cr_clip_list_free(&s->list);
}

const cr_layer_class cr_layer_video_clips = {
    CR_LAYER_INPUT("VideoClips", sizeof(clips_state), 1, 2),
    .input = &cr_batch_input_class_with_epochs,
    .graph.shareable = true,
    .setup = setup,
    .forward = cr_batch_input_forward,
    .destroy = destroy,
};
