/* What the automaton is built on: rows S0-01 to S0-06 and S0-08. */
#include "memory/block_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/thread.h"
#include "device/backend/current.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "device/memory/host_memory.h"
#include "device/memory/pool.h"
#include "memory/tensor.h"

static void follow(crema_devptr data) {
  /* The address is deliberately used as a pointer: that must not work. */
  volatile const char *wrong = (const char *)data.address;
  _exit(wrong[0] == 'x' ? 1 : 0);
}

TEST(s0_01_host_code_cannot_follow_a_device_address) {
  fixture f = begin();
  crema_devptr data = gpu(&f);
  finish(&f);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    follow(data);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  assert_true(WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS);
  end(&f);
}

/* Whether a translation unit with this function compiles. */
static bool compiles(const char *function) {
  char folder[] = "/tmp/crema-compile-XXXXXX", path[64], command[2048];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/unit.c", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file, "#include \"crema/device.h\"\n%s\n", function);
  fclose(file);
  snprintf(command, sizeof command, "'%s' -std=c11 -fsyntax-only -I'%s/include' %s 2>/dev/null",
           CREMA_C_COMPILER, CREMA_SOURCE_DIR, path);
  int code = system(command);
  unlink(path);
  rmdir(folder);
  return code == 0;
}

TEST(s0_01_a_device_address_is_no_pointer) {
  assert_true(
      compiles("uintptr_t f(crema_devptr d); uintptr_t f(crema_devptr d) { return d.address; }"));
  assert_false(compiles("void *f(crema_devptr d); void *f(crema_devptr d) { return d; }"));
  assert_false(compiles("void *f(crema_devptr d); void *f(crema_devptr d) { return (void *)d; }"));
  assert_false(compiles("crema_devptr f(void *p); crema_devptr f(void *p) { return p; }"));
  assert_false(compiles("float f(crema_devptr d); float f(crema_devptr d) { return *d; }"));
  assert_false(compiles("float f(crema_devptr d); float f(crema_devptr d) { return d[0]; }"));
}

static void *no_memory(void *user, size_t bytes, size_t alignment) {
  *(size_t *)user = bytes + alignment;
  return NULL;
}

static void never_called(void *user, void *memory) {
  (void)user;
  fail_msg("%p was never allocated", memory);
}

TEST(s0_02_a_failing_allocator_is_a_status) {
  size_t asked = 0;
  const crema_host_allocator failing = {no_memory, never_called, &asked};
  static const size_t sizes[] = {0, 1, 12345, (size_t)9 << 20};
  crema_syncedmem *memory = NULL;
  const void *host = NULL;
  ok(crema_syncedmem_create(cr_cpu_device(), 12345, &memory));
  cr_host_set_allocator(&failing);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    char bytes[32];
    void *out = NULL;
    snprintf(bytes, sizeof bytes, "%zu bytes", sizes[i]);
    assert_fails(cr_host_alloc(sizes[i], &out), CREMA_E_NO_MEMORY, bytes);
    assert_null(out);
    assert_true(asked > sizes[i]);
  }
  assert_fails(crema_syncedmem_cpu_data(memory, &host), CREMA_E_NO_MEMORY, "12345 bytes");
  assert_int_equal(crema_syncedmem_head(memory), CREMA_UNINITIALIZED);
  cr_host_set_allocator(NULL);
  cpu(memory);
  crema_syncedmem_destroy(memory);
}

TEST(s0_02_host_memory_of_any_size) {
  size_t sizes[] = {0, 1, 63, 64, 65, 4096, (size_t)9 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    void *memory = NULL;
    ok(cr_host_alloc(sizes[i], &memory));
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 64, 0);
    memset(memory, 1, sizes[i]);
    cr_host_free(memory);
  }
  void *memory = NULL;
  assert_int_equal(cr_host_alloc(SIZE_MAX - 10, &memory), CREMA_E_NO_MEMORY);
  assert_fails(cr_host_alloc((size_t)1 << 60, &memory), CREMA_E_NO_MEMORY, "1152921504606846976");
  assert_null(memory);
}

static void *counted_refusal(void *user, size_t bytes, size_t alignment) {
  (void)bytes;
  (void)alignment;
  ++*(int *)user;
  return NULL;
}

/* Sizes that no machine has are not asked of the system, which might promise them; sizes that it
 * may have are. */
TEST(s0_02_absurd_sizes_are_refused_at_once) {
  size_t machine = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  size_t certain = (size_t)1 << 35; /* below it nothing is judged */
  size_t plausible = 2 * machine >= certain ? 2 * machine : certain - 1;
  const struct {
    size_t bytes;
    int asked;
  } table[] = {{1000, 1},
               {plausible, 1},
               {certain + 8 * machine, 0},
               {PTRDIFF_MAX - 10, 0},
               {PTRDIFF_MAX, 0},
               {SIZE_MAX - 70, 0},
               {SIZE_MAX, 0}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; ++i) {
    int asked = 0;
    void *out = NULL;
    const crema_host_allocator refusing = {counted_refusal, never_called, &asked};
    cr_host_set_allocator(&refusing);
    crema_status status = cr_host_alloc(table[i].bytes, &out);
    cr_host_set_allocator(NULL);
    assert_int_equal(status, CREMA_E_NO_MEMORY);
    assert_null(out);
    assert_int_equal(asked, table[i].asked);
  }
}

/* Blocks are aligned to 16 words, so all write to the same addresses. */
enum { LIVE = 64, ROUNDS = 2000, STRIDE = 16 };

typedef struct pattern {
  uint32_t *memory;
  size_t words;
  uint32_t value;
} pattern;

/* False when somebody else wrote to the block. */
static bool end_pattern(pattern *p) {
  bool good = true;
  for (size_t i = 0; i < p->words; i += STRIDE) {
    if (p->memory[i] != p->value) good = false;
  }
  cr_host_free(p->memory);
  *p = (pattern){0};
  return good;
}

/* Makes and frees blocks of every size around those that are cut from slabs, in any order. */
static crema_status shuffle_blocks(void *arg) {
  uint32_t draw = (uint32_t)(uintptr_t)arg;
  pattern live[LIVE] = {{0}};
  for (uint32_t round = 0; round < ROUNDS; ++round) {
    draw = draw * 1664525u + 1013904223u;
    pattern *p = &live[draw >> 26];
    if (p->memory != NULL && !end_pattern(p)) return cr_fail(CREMA_E_CORRUPT, "overlap");
    size_t bytes = (size_t)1 << (10 + (draw >> 8) % 13);
    p->words = (bytes + (draw >> 12) % bytes) / sizeof(uint32_t);
    p->value = draw;
    void *memory = NULL;
    CR_TRY(cr_host_alloc(p->words * sizeof(uint32_t), &memory));
    p->memory = memory;
    for (size_t i = 0; i < p->words; i += STRIDE) p->memory[i] = draw;
  }
  bool good = true;
  for (int i = 0; i < LIVE; ++i) good = end_pattern(&live[i]) && good;
  return good ? CREMA_OK : cr_fail(CREMA_E_CORRUPT, "overlap");
}

TEST(s0_02_blocks_keep_out_of_each_other) {
  cr_thread *thread[4] = {NULL};
  for (uintptr_t i = 0; i < 4; ++i) {
    ok(cr_thread_start(&thread[i], "blocks", shuffle_blocks, (void *)(i + 1)));
  }
  for (int i = 0; i < 4; ++i) ok(cr_thread_join(&thread[i]));
}

static size_t resident_bytes(void) {
  size_t total = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%zu %zu", &total, &resident), 2);
  fclose(file);
  return resident * (size_t)sysconf(_SC_PAGESIZE);
}

TEST(s0_02_freed_blocks_go_back_to_the_system) {
  enum { BLOCKS = 200, BYTES = 1 << 20 };
  void *block[BLOCKS];
  size_t before = resident_bytes();
  for (int i = 0; i < BLOCKS; ++i) {
    ok(cr_host_alloc(BYTES, &block[i]));
    memset(block[i], 1, BYTES);
  }
  assert_true(resident_bytes() > before + (size_t)BLOCKS * BYTES / 2);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which keep freed memory */
  for (int i = 0; i < BLOCKS; ++i) cr_host_free(block[(i * 77) % BLOCKS]);
  assert_true(resident_bytes() < before + ((size_t)32 << 20));
#else
  for (int i = 0; i < BLOCKS; ++i) cr_host_free(block[i]);
#endif
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which take address space */
/* Bytes of address space in use; 0: unknown. */
static size_t mapped_bytes(void) {
  size_t pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%zu", &pages) != 1) pages = 0;
  fclose(file);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Blocks that come and go, the older one first, take no more and more room, although a larger one
 * comes in between. */
TEST(s0_02_freed_room_is_used_again) {
  enum { BYTES = 1 << 20, LARGER = 7 << 19, TURNS = 500 };
  void *block[3] = {NULL};
  size_t before = 0;
  for (int i = 0; i < TURNS; ++i) {
    for (int k = 0; k < 2; ++k) ok(cr_host_alloc(BYTES, &block[k]));
    for (int k = 0; k < 2; ++k) cr_host_free(block[k]);
    ok(cr_host_alloc(LARGER, &block[2]));
    cr_host_free(block[2]);
    if (i == 20) before = mapped_bytes();
  }
  assert_true(mapped_bytes() <= before + ((size_t)32 << 20));
}

/* Leaves the process 2 MiB and asks for all of them in blocks of 64 KiB. Returns how many there
 * were.
 */
static int blocks_of_the_last_memory(void) {
  enum { BYTES = 1 << 16, MIB = 1 << 20, MOST = 1000 };
  void *block = NULL;
  int blocks = 0;
  /* What is in reserve, in whatever pieces, is used up first. */
  struct rlimit limit = {.rlim_cur = mapped_bytes(), .rlim_max = RLIM_INFINITY};
  if (limit.rlim_cur == 0 || setrlimit(RLIMIT_AS, &limit) != 0) return -1;
  for (int i = 0; i < MOST && cr_host_alloc(BYTES, &block) == CREMA_OK; ++i) continue;
  limit.rlim_cur = mapped_bytes() + 2 * MIB;
  if (setrlimit(RLIMIT_AS, &limit) != 0) return -1;
  while (blocks < MOST && cr_host_alloc(BYTES, &block) == CREMA_OK) ++blocks;
  return blocks;
}

/* A block is not refused because there is no memory for many. */
TEST(s0_02_the_last_memory_is_given_out) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    int blocks = blocks_of_the_last_memory();
    _exit(blocks < 0 ? 77 : blocks >= 16 ? 0 : 1);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) skip();
  assert_int_equal(WEXITSTATUS(status), 0);
}
#endif

TEST(s0_03_primitives_with_nothing_to_do) {
  cr_host_free(NULL);
  fixture f = begin();
  const cr_backend *backend = f.device->backend;
  crema_devptr data = gpu(&f);
  finish(&f);
  cr_sim_reset_counts();
  ok(backend->copy(f.context, CR_COPY_SAME_DEVICE, 0, 0, 0));
  ok(backend->copy(f.context, CR_COPY_SAME_DEVICE, data.address, data.address, SIZE));
  ok(backend->zero(f.context, data, 0));
  assert_int_equal(cr_sim_count(CR_SIM_D2D, -1) + cr_sim_count(CR_SIM_ZERO, -1), 0);
  /* Ranges that overlap by one byte, in both directions; ranges that touch do not. */
  unsigned char host[300];
  for (int i = 0; i < 300; ++i) host[i] = (unsigned char)i;
  crema_context *contexts[2] = {f.context, cr_host_context()};
  uintptr_t base[2] = {data.address, (uintptr_t)host};
  for (int i = 0; i < 2; ++i) {
    crema_context *context = contexts[i];
    const cr_backend *of = context->device->backend;
    uintptr_t low = base[i], high = low + 99;
    assert_fails(of->copy(context, CR_COPY_SAME_DEVICE, low, high, 100), CREMA_E_ARGUMENT,
                 "100 bytes");
    assert_int_equal(of->copy(context, CR_COPY_SAME_DEVICE, high, low, 100), CREMA_E_ARGUMENT);
    ok(of->copy(context, CR_COPY_SAME_DEVICE, low, high + 1, 100));
    ok(of->zero(context, (crema_devptr){low}, 0));
  }
  assert_int_equal(host[0], 100);
  assert_int_equal(host[99], 199);
  assert_int_equal(host[100], 100);
  ok(cr_host_context()->device->backend->zero(cr_host_context(), (crema_devptr){(uintptr_t)host},
                                              100));
  assert_int_equal(host[99], 0);
  assert_int_equal(host[100], 100);
  finish(&f);
  cr_device_free(f.device, (crema_devptr){0});
  end(&f);
}

TEST(s0_04_pinned_blocks_remember_who_made_them) {
  fixture f = begin();
  crema_syncedmem *plain = NULL;
  cr_tensor *tensor = NULL;
  ok(crema_syncedmem_create(cr_cpu_device(), SIZE, &plain));
  ok(cr_tensor_create(CREMA_F32, 10, &tensor));
  assert_true(cr_sim_is_pinned(cpu(f.memory)));
  assert_false(cr_sim_is_pinned(cpu(plain)));
  /* A thread that works on a device gets page-locked memory for everything. */
  ok(cr_device_set_current(f.device));
  const void *value = NULL;
  ok(cr_tensor_host_read(tensor, &value));
  assert_true(cr_sim_is_pinned(value));
  assert_int_equal(cr_sim_pinned_blocks(), 2);
  ok(cr_device_set_current(cr_cpu_device()));
  cr_tensor_destroy(tensor);
  crema_syncedmem_destroy(plain);
  assert_int_equal(cr_sim_pinned_blocks(), 1);
  /* A wrong way of freeing is reported. */
  void *mine = NULL;
  ok(cr_host_alloc(10, &mine));
  f.device->backend->host_free(f.device, mine);
  cr_host_free(mine);
  crema_syncedmem_destroy(f.memory);
  assert_int_equal(cr_sim_pinned_blocks(), 0);
  crema_context_destroy(f.context);
  sim_end_with_races(1);
}

TEST(s0_05_work_runs_on_the_blocks_device) {
  fixture f = begin();
  crema_device *other = sim_test_device(1);
  ok(cr_device_set_current(other));
  cr_sim_reset_counts();
  mutable_gpu(&f);
  cpu(f.memory);
  const cr_sim_record *log = NULL;
  size_t size = cr_sim_log(&log);
  assert_true(size > 0);
  for (size_t i = 0; i < size; ++i) {
    if (log[i].op == CR_SIM_ALLOC || log[i].op == CR_SIM_ZERO || log[i].op == CR_SIM_D2H) {
      assert_int_equal(log[i].device, 0);
    }
    if (log[i].op == CR_SIM_ALLOC) assert_int_equal(log[i].current_device, 0);
  }
  assert_ptr_equal(cr_device_current(), other);
  end(&f);
}

TEST(s0_06_a_failed_allocation_changes_nothing) {
  fixture f = begin();
  crema_syncedmem *big = NULL;
  ok(crema_syncedmem_create(f.device, 2 * SIM_TEST_MEMORY, &big));
  crema_devptr data = {0};
  assert_int_equal(crema_syncedmem_gpu_data(big, f.context, &data), CREMA_E_NO_MEMORY);
  assert_int_equal(data.address, 0);
  assert_int_equal(crema_syncedmem_head(big), CREMA_UNINITIALIZED);
  assert_error_has("8388608 bytes on sim:0");
  assert_error_has("of 4194304 bytes are free");
  crema_syncedmem_destroy(big);
  /* Memory of another process is in the way, then no longer. */
  cr_sim_set_foreign_bytes(0, SIM_TEST_MEMORY);
  assert_int_equal(crema_syncedmem_gpu_data(f.memory, f.context, &data), CREMA_E_NO_MEMORY);
  cr_sim_set_foreign_bytes(0, 0);
  gpu(&f);
  end(&f);
}

/* The zeros of a fresh block come before its first use, on whatever stream that is. */
TEST(s0_06_zeros_come_before_the_first_use) {
  fixture f = begin_stepped();
  crema_context *other = sim_test_context(f.device);
  unsigned char out[SIZE];
  memset(out, 1, SIZE);
  gpu(&f);
  assert_int_equal(cr_sim_pending(f.context), 1);
  crema_devptr data = {0};
  ok(crema_syncedmem_gpu_data(f.memory, other, &data));
  ok(f.device->backend->copy(other, CR_COPY_DEVICE_TO_HOST, (uintptr_t)out, data.address, SIZE));
  /* The second stream cannot go on before the first has filled the block. */
  assert_false(cr_sim_step(other));
  assert_true(cr_sim_step(f.context));
  ok(crema_context_finish(other));
  expect_bytes(out, 0);
  crema_context_destroy(other);
  end(&f);
}

TEST(s0_08_no_device_support_is_a_status) {
  crema_device *device = NULL;
  assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), 0);
  assert_int_equal(crema_device_get(CREMA_DEVICE_SIM, 0, &device), CREMA_E_NO_DEVICE);
  assert_int_equal(crema_device_get((crema_device_type)9, 0, &device), CREMA_E_NO_DEVICE);
  assert_null(device);
  /* On the CPU both sides are one. */
  crema_syncedmem *memory = NULL;
  crema_devptr data = {0};
  ok(crema_syncedmem_create(cr_cpu_device(), SIZE, &memory));
  ok(crema_syncedmem_gpu_data(memory, cr_host_context(), &data));
  assert_ptr_equal((const void *)data.address, cpu(memory));
  assert_int_equal(crema_syncedmem_head(memory), CREMA_HEAD_AT_CPU);
  ok(crema_syncedmem_async_push(memory, cr_host_context()));
  assert_int_equal(crema_syncedmem_head(memory), CREMA_HEAD_AT_CPU);
  crema_syncedmem_destroy(memory);
  assert_int_equal(crema_syncedmem_create(NULL, SIZE, &memory), CREMA_E_ARGUMENT);
}

/* A block on a machine without devices: what there is to have a context on is the CPU alone. */
TEST(s0_08_all_accessors_without_a_device) {
  crema_device *device = NULL;
  crema_context *none = NULL;
  assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), 0);
  assert_int_equal(crema_device_get(CREMA_DEVICE_SIM, 0, &device), CREMA_E_NO_DEVICE);
  crema_syncedmem *memory = NULL;
  unsigned char mine[SIZE] = {0};
  /* The states that a block can be in without a device, and each device accessor. */
  for (int set = 0; set < 3; ++set) {
    ok(crema_syncedmem_create(cr_cpu_device(), SIZE, &memory));
    if (set == 1) memset(mutable_cpu(memory), 3, SIZE);
    if (set == 2) ok(crema_syncedmem_set_cpu_data(memory, mine));
    crema_head before = crema_syncedmem_head(memory);
    assert_int_equal(before, set == 0 ? CREMA_UNINITIALIZED : CREMA_HEAD_AT_CPU);
    const void *host = memory->host.data;
    crema_devptr data = {77};
    crema_status status[5] = {crema_syncedmem_gpu_data(memory, none, &data),
                              crema_syncedmem_mutable_gpu_data(memory, none, true, &data),
                              crema_syncedmem_mutable_gpu_data(memory, none, false, &data),
                              crema_syncedmem_async_push(memory, none), CREMA_E_NO_DEVICE};
    assert_error_has("no device support");
    for (int i = 0; i < 5; ++i) assert_int_equal(status[i], CREMA_E_NO_DEVICE);
    assert_int_equal(crema_syncedmem_set_gpu_data(memory, (crema_devptr){0}), CREMA_E_ARGUMENT);
    assert_int_equal(data.address, 77);
    assert_int_equal(crema_syncedmem_head(memory), before);
    assert_ptr_equal(memory->host.data, host);
    assert_int_equal(memory->gpu.data.address, 0);
    /* The host's side goes on as if nothing had been asked. */
    expect_bytes(cpu(memory), set == 1 ? 3 : 0);
    crema_syncedmem_destroy(memory);
  }
}

/* With the CPU as the device each accessor gives the one side there is, and the head stays there.
 */
TEST(s0_08_all_accessors_on_the_cpu) {
  crema_context *context = cr_host_context();
  for (int accessor = 0; accessor < 7; ++accessor) {
    for (int set = 0; set < 2; ++set) {
      crema_syncedmem *memory = NULL;
      unsigned char mine[SIZE];
      memset(mine, 9, SIZE);
      ok(crema_syncedmem_create(cr_cpu_device(), SIZE, &memory));
      if (set == 1) memset(mutable_cpu(memory), 5, SIZE);
      crema_devptr data = {0};
      crema_devptr adopted = {(uintptr_t)mine};
      crema_status status = CREMA_OK;
      switch (accessor) {
        case 0: status = crema_syncedmem_gpu_data(memory, context, &data); break;
        case 1: status = crema_syncedmem_mutable_gpu_data(memory, context, true, &data); break;
        case 2: status = crema_syncedmem_mutable_gpu_data(memory, context, false, &data); break;
        case 3: status = crema_syncedmem_set_gpu_data(memory, adopted); break;
        case 4: status = crema_syncedmem_set_cpu_data(memory, mine); break;
        case 5: status = crema_syncedmem_async_push(memory, context); break;
        default: data.address = (uintptr_t)cpu(memory); break;
      }
      /* A push needs something to be pushed. */
      bool refused = accessor == 5 && set == 0;
      assert_int_equal(status, refused ? CREMA_E_STATE : CREMA_OK);
      assert_int_equal(crema_syncedmem_head(memory),
                       refused ? CREMA_UNINITIALIZED : CREMA_HEAD_AT_CPU);
      bool adopts = accessor == 3 || accessor == 4;
      if (data.address != 0) assert_ptr_equal((const void *)data.address, cpu(memory));
      if (adopts) assert_ptr_equal(cpu(memory), mine);
      expect_bytes(cpu(memory), adopts ? 9 : set == 1 ? 5 : 0);
      crema_syncedmem_destroy(memory);
      if (adopts) assert_int_equal(mine[SIZE - 1], 9);
    }
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
