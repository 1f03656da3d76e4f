#define _GNU_SOURCE /* memmem */
#include "core/file_kind.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/io.h"

#define LFS "a Git LFS pointer, not the file itself (git lfs pull fetches it)"
#define HTML "an HTML page (a download that failed saves such a page)"
#define PYTORCH "a PyTorch file"

/* The first bytes of files; the first match counts. Text is compared without regard to case. */
static const struct {
  const char *start;
  size_t size;
  const char *kind;
} kinds[] = {
    {"version https://git-lfs", 23, LFS},
    {"<!doctype html", 14, HTML},
    {"<html", 5, HTML},
    {"<head", 5, HTML},
    {"<?xml", 5, "an XML document"},
    /* The magic number of files before PyTorch 1.6, pickled. */
    {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14, PYTORCH},
    {"\x80\x02", 2, "a Python pickle"},
    {"\x80\x03", 2, "a Python pickle"},
    {"\x80\x04", 2, "a Python pickle"},
    {"\x80\x05", 2, "a Python pickle"},
    {"\x93NUMPY", 6, "a NumPy array"},
    {"\x1f\x8b", 2, "a gzip archive; unpack it"},
    {"BZh", 3, "a bzip2 archive; unpack it"},
    {"\xfd\x37zXZ", 5, "an xz archive; unpack it"},
    {"\x28\xb5\x2f\xfd", 4, "a Zstandard archive; unpack it"},
    {"7z\xbc\xaf\x27\x1c", 6, "a 7-Zip archive; unpack it"},
    {"Rar!\x1a\x07", 6, "a RAR archive; unpack it"},
};

/* The first entry of a ZIP archive distinguishes the files of PyTorch and NumPy. */
static const char *zip_kind(const uint8_t *bytes, size_t size) {
  static const char start[] = {'P', 'K', 3, 4};
  if (size < sizeof start || memcmp(bytes, start, sizeof start) != 0) return NULL;
  if (memmem(bytes, size, "data.pkl", 8) != NULL) return PYTORCH;
  if (memmem(bytes, size, ".npy", 4) != NULL) return "a NumPy archive (.npz)";
  if (memmem(bytes, size, "metadata.json", 13) != NULL) return "a Keras model";
  return "a ZIP archive; unpack it";
}

/* The end of a string field with printable text whose tag is at bytes[at]; `at`: there is none. */
static size_t skip_text(const uint8_t *bytes, size_t size, size_t at, uint8_t tag) {
  if (at + 2 > size || bytes[at] != tag || bytes[at + 1] >= 0x80) return at;
  const size_t end = at + 2 + bytes[at + 1];
  if (end > size) return at;
  for (size_t i = at + 2; i < end; ++i) {
    if (isprint(bytes[i]) == 0) return at;
  }
  return end;
}

/* A ModelProto of ONNX: its version, then the producer's name and version as text, then a graph. A
 * solver state begins like it, but has a blob or a number after its first text. */
static bool is_onnx(const uint8_t *bytes, size_t size) {
  enum { IR_VERSION = 0x08, PRODUCER = 0x12, PRODUCER_VERSION = 0x1A, GRAPH = 0x3A, MOST = 64 };
  if (size < 4 || bytes[0] != IR_VERSION || bytes[1] == 0 || bytes[1] > MOST) return false;
  const size_t named = skip_text(bytes, size, 2, PRODUCER);
  const size_t versioned = skip_text(bytes, size, named, PRODUCER_VERSION);
  return versioned > named || (versioned < size && bytes[versioned] == GRAPH);
}

const char *cr_file_kind(const uint8_t *bytes, size_t size) {
  size_t blanks = 0;
  while (blanks < size && isspace(bytes[blanks]) != 0) ++blanks;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    const size_t at = kinds[i].start[0] == '<' ? blanks : 0;
    if (size - at >= kinds[i].size &&
        strncasecmp((const char *)bytes + at, kinds[i].start, kinds[i].size) == 0) {
      return kinds[i].kind;
    }
  }
  if (size >= 262 && memcmp(bytes + 257, "ustar", 5) == 0) return "a tar archive; unpack it";
  if (size >= 8 && memcmp(bytes + 4, "TFL3", 4) == 0) return "a TensorFlow Lite model";
  return is_onnx(bytes, size) ? "an ONNX model" : zip_kind(bytes, size);
}

const char *cr_file_kind_at(const char *path) {
  uint8_t bytes[CR_FILE_KIND_BYTES];
  const int fd = cr_io_open(path, O_RDONLY, 0);
  if (fd < 0) return NULL;
  const ssize_t size = cr_io_read_at(fd, bytes, sizeof bytes, 0);
  close(fd);
  return size > 0 ? cr_file_kind(bytes, (size_t)size) : NULL;
}
