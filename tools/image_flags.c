#include "image_flags.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"

void cli_image_flags_list(cli_image_flags *flags, cli_flag out[CLI_IMAGE_FLAGS]) {
  *flags = (cli_image_flags){.resize = -1};
  const cli_flag list[CLI_IMAGE_FLAGS] = {
      {"mean_value", CLI_NUMBERS, &flags->mean_value,
       "subtracted: one value, or blue,green,red (with -rgb red,green,blue)"},
      {"mean_file", CLI_FILE, &flags->mean_file,
       "mean image; of another size than before the crop: its mean colour"},
      {"scale", CLI_DOUBLE, &flags->scale, "factor after subtracting; 0: the net's, or 1"},
      {"resize", CLI_INT, &flags->resize, "side to resize to before the crop; 0: none"},
      {"exact_resize", CLI_BOOL, &flags->exact_resize, "decode large JPEGs whole, as Caffe does"},
      {"rgb", CLI_BOOL, &flags->rgb, "give red, green, blue to the net, not blue, green, red"},
  };
  memcpy(out, list, sizeof list);
}

static crema_status parse_mean(cli_image_flags *flags, crema_image_options *out) {
  const char *text = flags->mean_value;
  if (text == NULL || text[0] == '\0') return CREMA_OK;
  for (int i = 0; i < CLI_MEAN_VALUES; ++i) {
    char *end = NULL;
    flags->mean[i] = strtof(text, &end);
    if (end == text || (*end != ',' && *end != '\0')) break;
    out->mean = flags->mean;
    out->mean_count = i + 1;
    if (*end == '\0') return CREMA_OK;
    text = end + 1;
  }
  return cr_fail(CREMA_E_ARGUMENT, "-mean_value %s: expected one number, or three with commas",
                 flags->mean_value);
}

bool cli_image_flags_check(cli_image_flags *flags) {
  crema_image_options unused;
  if (cli_image_flags_read(flags, &unused) == CREMA_OK) return true;
  cli_usage_error("%s", crema_error_text());
  return false;
}

crema_status cli_image_flags_read(cli_image_flags *flags, crema_image_options *out) {
  if (flags->resize < -1 || flags->resize > CLI_MAX_SIDE) {
    return cr_fail(CREMA_E_RANGE, "-resize %lld: give 1 to %d, or 0 for none",
                   (long long)flags->resize, CLI_MAX_SIDE);
  }
  if (!isfinite(flags->scale)) return cr_fail(CREMA_E_RANGE, "-scale: not a finite number");
  crema_image_options_init(out);
  CR_TRY(parse_mean(flags, out));
  out->mean_file = flags->mean_file;
  out->scale = flags->scale == 0 ? 1 : (float)flags->scale;
  out->exact_resize = flags->exact_resize;
  out->rgb = flags->rgb;
  out->resize_height = out->resize_width = flags->resize > 0 ? (int)flags->resize : 0;
  return CREMA_OK;
}

/* Replaces the options by those that the flags give. */
static crema_status override(const cli_image_flags *flags, const crema_image_options *own,
                             crema_preprocessing *p) {
  crema_image_options options = *crema_preprocessing_options(p);
  if (own->mean_count > 0 || own->mean_file != NULL) {
    options.mean = own->mean;
    options.mean_count = own->mean_count;
    options.mean_file = own->mean_file;
  }
  if (flags->scale != 0) options.scale = own->scale;
  if (flags->resize >= 0) {
    options.resize_height = own->resize_height;
    options.resize_width = own->resize_width;
    options.keep_aspect = false;
  }
  options.exact_resize = own->exact_resize;
  options.rgb = options.rgb || own->rgb;
  return crema_preprocessing_set_options(p, &options);
}

/* Makes the batch of the only input 1. */
static crema_status set_batch(const char *model, crema_net *net) {
  if (crema_net_input_count(net) != 1) {
    return cr_fail(CREMA_E_ARGUMENT, "%s: has %d inputs; images need one Input layer", model,
                   crema_net_input_count(net));
  }
  crema_blob *input = crema_net_input(net, 0);
  crema_shape shape = *crema_blob_shape(input);
  if (shape.axes > 0) shape.dim[0] = 1;
  CR_TRY(crema_blob_reshape(input, &shape));
  return crema_net_reshape(net);
}

crema_status cli_image_flags_fit(cli_image_flags *flags, const char *model, crema_net *net,
                                 crema_preprocessing **out) {
  crema_image_options own;
  crema_preprocessing *p = NULL;
  CR_TRY(cli_image_flags_read(flags, &own));
  CR_TRY(set_batch(model, net));
  CR_TRY(crema_preprocessing_create(net, 0, &p));
  const char *guess = crema_preprocessing_guess(p);
  if (guess != NULL && own.mean_count == 0 && own.mean_file == NULL && flags->scale == 0) {
    cr_log_warning("%s: %s (flags: -mean_value, -mean_file, -scale, -rgb)", model, guess);
  }
  const crema_status status = override(flags, &own, p);
  if (status == CREMA_OK) *out = p;
  else crema_preprocessing_destroy(p);
  return status;
}

void cli_warn_of_inputs(const char *model, const crema_net *net, const char *advice) {
  if (crema_net_input_count(net) == 0) return;
  cr_log_warning("%s: nothing fills the input '%s', which is 0; %s", model,
                 crema_net_input_name(net, 0), advice);
}

const char *cli_image_list_next(cli_image_list *list) {
  for (;;) {
    char *line = strtok_r(NULL, "\n", &list->rest);
    if (line == NULL) return NULL;
    line[strcspn(line, " \t\r")] = '\0';
    if (line[0] != '\0') return line;
  }
}

crema_status cli_image_list_read(const char *path, cli_image_list *out) {
  CR_TRY(cr_file_read(path, &out->text));
  CR_TRY(cr_buffer_make_text(&out->text, path));
  out->rest = out->text.data;
  if (out->rest != NULL && out->rest[strspn(out->rest, " \t\r\n")] != '\0') return CREMA_OK;
  return cr_fail(CREMA_E_ARGUMENT, "%s: -images names no file", path);
}

void cli_image_list_free(cli_image_list *list) {
  cr_buffer_free(&list->text);
}
