/* Flags of the commands that give image files to a net. */
#ifndef CREMA_TOOLS_IMAGE_FLAGS_H
#define CREMA_TOOLS_IMAGE_FLAGS_H

#include <stdint.h>

#include "cli.h"
#include "core/buffer.h"
#include "crema/preprocessing.h"

enum { CLI_MEAN_VALUES = 3, CLI_MAX_SIDE = 65500, CLI_IMAGE_FLAGS = 6 };

typedef struct cli_image_flags {
  const char *mean_value, *mean_file;
  double scale;
  int64_t resize;
  bool exact_resize, rgb;
  float mean[CLI_MEAN_VALUES]; /* once read */
} cli_image_flags;

/* Sets the defaults and writes the rows of the flags to `out`. */
void cli_image_flags_list(cli_image_flags *flags, cli_flag out[CLI_IMAGE_FLAGS]);

/* The preprocessing of the only input of `net`. Flags that are given replace the net's options.
 * Warns if neither says how pixels become values. `model` is the net's file. Makes the input's
 * batch 1. Free with crema_preprocessing_destroy. Errors: CREMA_E_ARGUMENT for another number of
 * inputs, as cli_image_flags_read and as crema_preprocessing_create. */
crema_status cli_image_flags_fit(cli_image_flags *flags, const char *model, crema_net *net,
                                 crema_preprocessing **out);

/* The options that the flags give. `flags` must live as long as `out` is used. Errors:
 * CREMA_E_ARGUMENT, CREMA_E_RANGE. */
crema_status cli_image_flags_read(cli_image_flags *flags, crema_image_options *out);

/* Whether cli_image_flags_read accepts the flags. False with the error printed. */
bool cli_image_flags_check(cli_image_flags *flags);

/* Warns if the net has an input that no layer or image fills. `advice`: how to fill it. */
void cli_warn_of_inputs(const char *model, const crema_net *net, const char *advice);

/* A file that lists image files: the first word of each line. Zero-initialise. */
typedef struct cli_image_list {
  cr_buffer text;
  char *rest; /* after the last path */
} cli_image_list;

/* Reads the list. Errors, which name the file: as reading a text, CREMA_E_ARGUMENT for a list
 * without a path. */
crema_status cli_image_list_read(const char *path, cli_image_list *out) CREMA_MUST_USE;
/* The next path, owned by the list; NULL at the end. */
const char *cli_image_list_next(cli_image_list *list);
void cli_image_list_free(cli_image_list *list);

#endif
