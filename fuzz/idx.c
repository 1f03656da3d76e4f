/* The IDX files that convert_mnist reads. An input is the file of images, whose size stands in its
 * first two bytes (little-endian), and then that of labels. The command itself runs, over a
 * database that counts what it is given. */
#include <stdio.h>
#include <string.h>

#include "support/support.h"
#include "tools/cli.h"
#include "tools/db_writer.h"

bool cli_parse(const cli_spec *spec, int *argc, char **argv, int *exit_code) {
  (void)spec, (void)argc, (void)argv, (void)exit_code;
  return true;
}

int cli_error(const char *fmt, ...) {
  return fmt != NULL;
}

int cli_fail(void) {
  fuzz_require(crema_error_text()[0] != '\0');
  return 1;
}

bool db_writer_check_kind(const char *name, const char *text, bool hdf5) {
  (void)name, (void)text, (void)hdf5;
  return true;
}

crema_status db_writer_begin(db_writer *writer, const char *backend, const char *path) {
  (void)writer, (void)backend, (void)path;
  return CREMA_OK;
}

crema_status db_writer_put(db_writer *writer, const char *key, const cr_datum *datum) {
  (void)writer, (void)key;
  fuzz_require(datum->size == (size_t)datum->height * (size_t)datum->width);
  return CREMA_OK;
}

crema_status db_writer_end(db_writer *writer, crema_status content) {
  (void)writer;
  return content;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  size_t first = (size_t)data[0] | (size_t)data[1] << 8;
  if (first > size - 2) first = size - 2;
  char images[128], labels[128];
  snprintf(images, sizeof images, "%s", fuzz_file("images", data + 2, first));
  snprintf(labels, sizeof labels, "%s", fuzz_file("labels", data + 2 + first, size - 2 - first));
  char command[] = "convert_mnist", database[] = "unused";
  char *argv[] = {command, images, labels, database, NULL};
  int code = crema_cmd_convert_mnist(4, argv);
  fuzz_require(code == 0 || code == 1);
  return 0;
}
