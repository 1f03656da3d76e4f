/* crema convert_cifar_data: the binary files of CIFAR-10 to databases of Datum, as Caffe's tool. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "db_writer.h"

/* Format of the files: https://www.cs.toronto.edu/~kriz/cifar.html : records of a label and of 32 x
 * 32 pixels, all red values before all green and all blue ones. */
enum {
  SIDE = 32,
  CHANNELS = 3,
  PIXELS = CHANNELS * SIDE * SIDE,
  RECORD = 1 + PIXELS,
  CLASSES = 10
};

/* Adds the records of a file. */
static crema_status convert_file(const char *path, db_writer *writer) {
  cr_buffer file = {0};
  crema_status status = cr_file_read(path, &file);
  if (status == CREMA_OK && (file.size == 0 || file.size % RECORD != 0)) {
    status = cr_fail(CREMA_E_CORRUPT, "%s: %zu bytes are no whole number of records of %d bytes",
                     path, file.size, RECORD);
  }
  for (size_t at = 0; status == CREMA_OK && at < file.size; at += RECORD) {
    const uint8_t *record = (const uint8_t *)file.data + at;
    char key[24];
    snprintf(key, sizeof key, "%05lld", (long long)writer->count);
    if (record[0] >= CLASSES) {
      status =
          cr_fail(CREMA_E_CORRUPT, "%s: record %zu has label %d; CIFAR-10 has the labels 0 to 9",
                  path, at / RECORD, record[0]);
      break;
    }
    const cr_datum datum = {.channels = CHANNELS,
                            .height = SIDE,
                            .width = SIDE,
                            .data = record + 1,
                            .size = PIXELS,
                            .label = record[0]};
    status = db_writer_put(writer, key, &datum);
  }
  cr_buffer_free(&file);
  return status;
}

/* Makes a database of the files whose names begin with `name`; `files`: their number, or 0 for one
 * file without a number. */
static crema_status convert_set(const char *const argument[3], const char *set, const char *name,
                                int files) {
  cr_buffer path = {0};
  db_writer writer = {0};
  crema_status status = cr_buffer_print(&path, "%s/cifar10_%s_%s", argument[1], set, argument[2]);
  cr_log_info("Writing %s data", set);
  if (status == CREMA_OK) status = db_writer_begin(&writer, argument[2], path.data);
  if (status != CREMA_OK) goto out;
  for (int i = 1; i <= (files > 0 ? files : 1) && status == CREMA_OK; ++i) {
    cr_buffer_clear(&path);
    status = files > 0 ? cr_buffer_print(&path, "%s/%s_%d.bin", argument[0], name, i)
                       : cr_buffer_print(&path, "%s/%s.bin", argument[0], name);
    if (status == CREMA_OK) status = convert_file(path.data, &writer);
  }
  status = db_writer_end(&writer, status);
out:
  cr_buffer_free(&path);
  return status;
}

int crema_cmd_convert_cifar_data(int argc, char **argv) {
  const cli_spec spec = {
      .command = "convert_cifar_data",
      .arguments = "INPUT OUTPUT KIND",
      .min_arguments = 3,
      .max_arguments = 3,
      .help =
          "Makes the databases cifar10_train_KIND and cifar10_test_KIND in the folder OUTPUT of "
          "the\n"
          "files data_batch_1.bin to data_batch_5.bin and test_batch.bin in INPUT. KIND is lmdb "
          "or\n"
          "leveldb. Channels have the order red, green, blue, as in Caffe's databases of "
          "CIFAR-10;\n"
          "convert_imageset writes blue, green, red. A network fits one of the two.\n"
          "\n"
          "Example:\n"
          "  crema convert_cifar_data cifar-10-batches-bin examples/cifar10 lmdb\n",
  };
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (!db_writer_check_kind("KIND", argv[3], false)) return 1;
  const char *const argument[3] = {argv[1], argv[2], argv[3]};
  if (convert_set(argument, "train", "data_batch", 5) != CREMA_OK) return cli_fail();
  return convert_set(argument, "test", "test_batch", 0) == CREMA_OK ? 0 : cli_fail();
}
