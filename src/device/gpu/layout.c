#include "device/gpu/layout.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/fail.h"

typedef struct last_node {
  cr_layout layout;
  struct last_node *next;
} last_node;

/* All layouts of the plug-in's devices, which live as long as the process. */
static struct {
  pthread_mutex_t lock;
  last_node *first;
} last_layouts = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With the lock. */
static const cr_layout *find(const crema_device *device, const crema_shape *shape,
                             crema_dtype type) {
  for (const last_node *node = last_layouts.first; node != NULL; node = node->next) {
    const cr_layout *layout = &node->layout;
    if (layout->device == device && layout->type == type &&
        crema_shape_equal(&layout->shape, shape)) {
      return layout;
    }
  }
  return NULL;
}

/* With the lock. NULL: there is no memory. */
static const cr_layout *add(crema_device *device, const crema_shape *shape, crema_dtype type) {
  last_node *node = calloc(1, sizeof *node);
  if (node == NULL) return NULL;
  const size_t count = (size_t)crema_shape_count(shape, 0, shape->axes);
  node->layout = (cr_layout){
      .device = device, .type = type, .shape = *shape, .bytes = count * crema_dtype_size(type)};
  node->next = last_layouts.first;
  last_layouts.first = node;
  return &node->layout;
}

static const cr_layout *find_or_add(crema_device *device, const crema_shape *shape,
                                    crema_dtype type) {
  pthread_mutex_lock(&last_layouts.lock);
  const cr_layout *layout = find(device, shape, type);
  if (layout == NULL) layout = add(device, shape, type);
  pthread_mutex_unlock(&last_layouts.lock);
  return layout;
}

crema_status cr_gpu_last(crema_device *device, const crema_shape *shape, crema_dtype type,
                         const cr_layout **out) {
  *out = NULL;
  if (shape->dim[1] <= 1 || crema_shape_count(shape, 2, shape->axes) <= 1) return CREMA_OK;
  *out = find_or_add(device, shape, type);
  return *out != NULL ? CREMA_OK : cr_fail_memory(sizeof(last_node), "a memory layout");
}

const cr_layout *cr_gpu_same_order(const cr_layout *layout, crema_dtype type) {
  return find_or_add(layout->device, &layout->shape, type);
}

/* As oneDNN writes it: "acdb". */
void cr_gpu_layout_text(const cr_layout *layout, char *text, size_t size) {
  const int axes = layout->shape.axes;
  size_t at = 0;
  for (int a = 0; a < axes && at + 1 < size; ++a) {
    const int axis = a == 0 ? 0 : a == axes - 1 ? 1 : a + 1;
    text[at++] = (char)('a' + axis);
  }
  if (size > 0) text[at] = '\0';
}
