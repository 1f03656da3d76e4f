/* A net: layers in order, the blobs between them, the parameters they learn. */
#ifndef CR_NET_NET_H
#define CR_NET_NET_H

#include "crema/net.h"
#include "layers/layer.h"

/* One entry a parameter blob of a layer (owners and sharers). */
typedef struct cr_net_param {
  int layer, index;       /* whose, and which of its parameters */
  const char *name;       /* ParamSpec name; "" when it has none */
  int owner;              /* entry that owns the values; -1: this one does */
  int learnable;          /* number among the learnable parameters */
} cr_net_param;

typedef struct cr_net_layer {
  cr_layer *layer;
  crema_blob **bottom, **top;
  int *bottom_id, *top_id; /* indices into net->blob */
  bool *propagate_down;    /* one a bottom */
  bool need_backward;
  bool fused;              /* another layer computes it; forward and backward are skipped */
} cr_net_layer;

struct crema_net {
  char *name;
  char *path; /* file it came from, or NULL */
  Caffe__NetParameter *param; /* filtered, with splits inserted */
  crema_phase phase;
  crema_context *context;
  bool owns_context;
  uint64_t seed;
  int layers;
  cr_net_layer *layer;
  int blobs;
  crema_blob **blob;
  char **blob_name;
  int inputs, outputs;
  int *input, *output; /* blob indices */
  int params;
  cr_net_param *net_param;
  int learnables;
  crema_blob **learnable; /* owners only, in order */
  float *lr_mult, *decay_mult;
  bool debug_info;
};

/* Builds from a parsed and upgraded message, which is taken over (also on failure).
 * `context` may be NULL: the net makes its own on options->device. */
crema_status cr_net_create(Caffe__NetParameter *param, const crema_net_options *options,
                           crema_context *context, const char *path, crema_net **out)
    CREMA_MUST_USE;

/* Makes `net`'s parameters share the values of `donor`'s layers of the same name (test nets). */
crema_status cr_net_share_params(crema_net *net, crema_net *donor) CREMA_MUST_USE;

/* Layers `first` to `last`, both included. */
crema_status cr_net_forward_range(crema_net *net, int first, int last, double *loss)
    CREMA_MUST_USE;
crema_status cr_net_backward_range(crema_net *net, int first, int last) CREMA_MUST_USE;

/* Weights as a message (with diffs when asked), and back. */
crema_status cr_net_to_proto(crema_net *net, bool with_diffs, Caffe__NetParameter **out)
    CREMA_MUST_USE;
crema_status cr_net_from_proto(crema_net *net, const Caffe__NetParameter *weights) CREMA_MUST_USE;
crema_status cr_net_save(crema_net *net, const char *path, bool with_diffs) CREMA_MUST_USE;

/* One blob as BlobProto and back; any dialect's fields; legacy 4-D shapes match when their
 * count and trailing extents do. */
crema_status cr_blob_to_proto(crema_blob *blob, bool with_diff, Caffe__BlobProto **out)
    CREMA_MUST_USE;
crema_status cr_blob_from_proto(crema_blob *blob, const Caffe__BlobProto *proto, bool reshape)
    CREMA_MUST_USE;

/* Shape of a BlobProto, legacy num/channels/height/width included. */
crema_status cr_blob_proto_shape(const Caffe__BlobProto *proto, crema_shape *out) CREMA_MUST_USE;

#endif
