/* Finds the model file of a solver state, which records the file's size and checksum. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <zlib.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/io.h"
#include "core/log.h"
#include "solver/solver.h"

static crema_status add_up(int fd, const char *path, cr_model_sum *sum) {
  enum { CHUNK = 1 << 18 };
  crema_status status = CREMA_OK;
  unsigned char *chunk = malloc(CHUNK);
  uLong crc = crc32(0, NULL, 0);
  if (chunk == NULL) return cr_fail_memory(CHUNK, "a checksum");
  for (;;) {
    ssize_t got = cr_io_read(fd, chunk, CHUNK);
    if (got < 0) status = cr_fail_errno(errno, "%s: cannot read", path);
    if (got <= 0) break;
    crc = crc32(crc, chunk, (uInt)got);
    sum->size += (uint64_t)got;
  }
  sum->crc32 = (uint32_t)crc;
  free(chunk);
  return status;
}

crema_status cr_model_sum_read(const char *path, cr_model_sum *out) {
  *out = (cr_model_sum){0};
  int fd = cr_io_open(path, O_RDONLY | O_NONBLOCK, 0);
  if (fd < 0) return cr_fail_errno(errno, "%s: cannot open", path);
  crema_status status = add_up(fd, path, out);
  cr_io_close(fd);
  return status;
}

enum { CANDIDATES = 3 };

/* Possible paths of a state's model, in search order. Paths may be equal. */
typedef struct model_paths {
  char *path[CANDIDATES];
} model_paths;

static void free_paths(model_paths *paths) {
  for (int i = 0; i < CANDIDATES; ++i) free(paths->path[i]);
}

static crema_status join(const char *folder_of, const char *name, char **out) {
  const char *slash = strrchr(folder_of, '/');
  int folder = slash == NULL || name[0] == '/' ? 0 : (int)(slash + 1 - folder_of);
  cr_buffer text = {0};
  crema_status status = cr_buffer_print(&text, "%.*s%s", folder, folder_of, name);
  *out = cr_buffer_take(&text);
  return status;
}

/* First in the state's folder, so that a copied pair stays together; then at the recorded path,
 * from the working directory and from the state's folder. */
static crema_status list_paths(const char *state_path, const char *name, model_paths *out) {
  const char *slash = strrchr(name, '/');
  *out = (model_paths){{NULL}};
  crema_status status = join(state_path, slash == NULL ? name : slash + 1, &out->path[0]);
  if (status == CREMA_OK) status = join("", name, &out->path[1]);
  if (status == CREMA_OK) status = join(state_path, name, &out->path[2]);
  if (status != CREMA_OK) free_paths(out);
  return status;
}

static bool was_tried(const model_paths *paths, int index) {
  for (int i = 0; i < index; ++i) {
    if (strcmp(paths->path[i], paths->path[index]) == 0) return true;
  }
  return false;
}

/* Whether `wanted` describes the file; if not, `why` gets a description of the file. */
static crema_status compare(const char *path, const cr_model_sum *wanted, bool *same,
                            cr_buffer *why) {
  struct stat info;
  cr_model_sum found;
  const char *comma = why->size > 0 ? ", " : "";
  *same = false;
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
    return cr_buffer_print(why, "%s%s, which is not a file", comma, path);
  }
  if ((uint64_t)info.st_size != wanted->size) {
    return cr_buffer_print(why, "%s%s of %lld bytes", comma, path, (long long)info.st_size);
  }
  crema_status status = cr_model_sum_read(path, &found);
  if (status == CREMA_E_NO_MEMORY) return status;
  if (status != CREMA_OK) return cr_buffer_print(why, "%s%s", comma, crema_error_text());
  *same = found.size == wanted->size && found.crc32 == wanted->crc32;
  if (*same) return CREMA_OK;
  return cr_buffer_print(why, "%s%s of %llu bytes with CRC-32 %08x", comma, path,
                         (unsigned long long)found.size, (unsigned)found.crc32);
}

/* The index of the first file that exists and, unless `wanted` is NULL, matches. */
static crema_status choose(const model_paths *paths, const cr_model_sum *wanted, int *out) {
  cr_buffer why = {0};
  crema_status status = CREMA_OK;
  for (int i = 0; i < CANDIDATES; ++i) {
    bool same = true;
    if (was_tried(paths, i) || !cr_file_exists(paths->path[i])) continue;
    if (wanted != NULL) CR_TRY_GOTO(compare(paths->path[i], wanted, &same, &why), out);
    if (!same) continue;
    *out = i;
    goto out;
  }
  if (why.size == 0) {
    status =
        cr_fail(CREMA_E_NOT_FOUND, "its model is not there: no such file as %s%s%s", paths->path[0],
                was_tried(paths, 1) ? "" : " or ", was_tried(paths, 1) ? "" : paths->path[1]);
  } else {
    status =
        cr_fail(CREMA_E_CORRUPT,
                "its model is not there; expected a file of %llu bytes with CRC-32 %08x, found "
                "%s",
                (unsigned long long)wanted->size, (unsigned)wanted->crc32, why.data);
  }
out:
  cr_buffer_free(&why);
  return status;
}

crema_status cr_model_find(const char *state_path, const Caffe__SolverState *state, char **out) {
  const Caffe__CremaState *extra = state->crema_state;
  cr_model_sum wanted = {0};
  model_paths paths;
  int chosen = 0;
  *out = NULL;
  if (state->learned_net == NULL || state->learned_net[0] == '\0') {
    cr_log_warning("%s names no model; the weights stay as they are", state_path);
    return CREMA_OK;
  }
  bool known = extra != NULL && extra->has_model_size && extra->has_model_crc32;
  if (known) wanted = (cr_model_sum){extra->model_size, extra->model_crc32};
  CR_TRY(list_paths(state_path, state->learned_net, &paths));
  crema_status status = choose(&paths, known ? &wanted : NULL, &chosen);
  if (status == CREMA_OK) {
    *out = paths.path[chosen];
    paths.path[chosen] = NULL;
    cr_log_info("Restoring the model from %s", *out);
    if (!known) {
      cr_log_warning(
          "%s does not record which model is its own; %s is taken, even if another run wrote it",
          state_path, *out);
    }
  }
  free_paths(&paths);
  return status;
}
