/* Calls of the system that Linux has and macOS names otherwise. The files that use them define
 * _GNU_SOURCE and call them by their Linux names. For macOS crema is only compiled
 * (scripts/macos_check.py), never linked or run. */
#ifndef CR_CORE_SYSTEM_H
#define CR_CORE_SYSTEM_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#ifdef __APPLE__

#define st_mtim st_mtimespec
#define st_ctim st_ctimespec

enum { RENAME_NOREPLACE = RENAME_EXCL, FALLOC_FL_KEEP_SIZE = 1, POSIX_FADV_WILLNEED = 3 };

static inline char *secure_getenv(const char *name) {
  return issetugid() != 0 ? NULL : getenv(name);
}

static inline ssize_t getrandom(void *bytes, size_t size, unsigned flags) {
  (void)flags;
  arc4random_buf(bytes, size);
  return (ssize_t)size;
}

static inline int renameat2(int from_folder, const char *from, int to_folder, const char *to,
                            unsigned flags) {
  return renameatx_np(from_folder, from, to_folder, to, flags);
}

static inline int close_range(unsigned first, unsigned last, int flags) {
  const unsigned end = (unsigned)sysconf(_SC_OPEN_MAX);
  (void)flags;
  for (unsigned fd = first; fd < end && fd <= last; ++fd) (void)close((int)fd);
  return 0;
}

static inline int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  fstore_t wanted = {F_ALLOCATEALL, F_PEOFPOSMODE, 0, bytes, 0};
  (void)mode, (void)offset;
  return fcntl(fd, F_PREALLOCATE, &wanted);
}

static inline int posix_fadvise(int fd, off_t offset, off_t bytes, int advice) {
  struct radvisory range = {offset, (int)(bytes < INT32_MAX ? bytes : INT32_MAX)};
  (void)advice;
  return fcntl(fd, F_RDADVISE, &range);
}

#endif

/* A socket that is closed in programs that the process starts and whose calls do not wait; -1 and
 * errno if it fails. */
int cr_system_socket(int domain, int type);
/* Two connected sockets that are closed in programs that the process starts. */
int cr_system_socket_pair(int domain, int type, int pair[2]);

/* For a child: no core file, and an end when the parent ends. Both are hints. */
void cr_system_keep_no_core(void);
void cr_system_end_with_parent(void);

/* A descriptor that polls as readable when the process ends; -1: the system has none. */
int cr_system_watch_process(pid_t process);
/* The CPU time of a process. */
bool cr_system_time_of(pid_t process, struct timespec *out);

/* The system's number of the calling thread. */
long cr_system_thread(void);

/* The memory of the process that is in RAM, in bytes; 0: the system does not report it. */
int64_t cr_system_resident(void);

/* The number of processors that the process may use. */
int cr_system_processors(void);
/* Bytes of memory that no process uses. */
size_t cr_system_free_memory(void);

/* The path of the running program, with its zero byte; false if it is longer than `size`. */
bool cr_system_program(char *path, size_t size);
/* The path of the shared library or program that contains `address`. */
bool cr_system_file_of(const void *address, char *path, size_t size);
/* Whether the process has loaded a library whose name contains `name`. */
bool cr_system_has_library(const char *name);

#endif
