/* The CUDA plug-in as a library: what it exports, whom it refuses, what it says without a driver,
 * and that its table is complete. Runs with and without a GPU. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>

#include "check.h"
#include "core/fail.h"
#include "device/gpu/plugin.h"
#include "ops/cpu_only.h"
#include "ops/op.h"

static void log_text(crema_log_level level, const char *file, int line, const char *text) {
  (void)level, (void)file, (void)line, (void)text;
}

static const cr_gpu_services services = {
    .fail_text = cr_fail_text, .error_text = crema_error_text, .log_text = log_text};

static cr_gpu_entry *entry_of_plugin(void) {
  void *library = dlopen(CREMA_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fail_msg("%s", dlerror());
  void *symbol = dlsym(library, "crema_gpu_backend");
  cr_gpu_entry *entry = NULL;
  memcpy(&entry, &symbol, sizeof entry);
  assert_non_null(entry);
  return entry;
}

/* Each number of the interface that the two sides compare. */
#define SIZE(name) offsetof(cr_gpu_abi, name##_bytes)
static const size_t sizes[] = {SIZE(backend),    SIZE(context),   SIZE(device), SIZE(kernel),
                               SIZE(plan),       SIZE(desc),      SIZE(arg),    SIZE(scalars),
                               SIZE(call),       SIZE(algorithm), SIZE(info),   SIZE(services),
                               SIZE(collectives)};
enum { SIZES = sizeof sizes / sizeof sizes[0] };
/* A struct that is added to the comparison is added here. */
_Static_assert(sizeof(cr_gpu_abi) == (SIZES + 2) * sizeof(size_t), "all but version and ops");

TEST(a_foreign_abi_is_refused) {
  const cr_gpu_abi own = CR_GPU_ABI_HERE;
  cr_gpu_entry *entry = entry_of_plugin();
  for (int field = 0; field < SIZES + 2; ++field) {
    cr_gpu_abi other = own;
    if (field < SIZES) *(size_t *)((char *)&other + sizes[field]) += 8;
    else if (field == SIZES) ++other.version;
    else ++other.ops;
    cr_fail_text(CREMA_E_INTERNAL, "");
    if (entry(&other, &services) != NULL) fail_msg("field %d is not compared", field);
    assert_error_has("belongs to another version of crema");
  }
  assert_non_null(entry(&own, &services));
}

TEST(the_table_is_complete) {
  const cr_gpu_abi own = CR_GPU_ABI_HERE;
  const cr_backend *b = entry_of_plugin()(&own, &services);
  assert_int_equal(b->type, CREMA_DEVICE_CUDA);
  assert_string_equal(b->name, "cuda");
  assert_false(b->host_memory);
  assert_true(b->count && b->open && b->close && b->describe && b->alloc && b->free);
  assert_true(b->host_alloc && b->host_free && b->host_alias && b->context_open);
  assert_true(b->context_close && b->finish && b->copy && b->zero && b->convert);
  assert_true(b->event_create && b->event_destroy && b->event_record && b->event_wait);
  assert_true(b->event_query && b->event_finish && b->memory_info && b->busy && b->owner);
  assert_true(b->set_current && b->enter_device && b->leave_device && b->failure);
  assert_true(b->can_access_peer && b->enable_peer);
  /* Every op has a row but those that run on the CPU, and every row that keeps a state gives it
   * back. */
  for (int kind = 0; kind < CR_OP_KINDS; ++kind) {
    int rows = 0;
    for (const cr_kernel *const *row = b->kernels; *row != NULL; ++row) {
      if ((*row)->op != (cr_op_kind)kind) continue;
      assert_non_null((*row)->run);
      ++rows;
    }
    if (op_is_cpu_only((cr_op_kind)kind)) {
      assert_int_equal(rows, 0);
      continue;
    }
    if (rows == 0) fail_msg("op %s has no CUDA row", cr_op_kind_name((cr_op_kind)kind));
  }
}

TEST(devices_or_one_clear_sentence) {
  crema_device *device = NULL;
  assert_int_equal(setenv("CREMA_CUDA_PLUGIN", CREMA_PLUGIN, 1), 0);
  const int count = crema_device_count(CREMA_DEVICE_CUDA);
  if (count > 0) {
    crema_device_info info;
    ok(crema_device_get(CREMA_DEVICE_CUDA, 0, &device));
    ok(crema_device_describe(device, &info));
    assert_true(info.memory_total > 0 && info.capability_major >= 8);
    print_message("%s: %s\n", info.name, info.library);
  } else {
    assert_int_equal(crema_device_get(CREMA_DEVICE_CUDA, 0, &device), CREMA_E_NO_DEVICE);
    print_message("%s\n", crema_error_text());
    assert_error_has("the NVIDIA driver");
    assert_null(device);
  }
  assert_int_equal(crema_device_get(CREMA_DEVICE_CUDA, count, &device), CREMA_E_NO_DEVICE);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
