/* What is in HDF5 files, as a child process finds it and as this one does. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hdf5.h>

#include "check.h"
#include "core/hdf5_content.h"
#include "core/hdf5_reader.h"
#include "folder.h"

static char path[PATH_SIZE];

/* ---- the file ---- */

enum {
  LONG_ROWS = 400001, /* of three floats: in one piece of 4 MiB there is no room */
  COLUMN = 1100000,   /* of one float */
  WIDE = 1500000      /* a row of two that is larger than a piece */
};

static void put(hid_t where, const char *name, hid_t type, hid_t space, hid_t how,
                hid_t memory_type, const void *values) {
  hid_t set = H5Dcreate2(where, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
  assert_true(set >= 0);
  if (values != NULL) {
    assert_true(H5Dwrite(set, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
  }
  H5Dclose(set);
}

static void put_numbers(hid_t file, const char *name, hsize_t rows, hsize_t columns,
                        hsize_t chunk) {
  const hsize_t extent[2] = {rows, columns}, piece[2] = {chunk, columns};
  hid_t space = H5Screate_simple(2, extent, NULL), how = H5Pcreate(H5P_DATASET_CREATE);
  float *value = malloc(rows * columns * sizeof *value);
  assert_non_null(value);
  for (hsize_t i = 0; i < rows * columns; ++i) value[i] = (float)i;
  if (chunk > 0) assert_true(H5Pset_chunk(how, 2, piece) >= 0);
  put(file, name, H5T_IEEE_F32LE, space, how, H5T_NATIVE_FLOAT, value);
  free(value);
  H5Pclose(how);
  H5Sclose(space);
}

static int make_file(void **state) {
  (void)state;
  const hsize_t three = 3, chunks[2] = {4, 5}, extent[2] = {6, 7};
  const double doubles[3] = {1.5, -2.5, 1e9};
  const int number = -7;
  if (make_folder(state) != 0) return 1;
  snprintf(path, sizeof path, "%s", path_of("file.h5"));
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t group = H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  hid_t inner = H5Gcreate2(group, "inner", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  hid_t scalar = H5Screate(H5S_SCALAR), none = H5Screate(H5S_NULL);
  hid_t line = H5Screate_simple(1, &three, NULL), table = H5Screate_simple(2, extent, NULL);
  hid_t how = H5Pcreate(H5P_DATASET_CREATE), text = H5Tcopy(H5T_C_S1), any = H5Tcopy(H5T_C_S1);
  H5Pset_chunk(how, 2, chunks);
  H5Tset_size(text, 6);
  H5Tset_size(any, H5T_VARIABLE);
  put(file, "number", H5T_STD_I32LE, scalar, H5P_DEFAULT, H5T_NATIVE_INT, &number);
  put(inner, "doubles", H5T_IEEE_F64LE, line, H5P_DEFAULT, H5T_NATIVE_DOUBLE, doubles);
  put(group, "bytes", H5T_STD_U8LE, table, how, H5T_NATIVE_UINT8, NULL);
  put(file, "text", text, scalar, H5P_DEFAULT, text, "five!\0");
  put(file, "any", any, scalar, H5P_DEFAULT, any, NULL);
  put(file, "time", H5T_UNIX_D32LE, scalar, H5P_DEFAULT, H5T_UNIX_D32LE, NULL);
  put(file, "none", H5T_IEEE_F32LE, none, H5P_DEFAULT, H5T_NATIVE_FLOAT, NULL);
  put_numbers(file, "long", LONG_ROWS, 3, 0);
  put_numbers(file, "chunked", LONG_ROWS, 3, 1000);
  put_numbers(file, "chunk", LONG_ROWS, 3, LONG_ROWS);
  put_numbers(file, "column", COLUMN, 1, 1024);
  put_numbers(file, "wide", 2, WIDE, 0);
  H5Lcreate_soft("nowhere", file, "broken", H5P_DEFAULT, H5P_DEFAULT);
  H5Tcommit2(file, "type", text, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t types[] = {text, any};
  for (int i = 0; i < 2; ++i) H5Tclose(types[i]);
  const hid_t spaces[] = {scalar, none, line, table};
  for (int i = 0; i < 4; ++i) H5Sclose(spaces[i]);
  H5Pclose(how);
  H5Gclose(inner);
  H5Gclose(group);
  return H5Fclose(file) < 0;
}

static int remove_file(void **state) {
  (void)state;
  unlink(path);
  return remove_folder(state);
}

/* Calls `check` with a reader that has a child, and with one that reads here, which leaves nothing
 * open. */
static void both_ways(void (*check)(cr_hdf5_reader *file)) {
  for (int here = 0; here < 2; ++here) {
    cr_hdf5_reader *file = NULL;
    hid_t before = H5Screate(H5S_NULL), before_type = H5Tcopy(H5T_NATIVE_INT);
    hid_t before_list = H5Pcreate(H5P_FILE_ACCESS);
    setenv("CREMA_HDF5_FORK", here ? "0" : "1", 1);
    ok(cr_hdf5_reader_open(path, &file));
    check(file);
    cr_hdf5_reader_close(file);
    assert_int_equal(
        H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_FILE | H5F_OBJ_DATASET | H5F_OBJ_GROUP), 0);
    hid_t after = H5Screate(H5S_NULL), after_type = H5Tcopy(H5T_NATIVE_INT);
    hid_t after_list = H5Pcreate(H5P_FILE_ACCESS);
    for (hid_t id = before + 1; id < after; ++id) assert_true(H5Iis_valid(id) <= 0);
    for (hid_t id = before_type + 1; id < after_type; ++id) assert_true(H5Iis_valid(id) <= 0);
    for (hid_t id = before_list + 1; id < after_list; ++id) assert_true(H5Iis_valid(id) <= 0);
    const hid_t spaces[] = {before, after}, types[] = {before_type, after_type};
    const hid_t lists[] = {before_list, after_list};
    for (int i = 0; i < 2; ++i) {
      H5Sclose(spaces[i]);
      H5Tclose(types[i]);
      H5Pclose(lists[i]);
    }
    unsetenv("CREMA_HDF5_FORK");
  }
}

/* ---- looking ---- */

static void check_looks(cr_hdf5_reader *file) {
  static const struct {
    const char *path;
    cr_hdf5_kind kind;
    cr_hdf5_class class;
    int axes;
    int64_t dim[2];
    uint64_t count, size, unit, stored;
  } rows[] = {
      {"", CR_HDF5_NOTHING, 0, 0, {0}, 0, 0, 0, 0},
      {"absent", CR_HDF5_NOTHING, 0, 0, {0}, 0, 0, 0, 0},
      {"absent/number", CR_HDF5_NOTHING, 0, 0, {0}, 0, 0, 0, 0},
      {"group/absent", CR_HDF5_NOTHING, 0, 0, {0}, 0, 0, 0, 0},
      {"group/inner/absent", CR_HDF5_NOTHING, 0, 0, {0}, 0, 0, 0, 0},
      {"broken", CR_HDF5_OTHER, 0, 0, {0}, 0, 0, 0, 0},
      {"type", CR_HDF5_OTHER, 0, 0, {0}, 0, 0, 0, 0},
      {"number", CR_HDF5_SET, CR_HDF5_INTEGER, 0, {0}, 1, 4, 0, 4},
      {"group/inner/doubles", CR_HDF5_SET, CR_HDF5_FLOAT, 1, {3}, 3, 8, 0, 24},
      {"group/bytes", CR_HDF5_SET, CR_HDF5_INTEGER, 2, {6, 7}, 42, 1, 20, 0},
      {"text", CR_HDF5_SET, CR_HDF5_STRING, 0, {0}, 1, 6, 0, 6},
      {"any", CR_HDF5_SET, CR_HDF5_NO_NUMBER, 0, {0}, 1, sizeof(char *), 0, 0},
      {"time", CR_HDF5_SET, CR_HDF5_NO_NUMBER, 0, {0}, 1, 4, 0, 0},
      {"none", CR_HDF5_SET, CR_HDF5_FLOAT, 0, {0}, 0, 4, 0, 0},
      {"chunked",
       CR_HDF5_SET,
       CR_HDF5_FLOAT,
       2,
       {LONG_ROWS, 3},
       3 * LONG_ROWS,
       4,
       3000,
       401 * 12000},
  };
  cr_hdf5_info info;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    memset(&info, 0x5a, sizeof info);
    ok(cr_hdf5_look(file, rows[i].path, &info));
    bool good = info.kind == rows[i].kind && info.class == rows[i].class &&
                info.shape.axes == rows[i].axes && info.count == rows[i].count &&
                info.size == rows[i].size && info.unit == rows[i].unit &&
                info.stored == rows[i].stored;
    for (int a = 0; a < rows[i].axes; ++a) good = good && info.shape.dim[a] == rows[i].dim[a];
    if (!good) {
      fail_msg("%s: kind %d class %d axes %d count %d size %d unit %d stored %d", rows[i].path,
               (int)info.kind, (int)info.class, info.shape.axes, (int)info.count, (int)info.size,
               (int)info.unit, (int)info.stored);
    }
  }
  ok(cr_hdf5_look(file, "group", &info));
  assert_int_equal(info.kind, CR_HDF5_GROUP);
  assert_int_equal(info.links, 2);
  ok(cr_hdf5_look(file, "group/inner", &info));
  assert_int_equal(info.kind, CR_HDF5_GROUP);
  assert_int_equal(info.links, 1);
}

TEST(things_are_looked_at) {
  both_ways(check_looks);
}

static void check_lists(cr_hdf5_reader *file) {
  static const char root[] =
      "dany\0dchunk\0dchunked\0dcolumn\0ggroup\0dlong\0dnone\0dnumber\0dtext\0dtime\0dtype\0"
      "dwide";
  static const char group[] = "dbytes\0ginner";
  cr_buffer names = {0};
  ok(cr_hdf5_list(file, "/", &names));
  assert_int_equal(names.size, sizeof root);
  assert_memory_equal(names.data, root, sizeof root);
  /* Behind what was there. */
  ok(cr_hdf5_list(file, "group", &names));
  assert_int_equal(names.size, sizeof root + sizeof group);
  assert_memory_equal(names.data + sizeof root, group, sizeof group);
  ok(cr_hdf5_list(file, "absent", &names));
  assert_int_equal(names.size, sizeof root + sizeof group);
  cr_buffer_free(&names);
}

TEST(groups_are_listed) {
  both_ways(check_lists);
}

/* ---- reading ---- */

static void check_reads(cr_hdf5_reader *file) {
  static float values[3 * LONG_ROWS > 2 * WIDE ? 3 * LONG_ROWS : 2 * WIDE];
  static const struct {
    const char *path;
    size_t count;
  } sets[] = {{"long", 3 * LONG_ROWS}, {"chunked", 3 * LONG_ROWS}, {"wide", 2 * WIDE}};
  int32_t number = 0;
  char text[8] = "xxxxxxx";
  uint8_t bytes[42];
  ok(cr_hdf5_read(file, "number", CR_HDF5_I32, &number, 4));
  assert_int_equal(number, -7);
  ok(cr_hdf5_read(file, "group/inner/doubles", CR_HDF5_F32, values, 12));
  assert_true(values[0] == 1.5f && values[1] == -2.5f && values[2] == 1e9f);
  ok(cr_hdf5_read(file, "text", CR_HDF5_TEXT, text, 6));
  assert_string_equal(text, "five!");
  assert_int_equal(text[6], 'x');
  memset(bytes, 1, sizeof bytes);
  ok(cr_hdf5_read(file, "group/bytes", CR_HDF5_U8, bytes, 42));
  for (int i = 0; i < 42; ++i) assert_int_equal(bytes[i], 0);
  for (size_t s = 0; s < sizeof sets / sizeof *sets; ++s) {
    memset(values, 0, sizeof values);
    ok(cr_hdf5_read(file, sets[s].path, CR_HDF5_F32, values, 4 * sets[s].count));
    for (size_t i = 0; i < sets[s].count; ++i) {
      if (values[i] != (float)i) fail_msg("%s: value %zu", sets[s].path, i);
    }
  }
  ok(cr_hdf5_read(file, "none", CR_HDF5_F32, values, 0));
}

TEST(values_are_read) {
  both_ways(check_reads);
}

/* ---- pieces ---- */

typedef struct pieces {
  size_t size[4], count;
} pieces;

static crema_status note_piece(void *user, const void *bytes, size_t size) {
  pieces *all = user;
  (void)bytes;
  assert_true(all->count < 4);
  all->size[all->count++] = size;
  return CREMA_OK;
}

/* Values come in pieces of 4 MiB, or as many as it takes so that no chunk is unpacked twice: whole
 * rows and whole chunks, and one row where that is larger. */
TEST(values_come_in_pieces) {
  static const struct {
    const char *path;
    cr_hdf5_type type;
    size_t count, size[4];
  } rows[] = {
      {"number", CR_HDF5_F32, 1, {4}},
      {"long", CR_HDF5_F32, 3 * LONG_ROWS, {349525 * 12, (LONG_ROWS - 349525) * 12}},
      {"long", CR_HDF5_U8, 3 * LONG_ROWS, {3 * LONG_ROWS}},
      {"chunked", CR_HDF5_F32, 3 * LONG_ROWS, {350000 * 12, (LONG_ROWS - 350000) * 12}},
      {"chunked",
       CR_HDF5_F64,
       3 * LONG_ROWS,
       {175000 * 24, 175000 * 24, (LONG_ROWS - 350000) * 24}},
      {"chunk", CR_HDF5_F32, 3 * LONG_ROWS, {LONG_ROWS * 12}},
      {"column", CR_HDF5_F32, COLUMN, {4 << 20, 4 * COLUMN - (4 << 20)}},
      {"wide", CR_HDF5_F32, 2 * WIDE, {4 * WIDE, 4 * WIDE}},
  };
  hid_t file;
  ok(cr_hdf5_load());
  ok(cr_hdf5_content_open(path, false, &file));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const size_t size = rows[i].type == CR_HDF5_F64 ? 8 : rows[i].type == CR_HDF5_U8 ? 1 : 4;
    pieces all = {.count = 0};
    ok(cr_hdf5_content_read(file, rows[i].path, rows[i].type, size * rows[i].count, note_piece,
                            &all));
    for (int k = 0; k < 4; ++k) {
      if (all.size[k] != rows[i].size[k]) {
        fail_msg("%s, piece %d: %zu bytes", rows[i].path, k, all.size[k]);
      }
    }
  }
  assert_true(H5Fclose(file) >= 0);
}

static void check_refusals(cr_hdf5_reader *file) {
  float values[4];
  assert_int_equal(cr_hdf5_read(file, "number", CR_HDF5_I32, values, 8), CREMA_E_CORRUPT);
  assert_string_equal(crema_error_text(), "its extents cannot be read");
  assert_int_equal(cr_hdf5_read(file, "group", CR_HDF5_I32, values, 4), CREMA_E_CORRUPT);
  assert_string_equal(crema_error_text(), "not a data set");
  assert_fails(cr_hdf5_read(file, "text", CR_HDF5_F32, values, 4), CREMA_E_CORRUPT,
               "its values cannot be read");
  /* It goes on after each. */
  ok(cr_hdf5_read(file, "number", CR_HDF5_F32, values, 4));
  assert_true(values[0] == -7);
}

TEST(what_cannot_be_read_is_refused) {
  both_ways(check_refusals);
}

/* ---- opening ---- */

TEST(what_is_no_file_is_named) {
  static const struct {
    const char *name, *says;
    crema_status status;
  } rows[] = {{"none", "none: no such file or directory", CREMA_E_NOT_FOUND},
              {".", "a folder; HDF5 needs a regular file", CREMA_E_IO},
              {"pipe", "pipe: a pipe or device; HDF5 needs a regular file", CREMA_E_IO},
              {"text", "text: not an HDF5 file, or truncated or corrupt", CREMA_E_CORRUPT},
              {"pointer", "pointer: the file looks like a Git LFS pointer", CREMA_E_CORRUPT},
              {"text/below", "text/below: cannot open: Not a directory", CREMA_E_IO}};
  write_text("text", "text");
  write_text("pointer", "version https://git-lfs.github.com/spec/v1\n");
  assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
  for (int here = 0; here < 2; ++here) {
    setenv("CREMA_HDF5_FORK", here ? "0" : "1", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
      cr_hdf5_reader *file = (cr_hdf5_reader *)&file;
      assert_int_equal(cr_hdf5_reader_open(path_of(rows[i].name), &file), rows[i].status);
      assert_error_has(rows[i].says);
      assert_null(file);
    }
  }
  unsetenv("CREMA_HDF5_FORK");
  unlink(path_of("text"));
  unlink(path_of("pointer"));
  unlink(path_of("pipe"));
  cr_hdf5_reader_close(NULL);
}

/* The only child of this process; 0: there is none, or the system does not tell. */
static pid_t find_child(void) {
  char name[64];
  long child = 0;
  snprintf(name, sizeof name, "/proc/self/task/%ld/children", (long)getpid());
  FILE *file = fopen(name, "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%ld", &child) != 1) child = 0;
  fclose(file);
  return (pid_t)child;
}

/* A child that is killed does not mean a damaged file; after that the reader does nothing more, and
 * writes to no other process. */
TEST(killed_children_are_told_of) {
  cr_hdf5_reader *file = NULL;
  cr_hdf5_info info;
  ok(cr_hdf5_reader_open(path, &file));
  pid_t child = find_child();
  /* Only Linux built with /proc/<pid>/task/<tid>/children tells which process reads the file. */
  if (child == 0) {
    cr_hdf5_reader_close(file);
    skip();
  }
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(cr_hdf5_look(file, "number", &info), CREMA_E_IO);
  assert_string_equal(crema_error_text(),
                      "the process that read it was killed, or waited too long");
  /* Sockets that take the number of the one that was closed. */
  int ends[2];
  char byte;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  assert_int_equal(cr_hdf5_look(file, "number", &info), CREMA_E_CORRUPT);
  assert_string_equal(crema_error_text(), "damaged: the HDF5 library fails on it");
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(recv(ends[i], &byte, 1, MSG_DONTWAIT), -1);
  }
  for (int i = 0; i < 2; ++i) close(ends[i]);
  cr_hdf5_reader_close(file);
}

TEST(shapes_are_checked) {
  cr_hdf5_info set = {.kind = CR_HDF5_SET, .shape = {.axes = 2, .dim = {3, 4}}};
  crema_shape shape;
  ok(cr_hdf5_shape(&set, &shape));
  assert_true(crema_shape_equal(&shape, &set.shape));
  set.shape.dim[0] = INT64_MAX;
  assert_int_equal(cr_hdf5_shape(&set, &shape), CREMA_E_SHAPE);
  set.shape.axes = -1;
  assert_int_equal(cr_hdf5_shape(&set, &shape), CREMA_E_CORRUPT);
  assert_string_equal(crema_error_text(), "its extents cannot be read");
  assert_int_equal(cr_hdf5_check_claim(&set), CREMA_E_CORRUPT);
}

int main(void) {
  return run_all_tests(make_file, remove_file);
}
