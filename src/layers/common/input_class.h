/* The functions of a class whose layers bring samples into the net. */
#ifndef CR_LAYERS_INPUT_CLASS_H
#define CR_LAYERS_INPUT_CLASS_H

#include "layers/common/layer.h"

struct cr_input_stats;
struct crema_labeled_image;

/* Every function may be NULL if there is nothing to do or the layer does not support it. */
struct cr_input_class {
  bool net_input; /* the caller fills the tops: they are the net's inputs */
  /* Waits until a shared layer's forward need not wait for data, because forward locks out the
   * other solvers. May invalidate the values of the tops. */
  crema_status (*await)(cr_layer *layer);
  /* Called instead of setup, tops shaped, for a layer that works on the state of another layer. */
  crema_status (*join)(cr_layer *layer, crema_blob *const *top);
  /* The position in the data, for exact resume, as text in the layer's own format. */
  crema_status (*save)(cr_layer *layer, cr_buffer *out);
  crema_status (*restore)(cr_layer *layer, const char *bytes, size_t size);
  /* How far in the data a saved position is; 0 for text that cannot be read. NULL: the positions of
   * all solvers are the same. */
  uint64_t (*progress)(const char *bytes, size_t size);
  /* The statistics of the layer's input pipeline (data/pipeline/pipeline.h). */
  void (*stats)(const cr_layer *layer, struct cr_input_stats *out);
  /* The samples of an epoch; 0 while the number is not known. NULL: the input has no epochs. */
  uint64_t (*epoch)(const cr_layer *layer);
  /* Counts the samples of an epoch whose number is not known yet. NULL: that cannot be. */
  crema_status (*count_epoch)(const cr_layer *layer, uint64_t *out);
  bool short_batches; /* the layer honours cr_layer.take */
  /* For samples that the program holds in memory; see crema/memory_data.h. The first aliases them,
   * the second transforms copies. All three or none. */
  crema_status (*set_samples)(cr_layer *layer, float *data, float *labels, int64_t samples);
  crema_status (*set_images)(cr_layer *layer, const struct crema_labeled_image *images,
                             int64_t count);
  crema_status (*set_batch_size)(cr_layer *layer, int64_t batch_size);
};

#endif
