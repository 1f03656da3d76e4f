#define _GNU_SOURCE /* locks of open file descriptions */

#include "data/db/leveldb_view.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/io.h"
#include "core/log.h"

enum { FOOTER = 48, HANDLES = 40, TRAILER = 5, MANIFEST_NAME = 32 };

static bool ends_in(const char *name, const char *end) {
  size_t length = strlen(name), tail = strlen(end);
  return length > tail && strcmp(name + length - tail, end) == 0;
}

static bool is_table(const char *name) {
  return ends_in(name, ".ldb") || ends_in(name, ".sst");
}

static crema_status join(const char *folder, const char *name, cr_buffer *out) {
  cr_buffer_clear(out);
  return cr_buffer_print(out, "%s/%s", folder, name);
}

/* A number in groups of 7 bits, lowest first. */
static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out) {
  *out = 0;
  for (int shift = 0; shift < 64 && *at < end; shift += 7) {
    uint8_t byte = *(*at)++;
    *out |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

/* The last 48 bytes: offset and size of two blocks, filling, magic number. LevelDB verifies the
 * checksums of all blocks but trusts these numbers. */
static bool is_sound_footer(const uint8_t footer[FOOTER], uint64_t file_size) {
  static const uint8_t magic[] = {0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb};
  if (memcmp(footer + HANDLES, magic, sizeof magic) != 0) return false;
  const uint8_t *at = footer;
  for (int i = 0; i < 2; ++i) {
    uint64_t offset = 0, size = 0;
    if (!read_varint(&at, footer + HANDLES, &offset)) return false;
    if (!read_varint(&at, footer + HANDLES, &size)) return false;
    if (offset > file_size || size > file_size - offset) return false;
    if (file_size - offset - size < TRAILER) return false;
  }
  return true;
}

static crema_status check_table(const char *path) {
  struct stat info;
  uint8_t footer[FOOTER];
  int fd = cr_io_open(path, O_RDONLY | O_NONBLOCK, 0);
  if (fd < 0) return cr_fail_errno(errno, "%s: cannot open", path);
  crema_status status = CREMA_OK;
  if (fstat(fd, &info) != 0) {
    status = cr_fail_errno(errno, "%s: cannot read", path);
  } else if (info.st_size < FOOTER ||
             cr_io_read_at(fd, footer, FOOTER, info.st_size - FOOTER) != FOOTER ||
             !is_sound_footer(footer, (uint64_t)info.st_size)) {
    status =
        cr_fail(CREMA_E_CORRUPT, "%s: a truncated or corrupt table of a LevelDB database", path);
  }
  cr_io_close(fd);
  return status;
}

/* CURRENT holds the name of the manifest and a line end. */
static crema_status read_current(const char *path, char manifest[MANIFEST_NAME]) {
  cr_buffer name = {0}, text = {0};
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(join(path, "CURRENT", &name), out);
  if (!cr_file_exists(name.data)) {
    CR_TRY_GOTO(join(path, "data.mdb", &name), out);
    status =
        cr_file_exists(name.data)
            ? cr_fail(CREMA_E_CORRUPT, "%s: an LMDB database, not a LevelDB one (backend: LMDB)",
                      path)
            : cr_fail(CREMA_E_NOT_FOUND,
                      "%s: no database: neither CURRENT (LevelDB) nor data.mdb (LMDB) is in it",
                      path);
    goto out;
  }
  CR_TRY_GOTO(cr_file_read(name.data, &text), out);
  size_t length = text.size > 0 && text.data[text.size - 1] == '\n' ? text.size - 1 : text.size;
  if (length <= 9 || length >= MANIFEST_NAME || memcmp(text.data, "MANIFEST-", 9) != 0 ||
      memchr(text.data, '/', length) != NULL) {
    status =
        cr_fail(CREMA_E_CORRUPT, "%s: corrupt LevelDB database (CURRENT names no manifest)", path);
    goto out;
  }
  memcpy(manifest, text.data, length);
  manifest[length] = '\0';
  CR_TRY_GOTO(join(path, manifest, &name), out);
  if (!cr_file_exists(name.data)) {
    status =
        cr_fail(CREMA_E_CORRUPT, "%s: corrupt LevelDB database (%s is missing)", path, manifest);
  }
out:
  cr_buffer_free(&text);
  cr_buffer_free(&name);
  return status;
}

/* Called for each file of a folder: `path` is <folder>/<name>. */
typedef crema_status (*visit_fn)(const char *path, const char *name, void *user);

static crema_status each_file(const char *folder, visit_fn visit, void *user) {
  DIR *dir = opendir(folder);
  if (dir == NULL) {
    if (errno == ENOENT) return cr_fail(CREMA_E_NOT_FOUND, "%s: no such database", folder);
    return cr_fail_errno(errno, "%s: cannot open the database", folder);
  }
  cr_buffer path = {0};
  crema_status status = CREMA_OK;
  const struct dirent *entry;
  while (status == CREMA_OK && (entry = readdir(dir)) != NULL) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    status = join(folder, entry->d_name, &path);
    if (status == CREMA_OK) status = visit(path.data, entry->d_name, user);
  }
  cr_buffer_free(&path);
  closedir(dir);
  return status;
}

static crema_status check_file(const char *path, const char *name, void *user) {
  (void)user;
  return is_table(name) ? check_table(path) : CREMA_OK;
}

crema_status cr_leveldb_check(const char *path) {
  char manifest[MANIFEST_NAME];
  if (!cr_file_exists(path)) return cr_fail(CREMA_E_NOT_FOUND, "%s: no such database", path);
  CR_TRY(read_current(path, manifest));
  return each_file(path, check_file, NULL);
}

static crema_status fail_locked(int fd, const char *path) {
  struct flock holder = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
  if (fcntl(fd, F_OFD_GETLK, &holder) == 0 && holder.l_type != F_UNLCK && holder.l_pid > 0) {
    return cr_fail(CREMA_E_STATE, "%s: locked by process %ld, which has it open for writing", path,
                   (long)holder.l_pid);
  }
  return cr_fail(CREMA_E_STATE, "%s: locked by another process, which has it open for writing",
                 path);
}

/* Takes a shared lock that belongs to the descriptor: any number of views can be open, but not
 * while LevelDB itself has the database open. A database without LOCK is a copy without a writer.
 */
static crema_status take_lock(const char *path, int *out) {
  struct flock wanted = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
  cr_buffer name = {0};
  CR_TRY(join(path, "LOCK", &name));
  int fd = cr_io_open(name.data, O_RDONLY | O_NONBLOCK, 0);
  cr_buffer_free(&name);
  if (fd < 0) return CREMA_OK;
  if (fcntl(fd, F_OFD_SETLK, &wanted) == 0) {
    *out = fd;
    return CREMA_OK;
  }
  if (errno == EAGAIN || errno == EACCES) {
    crema_status status = fail_locked(fd, path);
    cr_io_close(fd);
    return status;
  }
  cr_log_info("%s: opened without a lock (%s)", path, strerror(errno));
  cr_io_close(fd);
  return CREMA_OK;
}

typedef struct link_job {
  const char *path; /* of the temporary folder */
  const char *manifest;
} link_job;

/* Does not link files that LevelDB writes to: LOCK, and manifests except the current one. Omits
 * tables without a sound footer: a writer that was killed during a merge leaves an incomplete,
 * unused table. If such a table is in use, LevelDB reports it missing. */
static crema_status link_file(const char *path, const char *name, void *user) {
  const link_job *job = user;
  const size_t zeros = strspn(name, "0");
  /* LevelDB counts files from 1 and ends the process when it finds number 0. */
  if (zeros > 0 && name[zeros] == '.') return CREMA_OK;
  if (!is_table(name) && !ends_in(name, ".log") && strcmp(name, "CURRENT") != 0 &&
      strcmp(name, job->manifest) != 0) {
    return CREMA_OK;
  }
  crema_status sound = is_table(name) ? check_table(path) : CREMA_OK;
  if (sound != CREMA_OK) return sound == CREMA_E_CORRUPT ? CREMA_OK : sound;
  char *target = realpath(path, NULL);
  if (target == NULL) return cr_fail_errno(errno, "%s: cannot read", path);
  cr_buffer link = {0};
  crema_status status = join(job->path, name, &link);
  if (status == CREMA_OK && symlink(target, link.data) != 0) {
    status = cr_fail_errno(errno, "%s: cannot link to %s", link.data, target);
  }
  cr_buffer_free(&link);
  free(target);
  return status;
}

crema_status cr_leveldb_view_open(const char *path, cr_leveldb_view *out) {
  char manifest[MANIFEST_NAME];
  crema_status status = CREMA_OK;
  *out = (cr_leveldb_view){.folder = {.lock = -1}, .lock = -1};
  if (!cr_file_exists(path)) return cr_fail(CREMA_E_NOT_FOUND, "%s: no such database", path);
  CR_TRY_GOTO(take_lock(path, &out->lock), fail);
  CR_TRY_GOTO(read_current(path, manifest), fail);
  CR_TRY_GOTO(cr_temporary_folder_make(&out->folder), fail);
  link_job job = {out->folder.path, manifest};
  CR_TRY_GOTO(each_file(path, link_file, &job), fail);
  return CREMA_OK;
fail:
  cr_leveldb_view_close(out);
  return status;
}

void cr_leveldb_view_close(cr_leveldb_view *view) {
  cr_temporary_folder_remove(&view->folder);
  if (view->lock >= 0) cr_io_close(view->lock);
  view->lock = -1;
}
