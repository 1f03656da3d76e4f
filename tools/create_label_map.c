/* crema create_label_map: a list of class names, or the categories of COCO, as a LabelMap. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "coco.h"
#include "core/fail.h"
#include "core/file.h"

typedef struct map_options {
  bool include_background;
  const char *delimiter;
} map_options;

typedef struct map_writer {
  const map_options *options;
  cr_buffer text, items; /* items: in text format */
  coco categories;
  int next_label, fields;
} map_writer;

/* A string of the text format. */
static crema_status print_quoted(cr_buffer *out, const char *field, const char *text) {
  CR_TRY(cr_buffer_print(out, "  %s: \"", field));
  for (; *text != '\0'; ++text) {
    const char *escape = strchr("\"\\", *text) != NULL ? "\\" : "";
    CR_TRY(cr_buffer_print(out, "%s%c", escape, *text));
  }
  return cr_buffer_print(out, "\"\n");
}

static crema_status add_item(map_writer *w, const char *name, int label, const char *shown) {
  CR_TRY(cr_buffer_print(&w->items, "item {\n"));
  CR_TRY(print_quoted(&w->items, "name", name));
  CR_TRY(cr_buffer_print(&w->items, "  label: %d\n", label));
  CR_TRY(print_quoted(&w->items, "display_name", shown));
  return cr_buffer_print(&w->items, "}\n");
}

static crema_status read_label(const char *text, int *out) {
  char *end = NULL;
  const long label = strtol(text, &end, 10);
  if (end == text || *end != '\0' || label < 0 || label > INT_MAX) {
    return cr_fail(CREMA_E_PARSE, "expected a label, found \"%.60s\"", text);
  }
  *out = (int)label;
  return CREMA_OK;
}

/* NAME, NAME LABEL or NAME LABEL DISPLAY_NAME, the same number of fields in each line. */
static crema_status add_line(map_writer *w, char *line) {
  char *field[3] = {line};
  int count = 1, label = w->next_label;
  for (char *at; (at = strpbrk(field[count - 1], w->options->delimiter)) != NULL; ++count) {
    if (count == 3) return cr_fail(CREMA_E_PARSE, "a line has at most three fields");
    *at = '\0';
    field[count] = at + 1;
  }
  if (w->fields != 0 && w->fields != count) {
    return cr_fail(CREMA_E_PARSE, "%d fields, but the first line has %d", count, w->fields);
  }
  w->fields = count;
  if (count > 1) CR_TRY(read_label(field[1], &label));
  w->next_label = label + 1;
  return add_item(w, field[0], label, field[count == 3 ? 2 : 0]);
}

static crema_status add_lines(map_writer *w, const char *path) {
  size_t number = 1;
  char *at = w->text.data;
  for (char *line; (line = box_next_line(&at)) != NULL; ++number) {
    if (line[strspn(line, " \t")] == '\0') continue;
    crema_status status = add_line(w, line);
    if (status != CREMA_OK) return cr_fail_in(status, "%s:%zu", path, number);
  }
  return w->fields > 0 ? CREMA_OK : cr_fail(CREMA_E_PARSE, "%s names no class", path);
}

/* The categories with the labels that convert_annoset gives them without a map. */
static crema_status add_categories(map_writer *w, const char *path) {
  const label_map none = {.path = ""};
  coco *c = &w->categories;
  CR_TRY(coco_read(path, &w->text, &none, c));
  const size_t count = c->categories.size / sizeof(coco_category);
  const coco_category *category = (const coco_category *)(const void *)c->categories.data;
  for (size_t label = 1; label <= count; ++label) {
    for (size_t i = 0; i < count; ++i) {
      if (category[i].label != (int)label) continue;
      CR_TRY(add_item(w, coco_text(c, category[i].id), (int)label, coco_text(c, category[i].name)));
    }
  }
  return count > 0 ? CREMA_OK : cr_fail(CREMA_E_PARSE, "%s has no categories", path);
}

static crema_status create(map_writer *w, const char *from, const char *to) {
  CR_TRY(cr_file_read(from, &w->text));
  CR_TRY(cr_buffer_make_text(&w->text, from));
  if (w->options->include_background) {
    CR_TRY(add_item(w, "none_of_the_above", 0, "background"));
    w->next_label = 1;
  }
  CR_TRY(coco_is_json(&w->text) ? add_categories(w, from) : add_lines(w, from));
  return cr_file_write(to, w->items.data, w->items.size);
}

static const char help_text[] =
    "Writes the label map of a data set, which convert_annoset and the layer DetectionOutput "
    "read.\n"
    "Each line of NAMES is a class: NAME, NAME LABEL or NAME LABEL DISPLAY_NAME. Without labels,\n"
    "classes are numbered from 0 on; with -include_background from 1 on, as detectors need it.\n"
    "NAMES may also be a JSON file of COCO: its categories get 1, 2, ... in the order of their "
    "ids.\n"
    "\n"
    "Example:\n"
    "  crema create_label_map -include_background names.txt labelmap.prototxt\n";

int crema_cmd_create_label_map(int argc, char **argv) {
  map_options o = {.delimiter = " "};
  const cli_flag flags[] = {
      {"include_background", CLI_BOOL, &o.include_background, "add none_of_the_above with label 0"},
      {"delimiter", CLI_STRING, &o.delimiter, "characters that separate fields"},
  };
  const cli_spec spec = {.command = "create_label_map",
                         .arguments = "NAMES OUT",
                         .min_arguments = 2,
                         .max_arguments = 2,
                         .help = help_text,
                         .flags = flags,
                         .flag_count = sizeof flags / sizeof *flags};
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  map_writer w = {.options = &o};
  crema_status status = create(&w, argv[1], argv[2]);
  coco_free(&w.categories);
  cr_buffer_free(&w.items);
  cr_buffer_free(&w.text);
  return status == CREMA_OK ? 0 : cli_fail();
}
