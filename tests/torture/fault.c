/* Runs a command and lets one of its system calls fail, end early, or meet a signal.
 *
 *   torture_fault -report FILE [-under FOLDER] [-calls NAME,...] [-at N [-from] -do WHAT] --
 * COMMAND
 *
 * Counts the calls on files below FOLDER (all threads together) and writes a line for each to FILE;
 * the N-th one (with -from, all from the N-th one on) meets WHAT: the name of an error, "short"
 * (half of what is to be read or written), or a signal. An open that may make the file is called
 * "create". The command's exit code is passed on; a command that a signal ended gives 128 plus its
 * number.
 *
 * ptrace sees calls that libraries make themselves, which a preloaded library would not: libc's own
 * from inside fwrite, for instance. A seccomp filter stops at calls on files only. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __x86_64__

/* What a call works on: a descriptor, a path, or a path relative to a descriptor. */
typedef enum target { BY_FD, BY_PATH, BY_PATH_AT, BY_MAP } target;

typedef struct call {
  const char *name;
  unsigned number;
  target by;
} call;

static const call calls[] = {
    {"open", SYS_open, BY_PATH},
    {"openat", SYS_openat, BY_PATH_AT},
    {"read", SYS_read, BY_FD},
    {"pread64", SYS_pread64, BY_FD},
    {"readv", SYS_readv, BY_FD},
    {"preadv", SYS_preadv, BY_FD},
    {"write", SYS_write, BY_FD},
    {"pwrite64", SYS_pwrite64, BY_FD},
    {"writev", SYS_writev, BY_FD},
    {"pwritev", SYS_pwritev, BY_FD},
    {"fsync", SYS_fsync, BY_FD},
    {"fdatasync", SYS_fdatasync, BY_FD},
    {"close", SYS_close, BY_FD},
    {"mmap", SYS_mmap, BY_MAP},
    {"ftruncate", SYS_ftruncate, BY_FD},
    {"truncate", SYS_truncate, BY_PATH},
    {"rename", SYS_rename, BY_PATH},
    {"renameat", SYS_renameat, BY_PATH_AT},
    {"renameat2", SYS_renameat2, BY_PATH_AT},
    {"link", SYS_link, BY_PATH},
    {"linkat", SYS_linkat, BY_PATH_AT},
    {"mkdir", SYS_mkdir, BY_PATH},
    {"mkdirat", SYS_mkdirat, BY_PATH_AT},
    {"rmdir", SYS_rmdir, BY_PATH},
    {"unlink", SYS_unlink, BY_PATH},
    {"unlinkat", SYS_unlinkat, BY_PATH_AT},
    {"stat", SYS_stat, BY_PATH},
    {"lstat", SYS_lstat, BY_PATH},
    {"fstat", SYS_fstat, BY_FD},
    {"newfstatat", SYS_newfstatat, BY_PATH_AT},
    {"statx", SYS_statx, BY_PATH_AT},
    {"access", SYS_access, BY_PATH},
    {"lseek", SYS_lseek, BY_FD},
    {"getdents64", SYS_getdents64, BY_FD},
    {"flock", SYS_flock, BY_FD},
    {"fcntl", SYS_fcntl, BY_FD},
    {"fchmod", SYS_fchmod, BY_FD},
    {"chmod", SYS_chmod, BY_PATH},
    {"fallocate", SYS_fallocate, BY_FD},
    {"readlink", SYS_readlink, BY_PATH},
    {"msync", SYS_msync, BY_MAP},
    {"copy_file_range", SYS_copy_file_range, BY_FD},
};
enum { CALLS = sizeof calls / sizeof *calls };

static const struct {
  const char *name;
  int number;
} errors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EINTR", EINTR},   {"EMFILE", EMFILE},
              {"ENOMEM", ENOMEM}, {"EACCES", EACCES}, {"EROFS", EROFS},   {"EDQUOT", EDQUOT},
              {"EINVAL", EINVAL}, {"ENOSYS", ENOSYS}, {"ESTALE", ESTALE}, {"ENOLCK", ENOLCK}},
  signals[] = {
      {"KILL", SIGKILL}, {"TERM", SIGTERM}, {"INT", SIGINT}, {"HUP", SIGHUP}, {"USR1", SIGUSR1}};

/* A thread of the command; `pending` is the error that its close() is to report at its end. */
typedef struct thread {
  pid_t id;
  int pending;
} thread;

typedef struct options {
  const char *under;
  bool wanted[CALLS];
  bool wants_create; /* an open that may make the file counts as "create" */
  long at;
  bool from, make_short;
  int error, signal;
  FILE *report;
  char **command;
} options;

typedef struct run {
  options how;
  pid_t child;
  long count;
  thread *threads;
  size_t thread_count;
} run;

static void die(const char *what) {
  fprintf(stderr, "torture_fault: %s: %s\n", what, strerror(errno));
  exit(125);
}

/* ---- what a call is about ------------------------------------------------ */

static bool read_text(pid_t id, unsigned long long address, char *out, size_t size) {
  size_t got = 0;
  /* In pieces that do not cross a page, as the next one need not be there. */
  while (got < size) {
    size_t piece = 4096 - (size_t)((address + got) % 4096);
    if (piece > size - got) piece = size - got;
    struct iovec to = {out + got, piece}, from = {(void *)(uintptr_t)(address + got), piece};
    if (process_vm_readv(id, &to, 1, &from, 1, 0) != (ssize_t)piece) return false;
    if (memchr(out + got, '\0', piece) != NULL) return true;
    got += piece;
  }
  return false;
}

static bool read_link(pid_t id, const char *what, char *out, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)id, what);
  ssize_t length = readlink(path, out, size - 1);
  if (length < 0) return false;
  out[length] = '\0';
  return true;
}

static bool descriptor_path(pid_t id, int fd, char *out, size_t size) {
  char what[32];
  snprintf(what, sizeof what, "fd/%d", fd);
  return read_link(id, what, out, size);
}

static bool absolute_path(pid_t id, int folder, unsigned long long address, char *out,
                          size_t size) {
  char text[PATH_MAX], base[PATH_MAX];
  if (!read_text(id, address, text, sizeof text)) return false;
  if (text[0] == '/') return snprintf(out, size, "%s", text) < (int)size;
  bool known = folder == AT_FDCWD ? read_link(id, "cwd", base, sizeof base)
                                  : descriptor_path(id, folder, base, sizeof base);
  if (!known) return false;
  return snprintf(out, size, "%s%s%s", base, text[0] == '\0' ? "" : "/", text) < (int)size;
}

static bool path_of(pid_t id, const call *which, const struct user_regs_struct *regs, char *out,
                    size_t size) {
  switch (which->by) {
    case BY_FD: return descriptor_path(id, (int)regs->rdi, out, size);
    case BY_PATH: return absolute_path(id, AT_FDCWD, regs->rdi, out, size);
    case BY_PATH_AT: return absolute_path(id, (int)regs->rdi, regs->rsi, out, size);
    case BY_MAP:
      return (regs->r10 & MAP_ANONYMOUS) == 0 && descriptor_path(id, (int)regs->r8, out, size);
  }
  return false;
}

/* ---- what happens to it -------------------------------------------------- */

static thread *thread_of(run *r, pid_t id) {
  for (size_t i = 0; i < r->thread_count; ++i) {
    if (r->threads[i].id == id) return &r->threads[i];
  }
  return NULL;
}

static thread *add_thread(run *r, pid_t id) {
  thread *grown = realloc(r->threads, (r->thread_count + 1) * sizeof *grown);
  if (grown == NULL) die("realloc");
  r->threads = grown;
  grown[r->thread_count] = (thread){.id = id};
  return &grown[r->thread_count++];
}

static void forget_thread(run *r, pid_t id) {
  thread *gone = thread_of(r, id);
  if (gone != NULL) *gone = r->threads[--r->thread_count];
}

static void skip_call(pid_t id, struct user_regs_struct *regs, int error) {
  regs->orig_rax = (unsigned long long)-1;
  regs->rax = (unsigned long long)-(long long)error;
  ptrace(PTRACE_SETREGS, id, NULL, regs);
}

static bool shorten(pid_t id, const call *which, struct user_regs_struct *regs) {
  bool counts = strncmp(which->name, "read", 4) == 0 || strncmp(which->name, "pread", 5) == 0 ||
                strncmp(which->name, "write", 5) == 0 || strncmp(which->name, "pwrite", 6) == 0;
  if (!counts || regs->rdx < 2) return false;
  /* For the calls with several pieces this halves their number. */
  regs->rdx /= 2;
  ptrace(PTRACE_SETREGS, id, NULL, regs);
  return true;
}

static bool creates(const call *which, const struct user_regs_struct *regs) {
  if (which->number == SYS_open) return (regs->rsi & O_CREAT) != 0;
  return which->number == SYS_openat && (regs->rdx & O_CREAT) != 0;
}

/* The request that lets the thread go on. */
static enum __ptrace_request meet(run *r, thread *t, const call *which,
                                  struct user_regs_struct *regs, const char *path) {
  const options *how = &r->how;
  if (how->at == 0 || (how->from ? r->count < how->at : r->count != how->at)) return PTRACE_CONT;
  bool done = true;
  if (how->signal != 0) {
    kill(r->child, how->signal);
  } else if (how->make_short) {
    done = shorten(t->id, which, regs);
  } else if (which->number == SYS_close) {
    /* A close that fails has closed. */
    t->pending = how->error;
  } else {
    skip_call(t->id, regs, how->error);
  }
  if (done) fprintf(how->report, "met %ld %s %s\n", r->count, which->name, path);
  return t->pending != 0 ? PTRACE_SYSCALL : PTRACE_CONT;
}

static enum __ptrace_request at_call(run *r, thread *t) {
  struct user_regs_struct regs;
  char path[PATH_MAX];
  size_t folder = strlen(r->how.under);
  if (ptrace(PTRACE_GETREGS, t->id, NULL, &regs) != 0) return PTRACE_CONT;
  const call *which = NULL;
  for (int i = 0; i < CALLS && which == NULL; ++i) {
    if (calls[i].number == regs.orig_rax) which = &calls[i];
  }
  if (which == NULL) return PTRACE_CONT;
  bool create = creates(which, &regs);
  if (!(create ? r->how.wants_create : r->how.wanted[which - calls])) return PTRACE_CONT;
  if (!path_of(t->id, which, &regs, path, sizeof path)) return PTRACE_CONT;
  if (strncmp(path, r->how.under, folder) != 0) return PTRACE_CONT;
  ++r->count;
  fprintf(r->how.report, "call %ld %s %s\n", r->count, create ? "create" : which->name, path);
  fflush(r->how.report);
  return meet(r, t, which, &regs, path);
}

static void at_end_of_close(thread *t) {
  struct user_regs_struct regs;
  if (ptrace(PTRACE_GETREGS, t->id, NULL, &regs) == 0) {
    regs.rax = (unsigned long long)-(long long)t->pending;
    ptrace(PTRACE_SETREGS, t->id, NULL, &regs);
  }
  t->pending = 0;
}

/* ---- running the command ------------------------------------------------- */

static void start_command(const options *how) {
  struct sock_filter code[CALLS + 4] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  unsigned short at = 1;
  for (int i = 0; i < CALLS; ++i) {
    code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number,
                                              (unsigned char)(CALLS - i), 0);
  }
  code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  const struct sock_fprog filter = {.len = at, .filter = code};
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(126);
  raise(SIGSTOP);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    _exit(126);
  }
  execvp(how->command[0], how->command);
  _exit(127);
}

static void go_on(run *r, pid_t id, int status) {
  thread *t = thread_of(r, id);
  bool fresh = t == NULL;
  int number = WSTOPSIG(status), event = status >> 16, passed = 0;
  enum __ptrace_request request = PTRACE_CONT;
  if (fresh) t = add_thread(r, id);
  if (event == PTRACE_EVENT_SECCOMP) {
    request = at_call(r, t);
  } else if (number == (SIGTRAP | 0x80)) {
    at_end_of_close(t);
  } else if (event == 0 && !(fresh && number == SIGSTOP)) {
    passed = number;
  }
  ptrace(request, id, NULL, (void *)(intptr_t)passed);
}

static int follow(run *r) {
  int status = 0, code = 125;
  if (waitpid(r->child, &status, 0) != r->child || !WIFSTOPPED(status)) {
    errno = EPERM;
    die("the command cannot be traced");
  }
  add_thread(r, r->child);
  long wanted = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL |
                PTRACE_O_TRACESYSGOOD;
  if (ptrace(PTRACE_SETOPTIONS, r->child, NULL, (void *)wanted) != 0) die("ptrace");
  ptrace(PTRACE_CONT, r->child, NULL, NULL);
  for (pid_t id = waitpid(-1, &status, __WALL); id > 0; id = waitpid(-1, &status, __WALL)) {
    if (WIFSTOPPED(status)) {
      go_on(r, id, status);
      continue;
    }
    forget_thread(r, id);
    if (id == r->child) code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (id == r->child && WIFSIGNALED(status)) {
      fprintf(r->how.report, "signal %d\n", WTERMSIG(status));
    }
  }
  fprintf(r->how.report, "end %d\n", code);
  return code;
}

/* ---- the command line ---------------------------------------------------- */

/* Whether `name` is one of the names in a list with commas; NULL lists all. */
static bool is_listed(const char *names, const char *name) {
  if (names == NULL) return true;
  for (const char *found = strstr(names, name); found != NULL; found = strstr(found + 1, name)) {
    char after = found[strlen(name)];
    if ((found == names || found[-1] == ',') && (after == ',' || after == '\0')) return true;
  }
  return false;
}

static void choose_fault(options *how, const char *name) {
  how->make_short = strcmp(name, "short") == 0;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; ++i) {
    if (strcmp(errors[i].name, name) == 0) how->error = errors[i].number;
  }
  for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) {
    if (strcmp(signals[i].name, name) == 0) how->signal = signals[i].number;
  }
  errno = EINVAL;
  if (!how->make_short && how->error == 0 && how->signal == 0) die(name);
}

static void parse(options *how, int count, char **words) {
  const char *names = NULL;
  int i = 1;
  for (; i < count && strcmp(words[i], "--") != 0; ++i) {
    const char *value = i + 1 < count ? words[i + 1] : "";
    if (strcmp(words[i], "-from") == 0) {
      how->from = true;
      continue;
    }
    if (strcmp(words[i], "-report") == 0) how->report = fopen(value, "we");
    else if (strcmp(words[i], "-under") == 0) how->under = value;
    else if (strcmp(words[i], "-calls") == 0) names = value;
    else if (strcmp(words[i], "-at") == 0) how->at = atol(value);
    else if (strcmp(words[i], "-do") == 0) choose_fault(how, value);
    else die(words[i]);
    ++i;
  }
  how->command = &words[i < count ? i + 1 : count];
  for (int k = 0; k < CALLS; ++k) how->wanted[k] = is_listed(names, calls[k].name);
  how->wants_create = is_listed(names, "create");
  errno = EINVAL;
  if (how->report == NULL || how->command[0] == NULL) die("usage: see the head of fault.c");
}

int main(int argc, char **argv) {
  run r = {.how = {.under = "/"}};
  parse(&r.how, argc, argv);
  r.child = fork();
  if (r.child < 0) die("fork");
  if (r.child == 0) start_command(&r.how);
  int code = follow(&r);
  fclose(r.how.report);
  free(r.threads);
  return code;
}

#else
int main(void) {
  fprintf(stderr, "torture_fault: written for x86-64 only\n");
  return 77;
}
#endif
