/* The steps that upgrade an old net to the current format; proto.h declares the complete upgrade.
 */
#ifndef CR_PROTO_UPGRADE_H
#define CR_PROTO_UPGRADE_H

#include "proto/field.h"

/* An upgrade on its way. */
typedef struct cr_upgrade {
  Caffe__NetParameter *net;
  const char *source; /* names the net in the log */
  bool fine;          /* no field had to be dropped */
  size_t line;        /* the line of the layer that a step failed in; 0: unknown */
} cr_upgrade;

/* Turns layers of the first format (a V0LayerParameter inside a V1LayerParameter) into layers of
 * the second, in place. Padding layers become the pad of the layer that reads them. Errors:
 * CREMA_E_UNKNOWN_NAME for an unknown layer type, CREMA_E_UNSUPPORTED for padding in front of
 * anything but convolution and pooling. */
crema_status cr_upgrade_v0(cr_upgrade *upgrade) CREMA_MUST_USE;
bool cr_upgrade_v0_needed(const Caffe__NetParameter *net);

/* Turns layers of the second format into LayerParameters. Errors: CREMA_E_PARSE when the net has
 * layers of both kinds. */
crema_status cr_upgrade_v1(cr_upgrade *upgrade) CREMA_MUST_USE;
bool cr_upgrade_v1_needed(const Caffe__NetParameter *net);

/* Binary nets of C3D 1.0: layers of the second format whose types have C3D's numbers get the types
 * CONVOLUTION3D, POOLING3D, VIDEO_DATA and DECONVOLUTION3D. The parameters of a layer, which no layer
 * of the usual type has, show the fork. */
crema_status cr_upgrade_c3d(cr_upgrade *upgrade) CREMA_MUST_USE;
bool cr_upgrade_c3d_needed(const Caffe__NetParameter *net);

/* In layers of the second format: moves scale, mean_file, crop_size and mirror of data layers to
 * transform_param. */
crema_status cr_upgrade_transform(cr_upgrade *upgrade) CREMA_MUST_USE;
bool cr_upgrade_transform_needed(const Caffe__NetParameter *net);

/* The forks of SegNet and ENet. BN layers of two parameters become a Scale of the same name and, in
 * mode LEARN, a BatchNorm in front of it, named "<name>/norm". DenseImageData becomes ImageSegData,
 * and SoftmaxWithLoss with weight_by_label_freqs an InfogainLoss. Errors: CREMA_E_UNSUPPORTED for
 * statistics of a BN that has none and for label_divide_factor, CREMA_E_PARSE for fields of two
 * forks, CREMA_E_ARGUMENT for missing weights. */
crema_status cr_upgrade_segnet(cr_upgrade *upgrade) CREMA_MUST_USE;
bool cr_upgrade_segnet_needed(const Caffe__LayerParameter *layer);

/* BatchNorm layers with scale_bias (or a filler of it), with use_weight_bias or filler, and BN
 * layers become a BatchNorm and a Scale layer named "<name>/scale_bias". Errors:
 * CREMA_E_UNSUPPORTED for a BN that does not have four parameters. */
crema_status cr_upgrade_norm(cr_upgrade *upgrade) CREMA_MUST_USE;
bool cr_upgrade_norm_needed(const Caffe__LayerParameter *layer);

/* relu of Convolution, InnerProduct and BatchNorm layers becomes a ReLU layer "<name>/relu",
 * scale_train: false of Dropout a Power layer "<name>/scale". A net's bn_stats_batch_size goes to
 * its BatchNorm layers. Errors: CREMA_E_UNSUPPORTED for a layer with several tops. */
crema_status cr_upgrade_fused(cr_upgrade *upgrade) CREMA_MUST_USE;
bool cr_upgrade_fused_needed(const Caffe__NetParameter *net);

/* Names that forks have for fields and layers of the schema:
 *   - hole, hole_h and hole_w of convolutions: dilation
 *   - crop_height and crop_width: crop_h and crop_w
 *   - has_label: false: label_type: NONE
 *   - selu_dropout_param: dropout_param
 *   - cpmdata_param: data_param; cpm_transform_param: transform_param
 *   - SoftmaxWithLoss with three tops and SmoothL1Loss with two: the types with OHEM
 *   - SoftmaxWithLoss with three bottoms: WeightedSoftmaxWithLoss
 *   - SoftmaxFocalLoss and focalSoftmaxWithLoss: FocalLoss
 *   - CtcLoss and WarpCTCLoss: CTCLoss
 * Errors: CREMA_E_PARSE when both names are given. */
crema_status cr_upgrade_names(cr_upgrade *upgrade) CREMA_MUST_USE;
bool cr_upgrade_names_needed(const Caffe__LayerParameter *layer);

/* Three spatial axes: Convolution3D, Deconvolution3D and Pooling3D of C3D and NdConvolution and
 * NdPooling of video-caffe become Convolution, Deconvolution and Pooling. Their kernel_depth,
 * temporal_stride and temporal_pad, or kernel_shape, stride_shape and pad_shape, become
 * kernel_size, stride and pad. Errors: CREMA_E_PARSE when both names of a field are given,
 * CREMA_E_ARGUMENT for a missing kernel_depth, CREMA_E_RANGE for extents that do not fit. */
crema_status cr_upgrade_volumes(cr_upgrade *upgrade) CREMA_MUST_USE;
bool cr_upgrade_volumes_needed(const Caffe__LayerParameter *layer);

/* VideoData with a list of clips, as C3D, video-caffe and TSN have it, becomes VideoClips. Its
 * fields that ImageData has as well go to image_data_param, mean and crop to transform_param.
 * Errors: CREMA_E_PARSE when both image_data_param and a source of video_data_param are given. */
crema_status cr_upgrade_clips(cr_upgrade *upgrade) CREMA_MUST_USE;
bool cr_upgrade_clips_needed(const Caffe__LayerParameter *layer);

/* Tools of these steps (upgrade_fields.c): */

/* Adds a layer of either format, and its line, to a failure that is passed on. */
crema_status cr_upgrade_in_layer(cr_upgrade *upgrade, const ProtobufCMessage *layer,
                                 crema_status status) CREMA_MUST_USE;

/* Fails with CREMA_E_PARSE: two names of one field are given. */
crema_status cr_upgrade_twice(const char *one, const char *preferred) CREMA_MUST_USE;

/* A new string of `text` and `suffix`; does not free the old value of *slot. */
crema_status cr_upgrade_text(char **slot, const char *text, const char *suffix) CREMA_MUST_USE;

/* The layer's name; "" if it has none. */
const char *cr_upgrade_name(const Caffe__LayerParameter *layer);

/* Whether a layer of the net needs an upgrade. */
bool cr_upgrade_any(const Caffe__NetParameter *net, bool (*needs)(const Caffe__LayerParameter *));

/* Whether a layer has that type; giving it the type, and a blob as its only bottom. */
bool cr_upgrade_is_of(const Caffe__LayerParameter *layer, const char *type);
crema_status cr_upgrade_set_type(Caffe__LayerParameter *layer, const char *type) CREMA_MUST_USE;
crema_status cr_upgrade_set_bottom(Caffe__LayerParameter *layer, const char *blob) CREMA_MUST_USE;

/* Puts a copy of layer `index` right after it. */
crema_status cr_upgrade_double(Caffe__NetParameter *net, size_t index) CREMA_MUST_USE;

/* The number of elements of a blob in either field for shapes; 0 when the extents make no sense. A
 * blob without a shape is a scalar. */
int64_t cr_upgrade_count(const Caffe__BlobProto *blob);

/* Whether a blob has extents in either field for shapes. */
bool cr_upgrade_has_extents(const Caffe__BlobProto *blob);

/* Gives a parameter of channels one axis if it has extents of 1 around them, as early models do in
 * either field. */
crema_status cr_upgrade_flatten(Caffe__BlobProto *blob) CREMA_MUST_USE;

#endif
