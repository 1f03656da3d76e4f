/* Common parts of all classes of exchanges: checks, and failures that reach the other ranks. */
#include "parallel/exchange.h"

#include "core/fail.h"
#include "core/timeline.h"

/* A rank that fails keeps the other ranks waiting. */
static crema_status tell_others(cr_exchange *end, crema_status status) {
  if (status != CREMA_OK) end->class->fail(end, status);
  return status;
}

static crema_status check_spans(const cr_exchange *end, const cr_exchange_span *span, int spans) {
  if (end->prepared) return cr_fail(CREMA_E_STATE, "an exchange is prepared twice");
  if (spans < 0) return cr_fail(CREMA_E_ARGUMENT, "an exchange of %d spans", spans);
  for (int i = 0; i < spans; ++i) {
    const crema_dtype type = span[i].type;
    if (type != CREMA_F64 && type != CREMA_F32 && type != CREMA_F16 && type != CREMA_BF16) {
      return cr_fail(CREMA_E_TYPE, "values of type %s cannot be exchanged", crema_dtype_name(type));
    }
    if (span[i].count < 0 || (span[i].count > 0 && span[i].memory.address == 0)) {
      return cr_fail(CREMA_E_ARGUMENT, "span %d of an exchange has no memory", i);
    }
  }
  return CREMA_OK;
}

crema_status cr_exchange_prepare(cr_exchange *end, const cr_exchange_span *span, int spans) {
  crema_status status = check_spans(end, span, spans);
  if (status == CREMA_OK) status = end->class->prepare(end, span, spans);
  if (status != CREMA_OK) return tell_others(end, status);
  end->prepared = true;
  end->spans = spans;
  return CREMA_OK;
}

static crema_status check_call(const cr_exchange *end, const crema_context *context, int span) {
  if (!end->prepared) return cr_fail(CREMA_E_STATE, "an exchange is used before it is prepared");
  if (span < 0 || span >= end->spans) {
    return cr_fail(CREMA_E_RANGE, "span %d of an exchange that has %d", span, end->spans);
  }
  if (context->device != end->device) {
    return cr_fail(CREMA_E_ARGUMENT, "rank %d exchanges values of %s:%d by a context of %s:%d",
                   end->rank, end->device->backend->name, end->device->index,
                   context->device->backend->name, context->device->index);
  }
  return CREMA_OK;
}

static crema_status run(cr_exchange *end, crema_context *context, int span, bool sum) {
  const double traced = cr_timeline_now();
  crema_status status = check_call(end, context, span);
  if (status == CREMA_OK) status = end->class->run(end, context, span, sum);
  if (status == CREMA_OK && traced > 0) {
    cr_timeline_span(0, "exchange", sum ? "sum" : "broadcast", traced,
                     "\"span\":%d,\"rank\":%d,\"device\":\"%s:%d\"", span, end->rank,
                     end->device->backend->name, end->device->index);
  }
  return tell_others(end, status);
}

crema_status cr_exchange_broadcast(cr_exchange *end, crema_context *context, int span) {
  return run(end, context, span, false);
}

crema_status cr_exchange_sum(cr_exchange *end, crema_context *context, int span) {
  return run(end, context, span, true);
}

crema_status cr_exchange_finish(cr_exchange *end) {
  if (!end->prepared || end->class->finish == NULL) return CREMA_OK;
  return tell_others(end, end->class->finish(end));
}

void cr_exchange_fail(cr_exchange *end, crema_status status) {
  end->class->fail(end, status);
}

void cr_exchange_destroy(cr_exchange *end) {
  if (end != NULL) end->class->destroy(end);
}
