#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "crema/device.h"

static int describe(crema_device_type type, const char *kind, int index) {
  crema_device *device;
  crema_device_info info;
  if (crema_device_get(type, index, &device) != CREMA_OK) return cli_fail();
  if (crema_device_describe(device, &info) != CREMA_OK) return cli_fail();
  printf("Device %s %d\n", kind, index);
  printf("  %-28s %s\n", "Name:", info.name);
  printf("  %-28s %s\n", "Libraries:", info.library);
  printf("  %-28s %d\n",
         type == CREMA_DEVICE_CPU ? "Cores:" : "Multiprocessors:", info.compute_units);
  if (info.memory_total > 0) {
    printf("  %-28s %.1f GiB (%.1f GiB free)\n", "Memory:", (double)info.memory_total / (1 << 30),
           (double)info.memory_free / (1 << 30));
  }
  if (info.capability_major > 0) {
    printf("  %-28s %d.%d\n", "Compute capability:", info.capability_major, info.capability_minor);
  }
  return 0;
}

static int describe_gpus(const char *gpu) {
  int count = crema_device_count(CREMA_DEVICE_CUDA);
  char *end = NULL;
  if (gpu[0] == '\0' || strcmp(gpu, "all") == 0) {
    for (int i = 0; i < count; ++i) {
      if (describe(CREMA_DEVICE_CUDA, "GPU", i) != 0) return 1;
    }
    if (count == 0) printf("No GPU.\n");
    return 0;
  }
  for (const char *at = gpu;; at = end + 1) {
    long index = strtol(at, &end, 10);
    if (end == at || (*end != '\0' && *end != ',') || index < 0 || index > 1000) {
      return cli_error("-gpu: expected numbers of GPUs or \"all\", found \"%s\"", gpu);
    }
    if (describe(CREMA_DEVICE_CUDA, "GPU", (int)index) != 0) return 1;
    if (*end == '\0') return 0;
  }
}

int crema_cmd_device_query(int argc, char **argv) {
  const char *gpu = "";
  const cli_flag list[] = {
      {"gpu", CLI_STRING, &gpu, "GPUs to list: numbers separated by commas, or all"},
  };
  const cli_spec spec = {.command = "device_query",
                         .arguments = "",
                         .help =
                             "Lists the devices that networks can run on: the CPU and the GPUs.\n\n"
                             "Example:\n"
                             "  crema device_query -gpu all\n",
                         .flags = list,
                         .flag_count = 1};
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (gpu[0] == '\0' && describe(CREMA_DEVICE_CPU, "CPU", 0) != 0) return 1;
  return describe_gpus(gpu);
}
