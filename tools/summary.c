/* crema summary: the layers of a net, and their costs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "core/utf8.h"
#include "layer_cost.h"
#include "net_view.h"

static const char help_text[] =
    "Prints a net's layers: type, shapes of the outputs, parameters, multiply-adds, FLOPs and\n"
    "memory, and the sums. With -json, as JSON.\n"
    "\n"
    "Memory counts the values that a layer makes and its parameters, in bytes; a layer that works\n"
    "in place or shares the values of another layer takes none. A net that plans its memory\n"
    "reuses the memory of values (crema benchmark measures it); training takes as much again for\n"
    "gradients. Splits, which the net inserts where several layers read a blob, are omitted.\n"
    "\n";

static const char example[] =
    "\n"
    "Example:\n"
    "  crema summary -input data=32x3x224x224 deploy.prototxt\n";

/* ---- text of numbers and shapes ------------------------------------------ */

enum { NUMBER = 32, SHAPE = 160 };

/* With commas between thousands. */
static const char *number_text(int64_t value, char out[NUMBER]) {
  char digits[NUMBER];
  const int count = snprintf(digits, sizeof digits, "%" PRId64, value);
  size_t used = 0;
  for (int i = 0; i < count; ++i) {
    if (i > 0 && (count - i) % 3 == 0) out[used++] = ',';
    out[used++] = digits[i];
  }
  out[used] = '\0';
  return out;
}

/* The shapes of a layer's tops: "1x64x112x112", with spaces between several. */
static void tops_text(const cr_net_layer *layer, char *out, size_t size) {
  size_t used = 0;
  out[0] = '\0';
  for (int t = 0; t < layer->layer->tops && used < size; ++t) {
    if (t > 0) used += (size_t)snprintf(out + used, size - used, " ");
    if (used < size) cli_view_shape_text(layer->top[t], out + used, size - used);
    used += strlen(out + used);
  }
}

/* ---- the table ----------------------------------------------------------- */

typedef struct widths {
  int name, type, shape;
} widths;

static int wider(int width, const char *text) {
  const int length = (int)strlen(text);
  return length > width ? length : width;
}

static widths measure(const crema_net *net) {
  widths w = {.name = 5, .type = 4, .shape = 6};
  for (int i = 0; i < net->layers; ++i) {
    char shapes[SHAPE];
    if (cli_view_is_split(net, i)) continue;
    tops_text(&net->layer[i], shapes, sizeof shapes);
    w.name = wider(w.name, crema_net_layer_name(net, i));
    w.type = wider(w.type, crema_net_layer_type(net, i));
    w.shape = wider(w.shape, shapes);
  }
  return w;
}

static void print_row(const widths *w, const char *name, const char *type, const char *shape,
                      const cli_cost *cost) {
  char parameters[NUMBER], adds[NUMBER], flops[NUMBER], bytes[NUMBER];
  printf("%-*s  %-*s  %-*s %13s %16s %16s %15s\n", w->name, name, w->type, type, w->shape, shape,
         number_text(cost->learned + cost->statistics, parameters),
         number_text(cost->multiply_adds, adds), number_text(cost->flops, flops),
         number_text(cost->value_bytes + cost->parameter_bytes, bytes));
}

static void print_sums(const crema_net *net, int layers, const cli_cost *sum) {
  char text[NUMBER];
  printf("\nLayers                 %d\n", layers);
  printf("Parameters, learned    %s\n", number_text(sum->learned, text));
  if (sum->statistics > 0) {
    printf("Parameters, statistics %s\n", number_text(sum->statistics, text));
  }
  printf("Multiply-adds          %s\n", number_text(sum->multiply_adds, text));
  printf("FLOPs                  %s\n", number_text(sum->flops, text));
  printf("Memory of values       %s bytes\n", number_text(sum->value_bytes, text));
  printf("Memory of parameters   %s bytes\n", number_text(sum->parameter_bytes, text));
  if (crema_net_phase(net) == CREMA_TRAIN) {
    printf("Memory with gradients  %s bytes\n",
           number_text(2 * (sum->value_bytes + sum->parameter_bytes), text));
  }
}

static void print_table(const crema_net *net) {
  const widths w = measure(net);
  cli_cost sum = {0};
  int layers = 0;
  printf("%s, phase %s\n", crema_net_name(net)[0] == '\0' ? "net" : crema_net_name(net),
         crema_net_phase(net) == CREMA_TRAIN ? "TRAIN" : "TEST");
  printf("%-*s  %-*s  %-*s %13s %16s %16s %15s\n", w.name, "layer", w.type, "type", w.shape,
         "output", "parameters", "multiply-adds", "FLOPs", "memory");
  for (int i = 0; i < net->layers; ++i) {
    char shapes[SHAPE];
    if (cli_view_is_split(net, i)) continue;
    const cli_cost cost = cli_layer_cost(net, i);
    tops_text(&net->layer[i], shapes, sizeof shapes);
    print_row(&w, crema_net_layer_name(net, i), crema_net_layer_type(net, i), shapes, &cost);
    cli_cost_add(&sum, &cost);
    ++layers;
  }
  print_row(&w, "sum", "", "", &sum);
  print_sums(net, layers, &sum);
}

/* ---- JSON ---------------------------------------------------------------- */

/* Bytes that are no UTF-8 are replaced, as JSON must be UTF-8. */
static void print_string(const char *text) {
  putchar('"');
  while (*text != '\0') {
    const unsigned char letter = (unsigned char)*text;
    const size_t size = cr_utf8_size(text);
    if (letter == '"' || letter == '\\') printf("\\%c", letter);
    else if (letter < 0x20 || letter == 0x7F) printf("\\u%04x", letter);
    else if (size == 0) printf("\\ufffd");
    else printf("%.*s", (int)size, text);
    text += size > 0 ? size : 1;
  }
  putchar('"');
}

static void print_shape(const crema_blob *blob) {
  const crema_shape *shape = crema_blob_shape(blob);
  putchar('[');
  for (int i = 0; i < shape->axes; ++i) printf("%s%" PRId64, i > 0 ? ", " : "", shape->dim[i]);
  putchar(']');
}

static void print_cost(const cli_cost *cost) {
  printf("\"learned\": %" PRId64 ", \"statistics\": %" PRId64 ", \"multiply_adds\": %" PRId64
         ", \"flops\": %" PRId64 ", \"value_bytes\": %" PRId64 ", \"parameter_bytes\": %" PRId64,
         cost->learned, cost->statistics, cost->multiply_adds, cost->flops, cost->value_bytes,
         cost->parameter_bytes);
}

static void print_layer(const crema_net *net, int index, const cli_cost *cost) {
  const cr_net_layer *layer = &net->layer[index];
  printf("    {\"name\": ");
  print_string(crema_net_layer_name(net, index));
  printf(", \"type\": ");
  print_string(crema_net_layer_type(net, index));
  printf(", \"tops\": [");
  for (int t = 0; t < layer->layer->tops; ++t) {
    printf("%s{\"name\": ", t > 0 ? ", " : "");
    print_string(crema_net_blob_name(net, layer->top_id[t]));
    printf(", \"shape\": ");
    print_shape(layer->top[t]);
    putchar('}');
  }
  printf("], \"parameters\": [");
  for (int p = 0; p < layer->layer->params; ++p) {
    if (p > 0) printf(", ");
    print_shape(layer->layer->blob[p]);
  }
  printf("], ");
  print_cost(cost);
  putchar('}');
}

static void print_json(const crema_net *net) {
  cli_cost sum = {0};
  int layers = 0;
  printf("{\n  \"name\": ");
  print_string(crema_net_name(net));
  printf(",\n  \"phase\": \"%s\",\n  \"layers\": [",
         crema_net_phase(net) == CREMA_TRAIN ? "TRAIN" : "TEST");
  for (int i = 0; i < net->layers; ++i) {
    if (cli_view_is_split(net, i)) continue;
    const cli_cost cost = cli_layer_cost(net, i);
    printf(layers > 0 ? ",\n" : "\n");
    print_layer(net, i, &cost);
    cli_cost_add(&sum, &cost);
    ++layers;
  }
  printf("\n  ],\n  \"sum\": {\"layers\": %d, ", layers);
  print_cost(&sum);
  printf("}\n}\n");
}

int crema_cmd_summary(int argc, char **argv) {
  cli_view_flags flags;
  bool json = false;
  cli_flag list[CLI_VIEW_FLAGS + 1];
  char help[4096];
  int code = 1;
  crema_net *net = NULL;
  cli_view_flags_list(&flags, list);
  list[CLI_VIEW_FLAGS] = (cli_flag){"json", CLI_BOOL, &json, "print JSON"};
  snprintf(help, sizeof help, "%s%s%s%s", help_text, cli_cost_help, cli_view_input_help, example);
  const cli_spec spec = {.command = "summary",
                         .arguments = "NET",
                         .file_flag = {"model"},
                         .help = help,
                         .flags = list,
                         .flag_count = sizeof list / sizeof *list};
  if (!cli_parse(&spec, &argc, argv, &code)) return code;
  if (!cli_view_open(&flags, &net)) return 1;
  if (json) print_json(net);
  else print_table(net);
  crema_net_destroy(net);
  return 0;
}
