/* Every allocation fails once while devices are simulated, opened and used, and every mapping of
 * memory: a status and a text each time, and nothing is lost. */
#include "each_allocation.h"

#include "memory/sim_fixture.h"

#include "core/fail.h"
#include "crema/event.h"
#include "device/copy.h"
#include "device/memory/block.h"
#include "device/memory/device_memory.h"
#include "device/memory/scratchpad.h"
#include "interpose.h"
#include "lock_check.h"

enum { BYTES = 1000, BLOCKS = 70 };

static long maps_left = -1;
static bool map_refused;

static long mapped;

INTERPOSED void *mmap(void *memory, size_t bytes, int access, int flags, int file, off_t offset) {
  if (!from_program()) return REAL(mmap)(memory, bytes, access, flags, file, offset);
  if (maps_left >= 0 && maps_left-- == 0) {
    map_refused = true;
    errno = ENOMEM;
    return MAP_FAILED;
  }
  void *made = REAL(mmap)(memory, bytes, access, flags, file, offset);
  mapped += made != MAP_FAILED;
  return made;
}

INTERPOSED int munmap(void *memory, size_t bytes) {
  const bool own = from_program();
  int failed = REAL(munmap)(memory, bytes);
  mapped -= own && failed == 0;
  return failed;
}

/* ---- what is done ---- */

static crema_status use_streams(crema_context *first, crema_context *second) {
  static char host[BYTES];
  crema_devptr a = {0}, b = {0};
  crema_event *event = NULL;
  crema_device *owner = NULL;
  crema_status status;
  CR_TRY_GOTO(cr_device_alloc_for(first, BYTES, &a), out);
  CR_TRY_GOTO(cr_device_alloc(second->device, BYTES, &b), out);
  CR_TRY_GOTO(cr_copy_from_cpu(first, a, host, BYTES), out);
  CR_TRY_GOTO(crema_event_create(first->device, &event), out);
  CR_TRY_GOTO(crema_event_record(event, first, NULL), out);
  CR_TRY_GOTO(crema_event_wait(event, second), out);
  CR_TRY_GOTO(crema_context_finish(first), out);
  CR_TRY_GOTO(cr_device_of_address(b.address, &owner), out);
  assert_ptr_equal(owner, second->device);
  CR_TRY_GOTO(cr_copy_any(b.address, a.address, BYTES), out);
  CR_TRY_GOTO(cr_copy_to_cpu(second, host, b, BYTES), out);
  CR_TRY_GOTO(crema_context_finish(second), out);
out:
  crema_event_destroy(event);
  cr_device_free(second->device, b);
  cr_device_free(first->device, a);
  return status;
}

static crema_status use_memory(crema_context *context) {
  crema_devptr many[BLOCKS] = {{0}}, workspace = {0};
  cr_block host = {0}, device = {0}, pinned = {0};
  crema_status status;
  for (int i = 0; i < BLOCKS; ++i) {
    CR_TRY_GOTO(cr_device_alloc(context->device, (size_t)(i + 1) * 512, &many[i]), out);
  }
  CR_TRY_GOTO(cr_context_workspace(context, BYTES, &workspace), out);
  CR_TRY_GOTO(cr_context_workspace(context, 100 * BYTES, &workspace), out);
  CR_TRY_GOTO(cr_block_new(cr_cpu_device(), BYTES, NULL, &host), out);
  CR_TRY_GOTO(cr_block_new(context->device, BYTES, NULL, &device), out);
  CR_TRY_GOTO(cr_block_new(context->device, BYTES, &(cr_block_options){.pinned = true}, &pinned),
              out);
out:
  for (int i = 0; i < BLOCKS; ++i) cr_device_free(context->device, many[i]);
  if (host.address != 0) assert_int_equal(cr_block_free(&host), CREMA_OK);
  if (device.address != 0) assert_int_equal(cr_block_free(&device), CREMA_OK);
  if (pinned.address != 0) assert_int_equal(cr_block_free(&pinned), CREMA_OK);
  return status;
}

static crema_status simulate(void *unused) {
  cr_sim_options options = sim_test_options(2);
  crema_device *device[2] = {NULL};
  crema_context *context[3] = {NULL}, *own = NULL;
  crema_status status;
  (void)unused;
  CR_TRY(start_simulation(&options));
  for (int i = 0; i < 2; ++i) {
    CR_TRY_GOTO(crema_device_open(CREMA_DEVICE_SIM, &i, 1), out);
    CR_TRY_GOTO(crema_device_get(CREMA_DEVICE_SIM, i, &device[i]), out);
    CR_TRY_GOTO(crema_context_create(device[i], 1, &context[i]), out);
  }
  CR_TRY_GOTO(crema_context_create(device[0], 1, &context[2]), out);
  CR_TRY_GOTO(cr_thread_context(device[1], 3, &own), out);
  CR_TRY_GOTO(cr_thread_context_next(device[1], &own), out);
  CR_TRY_GOTO(use_streams(context[0], context[2]), out);
  CR_TRY_GOTO(use_streams(context[1], context[0]), out);
  CR_TRY_GOTO(use_memory(context[1]), out);
out:
  for (int i = 0; i < 3; ++i) crema_context_destroy(context[i]);
  cr_sim_leaks leaks = {0};
  cr_sim_stop(&leaks);
  assert_int_equal(leaks.device_blocks + leaks.host_blocks + leaks.streams + leaks.events, 0);
  return status;
}

TEST(every_allocation_fails) {
  each_allocation_fails("devices", simulate, NULL, CREMA_OK, 100);
}

TEST(reported_blocks_fail) {
  cr_block_report_enable(true);
  each_allocation_fails("reported blocks", simulate, NULL, CREMA_OK, 100);
  assert_int_equal(cr_block_report_read().blocks, 0);
  assert_int_equal(cr_block_report_read().bytes, 0);
  cr_block_report_enable(false);
}

TEST(every_mapping_fails) {
  assert_int_equal(simulate(NULL), CREMA_OK);
  const long before = mapped;
  for (long n = 0;; ++n) {
    map_refused = false;
    maps_left = n;
    crema_status status = simulate(NULL);
    maps_left = -1;
    assert_int_equal(mapped, before);
    if (!map_refused) {
      assert_int_equal(status, CREMA_OK);
      assert_true(n >= 2);
      return;
    }
    assert_int_equal(status, CREMA_E_NO_MEMORY);
    assert_non_null(strstr(crema_error_text(), "simulated devices"));
  }
}

int main(void) {
  return run_all_tests(locks_begin, locks_end);
}
