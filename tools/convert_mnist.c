/* crema convert_mnist and convert_mnist_siamese_data: the IDX files of MNIST to a database of
 * Datum, one image or a pair of images in each record. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "cli.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "core/rng.h"
#include "db_writer.h"

/* Format of the files: http://yann.lecun.com/exdb/mnist/ : big-endian 32-bit words (magic, count
 * and, for images, rows and columns), then bytes. */
enum { MAGIC_IMAGES = 0x803, MAGIC_LABELS = 0x801, IMAGE_HEADER = 16, LABEL_HEADER = 8 };
enum { MAX_SIDE = 4096 };

typedef struct idx_file {
  const char *path;
  cr_buffer bytes; /* unpacked */
  uint32_t count;
  uint32_t rows, columns; /* of images; 1 for labels */
} idx_file;

/* ---- unpacking ----------------------------------------------------------- */

/* Appends the next bytes of the stream to `out`; *more is false at the end of the file. */
static crema_status inflate_some(z_stream *stream, const char *path, uint64_t limit, cr_buffer *out,
                                 bool *more) {
  enum { CHUNK = 1 << 20 };
  CR_TRY(cr_fail_in(cr_buffer_reserve(out, out->size + CHUNK), "%s", path));
  stream->next_out = (Bytef *)out->data + out->size;
  stream->avail_out = CHUNK;
  int code = inflate(stream, Z_NO_FLUSH);
  out->size += CHUNK - stream->avail_out;
  if (out->size > limit) return cr_file_fail_size(path, out->size, true, limit);
  *more = true;
  if (code == Z_OK) return CREMA_OK;
  if (code == Z_BUF_ERROR) {
    return cr_fail(CREMA_E_CORRUPT, "%s: truncated: the packed data end too early", path);
  }
  if (code != Z_STREAM_END) {
    return cr_fail(CREMA_E_CORRUPT, "%s: damaged: %s", path,
                   stream->msg == NULL ? "cannot be unpacked" : stream->msg);
  }
  *more = stream->avail_in > 0;
  if (!*more) return CREMA_OK;
  /* Only another packed file may follow, as gzip allows. */
  if (stream->next_in[0] != 0x1f || inflateReset(stream) != Z_OK) {
    return cr_fail(CREMA_E_CORRUPT, "%s: %u bytes follow the packed data", path, stream->avail_in);
  }
  return CREMA_OK;
}

/* Replaces the bytes of a gzipped file by its content. */
static crema_status unpack(const char *path, cr_buffer *bytes) {
  enum { GZIP = 16 };
  uint64_t limit = 0;
  CR_TRY(cr_file_limit(CR_FILE_USUAL, &limit));
  if (bytes->size > UINT32_MAX) return cr_file_fail_size(path, bytes->size, false, UINT32_MAX);
  z_stream stream = {.next_in = (Bytef *)bytes->data, .avail_in = (uInt)bytes->size};
  if (inflateInit2(&stream, MAX_WBITS + GZIP) != Z_OK) return cr_fail_memory(1 << 16, "unpacking");
  cr_buffer out = {0};
  crema_status status = CREMA_OK;
  for (bool more = true; more && status == CREMA_OK;) {
    status = inflate_some(&stream, path, limit, &out, &more);
  }
  inflateEnd(&stream);
  cr_buffer_free(bytes);
  *bytes = out;
  return status;
}

/* ---- the files ----------------------------------------------------------- */

static uint32_t word_at(const idx_file *idx, size_t offset) {
  const uint8_t *b = (const uint8_t *)idx->bytes.data + offset;
  return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | (uint32_t)b[3];
}

/* Checks that the file is as long as its header says. */
static crema_status check_size(const idx_file *idx, size_t header) {
  uint64_t wanted = header + (uint64_t)idx->count * idx->rows * idx->columns;
  if (idx->bytes.size == wanted) return CREMA_OK;
  const char *how = idx->bytes.size < wanted ? "truncated" : "too long";
  if (header == LABEL_HEADER) {
    return cr_fail(CREMA_E_CORRUPT,
                   "%s: %s: %u labels take %" PRIu64 " bytes, the file holds %zu (unpacked)",
                   idx->path, how, idx->count, wanted, idx->bytes.size);
  }
  return cr_fail(CREMA_E_CORRUPT,
                 "%s: %s: %u images of %u x %u pixels take %" PRIu64
                 " bytes, the file holds %zu (unpacked)",
                 idx->path, how, idx->count, idx->rows, idx->columns, wanted, idx->bytes.size);
}

static crema_status read_idx(idx_file *idx, uint32_t magic) {
  size_t header = magic == MAGIC_IMAGES ? IMAGE_HEADER : LABEL_HEADER;
  CR_TRY(cr_file_read(idx->path, &idx->bytes));
  if (idx->bytes.size >= 2 && memcmp(idx->bytes.data, "\x1f\x8b", 2) == 0) {
    CR_TRY(unpack(idx->path, &idx->bytes));
  }
  uint32_t found = idx->bytes.size < 4 ? 0 : word_at(idx, 0);
  if (found != magic) {
    return cr_fail(CREMA_E_CORRUPT, "%s: not an IDX file of %s (magic number 0x%x, not 0x%x)",
                   idx->path, magic == MAGIC_IMAGES ? "images" : "labels", found, magic);
  }
  if (idx->bytes.size < header) {
    return cr_fail(CREMA_E_CORRUPT, "%s: truncated: %zu bytes, its header has %zu", idx->path,
                   idx->bytes.size, header);
  }
  idx->count = word_at(idx, 4);
  idx->rows = magic == MAGIC_IMAGES ? word_at(idx, 8) : 1;
  idx->columns = magic == MAGIC_IMAGES ? word_at(idx, 12) : 1;
  if (idx->rows == 0 || idx->columns == 0 || idx->rows > MAX_SIDE || idx->columns > MAX_SIDE) {
    return cr_fail(CREMA_E_CORRUPT, "%s: images of %u x %u pixels", idx->path, idx->rows,
                   idx->columns);
  }
  return check_size(idx, header);
}

static crema_status convert_items(const idx_file *images, const idx_file *labels,
                                  db_writer *writer) {
  size_t size = (size_t)images->rows * images->columns;
  const uint8_t *pixels = (const uint8_t *)images->bytes.data + IMAGE_HEADER;
  const uint8_t *label = (const uint8_t *)labels->bytes.data + LABEL_HEADER;
  cr_log_info("A total of %u %s.", images->count, images->count == 1 ? "item" : "items");
  cr_log_info("Rows: %u Cols: %u", images->rows, images->columns);
  for (uint32_t i = 0; i < images->count; ++i) {
    char key[16];
    snprintf(key, sizeof key, "%08u", i);
    const cr_datum datum = {.channels = 1,
                            .height = (int)images->rows,
                            .width = (int)images->columns,
                            .data = pixels + i * size,
                            .size = size,
                            .label = label[i]};
    CR_TRY(db_writer_put(writer, key, &datum));
  }
  return CREMA_OK;
}

/* As many random pairs as images: channel 0 has one image and channel 1 another image, and the
 * label is 1 for two images of one class. */
static crema_status convert_pairs(const idx_file *images, const idx_file *labels, uint64_t seed,
                                  db_writer *writer) {
  const size_t size = (size_t)images->rows * images->columns;
  const uint8_t *pixels = (const uint8_t *)images->bytes.data + IMAGE_HEADER;
  const uint8_t *label = (const uint8_t *)labels->bytes.data + LABEL_HEADER;
  crema_status status = CREMA_OK;
  uint8_t *pair = malloc(2 * size);
  if (pair == NULL) return cr_fail_memory(2 * size, "a pair of images");
  cr_log_info("A total of %u pairs.", images->count);
  for (uint32_t i = 0; i < images->count && status == CREMA_OK; ++i) {
    char key[16];
    uint32_t draw[4];
    cr_philox(cr_mix_key(seed, cr_hash_text("pairs")), i, 0, draw);
    const uint32_t a = draw[0] % images->count, b = draw[1] % images->count;
    memcpy(pair, pixels + a * size, size);
    memcpy(pair + size, pixels + b * size, size);
    snprintf(key, sizeof key, "%08u", i);
    const cr_datum datum = {.channels = 2,
                            .height = (int)images->rows,
                            .width = (int)images->columns,
                            .data = pair,
                            .size = 2 * size,
                            .label = label[a] == label[b]};
    status = db_writer_put(writer, key, &datum);
  }
  free(pair);
  return status;
}

/* `seed` NULL: single images. */
static crema_status convert(char *const path[3], const char *backend, const int64_t *seed) {
  const char *image_path = path[0], *label_path = path[1], *db_path = path[2];
  idx_file images = {.path = image_path}, labels = {.path = label_path};
  db_writer writer = {0};
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(read_idx(&images, MAGIC_IMAGES), out);
  CR_TRY_GOTO(read_idx(&labels, MAGIC_LABELS), out);
  if (images.count != labels.count) {
    status = cr_fail(CREMA_E_SHAPE, "%s holds %u images, %s holds %u labels", image_path,
                     images.count, label_path, labels.count);
    goto out;
  }
  status = db_writer_begin(&writer, backend, db_path);
  if (status == CREMA_OK && seed == NULL) status = convert_items(&images, &labels, &writer);
  else if (status == CREMA_OK) status = convert_pairs(&images, &labels, (uint64_t)*seed, &writer);
  status = db_writer_end(&writer, status);
out:
  cr_buffer_free(&labels.bytes);
  cr_buffer_free(&images.bytes);
  return status;
}

int crema_cmd_convert_mnist(int argc, char **argv) {
  const char *backend = "lmdb";
  const cli_flag flags[] = {
      {"backend", CLI_WORD, &backend, "kind of database: lmdb, leveldb"},
  };
  const cli_spec spec = {
      .command = "convert_mnist",
      .arguments = "IMAGES LABELS DB",
      .min_arguments = 3,
      .max_arguments = 3,
      .help =
          "Makes a database of the IDX files that MNIST is published in (plain or gzipped).\n"
          "Record number n has the key n in eight digits and holds one gray image and its label.\n"
          "\n"
          "Example:\n"
          "  crema convert_mnist data/mnist/train-images-idx3-ubyte.gz \\\n"
          "    data/mnist/train-labels-idx1-ubyte.gz mnist_train_lmdb\n",
      .flags = flags,
      .flag_count = sizeof flags / sizeof *flags,
  };
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (!db_writer_check_kind("-backend", backend, false)) return 1;
  if (convert(argv + 1, backend, NULL) != CREMA_OK) return cli_fail();
  return 0;
}

int crema_cmd_convert_mnist_siamese_data(int argc, char **argv) {
  const char *backend = "leveldb";
  int64_t seed = 1;
  const cli_flag flags[] = {
      {"backend", CLI_WORD, &backend, "kind of database: lmdb, leveldb"},
      {"seed", CLI_INT, &seed, "of the random pairs"},
  };
  const cli_spec spec = {
      .command = "convert_mnist_siamese_data",
      .arguments = "IMAGES LABELS DB",
      .min_arguments = 3,
      .max_arguments = 3,
      .help =
          "Makes a database of random pairs of images in the IDX files that MNIST is published\n"
          "in (plain or gzipped), as many as there are images. A record has one channel for each\n"
          "image and the label 1 for two images of one class, else 0.\n"
          "\n"
          "Example:\n"
          "  crema convert_mnist_siamese_data data/mnist/train-images-idx3-ubyte.gz \\\n"
          "    data/mnist/train-labels-idx1-ubyte.gz mnist_siamese_train_leveldb\n",
      .flags = flags,
      .flag_count = sizeof flags / sizeof *flags,
  };
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (!db_writer_check_kind("-backend", backend, false)) return 1;
  return convert(argv + 1, backend, &seed) == CREMA_OK ? 0 : cli_fail();
}
