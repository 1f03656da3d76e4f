/* Nodes on which no output depends are not imported. */
#include "onnx/import/live.h"

#include "core/fail.h"

static crema_status use(cr_import *import, char **names, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (names[i][0] != '\0') CR_TRY(cr_name_map_set(&import->used, names[i], 1));
  }
  return CREMA_OK;
}

crema_status cr_import_drop_dead(cr_import *import) {
  const Onnx__GraphProto *graph = import->model->proto->graph;
  for (size_t i = 0; i < graph->n_output; ++i) {
    if (graph->output[i]->name == NULL) continue;
    CR_TRY(use(import, &graph->output[i]->name, 1));
  }
  for (size_t i = graph->n_node; i-- > 0;) {
    const Onnx__NodeProto *node = import->node[i];
    bool read = false;
    for (size_t k = 0; k < node->n_output && !read; ++k) {
      read = cr_name_map_get(&import->used, node->output[k]) >= 0;
    }
    if (!read) import->node[i] = NULL;
    else CR_TRY(use(import, node->input, node->n_input));
  }
  return CREMA_OK;
}
