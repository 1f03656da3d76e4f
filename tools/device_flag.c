#include "device_flag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static bool is_simulated(const char *gpu) {
  return strncmp(gpu, "sim:", 4) == 0;
}

bool cli_simulate(const char *gpu) {
  if (!is_simulated(gpu) || crema_device_simulate(gpu + 4) == CREMA_OK) return true;
  cli_error("-gpu %s: %s", gpu, crema_error_text());
  return false;
}

bool cli_choose_device(const char *gpu, crema_device **out) {
  *out = NULL;
  if (gpu == NULL || gpu[0] == '\0') return true;
  if (is_simulated(gpu)) {
    if (!cli_simulate(gpu)) return false;
    if (crema_device_get(CREMA_DEVICE_SIM, 0, out) == CREMA_OK) return true;
    cli_fail();
    return false;
  }
  int count = crema_device_count(CREMA_DEVICE_CUDA), index = 0;
  char *end = NULL;
  if (strcmp(gpu, "all") == 0) {
    if (count > 1) {
      cli_error("-gpu all: there are %d GPUs, and training on several is not supported; name one",
                count);
      return false;
    }
  } else {
    long number = strtol(gpu, &end, 10);
    if (*end == ',') {
      cli_error("-gpu %s: running on several GPUs is not supported; name one", gpu);
      return false;
    }
    if (*end != '\0' || number < 0 || number > 1000) {
      cli_error("-gpu: expected the number of a GPU, found \"%s\"", gpu);
      return false;
    }
    index = (int)number;
  }
  if (crema_device_get(CREMA_DEVICE_CUDA, index, out) == CREMA_OK) return true;
  cli_error("-gpu %s: %s (leave the flag out to run on the CPU)", gpu, crema_error_text());
  return false;
}

bool cli_choose_phase(const char *text, crema_phase *phase) {
  if (text == NULL || text[0] == '\0') return true;
  if (strcmp(text, "TRAIN") == 0) {
    *phase = CREMA_TRAIN;
  } else if (strcmp(text, "TEST") == 0) {
    *phase = CREMA_TEST;
  } else {
    cli_error("-phase: expected TRAIN or TEST, found \"%s\"", text);
    return false;
  }
  return true;
}

size_t cli_split_list(char *text, const char **items, size_t limit) {
  size_t count = 0;
  for (char *at = text; *at != '\0' && count < limit;) {
    char *end = at + strcspn(at, ",");
    bool last = *end == '\0';
    *end = '\0';
    if (*at != '\0') items[count++] = at;
    at = last ? end : end + 1;
  }
  return count;
}

bool cli_load_weights(crema_net *net, const char *paths) {
  enum { MAX_FILES = 64 };
  const char *file[MAX_FILES];
  char *text = strdup(paths);
  if (text == NULL) {
    cli_error("out of memory");
    return false;
  }
  bool good = true;
  size_t files = cli_split_list(text, file, MAX_FILES);
  for (size_t i = 0; good && i < files; ++i) {
    good = crema_net_load_weights(net, file[i]) == CREMA_OK;
    if (!good) cli_fail();
  }
  free(text);
  return good;
}
