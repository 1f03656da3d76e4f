#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "crema/device.h"
#include "device_flag.h"

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

/* Which devices each device reaches, one row per device. */
static int describe_peers(crema_device_type type, int count) {
  if (count < 2) return 0;
  printf("Direct access between devices (row reaches column)\n ");
  for (int j = 0; j < count; ++j) printf("%4d", j);
  printf("\n");
  for (int i = 0; i < count; ++i) {
    printf("%2d", i);
    for (int j = 0; j < count; ++j) {
      crema_device *from, *to;
      if (crema_device_get(type, i, &from) != CREMA_OK) return cli_fail();
      if (crema_device_get(type, j, &to) != CREMA_OK) return cli_fail();
      printf("%4s", crema_device_reaches(from, to) ? "yes" : "no");
    }
    printf("\n");
  }
  return 0;
}

static int describe_all(crema_device_type type, const char *kind) {
  int count = crema_device_count(type);
  for (int i = 0; i < count; ++i) {
    if (describe(type, kind, i) != 0) return 1;
  }
  return describe_peers(type, count);
}

static int describe_gpus(const char *gpu) {
  if (gpu[0] == '\0' || strcmp(gpu, "all") == 0) {
    if (crema_device_count(CREMA_DEVICE_CUDA) == 0 &&
        crema_device_count(CREMA_DEVICE_OPENCL) == 0) {
      printf("No GPU.\n");
    }
    if (describe_all(CREMA_DEVICE_CUDA, "GPU") != 0) return 1;
    if (describe_all(CREMA_DEVICE_OPENCL, "opencl") != 0) return 1;
    return describe_all(CREMA_DEVICE_SIM, "simulated");
  }
  cli_devices devices;
  if (!cli_read_devices(gpu, &devices)) return 1;
  const char *kind = devices.type == CREMA_DEVICE_SIM      ? "simulated"
                     : devices.type == CREMA_DEVICE_OPENCL ? "opencl"
                                                           : "GPU";
  if (strncmp(gpu, "sim:", 4) == 0) return describe_all(CREMA_DEVICE_SIM, "simulated");
  for (int i = 0; i < devices.count; ++i) {
    if (describe(devices.type, kind, devices.index[i]) != 0) return 1;
  }
  return 0;
}

int crema_cmd_device_query(int argc, char **argv) {
  const char *gpu = "";
  const cli_flag list[] = {
      {"gpu", CLI_NUMBERS, &gpu,
       "GPUs to list: numbers separated by commas, all, opencl:0, or sim:N for N simulated ones"},
  };
  const cli_spec spec = {
      .command = "device_query",
      .arguments = "",
      .help =
          "Lists the devices that networks can run on: the CPU and the GPUs.\n"
          "With CREMA_SIM=4 in the environment numbers mean simulated devices.\n\n"
          "Example:\n"
          "  crema device_query -gpu all\n",
      .flags = list,
      .flag_count = 1};
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (gpu[0] == '\0' && describe(CREMA_DEVICE_CPU, "CPU", 0) != 0) return 1;
  return describe_gpus(gpu);
}
