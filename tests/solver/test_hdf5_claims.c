/* HDF5 files of a few kilobytes that claim to hold gigabytes: states, models and data sets are
 * refused before memory is allocated for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "core/hdf5_file.h"
#include "data/hdf5_probe.h"
#include "solver/solver.h"

enum { PATH_SIZE = 96 };

static char path[PATH_SIZE];

static int make_path(void **state) {
  (void)state;
  snprintf(path, sizeof path, "/tmp/crema_test_claims_XXXXXX");
  int fd = mkstemp(path);
  if (fd >= 0) close(fd);
  return fd < 0 || cr_hdf5_load() != CREMA_OK;
}

static int remove_path(void **state) {
  (void)state;
  unsetenv("CREMA_MAX_FILE");
  return unlink(path);
}

static hid_t begin(void) {
  hid_t file = cr_h5()->Fcreate(path, cr_h5()->F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  assert_true(file >= 0);
  return file;
}

/* A data set of which nothing is written but its extents; with `chunk` in chunks of so many. */
static void announce(hid_t where, const char *name, hid_t type, hsize_t count, hsize_t chunk) {
  hsize_t most = H5S_UNLIMITED;
  hid_t how = cr_h5()->Pcreate(cr_h5()->P_DATASET_CREATE);
  if (chunk > 0) assert_true(cr_h5()->Pset_chunk(how, 1, &chunk) >= 0);
  hid_t space = cr_h5()->Screate_simple(1, &count, chunk > 0 ? &most : NULL);
  hid_t set = cr_h5()->Dcreate2(where, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
  assert_true(set >= 0);
  cr_h5()->Dclose(set);
  cr_h5()->Sclose(space);
  cr_h5()->Pclose(how);
}

static void end(hid_t file) {
  struct stat info;
  assert_true(cr_h5()->Fclose(file) >= 0);
  assert_int_equal(stat(path, &info), 0);
  assert_true(info.st_size < 10000);
}

TEST(data_sets_are_refused) {
  static const struct {
    hsize_t count, chunk;
    crema_status status;
  } cases[] = {
      {INT32_MAX, 0, CREMA_E_RANGE},    {((hsize_t)16 << 20) + 1, 0, CREMA_E_RANGE},
      {(hsize_t)16 << 20, 0, CREMA_OK}, {1, (hsize_t)1 << 29, CREMA_E_RANGE},
      {1, (hsize_t)16 << 20, CREMA_OK},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    crema_shape shape;
    hid_t file = begin();
    announce(file, "data", cr_h5()->T_IEEE_F32LE, cases[i].count, cases[i].chunk);
    end(file);
    assert_int_equal(probe(path, "data", &shape), cases[i].status);
    if (cases[i].status == CREMA_OK) continue;
    assert_error_has("'data'");
    assert_error_has("CREMA_MAX_FILE");
  }
  /* A higher limit allows it. */
  crema_shape shape;
  hid_t file = begin();
  announce(file, "data", cr_h5()->T_IEEE_F32LE, INT32_MAX, 0);
  end(file);
  setenv("CREMA_MAX_FILE", "8G", 1);
  ok(probe(path, "data", &shape));
  unsetenv("CREMA_MAX_FILE");
}

/* A narrow type in the file is a wide one in memory. */
TEST(memory_counts) {
  crema_shape shape;
  hid_t file = begin();
  announce(file, "data", cr_h5()->T_STD_U8LE, (hsize_t)20 << 20, 0);
  end(file);
  assert_fails(probe(path, "data", &shape), CREMA_E_RANGE, "83886080 bytes");
}

/* What is really in the file, packed or not, is read whatever its size. */
TEST(whole_files_are_read) {
  enum { VALUES = 20 << 20 };
  crema_shape found;
  const crema_shape shape = {.axes = 1, .dim = {VALUES}};
  cr_hdf5_writer *writer = NULL;
  float *values = calloc(VALUES, sizeof *values);
  assert_non_null(values);
  values[VALUES - 1] = 7;
  ok(cr_hdf5_writer_open(path, &writer));
  ok(cr_hdf5_writer_append(writer, "data", &shape, CREMA_F32, values));
  cr_hdf5_writer_close(writer);
  values[VALUES - 1] = 0;
  cr_hdf5_reader *reader = NULL;
  ok(cr_hdf5_reader_open(path, &reader));
  ok(cr_hdf5_set_probe(reader, "data", &found));
  ok(cr_hdf5_set_read(reader, "data", &found, CREMA_F32, values));
  cr_hdf5_reader_close(reader);
  assert_true(values[VALUES - 1] == 7);
  free(values);
}

static void write_one(hid_t file, const char *name, hid_t type, hid_t memory, const void *value) {
  hid_t space = cr_h5()->Screate(H5S_SCALAR);
  hid_t set = cr_hdf5_dataset(file, name, type, space, H5P_DEFAULT);
  assert_true(set >= 0);
  assert_true(cr_h5()->Dwrite(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) >= 0);
  cr_h5()->Dclose(set);
  cr_h5()->Sclose(space);
}

/* The parts of a state whose size is up to the file. */
TEST(states_are_refused) {
  Caffe__SolverState *found = NULL;
  const int iteration = 3;
  for (int bad = 0; bad < 3; ++bad) {
    hid_t file = begin();
    hid_t group = cr_h5()->Gcreate2(file, "history", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    write_one(file, "iter", cr_h5()->T_STD_I32LE, cr_h5()->T_NATIVE_INT, &iteration);
    announce(group, "0", cr_h5()->T_IEEE_F32LE, bad == 1 ? (hsize_t)5 << 28 : 4, 0);
    if (bad == 2) announce(file, "crema_state", cr_h5()->T_STD_U8LE, (hsize_t)5 << 30, 0);
    cr_h5()->Gclose(group);
    end(file);
    crema_status status = cr_state_read_hdf5(path, &found);
    assert_int_equal(status, bad == 0 ? CREMA_OK : CREMA_E_RANGE);
    if (bad == 0) cr_message_free(&found->base);
    else assert_error_has(path);
    if (bad == 1) assert_error_has("data set /history/0: claims to hold 5368709120 bytes");
    if (bad == 2) assert_error_has("/crema_state");
  }
}

/* 2^33 x 2^33 values are none at all in 64 bits. */
TEST(extents_that_overflow) {
  const hsize_t dim[] = {(hsize_t)1 << 33, (hsize_t)1 << 33}, chunk[] = {1, 1};
  crema_shape shape;
  hid_t file = begin(), how = cr_h5()->Pcreate(cr_h5()->P_DATASET_CREATE);
  assert_true(cr_h5()->Pset_chunk(how, 2, chunk) >= 0);
  hid_t space = cr_h5()->Screate_simple(2, dim, NULL);
  hid_t set = cr_h5()->Dcreate2(file, "data", cr_h5()->T_NATIVE_FLOAT, space, H5P_DEFAULT, how,
                                H5P_DEFAULT);
  assert_true(set >= 0);
  cr_h5()->Dclose(set);
  cr_h5()->Sclose(space);
  cr_h5()->Pclose(how);
  end(file);
  crema_status status = probe(path, "data", &shape);
  assert_error_has("has too many elements");
  assert_int_equal(status, CREMA_E_SHAPE);
}

TEST(only_regular_files) {
  crema_shape shape;
  assert_fails(probe("/tmp", "data", &shape), CREMA_E_IO, "/tmp: a folder");
  assert_fails(probe("/dev/zero", "data", &shape), CREMA_E_IO, "/dev/zero: a pipe or device");
  assert_int_equal(probe("/dev/null/x", "data", &shape), CREMA_E_IO);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_fails(probe(path, "data", &shape), CREMA_E_IO, path);
}

int main(void) {
  return run_all_tests(make_path, remove_path);
}
