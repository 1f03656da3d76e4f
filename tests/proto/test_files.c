/* Messages from and to files: round trips, and files of another kind than expected. */
#include "folder.h"
#include "log_lines.h"
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

static int remove_files(void **state) {
  static const char *const names[] = {"a", "b", "net.prototxt", "solver.prototxt"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) unlink(path_of(names[i]));
  return remove_folder(state);
}

static void put(const char *name, const void *bytes, size_t size) {
  ok(cr_file_write(path_of(name), bytes, size));
}

TEST(round_trips) {
  static const char text[] = "name: \"n\"\nlayer {\n  blobs {\n    data: 1\n  }\n}\n";
  ProtobufCMessage *message = must_parse(NET, text);
  ProtobufCMessage *other = NULL;
  ok(cr_message_write_binary(message, path_of("a")));
  ok(cr_message_write_text(message, path_of("b")));
  cr_message_free(message);
  ok(cr_message_read_binary(NET, path_of("a"), &other));
  must_print(other, text);
  cr_message_free(other);
  ok(cr_message_read_text(NET, path_of("b"), CR_UNKNOWN_ERROR, &other));
  must_print(other, text);
  cr_message_free(other);
}

TEST(nets_are_upgraded) {
  static const char text[] = "layers { name: 'r' type: RELU }";
  static const char expected[] = "layer {\n  name: \"r\"\n  type: \"ReLU\"\n}\n";
  Caffe__NetParameter *net = NULL;
  put("net.prototxt", text, strlen(text));
  ok(cr_net_param_read_text(path_of("net.prototxt"), CR_UNKNOWN_ERROR, &net));
  must_print(&net->base, expected);
  cr_message_free(&net->base);
  ProtobufCMessage *old = must_parse(NET, text);
  ok(cr_message_write_binary(old, path_of("a")));
  cr_message_free(old);
  ok(cr_net_param_read_binary(path_of("a"), &net));
  must_print(&net->base, expected);
  cr_message_free(&net->base);
}

/* The inputs of weights have no use, so they stay without a note, even without their shapes. */
TEST(inputs_of_weights_stay) {
  static const char text[] = "input: \"data\"\nlayer {\n  name: \"r\"\n  type: \"ReLU\"\n}\n";
  static log_lines lines;
  Caffe__NetParameter *net = NULL;
  ProtobufCMessage *old = must_parse(NET, text);
  ok(cr_message_write_binary(old, path_of("a")));
  cr_message_free(old);
  listen_to(&lines, CREMA_LOG_DEBUG);
  ok(cr_net_param_read_binary(path_of("a"), &net));
  stop_listening();
  assert_int_equal(lines.count, 0);
  must_print(&net->base, text);
  cr_message_free(&net->base);
}

TEST(unknown_fields_by_choice) {
  static const char text[] = "name: 'n' nmae: 'm'";
  Caffe__NetParameter *net = NULL;
  put("net.prototxt", text, strlen(text));
  assert_int_equal(cr_net_param_read_text(path_of("net.prototxt"), CR_UNKNOWN_ERROR, &net),
                   CREMA_E_PARSE);
  assert_null(net);
  assert_error_has("net.prototxt:1:11: unknown field \"nmae\"");
  ok(cr_net_param_read_text(path_of("net.prototxt"), CR_UNKNOWN_WARN, &net));
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

TEST(foreign_files_are_refused) {
  refused("", 0, CREMA_E_CORRUPT, ": the file is empty; expected weights (.caffemodel)");
  refused("name: 'n'", 9, CREMA_E_CORRUPT,
          ": the file looks like text; expected weights (.caffemodel)");
  refused("\x89HDF\r\n\x1a\n\0\0\0\0", 12, CREMA_E_CORRUPT,
          ": the file looks like HDF5; expected weights (.caffemodel)");
  refused("\x08\x05\x18\x01", 4, CREMA_E_CORRUPT,
          ": the file looks like a solver state (.solverstate); expected weights (.caffemodel)");
  refused("\x08\x05\x12\x0es_5.caffemodel\x1a\x04\x2a\x02\x18\x00", 24, CREMA_E_CORRUPT,
          ": the file looks like a solver state (.solverstate); expected weights (.caffemodel)");
  refused("\x08\x01\x10\x03\x18\x01\x20\x01", 8, CREMA_E_CORRUPT,
          ": the file looks like a blob (.binaryproto); expected weights (.caffemodel)");
  refused("\xF8\x07\x01", 3, CREMA_E_CORRUPT, ": holds no field of a NetParameter");
  refused("\x12\x04\x28\x05\x12\x00\xA2\x06\x00", 9, CREMA_E_PARSE,
          ": the net has both \"layer\" and \"layers\"; use \"layer\" for all of them");
}

static void not_text(const void *bytes, size_t size, const char *why) {
  ProtobufCMessage *message = NULL;
  put("net.prototxt", bytes, size);
  assert_int_equal(cr_message_read_text(NET, path_of("net.prototxt"), CR_UNKNOWN_ERROR, &message),
                   CREMA_E_PARSE);
  assert_string_equal(crema_error_text() + strlen(path_of("net.prototxt")), why);
}

#define LFS "version https://git-lfs.github.com/spec/v1\noid sha256:0f1e2d\nsize 1234567\n"

/* Files of other programs, as weights and as text. */
TEST(foreign_files_are_named) {
  static const struct {
    const char *bytes;
    size_t size;
    const char *kind;
  } files[] = {
      {LFS, sizeof LFS - 1, "a Git LFS pointer"},
      {"\n <!DOCTYPE html><title>404</title>", 35, "an HTML page"},
      {"<HTML><body>", 12, "an HTML page"},
      {"PK\3\4\0\0\10\10\0\0archive/data.pkl", 26, "a PyTorch file"},
      {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15, "a PyTorch file"},
      {"\x80\x04\x95", 3, "a Python pickle"},
      {"PK\3\4\0\0fc1.npy", 13, "a NumPy archive"},
      {"PK\3\4\0\0\0\0metadata.json", 21, "a Keras model"},
      {"\x08\x07\x12\x07pytorch\x1a\x05"
       "1.9.0:",
       19, "an ONNX model"},
      {"\x08\x03\x3a\x02\x12\x00", 6, "an ONNX model"},
      {"\x1f\x8b\x08\x00", 4, "a gzip archive"},
      {"\x1c\0\0\0TFL3", 8, "a TensorFlow Lite model"},
  };
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
    Caffe__NetParameter *net = NULL;
    ProtobufCMessage *message = NULL;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "the file looks like %s", files[i].kind);
    put("a", files[i].bytes, files[i].size);
    assert_int_equal(cr_net_param_read_binary(path_of("a"), &net), CREMA_E_CORRUPT);
    assert_error_has(wanted);
    assert_error_has("expected weights (.caffemodel)");
    assert_int_equal(cr_message_read_text(NET, path_of("a"), CR_UNKNOWN_ERROR, &message),
                     CREMA_E_PARSE);
    assert_error_has(wanted);
    assert_error_has("expected a text file (.prototxt)");
  }
}

TEST(binary_files_are_no_text) {
  not_text("\x0A\x01n", 3,
           ": the file is binary and looks like weights (.caffemodel); expected a text file "
           "(.prototxt)");
  not_text("\x01\x01n", 3, ": the file is binary; expected a text file (.prototxt)");
  not_text("\xFF\xFEn\0", 4, ": the file is UTF-16; save it as UTF-8");
  not_text("\xFE\xFF\0n", 4, ": the file is UTF-16; save it as UTF-8");
}

TEST(missing_files_are_named) {
  Caffe__NetParameter *net = NULL;
  assert_fails(cr_net_param_read_text(path_of("none"), CR_UNKNOWN_ERROR, &net), CREMA_E_NOT_FOUND,
               path_of("none"));
  assert_fails(cr_net_param_read_binary(path_of("none"), &net), CREMA_E_NOT_FOUND, path_of("none"));
  ProtobufCMessage *message = must_parse(NET, "name: 'n'");
  assert_fails(cr_message_write_binary(message, path_of("none/net")), CREMA_E_IO,
               path_of("none/net"));
  cr_message_free(message);
}

/* A file that may not grow cannot be written: the old one must stay. */
TEST(failed_writes_lose_nothing) {
  ProtobufCMessage *message = must_parse(NET, "name: 'n'");
  struct rlimit before, none;
  ok(cr_message_write_binary(message, path_of("a")));
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  none = (struct rlimit){0, before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
  crema_status status = cr_message_write_binary(message, path_of("a"));
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(status, CREMA_E_IO);
  assert_error_has(path_of("a"));
  cr_message_free(message);
  ok(cr_message_read_binary(NET, path_of("a"), &message));
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

TEST(special_files_are_written_in_place) {
  struct stat info;
  char bytes[64];
  ProtobufCMessage *message = must_parse(NET, "name: 'n'");
  unlink(path_of("b"));
  int fd = open_fifo("b");
  ok(cr_message_write_binary(message, path_of("b")));
  assert_int_equal(lstat(path_of("b"), &info), 0);
  assert_true(S_ISFIFO(info.st_mode));
  assert_int_equal(read(fd, bytes, sizeof bytes), 3);
  assert_memory_equal(bytes, "\x0A\x01n", 3);
  close(fd);
  unlink(path_of("b"));
  assert_fails(cr_message_write_binary(message, folder), CREMA_E_IO, "Is a directory");
  cr_message_free(message);
}

TEST(links_stay_links) {
  struct stat info;
  ProtobufCMessage *message = must_parse(NET, "name: 'n'");
  put("a", "old", 3);
  assert_int_equal(symlink("a", path_of("b")), 0);
  ok(cr_message_write_binary(message, path_of("b")));
  cr_message_free(message);
  assert_int_equal(lstat(path_of("b"), &info), 0);
  assert_true(S_ISLNK(info.st_mode));
  ok(cr_message_read_binary(NET, path_of("a"), &message));
  must_print(message, "name: \"n\"\n");
  cr_message_free(message);
  unlink(path_of("b"));
}

/* A file that only its owner may read is no less private with another content. */
TEST(permissions_stay) {
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
TEST(pipes_are_read_once) {
  Caffe__NetParameter *net = NULL;
  unlink(path_of("b"));
  assert_int_equal(mkfifo(path_of("b"), 0600), 0);
  pid_t child = fork();
  if (child == 0) {
    int fd = open(path_of("b"), O_WRONLY); /* until the reader comes */
    usleep(20000);
    _exit(write(fd, "\x0A\x01n", 3) == 3 ? 0 : 1);
  }
  ok(cr_net_param_read_binary(path_of("b"), &net));
  must_print(&net->base, "name: \"n\"\n");
  cr_message_free(&net->base);
  int how = 0;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  unlink(path_of("b"));
}

/* Messages that protobuf's own library refuses. All layers are the same 64 MiB and go to
 * /dev/null. */
TEST(more_than_2_gib_are_warned_of) {
  enum { MOST = 32, VALUES = 1 << 24 };
  Caffe__NetParameter net = CAFFE__NET_PARAMETER__INIT;
  Caffe__LayerParameter layer = CAFFE__LAYER_PARAMETER__INIT;
  Caffe__BlobProto blob = CAFFE__BLOB_PROTO__INIT, *blobs[1] = {&blob};
  Caffe__LayerParameter *layers[MOST];
  static const char *const words = "cannot read more than 2 GiB";
  static log_lines lines;
  for (int i = 0; i < MOST; ++i) layers[i] = &layer;
  blob.data = calloc(VALUES, sizeof *blob.data);
  assert_non_null(blob.data);
  blob.n_data = VALUES;
  layer.blobs = blobs;
  layer.n_blobs = 1;
  net.layer = layers;
  net.n_layer = MOST - 1;
  listen_to(&lines, CREMA_LOG_WARNING);
  ok(cr_message_write_binary(&net.base, "/dev/null"));
  assert_int_equal(count_lines(&lines, words), 0);
  net.n_layer = MOST;
  ok(cr_message_write_binary(&net.base, "/dev/null"));
  assert_int_equal(count_lines(&lines, words), 1);
  stop_listening();
  free(blob.data);
}

int main(void) {
  return run_all_tests(make_folder, remove_files);
}
