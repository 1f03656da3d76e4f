#include "core/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/log.h"

static crema_status fail_open(const char *path, int err) {
  if (err == ENOENT) return cr_fail(CREMA_E_NOT_FOUND, "%s: no such file or directory", path);
  return cr_fail_errno(err, "%s: cannot open", path);
}

static crema_status read_all(int fd, const char *path, cr_buffer *out) {
  enum { CHUNK = 1 << 20 };
  for (;;) {
    CR_TRY(cr_buffer_reserve(out, out->size + CHUNK));
    ssize_t got = read(fd, out->data + out->size, out->capacity - out->size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cr_fail_errno(errno, "%s: cannot read", path);
    if (got == 0) break;
    out->size += (size_t)got;
  }
  out->data[out->size] = '\0';
  return CREMA_OK;
}

crema_status cr_file_read(const char *path, cr_buffer *out) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail_open(path, errno);
  struct stat info;
  crema_status status = CREMA_OK;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
    status = cr_buffer_reserve(out, out->size + (size_t)info.st_size + 1);
  }
  if (status == CREMA_OK) status = read_all(fd, path, out);
  close(fd);
  return status;
}

static crema_status flush_directory_of(const char *path) {
  char *dir = strdup(path);
  if (dir == NULL) return cr_fail_memory(strlen(path) + 1, "a path");
  char *slash = strrchr(dir, '/');
  if (slash == dir) slash[1] = '\0';
  else if (slash != NULL) *slash = '\0';
  crema_status status = CREMA_OK;
  int fd = open(slash == NULL ? "." : dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  /* Some file systems cannot flush a directory and say EINVAL. */
  if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL)) {
    status = cr_fail_errno(errno, "%s: cannot flush its folder", path);
  }
  if (fd >= 0) close(fd);
  free(dir);
  return status;
}

/* ---- drafts -------------------------------------------------------------- */

static void free_draft(cr_file_draft *draft) {
  free(draft->temporary);
  free(draft->target);
  *draft = (cr_file_draft){0};
}

crema_status cr_file_draft_begin(const char *path, cr_file_draft *out) {
  struct stat info;
  cr_buffer name = {0};
  crema_status status = CREMA_OK;
  *out = (cr_file_draft){.path = path};
  bool exists = stat(path, &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) return cr_fail_errno(EISDIR, "%s: cannot write", path);
    out->file = fopen(path, "wbe");
    return out->file != NULL ? CREMA_OK : fail_open(path, errno);
  }
  /* A link stays a link, as it does for a program that writes in place. */
  out->target = realpath(path, NULL);
  if (out->target == NULL) out->target = strdup(path);
  if (out->target == NULL) return cr_fail_memory(strlen(path) + 1, "a path");
  CR_TRY_GOTO(cr_buffer_print(&name, "%s.tmp.%ld", out->target, (long)getpid()), fail);
  out->temporary = cr_buffer_take(&name);
  out->file = fopen(out->temporary, "wbe");
  if (out->file == NULL) {
    status = cr_fail_errno(errno, "%s: cannot write", path);
    goto fail;
  }
  /* Where the file system knows no permissions there are none to keep. */
  if (exists) (void)fchmod(fileno(out->file), info.st_mode & 0777);
  /* Tells cr_file_sweep, in whatever process, that somebody is at work. */
  (void)flock(fileno(out->file), LOCK_EX | LOCK_NB);
  return CREMA_OK;
fail:
  free_draft(out);
  return status;
}

static crema_status keep(cr_file_draft *draft) {
  if (fflush(draft->file) != 0 || (fsync(fileno(draft->file)) != 0 && errno != EINVAL)) {
    return cr_fail_errno(errno, "%s: cannot write", draft->path);
  }
  if (rename(draft->temporary, draft->target) == 0) return CREMA_OK;
  return cr_fail_errno(errno, "%s: cannot rename to %s", draft->temporary, draft->target);
}

crema_status cr_file_draft_end(cr_file_draft *draft, crema_status content) {
  crema_status status = content;
  if (draft->temporary == NULL) {
    if (fclose(draft->file) != 0 && status == CREMA_OK) {
      status = cr_fail_errno(errno, "%s: cannot write", draft->path);
    }
  } else {
    if (status == CREMA_OK) status = keep(draft);
    if (status != CREMA_OK) unlink(draft->temporary);
    fclose(draft->file);
    if (status == CREMA_OK) status = flush_directory_of(draft->target);
  }
  free_draft(draft);
  return status;
}

crema_status cr_file_write(const char *path, const void *bytes, size_t size) {
  cr_file_draft draft;
  crema_status status = CREMA_OK;
  CR_TRY(cr_file_draft_begin(path, &draft));
  if (fwrite(bytes, 1, size, draft.file) != size) {
    status = cr_fail_errno(errno, "%s: cannot write", path);
  }
  return cr_file_draft_end(&draft, status);
}

/* ---- sweeping ------------------------------------------------------------ */

/* The process in "<anything>.tmp.<pid>"; 0 for other names. */
static long writer_of(const char *name) {
  static const char mark[] = ".tmp.";
  const char *at = NULL;
  for (const char *next = strstr(name, mark); next != NULL; next = strstr(next + 1, mark)) {
    at = next + sizeof mark - 1;
  }
  if (at == NULL || *at == '\0' || at[strspn(at, "0123456789")] != '\0') return 0;
  errno = 0;
  long pid = strtol(at, NULL, 10);
  return errno == 0 && pid > 0 && pid <= INT32_MAX ? pid : 0;
}

/* Neither a process of that number here nor, through a shared folder, one elsewhere. */
static bool is_abandoned(int folder, const char *name, long pid) {
  if (kill((pid_t)pid, 0) == 0 || errno != ESRCH) return false;
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat info;
  bool abandoned =
      fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0;
  close(fd);
  return abandoned;
}

void cr_file_sweep(const char *prefix) {
  const char *slash = strrchr(prefix, '/');
  const char *base = slash == NULL ? prefix : slash + 1;
  char *path = slash == NULL ? strdup(".") : strndup(prefix, (size_t)(slash - prefix + 1));
  DIR *folder = path == NULL ? NULL : opendir(path);
  free(path);
  if (folder == NULL) return;
  for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    if (strncmp(entry->d_name, base, strlen(base)) != 0) continue;
    long pid = writer_of(entry->d_name + strlen(base));
    if (pid == 0 || !is_abandoned(dirfd(folder), entry->d_name, pid)) continue;
    if (unlinkat(dirfd(folder), entry->d_name, 0) == 0) {
      cr_log_info("Removed %s, which a process that ended left half written", entry->d_name);
    }
  }
  closedir(folder);
}

/* ---- looking ------------------------------------------------------------- */

bool cr_file_exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}

bool cr_file_is_in(const char *folder, const char *name, struct stat *info) {
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  bool found = fstatat(fd, name, info, 0) == 0 && S_ISREG(info->st_mode);
  close(fd);
  return found;
}

crema_status cr_file_resolve(const char *base_file, const char *path, char **out) {
  const char *slash = base_file == NULL ? NULL : strrchr(base_file, '/');
  cr_buffer text = {0};
  if (path[0] == '/' || slash == NULL || cr_file_exists(path)) {
    CR_TRY(cr_buffer_append(&text, path, strlen(path)));
  } else {
    CR_TRY(cr_buffer_print(&text, "%.*s%s", (int)(slash + 1 - base_file), base_file, path));
    if (!cr_file_exists(text.data)) {
      cr_buffer_clear(&text);
      CR_TRY(cr_buffer_append(&text, path, strlen(path)));
    }
  }
  *out = cr_buffer_take(&text);
  return CREMA_OK;
}

/* Says where `path` would have been found: Caffe's own files name each other from the folder that
 * Caffe lies in, some folders above them. */
static void look_above(const char *base_file, const char *path) {
  char folder[PATH_MAX];
  cr_buffer text = {0};
  if (path[0] == '/' || realpath(base_file, folder) == NULL) return;
  for (char *slash = strrchr(folder, '/'); slash != NULL && slash != folder;
       slash = strrchr(folder, '/')) {
    *slash = '\0';
    cr_buffer_clear(&text);
    if (cr_buffer_print(&text, "%s/%s", folder, path) != CREMA_OK) break;
    if (!cr_file_exists(text.data)) continue;
    cr_log_warning("%s is not found from the working directory, but it would be from %s", path,
                   folder);
    break;
  }
  cr_buffer_free(&text);
}

crema_status cr_file_resolve_input(const char *base_file, const char *path, char **out) {
  CR_TRY(cr_file_resolve(base_file, path, out));
  if (base_file != NULL && !cr_file_exists(*out)) look_above(base_file, path);
  return CREMA_OK;
}
