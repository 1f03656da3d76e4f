/* The flags of the commands that run a net which they load from a file: test and time. */
#ifndef CREMA_TOOLS_NET_FLAGS_H
#define CREMA_TOOLS_NET_FLAGS_H

#include <stdint.h>

#include "cli.h"
#include "crema/net.h"

typedef struct cli_net_flags {
  const char *model, *weights, *gpu, *phase, *stage;
  int64_t iterations, level;
  bool skip_corrupt, warn_unknown_fields;
  bool allow_missing; /* no flag of both; see cli_load_weights */
} cli_net_flags;

enum { CLI_NET_FLAGS = 9 };

/* Sets the defaults and writes the rows of the flags, with the help on two of them, to `out`. */
void cli_net_flags_list(cli_net_flags *flags, const char *iterations_help, const char *phase_help,
                        cli_flag out[CLI_NET_FLAGS]);

/* Checks the flags and loads the net in `phase`, with the weights if there are any. False, with the
 * error printed, when that fails. Free with crema_net_destroy. */
bool cli_net_flags_load(const cli_net_flags *flags, const char *command, crema_phase phase,
                        crema_net **out);

#endif
