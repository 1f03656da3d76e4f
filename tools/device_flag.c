#include "device_flag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core/list.h"
#include "core/log.h"
#include "crema/layer.h"
#include "device/registry.h"
#include "net/weights/weights.h"

static bool add_index(const char *gpu, long index, cli_devices *out) {
  for (int i = 0; i < out->count; ++i) {
    if (out->index[i] != index) continue;
    cli_usage_error("-gpu %s: device %ld is named twice", gpu, index);
    return false;
  }
  if (out->count == CLI_MOST_DEVICES) {
    cli_usage_error("-gpu %s: more than %d devices", gpu, CLI_MOST_DEVICES);
    return false;
  }
  out->index[out->count++] = (int)index;
  return true;
}

/* `numbers` are the end of the flag's text. */
static bool read_numbers(const char *gpu, const char *numbers, cli_devices *out) {
  char *end = NULL;
  for (const char *at = numbers;; at = end + 1) {
    long index = strtol(at, &end, 10);
    if (end == at || (*end != '\0' && *end != ',') || index < 0 || index > 1000) {
      cli_usage_error(
          "-gpu: expected numbers of GPUs, \"all\", \"opencl:0\" or \"sim:N\", found \"%s\"", gpu);
      return false;
    }
    if (!add_index(gpu, index, out)) return false;
    if (*end == '\0') return true;
  }
}

bool cli_read_devices(const char *gpu, cli_devices *out) {
  const char *numbers = gpu;
  *out = (cli_devices){.type = cr_registry_gpu_type()};
  if (strncmp(gpu, "opencl:", 7) == 0) {
    out->type = CREMA_DEVICE_OPENCL;
    numbers += 7;
  } else if (strncmp(gpu, "sim:", 4) == 0) {
    if (crema_device_simulate(gpu + 4) != CREMA_OK) {
      cli_usage_error("-gpu %s: %s", gpu, crema_error_text());
      return false;
    }
    out->type = CREMA_DEVICE_SIM;
    numbers = "all";
  } else if (crema_device_count(CREMA_DEVICE_SIM) > 0) {
    /* CREMA_SIM asks for simulated devices, which replace GPUs. */
    out->type = CREMA_DEVICE_SIM;
  }
  if (strcmp(numbers, "all") != 0) return read_numbers(gpu, numbers, out);
  int count = crema_device_count(out->type);
  for (int i = 0; i < count && i < CLI_MOST_DEVICES; ++i) out->index[out->count++] = i;
  return true;
}

/* The first `count` of the devices, opened. "all" without any device fails as asking for the first
 * one does. */
static bool open_devices(const char *gpu, const cli_devices *devices, int count,
                         crema_device **out) {
  crema_status status = crema_device_open(devices->type, devices->index, count);
  for (int i = 0; i < count && status == CREMA_OK; ++i) {
    status = crema_device_get(devices->type, devices->index[i], &out[i]);
  }
  if (status == CREMA_OK) return true;
  cli_error("-gpu %s: %s (leave the flag out to run on the CPU)", gpu, crema_error_text());
  return false;
}

bool cli_open_first_device(const char *gpu, crema_device **out) {
  cli_devices devices;
  *out = NULL;
  if (gpu == NULL || gpu[0] == '\0') return true;
  return cli_read_devices(gpu, &devices) && open_devices(gpu, &devices, 1, out);
}

bool cli_choose_first_device(const char *gpu, crema_device **out) {
  if (!cli_open_first_device(gpu, out)) return false;
  if (*out != NULL) cr_log_info("Use GPU with device ID %d", crema_device_get_index(*out));
  return true;
}

static void log_devices(const cli_devices *devices) {
  char text[8 * CLI_MOST_DEVICES] = "";
  for (int i = 0, at = 0; i < devices->count; ++i) {
    at +=
        snprintf(text + at, sizeof text - (size_t)at, "%s%d", i > 0 ? ", " : "", devices->index[i]);
  }
  cr_log_info("Using GPUs %s", text);
}

bool cli_choose_devices(const char *gpu, crema_device *out[CLI_MOST_DEVICES], size_t *count) {
  cli_devices devices;
  *count = 0;
  if (gpu == NULL || gpu[0] == '\0') return true;
  if (!cli_read_devices(gpu, &devices)) return false;
  if (!open_devices(gpu, &devices, devices.count > 0 ? devices.count : 1, out)) return false;
  log_devices(&devices);
  *count = (size_t)devices.count;
  return true;
}

bool cli_choose_math(const char *text, crema_math *out) {
  static const char *const words[] = {"exact", "fast"};
  *out = CREMA_MATH_DEFAULT;
  if (text == NULL || text[0] == '\0') return true;
  const int found = cli_find_word("-math", text, words, 2);
  if (found >= 0) *out = found == 0 ? CREMA_MATH_EXACT : CREMA_MATH_FAST;
  return found >= 0;
}

bool cli_choose_phase(const char *text, crema_phase *phase) {
  static const char *const words[] = {"TRAIN", "TEST"};
  if (text == NULL || text[0] == '\0') return true;
  const int found = cli_find_word("-phase", text, words, 2);
  if (found >= 0) *phase = found == 0 ? CREMA_TRAIN : CREMA_TEST;
  return found >= 0;
}

bool cli_load_plugins(const char *list) {
  cr_list paths = {0};
  crema_status status = cr_list_split(list, &paths);
  for (size_t i = 0; i < paths.count && status == CREMA_OK; ++i) {
    status = crema_layer_load(paths.item[i]);
  }
  if (status != CREMA_OK) cli_fail();
  cr_list_free(&paths);
  return status == CREMA_OK;
}

bool cli_check_level(int64_t level) {
  if (level >= INT32_MIN && level <= INT32_MAX) return true;
  cli_usage_error("-level: expected a number from %d to %d, found %lld", INT32_MIN, INT32_MAX,
                  (long long)level);
  return false;
}

bool cli_load_weights(crema_net *net, const char *paths, bool allow_missing) {
  cr_list files = {0};
  crema_status status = cr_list_split(paths, &files);
  if (status == CREMA_OK) {
    status = cr_net_load_files(net, (const char *const *)files.item, files.count,
                               allow_missing ? CR_MISSING_WARNED : CR_MISSING_REFUSED, NULL);
  }
  if (status != CREMA_OK) cli_fail();
  cr_list_free(&files);
  return status == CREMA_OK;
}
