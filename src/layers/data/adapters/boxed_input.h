/* What BoxData, RoIData and CPMData share: records that are images with annotations, decoded by
 * several threads, and transformed in ways that the annotations follow. */
#ifndef CR_LAYERS_BOXED_INPUT_H
#define CR_LAYERS_BOXED_INPUT_H

#include "data/augment/transformer.h"
#include "layers/data/adapters/record_input.h"

typedef struct cr_boxed_input cr_boxed_input;

/* How a transformer moves an image. */
typedef struct cr_boxed_move {
  cr_image_part crop;
  bool mirror;
} cr_boxed_move;

/* The functions of one of the layers. `worker` is the memory of one thread. */
typedef struct cr_boxed_class {
  size_t worker_size; /* zero-initialised */
  const char *advice; /* where images are not of one size */
  /* Makes the image of a record; *out stays the worker's. */
  crema_status (*read)(const cr_boxed_input *layer, void *worker, cr_db_bytes value,
                       uint64_t sample, const cr_image **out);
  /* The extents of top 0 for an image, and its values at `out`. NULL: the transformer's. */
  void (*extent)(const cr_boxed_input *layer, const cr_image *image, int extent[3]);
  void (*place)(const cr_boxed_input *layer, void *worker, const cr_image *image, float *out);
  /* Shapes the tops after the first for top 0 of these extents. NULL: they are known before. */
  void (*shape)(const cr_boxed_input *layer, const int extent[3], int items, crema_shape *shape);
  /* Fills the tops after the first. */
  crema_status (*fill)(const cr_boxed_input *layer, void *worker, const cr_image *image,
                       const cr_boxed_move *move, cr_load *load);
  void (*free_worker)(void *worker);
} cr_boxed_class;

/* The state of such a layer, or its first member. */
struct cr_boxed_input {
  cr_record_input records; /* must be the first member */
  const cr_boxed_class *class;
  int extent[3];    /* of the first image, transformed */
  cr_buffer *value; /* for the value of a record: `threads` of them */
  void *worker;     /* likewise */
  int threads;
};

/* Checks data_param, and that transform_param has no fields that boxes do not follow; crops are
 * such unless `crops`. Errors: CREMA_E_UNSUPPORTED, or as cr_record_input_check. */
crema_status cr_boxed_input_check(const cr_layer *layer, bool crops) CREMA_MUST_USE;

/* Opens the database and starts: batches of `items` images with tops of `shape`; shape[0] is set
 * here. */
crema_status cr_boxed_input_open(cr_layer *layer, const cr_boxed_class *class, int items,
                                 crema_shape *shape, crema_blob *const *top) CREMA_MUST_USE;

/* Class function. */
void cr_boxed_input_destroy(cr_layer *layer);

/* The required channels of a record. */
cr_image_color cr_boxed_input_color(const cr_boxed_input *layer, bool force_color);

#endif
