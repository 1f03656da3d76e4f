/* What the system refuses a process (generated code, memory, threads) slows it down or ends in an
 * error; the libraries below do not end it. The command runs in a child process. */
#include <stdbool.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "crema/device.h"
#include "folder.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum { OUTPUT = 1 << 16 };

typedef struct refusal {
  bool code;         /* no generated code */
  size_t memory;     /* bytes of address space; 0: unlimited */
  size_t data;       /* bytes of private writable memory; 0: unlimited */
  const char *alive; /* threads beside the first that can be alive; NULL: unlimited */
} refusal;

/* ---- generated code ------------------------------------------------------ */

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF_EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define IF_ANY(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, yes, no)
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, value)

/* What systemd's MemoryDenyWriteExecute does: no memory that is writable and executable, and none
 * that becomes executable. Returns false where the kernel has no such filters. */
static bool refuse_code(void) {
  struct sock_filter program[] = {
      LOAD(nr),
      IF_EQUAL(SYS_mmap, 0, 4),
      LOAD(args[2]),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_WRITE | PROT_EXEC),
      IF_EQUAL(PROT_WRITE | PROT_EXEC, 4, 0),
      ANSWER(SECCOMP_RET_ALLOW),
      IF_EQUAL(SYS_mprotect, 0, 3),
      LOAD(args[2]),
      IF_ANY(PROT_EXEC, 0, 1),
      ANSWER(SECCOMP_RET_ERRNO | EPERM),
      ANSWER(SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof program / sizeof *program, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/* ---- running ------------------------------------------------------------- */

static void set_limit(int resource, size_t bytes) {
  struct rlimit limit = {bytes, bytes};
  if (bytes > 0 && setrlimit(resource, &limit) != 0) _exit(99);
}

/* In the child; does not return. */
static void become(const refusal *r, const char *const *args, int output) {
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (chdir(folder) != 0) _exit(99);
  setenv("OMP_NUM_THREADS", "4", 1);
  if (r->alive != NULL) {
    setenv("LD_PRELOAD", CREMA_FEW_THREADS, 1);
    setenv("FEW_THREADS", r->alive, 1);
    /* With a policy of the user's own no thread is started that others sleep because of. */
    setenv("GOMP_SPINCOUNT", "1000", 1);
  }
  set_limit(RLIMIT_AS, r->memory);
  set_limit(RLIMIT_DATA, r->data);
  if (r->code && !refuse_code()) _exit(98);
  execv(args[0], (char *const *)args);
  _exit(99);
}

/* Runs a command; *text (OUTPUT bytes) is what it wrote. Returns the wait status. */
static int run(const refusal *r, const char *const *args, char *text) {
  FILE *file = tmpfile();
  assert_non_null(file);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) become(r, args, fileno(file));
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  rewind(file);
  size_t got = fread(text, 1, OUTPUT - 1, file);
  text[got] = '\0';
  fclose(file);
  return status;
}

static int count(const char *text, const char *part) {
  int found = 0;
  for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) ++found;
  return found;
}

/* Warnings are the lines of the log that begin with a W. */
static int count_warnings(const char *text) {
  return count(text, "\nW") + (text[0] == 'W');
}

static void expect_success(int status, const char *text) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 98) {
    print_message("this system has no filters for system calls\n");
    skip();
  }
  if (status != 0) fail_msg("wait status %#x: %s", (unsigned)status, text);
}

/* ---- what runs ----------------------------------------------------------- */

#define MODEL CREMA_SOURCE_DIR "/models/squeezenet_v1.0/"

static const char *const classify[] = {CREMA_BINARY_DIR "/bin/crema",
                                       "classify",
                                       "-model",
                                       MODEL "deploy.prototxt",
                                       "-weights",
                                       MODEL "squeezenet_v1.0.caffemodel",
                                       CREMA_SOURCE_DIR "/examples/images/cat.jpg",
                                       NULL};

static const char *const train[] = {CREMA_BINARY_DIR "/bin/crema", "train", "-solver",
                                    "solver.prototxt", NULL};

/* Layers of every kind for which oneDNN generates code. */
static const char net[] =
    "layer { name: 'data' type: 'DummyData' top: 'data' top: 'label' dummy_data_param {\n"
    "  shape { dim: 8 dim: 3 dim: 20 dim: 20 } shape { dim: 8 }\n"
    "  data_filler { type: 'gaussian' std: 1 } data_filler { type: 'constant' value: 3 } } }\n"
    "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param {\n"
    "  num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }\n"
    "layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' }\n"
    "layer { name: 'norm' type: 'LRN' bottom: 'conv1' top: 'norm' lrn_param { local_size: 3 } }\n"
    "layer { name: 'pool1' type: 'Pooling' bottom: 'norm' top: 'pool1'\n"
    "  pooling_param { kernel_size: 2 stride: 2 } }\n"
    "layer { name: 'conv2' type: 'Convolution' bottom: 'pool1' top: 'conv2' convolution_param {\n"
    "  num_output: 16 kernel_size: 3 group: 2 weight_filler { type: 'msra' } } }\n"
    "layer { name: 'bn' type: 'BatchNorm' bottom: 'conv2' top: 'bn' }\n"
    "layer { name: 'scale' type: 'Scale' bottom: 'bn' top: 'scale' scale_param {\n"
    "  bias_term: true } }\n"
    "layer { name: 'cat' type: 'Concat' bottom: 'scale' bottom: 'conv2' top: 'cat' }\n"
    "layer { name: 'pool2' type: 'Pooling' bottom: 'cat' top: 'pool2'\n"
    "  pooling_param { pool: AVE kernel_size: 2 stride: 2 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'pool2' top: 'ip' inner_product_param {\n"
    "  num_output: 5 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

static const char solver[] =
    "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' momentum: 0.9 max_iter: 4 display: 1\n"
    "random_seed: 7 snapshot_after_train: false snapshot_prefix: 's'\n";

/* The numbers behind `mark` in both texts are the same but for rounding. */
static void expect_same_numbers(const char *a, const char *b, const char *mark, int least) {
  int found = 0;
  for (;; ++found) {
    a = strstr(a, mark);
    b = strstr(b, mark);
    if (a == NULL || b == NULL) break;
    a += strlen(mark);
    b += strlen(mark);
    double x = strtod(a, NULL), y = strtod(b, NULL);
    if (!(fabs(x - y) <= 2e-3 * (fabs(x) + 0.01))) fail_msg("%s%g, not %g", mark, y, x);
  }
  assert_true(a == NULL && b == NULL);
  assert_true(found >= least);
}

/* classify prints "0.1234 - 'class'" lines: the five answers in order. */
static void expect_same_answers(const char *a, const char *b) {
  int found = 0;
  for (a = strstr(a, " - "), b = strstr(b, " - "); a != NULL && b != NULL;
       a = strstr(a + 1, " - "), b = strstr(b + 1, " - "), ++found) {
    size_t length = strcspn(a, "\n");
    if (strncmp(a, b, length) != 0) fail_msg("%.*s, not %.*s", 60, b, (int)length, a);
  }
  assert_int_equal(found, 5);
}

static char normal[OUTPUT], refused[OUTPUT];

/* Training is the same with and without the refusal, with one warning that has `warning` in it. */
static void expect_training(const refusal *r, const char *warning) {
  expect_success(run(&(refusal){0}, train, normal), normal);
  expect_success(run(r, train, refused), refused);
  expect_same_numbers(normal, refused, ", loss = ", 4);
  assert_int_equal(count_warnings(normal), 0);
  if (count_warnings(refused) != 1 || count(refused, warning) != 1) fail_msg("%s", refused);
}

static void expect_classification(const refusal *r, const char *warning) {
  expect_success(run(&(refusal){0}, classify, normal), normal);
  expect_success(run(r, classify, refused), refused);
  expect_same_answers(normal, refused);
  if (count_warnings(refused) != 1 || count(refused, warning) != 1) fail_msg("%s", refused);
}

/* ---- tests --------------------------------------------------------------- */

TEST(test_generated_code) {
#ifdef __SANITIZE_THREAD__
  skip(); /* oneDNN's own threads are not instrumented, and four of them run here */
#endif
  const refusal r = {.code = true};
  expect_training(&r, "refuses memory for generated code");
  expect_classification(&r, "refuses memory for generated code");
}

TEST(test_threads) {
#ifndef _OPENMP
  skip(); /* no kernel starts threads */
#endif
  if (SANITIZED) skip(); /* these want to be loaded before anything else */
  /* One thread of a training waits for signals. */
  expect_training(&(refusal){.alive = "5"}, "3 of 4 threads can be started");
  expect_training(&(refusal){.alive = "4"}, "2 of 4 threads can be started");
  expect_training(&(refusal){.alive = "2"}, "2 of 4 threads can be started");
  expect_classification(&(refusal){.alive = "0"}, "1 of 4 threads can be started");
}

/* Whether crema's own code began to run: the loader, and OpenMP's library while it is loaded, end a
 * process that has no memory for them. */
static bool has_begun(void) {
  const char *openmp = "\nlibgomp: Out of memory";
  return count(refused, "error while loading shared libraries") == 0 &&
         strncmp(refused, openmp, strlen(openmp)) != 0;
}

/* Training ends well, with the numbers of `normal`, or with an error of its own. Counts the former,
 * and of these the ones on reference kernels. */
static void train_in(const refusal *r, int *trained, int *reference) {
  int status = run(r, train, refused);
  size_t mb = (r->memory + r->data) >> 20;
  bool error =
      WIFEXITED(status) && WEXITSTATUS(status) == 1 && count(refused, "crema: error: ") == 1;
  if (status != 0 && !error && has_begun()) {
    fail_msg("%zu MB, wait status %#x: %s", mb, (unsigned)status, refused);
  }
  if (status != 0) return;
  expect_same_numbers(normal, refused, ", loss = ", 4);
  ++*trained;
  if (count(refused, "reference kernels run") == 1) ++*reference;
}

TEST(test_memory) {
  if (SANITIZED) skip(); /* these reserve terabytes */
  expect_success(run(&(refusal){0}, train, normal), normal);
  int trained = 0, reference = 0;
  for (size_t mb = 50; mb <= 410; mb += 45) {
    train_in(&(refusal){.memory = mb << 20}, &trained, &reference);
  }
  for (size_t mb = 4; mb <= 100; mb += 16) {
    train_in(&(refusal){.data = mb << 20}, &trained, &reference);
  }
  print_message("%d runs trained, %d on reference kernels\n", trained, reference);
  assert_true(reference > 0 && trained > reference);
}

static int begin(void **state) {
  return make_solver_folder(state, net, solver);
}

/* ---- the processor ---- */

/* A child of which 0 is returned when the processor has this name. */
static int describe_in_child(bool may_open, const char *name) {
  int how = 0;
  crema_device *cpu = NULL;
  ok(crema_device_get(CREMA_DEVICE_CPU, 0, &cpu));
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    crema_device_info info;
    const struct rlimit none = {0, 0};
    if (!may_open && setrlimit(RLIMIT_NOFILE, &none) != 0) _exit(2);
    if (crema_device_describe(cpu, &info) != CREMA_OK) _exit(3);
    _exit(strcmp(info.name, name) == 0 ? 0 : 4);
  }
  assert_int_equal(waitpid(child, &how, 0), child);
  return how;
}

/* It is called as the system calls it, and where that cannot be read just CPU. */
TEST(test_name_of_the_processor) {
  char line[512], name[128] = "CPU";
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "model name : %127[^\n]", name) == 1) break;
  }
  if (file != NULL) fclose(file);
  assert_int_equal(describe_in_child(true, name), 0);
  assert_int_equal(describe_in_child(false, "CPU"), 0);
  crema_device *cpu = NULL;
  crema_device_info info;
  ok(crema_device_get(CREMA_DEVICE_CPU, 0, &cpu));
  ok(crema_device_describe(cpu, &info));
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  assert_int_equal(info.memory_total, (size_t)sysconf(_SC_PHYS_PAGES) * page);
  assert_true(info.memory_free > 0 && info.memory_free < info.memory_total);
  assert_int_equal(info.compute_units, sysconf(_SC_NPROCESSORS_ONLN));
}

int main(void) {
  return run_all_tests(begin, remove_solver_folder);
}
