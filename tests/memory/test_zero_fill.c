/* Failures while a block is overwritten or filled with zeros: row S0-28 beyond the table of S0-11.
 */
#include "device/device.h"
#include "memory/block_fixture.h"

#include "device/memory/pool.h"

/* More than any of the calls takes of the driver. */
enum { OPERATIONS = 16 };

typedef enum what { OVERWRITE, ZERO } what;

/* A block in one of the four states whose bytes are all `value`. */
static void bring_to(fixture *f, crema_syncedmem *memory, crema_head head, unsigned char value) {
  crema_devptr data = {0};
  void *host = NULL;
  cr_syncedmem_init(memory, f->device, SIZE);
  if (head == CREMA_HEAD_AT_GPU) {
    ok(cr_syncedmem_overwrite(memory, f->context, &data));
    fill_gpu(f, data, value);
  } else if (head != CREMA_UNINITIALIZED) {
    ok(crema_syncedmem_mutable_cpu_data(memory, true, &host));
    memset(host, value, SIZE);
  }
  if (head == CREMA_SYNCED) {
    ok(cr_syncedmem_read(memory, f->context, &data));
  }
  assert_int_equal(crema_syncedmem_head(memory), head);
}

static crema_status perform(what w, crema_syncedmem *memory, crema_context *context) {
  crema_devptr data = {0};
  return w == ZERO ? cr_syncedmem_zero(memory, context)
                   : cr_syncedmem_overwrite(memory, context, &data);
}

/* Fails the nth driver operation. The block then is in the state that it was in and has the bytes
 * that it had, and the next try works. False when there are not that many, or when it is one whose
 * failure is passed over, such as the release of memory. */
static bool fail_nth(fixture *f, what w, crema_head head, crema_context *context, int nth) {
  crema_syncedmem memory;
  bring_to(f, &memory, head, 0x3C);
  cr_pool_trim(f->device->pool);
  cr_pool_trim(context->device->pool);
  cr_sim_fail(CR_SIM_ANY, nth, CREMA_E_DEVICE, false);
  crema_status status = perform(w, &memory, context);
  cr_sim_clear_faults();
  if (status != CREMA_OK) {
    assert_int_equal(status, CREMA_E_DEVICE);
    assert_int_equal(crema_syncedmem_head(&memory), head);
    expect_bytes(cpu(&memory), head == CREMA_UNINITIALIZED ? 0 : 0x3C);
    ok(perform(w, &memory, context));
    if (w == ZERO) expect_bytes(cpu(&memory), 0);
  }
  cr_syncedmem_clear(&memory);
  return status != CREMA_OK;
}

TEST(s0_28_failures_of_overwrite_and_zero) {
  fixture f = begin();
  /* Where the block is, on another stream there, on another device. */
  crema_context *other = sim_test_context(f.device), *far = sim_test_context(sim_test_device(1));
  crema_context *const user[] = {f.context, other, far};
  int failures[2] = {0};
  for (int w = OVERWRITE; w <= ZERO; ++w) {
    for (int head = 0; head < 4; ++head) {
      for (int u = 0; u < 3; ++u) {
        for (int nth = 1; nth <= OPERATIONS; ++nth) {
          failures[w] += fail_nth(&f, (what)w, (crema_head)head, user[u], nth);
        }
      }
    }
  }
  assert_in_range(failures[OVERWRITE], 12, 100);
  assert_in_range(failures[ZERO], 24, 200);
  crema_context_destroy(far);
  crema_context_destroy(other);
  end(&f);
}

/* Only that the work is queued can fail at once; a failure while it is done comes out of the next
 * wait, and the block can be filled again. */
TEST(s0_28_a_zero_fill_that_fails_later) {
  fixture f = begin();
  const void *host = NULL;
  cr_sim_fail(CR_SIM_ZERO, 1, CREMA_E_DEVICE, true);
  ok(cr_syncedmem_zero(f.memory, f.context));
  assert_int_equal(crema_context_finish(f.context), CREMA_E_DEVICE);
  ok(cr_syncedmem_zero(f.memory, f.context));
  ok(crema_syncedmem_cpu_data(f.memory, &host));
  expect_bytes(host, 0);
  end(&f);
}

/* On the host: without memory nothing is taken for written. */
TEST(s0_28_no_host_memory_to_overwrite) {
  fixture f = begin();
  crema_devptr data = {0};
  cr_sim_fail(CR_SIM_HOST_ALLOC, 1, CREMA_E_NO_MEMORY, false);
  fill_gpu(&f, mutable_gpu(&f), 8);
  assert_int_equal(cr_syncedmem_overwrite(f.memory, cr_host_context(), &data), CREMA_E_NO_MEMORY);
  assert_int_equal(crema_syncedmem_head(f.memory), CREMA_HEAD_AT_GPU);
  expect_bytes(cpu(f.memory), 8);
  end(&f);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
