/* Nets in wire format whose larger blobs stay in the file.
 *
 * Weights are most of a file, and blobs need them in their own memory, aligned and usually in
 * another memory format. The parser therefore accesses the file as a range of addresses and reads
 * only the pages with names, shapes and small blobs. The other values are read at their first use,
 * into the memory of the blob.
 *
 * The file is read, not mapped: truncating a mapped file would end the process. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/fail.h"
#include "core/io.h"
#include "core/system.h"
#include "proto/upgrade.h"
#include "proto/wire_format.h"

enum { PAGE = 1 << 12 }; /* of the file, which is read completely */

struct cr_piece_file {
  atomic_int references;
  int fd;
  struct stat info; /* when it was opened */
  char *path;
};

cr_piece_file *cr_piece_file_retain(cr_piece_file *file) {
  atomic_fetch_add(&file->references, 1);
  return file;
}

void cr_piece_file_release(cr_piece_file *file) {
  if (file == NULL || atomic_fetch_sub(&file->references, 1) != 1) return;
  if (file->fd >= 0) cr_io_close(file->fd);
  free(file->path);
  free(file);
}

static crema_status open_file(const char *path, cr_piece_file **out) {
  cr_piece_file *file = NULL;
  CR_TRY(CR_NEW(file, 1, "an open file"));
  atomic_init(&file->references, 1);
  file->fd = -1;
  crema_status status = CREMA_OK;
  file->path = strdup(path);
  if (file->path == NULL) {
    status = cr_fail_memory(strlen(path) + 1, "a path");
    goto fail;
  }
  file->fd = cr_io_open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
  if (file->fd < 0 || fstat(file->fd, &file->info) != 0) {
    status = cr_fail_errno(errno, "%s: cannot open", path);
    goto fail;
  }
  *out = file;
  return CREMA_OK;
fail:
  cr_piece_file_release(file);
  return status;
}

crema_status cr_piece_file_read(const cr_piece_file *file, uint64_t at, void *out, size_t size) {
  struct stat now;
  ssize_t got = cr_io_read_at(file->fd, out, size, (off_t)at);
  if (got < 0 || fstat(file->fd, &now) != 0) {
    return cr_fail_errno(errno, "%s: cannot read", file->path);
  }
  const struct stat *old = &file->info;
  if ((size_t)got == size && old->st_size == now.st_size &&
      old->st_mtim.tv_sec == now.st_mtim.tv_sec && old->st_mtim.tv_nsec == now.st_mtim.tv_nsec) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_CORRUPT,
                 "%s: the file was changed before all of its values were read (a new file should "
                 "take the name of the old one instead)",
                 file->path);
}

typedef struct pages {
  cr_piece_file *file;
  uint8_t *bytes; /* addresses for all of the file */
  size_t size;
  uint8_t *loaded; /* a bit per page */
} pages;

static crema_status load_pages(void *user, size_t from, size_t to) {
  const pages *p = user;
  for (size_t page = from / PAGE; page * PAGE < to; ++page) {
    if ((p->loaded[page / 8] >> page % 8 & 1) != 0) continue;
    size_t at = page * PAGE, size = p->size - at < PAGE ? p->size - at : PAGE;
    CR_TRY(cr_piece_file_read(p->file, at, p->bytes + at, size));
    p->loaded[page / 8] |= (uint8_t)(1U << page % 8);
  }
  return CREMA_OK;
}

/* Only pages that are loaded use memory. */
static crema_status make_pages(cr_piece_file *file, pages *out) {
  size_t size = (size_t)file->info.st_size;
  *out = (pages){.file = file, .size = size};
  CR_TRY(CR_NEW(out->loaded, size / PAGE / 8 + 1, "pages of a file"));
  void *bytes =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bytes == MAP_FAILED) return cr_fail_memory(size, file->path);
  out->bytes = bytes;
  return CREMA_OK;
}

static bool is_left(const cr_stored_net *net, const void *values) {
  uintptr_t at = (uintptr_t)values, start = (uintptr_t)net->bytes;
  return net->size > 0 && at >= start && at < start + net->size;
}

bool cr_stored_net_is_in_file(const cr_stored_net *net, const void *values, uint64_t *at) {
  if (net->file == NULL || !is_left(net, values)) return false;
  *at = (uint64_t)((const uint8_t *)values - net->bytes);
  return true;
}

/* Whether a BatchNorm or BN layer has such values, which are small in any sensible file. */
static bool has_large_norm(const cr_stored_net *net) {
  for (size_t i = 0; i < net->param->n_layer; ++i) {
    const Caffe__LayerParameter *layer = net->param->layer[i];
    bool norm = layer->type != NULL &&
                (strcmp(layer->type, "BatchNorm") == 0 || strcmp(layer->type, "BN") == 0);
    for (size_t b = 0; norm && b < layer->n_blobs; ++b) {
      const Caffe__BlobProto *blob = layer->blobs[b];
      if (is_left(net, blob->data) || is_left(net, blob->diff) || is_left(net, blob->double_data) ||
          is_left(net, blob->double_diff) || is_left(net, blob->raw_data.data) ||
          is_left(net, blob->raw_diff.data)) {
        return true;
      }
    }
  }
  return false;
}

static void free_param(cr_stored_net *net) {
  const cr_wire_input input = {.bytes = net->bytes, .size = net->size, .run = net->size};
  cr_wire_free(&input, net->param == NULL ? NULL : &net->param->base);
  net->param = NULL;
}

/* Parses and upgrades the net. *done is false, and there is no net, when an upgrade may copy or
 * free values, so that they cannot stay in the file. After a failure there is no net either. */
static crema_status parse(const cr_wire_input *input, const char *source, cr_stored_net *out,
                          bool *done) {
  ProtobufCMessage *message = NULL;
  CR_TRY(cr_message_parse(&caffe__net_parameter__descriptor, source, input, &message));
  *out = (cr_stored_net){
      .param = (Caffe__NetParameter *)message, .bytes = input->bytes, .size = input->size};
  *done = !cr_upgrade_v0_needed(out->param) && !has_large_norm(out);
  crema_status status = *done ? cr_weights_param_upgrade(out->param, source) : CREMA_OK;
  if (status != CREMA_OK || !*done) free_param(out);
  return status;
}

void cr_stored_net_close(cr_stored_net *net) {
  free_param(net);
  if (net->file != NULL) (void)munmap((void *)(uintptr_t)net->bytes, net->size);
  cr_piece_file_release(net->file);
  *net = (cr_stored_net){0};
}

/* *For a file that must be read completely, `done` is false and nothing is open. */
static crema_status open_pages(cr_piece_file *file, size_t run, cr_stored_net *out, bool *done) {
  pages p = {0};
  *done = false;
  crema_status status = CREMA_OK;
  uint64_t limit = CR_FILE_MODEL, size = (uint64_t)file->info.st_size;
  CR_TRY(cr_file_limit(CR_FILE_MODEL, &limit));
  if (size > limit) return cr_file_fail_size(file->path, size, false, limit);
  if (make_pages(file, &p) != CREMA_OK) goto out;
  const cr_wire_input input = {
      .bytes = p.bytes, .size = p.size, .load = load_pages, .user = &p, .run = run};
  CR_TRY_GOTO(parse(&input, file->path, out, done), out);
  if (!*done) goto out;
  out->file = cr_piece_file_retain(file);
  p.bytes = NULL;
out:
  if (p.bytes != NULL) (void)munmap(p.bytes, p.size);
  free(p.loaded);
  return status;
}

static bool is_large_file(const struct stat *info, size_t run) {
  return S_ISREG(info->st_mode) && (uint64_t)info->st_size > run;
}

/* A pipe must not even be opened: what its writer sends to a reader that closes it is lost. */
crema_status cr_stored_net_open(const char *path, size_t run, cr_stored_net *out) {
  cr_piece_file *file = NULL;
  bool done = false;
  struct stat info;
  crema_status status = CREMA_OK;
  *out = (cr_stored_net){0};
  if (stat(path, &info) == 0 && is_large_file(&info, run) && open_file(path, &file) == CREMA_OK &&
      is_large_file(&file->info, run)) {
    status = open_pages(file, run, out, &done);
  }
  cr_piece_file_release(file);
  if (status != CREMA_OK || done) return status;
  return cr_net_param_read_binary(path, &out->param);
}

crema_status cr_stored_net_of(const void *bytes, size_t size, size_t run, const char *source,
                              cr_stored_net *out) {
  cr_wire_input input = {.bytes = bytes, .size = size, .run = run};
  bool done = false;
  *out = (cr_stored_net){0};
  CR_TRY(parse(&input, source, out, &done));
  if (done) return CREMA_OK;
  ProtobufCMessage *message = NULL;
  input.run = 0;
  CR_TRY(cr_message_parse(&caffe__net_parameter__descriptor, source, &input, &message));
  out->param = (Caffe__NetParameter *)message;
  crema_status status = cr_weights_param_upgrade(out->param, source);
  if (status != CREMA_OK) free_param(out);
  return status;
}
