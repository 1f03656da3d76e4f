/* VideoData of C3D, video-caffe and TSN, whose lists name clips. C3D's first version has its fields
 * in image_data_param. */
#include "core/fail.h"
#include "proto/upgrade.h"

static const char *const of_image[] = {"source",     "batch_size", "rand_skip", "shuffle",
                                       "new_height", "new_width",  "is_color",  "root_folder"};
static const char *const of_transform[] = {"scale", "mean_file", "crop_size", "mirror"};
static const char *const of_video[] = {"new_length", "use_image", "sampling_rate",
                                       "use_temporal_jitter", "show_data"};

bool cr_upgrade_clips_needed(const Caffe__LayerParameter *layer) {
  const Caffe__VideoDataParameter *video = layer->video_data_param;
  return cr_upgrade_is_of(layer, "VideoData") &&
         (layer->image_data_param != NULL || (video != NULL && video->source != NULL));
}

static crema_status move_all(ProtobufCMessage *from, ProtobufCMessage *to, const char *const *name,
                             size_t names) {
  for (size_t i = 0; i < names; ++i) CR_TRY(cr_message_move(from, name[i], to, name[i]));
  return CREMA_OK;
}

#define MOVE(from, to, names) CR_TRY(move_all(from, to, names, sizeof names / sizeof *names))

static crema_status upgrade_layer(Caffe__LayerParameter *layer) {
  const bool of_c3d = layer->image_data_param != NULL;
  Caffe__ImageDataParameter *image = NULL;
  Caffe__VideoDataParameter *video = NULL;
  Caffe__TransformationParameter *transform = NULL;
  if (of_c3d && layer->video_data_param != NULL && layer->video_data_param->source != NULL) {
    return cr_upgrade_twice("image_data_param", "video_data_param");
  }
  CR_TRY(cr_message_inner(&layer->base, "image_data_param", &image));
  CR_TRY(cr_message_inner(&layer->base, "video_data_param", &video));
  CR_TRY(cr_message_inner(&layer->base, "transform_param", &transform));
  MOVE(&video->base, &image->base, of_image);
  MOVE(&video->base, &transform->base, of_transform);
  MOVE(&image->base, &transform->base, of_transform);
  MOVE(&image->base, &video->base, of_video);
  CR_TRY(cr_message_move(&image->base, "mean_value", &transform->base, "mean_value"));
  if (of_c3d) video->has_use_image = 1;
  if (video->grayscale) {
    image->has_is_color = 1;
    image->is_color = 0;
  }
  cr_message_clear(&video->base, "grayscale");
  return cr_upgrade_set_type(layer, "VideoClips");
}

crema_status cr_upgrade_clips(cr_upgrade *upgrade) {
  for (size_t i = 0; i < upgrade->net->n_layer; ++i) {
    Caffe__LayerParameter *layer = upgrade->net->layer[i];
    if (!cr_upgrade_clips_needed(layer)) continue;
    CR_TRY(cr_upgrade_in_layer(upgrade, &layer->base, upgrade_layer(layer)));
  }
  return CREMA_OK;
}
