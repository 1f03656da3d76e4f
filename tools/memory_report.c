#include "memory_report.h"

#include <stdio.h>

#include "core/fail.h"
#include "core/log.h"
#include "crema/types.h"
#include "device/device.h"
#include "device/memory/block.h"
#include "device/memory/scratchpad.h"
#include "device/memory/tracking.h"
#include "net/net.h"

static double mb(size_t bytes) {
  return (double)bytes / 1e6;
}

static void print_row(const char *name, const char *types, const crema_blob_memory *m) {
  printf("  %-32s %-16s %11.3f %11.3f %11.3f %11.3f\n", name, types, mb(m->data_host),
         mb(m->data_device), mb(m->diff_host), mb(m->diff_device));
}

static void report_blob(const char *name, crema_blob *blob) {
  char types[64];
  crema_blob_memory memory = crema_blob_memory_read(blob);
  snprintf(types, sizeof types, "%s/%s", crema_dtype_name(crema_blob_data_type(blob)),
           crema_dtype_name(crema_blob_diff_type(blob)));
  print_row(name, types, &memory);
}

static void report_params(crema_net *net) {
  for (int l = 0; l < crema_net_layer_count(net); ++l) {
    for (int p = 0; p < crema_net_layer_param_count(net, l); ++p) {
      char name[128];
      snprintf(name, sizeof name, "%s, parameter %d", crema_net_layer_name(net, l), p);
      report_blob(name, crema_net_layer_param(net, l, p));
    }
  }
}

static void report_net(crema_net *net) {
  cr_net_memory memory;
  printf(
      "Memory of net %s (%s) in MB (1,000,000 bytes); blobs that share values each list "
      "them\n",
      crema_net_name(net), net->phase == CREMA_TRAIN ? "TRAIN" : "TEST");
  printf("  %-32s %-16s %11s %11s %11s %11s\n", "", "types", "data host", "device", "diff host",
         "device");
  crema_status status = cr_net_memory_read(net, &memory);
  if (status != CREMA_OK) cr_log_warning("memory report: %s", crema_error_text());
  for (int i = 0; i < crema_net_blob_count(net); ++i) {
    /* Not by crema_net_blob, which makes a net keep the blob. */
    report_blob(crema_net_blob_name(net, i), net->blob[i]);
  }
  if (status == CREMA_OK) {
    print_row("tops, all", "", &memory.tops);
    print_row("tops, shared ones again", "", &memory.shared_tops);
    print_row("bottoms, all", "", &memory.bottoms);
  }
  if (status == CREMA_OK && memory.planned_held > 0) {
    printf(
        "  values that live for a part of a pass: %.3f MB held, at most %.3f MB in use, %.3f MB "
        "now\n",
        mb(memory.planned_held), mb(memory.planned), mb(memory.planned_now));
  }
  report_params(net);
  if (status == CREMA_OK) {
    print_row("parameters, all", "", &memory.params);
    print_row("parameters, shared ones again", "", &memory.shared_params);
  }
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
  printf("Host: %.3f MB in use in %zu blocks\n", mb(host.bytes), host.blocks);
  printf("All devices: %.3f MB in use, at most %.3f MB, grown by 128 MiB %u times\n",
         mb(total.current), mb(total.highest), cr_tracking_reports());
}

void cli_memory_report(crema_solver *solver, crema_device *device) {
  report_net(crema_solver_net(solver));
  for (int i = 0; i < crema_solver_test_net_count(solver); ++i) {
    report_net(crema_solver_test_net(solver, i));
  }
  crema_device_memory memory = {0};
  if (device != NULL && crema_device_get_type(device) != CREMA_DEVICE_CPU &&
      crema_device_memory_read(device, &memory) == CREMA_OK) {
    printf(
        "Device %d: %.3f MB in use, at most %.3f MB, %.3f MB pooled, %.3f MB pinned, %.3f MB of "
        "scratchpad\n",
        crema_device_get_index(device), mb(memory.current), mb(memory.peak), mb(memory.pooled),
        mb(crema_pinned_bytes()), mb(cr_device_scratchpad_bytes(device)));
    printf("Device %d: %llu times an op ran on the CPU, for lack of a kernel\n",
           crema_device_get_index(device), (unsigned long long)cr_device_fallbacks(device));
    printf("Device %d: %llu kernels and library calls were started\n",
           crema_device_get_index(device), (unsigned long long)cr_device_launches(device));
  }
  report_totals();
  fflush(stdout);
}
