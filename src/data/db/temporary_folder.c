#define _GNU_SOURCE /* secure_getenv */

#include "data/db/temporary_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/io.h"
#include "core/log.h"
#include "core/system.h"

#define PREFIX "crema-leveldb-"
enum { DRAWN = 6 /* letters that mkdtemp puts at the end */ };

static const char *base_folder(void) {
  const char *base = secure_getenv("TMPDIR");
  return base != NULL && base[0] != '\0' ? base : "/tmp";
}

/* Whether a name is "<prefix><process>-<letters>" of a process that does not run on this machine.
 */
static bool is_left_behind(const char *name) {
  if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) return false;
  char *end = NULL;
  const char *digits = name + strlen(PREFIX);
  if (strspn(digits, "0123456789") == 0) return false;
  long pid = strtol(digits, &end, 10);
  if (pid <= 0 || pid > INT_MAX || *end != '-' || strlen(end + 1) != DRAWN) return false;
  return kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* A descriptor of the folder `name` in the folder `base`; -1: there is none. */
static int open_folder(int base, const char *name) {
  return cr_io_open_at(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
}

/* A folder's user holds a lock on it, which any end of the process releases. */
static void sweep_folder(int base, const char *name) {
  struct stat info;
  int folder = open_folder(base, name);
  if (folder < 0) return;
  if (fstat(folder, &info) == 0 && info.st_uid == geteuid() &&
      flock(folder, LOCK_EX | LOCK_NB) == 0 && cr_file_empty_folder(folder) &&
      unlinkat(base, name, AT_REMOVEDIR) == 0) {
    cr_log_info("%s/%s: removed, a run that was killed had left it", base_folder(), name);
  }
  cr_io_close(folder);
}

static void sweep(void) {
  DIR *dir = opendir(base_folder());
  if (dir == NULL) return;
  const struct dirent *entry;
  while ((entry = readdir(dir)) != NULL) {
    if (is_left_behind(entry->d_name)) sweep_folder(dirfd(dir), entry->d_name);
  }
  closedir(dir);
}

void cr_temporary_folder_remove(cr_temporary_folder *folder) {
  if (folder->path != NULL) {
    int own = open_folder(AT_FDCWD, folder->path);
    if (own < 0 || !cr_file_empty_folder(own) || rmdir(folder->path) != 0) {
      cr_log_warning("%s: the temporary folder could not be removed", folder->path);
    }
    if (own >= 0) cr_io_close(own);
    free(folder->path);
  }
  if (folder->lock >= 0) cr_io_close(folder->lock);
  *folder = (cr_temporary_folder){.lock = -1};
}

/* False: another run's sweep removes the folder before it is locked. File systems without locks on
 * folders (some network file systems) have no sweeps either. */
static bool take_lock(const char *path, int *out) {
  struct stat info;
  int folder = open_folder(AT_FDCWD, path);
  if (folder < 0) return errno != ENOENT;
  if (flock(folder, LOCK_EX | LOCK_NB) != 0) {
    bool swept = errno == EWOULDBLOCK;
    cr_io_close(folder);
    return !swept;
  }
  *out = folder;
  if (fstat(folder, &info) != 0 || info.st_nlink > 0) return true;
  cr_io_close(folder);
  *out = -1;
  return false;
}

crema_status cr_temporary_folder_make(cr_temporary_folder *out) {
  enum { TRIES = 100 };
  *out = (cr_temporary_folder){.lock = -1};
  sweep();
  for (int i = 0; i < TRIES; ++i) {
    cr_buffer text = {0};
    CR_TRY(cr_buffer_print(&text, "%s/%s%ld-XXXXXX", base_folder(), PREFIX, (long)getpid()));
    if (mkdtemp(text.data) == NULL) {
      crema_status status = cr_fail_errno(errno, "%s: cannot make a temporary folder", text.data);
      cr_buffer_free(&text);
      return status;
    }
    if (take_lock(text.data, &out->lock)) {
      out->path = cr_buffer_take(&text);
      return CREMA_OK;
    }
    cr_buffer_free(&text);
  }
  return cr_fail(CREMA_E_IO, "%s: other processes remove every temporary folder", base_folder());
}
