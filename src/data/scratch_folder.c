#define _GNU_SOURCE /* O_DIRECTORY */

#include "data/scratch_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "core/log.h"

#define PREFIX "crema-leveldb-"
enum { DRAWN = 6 /* letters that mkdtemp puts behind the prefix */ };

static const char *base_folder(void) {
  const char *base = getenv("TMPDIR");
  return base != NULL && base[0] != '\0' ? base : "/tmp";
}

static bool is_ours(const char *name) {
  return strncmp(name, PREFIX, strlen(PREFIX)) == 0 && strlen(name) == strlen(PREFIX) + DRAWN;
}

/* A descriptor of the folder `name` in the folder `base`; -1 where there is none of that kind. */
static int open_folder(int base, const char *name) {
  return openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- removing ------------------------------------------------------------ */

static bool remove_files(int folder) {
  int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = own < 0 ? NULL : fdopendir(own);
  if (dir == NULL) {
    if (own >= 0) close(own);
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

/* Whoever uses a folder holds a lock on it, which ends with the process however that ends. */
static void sweep_folder(int base, const char *name) {
  struct stat info;
  int folder = open_folder(base, name);
  if (folder < 0) return;
  if (fstat(folder, &info) == 0 && info.st_uid == geteuid() &&
      flock(folder, LOCK_EX | LOCK_NB) == 0 && remove_files(folder) &&
      unlinkat(base, name, AT_REMOVEDIR) == 0) {
    cr_log_info("%s/%s: removed, a run that was killed had left it", base_folder(), name);
  }
  close(folder);
}

static void sweep(void) {
  DIR *dir = opendir(base_folder());
  if (dir == NULL) return;
  const struct dirent *entry;
  while ((entry = readdir(dir)) != NULL) {
    if (is_ours(entry->d_name)) sweep_folder(dirfd(dir), entry->d_name);
  }
  closedir(dir);
}

void cr_scratch_folder_remove(cr_scratch_folder *folder) {
  if (folder->path != NULL) {
    int own = open_folder(AT_FDCWD, folder->path);
    if (own < 0 || !remove_files(own) || rmdir(folder->path) != 0) {
      cr_log_warning("%s: the scratch folder could not be removed", folder->path);
    }
    if (own >= 0) close(own);
    free(folder->path);
  }
  if (folder->lock >= 0) close(folder->lock);
  *folder = (cr_scratch_folder){.lock = -1};
}

/* ---- making -------------------------------------------------------------- */

/* False: another run's sweep was faster than the lock, and the folder is its. Where folders cannot
 * be locked (some network file systems) there are no sweeps either. */
static bool take_lock(const char *path, int *out) {
  struct stat info;
  int folder = open_folder(AT_FDCWD, path);
  if (folder < 0) return errno != ENOENT;
  if (flock(folder, LOCK_EX | LOCK_NB) != 0) {
    bool swept = errno == EWOULDBLOCK;
    close(folder);
    return !swept;
  }
  *out = folder;
  if (fstat(folder, &info) != 0 || info.st_nlink > 0) return true;
  close(folder);
  *out = -1;
  return false;
}

crema_status cr_scratch_folder_make(cr_scratch_folder *out) {
  enum { TRIES = 100 };
  *out = (cr_scratch_folder){.lock = -1};
  sweep();
  for (int i = 0; i < TRIES; ++i) {
    cr_buffer text = {0};
    CR_TRY(cr_buffer_print(&text, "%s/%sXXXXXX", base_folder(), PREFIX));
    if (mkdtemp(text.data) == NULL) {
      crema_status status = cr_fail_errno(errno, "%s: cannot make a scratch folder", text.data);
      cr_buffer_free(&text);
      return status;
    }
    if (take_lock(text.data, &out->lock)) {
      out->path = cr_buffer_take(&text);
      return CREMA_OK;
    }
    cr_buffer_free(&text);
  }
  return cr_fail(CREMA_E_IO, "%s: others remove every scratch folder", base_folder());
}
