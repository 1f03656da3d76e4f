/* The -gpu, -math and -phase flags, which several commands share. */
#ifndef CREMA_TOOLS_DEVICE_FLAG_H
#define CREMA_TOOLS_DEVICE_FLAG_H

#include "crema/device.h"
#include "crema/net.h"

enum { CLI_MOST_DEVICES = 16 };

/* What -gpu names. */
typedef struct cli_devices {
  crema_device_type type;
  int index[CLI_MOST_DEVICES];
  int count;
} cli_devices;

/* Reads the text of -gpu: numbers separated by commas, "all", the same behind "opencl:", or "sim:N"
 * for all of N simulated devices, which are started. Where the environment variable CREMA_SIM has
 * started some, numbers and "all" mean those, and where CREMA_OPENCL is set, OpenCL's devices. Does
 * not check that the devices exist. False, with the error printed, for
 * anything else. */
bool cli_read_devices(const char *gpu, cli_devices *out);

/* Turns the text of -gpu (NULL or "": not given, *count is 0 then) into open devices, in the order
 * given. False, with the error printed, when one is not there. */
bool cli_choose_devices(const char *gpu, crema_device *out[CLI_MOST_DEVICES], size_t *count);

/* The same, but takes the first one of any list, or NULL, for commands that run on one device
 * whatever they are given. */
bool cli_choose_first_device(const char *gpu, crema_device **out);
/* The same without a line in the log. */
bool cli_open_first_device(const char *gpu, crema_device **out);

/* "exact" or "fast"; NULL or "" is CREMA_MATH_DEFAULT. False, with the error printed, for anything
 * else. */
bool cli_choose_math(const char *text, crema_math *out);

/* The help of -math of a command that runs a net. */
#define CLI_MATH_HELP "exact, or fast: CUDA devices may use TF32 and add in any order (docs/gpu.md)"

/* "TRAIN" or "TEST"; NULL or "" leaves *phase as it is. False, with the error printed, for
 * anything else. */
bool cli_choose_phase(const char *text, crema_phase *phase);

/* Whether `level` is one that a net's state can have. False with the error printed. */
bool cli_check_level(int64_t level);

/* Opens shared objects with layer types, separated by commas. False, with the error printed, when
 * that fails. */
bool cli_load_plugins(const char *list);
#define CLI_PLUGIN_HELP "shared objects with layer types, separated by commas (crema/layer.h)"

/* Loads each of the comma-separated files into the net. Layers with parameters that no file has are
 * an error, or with allow_missing a warning. False with the error printed. */
bool cli_load_weights(crema_net *net, const char *paths, bool allow_missing);

/* The help of -gpu of a command that runs on one device. */
#define CLI_GPU_HELP "the GPU to run on; without it the CPU"

/* The help of -warn_unknown_fields, which several commands have. */
#define CLI_UNKNOWN_FIELDS_HELP "only warn when a text file has a field that is not known"

/* The help of -allow_missing, which several commands have. */
#define CLI_ALLOW_MISSING_HELP "only warn when the weights lack layers that the net has"

#endif
