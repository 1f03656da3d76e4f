/* crema convert_mnist: the IDX files of MNIST to a database of Datum. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "cli.h"
#include "core/fail.h"
#include "core/log.h"
#include "db_writer.h"

/* Format of the files: http://yann.lecun.com/exdb/mnist/ : big-endian 32-bit words (magic, count
 * and, for images, rows and columns), then bytes. */
enum { MAGIC_IMAGES = 0x803, MAGIC_LABELS = 0x801 };

typedef struct idx_file {
  const char *path;
  gzFile file; /* reads plain files as well */
} idx_file;

static crema_status read_bytes(const idx_file *idx, void *out, unsigned size) {
  int got = gzread(idx->file, out, size);
  if (got == (int)size) return CREMA_OK;
  int code = Z_OK;
  const char *why = gzerror(idx->file, &code);
  if (got >= 0 && (code == Z_OK || code == Z_BUF_ERROR)) why = "it ends too early";
  return cr_fail(CREMA_E_CORRUPT, "%s: truncated or damaged: %s", idx->path, why);
}

static crema_status read_word(const idx_file *idx, uint32_t *out) {
  uint8_t b[4];
  CR_TRY(read_bytes(idx, b, sizeof b));
  *out = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | (uint32_t)b[3];
  return CREMA_OK;
}

static crema_status open_idx(idx_file *idx, uint32_t magic, uint32_t *count) {
  uint32_t found = 0;
  errno = 0;
  idx->file = gzopen(idx->path, "rb");
  if (idx->file == NULL) {
    return errno == 0 ? cr_fail_memory(1 << 16, "unpacking")
                      : cr_fail_errno(errno, "%s: cannot be opened", idx->path);
  }
  CR_TRY(read_word(idx, &found));
  if (found != magic) {
    return cr_fail(CREMA_E_CORRUPT, "%s: not an IDX file of %s (magic number 0x%x, not 0x%x)",
                   idx->path, magic == MAGIC_IMAGES ? "images" : "labels", found, magic);
  }
  return read_word(idx, count);
}

static crema_status convert_items(const idx_file *images, const idx_file *labels, uint32_t count,
                                  db_writer *writer) {
  uint32_t rows = 0, columns = 0;
  CR_TRY(read_word(images, &rows));
  CR_TRY(read_word(images, &columns));
  if (rows == 0 || columns == 0 || rows > 4096 || columns > 4096) {
    return cr_fail(CREMA_E_CORRUPT, "%s: images of %u x %u pixels", images->path, rows, columns);
  }
  cr_log_info("A total of %u items.", count);
  cr_log_info("Rows: %u Cols: %u", rows, columns);
  uint8_t *pixels = malloc((size_t)rows * columns);
  if (pixels == NULL) return cr_fail_memory((size_t)rows * columns, "an image");
  crema_status status = CREMA_OK;
  for (uint32_t i = 0; i < count && status == CREMA_OK; ++i) {
    uint8_t label = 0;
    char key[16];
    snprintf(key, sizeof key, "%08u", i);
    CR_TRY_GOTO(read_bytes(images, pixels, rows * columns), out);
    CR_TRY_GOTO(read_bytes(labels, &label, 1), out);
    const cr_datum datum = {.channels = 1,
                            .height = (int)rows,
                            .width = (int)columns,
                            .data = pixels,
                            .size = (size_t)rows * columns,
                            .label = label};
    status = db_writer_put(writer, key, &datum);
  }
out:
  free(pixels);
  return status;
}

static crema_status convert(const char *image_path, const char *label_path, const char *db_path,
                            const char *backend) {
  idx_file images = {.path = image_path}, labels = {.path = label_path};
  uint32_t image_count = 0, label_count = 0;
  db_writer writer = {0};
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(open_idx(&images, MAGIC_IMAGES, &image_count), out);
  CR_TRY_GOTO(open_idx(&labels, MAGIC_LABELS, &label_count), out);
  if (image_count != label_count) {
    status = cr_fail(CREMA_E_SHAPE, "%s holds %u images, %s holds %u labels", image_path,
                     image_count, label_path, label_count);
    goto out;
  }
  CR_TRY_GOTO(db_writer_begin(&writer, backend, db_path), end);
  status = convert_items(&images, &labels, image_count, &writer);
end:
  status = db_writer_end(&writer, status);
out:
  if (labels.file != NULL) gzclose(labels.file);
  if (images.file != NULL) gzclose(images.file);
  return status;
}

int crema_cmd_convert_mnist(int argc, char **argv) {
  const char *backend = "lmdb";
  const cli_flag flags[] = {
      {"backend", CLI_STRING, &backend, "kind of database: lmdb, leveldb"},
  };
  const cli_spec spec = {
      .command = "convert_mnist",
      .arguments = "IMAGES LABELS DB",
      .min_arguments = 3,
      .max_arguments = 3,
      .help =
          "Makes a database of the IDX files that MNIST is published in (plain or gzipped). "
          "Record\n"
          "number n has the key n in eight digits and holds one gray image and its label.\n"
          "\n"
          "Example:\n"
          "  crema convert_mnist data/mnist/train-images-idx3-ubyte.gz \\\n"
          "    data/mnist/train-labels-idx1-ubyte.gz mnist_train_lmdb\n",
      .flags = flags,
      .flag_count = sizeof flags / sizeof *flags,
  };
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (convert(argv[1], argv[2], argv[3], backend) != CREMA_OK) return cli_fail();
  return 0;
}
