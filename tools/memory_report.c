#include "memory_report.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/log.h"
#include "crema/types.h"
#include "device/device.h"
#include "device/memory/block.h"
#include "device/memory/scratchpad.h"
#include "device/memory/tracking.h"
#include "memory/blob.h"

static void add(crema_blob_memory *sum, const crema_blob_memory *more) {
  sum->data_host += more->data_host;
  sum->data_device += more->data_device;
  sum->diff_host += more->diff_host;
  sum->diff_device += more->diff_device;
}

static void print_row(const char *name, const char *types, const crema_blob_memory *m) {
  printf("  %-32s %-16s %13zu %13zu %13zu %13zu\n", name, types, m->data_host, m->data_device,
         m->diff_host, m->diff_device);
}

/* Which blobs were listed, and the bytes of values that were listed for the first time, or again
 * because another blob shares them. */
typedef struct listing {
  crema_blob **blob;
  size_t count;
  crema_blob_memory once, again;
} listing;

static crema_status listing_begin(size_t most, listing *out) {
  *out = (listing){.blob = calloc(most + 1, sizeof(crema_blob *))};
  return out->blob != NULL ? CREMA_OK : cr_fail_memory(most * sizeof(crema_blob *), "a list");
}

static bool is_listed(const listing *list, const cr_tensor *tensor) {
  for (size_t i = 0; i < list->count; ++i) {
    if (cr_tensor_shares_with(list->blob[i]->data, tensor)) return true;
    if (cr_tensor_shares_with(list->blob[i]->diff, tensor)) return true;
  }
  return false;
}

static void report_blob(const char *name, crema_blob *blob, listing *list) {
  char types[64];
  crema_blob_memory memory = crema_blob_memory_read(blob);
  snprintf(types, sizeof types, "%s/%s", crema_dtype_name(crema_blob_data_type(blob)),
           crema_dtype_name(crema_blob_diff_type(blob)));
  print_row(name, types, &memory);
  bool data_again = is_listed(list, blob->data), diff_again = is_listed(list, blob->diff);
  add(data_again ? &list->again : &list->once,
      &(crema_blob_memory){.data_host = memory.data_host, .data_device = memory.data_device});
  add(diff_again ? &list->again : &list->once,
      &(crema_blob_memory){.diff_host = memory.diff_host, .diff_device = memory.diff_device});
  list->blob[list->count++] = blob;
}

static void listing_end(listing *list, const char *all, const char *shared) {
  print_row(all, "", &list->once);
  print_row(shared, "", &list->again);
  free((void *)list->blob);
}

static crema_status report_blobs(crema_net *net) {
  listing list;
  CR_TRY(listing_begin((size_t)crema_net_blob_count(net), &list));
  for (int i = 0; i < crema_net_blob_count(net); ++i) {
    crema_blob *blob = NULL;
    const char *name = crema_net_blob_name(net, i);
    if (crema_net_blob(net, name, &blob) == CREMA_OK) report_blob(name, blob, &list);
  }
  listing_end(&list, "blobs, all", "blobs, shared ones again");
  return CREMA_OK;
}

static crema_status report_params(crema_net *net) {
  listing list;
  size_t count = 0;
  int layers = crema_net_layer_count(net);
  for (int l = 0; l < layers; ++l) count += (size_t)crema_net_layer_param_count(net, l);
  CR_TRY(listing_begin(count, &list));
  for (int l = 0; l < layers; ++l) {
    for (int p = 0; p < crema_net_layer_param_count(net, l); ++p) {
      char name[128];
      snprintf(name, sizeof name, "%s, parameter %d", crema_net_layer_name(net, l), p);
      report_blob(name, crema_net_layer_param(net, l, p), &list);
    }
  }
  listing_end(&list, "parameters, all", "parameters, shared ones again");
  return CREMA_OK;
}

void cli_memory_report_begin(void) {
  cr_block_report_enable(true);
  cr_tracking_enable(true);
}

/* The totals since cli_memory_report_begin, if it was called. */
static void report_totals(void) {
  cr_block_report host = cr_block_report_read();
  cr_tracking_totals total = {0};
  if (!cr_tracking_enabled() || cr_tracking_read(NULL, &total) != CREMA_OK) return;
  printf("Host: %zu bytes in use in %zu blocks\n", host.bytes, host.blocks);
  printf("All devices: %zu bytes in use, %zu at most, grown by 128 MiB %u times\n", total.current,
         total.highest, cr_tracking_reports());
}

void cli_memory_report(crema_net *net, crema_device *device) {
  printf("Memory of net %s in bytes; blobs that share values are listed with the same bytes each\n",
         crema_net_name(net));
  printf("  %-32s %-16s %13s %13s %13s %13s\n", "", "types", "data host", "device", "diff host",
         "device");
  crema_status status = report_blobs(net);
  if (status == CREMA_OK) status = report_params(net);
  if (status != CREMA_OK) cr_log_warning("memory report: %s", crema_error_text());
  crema_device_memory memory = {0};
  if (device != NULL && crema_device_get_type(device) != CREMA_DEVICE_CPU &&
      crema_device_memory_read(device, &memory) == CREMA_OK) {
    printf("Device %d: %zu bytes in use, %zu at most, %zu pooled; %zu pinned; %zu of scratchpad\n",
           crema_device_get_index(device), memory.current, memory.peak, memory.pooled,
           crema_pinned_bytes(), cr_device_scratchpad_bytes(device));
    printf("Device %d: %llu times an op ran on the CPU, for want of a kernel\n",
           crema_device_get_index(device), (unsigned long long)cr_device_fallbacks(device));
  }
  report_totals();
  fflush(stdout);
}
