/* A net that is one layer of a file, with inputs in front of it. */
#ifndef CREMA_TOOLS_LAYER_NET_H
#define CREMA_TOOLS_LAYER_NET_H

#include "cli.h"
#include "crema/net.h"

typedef struct cli_layer_net {
  const char *path; /* text with one layer { ... } */
  /* One shape per bottom, such as "8x3x32x32;8" or "8,3,32,32;8", or the name of a -dump_blobs
   * file, which ends in .h5. */
  const char *input;
  bool warn_unknown_fields;
  bool oracle; /* in double precision, and no top in the place of a bottom */
} cli_layer_net;

/* Builds the net: an Input layer for all bottoms, then the layer. Errors name the file and, where
 * one is to blame, the line. */
crema_status cli_layer_net_create(const cli_layer_net *what, const crema_net_options *options,
                                  crema_net **out) CREMA_MUST_USE;

/* Whether that is the name of an HDF5 file and not a list of shapes. */
bool cli_is_dump(const char *input);

#endif
