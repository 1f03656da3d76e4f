/* Messages from and to files: round trips, and files of another kind than expected. */
#include "proto_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/file.h"
#include "crema/log.h"

enum { PATH_SIZE = 300 };

static char folder[PATH_SIZE / 2];

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/crema_test_proto_XXXXXX");
  return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
  (void)state;
  char command[PATH_SIZE];
  static const char *const names[] = {"a", "b", "net.prototxt", "solver.prototxt"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    snprintf(command, sizeof command, "%s/%s", folder, names[i]);
    unlink(command);
  }
  /* Fails, and with it the group, when a temporary file was left behind. */
  return rmdir(folder);
}

static const char *path_of(const char *name) {
  static char path[PATH_SIZE];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void put(const char *name, const void *bytes, size_t size) {
  assert_int_equal(cr_file_write(path_of(name), bytes, size), CREMA_OK);
}

static void round_trips(void **state) {
  (void)state;
  static const char text[] = "name: \"n\"\nlayer {\n  blobs {\n    data: 1\n  }\n}\n";
  ProtobufCMessage *message = must_parse(NET, text);
  ProtobufCMessage *other = NULL;
  assert_int_equal(cr_message_write_binary(message, path_of("a")), CREMA_OK);
  assert_int_equal(cr_message_write_text(message, path_of("b")), CREMA_OK);
  cr_message_free(message);
  assert_int_equal(cr_message_read_binary(NET, path_of("a"), &other), CREMA_OK);
  must_print(other, text);
  cr_message_free(other);
  assert_int_equal(cr_message_read_text(NET, path_of("b"), CR_UNKNOWN_ERROR, &other), CREMA_OK);
  must_print(other, text);
  cr_message_free(other);
}

static void nets_are_upgraded(void **state) {
  (void)state;
  static const char text[] = "layers { name: 'r' type: RELU }";
  static const char expected[] = "layer {\n  name: \"r\"\n  type: \"ReLU\"\n}\n";
  Caffe__NetParameter *net = NULL;
  put("net.prototxt", text, strlen(text));
  assert_int_equal(cr_net_param_read_text(path_of("net.prototxt"), CR_UNKNOWN_ERROR, &net),
                   CREMA_OK);
  must_print(&net->base, expected);
  cr_message_free(&net->base);
  ProtobufCMessage *old = must_parse(NET, text);
  assert_int_equal(cr_message_write_binary(old, path_of("a")), CREMA_OK);
  cr_message_free(old);
  assert_int_equal(cr_net_param_read_binary(path_of("a"), &net), CREMA_OK);
  must_print(&net->base, expected);
  cr_message_free(&net->base);
}

static void unknown_fields_by_choice(void **state) {
  (void)state;
  static const char text[] = "name: 'n' nmae: 'm'";
  Caffe__NetParameter *net = NULL;
  put("net.prototxt", text, strlen(text));
  assert_int_equal(cr_net_param_read_text(path_of("net.prototxt"), CR_UNKNOWN_ERROR, &net),
                   CREMA_E_PARSE);
  assert_null(net);
  assert_non_null(strstr(crema_error_text(), "net.prototxt:1:11: unknown field \"nmae\""));
  assert_int_equal(cr_net_param_read_text(path_of("net.prototxt"), CR_UNKNOWN_WARN, &net),
                   CREMA_OK);
  must_print(&net->base, "name: \"n\"\n");
  cr_message_free(&net->base);
}

static void refused(const void *bytes, size_t size, crema_status code, const char *why) {
  Caffe__NetParameter *net = NULL;
  put("a", bytes, size);
  assert_int_equal(cr_net_param_read_binary(path_of("a"), &net), code);
  assert_null(net);
  assert_memory_equal(crema_error_text(), folder, strlen(folder));
  assert_string_equal(crema_error_text() + strlen(path_of("a")), why);
}

static void foreign_files_are_refused(void **state) {
  (void)state;
  refused("", 0, CREMA_E_CORRUPT, ": the file is empty; expected a NetParameter");
  refused("name: 'n'", 9, CREMA_E_CORRUPT,
          ": byte 0: neither a field nor the end in NetParameter (it looks like text, not like a "
          "binary NetParameter)");
  refused("\x89HDF\r\n\x1a\n\0\0\0\0", 12, CREMA_E_CORRUPT,
          ": byte 10: neither a field nor the end in NetParameter (it looks like HDF5, not like a "
          "binary NetParameter)");
  refused("\xF8\x07\x01", 3, CREMA_E_CORRUPT, ": holds no field of a NetParameter");
  refused("\x12\x04\x28\x05\x12\x00\xA2\x06\x00", 9, CREMA_E_PARSE,
          ": the net has both \"layer\" and \"layers\"; use \"layer\" for all of them");
}

static void missing_files_are_named(void **state) {
  (void)state;
  Caffe__NetParameter *net = NULL;
  assert_int_equal(cr_net_param_read_text(path_of("none"), CR_UNKNOWN_ERROR, &net),
                   CREMA_E_NOT_FOUND);
  assert_non_null(strstr(crema_error_text(), path_of("none")));
  assert_int_equal(cr_net_param_read_binary(path_of("none"), &net), CREMA_E_NOT_FOUND);
  assert_non_null(strstr(crema_error_text(), path_of("none")));
  ProtobufCMessage *message = must_parse(NET, "name: 'n'");
  assert_int_equal(cr_message_write_binary(message, path_of("none/net")), CREMA_E_IO);
  assert_non_null(strstr(crema_error_text(), path_of("none/net")));
  cr_message_free(message);
}

/* A file that may not grow cannot be written: the old one must stay. */
static void failed_writes_lose_nothing(void **state) {
  (void)state;
  ProtobufCMessage *message = must_parse(NET, "name: 'n'");
  struct rlimit before, none;
  assert_int_equal(cr_message_write_binary(message, path_of("a")), CREMA_OK);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  none = (struct rlimit){0, before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
  crema_status status = cr_message_write_binary(message, path_of("a"));
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(status, CREMA_E_IO);
  assert_non_null(strstr(crema_error_text(), path_of("a")));
  cr_message_free(message);
  assert_int_equal(cr_message_read_binary(NET, path_of("a"), &message), CREMA_OK);
  must_print(message, "name: \"n\"\n");
  cr_message_free(message);
}

/* A pipe that is always ready, at the path of `name`. */
static int open_fifo(const char *name) {
  assert_int_equal(mkfifo(path_of(name), 0600), 0);
  int fd = open(path_of(name), O_RDWR | O_NONBLOCK);
  assert_true(fd >= 0);
  return fd;
}

static void special_files_are_written_in_place(void **state) {
  (void)state;
  struct stat info;
  char bytes[64];
  ProtobufCMessage *message = must_parse(NET, "name: 'n'");
  unlink(path_of("b"));
  int fd = open_fifo("b");
  assert_int_equal(cr_message_write_binary(message, path_of("b")), CREMA_OK);
  assert_int_equal(lstat(path_of("b"), &info), 0);
  assert_true(S_ISFIFO(info.st_mode));
  assert_int_equal(read(fd, bytes, sizeof bytes), 3);
  assert_memory_equal(bytes, "\x0A\x01n", 3);
  close(fd);
  unlink(path_of("b"));
  assert_int_equal(cr_message_write_binary(message, folder), CREMA_E_IO);
  assert_non_null(strstr(crema_error_text(), "Is a directory"));
  cr_message_free(message);
}

static void links_stay_links(void **state) {
  (void)state;
  struct stat info;
  ProtobufCMessage *message = must_parse(NET, "name: 'n'");
  put("a", "old", 3);
  assert_int_equal(symlink("a", path_of("b")), 0);
  assert_int_equal(cr_message_write_binary(message, path_of("b")), CREMA_OK);
  cr_message_free(message);
  assert_int_equal(lstat(path_of("b"), &info), 0);
  assert_true(S_ISLNK(info.st_mode));
  assert_int_equal(cr_message_read_binary(NET, path_of("a"), &message), CREMA_OK);
  must_print(message, "name: \"n\"\n");
  cr_message_free(message);
  unlink(path_of("b"));
}

/* A file that only its owner may read is no less private with another content. */
static void permissions_stay(void **state) {
  (void)state;
  struct stat info;
  mode_t mask = umask(022);
  put("a", "new", 3);
  assert_int_equal(stat(path_of("a"), &info), 0);
  assert_int_equal(info.st_mode & 07777, 0644);
  assert_int_equal(chmod(path_of("a"), 0600), 0);
  put("a", "other", 5);
  assert_int_equal(stat(path_of("a"), &info), 0);
  assert_int_equal(info.st_mode & 07777, 0600);
  assert_int_equal(info.st_size, 5);
  /* More than the mask would give a new file. */
  assert_int_equal(chmod(path_of("a"), 0666), 0);
  put("a", "more", 4);
  assert_int_equal(stat(path_of("a"), &info), 0);
  assert_int_equal(info.st_mode & 07777, 0666);
  unlink(path_of("a"));
  umask(mask);
}

/* Opening a pipe twice would lose what its writer put into it. */
static void pipes_are_read_once(void **state) {
  (void)state;
  Caffe__NetParameter *net = NULL;
  unlink(path_of("b"));
  assert_int_equal(mkfifo(path_of("b"), 0600), 0);
  pid_t child = fork();
  if (child == 0) {
    int fd = open(path_of("b"), O_WRONLY); /* until the reader comes */
    usleep(20000);
    _exit(write(fd, "\x0A\x01n", 3) == 3 ? 0 : 1);
  }
  assert_int_equal(cr_net_param_read_binary(path_of("b"), &net), CREMA_OK);
  must_print(&net->base, "name: \"n\"\n");
  cr_message_free(&net->base);
  int how = 0;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  unlink(path_of("b"));
}

static void count_warnings(void *user, crema_log_level level, const char *file, int line,
                           const char *message) {
  int *count = user;
  (void)file, (void)line;
  if (level == CREMA_LOG_WARNING && strstr(message, "cannot read more than 2 GiB") != NULL)
    ++*count;
}

/* Messages that protobuf's own library refuses. All layers are the same 64 MiB, which nobody reads
 * on the way to /dev/null. */
static void more_than_2_gib_are_warned_of(void **state) {
  (void)state;
  enum { MOST = 32, VALUES = 1 << 24 };
  Caffe__NetParameter net = CAFFE__NET_PARAMETER__INIT;
  Caffe__LayerParameter layer = CAFFE__LAYER_PARAMETER__INIT;
  Caffe__BlobProto blob = CAFFE__BLOB_PROTO__INIT, *blobs[1] = {&blob};
  Caffe__LayerParameter *layers[MOST];
  int warnings = 0;
  for (int i = 0; i < MOST; ++i) layers[i] = &layer;
  blob.data = calloc(VALUES, sizeof *blob.data);
  assert_non_null(blob.data);
  blob.n_data = VALUES;
  layer.blobs = blobs;
  layer.n_blobs = 1;
  net.layer = layers;
  net.n_layer = MOST - 1;
  crema_log_set(count_warnings, &warnings, CREMA_LOG_WARNING);
  assert_int_equal(cr_message_write_binary(&net.base, "/dev/null"), CREMA_OK);
  assert_int_equal(warnings, 0);
  net.n_layer = MOST;
  assert_int_equal(cr_message_write_binary(&net.base, "/dev/null"), CREMA_OK);
  assert_int_equal(warnings, 1);
  crema_log_set(NULL, NULL, CREMA_LOG_WARNING);
  free(blob.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trips),
      cmocka_unit_test(nets_are_upgraded),
      cmocka_unit_test(unknown_fields_by_choice),
      cmocka_unit_test(foreign_files_are_refused),
      cmocka_unit_test(missing_files_are_named),
      cmocka_unit_test(failed_writes_lose_nothing),
      cmocka_unit_test(special_files_are_written_in_place),
      cmocka_unit_test(links_stay_links),
      cmocka_unit_test(permissions_stay),
      cmocka_unit_test(pipes_are_read_once),
      cmocka_unit_test(more_than_2_gib_are_warned_of),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
