#include "memory/tensor_text.h"

#include <inttypes.h>
#include <math.h>

#include "core/fail.h"
#include "device/backend/convert.h"

enum { MOST_SHOWN = 20, BLOCK = 1024 };

static const char *side_name(crema_head side) {
  switch (side) {
    case CREMA_HEAD_AT_CPU: return "on the host";
    case CREMA_HEAD_AT_GPU: return "on the device";
    case CREMA_SYNCED: return "on the host and the device";
    default: return "nowhere";
  }
}

static crema_status print_held(const cr_tensor *tensor, cr_buffer *out) {
  cr_tensor_held held;
  for (int i = 0; cr_tensor_held_at(tensor, i, &held); ++i) {
    CR_TRY(
        cr_buffer_print(out, "  %s%s for %s %d: %s%s, %s%s\n", crema_dtype_name(held.format.type),
                        held.format.layout != NULL ? " (private layout)" : "",
                        crema_device_get_type(held.device) == CREMA_DEVICE_CPU ? "CPU" : "device",
                        crema_device_get_index(held.device), held.valid ? "valid" : "stale",
                        held.last ? ", written last" : "", side_name(held.side),
                        held.adopted ? ", memory of the caller" : ""));
  }
  cr_tensor_memory bytes = cr_tensor_memory_of(tensor);
  return cr_buffer_print(out, "  memory: %zu bytes on the host, %zu on devices%s\n", bytes.host,
                         bytes.device, cr_tensor_is_shared(tensor) ? "; shared" : "");
}

/* The values starting at `at`, at most BLOCK, as doubles; returns their number. */
static crema_status load(const void *values, crema_dtype type, int64_t count, int64_t at,
                         double *block, int *loaded) {
  *loaded = count - at < BLOCK ? (int)(count - at) : BLOCK;
  const char *from = (const char *)values + (size_t)at * crema_dtype_size(type);
  return cr_convert_plain(*loaded, CREMA_F64, block, type, from);
}

static crema_status print_nonfinite(const void *values, crema_dtype type, int64_t count,
                                    cr_buffer *out) {
  double block[BLOCK];
  int loaded = 0, shown = 0;
  for (int64_t at = 0; at < count && shown < MOST_SHOWN; at += loaded) {
    CR_TRY(load(values, type, count, at, block, &loaded));
    for (int i = 0; i < loaded && shown < MOST_SHOWN; ++i) {
      if (isfinite(block[i])) continue;
      const char *kind = isnan(block[i]) ? "nan" : block[i] > 0 ? "inf" : "-inf";
      CR_TRY(cr_buffer_print(out, "%s %" PRId64 " (%s)", shown == 0 ? "  not finite:" : ",", at + i,
                             kind));
      ++shown;
    }
  }
  return shown == 0 ? CREMA_OK : cr_buffer_print(out, "\n");
}

crema_status cr_tensor_print(cr_tensor *tensor, cr_buffer *out) {
  int64_t count = cr_tensor_count(tensor);
  cr_format format = {cr_tensor_head(tensor).type, NULL};
  double block[BLOCK];
  int loaded = 0;
  crema_devptr memory = {0};
  CR_TRY(cr_buffer_print(out, "%" PRId64 " values of type %s%s\n", count,
                         crema_dtype_name(cr_tensor_type(tensor)),
                         cr_tensor_is_zero(tensor) ? ", all zero" : ""));
  CR_TRY(print_held(tensor, out));
  if (cr_tensor_is_zero(tensor) || count == 0) return CREMA_OK;
  CR_TRY(cr_tensor_read(tensor, cr_host_context(), format, &memory));
  const void *values = (const void *)memory.address;
  CR_TRY(load(values, format.type, count, 0, block, &loaded));
  CR_TRY(cr_buffer_print(out, "  values:"));
  for (int i = 0; i < loaded && i < MOST_SHOWN; ++i) {
    CR_TRY(cr_buffer_print(out, " %.9g", block[i]));
  }
  CR_TRY(cr_buffer_print(out, "%s\n", count > MOST_SHOWN ? " ..." : ""));
  return print_nonfinite(values, format.type, count, out);
}
