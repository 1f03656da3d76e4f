/* crema get_image_size: the sizes of the images that a list names. */
#include <stdlib.h>
#include <string.h>

#include "box_list.h"
#include "cli.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "data/image/image.h"
#include "db_writer.h"

/* Names of images with their ids: pairs of words, one a line. */
typedef struct id_list {
  cr_buffer text;
  const char *path;
} id_list;

typedef struct size_lister {
  const char *root;
  cr_buffer list, path, file, out;
  id_list ids; /* path "": none */
} size_lister;

/* The name of a file without folder and ending, in the memory of `name`. */
static char *stem_of(char *name) {
  char *slash = strrchr(name, '/');
  char *stem = slash == NULL ? name : slash + 1;
  char *dot = strrchr(stem, '.');
  if (dot != NULL && dot != stem) *dot = '\0';
  return stem;
}

/* Finds the line "NAME ID" and prints its ID. */
static crema_status print_id(const id_list *ids, const char *name, cr_buffer *out) {
  const size_t size = strlen(name);
  for (const char *at = ids->text.data; at != NULL && *at != '\0';) {
    at += strspn(at, " \t\r\n");
    if (strncmp(at, name, size) == 0 && at[size] != '\0' && strchr(" \t", at[size]) != NULL) {
      at += size + strspn(at + size, " \t");
      return cr_buffer_print(out, "%.*s", (int)strcspn(at, " \t\r\n"), at);
    }
    at = strchr(at, '\n');
  }
  return cr_fail(CREMA_E_NOT_FOUND, "%s has no line for the image \"%s\"", ids->path, name);
}

static crema_status list_size(size_lister *s, char *name) {
  int height = 0, width = 0, channels = 0;
  cr_buffer_clear(&s->file);
  CR_TRY(db_writer_path(s->root, name, &s->path));
  CR_TRY(cr_file_read(s->path.data, &s->file));
  crema_status status =
      cr_image_probe((const uint8_t *)s->file.data, s->file.size, &height, &width, &channels);
  if (status != CREMA_OK) return cr_fail_in(status, "%s", s->path.data);
  const char *stem = stem_of(name);
  if (s->ids.path[0] == '\0') CR_TRY(cr_buffer_print(&s->out, "%s", stem));
  else CR_TRY(print_id(&s->ids, stem, &s->out));
  return cr_buffer_print(&s->out, " %d %d\n", height, width);
}

/* A line has the name of an image and perhaps a second column, which is ignored. */
static void cut_second_column(char *line) {
  size_t size = strlen(line);
  while (size > 0 && strchr(" \t", line[size - 1]) != NULL) line[--size] = '\0';
  size_t gap = size;
  while (gap > 0 && strchr(" \t", line[gap - 1]) == NULL) --gap;
  while (gap > 0 && strchr(" \t", line[gap - 1]) != NULL) line[--gap] = '\0';
}

static crema_status list_sizes(size_lister *s, const char *list, const char *to) {
  size_t number = 1, count = 0;
  CR_TRY(cr_file_read(list, &s->list));
  CR_TRY(cr_buffer_make_text(&s->list, list));
  if (s->ids.path[0] != '\0') {
    CR_TRY(cr_file_read(s->ids.path, &s->ids.text));
    CR_TRY(cr_buffer_make_text(&s->ids.text, s->ids.path));
  }
  char *at = s->list.data;
  for (char *line; (line = box_next_line(&at)) != NULL; ++number) {
    line += strspn(line, " \t");
    if (*line == '\0') continue;
    cut_second_column(line);
    crema_status status = list_size(s, line);
    if (status != CREMA_OK) return cr_fail_in(status, "%s:%zu", list, number);
    ++count;
  }
  if (count == 0) return cr_fail(CREMA_E_PARSE, "%s names no image", list);
  CR_TRY(cr_file_write(to, s->out.data, s->out.size));
  cr_log_info("Processed %zu files.", count);
  return CREMA_OK;
}

static const char help_text[] =
    "Writes a line NAME HEIGHT WIDTH to OUT for each image that LIST names. NAME is without "
    "folder\n"
    "and ending. A line of LIST has the name of a file, relative to ROOT; a second column, as in "
    "the\n"
    "lists of convert_annoset, is ignored. The layer DetectionOutput reads OUT as its\n"
    "name_size_file. With -name_id_file, whose lines are NAME ID, each line has the ID instead.\n"
    "\n"
    "Example:\n"
    "  crema get_image_size photos/ test.txt test_name_size.txt\n";

int crema_cmd_get_image_size(int argc, char **argv) {
  size_lister s = {.ids = {.path = ""}};
  const cli_flag flags[] = {
      {"name_id_file", CLI_FILE, &s.ids.path, "file with a line NAME ID for each image"},
  };
  const cli_spec spec = {.command = "get_image_size",
                         .arguments = "ROOT LIST OUT",
                         .min_arguments = 3,
                         .max_arguments = 3,
                         .help = help_text,
                         .flags = flags,
                         .flag_count = sizeof flags / sizeof *flags};
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  s.root = argv[1];
  crema_status status = list_sizes(&s, argv[2], argv[3]);
  cr_buffer_free(&s.out);
  cr_buffer_free(&s.ids.text);
  cr_buffer_free(&s.file);
  cr_buffer_free(&s.path);
  cr_buffer_free(&s.list);
  return status == CREMA_OK ? 0 : cli_fail();
}
