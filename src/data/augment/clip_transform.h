/* transform_param of clips: crops at fixed positions and of several sizes (Wang et al., "Towards
 * good practices for very deep two-stream ConvNets", 2015), the same for all frames of a clip. */
#ifndef CR_DATA_CLIP_TRANSFORM_H
#define CR_DATA_CLIP_TRANSFORM_H

#include "data/image/image.h"
#include "proto/proto.h"

/* A new message with the fields for the transformer, to which a clip is an image of channels *
 * frames channels: frame by frame (`stacked`) or channel by channel. It has a mean value for each
 * of them, and none of the fields that only clips have. */
crema_status cr_clip_transform(const Caffe__TransformationParameter *param, int channels,
                               int frames, bool stacked,
                               Caffe__TransformationParameter **out) CREMA_MUST_USE;

/* Whether the fields ask for such crops. */
bool cr_fixed_crop_is_set(const Caffe__TransformationParameter *param);

/* The crop of sample number `sample` from frames of height x width, to be resized to crop_size. It
 * depends on the key and the sample only. Errors: CREMA_E_ARGUMENT (no crop_size), CREMA_E_SHAPE
 * (the crop exceeds the frame). */
crema_status cr_fixed_crop_choose(const Caffe__TransformationParameter *param, uint64_t key,
                                  uint64_t sample, int height, int width,
                                  cr_image_part *out) CREMA_MUST_USE;

#endif
