/* Drivers work on whatever device is current for the thread: each call that is made for a device is
 * made while that one is current, and the thread's own comes back afterwards. */
#include "memory/sim_fixture.h"

#include "crema/event.h"
#include "device/backend/current.h"
#include "device/copy.h"
#include "device/memory/block.h"
#include "device/memory/device_memory.h"
#include "device/memory/pool.h"
#include "device/memory/scratchpad.h"
#include "memory/syncedmem.h"

enum { BYTES = 4096 };

#define OK(call) assert_int_equal(call, CREMA_OK)

/* Everything that a thread does with a device. */
static void use(crema_device *device) {
  static char host[BYTES];
  crema_context *first = sim_test_context(device), *second = sim_test_context(device), *own = NULL;
  crema_devptr a = {0}, b = {0}, large = {0}, workspace = {0};
  crema_event *event = NULL;
  crema_syncedmem *memory = NULL;
  crema_device_info info;
  crema_device_memory space;
  cr_block pinned = {0};
  const void *bytes = NULL;
  OK(crema_device_describe(device, &info));
  OK(crema_device_memory_read(device, &space));
  OK(cr_device_alloc(device, BYTES, &a));
  OK(cr_device_alloc_for(first, BYTES, &b));
  OK(cr_device_alloc(device, (size_t)1 << 20, &large));
  OK(cr_context_workspace(first, BYTES, &workspace));
  OK(cr_block_new(device, BYTES, &(cr_block_options){.pinned = true}, &pinned));
  OK(cr_copy_from_cpu(first, a, host, BYTES));
  OK(crema_event_create(device, &event));
  OK(crema_event_record(event, first, NULL));
  OK(crema_event_wait(event, second));
  OK(cr_copy_same_device(second, b, a, BYTES));
  OK(cr_copy_to_cpu(second, host, b, BYTES));
  OK(crema_context_finish(first));
  OK(crema_context_finish(second));
  OK(crema_syncedmem_create(device, BYTES, &memory));
  OK(crema_syncedmem_mutable_gpu_data(memory, first, true, &workspace));
  OK(crema_syncedmem_cpu_data(memory, &bytes));
  OK(cr_thread_context(device, 1, &own));
  OK(cr_thread_context_next(device, &own));
  OK(crema_context_finish(own));
  crema_syncedmem_destroy(memory);
  crema_event_destroy(event);
  OK(cr_block_free(&pinned));
  cr_device_free(device, large);
  cr_device_free_after(device, b, first->id);
  cr_device_free(device, a);
  crema_context_destroy(second);
  crema_context_destroy(first);
}

/* Calls that a driver takes for a device whichever one is current. */
static bool may_be_made_anywhere(cr_sim_op op) {
  return op == CR_SIM_COUNT || op == CR_SIM_DESCRIBE || op == CR_SIM_SET_DEVICE ||
         op == CR_SIM_HOST_FREE || op == CR_SIM_ZERO || op == CR_SIM_FINISH;
}

static size_t seen[CR_SIM_OPS];

static void check_log(int device) {
  const cr_sim_record *record = NULL;
  size_t count = cr_sim_log(&record);
  for (size_t i = 0; i < count; ++i) {
    ++seen[record[i].op];
    if (may_be_made_anywhere(record[i].op)) continue;
    if (record[i].device != device || record[i].current_device != device) {
      fail_msg("operation %d on sim:%d while sim:%d is current", record[i].op, record[i].device,
               record[i].current_device);
    }
  }
}

TEST(each_call_is_made_on_its_device) {
  static const cr_sim_op wanted[] = {CR_SIM_ALLOC, CR_SIM_HOST_ALLOC, CR_SIM_MEMORY_INFO,
                                     CR_SIM_H2D,   CR_SIM_D2H,        CR_SIM_D2D,
                                     CR_SIM_ZERO,  CR_SIM_EVENT_WAIT, CR_SIM_STREAM_OPEN};
  cr_sim_options options = sim_test_options(2);
  sim_begin(&options);
  crema_device *device[2] = {sim_test_device(0), sim_test_device(1)};
  for (int own = 0; own < 3; ++own) {
    crema_device *mine = own == 2 ? cr_cpu_device() : device[own];
    OK(cr_device_set_current(mine));
    for (int i = 0; i < 2; ++i) {
      cr_sim_reset_counts();
      use(device[i]);
      check_log(i);
      assert_ptr_equal(cr_device_current(), mine);
    }
  }
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; ++i) {
    if (seen[wanted[i]] == 0) fail_msg("operation %d is not in the log", wanted[i]);
  }
  sim_end();
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
