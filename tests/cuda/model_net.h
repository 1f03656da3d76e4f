/* Training nets of models/ with two constant images, for programs that count and compute nothing.
 */
#ifndef CR_TESTS_CUDA_MODEL_NET_H
#define CR_TESTS_CUDA_MODEL_NET_H

#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "folder.h"

static const char model_solver_text[] =
    "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.0005 "
    "max_iter: 1000 random_seed: 7 snapshot_after_train: false\n";

/* Writes net.prototxt: the net `name` of the folder `models` from its first convolution on, after
 * two images of `side` x `side` and their labels, in the element type `type`. */
static inline void write_model_net(const char *models, const char *name, const char *type,
                                   int side) {
  static const char input[] =
      "default_forward_type: %s default_backward_type: %s\n"
      "layer { name: 'data' type: 'DummyData' top: 'data' top: 'label' dummy_data_param {"
      " shape { dim: 2 dim: 3 dim: %d dim: %d } shape { dim: 2 } } }\n";
  char path[PATH_SIZE];
  cr_buffer text = {0};
  snprintf(path, sizeof path, "%s/%s/train_val.prototxt", models, name);
  ok(cr_file_read(path, &text));
  const char *first = strstr(text.data, "name: \"conv1");
  assert_non_null(first);
  while (first > text.data && strncmp(first, "layer {", 7) != 0) --first;
  FILE *file = fopen(path_of("net.prototxt"), "w");
  assert_non_null(file);
  fprintf(file, input, type, type, side, side);
  fprintf(file, "%s", first);
  assert_int_equal(fclose(file), 0);
  cr_buffer_free(&text);
}

#endif
