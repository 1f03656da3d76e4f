/* Files and folders that are written next to their target and renamed when they are complete. */
#define _GNU_SOURCE /* renameat2 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/io.h"
#include "core/log.h"
#include "core/rng.h"
#include "core/system.h"

static const char mark[] = ".tmp.";
static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
enum {
  DRAWN = 6,
  PID_DIGITS = 10,
  SUFFIX_MAX = sizeof mark + PID_DIGITS + DRAWN,
  BUFFER = 1 << 16
};

/* "" for a name without a folder, else with the slash at its end. To be freed; NULL: no memory. */
static char *folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return strndup(path, slash == NULL ? 0 : (size_t)(slash - path) + 1);
}

static const char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

static const char *or_here(const char *folder) {
  return folder[0] == '\0' ? "." : folder;
}

/* The number of bytes of a name to keep before ".tmp.": fewer than all if the full name would be
 * too long. */
static size_t kept_of(const char *folder, const char *name) {
  long longest = pathconf(or_here(folder), _PC_NAME_MAX);
  size_t size = strlen(name), most = longest <= 0 ? NAME_MAX : (size_t)longest;
  most = most > SUFFIX_MAX ? most - SUFFIX_MAX : 0;
  if (size <= most) return size;
  /* Some file systems refuse a name that ends within a UTF-8 character. */
  while (most > 0 && ((unsigned char)name[most] & 0xC0) == 0x80) --most;
  return most;
}

static void draw(char out[DRAWN + 1]) {
  unsigned char bytes[DRAWN];
  if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
    for (int i = 0; i < DRAWN; ++i) bytes[i] = (unsigned char)(cr_random_seed() >> 11);
  }
  for (int i = 0; i < DRAWN; ++i) out[i] = letters[bytes[i] % (sizeof letters - 1)];
  out[DRAWN] = '\0';
}

/* The process in ".tmp.<pid>.<letters>"; 0 for other endings. */
static long writer_of(const char *ending) {
  size_t size = sizeof mark - 1;
  if (strncmp(ending, mark, size) != 0) return 0;
  const char *digits = ending + size;
  size_t count = strspn(digits, "0123456789");
  if (count == 0 || count > PID_DIGITS || digits[count] != '.') return 0;
  const char *drawn = digits + count + 1;
  if (strlen(drawn) != DRAWN || strspn(drawn, letters) != DRAWN) return 0;
  long pid = strtol(digits, NULL, 10);
  return pid > 0 && pid <= INT_MAX ? pid : 0;
}

bool cr_file_empty_folder(int folder) {
  int own = cr_io_open_at(folder, ".", O_RDONLY | O_DIRECTORY, 0);
  DIR *dir = own < 0 ? NULL : fdopendir(own);
  if (dir == NULL) {
    if (own >= 0) cr_io_close(own);
    return false;
  }
  const struct dirent *entry;
  while ((entry = readdir(dir)) != NULL) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (unlinkat(folder, entry->d_name, 0) != 0) {
      cr_log_debug("%s: cannot remove: %s", entry->d_name, strerror(errno));
    }
  }
  closedir(dir);
  return true;
}

/* Removes a draft whose writer is gone: neither process `pid` on this machine nor, in a shared
 * folder, a process on a different machine writes it. */
static bool remove_abandoned(int folder, const char *name, long pid) {
  if (kill((pid_t)pid, 0) == 0 || errno != ESRCH) return false;
  int fd = cr_io_open_at(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  if (fd < 0) return false;
  struct stat info;
  bool removed = false;
  if (fstat(fd, &info) == 0 && info.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0) {
    if (S_ISREG(info.st_mode)) removed = unlinkat(folder, name, 0) == 0;
    if (S_ISDIR(info.st_mode)) {
      removed = cr_file_empty_folder(fd) && unlinkat(folder, name, AT_REMOVEDIR) == 0;
    }
  }
  cr_io_close(fd);
  return removed;
}

/* `whole`: only the drafts of the file `prefix`, not of all files whose path begins with it. */
static void sweep(const char *prefix, bool whole) {
  char *path = folder_of(prefix);
  DIR *folder = path == NULL ? NULL : opendir(or_here(path));
  const struct dirent *entry;
  const char *base = name_of(prefix);
  size_t kept = path == NULL ? 0 : kept_of(path, base);
  while (folder != NULL && (entry = readdir(folder)) != NULL) {
    size_t size = strlen(entry->d_name);
    if (size <= kept || strncmp(entry->d_name, base, kept) != 0) continue;
    const char *ending = entry->d_name + kept;
    for (const char *next = ending; !whole && next != NULL; next = strstr(next + 1, mark)) {
      ending = next;
    }
    long pid = writer_of(ending);
    if (pid != 0 && remove_abandoned(dirfd(folder), entry->d_name, pid)) {
      cr_log_info("Removed %s%s, which a process that ended left half written", path,
                  entry->d_name);
    }
  }
  if (folder != NULL) closedir(folder);
  free(path);
}

void cr_file_sweep(const char *prefix) {
  sweep(prefix, false);
}

/* Makes a file or folder that must not exist yet; sets errno. */
static bool make_new(const char *path, bool folder, mode_t mode, int *fd) {
  if (!folder) {
    *fd = cr_io_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    return *fd >= 0;
  }
  if (!cr_io_make_folder(path, mode)) return false;
  *fd = cr_io_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  if (*fd >= 0) return true;
  int error = errno;
  rmdir(path);
  errno = error;
  return false;
}

/* Makes a file (open for writing) or folder next to `target`. A lock shows cr_file_sweep of any
 * process that it is in use. */
static crema_status make_next_to(const char *path, const char *target, bool folder, mode_t mode,
                                 char **out, int *fd) {
  enum { TRIES = 100 };
  char *parent = folder_of(target);
  if (parent == NULL) return cr_fail_memory(strlen(target) + 1, "a path");
  const char *name = name_of(target);
  int kept = (int)kept_of(parent, name), error = EEXIST;
  cr_buffer text = {0};
  crema_status status = CREMA_OK;
  for (int i = 0; i < TRIES && error == EEXIST; ++i) {
    char drawn[DRAWN + 1];
    draw(drawn);
    cr_buffer_clear(&text);
    CR_TRY_GOTO(
        cr_buffer_print(&text, "%s%.*s%s%ld.%s", parent, kept, name, mark, (long)getpid(), drawn),
        out);
    error = make_new(text.data, folder, mode, fd) ? 0 : errno;
  }
  if (error != 0) {
    status = cr_fail_errno(error, "%s: cannot write", path);
    goto out;
  }
  (void)flock(*fd, LOCK_EX | LOCK_NB);
  *out = cr_buffer_take(&text);
out:
  cr_buffer_free(&text);
  free(parent);
  return status;
}

/* Allocates no memory, because the file already has its name. `path` is as before afterwards. */
static crema_status flush_directory_of(char *path) {
  crema_status status = CREMA_OK;
  char *name = strrchr(path, '/') == NULL ? NULL : strrchr(path, '/') + 1;
  const char first = name == NULL ? '\0' : name[0];
  if (name != NULL) name[0] = '\0';
  int fd = cr_io_open(name == NULL ? "." : path, O_RDONLY | O_DIRECTORY, 0);
  int error = errno;
  if (name != NULL) name[0] = first;
  /* A folder that we may write to but not read cannot be opened, and so not flushed. */
  if (fd < 0 ? error != EACCES : !cr_io_sync(fd)) {
    status = cr_fail_errno(fd < 0 ? error : errno, "%s: cannot flush its folder", path);
  }
  if (fd >= 0) cr_io_close(fd);
  return status;
}

static void free_draft(cr_file_draft *draft) {
  if (draft->fd >= 0) cr_io_close(draft->fd);
  free(draft->buffer);
  free(draft->temporary);
  free(draft->target);
  *draft = (cr_file_draft){.fd = -1};
}

/* Opening a pipe without a reader waits; a warning says so. */
static int open_in_place(const char *path, bool pipe) {
  enum { LOOK_MS = 50, PATIENCE_MS = 1000 };
  int fd = cr_io_open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK, 0);
  for (int waited = 0; fd < 0 && pipe && errno == ENXIO && waited < PATIENCE_MS;
       waited += LOOK_MS) {
    cr_clock_sleep(LOOK_MS / 1000.0);
    fd = cr_io_open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK, 0);
  }
  if (fd < 0 && pipe && errno == ENXIO) {
    cr_log_warning("Waiting for a reader of %s, which is a pipe", path);
    fd = cr_io_open(path, O_WRONLY | O_NOCTTY, 0);
  }
  if (fd >= 0) (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

crema_status cr_file_draft_begin(const char *path, cr_file_draft *out) {
  struct stat info;
  crema_status status = CREMA_OK;
  *out = (cr_file_draft){.path = path, .fd = -1};
  bool exists = stat(path, &info) == 0;
  if (!exists && errno != ENOENT) return cr_fail_errno(errno, "%s: cannot write", path);
  if (exists && S_ISDIR(info.st_mode)) return cr_fail_errno(EISDIR, "%s: cannot write", path);
  out->buffer = malloc(BUFFER);
  if (out->buffer == NULL) return cr_fail_memory(BUFFER, "writing");
  if (exists && !S_ISREG(info.st_mode)) {
    out->fd = open_in_place(path, S_ISFIFO(info.st_mode));
    if (out->fd < 0) status = cr_fail_errno(errno, "%s: cannot write", path);
    goto out;
  }
  /* A link stays a link: its target is replaced. */
  out->target = realpath(path, NULL);
  if (out->target == NULL) out->target = strdup(path);
  if (out->target == NULL) {
    status = cr_fail_memory(strlen(path) + 1, "a path");
    goto out;
  }
  sweep(out->target, true);
  mode_t mode = exists ? info.st_mode & 0777 : 0666;
  CR_TRY_GOTO(make_next_to(path, out->target, false, mode, &out->temporary, &out->fd), out);
  /* A failure does not matter: a file system without permissions has none to keep. */
  if (exists) (void)fchmod(out->fd, mode);
out:
  if (status != CREMA_OK) free_draft(out);
  return status;
}

static crema_status flush_buffer(cr_file_draft *draft) {
  size_t used = draft->used;
  draft->used = 0;
  if (cr_io_write(draft->fd, draft->buffer, used)) return CREMA_OK;
  return cr_fail_errno(errno, "%s: cannot write", draft->path);
}

crema_status cr_file_draft_write(cr_file_draft *draft, const void *bytes, size_t size) {
  if (size > BUFFER - draft->used) CR_TRY(flush_buffer(draft));
  if (size > BUFFER) {
    if (cr_io_write(draft->fd, bytes, size)) return CREMA_OK;
    return cr_fail_errno(errno, "%s: cannot write", draft->path);
  }
  if (size > 0) memcpy(draft->buffer + draft->used, bytes, size);
  draft->used += size;
  return CREMA_OK;
}

crema_status cr_file_draft_flush(cr_file_draft *draft) {
  CR_TRY(flush_buffer(draft));
  if (draft->temporary == NULL || cr_io_sync(draft->fd)) return CREMA_OK;
  return cr_fail_errno(errno, "%s: cannot write", draft->path);
}

crema_status cr_file_draft_end(cr_file_draft *draft, crema_status content) {
  crema_status status = content;
  int lock = -1;
  if (status == CREMA_OK) status = cr_file_draft_flush(draft);
  if (status == CREMA_OK) {
    /* Some file systems report lost data only when the file is closed. The lock outlives that. */
    if (draft->temporary != NULL) lock = fcntl(draft->fd, F_DUPFD_CLOEXEC, 0);
    if (!cr_io_close(draft->fd)) status = cr_fail_errno(errno, "%s: cannot write", draft->path);
    draft->fd = -1;
  }
  if (draft->temporary != NULL) {
    if (status == CREMA_OK && !cr_io_rename(draft->temporary, draft->target)) {
      status = cr_fail_errno(errno, "%s: cannot rename to %s", draft->temporary, draft->target);
    }
    if (status != CREMA_OK) unlink(draft->temporary);
    if (status == CREMA_OK) status = flush_directory_of(draft->target);
  }
  if (lock >= 0) cr_io_close(lock);
  free_draft(draft);
  return status;
}

crema_status cr_file_draft_check(const char *path) {
  struct stat info;
  cr_file_draft draft;
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    if (access(path, W_OK) == 0) return CREMA_OK;
    return cr_fail_errno(errno, "%s: cannot write", path);
  }
  CR_TRY(cr_file_draft_begin(path, &draft));
  return cr_file_draft_end(&draft, CREMA_E_CLOSED) == CREMA_E_CLOSED ? CREMA_OK : CREMA_E_IO;
}

crema_status cr_file_write(const char *path, const void *bytes, size_t size) {
  cr_file_draft draft;
  CR_TRY(cr_file_draft_begin(path, &draft));
  return cr_file_draft_end(&draft, cr_file_draft_write(&draft, bytes, size));
}

static crema_status fail_exists(const char *target) {
  return cr_fail(CREMA_E_EXISTS, "%s: already exists; delete it or choose another name", target);
}

static void free_location(cr_file_location *location) {
  if (location->lock >= 0) cr_io_close(location->lock);
  free(location->path);
  free(location->target);
  *location = (cr_file_location){.lock = -1};
}

crema_status cr_file_location_begin(const char *target, bool folder, cr_file_location *out) {
  enum { FOLDER_MODE = 0755, FILE_MODE = 0666 };
  struct stat info;
  size_t size = strlen(target);
  int fd = -1;
  *out = (cr_file_location){.folder = folder, .lock = -1};
  while (folder && size > 1 && target[size - 1] == '/') --size;
  out->target = strndup(target, size);
  if (out->target == NULL) return cr_fail_memory(size + 1, "a path");
  crema_status status = CREMA_OK;
  if (lstat(out->target, &info) == 0) {
    status = fail_exists(out->target);
  } else if (errno != ENOENT) {
    status = cr_fail_errno(errno, "%s: cannot write", out->target);
  }
  if (status == CREMA_OK) {
    sweep(out->target, true);
    status = make_next_to(out->target, out->target, folder, folder ? FOLDER_MODE : FILE_MODE,
                          &out->path, &fd);
  }
  /* HDF5 takes the lock on a file itself. */
  if (folder) out->lock = fd;
  else if (fd >= 0) cr_io_close(fd);
  if (status != CREMA_OK) free_location(out);
  return status;
}

static bool sync_entry(int folder, const char *name) {
  struct stat info;
  int fd = cr_io_open_at(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  if (fd < 0) return false;
  bool good = fstat(fd, &info) == 0 && (!S_ISREG(info.st_mode) || cr_io_sync(fd));
  int error = errno;
  cr_io_close(fd);
  errno = error;
  return good;
}

/* All files in the folder, then the folder. */
static bool sync_folder(int folder) {
  int own = cr_io_open_at(folder, ".", O_RDONLY | O_DIRECTORY, 0);
  DIR *dir = own < 0 ? NULL : fdopendir(own);
  if (dir == NULL) {
    if (own >= 0) cr_io_close(own);
    return false;
  }
  bool good = true;
  const struct dirent *entry;
  while (good && (entry = readdir(dir)) != NULL) {
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
      good = sync_entry(folder, entry->d_name);
    }
  }
  int error = errno;
  closedir(dir);
  errno = error;
  return good && cr_io_sync(folder);
}

/* Never replaces a file that appeared during the write. On file systems without this guarantee it
 * uses a plain rename. */
static crema_status rename_new(const cr_file_location *location) {
  struct stat info;
  int failed;
  do failed = renameat2(AT_FDCWD, location->path, AT_FDCWD, location->target, RENAME_NOREPLACE);
  while (failed != 0 && errno == EINTR);
  if (failed == 0) return CREMA_OK;
  if (errno == EINVAL || errno == ENOSYS) {
    if (lstat(location->target, &info) == 0) return fail_exists(location->target);
    if (cr_io_rename(location->path, location->target)) return CREMA_OK;
  }
  if (errno == EEXIST) return fail_exists(location->target);
  return cr_fail_errno(errno, "%s: cannot rename to %s", location->path, location->target);
}

crema_status cr_file_location_end(cr_file_location *location, crema_status content) {
  crema_status status = content;
  if (status == CREMA_OK) {
    bool good =
        location->folder ? sync_folder(location->lock) : sync_entry(AT_FDCWD, location->path);
    status = good ? rename_new(location)
                  : cr_fail_errno(errno, "%s: cannot be flushed to the disk", location->target);
  }
  if (status == CREMA_OK) {
    status = flush_directory_of(location->target);
  } else if (!location->folder) {
    unlink(location->path);
  } else if (!cr_file_empty_folder(location->lock) || rmdir(location->path) != 0) {
    cr_log_warning("%s: half written, could not be removed", location->path);
  }
  free_location(location);
  return status;
}
