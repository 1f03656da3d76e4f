/* A net that is built to be looked at, not run: for the commands summary and draw. */
#ifndef CREMA_TOOLS_NET_VIEW_H
#define CREMA_TOOLS_NET_VIEW_H

#include <stdint.h>

#include "cli.h"
#include "net/net.h"

typedef struct cli_view_flags {
  const char *model, *phase, *stage, *input, *plugin;
  int64_t level;
  bool warn_unknown_fields;
} cli_view_flags;

enum { CLI_VIEW_FLAGS = 7 };

/* Sets the defaults and writes the rows of the flags to `out`. */
void cli_view_flags_list(cli_view_flags *flags, cli_flag out[CLI_VIEW_FLAGS]);

/* The help on -input, which stands in the help of each command. */
extern const char cli_view_input_help[];

/* Builds the net of the text file -model. False, with the error printed, when that fails. Free with
 * crema_net_destroy. */
bool cli_view_open(const cli_view_flags *flags, crema_net **out);

/* Whether a layer only hands its bottom on to several layers, as those that a net inserts do. */
bool cli_view_is_split(const crema_net *net, int layer);

/* The name of a blob before it was split. */
const char *cli_view_blob_name(const crema_net *net, int blob);

/* Writes a blob's shape as "1x3x224x224"; "scalar" for one without axes. */
void cli_view_shape_text(const crema_blob *blob, char *out, size_t size);

#endif
