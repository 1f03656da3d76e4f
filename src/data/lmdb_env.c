#include "data/lmdb_env.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct open_env {
  struct open_env *next;
  dev_t device; /* of the data file */
  ino_t file;
  pid_t process; /* a child that was forked has its parent's environments, which it cannot use */
  MDB_env *env;
  int users;
} open_env;

/* The lock also keeps openings and closings apart. */
static struct {
  pthread_mutex_t lock;
  open_env *first;
} lmdb_envs = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A file that has outgrown an environment needs a new one. */
static bool covers(const open_env *open, off_t size) {
  MDB_envinfo info;
  return mdb_env_info(open->env, &info) == 0 && info.me_mapsize >= (size_t)size;
}

static int open_new(const char *path, unsigned flags, MDB_env **out) {
  MDB_env *env = NULL;
  int rc = mdb_env_create(&env);
  if (rc != 0) return rc;
  rc = mdb_env_open(env, path, flags, 0664);
  if (rc != 0) {
    mdb_env_close(env);
    return rc;
  }
  *out = env;
  return 0;
}

static int add(const char *path, const struct stat *info, unsigned flags, MDB_env **out) {
  open_env *added = malloc(sizeof *added);
  if (added == NULL) return ENOMEM;
  int rc = open_new(path, flags, &added->env);
  if (rc != 0) {
    free(added);
    return rc;
  }
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
    bool ours = open->process == getpid();
    if (!ours || open->device != info.st_dev || open->file != info.st_ino ||
        !covers(open, info.st_size)) {
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

void cr_lmdb_env_release(MDB_env *env) {
  pthread_mutex_lock(&lmdb_envs.lock);
  open_env **at = &lmdb_envs.first;
  while ((*at)->env != env) at = &(*at)->next;
  open_env *open = *at;
  if (--open->users == 0) {
    *at = open->next;
    mdb_env_close(open->env);
    free(open);
  }
  pthread_mutex_unlock(&lmdb_envs.lock);
}
