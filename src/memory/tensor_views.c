/* Looking at a tensor: parts of its values on the host, the formats that it holds, their memory. */
#include <inttypes.h>

#include "core/fail.h"
#include "memory/tensor_private.h"

crema_status cr_tensor_view_make(cr_tensor *tensor, int64_t offset, int64_t count,
                                 cr_tensor_view *out) {
  const values *v = tensor->values;
  if (offset < 0 || count < 0 || offset > v->count || count > v->count - offset) {
    return cr_fail(CREMA_E_RANGE,
                   "a view of %" PRId64 " elements from %" PRId64 " on of a tensor of %" PRId64,
                   count, offset, v->count);
  }
  cr_tensor_view view = {.values = v, .generation = v->generation, .count = count};
  const format_slot *head = cr_tensor_newest(v);
  if (head != NULL) {
    view.data = (char *)head->memory.host.data + (size_t)offset * crema_dtype_size(v->type);
  }
  void *data = NULL;
  CR_TRY(cr_tensor_view_data(&view, tensor, &data));
  *out = view;
  return CREMA_OK;
}

crema_status cr_tensor_view_data(const cr_tensor_view *view, const cr_tensor *tensor, void **out) {
  const values *v = tensor->values;
  if (view->values != v || view->generation != v->generation) {
    return cr_fail(CREMA_E_STATE, "a view outlived the memory of its tensor");
  }
  /* A conversion of the values or the mark of all zeros would lose data that is written through the
   * view. */
  const format_slot *head = head_slot(v);
  bool alone = head != NULL && !is_zero(v);
  for (const format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    alone = alone && is_valid(s) == (s == head);
  }
  alone = alone && cr_format_equal(v->head_format, own_format(v)) &&
          head->memory.head == CREMA_HEAD_AT_CPU;
  if (!alone) {
    return cr_fail(CREMA_E_STATE, "a view needs the newest values on the host only");
  }
  *out = view->data;
  return CREMA_OK;
}

bool cr_tensor_held_at(const cr_tensor *tensor, int index, cr_tensor_held *out) {
  const values *v = tensor->values;
  const format_slot *slot = first_slot(v);
  while (slot != NULL && index-- > 0) slot = next_slot(slot);
  if (slot == NULL) return false;
  const crema_syncedmem *memory = &slot->memory;
  bool host = memory->host.data != NULL && !memory->host.own;
  bool device = memory->gpu.data.address != 0 && !memory->gpu.own;
  *out = (cr_tensor_held){.format = slot->format,
                          .valid = is_valid(slot),
                          .last = slot == head_slot(v),
                          .side = crema_syncedmem_head(memory),
                          .adopted = host || device,
                          .device = memory->device};
  return true;
}

cr_tensor_memory cr_tensor_memory_of(const cr_tensor *tensor) {
  values *v = tensor->values;
  cr_tensor_memory bytes = {0};
  pthread_mutex_lock(&v->lock);
  for (const format_slot *slot = first_slot(v); slot != NULL; slot = next_slot(slot)) {
    const crema_syncedmem *memory = &slot->memory;
    const bool part = is_pinned(slot);
    bytes.host += memory->host.bytes; /* none for adopted memory */
    if (part && memory->host.data != NULL && !memory->host.own) bytes.host += memory->size;
    if (memory->gpu.own || (part && memory->gpu.data.address != 0))
      bytes.device += memory->capacity;
  }
  pthread_mutex_unlock(&v->lock);
  return bytes;
}
