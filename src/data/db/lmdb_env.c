#include "data/db/lmdb_env.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "data/db/lmdb_file.h"

typedef struct open_env {
  struct open_env *next;
  dev_t device; /* of the data file */
  ino_t file;
  pid_t process; /* a forked child cannot use its parent's environments */
  MDB_env *env;
  size_t map_size;
  char *lock_path; /* NULL: opened without a lock */
  dev_t lock_device;
  ino_t lock_file;
  off_t lock_size;
  int users;
} open_env;

/* An object of LMDB that cannot be closed. */
typedef struct relic {
  struct relic *next;
  void *thing;
} relic;

/* The lock also serialises opening and closing. */
static struct {
  pthread_mutex_t lock;
  open_env *first;
  relic *relics; /* listed so that leak checkers find them */
} lmdb_envs = {.lock = PTHREAD_MUTEX_INITIALIZER};

int cr_lmdb_env_new(const char *path, unsigned flags, size_t map_size, MDB_env **out) {
  MDB_env *env = NULL;
  int rc = mdb_env_create(&env);
  if (rc != 0) return rc;
  if (map_size > 0) rc = mdb_env_set_mapsize(env, map_size);
  if (rc == 0) rc = mdb_env_open(env, path, flags, 0664);
  if (rc != 0) mdb_env_close(env);
  else *out = env;
  return rc;
}

/* Does not open LMDB's lock file: closing it would drop LMDB's own locks. */
static int note_lock_file(const char *path, unsigned flags, open_env *out) {
  struct stat info;
  cr_buffer name = {0};
  if (flags & MDB_NOLOCK) return 0;
  const char *end = flags & MDB_NOSUBDIR ? "-lock" : "/lock.mdb";
  if (cr_buffer_print(&name, "%s%s", path, end) != CREMA_OK) return ENOMEM;
  out->lock_path = cr_buffer_take(&name);
  if (stat(out->lock_path, &info) != 0) return errno;
  out->lock_device = info.st_dev;
  out->lock_file = info.st_ino;
  out->lock_size = info.st_size;
  return 0;
}

static bool lock_is_whole(const open_env *open) {
  struct stat info;
  /* If another file has this name, the mapped file is unchanged. */
  return open->lock_path == NULL || stat(open->lock_path, &info) != 0 ||
         info.st_dev != open->lock_device || info.st_ino != open->lock_file ||
         info.st_size >= open->lock_size;
}

static void keep_relic(void *thing) {
  relic *kept = malloc(sizeof *kept);
  if (kept == NULL) return;
  *kept = (relic){lmdb_envs.relics, thing};
  lmdb_envs.relics = kept;
}

static void close_env(open_env *open) {
  if (open->env != NULL) {
    if (lock_is_whole(open)) mdb_env_close(open->env);
    else keep_relic(open->env);
  }
  free(open->lock_path);
  free(open);
}

static int add(const char *path, const struct stat *info, unsigned flags, MDB_env **out) {
  MDB_envinfo opened;
  open_env *added = calloc(1, sizeof *added);
  if (added == NULL) return ENOMEM;
  int rc = cr_lmdb_env_new(path, flags, 0, &added->env);
  if (rc == 0) rc = mdb_env_info(added->env, &opened);
  if (rc == 0) rc = note_lock_file(path, flags, added);
  if (rc != 0) {
    close_env(added);
    return rc;
  }
  added->map_size = opened.me_mapsize;
  added->device = info->st_dev;
  added->file = info->st_ino;
  added->process = getpid();
  added->users = 1;
  added->next = lmdb_envs.first;
  lmdb_envs.first = added;
  *out = added->env;
  return 0;
}

static int open_locked(const char *path, const char *data_path, unsigned flags, MDB_env **out) {
  struct stat info;
  if (stat(data_path, &info) != 0) return errno;
  for (open_env *open = lmdb_envs.first; open != NULL; open = open->next) {
    if (open->process != getpid() || open->device != info.st_dev || open->file != info.st_ino ||
        open->map_size < (size_t)info.st_size) { /* the file has outgrown its environment */
      continue;
    }
    ++open->users;
    *out = open->env;
    return 0;
  }
  return add(path, &info, flags, out);
}

int cr_lmdb_env_open(const char *path, const char *data_path, unsigned flags, MDB_env **out) {
  pthread_mutex_lock(&lmdb_envs.lock);
  int rc = open_locked(path, data_path, flags, out);
  pthread_mutex_unlock(&lmdb_envs.lock);
  return rc;
}

/* With the lock held; the environment is in the list. */
static open_env **find(const MDB_env *env) {
  open_env **at = &lmdb_envs.first;
  while ((*at)->env != env) at = &(*at)->next;
  return at;
}

void cr_lmdb_env_release(MDB_env *env) {
  pthread_mutex_lock(&lmdb_envs.lock);
  open_env **at = find(env);
  open_env *open = *at;
  if (--open->users == 0) {
    *at = open->next;
    close_env(open);
  }
  pthread_mutex_unlock(&lmdb_envs.lock);
}

crema_status cr_lmdb_env_check(MDB_env *env) {
  cr_lmdb_meta meta;
  mdb_filehandle_t fd = -1;
  pthread_mutex_lock(&lmdb_envs.lock);
  bool whole = lock_is_whole(*find(env));
  pthread_mutex_unlock(&lmdb_envs.lock);
  if (!whole) return cr_fail(CREMA_E_IO, "the lock file was truncated while it was used");
  if (mdb_env_get_fd(env, &fd) != 0) return cr_fail(CREMA_E_IO, "the database is not open");
  crema_status status = cr_lmdb_meta_newest(fd, &meta);
  return status == CREMA_E_CORRUPT ? cr_fail(CREMA_E_IO, "the database was replaced") : status;
}

void cr_lmdb_env_end_read(MDB_env *env, MDB_txn *txn) {
  pthread_mutex_lock(&lmdb_envs.lock);
  if (lock_is_whole(*find(env))) mdb_txn_abort(txn);
  else keep_relic(txn);
  pthread_mutex_unlock(&lmdb_envs.lock);
}
