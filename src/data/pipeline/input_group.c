#include "data/pipeline/input_group.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "data/pipeline/reader_private.h"

/* A reader that solvers share. */
typedef struct shared_reader {
  struct shared_reader *next;
  cr_reader *reader;
  int users;
  char layer[]; /* its name */
} shared_reader;

struct cr_input_group {
  atomic_int references;
  pthread_mutex_t lock; /* of the list and the claims */
  shared_reader *readers;
};

crema_status cr_input_group_create(cr_input_group **out) {
  cr_input_group *group = calloc(1, sizeof *group);
  *out = group;
  if (group == NULL) return cr_fail_memory(sizeof *group, "a group of readers");
  atomic_init(&group->references, 1);
  pthread_mutex_init(&group->lock, NULL);
  return CREMA_OK;
}

cr_input_group *cr_input_group_retain(cr_input_group *group) {
  if (group != NULL) atomic_fetch_add_explicit(&group->references, 1, memory_order_relaxed);
  return group;
}

void cr_input_group_release(cr_input_group *group) {
  if (group == NULL) return;
  /* No reader is left, as users of readers hold references. */
  if (atomic_fetch_sub_explicit(&group->references, 1, memory_order_acq_rel) > 1) return;
  pthread_mutex_destroy(&group->lock);
  free(group);
}

int cr_input_group_readers(cr_input_group *group) {
  int count = 0;
  pthread_mutex_lock(&group->lock);
  for (const shared_reader *r = group->readers; r != NULL; r = r->next) ++count;
  pthread_mutex_unlock(&group->lock);
  return count;
}

static shared_reader *find(const cr_input_group *group, const char *layer, const char *source) {
  shared_reader *r = group->readers;
  while (r != NULL &&
         (strcmp(r->layer, layer) != 0 || strcmp(cr_reader_source(r->reader), source) != 0)) {
    r = r->next;
  }
  return r;
}

static crema_status add(cr_input_group *group, const char *layer, const cr_reader_options *options,
                        shared_reader **out) {
  size_t name = strlen(layer) + 1;
  shared_reader *shared = calloc(1, sizeof *shared + name);
  if (shared == NULL) return cr_fail_memory(sizeof *shared + name, "a reader");
  memcpy(shared->layer, layer, name);
  crema_status status = cr_reader_open(options, &shared->reader);
  if (status != CREMA_OK) {
    free(shared);
    return status;
  }
  shared->next = group->readers;
  group->readers = shared;
  *out = shared;
  return CREMA_OK;
}

static crema_status claim(shared_reader *shared, const cr_reader_options *options) {
  cr_reader *reader = shared->reader;
  if (reader->consumers != options->consumers) {
    return cr_fail(CREMA_E_ARGUMENT, "%s: read for %d solvers, not %d", cr_reader_source(reader),
                   reader->consumers, options->consumers);
  }
  cr_reader_slot *slot = &reader->slot[options->rank];
  if (slot->claimed) {
    return cr_fail(CREMA_E_STATE,
                   "%s: layer '%s' of solver %d of %d reads it already; solvers that train another "
                   "net need their own group",
                   cr_reader_source(reader), shared->layer, options->rank, options->consumers);
  }
  slot->claimed = true;
  ++shared->users;
  return CREMA_OK;
}

/* Removes the reader from the list and returns it if this was its last user; else NULL. */
static shared_reader *give_up(cr_input_group *group, const cr_reader *reader, int rank) {
  shared_reader **at = &group->readers;
  while ((*at)->reader != reader) at = &(*at)->next;
  shared_reader *shared = *at;
  shared->reader->slot[rank].claimed = false;
  if (--shared->users > 0) return NULL;
  *at = shared->next;
  return shared;
}

crema_status cr_reader_join(cr_input_group *group, const char *layer,
                            const cr_reader_options *options, cr_reader **out) {
  cr_reader_options own = *options;
  *out = NULL;
  if (own.rank < 0 || own.rank >= own.consumers) {
    return cr_fail(CREMA_E_RANGE, "%s: solver %d of %d", own.source, own.rank, own.consumers);
  }
  own.alone = group == NULL;
  if (group == NULL || own.consumers == 1) return cr_reader_open(&own, out);
  crema_status status = CREMA_OK;
  pthread_mutex_lock(&group->lock);
  shared_reader *shared = find(group, layer, own.source);
  if (shared == NULL) status = add(group, layer, &own, &shared);
  if (status == CREMA_OK) status = claim(shared, &own);
  if (status == CREMA_OK) *out = shared->reader;
  pthread_mutex_unlock(&group->lock);
  return status;
}

void cr_input_group_fail(cr_input_group *group, crema_status status) {
  if (group == NULL) return;
  pthread_mutex_lock(&group->lock);
  for (const shared_reader *r = group->readers; r != NULL; r = r->next) {
    cr_reader_fail(r->reader, status, crema_error_text());
  }
  pthread_mutex_unlock(&group->lock);
}

void cr_reader_quit(cr_input_group *group, cr_reader *reader, int rank) {
  if (reader == NULL) return;
  cr_reader_leave(reader, rank);
  if (group == NULL || reader->consumers == 1) {
    cr_reader_close(reader);
    return;
  }
  pthread_mutex_lock(&group->lock);
  shared_reader *last = give_up(group, reader, rank);
  pthread_mutex_unlock(&group->lock);
  if (last == NULL) return;
  cr_reader_close(last->reader);
  free(last);
}
