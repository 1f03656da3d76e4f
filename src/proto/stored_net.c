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

/* Reads the pages that are not loaded yet, neighbours together. */
crema_status cr_paged_file_load(void *paged, size_t from, size_t to) {
  const cr_paged_file *p = paged;
  size_t page = from / PAGE;
  while (page * PAGE < to) {
    const size_t first = page;
    for (; page * PAGE < to && (p->loaded[page / 8] >> page % 8 & 1) == 0; ++page) {
      p->loaded[page / 8] |= (uint8_t)(1U << page % 8);
    }
    if (page > first) {
      const size_t at = first * PAGE, end = page * PAGE < p->size ? page * PAGE : p->size;
      CR_TRY(cr_piece_file_read(p->file, at, p->bytes + at, end - at));
    } else {
      ++page;
    }
  }
  return CREMA_OK;
}

void cr_paged_file_close(cr_paged_file *paged) {
  if (paged->bytes != NULL) (void)munmap(paged->bytes, paged->size);
  free(paged->loaded);
  cr_piece_file_release(paged->file);
  *paged = (cr_paged_file){0};
}

static bool is_large_file(const struct stat *info, size_t run) {
  return S_ISREG(info->st_mode) && (uint64_t)info->st_size > run;
}

/* Only pages that are loaded use memory. A pipe must not even be opened: what its writer sends to a
 * reader that closes it is lost. */
crema_status cr_paged_file_open(const char *path, size_t run, cr_paged_file *out) {
  struct stat info;
  uint64_t limit = CR_FILE_MODEL;
  *out = (cr_paged_file){0};
  if (stat(path, &info) != 0 || !is_large_file(&info, run)) return CREMA_OK;
  if (open_file(path, &out->file) != CREMA_OK || !is_large_file(&out->file->info, run)) {
    cr_paged_file_close(out);
    return CREMA_OK;
  }
  crema_status status = cr_file_limit(CR_FILE_MODEL, &limit);
  out->size = (size_t)out->file->info.st_size;
  if (status == CREMA_OK && out->size > limit) {
    status = cr_file_fail_size(path, out->size, false, limit);
  }
  if (status == CREMA_OK) status = CR_NEW(out->loaded, out->size / PAGE / 8 + 1, "pages of a file");
  if (status != CREMA_OK) {
    cr_paged_file_close(out);
    return status;
  }
  void *bytes = mmap(NULL, out->size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bytes != MAP_FAILED) out->bytes = bytes;
  else cr_paged_file_close(out); /* then the file must be read completely */
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

crema_status cr_stored_net_open(const char *path, size_t run, cr_stored_net *out) {
  cr_paged_file pages;
  bool done = false;
  *out = (cr_stored_net){0};
  CR_TRY(cr_paged_file_open(path, run, &pages));
  if (pages.bytes != NULL) {
    const cr_wire_input input = {.bytes = pages.bytes,
                                 .size = pages.size,
                                 .load = cr_paged_file_load,
                                 .user = &pages,
                                 .run = run};
    crema_status status = parse(&input, path, out, &done);
    if (done && status == CREMA_OK) {
      out->file = cr_piece_file_retain(pages.file);
      pages.bytes = NULL; /* now the net's */
    }
    cr_paged_file_close(&pages);
    if (status != CREMA_OK || done) return status;
  }
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
