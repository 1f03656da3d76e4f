/* How many formats a tensor holds, which of them makes room for another, and what other threads
 * find of them. */
#include <pthread.h>
#include <stdatomic.h>

#include "core/clock.h"
#include "memory/reversed_fixture.h"

/* Six formats are kept, and more only while other threads may be reading them. */
enum { KEPT = 6, MANY = 12, PLAIN_BYTES = (COUNT + COUNT % 2) * (int)sizeof(float) };

static size_t reversed_bytes(int formats) {
  return (size_t)formats * COUNT * sizeof(float);
}

static cr_format format_of(fixture *f, cr_layout *layout) {
  *layout = f->reversed;
  return (cr_format){CREMA_F32, layout};
}

FIXTURE_TEST(more_formats_than_slots) {
  fixture *f = *state;
  enum { LAYOUTS = 12 };
  cr_layout layout[LAYOUTS];
  cr_tensor *tensor = new_tensor(COUNT);
  write_counting(f, tensor, 3);
  for (int i = 0; i < LAYOUTS; ++i) {
    layout[i] = f->reversed;
    assert_true(read_floats(f, tensor, (cr_format){CREMA_F32, &layout[i]})[0] == 3 + COUNT - 1);
  }
  assert_true(read_floats(f, tensor, CR_PLAIN_F32)[0] == 3);
  /* Every format as the head once, with all slots taken. */
  for (int i = 0; i < LAYOUTS; ++i) {
    crema_devptr out = {0};
    assert_int_equal(cr_tensor_update(tensor, f->context, (cr_format){CREMA_F32, &layout[i]}, &out),
                     CREMA_OK);
    ((float *)out.address)[0] += 1;
  }
  assert_true(read_floats(f, tensor, CR_PLAIN_F32)[COUNT - 1] == 3 + COUNT - 1 + LAYOUTS);
  cr_tensor_destroy(tensor);
}

/* With all slots taken a stale format makes room before one that holds the values, even if that was
 * never asked for by itself. */
FIXTURE_TEST(stale_formats_go_before_valid_ones) {
  fixture *f = *state;
  cr_layout layout[4];
  cr_format head = {CREMA_F64, &f->reversed_double};
  crema_devptr out = {0};
  for (int i = 0; i < 4; ++i) layout[i] = f->reversed;
  cr_tensor *tensor = new_tensor(COUNT);
  write_counting(f, tensor, 3);
  for (int i = 0; i < 3; ++i) read_floats(f, tensor, (cr_format){CREMA_F32, &layout[i]});
  assert_int_equal(cr_tensor_update(tensor, f->context, head, &out), CREMA_OK);
  /* Valid now: the head, plain doubles (on the way) and plain floats; stale: three layouts. */
  read_floats(f, tensor, CR_PLAIN_F32);
  int before = conversions;
  assert_true(read_floats(f, tensor, (cr_format){CREMA_F32, &layout[3]})[0] == 3 + COUNT - 1);
  assert_int_equal(conversions, before + 1);
  assert_int_equal(cr_tensor_read(tensor, f->context, (cr_format){CREMA_F64, NULL}, &out),
                   CREMA_OK);
  assert_int_equal(conversions, before + 1);
  cr_tensor_destroy(tensor);
}

/* The format that was written holds what others may only hold rounded: it is never given up for
 * them, however long it was not used. */
FIXTURE_TEST(the_head_is_never_evicted) {
  fixture *f = *state;
  enum { LAYOUTS = 12 };
  cr_layout layout[LAYOUTS];
  cr_format head = {CREMA_F64, &f->reversed_double};
  cr_tensor *tensor = new_tensor(COUNT);
  crema_devptr out = {0};
  assert_int_equal(cr_tensor_write(tensor, f->context, head, &out), CREMA_OK);
  for (int i = 0; i < COUNT; ++i) ((double *)out.address)[i] = 1.0 / 3 + i;
  for (int i = 0; i < LAYOUTS; ++i) {
    layout[i] = f->reversed;
    read_floats(f, tensor, (cr_format){CREMA_F32, &layout[i]});
    int before = conversions;
    if (i % 6 != 5) continue;
    assert_true(cr_format_equal(cr_tensor_head(tensor), head));
    assert_int_equal(cr_tensor_read(tensor, f->context, head, &out), CREMA_OK);
    assert_int_equal(conversions, before);
    assert_true(((const double *)out.address)[1] == 1.0 / 3 + 1);
  }
  cr_tensor_destroy(tensor);
}

FIXTURE_TEST(no_more_than_six_are_kept) {
  fixture *f = *state;
  cr_layout layout[MANY];
  cr_tensor *tensor = new_tensor(COUNT);
  write_counting(f, tensor, 1);
  for (int i = 0; i < MANY; ++i) {
    int kept = i + 1 < KEPT ? i + 1 : KEPT - 1;
    read_floats(f, tensor, format_of(f, &layout[i]));
    assert_int_equal(bytes_of_tensor(tensor), PLAIN_BYTES + reversed_bytes(kept));
  }
  /* The last ones that were asked for, besides the head. */
  for (int i = MANY - KEPT + 1; i < MANY; ++i) {
    read_floats(f, tensor, (cr_format){CREMA_F32, &layout[i]});
    assert_int_equal(conversions, MANY);
  }
  read_floats(f, tensor, (cr_format){CREMA_F32, &layout[MANY - KEPT]});
  assert_int_equal(conversions, MANY + 1);
  cr_tensor_destroy(tensor);
}

/* Finding a format that is there is a use of it. */
FIXTURE_TEST(the_one_that_was_not_used_for_longest_goes) {
  fixture *f = *state;
  cr_layout layout[KEPT];
  cr_tensor *tensor = new_tensor(COUNT);
  write_counting(f, tensor, 1);
  for (int i = 0; i < KEPT - 1; ++i) read_floats(f, tensor, format_of(f, &layout[i]));
  read_floats(f, tensor, (cr_format){CREMA_F32, &layout[0]});
  read_floats(f, tensor, format_of(f, &layout[KEPT - 1])); /* in the place of the second */
  assert_int_equal(conversions, KEPT);
  for (int i = 0; i < KEPT; ++i) {
    if (i != 1) read_floats(f, tensor, (cr_format){CREMA_F32, &layout[i]});
  }
  assert_int_equal(conversions, KEPT);
  cr_tensor_destroy(tensor);
}

/* While values are shared, another thread may be reading each format that is valid. */
FIXTURE_TEST(valid_formats_of_shared_values_stay) {
  fixture *f = *state;
  cr_layout layout[MANY];
  const float *value[MANY];
  cr_tensor *a = new_tensor(COUNT), *b = new_tensor(COUNT);
  assert_int_equal(cr_tensor_share(b, a), CREMA_OK);
  write_counting(f, a, 1);
  for (int i = 0; i < MANY; ++i) value[i] = read_floats(f, a, format_of(f, &layout[i]));
  assert_int_equal(conversions, MANY);
  assert_int_equal(bytes_of_tensor(b), PLAIN_BYTES + reversed_bytes(MANY));
  for (int i = 0; i < MANY; ++i) {
    assert_ptr_equal(read_floats(f, b, (cr_format){CREMA_F32, &layout[i]}), value[i]);
    assert_true(value[i][0] == COUNT);
  }
  assert_int_equal(conversions, MANY);
  /* A write has the values to itself. */
  write_counting(f, b, 2);
  assert_int_equal(bytes_of_tensor(a), PLAIN_BYTES + reversed_bytes(KEPT - 1));
  cr_tensor_destroy(a);
  cr_tensor_destroy(b);
}

/* Nobody reads a format that is stale, so it makes room for another even while values are shared.
 */
FIXTURE_TEST(stale_formats_of_shared_values_go) {
  fixture *f = *state;
  cr_layout layout[MANY];
  cr_tensor *a = new_tensor(COUNT), *b = new_tensor(COUNT);
  assert_int_equal(cr_tensor_share(b, a), CREMA_OK);
  write_counting(f, a, 1);
  for (int i = 0; i < KEPT - 1; ++i) read_floats(f, a, format_of(f, &layout[i]));
  write_counting(f, a, 2);
  for (int i = KEPT - 1; i < 2 * (KEPT - 1); ++i) {
    assert_true(read_floats(f, b, format_of(f, &layout[i]))[COUNT - 1] == 2);
    assert_int_equal(bytes_of_tensor(a), PLAIN_BYTES + reversed_bytes(KEPT - 1));
  }
  /* All are valid now. */
  read_floats(f, b, format_of(f, &layout[2 * (KEPT - 1)]));
  assert_int_equal(bytes_of_tensor(a), PLAIN_BYTES + reversed_bytes(KEPT));
  cr_tensor_destroy(b);
  /* Alone again, the tensor makes room. */
  read_floats(f, a, format_of(f, &layout[MANY - 1]));
  assert_int_equal(bytes_of_tensor(a), PLAIN_BYTES + reversed_bytes(KEPT));
  cr_tensor_destroy(a);
}

/* ---- another thread ---- */

enum { WAIT_SECONDS = 10 };

static struct {
  cr_tensor *tensor;
  pthread_t thread;
  crema_status status;
  const void *value;
  atomic_bool read;
  bool read_in_time;
} reader;

static void *read_plain(void *arg) {
  (void)arg;
  reader.status = cr_tensor_host_read(reader.tensor, &reader.value);
  atomic_store(&reader.read, true);
  return NULL;
}

static void read_elsewhere(void) {
  double start = cr_clock_seconds();
  assert_int_equal(pthread_create(&reader.thread, NULL, read_plain, NULL), 0);
  while (!atomic_load(&reader.read) && cr_clock_seconds() - start < WAIT_SECONDS) {
    cr_clock_sleep(1e-4);
  }
  reader.read_in_time = atomic_load(&reader.read);
}

/* Whoever wants a format that is valid does not wait while another thread makes one, be it the head
 * or a format that was made before or after the head. */
FIXTURE_TEST(valid_formats_are_read_without_waiting) {
  fixture *f = *state;
  for (int head = 0; head < 3; ++head) {
    cr_layout layout[3];
    crema_devptr out = {0};
    cr_tensor *a = new_tensor(COUNT), *b = new_tensor(COUNT);
    assert_int_equal(cr_tensor_share(b, a), CREMA_OK);
    if (head != 1) write_counting(f, a, 7);
    if (head > 0) {
      cr_format format = format_of(f, &layout[head]);
      assert_int_equal(cr_tensor_write(a, f->context, format, &out), CREMA_OK);
      for (int i = 0; i < COUNT; ++i) ((float *)out.address)[i] = (float)(7 + COUNT - 1 - i);
      read_floats(f, a, CR_PLAIN_F32);
    }
    reader.tensor = b;
    atomic_store(&reader.read, false);
    during_conversion = read_elsewhere;
    read_floats(f, a, format_of(f, &layout[0]));
    during_conversion = NULL;
    assert_int_equal(pthread_join(reader.thread, NULL), 0);
    assert_int_equal(reader.status, CREMA_OK);
    assert_true(((const float *)reader.value)[0] == 7);
    if (!reader.read_in_time) fail_msg("case %d: the reader waited for the conversion", head);
    cr_tensor_destroy(a);
    cr_tensor_destroy(b);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
