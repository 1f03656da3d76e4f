/* The steps of bringing an old net to today's form; proto.h has the whole. */
#ifndef CR_PROTO_UPGRADE_H
#define CR_PROTO_UPGRADE_H

#include "proto/field.h"

/* Layers of the first format (a V0LayerParameter inside a V1LayerParameter) become layers of the
 * second, in place; padding layers become the pad of the layer behind them. *compatible becomes
 * false when a field had to be dropped. Errors: CREMA_E_UNKNOWN_NAME for a layer type nobody
 * knows, CREMA_E_UNSUPPORTED for padding in front of anything but convolution and pooling. */
crema_status cr_upgrade_v0(Caffe__NetParameter *net, bool *compatible) CREMA_MUST_USE;
bool cr_upgrade_v0_needed(const Caffe__NetParameter *net);

/* Layers of the second format become LayerParameters. Errors: CREMA_E_PARSE when the net has
 * layers of both kinds. */
crema_status cr_upgrade_v1(Caffe__NetParameter *net, bool *compatible) CREMA_MUST_USE;
bool cr_upgrade_v1_needed(const Caffe__NetParameter *net);

/* In layers of the second format: scale, mean_file, crop_size and mirror of data layers move to
 * transform_param. */
crema_status cr_upgrade_transform(Caffe__NetParameter *net) CREMA_MUST_USE;
bool cr_upgrade_transform_needed(const Caffe__NetParameter *net);

/* Of the forks of SegNet and ENet: BN layers of two parameters become a Scale of the same name and,
 * in mode LEARN, a BatchNorm in front of it, named "<name>/norm"; DenseImageData becomes
 * ImageSegData, and SoftmaxWithLoss with weight_by_label_freqs an InfogainLoss. Errors:
 * CREMA_E_UNSUPPORTED for statistics of a BN that has none and for label_divide_factor,
 * CREMA_E_PARSE for fields of two forks, CREMA_E_ARGUMENT for weights that are missing. */
crema_status cr_upgrade_segnet(Caffe__NetParameter *net) CREMA_MUST_USE;
bool cr_upgrade_segnet_needed(const Caffe__NetParameter *net);

/* BatchNorm layers with scale_bias (or a filler of it), with use_weight_bias or filler, and BN
 * layers become a BatchNorm and, named "<name>/scale_bias", a Scale layer. Errors:
 * CREMA_E_UNSUPPORTED for a BN that has not four parameters. */
crema_status cr_upgrade_norm(Caffe__NetParameter *net) CREMA_MUST_USE;
bool cr_upgrade_norm_needed(const Caffe__NetParameter *net);

/* relu of Convolution, InnerProduct and BatchNorm layers becomes, named "<name>/relu", a ReLU
 * layer, scale_train: false of Dropout, named "<name>/scale", a Power layer; a net's
 * bn_stats_batch_size goes to its BatchNorm layers. Errors: CREMA_E_UNSUPPORTED for a layer with
 * several tops. */
crema_status cr_upgrade_fused(Caffe__NetParameter *net) CREMA_MUST_USE;
bool cr_upgrade_fused_needed(const Caffe__NetParameter *net);

/* Names that forks have for fields and layers of the schema: hole, hole_h and hole_w of
 * convolutions (dilation), crop_height and crop_width (crop_h and crop_w), has_label: false
 * (label_type: NONE), selu_dropout_param (dropout_param), and SoftmaxWithLoss with three tops and
 * SmoothL1Loss with two (the types with OHEM). Errors: CREMA_E_PARSE where both names are given. */
crema_status cr_upgrade_names(Caffe__NetParameter *net) CREMA_MUST_USE;
bool cr_upgrade_names_needed(const Caffe__NetParameter *net);

/* ---- for these steps ---- */

/* A message's field by its name, and clearing it. */
const ProtobufCFieldDescriptor *cr_upgrade_field(const ProtobufCMessage *message, const char *name);
void cr_upgrade_clear(ProtobufCMessage *message, const char *name);

/* Whether a layer is of that type, and making it so. */
bool cr_upgrade_is_of(const Caffe__LayerParameter *layer, const char *type);
crema_status cr_upgrade_set_type(Caffe__LayerParameter *layer, const char *type) CREMA_MUST_USE;

/* A parameter of channels gets one axis where it has extents of 1 around them, as early models have
 * in either field. */
crema_status cr_upgrade_flatten(Caffe__BlobProto *blob) CREMA_MUST_USE;

/* A new string of `text` and `suffix`; what *slot was is not freed. */
crema_status cr_upgrade_text(char **slot, const char *text, const char *suffix) CREMA_MUST_USE;

#endif
