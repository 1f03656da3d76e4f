/* Every allocation fails once in queues, buffers, arenas, threads and files: nothing is lost, what
 * was there stays, and no file is left behind. */
#include "each_allocation.h"

#include <dirent.h>
#include <string.h>

#include "core/arena.h"
#include "core/buffer.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/hdf5_file.h"
#include "core/hdf5_reader.h"
#include "core/queue.h"
#include "core/thread.h"
#include "folder.h"
#include "lock_check.h"

/* ---- queues and threads ---- */

/* A queue that has no room for more keeps what it has, in order. */
static crema_status use_queues(void *unused) {
  enum { ITEMS = 100 };
  static char item[ITEMS];
  void *items[ITEMS], *out = NULL;
  cr_queue *queue = NULL;
  cr_queue_pair pair = {0};
  crema_status status;
  int pushed = 0;
  (void)unused;
  for (int i = 0; i < ITEMS; ++i) items[i] = &item[i];
  CR_TRY_GOTO(cr_queue_create(0, &queue), out);
  for (; pushed < ITEMS; ++pushed) CR_TRY_GOTO(cr_queue_push(queue, items[pushed]), out);
  CR_TRY_GOTO(cr_queue_pair_init(&pair, items, 3), out);
  cr_queue_fail(queue, CREMA_E_RANGE, "no more of them");
out:
  if (queue != NULL) assert_int_equal(cr_queue_size(queue), pushed);
  for (int i = 0; i < pushed; ++i) {
    assert_true(cr_queue_try_pop(queue, &out));
    assert_ptr_equal(out, items[i]);
  }
  cr_queue_pair_free(&pair, NULL);
  cr_queue_destroy(queue);
  return status;
}

/* Without memory for its text the reason of a closed queue is told nevertheless. */
static crema_status close_a_queue(void *unused) {
  cr_queue *queue = NULL;
  void *out = NULL;
  (void)unused;
  CR_TRY(cr_queue_create(1, &queue));
  cr_queue_fail(queue, CREMA_E_RANGE, "no more of them");
  crema_status status = cr_queue_pop(queue, NULL, &out);
  assert_int_equal(status, CREMA_E_RANGE);
  assert_true(crema_error_text()[0] != '\0');
  cr_queue_destroy(queue);
  return status;
}

static crema_status find_fault(void *unused) {
  (void)unused;
  return cr_fail(CREMA_E_CORRUPT, "what the thread found");
}

static crema_status fail_in_a_thread(void *unused) {
  cr_thread *thread = NULL;
  (void)unused;
  CR_TRY(cr_thread_start(&thread, "crema-fails", find_fault, NULL));
  crema_status status = cr_thread_join(&thread);
  assert_null(thread);
  return status;
}

TEST(queues_and_threads) {
  each_allocation_fails("queues", use_queues, NULL, CREMA_OK, 8);
  each_allocation_fails("a closed queue", close_a_queue, NULL, CREMA_E_RANGE, 3);
  each_allocation_fails("threads", fail_in_a_thread, NULL, CREMA_E_CORRUPT, 2);
}

/* ---- buffers and arenas ---- */

static crema_status use_buffers(void *unused) {
  cr_buffer buffer = {0};
  crema_status status;
  size_t size = 0;
  (void)unused;
  CR_TRY_GOTO(cr_buffer_print(&buffer, "%s", "begin "), out);
  for (size = 6; size < 5000; size += 10) {
    CR_TRY_GOTO(cr_buffer_append(&buffer, "0123456789", 10), out);
  }
out:
  /* What is in it stays, with its end. */
  assert_int_equal(buffer.size, size);
  if (size > 0) {
    assert_memory_equal(buffer.data, "begin ", 6);
    assert_int_equal(strlen(buffer.data), size);
  }
  cr_buffer_free(&buffer);
  return status;
}

static crema_status use_arenas(void *unused) {
  enum { TEXTS = 50 };
  cr_arena arena = {0};
  crema_status status = CREMA_OK;
  char *text[TEXTS], line[2000];
  int made = 0;
  (void)unused;
  memset(line, 'x', sizeof line - 1);
  line[sizeof line - 1] = '\0';
  for (; made < TEXTS; ++made) CR_TRY_GOTO(cr_arena_text(&arena, line, &text[made]), out);
out:
  for (int i = 0; i < made; ++i) assert_string_equal(text[i], line);
  cr_arena_free(&arena);
  return status;
}

TEST(buffers_and_arenas) {
  each_allocation_fails("buffers", use_buffers, NULL, CREMA_OK, 5);
  each_allocation_fails("arenas", use_arenas, NULL, CREMA_OK, 4);
}

/* ---- files ---- */

static crema_status read_it(void *name) {
  cr_buffer bytes = {0};
  crema_status status = cr_file_read(path_of(name), &bytes);
  if (status == CREMA_OK) assert_string_equal(bytes.data, "old");
  cr_buffer_free(&bytes);
  return status;
}

/* The old content stays until the new one is whole. */
static crema_status write_it(void *name) {
  crema_status status = cr_file_write(path_of(name), "old", 3);
  assert_int_equal(count_names(""), 1);
  return status;
}

static crema_status write_a_new_one(void *name) {
  crema_status status = cr_file_write(path_of(name), "new", 3);
  assert_int_equal(count_names(""), status == CREMA_OK ? 2 : 1);
  unlink(path_of(name));
  return status;
}

static crema_status make_a_folder(void *name) {
  cr_file_location location;
  crema_status status = cr_file_location_begin(path_of(name), true, &location);
  if (status == CREMA_OK) {
    assert_int_equal(access(location.path, F_OK), 0);
    status = cr_file_location_end(&location, CREMA_OK);
  }
  assert_int_equal(count_names(""), status == CREMA_OK ? 2 : 1);
  if (status == CREMA_OK) assert_int_equal(rmdir(path_of(name)), 0);
  return status;
}

static crema_status give_up_a_folder(void *name) {
  cr_file_location location;
  CR_TRY(cr_file_location_begin(path_of(name), true, &location));
  crema_status status = cr_file_location_end(&location, cr_fail(CREMA_E_CLOSED, "given up"));
  assert_int_equal(count_names(""), 1);
  return status;
}

static crema_status resolve(void *name) {
  char *path = NULL;
  CR_TRY(cr_file_resolve_input(path_of("net"), name, &path));
  assert_string_equal(path, path_of(name));
  free(path);
  return CREMA_OK;
}

/* What a killed process has left is removed where there is memory to look for it. */
static crema_status sweep(void *name) {
  (void)name;
  cr_file_sweep(path_of("a"));
  assert_int_equal(access(path_of("a"), F_OK), 0);
  return cr_file_draft_check(path_of("a"));
}

TEST_BETWEEN(files, make_folder, remove_folder) {
  char a[] = "a", b[] = "b", d[] = "d";
  assert_int_equal(cr_file_write(path_of("a"), "old", 3), CREMA_OK);
  each_allocation_fails("reading", read_it, a, CREMA_OK, 1);
  each_allocation_fails("a file that is not there", read_it, b, CREMA_E_NOT_FOUND, 0);
  each_allocation_fails("writing", write_it, a, CREMA_OK, 2);
  each_allocation_fails("a new file", write_a_new_one, b, CREMA_OK, 2);
  each_allocation_fails("a new folder", make_a_folder, d, CREMA_OK, 2);
  each_allocation_fails("a folder given up", give_up_a_folder, d, CREMA_E_CLOSED, 2);
  each_allocation_fails("resolving", resolve, a, CREMA_OK, 1);
  each_allocation_fails("sweeping", sweep, NULL, CREMA_OK, 1);
  assert_int_equal(read_it(a), CREMA_OK);
  unlink(path_of("a"));
}

static const float numbers[3] = {1, 2.5F, -3};

static crema_status write_numbers(void *name) {
  const hsize_t three = 3;
  cr_file_draft draft;
  hid_t file = -1;
  CR_TRY(cr_file_draft_begin(path_of(name), &draft));
  crema_status status = cr_hdf5_create(&file);
  if (status == CREMA_OK) {
    hid_t space = cr_h5()->Screate_simple(1, &three, NULL);
    hid_t set = cr_hdf5_dataset(file, "set", cr_h5()->T_NATIVE_FLOAT, space, H5P_DEFAULT);
    cr_h5()->Dwrite(set, cr_h5()->T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers);
    cr_h5()->Dclose(set);
    cr_h5()->Sclose(space);
    status = cr_hdf5_finish(file, &draft, CREMA_OK);
  }
  return cr_file_draft_end(&draft, status);
}

static crema_status read_numbers(void *name) {
  float found[3] = {0};
  cr_hdf5_reader *file = NULL;
  cr_buffer names = {0};
  CR_TRY(cr_hdf5_reader_open(path_of(name), &file));
  assert_non_null(file);
  crema_status status = cr_hdf5_list(file, "/", &names);
  if (status == CREMA_OK) status = cr_hdf5_read(file, "set", CR_HDF5_F32, found, sizeof found);
  if (status == CREMA_OK) {
    assert_memory_equal(found, numbers, sizeof found);
    assert_string_equal(names.data, "dset");
  }
  cr_hdf5_reader_close(file);
  cr_buffer_free(&names);
  return status;
}

/* Allocations of the child that reads count, too. */
TEST_BETWEEN(hdf5_files, make_folder, remove_folder) {
  char a[] = "a";
  assert_int_equal(cr_hdf5_load(), CREMA_OK);
  assert_int_equal(write_numbers(a), CREMA_OK);
  for (int here = 0; here < 2; ++here) {
    setenv("CREMA_HDF5_FORK", here ? "0" : "1", 1);
    each_allocation_fails("HDF5 values", read_numbers, a, CREMA_OK, here ? 4 : 5);
  }
  each_allocation_fails("an HDF5 file", write_numbers, a, CREMA_OK, 2);
  unsetenv("CREMA_HDF5_FORK");
  unlink(path_of("a"));
}

int main(void) {
  return run_all_tests(locks_begin, locks_end);
}
