#include "core/mem_available.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/io.h"

/* The beginning of a file as text; false when it cannot be read. */
static bool read_text(const char *path, char *text, size_t size) {
  int fd = cr_io_open(path, O_RDONLY, 0);
  if (fd < 0) return false;
  ssize_t got = cr_io_read(fd, text, size - 1);
  cr_io_close(fd);
  if (got < 0) return false;
  text[got] = '\0';
  return true;
}

static bool read_number(const char *path, uint64_t *out) {
  char text[64];
  return read_text(path, text, sizeof text) && sscanf(text, "%" SCNu64, out) == 1;
}

uint64_t cr_mem_available_parse(const char *meminfo) {
  static const char name[] = "MemAvailable:";
  const char *at = strstr(meminfo, name);
  uint64_t kilobytes = 0;
  if (at == NULL || sscanf(at + sizeof name - 1, "%" SCNu64, &kilobytes) != 1) return UINT64_MAX;
  return kilobytes > UINT64_MAX / 1024 ? UINT64_MAX : kilobytes * 1024;
}

/* The rest of the limit of the control group at the process's root, as in a container. A group
 * without a limit says "max", which is not a number. */
static uint64_t group_allows(void) {
  uint64_t limit = 0, used = 0;
  if (!read_number("/sys/fs/cgroup/memory.max", &limit) ||
      !read_number("/sys/fs/cgroup/memory.current", &used)) {
    return UINT64_MAX;
  }
  /* Cached pages of files count as used, but the system gives them up when memory is needed. */
  char text[4096];
  uint64_t cached = 0;
  if (read_text("/sys/fs/cgroup/memory.stat", text, sizeof text)) {
    const char *at = strstr(text, "inactive_file ");
    if (at != NULL && sscanf(at, "inactive_file %" SCNu64, &cached) != 1) cached = 0;
  }
  used = used > cached ? used - cached : 0;
  return limit > used ? limit - used : 0;
}

uint64_t cr_mem_available(void) {
  char text[4096];
  uint64_t machine = UINT64_MAX;
  if (read_text("/proc/meminfo", text, sizeof text)) machine = cr_mem_available_parse(text);
  uint64_t group = group_allows();
  return machine < group ? machine : group;
}
