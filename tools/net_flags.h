/* The flags of the commands that run a net which they load from a file: test and time. */
#ifndef CREMA_TOOLS_NET_FLAGS_H
#define CREMA_TOOLS_NET_FLAGS_H

#include <stdint.h>

#include "cli.h"
#include "crema/model.h"
#include "crema/net.h"

typedef struct cli_net_flags {
  const char *model, *weights, *gpu, *math, *phase, *stage, *plugin;
  int64_t iterations, level;
  bool skip_corrupt, warn_unknown_fields;
  bool compiled;
  const char *precision, *table; /* of a compiled net */
  crema_precision chosen;        /* by `precision`, once the flags are checked */
  /* No flags of both commands: see cli_load_weights; a net of phase TRAIN plans its memory, as in
   * training; the device captures passes. */
  bool allow_missing, plan_memory, graphs;
} cli_net_flags;

enum { CLI_NET_FLAGS = 14 };

/* A net, or a compiled model with one session and that one's net. Zero-initialise. */
typedef struct cli_net {
  crema_net *net; /* to be run */
  crema_model *model;
  crema_session *session;
} cli_net;

/* Loads a compiled model for phase TEST and opens a session of it. `weights` as crema_model_load.
 */
crema_status cli_net_compile(const char *model, const char *weights,
                             const crema_model_options *options, crema_device *device,
                             crema_math math, cli_net *out);
void cli_net_close(cli_net *net);

/* The value of -precision; false, with the error printed, for another word. */
bool cli_choose_precision(const char *text, crema_precision *out);

/* The help of -precision and of -table. */
#define CLI_PRECISION_HELP "with -compiled: f32, bf16 or int8, which needs a -table"
#define CLI_TABLE_HELP "scales of crema calibrate or ncnn for -precision int8"

/* The help of -compiled, which several commands have. */
#define CLI_COMPILED_HELP \
  "compile the net for inference first (crema help compile); results differ by rounding"

/* Sets the defaults and writes the rows of the flags, with the help on two of them, to `out`. */
void cli_net_flags_list(cli_net_flags *flags, const char *iterations_help, const char *phase_help,
                        cli_flag out[CLI_NET_FLAGS]);

/* The row of -iterations among them. */
cli_flag *cli_iterations_flag(cli_flag *list);

/* Checks the flags and loads the net in `phase`, with the weights if there are any. False, with the
 * error printed, when that fails. Free with cli_net_close. */
bool cli_net_flags_load(cli_net_flags *flags, crema_phase phase, cli_net *out);

#endif
