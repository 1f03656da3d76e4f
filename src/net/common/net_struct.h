/* A net: layers in order, the blobs between them, the parameters they learn. */
#ifndef CR_NET_COMMON_NET_STRUCT_H
#define CR_NET_COMMON_NET_STRUCT_H

#include "core/arena.h"
#include "crema/net.h"
#include "layers/common/layer.h"
#include "core/name_map.h"

/* One entry per parameter blob of a layer (owners and sharers). */
typedef struct cr_net_param {
  int layer, index; /* the layer, and which of its parameters */
  const char *name; /* ParamSpec name; "" when it has none; owned by net->param */
  int owner;        /* entry that owns the values; -1: this entry */
  int learnable;    /* index among the learnable parameters */
} cr_net_param;

/* Whether no later layer of a pass uses a blob's data. */
typedef struct cr_net_last_use {
  bool forward, backward;
  bool dropped; /* in forward; the backward pass computes the values again */
} cr_net_last_use;

/* The release lists of a layer: tensors to release after its passes. */
typedef struct cr_net_releases {
  cr_tensor **forward, **backward;
  int forward_count, backward_count;
} cr_net_releases;

typedef struct cr_net_layer {
  cr_layer *layer;
  crema_blob **bottom, **top;
  int *bottom_id, *top_id; /* indices into net->blob */
  bool *propagate_down;    /* one per bottom */
  bool need_backward;
  bool inline_params;          /* the net's own text gives the parameters' values */
  bool fused;                  /* another layer computes its forward pass */
  struct cr_net_layer *backs;  /* the layer whose backward pass runs at its position; NULL: itself */
  bool backed;                 /* its backward pass runs at the position of a later layer */
  bool parts_in_place;         /* see cr_net_frozen_layer */
  bool once;                   /* the same */
  uint64_t ran;                /* 1 + net->shapes at its last run; 0: it has not run */
  bool has_loss;               /* a top has a loss weight other than 0 */
  bool loss_seeded;            /* the diffs of those tops hold the loss weights */
  int first_param;             /* its first entry in net->net_param; layer->params of them */
  int next_same;               /* the next layer of the same name; -1: none */
  cr_net_last_use *last_use;   /* of bottoms, then tops; NULL: the net neither plans nor settles */
  cr_net_releases releases;    /* empty unless the net plans its memory */
  cr_blob_seen *seen;          /* at the last reshape: bottoms, then tops */
} cr_net_layer;

/* Bottom `j`, or top `j` minus the number of bottoms. */
static inline crema_blob *cr_net_layer_blob(const cr_net_layer *layer, int j) {
  const int bottoms = layer->layer->bottoms;
  return j < bottoms ? layer->bottom[j] : layer->top[j - bottoms];
}

/* A recorded forward pass of a compiled net (memory/trace.h), and the state that it is valid for.
 */
typedef struct cr_net_recording {
  cr_trace *trace; /* NULL: none is made */
  uint64_t shapes; /* 1 + the net's `shapes` then; 0: nothing is recorded */
  /* Blobs that the caller can reach, as they were; room for all blobs. */
  struct cr_net_shown {
    const crema_blob *blob;
    cr_blob_seen seen;
  } * shown;
  int shown_count;
} cr_net_recording;

/* Segments of layers whose values the backward pass computes again (net/segments.h). */
typedef struct cr_net_replay {
  int *segment; /* one per layer: the first layer of its segment; NULL without recomputes */
  bool chosen;  /* the segments are */
  bool runs;    /* a segment is being computed again */
  int last;     /* the first layer of the segment that was computed again last */
} cr_net_replay;

/* The loss of a pass on its way to the host (net/loss.h). */
typedef struct cr_net_loss cr_net_loss;

/* Passes that the device has captured (net/graphs.h). */
typedef struct cr_net_graphs cr_net_graphs;

struct crema_net {
  cr_arena arena; /* memory that lives as long as the net: names, most of the arrays */
  char *name;
  char *path; /* the file it came from, or a name for the text in messages; NULL: unknown */
  Caffe__NetParameter *param; /* filtered, with splits inserted */
  crema_phase phase;
  crema_context *context;
  bool owns_context;
  uint64_t seed;
  int layers;
  cr_net_layer *layer;
  int blobs;
  crema_blob **blob;
  char **blob_name;        /* "(automatic)" for tops that the prototxt does not name */
  cr_name_map blob_index;  /* without the automatic ones */
  cr_name_map layer_index; /* the first layer of each name */
  int inputs, outputs;
  int *input, *output;  /* blob indices */
  float *output_weight; /* loss weight of each output; 0: not a loss */
  int params;
  cr_net_param *net_param;
  int learnables;
  crema_blob **learnable; /* owners only, in order */
  float *lr_mult, *decay_mult;
  bool settles;               /* some values are held in half precision */
  bool plans;                 /* releases values after their last use (net/lifetimes.h) */
  cr_tensor_scratch *per_use; /* of trained parameters; may be NULL */
  bool *kept;                 /* one per blob: the caller requested it */
  bool recomputes;            /* drops values that can be computed again */
  uint64_t shapes;            /* number of times that a layer was found to have new shapes */
  uint64_t planned;           /* `shapes` when lifetimes were planned */
  bool parts_moved;           /* shapes or kept blobs have changed since cr_net_place_parts */
  cr_net_replay replay;
  double replay_time;   /* seconds that segments took so far; on a device, to submit them */
  cr_tensor **released; /* backing array of the release lists */
  double grad_scale;    /* all gradients are multiplied with it, and a solver divides them by it */
  int fusions;          /* layers whose work other layers do */
  bool debug_info;      /* log in every pass; may be changed between passes */
  cr_net_loss *loss;
  cr_net_recording recording;
  cr_net_graphs *graphs; /* NULL: no pass is captured */
  crema_net_hooks hooks;
  size_t at; /* during building: the layer of `param` that is being built */
};

/* The first layer of that name; -1 when there is none. */
int cr_net_find_layer(const crema_net *net, const char *name);

/* Pairs the layers of another net with this net's layers by name, in the order of calls. Returns
 * the first layer of that name that was not returned by an earlier call, or -1. `cursor` has
 * net->layers entries, which cr_net_match_start sets. */
void cr_net_match_start(const crema_net *net, int *cursor);
int cr_net_match(const crema_net *net, const char *name, int *cursor);

/* Call it before the net computes or its values are read, and after it has computed: see
 * crema_view. No-ops when there are no views. */
crema_status cr_net_take_views(crema_net *net) CREMA_MUST_USE;
crema_status cr_net_show_views(crema_net *net) CREMA_MUST_USE;

/* Kernels may read and write half-precision values in full precision. Settling brings a tensor back
 * to its own type and drops the other types, after the last layer of a pass that uses it. The first
 * function, called when the graph is complete, finds out whether the net has such values. The other
 * functions settle after a layer's pass. */
void cr_net_plan_settling(crema_net *net);
crema_status cr_net_settle_params(const crema_net *net, int index) CREMA_MUST_USE;
crema_status cr_net_settle_forward(const crema_net *net, int index) CREMA_MUST_USE;
crema_status cr_net_settle_backward(const crema_net *net, int index) CREMA_MUST_USE;

#endif
