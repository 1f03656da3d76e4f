/* What is left of the memory, of the process and of the machine. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/io.h"
#include "core/mem_available.h"
#include "core/mem_probe.h"
#include "given_text.h"
#include "interpose.h"

/* More than any process can have. */
static const size_t ENDLESS = (size_t)1 << 48;

/* ---- limits of the process ---- */

/* In a process of its own: the answer holds for as long as one lives. */
static void in_child(bool (*holds)(void)) {
  int how = 0;
  pid_t child = fork();
  if (child == 0) _exit(holds() ? 0 : 1);
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how));
  assert_int_equal(WEXITSTATUS(how), 0);
}

static bool set_limit(int resource, rlim_t bytes) {
  struct rlimit limit;
  if (getrlimit(resource, &limit) != 0) return false;
  limit.rlim_cur = bytes;
  return setrlimit(resource, &limit) == 0;
}

static bool never_overcommitted(void) {
  char mode = '0';
  FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
  if (file == NULL) return false;
  if (fread(&mode, 1, 1, file) != 1) mode = '0';
  fclose(file);
  return mode == '2';
}

static bool without_limits(void) {
  bool good = set_limit(RLIMIT_AS, RLIM_INFINITY) && set_limit(RLIMIT_DATA, RLIM_INFINITY);
  good = good && !cr_address_space_is_limited();
  if (never_overcommitted()) return good;
  /* Nothing is refused beforehand, whatever is asked for. */
  return good && !cr_memory_is_limited() && cr_need_memory(ENDLESS, "us") == CREMA_OK;
}

static bool with_address_limit(void) {
  return set_limit(RLIMIT_AS, (rlim_t)1 << 47) && cr_address_space_is_limited() &&
         cr_memory_is_limited() && cr_need_memory(1 << 20, "us") == CREMA_OK &&
         cr_need_memory(ENDLESS, "us") == CREMA_E_NO_MEMORY &&
         strcmp(crema_error_text(), "less than 268435456 MB of memory are left for us") == 0;
}

static bool with_data_limit(void) {
  return set_limit(RLIMIT_AS, RLIM_INFINITY) && set_limit(RLIMIT_DATA, (rlim_t)1 << 47) &&
         !cr_address_space_is_limited() && cr_memory_is_limited() &&
         cr_need_memory(ENDLESS, "us") == CREMA_E_NO_MEMORY;
}

/* The first answer stays. */
static bool with_later_limit(void) {
  if (never_overcommitted()) return true;
  return without_limits() && set_limit(RLIMIT_DATA, (rlim_t)1 << 47) && !cr_memory_is_limited();
}

TEST(limits_are_seen) {
  in_child(without_limits);
  in_child(with_address_limit);
  in_child(with_data_limit);
  in_child(with_later_limit);
}

static int64_t mapped_bytes(void) {
  long long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%lld", &pages), 1);
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

TEST(probed_memory_is_given_back) {
  int64_t before = mapped_bytes();
  for (int i = 0; i < 64; ++i) assert_true(cr_mem_probe((size_t)16 << 20));
  assert_true(mapped_bytes() - before < (int64_t)64 << 20);
  assert_false(cr_mem_probe(ENDLESS));
}

/* ---- memory of the machine, as its files tell ---- */

static const char *meminfo, *group_max, *group_current, *group_stat;

static const char *content_of(const char *path) {
  if (strcmp(path, "/proc/meminfo") == 0) return meminfo;
  if (strcmp(path, "/sys/fs/cgroup/memory.max") == 0) return group_max;
  if (strcmp(path, "/sys/fs/cgroup/memory.current") == 0) return group_current;
  if (strcmp(path, "/sys/fs/cgroup/memory.stat") == 0) return group_stat;
  return NULL;
}

/* A descriptor to read the content from; "unreadable" is one that cannot be read. */
INTERPOSED int openat(int base, const char *path, int flags, ...) {
  const char *content = content_of(path);
  if (content == NULL) return -1;
  if (strcmp(content, "unreadable") == 0) return REAL(openat)(base, "/", flags);
  return open_text(content);
}

static int lowest_descriptor(void) {
  int fd = open("/dev/null", O_RDONLY);
  assert_true(fd >= 0);
  close(fd);
  return fd;
}

TEST(the_least_of_all_is_free) {
  static const struct {
    const char *meminfo, *max, *current, *stat;
    uint64_t free;
  } rows[] = {
      {"MemTotal: 9 kB\nMemAvailable:    5 kB\n", NULL, NULL, NULL, 5120},
      {"MemTotal: 9 kB\n", NULL, NULL, NULL, UINT64_MAX},
      {NULL, NULL, NULL, NULL, UINT64_MAX},
      {"", NULL, NULL, NULL, UINT64_MAX},
      {"unreadable", NULL, NULL, NULL, UINT64_MAX},
      {"MemAvailable: 5 kB\n", "max\n", "100\n", "inactive_file 50\n", 5120},
      {"MemAvailable: 5 kB\n", "1000\n", "300\n", NULL, 700},
      {"MemAvailable: 5 kB\n", "1000\n", "300\n", "anon 7\ninactive_file 100\nx 1\n", 800},
      {"MemAvailable: 5 kB\n", "1000\n", "300\n", "inactive_file 400\n", 1000},
      {"MemAvailable: 5 kB\n", "1000\n", "300\n", "anon 7\n", 700},
      {"MemAvailable: 5 kB\n", "1000\n", "300\n", "inactive_file much\n", 700},
      {"MemAvailable: 5 kB\n", "1000\n", "300\n", "unreadable", 700},
      {"MemAvailable: 5 kB\n", "1000\n", "1000\n", "anon 7\n", 0},
      {"MemAvailable: 5 kB\n", "1000\n", "2000\n", "anon 7\n", 0},
      {"MemAvailable: 5 kB\n", "9000\n", "1000\n", "anon 7\n", 5120},
      {"MemAvailable: 5 kB\n", "1000\n", NULL, "anon 7\n", 5120},
      {"MemAvailable: 5 kB\n", NULL, "10\n", "anon 7\n", 5120},
      {"MemAvailable: 5 kB\n", "unreadable", "10\n", "anon 7\n", 5120},
      {NULL, "1000\n", "300\n", NULL, 700},
  };
  int lowest = lowest_descriptor();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    meminfo = rows[i].meminfo;
    group_max = rows[i].max;
    group_current = rows[i].current;
    group_stat = rows[i].stat;
    uint64_t found = cr_mem_available();
    if (found != rows[i].free) fail_msg("row %zu: %llu", i, (unsigned long long)found);
  }
  assert_int_equal(lowest_descriptor(), lowest);
}

TEST(memory_lines_are_read) {
  assert_true(cr_mem_available_parse("MemFree: 1 kB\nMemAvailable:\t 12 kB") == 12288);
  assert_true(cr_mem_available_parse("MemAvailable: none") == UINT64_MAX);
  assert_true(cr_mem_available_parse("MemAvailable: 18014398509481983 kB") ==
              UINT64_C(18014398509481983) * 1024);
  assert_true(cr_mem_available_parse("MemAvailable: 18014398509481984 kB") == UINT64_MAX);
  assert_true(cr_mem_available_parse("MemAvailable: 36028797018963968 kB") == UINT64_MAX);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
