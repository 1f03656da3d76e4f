#include "memory/tensor_brief.h"

#include "core/fail.h"
#include "device/watch.h"
#include "memory/tensor_private.h"

void cr_tensor_set_brief(cr_tensor *tensor) {
  tensor->values->brief = true;
}

/* Whether `format` is such that the values are in it briefly. */
static bool is_brief(const values *v, const crema_context *context, cr_format format) {
  return v->brief && context->brief != NULL && format.type == v->type && format.layout != NULL &&
         !format.layout->gaps && context->device->backend->host_memory;
}

static crema_status hold(const crema_context *context, cr_format format, cr_tensor_spare **held,
                         crema_devptr *out) {
  void *memory = NULL;
  CR_TRY(cr_tensor_spare_try(context->brief, format.layout->bytes, held, &memory));
  *out = (crema_devptr){(uintptr_t)memory};
  return CREMA_OK;
}

/* A net that is tested in between may have made the format. */
static void clear_format(values *v, cr_format format) {
  for (format_slot *s = first_slot(v); s != NULL; s = next_slot(s)) {
    if (cr_format_equal(s->format, format) && !is_valid(s)) cr_tensor_clear_slot(v, s);
  }
}

static format_slot *plain_slot(const values *v) {
  const cr_format plain = {v->type, NULL};
  format_slot *s = first_slot(v);
  while (s != NULL && !cr_format_equal(s->format, plain)) s = next_slot(s);
  return s != NULL && is_valid(s) ? s : NULL;
}

crema_status cr_tensor_read_brief(values *v, crema_context *context, cr_format format,
                                  cr_tensor_spare **held, crema_devptr *out) {
  crema_devptr src = {0};
  if (!is_brief(v, context, format) || v->zero || v->source != NULL) return CREMA_OK;
  format_slot *plain = plain_slot(v);
  if (plain == NULL) return CREMA_OK;
  CR_TRY(hold(context, format, held, out));
  if (*held == NULL) return CREMA_OK;
  clear_format(v, format);
  crema_status status = cr_syncedmem_read(&plain->memory, context, &src);
  if (status == CREMA_OK) {
    status = cr_watch_convert(context, v->label, v->count, format, *out, plain->format, src);
  }
  if (status == CREMA_OK) return CREMA_OK;
  cr_tensor_give_back(*held);
  *held = NULL;
  return status;
}

crema_status cr_tensor_write_for(cr_tensor *tensor, crema_context *context, cr_format format,
                                 cr_tensor_spare **held, crema_devptr *out) {
  *held = NULL;
  if (is_brief(tensor->values, context, format)) CR_TRY(hold(context, format, held, out));
  return *held != NULL ? CREMA_OK : cr_tensor_write(tensor, context, format, out);
}

crema_status cr_tensor_end_write(cr_tensor *tensor, crema_context *context, cr_format format,
                                 crema_devptr written) {
  const values *v = tensor->values;
  const cr_format plain = {v->type, NULL};
  crema_devptr dst = {0};
  CR_TRY(cr_tensor_write(tensor, context, plain, &dst));
  return cr_watch_convert(context, v->label, v->count, plain, dst, format, written);
}
