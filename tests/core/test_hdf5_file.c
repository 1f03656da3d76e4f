/* HDF5 files as a whole: opened, measured, built in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hdf5.h>

#include "check.h"
#include "core/hdf5_content.h"
#include "core/hdf5_file.h"
#include "folder.h"

enum { MIB = 1 << 20 };

static int begin(void **state) {
  return make_folder(state) != 0 || cr_hdf5_load() != CREMA_OK;
}

/* The newest numbers that HDF5 has given to a space, a list of properties and a type, and how many
 * files and data sets are open. */
typedef struct moment {
  hid_t newest[3];
  ssize_t open;
} moment;

static moment now(void) {
  moment m = {{H5Screate(H5S_NULL), H5Pcreate(H5P_FILE_ACCESS), H5Tcopy(H5T_NATIVE_INT)}, 0};
  assert_true(H5Sclose(m.newest[0]) >= 0);
  assert_true(H5Pclose(m.newest[1]) >= 0);
  assert_true(H5Tclose(m.newest[2]) >= 0);
  m.open = H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_FILE | H5F_OBJ_DATASET | H5F_OBJ_GROUP);
  return m;
}

/* Nothing that was opened since is still open. */
static void assert_all_closed(moment before) {
  moment after = now();
  assert_true(after.open == before.open);
  for (int kind = 0; kind < 3; ++kind) {
    for (hid_t id = before.newest[kind] + 1; id < after.newest[kind]; ++id) {
      assert_true(H5Iis_valid(id) <= 0);
    }
  }
}

/* ---- data sets ---- */

typedef struct set_of {
  hsize_t extent[2]; /* of two axes */
  hsize_t chunk[2];  /* 0: none */
  hid_t type;
  hsize_t stored; /* floats that are written, from the first chunk on */
} set_of;

/* A data set "x" in a new file in memory. */
static hid_t make_set(hid_t file, const set_of *what) {
  static const hsize_t none[2] = {0, 0}, any[2] = {H5S_UNLIMITED, H5S_UNLIMITED};
  hid_t how = H5Pcreate(H5P_DATASET_CREATE);
  bool chunked = what->chunk[0] != 0;
  if (chunked) assert_true(H5Pset_chunk(how, 2, what->chunk) >= 0);
  hid_t space = H5Screate_simple(2, what->extent, chunked ? any : NULL);
  hid_t set = H5Dcreate2(file, "x", what->type, space, H5P_DEFAULT, how, H5P_DEFAULT);
  assert_true(set >= 0);
  if (what->stored > 0) {
    hsize_t part[2] = {1, what->stored};
    float *value = calloc(what->stored, sizeof *value);
    assert_non_null(value);
    hid_t memory = H5Screate_simple(2, part, NULL);
    assert_true(H5Sselect_hyperslab(space, H5S_SELECT_SET, none, NULL, part, NULL) >= 0);
    assert_true(H5Dwrite(set, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, value) >= 0);
    H5Sclose(memory);
    free(value);
  }
  H5Sclose(space);
  H5Pclose(how);
  return set;
}

static crema_status check_claim_of(set_of what) {
  hid_t file = -1;
  cr_hdf5_info info;
  ok(cr_hdf5_create(&file));
  H5Dclose(make_set(file, &what));
  moment before = now();
  ok(cr_hdf5_content_look(file, "x", &info));
  assert_int_equal(info.kind, CR_HDF5_SET);
  assert_all_closed(before);
  H5Fclose(file);
  return cr_hdf5_check_claim(&info);
}

/* 64 MiB of floats without a byte in the file. */
TEST(little_may_be_claimed) {
  const hid_t type[] = {H5T_NATIVE_FLOAT, H5T_NATIVE_UINT8, H5T_NATIVE_INT};
  for (size_t i = 0; i < sizeof type / sizeof *type; ++i) {
    /* Narrow values become floats in memory. */
    set_of what = {{16, MIB}, {16, 16}, type[i], 0};
    ok(check_claim_of(what));
    what.extent[0] = 17;
    assert_fails(check_claim_of(what), CREMA_E_RANGE,
                 "claims to hold 71303168 bytes; the file stores 0; at most 67108864 ");
    assert_error_has("CREMA_MAX_FILE");
  }
  set_of wide = {{8, MIB}, {16, 16}, H5T_NATIVE_DOUBLE, 0};
  ok(check_claim_of(wide));
  wide.extent[0] = 9;
  assert_int_equal(check_claim_of(wide), CREMA_E_RANGE);
  set_of empty = {{0, MIB}, {0, 0}, H5T_NATIVE_DOUBLE, 0};
  ok(check_claim_of(empty));
}

/* A chunk is unpacked as a whole, however little of it is in the set. */
TEST(chunks_are_claimed_whole) {
  set_of what = {{1, 1}, {4096, 4096}, H5T_NATIVE_FLOAT, 0};
  ok(check_claim_of(what));
  what.chunk[0] = 4097;
  assert_fails(check_claim_of(what), CREMA_E_RANGE, "claims to hold 67125248 bytes");
}

/* What is stored may be unpacked to 1,100 times as much. */
TEST(much_may_be_claimed_by_what_is_stored) {
  set_of what = {{1100, 65536}, {1, 65536}, H5T_NATIVE_FLOAT, 65536};
  ok(check_claim_of(what));
  what.extent[0] = 1101;
  assert_fails(check_claim_of(what), CREMA_E_RANGE, "the file stores 262144; at most 288358400 ");
}

TEST(the_environment_sets_the_limit) {
  set_of what = {{1, 2560}, {0, 0}, H5T_NATIVE_FLOAT, 0};
  setenv("CREMA_MAX_FILE", "10K", 1);
  ok(check_claim_of(what));
  what.extent[1] = 2561;
  assert_int_equal(check_claim_of(what), CREMA_E_RANGE);
  setenv("CREMA_MAX_FILE", "much", 1);
  assert_int_equal(check_claim_of(what), CREMA_E_ARGUMENT);
  unsetenv("CREMA_MAX_FILE");
}

/* Products of extents that no number holds are as large as numbers go. */
TEST(claims_do_not_wrap_around) {
  const hsize_t half = (hsize_t)1 << 31;
  set_of what = {{half, half}, {16, 16}, H5T_NATIVE_FLOAT, 0};
  assert_fails(check_claim_of(what), CREMA_E_RANGE, "claims to hold 18446744073709551615 bytes");
}

TEST(what_is_no_set_is_corrupt) {
  const cr_hdf5_info unreadable = {.kind = CR_HDF5_SET, .shape = {.axes = -1}};
  crema_shape shape;
  assert_fails(cr_hdf5_check_claim(&unreadable), CREMA_E_CORRUPT, "its extents cannot be read");
  assert_fails(cr_hdf5_shape(&unreadable, &shape), CREMA_E_CORRUPT, "its extents cannot be read");
}

/* ---- messages ---- */

static herr_t note(hid_t stack, void *user) {
  (void)stack;
  ++*(int *)user;
  return 0;
}

TEST(messages_are_silenced_and_restored) {
  int own = 0;
  H5E_auto2_t function, host_function;
  void *user, *host_user;
  H5Eget_auto2(H5E_DEFAULT, &host_function, &host_user);
  H5Eset_auto2(H5E_DEFAULT, note, &own);
  cr_hdf5_hush before = cr_hdf5_hush_begin();
  assert_true(H5Dclose(-1) < 0);
  assert_int_equal(own, 0);
  cr_hdf5_hush_end(before);
  H5Eget_auto2(H5E_DEFAULT, &function, &user);
  assert_true(function == note && user == &own);
  assert_true(H5Dclose(-1) < 0);
  assert_int_equal(own, 1);
  H5Eset_auto2(H5E_DEFAULT, host_function, host_user);
}

/* ---- files ---- */

/* Writes a file with a few values. */
static void write_file(const char *path, int values) {
  hid_t file = -1;
  cr_file_draft draft;
  hsize_t extent[1] = {(hsize_t)values};
  moment before = now();
  ok(cr_file_draft_begin(path, &draft));
  ok(cr_hdf5_create(&file));
  hid_t space = H5Screate_simple(1, extent, NULL);
  hid_t set = cr_hdf5_dataset(file, "values", H5T_NATIVE_INT, space, H5P_DEFAULT);
  assert_true(set >= 0);
  int *value = calloc((size_t)values, sizeof *value);
  assert_non_null(value);
  for (int i = 0; i < values; ++i) value[i] = i + 1;
  assert_true(H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) >= 0);
  free(value);
  H5Dclose(set);
  H5Sclose(space);
  ok(cr_file_draft_end(&draft, cr_hdf5_finish(file, &draft, CREMA_OK)));
  assert_all_closed(before);
}

/* When an object was made, as the file tells; 0: it does not. */
static time_t time_of(hid_t object) {
#if H5_VERSION_GE(1, 12, 0)
  H5O_info2_t info;
  assert_true(H5Oget_info3(object, &info, H5O_INFO_TIME) >= 0);
#else
  H5O_info_t info;
  assert_true(H5Oget_info2(object, &info, H5O_INFO_TIME) >= 0);
#endif
  return info.ctime;
}

TEST(files_are_built_in_memory) {
  int value[1000] = {0};
  hid_t file = -1;
  write_file(path_of("a.h5"), 1000);
  moment before = now();
  ok(cr_hdf5_content_open(path_of("a.h5"), false, &file));
  hid_t set = H5Dopen2(file, "values", H5P_DEFAULT);
  assert_true(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) >= 0);
  for (int i = 0; i < 1000; ++i) assert_int_equal(value[i], i + 1);
  /* The same values make the same bytes at any time. */
  assert_true(time_of(set) == 0);
  H5Dclose(set);
  H5Fclose(file);
  assert_all_closed(before);
  unlink(path_of("a.h5"));
}

/* A file larger than what HDF5 takes from memory at once. */
TEST(large_files_are_built) {
  hid_t file = -1;
  cr_hdf5_info info;
  write_file(path_of("a.h5"), 3 * MIB);
  ok(cr_hdf5_content_open(path_of("a.h5"), false, &file));
  ok(cr_hdf5_content_look(file, "values", &info));
  assert_true(info.stored == 12 * MIB && info.count == 3 * MIB);
  H5Fclose(file);
  unlink(path_of("a.h5"));
}

TEST(failures_are_passed_on) {
  hid_t file = -1;
  cr_file_draft draft;
  moment before = now();
  ok(cr_file_draft_begin(path_of("b.h5"), &draft));
  ok(cr_hdf5_create(&file));
  assert_int_equal(cr_hdf5_finish(file, &draft, CREMA_E_NUMERIC), CREMA_E_NUMERIC);
  assert_int_equal(cr_file_draft_end(&draft, CREMA_E_NUMERIC), CREMA_E_NUMERIC);
  assert_all_closed(before);
  assert_int_equal(access(path_of("b.h5"), F_OK), -1);
  /* More than the draft keeps back, onto a disk that is full. */
  ok(cr_file_draft_begin("/dev/full", &draft));
  ok(cr_hdf5_create(&file));
  set_of what = {{1, 65536}, {0, 0}, H5T_NATIVE_FLOAT, 65536};
  H5Dclose(make_set(file, &what));
  assert_fails(cr_hdf5_finish(file, &draft, CREMA_OK), CREMA_E_IO,
               "/dev/full: cannot write: No space left on device");
  assert_int_equal(cr_file_draft_end(&draft, CREMA_E_IO), CREMA_E_IO);
  assert_all_closed(before);
  cr_hdf5_hush hush = cr_hdf5_hush_begin();
  ok(cr_file_draft_begin(path_of("b.h5"), &draft));
  assert_fails(cr_hdf5_finish(-1, &draft, CREMA_OK), CREMA_E_NO_MEMORY,
               "b.h5: cannot build the HDF5 file");
  assert_int_equal(cr_file_draft_end(&draft, CREMA_E_IO), CREMA_E_IO);
  assert_true(cr_hdf5_dataset(-1, "x", H5T_NATIVE_INT, -1, H5P_DEFAULT) < 0);
  cr_hdf5_hush_end(hush);
  assert_all_closed(before);
}

int main(void) {
  return run_all_tests(begin, remove_folder);
}
