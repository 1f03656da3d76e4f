/* crema draw: an image of a net, drawn by Graphviz's `dot`. */
#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "core/buffer.h"
#include "core/fail.h"
#include "core/file.h"
#include "net_view.h"

extern char **environ;

static const char help_text[] =
    "Draws a net: its layers, and at the arrows between them the names and shapes of the blobs.\n"
    "The ending of the second name says which kind of image it is, such as svg, png or pdf. The\n"
    "program dot of Graphviz makes it; FILE.dot, the text that dot reads, is written without it.\n"
    "\n";

static const char example[] =
    "\n"
    "Example:\n"
    "  crema draw -rankdir LR deploy.prototxt net.svg\n";

/* ---- the text ------------------------------------------------------------ */

/* A string of Graphviz's language. A backslash stays one. */
static crema_status print_quoted(const char *text, cr_buffer *out) {
  for (; *text != '\0'; ++text) {
    if (*text == '"' || *text == '\\') CR_TRY(cr_buffer_append(out, "\\", 1));
    CR_TRY(cr_buffer_append(out, text, 1));
  }
  return CREMA_OK;
}

static const char *colour_of(const crema_net *net, int layer) {
  static const struct {
    const char *type, *colour;
  } table[] = {{"Convolution", "#ff5050"},   {"ConvolutionDepthwise", "#ff5050"},
               {"Deconvolution", "#ff5050"}, {"DepthwiseConvolution", "#ff5050"},
               {"InnerProduct", "#cc33ff"},  {"LSTM", "#cc33ff"},
               {"Pooling", "#ff9900"},       {"RNN", "#cc33ff"}};
  const cr_net_layer *at = &net->layer[layer];
  const char *type = crema_net_layer_type(net, layer);
  for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
    if (strcmp(type, table[i].type) == 0) return table[i].colour;
  }
  const bool in_place =
      at->layer->bottoms == 1 && at->layer->tops == 1 && at->bottom_id[0] == at->top_id[0];
  return in_place ? "#90ee90" : "#6495ed";
}

/* An extent of a window as its layer's message gives it: once for all axes or for each, or as a
 * pair of height and width. */
typedef struct extent {
  const char *name;
  const uint32_t *value;
  size_t values;
  bool pair; /* whether height or width is given */
  uint32_t height, width;
} extent;

static crema_status print_extent(const extent *e, const char *before, cr_buffer *out) {
  if (!e->pair && e->values == 0) return CREMA_OK;
  CR_TRY(cr_buffer_print(out, "%s%s ", before, e->name));
  if (e->pair) return cr_buffer_print(out, "%" PRIu32 "x%" PRIu32, e->height, e->width);
  bool equal = true;
  for (size_t i = 1; i < e->values; ++i) equal = equal && e->value[i] == e->value[0];
  for (size_t i = 0; i < (equal ? 1 : e->values); ++i) {
    CR_TRY(cr_buffer_print(out, "%s%" PRIu32, i > 0 ? "x" : "", e->value[i]));
  }
  return CREMA_OK;
}

static crema_status print_convolution(const Caffe__ConvolutionParameter *c, cr_buffer *out) {
  const extent kernel = {"kernel",         c->kernel_size,
                         c->n_kernel_size, c->has_kernel_h || c->has_kernel_w,
                         c->kernel_h,      c->kernel_w};
  const extent stride = {"stride",    c->stride,  c->n_stride, c->has_stride_h || c->has_stride_w,
                         c->stride_h, c->stride_w};
  const extent pad = {"pad", c->pad, c->n_pad, c->has_pad_h || c->has_pad_w, c->pad_h, c->pad_w};
  CR_TRY(print_extent(&kernel, "\\n", out));
  CR_TRY(print_extent(&stride, ", ", out));
  return print_extent(&pad, ", ", out);
}

static crema_status print_pooling(const Caffe__PoolingParameter *p, cr_buffer *out) {
  const extent kernel = {"kernel",           &p->kernel_size,
                         p->has_kernel_size, p->has_kernel_h || p->has_kernel_w,
                         p->kernel_h,        p->kernel_w};
  const extent stride = {"stride",    &p->stride, p->has_stride, p->has_stride_h || p->has_stride_w,
                         p->stride_h, p->stride_w};
  const extent pad = {"pad", &p->pad, p->pad > 0, p->has_pad_h || p->has_pad_w, p->pad_h, p->pad_w};
  CR_TRY(cr_buffer_print(out, "\\n%s",
                         p->pool == CAFFE__POOLING_PARAMETER__POOL_METHOD__AVE   ? "average"
                         : p->pool == CAFFE__POOLING_PARAMETER__POOL_METHOD__MAX ? "maximum"
                                                                                 : "stochastic"));
  if (p->global_pooling) CR_TRY(cr_buffer_print(out, " of all"));
  else CR_TRY(print_extent(&kernel, ", ", out));
  CR_TRY(print_extent(&stride, ", ", out));
  return print_extent(&pad, ", ", out);
}

/* Kernel, stride and pad of a convolution or pooling, from the layer's message. */
static crema_status print_window(const Caffe__LayerParameter *param, cr_buffer *out) {
  if (param->convolution_param != NULL) return print_convolution(param->convolution_param, out);
  if (param->pooling_param != NULL) return print_pooling(param->pooling_param, out);
  return CREMA_OK;
}

static crema_status print_layer(const crema_net *net, int layer, cr_buffer *out) {
  CR_TRY(cr_buffer_print(out, "  l%d [label=\"", layer));
  CR_TRY(print_quoted(crema_net_layer_name(net, layer), out));
  CR_TRY(cr_buffer_print(out, "\\n"));
  CR_TRY(print_quoted(crema_net_layer_type(net, layer), out));
  CR_TRY(print_window(net->layer[layer].layer->param, out));
  return cr_buffer_print(out, "\", fillcolor=\"%s\"];\n", colour_of(net, layer));
}

static crema_status print_arrow_label(const crema_net *net, int blob, cr_buffer *out) {
  char shape[160];
  cli_view_shape_text(net->blob[blob], shape, sizeof shape);
  CR_TRY(cr_buffer_print(out, " [label=\""));
  CR_TRY(print_quoted(cli_view_blob_name(net, blob), out));
  return cr_buffer_print(out, "\\n%s\"];\n", shape);
}

/* Arrows to layer `index` from the layers that made its bottoms last: maker[blob]. */
static crema_status print_arrows(const crema_net *net, int index, int *maker, cr_buffer *out) {
  const cr_net_layer *layer = &net->layer[index];
  const bool split = cli_view_is_split(net, index);
  const int from = split ? maker[layer->bottom_id[0]] : index;
  for (int b = 0; b < layer->layer->bottoms && !split; ++b) {
    CR_TRY(cr_buffer_print(out, "  l%d -> l%d", maker[layer->bottom_id[b]], index));
    CR_TRY(print_arrow_label(net, layer->bottom_id[b], out));
  }
  for (int t = 0; t < layer->layer->tops; ++t) maker[layer->top_id[t]] = from;
  return CREMA_OK;
}

static crema_status print_outputs(const crema_net *net, const int *maker, cr_buffer *out) {
  for (int i = 0; i < net->outputs; ++i) {
    const int blob = net->output[i];
    CR_TRY(cr_buffer_print(out, "  o%d [shape=ellipse, fillcolor=\"#e0e0e0\", label=\"", i));
    CR_TRY(print_quoted(cli_view_blob_name(net, blob), out));
    CR_TRY(cr_buffer_print(out, "\"];\n  l%d -> o%d", maker[blob], i));
    CR_TRY(print_arrow_label(net, blob, out));
  }
  return CREMA_OK;
}

static crema_status print_net(const crema_net *net, const char *direction, int *maker,
                              cr_buffer *out) {
  CR_TRY(cr_buffer_print(out, "digraph \""));
  CR_TRY(print_quoted(crema_net_name(net), out));
  CR_TRY(
      cr_buffer_print(out,
                      "\" {\n  rankdir=%s;\n  node [shape=box, style=filled, fontname=\"sans\"];\n"
                      "  edge [fontname=\"sans\", fontsize=10];\n",
                      direction));
  for (int i = 0; i < net->layers; ++i) {
    if (!cli_view_is_split(net, i)) CR_TRY(print_layer(net, i, out));
    CR_TRY(print_arrows(net, i, maker, out));
  }
  CR_TRY(print_outputs(net, maker, out));
  return cr_buffer_print(out, "}\n");
}

/* ---- the image ----------------------------------------------------------- */

/* Starts `dot -T<kind>`, which reads `text` and writes to `out`. Returns errno's number, or 0. */
static int start_dot(const char *kind, FILE *text, int out, pid_t *pid) {
  char option[64];
  char name[] = "dot";
  char *argv[] = {name, option, NULL};
  posix_spawn_file_actions_t actions;
  snprintf(option, sizeof option, "-T%s", kind);
  int code = posix_spawn_file_actions_init(&actions);
  if (code != 0) return code;
  posix_spawn_file_actions_adddup2(&actions, fileno(text), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  code = posix_spawnp(pid, name, &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  return code;
}

static int read_all(int fd, cr_buffer *out) {
  char part[16384];
  for (;;) {
    const ssize_t got = read(fd, part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return 0;
    if (cr_buffer_append(out, part, (size_t)got) != CREMA_OK) return ENOMEM;
  }
}

/* The image that dot makes of `text`. The error is printed. */
static bool run_dot(const char *kind, FILE *text, cr_buffer *out) {
  int ends[2], ended = 0;
  pid_t pid = 0;
  if (pipe(ends) != 0) return cli_error("draw: no pipe: %s", strerror(errno)), false;
  int code = start_dot(kind, text, ends[1], &pid);
  close(ends[1]);
  if (code != 0) {
    close(ends[0]);
    if (code == ENOENT) {
      cli_error(
          "draw: %s images require Graphviz, whose program dot was not found; install Graphviz, "
          "or write a .dot file",
          kind);
    } else {
      cli_error("draw: dot cannot be started: %s", strerror(code));
    }
    return false;
  }
  code = read_all(ends[0], out);
  close(ends[0]);
  while (waitpid(pid, &ended, 0) < 0 && errno == EINTR) continue;
  if (code != 0) return cli_error("draw: the image: %s", strerror(code)), false;
  if (ended == 0 && out->size > 0) return true;
  if (WIFEXITED(ended)) {
    cli_error("draw: dot failed with exit code %d; can it write %s?", WEXITSTATUS(ended), kind);
  } else {
    cli_error("draw: dot was killed");
  }
  return false;
}

static bool make_image(const char *kind, const cr_buffer *text, cr_buffer *out) {
  FILE *file = tmpfile();
  bool good = file != NULL && fwrite(text->data, 1, text->size, file) == text->size &&
              fflush(file) == 0 && fseek(file, 0, SEEK_SET) == 0;
  if (!good) cli_error("draw: a temporary file: %s", strerror(errno));
  else good = run_dot(kind, file, out);
  if (file != NULL) fclose(file);
  return good;
}

/* The ending of the file's name, after its last dot: letters and digits. NULL, with the error
 * printed, where there is nothing. */
static const char *kind_of(const char *path) {
  const char *name = strrchr(path, '/') == NULL ? path : strrchr(path, '/') + 1;
  const char *dot = strrchr(name, '.');
  const char *kind = dot == NULL ? "" : dot + 1;
  const size_t length = strlen(kind);
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  if (length > 0 && length < 16 && strspn(kind, letters) == length) return kind;
  cli_usage_error("draw: %s: the name must end in the kind of image, such as .svg, .png or .dot",
                  path);
  return NULL;
}

static bool draw(const crema_net *net, const char *direction, const char *kind, const char *path) {
  cr_buffer text = {0}, image = {0};
  const cr_buffer *out = &text;
  int *maker = calloc((size_t)crema_net_blob_count(net) + 1, sizeof *maker);
  bool good = false;
  if (maker == NULL) {
    cli_error("out of memory");
  } else if (print_net(net, direction, maker, &text) != CREMA_OK) {
    cli_fail();
  } else if (strcmp(kind, "dot") == 0 || strcmp(kind, "gv") == 0) {
    good = true;
  } else {
    good = make_image(kind, &text, &image);
    out = &image;
  }
  if (good && cr_file_write(path, out->data, out->size) != CREMA_OK) {
    cli_fail();
    good = false;
  }
  free(maker);
  cr_buffer_free(&image);
  cr_buffer_free(&text);
  return good;
}

static bool is_direction(const char *word) {
  static const char *const words[] = {"TB", "BT", "LR", "RL"};
  return cli_find_word("-rankdir", word, words, 4) >= 0;
}

int crema_cmd_draw(int argc, char **argv) {
  cli_view_flags flags;
  const char *direction = "TB";
  cli_flag list[CLI_VIEW_FLAGS + 1];
  char help[4096];
  int code = 1;
  crema_net *net = NULL;
  cli_view_flags_list(&flags, list);
  list[CLI_VIEW_FLAGS] =
      (cli_flag){"rankdir", CLI_WORD, &direction, "where arrows go: TB (down), BT, LR or RL"};
  snprintf(help, sizeof help, "%s%s%s", help_text, cli_view_input_help, example);
  const cli_spec spec = {.command = "draw",
                         .arguments = "NET FILE",
                         .file_flag = {"model"},
                         .min_arguments = 1,
                         .max_arguments = 1,
                         .help = help,
                         .flags = list,
                         .flag_count = sizeof list / sizeof *list};
  if (!cli_parse(&spec, &argc, argv, &code)) return code;
  const char *kind = kind_of(argv[1]);
  if (kind == NULL || !is_direction(direction)) return 1;
  if (!cli_view_open(&flags, &net)) return 1;
  const bool good = draw(net, direction, kind, argv[1]);
  crema_net_destroy(net);
  return good ? 0 : 1;
}
