/* The -gpu and -phase flags, which several commands share. */
#ifndef CREMA_TOOLS_DEVICE_FLAG_H
#define CREMA_TOOLS_DEVICE_FLAG_H

#include "crema/net.h"

/* Turns the text of -gpu (NULL or "": not given; a number; "all"; "sim:N" for the first of N
 * simulated devices) into a device; *out stays NULL when the flag was not given. False, with the
 * error printed, when there is no such device. */
bool cli_choose_device(const char *gpu, crema_device **out);

/* Starts the simulated devices that "sim:..." asks for; any other text is left alone. False with
 * the error printed. */
bool cli_simulate(const char *gpu);

/* "TRAIN" or "TEST"; NULL or "" leaves *phase as it is. False, with the error printed, for
 * anything else. */
bool cli_choose_phase(const char *text, crema_phase *phase);

/* Splits a comma-separated list in place; *items gets at most `limit` pointers into `text`
 * (limit must suffice: one more than the commas). Returns the number of items. */
size_t cli_split_list(char *text, const char **items, size_t limit);

/* Loads each of the comma-separated files into the net. False with the error printed. */
bool cli_load_weights(crema_net *net, const char *paths);

#endif
