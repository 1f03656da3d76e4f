#define _GNU_SOURCE /* secure_getenv */
#include "core/hdf5_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/child.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/hdf5_content.h"
#include "core/hdf5_file.h"
#include "core/log.h"
#include "core/system.h"

struct cr_hdf5_reader {
  char *path;
  cr_child_limits limits;
  bool has_child, started, dead;
  cr_child child;
  hid_t file; /* open if this process reads the file itself; else -1 */
};

/* What parent and child send each other: a request with a path, and one or more answers, each with
 * the text of its error or with bytes. */
typedef enum operation { LOOK, LIST, READ } operation;

typedef struct request {
  operation operation;
  cr_hdf5_type type;
  uint64_t bytes;
  size_t path_size;
} request;

typedef struct answer {
  crema_status status;
  uint64_t bytes;
} answer;

enum { MOST_TEXT = 2048, PATIENCE = 300 };

static bool send_answer(int fd, crema_status status, const void *bytes, size_t size) {
  answer head = {.status = status, .bytes = size};
  if (status != CREMA_OK) {
    bytes = crema_error_text();
    head.bytes = strlen(bytes);
  }
  return cr_child_send_to(fd, &head, sizeof head) && cr_child_send_to(fd, bytes, head.bytes);
}

static crema_status take_to_parent(void *user, const void *bytes, size_t size) {
  const int *fd = user;
  if (send_answer(*fd, CREMA_OK, bytes, size)) return CREMA_OK;
  return cr_fail(CREMA_E_CLOSED, "the parent process has closed the connection");
}

static bool serve(int fd, hid_t file, const request *asked, const char *path) {
  cr_hdf5_info info;
  cr_buffer names = {0};
  crema_status status = CREMA_OK;
  bool good = true;
  switch (asked->operation) {
    case LOOK:
      status = cr_hdf5_content_look(file, path, &info);
      return send_answer(fd, status, &info, sizeof info);
    case LIST:
      status = cr_hdf5_content_list(file, path, &names);
      good = send_answer(fd, status, names.data, names.size);
      cr_buffer_free(&names);
      return good;
    default:
      status = cr_hdf5_content_read(file, path, asked->type, asked->bytes, take_to_parent, &fd);
      return status == CREMA_OK || send_answer(fd, status, NULL, 0);
  }
}

static void serve_all(int fd, void *user) {
  const cr_hdf5_reader *reader = user;
  hid_t file;
  request asked;
  crema_status status = cr_hdf5_content_open(reader->path, true, &file);
  bool good = send_answer(fd, status, NULL, 0) && status == CREMA_OK;
  while (good && cr_child_receive_from(fd, &asked, sizeof asked)) {
    char *path = malloc(asked.path_size + 1);
    if (path == NULL) {
      char byte;
      status = cr_fail_memory(asked.path_size + 1, "a path");
      /* Reads the rest of the request: closing a socket with unread data discards the answer. */
      good = send_answer(fd, status, NULL, 0);
      while (good && cr_child_receive_from(fd, &byte, 1)) continue;
      return;
    }
    path[asked.path_size] = '\0';
    good = cr_child_receive_from(fd, path, asked.path_size) && serve(fd, file, &asked, path);
    free(path);
  }
}

/* The child has ended, or its answer makes no sense. */
static crema_status fail_dead(cr_hdf5_reader *reader) {
  int how = reader->has_child ? cr_child_end(&reader->child) : 0;
  reader->has_child = false;
  reader->dead = true;
  if (how == SIGKILL) {
    return cr_fail(CREMA_E_IO, "the process that read it was killed, or waited too long");
  }
  if (how == SIGXCPU) {
    return cr_fail(CREMA_E_CORRUPT,
                   "damaged: the HDF5 library did not finish reading it within %u s",
                   reader->limits.seconds);
  }
  if (how == 0) return cr_fail(CREMA_E_CORRUPT, "damaged: the HDF5 library fails on it");
  return cr_fail(CREMA_E_CORRUPT, "damaged: the HDF5 library crashes on it (signal %d)", how);
}

static crema_status ask(cr_hdf5_reader *reader, operation what, const char *path, cr_hdf5_type type,
                        uint64_t bytes) {
  request asked;
  if (reader->dead) return fail_dead(reader);
  /* The struct's padding is also sent. */
  memset(&asked, 0, sizeof asked);
  asked.operation = what;
  asked.type = type;
  asked.bytes = bytes;
  asked.path_size = strlen(path);
  if (cr_child_send(&reader->child, &asked, sizeof asked) &&
      cr_child_send(&reader->child, path, asked.path_size)) {
    return CREMA_OK;
  }
  return fail_dead(reader);
}

/* Receives the head of an answer; *bytes, at most `most`, are still to be received. */
static crema_status receive_head(cr_hdf5_reader *reader, uint64_t most, uint64_t *bytes) {
  char text[MOST_TEXT];
  answer head;
  if (!cr_child_receive(&reader->child, &head, sizeof head)) return fail_dead(reader);
  if (head.status != CREMA_OK) {
    if (head.bytes >= sizeof text || strcmp(crema_status_name(head.status), "?") == 0 ||
        !cr_child_receive(&reader->child, text, head.bytes)) {
      return fail_dead(reader);
    }
    text[head.bytes] = '\0';
    return cr_fail_text(head.status, text);
  }
  *bytes = head.bytes;
  return head.bytes <= most ? CREMA_OK : fail_dead(reader);
}

static crema_status receive_all(cr_hdf5_reader *reader, char *out, uint64_t bytes) {
  for (uint64_t done = 0, got = 0; done < bytes; done += got) {
    CR_TRY(receive_head(reader, bytes - done, &got));
    if (got == 0 || !cr_child_receive(&reader->child, out + done, got)) return fail_dead(reader);
  }
  return CREMA_OK;
}

crema_status cr_hdf5_look(cr_hdf5_reader *reader, const char *path, cr_hdf5_info *out) {
  if (reader->file >= 0) {
    cr_hdf5_hush before = cr_hdf5_hush_begin();
    crema_status status = cr_hdf5_content_look(reader->file, path, out);
    cr_hdf5_hush_end(before);
    return status;
  }
  CR_TRY(ask(reader, LOOK, path, CR_HDF5_F32, 0));
  CR_TRY(receive_all(reader, (char *)out, sizeof *out));
  bool sane = (unsigned)out->kind <= CR_HDF5_OTHER && (unsigned)out->class <= CR_HDF5_STRING &&
              out->shape.axes <= CREMA_MAX_AXES;
  return sane ? CREMA_OK : fail_dead(reader);
}

crema_status cr_hdf5_list(cr_hdf5_reader *reader, const char *path, cr_buffer *out) {
  uint64_t bytes = 0;
  if (reader->file >= 0) {
    cr_hdf5_hush before = cr_hdf5_hush_begin();
    crema_status status = cr_hdf5_content_list(reader->file, path, out);
    cr_hdf5_hush_end(before);
    return status;
  }
  CR_TRY(ask(reader, LIST, path, CR_HDF5_F32, 0));
  CR_TRY(receive_head(reader, 2 * CR_HDF5_MOST_NAMES, &bytes));
  CR_TRY(cr_buffer_reserve(out, out->size + bytes));
  char *to = out->data + out->size;
  if (!cr_child_receive(&reader->child, to, bytes)) return fail_dead(reader);
  if (bytes > 0 && to[bytes - 1] != '\0') return fail_dead(reader);
  out->size += bytes;
  return CREMA_OK;
}

static crema_status take_here(void *user, const void *bytes, size_t size) {
  char **to = user;
  memcpy(*to, bytes, size);
  *to += size;
  return CREMA_OK;
}

crema_status cr_hdf5_read(cr_hdf5_reader *reader, const char *path, cr_hdf5_type type, void *out,
                          uint64_t bytes) {
  if (bytes == 0) return CREMA_OK;
  if (reader->file >= 0) {
    char *to = out;
    cr_hdf5_hush before = cr_hdf5_hush_begin();
    crema_status status = cr_hdf5_content_read(reader->file, path, type, bytes, take_here, &to);
    cr_hdf5_hush_end(before);
    return status;
  }
  CR_TRY(ask(reader, READ, path, type, bytes));
  return receive_all(reader, out, bytes);
}

/* Called by HDF5 while it holds its own lock: no other thread is inside the library, so it still
 * works in the child. */
static herr_t start_child(hid_t object, const char *name, void *user) {
  cr_hdf5_reader *reader = user;
  (void)object, (void)name;
  reader->started = true;
  reader->has_child = cr_child_start(&reader->child, serve_all, reader, reader->limits);
  return 1;
}

static crema_status open_in_child(cr_hdf5_reader *reader) {
  uint64_t none = 0;
  cr_hdf5_hush before = cr_hdf5_hush_begin();
  cr_h5()->Piterate(cr_h5()->P_FILE_ACCESS, NULL, start_child, reader);
  int error = reader->started ? errno : 0;
  cr_hdf5_hush_end(before);
  if (reader->has_child) {
    crema_status status = receive_head(reader, 0, &none);
    return reader->dead ? cr_fail_in(status, "%s", reader->path) : status;
  }
  cr_log_warning("%s: read without the protection of a child process, which cannot be made%s%s",
                 reader->path, error == 0 ? "" : ": ", error == 0 ? "" : strerror(error));
  return CREMA_OK;
}

static crema_status check_file(const char *path, struct stat *info) {
  if (stat(path, info) != 0) {
    if (errno == ENOENT) return cr_fail(CREMA_E_NOT_FOUND, "%s: no such file or directory", path);
    return cr_fail_errno(errno, "%s: cannot open", path);
  }
  if (S_ISREG(info->st_mode)) return CREMA_OK;
  return cr_fail(CREMA_E_IO, "%s: a %s; HDF5 needs a regular file", path,
                 S_ISDIR(info->st_mode) ? "folder" : "pipe or device");
}

crema_status cr_hdf5_reader_open(const char *path, cr_hdf5_reader **out) {
  /* Enough CPU time for any undamaged file on any processor, also with sanitizers. */
  enum { LEAST = 10, FOR_EACH_MIB = 8, MOST_MIB = 1 << 24 };
  const char *fork = secure_getenv("CREMA_HDF5_FORK");
  struct stat info;
  crema_status status = CREMA_OK;
  *out = NULL;
  CR_TRY(cr_fail_in(cr_hdf5_load(), "%s", path));
  CR_TRY(check_file(path, &info));
  cr_hdf5_reader *reader = calloc(1, sizeof *reader);
  if (reader == NULL) return cr_fail_memory(sizeof *reader, "an HDF5 file");
  reader->file = -1;
  const uint64_t mib = (uint64_t)info.st_size >> 20;
  reader->limits = (cr_child_limits){
      .seconds = LEAST + FOR_EACH_MIB * (unsigned)(mib > MOST_MIB ? MOST_MIB : mib),
      .patience = PATIENCE};
  reader->path = strdup(path);
  if (reader->path == NULL) {
    status = cr_fail_memory(strlen(path) + 1, "a path");
    goto fail;
  }
  if (fork == NULL || strcmp(fork, "0") != 0) CR_TRY_GOTO(open_in_child(reader), fail);
  if (!reader->has_child) {
    cr_hdf5_hush before = cr_hdf5_hush_begin();
    status = cr_hdf5_content_open(reader->path, false, &reader->file);
    cr_hdf5_hush_end(before);
    if (status != CREMA_OK) goto fail;
  }
  *out = reader;
  return CREMA_OK;
fail:
  cr_hdf5_reader_close(reader);
  return status;
}

void cr_hdf5_reader_close(cr_hdf5_reader *reader) {
  if (reader == NULL) return;
  if (reader->has_child) (void)cr_child_end(&reader->child);
  if (reader->file >= 0) {
    cr_hdf5_hush before = cr_hdf5_hush_begin();
    cr_h5()->Fclose(reader->file);
    cr_hdf5_hush_end(before);
  }
  free(reader->path);
  free(reader);
}

crema_status cr_hdf5_shape(const cr_hdf5_info *set, crema_shape *out) {
  *out = set->shape;
  if (out->axes < 0) return cr_fail(CREMA_E_CORRUPT, "its extents cannot be read");
  return crema_shape_check(out);
}

crema_status cr_hdf5_check_claim(const cr_hdf5_info *set) {
  enum { MOST_PACKED = 1100 /* gzip cannot do more */, LITTLE = 64 << 20 };
  uint64_t limit = 0;
  if (set->shape.axes < 0) return cr_fail(CREMA_E_CORRUPT, "its extents cannot be read");
  uint64_t count = set->unit > set->count ? set->unit : set->count;
  /* In memory they may be wider than in the file. */
  uint64_t claimed = cr_hdf5_product(count, set->size > sizeof(float) ? set->size : sizeof(float));
  uint64_t possible = cr_hdf5_product(set->stored, MOST_PACKED);
  if (possible < LITTLE) possible = LITTLE;
  CR_TRY(cr_file_limit(possible < CR_FILE_MODEL ? possible : CR_FILE_MODEL, &limit));
  if (claimed <= limit) return CREMA_OK;
  return cr_fail(CREMA_E_RANGE,
                 "claims to hold %" PRIu64 " bytes; the file stores %" PRIu64 "; at most %" PRIu64
                 " are read of it (the environment's CREMA_MAX_FILE sets another limit)",
                 claimed, set->stored, limit);
}
