/* Data sets in HDF5 files: what is written is read again, later samples have to fit, and a file
 * that cannot grow is noticed before it is written to. */
#define _GNU_SOURCE /* fallocate */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/hdf5_file.h"
#include "core/hdf5_reader.h"
#include "data/pipeline/hdf5_set.h"
#include "folder.h"

/* Beyond the axes that are used, extents mean nothing. */
static crema_shape shape_of(int axes, int64_t first, int64_t second, int64_t beyond) {
  crema_shape shape = {.axes = axes, .dim = {first, second}};
  for (int i = axes; i < CREMA_MAX_AXES; ++i) shape.dim[i] = beyond;
  return shape;
}

static void assert_set(const char *path, const char *name, const crema_shape *shape,
                       const float *values) {
  cr_hdf5_reader *reader = NULL;
  crema_shape found;
  float read[64];
  ok(cr_hdf5_reader_open(path, &reader));
  ok(cr_hdf5_set_probe(reader, name, &found));
  assert_true(crema_shape_equal(&found, shape));
  ok(cr_hdf5_set_read(reader, name, shape, CREMA_F32, read));
  assert_memory_equal(read, values,
                      (size_t)crema_shape_count(shape, 0, shape->axes) * sizeof *read);
  cr_hdf5_reader_close(reader);
}

TEST(samples_are_added) {
  const char *path = path_of("added.h5");
  cr_hdf5_writer *writer = NULL;
  float values[12];
  const crema_shape first = shape_of(2, 2, 3, 0), then = shape_of(2, 1, 3, 99);
  const crema_shape narrow = shape_of(2, 2, 2, 0), flat = shape_of(1, 3, 3, 3);
  const crema_shape none = shape_of(2, 0, 3, 0), no_axes = shape_of(0, 1, 1, 1);
  for (int i = 0; i < 12; ++i) values[i] = (float)i + 0.5f;
  ok(cr_hdf5_writer_open(path, &writer));
  assert_fails(cr_hdf5_writer_append(writer, "g/data", &none, CREMA_F32, values), CREMA_E_SHAPE,
               "data set 'g/data': nothing to write");
  assert_fails(cr_hdf5_writer_append(writer, "g/data", &no_axes, CREMA_F32, values), CREMA_E_SHAPE,
               "nothing to write");
  ok(cr_hdf5_writer_append(writer, "g/data", &first, CREMA_F32, values));
  ok(cr_hdf5_writer_append(writer, "g/data", &then, CREMA_F32, values + 6));
  assert_fails(cr_hdf5_writer_append(writer, "g/data", &narrow, CREMA_F32, values), CREMA_E_SHAPE,
               "cannot add samples of shape 2 2 (4) to samples of shape 3 3 (9)");
  assert_fails(cr_hdf5_writer_append(writer, "g/data", &flat, CREMA_F32, values), CREMA_E_SHAPE,
               "cannot add samples of shape 3 (3)");
  ok(cr_hdf5_writer_append(writer, "g/data", &then, CREMA_F32, values + 9));
  ok(cr_hdf5_writer_append(writer, "other", &flat, CREMA_F32, values + 1));
  ok(cr_hdf5_writer_flush(writer));
  cr_hdf5_writer_close(writer);
  const crema_shape all = shape_of(2, 4, 3, 0);
  assert_set(path, "g/data", &all, values);
  assert_set(path, "other", &flat, values + 1);
  unlink(path);
}

TEST(sets_that_do_not_fit) {
  const char *path = path_of("fit.h5");
  cr_hdf5_writer *writer = NULL;
  cr_hdf5_reader *reader = NULL;
  const float values[6] = {1, 2, 3, 4, 5, 6};
  float read[6];
  const crema_shape shape = shape_of(2, 2, 3, 0), other = shape_of(2, 3, 2, 0);
  crema_shape found;
  ok(cr_hdf5_writer_open(path, &writer));
  ok(cr_hdf5_writer_append(writer, "g/data", &shape, CREMA_F32, values));
  cr_hdf5_writer_close(writer);
  ok(cr_hdf5_reader_open(path, &reader));
  assert_fails(cr_hdf5_set_read(reader, "g/data", &other, CREMA_F32, read), CREMA_E_SHAPE,
               "data set 'g/data': shape is 2 3 (6), was 3 2 (6) before");
  assert_fails(cr_hdf5_set_probe(reader, "gone", &found), CREMA_E_NOT_FOUND,
               "data set 'gone': the file has no such data set");
  assert_fails(cr_hdf5_set_probe(reader, "g", &found), CREMA_E_CORRUPT,
               "data set 'g': not a data set");
  assert_fails(cr_hdf5_set_read(reader, "gone", &shape, CREMA_F32, read), CREMA_E_NOT_FOUND,
               "'gone'");
  cr_hdf5_reader_close(reader);
  unlink(path);
}

/* A new file has its name only when it is finished, and never replaces another. */
TEST(new_files) {
  const char *path = path_of("new.h5");
  cr_hdf5_writer *writer = NULL;
  const float value = 3;
  const crema_shape one = shape_of(1, 1, 0, 0);
  ok(cr_hdf5_writer_open_new(path, &writer));
  ok(cr_hdf5_writer_reserve(writer, sizeof value));
  ok(cr_hdf5_writer_append(writer, "x", &one, CREMA_F32, &value));
  assert_int_not_equal(access(path, F_OK), 0);
  assert_int_equal(cr_hdf5_writer_finish(writer, CREMA_E_CORRUPT), CREMA_E_CORRUPT);
  assert_int_not_equal(access(path, F_OK), 0);
  ok(cr_hdf5_writer_open_new(path, &writer));
  cr_hdf5_writer_close(writer);
  assert_int_not_equal(access(path, F_OK), 0);
  ok(cr_hdf5_writer_open_new(path, &writer));
  ok(cr_hdf5_writer_append(writer, "x", &one, CREMA_F32, &value));
  ok(cr_hdf5_writer_finish(writer, CREMA_OK));
  assert_set(path, "x", &one, &value);
  assert_fails(cr_hdf5_writer_open_new(path, &writer), CREMA_E_EXISTS, path);
  assert_null(writer);
  assert_fails(cr_hdf5_writer_open(path_of("no/such/folder.h5"), &writer), CREMA_E_IO,
               "cannot make the HDF5 file: No such file or directory");
  assert_null(writer);
  cr_hdf5_writer_close(NULL);
  unlink(path);
}

/* Reservations add up until the values have reached the file; a margin of 1 MiB is on top. */
TEST(reservations) {
  enum { MARGIN = 1 << 20, BYTES = 1000 };
  const char *path = path_of("reserved.h5");
  struct rlimit before, limit;
  struct stat info;
  cr_hdf5_writer *writer = NULL;
  ok(cr_hdf5_writer_open(path, &writer));
  ok(cr_hdf5_writer_flush(writer));
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = before;
  signal(SIGXFSZ, SIG_IGN);
  limit.rlim_cur = (rlim_t)info.st_size + MARGIN + 2 * BYTES;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  ok(cr_hdf5_writer_reserve(writer, BYTES));
  ok(cr_hdf5_writer_reserve(writer, BYTES));
  assert_fails(cr_hdf5_writer_reserve(writer, 1), CREMA_E_IO,
               "reserved.h5: cannot write: File too");
  /* What failed is not counted, and what was flushed is counted no longer. */
  ok(cr_hdf5_writer_reserve(writer, 0));
  ok(cr_hdf5_writer_flush(writer));
  ok(cr_hdf5_writer_reserve(writer, 2 * BYTES));
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  /* The space is there, where the file system can reserve some; the size is not changed. */
  const off_t size = info.st_size;
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_size, size);
  const int fd = open(path, O_WRONLY);
  if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1) == 0) assert_true(info.st_blocks * 512 >= MARGIN);
  close(fd);
  unlink(path);
  assert_fails(cr_hdf5_writer_reserve(writer, 1), CREMA_E_IO, "reserved.h5: cannot write: No such");
  cr_hdf5_writer_close(writer);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
