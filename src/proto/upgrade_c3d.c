/* Binary nets of C3D 1.0 (facebookarchive/C3D), whose numbers of layer types and fields mean
 * something else in other dialects. The wire reader knows the numbers in blobs, and in convolutions
 * that show them; here are the numbers that only the layer's type decides. */
#include "proto/upgrade.h"

#define TYPE(name) CAFFE__V1_LAYER_PARAMETER__LAYER_TYPE__##name

/* C3D's type for the layer; NONE if it has a type of other dialects. */
static Caffe__V1LayerParameter__LayerType type_of(const Caffe__V1LayerParameter *layer) {
  if (!layer->has_type) return TYPE(NONE);
  switch (layer->type) {
    case TYPE(ARGMAX): return layer->convolution_param ? TYPE(CONVOLUTION3D) : TYPE(NONE);
    case TYPE(THRESHOLD): return layer->pooling_param ? TYPE(POOLING3D) : TYPE(NONE);
    case TYPE(SLICE): return layer->image_data_param ? TYPE(VIDEO_DATA) : TYPE(NONE);
    case TYPE(MVN): return layer->convolution_param ? TYPE(DECONVOLUTION3D) : TYPE(NONE);
    default: return TYPE(NONE);
  }
}

bool cr_upgrade_c3d_needed(const Caffe__NetParameter *net) {
  for (size_t i = 0; i < net->n_layers; ++i) {
    if (type_of(net->layers[i]) != TYPE(NONE)) return true;
  }
  return false;
}

/* A convolution without strides and fillers does not show C3D's numbers: its kernel_depth has the
 * number of stride, filter_group of kernel_h and temporal_pad of kernel_w. */
static void renumber_convolution(Caffe__ConvolutionParameter *conv) {
  if (conv->has_kernel_depth || conv->n_stride == 0) return;
  conv->has_kernel_depth = 1;
  conv->kernel_depth = conv->stride[0];
  if (conv->has_kernel_w) {
    conv->has_temporal_pad = 1;
    conv->temporal_pad = conv->kernel_w;
  }
  cr_message_clear(&conv->base, "stride");
  cr_message_clear(&conv->base, "kernel_h");
  cr_message_clear(&conv->base, "kernel_w");
}

/* kernel_depth has the number of kernel_h, and temporal_stride of kernel_w. */
static void renumber_pooling(Caffe__PoolingParameter *pooling) {
  if (pooling->has_kernel_h) {
    pooling->has_kernel_depth = 1;
    pooling->kernel_depth = pooling->kernel_h;
  }
  if (pooling->has_kernel_w) {
    pooling->has_temporal_stride = 1;
    pooling->temporal_stride = pooling->kernel_w;
  }
  cr_message_clear(&pooling->base, "kernel_h");
  cr_message_clear(&pooling->base, "kernel_w");
}

crema_status cr_upgrade_c3d(cr_upgrade *upgrade) {
  for (size_t i = 0; i < upgrade->net->n_layers; ++i) {
    Caffe__V1LayerParameter *layer = upgrade->net->layers[i];
    const Caffe__V1LayerParameter__LayerType type = type_of(layer);
    if (type == TYPE(NONE)) continue;
    layer->type = type;
    if (layer->convolution_param != NULL) renumber_convolution(layer->convolution_param);
    if (layer->pooling_param != NULL) renumber_pooling(layer->pooling_param);
  }
  return CREMA_OK;
}
