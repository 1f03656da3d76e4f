/* LevelDB folders whose files hold any bytes. An input is a list of files: the name with a zero at
 * its end, the size as a 32-bit little-endian number, the bytes. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/db/db.h"
#include "support/support.h"

enum { MAX_FILES = 16, MAX_RECORDS = 1000, MAX_NAME = 32 };

static bool usable(const char *name, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    if (!isalnum((unsigned char)name[i]) && name[i] != '-' && name[i] != '.') return false;
  }
  return size > 0 && size < MAX_NAME && name[0] != '.';
}

/* Makes the files; false when the input is no such list. */
static bool make_files(const uint8_t *data, size_t size) {
  int files = 0;
  for (size_t at = 0; at < size && files < MAX_FILES; ++files) {
    const char *name = (const char *)data + at;
    size_t length = strnlen(name, size - at);
    if (!usable(name, length) || size - at - length < 5) return false;
    const uint8_t *s = data + at + length + 1;
    size_t bytes = (size_t)s[0] | (size_t)s[1] << 8 | (size_t)s[2] << 16 | (size_t)s[3] << 24;
    at += length + 5;
    if (bytes > size - at) bytes = size - at;
    char path[MAX_NAME + 4];
    snprintf(path, sizeof path, "db/%s", name);
    fuzz_file(path, data + at, bytes);
    at += bytes;
  }
  return files > 0;
}

static void walk(const char *path) {
  cr_db *db = NULL;
  cr_db_cursor *cursor = NULL;
  uint64_t count = 0;
  fuzz_require_text(cr_db_open("leveldb", path, CR_DB_READ, &db));
  if (db == NULL) return;
  fuzz_require_text(cr_db_count(db, &count));
  crema_status status = cr_db_cursor_open(db, &cursor);
  fuzz_require_text(status);
  for (int i = 0; status == CREMA_OK && cursor->valid && i < MAX_RECORDS; ++i) {
    status = cr_db_cursor_next(cursor);
    fuzz_require_text(status);
  }
  cr_db_cursor_close(cursor);
  cr_db_close(db);
}

static void remove_files(const char *path) {
  DIR *folder = opendir(path);
  fuzz_require(folder != NULL);
  for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    if (entry->d_name[0] != '.') unlinkat(dirfd(folder), entry->d_name, 0);
  }
  closedir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[128];
  snprintf(path, sizeof path, "%s", fuzz_path("db"));
  mkdir(path, 0755);
  if (make_files(data, size)) walk(path);
  remove_files(path);
  return 0;
}
