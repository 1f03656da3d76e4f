#include "memory/tensor_batch.h"

#include "core/fail.h"
#include "device/watch.h"
#include "memory/check.h"
#include "memory/tensor_private.h"

crema_status cr_tensor_batch_end(cr_tensor_batch *batch) {
  const int count = batch->count;
  batch->count = 0;
  if (count == 0) return CREMA_OK;
  CR_TRY(cr_watch_convert_many(batch->context, batch->label, batch->conversion, count));
  for (int i = 0; i < count; ++i) {
    const cr_conversion *c = &batch->conversion[i];
    if (c->from.type != c->to.type) atomic_fetch_add(&batch->values[i]->conversions, 1);
    set_valid(batch->slot[i], true);
    CR_ASSERT(cr_tensor_check(batch->values[i]));
  }
  return CREMA_OK;
}

static bool knows(const crema_context *context, cr_format format) {
  return format.layout == NULL || format.layout->device == context->device;
}

/* Whether one conversion, between row-major order and a layout of the device, makes the slot valid.
 */
static bool can_join(const cr_tensor_batch *batch, const values *v, const format_slot *slot) {
  const format_slot *from = cr_tensor_newest(v);
  if (batch->context->device->backend->convert_many == NULL) return false;
  if (v->state != CR_TENSOR_SET || from == NULL || is_valid(slot)) return false;
  return knows(batch->context, from->format) && knows(batch->context, slot->format) &&
         (from->format.layout == NULL) != (slot->format.layout == NULL);
}

static crema_status join(cr_tensor_batch *batch, values *v, format_slot *slot) {
  format_slot *from = cr_tensor_newest(v);
  if (batch->count == CR_TENSOR_BATCH) CR_TRY(cr_tensor_batch_end(batch));
  cr_conversion *c = &batch->conversion[batch->count];
  *c = (cr_conversion){.count = v->count, .to = slot->format, .from = from->format};
  CR_TRY(cr_syncedmem_read(&from->memory, batch->context, &c->src));
  CR_TRY(cr_syncedmem_overwrite(&slot->memory, batch->context, &c->dst));
  batch->values[batch->count] = v;
  batch->slot[batch->count] = slot;
  batch->label[batch->count++] = v->label;
  return CREMA_OK;
}

crema_status cr_tensor_batch_read(cr_tensor_batch *batch, cr_tensor *tensor, cr_format format) {
  crema_devptr at = {0};
  format_slot *slot = cr_tensor_find_slot(tensor->values, format);
  if (slot == NULL || !can_join(batch, tensor->values, slot)) {
    return cr_tensor_read(tensor, batch->context, format, &at);
  }
  return join(batch, tensor->values, slot);
}

crema_status cr_tensor_batch_refresh(cr_tensor_batch *batch, const cr_tensor *tensor) {
  values *v = tensor->values;
  for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    if (s->format.layout == NULL || s->memory.gpu.data.address == 0) continue;
    if (can_join(batch, v, s)) CR_TRY(join(batch, v, s));
  }
  return CREMA_OK;
}
