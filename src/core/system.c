#define _GNU_SOURCE /* dladdr1, sched_getaffinity */
#include "core/system.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "core/io.h"

#ifdef __APPLE__

#include <libproc.h>
#include <mach-o/dyld.h>
#include <mach/mach.h>
#include <pthread.h>

int cr_system_socket(int domain, int type) {
  const int fd = socket(domain, type, 0);
  if (fd >= 0) (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  if (fd >= 0) (void)fcntl(fd, F_SETFL, O_NONBLOCK);
  return fd;
}

int cr_system_socket_pair(int domain, int type, int pair[2]) {
  const int failed = socketpair(domain, type, 0, pair);
  for (int i = 0; i < 2 && failed == 0; ++i) (void)fcntl(pair[i], F_SETFD, FD_CLOEXEC);
  return failed;
}

void cr_system_keep_no_core(void) {}
void cr_system_end_with_parent(void) {}

int cr_system_watch_process(pid_t process) {
  (void)process;
  return -1;
}

bool cr_system_time_of(pid_t process, struct timespec *out) {
  enum { SECOND = 1000000000 };
  struct rusage_info_v2 used;
  if (proc_pid_rusage(process, RUSAGE_INFO_V2, (rusage_info_t *)&used) != 0) return false;
  const uint64_t time = used.ri_user_time + used.ri_system_time;
  *out = (struct timespec){(time_t)(time / SECOND), (long)(time % SECOND)};
  return true;
}

long cr_system_thread(void) {
  uint64_t number = 0;
  (void)pthread_threadid_np(NULL, &number);
  return (long)number;
}

int cr_system_processors(void) {
  return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

size_t cr_system_free_memory(void) {
  vm_statistics64_data_t pages;
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  if (host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&pages, &count) != 0) {
    return 0;
  }
  return (size_t)pages.free_count * (size_t)sysconf(_SC_PAGESIZE);
}

bool cr_system_program(char *path, size_t size) {
  uint32_t bytes = (uint32_t)size;
  return _NSGetExecutablePath(path, &bytes) == 0;
}

bool cr_system_file_of(const void *address, char *path, size_t size) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == NULL) return false;
  const int length = snprintf(path, size, "%s", info.dli_fname);
  return (size_t)length < size; /* false also if negative */
}

bool cr_system_has_library(const char *name) {
  for (uint32_t i = 0; i < _dyld_image_count(); ++i) {
    const char *path = _dyld_get_image_name(i);
    if (path != NULL && strstr(path, name) != NULL) return true;
  }
  return false;
}

#else

#include <link.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int cr_system_socket(int domain, int type) {
  return socket(domain, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int cr_system_socket_pair(int domain, int type, int pair[2]) {
  return socketpair(domain, type | SOCK_CLOEXEC, 0, pair);
}

void cr_system_keep_no_core(void) {
  /* A core pattern that names a program is not bound by RLIMIT_CORE, but by this. */
  prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L);
}

void cr_system_end_with_parent(void) {
  prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0L, 0L, 0L);
}

int cr_system_watch_process(pid_t process) {
  /* Not there before Linux 5.3, and forbidden in some containers. */
  return (int)syscall(SYS_pidfd_open, process, 0);
}

bool cr_system_time_of(pid_t process, struct timespec *out) {
  clockid_t clock;
  return clock_getcpuclockid(process, &clock) == 0 && clock_gettime(clock, out) == 0;
}

long cr_system_thread(void) {
  return (long)syscall(SYS_gettid);
}

int cr_system_processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

size_t cr_system_free_memory(void) {
  return (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

bool cr_system_program(char *path, size_t size) {
  const ssize_t length = readlink("/proc/self/exe", path, size - 1);
  if (length < 0) return false;
  path[length] = '\0';
  return true;
}

bool cr_system_file_of(const void *address, char *path, size_t size) {
  Dl_info info;
  struct link_map *map = NULL;
  if (dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL) return false;
  /* Of the program itself the loader knows only the name that it was called by, which may lack a
   * folder. */
  if (map->l_name == NULL || map->l_name[0] == '\0') return cr_system_program(path, size);
  const int length = snprintf(path, size, "%s", map->l_name);
  return (size_t)length < size; /* false also if negative */
}

static int is_named(struct dl_phdr_info *info, size_t size, void *name) {
  (void)size;
  return info->dlpi_name != NULL && strstr(info->dlpi_name, name) != NULL;
}

bool cr_system_has_library(const char *name) {
  return dl_iterate_phdr(is_named, (void *)(uintptr_t)name) != 0;
}

#endif

int64_t cr_system_resident(void) {
  char text[128] = "";
  long long all = 0, resident = 0;
  int file = cr_io_open("/proc/self/statm", O_RDONLY, 0);
  if (file < 0) return 0;
  (void)!cr_io_read(file, text, sizeof text - 1);
  (void)cr_io_close(file);
  if (sscanf(text, "%lld %lld", &all, &resident) != 2) return 0;
  return (int64_t)resident * sysconf(_SC_PAGESIZE);
}
